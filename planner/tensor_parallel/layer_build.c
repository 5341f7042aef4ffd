/* Graphs of blocks. Every operator has its time from the cost model, at the size that a layout leaves to a rank. */
#include "planner/tensor_parallel/build_internal.h"

#include <math.h>
#include <string.h>

/* Tensor parallelism is there to save memory: a layout may hold this much more of the states than the even split, which
 * is room for replicated keys and values and small tables, not for whole matrices or vocabularies. */
static const double replicated_ratio = 0.25;

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

static struct redcoi_tp_seconds operator_seconds(const redco_compute *compute, const redco_operator *op)
{
    return (struct redcoi_tp_seconds){redco_operator_s(compute, op, REDCO_PASS_FORWARD),
                                      redco_operator_s(compute, op, REDCO_PASS_GRAD_INPUT) +
                                          redco_operator_s(compute, op, REDCO_PASS_GRAD_WEIGHT)};
}

void redcoi_tp_open(struct redcoi_tp_builder *b, const redcoi_tp_base *base, redcoi_tp_layer *layer)
{
    *layer = (redcoi_tp_layer){.classes = {UINT32_MAX, UINT32_MAX}};
    for (int slot = 0; slot < REDCOI_TP_CLASSES; slot++) {
        for (int role = 0; role < REDCOI_TP_ROLES; role++) { layer->node[slot][role] = REDCOI_TP_NONE; }
    }
    redcoi_tp_graph *const graph = &layer->graph;
    graph->ranks = base->shape.tp;
    graph->prices = base->prices;
    graph->exposed_ratio = base->exposed_ratio;
    graph->param_s = base->param_s;
    graph->param_bytes = base->param_bytes;
    *b = (struct redcoi_tp_builder){.base = base,
                                    .layer = layer,
                                    .graph = graph,
                                    .dims = redco_model_get_dims(base->model),
                                    .ranks = base->shape.tp,
                                    .tokens = (uint64_t)base->shape.micro_batch *
                                              ceil_div(base->shape.seq_len, base->shape.cp),
                                    .element_bytes = base->compute->element_bytes,
                                    .rows = base->shape.sequence_parallel,
                                    .edge = base->shape.sequence_parallel ? REDCOI_TP_ROWS : REDCOI_TP_WHOLE};
}

/* The operators of one rank if everything were split, if nothing were, and if only the sequence were. */
void redcoi_tp_operators(struct redcoi_tp_builder *b, uint32_t class_index)
{
    const redco_model *const model = b->base->model;
    redco_shape shape = b->base->shape;
    b->op_count = redco_layer_operators(model, class_index, &shape, b->ops[REDCOI_TP_OPS_SPLIT]);
    shape.tp = 1;
    (void)redco_layer_operators(model, class_index, &shape, b->ops[REDCOI_TP_OPS_WHOLE]);
    shape.cp *= b->ranks;
    (void)redco_layer_operators(model, class_index, &shape, b->ops[REDCOI_TP_OPS_ROWS]);
}

static const redco_operator *find_operator(const struct redcoi_tp_builder *b, int size, const char *name)
{
    for (uint32_t i = 0; i < b->op_count; i++) {
        if (strcmp(b->ops[size][i].name, name) == 0) { return &b->ops[size][i]; }
    }
    return NULL;
}

struct redcoi_tp_seconds redcoi_tp_op_seconds(const struct redcoi_tp_builder *b, int size, const char *name)
{
    const redco_operator *const op = find_operator(b, size, name);
    return op != NULL ? operator_seconds(b->base->compute, op) : (struct redcoi_tp_seconds){0.0, 0.0};
}

uint32_t redcoi_tp_add_node(struct redcoi_tp_builder *b, const char *name, double width, uint32_t input_count,
                            const uint32_t inputs[])
{
    const uint32_t at = b->graph->node_count++;
    redcoi_tp_node *const node = &b->graph->nodes[at];
    *node = (redcoi_tp_node){.name = name,
                             .class_slot = b->slot,
                             .input_count = input_count,
                             .width_bytes = width * (double)b->tokens * b->element_bytes,
                             .traffic_ratio = 1.0,
                             .tied = REDCOI_TP_NONE};
    for (uint32_t i = 0; i < input_count; i++) { node->inputs[i] = inputs[i]; }
    return at;
}

