/* Elementwise kernels on real numbers: compiled for float and double (real.h). */
#include "executor/backend/host/real.h"

#include "costmodel/graph/build_calls.h"

static const real half = (real)0.5;
static const real sqrt_half = (real)0.70710678118654752440;
static const real inverse_sqrt_two_pi = (real)0.39894228040143267794;
static const real sqrt_two_over_pi = (real)0.79788456080286535588;
static const real cube_factor = (real)0.044715;

/** Without overflow of the exponential. */
/* e^-|x| over 1 + e^-|x| of negative numbers, 1 over it of others: without a jump on the sign, which is random, so that
 * half of them would be foretold wrongly. The products with 0 and 1 are exact. */
static real sigmoid(real x)
{
    const real e = REAL_FN(exp)(-REAL_FN(fabs)(x));
    const real negative = half - REAL_FN(copysign)(half, x);
    return (e * negative + (1 - negative)) / (1 + e);
}

/* (1 + tanh u) / 2 = sigmoid(2 u), without the jumps of tanh. */
static real gelu_share(real x)
{
    return sigmoid(2 * sqrt_two_over_pi * (x + cube_factor * x * x * x));
}

static real silu_slope(real x)
{
    const real s = sigmoid(x);
    return s * (1 + x * (1 - s));
}

static real gelu_slope(real x)
{
    return half * (1 + REAL_FN(erf)(x * sqrt_half)) + x * inverse_sqrt_two_pi * REAL_FN(exp)(-half * x * x);
}

static real gelu_tanh_slope(real x)
{
    const real s = gelu_share(x), du = sqrt_two_over_pi * (1 + 3 * cube_factor * x * x);
    return s + 2 * x * s * (1 - s) * du;
}

/** Small whole exponents are products: exact, and much faster. */
static real power(real x, real exponent)
{
    if (exponent == 2) { return x * x; }
    if (exponent == 3) { return x * x * x; }
    if (exponent == -1) { return 1 / x; }
    return REAL_FN(pow)(x, exponent);
}

#define EACH(expression)                                                                                               \
    for (uint64_t i = 0; i < n; i++) {                                                                                 \
        const real x = a[i];                                                                                           \
        out[i] = (expression);                                                                                         \
    }                                                                                                                  \
    break;

void REAL_NAME(unary_row)(redco_op_kind kind, uint64_t n, const real *a, real scalar, real *out)
{
    switch (kind) {
    case REDCO_OP_NEG: EACH(-x)
    case REDCO_OP_EXP: EACH(REAL_FN(exp)(x))
    case REDCO_OP_LOG: EACH(REAL_FN(log)(x))
    case REDCO_OP_SQRT: EACH(REAL_FN(sqrt)(x))
    case REDCO_OP_RSQRT: EACH(1 / REAL_FN(sqrt)(x))
    case REDCO_OP_POW: EACH(power(x, scalar))
    case REDCO_OP_TANH: EACH(REAL_FN(tanh)(x))
    case REDCO_OP_ERF: EACH(REAL_FN(erf)(x))
    case REDCO_OP_SIN: EACH(REAL_FN(sin)(x))
    case REDCO_OP_COS: EACH(REAL_FN(cos)(x))
    case REDCO_OP_SIGMOID: EACH(sigmoid(x))
    case REDCO_OP_RELU: EACH(x <= 0 ? 0 : x) /* not-a-number stays */
    case REDCO_OP_SILU: EACH(x * sigmoid(x))
    case REDCO_OP_GELU: EACH(half * x * (1 + REAL_FN(erf)(x * sqrt_half)))
    default: EACH(x * gelu_share(x)) /* gelu_tanh */
    }
}
#undef EACH

redco_status REAL_NAME(unary)(const redco_launch *launch, redco_error *err)
{
    (void)err;
    REAL_NAME(unary_row)
    (launch->kind, redco_type_elements(&launch->outputs[0].type), launch->inputs[0].data,
     (real)launch->attributes->scalar, launch->outputs[0].data);
    return REDCO_OK;
}

typedef void (*pair_row)(uint64_t n, const real *a, uint64_t sa, const real *b, uint64_t sb, void *out);

