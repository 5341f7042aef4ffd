/* The model: by its name, or by the dimensions that the keys state. */
#include "planner/read/read_facts.h"

#include "topology/base/number.h"
#include "topology/base/preset.h"

#include <stdio.h>
#include <string.h>

static const char *const numbers[] = {"num_hidden_layers",
                                      "hidden_size",
                                      "intermediate_size",
                                      "num_attention_heads",
                                      "num_key_value_heads",
                                      "head_dim",
                                      "vocab_size",
                                      "max_position_embeddings",
                                      "num_experts",
                                      "num_experts_per_tok",
                                      "moe_intermediate_size",
                                      "shared_expert_intermediate_size",
                                      "num_nextn_predict_layers",
                                      "q_lora_rank",
                                      "kv_lora_rank",
                                      "qk_nope_head_dim",
                                      "qk_rope_head_dim",
                                      "v_head_dim",
                                      NULL};

static void set(json_t *config, const char *key, uint64_t value)
{
    (void)json_object_set_new(config, key, json_integer((json_int_t)value));
}

static bool is_zero(const char *value)
{
    double number = 1.0;
    return value != NULL && redco_real_parse(value, 0.0, 1.0, &number) && number == 0.0;
}

/* Words of vocabularies that tokenizers have by themselves. */
static uint64_t vocabulary(redco_reading *reading)
{
    static const struct {
        const char *word;
        uint64_t size;
    } known[] = {{"GPT2BPE", 50257}, {"Llama2", 32000}, {"Llama3", 128256}, {"SentencePiece", 32000}};
    const uint64_t said = redcoi_fact_number(reading, "vocab_size", 0);
    const char *const tokenizer = redcoi_known(reading, ".tokenizer"), *const from =
                                                                           redcoi_known(reading, ".tokenizer-model");
    if (said > 0) { return said; }
    const redco_preset *const preset = from != NULL ? redco_preset_model(from) : NULL;
    json_t *const config = preset != NULL ? json_loadb(preset->text, preset->size, 0, NULL) : NULL;
    const json_int_t size = json_integer_value(json_object_get(config, "vocab_size"));
    json_decref(config);
    if (size > 0) {
        redcoi_assume(reading, "a vocabulary of %lld, that of %.80s", (long long)size, preset->name);
        return (uint64_t)size;
    }
    for (size_t i = 0; tokenizer != NULL && i < sizeof known / sizeof known[0]; i++) {
        if (strstr(tokenizer, known[i].word) == NULL) { continue; }
        redcoi_assume(reading, "a vocabulary of %llu, that of %.40s", (unsigned long long)known[i].size, tokenizer);
        return known[i].size;
    }
    redcoi_assume(reading, "a vocabulary of 50257, GPT-2's: no key says it");
    return known[0].size;
}

/* Blocks as LLaMA's have no dropout: where a trainer has some, the dimensions alone stand. */
static const char *family_of(redco_reading *reading, bool dropout)
{
    const char *const norm = redcoi_value(reading, ".norm"), *const positions = redcoi_value(reading, ".positions");
    const bool rms = norm != NULL && strcmp(norm, "RMSNorm") == 0, gated = redcoi_is(reading, ".gated", "yes");
    const bool turned = positions != NULL && strcmp(positions, "rope") == 0;
    const bool grouped = redcoi_value(reading, "num_key_value_heads") != NULL;
    if (redcoi_fact_number(reading, "num_experts", 0) > 0 || redcoi_is(reading, ".latent", "yes")) { return "generic"; }
    if (rms && gated && turned && !dropout) {
        return redcoi_is(reading, ".head-norms", "yes") ? "qwen3"
               : redcoi_is(reading, ".qkv-bias", "yes") ? "qwen2"
                                                        : "llama";
    }
    if (!rms && !gated && !turned && !grouped && redcoi_value(reading, "head_dim") == NULL) { return "gpt2"; }
    return "generic";
}

