/* Lists of weights and operators that tensor parallelism places, derived from the graphs of the families. */
#include "costmodel/graph/transform.h"
#include "costmodel/models/layer_probe.h"

#include <stdlib.h>

/* The origin of a value: a node, or nodes that are put together where it is read. */
enum form { NOTHING, STREAM, ENCODED, NODE, SUM, ELEMENTS };

struct origin {
    enum form form;
    uint32_t nodes[REDCO_NODE_INPUTS];
    uint32_t count;
    uint64_t roles; /* roles of operators since then, which are priced with the reader */
};

struct list {
    const redcoi_probe *probe;
    redco_layer_node *nodes;
    uint32_t count;
    uint64_t priced; /* roles that some node has */
    bool *live;      /* by operator: the layer's result depends on it */
    struct origin *origins;
};

static uint64_t bit(redco_op_role role)
{
    return role == REDCO_OP_ROLE_NONE ? 0 : UINT64_C(1) << role;
}

static uint32_t add_node(struct list *l, redco_node_kind kind, uint64_t roles, redco_extent columns, uint32_t count,
                         const uint32_t *inputs)
{
    const uint32_t at = l->count < REDCO_NODES_MAX ? l->count++ : REDCO_NODES_MAX - 1;
    redco_layer_node *const node = &l->nodes[at];
    const bool product = kind == REDCO_NODE_PRODUCT;
    *node = (redco_layer_node){.kind = kind,
                               .roles = product ? roles : roles & ~l->priced,
                               .columns = columns,
                               .input_count = count,
                               .blocks = 1};
    if (!product) { l->priced |= roles; }
    for (uint32_t i = 0; i < count; i++) { node->inputs[i] = inputs[i]; }
    return at;
}

static redco_extent hidden(void)
{
    return (redco_extent){.factor = 1, .power = {[REDCO_AXIS_HIDDEN] = 1}};
}

static void set_node(struct origin *o, uint32_t node)
{
    *o = (struct origin){.form = NODE, .nodes = {node}, .count = 1};
}

/* Sums go back to how layers agree, behind which they are what layers hand on. */
static void settle(struct list *l, redco_value value)
{
    struct origin *const o = &l->origins[value];
    uint32_t last = o->nodes[0];
    if (o->form != SUM && o->form != NODE) { return; }
    if (o->count > 1) { last = add_node(l, REDCO_NODE_SUM, 0, hidden(), o->count, o->nodes); }
    if (o->count > 0) { (void)add_node(l, REDCO_NODE_RESIDUAL, 0, hidden(), 1, &last); }
    *o = (struct origin){.form = STREAM};
}

/* The node that a reader of the value has as its input. */
static uint32_t read_node(struct list *l, redco_value value)
{
    struct origin *const o = &l->origins[value];
    if (o->form == SUM) { settle(l, value); }
    if (o->form == STREAM || o->form == ENCODED) {
        set_node(o, add_node(l, o->form == ENCODED ? REDCO_NODE_ENCODED : REDCO_NODE_STREAM, 0, hidden(), 0, NULL));
    }
    if (o->form == ELEMENTS) {
        set_node(o,
                 add_node(l, REDCO_NODE_ELEMENTS, o->roles, redcoi_probe_columns(l->probe, value), o->count, o->nodes));
    }
    return o->nodes[0];
}

static void join(struct origin *into, const struct origin *from)
{
    for (uint32_t i = 0; i < from->count; i++) {
        uint32_t at = 0;
        while (at < into->count && into->nodes[at] != from->nodes[i]) { at++; }
        if (at == into->count && at < REDCO_NODE_INPUTS) { into->nodes[into->count++] = from->nodes[i]; }
    }
}

static bool same_extents(const redco_param *a, const redco_param *b)
{
    redco_extent x[REDCO_PARAM_EXTENTS], y[REDCO_PARAM_EXTENTS];
    redco_param_extents(a, x);
    redco_param_extents(b, y);
    return redco_extent_equal(&x[0], &y[0]) && redco_extent_equal(&x[1], &y[1]);
}

/* Tables alike are one node. */
static void add_table(struct list *l, const redco_op *op, uint32_t param)
{
    const redco_param *const params = l->probe->model.params;
    uint32_t at = 0;
    while (at < l->count &&
           (l->nodes[at].kind != REDCO_NODE_TABLE || !same_extents(&params[l->nodes[at].params[0]], &params[param]))) {
        at++;
    }
    if (at == l->count) {
        redco_extent extents[REDCO_PARAM_EXTENTS];
        redco_param_extents(&params[param], extents);
        at = add_node(l, REDCO_NODE_TABLE, bit(op->role), extents[1], 0, NULL);
    }
    redco_layer_node *const node = &l->nodes[at];
    bool known = node->param_count == REDCO_NODE_PARAMS;
    for (uint32_t i = 0; i < node->param_count; i++) { known = known || node->params[i] == param; }
    if (!known) { node->params[node->param_count++] = param; }
    if (l->live[op->id]) { set_node(&l->origins[op->first_output], at); }
}

static void add_product(struct list *l, const redco_op *op)
{
    const uint32_t input = read_node(l, op->inputs[0]), param = redcoi_probe_param(l->probe, op->inputs[1]);
    const uint32_t at =
        add_node(l, REDCO_NODE_PRODUCT, bit(op->role), redcoi_probe_columns(l->probe, op->first_output), 1, &input);
    l->nodes[at].params[l->nodes[at].param_count++] = param;
    l->nodes[at].blocks = redcoi_use_blocks(&l->probe->model, l->probe->model.params[param].use);
    set_node(&l->origins[op->first_output], at);
}

