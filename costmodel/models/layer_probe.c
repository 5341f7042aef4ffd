/* Axes of tensors, and graphs of layers at sizes whose factors tell the axes. */
#include "costmodel/models/layer_probe.h"

#include <stdlib.h>

/* Sums of two axes are told by a factor of their own, too: 37 = 14 + 23 of heads, 94 = 2 x 47 = 71 + 23, 97 = 14 + 83.
 */
enum { KV_HEADS = 17 * REDCOI_PROBE_RANKS, GROUP = 29, GROUP_AND_TWO = 31 };
static const uint64_t probe_sizes[REDCO_AXIS_COUNT] = {[REDCO_AXIS_BATCH] = REDCOI_PROBE_BATCH,
                                                       [REDCO_AXIS_SEQUENCE] = REDCOI_PROBE_LENGTH,
                                                       [REDCO_AXIS_KV_HEADS] = KV_HEADS,
                                                       [REDCO_AXIS_HEAD_DIM] = 37,
                                                       [REDCO_AXIS_HIDDEN] = 41,
                                                       [REDCO_AXIS_FFN] = 43 * REDCOI_PROBE_RANKS,
                                                       [REDCO_AXIS_VOCAB] = 211 * REDCOI_PROBE_RANKS,
                                                       [REDCO_AXIS_TABLE_WIDTH] = 53,
                                                       [REDCO_AXIS_POSITIONS] = 59,
                                                       [REDCO_AXIS_BUCKETS] = 61,
                                                       [REDCO_AXIS_QUERY_LATENT] = 73,
                                                       [REDCO_AXIS_KEY_LATENT] = 71,
                                                       [REDCO_AXIS_ROTARY_DIM] = 23,
                                                       [REDCO_AXIS_PLAIN_DIM] = 14,
                                                       [REDCO_AXIS_VALUE_DIM] = 83,
                                                       [REDCO_AXIS_LATENT_ROTARY] = 94,
                                                       [REDCO_AXIS_PLAIN_VALUE_DIM] = 97,
                                                       [REDCO_AXIS_EXPERTS] = 79,
                                                       [REDCO_AXIS_CHOICES] = 67,
                                                       [REDCO_AXIS_EXPERT_FFN] = 101 * REDCOI_PROBE_RANKS,
                                                       [REDCO_AXIS_SHARED_FFN] = 103 * REDCOI_PROBE_RANKS,
                                                       [REDCO_AXIS_ADAPTER] = 107};

static void probe_latents(redco_model_dims *d, const uint64_t *sizes)
{
    if (d->experts > 0) {
        d->experts = (uint32_t)sizes[REDCO_AXIS_EXPERTS];
        d->choices = (uint32_t)sizes[REDCO_AXIS_CHOICES];
        d->expert_ffn = (uint32_t)sizes[REDCO_AXIS_EXPERT_FFN];
        d->shared_ffn = (uint32_t)sizes[REDCO_AXIS_SHARED_FFN];
    }
    if (d->key_latent == 0) { return; }
    d->query_latent = d->query_latent > 0 ? (uint32_t)sizes[REDCO_AXIS_QUERY_LATENT] : 0;
    d->key_latent = (uint32_t)sizes[REDCO_AXIS_KEY_LATENT];
    d->rotary_dim = (uint32_t)sizes[REDCO_AXIS_ROTARY_DIM];
    d->value_dim = (uint32_t)sizes[REDCO_AXIS_VALUE_DIM];
}

static void probe_dims(redcoi_probe *probe)
{
    redco_model_dims *const d = &probe->model.dims;
    uint64_t *const sizes = probe->sizes;
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) { sizes[a] = probe_sizes[a]; }
    probe->grouped = d->kv_heads != d->heads;
    if (d->table_width == d->hidden) { sizes[REDCO_AXIS_TABLE_WIDTH] = sizes[REDCO_AXIS_HIDDEN]; }
    sizes[REDCO_AXIS_HEADS] = probe->grouped ? KV_HEADS * GROUP : KV_HEADS;
    sizes[REDCO_AXIS_QKV_HEADS] = sizes[REDCO_AXIS_HEADS] + 2 * sizes[REDCO_AXIS_KV_HEADS];
    d->hidden = (uint32_t)sizes[REDCO_AXIS_HIDDEN];
    d->ffn = (uint32_t)sizes[REDCO_AXIS_FFN];
    d->heads = (uint32_t)sizes[REDCO_AXIS_HEADS];
    d->kv_heads = (uint32_t)sizes[REDCO_AXIS_KV_HEADS];
    d->head_dim = (uint32_t)sizes[REDCO_AXIS_HEAD_DIM];
    d->vocab = sizes[REDCO_AXIS_VOCAB];
    probe_latents(d, sizes);
}

/* As far as it is read where the executor refuses the config. */
static redcoi_settings settings_of(const redco_model *model)
{
    redco_error own = {.status = REDCO_OK};
    redcoi_build reader = {.config = redco_json_wrap(model->config, model->name), .err = &own};
    redcoi_settings settings = {.activation = model->family->active.fallback};
    redcoi_settings_read(&reader, model->family, &model->dims, &settings);
    return settings;
}

