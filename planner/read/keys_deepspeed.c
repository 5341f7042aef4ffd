/* DeepSpeed's configuration JSON. Source: DeepSpeed 0.19.8, deepspeed/runtime/config.py,
 * deepspeed/runtime/zero/config.py. */
#include "planner/read/trainers.h"

#define OPTION REDCOI_MEANS_OPTION
#define TRAIT REDCOI_MEANS_TRAIT
#define ENGINE REDCOI_MEANS_ENGINE
#define LIMIT REDCOI_MEANS_LIMIT
#define HARMLESS REDCOI_MEANS_HARMLESS
#define YES "true=yes false="

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"zero_optimization.stage", OPTION, ".zero", "0=ddp 1=zero1 2=zero2 3=zero3"},
    {"zero_optimization", OPTION, ".zero", "true=zero1 false=ddp"},
    {"train_micro_batch_size_per_gpu", OPTION, "micro-batch", "auto= *=*"},
    {"gradient_accumulation_steps", OPTION, ".accumulation", "auto= *=*"},
    {"train_batch_size", OPTION, "global-batch", "auto= *=*"},
    {"bf16.enabled", OPTION, ".bf16", "auto=auto true=yes false="},
    {"bfloat16.enabled", OPTION, ".bf16", "auto=auto true=yes false="},
    {"fp16.enabled", OPTION, ".fp16", "auto=auto true=yes false="},
    {"zero_optimization.zero_hpz_partition_size", OPTION, ".second-copy", "1= *=*"},
    {"zero_optimization.mics_shard_size", OPTION, ".shard-group", "-1= *=*"},
    {"tensor_parallel.autotp_size", OPTION, "tp", "0=1 *=*"},
    {"tensor_parallel.tp_size", OPTION, "tp", NULL},
    {"data_types.grad_accum_dtype", TRAIT, "grad_reduce_bytes", "fp32=4 fp16=2 bf16=2"},
    {"communication_data_type", TRAIT, "grad_reduce_bytes", "fp32=4 fp16=2 bf16=2 bfp16=2"},
    {"zero_optimization.overlap_comm", ENGINE, "overlapped as the engine's runs were measured", NULL},
    {"zero_optimization.contiguous_gradients", ENGINE, "buffers as the engine has them", NULL},
    {"zero_optimization.reduce_scatter", ENGINE, "buffers as the engine has them", NULL},
    {"zero_optimization.round_robin_gradients", ENGINE, "buffers as the engine has them", NULL},
    {"zero_optimization.allgather_partitions", ENGINE, "buffers as the engine has them", NULL},
    {"zero_optimization.use_multi_rank_bucket_allreduce", ENGINE, "buffers as the engine has them", NULL},
    {"zero_optimization.sub_group_size", ENGINE, "buffers as the engine has them", NULL},
    {"zero_optimization.allgather_bucket_size", ENGINE, "the engine's buckets", NULL},
    {"zero_optimization.reduce_bucket_size", ENGINE, "the engine's buckets", NULL},
    {"zero_optimization.stage3_*", ENGINE, "what stage 3 keeps gathered, as the engine's default", NULL},
    {"zero_optimization.mics_hierarchical_params_gather", ENGINE, "gathers of MiCS", NULL},
    {"zero_optimization.offload_optimizer.device", LIMIT, "states of the optimizer on the host", "none= *=*"},
    {"zero_optimization.offload_param.device", LIMIT, "parameters on the host", "none= *=*"},
    {"zero_optimization.cpu_offload", LIMIT, "states of the optimizer on the host", YES},
    {"zero_optimization.cpu_offload_params", LIMIT, "parameters on the host", YES},
    {"zero_optimization.offload_*", HARMLESS, "", NULL},
    {"zero_optimization.zero_quantized_*", LIMIT, "traffic in fewer bits", YES},
    {"zero_optimization.leaf_module*", ENGINE, "modules that are gathered whole", NULL},
    {"zero_optimization.ignore_unused_parameters", HARMLESS, "", NULL},
    {"zero_optimization.load_from_fp32_weights", HARMLESS, "", NULL},
    {"zero_optimization.elastic_checkpoint", HARMLESS, "", NULL},
    {"zero_optimization.memory_efficient_linear", ENGINE, "linears as the engine has them", NULL},
    {"zero_optimization.log_trace_cache_warnings", HARMLESS, "", NULL},
    {"optimizer.type", LIMIT, "the optimizer: priced as Adam in 32 bits", "Adam= AdamW= FusedAdam= CPUAdam= *=*"},
    {"optimizer.*", HARMLESS, "", NULL},
    {"sequence_parallel_size", LIMIT, "Ulysses' sequence parallelism", "1= *=*"},
    {"compile.enabled", TRAIT, "compiled", "true=1 false="},
    {"compile.*", HARMLESS, "", NULL},
    {"activation_checkpointing.cpu_checkpointing", LIMIT, "checkpoints of activations on the host", YES},
    {"activation_checkpointing.*", ENGINE, "the model's code says which layers are recomputed", NULL},
    {"_*", HARMLESS, "", NULL}, {"monitor_config.*", HARMLESS, "", NULL}, {"sparse_attention.*", LIMIT, "attention over blocks", NULL},
    {"flops_profiler.*", HARMLESS, "", NULL}, {"comms_logger.*", HARMLESS, "", NULL}, {"tensorboard.*", HARMLESS, "", NULL}, {"wandb.*", HARMLESS, "", NULL}, {"csv_monitor.*", HARMLESS, "", NULL}, {"aio.*", HARMLESS, "", NULL}, {"autotuning.*", HARMLESS, "", NULL}, {"elasticity.*", LIMIT, "the number of GPUs may change", NULL}, {"curriculum_learning.*", LIMIT, "sequences that grow", NULL}, {"data_efficiency.*", LIMIT, "sequences that grow", NULL},
    {"gradient_clipping", HARMLESS, "", NULL}, {"steps_per_print", HARMLESS, "", NULL}, {"wall_clock_breakdown", HARMLESS, "", NULL}, {"memory_breakdown", HARMLESS, "", NULL}, {"dump_state", HARMLESS, "", NULL}, {"prescale_gradients", HARMLESS, "", NULL}, {"gradient_predivide_factor", HARMLESS, "", NULL}, {"zero_allow_untested_optimizer", HARMLESS, "", NULL}, {"zero_force_ds_cpu_optimizer", HARMLESS, "", NULL}, {"scheduler.*", HARMLESS, "", NULL}, {"scheduler", HARMLESS, "", NULL}, {"checkpoint.*", HARMLESS, "", NULL}, {"data_types.*", HARMLESS, "", NULL}, {"seed", HARMLESS, "", NULL}, {"disable_allgather", HARMLESS, "", NULL}, {"sparse_gradients", HARMLESS, "", NULL}, {"amp.enabled", LIMIT, "apex's mixed precision", YES}, {"amp.*", HARMLESS, "", NULL},
    {"bf16.*", HARMLESS, "", NULL}, {"fp16.*", HARMLESS, "", NULL}, {"bfloat16.*", HARMLESS, "", NULL}, {"tensor_parallel.*", HARMLESS, "", NULL}, {"use_node_local_storage", HARMLESS, "", NULL}, {"comms_config.*", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};
/* clang-format on */

static const char *const defaults[] = {"tp", "1", "pp", "1", "cp", "1", ".zero", "ddp", ".precision", "fp32", NULL};

const redcoi_trainer redcoi_deepspeed_keys = {
    .word = "deepspeed", .title = "DeepSpeed", .engine = "transformers-deepspeed", .keys = keys, .defaults = defaults};
