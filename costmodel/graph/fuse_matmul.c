#include "costmodel/graph/fuse_matmul.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/transform.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_INPUTS = 4, NO_GROUP = UINT32_MAX };

/** A product and what it takes along. */
typedef struct group {
    const redco_op *product;
    const redco_op *last; /**< its result is the first output: product, sum or activation */
    redco_op_kind kind;
    uint32_t flags;           /**< besides those of the product */
    redco_value addend, bias; /**< REDCO_NO_VALUE: none */
    redco_value before;       /**< the input of GELU's gradient; for GELU, the second output */
    const redco_op *sum;      /**< sum of a factor's rows */
    uint32_t side;            /**< which factor's */
} group;

typedef struct pass {
    const redco_graph *from;
    const redco_fuse_choice *choice;
    redco_graph *to;
    group *groups;
    uint32_t group_count;
    uint32_t *group_of; /**< by operator */
    uint32_t *op_of;    /**< by operator: in the new graph */
    uint32_t *readers;  /**< by value: live operators and results */
    redco_value *root;  /**< by value: what it is a view of */
    redco_value *map;   /**< by value: in the new graph */
    bool *live, *mark;  /**< by operator */
} pass;

static const redco_tensor_type *type_of(const pass *p, redco_value value)
{
    return redco_value_type(p->from, value);
}

static const redco_op *maker_of(const pass *p, redco_value value)
{
    return redco_value_op(p->from, value);
}

/** @return the operator that made @p value, if nobody but one reader sees it or a view of it on the way there; else
 * NULL. */
static const redco_op *sole_maker(const pass *p, redco_value value)
{
    while (p->readers[value] == 1) {
        const redco_op *const op = maker_of(p, value);
        if (!redco_op_is_view(op->kind)) { return op; }
        value = op->inputs[0];
    }
    return NULL;
}

static bool is_near(const redco_op *a, const redco_op *b)
{
    return a->order == b->order && a->copy == b->copy && a->layer_id == b->layer_id;
}

static bool is_matrix_product(const pass *p, const redco_op *op)
{
    return op->kind == REDCO_OP_MATMUL && type_of(p, op->first_output)->rank == 2;
}

/** @return whether @p op needs the result of operator @p of. */
static bool depends_on(const pass *p, const redco_op *op, const redco_op *of)
{
    if (op->id < of->id) { return false; }
    p->mark[of->id] = true;
    for (uint32_t i = of->id + 1; i <= op->id; i++) {
        const redco_op *const at = redco_graph_op(p->from, i);
        p->mark[i] = false;
        for (uint32_t k = 0; k < at->input_count && !p->mark[i]; k++) {
            const redco_op *const maker = maker_of(p, at->inputs[k]);
            p->mark[i] = maker->id >= of->id && p->mark[maker->id];
        }
    }
    return p->mark[op->id];
}

/** Made before the product, so that the product need not wait for it. */
static bool is_earlier(const pass *p, redco_value value, const redco_op *product)
{
    return maker_of(p, p->root[value])->id < product->id;
}

/* The operator that a group becomes */

/** Its inputs, as values of the old graph, and the types that it reads them as. */
static uint32_t list_inputs(const pass *p, const group *g, redco_value values[GROUP_INPUTS],
                            redco_tensor_type types[GROUP_INPUTS])
{
    assert(g->product != NULL); /* a group has one from its beginning */
    const redco_tensor_type *const product = type_of(p, g->product->first_output);
    uint32_t count = 0;
    if (g->addend != REDCO_NO_VALUE) {
        types[count] = *product;
        values[count++] = g->addend;
    }
    for (uint32_t i = 0; i < 2; i++) {
        types[count] = *type_of(p, g->product->inputs[i]);
        values[count++] = g->product->inputs[i];
    }
    if (g->bias != REDCO_NO_VALUE) {
        types[count] = redco_type(product->dtype, 1, &product->dim[1]);
        values[count++] = g->bias;
    }
    if (g->kind == REDCO_OP_MATMUL_GELU_GRAD) {
        types[count] = *product;
        values[count++] = g->before;
    }
    return count;
}

/** @return the name of another operator of the layer that becomes part of the product, "" if all have its name. Where
 * the sum of rows reads a view of its own, that is gone, too. */
