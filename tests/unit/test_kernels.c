/* Kernels against plain loops written from the definitions: those of the host, or of a CUDA device (LAB_CUDA). */
#include "graph_fixture.h"

#include "executor/backend/host/kernels.h"

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[])                               \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static int open_fixture(void **state)
{
    static fixture l;
    fixture_open(&l, 77);
    *state = &l;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_close(*state);
    return 0;
}

static const double *data_of(const fixture *l, redco_value value)
{
    for (uint32_t i = 0; i < l->inputs; i++) {
        if (l->input[i] == value) { return l->data[i]; }
    }
    return NULL;
}

/** The F64 input @p x computed in @p dtype by the graph, as F64 again. */
static redco_value in_type(fixture *l, redco_value x, redco_dtype dtype)
{
    return redco_cast(l->g, x, dtype);
}

/** Relative to the largest of the wanted values. */
static void assert_close(const double *want, const double *have, uint64_t count, double bound)
{
    double size = 1e-30;
    for (uint64_t i = 0; i < count; i++) { size = fmax(size, fabs(want[i])); }
    for (uint64_t i = 0; i < count; i++) {
        if (!(fabs(want[i] - have[i]) <= bound * size)) {
            fail_msg("element %u: wanted %.17g, have %.17g", (unsigned)i, want[i], have[i]);
        }
    }
}

/* The formulas once more, in long double. */
static double ref_sigmoid(double x)
{
    return (double)(1 / (1 + expl(-(long double)x)));
}
static double ref_rsqrt(double x)
{
    return (double)(1 / sqrtl((long double)x));
}
static double ref_relu(double x)
{
    return x > 0 ? x : 0;
}
static double ref_silu(double x)
{
    return (double)((long double)x / (1 + expl(-(long double)x)));
}
static double ref_gelu(double x)
{
    return (double)((long double)x * erfcl(-(long double)x / sqrtl(2)) / 2);
}
static double ref_neg(double x)
{
    return -x;
}
static double ref_gelu_tanh(double x)
{
    const long double y = (long double)x, u = sqrtl(2 / acosl(-1)) * (y + 0.044715L * y * y * y);
    return (double)(y * (1 + tanhl(u)) / 2);
}

static void elementwise_values(void **state)
{
    fixture *l = *state;
    static const struct {
        redco_value (*call)(redco_graph *, redco_value);
        double (*reference)(double);
        double low, high;
    } rows[] = {
        {redco_neg, ref_neg, -3, 3},      {redco_exp, exp, -5, 5},
        {redco_log, log, 0.1, 9},         {redco_sqrt, sqrt, 0, 9},
        {redco_rsqrt, ref_rsqrt, 0.1, 9}, {redco_tanh, tanh, -4, 4},
        {redco_erf, erf, -4, 4},          {redco_sin, sin, -9, 9},
        {redco_cos, cos, -9, 9},          {redco_sigmoid, ref_sigmoid, -90, 90},
        {redco_relu, ref_relu, -3, 3},    {redco_silu, ref_silu, -90, 90},
        {redco_gelu, ref_gelu, -6, 6},    {redco_gelu_tanh, ref_gelu_tanh, -6, 6},
    };
    static const struct {
        redco_dtype dtype;
        double bound; /* a few units of the type's last place */
    } types[] = {{REDCO_F64, 1e-15}, {REDCO_F32, 4e-7}, {REDCO_BFLOAT16, 1.01 / 256}, {REDCO_F16, 1.01 / 2048}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < 4; k++) {
            double want[37], have[37], given[37];
            const redco_value x = in_type(l, fixture_real(l, DIMS(37), rows[i].low, rows[i].high), types[k].dtype);
            fixture_run(l, redco_cast(l->g, x, REDCO_F64), given);
            fixture_run(l, redco_cast(l->g, rows[i].call(l->g, x), REDCO_F64), have);
            for (int e = 0; e < 37; e++) { want[e] = rows[i].reference(given[e]); }
            assert_close(want, have, 37, types[k].bound);
            fixture_clear(l);
        }
    }
}

/* At 0, where max(a, 0) has a kink, and where exp(a) would be infinite: values, and slopes, which are sigmoid(a). */
static void softplus_everywhere(void **state)
{
    fixture *l = *state;
    static const double given[6] = {-1000, -20, 0, 0.5, 20, 1000};
    double value[6], slope[6];
    const redco_value a = fixture_given(l, REDCO_F64, DIMS(6), given), y = redco_softplus(l->g, a);
    redco_value gradient = REDCO_NO_VALUE;
    redco_gradient(l->g, redco_sum_all(l->g, y), &a, 1, &gradient);
    fixture_run(l, y, value);
    fixture_run(l, gradient, slope);
    for (int i = 0; i < 6; i++) {
        const double want = fmax(given[i], 0) + log1p(exp(-fabs(given[i])));
        assert_true(fabs(value[i] - want) <= 1e-15 * fmax(want, 1));
        assert_true(fabs(slope[i] - 1 / (1 + exp(-given[i]))) <= 1e-15);
    }
    fixture_clear(l);
}

