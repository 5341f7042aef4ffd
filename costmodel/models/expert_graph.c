/* Mixtures of experts, latent attention and multi-token prediction in the graph of all families.
 *
 * Experts: Shazeer et al., arXiv 1701.06538, without a capacity: every choice has a row. Weights of choices multiply
 * what an expert's activation made, as Megatron Core's experts do (transformer/moe/experts.py), so that no backward
 * reads what the experts give. Latent attention: DeepSeek-AI, arXiv 2405.04434, section 2.1. Multi-token prediction:
 * arXiv 2412.19437, section 2.2. */
#include "costmodel/models/family.h"

/* Scores of all experts, the choice of the best, and their weights as a column of rows that lie by expert. */
static redco_value route(redcoi_pass *p, redco_value rows, redco_value *index_out)
{
    redco_graph *const g = p->g;
    const uint64_t tokens = p->batch * p->length, experts = p->dims->experts, choices = p->dims->choices;
    const uint64_t each[3] = {tokens, choices, experts}, one[3] = {tokens, 1, experts}, row[2] = {tokens * choices, 1};
    const redco_value logits = redcoi_lm_product(p, REDCO_USE_ROUTER, rows);
    const redco_value scores = p->lm->family->sigmoid_router ? redco_sigmoid(g, logits) : redco_softmax(g, logits);
    const redco_value index = redco_top_k(g, scores, choices);
    const redco_value repeated = redco_broadcast_to(g, redco_reshape(g, scores, 3, one), 3, each);
    const redco_value weights = redco_pick(g, repeated, index, NULL);
    *index_out = index;
    redco_graph_set_role(g, REDCO_OP_ROLE_PERMUTE);
    return redco_sort_rows(g, redco_reshape(g, weights, 2, row), redco_reshape(g, index, 2, row), experts, false);
}

static redco_value product(redcoi_pass *p, redco_param_use use, redco_value rows, redco_value index)
{
    redco_graph_set_role(p->g, redco_model_use_role(p->lm->model, use));
    return redco_grouped_matmul(p->g, rows, redcoi_lm_weight(p, use, false), index, false);
}

/* Rows by expert through gate, up and down. */
static redco_value routed(redcoi_pass *p, redco_value rows, redco_value index, redco_value weights)
{
    redco_graph *const g = p->g;
    const uint64_t width = p->dims->expert_ffn;
    redco_value gate, up;
    if (redcoi_lm_owns(p, REDCO_USE_EXPERT_GATE_UP)) {
        const redco_value both = product(p, REDCO_USE_EXPERT_GATE_UP, rows, index);
        gate = redco_slice_axis(g, both, 1, 0, width);
        up = redco_slice_axis(g, both, 1, width, width);
    } else {
        gate = product(p, REDCO_USE_EXPERT_GATE, rows, index);
        up = product(p, REDCO_USE_EXPERT_UP, rows, index);
    }
    const redco_value active = redco_mul(g, redcoi_lm_activate(p, REDCO_OP_ROLE_EXPERT_ACTIVATION, gate), up);
    return product(p, REDCO_USE_EXPERT_DOWN, redco_mul(g, active, weights), index);
}

redco_value redcoi_lm_experts(redcoi_pass *p, redco_value y)
{
    redco_graph *const g = p->g;
    const uint64_t experts = p->dims->experts, shape[3] = {p->batch, p->length, p->dims->hidden};
    const redco_value tokens = redco_reshape(g, y, 2, (const uint64_t[]){p->batch * p->length, p->dims->hidden});
    redco_value index = REDCO_NO_VALUE;
    const redco_value weights = route(p, tokens, &index);
    const redco_value rows = redco_sort_rows(g, tokens, index, experts, false);
    const redco_value made = routed(p, rows, index, weights);
    redco_graph_set_role(g, REDCO_OP_ROLE_UNPERMUTE);
    const redco_value sum = redco_reshape(g, redco_sort_rows(g, made, index, experts, true), 3, shape);
    if (!redcoi_lm_owns(p, REDCO_USE_SHARED_UP)) { return sum; }
    redco_value shared =
        redcoi_lm_gated(p, REDCO_USE_SHARED_GATE, REDCO_USE_SHARED_DOWN, REDCO_OP_ROLE_SHARED_ACTIVATION, y);
    if (redcoi_lm_owns(p, REDCO_USE_SHARED_SCALE)) {
        shared = redco_mul(g, shared, redco_sigmoid(g, redcoi_lm_product(p, REDCO_USE_SHARED_SCALE, y)));
    }
    return redco_add(g, sum, shared);
}

