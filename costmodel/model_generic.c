#include "costmodel/model_build.h"

#include <stdlib.h>
#include <string.h>

static redco_status check(const redco_model_dims *dims, const char *name, redco_error *err)
{
    const struct {
        const char *what;
        uint64_t value, max;
    } limits[] = {
        {"layers", dims->layers, REDCOI_MAX_LAYERS},    {"hidden size", dims->hidden, REDCOI_MAX_WIDTH},
        {"FFN width", dims->ffn, REDCOI_MAX_FFN},       {"heads", dims->heads, REDCOI_MAX_HEADS},
        {"KV heads", dims->kv_heads, REDCOI_MAX_HEADS}, {"head size", dims->head_dim, REDCOI_MAX_WIDTH},
        {"vocabulary", dims->vocab, REDCOI_MAX_ROWS},
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (limits[i].value == 0 || limits[i].value > limits[i].max) {
            return redco_fail(err, REDCO_EVALUE, name, "%s is %llu; 1 to %llu are possible", limits[i].what,
                              (unsigned long long)limits[i].value, (unsigned long long)limits[i].max);
        }
    }
    if (dims->heads % dims->kv_heads != 0) {
        return redco_fail(err, REDCO_EVALUE, name, "%u KV heads do not divide %u heads", dims->kv_heads, dims->heads);
    }
    return REDCO_OK;
}

static void add_layers(redcoi_build *build)
{
    const redco_model_dims *const dims = &build->model->dims;
    const uint64_t h = dims->hidden;
    const uint64_t q = (uint64_t)dims->heads * dims->head_dim, kv = (uint64_t)dims->kv_heads * dims->head_dim;
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "");
    redcoi_table(build, "embedding", dims->vocab, h);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "layers.{}.");
    redcoi_rms_norm(build, "attention_norm", h);
    redcoi_linear(build, "q", q, h, false);
    redcoi_linear(build, "k", kv, h, false);
    redcoi_linear(build, "v", kv, h, false);
    redcoi_linear(build, "out", h, q, false);
    redcoi_rms_norm(build, "ffn_norm", h);
    if (dims->gated) { redcoi_linear(build, "ffn_gate", dims->ffn, h, false); }
    redcoi_linear(build, "ffn_in", dims->ffn, h, false);
    redcoi_linear(build, "ffn_out", h, dims->ffn, false);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_rms_norm(build, "final_norm", h);
    if (!dims->tied) { redcoi_linear(build, "head", dims->vocab, h, false); }
}

redco_status redco_model_from_dims(const redco_model_dims *dims, const char *name, redco_model **model_out,
                                   redco_error *err)
{
    const redco_status st = check(dims, name, err);
    if (st != REDCO_OK) { return st; }
    redco_model *const model = calloc(1, sizeof *model);
    char *const copy = strdup(name);
    if (model == NULL || copy == NULL) {
        free(model);
        free(copy);
        return redco_fail(err, REDCO_ENOMEM, name, "out of memory");
    }
    model->name = copy;
    model->type = "generic";
    model->dims = *dims;
    redcoi_build build = {.model = model, .config = {.name = name}, .prefix = "", .status = REDCO_OK, .err = err};
    add_layers(&build);
    for (size_t i = 0; i < model->class_count; i++) { /* within the limits above no product overflows */
        model->total_params += model->classes[i].params * model->classes[i].layers;
    }
    if (!redcoi_building(&build)) {
        redco_model_free(model);
        return build.status;
    }
    *model_out = model;
    return REDCO_OK;
}
