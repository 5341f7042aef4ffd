/* Sizes in symbols: products of the axes of a model. */
#include "costmodel/models/layer_probe.h"

#include <string.h>

uint64_t redco_extent_count(const redco_extent *extent, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    uint64_t count = extent->factor;
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) {
        for (unsigned i = 0; i < extent->power[a]; i++) { count *= sizes[a]; }
    }
    return count;
}

redco_axis redco_extent_split(const redco_extent *extent)
{
    static const redco_axis cut[] = {REDCO_AXIS_HEADS, REDCO_AXIS_KV_HEADS, REDCO_AXIS_QKV_HEADS, REDCO_AXIS_FFN,
                                     REDCO_AXIS_VOCAB};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        if (extent->power[cut[i]] > 0) { return cut[i]; }
    }
    return REDCO_AXIS_COUNT;
}

bool redco_extent_equal(const redco_extent *a, const redco_extent *b)
{
    return a->factor == b->factor && memcmp(a->power, b->power, sizeof a->power) == 0;
}

void redco_model_axis_sizes(const redco_model *model, uint64_t batch, uint64_t length,
                            uint64_t sizes_out[REDCO_AXIS_COUNT])
{
    memcpy(sizes_out, model->axis_sizes, sizeof model->axis_sizes);
    sizes_out[REDCO_AXIS_BATCH] = batch;
    sizes_out[REDCO_AXIS_SEQUENCE] = length;
}

void redcoi_axis_sizes_make(redco_model *model)
{
    const redco_model_dims *const d = &model->dims;
    const bool has_positions = d->max_positions > 0;
    const uint64_t sizes[REDCO_AXIS_COUNT] = {
        [REDCO_AXIS_HEADS] = d->heads,
        [REDCO_AXIS_KV_HEADS] = d->kv_heads,
        [REDCO_AXIS_QKV_HEADS] = (uint64_t)d->heads + 2 * (uint64_t)d->kv_heads,
        [REDCO_AXIS_HEAD_DIM] = d->head_dim,
        [REDCO_AXIS_HIDDEN] = d->hidden,
        [REDCO_AXIS_FFN] = d->ffn,
        [REDCO_AXIS_VOCAB] = d->vocab,
        [REDCO_AXIS_TABLE_WIDTH] = d->table_width,
        [REDCO_AXIS_POSITIONS] = has_positions ? (uint64_t)d->max_positions + model->family->unused_positions : 0,
        [REDCO_AXIS_BUCKETS] = d->buckets};
    memcpy(model->axis_sizes, sizes, sizeof sizes);
}
