/* Launches, counted from the record. A trace of Qwen3-30B on 16 H100 (Megatron-Bridge, bf16, 8 local experts) has 151 a
 * layer and micro-batch, both passes. */
#include "costmodel/operators/launches.h"

/* Forward and backward. */
struct pair {
    double forward, backward;
};

static const struct pair product = {1.0, 2.0}, norm = {1.0, 2.0}, core = {1.0, 3.0}, elements = {1.0, 1.0},
                         rows = {4.0, 4.0}, router = {24.0, 12.0}, exchange = {4.0, 4.0}, biased = {3.0, 3.0},
                         narrow = {2.0, 2.0};
/* Each product of a local expert; in 8 bits with its casts. */
static const struct pair expert = {1.0, 2.0}, narrow_expert = {4.0, 8.0};

/* The parts of a layer in the order in which scopes of graphs take them in. */
static redco_graph_scope scope_of(redco_op_role role)
{
    switch (role) {
    case REDCO_OP_ROLE_ROUTER:
    case REDCO_OP_ROLE_FFN_NORM:
    case REDCO_OP_ROLE_FFN_END_NORM:
    case REDCO_OP_ROLE_FFN_IN:
    case REDCO_OP_ROLE_ACTIVATION:
    case REDCO_OP_ROLE_FFN_OUT: return REDCO_GRAPHS_ROUTER;
    case REDCO_OP_ROLE_SHARED_IN:
    case REDCO_OP_ROLE_SHARED_ACTIVATION:
    case REDCO_OP_ROLE_SHARED_OUT: return REDCO_GRAPHS_SHARED;
    case REDCO_OP_ROLE_PERMUTE:
    case REDCO_OP_ROLE_UNPERMUTE:
    case REDCO_OP_ROLE_EXPERT_IN:
    case REDCO_OP_ROLE_EXPERT_ACTIVATION:
    case REDCO_OP_ROLE_EXPERT_OUT:
    case REDCO_OP_ROLE_CASTS: return REDCO_GRAPHS_NONE; /* sizes that routing decides */
    default: return REDCO_GRAPHS_ATTENTION;
    }
}

static bool in_graph(const redco_engine *engine, redco_op_role role)
{
    const redco_graph_scope scope = scope_of(role);
    if (engine->cuda_graphs) { return true; }
    return engine->graphs >= REDCO_GRAPHS_ATTENTION && scope != REDCO_GRAPHS_NONE && scope <= engine->graphs;
}

static struct pair add(struct pair sum, double times, struct pair each)
{
    return (struct pair){sum.forward + times * each.forward, sum.backward + times * each.backward};
}

static struct pair launches_of(const redco_rank_layer *layer, const redco_operator *op)
{
    const bool low = op->low_precision && layer->shape->engine.gemm_format != REDCO_GEMM_SAME;
    struct pair sum = {0.0, 0.0};
    switch (op->kind) {
    case REDCO_OPERATOR_GEMM:
        if (op->grouped) {
            const double local = op->experts > 1 ? (double)op->experts : 1.0;
            sum = add(sum, local, low ? narrow_expert : expert);
            return op->bias_bytes > 0.0 ? add(sum, local, biased) : sum;
        }
        sum = add(sum, 1.0, product);
        if (op->role == REDCO_OP_ROLE_ROUTER) { sum = add(sum, 1.0, router); }
        return low ? add(sum, 1.0, narrow) : sum;
    case REDCO_OPERATOR_ATTENTION:
    case REDCO_OPERATOR_SCORES: return core;
    case REDCO_OPERATOR_NORM: return norm;
    case REDCO_OPERATOR_MEMORY:
        if (op->role == REDCO_OP_ROLE_PERMUTE || op->role == REDCO_OP_ROLE_UNPERMUTE) {
            return layer->shape->ep > 1 ? add(rows, 1.0, exchange) : rows;
        }
        return op->columns > 0 ? norm : elements;
    case REDCO_OPERATOR_CAST: return sum; /* counted with their products */
    case REDCO_OPERATOR_LOSS:
    case REDCO_OPERATOR_EMBEDDING:
    case REDCO_OPERATOR_LISTED: break;
    }
    return elements;
}

static bool is_of_adapters(redco_op_role role)
{
    return role == REDCO_OP_ROLE_ADAPTER || role == REDCO_OP_ROLE_DEQUANTISE;
}

static double launches(const redco_rank_layer *layer, bool backward, bool adapters)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < layer->op_count; i++) {
        const redco_operator op = redco_rank_operator(layer, i);
        if (in_graph(&layer->shape->engine, op.role) || (!adapters && is_of_adapters(op.role))) { continue; }
        const struct pair pair = launches_of(layer, &op);
        sum += backward ? pair.backward - (op.frozen ? 1.0 : 0.0) : pair.forward;
    }
    return sum;
}

double redco_layer_launches(const redco_rank_layer *layer, bool backward)
{
    return launches(layer, backward, true);
}

double redco_adapted_launch_ratio(const redco_rank_layer *layer, bool backward)
{
    const double without = launches(layer, backward, false);
    return without > 0.0 ? launches(layer, backward, true) / without : 1.0;
}