/* The last elements of each head, or of the one that all share, are rotated. */
static redco_value rotated(redcoi_pass *p, redco_value x, uint64_t begin)
{
    redco_graph_set_role(p->g, REDCO_OP_ROLE_ROTARY);
    const redco_value part = redco_slice_axis(p->g, x, 3, begin, p->dims->rotary_dim);
    return redco_rotary(p->g, part, p->cosines, p->sines, p->set->rope.interleaved);
}

static redco_value joined(redcoi_pass *p, redco_value plain, redco_value turned)
{
    return redco_concat(p->g, (const redco_value[]){plain, turned}, 2, 3);
}

static redco_value queries(redcoi_pass *p, redco_value y)
{
    const uint64_t plain = p->dims->head_dim - p->dims->rotary_dim;
    if (p->dims->query_latent > 0) {
        const redco_value latent = redcoi_lm_product(p, REDCO_USE_QUERY_DOWN, y);
        y = redcoi_lm_product(p, REDCO_USE_QUERY_UP, redcoi_lm_norm(p, REDCO_USE_QUERY_LATENT_NORM, latent));
    } else {
        y = redcoi_lm_product(p, REDCO_USE_QUERY, y);
    }
    const redco_value heads = redcoi_lm_heads(p, y, p->dims->heads, p->dims->head_dim);
    const redco_value turned = rotated(p, heads, plain);
    return joined(p, redco_slice_axis(p->g, heads, 3, 0, plain), turned);
}

void redcoi_lm_latents(redcoi_pass *p, redco_value y, redco_value qkv[3])
{
    redco_graph *const g = p->g;
    const uint64_t heads = p->dims->heads, size = p->dims->key_latent, turned = p->dims->rotary_dim;
    const uint64_t plain = p->dims->head_dim - turned, value = redco_value_dim(p->dims);
    const uint64_t every[4] = {p->batch, p->length, heads, turned};
    qkv[0] = queries(p, y);
    const redco_value down = redcoi_lm_product(p, REDCO_USE_KV_DOWN, y);
    const redco_value latent = redcoi_lm_norm(p, REDCO_USE_KV_LATENT_NORM, redco_slice_axis(g, down, 2, 0, size));
    const redco_value up = redcoi_lm_heads(p, redcoi_lm_product(p, REDCO_USE_KV_UP, latent), heads, plain + value);
    const redco_value key = rotated(p, redcoi_lm_heads(p, down, 1, size + turned), size);
    qkv[1] = joined(p, redco_slice_axis(g, up, 3, 0, plain), redco_broadcast_to(g, key, 4, every));
    qkv[2] = redco_slice_axis(g, up, 3, plain, value);
}

redco_value redcoi_lm_predict_in(redcoi_pass *p, redco_value x)
{
    redco_graph_set_role(p->g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value rows = redcoi_lm_rows(p, REDCO_USE_MTP_TABLE, p->tokens);
    const redco_value both[2] = {redcoi_lm_norm(p, REDCO_USE_MTP_TOKEN_NORM, rows),
                                 redcoi_lm_norm(p, REDCO_USE_MTP_HIDDEN_NORM, x)};
    return redcoi_lm_product(p, REDCO_USE_MTP_PROJECT, redco_concat(p->g, both, 2, 2));
}

void redcoi_lm_predict_out(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_norm(p, REDCO_USE_MTP_FINAL_NORM, x);
    const redco_value logits = redcoi_lm_product(p, REDCO_USE_MTP_HEAD, y);
    redco_graph_set_role(p->g, REDCO_OP_ROLE_LOSS);
    (void)redco_cross_entropy(p->g, logits, p->tokens, true);
}
