#include "costmodel/closed_form/memory_saved.h"

#include "topology/base/share.h"

static uint64_t times(uint64_t a, uint64_t b)
{
    return redco_share_up(a, b, 1);
}

redco_saver redco_saver_of(const redco_engine *engine, redco_recompute policy)
{
    const bool by_operator = policy == REDCO_RECOMPUTE_FULL && engine->partial_recompute;
    if (engine->planned_memory) { return REDCO_SAVER_PLANNED; }
    switch (engine->memory) {
    case REDCO_MEMORY_FORMULAS: return REDCO_SAVER_FORMULAS;
    case REDCO_MEMORY_MEGATRON: return engine->software == REDCO_SOFTWARE_TE_XLA ? REDCO_SAVER_TE : REDCO_SAVER_LOCAL;
    case REDCO_MEMORY_XLA: return by_operator ? REDCO_SAVER_REMAT : REDCO_SAVER_XLA;
    case REDCO_MEMORY_COPIES: return REDCO_SAVER_COPIES;
    case REDCO_MEMORY_PYTORCH:
    case REDCO_MEMORY_EAGER:
    case REDCO_MEMORY_ZERO: break;
    }
    if (by_operator) { return REDCO_SAVER_BY_OP; }
    return engine->compiled ? REDCO_SAVER_COMPILED : REDCO_SAVER_EAGER;
}

bool redco_norms_in_products(const redco_engine *engine)
{
    return redco_saver_of(engine, REDCO_RECOMPUTE_NONE) == REDCO_SAVER_TE;
}

redco_recompute redco_model_modules(const redco_model *model, const redco_engine *engine)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    redco_recompute modules = REDCO_RECOMPUTE_NONE;
    for (uint32_t c = 0; c < count; c++) {
        const redco_layer_work *const work = redco_model_work(model, c);
        for (uint32_t i = 0; i < work->group_count && redco_class_is_block(classes[c].kind); i++) {
            const redco_layer_group *const group = &work->groups[i];
            modules |= redco_modules_of(group->role, group->reader, redco_norms_in_products(engine));
        }
    }
    return modules;
}

redco_saving_case redco_saving_case_of(const redco_model *model, const redco_shape *shape,
                                       uint64_t sizes_out[REDCO_AXIS_COUNT])
{
    const redco_engine *const engine = &shape->engine;
    uint32_t holds = redco_norms_plain(redco_model_get_dims(model), engine) ? REDCO_SAVER_IF_PLAIN_NORM : 0;
    holds |= engine->autocast && shape->precision != REDCO_FP32 ? REDCO_SAVER_IF_AUTOCAST : 0;
    const redco_model_dims *const dims = redco_model_get_dims(model);
    holds |= dims->dropout || (dims->dropout_open && engine->dropout) ? REDCO_SAVER_IF_DROPOUT : 0;
    holds |= engine->attention == REDCO_ATTENTION_FUSED ? REDCO_SAVER_IF_FUSED_SCORES : 0;
    holds |= engine->attention == REDCO_ATTENTION_UNFUSED ? REDCO_SAVER_IF_UNFUSED_SCORES : 0;
    holds |= shape->cp > 1 && shape->cp_type == REDCO_CP_ALL_TO_ALL ? REDCO_SAVER_IF_ALL_TO_ALL : 0;
    holds |= engine->fp8_activation_input ? REDCO_SAVER_IF_FP8_INPUT : 0;
    holds |= engine->made_again ? REDCO_SAVER_IF_MADE_AGAIN : 0;
    redco_rank_axis_sizes(model, shape, sizes_out);
    return (redco_saving_case){.sizes = sizes_out,
                               .keys = shape->seq_len,
                               .holds = holds,
                               .sequence_ranks = shape->sequence_parallel ? shape->tp : 1,
                               .routers = redco_shape_routers(shape),
                               .narrow = engine->gemm_format != REDCO_GEMM_SAME,
                               .wide = shape->precision == REDCO_FP32,
                               .partial = engine->partial_recompute};
}

