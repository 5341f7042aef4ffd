/* NeMo's YAML with Hydra's overrides. "model." has the names of Megatron Core, and some of its own.
 * Source: NeMo 24.07 to 25.04, examples/nlp/language_modeling/conf/megatron_gpt_config.yaml. */
#include "planner/read/keys/key_rows.h"

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"trainer.num_nodes", OPTION, ".nodes", NULL},
    {"trainer.devices", OPTION, ".gpus-per-node", "-1= *=*"},
    {"trainer.precision", OPTION, ".mixed-precision", "bf16=bf16 bf16-mixed=bf16 16=fp16 16-mixed=fp16 32=fp32"},
    {"model.virtual_pipeline_model_parallel_size", OPTION, "pp-chunks", NULL},
    {"model.data.seq_length", OPTION, "seq", NULL},
    {"model.optim.name", OPTION, ".optimizer-shards", "distributed_fused_adam=yes mcore_distributed_optim=yes fused_adam= adam= adamw="},
    {"model.optim.overlap_grad_sync", OPTION, ".overlap-ar", YES},
    {"model.optim.overlap_param_sync", OPTION, ".overlap-bc", YES},
    {"model.ub_tp_comm_overlap", OPTION, ".overlap-tp", YES},
    {"model.activations_checkpoint_granularity", OPTION, ".recompute", "null= none= full=full selective=selective"},
    {"model.activations_checkpoint_method", OPTION, ".recompute-method", NULL},
    {"model.activations_checkpoint_num_layers", OPTION, ".recompute-layers", "null= *=*"},
    {"model.fp8", OPTION, ".fp8", "true=yes false= hybrid=yes e4m3=yes null="},
    {"model.grad_allreduce_dtype", TRAIT, "grad_reduce_bytes", "fp32=4 bf16=2"},
    {"model.optim.grad_sync_dtype", TRAIT, "grad_reduce_bytes", "fp32=4 bf16=2 null="},
    {"model.num_query_groups", MODEL, "num_key_value_heads", "null= *=*"},
    {"model.kv_channels", MODEL, "head_dim", "null= *=*"},
    {"model.normalization", MODEL, ".norm", "rmsnorm=RMSNorm layernorm=LayerNorm layernorm1p=LayerNorm *=*"},
    {"model.activation", MODEL, ".gated", "fast-swiglu=yes swiglu=yes *="},
    {"model.bias", MODEL, ".no-biases", "true= false=yes"},
    {"model.share_embeddings_and_output_weights", MODEL, ".untied", "true= false=yes"},
    {"model.num_moe_experts", MODEL, "num_experts", NULL},
    {"model.rotary_percentage", MODEL, ".rotary-percent", NULL},
    {"model.tokenizer.type", MODEL, ".tokenizer", NULL},
    {"model.cpu_offloading*", LIMIT, "activations on the host", YES},
    {"model.peft.peft_scheme", OPTION, ".adapter", "null=none none=none *=*"},
    {"model.peft.lora_tuning.adapter_dim", OPTION, ".adapter-rank", NULL},
    {"model.peft.lora_tuning.target_modules", OPTION, ".adapter-targets", NULL},
    HARMLESS("model.peft.*"),
    {"model.fsdp", LIMIT, "PyTorch's FSDP in NeMo", YES},
    {"model.rampup_batch_size", LIMIT, "the batch grows: priced at its end", "null= *=*"},
    {"model.*", ENGINE, "as the engine has it", NULL},
    HARMLESS("model.tokenizer.*"), HARMLESS("model.data.*"), HARMLESS("model.optim.*"), HARMLESS("trainer.*"),
    HARMLESS("exp_manager.*"), HARMLESS("run.*"), HARMLESS("hydra.*"), HARMLESS("defaults*"), HARMLESS("name"),
    HARMLESS("restore_from_path"), HARMLESS("cluster*"),
    END_OF_KEYS,
};
/* clang-format on */

static const char *const prefixes[] = {"cfg.", "config.", "training.", NULL};
static const char *const defaults[] = {"tp",   "1",          "pp",   "1",        "cp",  "1", ".recompute",
                                       "none", ".precision", "fp32", ".dropout", "0.1", NULL};

const redcoi_trainer redcoi_nemo_keys = {.word = "nemo",
                                         .title = "NeMo",
                                         .engine = "nemo",
                                         .keys = keys,
                                         .prefixes = prefixes,
                                         .defaults = defaults,
                                         .core = &redcoi_megatron_keys,
                                         .core_section = "model."};
