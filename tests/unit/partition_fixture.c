#include "partition_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fixture_traffic traffic_of(const redco_graph *local, const redco_op *op)
{
    const uint64_t ranks = op->attributes.ranks;
    const redco_value larger = op->kind == REDCO_OP_ALL_GATHER ? op->first_output : op->inputs[0];
    fixture_traffic t = {.op = op->id,
                         .kind = op->kind,
                         .group = {op->attributes.group, op->attributes.ranks},
                         .size_bytes = redco_type_bytes(redco_value_type(local, larger))};
    const uint64_t share = (t.size_bytes + ranks - 1) / ranks * (ranks - 1); /* the largest chunk of every step */
    t.sent_bytes = op->kind == REDCO_OP_ALL_REDUCE ? 2 * share : share;
    return t;
}

redco_status fixture_list_traffic(const redco_graph *local, fixture_traffic **traffic_out, uint32_t *count_out,
                                  redco_error *err)
{
    uint32_t count = 0;
    fixture_traffic *list = NULL;
    for (uint32_t i = 0; i < redco_graph_op_count(local); i++) {
        count += redco_op_kind_class(redco_graph_op(local, i)->kind) == REDCO_CLASS_COLLECTIVE ? 1 : 0;
    }
    if (count > 0 && (list = calloc(count, sizeof *list)) == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "partition", "no memory for %u collectives", count);
    }
    count = 0;
    for (uint32_t i = 0; list != NULL && i < redco_graph_op_count(local); i++) {
        const redco_op *op = redco_graph_op(local, i);
        if (redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE) { list[count++] = traffic_of(local, op); }
    }
    *traffic_out = list;
    *count_out = count;
    return REDCO_OK;
}

void fixture_open(fixture *r, uint64_t seed)
{
    memset(r, 0, sizeof *r);
    r->random = seed * 2 + 1;
    assert_int_equal(redco_host_open(NULL, &r->backend, NULL), REDCO_OK);
    r->g = redco_graph_create();
    assert_non_null(r->g);
}

static void forget_traffic(fixture *r)
{
    free(r->traffic);
    free(r->names);
    r->traffic = NULL;
    r->names = NULL;
    r->traffic_count = 0;
}

void fixture_clear(fixture *r)
{
    forget_traffic(r);
    for (uint32_t i = 0; i < r->inputs; i++) { free(r->input[i].data); }
    for (uint32_t i = 0; i <= RIG_INPUTS; i++) {
        free(r->wanted[i]);
        r->wanted[i] = NULL;
    }
    r->inputs = 0;
    r->sequence_parallel = false;
    redco_graph_free(r->g);
    r->g = redco_graph_create();
    assert_non_null(r->g);
}

void fixture_close(fixture *r)
{
    fixture_clear(r);
    redco_graph_free(r->g);
    redco_backend_close(r->backend);
}

int fixture_end(void **state)
{
    fixture *const r = *state;
    if (r->worst > 0.0) { printf("worst error of a tensor, relative to its largest element: %.1e\n", r->worst); }
    fixture_close(r);
    return 0;
}