redco_saved_bytes redco_saved_of(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                 redco_saver saver, const redco_recompute_list *sets)
{
    const redco_saving_set *const set = redco_saving_set_of(saver);
    const redco_layer_work *const work = redco_model_work(model, class_index);
    uint64_t sizes[REDCO_AXIS_COUNT];
    const redco_saving_case rank = redco_saving_case_of(model, shape, sizes);
    if (set == NULL) { return (redco_saved_bytes){.kept = redco_share_most}; }
    redco_recompute_list recomputed = *sets;
    for (uint32_t i = 0; i < sets->count && saver == REDCO_SAVER_PLANNED; i++) { /* no other module is executed again */
        recomputed.sets[i] &= REDCO_RECOMPUTE_CORE_ATTN | REDCO_RECOMPUTE_FULL;
    }
    return redco_saving_bytes(set, work->sites, work->site_count, &rank, &recomputed);
}

static uint64_t tokens_of(const redco_shape *shape)
{
    return times(shape->micro_batch, redco_share_up(shape->seq_len, 1, shape->cp));
}

static uint64_t sequence_ranks(const redco_shape *shape)
{
    return shape->sequence_parallel ? shape->tp : 1;
}

uint64_t redco_relative_bias_bytes(const redco_model_dims *dims, const redco_shape *shape)
{
    if (dims->positions != REDCO_POSITIONS_RELATIVE) { return 0; }
    const uint64_t rows = times(redco_share_up(dims->heads, 1, shape->tp), shape->seq_len); /* [heads, queries, keys] */
    return times(times(rows, shape->seq_len), 4);
}

/* The encoder's output, which the decoder's blocks read, and of a norm that stands behind its last block also the input
 * and a number or two of each row: neither is of a block or of the embedding's graph. */
static uint64_t encoded_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const bool norm = redco_model_find(model, class_index, REDCO_USE_ENCODER_FINAL_NORM, false) != REDCO_NO_PARAM;
    const uint64_t tokens = tokens_of(shape), ranks = sequence_ranks(shape);
    const uint64_t plane = times(times(tokens, dims->hidden), shape->precision == REDCO_FP32 ? 4 : 2);
    const uint64_t row = dims->norm == REDCO_NORM_LAYER ? 8 : 4;
    if (dims->encoder_layers == 0) { return 0; }
    return redco_share_up(plane, norm ? 2 : 1, ranks) + (norm ? redco_share_up(tokens, row, ranks) : 0);
}

uint64_t redco_embedding_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    static const redco_recompute_list none = {.count = 0};
    const uint64_t kept = redco_saved_of(model, class_index, shape, REDCO_SAVER_PLANNED, &none).kept;
    const uint64_t tables = times(redco_share_up(shape->seq_len, 4, shape->cp), redco_model_rotary_size(model));
    return kept + encoded_bytes(model, class_index, shape) +
           times(redco_relative_bias_bytes(redco_model_get_dims(model), shape), 2) + tables;
}

/* Keys and values of the whole sequence while attention's backward reads them, and their gradients of as much until
 * these are scattered (Transformer Engine context_parallel.py, AttnFuncWithCPAndKVAllGather: k_ag, v_ag, dk, dv). */
static uint64_t gathered_bytes(const redco_model_dims *dims, const redco_shape *shape)
{
    if (shape->cp <= 1 || shape->cp_type != REDCO_CP_ALL_GATHER) { return 0; }
    const uint64_t width = (uint64_t)redco_rank_kv_heads(dims, shape->tp) * dims->head_dim;
    return times(times(times(shape->micro_batch, shape->seq_len), width), 4 * 2);
}

/* Backward of experts: rows and their gradients, of the hidden width and of an expert's (four peaks measured on B200
 * agree with it: SimuMax 1.2, release notes). */
static uint64_t experts_working_bytes(const redco_model_dims *dims, const redco_shape *shape)
{
    const uint64_t width =
        (uint64_t)dims->hidden + redco_share_up(dims->expert_ffn, 1, shape->etp > 0 ? shape->etp : shape->tp);
    return redco_share_up(times(times(tokens_of(shape), dims->choices), width), 4, redco_shape_routers(shape));
}

/* Attention that writes its scores, in eager code: softmax's result of 32 bits, its gradient and that of the scores,
 * where 6 bytes were kept; what the FFN kept is free again (torch 2.15: aten._softmax_backward_data is the fullest
 * moment of such a block). */
