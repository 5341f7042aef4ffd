/* Own kernels against the host's: elementwise operators, casts, sources, moves. */
#include "kernels_fixture.h"

static const redco_dtype reals[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
enum { REALS = 4 };

static const struct {
    uint32_t rank;
    uint64_t dim[REDCO_RANK_MAX];
} shapes[] = {{0, {0}},
              {1, {1}},
              {1, {7}},
              {1, {16}},
              {1, {1000}},
              {1, {4099}},
              {2, {3, 5}},
              {2, {33, 64}},
              {3, {2, 1, 24}},
              {4, {2, 3, 4, 8}},
              {8, {1, 2, 1, 3, 2, 1, 2, 5}}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static redco_tensor_type shape(redco_dtype dtype, size_t i)
{
    return redco_type(dtype, shapes[i].rank, shapes[i].dim);
}

static void functions_of_one(void **state)
{
    fixture *r = *state;
    /* units in the last place: of the functions of this processor and of a GPU together */
    static const struct {
        redco_op_kind kind;
        double low, high, scalar, units;
        bool special;
    } rows[] = {
        {REDCO_OP_NEG, -3, 3, 0, 0, true},
        {REDCO_OP_EXP, -5, 5, 0, 4, false},
        {REDCO_OP_LOG, 0.01, 9, 0, 8, false},
        {REDCO_OP_SQRT, 0, 9, 0, 1.01, false},
        {REDCO_OP_RSQRT, 0.1, 9, 0, 3, false},
        {REDCO_OP_POW, 0.1, 3, 2.5, 8, false},
        {REDCO_OP_POW, -3, 3, 2, 1.01, false},
        {REDCO_OP_POW, -3, 3, -1, 1.01, false},
        {REDCO_OP_TANH, -4, 4, 0, 4, true},
        {REDCO_OP_ERF, -4, 4, 0, 4, true},
        {REDCO_OP_SIN, -30, 30, 0, 4, false},
        {REDCO_OP_COS, -30, 30, 0, 4, false},
        {REDCO_OP_SIGMOID, -30, 30, 0, 6, true},
        {REDCO_OP_RELU, -3, 3, 0, 0, true},
        {REDCO_OP_SILU, -30, 30, 0, 6, false},
        {REDCO_OP_GELU, -4, 4, 0, 64, false}, /* 1 + erf loses digits on the left */
        {REDCO_OP_GELU_TANH, -4, 4, 0, 64, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < REALS; k++) {
            for (size_t s = 0; s < SHAPES; s++) {
                kernel_case c = {.kind = rows[i].kind,
                                 .attributes = {.scalar = rows[i].scalar},
                                 .input_count = 1,
                                 .in = {shape(reals[k], s)},
                                 .low = rows[i].low,
                                 .high = rows[i].high,
                                 .special = rows[i].special,
                                 .shifted = shapes[s].rank == 1,
                                 .units = rows[i].units,
                                 .whole = rows[i].units == 64};
                fixture_check(r, &c);
            }
        }
    }
}

/** Some dimensions of @p type become 1. */
static redco_tensor_type thinned(fixture *r, redco_tensor_type type, uint64_t pattern)
{
    (void)r;
    for (uint32_t i = 0; i < type.rank; i++) {
        if (((pattern >> i) & 1) != 0) { type.dim[i] = 1; }
    }
    return type;
}

static void functions_of_two(void **state)
{
    fixture *r = *state;
    static const struct {
        redco_op_kind kind;
        double units;
        bool whole_numbers, truth, gradient;
    } rows[] = {
        {REDCO_OP_ADD, 0, true, false, false},        {REDCO_OP_SUB, 0, true, false, false},
        {REDCO_OP_MUL, 0, true, false, false},        {REDCO_OP_DIV, 0, false, false, false},
        {REDCO_OP_MAX, 0, true, false, false},        {REDCO_OP_MIN, 0, true, false, false},
        {REDCO_OP_EQ, 0, true, true, false},          {REDCO_OP_LT, 0, true, true, false},
        {REDCO_OP_LE, 0, true, true, false},          {REDCO_OP_SILU_GRAD, 64, false, false, true},
        {REDCO_OP_GELU_GRAD, 64, false, false, true}, {REDCO_OP_GELU_TANH_GRAD, 64, false, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (size_t k = 0; k < 6; k++) {
            const redco_dtype dtype = k < REALS ? reals[k] : k == 4 ? REDCO_I32 : REDCO_BOOL;
            if ((k == 4 && !rows[i].whole_numbers) || (k == 5 && !rows[i].truth)) { continue; }
            for (size_t s = 0; s < SHAPES; s++) {
                kernel_case c = {.kind = rows[i].kind,
                                 .input_count = 2,
                                 .low = -3,
                                 .high = 3,
                                 .first = -5,
                                 .end = 6,
                                 .special = !rows[i].gradient,
                                 .shifted = shapes[s].rank == 1,
                                 .units = rows[i].units,
                                 .whole = rows[i].gradient};
                for (uint64_t pattern = 0; pattern < (shapes[s].rank > 0 ? 6U : 1U); pattern++) {
                    c.in[0] = thinned(r, shape(dtype, s), pattern == 0 ? 0 : fixture_below(r, 256));
                    c.in[1] = thinned(r, shape(dtype, s), pattern < 2 ? 0 : fixture_below(r, 256));
                    fixture_check(r, &c);
                }
            }
        }
    }
}

static void logic_and_select(void **state)
{
    fixture *r = *state;
    for (size_t s = 0; s < SHAPES; s++) {
        for (uint64_t n = 0; n < 4; n++) {
            kernel_case c = {.input_count = 2, .low = -3, .high = 3, .first = -5, .end = 6, .special = true};
            c.shifted = shapes[s].rank == 1;
            c.in[0] = thinned(r, shape(REDCO_BOOL, s), n == 0 ? 0 : fixture_below(r, 256));
            c.in[1] = thinned(r, shape(REDCO_BOOL, s), n == 0 ? 0 : fixture_below(r, 256));
            c.kind = REDCO_OP_AND;
            fixture_check(r, &c);
            c.kind = REDCO_OP_OR;
            fixture_check(r, &c);
            c.kind = REDCO_OP_NOT;
            c.input_count = 1;
            fixture_check(r, &c);
            c.kind = REDCO_OP_SELECT;
            c.input_count = 3;
            for (uint32_t dtype = 0; dtype < REDCO_DTYPE_COUNT; dtype++) {
                c.in[1] = thinned(r, shape((redco_dtype)dtype, s), n == 0 ? 0 : fixture_below(r, 256));
                c.in[2] = thinned(r, shape((redco_dtype)dtype, s), n == 0 ? 0 : fixture_below(r, 256));
                fixture_check(r, &c);
            }
        }
    }
}

static void casts(void **state)
{
    fixture *r = *state;
    static const double highs[] = {3, 70000, 1e10, 1e-6};
    for (uint32_t from = 0; from < REDCO_DTYPE_COUNT; from++) {
        for (uint32_t to = 0; to < REDCO_DTYPE_COUNT; to++) {
            for (size_t s = 0; s < SHAPES; s++) {
                kernel_case c = {.kind = REDCO_OP_CAST,
                                 .attributes = {.dtype = to},
                                 .input_count = 1,
                                 .in = {shape((redco_dtype)from, s)},
                                 .low = -highs[s % 4],
                                 .high = highs[s % 4],
                                 .first = INT32_MIN,
                                 .end = INT32_MAX,
                                 .special = true,
                                 .shifted = shapes[s].rank == 1};
                fixture_check(r, &c);
            }
        }
    }
}

/* Numbers halfway between neighbours of the 16-bit types, and a little to either side. */
static void casts_round_to_even(void **state)
{
    fixture *r = *state;
    enum { COUNT = 3 * 4096 };
    static double halves[COUNT];
    static float floats[COUNT];
    for (uint32_t to = 0; to < 2; to++) {
        const int digits = to == 0 ? 8 : 11;
        for (int i = 0; i < COUNT / 3; i++) {
            const double x = ldexp(1 + (2 * (double)(i % 128) + 1) * ldexp(1, -digits), i / 128 - 20);
            halves[3 * i] = x;
            halves[3 * i + 1] = x * (1 + 0x1p-40);
            halves[3 * i + 2] = -x * (1 - 0x1p-40);
        }
        for (int i = 0; i < COUNT; i++) { floats[i] = (float)halves[i]; }
        const uint32_t dtype = to == 0 ? REDCO_BFLOAT16 : REDCO_F16;
        kernel_case c = {.kind = REDCO_OP_CAST,
                         .attributes = {.dtype = dtype},
                         .input_count = 1,
                         .in = {DIMS(REDCO_F64, COUNT)},
                         .given = {halves}};
        fixture_check(r, &c);
        c.in[0].dtype = REDCO_F32;
        c.given[0] = floats;
        fixture_check(r, &c);
    }
}

/** More than a grid of the device takes at once: threads go on. */
static void large_tensors(void **state)
{
    fixture *r = *state;
    for (size_t k = 0; k < REALS; k++) {
        kernel_case c = {.kind = REDCO_OP_ADD, .input_count = 2, .low = -3, .high = 3};
        c.in[0] = c.in[1] = DIMS(reals[k], 400003);
        fixture_check(r, &c);
        c.in[0] = DIMS(reals[k], 100, 1, 4001);
        c.in[1] = DIMS(reals[k], 1, 1, 4001);
        fixture_check(r, &c);
    }
}

static void adamw(void **state)
{
    fixture *r = *state;
    static const double numbers[REDCO_ADAMW_COUNT] = {1e-3, 0.5, 0.9, 0.95, 1e-8, 0.1, 0.19, 0.0975, 0.1, 0.05};
    static float float_numbers[REDCO_ADAMW_COUNT];
    static const uint64_t counts[] = {1, 3, 4, 130, 5000};
    for (int i = 0; i < REDCO_ADAMW_COUNT; i++) { float_numbers[i] = (float)numbers[i]; }
    for (size_t n = 0; n < 5; n++) {
        for (size_t k = 0; k < 2 * (size_t)REALS; k++) {
            const redco_dtype own = k < REALS ? REDCO_F32 : REDCO_F64;
            kernel_case c = {.kind = REDCO_OP_ADAMW, .input_count = 5, .low = 0.01, .high = 1, .units = 16};
            for (int i = 0; i < 3; i++) { c.in[i] = DIMS(own, counts[n]); }
            c.in[3] = DIMS(reals[k % REALS], counts[n]);
            c.in[4] = DIMS(own, REDCO_ADAMW_COUNT);
            c.given[4] = own == REDCO_F32 ? (const void *)float_numbers : (const void *)numbers;
            c.shifted = true;
            fixture_check(r, &c);
        }
    }
}

static void sources(void **state)
{
    fixture *r = *state;
    static const double values[] = {0, 1, -2.5, 1e9, 0.1};
    static const int32_t key[2] = {123456, -7};
    for (size_t s = 0; s < SHAPES; s++) {
        for (uint32_t dtype = 0; dtype < REDCO_DTYPE_COUNT; dtype++) {
            kernel_case c = {.kind = REDCO_OP_CONSTANT, .attributes = {.dtype = dtype, .rank = shapes[s].rank}};
            memcpy(c.attributes.size, shapes[s].dim, sizeof c.attributes.size);
            c.attributes.scalar = values[s % 5];
            fixture_check(r, &c);
        }
        for (uint32_t axis = 0; axis < shapes[s].rank; axis++) {
            kernel_case c = {.kind = REDCO_OP_IOTA, .attributes = {.dtype = REDCO_I32, .rank = shapes[s].rank}};
            memcpy(c.attributes.size, shapes[s].dim, sizeof c.attributes.size);
            c.attributes.axis[0] = axis;
            fixture_check(r, &c);
        }
        for (uint32_t n = 0; n < 8; n++) {
            kernel_case c = {.kind = n % 2 == 0 ? REDCO_OP_UNIFORM : REDCO_OP_NORMAL,
                             .attributes = {.dtype = n % 4 < 2 ? REDCO_F32 : REDCO_F64,
                                            .rank = shapes[s].rank,
                                            .stream = UINT64_C(5) << 31},
                             .input_count = 1,
                             .in = {DIMS(REDCO_I32, 2)},
                             .given = {key},
                             .units = n % 2 == 0 ? 0 : 16,
                             .whole = true};
            memcpy(c.attributes.size, shapes[s].dim, sizeof c.attributes.size);
            for (uint32_t i = 0; i < shapes[s].rank; i++) {
                c.attributes.begin[i] = n < 4 ? 0 : fixture_below(r, 4);
                c.attributes.whole[i] = shapes[s].dim[i] + c.attributes.begin[i] + (n < 4 ? 0 : fixture_below(r, 3));
            }
            fixture_check(r, &c);
        }
    }
}

static void moves(void **state)
{
    fixture *r = *state;
    static const redco_dtype types[] = {REDCO_F64, REDCO_F32, REDCO_BFLOAT16, REDCO_BOOL};
    for (uint32_t n = 0; n < 600; n++) {
        static const uint64_t sizes[] = {1, 2, 3, 8, 5, 16, 40, 33};
        const uint32_t rank = (uint32_t)fixture_below(r, 7);
        uint64_t elements = 1;
        kernel_case c = {.input_count = 1, .low = -3, .high = 3, .special = true};
        c.in[0] = redco_type(types[n % 4], rank, (uint64_t[REDCO_RANK_MAX]){1, 1, 1, 1, 1, 1, 1, 1});
        for (uint32_t i = 0; i < rank; i++) {
            uint64_t size = sizes[fixture_below(r, 8)];
            if (elements * size > 40000) { size = 1; }
            c.in[0].dim[i] = size;
            elements *= size;
        }
        c.attributes.rank = rank;
        memcpy(c.attributes.size, c.in[0].dim, sizeof c.attributes.size);
        switch (n / 4 % 6) {
        case 0:
            c.kind = REDCO_OP_TRANSPOSE;
            c.attributes.axis_count = rank;
            for (uint32_t i = 0; i < rank; i++) { c.attributes.axis[i] = i; }
            for (uint32_t i = rank; i > 1; i--) {
                const uint32_t k = (uint32_t)fixture_below(r, i), other = c.attributes.axis[i - 1];
                c.attributes.axis[i - 1] = c.attributes.axis[k];
                c.attributes.axis[k] = other;
            }
            break;
        case 1:
            c.kind = REDCO_OP_BROADCAST;
            for (uint32_t i = 0; i < rank; i++) {
                if (fixture_below(r, 2) == 0) { c.in[0].dim[i] = 1; }
            }
            break;
        case 2:
            c.kind = REDCO_OP_SLICE;
            for (uint32_t i = 0; i < rank; i++) {
                c.attributes.size[i] = 1 + fixture_below(r, c.in[0].dim[i]);
                c.attributes.begin[i] = fixture_below(r, c.in[0].dim[i] - c.attributes.size[i] + 1);
            }
            break;
        case 3:
            c.kind = REDCO_OP_PAD;
            for (uint32_t i = 0; i < rank; i++) {
                const uint64_t more = fixture_below(r, 3) * (fixture_below(r, 2) == 0 ? 1 : 8);
                c.attributes.size[i] += more;
                c.attributes.begin[i] = fixture_below(r, more + 1);
            }
            break;
        case 4:
            c.kind = REDCO_OP_CONCAT;
            if (rank == 0) { continue; }
            c.attributes.axis[0] = (uint32_t)fixture_below(r, rank);
            c.input_count = 1 + (uint32_t)fixture_below(r, n % 7 == 0 ? 64 : 4);
            for (uint32_t k = 1; k < c.input_count; k++) {
                c.in[k] = c.in[0];
                c.in[k].dim[c.attributes.axis[0]] = sizes[fixture_below(r, 6)];
            }
            break;
        default: c.kind = REDCO_OP_RESHAPE; break;
        }
        fixture_check(r, &c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_of_one),
                                       cmocka_unit_test(functions_of_two),
                                       cmocka_unit_test(logic_and_select),
                                       cmocka_unit_test(casts),
                                       cmocka_unit_test(casts_round_to_even),
                                       cmocka_unit_test(large_tensors),
                                       cmocka_unit_test(adamw),
                                       cmocka_unit_test(sources),
                                       cmocka_unit_test(moves)};
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