static void whole_numbers_and_truth(void **state)
{
    fixture *l = *state;
    static const int32_t a[6] = {3, -1, INT32_MAX, 0, 7, INT32_MIN}, b[6] = {3, 2, 1, -4, 8, -1};
    int32_t out[6];
    uint8_t truth[6];
    const redco_value x = fixture_given(l, REDCO_I32, DIMS(6), a), y = fixture_given(l, REDCO_I32, DIMS(6), b);
    fixture_run(l, redco_add(l->g, x, y), out);
    assert_memory_equal(out, ((int32_t[6]){6, 1, INT32_MIN, -4, 15, INT32_MAX}), sizeof out); /* wraps */
    fixture_run(l, redco_max(l->g, x, y), out);
    assert_memory_equal(out, ((int32_t[6]){3, 2, INT32_MAX, 0, 8, -1}), sizeof out);
    const redco_value less = redco_less(l->g, x, y), equal = redco_equal(l->g, x, y);
    fixture_run(l, redco_or(l->g, less, equal), truth);
    assert_memory_equal(truth, ((uint8_t[6]){1, 1, 0, 0, 1, 1}), sizeof truth);
    fixture_run(l, redco_and(l->g, redco_not(l->g, less), redco_less_equal(l->g, y, x)), truth);
    assert_memory_equal(truth, ((uint8_t[6]){1, 0, 1, 1, 0, 0}), sizeof truth);
    static const double r[6] = {2.9, -2.9, 1e20, -1e20, (double)NAN, 0.5};
    const redco_value z = fixture_given(l, REDCO_F64, DIMS(6), r);
    fixture_run(l, redco_cast(l->g, z, REDCO_I32), out);
    assert_memory_equal(out, ((int32_t[6]){2, -2, INT32_MAX, INT32_MIN, 0, 0}), sizeof out);
    fixture_run(l, redco_cast(l->g, z, REDCO_BOOL), truth);
    assert_memory_equal(truth, ((uint8_t[6]){1, 1, 1, 1, 1, 1}), sizeof truth);
    fixture_clear(l);
}

static void product_values(void **state)
{
    fixture *l = *state;
    for (uint32_t n = 0; n < 32; n++) {
        const bool ta = (n & 1) != 0, tb = (n & 2) != 0, shared = (n & 4) != 0;
        const redco_dtype dtype = (n & 8) != 0 ? REDCO_F32 : REDCO_F64;
        const uint64_t m = 1 + fixture_below(l, 9), k = 1 + fixture_below(l, 9), c = 1 + fixture_below(l, 9);
        double want[3 * 81], have[3 * 81];
        const uint64_t da[3] = {3, ta ? k : m, ta ? m : k}, db[3] = {shared ? 1 : 3, tb ? c : k, tb ? k : c};
        const redco_value a = fixture_real(l, 3, da, -1, 1), b = fixture_real(l, 3, db, -1, 1);
        const redco_value y = redco_matmul(l->g, in_type(l, a, dtype), in_type(l, b, dtype), ta, tb);
        fixture_run(l, redco_cast(l->g, y, REDCO_F64), have);
        const double *pa = data_of(l, a), *pb = data_of(l, b);
        for (uint64_t i = 0; i < 3 * m * c; i++) {
            const uint64_t batch = i / (m * c), row = i / c % m, column = i % c, other = shared ? 0 : batch;
            want[i] = 0;
            for (uint64_t e = 0; e < k; e++) {
                want[i] += pa[batch * m * k + (ta ? e * m + row : row * k + e)] *
                           pb[other * k * c + (tb ? column * k + e : e * c + column)];
            }
        }
        assert_close(want, have, 3 * m * c, dtype == REDCO_F64 ? 1e-14 : 2e-6);
        fixture_clear(l);
    }
}

