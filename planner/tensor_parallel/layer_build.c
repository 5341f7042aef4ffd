/* Graphs of layers: the options of each node of a model's classes. Every operator has its time from the cost model, at
 * the size that a layout leaves to a rank. */
#include "planner/tensor_parallel/layer_build.h"

#include "costmodel/closed_form/memory_model.h"
#include "costmodel/saving/saving_rules.h"

#include <math.h>
#include <string.h>

/* Tensor parallelism is there to save memory: a layout may hold this much more of the states than the even split, which
 * is room for replicated keys and values and small tables, not for whole matrices or vocabularies. */
static const double replicated_ratio = 0.25;
/* Bytes of a logit: two 16-bit and two 32-bit copies (MEMORY_FORMULAS.md). */
static const uint64_t logit_bytes = 12;
/* The part of an activation's operands that frameworks without dropout keep, over the operands (likewise). */
static const double kept_ratio = 1.1;

/* A rank's part if everything is split that tensor parallelism splits, if nothing is, and if only the sequence is. */
enum { SPLIT, WHOLE, ROWS, SIZES };
static const redcoi_tp_form form_of[SIZES] = {REDCOI_TP_SPLIT, REDCOI_TP_WHOLE, REDCOI_TP_ROWS};

struct part {
    uint64_t sizes[REDCO_AXIS_COUNT];
    uint64_t tokens;
    redco_operator ops[REDCO_OPERATORS_MAX];
};

struct builder {
    const redcoi_tp_base *base;
    redcoi_tp_layer *layer;
    redcoi_tp_graph *graph;
    const redco_model_dims *dims;
    const redco_param *params; /* the model's */
    uint64_t ranks;
    uint32_t slot, first; /* slot of the class whose nodes are being added; its first node */
    double element_bytes;
    bool rows;           /* sequence parallelism */
    redcoi_tp_form edge; /* form of activations between layers */
    uint32_t op_count;
    struct part *parts; /* [SIZES] */
};

struct seconds {
    double forward_s, backward_s;
};

static const struct seconds no_seconds = {0.0, 0.0};

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0 ? 1 : 0);
}

static struct seconds operator_seconds(const struct builder *b, const redco_operator *op)
{
    const redco_compute *const compute = b->base->compute;
    return (struct seconds){redco_operator_s(compute, op, REDCO_PASS_FORWARD),
                            redco_operator_s(compute, op, REDCO_PASS_GRAD_INPUT) +
                                redco_operator_s(compute, op, REDCO_PASS_GRAD_WEIGHT)};
}

static bool in_mask(redco_op_role role, uint64_t roles)
{
    return (roles >> role & 1) != 0;
}

/* All operators of a node that is no product. */
static struct seconds node_seconds(const struct builder *b, const redco_layer_node *node, int size)
{
    struct seconds sum = no_seconds;
    for (uint32_t i = 0; i < b->op_count; i++) {
        const redco_operator *const op = &b->parts[size].ops[i];
        if (op->kind == REDCO_OPERATOR_GEMM || !in_mask(op->role, node->roles)) { continue; }
        const struct seconds s = operator_seconds(b, op);
        sum.forward_s += s.forward_s;
        sum.backward_s += s.backward_s;
    }
    return sum;
}

static struct seconds product_seconds(const struct builder *b, uint64_t m, uint64_t n, uint64_t k, bool low_precision)
{
    const redco_operator op = {.kind = REDCO_OPERATOR_GEMM, .m = m, .n = n, .k = k, .low_precision = low_precision};
    return operator_seconds(b, &op);
}

static redcoi_tp_option *add_option(const struct builder *b, uint32_t node, redcoi_tp_form input, redcoi_tp_form output,
                                    struct seconds seconds)
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

static redcoi_tp_option *add_split(const struct builder *b, uint32_t node, redcoi_tp_split split, redcoi_tp_form input,
                                   redcoi_tp_form output, struct seconds seconds, uint64_t params)
{
    redcoi_tp_option *const option = add_option(b, node, input, output, seconds);
    option->split = split;
    option->params = params;
    return option;
}