redcoi_tp_option *redcoi_tp_add_option(struct redcoi_tp_builder *b, uint32_t node, redcoi_tp_form input,
                                       redcoi_tp_form output, struct redcoi_tp_seconds seconds)
{
    redcoi_tp_node *const to = &b->graph->nodes[node];
    redcoi_tp_option *const option = &to->options[to->option_count++];
    *option = (redcoi_tp_option){.legal = true,
                                 .by_rules = true,
                                 .output = output,
                                 .forward_s = seconds.forward_s,
                                 .backward_s = seconds.backward_s};
    for (uint32_t i = 0; i < REDCOI_TP_INPUTS; i++) { option->input[i] = input; }
    return option;
}

static struct redcoi_tp_seconds times_seconds(struct redcoi_tp_seconds s, double ratio)
{
    return (struct redcoi_tp_seconds){ratio * s.forward_s, ratio * s.backward_s};
}

static struct redcoi_tp_seconds product_seconds(const struct redcoi_tp_builder *b, uint64_t m, uint64_t n, uint64_t k,
                                                bool narrow)
{
    const redco_operator op = {.name = "", .kind = REDCO_OPERATOR_GEMM, .m = m, .n = n, .k = k, .narrow = narrow};
    return operator_seconds(b->base->compute, &op);
}

/* Gradients of a weight that every rank computes for its own tokens are summed over the ranks. */
void redcoi_tp_sum_gradient(const struct redcoi_tp_builder *b, uint64_t params, redcoi_tp_option *option)
{
    const double bytes = (double)params * b->element_bytes;
    const redcoi_tp_prices *const prices = &b->base->prices;
    option->tp_backward_s = prices->seconds(prices->context, REDCO_ALL_REDUCE, bytes);
    option->tp_bytes = 2.0 * bytes * (b->ranks - 1.0) / b->ranks;
}

/* A weight of out x in, part of the product @p op: a column split is priced as its share of that product, which is one
 * kernel for all of its parts; other layouts make a kernel of their own. */
uint32_t redcoi_tp_add_linear(struct redcoi_tp_builder *b, redcoi_tp_role role, const char *op,
                              const struct redcoi_tp_linear *w, uint32_t input)
{
    const uint64_t ranks = b->ranks;
    const uint32_t at = redcoi_tp_add_node(b, redcoi_tp_role_names[role], (double)w->out, 1, &input);
    const redco_operator *const split = find_operator(b, REDCOI_TP_OPS_SPLIT, op);
    const bool narrow = split != NULL && split->narrow;
    const bool fused = split != NULL && w->column_reference;
    const struct redcoi_tp_seconds column =
        fused ? times_seconds(operator_seconds(b->base->compute, split), (double)w->out_rank / (double)split->n)
              : product_seconds(b, b->tokens, w->out_rank, w->in, narrow);
    b->layer->node[b->slot][role] = at;

    redcoi_tp_option *option = redcoi_tp_add_option(b, at, REDCOI_TP_SHARED, REDCOI_TP_SPLIT, column);
    option->split = REDCOI_TP_COLUMN;
    option->params = w->out_rank * w->in;
    option->reference = w->column_reference;
    option->by_rules = w->out_aligned;
    if (!w->out_aligned && w->out % ranks == 0) { /* heads cut inside */
        option = redcoi_tp_add_option(b, at, REDCOI_TP_SHARED, REDCOI_TP_CUT,
                                      product_seconds(b, b->tokens, w->out / ranks, w->in, narrow));
        option->split = REDCOI_TP_COLUMN;
        option->params = w->out / ranks * w->in;
        option->legal = false;
    }
    const bool wide = !w->column_reference && split != NULL;
    option = redcoi_tp_add_option(b, at, REDCOI_TP_SPLIT, REDCOI_TP_PARTIAL,
                                  wide ? operator_seconds(b->base->compute, split)
                                       : product_seconds(b, b->tokens, w->out, w->in_rank, narrow));
    option->split = REDCOI_TP_ROW;
    option->params = w->out * w->in_rank;
    option->reference = !w->column_reference;
    option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE,
                                  product_seconds(b, b->tokens, w->out, w->in, narrow));
    option->split = REDCOI_TP_REPLICATE;
    option->params = w->out * w->in;
    if (b->rows) {
        option = redcoi_tp_add_option(b, at, REDCOI_TP_ROWS, REDCOI_TP_ROWS,
                                      product_seconds(b, ceil_div(b->tokens, ranks), w->out, w->in, narrow));
        option->split = REDCOI_TP_REPLICATE;
        option->params = w->out * w->in;
        redcoi_tp_sum_gradient(b, w->out * w->in, option);
    }
    return at;
}

