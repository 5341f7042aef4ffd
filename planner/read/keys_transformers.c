/* TrainingArguments of transformers, as arguments of a script or as the YAML of LlamaFactory, TRL, axolotl-like
 * trainers. Source: transformers 5.24, src/transformers/training_args.py; LlamaFactory 0.9.4, src/llamafactory/hparams.
 */
#include "planner/read/trainers.h"

#define OPTION REDCOI_MEANS_OPTION
#define MODEL REDCOI_MEANS_MODEL
#define TRAIT REDCOI_MEANS_TRAIT
#define ENGINE REDCOI_MEANS_ENGINE
#define LIMIT REDCOI_MEANS_LIMIT
#define HARMLESS REDCOI_MEANS_HARMLESS
#define YES "true=yes false="

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"model_name_or_path", MODEL, "model", NULL},
    {"model_name", MODEL, "model", NULL},
    {"lm_model_name_or_path", MODEL, "model", NULL},
    {"model_id", MODEL, "model", NULL},
    {"per_device_train_batch_size", OPTION, "micro-batch", NULL},
    {"per_gpu_train_batch_size", OPTION, "micro-batch", NULL},
    {"gradient_accumulation_steps", OPTION, ".accumulation", NULL},
    {"gradient_checkpointing", OPTION, ".checkpointing", "true=full false=none"},
    {"disable_gradient_checkpointing", OPTION, ".checkpointing", "true=none false=full"},
    {"bf16", OPTION, ".bf16", YES},
    {"fp16", OPTION, ".fp16", YES},
    {"fp8", OPTION, ".fp8", YES},
    {"fp8_*", ENGINE, "recipe of fp8", NULL},
    {"pure_bf16", OPTION, ".pure-bf16", YES},
    {"torch_dtype", ENGINE, "the type in which weights are loaded", NULL},
    {"dtype", ENGINE, "the type in which weights are loaded", NULL},
    {"deepspeed", OPTION, ".file", NULL},
    {"deepspeed_config", OPTION, ".file", NULL},
    {"ds_config", OPTION, ".file", NULL},
    {"accelerator_config", HARMLESS, "", NULL},
    {"fsdp", OPTION, ".fsdp-words", NULL},
    {"fsdp_config", OPTION, ".file", NULL},
    {"fsdp_transformer_layer_cls_to_wrap", ENGINE, "a unit is a layer", NULL},
    {"fsdp_min_num_params", ENGINE, "a unit is a layer", NULL},
    {"model_max_length", OPTION, "seq", NULL},
    {"max_seq_length", OPTION, "seq", NULL},
    {"max_seq_len", OPTION, "seq", NULL},
    {"max_length", OPTION, "seq", NULL},
    {"block_size", OPTION, "seq", NULL},
    {"cutoff_len", OPTION, "seq", NULL},
    {"attn_implementation", TRAIT, "attention", "eager=unfused sdpa= flash_attention_2=flash2 flash_attention_3=flash3"},
    {"flash_attn", TRAIT, "attention", "auto= disabled=unfused sdpa= fa2=flash2 fa3=flash3"},
    {"torch_compile", TRAIT, "compiled", "true=1 false="},
    {"use_liger_kernel", TRAIT, "cross_entropy", "true=fused false="},
    {"enable_liger_kernel", TRAIT, "cross_entropy", "true=fused false="},
    {"use_liger", TRAIT, "cross_entropy", "true=fused false="},
    {"optim", LIMIT, "the optimizer: priced as Adam in 32 bits", "adamw_torch= adamw_torch_fused= adamw_hf= adamw_apex_fused= adamw= *=*"},
    {"tensor_model_parallel_size", OPTION, "tp", NULL},
    {"pipeline_model_parallel_size", OPTION, "pp", NULL},
    {"expert_model_parallel_size", OPTION, "ep", NULL},
    {"context_parallel_size", OPTION, "cp", NULL},
    {"virtual_pipeline_model_parallel_size", OPTION, "pp-chunks", NULL},
    {"sequence_parallel", OPTION, "sequence-parallel", "true=on false=off"},
    {"use_distributed_optimizer", OPTION, ".optimizer-shards", YES},
    {"overlap_grad_reduce", OPTION, ".overlap-ar", YES},
    {"overlap_param_gather", OPTION, ".overlap-bc", YES},
    {"recompute_granularity", OPTION, ".recompute", "full=full selective=selective none=none"},
    {"recompute_method", OPTION, ".recompute-method", NULL},
    {"recompute_num_layers", OPTION, ".recompute-layers", NULL},
    {"moe_token_dispatcher_type", TRAIT, "dispatcher", "allgather=alltoall alltoall=alltoall flex=deepep"},
    {"moe_grouped_gemm", ENGINE, "grouped products of experts", NULL},
    {"bias_activation_fusion", ENGINE, "fused kernels of the engine", NULL},
    {"apply_rope_fusion", ENGINE, "fused kernels of the engine", NULL},
    {"sequence_parallel_size", LIMIT, "Ulysses' sequence parallelism", "1= *=*"},
    {"finetuning_type", LIMIT, "adapters or frozen layers: priced as if all parameters were trained", "full= *=*"},
    {"use_peft", LIMIT, "adapters: priced as if all parameters were trained", YES},
    {"use_lora", LIMIT, "adapters: priced as if all parameters were trained", YES},
    {"lora_*", LIMIT, "adapters: priced as if all parameters were trained", NULL},
    {"freeze_*", LIMIT, "frozen layers: priced as if all parameters were trained", NULL},
    {"quantization_*", LIMIT, "quantised weights", NULL},
    {"load_in_4bit", LIMIT, "quantised weights", YES},
    {"load_in_8bit", LIMIT, "quantised weights", YES},
    {"use_galore", LIMIT, "the optimizer", YES}, {"galore_*", HARMLESS, "", NULL}, {"use_badam", LIMIT, "the optimizer", YES}, {"badam_*", HARMLESS, "", NULL}, {"use_apollo", LIMIT, "the optimizer", YES}, {"apollo_*", HARMLESS, "", NULL}, {"use_adam_mini", LIMIT, "the optimizer", YES}, {"use_muon", LIMIT, "the optimizer", YES}, {"use_unsloth*", LIMIT, "kernels of Unsloth", YES},
    {"stage", LIMIT, "more than one model, or a loss of its own", "sft= pt= *=*"},
    {"packing", HARMLESS, "", NULL}, {"neat_packing", HARMLESS, "", NULL}, {"group_by_length", HARMLESS, "", NULL}, {"train_on_inputs", HARMLESS, "", NULL},
    {"neftune_noise_alpha", HARMLESS, "", NULL}, {"label_smoothing_factor", HARMLESS, "", NULL}, {"gradient_checkpointing_kwargs*", HARMLESS, "", NULL}, {"use_reentrant_gc", HARMLESS, "", NULL}, {"use_cache", HARMLESS, "", NULL}, {"tf32", ENGINE, "products of 32 bits", NULL}, {"full_determinism", HARMLESS, "", NULL}, {"bf16_full_eval", HARMLESS, "", NULL}, {"fp16_*", HARMLESS, "", NULL}, {"half_precision_backend", HARMLESS, "", NULL},
    {"ddp_*", HARMLESS, "", NULL}, {"average_tokens_across_devices", HARMLESS, "", NULL}, {"torch_empty_cache_steps", HARMLESS, "", NULL}, {"optim_args", HARMLESS, "", NULL}, {"parallelism_config*", LIMIT, "degrees of parallelism beside data parallelism", NULL},
    {"data_split", HARMLESS, "", NULL}, {"enable_tensorboard", HARMLESS, "", NULL}, {"tensorboard_path", HARMLESS, "", NULL}, {"print_loss", HARMLESS, "", NULL},
    {"vision_model_name_or_path", LIMIT, "a second model, for images", NULL},
    {"output_dir", HARMLESS, "", NULL}, {"overwrite_*", HARMLESS, "", NULL}, {"do_*", HARMLESS, "", NULL}, {"eval*", HARMLESS, "", NULL}, {"evaluation_strategy", HARMLESS, "", NULL}, {"per_device_eval_batch_size", HARMLESS, "", NULL}, {"per_gpu_eval_batch_size", HARMLESS, "", NULL}, {"val_*", HARMLESS, "", NULL}, {"predict_*", HARMLESS, "", NULL}, {"prediction_loss_only", HARMLESS, "", NULL}, {"metric_for_best_model", HARMLESS, "", NULL}, {"greater_is_better", HARMLESS, "", NULL}, {"include_*", HARMLESS, "", NULL}, {"jit_mode_eval", HARMLESS, "", NULL},
    {"learning_rate", HARMLESS, "", NULL}, {"lr_*", HARMLESS, "", NULL}, {"warmup_*", HARMLESS, "", NULL}, {"weight_decay", HARMLESS, "", NULL}, {"adam_*", HARMLESS, "", NULL}, {"max_grad_norm", HARMLESS, "", NULL}, {"num_train_epochs", HARMLESS, "", NULL},
    {"num_warmup_steps", HARMLESS, "", NULL}, {"num_epochs", HARMLESS, "", NULL}, {"max_steps", HARMLESS, "", NULL}, {"max_train_steps", HARMLESS, "", NULL}, {"seed", HARMLESS, "", NULL}, {"data_seed", HARMLESS, "", NULL}, {"loraplus_*", HARMLESS, "", NULL}, {"pissa_*", HARMLESS, "", NULL},
    {"logging_*", HARMLESS, "", NULL}, {"log_*", HARMLESS, "", NULL}, {"report_to", HARMLESS, "", NULL}, {"run_name", HARMLESS, "", NULL}, {"plot_loss", HARMLESS, "", NULL}, {"disable_tqdm", HARMLESS, "", NULL}, {"project", HARMLESS, "", NULL}, {"trackio_*", HARMLESS, "", NULL}, {"wandb_*", HARMLESS, "", NULL}, {"skip_memory_metrics", HARMLESS, "", NULL}, {"swanlab_*", HARMLESS, "", NULL}, {"use_swanlab", HARMLESS, "", NULL},
    {"save_*", HARMLESS, "", NULL}, {"load_best_model_at_end", HARMLESS, "", NULL}, {"resume_from_checkpoint", HARMLESS, "", NULL}, {"push_to_hub", HARMLESS, "", NULL}, {"hub_*", HARMLESS, "", NULL}, {"cache_dir", HARMLESS, "", NULL}, {"ignore_data_skip", HARMLESS, "", NULL}, {"auto_find_batch_size", HARMLESS, "", NULL}, {"restore_callback_states_from_checkpoint", HARMLESS, "", NULL},
    {"dataset*", HARMLESS, "", NULL}, {"data_path", HARMLESS, "", NULL}, {"train_file", HARMLESS, "", NULL}, {"validation_file", HARMLESS, "", NULL}, {"train_data*", HARMLESS, "", NULL}, {"eval_data*", HARMLESS, "", NULL}, {"template", HARMLESS, "", NULL}, {"max_samples", HARMLESS, "", NULL}, {"preprocessing_*", HARMLESS, "", NULL}, {"dataloader_*", HARMLESS, "", NULL}, {"remove_unused_columns", HARMLESS, "", NULL}, {"tokenizer_name*", HARMLESS, "", NULL}, {"tokenized_path", HARMLESS, "", NULL}, {"trust_remote_code", HARMLESS, "", NULL}, {"streaming", HARMLESS, "", NULL}, {"mix_strategy", HARMLESS, "", NULL}, {"lazy_preprocess", HARMLESS, "", NULL}, {"media_dir", HARMLESS, "", NULL}, {"image_*", HARMLESS, "", NULL}, {"video_*", HARMLESS, "", NULL}, {"enable_thinking", HARMLESS, "", NULL}, {"local_rank", HARMLESS, "", NULL}, {"use_fast_tokenizer", HARMLESS, "", NULL}, {"model_revision", HARMLESS, "", NULL}, {"token", HARMLESS, "", NULL}, {"low_cpu_mem_usage", HARMLESS, "", NULL}, {"config_name", HARMLESS, "", NULL}, {"dataset_config_name", HARMLESS, "", NULL}, {"conversation_template", HARMLESS, "", NULL}, {"disable_group_texts", HARMLESS, "", NULL}, {"length_column_name", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};
