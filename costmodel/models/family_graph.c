/* Operators of the graph that the families share.
 *
 * ALiBi: Press et al., arXiv 2108.12409; slopes for a number of heads that is no power of 2 as BLOOM and MPT have them.
 * Rotary positions: Su et al., arXiv 2104.09864, and their scalings: linear (Chen et al., arXiv 2306.15595) and
 * LLaMA 3's (transformers 4.48, modeling_rope_utils.py: _compute_llama3_parameters). */
#include "costmodel/models/family.h"

#include <math.h>
#include <stdio.h>

/* The role of the operator that uses a tensor. */
static const redco_op_role use_roles[REDCO_USES] = {
    [REDCO_USE_TABLE] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_POSITIONS] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_RELATIVE_BIAS] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_EMBEDDING_NORM] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_ENCODER_POSITIONS] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_ENCODER_RELATIVE_BIAS] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_ENCODER_EMBEDDING_NORM] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_PROJECT_IN] = REDCO_OP_ROLE_EMBEDDING,
    [REDCO_USE_ATTENTION_NORM] = REDCO_OP_ROLE_ATTENTION_NORM,
    [REDCO_USE_QUERY] = REDCO_OP_ROLE_QKV,
    [REDCO_USE_KEY] = REDCO_OP_ROLE_QKV,
    [REDCO_USE_VALUE] = REDCO_OP_ROLE_QKV,
    [REDCO_USE_QKV] = REDCO_OP_ROLE_QKV,
    [REDCO_USE_QUERY_NORM] = REDCO_OP_ROLE_Q_NORM,
    [REDCO_USE_KEY_NORM] = REDCO_OP_ROLE_K_NORM,
    [REDCO_USE_OUTPUT] = REDCO_OP_ROLE_OUT,
    [REDCO_USE_CROSS_NORM] = REDCO_OP_ROLE_CROSS_NORM,
    [REDCO_USE_CROSS_QUERY] = REDCO_OP_ROLE_CROSS_Q,
    [REDCO_USE_CROSS_KEY] = REDCO_OP_ROLE_CROSS_KV,
    [REDCO_USE_CROSS_VALUE] = REDCO_OP_ROLE_CROSS_KV,
    [REDCO_USE_CROSS_OUTPUT] = REDCO_OP_ROLE_CROSS_OUT,
    [REDCO_USE_FFN_NORM] = REDCO_OP_ROLE_FFN_NORM,
    [REDCO_USE_GATE] = REDCO_OP_ROLE_FFN_IN,
    [REDCO_USE_UP] = REDCO_OP_ROLE_FFN_IN,
    [REDCO_USE_GATE_UP] = REDCO_OP_ROLE_FFN_IN,
    [REDCO_USE_DOWN] = REDCO_OP_ROLE_FFN_OUT,
    [REDCO_USE_ROUTER] = REDCO_OP_ROLE_ROUTER,
    [REDCO_USE_EXPERT_GATE] = REDCO_OP_ROLE_EXPERT_IN,
    [REDCO_USE_EXPERT_UP] = REDCO_OP_ROLE_EXPERT_IN,
    [REDCO_USE_EXPERT_GATE_UP] = REDCO_OP_ROLE_EXPERT_IN,
    [REDCO_USE_EXPERT_DOWN] = REDCO_OP_ROLE_EXPERT_OUT,
    [REDCO_USE_ENCODER_FINAL_NORM] = REDCO_OP_ROLE_FFN_OUT, /* with the last operator of the encoder */
    [REDCO_USE_FINAL_NORM] = REDCO_OP_ROLE_FINAL_NORM,
    [REDCO_USE_PROJECT_OUT] = REDCO_OP_ROLE_HEAD,
    [REDCO_USE_HEAD] = REDCO_OP_ROLE_HEAD,
};

redco_op_role redco_model_use_role(const redco_model *model, redco_param_use use)
{
    /* Side by side both norms read the block's input: the simulator counts them as one operator. */
    const bool shared = use == REDCO_USE_FFN_NORM && redco_model_get_dims(model)->parallel_block;
    return use_roles[shared ? REDCO_USE_ATTENTION_NORM : use];
}

