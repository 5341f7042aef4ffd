/* Sizes of a model's axes. */
#include "costmodel/models/layer_probe.h"

#include <string.h>

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
