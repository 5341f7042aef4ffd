#include "costmodel/graph/graph.h"

#include "costmodel/graph/graph_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

redco_graph *redco_graph_create(void)
{
    redco_graph *graph = calloc(1, sizeof *graph);
    if (graph == NULL) { return NULL; }
    graph->label = (redcoi_graph_label){.origin = REDCO_NO_OP, .toward = REDCO_NO_VALUE};
    if (redco_names_add(&graph->names, "") == REDCO_LAYER_NONE &&
        redco_names_add(&graph->names, "step") == REDCO_LAYER_STEP) {
        return graph;
    }
    redco_graph_free(graph);
    return NULL;
}

void redco_graph_free(redco_graph *graph)
{
    if (graph == NULL) { return; }
    redcoi_arena_free(&graph->arena);
    redco_names_free(&graph->names);
    redco_names_free(&graph->input_names);
    free(graph->input_values);
    free(graph->ops);
    free(graph->values);
    free(graph->table);
    free(graph);
}

redco_status redco_graph_status(const redco_graph *graph, redco_error *err)
{
    const redco_error *e = &graph->error;
    return e->status == REDCO_OK ? REDCO_OK : redco_fail(err, e->status, e->place, "%s", e->text);
}

bool redcoi_graph_failed(const redco_graph *graph)
{
    return graph->error.status != REDCO_OK;
}

const char *redcoi_graph_place(const redco_graph *graph, char *buffer, size_t size)
{
    const redcoi_graph_label *l = &graph->label;
    if (l->builder != 0) {
        (void)snprintf(buffer, size, "%s", graph->names.texts[l->builder]);
        return buffer;
    }
    (void)snprintf(buffer, size, "%s%s%s", graph->names.texts[l->layer], l->layer != 0 && l->name != 0 ? "/" : "",
                   graph->names.texts[l->name]);
    return buffer;
}

redco_value redcoi_graph_fail(redco_graph *graph, const char *what, ...)
{
    char place[200], text[512];
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text, sizeof text, what, args);
    va_end(args);
    (void)redco_fail(&graph->error, REDCO_EVALUE, redcoi_graph_place(graph, place, sizeof place), "%s", text);
    return REDCO_NO_VALUE;
}

static uint32_t name_of(redco_graph *graph, const char *text)
{
    const uint32_t name = redco_names_add(&graph->names, text);
    if (name != REDCO_NO_NAME) { return name; }
    (void)redco_fail(&graph->error, REDCO_ENOMEM, text, "a name of the graph");
    return 0;
}

void redco_graph_set_layer(redco_graph *graph, const char *layer)
{
    if (!graph->label.held) { graph->label.layer = name_of(graph, layer); }
}

void redco_graph_set_operator(redco_graph *graph, const char *operator_name)
{
    if (graph->label.held) { return; }
    graph->label.name = name_of(graph, operator_name);
    graph->label.role = redco_op_role_named(operator_name);
}

void redco_graph_set_role(redco_graph *graph, redco_op_role role)
{
    if (graph->label.held) { return; }
    graph->label.name = name_of(graph, redco_op_role_name(role));
    graph->label.role = role;
}

void redco_graph_set_like(redco_graph *graph, const redco_op *op)
{
    if (graph->label.held) { return; }
    graph->label.layer = name_of(graph, op->layer);
    graph->label.name = name_of(graph, op->operator_name);
    graph->label.role = op->role;
}

void redco_graph_hold_label(redco_graph *graph, bool held)
{
    graph->label.held = held;
}

void redco_graph_set_builder(redco_graph *graph, const char *builder)
{
    graph->label.builder = name_of(graph, builder);
}