/* A layer's input: there as the layers agree, or what a norm makes of it. */
uint32_t redcoi_tp_add_source(struct redcoi_tp_builder *b, const char *name, double width)
{
    const uint32_t at = redcoi_tp_add_node(b, name, width, 0, NULL);
    redcoi_tp_add_option(b, at, b->edge, b->edge, redcoi_tp_op_seconds(b, REDCOI_TP_OPS_SPLIT, name))->reference = true;
    return at;
}

/* Back to how the layers agree. */
void redcoi_tp_add_residual(struct redcoi_tp_builder *b, uint32_t input)
{
    const uint32_t at = redcoi_tp_add_node(b, "residual", 0.0, 1, &input);
    redcoi_tp_add_option(b, at, b->edge, b->edge, (struct redcoi_tp_seconds){0.0, 0.0})->reference = true;
}

/* Sum of outputs that were made side by side; partial sums are added before they are reduced. */
uint32_t redcoi_tp_add_sum(struct redcoi_tp_builder *b, const char *name, double width, uint32_t count,
                           const uint32_t inputs[])
{
    static const redcoi_tp_form forms[] = {REDCOI_TP_PARTIAL, REDCOI_TP_SPLIT, REDCOI_TP_WHOLE, REDCOI_TP_ROWS};
    const uint32_t at = redcoi_tp_add_node(b, name, width, count, inputs);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i] == REDCOI_TP_ROWS && !b->rows) { continue; }
        redcoi_tp_add_option(b, at, forms[i], forms[i], (struct redcoi_tp_seconds){0.0, 0.0})->reference = i == 0;
    }
    return at;
}

/* Bytes that the operator's operands are kept with for backward (costmodel/README.md, section 5). */
static uint64_t kept_bytes(const struct redcoi_tp_builder *b, double elements)
{
    const double per_element = b->dims->dropout || b->base->shape.engine.planned_memory ? 1.0 : 1.1;
    const double most = 0x1p53; /* as redco_share_up() saturates */
    return (uint64_t)ceil(fmin(most, per_element * elements * (double)b->tokens * (b->element_bytes / 2.0)));
}

static struct redcoi_tp_seconds core_seconds(const struct redcoi_tp_builder *b, int size, bool cross)
{
    static const char *const own[] = {"q_norm", "k_norm", "rotary", "split_heads", "attention"};
    struct redcoi_tp_seconds sum = {0.0, 0.0};
    if (cross) { return redcoi_tp_op_seconds(b, size, "cross_attention"); }
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        const struct redcoi_tp_seconds s = redcoi_tp_op_seconds(b, size, own[i]);
        sum.forward_s += s.forward_s;
        sum.backward_s += s.backward_s;
    }
    return sum;
}

/* Whole heads: each rank its own, from split or from gathered inputs; or all of them everywhere. */
static uint32_t add_attention(struct redcoi_tp_builder *b, bool cross, uint32_t count, const uint32_t inputs[])
{
    const redco_model_dims *const dims = b->dims;
    const bool even = dims->heads % b->ranks == 0;
    const double all = 4.0 * (dims->heads + dims->kv_heads) * dims->head_dim;
    const double own =
        4.0 * (double)(ceil_div(dims->heads, b->ranks) + redco_rank_kv_heads(dims, b->ranks)) * dims->head_dim;
    const struct redcoi_tp_seconds split = core_seconds(b, REDCOI_TP_OPS_SPLIT, cross);
    const uint32_t at = redcoi_tp_add_node(b, cross ? "cross attention" : "attention",
                                           (double)dims->heads * dims->head_dim, count, inputs);
    redcoi_tp_option *option = redcoi_tp_add_option(b, at, REDCOI_TP_SPLIT, REDCOI_TP_SPLIT, split);
    option->reference = true;
    option->by_rules = even;
    option->bytes = kept_bytes(b, own);
    option = redcoi_tp_add_option(b, at, REDCOI_TP_SHARED, REDCOI_TP_SPLIT, split);
    option->by_rules = even;
    option->bytes = kept_bytes(b, own);
    if (count == 3) { /* own queries; keys and values of all heads are there */
        option = redcoi_tp_add_option(b, at, REDCOI_TP_SHARED, REDCOI_TP_SPLIT, split);
        option->input[0] = REDCOI_TP_SPLIT;
        option->by_rules = even;
        option->bytes = kept_bytes(b, own);
    }
    option = redcoi_tp_add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, core_seconds(b, REDCOI_TP_OPS_WHOLE, cross));
    option->bytes = kept_bytes(b, all);
    return at;
}

static bool has(const struct redcoi_tp_builder *b, redcoi_tp_role role)
{
    return b->layer->weights[b->slot].param[role] != NULL;
}