/* A collective of an option's own. */
static void add_collective(const struct builder *b, redco_collective op, double bytes, bool backward,
                           redcoi_tp_option *option)
{
    const redcoi_tp_prices *const prices = &b->base->prices;
    *(backward ? &option->tp_backward_s : &option->tp_forward_s) += prices->seconds(prices->context, op, bytes);
    option->tp_bytes += (op == REDCO_ALL_REDUCE ? 2.0 : 1.0) * bytes * ((double)b->ranks - 1.0) / (double)b->ranks;
}

/* A weight that every rank has whole; with sequence parallelism, where each uses it for its own tokens, its gradient is
 * summed over the ranks. */
static void add_replicated(const struct builder *b, uint32_t node, struct seconds whole, struct seconds rows,
                           uint64_t params)
{
    (void)add_split(b, node, REDCOI_TP_REPLICATE, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, whole, params);
    if (!b->rows) { return; }
    redcoi_tp_option *const option =
        add_split(b, node, REDCOI_TP_REPLICATE, REDCOI_TP_ROWS, REDCOI_TP_ROWS, rows, params);
    add_collective(b, REDCO_ALL_REDUCE, (double)params * b->element_bytes, true, option);
}

/* An engine that plans its memory: the gradient lies over the logits. */
static bool plans_memory(const struct builder *b)
{
    return b->base->shape.engine.planned_memory;
}

/* The product that holds the weight: its columns are among those of its group. */
static const redco_operator *product_of(const struct builder *b, const redco_layer_node *node)
{
    for (uint32_t i = 0; i < b->op_count; i++) {
        const redco_operator *const op = &b->parts[SPLIT].ops[i];
        if (op->kind != REDCO_OPERATOR_GEMM || !in_mask(op->role, node->roles)) { continue; }
        for (uint32_t p = 0; p < op->group->part_count; p++) {
            if (redco_extent_equal(&op->group->parts[p], &node->columns)) { return op; }
        }
    }
    return NULL;
}

/* @return whether an even cut of the outputs leaves heads whole and parts in place. Frameworks cut a matrix of three
 * parts as one; redco-exec cuts each part. */
static bool is_aligned(const struct builder *b, const redco_layer_node *node)
{
    const bool q = b->dims->heads % b->ranks == 0, kv = b->dims->kv_heads % b->ranks == 0;
    switch (redco_extent_split(&node->columns)) {
    case REDCO_AXIS_HEADS: return q && (node->blocks == 1 || plans_memory(b));
    case REDCO_AXIS_KV_HEADS: return kv;
    case REDCO_AXIS_QKV_HEADS: return q && kv;
    default: return true;
    }
}

/* Elements that the fullest rank has of a dimension, heads whole, padded where it does not divide. */
static uint64_t own_count(const struct builder *b, const redco_extent *extent)
{
    const bool cut = redco_extent_split(extent) != REDCO_AXIS_COUNT;
    return cut ? redco_extent_count(extent, b->parts[SPLIT].sizes)
               : ceil_div(redco_extent_count(extent, b->parts[WHOLE].sizes), b->ranks);
}

/* Partial sums of logits are there at full width. What plans its memory reduces them where they are; of that, the loss
 * has its own part. */
static void add_logits(const struct builder *b, uint64_t out, uint64_t out_rank, redcoi_tp_option *option)
{
    const uint64_t tokens = b->parts[WHOLE].tokens;
    const uint64_t own = plans_memory(b) ? redco_share_up(tokens, out_rank, 1) : 0;
    option->legal = false;
    option->bytes = (uint64_t)b->element_bytes * (redco_share_up(tokens, out, 1) - own);
}

/* A column split is priced as its share of the group's product, which is one kernel for all of its parts; other layouts
 * make a kernel of their own. The weight of a tied head is the embedding's. */
