/* NeMo's YAML with Hydra's overrides, and Megatron-Bridge's configuration, whose "model." has the names of Megatron
 * Core. Source: NeMo 24.07 to 25.04, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml; Megatron-Bridge
 * 0.7.0, src/megatron/bridge/training/config.py. */
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
    {"trainer.num_nodes", OPTION, ".nodes", NULL},
    {"trainer.devices", OPTION, ".gpus-per-node", "-1= *=*"},
    {"trainer.precision", OPTION, ".mixed-precision", "bf16=bf16 bf16-mixed=bf16 16=fp16 16-mixed=fp16 32=fp32"},
    {"model.tensor_model_parallel_size", OPTION, "tp", NULL},
    {"model.pipeline_model_parallel_size", OPTION, "pp", NULL},
    {"model.virtual_pipeline_model_parallel_size", OPTION, "pp-chunks", NULL},
    {"model.context_parallel_size", OPTION, "cp", NULL},
    {"model.cp_comm_type", OPTION, "cp-type", "p2p=p2p all_gather=all-gather a2a=all-to-all"},
    {"model.expert_model_parallel_size", OPTION, "ep", NULL},
    {"model.expert_tensor_parallel_size", OPTION, "etp", NULL},
    {"model.sequence_parallel", OPTION, "sequence-parallel", "true=on false=off"},
    {"model.microbatch_group_size_per_vp_stage", OPTION, "pp-group", NULL},
    {"model.pipeline_model_parallel_layout", OPTION, "pp-layout", NULL},
    {"model.account_for_embedding_in_pipeline_split", OPTION, ".embedding-counts", YES},
    {"model.account_for_loss_in_pipeline_split", OPTION, ".loss-counts", YES},
    {"model.num_layers_in_first_pipeline_stage", OPTION, ".first-stage", NULL},
    {"model.num_layers_in_last_pipeline_stage", OPTION, ".last-stage", NULL},
    {"model.micro_batch_size", OPTION, "micro-batch", NULL},
    {"model.global_batch_size", OPTION, "global-batch", NULL},
    {"train.micro_batch_size", OPTION, "micro-batch", NULL},
    {"train.global_batch_size", OPTION, "global-batch", NULL},
    {"model.encoder_seq_length", OPTION, "seq", NULL},
    {"model.seq_length", OPTION, "seq", NULL},
    {"model.data.seq_length", OPTION, "seq", NULL},
    {"dataset.sequence_length", OPTION, "seq", NULL},
    {"dataset.seq_length", OPTION, "seq", NULL},
    {"model.optim.name", OPTION, ".optimizer-shards", "distributed_fused_adam=yes mcore_distributed_optim=yes fused_adam= adam= adamw="},
    {"ddp.use_distributed_optimizer", OPTION, ".optimizer-shards", YES},
    {"optimizer.use_distributed_optimizer", OPTION, ".optimizer-shards", YES},
    {"ddp.num_distributed_optimizer_instances", OPTION, ".optimizer-groups", NULL},
    {"ddp.use_megatron_fsdp", OPTION, ".megatron-fsdp", YES},
    {"dist.use_megatron_fsdp", OPTION, ".megatron-fsdp", YES},
    {"ddp.data_parallel_sharding_strategy", OPTION, ".fsdp-shards", "no_shard=ddp optim=zero1 optim_grads=zero2 optim_grads_params=zero3"},
    {"ddp.outer_dp_sharding_strategy", OPTION, ".outer-shards", "no_shard= optim=optim"},
    {"ddp.overlap_grad_reduce", OPTION, ".overlap-ar", YES},
    {"ddp.overlap_param_gather", OPTION, ".overlap-bc", YES},
    {"model.optim.overlap_grad_sync", OPTION, ".overlap-ar", YES},
    {"model.optim.overlap_param_sync", OPTION, ".overlap-bc", YES},
    {"comm_overlap.overlap_grad_reduce", OPTION, ".overlap-ar", YES},
    {"comm_overlap.overlap_param_gather", OPTION, ".overlap-bc", YES},
    {"comm_overlap.tp_comm_overlap", OPTION, ".overlap-tp", YES},
    {"model.ub_tp_comm_overlap", OPTION, ".overlap-tp", YES},
    {"model.activations_checkpoint_granularity", OPTION, ".recompute", "null= none= full=full selective=selective"},
    {"model.activations_checkpoint_method", OPTION, ".recompute-method", NULL},
    {"model.activations_checkpoint_num_layers", OPTION, ".recompute-layers", "null= *=*"},
    {"model.recompute_granularity", OPTION, ".recompute", "None= full=full selective=selective"},
    {"model.recompute_method", OPTION, ".recompute-method", NULL},
    {"model.recompute_num_layers", OPTION, ".recompute-layers", NULL},
    {"model.recompute_modules", OPTION, ".recompute-modules", NULL},
    {"model.fp8", OPTION, ".fp8", "true=yes false= hybrid=yes e4m3=yes null="},
    {"mixed_precision.fp8", OPTION, ".fp8", "hybrid=yes e4m3=yes None="},
    {"mixed_precision.fp8_recipe", OPTION, ".fp8-recipe", "mxfp8=mxfp8 *=fp8"},
    {"mixed_precision.fp4", OPTION, ".fp4", "e2m1=yes None="},
    {"mixed_precision.bf16", OPTION, ".bf16", YES},
    {"mixed_precision.fp16", OPTION, ".fp16", YES},
    {"mixed_precision.grad_reduce_in_fp32", TRAIT, "grad_reduce_bytes", "true=4 false=2"},
    {"ddp.grad_reduce_in_fp32", TRAIT, "grad_reduce_bytes", "true=4 false=2"},
    {"model.grad_allreduce_dtype", TRAIT, "grad_reduce_bytes", "fp32=4 bf16=2"},
    {"model.optim.grad_sync_dtype", TRAIT, "grad_reduce_bytes", "fp32=4 bf16=2 null="},
    {"model.attention_backend", TRAIT, "attention", "auto= flash= fused= unfused=unfused local=fused"},
    {"model.cross_entropy_loss_fusion", TRAIT, "cross_entropy", "true=fused false="},
    {"model.cuda_graph_impl", ENGINE, "launches as measured", NULL},
    {"model.moe_token_dispatcher_type", TRAIT, "dispatcher", "allgather=alltoall alltoall=alltoall flex=deepep"},
    {"model.num_layers", MODEL, "num_hidden_layers", NULL}, {"model.hidden_size", MODEL, "hidden_size", NULL}, {"model.ffn_hidden_size", MODEL, "intermediate_size", NULL}, {"model.num_attention_heads", MODEL, "num_attention_heads", NULL}, {"model.num_query_groups", MODEL, "num_key_value_heads", "null= *=*"}, {"model.kv_channels", MODEL, "head_dim", "null= *=*"}, {"model.max_position_embeddings", MODEL, "max_position_embeddings", NULL}, {"model.vocab_size", MODEL, "vocab_size", NULL},
    {"model.normalization", MODEL, ".norm", "rmsnorm=RMSNorm layernorm=LayerNorm layernorm1p=LayerNorm *=*"}, {"model.activation", MODEL, ".gated", "fast-swiglu=yes swiglu=yes *="}, {"model.gated_linear_unit", MODEL, ".gated", YES}, {"model.position_embedding_type", MODEL, ".positions", NULL}, {"model.bias", MODEL, ".no-biases", "true= false=yes"}, {"model.add_bias_linear", MODEL, ".no-biases", "true= false=yes"}, {"model.share_embeddings_and_output_weights", MODEL, ".untied", "true= false=yes"}, {"model.hidden_dropout", MODEL, ".dropout", NULL}, {"model.attention_dropout", MODEL, ".attention-dropout", NULL}, {"model.num_moe_experts", MODEL, "num_experts", NULL}, {"model.moe_router_topk", MODEL, "num_experts_per_tok", NULL}, {"model.moe_ffn_hidden_size", MODEL, "moe_intermediate_size", NULL}, {"model.rotary_base", MODEL, "rope_theta", NULL},
    {"model.rotary_percentage", MODEL, ".rotary-percent", NULL}, {"model.tokenizer.type", MODEL, ".tokenizer", NULL}, {"model.tokenizer.*", HARMLESS, "", NULL},
    {"model.cpu_offloading*", LIMIT, "activations on the host", YES}, {"optimizer.optimizer_cpu_offload", LIMIT, "states of the optimizer on the host", YES}, {"optimizer.exp_avg_dtype", TRAIT, "moment_bytes", "torch.float32= torch.bfloat16=2 torch.float16=2"}, {"optimizer.optimizer", LIMIT, "the optimizer: priced as Adam", "adam= *=*"},
    {"model.peft.*", LIMIT, "adapters: priced as if all parameters were trained", NULL}, {"peft*", LIMIT, "adapters: priced as if all parameters were trained", NULL}, {"model.fsdp", LIMIT, "PyTorch's FSDP in NeMo", YES}, {"model.rampup_batch_size", LIMIT, "the batch grows: priced at its end", "null= *=*"},
    {"model.*", ENGINE, "as the engine has it", NULL}, {"mixed_precision.*", ENGINE, "as the engine has it", NULL}, {"comm_overlap.*", ENGINE, "as the engine has it", NULL}, {"ddp.bucket_size", ENGINE, "the engine's buckets", NULL}, {"ddp.*", ENGINE, "as the engine has it", NULL},
    {"model.data.*", HARMLESS, "", NULL}, {"model.optim.*", HARMLESS, "", NULL}, {"trainer.*", HARMLESS, "", NULL}, {"exp_manager.*", HARMLESS, "", NULL}, {"run.*", HARMLESS, "", NULL}, {"train.*", HARMLESS, "", NULL}, {"dataset.*", HARMLESS, "", NULL}, {"optimizer.*", HARMLESS, "", NULL}, {"scheduler.*", HARMLESS, "", NULL}, {"checkpoint.*", HARMLESS, "", NULL}, {"logger.*", HARMLESS, "", NULL}, {"tokenizer.*", HARMLESS, "", NULL}, {"rng.*", HARMLESS, "", NULL}, {"dist.*", HARMLESS, "", NULL}, {"profiling.*", HARMLESS, "", NULL}, {"validation.*", HARMLESS, "", NULL}, {"hydra.*", HARMLESS, "", NULL}, {"defaults*", HARMLESS, "", NULL}, {"name", HARMLESS, "", NULL}, {"restore_from_path", HARMLESS, "", NULL}, {"rerun_state_machine.*", HARMLESS, "", NULL}, {"cluster*", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};
/* clang-format on */

static const char *const prefixes[] = {"cfg.", "config.", "training.", NULL};
static const char *const defaults[] = {"tp",   "1",          "pp",   "1",        "cp",  "1", ".recompute",
                                       "none", ".precision", "fp32", ".dropout", "0.1", NULL};

const redcoi_trainer redcoi_nemo_keys = {.word = "nemo",
                                         .title = "NeMo, Megatron-Bridge",
                                         .engine = "nemo",
                                         .keys = keys,
                                         .prefixes = prefixes,
                                         .defaults = defaults};
