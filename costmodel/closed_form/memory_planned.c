#include "costmodel/closed_form/memory_planned.h"
#include "costmodel/closed_form/memory_saved.h"

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
 * blocks of a stack share the bias of their scores. */
uint64_t redcoi_planned_embedding_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const struct tensors t = measure(model, class_index, shape);
    uint64_t kept = t.norms;
    if (redco_model_find(model, class_index, REDCO_USE_ENCODER_EMBEDDING_NORM, false) != REDCO_NO_PARAM) { kept++; }
    if (redco_model_find(model, class_index, REDCO_USE_ENCODER_FINAL_NORM, false) != REDCO_NO_PARAM) { kept++; }
    return times(t.part, kept) + times(t.statistics, t.norms) + times(relative_bias_bytes(dims, shape), 2);
}

/* Beside its operands, while a product of [tokens, wide] with [wide, columns] runs: a device's workspace, or what
 * processors copy to 32 bits. */
static uint64_t product_bytes(const redco_shape *shape, uint64_t tokens, uint64_t wide, uint64_t columns)
{
    if (!shape->engine.widens || shape->precision == REDCO_FP32) { return shape->engine.workspace_bytes; }
    return times(times(tokens, wide) + times(wide, columns) + times(tokens, columns), 4);
}

/* Beside what is kept there is most when backward of the FFN begins: the gradients of the block's output, gathered
 * where it is split, of the FFN's inner tensor and of the bias of the scores, and what their product works with. */
uint64_t redcoi_planned_recompute_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                        uint64_t freed_bytes, bool full)
{
    const struct tensors t = measure(model, class_index, shape);
    const bool split = shape->sequence_parallel && shape->tp > 1;
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const uint64_t gradients =
        t.whole + (split ? t.part : 0) + t.ffn +
        product_bytes(shape, tokens_of(shape), dims->hidden, redco_share_up(dims->ffn, 1, shape->tp)) +
        relative_bias_bytes(dims, shape);
    /* A layer computed again gathers its norms' outputs once. */
    return full ? freed_bytes + times(t.whole - t.part, t.norms) + gradients : gradients;
}

/* The gradient of the logits lies over them; with it the gradient of the head's input is made, and, where that is
 * split, the input is gathered once more. */
uint64_t redcoi_planned_logits_bytes(const redco_model *model, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const struct tensors t = measure(model, 0, shape);
    const uint64_t tokens = tokens_of(shape), vocab = redco_share_up(dims->vocab, 1, shape->tp);
    const uint64_t logits = times(tokens, vocab);
    const bool split = shape->sequence_parallel && shape->tp > 1, half = shape->precision != REDCO_FP32;
    const uint64_t product = times(t.whole, split ? 2 : 1) + product_bytes(shape, tokens, dims->hidden, vocab);
    const uint64_t loss = half && shape->engine.widens ? times(logits, 2 * 4) : 0; /* logits, gradients in 32 bits */
    return times(logits, half ? 2 : 4) + (product > loss ? product : loss);
}

uint64_t redcoi_planned_ffn_bytes(const redco_model *model, const redco_shape *shape)
{
    return measure(model, 0, shape).ffn;
}

uint64_t redcoi_planned_head_input_bytes(const redco_model *model, const redco_shape *shape)
{
    return shape->sequence_parallel && shape->tp > 1 ? 0 : measure(model, 0, shape).whole;
}
