/* LitGPT's YAML of litgpt finetune and pretrain. Source: litgpt 26857050, litgpt/finetune/lora.py, litgpt/args.py,
 * config_hub. */
#include "planner/read/keys/key_rows.h"

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"checkpoint_dir", MODEL, "model", NULL},
    {"precision", OPTION, ".precision", "bf16-true=bf16 bf16-mixed=bf16 16-true=fp16 16-mixed=fp16 32-true=fp32 null="},
    {"quantize", OPTION, ".adapter-bits", "bnb.nf4=4 bnb.nf4-dq=4 bnb.fp4=4 bnb.fp4-dq=4 null= *=*"},
    {"devices", OPTION, ".gpus-per-node", "auto= *=*"},
    {"num_nodes", OPTION, ".nodes", NULL},
    {"lora_r", OPTION, ".adapter-rank", NULL},
    {"lora_query", OPTION, ".adapter-q", "true=yes false=no"},
    {"lora_key", OPTION, ".adapter-k", "true=yes false=no"},
    {"lora_value", OPTION, ".adapter-v", "true=yes false=no"},
    {"lora_projection", OPTION, ".adapter-o", "true=yes false=no"},
    {"lora_mlp", OPTION, ".adapter-mlp", "true=yes false=no"},
    {"lora_head", LIMIT, "an adapter of the head", YES},
    HARMLESS("lora_*"),
    {"train.micro_batch_size", OPTION, "micro-batch", NULL},
    {"train.global_batch_size", OPTION, "global-batch", NULL},
    {"train.max_seq_length", OPTION, "seq", "null= *=*"},
    HARMLESS("train.*"), HARMLESS("eval.*"), HARMLESS("data*"), HARMLESS("log*"), HARMLESS("out_dir"),
    {"optimizer", TRAIT, "optimizer", "AdamW= Adam="},
    {"optimizer.class_path", TRAIT, "optimizer", "torch.optim.AdamW= torch.optim.Adam="},
    HARMLESS("optimizer.*"), HARMLESS("seed"), HARMLESS("access_token"), HARMLESS("resume"),
    END_OF_KEYS,
};
/* clang-format on */

static const char *const defaults[] = {
    "tp",         "1",    "pp",          "1", "cp",           "1",  ".accumulation",  "",
    ".precision", "bf16", "micro-batch", "1", "global-batch", "16", ".checkpointing", "none",
    NULL};

const redcoi_trainer redcoi_litgpt_keys = {
    .word = "litgpt", .title = "LitGPT", .engine = "litgpt", .keys = keys, .defaults = defaults};
