/* Own kernels against the host's: reductions, rows (softmax, norms, cross-entropy), rotary embedding, indices.
 *
 * Bounds. The host adds up in double where a GPU adds up in float: n numbers in a tree of threads that have k of them
 * each differ by at most (k + log2 n) units of the sum of absolute values; with random numbers, by a few. So sums are
 * held to 64 units in the last place of the largest result in F32 and F64, and to one unit in 16 bits. */
#include "kernels_fixture.h"

static const redco_dtype reals[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
enum { REALS = 4 };

static void reductions(void **state)
{
    fixture *r = *state;
    static const uint64_t sizes[] = {1, 2, 3, 8, 5, 16, 40, 129};
    for (uint32_t n = 0; n < 360; n++) {
        const uint32_t rank = (uint32_t)fixture_below(r, n % 2 == 0 ? 4 : 9);
        uint64_t elements = 1;
        kernel_case c = {.kind = n % 3 == 0   ? REDCO_OP_REDUCE_MAX
                                 : n % 3 == 1 ? REDCO_OP_REDUCE_MIN
                                              : REDCO_OP_REDUCE_SUM,
                         .input_count = 1,
                         .low = 0.5,
                         .high = 1.5,
                         .special = n % 3 != 2 && n % 5 == 0,
                         .units = n % 3 == 2 ? 64 : 0};
        c.in[0] = redco_type(reals[n / 3 % 4], rank, (uint64_t[REDCO_RANK_MAX]){1, 1, 1, 1, 1, 1, 1, 1});
        for (uint32_t i = 0; i < rank; i++) {
            uint64_t size = sizes[fixture_below(r, 8)];
            if (elements * size > 20000) { size = 1; }
            c.in[0].dim[i] = size;
            elements *= size;
            if (fixture_below(r, 2) == 0) { c.attributes.axis[c.attributes.axis_count++] = i; }
        }
        fixture_check(r, &c);
    }
}

/** Few results of many elements: two stages. */
static void reductions_in_pieces(void **state)
{
    fixture *r = *state;
    for (uint32_t n = 0; n < 12; n++) {
        for (uint32_t kind = REDCO_OP_REDUCE_SUM; kind <= REDCO_OP_REDUCE_MIN; kind++) {
            kernel_case c = {.kind = (redco_op_kind)kind, .input_count = 1, .low = 0.5, .high = 1.5};
            /* the host's loop over 300007 doubles is itself off by hundreds of units */
            c.units = kind != REDCO_OP_REDUCE_SUM ? 0 : reals[n % 4] == REDCO_F64 ? 4096 : 64;
            c.attributes.axis_count = 1;
            if (n / 4 == 0) { /* one number */
                c.in[0] = DIMS(reals[n % 4], 300007);
                c.shifted = true;
            } else if (n / 4 == 1) { /* columns */
                c.in[0] = DIMS(reals[n % 4], 3001, 48);
            } else { /* the outer and the inner dimension */
                c.in[0] = DIMS(reals[n % 4], 700, 3, 65);
                c.attributes.axis_count = 2;
                c.attributes.axis[1] = 2;
            }
            fixture_check(r, &c);
        }
    }
}

/* Rows of a warp, of a block, and such that begin at odd places. */
static const uint64_t lengths[] = {1, 2, 7, 8, 64, 129, 1000, 2049, 4096, 5003};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void softmax(void **state)
{
    fixture *r = *state;
    static const redco_op_kind kinds[] = {REDCO_OP_SOFTMAX, REDCO_OP_LOG_SOFTMAX, REDCO_OP_SOFTMAX_GRAD,
                                          REDCO_OP_LOG_SOFTMAX_GRAD};
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < REALS; k++) {
            for (size_t n = 0; n < LENGTHS; n++) {
                kernel_case c = {.kind = kinds[i],
                                 .input_count = i < 2 ? 1 : 2,
                                 .low = i == 3 ? -9 : -2,
                                 .high = i == 3 ? -3 : 2,
                                 .units = 64,
                                 .whole = true};
                c.in[0] = c.in[1] = DIMS(reals[k], 2, 3, lengths[n]);
                fixture_check(r, &c);
            }
        }
    }
}

