#include "costmodel/closed_form/memory_planned.h"

#include "costmodel/models/moments/layer_moments.h"
/* Tensors of one micro-batch on one rank, in bytes. */
struct tensors {
    uint64_t whole;      /* tokens x hidden */
    uint64_t part;       /* part of it, with sequence parallelism */
    uint64_t statistics; /* bytes of the norms' rows: 32 bits each, mean and deviation or deviation alone */
    uint64_t ffn;        /* one tensor of the FFN's width */
    uint32_t norms;
};

static uint64_t times(uint64_t a, uint64_t b)
{
    return redco_share_up(a, b, 1);
}

/* Norms of a member on the way of its input, those of heads apart. */
static uint32_t count_norms(const redco_model *model, uint32_t class_index)
{
    static const redco_param_use uses[] = {
        REDCO_USE_EMBEDDING_NORM, REDCO_USE_ENCODER_EMBEDDING_NORM, REDCO_USE_ATTENTION_NORM, REDCO_USE_CROSS_NORM,
        REDCO_USE_FFN_NORM,       REDCO_USE_ENCODER_FINAL_NORM,     REDCO_USE_FINAL_NORM};
    uint32_t norms = 0;
    for (size_t i = 0; i < sizeof uses / sizeof uses[0]; i++) {
        if (redco_model_find(model, class_index, uses[i], false) != REDCO_NO_PARAM) { norms++; }
    }
    return norms;
}

static uint64_t tokens_of(const redco_shape *shape)
{
    return times(shape->micro_batch, redco_share_up(shape->seq_len, 1, shape->cp));
}

static struct tensors measure(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const uint64_t element = shape->precision == REDCO_FP32 ? 4 : 2;
    const uint64_t sigma = shape->sequence_parallel ? shape->tp : 1;
    const uint64_t tokens = tokens_of(shape);
    const uint32_t numbers = dims->norm == REDCO_NORM_LAYER ? 2 : 1; /* numbers a row: mean and deviation */
    struct tensors t = {.whole = times(times(tokens, dims->hidden), element)};
    t.part = redco_share_up(t.whole, 1, sigma);
    t.norms = count_norms(model, class_index);
    t.statistics = redco_share_up(times(tokens, 4), numbers, sigma);
    t.ffn = times(times(tokens, redco_share_up(dims->ffn, 1, shape->tp)), element);
    return t;
}

/* The bias of the scores of T5's relative positions in one stack, [heads, queries, keys] in 32 bits. */
static uint64_t relative_bias_bytes(const redco_model_dims *dims, const redco_shape *shape)
{
    if (dims->positions != REDCO_POSITIONS_RELATIVE) { return 0; }
    const uint64_t rows = times(redco_share_up(dims->heads, 1, shape->tp), shape->seq_len);
    return times(times(rows, shape->seq_len), 4);
}

/* The embedding's output is the first block's input. Its norms keep their inputs; those of an encoder, of which one
 * may stand behind its last block, also what they make, which the decoder's first block or all of its blocks read. All
 * blocks of a stack share the bias of their scores, and all blocks the tables of their positions' sines and cosines in
 * 32 bits. */
uint64_t redcoi_planned_embedding_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const struct tensors t = measure(model, class_index, shape);
    uint64_t kept = t.norms;
    if (redco_model_find(model, class_index, REDCO_USE_ENCODER_EMBEDDING_NORM, false) != REDCO_NO_PARAM) { kept++; }
    if (redco_model_find(model, class_index, REDCO_USE_ENCODER_FINAL_NORM, false) != REDCO_NO_PARAM) { kept++; }
    const uint64_t tables = times(redco_share_up(shape->seq_len, 4, shape->cp), redco_model_rotary_size(model));
    return times(t.part, kept) + times(t.statistics, t.norms) + times(relative_bias_bytes(dims, shape), 2) + tables;
}

/* @return NULL on failure, which the costs tell */
static const redco_layer_moments *moments_of(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                                             redco_recompute recompute)
{
    const redco_moment_options options = {.cut = shape->tp > 1,
                                          .rows = shape->tp > 1 && shape->sequence_parallel,
                                          .policy = recompute,
                                          .fused = shape->engine.made_again,
                                          .widened = shape->engine.widens && shape->precision != REDCO_FP32};
    redco_error *const err = &costs->layout_error;
    const redco_layer_moments *const found = redco_model_layer_moments(costs->model, class_index, &options, err);
    if (found == NULL) { costs->layout_status = err->status; }
    return found;
}

static uint64_t moment_bytes(const redco_layer_moments *moments, const redco_moment *moment, const redco_shape *shape,
                             const uint64_t sizes[REDCO_AXIS_COUNT])
{
    const uint64_t element = shape->precision == REDCO_FP32 ? 4 : 2;
    uint64_t bytes = moment->product ? shape->engine.workspace_bytes : 0;
    for (uint32_t i = 0; i < moments->size_count; i++) {
        const redco_moment_size *const size = &moments->sizes[i];
        if (moment->times[i] == 0) { continue; }
        const uint64_t elements =
            redco_share_up(redco_extent_count(&size->elements, sizes), 1, size->shared ? shape->tp : 1);
        bytes += times(elements, moment->times[i] * (size->bytes == 0 ? element : size->bytes));
    }
    return bytes;
}

uint64_t redcoi_planned_moment_bytes(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                                     redco_recompute recompute, uint64_t kept_bytes)
{
    const redco_layer_moments *const moments = moments_of(costs, class_index, shape, recompute);
    uint64_t sizes[REDCO_AXIS_COUNT], most = 0;
    if (moments == NULL) { return 0; }
    redco_rank_axis_sizes(costs->model, shape, sizes);
    for (uint32_t i = 0; i < moments->count; i++) {
        const uint64_t bytes = moment_bytes(moments, &moments->moments[i], shape, sizes);
        most = bytes > most ? bytes : most;
    }
    const bool block = redco_class_is_block(costs->classes[class_index].kind); /* gradients of the bias of its scores */
    return (most > kept_bytes ? most - kept_bytes : 0) + (block ? relative_bias_bytes(costs->dims, shape) : 0);
}

uint64_t redcoi_planned_ffn_bytes(const redco_model *model, const redco_shape *shape)
{
    return measure(model, 0, shape).ffn;
}

uint64_t redcoi_planned_head_input_bytes(const redco_model *model, const redco_shape *shape)
{
    return shape->sequence_parallel && shape->tp > 1 ? 0 : measure(model, 0, shape).whole;
}
