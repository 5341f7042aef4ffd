/* Facts of files become --trainable: adapters, their rank, the matrices that they stand beside. */
#include "planner/read/read_facts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Names of matrices in configs of transformers, NeMo and Megatron-Bridge; those of LLaMA's are redco's words already.
 */
static const char *const names[][2] = {{"all", "all"},
                                       {"all-linear", "all"},
                                       {"q_proj", "q"},
                                       {"k_proj", "k"},
                                       {"v_proj", "v"},
                                       {"qkv_proj", "qkv"},
                                       {"query_key_value", "qkv"},
                                       {"Wqkv", "qkv"},
                                       {"W_pack", "qkv"},
                                       {"c_attn", "qkv"},
                                       {"linear_qkv", "qkv"},
                                       {"attention_qkv", "qkv"},
                                       {"o_proj", "o"},
                                       {"out_proj", "o"},
                                       {"dense", "o"},
                                       {"wo", "o"},
                                       {"linear_proj", "o"},
                                       {"attention_dense", "o"},
                                       {"attention", "attention"},
                                       {"gate_proj", "gate"},
                                       {"up_proj", "up"},
                                       {"gate_up_proj", "gate"},
                                       {"dense_h_to_4h", "up"},
                                       {"fc1", "up"},
                                       {"c_fc", "up"},
                                       {"linear_fc1", "gate+up"},
                                       {"mlp_fc1", "gate+up"},
                                       {"down_proj", "down"},
                                       {"dense_4h_to_h", "down"},
                                       {"fc2", "down"},
                                       {"linear_fc2", "down"},
                                       {"mlp_fc2", "down"},
                                       {"mlp", "mlp"}};

static void not_priced(redco_reading *reading, const char *target, const char *value, const char *what)
{
    const redcoi_fact *const fact = redcoi_said(reading, target);
    const redcoi_setting *const setting = &reading->settings.items[fact->setting];
    char place[300];
    (void)redcoi_setting_place(&reading->settings, setting->file, setting->line, place, sizeof place);
    redcoi_list_add(reading, REDCO_READ_NOT_UNDERSTOOD, setting->key, value, place, what);
}

static const char *name_of(const char *word, size_t length)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i][0]) == length && strncmp(names[i][0], word, length) == 0) { return names[i][1]; }
    }
    return NULL;
}

static void add_word(char *out, size_t size, const char *word)
{
    const size_t used = strlen(out);
    (void)snprintf(out + used, size - used, "%s%s", used > 0 ? "+" : "", word);
}

/* "q_proj,v_proj", "['q_proj', 'v_proj']": names that are not known are said. */
static void read_names(redco_reading *reading, const char *text, char *out, size_t size)
{
    for (const char *c = text; *c != '\0';) {
        size_t length = 0;
        while (isalnum((unsigned char)c[length]) || c[length] == '_' || c[length] == '-') { length++; }
        if (length == 0) {
            c++;
            continue;
        }
        const char *const word = name_of(c, length);
        if (word != NULL) {
            add_word(out, size, word);
        } else {
            char name[60];
            (void)snprintf(name, sizeof name, "%.*s", (int)(length < 59 ? length : 59), c);
            not_priced(reading, ".adapter-targets", name, "an adapter of this matrix: not known, and not priced");
        }
        c += length;
    }
}

/* LitGPT has a key for each. */
static void read_switches(redco_reading *reading, char *out, size_t size)
{
    static const char *const targets[][3] = {{".adapter-q", "q", "yes"},
                                             {".adapter-k", "k", "no"},
                                             {".adapter-v", "v", "yes"},
                                             {".adapter-o", "o", "no"},
                                             {".adapter-mlp", "mlp", "no"}};
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        const char *const said = redcoi_value(reading, targets[i][0]);
        if (strcmp(said != NULL ? said : targets[i][2], "yes") == 0) { add_word(out, size, targets[i][1]); }
    }
}

/* Where no key says it: LitGPT's flags; LlamaFactory and ms-swift adapt all, PEFT of its own q and v
 * (LlamaFactory ff6d4d12, hparams/finetuning_args.py:81; peft 5d602fdb, utils/constants.py). */
static void read_targets(redco_reading *reading, char *out, size_t size)
{
    const redcoi_fact *const adapter = redcoi_said(reading, ".adapter");
    const char *const list = redcoi_whole_text(reading, ".adapter-targets");
    out[0] = '\0';
    if (redcoi_has_trainer(reading, "litgpt")) {
        read_switches(reading, out, size);
    } else if (redcoi_is(reading, ".adapter-all", "yes")) {
        add_word(out, size, "all");
    } else if (list != NULL) {
        read_names(reading, list, out, size);
    }
    if (out[0] != '\0') { return; }
    const bool peft = adapter != NULL && strncmp(adapter->row->key, "use_", 4) == 0;
    add_word(out, size, peft ? "q+v" : "all");
    redcoi_assume(reading, "adapters beside %s (--trainable): no key says which", peft ? "q and v" : "all matrices");
}

void redcoi_settle_adapters(redco_reading *reading)
{
    const char *const method = redcoi_value(reading, ".adapter");
    const bool some = method != NULL ? strcmp(method, "none") != 0 : redcoi_said(reading, ".adapter-rank") != NULL;
    const char *const bits = redcoi_value(reading, ".adapter-bits");
    char targets[200], text[300];
    if (bits != NULL && (!some || strcmp(bits, "4") != 0)) {
        not_priced(reading, ".adapter-bits", bits, "quantised weights: priced in the width of training");
    }
    if (!some || redcoi_given(reading, "trainable")) { return; }
    if (method != NULL && strcmp(method, "lora") != 0 && strcmp(method, "qlora") != 0) {
        not_priced(reading, ".adapter", method, "adapters or frozen layers: priced as if all parameters were trained");
        return;
    }
    uint64_t rank = redcoi_fact_number(reading, ".adapter-rank", 0);
    if (rank == 0) {
        rank = 8;
        redcoi_assume(reading, "adapters of rank 8, as PEFT has them (--trainable): no key says it");
    }
    read_targets(reading, targets, sizeof targets);
    const bool four = (bits != NULL && strcmp(bits, "4") == 0) || (method != NULL && strcmp(method, "qlora") == 0);
    (void)snprintf(text, sizeof text, "%s:r=%llu%s%s", four ? "qlora" : "lora", (unsigned long long)rank,
                   strcmp(targets, "all") == 0 ? "" : ",targets=", strcmp(targets, "all") == 0 ? "" : targets);
    redcoi_set_option(reading, "trainable", text,
                      redcoi_said(reading, ".adapter-rank") != NULL ? ".adapter-rank" : NULL);
}