/** Rows as masks make them: infinities, rows of nothing else, not-a-number. */
static void softmax_of_infinities(void **state)
{
    fixture *r = *state;
    static float data[5][2100];
    for (int length = 20; length <= 2100; length += 2080) {
        float *const rows = &data[0][0];
        for (int row = 0; row < 5; row++) {
            for (int i = 0; i < length; i++) {
                rows[row * length + i] = row == 0   ? -INFINITY
                                         : row == 1 ? (i < length - 3 ? -INFINITY : (float)i / 1000)
                                         : row == 2 ? (i == 7 ? INFINITY : 0)
                                         : row == 3 ? (i == 7 ? NAN : 0)
                                                    : (i % 2 == 0 ? -INFINITY : 1e30F);
            }
        }
        for (int i = 0; i < 2; i++) {
            kernel_case c = {.kind = i == 0 ? REDCO_OP_SOFTMAX : REDCO_OP_LOG_SOFTMAX,
                             .input_count = 1,
                             .in = {DIMS(REDCO_F32, 5, (uint64_t)length)},
                             .given = {data},
                             .units = 16};
            fixture_check(r, &c);
        }
    }
}

static void norms(void **state)
{
    fixture *r = *state;
    for (size_t k = 0; k < REALS; k++) {
        for (size_t n = 0; n < LENGTHS; n++) {
            const redco_dtype statistic = redco_dtype_statistic(reals[k]);
            kernel_case c = {.kind = REDCO_OP_LAYER_NORM,
                             .attributes = {.scalar = 1e-5},
                             .input_count = 3,
                             .low = -2,
                             .high = 3,
                             .units = 256, /* x - mean loses digits where they are near */
                             .whole = true};
            c.in[0] = DIMS(reals[k], 3, 2, lengths[n]);
            c.in[1] = c.in[2] = DIMS(reals[k], lengths[n]);
            if (lengths[n] == 2 || lengths[n] == 1) { c.attributes.scalar = 0.1; }
            fixture_check(r, &c);
            c.kind = REDCO_OP_RMS_NORM;
            c.input_count = 2;
            fixture_check(r, &c);
            /* Rows enough that blocks go on; statistics may be any numbers for the gradient's formula. */
            c.kind = REDCO_OP_RMS_NORM_GRAD;
            c.input_count = 4;
            c.low = 0.25;
            c.high = 1;
            c.in[0] = DIMS(reals[k], lengths[n] > 2000 ? 7 : lengths[n] > 200 ? 14 : 60, lengths[n]);
            c.in[2] = DIMS(statistic, c.in[0].dim[0], 1);
            c.in[3] = c.in[0];
            fixture_check(r, &c);
            c.kind = REDCO_OP_LAYER_NORM_GRAD;
            c.input_count = 5;
            c.in[3] = c.in[2];
            c.in[4] = c.in[0];
            fixture_check(r, &c);
        }
    }
}

/** Sums of columns that do not fit into shared memory. */
static void norms_of_long_rows(void **state)
{
    fixture *r = *state;
    kernel_case c = {
        .kind = REDCO_OP_LAYER_NORM_GRAD, .input_count = 5, .low = 0.25, .high = 1, .units = 256, .whole = true};
    c.in[0] = c.in[4] = DIMS(REDCO_F32, 7, 16384);
    c.in[1] = DIMS(REDCO_F32, 16384);
    c.in[2] = c.in[3] = DIMS(REDCO_F32, 7, 1);
    fixture_check(r, &c);
    c.in[0].dtype = c.in[1].dtype = c.in[4].dtype = REDCO_BFLOAT16;
    fixture_check(r, &c);
}