static void add_gpt2(redco_reading *reading, json_t *config, bool dropout)
{
    static const char *const names[][2] = {{"hidden_size", "n_embd"},
                                           {"intermediate_size", "n_inner"},
                                           {"num_hidden_layers", "n_layer"},
                                           {"num_attention_heads", "n_head"},
                                           {"max_position_embeddings", "n_positions"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        json_t *const value = json_object_get(config, names[i][0]);
        if (value == NULL) { continue; }
        (void)json_object_set(config, names[i][1], value);
        (void)json_object_del(config, names[i][0]);
    }
    const double drop = dropout ? 0.1 : 0.0;
    (void)json_object_set_new(config, "resid_pdrop", json_real(drop));
    (void)json_object_set_new(config, "attn_pdrop", json_real(drop));
    (void)json_object_set_new(config, "embd_pdrop", json_real(drop));
    (void)json_object_set_new(config, "tie_word_embeddings", json_boolean(!redcoi_is(reading, ".untied", "yes")));
}

/* The FFN of Megatron-LM where no key says it: 4 h, of a gated one two thirds of that in multiples of 64. */
static uint64_t inner_width(uint64_t hidden, bool gated)
{
    return gated ? (uint64_t)(4.0 * (double)hidden * 2.0 / 3.0 / 64.0) * 64 : 4 * hidden;
}

static json_t *config_of(redco_reading *reading)
{
    const bool gated = redcoi_is(reading, ".gated", "yes");
    const bool dropout = !is_zero(redcoi_value(reading, ".dropout")) && redcoi_value(reading, ".dropout") != NULL;
    const char *const family = family_of(reading, dropout);
    const bool generic = strcmp(family, "generic") == 0;
    const char *const path = reading->settings.files[0].path, *const slash = strrchr(path, '/');
    json_t *const config = json_pack("{s:s,s:s}", "model_type", family, "_name", slash != NULL ? slash + 1 : path);
    if (redcoi_value(reading, "num_attention_heads") == NULL && reading->status == REDCO_OK) {
        reading->status = redco_fail(reading->err, REDCO_EVALUE, path,
                                     "states a model without its attention heads: --model is needed");
    }
    if (config == NULL) { return NULL; }
    for (size_t i = 0; numbers[i] != NULL; i++) {
        const uint64_t number = redcoi_fact_number(reading, numbers[i], 0);
        const bool heads = strcmp(numbers[i], "num_key_value_heads") == 0;
        if (number > 0 && !(heads && redcoi_said(reading, ".grouped-heads") == NULL && strcmp(family, "gpt2") == 0)) {
            set(config, numbers[i], number);
        }
    }
    set(config, "vocab_size", vocabulary(reading));
    const char *const mlp = redcoi_value(reading, ".mlp-ratio");
    double mlp_ratio = 0.0;
    if (mlp != NULL && redco_real_parse(mlp, 0.1, 100.0, &mlp_ratio)) {
        set(config, "intermediate_size",
            (uint64_t)(mlp_ratio * (double)redcoi_fact_number(reading, "hidden_size", 0) + 0.5));
    }
    const uint64_t ratio = redcoi_fact_number(reading, ".expansion", 0);
    if (ratio > 0) { set(config, "intermediate_size", ratio * redcoi_fact_number(reading, "hidden_size", 0)); }
    if (json_object_get(config, "intermediate_size") == NULL) {
        set(config, "intermediate_size", inner_width(redcoi_fact_number(reading, "hidden_size", 0), gated));
    }
    if (strcmp(family, "gpt2") == 0) {
        add_gpt2(reading, config, dropout);
        return config;
    }
    (void)json_object_set_new(config, "tie_word_embeddings", json_boolean(!redcoi_is(reading, ".untied", "yes")));
    if (json_object_get(config, "num_experts") != NULL) { /* Megatron-LM's defaults */
        (void)json_object_set_new_nocheck(
            config, "moe_intermediate_size",
            json_integer((json_int_t)redcoi_fact_number(
                reading, "moe_intermediate_size",
                (uint64_t)json_integer_value(json_object_get(config, "intermediate_size")))));
        set(config, "num_experts_per_tok", redcoi_fact_number(reading, "num_experts_per_tok", 2));
    }
    if (generic) {
        (void)json_object_del(config, "max_position_embeddings");
        (void)json_object_set_new(config, "gated", json_boolean(gated));
        (void)json_object_set_new(config, "hidden_dropout", json_real(dropout ? 0.1 : 0.0));
        if (!redcoi_is(reading, ".no-biases", "yes")) {
            redcoi_assume(reading, "biases of linear layers are not counted");
        }
    }
    return config;
}

/* The first dense layers, or every n-th: "([0]*3+[1]*58)", "1". */
static void settle_dense(redco_reading *reading)
{
    const char *const layers = redcoi_value(reading, ".moe-layers");
    unsigned dense = 0;
    if (layers == NULL || strcmp(layers, "1") == 0 || reading->model == NULL) { return; }
    if (sscanf(layers, "([0]*%u+", &dense) == 1 || sscanf(layers, "[0]*%u+", &dense) == 1) { /* NOLINT(cert-err34-c) */
        set(reading->model, "first_k_dense_replace", dense);
        return;
    }
    redcoi_assume(reading, "all layers have experts: --moe-layer-freq %.60s is not followed", layers);
}

/* torchtitan's "llama3" and "8B", MLPerf's "405b". */
static void settle_flavor(redco_reading *reading)
{
    static const struct {
        const char *family, *flavor, *model;
    } known[] = {{"llama3", "8B", "llama-3.1-8b"},
                 {"llama3", "70B", "llama-3.1-70b"},
                 {"llama3", "405B", "llama-3.1-405b"},
                 {"llama3_ft", "8B", "llama-3.1-8b"},
                 {"llama2", "7B", "llama-2-7b"},
                 {"llama2", "13B", "llama-2-13b"},
                 {"llama2", "70B", "llama-2-70b"},
                 {"deepseek_v3", "671B", "deepseek-v3"},
                 {"deepseek_v3", "16B", "deepseek-v2-lite"},
                 {"llama4", "17bx16e", "llama-4-scout"},
                 {"llama4", "17bx128e", "llama-4-maverick"},
                 {"qwen3", "0.6B", "qwen3-0.6b"},
                 {"qwen3", "4B", "qwen3-4b"},
                 {"qwen3", "8B", "qwen3-8b"},
                 {"qwen3", "14B", "qwen3-14b"},
                 {"qwen3", "32B", "qwen3-32b"},
                 {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
                 {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
                 {"mlperf", "405b", "llama-3.1-405b"},
                 {"mlperf", "8b", "llama-3.1-8b"}};
    const char *const target = redcoi_value(reading, ".size") != NULL ? ".size" : ".flavor";
    const char *const flavor = redcoi_value(reading, target);
    const char *const family = strcmp(target, ".size") == 0 ? "mlperf" : redcoi_value(reading, ".family");
    if (flavor == NULL) { return; }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcasecmp(known[i].flavor, flavor) == 0 && (family == NULL || strcmp(known[i].family, family) == 0)) {
            redcoi_set_option(reading, "model", known[i].model, target);
            return;
        }
    }
    char text[160];
    (void)snprintf(text, sizeof text, "%.60s-%.60s", family != NULL ? family : "", flavor);
    if (redco_preset_model(text) != NULL) { /* "qwen3" and "1.7B" */
        redcoi_set_option(reading, "model", redco_preset_model(text)->name, target);
        return;
    }
    (void)snprintf(text, sizeof text, "\"%.40s\" of %.40s is no model that redco has: give it as --model", flavor,
                   family != NULL ? family : "torchtitan");
    (void)redcoi_fact_fail(reading, redcoi_said(reading, target), text);
}

/* MLPerf's model before rounds named one. */
static void settle_gpt3(redco_reading *reading)
{
    reading->model = json_pack("{s:s,s:s,s:i,s:i,s:i,s:i,s:i,s:f,s:f,s:f}", "model_type", "gpt2", "_name", "GPT-3-175B",
                               "n_layer", 96, "n_embd", 12288, "n_head", 96, "n_positions", 2048, "vocab_size", 51200,
                               "resid_pdrop", 0.0, "attn_pdrop", 0.0, "embd_pdrop", 0.0);
    if (reading->model == NULL) { reading->status = redco_fail(reading->err, REDCO_ENOMEM, "", "out of memory"); }
    redcoi_assume(reading,
                  "GPT-3 175B with sequences of 2048 tokens: no MODEL_SIZE, as in rounds before 4.1 (--model, --seq)");
}

void redcoi_settle_model(redco_reading *reading)
{
    const char *const by = redcoi_said(reading, "model") != NULL ? "model" : ".model-name";
    const char *const name = redcoi_given(reading, "model") ? NULL : redcoi_value(reading, by);
    if (reading->status != REDCO_OK || redcoi_given(reading, "model")) { return; }
    if (redcoi_value(reading, "num_hidden_layers") != NULL && redcoi_value(reading, "hidden_size") != NULL) {
        reading->model = config_of(reading);
        if (reading->model == NULL) { reading->status = redco_fail(reading->err, REDCO_ENOMEM, "", "out of memory"); }
        settle_dense(reading);
    } else if (name != NULL) {
        static const char folder[] = "checkpoints/"; /* litgpt download puts a model of the hub there */
        const bool there = strncmp(name, folder, sizeof folder - 1) == 0 && redcoi_has_trainer(reading, "litgpt");
        redcoi_set_option(reading, "model", there ? name + sizeof folder - 1 : name, by);
    } else if (redcoi_value(reading, ".flavor") != NULL || redcoi_value(reading, ".size") != NULL) {
        settle_flavor(reading);
    } else if (redcoi_said(reading, ".lora") != NULL) {
        redcoi_assume(reading, "Llama 2 70B with sequences of 8192 tokens: the benchmark of adapters (--model, --seq)");
        redcoi_set_option(reading, "model", "llama-2-70b", ".lora");
        if (!redcoi_given(reading, "trainable")) { /* rules of the benchmark: r = 16 beside q, k, v and o */
            redcoi_set_option(reading, "trainable", "lora:r=16,targets=attention", ".lora");
        }
    } else if (redcoi_has_trainer(reading, "mlperf")) {
        settle_gpt3(reading);
    } else {
        redcoi_assume(reading, "llama-7b (--model): no key names a model");
    }
}