/* FNV-1a over 32-bit words would be faster; operators are few and the hash is not what building costs. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) { hash = (hash ^ at[i]) * UINT64_C(1099511628211); }
    return hash;
}

_Static_assert(sizeof(redco_attributes) == 7 * 8 + 3 * REDCO_RANK_MAX * 8 + REDCO_RANK_MAX * 4 + 6 * 4,
               "no padding that a hash would see");

static uint64_t hash_op(const redco_op *op)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    hash = hash_bytes(hash, &op->kind, sizeof op->kind);
    hash = hash_bytes(hash, &op->copy, sizeof op->copy);
    hash = hash_bytes(hash, op->inputs, op->input_count * sizeof *op->inputs);
    return hash_bytes(hash, &op->attributes, sizeof op->attributes);
}

/** Scalars as bits: 0 and -0 differ, and not-a-number is itself. */
static bool same_attributes(const redco_attributes *a, const redco_attributes *b)
{
    uint64_t scalar_a, scalar_b, cap_a, cap_b;
    memcpy(&scalar_a, &a->scalar, sizeof scalar_a);
    memcpy(&scalar_b, &b->scalar, sizeof scalar_b);
    memcpy(&cap_a, &a->cap, sizeof cap_a);
    memcpy(&cap_b, &b->cap, sizeof cap_b);
    return scalar_a == scalar_b && cap_a == cap_b && a->offset == b->offset && a->first == b->first &&
           a->end == b->end && a->window == b->window && a->stream == b->stream &&
           memcmp(a->begin, b->begin, sizeof a->begin) == 0 && memcmp(a->size, b->size, sizeof a->size) == 0 &&
           memcmp(a->whole, b->whole, sizeof a->whole) == 0 && memcmp(a->axis, b->axis, sizeof a->axis) == 0 &&
           a->rank == b->rank && a->axis_count == b->axis_count && a->dtype == b->dtype && a->flags == b->flags &&
           a->group == b->group && a->ranks == b->ranks;
}

static bool same_op(const redco_op *a, const redco_op *b)
{
    return a->kind == b->kind && a->copy == b->copy && a->input_count == b->input_count &&
           (a->input_count == 0 || memcmp(a->inputs, b->inputs, a->input_count * sizeof *a->inputs) == 0) &&
           same_attributes(&a->attributes, &b->attributes);
}

/** Where @p op is in the table, or the empty entry where it belongs. */
static uint32_t *table_entry(const redco_graph *graph, const redco_op *op)
{
    uint64_t at = hash_op(op) & (graph->table_size - 1);
    while (graph->table[at] != REDCO_NO_OP && !same_op(graph->ops[graph->table[at]], op)) {
        at = (at + 1) & (graph->table_size - 1);
    }
    return &graph->table[at];
}

static redco_status no_memory(redco_graph *graph)
{
    return redco_fail(&graph->error, REDCO_ENOMEM, "graph", "no memory for %u operators", graph->op_count);
}

/** The table stays at most half full. */
static redco_status grow_table(redco_graph *graph)
{
    if (graph->op_count < graph->table_size / 2) { return REDCO_OK; }
    const uint32_t size = graph->table_size == 0 ? 1024 : 2 * graph->table_size;
    uint32_t *table = malloc(size * sizeof *table);
    if (table == NULL) { return no_memory(graph); }
    memset(table, 0xff, size * sizeof *table);
    free(graph->table);
    graph->table = table;
    graph->table_size = size;
    for (uint32_t i = 0; i < graph->op_count; i++) {
        if (graph->ops[i]->kind == REDCO_OP_INPUT) { continue; }
        *table_entry(graph, graph->ops[i]) = i;
    }
    return REDCO_OK;
}

