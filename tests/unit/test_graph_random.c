/* Random graphs of random operators: gradients, and gradients of gradients, against finite differences. Random calls.
 */
#include "graph_fixture.h"

#include <stdio.h>

#ifdef LAB_CUDA /* an evaluation takes milliseconds in mock libraries */
enum { GRAPHS = 6, POOL = 8, CALLS = 6000, LEAST_KINDS = 20 };
#else
enum { GRAPHS = 60, POOL = 12, CALLS = 30000, LEAST_KINDS = 36 };
#endif

/** Values of every graph stay in about [-2, 2], so that differences stay exact: what grows is squeezed. */
static redco_value squeeze(redco_graph *g, redco_value a)
{
    return redco_scale(g, redco_tanh(g, a), 1.5);
}

static redco_value one_step(fixture *l, redco_value a, redco_value b)
{
    redco_graph *g = l->g;
    const redco_tensor_type type = *redco_value_type(g, a); /* all are [p, q] */
    const uint32_t axis = (uint32_t)fixture_below(l, 2);
    const redco_value ones = redco_shift(g, redco_scale(g, redco_slice_axis(g, b, 0, 0, 1), 0.1), 1);
    const uint64_t flat = type.dim[1];
    switch (fixture_below(l, 16)) {
    case 0: return redco_add(g, a, b);
    case 1: return redco_mul(g, a, b);
    case 2: return redco_div(g, a, redco_shift(g, redco_mul(g, b, b), 1));
    case 3: return redco_exp(g, redco_neg(g, redco_mul(g, a, a)));
    case 4: return redco_log(g, redco_shift(g, redco_mul(g, a, b), 10));
    case 5: return redco_rsqrt(g, redco_shift(g, redco_mul(g, a, a), 1));
    case 6: return redco_silu(g, a);
    case 7: return redco_gelu(g, redco_sub(g, a, b));
    case 8: return redco_matmul(g, a, redco_matmul(g, b, a, true, false), false, false);
    case 9: return redco_softmax(g, a);
    case 10: return redco_rms_norm(g, a, redco_reshape(g, ones, 1, &flat), 0.5);
    case 11: return redco_layer_norm(g, a, redco_reshape(g, ones, 1, &flat), redco_reshape(g, ones, 1, &flat), 0.5);
    case 12: return redco_sub(g, a, redco_mean(g, b, 1, &axis, true));
    case 13: {
        const redco_value parts[2] = {redco_slice_axis(g, a, axis, 0, 1), b};
        return redco_slice_axis(g, redco_concat(g, parts, 2, axis), axis, 1, type.dim[axis]);
    }
    case 14: {
        const redco_tensor_type rows = redco_type(REDCO_I32, 1, &type.dim[0]);
        return redco_mul(g, redco_gather(g, a, redco_iota(g, &rows, 0), NULL), redco_cos(g, b));
    }
    default: {
        const uint64_t heads[4] = {1, type.dim[0], 1, type.dim[1]};
        const redco_value q = redco_reshape(g, a, 4, heads), k = redco_reshape(g, b, 4, heads);
        const redco_attention_options options = {.causal = fixture_below(l, 2) == 0};
        return redco_reshape(g, redco_attend(g, q, k, q, REDCO_NO_VALUE, &options), 2, type.dim);
    }
    }
}

static void random_graphs(void **state)
{
    fixture *l = *state;
    for (int n = 0; n < GRAPHS; n++) {
        redco_value pool[POOL];
        uint64_t dim[2];
        fixture_dims(l, 2, 12, dim);
        pool[0] = fixture_real(l, 2, dim, -1.5, 1.5);
        pool[1] = fixture_real(l, 2, dim, -1.5, 1.5);
        const uint32_t steps = 2 + (uint32_t)fixture_below(l, POOL - 4);
        for (uint32_t i = 2; i < 2 + steps; i++) {
            const redco_value a = pool[fixture_below(l, i)], b = pool[fixture_below(l, i)];
            pool[i] = squeeze(l->g, one_step(l, a, b));
            fixture_assert_ok(l);
        }
        fixture_check_derivatives(l, "random graph", redco_add(l->g, pool[1 + steps], pool[steps]));
        fixture_clear(l);
    }
}

/* Calls with random kinds, types and attributes are refused with an error, or run; under the sanitizers nothing else
 * happens. Indices out of range are errors of the run. */