static const char *other_name(const pass *p, const group *g)
{
    const uint32_t own = g->product->name_id;
    if (g->last->name_id != own) { return g->last->operator_name; }
    if (g->sum == NULL) { return ""; }
    if (g->sum->name_id != own) { return g->sum->operator_name; }
    for (const redco_op *op = maker_of(p, g->sum->inputs[0]); redco_op_is_view(op->kind);
         op = maker_of(p, op->inputs[0])) {
        if (op->name_id != own && is_near(op, g->product)) { return op->operator_name; }
    }
    return "";
}

static redco_op describe(const pass *p, const group *g, uint32_t input_count)
{
    redco_op op = *g->product;
    op.kind = g->kind;
    op.input_count = input_count;
    op.output_count = redco_op_kind_outputs(g->kind);
    op.attributes.flags |= g->flags;
    if (g->kind == REDCO_OP_MATMUL_BIAS_GRAD) {
        op.attributes.axis[0] = g->side;
        op.attributes.axis_count = 1;
    }
    op.absorbed = other_name(p, g);
    return op;
}

static bool is_supported(const pass *p, const group *g)
{
    redco_value values[GROUP_INPUTS];
    redco_tensor_type types[GROUP_INPUTS], outputs[2];
    const redco_op op = describe(p, g, list_inputs(p, g, values, types));
    outputs[0] = *type_of(p, g->product->first_output);
    outputs[1] =
        g->kind == REDCO_OP_MATMUL_BIAS_GRAD ? redco_type(outputs[0].dtype, 1, &outputs[0].dim[g->side]) : outputs[0];
    return p->choice->supports(p->choice->context, &op, types, outputs);
}

/** Takes @p g, which may be one that grew, if the device has it. @param with  operators that become part of it */
static void propose(pass *p, const group *g, const redco_op *with)
{
    if (!is_supported(p, g)) { return; }
    uint32_t *const at = &p->group_of[g->product->id];
    if (*at == NO_GROUP) { *at = p->group_count++; }
    p->groups[*at] = *g;
    p->group_of[with->id] = *at;
}

/** A product that nothing was joined to, or one whose last part @p op is and which is only followed by a bias. */
static bool begin(const pass *p, const redco_op *op, group *g)
{
    if (p->group_of[op->id] == NO_GROUP && is_matrix_product(p, op)) {
        *g = (group){.product = op,
                     .last = op,
                     .kind = REDCO_OP_MATMUL,
                     .addend = REDCO_NO_VALUE,
                     .bias = REDCO_NO_VALUE,
                     .before = REDCO_NO_VALUE};
        return true;
    }
    if (p->group_of[op->id] == NO_GROUP) { return false; }
    *g = p->groups[p->group_of[op->id]];
    return g->kind == REDCO_OP_MATMUL_BIAS && g->flags == 0 && g->last == op;
}

/* Operators that can follow */

/** @return whether @p value is repeated over all rows of @p n elements. */
static bool is_row(const pass *p, redco_value value, uint64_t n)
{
    const redco_tensor_type *const type = type_of(p, value);
    return type->rank > 0 && type->dim[type->rank - 1] == n && redco_type_elements(type) == n;
}

static bool join_bias(pass *p, const redco_op *add, group g, redco_value bias)
{
    const redco_tensor_type *const out = type_of(p, add->first_output);
    const uint64_t n = type_of(p, g.product->first_output)->dim[1];
    if (g.kind != REDCO_OP_MATMUL || !is_row(p, bias, n) || out->dim[out->rank - 1] != n ||
        depends_on(p, maker_of(p, bias), g.product)) {
        return false;
    }
    g.kind = REDCO_OP_MATMUL_BIAS;
    g.bias = bias;
    g.last = add;
    propose(p, &g, add);
    return true;
}

/* The result may be written over the addend, so that must be none of what is read meanwhile. */
static void join_addend(pass *p, const redco_op *add, group g, redco_value addend)
{
    if (!redco_type_equal(type_of(p, addend), type_of(p, add->first_output)) || !is_earlier(p, addend, g.product) ||
        p->root[addend] == p->root[g.product->inputs[0]] || p->root[addend] == p->root[g.product->inputs[1]] ||
        (g.bias != REDCO_NO_VALUE && p->root[addend] == p->root[g.bias])) {
        return;
    }
    g.kind = REDCO_OP_MATMUL_ADD;
    g.addend = addend;
    g.last = add;
    propose(p, &g, add);
}