static void rotary(void **state)
{
    fixture *r = *state;
    static const struct {
        uint64_t size, n;
    } sizes[] = {{64, 32}, {64, 16}, {6, 3}, {10, 2}, {1, 0}, {32, 8}, {24, 12}};
    for (size_t k = 0; k < REALS; k++) {
        for (size_t i = 0; i < 7; i++) {
            for (uint32_t flags = 0; flags < 8; flags++) {
                kernel_case c = {.kind = REDCO_OP_ROTARY, .input_count = 3, .low = -1, .high = 1, .units = 4};
                const redco_dtype statistic = redco_dtype_statistic(reals[k]);
                if (sizes[i].n == 0) { continue; }
                c.whole = true;
                c.attributes.flags = ((flags & 1) != 0 ? (uint32_t)REDCO_FLAG_INTERLEAVED : 0) |
                                     ((flags & 2) != 0 ? (uint32_t)REDCO_FLAG_INVERSE : 0);
                c.in[0] = DIMS(reals[k], 2, 5, 3, sizes[i].size);
                c.in[1] = (flags & 4) != 0 ? DIMS(statistic, 5, sizes[i].n) : DIMS(statistic, 2, 5, sizes[i].n);
                c.in[2] = c.in[1];
                fixture_check(r, &c);
            }
        }
    }
}

static void cross_entropy(void **state)
{
    fixture *r = *state;
    for (size_t k = 0; k < REALS; k++) {
        for (size_t n = 0; n < LENGTHS; n++) {
            const redco_dtype statistic = redco_dtype_statistic(reals[k]);
            const int32_t length = (int32_t)lengths[n];
            for (int masked = 0; masked < 3; masked++) {
                kernel_case c = {.kind = REDCO_OP_CROSS_ENTROPY, .input_count = 2, .low = -4, .high = 4};
                c.units = 64;
                c.whole = true;
                c.attributes.flags = masked != 0 ? REDCO_FLAG_MASKED : 0;
                c.attributes.offset = masked == 2 ? length / 2 : 0; /* a part of a vocabulary */
                c.first = masked == 0 ? 0 : -length / 2 - 1;
                c.end = length;
                c.in[0] = DIMS(reals[k], 3, 4, lengths[n]);
                c.in[1] = DIMS(REDCO_I32, 3, 4);
                fixture_check(r, &c);
                c.kind = REDCO_OP_CROSS_ENTROPY_GRAD;
                c.input_count = 4;
                c.low = -1;
                c.high = 1;
                c.in[2] = c.in[3] = DIMS(statistic, 3, 4);
                fixture_check(r, &c);
            }
        }
    }
}

static void indices(void **state)
{
    fixture *r = *state;
    static const redco_dtype types[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16, REDCO_I32, REDCO_BOOL};
    static const uint64_t widths[] = {1, 3, 8, 64, 65, 2056};
    for (size_t k = 0; k < 6; k++) {
        for (size_t n = 0; n < 6; n++) {
            for (int masked = 0; masked < 2; masked++) {
                kernel_case c = {.kind = REDCO_OP_GATHER, .input_count = 2, .low = -1, .high = 1};
                c.attributes.flags = masked != 0 ? REDCO_FLAG_MASKED : 0;
                c.attributes.offset = masked != 0 ? 3 : -2;
                c.first = masked != 0 ? -3 : -2;
                c.end = masked != 0 ? 30 : 19;
                c.in[0] = n == 0 ? DIMS(types[k], 21) : DIMS(types[k], 21, widths[n]);
                c.in[1] = DIMS(REDCO_I32, 2, 13);
                fixture_check(r, &c);
                if (k >= REALS) { continue; }
                c.kind = REDCO_OP_PICK;
                c.in[0] = DIMS(types[k], 2, 13, 21);
                fixture_check(r, &c);
                c.kind = REDCO_OP_UNPICK;
                c.in[0] = c.in[1];
                c.in[1] = DIMS(types[k], 2, 13);
                c.attributes.size[0] = 21;
                fixture_check(r, &c);
                c.kind = REDCO_OP_SCATTER_ADD;
                c.in[1] = n == 0 ? DIMS(types[k], 2, 13) : DIMS(types[k], 2, 13, widths[n]);
                fixture_check(r, &c);
            }
        }
    }
}

