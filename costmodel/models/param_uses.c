/* The uses of tensors: the operator that reads each, and the axes of the model that it maps to and from. */
#include "costmodel/models/family.h"

#define AXIS(name) (1U << REDCO_AXIS_##name)
#define Q_AXES (AXIS(HEADS) | AXIS(HEAD_DIM))
#define KV_AXES (AXIS(KV_HEADS) | AXIS(HEAD_DIM))
#define NORM(role, axis) REDCO_OP_ROLE_##role, REDCO_PARAM_LAYER_NORM, AXIS(axis), 0
#define TABLE(rows, width) REDCO_OP_ROLE_EMBEDDING, REDCO_PARAM_TABLE, AXIS(rows), AXIS(width)
#define LINEAR(role, out, in) REDCO_OP_ROLE_##role, REDCO_PARAM_LINEAR, out, in

/* Linears are [out, in], tables [rows, width]; vectors have the first alone. */
static const struct {
    redco_op_role role;
    redco_param_role kind;
    unsigned out, in;
    uint32_t stacked; /* matrices in one, whose outputs stand behind one another; 0 is taken for 1 */
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
    [REDCO_USE_OUTPUT] = {LINEAR(OUT, AXIS(HIDDEN), Q_AXES)},
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
    [REDCO_USE_ROUTER] = {.role = REDCO_OP_ROLE_ROUTER},
    [REDCO_USE_EXPERT_GATE] = {.role = REDCO_OP_ROLE_EXPERT_IN},
    [REDCO_USE_EXPERT_UP] = {.role = REDCO_OP_ROLE_EXPERT_IN},
    [REDCO_USE_EXPERT_GATE_UP] = {.role = REDCO_OP_ROLE_EXPERT_IN},
    [REDCO_USE_EXPERT_DOWN] = {.role = REDCO_OP_ROLE_EXPERT_OUT},
    [REDCO_USE_ENCODER_FINAL_NORM] = {NORM(FFN_OUT, HIDDEN)}, /* with the last operator of the encoder */
    [REDCO_USE_FINAL_NORM] = {NORM(FINAL_NORM, HIDDEN)},
    [REDCO_USE_PROJECT_OUT] = {LINEAR(HEAD, AXIS(TABLE_WIDTH), AXIS(HIDDEN))},
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
    *out_out = extent_of(uses[param->use].out);
    if (uses[param->use].stacked > 1) { out_out->factor = uses[param->use].stacked; }
    *in_out = extent_of(uses[param->use].in);
}

void redco_param_extents(const redco_param *param, redco_extent extents_out[2])
{
    const bool turned = param->role == REDCO_PARAM_CONV1D;
    redco_param_maps(param, &extents_out[turned ? 1 : 0], &extents_out[turned ? 0 : 1]);
}