static void moved_values(void **state)
{
    fixture *l = *state;
    double have[400];
    const redco_value x = fixture_real(l, DIMS(2, 3, 5), -1, 1);
    const double *p = data_of(l, x);
    fixture_run(l, redco_transpose(l->g, x, (uint32_t[]){2, 0, 1}), have);
    for (uint64_t i = 0; i < 30; i++) { assert_true(have[i] == p[(i / 3 % 2) * 15 + (i % 3) * 5 + i / 6]); }
    fixture_run(l, redco_slice(l->g, x, (uint64_t[]){1, 1, 2}, (uint64_t[]){1, 2, 3}), have);
    for (uint64_t i = 0; i < 6; i++) { assert_true(have[i] == p[15 + (1 + i / 3) * 5 + 2 + i % 3]); }
    fixture_run(l, redco_pad(l->g, x, (uint64_t[]){0, 2, 1}, (uint64_t[]){3, 6, 7}), have);
    for (uint64_t i = 0; i < 126; i++) {
        const uint64_t a = i / 42, b = i / 7 % 6, c = i % 7;
        const bool inside = a < 2 && b >= 2 && b < 5 && c >= 1 && c < 6;
        assert_true(have[i] == (inside ? p[a * 15 + (b - 2) * 5 + c - 1] : 0));
    }
    const redco_value column = redco_slice_axis(l->g, x, 2, 4, 1);
    fixture_run(l, redco_broadcast_to(l->g, column, DIMS(2, 2, 3, 4)), have);
    for (uint64_t i = 0; i < 48; i++) { assert_true(have[i] == p[(i / 12 % 2) * 15 + (i / 4 % 3) * 5 + 4]); }
    fixture_run(l, redco_concat(l->g, (redco_value[]){x, column, x}, 3, 2), have);
    for (uint64_t i = 0; i < 66; i++) {
        assert_true(have[i] == p[i / 11 * 5 + (i % 11 < 5 ? i % 11 : i % 11 == 5 ? 4 : i % 11 - 6)]);
    }
    static const int32_t index[3] = {4, 2, 4};
    const redco_value rows = fixture_given(l, REDCO_I32, DIMS(3), index), table = fixture_real(l, DIMS(5, 2), -1, 1);
    const double *t = data_of(l, table);
    fixture_run(l, redco_gather(l->g, table, rows, NULL), have);
    for (uint64_t i = 0; i < 6; i++) { assert_true(have[i] == t[(uint64_t)index[i / 2] * 2 + i % 2]); }
    fixture_run(l, redco_gather(l->g, table, rows, &(redco_index_options){.offset = 3, .masked = true}), have);
    for (uint64_t i = 0; i < 6; i++) { assert_true(have[i] == (i / 2 == 1 ? 0 : t[2 + i % 2])); }
    const redco_value updates = fixture_real(l, DIMS(3, 2), -1, 1);
    const double *u = data_of(l, updates);
    fixture_run(l, redco_scatter_add(l->g, rows, updates, 5, NULL), have);
    for (uint64_t i = 0; i < 10; i++) {
        const double want = i / 2 == 4 ? u[i % 2] + u[4 + i % 2] : i / 2 == 2 ? u[2 + i % 2] : 0;
        assert_true(have[i] == want);
    }
    static const int32_t chosen[2] = {1, 0};
    const redco_value choice = fixture_given(l, REDCO_I32, DIMS(2), chosen);
    fixture_run(l, redco_pick(l->g, redco_slice_axis(l->g, updates, 0, 0, 2), choice, NULL), have);
    assert_true(have[0] == u[1] && have[1] == u[2]);
    fixture_clear(l);
}

static void row_values(void **state)
{
    fixture *l = *state;
    double want[5 * 7], have[5 * 7], log_want[5 * 7];
    const redco_value x = fixture_real(l, DIMS(5, 7), -30, 30), w = fixture_real(l, DIMS(7), -2, 2),
                      b = fixture_real(l, DIMS(7), -2, 2);
    const double *p = data_of(l, x), *pw = data_of(l, w), *pb = data_of(l, b);
    for (uint64_t r = 0; r < 5; r++) {
        long double sum = 0;
        for (uint64_t i = 0; i < 7; i++) { sum += expl((long double)p[r * 7 + i]); }
        for (uint64_t i = 0; i < 7; i++) {
            want[r * 7 + i] = (double)(expl((long double)p[r * 7 + i]) / sum);
            log_want[r * 7 + i] = (double)((long double)p[r * 7 + i] - logl(sum));
        }
    }
    fixture_run(l, redco_softmax(l->g, x), have);
    assert_close(want, have, 35, 1e-14);
    fixture_run(l, redco_log_softmax(l->g, x), have);
    assert_close(log_want, have, 35, 1e-14);
    static const int32_t target[5] = {6, 0, 3, -100, 2};
    const redco_value t = fixture_given(l, REDCO_I32, DIMS(5), target);
    fixture_run(l, redco_cross_entropy(l->g, x, t, true), have);
    for (uint64_t r = 0; r < 5; r++) { want[r] = target[r] < 0 ? 0 : -log_want[r * 7 + (uint64_t)target[r]]; }
    assert_close(want, have, 5, 1e-14);
    static const int32_t beyond[5] = {6, 0, 7, -100, 2};
    const redco_value wrong = redco_cross_entropy_mean(l->g, x, fixture_given(l, REDCO_I32, DIMS(5), beyond));
    fixture_refuses(l, wrong, "cross_entropy: index 7 is neither below 0, which is masked, nor in [0, 7)");
    for (uint64_t r = 0; r < 5; r++) {
        double sum = 0, squares = 0, variance = 0;
        for (uint64_t i = 0; i < 7; i++) { sum += p[r * 7 + i] / 7; }
        for (uint64_t i = 0; i < 7; i++) {
            squares += p[r * 7 + i] * p[r * 7 + i] / 7;
            variance += (p[r * 7 + i] - sum) * (p[r * 7 + i] - sum) / 7;
        }
        for (uint64_t i = 0; i < 7; i++) {
            want[r * 7 + i] = p[r * 7 + i] / sqrt(squares + 1e-5) * pw[i];
            log_want[r * 7 + i] = (p[r * 7 + i] - sum) / sqrt(variance + 1e-5) * pw[i] + pb[i];
        }
    }
    fixture_run(l, redco_rms_norm(l->g, x, w, 1e-5), have);
    assert_close(want, have, 35, 1e-14);
    fixture_run(l, redco_layer_norm(l->g, x, w, b, 1e-5), have);
    assert_close(log_want, have, 35, 1e-14);
    fixture_clear(l);
}

