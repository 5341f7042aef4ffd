/* Own kernels in random graphs, evaluated on the device and on the host, and division by invariant numbers. */
#include "kernels_fixture.h"

#include "costmodel/graph/differentiate.h"
#include "executor/backend/cuda/kernels_internal.h"
#include "executor/backend/evaluate.h"

enum { STEPS = 30, INPUTS = 4, ROWS = 6, COLUMNS = 24 };

/** A value of [ROWS, COLUMNS] from one or two others; every result stays of the order of 1. */
static redco_value random_step(fixture *r, redco_graph *g, redco_value a, redco_value b)
{
    const redco_value vector = redco_slice_axis(g, b, 0, fixture_below(r, ROWS), 1);
    const redco_value row = redco_reshape(g, vector, 1, (uint64_t[]){COLUMNS});
    const redco_value part = redco_slice_axis(g, a, 1, 5, 7);
    switch (fixture_below(r, 15)) {
    case 0: return redco_tanh(g, redco_add(g, a, b));
    case 1: return redco_mul(g, redco_sigmoid(g, a), vector);
    case 2: return redco_sub(g, redco_silu(g, a), redco_sum_axis(g, redco_softmax(g, b), 0, true));
    case 3: return redco_rms_norm(g, a, row, 1e-2);
    case 4: return redco_layer_norm(g, a, row, row, 1e-2);
    case 5: return redco_softmax(g, redco_transpose(g, redco_transpose(g, a, (uint32_t[]){1, 0}), (uint32_t[]){1, 0}));
    case 6: return redco_select(g, redco_less(g, a, b), redco_gelu(g, a), b);
    case 7: return redco_concat(g, (redco_value[]){part, redco_slice_axis(g, b, 1, 0, COLUMNS - 7)}, 2, 1);
    case 8: return redco_pad(g, part, (uint64_t[]){0, 3}, (uint64_t[]){ROWS, COLUMNS});
    case 9: {
        const redco_value wide = redco_reshape(g, a, 2, (uint64_t[]){COLUMNS, ROWS});
        return redco_reshape(g, redco_transpose(g, wide, (uint32_t[]){1, 0}), 2, (uint64_t[]){ROWS, COLUMNS});
    }
    case 10: return redco_tanh(g, redco_broadcast_to(g, vector, 2, (uint64_t[]){ROWS, COLUMNS}));
    case 11: return redco_cast(g, redco_cast(g, a, REDCO_BFLOAT16), REDCO_F32);
    case 12: return redco_max(g, a, redco_scale(g, b, 0.5));
    case 13: return redco_exp(g, redco_neg(g, redco_mul(g, a, a)));
    default: return redco_div(g, a, redco_shift(g, redco_mul(g, b, b), 1));
    }
}

/** A loss by cross-entropy of rows gathered by index, and its gradients towards all inputs. */
static uint32_t build(fixture *r, redco_graph *g, redco_value *inputs, redco_value *results)
{
    const redco_tensor_type type = DIMS(REDCO_F32, ROWS, COLUMNS), places = DIMS(REDCO_I32, 2, ROWS / 2);
    redco_value values[INPUTS + STEPS];
    char name[16];
    for (uint32_t i = 0; i < INPUTS; i++) {
        (void)snprintf(name, sizeof name, "x%u", i);
        values[i] = inputs[i] = redco_parameter(g, name, &type);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t known = INPUTS + i;
        values[known] = random_step(r, g, values[fixture_below(r, known)], values[known - 1]);
    }
    const redco_value index = redco_reshape(g, redco_iota(g, &places, 1), 1, (uint64_t[]){ROWS});
    const redco_value rows = redco_gather(g, values[INPUTS + STEPS - 1], index, NULL);
    results[0] = redco_mean_all(g, redco_cross_entropy(g, rows, index, false));
    redco_gradient(g, results[0], inputs, INPUTS, results + 1);
    return 1 + INPUTS;
}

static void random_graphs(void **state)
{
    fixture *r = *state;
    double worst = 0;
    for (uint32_t n = 0; n < 30; n++) {
        redco_graph *g = redco_graph_create();
        redco_value inputs[INPUTS], results[1 + INPUTS];
        static float data[INPUTS][ROWS * COLUMNS], out[2][1 + INPUTS][ROWS * COLUMNS];
        redco_binding bindings[INPUTS];
        redco_result wanted[1 + INPUTS];
        redco_error err = {.status = REDCO_OK};
        const uint32_t count = build(r, g, inputs, results);
        for (uint32_t i = 0; i < INPUTS; i++) {
            for (uint32_t e = 0; e < ROWS * COLUMNS; e++) { data[i][e] = (float)fixture_below(r, 4000) / 2000 - 1; }
            bindings[i] = (redco_binding){inputs[i], data[i]};
        }
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t asked = 0;
            for (uint32_t i = 0; i < count; i++) {
                if (results[i] != REDCO_NO_VALUE) { wanted[asked++] = (redco_result){results[i], out[side][i]}; }
            }
            if (redco_evaluate(side == 0 ? r->host : r->cuda, g, bindings, INPUTS, wanted, asked, &err) != REDCO_OK) {
                fail_msg("%s: %s", err.place, err.text);
            }
        }
        for (uint32_t i = 0; i < count; i++) {
            double size = 1e-3, away = 0;
            const uint32_t elements = i == 0 ? 1 : ROWS * COLUMNS;
            for (uint32_t e = 0; results[i] != REDCO_NO_VALUE && e < elements; e++) {
                size = fmax(size, fabs((double)out[0][i][e]));
                away = fmax(away, fabs((double)out[0][i][e] - (double)out[1][i][e]));
            }
            worst = fmax(worst, away / size);
        }
        redco_graph_free(g);
    }
    printf("30 graphs of %d operators and their gradients: largest difference %.2g\n", STEPS, worst);
    /* 30 steps of 2^-24 each, and casts to BF16 and comparisons, which may fall to another side: seldom, but then by
     * 2^-9 of one element. */
    assert_true(worst < 1e-2);
}

/** The kernels' own (tests/cuda/kernel_division.cpp). */
uint64_t kernel_divide(uint64_t n, const redcoi_divisor *d);

/* Multiples of the divisor and their neighbours are where a quotient that is off by a little shows. */
static void division_is_exact(void **state)
{
    fixture *r = *state;
    const uint64_t most = UINT64_C(1) << 48;
    for (uint32_t n = 0; n < 200000; n++) {
        const uint64_t limit = UINT64_C(1) << (1 + fixture_below(r, 48));
        const uint64_t divisor = n < 5000 ? n + 1 : n < 5100 ? UINT64_C(1) << (n % 49) : 1 + fixture_below(r, limit);
        const redcoi_divisor d = redcoi_divisor_of(divisor);
        const uint64_t multiple = fixture_below(r, most / divisor + 1) * divisor;
        const uint64_t last = most / divisor * divisor;
        const uint64_t numbers[] = {0,    1,        multiple, multiple + 1, multiple > 0 ? multiple - 1 : 0,
                                    last, last - 1, most - 1};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            const uint64_t x = numbers[i] < most ? numbers[i] : most - 1;
            if (kernel_divide(x, &d) != x / divisor) {
                fail_msg("%llu / %llu", (unsigned long long)x, (unsigned long long)divisor);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs), cmocka_unit_test(division_is_exact)};
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
