#include "executor/backend/host/kernels.h"
#include "executor/comm/transport.h"

#include <math.h>

/* Elements of 16 bits are widened by so many at once. */
enum { TILE = 512 };

/* NaN wins a maximum, so that no rank's trouble goes unseen. */
static double larger_f64(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static float larger_f32(float a, float b)
{
    return a > b || isnan(a) ? a : b;
}

static int32_t larger_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses */
#define REDUCER(type, suffix)                                                                                          \
    static void reduce_##suffix(redco_reduction reduction, type *target, const type *other, uint64_t count)            \
    {                                                                                                                  \
        if (reduction == REDCO_REDUCE_SUM) {                                                                           \
            for (uint64_t i = 0; i < count; i++) { target[i] += other[i]; }                                            \
        } else {                                                                                                       \
            for (uint64_t i = 0; i < count; i++) { target[i] = larger_##suffix(target[i], other[i]); }                 \
        }                                                                                                              \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

REDUCER(double, f64)
REDUCER(float, f32)
REDUCER(int32_t, i32)

static void reduce_half(redco_dtype dtype, redco_reduction reduction, uint16_t *target, const uint16_t *other,
                        uint64_t count)
{
    float a[TILE], b[TILE];
    for (uint64_t at = 0; at < count; at += TILE) {
        const uint64_t length = count - at < TILE ? count - at : TILE;
        redcoi_widen(dtype, target + at, length, a);
        redcoi_widen(dtype, other + at, length, b);
        reduce_f32(reduction, a, b, length);
        redcoi_narrow(dtype, a, length, target + at);
    }
}

bool redcoi_has_sum(redco_dtype dtype)
{
    return dtype == REDCO_F64 || dtype == REDCO_F32 || dtype == REDCO_BFLOAT16 || dtype == REDCO_F16 ||
           dtype == REDCO_I32;
}

redco_status redcoi_no_sum(redco_dtype dtype, const char *what, redco_error *err)
{
    return redco_fail(err, REDCO_EVALUE, what,
                      "values of type %s cannot be summed over ranks; f64, f32, bf16, f16 and i32 can",
                      redco_dtype_name(dtype));
}

bool redcoi_reduce(redco_dtype dtype, redco_reduction reduction, void *target, const void *other, uint64_t count)
{
    switch (dtype) {
    case REDCO_F64: reduce_f64(reduction, target, other, count); return true;
    case REDCO_F32: reduce_f32(reduction, target, other, count); return true;
    case REDCO_I32: reduce_i32(reduction, target, other, count); return true;
    case REDCO_BFLOAT16:
    case REDCO_F16: reduce_half(dtype, reduction, target, other, count); return true;
    default: return false;
    }
}
