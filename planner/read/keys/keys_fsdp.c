/* The FSDP JSON that redco exports: arguments of init_device_mesh(), fully_shard() and their neighbours.
 * Source: PyTorch 2, torch/distributed/fsdp/_fully_shard/_fully_shard.py, torch/distributed/device_mesh.py. */
#include "planner/read/keys/key_rows.h"

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"device_mesh.mesh_shape", OPTION, ".mesh-shape", NULL},
    {"device_mesh.mesh_dim_names", OPTION, ".mesh-names", NULL},
    {"units.*", OPTION, ".units", NULL},
    {"activation_checkpointing.*", OPTION, ".checkpoint-kind", NULL},
    {"mixed_precision.param_dtype", OPTION, ".mixed-precision", "bfloat16=bf16 float16=fp16 float32=fp32"},
    {"mixed_precision.reduce_dtype", TRAIT, "grad_reduce_bytes", "float32=4 bfloat16=2 float16=2"},
    {"offload_policy", OPTION, ".offload-parameters", "CPUOffloadPolicy=yes"},
    {"offload.optimizer", OPTION, ".offload-optimizer", YES},
    {"batch.seq_len", OPTION, "seq", NULL},
    {"batch.global_batch_size", OPTION, "global-batch", NULL},
    {"batch.micro_batch_size", OPTION, "micro-batch", NULL},
    {"batch.gradient_accumulation_steps", OPTION, ".accumulation", NULL},
    {"model.attention", TRAIT, "attention", NULL},
    {"model.fused_norm", TRAIT, "fused_norm", "false=0 true="},
    {"model.compile", TRAIT, "compiled", "true=1 false="},
    {"model.logits_gathered", TRAIT, "logits_gathered", "true=1 false="},
    {"model.cross_entropy", TRAIT, "cross_entropy", NULL},
    {"model.fully_shard_each", ENGINE, "a unit is a layer", NULL},
    {"pipeline.schedule", OPTION, "pp-schedule", "1F1B=1f1b Interleaved1F1B=interleaved GPipe=gpipe DualPipeV=dualpipev"},
    {"pipeline.stages_per_rank", OPTION, "pp-chunks", NULL},
    {"pipeline.layers", OPTION, ".stage-layers", NULL},
    {"pipeline.layers.*", OPTION, ".stage-layers", NULL},
    {"tensor_parallel.size", OPTION, "tp", NULL},
    {"tensor_parallel.sequence_parallel", OPTION, "sequence-parallel", "true=on false=off"},
    {"tensor_parallel.async", OPTION, ".overlap-tp", YES},
    {"tensor_parallel.rules*", ENGINE, "matrices are split as the engine splits them", NULL},
    {"context_parallel.rotate_method", OPTION, "cp-type", "allgather=all-gather alltoall=p2p"},
    {"context_parallel.enable_load_balance", ENGINE, "how positions are dealt to ranks", NULL},
    HARMLESS("format"), HARMLESS("version"), HARMLESS("exact"), HARMLESS("device_mesh.device_type"),
    HARMLESS("activation_checkpointing"), HARMLESS("hosts*"), HARMLESS("launch"), HARMLESS("notes*"),
    HARMLESS("difference"),
    END_OF_KEYS,
};
/* clang-format on */

static const char *const defaults[] = {"tp", "1", "pp", "1", "cp", "1", ".checkpointing", "none", NULL};

const redcoi_trainer redcoi_fsdp_keys = {
    .word = "fsdp", .title = "PyTorch FSDP", .engine = "fsdp2", .keys = keys, .defaults = defaults};
