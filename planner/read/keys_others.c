/* Trainers with few keys of their own: GPT-NeoX (megatron/neox_arguments), llm-foundry (Composer's YAML), MaxText
 * (src/MaxText/configs/base.yml), axolotl (its YAML), each of November 2025. ms-swift has the keys of transformers. */
#include "planner/read/trainers.h"

#define OPTION REDCOI_MEANS_OPTION
#define MODEL REDCOI_MEANS_MODEL
#define TRAIT REDCOI_MEANS_TRAIT
#define ENGINE REDCOI_MEANS_ENGINE
#define LIMIT REDCOI_MEANS_LIMIT
#define HARMLESS REDCOI_MEANS_HARMLESS
#define YES "true=yes false="

/* clang-format off */
static const redcoi_trainer_key neox[] = {
    {"model_parallel_size", OPTION, "tp", NULL}, {"pipe_parallel_size", OPTION, "pp", "0=1 *=*"}, {"context_parallel_size", OPTION, "cp", NULL}, {"moe_expert_parallel_size", OPTION, "ep", NULL},
    {"sequence_parallel", OPTION, "sequence-parallel", "true=on false=off"},
    {"train_micro_batch_size_per_gpu", OPTION, "micro-batch", NULL}, {"gradient_accumulation_steps", OPTION, ".accumulation", NULL}, {"train_batch_size", OPTION, "global-batch", NULL}, {"seq_length", OPTION, "seq", NULL},
    {"zero_optimization.stage", OPTION, ".zero", "0=ddp 1=zero1 2=zero2 3=zero3"},
    {"fp16.enabled", OPTION, ".fp16", YES}, {"bf16.enabled", OPTION, ".bf16", YES}, {"precision", OPTION, ".mixed-precision", "fp16=fp16 bfloat16=bf16 fp32=fp32"},
    {"checkpoint_activations", OPTION, ".checkpointing", "true=full false=none"},
    {"num_layers", MODEL, "num_hidden_layers", NULL}, {"hidden_size", MODEL, "hidden_size", NULL}, {"intermediate_size", MODEL, "intermediate_size", NULL}, {"num_attention_heads", MODEL, "num_attention_heads", NULL}, {"num_kv_heads", MODEL, "num_key_value_heads", NULL}, {"max_position_embeddings", MODEL, "max_position_embeddings", NULL}, {"pos_emb", MODEL, ".positions", "rotary=rope *=*"}, {"norm", MODEL, ".norm", "rmsnorm=RMSNorm layernorm=LayerNorm te_rmsnorm=RMSNorm *=*"}, {"activation", MODEL, ".gated", "swiglu=yes geglu=yes *="}, {"no_weight_tying", MODEL, ".untied", YES}, {"hidden_dropout", MODEL, ".dropout", NULL}, {"attention_dropout", MODEL, ".attention-dropout", NULL}, {"make_vocab_size_divisible_by", MODEL, ".vocab-padding", NULL}, {"tokenizer_type", MODEL, ".tokenizer", NULL}, {"vocab_file", MODEL, ".vocab-file", NULL}, {"rotary_pct", MODEL, ".rotary-percent", NULL}, {"use_bias_in_mlp", MODEL, ".no-biases", "true= false=yes"}, {"use_bias_in_attn_linear", HARMLESS, "", NULL},
    {"attention_config*", ENGINE, "the attention kernel", NULL}, {"scaled_upper_triang_masked_softmax_fusion", ENGINE, "fused kernels of the engine", NULL}, {"bias_gelu_fusion", ENGINE, "fused kernels of the engine", NULL}, {"rope_fusion", ENGINE, "fused kernels of the engine", NULL}, {"layernorm_fusion", ENGINE, "fused kernels of the engine", NULL}, {"rmsnorm_fusion", ENGINE, "fused kernels of the engine", NULL}, {"gpt_j_residual", LIMIT, "attention and FFN side by side", YES}, {"output_layer_parallelism", ENGINE, "logits over the ranks", NULL}, {"zero_optimization.*", ENGINE, "buffers as the engine has them", NULL}, {"optimizer.type", LIMIT, "the optimizer: priced as Adam", "Adam= AdamW= *=*"}, {"optimizer.*", HARMLESS, "", NULL},
    {"checkpoint_*", HARMLESS, "", NULL}, {"partition_activations", HARMLESS, "", NULL}, {"synchronize_each_layer", HARMLESS, "", NULL}, {"fp16.*", HARMLESS, "", NULL}, {"train_iters", HARMLESS, "", NULL}, {"lr_*", HARMLESS, "", NULL}, {"min_lr", HARMLESS, "", NULL}, {"warmup", HARMLESS, "", NULL}, {"eval_*", HARMLESS, "", NULL}, {"log_*", HARMLESS, "", NULL}, {"steps_per_print", HARMLESS, "", NULL}, {"keep_last_n_checkpoints", HARMLESS, "", NULL}, {"wall_clock_breakdown", HARMLESS, "", NULL}, {"hysteresis", HARMLESS, "", NULL}, {"gradient_clipping", HARMLESS, "", NULL}, {"weight_decay", HARMLESS, "", NULL}, {"data_*", HARMLESS, "", NULL}, {"distributed_backend", HARMLESS, "", NULL}, {"init_method", HARMLESS, "", NULL}, {"output_layer_init_method", HARMLESS, "", NULL}, {"save*", HARMLESS, "", NULL}, {"load", HARMLESS, "", NULL}, {"merge_file", HARMLESS, "", NULL}, {"tensorboard_*", HARMLESS, "", NULL}, {"use_wandb", HARMLESS, "", NULL}, {"wandb_*", HARMLESS, "", NULL}, {"launcher", HARMLESS, "", NULL}, {"hostfile", HARMLESS, "", NULL}, {"*_dir", HARMLESS, "", NULL}, {"split", HARMLESS, "", NULL}, {"finetune", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};

static const redcoi_trainer_key foundry[] = {
    {"max_seq_len", OPTION, "seq", NULL}, {"variables.max_seq_len", OPTION, "seq", NULL}, {"global_train_batch_size", OPTION, "global-batch", NULL}, {"device_train_microbatch_size", OPTION, "micro-batch", "auto= *=*"}, {"variables.global_train_batch_size", OPTION, "global-batch", NULL},
    {"precision", OPTION, ".mixed-precision", "amp_bf16=bf16 amp_fp16=fp16 fp32=fp32 amp_fp8=fp8"},
    {"fsdp_config.sharding_strategy", OPTION, ".fsdp", "FULL_SHARD=zero3 SHARD_GRAD_OP=zero2 NO_SHARD=ddp HYBRID_SHARD=mics"}, {"parallelism_config.fsdp.sharding_strategy", OPTION, ".fsdp", "FULL_SHARD=zero3 SHARD_GRAD_OP=zero2 NO_SHARD=ddp HYBRID_SHARD=mics"},
    {"fsdp_config.mixed_precision", TRAIT, "grad_reduce_bytes", "PURE=2 DEFAULT=4 FULL=4"}, {"fsdp_config.activation_checkpointing", OPTION, ".checkpointing", "true=full false=none"}, {"fsdp_config.activation_cpu_offload", LIMIT, "activations on the host", YES}, {"fsdp_config.*", ENGINE, "FSDP as the engine has it", NULL}, {"tp_config.tensor_parallel_degree", OPTION, "tp", NULL},
    {"model.d_model", MODEL, "hidden_size", NULL}, {"model.n_heads", MODEL, "num_attention_heads", NULL}, {"model.n_layers", MODEL, "num_hidden_layers", NULL}, {"model.vocab_size", MODEL, "vocab_size", NULL}, {"model.expansion_ratio", MODEL, ".expansion", NULL}, {"model.max_seq_len", MODEL, "max_position_embeddings", NULL}, {"model.pretrained_model_name_or_path", MODEL, "model", NULL}, {"model.name", HARMLESS, "", NULL}, {"model.attn_config.kv_n_heads", MODEL, "num_key_value_heads", NULL}, {"model.attn_config.attn_impl", TRAIT, "attention", "flash=flash2 torch=unfused triton=flash1"}, {"model.ffn_config*", LIMIT, "the FFN", NULL}, {"model.*", HARMLESS, "", NULL},
    {"optimizer.name", LIMIT, "the optimizer: priced as Adam", "decoupled_adamw= adamw= *=*"}, {"optimizer.*", HARMLESS, "", NULL}, {"tokenizer.*", HARMLESS, "", NULL}, {"tokenizer_name", HARMLESS, "", NULL}, {"train_loader.*", HARMLESS, "", NULL}, {"eval_*", HARMLESS, "", NULL}, {"scheduler.*", HARMLESS, "", NULL}, {"algorithms.*", HARMLESS, "", NULL}, {"callbacks.*", HARMLESS, "", NULL}, {"loggers.*", HARMLESS, "", NULL}, {"save_*", HARMLESS, "", NULL}, {"load_*", HARMLESS, "", NULL}, {"max_duration", HARMLESS, "", NULL}, {"seed", HARMLESS, "", NULL}, {"global_seed", HARMLESS, "", NULL}, {"run_name", HARMLESS, "", NULL}, {"progress_bar", HARMLESS, "", NULL}, {"log_*", HARMLESS, "", NULL}, {"console_log_interval", HARMLESS, "", NULL}, {"device_eval_batch_size", HARMLESS, "", NULL}, {"data_*", HARMLESS, "", NULL}, {"variables.*", HARMLESS, "", NULL}, {"autoresume", HARMLESS, "", NULL}, {"dist_timeout", HARMLESS, "", NULL}, {"icl_*", HARMLESS, "", NULL}, {"python_log_level", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};

static const redcoi_trainer_key maxtext[] = {
    {"model_name", MODEL, "model", "default= *=*"}, {"per_device_batch_size", OPTION, "micro-batch", NULL}, {"gradient_accumulation_steps", OPTION, ".accumulation", NULL}, {"max_target_length", OPTION, "seq", NULL},
    {"ici_tensor_parallelism", OPTION, "tp", "-1= *=*"}, {"ici_fsdp_parallelism", ENGINE, "shards over all data-parallel ranks", NULL}, {"dcn_fsdp_parallelism", ENGINE, "shards over all data-parallel ranks", NULL}, {"ici_data_parallelism", LIMIT, "replicas: priced as shards over all ranks", "1= -1= *=*"}, {"dcn_data_parallelism", LIMIT, "replicas: priced as shards over all ranks", "1= -1= *=*"}, {"dcn_pipeline_parallelism", OPTION, "pp", "-1= *=*"}, {"ici_pipeline_parallelism", LIMIT, "stages inside of a node", "1= *=*"}, {"ici_expert_parallelism", OPTION, "ep", "-1= *=*"}, {"ici_context_parallelism", OPTION, "cp", "-1= *=*"},
    {"remat_policy", OPTION, ".recompute", "full=full minimal=half minimal_flash=half save_qkv_proj=half save_out_proj=half save_dot_except_mlp=half save_dot_except_mlpwi=half save_dot_with_context_except_mlp=half minimal_with_context=half none=none"},
    {"dtype", OPTION, ".mixed-precision", "bfloat16=bf16 float32=fp32"}, {"quantization", OPTION, ".fp8", "fp8=yes fp8_full=yes fp8_gpu=yes nanoo_fp8=yes *="}, {"attention", TRAIT, "attention", "autoselected= flash= cudnn_flash_te=flash3 cudnn_flash_jax=flash3 dot_product=unfused"},
    {"base_emb_dim", MODEL, "hidden_size", NULL}, {"base_mlp_dim", MODEL, "intermediate_size", NULL}, {"base_num_decoder_layers", MODEL, "num_hidden_layers", NULL}, {"base_num_query_heads", MODEL, "num_attention_heads", NULL}, {"base_num_kv_heads", MODEL, "num_key_value_heads", NULL}, {"head_dim", MODEL, "head_dim", NULL}, {"vocab_size", MODEL, "vocab_size", NULL}, {"mlp_activations", MODEL, ".gated", "silu,linear=yes *="}, {"logits_via_embedding", MODEL, ".untied", "true= false=yes"}, {"num_experts", MODEL, "num_experts", "1= *=*"}, {"num_experts_per_tok", MODEL, "num_experts_per_tok", NULL},
    {"opt_type", LIMIT, "the optimizer: priced as Adam", "adamw= *=*"}, {"optimizer_memory_host_offload", LIMIT, "states of the optimizer on the host", YES}, {"weight_dtype", LIMIT, "the type of the weights that the optimizer updates", "float32= *=*"}, {"scan_layers", HARMLESS, "", NULL}, {"base_config", HARMLESS, "", NULL}, {"run_name", HARMLESS, "", NULL}, {"base_output_directory", HARMLESS, "", NULL}, {"hardware", HARMLESS, "", NULL}, {"steps", HARMLESS, "", NULL}, {"dataset_*", HARMLESS, "", NULL}, {"enable_*", HARMLESS, "", NULL}, {"use_iota_embed", HARMLESS, "", NULL}, {"learning_rate*", HARMLESS, "", NULL}, {"tokenizer_*", HARMLESS, "", NULL}, {"profiler*", HARMLESS, "", NULL}, {"async_checkpointing", HARMLESS, "", NULL}, {"skip_*", HARMLESS, "", NULL}, {"reuse_example_batch", HARMLESS, "", NULL}, {"log_*", HARMLESS, "", NULL}, {"checkpoint*", HARMLESS, "", NULL}, {"decoder_block", HARMLESS, "", NULL}, {"normalization_layer_epsilon", HARMLESS, "", NULL}, {"rope_*", HARMLESS, "", NULL}, {"monitor_*", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};

static const redcoi_trainer_key axolotl[] = {
    {"base_model", MODEL, "model", NULL}, {"sequence_len", OPTION, "seq", NULL}, {"micro_batch_size", OPTION, "micro-batch", NULL}, {"gradient_accumulation_steps", OPTION, ".accumulation", NULL}, {"gradient_checkpointing", OPTION, ".checkpointing", "true=full false=none unsloth=full offload=full"}, {"bf16", OPTION, ".bf16", "auto=yes full=yes true=yes false="}, {"fp16", OPTION, ".fp16", YES}, {"tf32", HARMLESS, "", NULL}, {"fp8", OPTION, ".fp8", YES},
    {"deepspeed", OPTION, ".file", NULL}, {"fsdp", OPTION, ".fsdp-words", NULL}, {"fsdp_config.sharding_strategy", OPTION, ".fsdp", "FULL_SHARD=zero3 SHARD_GRAD_OP=zero2 NO_SHARD=ddp HYBRID_SHARD=mics"}, {"fsdp_config.fsdp_sharding_strategy", OPTION, ".fsdp", "FULL_SHARD=zero3 SHARD_GRAD_OP=zero2 NO_SHARD=ddp HYBRID_SHARD=mics"}, {"fsdp_config.reshard_after_forward", OPTION, ".fsdp", "true=zero3 false=zero2"}, {"fsdp_config.activation_checkpointing", OPTION, ".checkpointing", "true=full false=none"}, {"fsdp_config.offload_params", LIMIT, "parameters on the host", YES}, {"fsdp_config.fsdp_offload_params", LIMIT, "parameters on the host", YES}, {"fsdp_config.*", ENGINE, "units of FSDP as the engine has them", NULL}, {"fsdp_version", ENGINE, "FSDP 1 or 2: the same layout", NULL},
    {"tensor_parallel_size", OPTION, "tp", NULL}, {"context_parallel_size", OPTION, "cp", NULL}, {"dp_shard_size", OPTION, ".dp-shard", NULL}, {"dp_replicate_size", OPTION, ".dp-replicate", NULL}, {"flash_attention", TRAIT, "attention", "true=flash2 false="}, {"sdp_attention", TRAIT, "attention", "true= false="}, {"eager_attention", TRAIT, "attention", "true=unfused false="}, {"attn_implementation", TRAIT, "attention", "eager=unfused sdpa= flash_attention_2=flash2 flash_attention_3=flash3"}, {"torch_compile", TRAIT, "compiled", "true=1 auto= false="}, {"liger_fused_linear_cross_entropy", TRAIT, "cross_entropy", "true=fused false="}, {"liger_*", ENGINE, "kernels of Liger", NULL}, {"cut_cross_entropy", TRAIT, "cross_entropy", "true=fused false="},
    {"adapter", LIMIT, "adapters: priced as if all parameters were trained", "null= *=*"}, {"lora_*", LIMIT, "adapters: priced as if all parameters were trained", NULL}, {"load_in_8bit", LIMIT, "quantised weights", YES}, {"load_in_4bit", LIMIT, "quantised weights", YES}, {"optimizer", LIMIT, "the optimizer: priced as Adam in 32 bits", "adamw_torch= adamw_torch_fused= adamw_hf= *=*"}, {"sample_packing", HARMLESS, "", NULL}, {"rl", LIMIT, "more than one model, or a loss of its own", "null= *=*"}, {"unfrozen_parameters", LIMIT, "frozen layers: priced as if all parameters were trained", NULL}, {"sequence_parallel_degree", LIMIT, "sequence parallelism by ring attention", "1= *=*"},
    {"datasets*", HARMLESS, "", NULL}, {"dataset_*", HARMLESS, "", NULL}, {"val_set_size", HARMLESS, "", NULL}, {"output_dir", HARMLESS, "", NULL}, {"pad_to_sequence_len", HARMLESS, "", NULL}, {"eval_*", HARMLESS, "", NULL}, {"evals_per_epoch", HARMLESS, "", NULL}, {"saves_per_epoch", HARMLESS, "", NULL}, {"save_*", HARMLESS, "", NULL}, {"wandb_*", HARMLESS, "", NULL}, {"num_epochs", HARMLESS, "", NULL}, {"max_steps", HARMLESS, "", NULL}, {"learning_rate", HARMLESS, "", NULL}, {"lr_scheduler*", HARMLESS, "", NULL}, {"warmup_*", HARMLESS, "", NULL}, {"weight_decay", HARMLESS, "", NULL}, {"logging_steps", HARMLESS, "", NULL}, {"special_tokens*", HARMLESS, "", NULL}, {"plugins*", HARMLESS, "", NULL}, {"hub_*", HARMLESS, "", NULL}, {"model_type", HARMLESS, "", NULL}, {"tokenizer_type", HARMLESS, "", NULL}, {"tokenizer_*", HARMLESS, "", NULL}, {"is_*_derived_model", HARMLESS, "", NULL}, {"is_llama_derived_model", HARMLESS, "", NULL}, {"train_on_inputs", HARMLESS, "", NULL}, {"group_by_length", HARMLESS, "", NULL}, {"strict", HARMLESS, "", NULL}, {"early_stopping_patience", HARMLESS, "", NULL}, {"resume_from_checkpoint", HARMLESS, "", NULL}, {"local_rank", HARMLESS, "", NULL}, {"xformers_attention", HARMLESS, "", NULL}, {"flash_attn_*", HARMLESS, "", NULL}, {"debug", HARMLESS, "", NULL}, {"chat_template*", HARMLESS, "", NULL}, {"gradient_checkpointing_kwargs*", HARMLESS, "", NULL}, {"trust_remote_code", HARMLESS, "", NULL}, {"adam_*", HARMLESS, "", NULL}, {"max_grad_norm", HARMLESS, "", NULL}, {"seed", HARMLESS, "", NULL}, {"shuffle*", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};
/* clang-format on */

static const char *const neox_defaults[] = {"tp",       "1",          "pp",
                                            "1",        "cp",         "1",
                                            ".zero",    "ddp",        ".checkpointing",
                                            "none",     ".precision", "fp32",
                                            ".dropout", "0",          ".accumulation",
                                            "1",        NULL};
static const char *const foundry_defaults[] = {"tp",         "1",    "pp",       "1", "cp", "1",
                                               ".precision", "bf16", ".dropout", "0", NULL};
static const char *const maxtext_defaults[] = {"tp",
                                               "1",
                                               "pp",
                                               "1",
                                               "cp",
                                               "1",
                                               ".recompute",
                                               "full",
                                               ".precision",
                                               "bf16",
                                               "micro-batch",
                                               "12",
                                               ".accumulation",
                                               "1",
                                               "seq",
                                               "2048",
                                               ".dropout",
                                               "0",
                                               ".fsdp",
                                               "zero3",
                                               ".positions",
                                               "rope",
                                               ".norm",
                                               "RMSNorm",
                                               NULL};
static const char *const axolotl_defaults[] = {
    "tp", "1", "pp", "1", "cp", "1", ".checkpointing", "none", ".accumulation", "1", "micro-batch", "1", NULL};

const redcoi_trainer redcoi_neox_keys = {
    .word = "gpt-neox", .title = "GPT-NeoX", .engine = "megatron-deepspeed", .keys = neox, .defaults = neox_defaults};
const redcoi_trainer redcoi_foundry_keys = {.word = "llm-foundry",
                                            .title = "llm-foundry",
                                            .engine = "llm-foundry",
                                            .keys = foundry,
                                            .defaults = foundry_defaults};
const redcoi_trainer redcoi_maxtext_keys = {
    .word = "maxtext", .title = "MaxText", .engine = "maxtext", .keys = maxtext, .defaults = maxtext_defaults};
const redcoi_trainer redcoi_axolotl_keys = {
    .word = "axolotl", .title = "axolotl", .keys = axolotl, .defaults = axolotl_defaults};
