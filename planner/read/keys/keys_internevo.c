/* InternEvo's configuration in Python. Source: InternEvo 0.3.4, configs/7B_isp_sft.py, internlm/initialize/launch.py.
 */
#include "planner/read/keys/key_rows.h"

/* clang-format off */
static const redcoi_trainer_key keys[] = {
    {"parallel.tensor.size", OPTION, "tp", NULL},
    {"parallel.tensor.mode", OPTION, "sequence-parallel", "mtp=off msp=on fsp=on isp=on"},
    {"parallel.pipeline.size", OPTION, "pp", NULL},
    {"parallel.zero1.size", OPTION, ".zero1-group", "-1= *=*"},
    {"parallel.zero1.fsdp", OPTION, ".zero1-fsdp", YES},
    {"parallel.weight.size", OPTION, ".weight-group", NULL},
    {"data.seq_len", OPTION, "seq", NULL},
    {"data.micro_num", OPTION, ".accumulation", NULL},
    {"data.micro_bsz", OPTION, "micro-batch", NULL},
    {"model.num_chunks", OPTION, "pp-chunks", NULL},
    {"model.checkpoint", OPTION, ".checkpointing", "true=full false=none 1.0=full 0.0=none *=*"},
    {"model.dtype", OPTION, ".mixed-precision", "torch.bfloat16=bf16 torch.float16=fp16 torch.float32=fp32 torch.tf32=fp32"},
    {"model.use_flash_attn", TRAIT, "attention", "true= false=unfused"},
    {"model.num_layers", MODEL, "num_hidden_layers", NULL},
    {"model.hidden_size", MODEL, "hidden_size", NULL},
    {"model.num_attention_heads", MODEL, "num_attention_heads", NULL},
    {"model.num_kv_attention_heads", MODEL, "num_key_value_heads", NULL},
    {"model.vocab_size", MODEL, "vocab_size", NULL},
    {"model.mlp_ratio", MODEL, ".mlp-ratio", NULL},
    {"VOCAB_SIZE", MODEL, "vocab_size", NULL},
    HARMLESS("model_type"), HARMLESS("model.*"),
    {"hybrid_zero_optimizer.overlap_sync_grad", ENGINE, "as the engine hides gradients", NULL},
    {"hybrid_zero_optimizer.overlap_sync_param", ENGINE, "as the engine hides parameters", NULL},
    HARMLESS("hybrid_zero_optimizer.*"),
    {"parallel.*", ENGINE, "as the engine has it", NULL},
    HARMLESS("data.*"), HARMLESS("ckpt.*"), HARMLESS("loss.*"), HARMLESS("adam.*"), HARMLESS("lr_scheduler.*"),
    HARMLESS("beta2_scheduler.*"), HARMLESS("grad_scaler.*"), HARMLESS("monitor.*"), HARMLESS("cudnn_*"),
    HARMLESS("JOB_NAME"), HARMLESS("DO_ALERT"), HARMLESS("use_fp32_norm"), HARMLESS("generation.*"),
    END_OF_KEYS,
};
/* clang-format on */

static const char *const defaults[] = {"tp",
                                       "1",
                                       "pp",
                                       "1",
                                       "cp",
                                       "1",
                                       ".checkpointing",
                                       "none",
                                       ".precision",
                                       "bf16",
                                       ".accumulation",
                                       "1",
                                       ".positions",
                                       "rope",
                                       ".norm",
                                       "RMSNorm",
                                       ".gated",
                                       "yes",
                                       ".untied",
                                       "yes",
                                       ".dropout",
                                       "0",
                                       ".no-biases",
                                       "yes",
                                       NULL};

const redcoi_trainer redcoi_internevo_keys = {
    .word = "internevo", .title = "InternEvo", .engine = "internevo", .keys = keys, .defaults = defaults};