/* The later one of two products: the other is made by then. */
static void match_add(pass *p, const redco_op *add)
{
    const redco_op *made[2];
    for (uint32_t k = 0; k < 2; k++) {
        made[k] = sole_maker(p, add->inputs[k]);
        const bool whole = redco_type_equal(type_of(p, add->inputs[k]), type_of(p, add->first_output));
        if (made[k] != NULL && (!whole || !is_near(made[k], add))) { made[k] = NULL; }
    }
    const uint32_t later = made[0] == NULL || (made[1] != NULL && made[1]->id > made[0]->id) ? 1 : 0;
    for (uint32_t i = 0; i < 2 && p->group_of[add->id] == NO_GROUP; i++) {
        const uint32_t k = i == 0 ? later : 1 - later;
        group g;
        if (made[k] == NULL || !begin(p, made[k], &g)) { continue; }
        if (!join_bias(p, add, g, add->inputs[1 - k])) { join_addend(p, add, g, add->inputs[1 - k]); }
    }
}

static void match_activation(pass *p, const redco_op *op)
{
    const redco_value argument = p->root[op->inputs[0]];
    const redco_op *const maker = maker_of(p, argument);
    group g;
    if (!is_near(maker, op) || !begin(p, maker, &g)) { return; }
    if (sole_maker(p, op->inputs[0]) == maker && g.kind == REDCO_OP_MATMUL_BIAS) {
        g.flags = op->kind == REDCO_OP_RELU ? REDCO_FLAG_RELU : REDCO_FLAG_GELU;
    } else if (op->kind == REDCO_OP_GELU_TANH && sole_maker(p, op->inputs[0]) == NULL) {
        g.kind = REDCO_OP_MATMUL_GELU;
        g.before = argument;
    } else {
        return;
    }
    g.last = op;
    propose(p, &g, op);
}

static void match_activation_gradient(pass *p, const redco_op *op)
{
    const redco_tensor_type *const out = type_of(p, op->first_output);
    const redco_op *const maker = sole_maker(p, op->inputs[1]);
    group g;
    if (maker == NULL || !is_near(maker, op) || maker->kind != REDCO_OP_MATMUL || !begin(p, maker, &g) ||
        !redco_type_equal(type_of(p, op->inputs[0]), out) || !redco_type_equal(type_of(p, op->inputs[1]), out) ||
        !is_earlier(p, op->inputs[0], g.product)) {
        return;
    }
    g.kind = REDCO_OP_MATMUL_GELU_GRAD;
    g.before = op->inputs[0];
    g.last = op;
    propose(p, &g, op);
}

/** @return whether the sum over all but the last dimension of @p rows is one over what @p product sums over, of factor
 *  @p side. */
static bool sums_factor(const pass *p, const redco_op *product, uint32_t side, redco_value rows, uint64_t n)
{
    const redco_value factor = product->inputs[side];
    const bool transposed =
        (product->attributes.flags & (side == 0 ? REDCO_FLAG_TRANSPOSE_A : REDCO_FLAG_TRANSPOSE_B)) != 0;
    return p->root[factor] == p->root[rows] && transposed == (side == 0) && type_of(p, factor)->dim[1] == n;
}

static bool is_sum_of_rows(const pass *p, const redco_op *sum)
{
    const redco_tensor_type *const in = type_of(p, sum->inputs[0]), *const out = type_of(p, sum->first_output);
    const uint32_t axes = sum->attributes.axis_count;
    return in->rank > 1 && axes > 0 && sum->attributes.axis[axes - 1] < in->rank - 1 && in->dtype == out->dtype &&
           redco_type_elements(out) == in->dim[in->rank - 1];
}

static void match_sum(pass *p, const redco_op *sum)
{
    const redco_value rows = sum->inputs[0];
    const redco_tensor_type *const in = type_of(p, rows);
    if (!is_sum_of_rows(p, sum)) { return; }
    for (uint32_t i = 0; i < redco_graph_op_count(p->from); i++) {
        const redco_op *const op = redco_graph_op(p->from, i);
        group g;
        if (!p->live[i] || op->kind != REDCO_OP_MATMUL || !is_near(op, sum) || !begin(p, op, &g)) { continue; }
        for (uint32_t side = 0; side < 2; side++) {
            if (!sums_factor(p, op, side, rows, in->dim[in->rank - 1]) || depends_on(p, op, sum)) { continue; }
            g.kind = REDCO_OP_MATMUL_BIAS_GRAD;
            g.sum = sum;
            g.side = side;
            propose(p, &g, sum);
            return;
        }
    }
}

