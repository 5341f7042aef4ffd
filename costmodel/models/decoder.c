/* Operators that the families share. */
#include "costmodel/models/decoder.h"

#include <math.h>
#include <stdio.h>

enum { NAME_SIZE = 200 };

static const char *full_name(const redcoi_pass *p, const char *module, const char *leaf, char buffer[NAME_SIZE])
{
    const bool whole = module[0] == '/';
    (void)snprintf(buffer, NAME_SIZE, "%s%s.%s", whole ? "" : p->prefix, whole ? module + 1 : module, leaf);
    return buffer;
}

static bool has(const redcoi_pass *p, const char *module, const char *leaf)
{
    char name[NAME_SIZE];
    return redco_scope_has(p->scope, full_name(p, module, leaf, name));
}

redco_value redcoi_lm_weight(redcoi_pass *p, const char *module, const char *leaf)
{
    char name[NAME_SIZE];
    return redco_scope_weight(p->scope, full_name(p, module, leaf, name));
}

redco_value redcoi_lm_product(redcoi_pass *p, const char *operator_name, const char *module, redco_value x)
{
    redco_graph_set_operator(p->g, operator_name);
    const redco_value y = redco_matmul(p->g, x, redcoi_lm_weight(p, module, "weight"), false, false);
    return has(p, module, "bias") ? redco_add(p->g, y, redcoi_lm_weight(p, module, "bias")) : y;
}

redco_value redcoi_lm_rms_norm(redcoi_pass *p, const char *operator_name, const char *module, redco_value x)
{
    redco_graph_set_operator(p->g, operator_name);
    return redco_rms_norm(p->g, x, redcoi_lm_weight(p, module, "weight"), p->set->norm_epsilon);
}

redco_value redcoi_lm_layer_norm(redcoi_pass *p, const char *operator_name, const char *module, redco_value x)
{
    const redco_tensor_type type = redco_type(p->scope->compute, 1, &(uint64_t){p->dims->hidden});
    const bool affine = has(p, module, "weight");
    redco_graph_set_operator(p->g, operator_name);
    const redco_value gain = affine ? redcoi_lm_weight(p, module, "weight") : redco_constant(p->g, &type, 1.0);
    const redco_value shift = affine ? redcoi_lm_weight(p, module, "bias") : redco_constant(p->g, &type, 0.0);
    return redco_layer_norm(p->g, x, gain, shift, p->set->norm_epsilon);
}

/* Only the rows that are looked up are cast. */
redco_value redcoi_lm_rows(redcoi_pass *p, const char *module, redco_value index)
{
    char name[NAME_SIZE];
    const redco_value table = redco_scope_value(p->scope, full_name(p, module, "weight", name));
    return redco_cast(p->g, redco_gather(p->g, table, index, NULL), p->scope->compute);
}

redco_value redcoi_lm_positions(redcoi_pass *p, int32_t offset)
{
    const redco_tensor_type type = redco_type(REDCO_I32, 1, &p->length);
    const redco_value positions = redco_iota(p->g, &type, 0);
    return offset == 0 ? positions : redco_shift(p->g, positions, offset);
}

redco_value redcoi_lm_heads(redcoi_pass *p, redco_value x, uint64_t heads)
{
    return redco_reshape(p->g, x, 4, (const uint64_t[]){p->batch, p->length, heads, p->dims->head_dim});
}

void redcoi_lm_rotate(redcoi_pass *p, redco_value *q, redco_value *k)
{
    redco_graph_set_operator(p->g, "rotary");
    *q = redco_rotary(p->g, *q, p->cosines, p->sines, p->set->rope.interleaved);
    *k = redco_rotary(p->g, *k, p->cosines, p->sines, p->set->rope.interleaved);
}

redco_value redcoi_lm_attention(redcoi_pass *p, redco_value q, redco_value k, redco_value v)
{
    const uint64_t width = (uint64_t)p->dims->heads * p->dims->head_dim;
    redco_attention_options options = {.causal = true, .scale = p->set->score_scale};
    if (options.scale == 0.0) { options.scale = 1.0 / sqrt((double)p->dims->head_dim); }
    if (p->set->scale_by_layer) { options.scale /= (double)p->layer + 1.0; }
    if (p->layer >= p->set->first_window && p->set->window < p->length) { options.window = p->set->window; }
    redco_graph_set_operator(p->g, "attention");
    const redco_value seen = redco_attend(p->g, q, k, v, REDCO_NO_VALUE, &options);
    return redco_reshape(p->g, seen, 3, (const uint64_t[]){p->batch, p->length, width});
}

redco_value redcoi_lm_activate(redcoi_pass *p, redco_value x)
{
    redco_graph_set_operator(p->g, "activation");
    switch (p->set->activation) {
    case REDCOI_ACTIVATION_SILU: return redco_silu(p->g, x);
    case REDCOI_ACTIVATION_GELU: return redco_gelu(p->g, x);
    case REDCOI_ACTIVATION_GELU_TANH: return redco_gelu_tanh(p->g, x);
    case REDCOI_ACTIVATION_RELU: return redco_relu(p->g, x);
    }
    return REDCO_NO_VALUE;
}

redco_value redcoi_lm_logits(redcoi_pass *p, const char *module, const char *table, redco_value x)
{
    if (!p->dims->tied) { return redcoi_lm_product(p, "head", module, x); }
    redco_graph_set_operator(p->g, "head");
    const redco_value y = redco_matmul(p->g, x, redcoi_lm_weight(p, table, "weight"), false, true);
    return has(p, module, "bias") ? redco_add(p->g, y, redcoi_lm_weight(p, module, "bias")) : y;
}