static void random_calls(void **state)
{
    fixture *l = *state;
    static double bytes[64], out[1 << 16];
    uint32_t accepted = 0, kinds = 0;
    bool seen[REDCO_OP_COUNT] = {false};
    for (uint32_t i = 0; i < 64; i++) { bytes[i] = fixture_uniform(l, 0.1, 1); }
    for (uint32_t n = 0; n < CALLS; n++) {
        const redco_op_kind kind = (redco_op_kind)(1 + fixture_below(l, REDCO_OP_ALL_REDUCE - 1));
        const uint32_t count = (uint32_t)fixture_below(l, 6), rank = (uint32_t)fixture_below(l, 5);
        const bool alike = fixture_below(l, 2) == 0; /* else hardly any call is right */
        uint64_t dim[4] = {1, 1, 1, 1};
        redco_value in[6], made[REDCO_OUTPUTS_MAX];
        redco_binding bindings[6];
        fixture_dims(l, rank, 16, dim);
        for (uint32_t i = 0; i < count; i++) {
            char name[16];
            static const redco_dtype dtypes[8] = {REDCO_F32, REDCO_F32, REDCO_F64,  REDCO_BFLOAT16,
                                                  REDCO_F16, REDCO_I32, REDCO_BOOL, REDCO_F32};
            const uint32_t own = alike ? rank : (uint32_t)fixture_below(l, 5);
            if (!alike) { fixture_dims(l, own, 16, dim); }
            const redco_tensor_type type = redco_type(alike ? REDCO_F32 : dtypes[fixture_below(l, 8)], own, dim);
            (void)snprintf(name, sizeof name, "x%u", i);
            in[i] = redco_input(l->g, name, &type);
            bindings[i] = (redco_binding){in[i], bytes};
        }
        redco_attributes a;
        memset(&a, 0, sizeof a);
        a.scalar = fixture_uniform(l, -1, 1);
        a.offset = (int64_t)fixture_below(l, 5) - 2;
        a.window = fixture_below(l, 3);
        a.rank = alike ? rank : (uint32_t)fixture_below(l, 5);
        a.axis_count = alike ? rank : (uint32_t)fixture_below(l, 5);
        a.dtype = (uint32_t)fixture_below(l, REDCO_DTYPE_COUNT);
        a.flags = (uint32_t)fixture_below(l, 256);
        for (uint32_t i = 0; i < 4; i++) {
            a.begin[i] = fixture_below(l, 8) == 0 ? UINT64_MAX - fixture_below(l, 3) : fixture_below(l, 2);
            a.size[i] = fixture_below(l, 8) == 0 ? UINT64_MAX >> fixture_below(l, 64)
                        : alike                  ? dim[i % 4]
                                                 : 1 + fixture_below(l, 3);
            a.whole[i] = fixture_below(l, 6);
            a.axis[i] = alike ? i : (uint32_t)fixture_below(l, 5);
        }
        redco_graph_apply(l->g, kind, in, count, &a, made);
        if (redco_graph_status(l->g, NULL) == REDCO_OK &&
            redco_type_bytes(redco_value_type(l->g, made[0])) <= sizeof out) {
            redco_error err = {0};
            const redco_status st =
                redco_evaluate(l->backend, l->g, bindings, count, &(redco_result){made[0], out}, 1, &err);
            const bool decomposed = strstr(err.text, "the CUDA backend has no ") != NULL; /* where a graph is trained */
            if (st != REDCO_OK && !decomposed && strstr(err.text, "is outside of") == NULL) {
                fail_msg("%s: %s", err.place, err.text);
            }
            accepted++;
            kinds += !seen[kind];
            seen[kind] = true;
        }
        fixture_clear(l);
    }
    (void)printf("%d random calls: %u of %u kinds accepted and run\n", CALLS, accepted, kinds);
    assert_true(kinds >= LEAST_KINDS);
}

static int open_fixture(void **state)
{
    static fixture l;
    fixture_open(&l, 1);
    *state = &l;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *l = *state;
    (void)printf("%d random graphs: first derivatives off by at most %.1e, second %.1e, decomposed %.1e\n", GRAPHS,
                 l->first.worst, l->second.worst, l->fused.worst);
    fixture_close(l);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs), cmocka_unit_test(random_calls)};
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