static redco_status grow_arrays(redco_graph *graph)
{
    if (graph->op_count >= UINT32_MAX / 8) {
        return redco_fail(&graph->error, REDCO_EVALUE, "graph", "more than %u operators", graph->op_count);
    }
    if (graph->op_count == graph->op_capacity) {
        const uint32_t capacity = graph->op_capacity == 0 ? 256 : 2 * graph->op_capacity;
        redco_op **ops = realloc(graph->ops, capacity * sizeof(redco_op *));
        if (ops == NULL) { return no_memory(graph); }
        graph->ops = ops;
        graph->op_capacity = capacity;
    }
    if (graph->value_count + REDCO_OUTPUTS_MAX > graph->value_capacity) {
        const uint32_t capacity = graph->value_capacity == 0 ? 256 : 2 * graph->value_capacity;
        redcoi_value_entry **values = realloc(graph->values, capacity * sizeof(redcoi_value_entry *));
        if (values == NULL) { return no_memory(graph); }
        graph->values = values;
        graph->value_capacity = capacity;
    }
    return grow_table(graph);
}

static redco_op *append_op(redco_graph *graph, const redco_op *made, const redco_tensor_type *types)
{
    if (grow_arrays(graph) != REDCO_OK) { return NULL; }
    redco_op *op = redcoi_arena_take(&graph->arena, sizeof *op);
    redco_value *inputs = redcoi_arena_take(&graph->arena, (made->input_count + 1) * sizeof *inputs);
    redcoi_value_entry *values = redcoi_arena_take(&graph->arena, made->output_count * sizeof *values);
    if (op == NULL || inputs == NULL || values == NULL) {
        (void)no_memory(graph);
        return NULL;
    }
    *op = *made;
    if (made->input_count > 0) { memcpy(inputs, made->inputs, made->input_count * sizeof *inputs); }
    op->inputs = inputs;
    op->id = graph->op_count;
    op->first_output = graph->value_count;
    if (op->kind != REDCO_OP_INPUT) { *table_entry(graph, op) = op->id; }
    graph->ops[graph->op_count++] = op;
    for (uint32_t i = 0; i < op->output_count; i++) {
        values[i] = (redcoi_value_entry){.type = types[i], .op = op->id};
        graph->values[graph->value_count++] = &values[i];
    }
    return op;
}

/** No dimension is larger: sums with an offset cannot overflow. */
#define OFFSET_MAX (INT64_C(1) << 48)

/** Checks one operator: pointwise ones have as many as their program says. */
static uint32_t output_count(redco_op_kind kind, const redco_attributes *attributes)
{
    if ((unsigned)kind >= REDCO_OP_COUNT) { return 1; }
    const uint32_t most = redcoi_operators[kind].outputs;
    if (kind != REDCO_OP_POINTWISE) { return most; }
    const uint32_t count = attributes == NULL ? 1 : attributes->axis_count;
    return count < most ? count : most;
}

static redco_status infer(redco_graph *graph, redcoi_signature *s)
{
    const redcoi_operator *row = &redcoi_operators[s->kind];
    if (s->input_count < row->inputs_min || s->input_count > row->inputs_max) {
        return redcoi_mismatch(s, "it takes %u to %u inputs, not %u", row->inputs_min, row->inputs_max, s->input_count);
    }
    if (s->attributes->rank > REDCO_RANK_MAX || s->attributes->axis_count > REDCO_RANK_MAX) {
        return redcoi_mismatch(s, "rank %u; at most %d are supported",
                               s->attributes->rank > s->attributes->axis_count ? s->attributes->rank
                                                                               : s->attributes->axis_count,
                               REDCO_RANK_MAX);
    }
    if (s->attributes->offset > OFFSET_MAX || s->attributes->offset < -OFFSET_MAX) {
        return redcoi_mismatch(s, "offset %lld", (long long)s->attributes->offset);
    }
    redco_status st = redcoi_infer_rules[s->kind](s);
    const uint32_t outputs = output_count(s->kind, s->attributes);
    for (uint32_t i = 0; i < outputs && st == REDCO_OK; i++) {
        st = redco_type_check(&s->out[i], s->place, &graph->error);
    }
    return st;
}