static void reduced_values(void **state)
{
    fixture *l = *state;
    double have[30], want[10];
    const redco_value x = fixture_real(l, DIMS(2, 3, 5), -1, 1);
    const double *p = data_of(l, x);
    fixture_run(l, redco_sum_axis(l->g, x, 1, false), have);
    for (uint64_t i = 0; i < 10; i++) {
        want[i] = p[i / 5 * 15 + i % 5] + p[i / 5 * 15 + 5 + i % 5] + p[i / 5 * 15 + 10 + i % 5];
    }
    assert_close(want, have, 10, 1e-15);
    fixture_run(l, redco_reduce_max(l->g, x, 2, (uint32_t[]){0, 2}, true), have);
    for (uint64_t i = 0; i < 3; i++) {
        want[i] = -2;
        for (uint64_t k = 0; k < 10; k++) { want[i] = fmax(want[i], p[k / 5 * 15 + i * 5 + k % 5]); }
    }
    assert_close(want, have, 3, 0);
    fixture_run(l, redco_reduce_min(l->g, x, 1, (uint32_t[]){0}, false), have);
    for (uint64_t i = 0; i < 15; i++) { assert_true(have[i] == fmin(p[i], p[15 + i])); }
    fixture_clear(l);
    /* A float sum of many equal terms: kept in double, it is right to the last digit. */
    static float ones[4000];
    for (int i = 0; i < 4000; i++) { ones[i] = 0.1F; }
    float sum;
    fixture_run(l, redco_sum_all(l->g, fixture_given(l, REDCO_F32, DIMS(4000), ones)), &sum);
    assert_true(sum == (float)(4000 * (double)0.1F));
    fixture_clear(l);
}

/* Cases from 24 on have a bias, for which CUDA has no kernel: test_cuda_attention holds that it says so. */
#ifdef LAB_CUDA
enum { ATTENTION_CASES = 24 };
#else
enum { ATTENTION_CASES = 32 };
#endif

/* From the definition: every pair of query and key, scores in long double. */
static void attention_values(void **state)
{
    fixture *l = *state;
    for (int n = 0; n < ATTENTION_CASES; n++) {
        const uint64_t batch = 2, heads = 4, groups = n % 2 == 0 ? 2 : 4, size = 3, value_size = 5;
        const uint64_t queries = n % 3 == 0 ? 70 : 6, keys = n % 3 == 0 ? 70 : 9;
        const redco_value q = fixture_real(l, DIMS(1, queries, heads, size), -2, 2),
                          k = fixture_real(l, DIMS(1, keys, groups, size), -2, 2);
        const redco_value v = fixture_real(l, DIMS(1, keys, groups, value_size), -2, 2);
        const bool biased = n >= 24, by_key = n % 2 == 0 || queries == 70;
        const redco_value mask = biased      ? fixture_real(l, DIMS(1, heads, by_key ? 1 : queries, keys), -2, 2)
                                 : n % 4 < 2 ? fixture_bools(l, DIMS(1, heads, 1, keys), 0.8)
                                             : REDCO_NO_VALUE;
        const redco_attention_options options = {.causal = n % 4 != 0, .window = n % 4 == 3 ? 4 : 0};
        double have[70 * 4 * 5], want[70 * 4 * 5];
        (void)batch;
        const redco_value y = redco_attend(l->g, q, k, v, mask, &options);
        fixture_run(l, y, have);
        const double *pq = data_of(l, q), *pk = data_of(l, k), *pv = data_of(l, v);
        const uint8_t *pm = mask == REDCO_NO_VALUE || biased ? NULL : (const uint8_t *)data_of(l, mask);
        const double *pb = biased ? data_of(l, mask) : NULL;
        for (uint64_t i = 0; i < queries * heads; i++) {
            const uint64_t row = i / heads, head = i % heads, group = head * groups / heads;
            const int64_t last = (int64_t)row + (int64_t)keys - (int64_t)queries;
            long double sum = 0, out[5] = {0};
            for (uint64_t j = 0; j < keys; j++) {
                long double score = 0;
                if (options.causal && (int64_t)j > last) { continue; }
                if (options.window > 0 && (int64_t)j <= last - (int64_t)options.window) { continue; }
                if (pm != NULL && pm[head * keys + j] == 0) { continue; }
                for (uint64_t e = 0; e < size; e++) {
                    score += (long double)pq[i * size + e] * (long double)pk[(j * groups + group) * size + e];
                }
                const uint64_t of_bias = (by_key ? head : head * queries + row) * keys + j;
                const long double p = expl(score / sqrtl(3) + (biased ? (long double)pb[of_bias] : 0));
                sum += p;
                for (uint64_t e = 0; e < value_size; e++) {
                    out[e] += p * (long double)pv[(j * groups + group) * value_size + e];
                }
            }
            for (uint64_t e = 0; e < value_size; e++) {
                want[i * value_size + e] = sum == 0 ? 0 : (double)(out[e] / sum);
            }
        }
        assert_close(want, have, queries * heads * value_size, 1e-14);
        fixture_clear(l);
    }
}

