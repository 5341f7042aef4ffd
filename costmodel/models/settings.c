/* Settings of a family from its config.json. */
#include "costmodel/models/decoder.h"

#include <string.h>

double redcoi_read_number(redcoi_reader *r, const char *key, double fallback, double min, double max)
{
    double value = fallback;
    if (r->status == REDCO_OK && redco_json_has(&r->config, key)) {
        r->status = redco_json_number(&r->config, key, min, max, &value, r->err);
    }
    return value;
}

bool redcoi_read_bool(redcoi_reader *r, const char *key, bool fallback)
{
    bool value = fallback;
    if (r->status == REDCO_OK && redco_json_has(&r->config, key)) {
        r->status = redco_json_bool(&r->config, key, &value, r->err);
    }
    return value;
}

uint64_t redcoi_read_count(redcoi_reader *r, const char *key, uint64_t fallback, uint64_t max)
{
    uint64_t value = fallback;
    if (r->status == REDCO_OK && redco_json_has(&r->config, key)) {
        r->status = redco_json_u64(&r->config, key, 0, max, &value, r->err);
    }
    return value;
}

void redcoi_read_fail(redcoi_reader *r, const char *key, const char *text)
{
    if (r->status == REDCO_OK) { r->status = redco_json_fail(&r->config, key, r->err, "%s", text); }
}

/* Names of transformers' activations (ACT2FN). "gelu_fast" is "gelu_new" with its constant cut to ten digits. */
static const struct {
    const char *name;
    redcoi_activation activation;
} activations[] = {
    {"silu", REDCOI_ACTIVATION_SILU},           {"swish", REDCOI_ACTIVATION_SILU},
    {"gelu", REDCOI_ACTIVATION_GELU},           {"gelu_new", REDCOI_ACTIVATION_GELU_TANH},
    {"gelu_fast", REDCOI_ACTIVATION_GELU_TANH}, {"gelu_pytorch_tanh", REDCOI_ACTIVATION_GELU_TANH},
    {"relu", REDCOI_ACTIVATION_RELU},
};

redcoi_activation redcoi_read_activation(redcoi_reader *r, const char *key, redcoi_activation fallback)
{
    const char *name = NULL;
    if (r->status != REDCO_OK || !redco_json_has(&r->config, key)) { return fallback; }
    r->status = redco_json_string(&r->config, key, &name, r->err);
    if (r->status != REDCO_OK) { return fallback; }
    for (size_t i = 0; i < sizeof activations / sizeof activations[0]; i++) {
        if (strcmp(activations[i].name, name) == 0) { return activations[i].activation; }
    }
    r->status = redco_json_fail(&r->config, key, r->err,
                                "\"%.40s\" is not an activation that the executor has: silu, swish, gelu, gelu_new, "
                                "gelu_fast, gelu_pytorch_tanh, relu",
                                name);
    return fallback;
}

/* Scaling factors are 1 or more; no model is scaled beyond this. */
static const double factor_max = 1e6;

static void read_llama3(redcoi_reader *scaling, redcoi_rope *rope)
{
    rope->kind = REDCOI_ROPE_LLAMA3;
    rope->low = redcoi_read_number(scaling, "low_freq_factor", 1.0, 1e-3, factor_max);
    rope->high = redcoi_read_number(scaling, "high_freq_factor", 4.0, 1e-3, factor_max);
    rope->old_positions = redcoi_read_number(scaling, "original_max_position_embeddings", 8192.0, 1.0, 1e9);
    if (rope->high <= rope->low) { redcoi_read_fail(scaling, "high_freq_factor", "must be above low_freq_factor"); }
}

void redcoi_read_rope_scaling(redcoi_reader *r, redcoi_rope *rope)
{
    const char *kind = NULL;
    redcoi_reader scaling = {.err = r->err};
    rope->kind = REDCOI_ROPE_PLAIN;
    if (r->status != REDCO_OK || !redco_json_has(&r->config, "rope_scaling")) { return; }
    r->status = redco_json_object(&r->config, "rope_scaling", &scaling.config, r->err);
    if (r->status != REDCO_OK) { return; }
    const char *const key = redco_json_has(&scaling.config, "rope_type") ? "rope_type" : "type"; /* its older name */
    r->status = redco_json_string(&scaling.config, key, &kind, r->err);
    if (r->status != REDCO_OK || strcmp(kind, "default") == 0) { return; }
    if (strcmp(kind, "linear") == 0) {
        rope->kind = REDCOI_ROPE_LINEAR;
    } else if (strcmp(kind, "llama3") == 0) {
        read_llama3(&scaling, rope);
    } else {
        r->status = redco_json_fail(&scaling.config, key, r->err,
                                    "\"%.40s\" is not a scaling that the executor has: default, linear, llama3", kind);
        return;
    }
    if (!redco_json_has(&scaling.config, "factor")) { redcoi_read_fail(&scaling, "factor", "is missing"); }
    rope->factor = redcoi_read_number(&scaling, "factor", 1.0, 1.0, factor_max);
    r->status = scaling.status;
}
