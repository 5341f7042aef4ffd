/* Casts. BF16 and F16 are rounded to nearest, ties to even, from float and from double alike (one rounding). */
#include "executor/backend/host/kernels.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_bf16(float value)
{
    const uint32_t bits = bits_of(value);
    if (isnan(value)) { return (uint16_t)((bits >> 16) | 0x40); } /* stays not-a-number when cut */
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static float from_bf16(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

static uint16_t to_f16(float value)
{
    const uint32_t bits = bits_of(value), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) { return (uint16_t)(sign | 0x7e00); }
    if (magnitude >= 0x47800000) { return (uint16_t)(sign | 0x7c00); } /* 65536 and more */
    if (magnitude < 0x38800000) { /* below 2^-14: multiples of 2^-24, which float addition to 0.5 rounds to */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F)));
    }
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000) >> 13)); /* may carry into infinity: right */
}

static float from_f16(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31, fraction = half & 0x3ff;
    if (exponent == 31) { return float_of(sign | 0x7f800000 | (fraction << 13)); }
    if (exponent == 0) {
        const float small = (float)fraction * 0x1p-24F;
        return sign != 0 ? -small : small;
    }
    return float_of(sign | ((exponent + 112) << 23) | (fraction << 13));
}

/** A float that rounds to any shorter format as @p value does: cut towards zero, last bit set if inexact. */
static float round_to_odd(double value)
{
    const float nearest = (float)value;
    if (isnan(value) || (double)nearest == value) { return nearest; }
    uint32_t bits = bits_of(nearest);
    if (fabs((double)nearest) > fabs(value)) { bits--; }
    return float_of(bits | 1);
}

void redcoi_widen(redco_dtype dtype, const uint16_t *from, uint64_t count, float *to)
{
    if (dtype == REDCO_BFLOAT16) {
        for (uint64_t i = 0; i < count; i++) { to[i] = from_bf16(from[i]); }
    } else {
        for (uint64_t i = 0; i < count; i++) { to[i] = from_f16(from[i]); }
    }
}

void redcoi_narrow(redco_dtype dtype, const float *from, uint64_t count, uint16_t *to)
{
    if (dtype == REDCO_BFLOAT16) {
        for (uint64_t i = 0; i < count; i++) { to[i] = to_bf16(from[i]); }
    } else {
        for (uint64_t i = 0; i < count; i++) { to[i] = to_f16(from[i]); }
    }
}

#define LOAD(type, convert)                                                                                            \
    for (uint64_t i = 0; i < count; i++) { to[i] = (double)convert(((const type *)from)[i]); }                         \
    break;

void redcoi_load_f64(redco_dtype dtype, const void *from, uint64_t count, double *to)
{
    switch (dtype) {
    case REDCO_F32: LOAD(float, )
    case REDCO_F64: LOAD(double, )
    case REDCO_BFLOAT16: LOAD(uint16_t, from_bf16)
    case REDCO_F16: LOAD(uint16_t, from_f16)
    case REDCO_I32: LOAD(int32_t, )
    default: LOAD(uint8_t, 0 !=)
    }
}

static int32_t to_i32(double value)
{
    if (isnan(value)) { return 0; }
    if (value >= (double)INT32_MAX) { return INT32_MAX; }
    return value <= (double)INT32_MIN ? INT32_MIN : (int32_t)value;
}

#define STORE(type, expression)                                                                                        \
    for (uint64_t i = 0; i < count; i++) { ((type *)to)[i] = (expression); }                                           \
    break;

void redcoi_store_f64(redco_dtype dtype, const double *from, uint64_t count, void *to)
{
    switch (dtype) {
    case REDCO_F32: STORE(float, (float)from[i])
    case REDCO_F64: STORE(double, from[i])
    case REDCO_BFLOAT16: STORE(uint16_t, to_bf16(round_to_odd(from[i])))
    case REDCO_F16: STORE(uint16_t, to_f16(round_to_odd(from[i])))
    case REDCO_I32: STORE(int32_t, to_i32(from[i]))
    default: STORE(uint8_t, from[i] != 0)
    }
}

redco_status redcoi_host_cast(const redco_launch *launch, redco_error *err)
{
    enum { CHUNK = 256 };
    double chunk[CHUNK];
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t count = redco_type_elements(&in->type);
    const uint64_t from_bytes = redco_dtype_bytes(in->type.dtype), to_bytes = redco_dtype_bytes(out->type.dtype);
    (void)err;
    for (uint64_t i = 0; i < count; i += CHUNK) {
        const uint64_t n = count - i < CHUNK ? count - i : CHUNK;
        redcoi_load_f64(in->type.dtype, (const unsigned char *)in->data + i * from_bytes, n, chunk);
        redcoi_store_f64(out->type.dtype, chunk, n, (unsigned char *)out->data + i * to_bytes);
    }
    return REDCO_OK;
}