static void add_product(const struct builder *b, const redco_layer_node *node, uint32_t at)
{
    const redco_param *const param = &b->params[node->params[0]];
    const struct part *const whole = &b->parts[WHOLE];
    const redco_operator *const split = product_of(b, node);
    const bool low_precision = split != NULL && split->low_precision;
    redco_extent columns, inner;
    redco_param_maps(param, &columns, &inner);
    const bool by_rows = redco_extent_split(&inner) != REDCO_AXIS_COUNT; /* the reference */
    const bool tied = param->class_index != b->layer->classes[b->slot];
    const uint64_t out = redco_extent_count(&node->columns, whole->sizes), own_out = own_count(b, &node->columns);
    const uint64_t in = redco_extent_count(&inner, whole->sizes), own_in = own_count(b, &inner);
    struct seconds column = product_seconds(b, whole->tokens, own_out, in, low_precision);
    if (split != NULL && !by_rows) {
        const double share = (double)own_out / (double)split->n;
        column = operator_seconds(b, split);
        column = (struct seconds){share * column.forward_s, share * column.backward_s};
    }
    redcoi_tp_option *option =
        add_split(b, at, REDCOI_TP_COLUMN, REDCOI_TP_SHARED, REDCOI_TP_SPLIT, column, own_out * in);
    option->reference = !by_rows;
    option->by_rules = is_aligned(b, node);
    if (!option->by_rules && out % b->ranks == 0) { /* heads cut inside */
        const struct seconds cut = product_seconds(b, whole->tokens, out / b->ranks, in, low_precision);
        add_split(b, at, REDCOI_TP_COLUMN, REDCOI_TP_SHARED, REDCOI_TP_CUT, cut, out / b->ranks * in)->legal = false;
    }
    const bool fused = by_rows && split != NULL;
    option =
        add_split(b, at, REDCOI_TP_ROW, REDCOI_TP_SPLIT, REDCOI_TP_PARTIAL,
                  fused ? operator_seconds(b, split) : product_seconds(b, whole->tokens, out, own_in, low_precision),
                  out * own_in);
    option->reference = by_rows;
    if (redco_extent_split(&node->columns) == REDCO_AXIS_VOCAB) { add_logits(b, out, own_out, option); }
    add_replicated(b, at, product_seconds(b, whole->tokens, out, in, low_precision),
                   product_seconds(b, ceil_div(whole->tokens, b->ranks), out, in, low_precision), out * in);
    if (!tied) { return; }
    redcoi_tp_node *const head = &b->graph->nodes[at];
    head->tied = redcoi_tp_node_of(b->layer, node->params[0]);
    for (uint32_t o = 0; o < head->option_count; o++) { head->options[o].params = 0; }
}

/* T5's bias per bucket and head. Cut by bucket, all of it has to be gathered; by head, a rank has what it needs;
 * replicated, every rank has gradients for its heads only. */
static void add_bias(const struct builder *b, const redco_layer_node *node, uint32_t at)
{
    const redco_param *const param = &b->params[node->params[0]];
    const uint64_t rows = param->shape[0], heads = param->shape[1], tables = node->param_count;
    const double bytes = (double)(rows * heads) * b->element_bytes;
    add_split(b, at, REDCOI_TP_ROW, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, no_seconds,
              tables * rows * ceil_div(heads, b->ranks))
        ->reference = true;
    redcoi_tp_option *const column = add_split(b, at, REDCOI_TP_COLUMN, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, no_seconds,
                                               tables * ceil_div(rows, b->ranks) * heads);
    redcoi_tp_option *const whole =
        add_split(b, at, REDCOI_TP_REPLICATE, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, no_seconds, tables * rows * heads);
    for (uint64_t i = 0; i < tables; i++) {
        add_collective(b, REDCO_ALL_GATHER, bytes, false, column);
        add_collective(b, REDCO_REDUCE_SCATTER, bytes, true, column);
        add_collective(b, REDCO_ALL_REDUCE, bytes, true, whole);
    }
}

/* Every rank looks up what it has: rows of others count as zero. A width is split by rules alone: what frameworks run
 * is split by vocabulary. */
