/* The axes of a model, and the uses of tensors: the operator that reads each, and the axes that it maps to and from. */
#include "costmodel/models/layer_probe.h"

#include <string.h>

#define AXIS(name) (1U << REDCO_AXIS_##name)
#define Q_AXES (AXIS(HEADS) | AXIS(HEAD_DIM))
#define KV_AXES (AXIS(KV_HEADS) | AXIS(HEAD_DIM))
#define NORM(role, axis) REDCO_OP_ROLE_##role, REDCO_PARAM_LAYER_NORM, AXIS(axis), 0
#define TABLE(rows, width) REDCO_OP_ROLE_EMBEDDING, REDCO_PARAM_TABLE, AXIS(rows), AXIS(width)
#define LINEAR(role, out, in) REDCO_OP_ROLE_##role, REDCO_PARAM_LINEAR, out, in

/* Linears are [out, in], tables [rows, width], experts' [experts, out, in]; vectors have no last one. */
static const struct {
    redco_op_role role;
    redco_param_role kind;
    unsigned out, in;
    uint32_t stacked, doubled; /* matrices in one, whose outputs, or inputs, stand behind one another; 0: taken for 1 */
    bool whole;                /* tensor parallelism does not cut it, whatever its axes */
    bool experts;              /* one for each expert */
} uses[REDCO_USES] = {
    [REDCO_USE_TABLE] = {TABLE(VOCAB, TABLE_WIDTH)},
    [REDCO_USE_POSITIONS] = {TABLE(POSITIONS, HIDDEN)},
    [REDCO_USE_RELATIVE_BIAS] = {TABLE(BUCKETS, HEADS)},
    [REDCO_USE_EMBEDDING_NORM] = {NORM(EMBEDDING, HIDDEN)},
    [REDCO_USE_ENCODER_POSITIONS] = {TABLE(POSITIONS, HIDDEN)},
    [REDCO_USE_ENCODER_RELATIVE_BIAS] = {TABLE(BUCKETS, HEADS)},
    [REDCO_USE_ENCODER_EMBEDDING_NORM] = {NORM(EMBEDDING, HIDDEN)},
    [REDCO_USE_PROJECT_IN] = {LINEAR(EMBEDDING, AXIS(HIDDEN), AXIS(TABLE_WIDTH))},
    [REDCO_USE_ATTENTION_NORM] = {NORM(ATTENTION_NORM, HIDDEN)},
    [REDCO_USE_QUERY] = {LINEAR(QKV, Q_AXES, AXIS(HIDDEN))},
    [REDCO_USE_KEY] = {LINEAR(QKV, KV_AXES, AXIS(HIDDEN))},
    [REDCO_USE_VALUE] = {LINEAR(QKV, KV_AXES, AXIS(HIDDEN))},
    [REDCO_USE_QKV] = {LINEAR(QKV, AXIS(QKV_HEADS) | AXIS(HEAD_DIM), AXIS(HIDDEN))},
    [REDCO_USE_QUERY_NORM] = {NORM(Q_NORM, HEAD_DIM)},
    [REDCO_USE_KEY_NORM] = {NORM(K_NORM, HEAD_DIM)},
    [REDCO_USE_QUERIES_NORM] = {REDCO_OP_ROLE_Q_NORM, REDCO_PARAM_LAYER_NORM, Q_AXES, 0},
    [REDCO_USE_KEYS_NORM] = {REDCO_OP_ROLE_K_NORM, REDCO_PARAM_LAYER_NORM, KV_AXES, 0},
    [REDCO_USE_QUERY_DOWN] = {LINEAR(Q_DOWN, AXIS(QUERY_LATENT), AXIS(HIDDEN)), .whole = true},
    [REDCO_USE_QUERY_LATENT_NORM] = {NORM(Q_NORM, QUERY_LATENT)},
    [REDCO_USE_QUERY_UP] = {LINEAR(Q_UP, Q_AXES, AXIS(QUERY_LATENT))},
    [REDCO_USE_KV_DOWN] = {LINEAR(KV_DOWN, AXIS(LATENT_ROTARY), AXIS(HIDDEN)), .whole = true},
    [REDCO_USE_KV_LATENT_NORM] = {NORM(K_NORM, KEY_LATENT)},
    [REDCO_USE_KV_UP] = {LINEAR(KV_UP, AXIS(HEADS) | AXIS(PLAIN_VALUE_DIM), AXIS(KEY_LATENT))},
    [REDCO_USE_SINKS] = {NORM(ATTENTION, HEADS)},
    [REDCO_USE_OUTPUT] = {LINEAR(OUT, AXIS(HIDDEN), Q_AXES)},
    [REDCO_USE_LATENT_OUTPUT] = {LINEAR(OUT, AXIS(HIDDEN), AXIS(HEADS) | AXIS(VALUE_DIM))},
    [REDCO_USE_ATTENTION_END_NORM] = {NORM(ATTENTION_END_NORM, HIDDEN)},
    [REDCO_USE_CROSS_NORM] = {NORM(CROSS_NORM, HIDDEN)},
    [REDCO_USE_CROSS_QUERY] = {LINEAR(CROSS_Q, Q_AXES, AXIS(HIDDEN))},
    [REDCO_USE_CROSS_KEY] = {LINEAR(CROSS_KV, KV_AXES, AXIS(HIDDEN))},
    [REDCO_USE_CROSS_VALUE] = {LINEAR(CROSS_KV, KV_AXES, AXIS(HIDDEN))},
    [REDCO_USE_CROSS_OUTPUT] = {LINEAR(CROSS_OUT, AXIS(HIDDEN), Q_AXES)},
    [REDCO_USE_FFN_NORM] = {NORM(FFN_NORM, HIDDEN)},
    [REDCO_USE_GATE] = {LINEAR(FFN_IN, AXIS(FFN), AXIS(HIDDEN))},
    [REDCO_USE_UP] = {LINEAR(FFN_IN, AXIS(FFN), AXIS(HIDDEN))},
    [REDCO_USE_GATE_UP] = {LINEAR(FFN_IN, AXIS(FFN), AXIS(HIDDEN)), .stacked = 2},
    [REDCO_USE_DOWN] = {LINEAR(FFN_OUT, AXIS(HIDDEN), AXIS(FFN))},
    [REDCO_USE_ROUTER] = {LINEAR(ROUTER, AXIS(EXPERTS), AXIS(HIDDEN)), .whole = true},
    [REDCO_USE_EXPERT_GATE] = {LINEAR(EXPERT_IN, AXIS(EXPERT_FFN), AXIS(HIDDEN)), .experts = true},
    [REDCO_USE_EXPERT_UP] = {LINEAR(EXPERT_IN, AXIS(EXPERT_FFN), AXIS(HIDDEN)), .experts = true},
    [REDCO_USE_EXPERT_GATE_UP] = {LINEAR(EXPERT_IN, AXIS(EXPERT_FFN), AXIS(HIDDEN)), .stacked = 2, .experts = true},
    [REDCO_USE_EXPERT_DOWN] = {LINEAR(EXPERT_OUT, AXIS(HIDDEN), AXIS(EXPERT_FFN)), .experts = true},
    [REDCO_USE_SHARED_GATE] = {LINEAR(SHARED_IN, AXIS(SHARED_FFN), AXIS(HIDDEN))},
    [REDCO_USE_SHARED_UP] = {LINEAR(SHARED_IN, AXIS(SHARED_FFN), AXIS(HIDDEN))},
    [REDCO_USE_SHARED_DOWN] = {LINEAR(SHARED_OUT, AXIS(HIDDEN), AXIS(SHARED_FFN))},
    [REDCO_USE_SHARED_SCALE] = {LINEAR(SHARED_OUT, 0, AXIS(HIDDEN)), .whole = true},
    [REDCO_USE_FFN_END_NORM] = {NORM(FFN_END_NORM, HIDDEN)},
    [REDCO_USE_MTP_TABLE] = {TABLE(VOCAB, HIDDEN)},
    [REDCO_USE_MTP_TOKEN_NORM] = {NORM(EMBEDDING, HIDDEN)},
    [REDCO_USE_MTP_HIDDEN_NORM] = {NORM(EMBEDDING, HIDDEN)},
    [REDCO_USE_MTP_PROJECT] = {LINEAR(MTP_IN, AXIS(HIDDEN), AXIS(HIDDEN)), .doubled = 2, .whole = true},
    [REDCO_USE_MTP_FINAL_NORM] = {NORM(FINAL_NORM, HIDDEN)},
    [REDCO_USE_MTP_HEAD] = {LINEAR(HEAD, AXIS(VOCAB), AXIS(HIDDEN))},
    [REDCO_USE_ENCODER_FINAL_NORM] = {NORM(FFN_OUT, HIDDEN)}, /* with the last operator of the encoder */
    [REDCO_USE_FINAL_NORM] = {NORM(FINAL_NORM, HIDDEN)},
    [REDCO_USE_PROJECT_OUT] = {LINEAR(PROJECT_OUT, AXIS(TABLE_WIDTH), AXIS(HIDDEN))},
    [REDCO_USE_HEAD] = {LINEAR(HEAD, AXIS(VOCAB), AXIS(TABLE_WIDTH))},
};