static void find_groups(pass *p)
{
    for (uint32_t i = 0; i < redco_graph_op_count(p->from); i++) {
        const redco_op *const op = redco_graph_op(p->from, i);
        if (!p->live[i]) { continue; }
        switch (op->kind) {
        case REDCO_OP_ADD: match_add(p, op); break;
        case REDCO_OP_RELU:
        case REDCO_OP_GELU_TANH: match_activation(p, op); break;
        case REDCO_OP_GELU_TANH_GRAD: match_activation_gradient(p, op); break;
        case REDCO_OP_REDUCE_SUM: match_sum(p, op); break;
        default: break;
        }
    }
}

/* The new graph */

static redco_value made(pass *p, redco_value value);

/** @p value of the new graph under other dimensions, named like @p like. */
static redco_value viewed(const pass *p, redco_value value, const redco_tensor_type *type, const redco_op *like)
{
    redco_op view = *like;
    redco_value out = REDCO_NO_VALUE;
    if (value == REDCO_NO_VALUE) { return value; }
    memset(&view.attributes, 0, sizeof view.attributes);
    view.kind = REDCO_OP_RESHAPE;
    view.input_count = 1;
    view.absorbed = "";
    view.origin = like->origin == REDCO_NO_OP ? REDCO_NO_OP : p->op_of[like->origin];
    view.attributes.rank = type->rank;
    memcpy(view.attributes.size, type->dim, sizeof view.attributes.size);
    redco_graph_insert(p->to, &view, &value, &out);
    return out;
}

static void take_op(pass *p, const redco_op *op, const redco_value *outputs)
{
    for (uint32_t k = 0; k < op->output_count; k++) { p->map[op->first_output + k] = outputs[k]; }
    if (outputs[0] != REDCO_NO_VALUE) { p->op_of[op->id] = redco_value_op(p->to, outputs[0])->id; }
}

static void make_input(pass *p, const redco_op *op)
{
    const redco_tensor_type *const type = type_of(p, op->first_output);
    const char *const name = redco_value_name(p->from, op->first_output);
    redco_graph_set_like(p->to, op);
    const redco_value value = (op->attributes.flags & REDCO_FLAG_PARAMETER) != 0 ? redco_parameter(p->to, name, type)
                                                                                 : redco_input(p->to, name, type);
    take_op(p, op, &value);
}

static void make_plain(pass *p, const redco_op *op)
{
    redco_value inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    redco_op copy = *op;
    for (uint32_t k = 0; k < op->input_count; k++) { inputs[k] = made(p, op->inputs[k]); }
    copy.origin = op->origin == REDCO_NO_OP ? REDCO_NO_OP : p->op_of[op->origin];
    redco_graph_insert(p->to, &copy, inputs, outputs);
    take_op(p, op, outputs);
}

static void make_group(pass *p, const group *g)
{
    redco_value values[GROUP_INPUTS], outputs[REDCO_OUTPUTS_MAX];
    redco_tensor_type types[GROUP_INPUTS];
    const uint32_t count = list_inputs(p, g, values, types);
    redco_op op = describe(p, g, count);
    for (uint32_t i = 0; i < count; i++) { values[i] = viewed(p, made(p, values[i]), &types[i], g->product); }
    op.origin = op.origin == REDCO_NO_OP ? REDCO_NO_OP : p->op_of[op.origin];
    redco_graph_insert(p->to, &op, values, outputs);
    if (outputs[0] == REDCO_NO_VALUE) { return; }
    for (uint32_t i = 0; i < redco_graph_op_count(p->from); i++) {
        if (p->group_of[i] == p->group_of[g->product->id]) { p->op_of[i] = redco_value_op(p->to, outputs[0])->id; }
    }
    const redco_value result = g->last->first_output;
    p->map[result] = viewed(p, outputs[0], type_of(p, result), g->last);
    if (g->kind == REDCO_OP_MATMUL_GELU) {
        p->map[g->before] = viewed(p, outputs[1], type_of(p, g->before), g->product);
    }
    if (g->sum != NULL) {
        const redco_value sum = g->sum->first_output;
        p->map[sum] = viewed(p, outputs[1], type_of(p, sum), g->sum);
    }
}

/** @p value of the old graph in the new one, made now if it was not yet: views, and the sum of rows that its product
 *  takes along, where somebody reads it before the product. */
