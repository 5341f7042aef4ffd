/* ms-swift's training by Megatron Core: "megatron sft" with arguments, or its YAML. Its other trainers have the keys of
 * transformers. Source: ms-swift 3.10 to 4.0, swift/megatron/arguments, examples/megatron. */
#include "planner/read/keys/key_rows.h"

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"model", MODEL, "model", NULL},
    {"max_length", OPTION, "seq", NULL},
    {"micro_batch_size", OPTION, "micro-batch", NULL},
    {"torch_dtype", OPTION, ".mixed-precision", "bfloat16=bf16 float16=fp16 float32=fp32"},
    {"recompute_granularity", OPTION, ".recompute", "full=full selective=selective none=none"},
    {"tuner_type", OPTION, ".adapter", "full=none *=*"},
    {"train_type", OPTION, ".adapter", "full=none *=*"},
    {"lora_rank", OPTION, ".adapter-rank", NULL},
    {"target_modules", OPTION, ".adapter-targets", NULL},
    {"freeze_*", LIMIT, "frozen layers: priced as if all parameters were trained", "false= *=*"},
    {"rlhf_type", LIMIT, "more than one model, or a loss of its own", NULL},
    {"packing", ENGINE, "sequences are full", NULL}, {"padding_free", ENGINE, "sequences are full", NULL},
    HARMLESS("lora_*"), HARMLESS("merge_lora"), HARMLESS("load_from_cache_file"),
    HARMLESS("num_train_epochs"), HARMLESS("max_epochs"), HARMLESS("output_dir"), HARMLESS("dataset*"),
    HARMLESS("split_dataset_ratio"), HARMLESS("model_author"), HARMLESS("model_name"), HARMLESS("model_type"),
    HARMLESS("add_version"), HARMLESS("add_non_thinking_prefix"), HARMLESS("system"), HARMLESS("use_hf"),
    HARMLESS("ENV.*"), HARMLESS("use_chat_template"), HARMLESS("strict"), HARMLESS("columns"), HARMLESS("template"),
    HARMLESS("enable_thinking"), HARMLESS("attn_impl"), HARMLESS("export_*"), HARMLESS("save_safetensors"),
    HARMLESS("val_dataset"), HARMLESS("truncation_strategy"), HARMLESS("report_to"),
    END_OF_KEYS,
};
/* clang-format on */

static const char *const defaults[] = {"tp",
                                       "1",
                                       "pp",
                                       "1",
                                       "cp",
                                       "1",
                                       "etp",
                                       "1",
                                       ".optimizer-shards",
                                       "yes",
                                       ".overlap",
                                       "flags",
                                       ".recompute",
                                       "selective",
                                       ".precision",
                                       "bf16",
                                       "micro-batch",
                                       "1",
                                       "global-batch",
                                       "16",
                                       NULL};

const redcoi_trainer redcoi_swift_keys = {.word = "ms-swift",
                                          .title = "ms-swift, Megatron Core",
                                          .engine = "megatron-lm",
                                          .keys = keys,
                                          .defaults = defaults,
                                          .core = &redcoi_megatron_keys,
                                          .core_section = ""};