static void add_table(const struct builder *b, const redco_layer_node *node, uint32_t at)
{
    const redco_param *const param = &b->params[node->params[0]];
    const uint64_t rows = param->shape[0], width = param->shape[1], tables = node->param_count;
    const struct seconds seconds = node_seconds(b, node, SPLIT);
    add_split(b, at, REDCOI_TP_COLUMN, REDCOI_TP_WHOLE, REDCOI_TP_PARTIAL, seconds,
              tables * ceil_div(rows, b->ranks) * width)
        ->reference = true;
    if (width % b->ranks == 0) {
        add_split(b, at, REDCOI_TP_ROW, REDCOI_TP_WHOLE, REDCOI_TP_SPLIT, seconds, tables * rows * (width / b->ranks))
            ->legal = false;
    }
    add_replicated(b, at, seconds, seconds, tables * rows * width);
}

/* Bytes of what backward reads of an attention core or an activation and of the products before it, as far as tensor
 * parallelism cuts it. */
static uint64_t kept_bytes(const struct builder *b, const redco_layer_node *node, int size)
{
    const struct part *const part = &b->parts[size];
    const bool plain = b->dims->dropout || plans_memory(b);
    uint64_t roles = node->roles;
    double elements = 0.0;
    for (uint32_t i = 0; i < node->input_count; i++) { roles |= b->layer->nodes[b->first + node->inputs[i]]->roles; }
    const redco_saving_set *const set = redco_saving_set_of(REDCO_SAVER_PLANNED);
    const redco_layer_work *const work = redco_model_work(b->base->model, b->layer->classes[b->slot]);
    const redco_layer_site *const sites = work->sites;
    for (uint32_t i = 0; i < work->site_count && set != NULL; i++) {
        const bool cut = redco_extent_split(&sites[i].elements) != REDCO_AXIS_COUNT;
        if (!cut || !in_mask(sites[i].role, roles)) { continue; }
        for (uint32_t r = 0; r < set->count; r++) {
            const bool tensor = set->rules[r].site == sites[i].site && !set->rules[r].fixed;
            elements += tensor ? (double)redco_extent_count(&sites[i].elements, part->sizes) : 0.0;
        }
    }
    const double most = 0x1p53; /* as redco_share_up() saturates */
    return (uint64_t)ceil(fmin(most, (plain ? 1.0 : kept_ratio) * elements * b->element_bytes));
}

/* A norm over all heads (OLMo 2, Command R+) moves values of heads that lie on several ranks, as its layouts say. */
static void add_norm_traffic(const struct builder *b, const redco_layer_node *node, uint64_t roles,
                             redcoi_tp_option *option)
{
    const redco_layer_work *const work = redco_model_work(b->base->model, b->layer->classes[b->slot]);
    for (uint32_t g = 0; g < work->group_count; g++) {
        const redco_layer_group *const group = &work->groups[g];
        if (group->kind != REDCO_GROUP_NORM || !in_mask(group->role, node->roles & roles)) { continue; }
        for (uint32_t t = 0; t < group->traffic_count; t++) {
            const redco_group_traffic *const traffic = &group->traffic[t];
            if (traffic->sequence_parallel != b->rows) { continue; }
            const double elements = (double)redco_extent_count(&traffic->elements, b->parts[SPLIT].sizes);
            add_collective(b, traffic->op, elements * b->element_bytes, traffic->backward, option);
        }
    }
}

/* Whole heads: each rank its own, from split or from gathered inputs, or from own queries and gathered keys and values;
 * or all of them everywhere. */