/* Queries, keys and values: one matrix or three; then attention and its output. @return the output's node */
static uint32_t add_heads(struct redcoi_tp_builder *b, bool cross, uint32_t queries_of, uint32_t keys_of)
{
    const redco_model_dims *const dims = b->dims;
    const uint64_t h = dims->hidden, d = dims->head_dim, ranks = b->ranks;
    const uint64_t q = (uint64_t)dims->heads * d, q_rank = ceil_div(dims->heads, ranks) * d;
    const uint64_t kv = (uint64_t)dims->kv_heads * d, kv_rank = (uint64_t)redco_rank_kv_heads(dims, b->ranks) * d;
    const bool q_whole = dims->heads % ranks == 0, kv_whole = dims->kv_heads % ranks == 0;
    const struct redcoi_tp_linear query = {q, q_rank, h, ceil_div(h, ranks), true, q_whole};
    const struct redcoi_tp_linear key = {kv, kv_rank, h, ceil_div(h, ranks), true, kv_whole};
    const struct redcoi_tp_linear out = {h, ceil_div(h, ranks), q, q_rank, false, true};
    uint32_t inputs[3];
    uint32_t count = 1;
    if (!cross && has(b, REDCOI_TP_QKV)) {
        const bool whole = q_whole && kv_whole && b->base->roles->qkv != REDCO_QKV_BLOCKS;
        const struct redcoi_tp_linear all = {q + 2 * kv, q_rank + 2 * kv_rank, h, ceil_div(h, ranks), true, whole};
        inputs[0] = redcoi_tp_add_linear(b, REDCOI_TP_QKV, "qkv", &all, queries_of);
    } else {
        inputs[0] = redcoi_tp_add_linear(b, cross ? REDCOI_TP_CROSS_Q : REDCOI_TP_Q, cross ? "cross_q" : "qkv", &query,
                                         queries_of);
        inputs[1] =
            redcoi_tp_add_linear(b, cross ? REDCOI_TP_CROSS_K : REDCOI_TP_K, cross ? "cross_kv" : "qkv", &key, keys_of);
        inputs[2] =
            redcoi_tp_add_linear(b, cross ? REDCOI_TP_CROSS_V : REDCOI_TP_V, cross ? "cross_kv" : "qkv", &key, keys_of);
        count = 3;
    }
    const uint32_t core = add_attention(b, cross, count, inputs);
    return redcoi_tp_add_linear(b, cross ? REDCOI_TP_CROSS_O : REDCOI_TP_O, cross ? "cross_out" : "out", &out, core);
}

/* @return the node of the FFN's output */
static uint32_t add_ffn(struct redcoi_tp_builder *b, uint32_t input)
{
    const redco_model_dims *const dims = b->dims;
    const uint64_t h = dims->hidden, f = dims->ffn, ranks = b->ranks;
    const struct redcoi_tp_linear in = {f, ceil_div(f, ranks), h, ceil_div(h, ranks), true, true};
    const struct redcoi_tp_linear out = {h, ceil_div(h, ranks), f, ceil_div(f, ranks), false, true};
    const double kept = dims->gated ? 8.0 : 4.0;
    uint32_t inputs[2];
    uint32_t count = 0;
    if (dims->gated) { inputs[count++] = redcoi_tp_add_linear(b, REDCOI_TP_GATE, "ffn_in", &in, input); }
    inputs[count++] = redcoi_tp_add_linear(b, REDCOI_TP_UP, "ffn_in", &in, input);
    static const struct {
        redcoi_tp_form form;
        int size;
    } sizes[] = {{REDCOI_TP_SPLIT, REDCOI_TP_OPS_SPLIT},
                 {REDCOI_TP_WHOLE, REDCOI_TP_OPS_WHOLE},
                 {REDCOI_TP_ROWS, REDCOI_TP_OPS_ROWS}};
    const uint32_t act = redcoi_tp_add_node(b, "activation", (double)f, count, inputs);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].form == REDCOI_TP_ROWS && !b->rows) { continue; }
        redcoi_tp_option *const option = redcoi_tp_add_option(b, act, sizes[i].form, sizes[i].form,
                                                              redcoi_tp_op_seconds(b, sizes[i].size, "activation"));
        option->reference = i == 0;
        option->bytes = kept_bytes(b, kept * (double)(i == 1 ? f : ceil_div(f, ranks)));
    }
    return redcoi_tp_add_linear(b, REDCOI_TP_DOWN, "ffn_out", &out, act);
}