static redco_value made(pass *p, redco_value value)
{
    if (p->map[value] == REDCO_NO_VALUE && redco_graph_status(p->to, NULL) == REDCO_OK) {
        const redco_op *const op = maker_of(p, value);
        const uint32_t of = p->group_of[op->id];
        if (of != NO_GROUP) {
            make_group(p, &p->groups[of]);
        } else {
            make_plain(p, op);
        }
    }
    return p->map[value]; /* NOLINT(clang-analyzer-unix.Malloc): redco_graph_fuse_matmul() frees what a pass holds */
}

static redco_status make_graph(pass *p, const redco_value *outputs, uint32_t output_count, redco_value *outputs_out,
                               redco_error *err)
{
    for (uint32_t i = 0; i < redco_graph_op_count(p->from); i++) {
        const redco_op *const op = redco_graph_op(p->from, i);
        const uint32_t of = p->group_of[i];
        if (!p->live[i] || redco_op_is_view(op->kind)) { continue; }
        if (op->kind == REDCO_OP_INPUT) {
            make_input(p, op);
        } else if (of == NO_GROUP || p->groups[of].product == op) {
            (void)made(p, of == NO_GROUP ? op->first_output : p->groups[of].last->first_output);
        }
        const redco_status st = redco_graph_status(p->to, err);
        if (st != REDCO_OK) { return st; }
    }
    for (uint32_t i = 0; i < output_count; i++) { outputs_out[i] = made(p, outputs[i]); }
    return redco_graph_status(p->to, err);
}

static redco_status take_memory(pass *p, redco_error *err)
{
    const size_t ops = (size_t)redco_graph_op_count(p->from) + 1;
    const size_t values = (size_t)redco_graph_value_count(p->from) + 1;
    p->to = redco_graph_create();
    p->groups = calloc(ops, sizeof *p->groups);
    p->group_of = malloc(ops * sizeof *p->group_of);
    p->op_of = malloc(ops * sizeof *p->op_of);
    p->readers = calloc(values, sizeof *p->readers);
    p->root = calloc(values, sizeof *p->root);
    p->map = malloc(values * sizeof *p->map);
    p->live = calloc(ops, sizeof *p->live);
    p->mark = calloc(ops, sizeof *p->mark);
    if (p->to == NULL || !p->groups || !p->group_of || !p->op_of || !p->readers || !p->root || !p->map || !p->live ||
        !p->mark) {
        return redco_fail(err, REDCO_ENOMEM, "graph", "no memory to fuse products");
    }
    memset(p->group_of, 0xff, ops * sizeof *p->group_of);
    memset(p->op_of, 0xff, ops * sizeof *p->op_of);
    memset(p->map, 0xff, values * sizeof *p->map);
    return REDCO_OK;
}

static void count_readers(pass *p, const redco_value *outputs, uint32_t output_count)
{
    for (uint32_t i = 0; i < redco_graph_op_count(p->from); i++) {
        const redco_op *const op = redco_graph_op(p->from, i);
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            p->root[out] = redco_op_is_view(op->kind) ? p->root[op->inputs[0]] : out;
        }
        for (uint32_t k = 0; k < op->input_count && p->live[i]; k++) { p->readers[op->inputs[k]]++; }
    }
    for (uint32_t i = 0; i < output_count; i++) { p->readers[outputs[i]]++; }
}

redco_status redco_graph_fuse_matmul(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                     const redco_fuse_choice *choice, redco_graph **graph_out, redco_value *outputs_out,
                                     redco_error *err)
{
    pass p = {.from = graph, .choice = choice};
    redco_status st = redco_graph_status(graph, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < output_count; i++) {
        if (outputs[i] >= redco_graph_value_count(graph)) {
            return redco_fail(err, REDCO_EVALUE, "graph", "output %u is no value of this graph", i);
        }
    }
    if ((st = take_memory(&p, err)) != REDCO_OK) { goto out; }
    redco_graph_live(graph, outputs, output_count, p.live);
    count_readers(&p, outputs, output_count);
    find_groups(&p);
    if ((st = make_graph(&p, outputs, output_count, outputs_out, err)) != REDCO_OK) { goto out; }
    *graph_out = p.to;
    p.to = NULL;
out:
    redco_graph_free(p.to);
    free(p.groups);
    free(p.group_of);
    free(p.op_of);
    free(p.readers);
    free(p.root);
    free(p.map);
    free(p.live);
    free(p.mark);
    return st;
}