static uint64_t next(fixture *r) /* splitmix64 */
{
    uint64_t z = r->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t fixture_below(fixture *r, uint64_t n)
{
    return next(r) % n;
}

static redco_value add_input(fixture *r, const char *name, redco_dtype dtype, uint32_t rank, const uint64_t *dim,
                             bool parameter)
{
    assert_true(r->inputs < RIG_INPUTS);
    fixture_input *in = &r->input[r->inputs++];
    *in = (fixture_input){.type = redco_type(dtype, rank, dim), .parameter = parameter};
    (void)snprintf(in->name, sizeof in->name, "%s", name);
    in->value = parameter ? redco_parameter(r->g, name, &in->type) : redco_input(r->g, name, &in->type);
    in->data = malloc(redco_type_bytes(&in->type));
    assert_non_null(in->data);
    return in->value;
}

static void fill(fixture *r, const fixture_input *in, double size)
{
    double *data = in->data;
    for (uint64_t i = 0; i < redco_type_elements(&in->type); i++) {
        data[i] = size * ((double)(next(r) >> 11) * 0x1p-52 - 1);
    }
}

redco_value fixture_parameter(fixture *r, const char *name, uint32_t rank, const uint64_t *dim)
{
    const redco_value value = add_input(r, name, REDCO_F64, rank, dim, true);
    fill(r, &r->input[r->inputs - 1], 0.6);
    return value;
}

redco_value fixture_data(fixture *r, const char *name, uint32_t rank, const uint64_t *dim)
{
    const redco_value value = add_input(r, name, REDCO_F64, rank, dim, false);
    fill(r, &r->input[r->inputs - 1], 1);
    return value;
}

redco_value fixture_integers(fixture *r, const char *name, uint32_t rank, const uint64_t *dim, int32_t low,
                             int32_t high)
{
    const redco_value value = add_input(r, name, REDCO_I32, rank, dim, false);
    int32_t *data = r->input[r->inputs - 1].data;
    for (uint64_t i = 0; i < redco_type_elements(&r->input[r->inputs - 1].type); i++) {
        data[i] = low + (int32_t)fixture_below(r, (uint64_t)(high - low));
    }
    return value;
}

void fixture_adopt(fixture *r, redco_graph *g, int32_t below)
{
    fixture_clear(r);
    redco_graph_free(r->g);
    r->g = g;
    for (uint32_t i = 0; i < redco_graph_op_count(g); i++) {
        const redco_op *op = redco_graph_op(g, i);
        if (op->kind != REDCO_OP_INPUT) { continue; }
        assert_true(r->inputs < RIG_INPUTS);
        fixture_input *in = &r->input[r->inputs++];
        *in = (fixture_input){.value = op->first_output, .type = *redco_value_type(g, op->first_output)};
        in->parameter = (op->attributes.flags & REDCO_FLAG_PARAMETER) != 0;
        (void)snprintf(in->name, sizeof in->name, "%s", redco_value_name(g, op->first_output));
        in->data = malloc(redco_type_bytes(&in->type));
        assert_non_null(in->data);
        int32_t *numbers = in->data;
        if (in->type.dtype == REDCO_F64) {
            fill(r, in, 0.6);
        } else {
            assert_int_equal(in->type.dtype, REDCO_I32);
            for (uint64_t k = 0; k < redco_type_elements(&in->type); k++) {
                numbers[k] = (int32_t)fixture_below(r, (uint64_t)below);
            }
        }
    }
}

void fixture_set(fixture *r, const char *name, redco_tp_layout layout)
{
    for (uint32_t i = 0; i < r->inputs; i++) {
        if (strcmp(r->input[i].name, name) == 0) {
            r->input[i].layout = layout;
            return;
        }
    }
    fail_msg("no input %s", name);
}

static double *result_memory(const redco_graph *g, redco_value value)
{
    double *data = calloc(redco_type_elements(redco_value_type(g, value)) + 1, sizeof *data);
    assert_non_null(data);
    return data;
}

void fixture_finish(fixture *r, redco_value loss)
{
    redco_value wrt[RIG_INPUTS], gradients[RIG_INPUTS];
    redco_binding bindings[RIG_INPUTS];
    redco_result results[RIG_INPUTS + 1];
    redco_error err = {0};
    uint32_t parameters = 0, count = 0;
    for (uint32_t i = 0; i < r->inputs; i++) {
        if (r->input[i].parameter) { wrt[parameters++] = r->input[i].value; }
        bindings[i] = (redco_binding){r->input[i].value, r->input[i].data};
    }
    redco_gradient(r->g, loss, wrt, parameters, gradients);
    if (redco_graph_status(r->g, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    r->loss = loss;
    for (uint32_t i = 0, k = 0; i < r->inputs; i++) {
        r->gradient[i] = r->input[i].parameter ? gradients[k++] : REDCO_NO_VALUE;
        if (!r->input[i].parameter) { continue; }
        r->wanted[i] = result_memory(r->g, r->gradient[i]);
        results[count++] = (redco_result){r->gradient[i], r->wanted[i]};
    }
    r->wanted[RIG_INPUTS] = result_memory(r->g, loss);
    results[count++] = (redco_result){loss, r->wanted[RIG_INPUTS]};
    if (redco_evaluate(r->backend, r->g, bindings, r->inputs, results, count, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    r->scale = 0;
    for (uint32_t i = 0; i < count; i++) {
        const double *data = results[i].data;
        const uint64_t elements = redco_type_elements(redco_value_type(r->g, results[i].value));
        for (uint64_t k = 0; k < elements; k++) { r->scale = fmax(r->scale, fabs(data[k])); }
    }
}

/** Outputs: the loss, then the gradient of every parameter in order. */
redco_status fixture_partition(const fixture *r, uint32_t ranks, uint32_t rank, redco_graph **local,
                               redco_value *outputs, redco_error *err)
{
    redco_tp_input layouts[RIG_INPUTS];
    redco_partition_output wanted[RIG_INPUTS + 1];
    uint32_t count = 0, given = 0;
    wanted[count++] = (redco_partition_output){r->loss, NULL};
    for (uint32_t i = 0; i < r->inputs; i++) {
        if (r->input[i].parameter) { wanted[count++] = (redco_partition_output){r->gradient[i], r->input[i].name}; }
        if (r->input[i].layout.kind != REDCO_TP_REPLICATED) {
            layouts[given++] = (redco_tp_input){.name = r->input[i].name, .layout = r->input[i].layout};
        }
    }
    const redco_partition_options options = {.group = {.id = 7, .ranks = ranks},
                                             .rank = rank,
                                             .inputs = layouts,
                                             .input_count = given,
                                             .sequence_parallel = r->sequence_parallel,
                                             .batch = r->batch,
                                             .sequences = r->sequences,
                                             .sequence_count = r->sequences[1] == 0 ? 1 : 2};
    return redco_partition(r->g, wanted, count, &options, local, outputs, err);
}

/* Parts of tensors: element by element, from the definition of a layout. */

static uint64_t place_in_part(const redco_tensor_type *type, redco_tp_layout layout, uint32_t ranks, uint64_t element,
                              uint32_t *rank_out)
{
    uint64_t inner = 1;
    for (uint32_t d = layout.dim + 1; d < type->rank; d++) { inner *= type->dim[d]; }
    const uint64_t n = type->dim[layout.dim], chunk = n / layout.blocks / ranks;
    const uint64_t outer = element / inner / n, at = element / inner % n, rest = element % inner;
    *rank_out = (uint32_t)(at / chunk % ranks);
    return (outer * (n / ranks) + at / chunk / ranks * chunk + at % chunk) * inner + rest;
}

void *fixture_part(const fixture_input *input, const void *data, uint32_t ranks, uint32_t rank)
{
    const size_t size = redco_dtype_bytes(input->type.dtype);
    const uint64_t elements = redco_type_elements(&input->type);
    uint8_t *part = malloc(elements * size);
    assert_non_null(part);
    if (input->layout.kind == REDCO_TP_REPLICATED || ranks == 1) {
        memcpy(part, data, elements * size);
        return part;
    }
    for (uint64_t e = 0; e < elements; e++) {
        uint32_t owner;
        const uint64_t at = place_in_part(&input->type, input->layout, ranks, e, &owner);
        if (owner == rank) { memcpy(part + at * size, (const uint8_t *)data + e * size, size); }
    }
    return part;
}

/* Lockstep */

typedef struct lockstep {
    redco_graph *g;
    redco_graph *local[RIG_RANKS];
    redco_value *map[RIG_RANKS];
    uint32_t ranks;
} lockstep;

static redco_value combine(const lockstep *s, const redco_op *op, uint32_t rank)
{
    redco_value in[RIG_RANKS];
    for (uint32_t i = 0; i < s->ranks; i++) { in[i] = s->map[i][redco_graph_op(s->local[i], op->id)->inputs[0]]; }
    assert_int_equal(op->attributes.ranks, s->ranks);
    assert_int_equal(op->attributes.group, 7);
    const uint32_t axis = op->attributes.axis[0];
    if (op->kind == REDCO_OP_ALL_GATHER) { return redco_concat(s->g, in, s->ranks, axis); }
    redco_value sum = in[0];
    const bool maximum = (op->attributes.flags & REDCO_FLAG_MAXIMUM) != 0;
    for (uint32_t i = 1; i < s->ranks; i++) {
        sum = maximum ? redco_max(s->g, sum, in[i]) : redco_add(s->g, sum, in[i]);
    }
    if (op->kind == REDCO_OP_ALL_REDUCE) { return sum; }
    const uint64_t size = redco_value_type(s->g, sum)->dim[axis] / s->ranks;
    return redco_slice_axis(s->g, sum, axis, rank * size, size);
}

static void step_op(const lockstep *s, uint32_t id, uint32_t rank)
{
    const redco_op *op = redco_graph_op(s->local[rank], id);
    redco_value in[REDCO_INPUTS_MAX], out[REDCO_OUTPUTS_MAX];
    if (op->kind == REDCO_OP_INPUT) {
        char name[128];
        (void)snprintf(name, sizeof name, "%u/%s", rank, redco_value_name(s->local[rank], op->first_output));
        out[0] = redco_input(s->g, name, redco_value_type(s->local[rank], op->first_output));
    } else if (redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE) {
        out[0] = combine(s, op, rank);
    } else {
        for (uint32_t i = 0; i < op->input_count; i++) { in[i] = s->map[rank][op->inputs[i]]; }
        redco_graph_apply(s->g, op->kind, in, op->input_count, &op->attributes, out);
    }
    for (uint32_t i = 0; i < op->output_count; i++) { s->map[rank][op->first_output + i] = out[i]; }
}

/** The same operators with the same types on all ranks. */
static void assert_same(const lockstep *s, uint32_t id)
{
    const redco_op *a = redco_graph_op(s->local[0], id);
    for (uint32_t r = 1; r < s->ranks; r++) {
        const redco_op *b = redco_graph_op(s->local[r], id);
        assert_int_equal(a->kind, b->kind);
        assert_int_equal(a->input_count, b->input_count);
        for (uint32_t i = 0; i < a->input_count; i++) { assert_int_equal(a->inputs[i], b->inputs[i]); }
        for (uint32_t i = 0; i < a->output_count; i++) {
            assert_true(redco_type_equal(redco_value_type(s->local[0], a->first_output + i),
                                         redco_value_type(s->local[r], b->first_output + i)));
        }
    }
}

static void join_graphs(lockstep *s, const char *what)
{
    redco_error err = {0};
    s->g = redco_graph_create();
    for (uint32_t r = 0; r < s->ranks; r++) {
        assert_int_equal(redco_graph_op_count(s->local[0]), redco_graph_op_count(s->local[r]));
        s->map[r] = calloc(redco_graph_value_count(s->local[r]) + 1, sizeof *s->map[r]);
        assert_non_null(s->map[r]);
    }
    for (uint32_t i = 0; i < redco_graph_op_count(s->local[0]); i++) {
        assert_same(s, i);
        for (uint32_t r = 0; r < s->ranks; r++) { step_op(s, i, r); }
    }
    if (redco_graph_status(s->g, &err) != REDCO_OK) { fail_msg("%s: lockstep: %s: %s", what, err.place, err.text); }
}

static void keep_traffic(fixture *r, const redco_graph *local)
{
    forget_traffic(r);
    assert_int_equal(fixture_list_traffic(local, &r->traffic, &r->traffic_count, NULL), REDCO_OK);
    r->names = calloc(r->traffic_count + 1, sizeof *r->names);
    assert_non_null(r->names);
    for (uint32_t i = 0; i < r->traffic_count; i++) {
        (void)redco_op_name(local, redco_graph_op(local, r->traffic[i].op), r->names[i], sizeof r->names[i]);
    }
}

static void compare(fixture *r, const double *wanted, const fixture_input *input, uint32_t ranks, uint32_t rank,
                    const double *got, uint64_t elements, double bound, const char *what)
{
    double *part = fixture_part(input, wanted, ranks, rank), largest = 0, whole = 0;
    for (uint64_t i = 0; i < redco_type_elements(&input->type); i++) { whole = fmax(whole, fabs(wanted[i])); }
    for (uint64_t i = 0; i < elements; i++) { largest = fmax(largest, fabs(part[i] - got[i])); }
    free(part);
    /* A gradient that is zero but for rounding (the bias of keys) is measured by the others. */
    whole = fmax(whole, 1e-2 * r->scale);
    const double error = whole > 0 ? largest / whole : largest;
    r->worst = fmax(r->worst, error);
    if (!(error <= bound)) {
        fixture_print(r);
        fail_msg("%s: %u ranks, rank %u: %s differs by %g of its largest element", what, ranks, rank, input->name,
                 error);
    }
}

static void run_lockstep(fixture *r, const lockstep *s, redco_value outputs[][RIG_INPUTS + 1], double bound,
                         const char *what)
{
    redco_binding *bindings = calloc((size_t)r->inputs * s->ranks, sizeof *bindings);
    redco_result *results = calloc((size_t)(r->inputs + 1) * s->ranks, sizeof *results);
    redco_error err = {0};
    uint32_t bound_count = 0, result_count = 0, at = 0;
    assert_true(bindings != NULL && results != NULL);
    for (uint32_t k = 0; k < s->ranks; k++) {
        for (uint32_t i = 0; i < r->inputs; i++) {
            const redco_value own = redco_graph_find_input(s->local[k], r->input[i].name);
            if (own == REDCO_NO_VALUE) { continue; }
            bindings[bound_count++] =
                (redco_binding){s->map[k][own], fixture_part(&r->input[i], r->input[i].data, s->ranks, k)};
        }
        uint32_t count = 1;
        for (uint32_t i = 0; i < r->inputs; i++) { count += r->input[i].parameter ? 1 : 0; }
        for (uint32_t i = 0; i < count; i++) {
            const redco_value value = s->map[k][outputs[k][i]];
            results[result_count++] = (redco_result){value, result_memory(s->g, value)};
        }
    }
    if (redco_evaluate(r->backend, s->g, bindings, bound_count, results, result_count, &err) != REDCO_OK) {
        fail_msg("%s: %s: %s", what, err.place, err.text);
    }
    const fixture_input loss = {.name = "loss", .type = redco_type(REDCO_F64, 0, NULL)};
    for (uint32_t k = 0; k < s->ranks; k++) {
        compare(r, r->wanted[RIG_INPUTS], &loss, s->ranks, k, results[at++].data, 1, bound, what);
        for (uint32_t i = 0; i < r->inputs; i++) {
            if (!r->input[i].parameter) { continue; }
            const redco_tensor_type *type = redco_value_type(s->g, results[at].value);
            const redco_tensor_type own = redco_tp_local(r->input[i].layout, &r->input[i].type, s->ranks);
            assert_true(redco_type_equal(type, &own));
            compare(r, r->wanted[i], &r->input[i], s->ranks, k, results[at++].data, redco_type_elements(type), bound,
                    what);
        }
    }
    for (uint32_t i = 0; i < bound_count; i++) { free((void *)(uintptr_t)bindings[i].data); }
    for (uint32_t i = 0; i < result_count; i++) { free(results[i].data); }
    free(bindings);
    free(results);
}

void fixture_check(fixture *r, uint32_t ranks, double bound, const char *what)
{
    static redco_value outputs[RIG_RANKS][RIG_INPUTS + 1];
    lockstep s = {.ranks = ranks};
    assert_true(ranks <= RIG_RANKS);
    for (uint32_t k = 0; k < ranks; k++) {
        redco_error err = {0};
        if (fixture_partition(r, ranks, k, &s.local[k], outputs[k], &err) != REDCO_OK) {
            fail_msg("%s: %u ranks: %s: %s", what, ranks, err.place, err.text);
        }
    }
    keep_traffic(r, s.local[0]);
    join_graphs(&s, what);
    run_lockstep(r, &s, outputs, bound, what);
    for (uint32_t k = 0; k < ranks; k++) {
        redco_graph_free(s.local[k]);
        free(s.map[k]);
    }
    redco_graph_free(s.g);
}

uint64_t fixture_bytes(const fixture *r, redco_op_kind kind, const char *part)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->traffic_count; i++) {
        if (r->traffic[i].kind == kind && strstr(r->names[i], part) != NULL) { sum += r->traffic[i].size_bytes; }
    }
    return sum;
}

uint64_t fixture_cost(const fixture *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->traffic_count; i++) {
        sum += r->traffic[i].size_bytes * (r->traffic[i].kind == REDCO_OP_ALL_REDUCE ? 2 : 1);
    }
    return sum;
}

void fixture_print(const fixture *r)
{
    for (uint32_t i = 0; i < r->traffic_count; i++) {
        printf("    %-15s %8llu  %s\n", redco_op_kind_name(r->traffic[i].kind),
               (unsigned long long)r->traffic[i].size_bytes, r->names[i]);
    }
}