static bool inputs_exist(redco_graph *graph, redco_op_kind kind, const redco_value *inputs, uint32_t count)
{
    if ((unsigned)kind >= REDCO_OP_COUNT || count > REDCO_INPUTS_MAX) {
        (void)redcoi_graph_fail(graph, "operator kind %u of %u inputs", (unsigned)kind, count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (inputs[i] >= graph->value_count) {
            (void)redcoi_graph_fail(graph, "%s: input %u is no value of this graph", redco_op_kind_name(kind), i);
            return false;
        }
    }
    return true;
}

void redco_graph_apply(redco_graph *graph, redco_op_kind kind, const redco_value *inputs, uint32_t input_count,
                       const redco_attributes *attributes, redco_value *outputs_out)
{
    char place[200];
    redco_tensor_type in[REDCO_INPUTS_MAX];
    const uint32_t outputs = output_count(kind, attributes);
    for (uint32_t i = 0; i < outputs; i++) { outputs_out[i] = REDCO_NO_VALUE; }
    if (redcoi_graph_failed(graph) || !inputs_exist(graph, kind, inputs, input_count)) { return; }
    redco_attributes none;
    memset(&none, 0, sizeof none);
    if (attributes == NULL) { attributes = &none; }
    for (uint32_t i = 0; i < input_count; i++) { in[i] = graph->values[inputs[i]]->type; }
    redcoi_signature s = {.kind = kind,
                          .input_count = input_count,
                          .graph = graph,
                          .inputs = inputs,
                          .in = in,
                          .attributes = attributes,
                          .err = &graph->error,
                          .place = redcoi_graph_place(graph, place, sizeof place)};
    if (infer(graph, &s) != REDCO_OK || redcoi_simplify(graph, &s, inputs, outputs_out)) { return; }
    const redcoi_graph_label *l = &graph->label;
    const redco_op made = {.kind = kind,
                           .input_count = input_count,
                           .output_count = outputs,
                           .inputs = inputs,
                           .attributes = *attributes,
                           .role = l->role,
                           .layer_id = l->layer,
                           .name_id = l->name,
                           .absorbed_id = l->absorbed,
                           .layer = graph->names.texts[l->layer],
                           .operator_name = graph->names.texts[l->name],
                           .absorbed = graph->names.texts[l->absorbed],
                           .carries = l->carries,
                           .order = l->order,
                           .copy = l->copy,
                           .origin = l->origin,
                           .toward = l->toward};
    const redco_op *op = NULL;
    if (graph->table_size > 0 && kind != REDCO_OP_INPUT) {
        const uint32_t found = *table_entry(graph, &made);
        if (found != REDCO_NO_OP) { op = graph->ops[found]; }
    }
    if (op == NULL && (op = append_op(graph, &made, s.out)) == NULL) { return; }
    for (uint32_t i = 0; i < outputs; i++) { outputs_out[i] = op->first_output + i; }
}

void redco_graph_insert(redco_graph *graph, const redco_op *op, const redco_value *inputs, redco_value *outputs_out)
{
    const redcoi_graph_label before = graph->label;
    redco_graph_set_like(graph, op);
    graph->label.absorbed = op->absorbed == NULL ? 0 : name_of(graph, op->absorbed);
    graph->label.carries = op->carries;
    graph->label.order = op->order;
    graph->label.copy = op->copy;
    graph->label.origin = op->origin;
    graph->label.toward = op->toward;
    redco_graph_apply(graph, op->kind, inputs, op->input_count, &op->attributes, outputs_out);
    graph->label = before;
}

static bool keep_input(redco_graph *graph, const char *name, redco_value value)
{
    const uint32_t at = redco_names_add(&graph->input_names, name);
    if (at != REDCO_NO_NAME && at == graph->input_capacity) {
        const uint32_t capacity = 2 * at + 16;
        redco_value *const values = realloc(graph->input_values, capacity * sizeof *values);
        if (values != NULL) {
            graph->input_values = values;
            graph->input_capacity = capacity;
        }
    }
    if (at >= graph->input_capacity) {
        (void)no_memory(graph);
        return false;
    }
    graph->input_values[at] = value;
    graph->values[value]->name = graph->input_names.texts[at];
    return true;
}

redco_value redcoi_graph_input(redco_graph *graph, const char *name, const redco_tensor_type *type, uint32_t flags)
{
    if (redcoi_graph_failed(graph)) { return REDCO_NO_VALUE; }
    if (redco_graph_find_input(graph, name) != REDCO_NO_VALUE) {
        return redcoi_graph_fail(graph, "two inputs are named \"%s\"", name);
    }
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.dtype = (uint32_t)type->dtype;
    attributes.rank = type->rank;
    attributes.flags = flags;
    memcpy(attributes.size, type->dim, sizeof attributes.size);
    redco_value value = REDCO_NO_VALUE;
    redco_graph_apply(graph, REDCO_OP_INPUT, NULL, 0, &attributes, &value);
    if (value == REDCO_NO_VALUE || !keep_input(graph, name, value)) { return REDCO_NO_VALUE; }
    return value;
}

redco_value redco_input(redco_graph *graph, const char *name, const redco_tensor_type *type)
{
    return redcoi_graph_input(graph, name, type, 0);
}

redco_value redco_parameter(redco_graph *graph, const char *name, const redco_tensor_type *type)
{
    return redcoi_graph_input(graph, name, type, REDCO_FLAG_PARAMETER);
}

redco_value redco_graph_find_input(const redco_graph *graph, const char *name)
{
    const uint32_t at = redco_names_find(&graph->input_names, name);
    return at != REDCO_NO_NAME ? graph->input_values[at] : REDCO_NO_VALUE;
}

uint32_t redco_graph_op_count(const redco_graph *graph)
{
    return graph->op_count;
}

uint32_t redco_graph_value_count(const redco_graph *graph)
{
    return graph->value_count;
}

const redco_op *redco_graph_op(const redco_graph *graph, uint32_t op)
{
    assert(op < graph->op_count);
    return graph->ops[op];
}

const redco_op *redco_value_op(const redco_graph *graph, redco_value value)
{
    assert(value < graph->value_count);
    return graph->ops[graph->values[value]->op];
}

const redco_tensor_type *redco_value_type(const redco_graph *graph, redco_value value)
{
    static const redco_tensor_type of_none = {REDCO_F32, REDCO_RANK_MAX, {1, 1, 1, 1, 1, 1, 1, 1}};
    assert(value < graph->value_count || value == REDCO_NO_VALUE);
    return value < graph->value_count ? &graph->values[value]->type : &of_none;
}

const char *redco_value_name(const redco_graph *graph, redco_value value)
{
    return value < graph->value_count ? graph->values[value]->name : NULL;
}

const redco_names *redco_graph_names(const redco_graph *graph)
{
    return &graph->names;
}

const char *redco_op_name(const redco_graph *graph, const redco_op *op, char *buffer, size_t size)
{
    const char *pass = op->layer_id == REDCO_LAYER_STEP ? "" : op->order > 0 ? "bwd/" : op->copy > 0 ? "re/" : "fwd/";
    const char *what = op->operator_name[0] != 0 ? op->operator_name : redco_op_kind_name(op->kind);
    const char *side = op->carries && op->kind == REDCO_OP_ALL_REDUCE              ? "/reduce"
                       : op->carries && op->kind == REDCO_OP_ALL_GATHER            ? "/tp_gather"
                       : op->carries                                               ? "/tp_scatter"
                       : op->toward == REDCO_NO_VALUE || op->origin == REDCO_NO_OP ? ""
                       : op->toward == 1                                           ? "/weight"
                                                                                   : "/input";
    (void)graph;
    (void)snprintf(buffer, size, "%s%s%s%s%s", pass, op->layer, op->layer[0] != 0 ? "/" : "", what, side);
    return buffer;
}