/* A pair (a, b) as a complex number times exp(i angle). */
static void rotary_values(void **state)
{
    fixture *l = *state;
    static const int32_t positions[4] = {0, 3, 100, 2047};
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        const redco_value x = fixture_real(l, DIMS(1, 4, 2, 10), -2, 2),
                          at = fixture_given(l, REDCO_I32, DIMS(4), positions);
        redco_value c, s;
        double have[80], want[80];
        redco_rotary_tables(l->g, at, 8, 10000, REDCO_F64, &c, &s);
        fixture_run(l, redco_rotary(l->g, x, c, s, interleaved != 0), have);
        const double *p = data_of(l, x);
        memcpy(want, p, sizeof want);
        for (uint64_t i = 0; i < 32; i++) {
            const uint64_t base = i / 4 * 10, k = i % 4;
            const uint64_t a = base + (interleaved != 0 ? 2 * k : k), b = base + (interleaved != 0 ? 2 * k + 1 : k + 4);
            const double angle = positions[i / 8] * pow(10000, -2 * (double)k / 8);
            want[a] = p[a] * cos(angle) - p[b] * sin(angle);
            want[b] = p[a] * sin(angle) + p[b] * cos(angle);
        }
        assert_close(want, have, 80, 1e-12);
        fixture_clear(l);
    }
}

/* A bf16 plan computes in float and rounds once, where a result is stored. */
static void half_precision_is_stored_after_each_operator(void **state)
{
    fixture *l = *state;
    const redco_value a = in_type(l, fixture_real(l, DIMS(5, 9), -1, 1), REDCO_BFLOAT16);
    const redco_value b = in_type(l, fixture_real(l, DIMS(9, 4), -1, 1), REDCO_BFLOAT16);
    uint16_t have[20], want[20];
    float exact[20];
    fixture_run(l, redco_matmul(l->g, a, b, false, false), have);
    const redco_value wide =
        redco_matmul(l->g, redco_cast(l->g, a, REDCO_F32), redco_cast(l->g, b, REDCO_F32), false, false);
    fixture_run(l, wide, exact);
    redcoi_narrow(REDCO_BFLOAT16, exact, 20, want);
#ifdef LAB_CUDA /* sums in another order: next to the boundary of two numbers either may come */
    for (int i = 0; i < 20; i++) { assert_in_range(have[i], want[i] - 1, want[i] + 1); }
#else
    assert_memory_equal(want, have, sizeof want);
#endif
    fixture_clear(l);
}

/* Elementwise operators in 16 bits run block by block, but for what is repeated: as in 32 bits, rounded once. */
static void halves_run_in_blocks(void **state)
{
    enum { ROWS = 3, WIDTH = 1001 };
    static const redco_dtype types[] = {REDCO_BFLOAT16, REDCO_F16};
    static uint16_t have[ROWS * WIDTH], want[ROWS * WIDTH];
    static float exact[ROWS * WIDTH];
    fixture *l = *state;
    for (int i = 0; i < 6; i++) {
        const redco_dtype type = types[i % 2];
        const redco_value a = in_type(l, fixture_real(l, DIMS(ROWS, WIDTH), 0.5, 2), type);
        const redco_value b = i < 4 ? in_type(l, fixture_real(l, DIMS(ROWS, WIDTH), -1, 1), type)
                                    : in_type(l, fixture_real(l, DIMS(WIDTH), -1, 1), type);
        const redco_value x = redco_cast(l->g, a, REDCO_F32), y = redco_cast(l->g, b, REDCO_F32);
        fixture_run(l, i < 2 ? redco_sqrt(l->g, a) : redco_div(l->g, b, a), have);
        fixture_run(l, i < 2 ? redco_sqrt(l->g, x) : redco_div(l->g, y, x), exact);
        redcoi_narrow(type, exact, ROWS * WIDTH, want);
#ifdef LAB_CUDA /* its quotients and roots are those of its own functions */
        for (int k = 0; k < ROWS * WIDTH; k++) { assert_in_range(have[k] + 1, want[k], want[k] + 2); }
#else
        assert_memory_equal(want, have, sizeof want);
#endif
        fixture_clear(l);
    }
}