static void add_core(const struct builder *b, const redco_layer_node *node, uint32_t at)
{
    const struct seconds split = node_seconds(b, node, SPLIT);
    const bool even = b->dims->heads % b->ranks == 0;
    for (int i = 0; i < (node->input_count == 3 ? 3 : 2); i++) {
        redcoi_tp_option *const option =
            add_option(b, at, i == 0 ? REDCOI_TP_SPLIT : REDCOI_TP_SHARED, REDCOI_TP_SPLIT, split);
        if (i == 2) { option->input[0] = REDCOI_TP_SPLIT; }
        if (i == 0) { add_norm_traffic(b, node, UINT64_C(1) << REDCO_OP_ROLE_K_NORM, option); }
        if (i != 1) { add_norm_traffic(b, node, UINT64_C(1) << REDCO_OP_ROLE_Q_NORM, option); }
        option->reference = i == 0;
        option->by_rules = even;
        option->bytes = kept_bytes(b, node, SPLIT);
    }
    add_option(b, at, REDCOI_TP_WHOLE, REDCOI_TP_WHOLE, node_seconds(b, node, WHOLE))->bytes =
        kept_bytes(b, node, WHOLE);
}

/* Activations; or softmax and cross entropy where the logits are: three sums of one number per token are left out, as
 * in the closed form. With sequence parallelism redco-exec scatters partial sums along the sequence rather than adding
 * them up on every rank, whatever the rules. */
static void add_elements(const struct builder *b, const redco_layer_node *node, uint32_t at)
{
    for (int size = SPLIT; size < SIZES; size++) {
        if (size == ROWS && !b->rows) { continue; }
        redcoi_tp_option *const option = add_option(b, at, form_of[size], form_of[size], node_seconds(b, node, size));
        option->reference = size == SPLIT;
        option->by_rules = size != WHOLE || !b->rows || !plans_memory(b);
        option->bytes =
            node->kind != REDCO_NODE_LOSS
                ? kept_bytes(b, node, size)
                : redco_share_up(b->parts[size].tokens, redco_extent_count(&node->columns, b->parts[size].sizes), 1) *
                      (plans_memory(b) ? (uint64_t)b->element_bytes : logit_bytes);
    }
}

/* Partial sums are added before they are reduced. */
static void add_sum(const struct builder *b, uint32_t at)
{
    static const redcoi_tp_form forms[] = {REDCOI_TP_PARTIAL, REDCOI_TP_SPLIT, REDCOI_TP_WHOLE, REDCOI_TP_ROWS};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (forms[i] == REDCOI_TP_ROWS && !b->rows) { continue; }
        add_option(b, at, forms[i], forms[i], no_seconds)->reference = i == 0;
    }
}

static void add_node(struct builder *b, const redco_layer_node *node)
{
    const uint32_t at = b->graph->node_count++;
    static const char *const names[] = {[REDCO_NODE_STREAM] = "a norm",  [REDCO_NODE_ENCODED] = "the encoder",
                                        [REDCO_NODE_TABLE] = "a table",  [REDCO_NODE_PRODUCT] = "a product",
                                        [REDCO_NODE_CORE] = "attention", [REDCO_NODE_ELEMENTS] = "an activation",
                                        [REDCO_NODE_SUM] = "a sum",      [REDCO_NODE_RESIDUAL] = "a residual",
                                        [REDCO_NODE_LOSS] = "the loss"};
    const bool is_bias = node->kind == REDCO_NODE_TABLE && redco_extent_split(&node->columns) != REDCO_AXIS_COUNT;
    const bool is_last = node->kind == REDCO_NODE_RESIDUAL || node->kind == REDCO_NODE_LOSS || is_bias;
    const double width = is_last ? 0.0 : (double)redco_extent_count(&node->columns, b->parts[WHOLE].sizes);
    b->layer->nodes[at] = node;
    b->graph->nodes[at] = (redcoi_tp_node){.name = names[node->kind],
                                           .class_slot = b->slot,
                                           .input_count = node->input_count,
                                           .width_bytes = width * (double)b->parts[WHOLE].tokens * b->element_bytes,
                                           .traffic_ratio = 1.0,
                                           .tied = REDCOI_TP_NONE};
    redcoi_tp_node *const to = &b->graph->nodes[at];
    for (uint32_t i = 0; i < node->input_count; i++) { to->inputs[i] = b->first + node->inputs[i]; }
    switch (node->kind) {
    case REDCO_NODE_ENCODED: { /* for all layers of the decoder: gathered, and its gradient summed, once */
        const redco_layer_class *classes = NULL;
        (void)redco_model_classes(b->base->model, &classes);
        to->traffic_ratio = 1.0 / classes[b->layer->classes[b->slot]].layers;
    } /* fallthrough */
    case REDCO_NODE_STREAM:
    case REDCO_NODE_RESIDUAL:
        add_option(b, at, b->edge, b->edge, node_seconds(b, node, SPLIT))->reference = true;
        break;
    case REDCO_NODE_TABLE:
        if (is_bias) {
            add_bias(b, node, at);
        } else {
            add_table(b, node, at);
        }
        break;
    case REDCO_NODE_PRODUCT: add_product(b, node, at); break;
    case REDCO_NODE_CORE: add_core(b, node, at); break;
    case REDCO_NODE_ELEMENTS:
    case REDCO_NODE_LOSS: add_elements(b, node, at); break;
    case REDCO_NODE_SUM: add_sum(b, at); break;
    }
}