/* clang-format on */

static const char *const defaults[] = {
    "tp",   "1",          "pp",   "1", "cp", "1", "micro-batch", "8", ".accumulation", "1", ".checkpointing",
    "none", ".precision", "fp32", NULL};

const redcoi_trainer redcoi_transformers_keys = {
    .word = "transformers", .title = "transformers' Trainer", .keys = keys, .defaults = defaults};

/* clang-format off */
static const redcoi_trainer_key launcher[] = {
    {"nproc_per_node", OPTION, ".gpus-per-node", "gpu= auto= *=*"},
    {"nnodes", OPTION, ".nodes", NULL},
    {"num_processes", OPTION, "gpus", NULL},
    {"num_machines", OPTION, ".machines", NULL},
    {"num_gpus", OPTION, ".gpus-per-node", NULL},
    {"num_nodes", OPTION, ".nodes", NULL},
    {"nodes", OPTION, ".batch-nodes", NULL},
    {"N", OPTION, ".batch-nodes", NULL},
    {"gpus-per-node", OPTION, ".batch-gpus", NULL},
    {"ntasks-per-node", OPTION, ".batch-tasks", NULL},
    {"gres", OPTION, ".batch-gres", NULL},
    {"config_file", OPTION, ".file", NULL},
    {"deepspeed_config_file", OPTION, ".file", NULL},
    {"mixed_precision", OPTION, ".mixed-precision", "no=fp32 bf16=bf16 fp16=fp16 fp8=fp8"},
    {"use_fsdp", OPTION, ".launch", "true=fsdp false="},
    {"use_deepspeed", OPTION, ".launch", "true=deepspeed false="},
    {"multi_gpu", OPTION, ".launch", "true=ddp false="},
    {"zero_stage", OPTION, ".zero", "0=ddp 1=zero1 2=zero2 3=zero3"},
    {"fsdp_sharding_strategy", OPTION, ".fsdp", "1=zero3 FULL_SHARD=zero3 2=zero2 SHARD_GRAD_OP=zero2 3=ddp NO_SHARD=ddp 4=mics HYBRID_SHARD=mics 5=hybrid-zero2 HYBRID_SHARD_ZERO2=hybrid-zero2"},
    {"fsdp_offload_params", LIMIT, "parameters on the host", YES},
    {"offload_optimizer_device", LIMIT, "states of the optimizer on the host", "none= *=*"},
    {"offload_param_device", LIMIT, "parameters on the host", "none= *=*"},
    {"fsdp_*", ENGINE, "units of FSDP as the engine has them", NULL},
    {"num_cpu_threads_per_process", HARMLESS, "", NULL}, {"node_rank", HARMLESS, "", NULL}, {"machine_rank", HARMLESS, "", NULL}, {"master_*", HARMLESS, "", NULL}, {"main_*", HARMLESS, "", NULL}, {"rdzv*", HARMLESS, "", NULL}, {"standalone", HARMLESS, "", NULL}, {"max_restarts", HARMLESS, "", NULL}, {"role", HARMLESS, "", NULL}, {"tee", HARMLESS, "", NULL}, {"redirects", HARMLESS, "", NULL}, {"local-ranks-filter", HARMLESS, "", NULL}, {"local_addr", HARMLESS, "", NULL}, {"hostfile", HARMLESS, "", NULL}, {"include", HARMLESS, "", NULL}, {"exclude", HARMLESS, "", NULL}, {"launcher", HARMLESS, "", NULL}, {"module", HARMLESS, "", NULL}, {"use_env", HARMLESS, "", NULL}, {"dynamo_backend", HARMLESS, "", NULL}, {"zero3_init_flag", HARMLESS, "", NULL}, {"no_python", HARMLESS, "", NULL}, {"same_network", HARMLESS, "", NULL}, {"force", HARMLESS, "", NULL},
    {"job-name", HARMLESS, "", NULL}, {"J", HARMLESS, "", NULL}, {"p", HARMLESS, "", NULL}, {"t", HARMLESS, "", NULL}, {"A", HARMLESS, "", NULL}, {"o", HARMLESS, "", NULL}, {"e", HARMLESS, "", NULL}, {"n", HARMLESS, "", NULL}, {"c", HARMLESS, "", NULL}, {"ntasks", HARMLESS, "", NULL}, {"time", HARMLESS, "", NULL}, {"partition", HARMLESS, "", NULL}, {"account", HARMLESS, "", NULL}, {"exclusive", HARMLESS, "", NULL}, {"mem", HARMLESS, "", NULL}, {"cpus-per-task", HARMLESS, "", NULL}, {"cpus-per-gpu", HARMLESS, "", NULL}, {"hint", HARMLESS, "", NULL}, {"output", HARMLESS, "", NULL}, {"error", HARMLESS, "", NULL}, {"open-mode", HARMLESS, "", NULL}, {"container-*", HARMLESS, "", NULL}, {"qos", HARMLESS, "", NULL}, {"constraint", HARMLESS, "", NULL}, {"dependency", HARMLESS, "", NULL}, {"reservation", HARMLESS, "", NULL}, {"nodelist", HARMLESS, "", NULL}, {"w", HARMLESS, "", NULL}, {"signal", HARMLESS, "", NULL}, {"requeue", HARMLESS, "", NULL}, {"mail-*", HARMLESS, "", NULL}, {"wait*", HARMLESS, "", NULL}, {"kill-on-bad-exit", HARMLESS, "", NULL}, {"jobid", HARMLESS, "", NULL}, {"label", HARMLESS, "", NULL}, {"l", HARMLESS, "", NULL}, {"no-container-*", HARMLESS, "", NULL}, {"mpi", HARMLESS, "", NULL}, {"cpu-bind", HARMLESS, "", NULL}, {"overlap", HARMLESS, "", NULL}, {"export", HARMLESS, "", NULL}, {"gpus-per-task", HARMLESS, "", NULL}, {"gpu-bind", HARMLESS, "", NULL}, {"chdir", HARMLESS, "", NULL}, {"comment", HARMLESS, "", NULL}, {"segment", HARMLESS, "", NULL},
    {"D", HARMLESS, "", NULL}, {"output_dir", HARMLESS, "", NULL}, {"seed", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};
/* clang-format on */

const redcoi_trainer redcoi_launcher = {.word = "launcher", .title = "the launcher", .keys = launcher};