static void begin(redcoi_pass *p, redco_param_use use)
{
    redco_graph_set_role(p->g, redco_model_use_role(p->lm->model, use));
}

/* A tensor of the layer's class, else of the one class that has it. @return NULL if there is none */
static const redco_param *find(const redcoi_pass *p, redco_param_use use, bool bias)
{
    const redco_layer_class *classes = NULL;
    const redco_param *params = NULL;
    const size_t class_count = redco_model_classes(p->lm->model, &classes);
    (void)redco_model_tensors(p->lm->model, &params);
    for (uint32_t c = 0; c <= class_count; c++) {
        const uint32_t id = redco_model_find(p->lm->model, c == 0 ? p->class_index : c - 1, use, bias);
        if (id != REDCO_NO_PARAM) { return &params[id]; }
    }
    return NULL;
}

/* As it is stored. */
static redco_value stored(redcoi_pass *p, redco_param_use use, bool bias)
{
    char name[REDCOI_MODEL_NAME_SIZE], whole[REDCO_PREFIX_MAX + REDCOI_MODEL_NAME_SIZE];
    const redco_param *const param = find(p, use, bias);
    if (param == NULL) { return REDCO_NO_VALUE; }
    (void)redcoi_param_name(param, p->layer, name);
    if (p->lm->prefix == NULL) { return redco_scope_value(p->scope, name); }
    (void)snprintf(whole, sizeof whole, "%s%s", p->lm->prefix, name);
    return redco_scope_value(p->scope, whole);
}

static redco_value weight(redcoi_pass *p, redco_param_use use, bool bias)
{
    return redco_cast(p->g, stored(p, use, bias), p->scope->compute);
}

bool redcoi_lm_has(const redcoi_pass *p, redco_param_use use)
{
    return find(p, use, false) != NULL;
}

static redco_value plus_bias(redcoi_pass *p, redco_param_use use, redco_value y)
{
    return find(p, use, true) != NULL ? redco_add(p->g, y, weight(p, use, true)) : y;
}

redco_value redcoi_lm_product(redcoi_pass *p, redco_param_use use, redco_value x)
{
    begin(p, use);
    return plus_bias(p, use, redco_matmul(p->g, x, weight(p, use, false), false, false));
}

redco_value redcoi_lm_norm(redcoi_pass *p, redco_param_use use, redco_value x)
{
    const redco_tensor_type type = redco_type(p->scope->compute, 1, &(uint64_t){p->dims->hidden});
    const bool affine = redcoi_lm_has(p, use);
    begin(p, use);
    redco_value gain = affine ? weight(p, use, false) : redco_constant(p->g, &type, 1.0);
    if (p->lm->family->graph.gain_is_added) { gain = redco_shift(p->g, gain, 1.0); }
    if (p->dims->norm == REDCO_NORM_RMS) { return redco_rms_norm(p->g, x, gain, p->set->norm_epsilon); }
    const bool shifted = find(p, use, true) != NULL;
    const redco_value shift = shifted ? weight(p, use, true) : redco_constant(p->g, &type, 0.0);
    return redco_layer_norm(p->g, x, gain, shift, p->set->norm_epsilon);
}

/* Only the rows that are looked up are cast. */
redco_value redcoi_lm_rows(redcoi_pass *p, redco_param_use use, redco_value index)
{
    return redco_cast(p->g, redco_gather(p->g, stored(p, use, false), index, NULL), p->scope->compute);
}

redco_value redcoi_lm_tokens(redcoi_pass *p, redco_value tokens)
{
    begin(p, REDCO_USE_TABLE);
    const redco_value rows = redcoi_lm_rows(p, REDCO_USE_TABLE, tokens);
    return p->set->embedding_scale != 0.0 ? redco_scale(p->g, rows, p->set->embedding_scale) : rows;
}