/** Loops whose strides the compiler sees, for the cases that matter. */
#define PAIR_ROW(name, type, expression)                                                                               \
    static void name(uint64_t n, const real *a, uint64_t sa, const real *b, uint64_t sb, void *out)                    \
    {                                                                                                                  \
        if (sa == 1 && sb == 1) {                                                                                      \
            for (uint64_t i = 0; i < n; i++) {                                                                         \
                const real x = a[i], y = b[i];                                                                         \
                ((type *)out)[i] = (expression);                                                                       \
            }                                                                                                          \
        } else if (sa == 1 && sb == 0) {                                                                               \
            const real y = b[0];                                                                                       \
            for (uint64_t i = 0; i < n; i++) {                                                                         \
                const real x = a[i];                                                                                   \
                ((type *)out)[i] = (expression);                                                                       \
            }                                                                                                          \
        } else {                                                                                                       \
            for (uint64_t i = 0; i < n; i++) {                                                                         \
                const real x = a[i * sa], y = b[i * sb];                                                               \
                ((type *)out)[i] = (expression);                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    }

/* clang-format off */
PAIR_ROW(add_row, real, x + y)
PAIR_ROW(sub_row, real, x - y)
PAIR_ROW(mul_row, real, x * y)
PAIR_ROW(div_row, real, x / y)
PAIR_ROW(max_row, real, x >= y || isnan(x) ? x : y)
PAIR_ROW(min_row, real, x <= y || isnan(x) ? x : y)
PAIR_ROW(equal_row, uint8_t, x == y)
PAIR_ROW(less_row, uint8_t, x < y)
PAIR_ROW(less_equal_row, uint8_t, x <= y)
PAIR_ROW(silu_grad_row, real, y * silu_slope(x))
PAIR_ROW(gelu_grad_row, real, y * gelu_slope(x))
PAIR_ROW(gelu_tanh_grad_row, real, y * gelu_tanh_slope(x))
/* clang-format on */

static const pair_row pair_rows[REDCO_OP_COUNT] = {
    [REDCO_OP_ADD] = add_row,
    [REDCO_OP_SUB] = sub_row,
    [REDCO_OP_MUL] = mul_row,
    [REDCO_OP_DIV] = div_row,
    [REDCO_OP_MAX] = max_row,
    [REDCO_OP_MIN] = min_row,
    [REDCO_OP_EQ] = equal_row,
    [REDCO_OP_LT] = less_row,
    [REDCO_OP_LE] = less_equal_row,
    [REDCO_OP_SILU_GRAD] = silu_grad_row,
    [REDCO_OP_GELU_GRAD] = gelu_grad_row,
    [REDCO_OP_GELU_TANH_GRAD] = gelu_tanh_grad_row,
};

void REAL_NAME(binary_row)(redco_op_kind kind, uint64_t n, const real *a, const real *b, void *out)
{
    pair_rows[kind](n, a, 1, b, 1, out);
}

redco_status REAL_NAME(binary)(const redco_launch *launch, redco_error *err)
{
    redcoi_walk walk;
    const pair_row row = pair_rows[launch->kind];
    const uint64_t out_bytes = launch->outputs[0].type.dtype == REDCO_BOOL ? 1 : sizeof(real);
    (void)err;
    redcoi_walk_inputs(&walk, launch);
    const uint32_t last = walk.rank - 1;
    do {
        row(walk.count, (const real *)launch->inputs[0].data + walk.first[0], walk.stride[0][last],
            (const real *)launch->inputs[1].data + walk.first[1], walk.stride[1][last],
            (unsigned char *)launch->outputs[0].data + walk.done * out_bytes);
    } while (redcoi_walk_next(&walk));
    return REDCO_OK;
}

/* The gradient, and what is rounded to its type, may be narrower or wider than the rest. */
redco_status REAL_NAME(adamw)(const redco_launch *launch, redco_error *err)
{
    const uint64_t count = redco_type_elements(&launch->inputs[0].type);
    const bool wide = launch->inputs[3].type.dtype == REDCO_F64;
    const real *p = launch->inputs[0].data, *m = launch->inputs[1].data, *v = launch->inputs[2].data;
    const void *const gradient = launch->inputs[3].data;
    const real *const n = launch->inputs[4].data;
    real *next_p = launch->outputs[0].data, *next_m = launch->outputs[1].data, *next_v = launch->outputs[2].data;
    const real beta1 = n[REDCO_ADAMW_BETA1], beta2 = n[REDCO_ADAMW_BETA2], scale = n[REDCO_ADAMW_GRADIENT_SCALE];
    const real rest1 = n[REDCO_ADAMW_REST1], rest2 = n[REDCO_ADAMW_REST2];
    const real rate = n[REDCO_ADAMW_RATE], kept = 1 - rate * n[REDCO_ADAMW_DECAY], epsilon = n[REDCO_ADAMW_EPSILON];
    const real correction1 = n[REDCO_ADAMW_CORRECTION1], correction2 = n[REDCO_ADAMW_CORRECTION2];
    (void)err;
    for (uint64_t i = 0; i < count; i++) {
        const real given = wide ? (real)((const double *)gradient)[i] : (real)((const float *)gradient)[i];
        const real g = given * scale, first = beta1 * m[i] + rest1 * g;
        const real second = beta2 * v[i] + rest2 * (g * g);
        const real step = first / correction1 / (REAL_FN(sqrt)(second / correction2) + epsilon);
        next_p[i] = p[i] * kept - rate * step;
        next_m[i] = first;
        next_v[i] = second;
    }
    if (launch->kind != REDCO_OP_ADAMW_ROUNDED) { return REDCO_OK; }
    void *const copy = launch->outputs[3].data; /* 16 bits are rounded where they are stored */
    for (uint64_t i = 0; i < count && wide; i++) { ((double *)copy)[i] = (double)next_p[i]; }
    for (uint64_t i = 0; i < count && !wide; i++) { ((float *)copy)[i] = (float)next_p[i]; }
    return REDCO_OK;
}