static void fill_part(struct builder *b, uint32_t class_index, int size, const redco_shape *shape)
{
    struct part *const part = &b->parts[size];
    redco_rank_axis_sizes(b->base->model, shape, part->sizes);
    part->tokens = part->sizes[REDCO_AXIS_BATCH] * part->sizes[REDCO_AXIS_SEQUENCE];
    b->op_count = redco_layer_operators(b->base->model, class_index, shape, part->ops);
}

static void add_class(struct builder *b, uint32_t class_index)
{
    const redco_layer_work *const work = redco_model_work(b->base->model, class_index);
    redco_shape shape = b->base->shape;
    fill_part(b, class_index, SPLIT, &shape);
    shape.tp = 1;
    fill_part(b, class_index, WHOLE, &shape);
    shape.cp *= (uint32_t)b->ranks;
    fill_part(b, class_index, ROWS, &shape);
    b->first = b->graph->node_count;
    for (uint32_t i = 0; i < work->node_count && b->graph->node_count < REDCOI_TP_NODES; i++) {
        add_node(b, &work->nodes[i]);
    }
}

redco_status redcoi_tp_build(const redcoi_tp_base *base, const uint32_t classes[REDCOI_TP_CLASSES],
                             redcoi_tp_layer *layer_out, redco_error *err)
{
    *layer_out = (redcoi_tp_layer){.graph = {.ranks = base->shape.tp,
                                             .prices = base->prices,
                                             .exposed_ratio = base->exposed_ratio,
                                             .param_s = base->param_s,
                                             .param_bytes = base->param_bytes}};
    struct part parts[SIZES];
    struct builder b = {.base = base,
                        .parts = parts,
                        .layer = layer_out,
                        .graph = &layer_out->graph,
                        .dims = redco_model_get_dims(base->model),
                        .ranks = base->shape.tp,
                        .element_bytes = base->compute->element_bytes,
                        .rows = base->shape.sequence_parallel,
                        .edge = base->shape.sequence_parallel ? REDCOI_TP_ROWS : REDCOI_TP_WHOLE};
    (void)redco_model_tensors(base->model, &b.params);
    memcpy(layer_out->classes, classes, sizeof layer_out->classes);
    for (b.slot = 0; b.slot < REDCOI_TP_CLASSES; b.slot++) {
        if (classes[b.slot] != UINT32_MAX) { add_class(&b, classes[b.slot]); }
    }
    return redcoi_tp_price(&layer_out->graph, err);
}

uint32_t redcoi_tp_node_of(const redcoi_tp_layer *layer, uint32_t param)
{
    for (uint32_t n = 0; n < layer->graph.node_count; n++) {
        for (uint32_t i = 0; i < layer->nodes[n]->param_count; i++) {
            if (layer->nodes[n]->params[i] == param) { return n; }
        }
    }
    return REDCOI_TP_NONE;
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