redco_value redcoi_lm_positions(redcoi_pass *p, int32_t offset)
{
    const redco_tensor_type type = redco_type(REDCO_I32, 1, &p->length);
    const redco_value positions = p->positions != REDCO_NO_VALUE ? p->positions : redco_iota(p->g, &type, 0);
    return offset == 0 ? positions : redco_shift(p->g, positions, offset);
}

redco_value redcoi_lm_heads(redcoi_pass *p, redco_value x, uint64_t heads)
{
    return redco_reshape(p->g, x, 4, (const uint64_t[]){p->batch, p->length, heads, p->dims->head_dim});
}

void redcoi_lm_rotate(redcoi_pass *p, redco_value *q, redco_value *k)
{
    redco_graph_set_role(p->g, REDCO_OP_ROLE_ROTARY);
    *q = redco_rotary(p->g, *q, p->cosines, p->sines, p->set->rope.interleaved);
    *k = redco_rotary(p->g, *k, p->cosines, p->sines, p->set->rope.interleaved);
}

redco_value redcoi_lm_attend(redcoi_pass *p, const redcoi_lm_attention_kind *kind, redco_value q, redco_value k,
                             redco_value v)
{
    const uint64_t width = (uint64_t)p->dims->heads * p->dims->head_dim;
    redco_attention_options options = {.causal = kind->causal, .scale = p->set->score_scale};
    if (options.scale == 0.0) { options.scale = 1.0 / sqrt((double)p->dims->head_dim); }
    if (p->set->scale_by_layer) { options.scale /= (double)p->layer + 1.0; }
    if (p->layer >= p->set->first_window && p->set->window < p->length) { options.window = p->set->window; }
    redco_graph_set_role(p->g, kind->role);
    redco_value bias = kind->bias;
    if (p->caches != NULL && kind->causal) { redcoi_cache_extend(p, &options, &k, &v, &bias); }
    if (p->source_lengths != REDCO_NO_VALUE && !kind->causal) {
        bias = redcoi_mask_source(p, bias, redco_value_type(p->g, k)->dim[1]);
    }
    const redco_value seen = redco_attend(p->g, q, k, v, bias, &options);
    return redcoi_lm_product(p, kind->output,
                             redco_reshape(p->g, seen, 3, (const uint64_t[]){p->batch, p->length, width}));
}

redco_value redcoi_lm_attention(redcoi_pass *p, redco_value q, redco_value k, redco_value v)
{
    const redcoi_lm_attention_kind kind = {REDCO_OP_ROLE_ATTENTION, REDCO_USE_OUTPUT, true, p->bias};
    return redcoi_lm_attend(p, &kind, q, k, v);
}

redco_value redcoi_lm_attend_by_three(redcoi_pass *p, const redcoi_lm_attention_kind *kind, redco_param_use query,
                                      redco_value y, redco_value keys)
{
    const uint64_t heads = p->dims->heads;
    const redco_value q = redcoi_lm_product(p, query, y);
    if (p->caches != NULL && p->caches->decoding && kind->role == REDCO_OP_ROLE_CROSS_ATTENTION) {
        redco_value kept[2];
        redcoi_cache_source(p, &kept[0], &kept[1]);
        return redcoi_lm_attend(p, kind, redcoi_lm_heads(p, q, heads), kept[0], kept[1]);
    }
    const redco_value k = redcoi_lm_product(p, (redco_param_use)(query + 1), keys);
    const redco_value v = redcoi_lm_product(p, (redco_param_use)(query + 2), keys);
    if (y == keys) { redco_graph_set_role(p->g, REDCO_OP_ROLE_SPLIT_HEADS); }
    const redco_value q_heads = redcoi_lm_heads(p, q, heads), k_heads = redcoi_lm_heads(p, k, heads);
    return redcoi_lm_attend(p, kind, q_heads, k_heads, redcoi_lm_heads(p, v, heads));
}