static void add_core(struct list *l, const redco_op *op)
{
    struct origin in = {.roles = bit(op->role)};
    for (uint32_t i = 0; i < 3; i++) {
        struct origin *const o = &l->origins[op->inputs[i]];
        (void)read_node(l, op->inputs[i]);
        in.roles |= o->roles;
        join(&in, o);
    }
    const redco_extent columns =
        redcoi_probe_extent(l->probe, redco_type_elements(redco_value_type(l->probe->g, op->first_output)) /
                                          (l->probe->sizes[REDCO_AXIS_BATCH] * l->probe->sizes[REDCO_AXIS_SEQUENCE]));
    set_node(&l->origins[op->first_output], add_node(l, REDCO_NODE_CORE, in.roles, columns, in.count, in.nodes));
}

/* A norm of heads goes with their attention; others read what layers hand on. */
static void add_norm(struct list *l, const redco_op *op)
{
    const redco_extent columns = redcoi_probe_columns(l->probe, op->first_output);
    struct origin *const out = &l->origins[op->first_output];
    if (columns.power[REDCO_AXIS_HIDDEN] == 0) {
        *out = l->origins[op->inputs[0]];
        out->roles |= bit(op->role);
        return;
    }
    settle(l, op->inputs[0]);
    set_node(out, add_node(l, REDCO_NODE_STREAM, bit(op->role), columns, 0, NULL));
}

/* Summands are nodes but for what layers hand on. */
static void add_summand(const struct list *l, const struct origin *from, struct origin *sum)
{
    if (from->form == NODE && l->nodes[from->nodes[0]].kind == REDCO_NODE_STREAM) { return; }
    join(sum, from);
}

/* Element by element: sums wait for their reader, activations too; biases and moves change nothing. */
static void add_elements(struct list *l, const redco_op *op)
{
    struct origin *const out = &l->origins[op->first_output];
    const struct origin *first = NULL, *second = NULL;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const struct origin *const o = &l->origins[op->inputs[i]];
        if (o->form == NOTHING) { continue; }
        if (first == NULL) {
            first = o;
        } else {
            second = o;
        }
    }
    if (first == NULL) { return; }
    const bool activation = op->role == REDCO_OP_ROLE_ACTIVATION;
    if (!activation && second == NULL) {
        *out = *first;
        const bool own = first->count > 0 && (l->nodes[first->nodes[0]].roles & bit(op->role)) != 0;
        if (!own) { out->roles |= bit(op->role); }
        return;
    }
    *out = (struct origin){.form = activation ? ELEMENTS : SUM, .roles = activation ? bit(op->role) : 0};
    add_summand(l, first, out);
    if (second != NULL) { add_summand(l, second, out); }
}

static void add_op(struct list *l, const redco_op *op)
{
    const uint32_t table = op->kind == REDCO_OP_GATHER ? redcoi_probe_param(l->probe, op->inputs[0]) : REDCO_NO_PARAM;
    if (table != REDCO_NO_PARAM) { add_table(l, op, table); }
    if (!l->live[op->id] || table != REDCO_NO_PARAM) { return; }
    switch (op->kind) {
    case REDCO_OP_MATMUL: add_product(l, op); break;
    case REDCO_OP_ATTENTION: add_core(l, op); break;
    case REDCO_OP_RMS_NORM:
    case REDCO_OP_LAYER_NORM: add_norm(l, op); break;
    case REDCO_OP_CROSS_ENTROPY: {
        const uint32_t logits = read_node(l, op->inputs[0]);
        const redco_extent columns = redcoi_probe_columns(l->probe, op->inputs[0]);
        set_node(&l->origins[op->first_output], add_node(l, REDCO_NODE_LOSS, bit(op->role), columns, 1, &logits));
        break;
    }
    default: add_elements(l, op); break;
    }
}

redco_status redcoi_layer_nodes_make(const redcoi_probe *probe, redco_layer_work *work, redco_error *err)
{
    const redcoi_class_values *const values = &probe->values;
    if (redco_model_is_paired(&probe->model)) { return REDCO_OK; } /* nothing to choose */
    bool *const live = calloc((size_t)redco_graph_op_count(probe->g) + 1, sizeof *live);
    struct origin *const origins = calloc((size_t)redco_graph_value_count(probe->g) + 1, sizeof *origins);
    const bool good = live != NULL && origins != NULL;
    struct list l = {.probe = probe, .nodes = work->nodes, .live = live, .origins = origins};
    if (good) {
        redco_graph_live(probe->g, &values->result, 1, l.live);
        l.origins[values->input].form = STREAM;
        l.origins[values->encoded].form = ENCODED;
        for (uint32_t o = values->first_op; o < values->end_op; o++) { add_op(&l, redco_graph_op(probe->g, o)); }
        const struct origin *const result = &l.origins[values->result];
        const redco_node_kind kind = result->count > 0 ? work->nodes[result->nodes[0]].kind : REDCO_NODE_STREAM;
        if (kind != REDCO_NODE_LOSS && kind != REDCO_NODE_STREAM) { settle(&l, values->result); }
        work->node_count = l.count;
    }
    free(live);
    free(origins);
    return good ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, probe->model.name, "no memory for its layers");
}
