/* The graph of all families: what a family's data and a config say is built here, and by what tensors there are. */
#include "costmodel/models/family.h"

#include <math.h>
#include <stdio.h>

static void begin(redcoi_pass *p, redco_param_use use)
{
    redco_graph_set_role(p->g, redco_model_use_role(p->lm->model, use));
}

/* A tensor of the layer's class, else of the one class that has it. @return NULL if there is none */
static const redco_param *find(const redcoi_pass *p, redco_param_use use, bool bias)
{
    const redco_model *const model = p->lm->model;
    for (uint32_t c = 0; c <= model->class_count; c++) {
        const uint32_t id = redco_model_find(model, c == 0 ? p->class_index : c - 1, use, bias);
        if (id != REDCO_NO_PARAM) { return &model->params[id]; }
    }
    return NULL;
}

static bool has(const redcoi_pass *p, redco_param_use use)
{
    return find(p, use, false) != NULL;
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

bool redcoi_lm_owns(const redcoi_pass *p, redco_param_use use)
{
    return redco_model_find(p->lm->model, p->class_index, use, false) != REDCO_NO_PARAM;
}

redco_value redcoi_lm_weight(redcoi_pass *p, redco_param_use use, bool bias)
{
    return redco_cast(p->g, stored(p, use, bias), p->scope->compute);
}

static redco_value plus_bias(redcoi_pass *p, redco_param_use use, redco_value y)
{
    return find(p, use, true) != NULL ? redco_add(p->g, y, redcoi_lm_weight(p, use, true)) : y;
}

redco_value redcoi_lm_product(redcoi_pass *p, redco_param_use use, redco_value x)
{
    begin(p, use);
    return plus_bias(p, use, redco_matmul(p->g, x, redcoi_lm_weight(p, use, false), false, false));
}

redco_value redcoi_lm_norm(redcoi_pass *p, redco_param_use use, redco_value x)
{
    const redco_param *const own = find(p, use, false);
    const uint64_t width = own != NULL ? own->shape[0] : p->dims->hidden;
    begin(p, use);
    const redco_tensor_type type = redco_type(p->scope->compute, 1, &width);
    redco_value gain = own != NULL ? redcoi_lm_weight(p, use, false) : redco_constant(p->g, &type, 1.0);
    if (p->lm->family->gain_is_added) { gain = redco_shift(p->g, gain, 1.0); }
    if (p->dims->norm == REDCO_NORM_RMS) { return redco_rms_norm(p->g, x, gain, p->set->norm_epsilon); }
    const bool shifted = find(p, use, true) != NULL;
    const redco_value shift = shifted ? redcoi_lm_weight(p, use, true) : redco_constant(p->g, &type, 0.0);
    return redco_layer_norm(p->g, x, gain, shift, p->set->norm_epsilon);
}

/* Only the rows that are looked up are cast. */
redco_value redcoi_lm_rows(redcoi_pass *p, redco_param_use use, redco_value index)
{
    return redco_cast(p->g, redco_gather(p->g, stored(p, use, false), index, NULL), p->scope->compute);
}

redco_value redcoi_lm_positions(redcoi_pass *p, uint32_t offset)
{
    const redco_tensor_type type = redco_type(REDCO_I32, 1, &p->length);
    const redco_value positions = p->positions != REDCO_NO_VALUE ? p->positions : redco_iota(p->g, &type, 0);
    return offset == 0 ? positions : redco_shift(p->g, positions, (double)offset);
}

redco_value redcoi_lm_heads(redcoi_pass *p, redco_value x, uint64_t heads, uint64_t size)
{
    return redco_reshape(p->g, x, 4, (const uint64_t[]){p->batch, p->length, heads, size});
}

redco_value redcoi_lm_embed(redcoi_pass *p, redco_value tokens, bool source)
{
    const redco_param_use positions = source ? REDCO_USE_ENCODER_POSITIONS : REDCO_USE_POSITIONS;
    const redco_param_use norm = source ? REDCO_USE_ENCODER_EMBEDDING_NORM : REDCO_USE_EMBEDDING_NORM;
    begin(p, REDCO_USE_TABLE);
    redco_value x = redcoi_lm_rows(p, REDCO_USE_TABLE, tokens);
    if (p->set->embedding_scale != 0.0) { x = redco_scale(p->g, x, p->set->embedding_scale); }
    if (has(p, REDCO_USE_PROJECT_IN)) { x = redcoi_lm_product(p, REDCO_USE_PROJECT_IN, x); }
    if (has(p, positions)) {
        const redco_value at = redcoi_lm_positions(p, p->lm->family->unused_positions);
        x = redco_add(p->g, x, redcoi_lm_rows(p, positions, at));
    }
    return has(p, norm) ? redcoi_lm_norm(p, norm, x) : x;
}

/* An attention of a block: its own, or that of a decoder to what its encoder makes. */
struct attention {
    redco_param_use query, output; /* keys and values have the two uses behind that of the queries */
    redco_op_role role;
    bool causal, cross;
};

/* Queries, keys and values of one matrix. */
static void split_qkv(redcoi_pass *p, redco_value product, redco_value qkv[3])
{
    const uint64_t heads = p->dims->heads, kv_heads = p->dims->kv_heads, size = p->dims->head_dim;
    switch (p->lm->qkv) {
    case REDCOI_QKV_BY_KIND: {
        const uint64_t count[3] = {heads, kv_heads, kv_heads}, first[3] = {0, heads, heads + kv_heads};
        for (uint32_t i = 0; i < 3; i++) {
            const redco_value part = redco_slice_axis(p->g, product, 2, first[i] * size, count[i] * size);
            qkv[i] = redcoi_lm_heads(p, part, count[i], size);
        }
        break;
    }
    case REDCOI_QKV_BY_HEAD: {
        const redco_value by_head =
            redco_reshape(p->g, product, 4, (const uint64_t[]){p->batch, p->length, heads, 3 * size});
        for (uint32_t i = 0; i < 3; i++) { qkv[i] = redco_slice_axis(p->g, by_head, 3, i * size, size); }
        break;
    }
    case REDCOI_QKV_BY_GROUP: {
        const uint64_t shared = heads / kv_heads, first[3] = {0, shared, shared + 1};
        const redco_value by_group =
            redco_reshape(p->g, product, 5, (const uint64_t[]){p->batch, p->length, kv_heads, shared + 2, size});
        for (uint32_t i = 0; i < 3; i++) {
            const redco_value part = redco_slice_axis(p->g, by_group, 3, first[i], i == 0 ? shared : 1);
            qkv[i] = redcoi_lm_heads(p, part, i == 0 ? heads : kv_heads, size);
        }
        break;
    }
    }
}

/* Heads of queries, keys and values; of a source that is kept the queries' alone. */
static void project(redcoi_pass *p, const struct attention *a, redco_value y, redco_value keys, redco_value qkv[3])
{
    static const redco_param_use norms[2] = {REDCO_USE_QUERIES_NORM, REDCO_USE_KEYS_NORM};
    const bool rotary = p->dims->positions == REDCO_POSITIONS_ROTARY;
    const bool kept = a->cross && p->caches != NULL && p->caches->decoding;
    if (!a->cross && has(p, REDCO_USE_QKV)) {
        const redco_value product = redcoi_lm_product(p, REDCO_USE_QKV, y);
        redco_graph_set_role(p->g, rotary ? REDCO_OP_ROLE_ROTARY : REDCO_OP_ROLE_SPLIT_HEADS);
        split_qkv(p, product, qkv);
        return;
    }
    for (uint32_t i = 0; i < (kept ? 1 : 3); i++) {
        redco_value x = redcoi_lm_product(p, (redco_param_use)(a->query + i), i == 0 ? y : keys);
        if (i < 2 && redcoi_lm_owns(p, norms[i])) { x = redcoi_lm_norm(p, norms[i], x); }
        if (!rotary && !a->cross) { redco_graph_set_role(p->g, REDCO_OP_ROLE_SPLIT_HEADS); }
        qkv[i] = redcoi_lm_heads(p, x, i == 0 ? p->dims->heads : p->dims->kv_heads, p->dims->head_dim);
    }
    if (kept) { redcoi_cache_source(p, &qkv[1], &qkv[2]); }
}

static void rotate(redcoi_pass *p, redco_value qk[2])
{
    static const redco_param_use norms[2] = {REDCO_USE_QUERY_NORM, REDCO_USE_KEY_NORM};
    for (uint32_t i = 0; i < 2 && p->dims->head_norms; i++) { qk[i] = redcoi_lm_norm(p, norms[i], qk[i]); }
    const redco_layer_class *const class = &p->lm->model->classes[p->class_index];
    const bool own = class->window > 0 && p->window_cosines != REDCO_NO_VALUE;
    if (class->unrotated) { return; }
    redco_graph_set_role(p->g, REDCO_OP_ROLE_ROTARY);
    for (uint32_t i = 0; i < 2; i++) {
        qk[i] = redco_rotary(p->g, qk[i], own ? p->window_cosines : p->cosines, own ? p->window_sines : p->sines,
                             p->set->rope.interleaved);
    }
}

static redco_value attend(redcoi_pass *p, const struct attention *a, redco_value y)
{
    const uint64_t width[3] = {p->batch, p->length, (uint64_t)p->dims->heads * redco_value_dim(p->dims)};
    redco_attention_options options = {.causal = a->causal, .scale = p->set->score_scale};
    redco_value qkv[3], bias = a->cross ? REDCO_NO_VALUE : p->bias;
    if (p->dims->key_latent > 0) {
        redcoi_lm_latents(p, y, qkv);
    } else {
        project(p, a, y, a->cross ? p->encoded : y, qkv);
        if (p->dims->positions == REDCO_POSITIONS_ROTARY) { rotate(p, qkv); }
    }
    if (options.scale == 0.0) { options.scale = 1.0 / sqrt((double)p->dims->head_dim); }
    options.cap = p->set->score_cap;
    if (p->set->scale_by_layer) { options.scale /= (double)p->layer + 1.0; }
    const uint64_t window = a->cross ? 0 : p->lm->model->classes[p->class_index].window;
    if (window < p->length) { options.window = window; }
    redco_graph_set_role(p->g, a->role);
    if (p->caches != NULL && a->causal) { redcoi_cache_extend(p, &options, &qkv[1], &qkv[2], &bias); }
    if (p->source_lengths != REDCO_NO_VALUE && !a->causal) {
        bias = redcoi_mask_source(p, bias, redco_value_type(p->g, qkv[1])->dim[1]);
    }
    const redco_value seen = redco_attend(p->g, qkv[0], qkv[1], qkv[2], bias, &options);
    return redcoi_lm_product(p, a->output, redco_reshape(p->g, seen, 3, width));
}

static bool in_encoder(const redcoi_pass *p)
{
    return p->dims->encoder_layers > 0 && p->lm->model->classes[p->class_index].kind == REDCO_CLASS_BLOCK;
}

static redco_value attend_self(redcoi_pass *p, redco_value y)
{
    const redco_param_use output = p->dims->key_latent > 0 ? REDCO_USE_LATENT_OUTPUT : REDCO_USE_OUTPUT;
    const struct attention own = {REDCO_USE_QUERY, output, REDCO_OP_ROLE_ATTENTION, !in_encoder(p), false};
    return attend(p, &own, y);
}

static redco_value attend_source(redcoi_pass *p, redco_value y)
{
    static const struct attention cross = {REDCO_USE_CROSS_QUERY, REDCO_USE_CROSS_OUTPUT, REDCO_OP_ROLE_CROSS_ATTENTION,
                                           false, true};
    return attend(p, &cross, y);
}

redco_value redcoi_lm_activate(redcoi_pass *p, redco_op_role role, redco_value x)
{
    redco_graph_set_role(p->g, role);
    switch (p->set->activation) {
    case REDCOI_ACTIVATION_SILU: return redco_silu(p->g, x);
    case REDCOI_ACTIVATION_GELU: return redco_gelu(p->g, x);
    case REDCOI_ACTIVATION_GELU_TANH: return redco_gelu_tanh(p->g, x);
    case REDCOI_ACTIVATION_RELU: return redco_relu(p->g, x);
    case REDCOI_ACTIVATION_RELU_SQUARED: {
        const redco_value positive = redco_relu(p->g, x);
        return redco_mul(p->g, positive, positive);
    }
    }
    return REDCO_NO_VALUE;
}

redco_value redcoi_lm_gated(redcoi_pass *p, redco_param_use gate, redco_param_use down, redco_op_role role,
                            redco_value y)
{
    const redco_value first = p->dims->gated ? redcoi_lm_product(p, gate, y) : REDCO_NO_VALUE;
    const redco_value other = redcoi_lm_product(p, (redco_param_use)(gate + 1), y);
    const redco_value active = p->dims->gated ? redco_mul(p->g, redcoi_lm_activate(p, role, first), other)
                                              : redcoi_lm_activate(p, role, other);
    return redcoi_lm_product(p, down, active);
}

static redco_value feed_forward(redcoi_pass *p, redco_value y)
{
    if (redcoi_lm_owns(p, REDCO_USE_ROUTER)) { return redcoi_lm_experts(p, y); }
    if (!has(p, REDCO_USE_GATE_UP)) {
        return redcoi_lm_gated(p, REDCO_USE_GATE, REDCO_USE_DOWN, REDCO_OP_ROLE_ACTIVATION, y);
    }
    const redco_value both = redcoi_lm_product(p, REDCO_USE_GATE_UP, y);
    const redco_value gate = redco_slice_axis(p->g, both, 2, 0, p->dims->ffn);
    const redco_value up = redco_slice_axis(p->g, both, 2, p->dims->ffn, p->dims->ffn);
    const redco_value active = redco_mul(p->g, redcoi_lm_activate(p, REDCO_OP_ROLE_ACTIVATION, gate), up);
    return redcoi_lm_product(p, REDCO_USE_DOWN, active);
}

/* One of the parts of a block that stand behind one another, with its norm and its residual sum. */
static redco_value add_part(redcoi_pass *p, redco_param_use norm, redco_value (*part)(redcoi_pass *p, redco_value y),
                            redco_param_use end_norm, redco_value x)
{
    if (p->dims->post_norm) { return redcoi_lm_norm(p, norm, redco_add(p->g, x, part(p, x))); }
    const bool ends = redcoi_lm_owns(p, end_norm);
    const redco_value y = ends && !redcoi_lm_owns(p, norm) ? x : redcoi_lm_norm(p, norm, x);
    redco_value made = part(p, y);
    if (ends) { made = redcoi_lm_norm(p, end_norm, made); }
    if (p->set->residual_scale != 0.0) { made = redco_scale(p->g, made, p->set->residual_scale); }
    return redco_add(p->g, p->set->residual_from_norm ? y : x, made);
}

/* The parts first: under tensor parallelism both are sums over ranks, which become one. */
static redco_value parallel_block(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, x), attended = attend_self(p, y);
    const redco_value z = has(p, REDCO_USE_FFN_NORM) ? redcoi_lm_norm(p, REDCO_USE_FFN_NORM, x) : y;
    return redco_add(p->g, redco_add(p->g, attended, feed_forward(p, z)), x);
}

