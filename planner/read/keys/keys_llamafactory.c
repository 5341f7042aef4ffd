/* LlamaFactory's new YAML, whose keys are its own. Source: LLaMA-Factory ff6d4d12e, src/llamafactory/v1/config
 * (training_args.py, model_args.py, data_args.py, sample_args.py). What 0.9 reads is in keys_transformers.c. */
#include "planner/read/keys/key_rows.h"

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"model", MODEL, "model", NULL},
    {"micro_batch_size", OPTION, "micro-batch", NULL},
    {"global_batch_size", OPTION, "global-batch", NULL},
    {"cutoff_len", OPTION, "seq", NULL},
    {"bf16", OPTION, ".precision", "true=bf16 false=fp32"},
    {"enable_activation_checkpointing", OPTION, ".checkpointing", "true=full false=none"},
    {"dist_config.name", OPTION, ".fsdp", "fsdp2=zero3 ddp=ddp deepspeed="},
    {"dist_config.config_file", OPTION, ".file", NULL},
    {"cp_size", OPTION, ".ulysses", NULL},
    {"cp_mode", LIMIT, "an exchange of context parallelism that is not Ulysses'", "ulysses= *=*"},
    {"mp_replicate_size", LIMIT, "replicas of shards", "1= *=*"},
    {"mp_shard_size", LIMIT, "shards of a part of the GPUs", "null= *=*"},
    {"flash_attn", TRAIT, "attention", "auto= disabled=unfused sdpa= fa2=flash2 flash_attention_2=flash2 fa3=flash3 flash_attention_3=flash3"},
    {"kernel_config.name", TRAIT, "cross_entropy", "auto= liger_kernel=fused null="},
    {"kernel_config*", ENGINE, "kernels of LlamaFactory", NULL},
    {"peft_config.name", OPTION, ".adapter", "full=none null=none *=*"},
    {"peft_config.r", OPTION, ".adapter-rank", NULL},
    {"peft_config.target_modules", OPTION, ".adapter-targets", NULL},
    {"peft_config.freeze_*", LIMIT, "frozen layers: priced as if all parameters were trained", NULL},
    HARMLESS("peft_config*"),
    {"quant_config*", LIMIT, "quantised weights", "null= *=*"},
    {"optim_config.name", TRAIT, "optimizer", TORCH_OPTIMIZERS},
    HARMLESS("optim_config*"),
    {"pref_*", LIMIT, "more than one model, or a loss of its own", NULL},
    HARMLESS("dist_config.dcp_path"), HARMLESS("dist_timeout"), HARMLESS("dp_size"), HARMLESS("model_class"),
    HARMLESS("init_config*"), HARMLESS("custom_chat_template"), HARMLESS("trust_remote_code"), HARMLESS("train_dataset"),
    HARMLESS("eval_dataset"), HARMLESS("output_dir"), HARMLESS("learning_rate"), HARMLESS("num_train_epochs"),
    HARMLESS("max_steps"), HARMLESS("max_grad_norm"), HARMLESS("batching_*"), HARMLESS("lr_scheduler_config*"),
    HARMLESS("seed"), HARMLESS("full_determinism"), HARMLESS("resume_from_checkpoint"), HARMLESS("save_*"),
    HARMLESS("logging_steps"), HARMLESS("sample_backend"), HARMLESS("max_new_tokens"),
    END_OF_KEYS,
};
/* clang-format on */

static const char *const defaults[] = {
    "tp",   "1",          "pp",   "1",   "cp",   "1", "micro-batch", "1", ".accumulation", "1", ".checkpointing",
    "full", ".precision", "bf16", "seq", "2048", NULL};

const redcoi_trainer redcoi_llamafactory_keys = {
    .word = "llamafactory-v1", .title = "LlamaFactory 1", .keys = keys, .defaults = defaults};
