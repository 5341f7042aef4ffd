/* torchtitan's TOML, and its arguments "--parallelism.tensor_parallel_degree 8".
 * Source: torchtitan 0.1.0 to 0.2.2, torchtitan/config/job_config.py. */
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
    {"model.name", MODEL, ".family", NULL},
    {"model.flavor", MODEL, ".flavor", NULL},
    {"model.hf_assets_path", HARMLESS, "", NULL},
    {"training.local_batch_size", OPTION, "micro-batch", NULL},
    {"training.batch_size", OPTION, "micro-batch", NULL},
    {"training.num_tokens_per_microbatch_per_dp_rank", OPTION, ".tokens-of-micro-batch", NULL},
    {"training.num_tokens_per_train_step", OPTION, ".tokens-of-step", NULL},
    {"training.max_context_length", OPTION, "seq", NULL},
    {"training.disable_cuda_graphs", ENGINE, "launches as measured", NULL},
    {"parallelism.num_pp_microbatches", ENGINE, "follows from the batch", NULL},
    {"parallelism.module_fqns_per_model_part", OPTION, ".parts", NULL},
    {"parallelism.enable_sequence_parallel", OPTION, "sequence-parallel", "true=on false=off"},
    {"compile.enable_async_tensor_parallel", OPTION, ".overlap-tp", YES},
    {"activation_checkpoint", OPTION, ".checkpointing", "None=none FullAC.Config=full FullAC=full SelectiveAC.Config=half SelectiveAC=half"},
    {"training.global_batch_size", OPTION, "global-batch", "-1= *=*"},
    {"training.seq_len", OPTION, "seq", NULL},
    {"parallelism.tensor_parallel_degree", OPTION, "tp", NULL},
    {"training.tensor_parallel_degree", OPTION, "tp", NULL},
    {"parallelism.pipeline_parallel_degree", OPTION, "pp", NULL},
    {"experimental.pipeline_parallel_degree", OPTION, "pp", NULL},
    {"parallelism.context_parallel_degree", OPTION, "cp", NULL},
    {"experimental.context_parallel_degree", OPTION, "cp", NULL},
    {"parallelism.expert_parallel_degree", OPTION, "ep", NULL},
    {"parallelism.expert_tensor_parallel_degree", OPTION, "etp", NULL},
    {"parallelism.data_parallel_replicate_degree", OPTION, ".dp-replicate", NULL},
    {"training.data_parallel_replicate_degree", OPTION, ".dp-replicate", NULL},
    {"parallelism.data_parallel_shard_degree", OPTION, ".dp-shard", NULL},
    {"training.data_parallel_degree", OPTION, ".dp-shard", NULL},
    {"training.data_parallel_shard_degree", OPTION, ".dp-shard", NULL},
    {"parallelism.fsdp_reshard_after_forward", OPTION, ".reshard", "default= always=zero3 never=zero2"},
    {"parallelism.pipeline_parallel_schedule", OPTION, "pp-schedule", "1F1B=1f1b Interleaved1F1B=interleaved GPipe=gpipe ZBVZeroBubble=zb-h1 InterleavedZeroBubble=zb-h1 DualPipeV=dualpipev"},
    {"experimental.pipeline_parallel_schedule", OPTION, "pp-schedule", "1F1B=1f1b Interleaved1F1B=interleaved GPipe=gpipe ZBVZeroBubble=zb-h1 InterleavedZeroBubble=zb-h1 DualPipeV=dualpipev"},
    {"parallelism.pipeline_parallel_microbatch_size", OPTION, ".stage-micro-batch", NULL},
    {"parallelism.pipeline_parallel_layers_per_stage", OPTION, ".layers-per-chunk", NULL},
    {"parallelism.pipeline_parallel_first_stage_less_layers", OPTION, ".embedding-counts", "1=yes 0="},
    {"parallelism.pipeline_parallel_last_stage_less_layers", OPTION, ".loss-counts", "1=yes 0="},
    {"parallelism.disable_loss_parallel", TRAIT, "logits_gathered", "true=1 false="},
    {"training.disable_loss_parallel", TRAIT, "logits_gathered", "true=1 false="},
    {"parallelism.enable_async_tensor_parallel", OPTION, ".overlap-tp", YES},
    {"experimental.enable_async_tensor_parallel", OPTION, ".overlap-tp", YES},
    {"parallelism.context_parallel_rotate_method", OPTION, "cp-type", "allgather=all-gather alltoall=p2p"},
    {"activation_checkpoint.mode", OPTION, ".checkpointing", "none=none selective=half full=full memory_budget=auto"},
    {"activation_checkpoint.selective_ac_option", ENGINE, "selective: about half of the products are made again", NULL},
    {"activation_checkpoint.*", ENGINE, "selective: about half of the products are made again", NULL},
    {"training.compile", TRAIT, "compiled", "true=1 false="},
    {"compile.enable", TRAIT, "compiled", "true=1 false="},
    {"compile.components", ENGINE, "parts that are compiled", NULL},
    {"model.converters", OPTION, ".converters", NULL},
    {"quantize.linear.float8.*", HARMLESS, "", NULL}, {"quantize.*", HARMLESS, "", NULL},
    {"float8.enable_fsdp_float8_all_gather", ENGINE, "parameters are gathered in the training precision", NULL},
    {"float8.recipe_name", ENGINE, "recipe of fp8", NULL},
    {"float8.*", HARMLESS, "", NULL}, {"mx.*", HARMLESS, "", NULL},
    {"training.mixed_precision_param", OPTION, ".mixed-precision", "bfloat16=bf16 float32=fp32"},
    {"training.mixed_precision_reduce", TRAIT, "grad_reduce_bytes", "float32=4 bfloat16=2"},
    {"training.dtype", LIMIT, "the type of the weights that the optimizer updates", "float32= *=*"},
    {"training.enable_cpu_offload", LIMIT, "states on the host", YES},
    {"training.fsdp_reshard_after_forward", OPTION, ".reshard", "default= always=zero3 never=zero2"},
    {"optimizer.name", LIMIT, "the optimizer: priced as Adam in 32 bits", "Adam= AdamW= *=*"},
    {"optimizer.early_step_in_backward", LIMIT, "an update for each parameter in backward", YES},
    {"optimizer.fused", HARMLESS, "", NULL}, {"optimizer.*", HARMLESS, "", NULL}, {"lr_scheduler.*", HARMLESS, "", NULL},
    {"training.tensor_parallel_*", HARMLESS, "", NULL},
    {"job.*", HARMLESS, "", NULL}, {"profiling.*", HARMLESS, "", NULL}, {"metrics.*", HARMLESS, "", NULL}, {"checkpoint.*", HARMLESS, "", NULL}, {"model.tokenizer_path", HARMLESS, "", NULL}, {"model.tokenizer*", HARMLESS, "", NULL}, {"model.norm_type", HARMLESS, "", NULL}, {"model.print_after_conversion", HARMLESS, "", NULL}, {"model.use_flex_attn", ENGINE, "the attention kernel", NULL}, {"model.attn_mask_type", HARMLESS, "", NULL},
    {"training.data.*", HARMLESS, "", NULL}, {"dataset.*", HARMLESS, "", NULL}, {"activation_offload.*", LIMIT, "activations on the host", NULL},
    {"training.max_norm", HARMLESS, "", NULL}, {"training.steps", HARMLESS, "", NULL}, {"training.dataset*", HARMLESS, "", NULL}, {"training.seed", HARMLESS, "", NULL}, {"training.deterministic", HARMLESS, "", NULL}, {"training.warmup_steps", HARMLESS, "", NULL}, {"training.gc_*", HARMLESS, "", NULL}, {"training.debug_*", HARMLESS, "", NULL}, {"comm.*", HARMLESS, "", NULL}, {"debug.*", HARMLESS, "", NULL}, {"memory_estimation.*", HARMLESS, "", NULL}, {"validation.*", HARMLESS, "", NULL}, {"experimental.*", HARMLESS, "", NULL}, {"fault_tolerance.*", HARMLESS, "", NULL},
    {NULL, HARMLESS, NULL, NULL},
};
/* clang-format on */

static const char *const defaults[] = {"tp",
                                       "1",
                                       "pp",
                                       "1",
                                       "cp",
                                       "1",
                                       "micro-batch",
                                       "8",
                                       ".checkpointing",
                                       "half",
                                       ".precision",
                                       "bf16",
                                       ".dp-shard",
                                       "-1",
                                       ".dp-replicate",
                                       "1",
                                       "sequence-parallel",
                                       "on",
                                       "seq",
                                       "2048",
                                       NULL};

static const char *const prefixes[] = {"config.", "cfg.", NULL};

const redcoi_trainer redcoi_torchtitan_keys = {.word = "torchtitan",
                                               .title = "torchtitan",
                                               .engine = "torchtitan",
                                               .keys = keys,
                                               .prefixes = prefixes,
                                               .defaults = defaults};