/* One pass gives what three did: the same products, sums in double, rounded once. And AdamW's fourth output is its
 * first, rounded to the gradient's type; the other three are bit by bit those of the operator without it. */
static void passes_over_states_are_fused(void **state)
{
    enum { COUNT = 3001 }; /* several blocks of 16 bits */
    static const redco_dtype types[] = {REDCO_F32, REDCO_BFLOAT16, REDCO_F16};
    fixture *l = *state;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        redco_graph *const g = l->g;
        const uint64_t dim[1] = {COUNT};
        float squares[2], have[3][COUNT], want[3][COUNT];
        uint16_t rounded[COUNT], expected[COUNT];
        const redco_value gradient = in_type(l, fixture_real(l, 1, dim, -1, 1), types[t]);
        const redco_value wide = redco_cast(g, gradient, REDCO_F32);
        fixture_run(l, redco_sum_squares(g, gradient), &squares[0]);
        fixture_run(l, redco_sum_all(g, redco_mul(g, wide, wide)), &squares[1]);
#ifdef LAB_CUDA /* in another order */
        assert_true(fabsf(squares[0] - squares[1]) <= 1e-6F * squares[1]);
#else
        assert_memory_equal(&squares[0], &squares[1], sizeof squares[0]);
#endif
        const redco_value numbers = redco_cast(g, fixture_real(l, DIMS(REDCO_ADAMW_COUNT), 0.1, 0.9), REDCO_F32);
        const redco_value p = redco_cast(g, fixture_real(l, 1, dim, -1, 1), REDCO_F32),
                          m = redco_cast(g, fixture_real(l, 1, dim, -1, 1), REDCO_F32),
                          v = redco_cast(g, fixture_real(l, 1, dim, 0.1, 1), REDCO_F32);
        redco_value plain[3], all[4];
        redco_adamw(g, p, m, v, wide, numbers, plain);
        redco_adamw_rounded(g, p, m, v, gradient, numbers, all);
        for (uint32_t i = 0; i < 3; i++) {
            fixture_run(l, plain[i], want[i]);
            fixture_run(l, all[i], have[i]);
        }
        assert_memory_equal(have, want, sizeof want);
        if (types[t] != REDCO_F32) {
            fixture_run(l, all[3], rounded);
            redcoi_narrow(types[t], want[0], COUNT, expected);
            assert_memory_equal(rounded, expected, sizeof expected);
        }
        fixture_clear(l);
    }
}

