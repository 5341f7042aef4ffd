#include "costmodel/closed_form/memory_planned.h"

/* Tensors of one micro-batch on one rank, in bytes. */
struct tensors {
    uint64_t whole;      /* tokens x hidden */
    uint64_t part;       /* of it, with sequence parallelism */
    uint64_t statistics; /* of the norms' rows: 32 bits each, mean and deviation or deviation alone */
    uint64_t query, key; /* of this rank's heads; attention's output is as large as the queries */
    uint64_t heads;      /* norms of heads: queries and keys before them, and their statistics */
    uint64_t scores;     /* log-sum-exp of each row of scores, 32 bits */
    uint64_t ffn;        /* one tensor of the FFN's width */
    uint32_t norms;
};

static uint64_t times(uint64_t a, uint64_t b)
{
    return redco_share_up(a, b, 1);
}

/* Norms of a member, those of heads apart, and numbers that they keep of a row. */
static uint32_t count_norms(const redco_model *model, uint32_t class_index, uint32_t *numbers_out)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    uint32_t norms = 0;
    for (size_t i = 0; i < count; i++) {
        const bool mean = params[i].role == REDCO_PARAM_LAYER_NORM;
        const bool of_heads = params[i].use == REDCO_USE_QUERY_NORM || params[i].use == REDCO_USE_KEY_NORM;
        if (params[i].class_index != class_index || (!mean && params[i].role != REDCO_PARAM_RMS_NORM)) { continue; }
        if (of_heads) { continue; }
        norms++;
        *numbers_out = mean ? 2 : 1;
    }
    return norms;
}

static struct tensors measure(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const uint64_t element = shape->precision == REDCO_FP32 ? 4 : 2;
    const uint64_t sigma = shape->sequence_parallel ? shape->tp : 1;
    const uint64_t tokens = times(shape->micro_batch, redco_share_up(shape->seq_len, 1, shape->cp));
    const uint64_t heads = redco_share_up(dims->heads, 1, shape->tp);
    const uint64_t keys = redco_rank_kv_heads(dims, shape->tp);
    uint32_t numbers = 1;
    struct tensors t = {.whole = times(times(tokens, dims->hidden), element)};
    t.part = redco_share_up(t.whole, 1, sigma);
    t.norms = count_norms(model, class_index, &numbers);
    t.statistics = redco_share_up(times(tokens, 4), numbers, sigma);
    t.query = times(times(tokens, heads * dims->head_dim), element);
    t.key = times(times(tokens, keys * dims->head_dim), element);
    if (dims->head_norms) { t.heads = t.query + t.key + times(times(tokens, heads + keys), (uint64_t)4 * numbers); }
    t.scores = times(times(tokens, heads), 4);
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
static uint64_t embedding_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                const struct tensors *t)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    uint64_t kept = t->norms;
    if (redco_model_find(model, class_index, REDCO_USE_ENCODER_EMBEDDING_NORM, false) != REDCO_NO_PARAM) { kept++; }
    if (redco_model_find(model, class_index, REDCO_USE_ENCODER_FINAL_NORM, false) != REDCO_NO_PARAM) { kept++; }
    return times(t->part, kept) + times(t->statistics, t->norms) + times(relative_bias_bytes(dims, shape), 2);
}

/* Norms' inputs (one where the parts of a block share it) and outputs; q, k, v and what attention makes of them; before
 * and behind the activation, with a gate also the other factor and their product, of which the activated gate may be
 * made again. */
static uint64_t block_bytes(const redco_model_dims *dims, const redco_engine *engine, bool cross,
                            const struct tensors *t)
{
    const uint32_t inner = !dims->gated ? 2 : engine->made_again ? 3 : 4;
    const uint64_t inputs = dims->parallel_block ? 1 : t->norms;
    const uint64_t attention = 2 * t->query + 2 * t->key + t->scores;
    return times(t->part, inputs + t->norms) + times(t->statistics, t->norms) + times(attention, cross ? 2 : 1) +
           t->heads + times(t->ffn, inner);
}

uint64_t redcoi_planned_activation_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                         redco_recompute recompute)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(model, &classes);
    const struct tensors t = measure(model, class_index, shape);
    const bool cross = classes[class_index].kind == REDCO_CLASS_CROSS;
    switch (classes[class_index].kind) {
    case REDCO_CLASS_EMBEDDING: return embedding_bytes(model, class_index, shape, &t);
    case REDCO_CLASS_HEAD: return times(t.part, 1 + t.norms) + times(t.statistics, t.norms);
    case REDCO_CLASS_BLOCK:
    case REDCO_CLASS_CROSS: break;
    }
    if (recompute == REDCO_RECOMPUTE_FULL) { return t.part; }
    const uint64_t dropped = recompute == REDCO_RECOMPUTE_SELECTIVE ? times(t.query + t.scores, cross ? 2 : 1) : 0;
    return block_bytes(dims, &shape->engine, cross, &t) - dropped;
}

/* Beside what is kept there is most when backward of the FFN begins: the gradients of the block's output, gathered
 * where it is split, of the FFN's inner tensor and of the bias of the scores, and what their product works with. */
uint64_t redcoi_planned_recompute_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                        redco_recompute recompute)
{
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(model, &classes);
    const redco_class_kind kind = classes[class_index].kind;
    if (kind != REDCO_CLASS_BLOCK && kind != REDCO_CLASS_CROSS) { return 0; }
    const struct tensors t = measure(model, class_index, shape);
    const bool split = shape->sequence_parallel && shape->tp > 1, cross = kind == REDCO_CLASS_CROSS;
    const uint64_t gradients = t.whole + (split ? t.part : 0) + t.ffn + shape->engine.workspace_bytes +
                               relative_bias_bytes(redco_model_get_dims(model), shape);
    if (recompute != REDCO_RECOMPUTE_FULL) { return gradients; }
    const uint64_t gathered =
        times(t.whole - t.part, t.norms); /* a layer computed again gathers its norms' outputs once */
    return block_bytes(redco_model_get_dims(model), &shape->engine, cross, &t) - t.part + gathered + gradients;
}

/* The gradient of the logits lies over them; with it the gradient of the head's input is made, and, where that is
 * split, the input is gathered once more. */
uint64_t redcoi_planned_logits_bytes(const redco_model *model, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const struct tensors t = measure(model, 0, shape);
    const uint64_t tokens = times(shape->micro_batch, redco_share_up(shape->seq_len, 1, shape->cp));
    const uint64_t logits = times(tokens, redco_share_up(dims->vocab, 1, shape->tp));
    const bool split = shape->sequence_parallel && shape->tp > 1;
    return times(logits, shape->precision == REDCO_FP32 ? 4 : 2) + times(t.whole, split ? 2 : 1) +
           shape->engine.workspace_bytes;
}

uint64_t redcoi_planned_ffn_bytes(const redco_model *model, const redco_shape *shape)
{
    return measure(model, 0, shape).ffn;
}

uint64_t redcoi_planned_head_input_bytes(const redco_model *model, const redco_shape *shape)
{
    return shape->sequence_parallel && shape->tp > 1 ? 0 : measure(model, 0, shape).whole;
}