static uint64_t written_scores_bytes(const redco_model_dims *dims, const redco_shape *shape)
{
    if (!redco_engine_is_eager(&shape->engine) || shape->engine.attention != REDCO_ATTENTION_UNFUSED) { return 0; }
    const uint64_t rows = redco_share_up(times(tokens_of(shape), dims->heads), 1, shape->tp);
    const uint64_t scores = times(times(rows, shape->seq_len), 6);
    const uint64_t inner = redco_share_up(times(tokens_of(shape), dims->ffn), dims->gated ? 8 : 4, shape->tp);
    return scores > inner ? scores - inner : 0;
}

/* Backward of the FFN: while the gradient of the gate and its other factor is made, the gradient of their product lies
 * where the operand of the last matrix was; before, where sequence parallelism splits it, the gradient of the block's
 * output is gathered beside the product's. Or backward of attention, where it gathers keys. The gradient of the
 * residual sum is there all the time. Of the tensors of a layer that has any. */
uint64_t redco_backward_working_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    if (redco_model_work(model, class_index)->site_count == 0) { return 0; }
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const bool mixture = redco_model_find(model, class_index, REDCO_USE_ROUTER, false) != REDCO_NO_PARAM;
    const uint64_t tokens = tokens_of(shape), ranks = sequence_ranks(shape);
    const uint64_t plane = times(times(tokens, dims->hidden), 2);
    const uint64_t inner = times(times(tokens, redco_share_up(dims->ffn, 1, shape->tp)), 2);
    const uint64_t elementwise = dims->gated ? 2 * inner : inner;
    const uint64_t product = inner + (ranks > 1 ? plane : 0);
    const uint64_t dense = elementwise > product ? elementwise : product;
    const uint64_t ffn = mixture ? experts_working_bytes(dims, shape) : dense;
    const uint64_t gathered = gathered_bytes(dims, shape), written = written_scores_bytes(dims, shape);
    const uint64_t attention = gathered > written ? gathered : written;
    return redco_share_up(plane, 1, ranks) + (ffn > attention ? ffn : attention);
}

/* Megatron: the loss writes the gradient over the logits (Transformer Engine), or over a 32-bit copy that is converted
 * again; then the head's backward makes its input's gradient, and an empty gradient of its weights where products add
 * to the kept one. PyTorch: the loss in one kernel makes a
 * gradient of the logits' width; else in 32 bits the logarithm of softmax, its gradient and that of the logits. XLA:
 * the logits and their gradient in 32 bits. */
uint64_t redco_loss_bytes(const redco_model *model, const redco_shape *shape)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    const uint64_t tokens = tokens_of(shape), ranks = sequence_ranks(shape);
    const uint64_t words = redco_share_up(dims->vocab, 1, shape->engine.logits_gathered ? 1 : shape->tp);
    const uint64_t logits = times(tokens, words), plane = times(times(tokens, dims->hidden), 2);
    if (shape->engine.memory == REDCO_MEMORY_XLA) { return times(logits, 8); }
    if (shape->engine.memory == REDCO_MEMORY_COPIES) { return times(logits, shape->engine.logits_gathered ? 20 : 12); }
    if (shape->engine.memory == REDCO_MEMORY_PYTORCH || redco_engine_is_eager(&shape->engine)) {
        return times(logits, shape->engine.fused_loss ? 4 : 12);
    }
    const bool empty = redco_saver_of(&shape->engine, REDCO_RECOMPUTE_NONE) == REDCO_SAVER_TE;
    const uint64_t table = empty ? redco_share_up(times(dims->vocab, dims->hidden), 2, shape->tp) : 0;
    const uint64_t gathered = ranks > 1 ? plane + redco_share_up(plane, 1, ranks) : 0;
    const uint64_t head = times(logits, 2) + table + plane + gathered;
    /* Logits and their copy in 32 bits, which Megatron Core subtracts the maximum from in place; code of 2023 made
     * another (Megatron-LM b35d061, megatron/core/tensor_parallel/cross_entropy.py). No peak of older code, which wrote
     * scores, is known: it stays as it was. */
    const bool copies = !empty && !redco_attention_keeps_scores(shape->engine.attention);
    const uint64_t unfused = times(logits, copies ? 10 : 6);
    const uint64_t loss = shape->engine.fused_loss ? times(logits, 2) : unfused + (ranks > 1 ? plane : 0);
    return head > loss ? head : loss;
}