redco_op_role redco_model_use_role(const redco_model *model, redco_param_use use)
{
    /* Side by side both norms read the block's input: the simulator counts them as one operator. */
    const bool shared = use == REDCO_USE_FFN_NORM && redco_model_get_dims(model)->parallel_block;
    return uses[shared ? REDCO_USE_ATTENTION_NORM : use].role;
}

redco_param_role redcoi_use_kind(redco_param_use use)
{
    return uses[use].kind;
}

uint32_t redcoi_use_blocks(const redco_model *model, redco_param_use use)
{
    const bool equal = model->dims.heads == model->dims.kv_heads;
    if (use == REDCO_USE_QKV) { return model->family->qkv == REDCOI_QKV_BY_KIND && equal ? 3 : 1; }
    return uses[use].stacked > 1 ? uses[use].stacked : 1;
}

static redco_extent extent_of(unsigned axes)
{
    redco_extent extent = {.factor = 1};
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) { extent.power[a] = axes >> a & 1; }
    return extent;
}

void redco_param_maps(const redco_param *param, redco_extent *out_out, redco_extent *in_out)
{
    const redco_extent rank = extent_of(AXIS(ADAPTER));
    *out_out = extent_of(uses[param->use].out);
    if (uses[param->use].stacked > 1) { out_out->factor = uses[param->use].stacked; }
    *in_out = extent_of(uses[param->use].in);
    if (uses[param->use].doubled > 1) { in_out->factor = uses[param->use].doubled; }
    if (param->adapter == REDCO_ADAPTER_DOWN) { *out_out = rank; }
    if (param->adapter == REDCO_ADAPTER_UP) { *in_out = rank; }
}

