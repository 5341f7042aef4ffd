#include "graph_fixture.h"

#include <stdio.h>

/* On a device in mock libraries an evaluation takes milliseconds: the direction along all elements alone, which sees an
 * error in any of them; second derivatives, whose formulas are the host's, only whole against decomposed. */
#ifdef LAB_CUDA
enum { DIRECTIONS = 1, SECOND_DIRECTIONS = 0 };
#else
enum { DIRECTIONS = 3, SECOND_DIRECTIONS = 3 };
#endif

static void open_backend(fixture *l)
{
    redco_error err = {.status = REDCO_OK};
#ifdef LAB_CUDA
    const redco_status st = redco_cuda_open(NULL, &l->backend, &err);
#else
    const redco_status st = redco_host_open(NULL, &l->backend, &err);
#endif
    if (st != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
}

void fixture_open(fixture *l, uint64_t seed)
{
    memset(l, 0, sizeof *l);
    l->random = seed * 2 + 1;
    open_backend(l);
    l->g = redco_graph_create();
    assert_non_null(l->g);
}

void fixture_clear(fixture *l)
{
    for (uint32_t i = 0; i < l->inputs; i++) { free(l->data[i]); }
    l->inputs = 0;
    redco_graph_free(l->g);
    l->g = redco_graph_create();
    assert_non_null(l->g);
}

void fixture_close(fixture *l)
{
    uint64_t live_bytes, peak_bytes;
    fixture_clear(l);
    redco_graph_free(l->g);
    l->backend->calls->memory_use(l->backend, &live_bytes, &peak_bytes);
    assert_int_equal(live_bytes, 0); /* whatever ran gave all memory back */
    redco_backend_close(l->backend);
}

/* splitmix64: nothing of the project's own generator is used to test it. */
static uint64_t next(fixture *l)
{
    uint64_t z = l->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

double fixture_uniform(fixture *l, double low, double high)
{
    return low + (high - low) * ((double)(next(l) >> 11) * 0x1p-53);
}

uint64_t fixture_below(fixture *l, uint64_t n)
{
    return next(l) % n;
}

void fixture_dims(fixture *l, uint32_t rank, uint64_t limit, uint64_t *dim)
{
    static const uint64_t sizes[4] = {1, 2, 3, 5};
    uint64_t elements = 1;
    for (uint32_t i = 0; i < rank; i++) {
        dim[i] = sizes[fixture_below(l, 4)];
        if (elements * dim[i] > limit) { dim[i] = 1; }
        elements *= dim[i];
    }
}

static redco_value add_input(fixture *l, const redco_tensor_type *type, bool varied)
{
    char name[32];
    assert_true(l->inputs < LAB_INPUTS);
    assert_true(redco_type_elements(type) <= LAB_ELEMENTS);
    (void)snprintf(name, sizeof name, "input%u", l->inputs);
    const redco_value value = redco_input(l->g, name, type);
    l->input[l->inputs] = value;
    l->varied[l->inputs] = varied;
    l->data[l->inputs] = malloc(redco_type_bytes(type));
    assert_non_null(l->data[l->inputs]);
    l->inputs++;
    return value;
}

redco_value fixture_real(fixture *l, uint32_t rank, const uint64_t *dim, double low, double high)
{
    const redco_tensor_type type = redco_type(REDCO_F64, rank, dim);
    const redco_value value = add_input(l, &type, true);
    double *data = l->data[l->inputs - 1];
    for (uint64_t i = 0; i < redco_type_elements(&type); i++) { data[i] = fixture_uniform(l, low, high); }
    return value;
}

redco_value fixture_grid(fixture *l, uint32_t rank, const uint64_t *dim, double phase)
{
    const redco_value value = fixture_real(l, rank, dim, 0, 1);
    const uint64_t count = redco_type_elements(redco_value_type(l->g, value));
    double *data = l->data[l->inputs - 1];
    for (uint64_t i = 0; i < count; i++) { data[i] = ((double)i - (double)(count / 2) + phase) / 10; }
    for (uint64_t i = count - 1; i > 0; i--) {
        const uint64_t k = fixture_below(l, i + 1);
        const double kept = data[i];
        data[i] = data[k];
        data[k] = kept;
    }
    return value;
}

redco_value fixture_integers(fixture *l, uint32_t rank, const uint64_t *dim, int32_t low, int32_t high)
{
    const redco_tensor_type type = redco_type(REDCO_I32, rank, dim);
    const redco_value value = add_input(l, &type, false);
    int32_t *data = l->data[l->inputs - 1];
    for (uint64_t i = 0; i < redco_type_elements(&type); i++) {
        data[i] = low + (int32_t)fixture_below(l, (uint64_t)(high - low));
    }
    return value;
}

redco_value fixture_bools(fixture *l, uint32_t rank, const uint64_t *dim, double share)
{
    const redco_tensor_type type = redco_type(REDCO_BOOL, rank, dim);
    const redco_value value = add_input(l, &type, false);
    uint8_t *data = l->data[l->inputs - 1];
    for (uint64_t i = 0; i < redco_type_elements(&type); i++) { data[i] = fixture_uniform(l, 0, 1) < share; }
    return value;
}

redco_value fixture_given(fixture *l, redco_dtype dtype, uint32_t rank, const uint64_t *dim, const void *data)
{
    const redco_tensor_type type = redco_type(dtype, rank, dim);
    const redco_value value = add_input(l, &type, false);
    memcpy(l->data[l->inputs - 1], data, redco_type_bytes(&type));
    return value;
}

void fixture_assert_ok(const fixture *l)
{
    redco_error err = {0};
    if (redco_graph_status(l->g, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
}

static redco_status evaluate(fixture *l, const redco_graph *g, const redco_value *map, const redco_result *results,
                             uint32_t count, redco_error *err)
{
    redco_binding bindings[LAB_INPUTS];
    for (uint32_t i = 0; i < l->inputs; i++) {
        bindings[i] = (redco_binding){map == NULL ? l->input[i] : map[l->input[i]], l->data[i]};
    }
    return redco_evaluate(l->backend, g, bindings, l->inputs, results, count, err);
}

static void run_graph(fixture *l, const redco_graph *g, const redco_value *map, const redco_result *results,
                      uint32_t count)
{
    redco_error err = {0};
    if (evaluate(l, g, map, results, count, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
}

void fixture_refuses(fixture *l, redco_value value, const char *text)
{
    double out[LAB_ELEMENTS];
    redco_error err = {0};
    fixture_assert_ok(l);
    assert_int_equal(evaluate(l, l->g, NULL, &(redco_result){value, out}, 1, &err), REDCO_EVALUE);
    assert_string_equal(err.text, text);
}

void fixture_run(fixture *l, redco_value value, void *out)
{
    fixture_assert_ok(l);
    run_graph(l, l->g, NULL, &(redco_result){value, out}, 1);
}

double fixture_first(fixture *l, redco_value value)
{
    double out[LAB_ELEMENTS];
    fixture_assert_ok(l);
    assert_true(redco_type_elements(redco_value_type(l->g, value)) <= LAB_ELEMENTS);
    assert_int_equal(redco_value_type(l->g, value)->dtype, REDCO_F64);
    fixture_run(l, value, out);
    return out[0];
}

double fixture_scalar(fixture *l, redco_value value)
{
    fixture_assert_ok(l);
    assert_int_equal(redco_value_type(l->g, value)->rank, 0);
    return fixture_first(l, value);
}

redco_value fixture_join(fixture *l, const redco_value *values, uint32_t count)
{
    redco_value flat[REDCO_OUTPUTS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        fixture_assert_ok(l);
        const uint64_t elements = redco_type_elements(redco_value_type(l->g, values[i]));
        flat[i] = redco_reshape(l->g, values[i], 1, &elements);
    }
    return redco_concat(l->g, flat, count, 0);
}

static void record(fixture_record *r, const char *name, double error)
{
    r->checks++;
    if (error > r->worst || isnan(error)) {
        r->worst = error;
        (void)snprintf(r->where, sizeof r->where, "%s", name);
    }
}

/** f along a direction of input i, by differences of fourth order. */
static double difference(fixture *l, redco_value f, uint32_t i, const double *direction, uint64_t count)
{
    static const double steps[4] = {-2, -1, 1, 2}, weights[4] = {1, -8, 8, -1};
    const double h = 1e-3;
    double before[LAB_ELEMENTS], sum = 0, *data = l->data[i];
    memcpy(before, data, count * sizeof *before);
    for (uint32_t k = 0; k < 4; k++) {
        for (uint64_t e = 0; e < count; e++) { data[e] = before[e] + steps[k] * h * direction[e]; }
        sum += weights[k] * fixture_scalar(l, f);
    }
    memcpy(data, before, count * sizeof *before);
    return sum / (12 * h);
}

/** One element, or all with random weights; those weights see an error in any element. */
static void make_direction(fixture *l, uint32_t attempt, uint64_t count, double *direction)
{
    memset(direction, 0, count * sizeof *direction);
    if (attempt > 0) {
        direction[fixture_below(l, count)] = 1;
        return;
    }
    for (uint64_t e = 0; e < count; e++) { direction[e] = fixture_uniform(l, -1, 1); }
}

static void check_gradient(fixture *l, const char *name, redco_value f, redco_value gradient, uint32_t i,
                           uint32_t directions, double bound, fixture_record *r)
{
    double analytic[LAB_ELEMENTS], direction[LAB_ELEMENTS];
    const uint64_t count = redco_type_elements(redco_value_type(l->g, l->input[i]));
    assert_true(redco_type_equal(redco_value_type(l->g, gradient), redco_value_type(l->g, l->input[i])));
    fixture_run(l, gradient, analytic);
    for (uint32_t attempt = 0; attempt < directions; attempt++) {
        double along = 0, size = 0;
        make_direction(l, attempt, count, direction);
        for (uint64_t e = 0; e < count; e++) {
            along += analytic[e] * direction[e];
            size += fabs(analytic[e] * direction[e]);
        }
        const double measured = difference(l, f, i, direction, count);
        const double error = fabs(measured - along) / (size + fabs(measured) + 1e-2);
        record(r, name, error);
        if (!(error <= bound)) {
            fail_msg("%s: input %u: derivative %.12g, differences %.12g, relative error %.3g", name, i, along, measured,
                     error);
        }
    }
}

static bool always(const redco_op *op, void *context)
{
    (void)op;
    (void)context;
    return true;
}

static void check_decomposed(fixture *l, const char *name, const redco_value *values, uint32_t count)
{
    const uint32_t all = redco_graph_value_count(l->g);
    redco_value *map = malloc(all * sizeof *map);
    redco_graph *basic = NULL;
    redco_error err = {0};
    assert_non_null(map);
    if (redco_graph_extract(l->g, values, count, always, NULL, &basic, map, &err) != REDCO_OK) {
        fail_msg("%s: %s: %s", name, err.place, err.text);
    }
    for (uint32_t i = 0; i < redco_graph_op_count(basic); i++) {
        assert_false(redco_op_is_fused(redco_graph_op(basic, i)->kind));
    }
    for (uint32_t k = 0; k < count; k++) {
        double want[LAB_ELEMENTS], have[LAB_ELEMENTS], size = 1e-2;
        const uint64_t n = redco_type_elements(redco_value_type(l->g, values[k]));
        fixture_run(l, values[k], want);
        run_graph(l, basic, map, &(redco_result){map[values[k]], have}, 1);
        for (uint64_t e = 0; e < n; e++) { size += fabs(want[e]); }
        for (uint64_t e = 0; e < n; e++) {
            const double error = fabs(want[e] - have[e]) / size;
            record(&l->fused, name, error);
            if (!(error <= LAB_FUSED_BOUND)) {
                fail_msg("%s: value %u element %u: %.17g fused, %.17g decomposed", name, k, (unsigned)e, want[e],
                         have[e]);
            }
        }
    }
    redco_graph_free(basic);
    free(map);
}

/** sum(y w) for new random weights w. */
static redco_value weighted_sum(fixture *l, redco_value y, bool varied)
{
    fixture_assert_ok(l);
    const redco_tensor_type type = *redco_value_type(l->g, y);
    const redco_value w = fixture_real(l, type.rank, type.dim, 0.5, 1.5);
    l->varied[l->inputs - 1] = varied;
    return redco_sum_all(l->g, redco_mul(l->g, y, w));
}

void fixture_check_derivatives(fixture *l, const char *name, redco_value y)
{
    redco_value wrt[LAB_INPUTS], gradients[LAB_INPUTS], again[LAB_INPUTS], values[2 + 2 * LAB_INPUTS];
    uint32_t which[LAB_INPUTS], count = 0, used = 0;
    const redco_value f = weighted_sum(l, y, true);
    for (uint32_t i = 0; i < redco_graph_op_count(l->g); i++) { l->seen[redco_graph_op(l->g, i)->kind] = true; }
    for (uint32_t i = 0; i < l->inputs; i++) {
        if (l->varied[i]) {
            which[count] = i;
            wrt[count++] = l->input[i];
        }
    }
    redco_gradient(l->g, f, wrt, count, gradients);
    fixture_assert_ok(l);
    redco_value f2 = redco_scalar(l->g, REDCO_F64, 0);
    for (uint32_t i = 0; i < count; i++) { f2 = redco_add(l->g, f2, weighted_sum(l, gradients[i], false)); }
    redco_gradient(l->g, f2, wrt, count, again);
    fixture_assert_ok(l);
    for (uint32_t i = 0; i < count; i++) {
        check_gradient(l, name, f, gradients[i], which[i], DIRECTIONS, LAB_FIRST_BOUND, &l->first);
        check_gradient(l, name, f2, again[i], which[i], SECOND_DIRECTIONS, LAB_SECOND_BOUND, &l->second);
        values[used++] = gradients[i];
        values[used++] = again[i];
    }
    values[used++] = f;
    values[used++] = f2;
    check_decomposed(l, name, values, used);
}