/* Parameters of 32 and 64 bits, gradients of every width, which have few digits: the formula in double. */
static void adamw_of_all_widths(void **state)
{
    fixture *l = *state;
    enum { COUNT = 21 };
    static const redco_dtype owns[] = {REDCO_F32, REDCO_F64},
                             gradients[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
    static const double numbers[REDCO_ADAMW_COUNT] = {0.125, 0.5,    0.75,     0.875, 0.0625,
                                                      0.25,  0.4375, 0.234375, 0.25,  0.125};
    for (size_t k = 0; k < 8; k++) {
        const redco_dtype own = owns[k / 4], of_gradient = gradients[k % 4];
        double p[COUNT], m[COUNT], v[COUNT], g[COUNT], want[4][COUNT], have[4][COUNT];
        for (int i = 0; i < COUNT; i++) {
            p[i] = (i - 10) / 4.0, m[i] = (7 - i) / 8.0, v[i] = (i + 1) / 16.0, g[i] = (i % 9 - 4) / 2.0;
            const double scaled = g[i] * 0.5;
            want[1][i] = 0.75 * m[i] + 0.25 * scaled;
            want[2][i] = 0.875 * v[i] + 0.125 * scaled * scaled;
            want[0][i] = want[3][i] =
                p[i] * (1 - 0.125 * 0.25) - 0.125 * (want[1][i] / 0.4375) / (sqrt(want[2][i] / 0.234375) + 0.0625);
        }
        redco_value in[5], out[4], wide[4];
        redco_result results[4];
        redco_binding bindings[5];
        const void *const data[5] = {p, m, v, g, numbers};
        for (uint32_t i = 0; i < 5; i++) {
            in[i] = fixture_given(l, REDCO_F64, DIMS(i == 4 ? REDCO_ADAMW_COUNT : COUNT), data[i]);
            bindings[i] = (redco_binding){in[i], l->data[i]};
        }
        redco_adamw_rounded(l->g, in_type(l, in[0], own), in_type(l, in[1], own), in_type(l, in[2], own),
                            in_type(l, in[3], of_gradient), in_type(l, in[4], own), out);
        for (uint32_t i = 0; i < 4; i++) {
            wide[i] = in_type(l, out[i], REDCO_F64);
            results[i] = (redco_result){wide[i], have[i]};
        }
        redco_error err = {.status = REDCO_OK};
        if (redco_evaluate(l->backend, l->g, bindings, 5, results, 4, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        for (int i = 0; i < 4; i++) {
            const redco_dtype kept = i < 3 ? own : of_gradient;
            const double rounding = kept == REDCO_F64   ? 1e-14
                                    : kept == REDCO_F32 ? 1e-6
                                    : kept == REDCO_F16 ? 1e-3
                                                        : 8e-3;
            assert_close(want[i], have[i], COUNT, i == 3 && own == REDCO_F32 ? fmax(rounding, 1e-6) : rounding);
        }
        fixture_clear(l);
    }
}

static void random_tensors(void **state)
{
    fixture *l = *state;
    static const int32_t keys[2][2] = {{0, 0}, {1, 0}};
    float whole[30 * 40], part[7 * 11], other[30 * 40];
    double wide[30 * 40], sum = 0, squares = 0, inside = 0;
    const redco_value key = fixture_given(l, REDCO_I32, DIMS(2), keys[0]),
                      key1 = fixture_given(l, REDCO_I32, DIMS(2), keys[1]);
    const redco_tensor_type f32 = redco_type(REDCO_F32, DIMS(30, 40)), f64 = redco_type(REDCO_F64, DIMS(30, 40));
    const redco_tensor_type cut = redco_type(REDCO_F32, DIMS(7, 11));
    fixture_run(l, redco_uniform(l->g, key, 0, &f32, NULL), whole);
    /* The first four are the first known answer: its upper 24 bits over 2^24. */
    static const uint32_t words[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    for (int i = 0; i < 4; i++) { assert_true(whole[i] == (float)(words[i] >> 8) / 16777216.0F); }
    fixture_run(l, redco_uniform(l->g, key, 0, &f64, NULL), wide);
    for (int i = 0; i < 1200; i++) { assert_true(wide[i] == (double)whole[i]); }
    for (uint32_t k = 0; k < 2; k++) { /* narrow ones are rounded */
        const redco_tensor_type narrow = redco_type(k == 0 ? REDCO_BFLOAT16 : REDCO_F16, DIMS(30, 40));
        fixture_run(l, redco_cast(l->g, redco_uniform(l->g, key, 0, &narrow, NULL), REDCO_F32), other);
        for (int i = 0; i < 1200; i++) { assert_true(fabsf(other[i] - whole[i]) <= whole[i] / (k == 0 ? 256 : 2048)); }
    }
    /* A part is the part of the whole. */
    const redco_part where = {.begin = {20, 13}, .whole = {30, 40}};
    fixture_run(l, redco_uniform(l->g, key, 0, &cut, &where), part);
    for (int i = 0; i < 77; i++) { assert_true(part[i] == whole[(20 + i / 11) * 40 + 13 + i % 11]); }
    const redco_value others[2] = {redco_uniform(l->g, key1, 0, &f32, NULL), redco_uniform(l->g, key, 1, &f32, NULL)};
    for (int k = 0; k < 2; k++) {
        int equal = 0;
        fixture_run(l, others[k], other);
        for (int i = 0; i < 1200; i++) { equal += other[i] == whole[i]; }
        assert_true(equal <= 1);
    }
    /* 1200 normal numbers: mean within 4/sqrt(n) = 0.115, variance within 4 sqrt(2/n) = 0.163, 68.3 % +- 5.4 within 1.
     */
    fixture_run(l, redco_normal(l->g, key, 5, &f64, NULL), wide);
    for (int i = 0; i < 1200; i++) {
        sum += wide[i] / 1200;
        squares += wide[i] * wide[i] / 1200;
        inside += fabs(wide[i]) < 1 ? 1.0 / 1200 : 0;
    }
    assert_true(fabs(sum) < 0.115 && fabs(squares - 1) < 0.163 && fabs(inside - 0.683) < 0.054);
    /* Dropout keeps about 70 % (4 sigma: 5.3 %), each divided by 0.7. */
    const redco_value ones = redco_constant(l->g, &f64, 1);
    fixture_run(l, redco_dropout(l->g, ones, 0.3, key, 9, NULL), wide);
    double kept = 0;
    for (int i = 0; i < 1200; i++) {
        assert_true(wide[i] == 0 || fabs(wide[i] - 1 / 0.7) < 1e-15);
        kept += wide[i] != 0 ? 1.0 / 1200 : 0;
    }
    assert_true(fabs(kept - 0.7) < 0.053);
    fixture_clear(l);
}

/* An operator twice: into memory of its own, then onto its input number @p first. Both results come back. */
static void run_in_place(fixture *l, redco_op_kind kind, const redco_tensor_type *types, uint32_t count, uint32_t first,
                         const void *const *data, void *apart_out, void *in_place_out)
{
    const redco_backend_calls *const c = l->backend->calls;
    const redco_attributes none = {0};
    const uint64_t bytes = redco_type_bytes(&types[first]);
    redco_device_stream *stream = NULL;
    redco_tensor in[3], out = {types[first], NULL};
    redco_launch launch = {.kind = kind,
                           .attributes = &none,
                           .input_count = count,
                           .output_count = 1,
                           .inputs = in,
                           .outputs = &out,
                           .name = "in place"};
    assert_int_equal(c->stream_create(l->backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, NULL), REDCO_OK);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t size = redco_type_bytes(&types[i]);
        in[i].type = types[i];
        assert_int_equal(c->allocate(l->backend, REDCO_MEMORY_DEVICE, size, &in[i].data, NULL), REDCO_OK);
        assert_int_equal(c->copy(l->backend, stream, in[i].data, data[i], size, NULL), REDCO_OK);
    }
    assert_int_equal(c->allocate(l->backend, REDCO_MEMORY_DEVICE, bytes, &out.data, NULL), REDCO_OK);
    void *const apart = out.data;
    assert_true(c->workspace_bytes(l->backend, &launch) <= 4 * REDCO_ALIGNMENT_BYTES);
    assert_int_equal(c->allocate(l->backend, REDCO_MEMORY_DEVICE, 4 * REDCO_ALIGNMENT_BYTES, &launch.workspace, NULL),
                     REDCO_OK);
    assert_int_equal(c->run(l->backend, stream, &launch, NULL), REDCO_OK);
    out.data = in[first].data;
    assert_int_equal(c->run(l->backend, stream, &launch, NULL), REDCO_OK);
    assert_int_equal(c->copy(l->backend, stream, apart_out, apart, bytes, NULL), REDCO_OK);
    assert_int_equal(c->copy(l->backend, stream, in_place_out, in[first].data, bytes, NULL), REDCO_OK);
    assert_int_equal(c->stream_finish(l->backend, stream, NULL), REDCO_OK);
    for (uint32_t i = 0; i < count; i++) { c->release(l->backend, REDCO_MEMORY_DEVICE, in[i].data); }
    c->release(l->backend, REDCO_MEMORY_DEVICE, apart);
    c->release(l->backend, REDCO_MEMORY_DEVICE, launch.workspace);
    c->stream_free(l->backend, stream);
}

/* An elementwise result may lie on an input of its type, whichever that is, whatever the other repeats. */
static void elementwise_in_place(void **state)
{
    fixture *l = *state;
    static const redco_op_kind kinds[6] = {REDCO_OP_SILU, REDCO_OP_ADD,       REDCO_OP_DIV,
                                           REDCO_OP_MAX,  REDCO_OP_SILU_GRAD, REDCO_OP_SELECT};
    for (int n = 0; n < 4 * 6; n++) {
        const redco_dtype dtype = n % 2 == 0 ? REDCO_F32 : REDCO_BFLOAT16;
        const redco_op_kind kind = kinds[n / 4];
        const redco_tensor_type full = redco_type(dtype, DIMS(3, 4)), row = redco_type(dtype, DIMS(1, 4));
        const redco_tensor_type each = redco_type(REDCO_BOOL, DIMS(3, 4)), by_row = redco_type(REDCO_BOOL, DIMS(3, 1));
        const redco_tensor_type truth = n % 4 < 2 ? by_row : each;
        const uint32_t first = kind == REDCO_OP_SELECT ? 1 : 0, count = kind == REDCO_OP_SILU ? 1 : first + 2;
        float a[12], b[12], apart[12];
        uint8_t condition[12];
        for (int i = 0; i < 12; i++) {
            a[i] = (float)fixture_uniform(l, 1, 2);
            b[i] = (float)fixture_uniform(l, 1, 2);
            condition[i] = i % 3 == 0;
        }
        const redco_tensor_type second = n % 4 < 2 ? full : row;
        if (first == 0) {
            run_in_place(l, kind, (redco_tensor_type[2]){full, second}, count, 0, (const void *[2]){a, b}, apart, a);
        } else {
            run_in_place(l, kind, (redco_tensor_type[3]){truth, full, second}, count, 1,
                         (const void *[3]){condition, a, b}, apart, a);
        }
        assert_memory_equal(a, apart, redco_type_bytes(&full));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise_values),
        cmocka_unit_test(softplus_everywhere),
        cmocka_unit_test(whole_numbers_and_truth),
        cmocka_unit_test(product_values),
        cmocka_unit_test(moved_values),
        cmocka_unit_test(row_values),
        cmocka_unit_test(reduced_values),
        cmocka_unit_test(attention_values),
        cmocka_unit_test(rotary_values),
        cmocka_unit_test(half_precision_is_stored_after_each_operator),
        cmocka_unit_test(halves_run_in_blocks),
        cmocka_unit_test(passes_over_states_are_fused),
        cmocka_unit_test(adamw_of_all_widths),
        cmocka_unit_test(random_tensors),
        cmocka_unit_test(elementwise_in_place),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