redco_status redcoi_probe_create(const redco_model *model, redcoi_probe *probe, redco_error *err)
{
    *probe = (redcoi_probe){.model = *model};
    probe_dims(probe);
    probe->model.params = calloc(model->param_count, sizeof *model->params);
    probe->values.params = calloc(model->param_count, sizeof *probe->values.params);
    if (probe->model.params == NULL || probe->values.params == NULL) {
        return redco_fail(err, REDCO_ENOMEM, model->name, "no memory for its layers");
    }
    for (size_t i = 0; i < model->param_count; i++) {
        redco_param *const p = &probe->model.params[i];
        redco_extent extents[REDCO_PARAM_EXTENTS];
        *p = model->params[i];
        redco_param_extents(p, extents);
        for (uint32_t d = 0; d < p->rank; d++) { p->shape[d] = redco_extent_count(&extents[d], probe->sizes); }
    }
    /* Other settings change no shape and no kind of operator: the smallest rotation of a head, no window. */
    const redcoi_settings settings = settings_of(model);
    probe->rotary_size = settings.rope.size;
    probe->lm = (redco_language_model){.model = &probe->model,
                                       .dims = &probe->model.dims,
                                       .family = model->family,
                                       .set = {.norm_epsilon = 1e-5,
                                               .activation = settings.activation == REDCOI_ACTIVATION_RELU_SQUARED
                                                                 ? REDCOI_ACTIVATION_RELU
                                                                 : settings.activation,
                                               .rope = {.theta = 1e4},
                                               .relative_buckets = 32,
                                               .relative_distance = 128}};
    if (probe->model.dims.positions == REDCO_POSITIONS_ROTARY) { probe->lm.set.rope.size = 2; }
    probe->lm.set.scaled_head = probe->model.dims.positions == REDCO_POSITIONS_RELATIVE && probe->model.dims.tied;
    /* Frameworks reorder unequal parts by group of heads, so that each rank has whole groups. */
    const bool unequal = probe->grouped && model->family->qkv == REDCOI_QKV_BY_KIND;
    probe->lm.qkv = unequal ? REDCOI_QKV_BY_GROUP : model->family->qkv;
    return REDCO_OK;
}

redco_status redcoi_probe_class(redcoi_probe *probe, uint32_t class_index, redco_error *err)
{
    redco_graph_free(probe->g);
    probe->g = redco_graph_create();
    probe->class_index = class_index;
    if (probe->g == NULL) { return redco_fail(err, REDCO_ENOMEM, probe->model.name, "no memory for its layers"); }
    return redcoi_class_graph(&probe->lm, class_index, REDCOI_PROBE_BATCH, REDCOI_PROBE_LENGTH, &probe->values,
                              probe->g, err);
}

void redcoi_probe_free(redcoi_probe *probe)
{
    redco_graph_free(probe->g);
    free(probe->model.params);
    free(probe->values.params);
}

redco_extent redcoi_probe_extent(const redcoi_probe *probe, uint64_t count)
{
    redco_extent extent = {.factor = 1};
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) {
        const bool is_prime = a != REDCO_AXIS_HEADS && a != REDCO_AXIS_QKV_HEADS;
        for (; is_prime && count % probe_sizes[a] == 0; count /= probe_sizes[a]) { extent.power[a]++; }
    }
    uint8_t *const heads = &extent.power[REDCO_AXIS_HEADS], *const kv = &extent.power[REDCO_AXIS_KV_HEADS];
    if (!probe->grouped) {
        *heads = *kv;
        *kv = 0;
    }
    for (; probe->grouped && *kv > 0 && count % GROUP == 0; count /= GROUP, (*kv)--) { (*heads)++; }
    for (; probe->grouped && *kv > 0 && count % GROUP_AND_TWO == 0; count /= GROUP_AND_TWO, (*kv)--) {
        extent.power[REDCO_AXIS_QKV_HEADS]++;
    }
    extent.factor = (uint32_t)count;
    return extent;
}

redco_extent redcoi_probe_elements(const redcoi_probe *probe, redco_value value)
{
    return redcoi_probe_extent(probe, redco_type_elements(redco_value_type(probe->g, value)));
}

redco_extent redcoi_probe_columns(const redcoi_probe *probe, redco_value value)
{
    const redco_tensor_type *const type = redco_value_type(probe->g, value);
    return redcoi_probe_extent(probe, type->dim[type->rank - 1]);
}

bool redcoi_probe_forward(const redcoi_probe *probe, const redco_op *op)
{
    return op->id >= probe->values.first_op && op->id < probe->values.end_op;
}

uint32_t redcoi_probe_param(const redcoi_probe *probe, redco_value value)
{
    const redco_op *const op = redco_value_op(probe->g, value);
    if (op->kind == REDCO_OP_CAST) { value = op->inputs[0]; }
    for (uint32_t id = 0; id < probe->model.param_count; id++) {
        if (probe->values.params[id] == value) { return id; }
    }
    return REDCO_NO_PARAM;
}