redco_status redcoi_tp_check_weights(const struct redcoi_tp_builder *b, const redcoi_tp_role *needed, size_t count,
                                     redco_error *err)
{
    const redcoi_tp_weights *const weights = &b->layer->weights[b->slot];
    const char *const model = redco_model_name(b->base->model);
    if (weights->unknown != NULL) {
        return redco_fail(err, REDCO_EVALUE, model, "tensor-parallel placement does not know what %s is",
                          weights->unknown->name);
    }
    for (size_t i = 0; i < count; i++) {
        if (weights->param[needed[i]] == NULL) {
            return redco_fail(err, REDCO_EVALUE, model, "tensor-parallel placement finds no matrix for %s",
                              redcoi_tp_role_names[needed[i]]);
        }
    }
    return REDCO_OK;
}

static redco_status check_block(const struct redcoi_tp_builder *b, bool cross, redco_error *err)
{
    static const redcoi_tp_role always[] = {REDCOI_TP_O, REDCOI_TP_UP, REDCOI_TP_DOWN};
    static const redcoi_tp_role apart[] = {REDCOI_TP_Q, REDCOI_TP_K, REDCOI_TP_V};
    static const redcoi_tp_role gate[] = {REDCOI_TP_GATE};
    static const redcoi_tp_role crossed[] = {REDCOI_TP_CROSS_Q, REDCOI_TP_CROSS_K, REDCOI_TP_CROSS_V,
                                             REDCOI_TP_CROSS_O};
    redco_status st = redcoi_tp_check_weights(b, always, 3, err);
    if (st == REDCO_OK && !has(b, REDCOI_TP_QKV)) { st = redcoi_tp_check_weights(b, apart, 3, err); }
    if (st == REDCO_OK && b->dims->gated) { st = redcoi_tp_check_weights(b, gate, 1, err); }
    if (st == REDCO_OK && cross) { st = redcoi_tp_check_weights(b, crossed, 4, err); }
    return st;
}

redco_status redcoi_tp_build_block(const redcoi_tp_base *base, uint32_t class_index, redcoi_tp_layer *layer_out,
                                   redco_error *err)
{
    struct redcoi_tp_builder b;
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(base->model, &classes);
    const bool cross = classes[class_index].kind == REDCO_CLASS_CROSS;
    redcoi_tp_open(&b, base, layer_out);
    layer_out->classes[0] = class_index;
    redcoi_tp_weights_find(base->model, base->roles, class_index, &layer_out->weights[0]);
    const redco_status st = check_block(&b, cross, err);
    if (st != REDCO_OK) { return st; }
    redcoi_tp_operators(&b, class_index);
    const uint64_t h = b.dims->hidden;
    const uint32_t norm = redcoi_tp_add_source(&b, "attn_norm", (double)h);
    const uint32_t attended = add_heads(&b, false, norm, norm);
    if (b.dims->parallel_block) {
        const uint32_t both[2] = {attended, add_ffn(&b, norm)};
        redcoi_tp_add_residual(&b, redcoi_tp_add_sum(&b, "sum", (double)h, 2, both));
        return redcoi_tp_price(&layer_out->graph, err);
    }
    redcoi_tp_add_residual(&b, attended);
    if (cross) { /* one encoder output for all decoder layers: gathered, and its gradient summed, once */
        const uint32_t memory = redcoi_tp_add_source(&b, "encoder output", (double)h);
        b.graph->nodes[memory].traffic_ratio = 1.0 / classes[class_index].layers;
        const uint32_t cross_norm = redcoi_tp_add_source(&b, "cross_norm", (double)h);
        redcoi_tp_add_residual(&b, add_heads(&b, true, cross_norm, memory));
    }
    const uint32_t ffn_norm = redcoi_tp_add_source(&b, "ffn_norm", (double)h);
    redcoi_tp_add_residual(&b, add_ffn(&b, ffn_norm));
    return redcoi_tp_price(&layer_out->graph, err);
}

redcoi_tp_total redcoi_tp_limit(redcoi_tp_graph *graph, uint64_t other_params)
{
    uint32_t allowed[REDCOI_TP_NODES];
    redcoi_tp_choice choice;
    redcoi_tp_total total = {.time_s = (double)INFINITY};
    graph->limit_bytes = 0;
    redcoi_tp_reference(graph, allowed);
    (void)redcoi_tp_enumerate(graph, allowed, true, &choice, &total, NULL); /* one option a node */
    uint64_t params = 0;
    for (int c = 0; c < REDCOI_TP_CLASSES; c++) { params += total.classes[c].params; }
    const uint64_t most = params + (uint64_t)(replicated_ratio * (double)params);
    graph->limit_bytes =
        total.memory_bytes + ((most > other_params ? most : other_params) - params) * graph->param_bytes;
    return total;
}