redco_value redcoi_lm_block(redcoi_pass *p, redco_value x)
{
    if (p->dims->parallel_block) { return parallel_block(p, x); }
    const bool predicts = redcoi_lm_owns(p, REDCO_USE_MTP_PROJECT);
    if (predicts) { x = redcoi_lm_predict_in(p, x); }
    x = add_part(p, REDCO_USE_ATTENTION_NORM, attend_self, REDCO_USE_ATTENTION_END_NORM, x);
    if (p->lm->model->classes[p->class_index].kind == REDCO_CLASS_CROSS) {
        x = add_part(p, REDCO_USE_CROSS_NORM, attend_source, REDCO_USES, x);
    }
    x = add_part(p, REDCO_USE_FFN_NORM, feed_forward, REDCO_USE_FFN_END_NORM, x);
    if (predicts) { redcoi_lm_predict_out(p, x); }
    return x;
}

/* The matrix of the head, [hidden, words] or, of a tied one, its transpose. */
static redco_value head_product(redcoi_pass *p, redco_value x)
{
    redco_value w = redcoi_lm_weight(p, p->dims->tied ? REDCO_USE_TABLE : REDCO_USE_HEAD, false);
    if (p->set->unit_head) {
        const redco_value squares = redco_sum_axis(p->g, redco_mul(p->g, w, w), p->dims->tied ? 1 : 0, true);
        w = redco_mul(p->g, w, redco_rsqrt(p->g, squares));
    }
    return plus_bias(p, REDCO_USE_HEAD, redco_matmul(p->g, x, w, false, p->dims->tied));
}

redco_value redcoi_lm_head(redcoi_pass *p, redco_value x)
{
    const double cap = p->set->logit_cap;

    if (!p->dims->no_final_norm) { x = redcoi_lm_norm(p, REDCO_USE_FINAL_NORM, x); }
    if (has(p, REDCO_USE_PROJECT_OUT)) { x = redcoi_lm_product(p, REDCO_USE_PROJECT_OUT, x); }
    begin(p, REDCO_USE_HEAD);
    /* The scale belongs to the head: the gradient of its input is reduced before the norm's backward. */
    if (p->set->scaled_head) { x = redco_scale(p->g, x, 1.0 / sqrt((double)p->dims->hidden)); }
    if (p->set->logit_scale != 0.0) { x = redco_scale(p->g, x, p->set->logit_scale); }
    const redco_value logits = head_product(p, x);
    return cap == 0.0 ? logits : redco_scale(p->g, redco_tanh(p->g, redco_scale(p->g, logits, 1.0 / cap)), cap);
}
