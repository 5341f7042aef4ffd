#include "tools/plan/plan_words.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WORD_BYTES = 64, WORDS_KEPT = 64 };

/* Words of PyTorch (ShardingStrategy), DeepSpeed, transformers (training_args.py, OptimizerNames) and configurations.
 */
static const char *const others[][3] = {
    {"strategy", "zero-0", "ddp"},
    {"strategy", "zero0", "ddp"},
    {"strategy", "no_shard", "ddp"},
    {"strategy", "dp", "ddp"},
    {"strategy", "zero-1", "zero1"},
    {"strategy", "zero-2", "zero2"},
    {"strategy", "shard_grad_op", "zero2"},
    {"strategy", "zero-3", "zero3"},
    {"strategy", "fsdp2", "fsdp"},
    {"strategy", "full_shard", "fsdp"},
    {"strategy", "hybrid_shard", "hsdp"},
    {"strategy", "zero++", "zeropp"},
    {"precision", "bfloat16", "bf16"},
    {"precision", "float16", "fp16"},
    {"precision", "half", "fp16"},
    {"precision", "float32", "fp32"},
    {"precision", "float8", "fp8"},
    {"recompute", "false", "none"},
    {"recompute", "off", "none"},
    {"recompute", "true", "full"},
    {"recompute", "on", "full"},
    {"optimizer", "adam", "adamw"},
    {"optimizer", "adamw_torch", "adamw"},
    {"optimizer", "adamw_torch_fused", "adamw"},
    {"optimizer", "adamw_hf", "adamw"},
    {"optimizer", "adamw_8bit", "adamw-8bit"},
    {"optimizer", "adamw_bnb_8bit", "adamw-8bit"},
    {"optimizer", "paged_adamw_8bit", "adamw-8bit"},
    {"optimizer", "adam8bit", "adamw-8bit"},
    {"optimizer", "lion_32bit", "lion"},
};

const char *plan_word(const char *option, const char *text)
{
    static char kept[WORDS_KEPT][WORD_BYTES];
    static unsigned next;
    if (text == NULL) { return NULL; }
    char *const written = kept[next++ % WORDS_KEPT];
    const size_t length = strlen(text), digits = strspn(text, "0123456789");
    if (strcmp(option, "seq") == 0 && digits > 0 && digits < 7 && digits + 1 == length &&
        tolower(text[digits]) == 'k') {
        (void)snprintf(written, (size_t)WORD_BYTES, "%lu", strtoul(text, NULL, 10) * 1024);
        return written;
    }
    bool words = false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i][0], option) != 0) { continue; }
        words = true;
        if (strcasecmp(others[i][1], text) == 0) { return others[i][2]; }
    }
    if (!words || length >= (size_t)WORD_BYTES) { return text; }
    for (size_t i = 0; i <= length; i++) { written[i] = (char)tolower((unsigned char)text[i]); }
    return written;
}

const char *plan_word_engines(const char *trainer)
{
    static const char *const above[] = {"accelerate",    "axolotl",      "hf",       "huggingface",
                                        "llama-factory", "llamafactory", "ms-swift", "swift",
                                        "trainer",       "transformers", "trl",      "unsloth"};
    for (size_t i = 0; i < sizeof above / sizeof above[0]; i++) {
        if (strcasecmp(above[i], trainer) == 0) {
            return "transformers-ddp, transformers-fsdp or transformers-deepspeed, by how states are sharded";
        }
    }
    return NULL;
}