/** More rows than a grid, rows that many indices name, and the order of sums: the same bits as in a loop. */
static void scatter_of_many(void **state)
{
    fixture *r = *state;
    static const struct {
        uint64_t rows, count, width;
        int32_t named;
    } sizes[] = {{40000, 3000, 24, 40000}, {300, 5000, 8, 300}, {5, 4000, 16, 2}, {1, 700, 3, 1}, {513, 1, 9, 513}};
    for (size_t i = 0; i < 5; i++) {
        for (size_t k = 0; k < REALS; k++) {
            kernel_case c = {.kind = REDCO_OP_SCATTER_ADD, .input_count = 2, .low = -1, .high = 1};
            c.end = sizes[i].named;
            c.attributes.size[0] = sizes[i].rows;
            c.in[0] = DIMS(REDCO_I32, sizes[i].count);
            c.in[1] = DIMS(reals[k], sizes[i].count, sizes[i].width);
            fixture_check(r, &c);
        }
    }
}

static void indices_out_of_range_are_errors(void **state)
{
    fixture *r = *state;
    static const redco_op_kind kinds[] = {REDCO_OP_GATHER,      REDCO_OP_PICK,          REDCO_OP_UNPICK,
                                          REDCO_OP_SCATTER_ADD, REDCO_OP_CROSS_ENTROPY, REDCO_OP_CROSS_ENTROPY_GRAD};
    static const int32_t index[4] = {3, 0, 21, 2};
    for (size_t i = 0; i < 6; i++) {
        kernel_case c = {.kind = kinds[i], .input_count = 2, .low = -1, .high = 1};
        char wanted[100];
        redco_error err = {.status = REDCO_OK};
        const uint32_t at = kinds[i] == REDCO_OP_UNPICK || kinds[i] == REDCO_OP_SCATTER_ADD ? 0 : 1;
        c.attributes.size[0] = 20;
        c.attributes.offset = 0;
        c.in[at] = DIMS(REDCO_I32, 4);
        c.given[at] = index;
        c.in[1 - at] = kinds[i] == REDCO_OP_GATHER        ? DIMS(REDCO_F32, 20, 6)
                       : kinds[i] == REDCO_OP_UNPICK      ? DIMS(REDCO_F32, 4)
                       : kinds[i] == REDCO_OP_SCATTER_ADD ? DIMS(REDCO_F32, 4, 6)
                                                          : DIMS(REDCO_F32, 4, 20);
        if (kinds[i] == REDCO_OP_CROSS_ENTROPY_GRAD) {
            c.input_count = 4;
            c.in[2] = c.in[3] = DIMS(REDCO_F32, 4);
        }
        assert_int_equal(fixture_try(r, &c, &err), REDCO_EVALUE);
        (void)snprintf(wanted, sizeof wanted, "%s: index 21 is outside of [0, 20)", redco_op_kind_name(kinds[i]));
        assert_string_equal(err.text, wanted);
        c.attributes.flags = REDCO_FLAG_MASKED; /* the device goes on, and has forgotten */
        assert_int_equal(fixture_try(r, &c, &err), REDCO_OK);
        c.attributes.first = INT32_MIN; /* masked below 0 alone */
        c.attributes.end = 21;
        err = (redco_error){.status = REDCO_OK};
        assert_int_equal(fixture_try(r, &c, &err), REDCO_EVALUE);
        (void)snprintf(wanted, sizeof wanted, "%s: index 21 is neither below 0, which is masked, nor in [0, 21)",
                       redco_op_kind_name(kinds[i]));
        assert_string_equal(err.text, wanted);
        c.attributes.end = 22;
        assert_int_equal(fixture_try(r, &c, NULL), REDCO_OK);
        c.attributes.first = c.attributes.end = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reductions),
                                       cmocka_unit_test(reductions_in_pieces),
                                       cmocka_unit_test(softmax),
                                       cmocka_unit_test(softmax_of_infinities),
                                       cmocka_unit_test(norms),
                                       cmocka_unit_test(norms_of_long_rows),
                                       cmocka_unit_test(rotary),
                                       cmocka_unit_test(cross_entropy),
                                       cmocka_unit_test(indices),
                                       cmocka_unit_test(scatter_of_many),
                                       cmocka_unit_test(indices_out_of_range_are_errors)};
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