redco_value redcoi_lm_rotary_attention(redcoi_pass *p, redco_value y)
{
    redco_value q = redcoi_lm_heads(p, redcoi_lm_product(p, REDCO_USE_QUERY, y), p->dims->heads);
    redco_value k = redcoi_lm_heads(p, redcoi_lm_product(p, REDCO_USE_KEY, y), p->dims->kv_heads);
    const redco_value v = redcoi_lm_heads(p, redcoi_lm_product(p, REDCO_USE_VALUE, y), p->dims->kv_heads);
    if (p->dims->head_norms) {
        q = redcoi_lm_norm(p, REDCO_USE_QUERY_NORM, q);
        k = redcoi_lm_norm(p, REDCO_USE_KEY_NORM, k);
    }
    redcoi_lm_rotate(p, &q, &k);
    return redcoi_lm_attention(p, q, k, v);
}

void redcoi_lm_split_by_head(redcoi_pass *p, redco_value qkv, redco_value qkv_out[3])
{
    const uint64_t size = p->dims->head_dim, dim[4] = {p->batch, p->length, p->dims->heads, 3 * size};
    const redco_value by_head = redco_reshape(p->g, qkv, 4, dim);
    for (uint32_t i = 0; i < 3; i++) { qkv_out[i] = redco_slice_axis(p->g, by_head, 3, i * size, size); }
}

void redcoi_lm_split_in_thirds(redcoi_pass *p, redco_value qkv, redco_value qkv_out[3])
{
    const uint64_t width = (uint64_t)p->dims->heads * p->dims->head_dim;
    for (uint32_t i = 0; i < 3; i++) {
        qkv_out[i] = redcoi_lm_heads(p, redco_slice_axis(p->g, qkv, 2, i * width, width), p->dims->heads);
    }
}

/* With n the largest power of 2 that is no more than the heads, head i < n has the slope 2^(-8 (i + 1) / n); the others
 * have every second one of those of 2 n heads, 2^(-8 (2 (i - n) + 1) / (2 n)). */
void redcoi_lm_alibi(redcoi_pass *p)
{
    redco_graph *const g = p->g;
    const uint64_t heads = p->dims->heads;
    const redco_tensor_type by_head = redco_type(REDCO_I32, 4, (const uint64_t[]){1, heads, 1, 1});
    const uint64_t keys = p->caches != NULL && p->caches->decoding ? p->caches->keys : p->length;
    const redco_tensor_type by_key = redco_type(REDCO_I32, 4, (const uint64_t[]){1, 1, 1, keys});
    const redco_dtype dtype = redco_dtype_statistic(p->scope->compute);
    uint64_t n = 1;
    while (2 * n <= heads) { n *= 2; }
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value head = redco_cast(g, redco_iota(g, &by_head, 1), REDCO_F64); /* as the rotary tables */
    const redco_value base = redco_scale(g, redco_shift(g, head, 1.0), 8.0 / (double)n);
    const redco_value rest = redco_scale(g, redco_shift(g, head, 0.5 - (double)n), 8.0 / (double)n);
    const redco_value is_base = redco_less(g, head, redco_scalar(g, REDCO_F64, (double)n));
    const redco_value slope = redco_exp(g, redco_scale(g, redco_select(g, is_base, base, rest), -log(2.0)));
    const redco_value key = redco_cast(g, redco_iota(g, &by_key, 3), REDCO_F64);
    p->bias = redco_cast(g, redco_mul(g, slope, key), dtype);
}

static redco_value activate(redcoi_pass *p, redco_value x)
{
    redco_graph_set_role(p->g, REDCO_OP_ROLE_ACTIVATION);
    switch (p->set->activation) {
    case REDCOI_ACTIVATION_SILU: return redco_silu(p->g, x);
    case REDCOI_ACTIVATION_GELU: return redco_gelu(p->g, x);
    case REDCOI_ACTIVATION_GELU_TANH: return redco_gelu_tanh(p->g, x);
    case REDCOI_ACTIVATION_RELU: return redco_relu(p->g, x);
    }
    return REDCO_NO_VALUE;
}