void redco_param_extents(const redco_param *param, redco_extent extents_out[REDCO_PARAM_EXTENTS])
{
    const bool turned = param->role == REDCO_PARAM_CONV1D;
    redco_extent *const own = extents_out + (param->part == REDCO_PART_EXPERTS ? 1 : 0);
    extents_out[0] = extents_out[2] = extent_of(AXIS(EXPERTS));
    redco_param_maps(param, &own[turned ? 1 : 0], &own[turned ? 0 : 1]);
}

redco_param_part redcoi_use_part(redco_param_use use)
{
    return uses[use].experts ? REDCO_PART_EXPERTS : REDCO_PART_DENSE;
}

bool redcoi_use_is_whole(redco_param_use use)
{
    return uses[use].whole;
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
        [REDCO_AXIS_BUCKETS] = d->buckets,
        [REDCO_AXIS_QUERY_LATENT] = d->query_latent,
        [REDCO_AXIS_KEY_LATENT] = d->key_latent,
        [REDCO_AXIS_ROTARY_DIM] = d->rotary_dim,
        [REDCO_AXIS_PLAIN_DIM] = (uint64_t)d->head_dim - d->rotary_dim,
        [REDCO_AXIS_VALUE_DIM] = redco_value_dim(d),
        [REDCO_AXIS_LATENT_ROTARY] = (uint64_t)d->key_latent + d->rotary_dim,
        [REDCO_AXIS_PLAIN_VALUE_DIM] = (uint64_t)d->head_dim - d->rotary_dim + redco_value_dim(d),
        [REDCO_AXIS_EXPERTS] = d->experts,
        [REDCO_AXIS_CHOICES] = d->choices,
        [REDCO_AXIS_EXPERT_FFN] = d->expert_ffn,
        [REDCO_AXIS_SHARED_FFN] = d->shared_ffn,
        [REDCO_AXIS_ADAPTER] = d->adapter_rank};
    memcpy(model->axis_sizes, sizes, sizeof sizes);
}