redco_value redcoi_lm_ffn(redcoi_pass *p, redco_value y)
{
    const redco_value gate = p->dims->gated ? redcoi_lm_product(p, REDCO_USE_GATE, y) : REDCO_NO_VALUE;
    const redco_value up = redcoi_lm_product(p, REDCO_USE_UP, y);
    const redco_value active = p->dims->gated ? redco_mul(p->g, activate(p, gate), up) : activate(p, up);
    return redcoi_lm_product(p, REDCO_USE_DOWN, active);
}

redco_value redcoi_lm_block(redcoi_pass *p, redco_value x, redco_value (*attend)(redcoi_pass *p, redco_value y))
{
    x = redco_add(p->g, x, attend(p, redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, x)));
    return redco_add(p->g, x, redcoi_lm_ffn(p, redcoi_lm_norm(p, REDCO_USE_FFN_NORM, x)));
}

redco_value redcoi_lm_logits(redcoi_pass *p, redco_value x)
{
    if (!p->dims->tied) { return redcoi_lm_product(p, REDCO_USE_HEAD, x); }
    begin(p, REDCO_USE_HEAD);
    const redco_value y = redco_matmul(p->g, x, weight(p, REDCO_USE_TABLE, false), false, true);
    return plus_bias(p, REDCO_USE_HEAD, y);
}

redco_value redcoi_lm_head(redcoi_pass *p, redco_value x)
{
    return redcoi_lm_logits(p, redcoi_lm_norm(p, REDCO_USE_FINAL_NORM, x));
}

static const double two_pi = 6.28318530717958647693;

/* LLaMA 3: long waves are stretched, short ones stay, those between are blended by how often they fit into the old
 * length. */
static redco_value llama3(redco_graph *g, const redcoi_rope *rope, redco_value frequency)
{
    const redco_dtype dtype = redco_value_type(g, frequency)->dtype;
    const redco_value fits = redco_scale(g, frequency, rope->old_positions / two_pi);
    const redco_value slow = redco_scale(g, frequency, 1.0 / rope->factor);
    const redco_value share = redco_scale(g, redco_shift(g, fits, -rope->low), 1.0 / (rope->high - rope->low));
    const redco_value rest = redco_shift(g, redco_neg(g, share), 1.0);
    const redco_value blend = redco_add(g, redco_mul(g, rest, slow), redco_mul(g, share, frequency));
    const redco_value is_long = redco_less(g, fits, redco_scalar(g, dtype, rope->low));
    const redco_value is_short = redco_less(g, redco_scalar(g, dtype, rope->high), fits);
    return redco_select(g, is_long, slow, redco_select(g, is_short, frequency, blend));
}

void redcoi_lm_rotary_tables(redcoi_pass *p)
{
    redco_graph *const g = p->g;
    const redcoi_rope *const rope = &p->set->rope;
    const redco_tensor_type pairs = redco_type(REDCO_I32, 1, &(uint64_t){rope->size / 2});
    if (rope->size == 0) { return; }
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value positions = redcoi_lm_positions(p, 0);
    const redco_value at = p->positions != REDCO_NO_VALUE
                               ? redco_reshape(g, positions, 3, (const uint64_t[]){p->batch, p->length, 1})
                               : redco_reshape(g, positions, 2, (const uint64_t[]){p->length, 1});
    /* In F64 whatever the tables are: positions times frequencies need the digits. */
    const redco_value index = redco_cast(g, redco_iota(g, &pairs, 0), REDCO_F64);
    redco_value frequency = redco_exp(g, redco_scale(g, index, -2.0 * log(rope->theta) / (double)rope->size));
    if (rope->kind == REDCOI_ROPE_LINEAR) { frequency = redco_scale(g, frequency, 1.0 / rope->factor); }
    if (rope->kind == REDCOI_ROPE_LLAMA3) { frequency = llama3(g, rope, frequency); }
    const redco_value angle = redco_mul(g, redco_cast(g, at, REDCO_F64), frequency);
    p->cosines = redco_cast(g, redco_cos(g, angle), redco_dtype_statistic(p->scope->compute));
    p->sines = redco_cast(g, redco_sin(g, angle), redco_dtype_statistic(p->scope->compute));
}
