#include "costmodel/graph/type.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bytes;
    bool is_float;
} dtypes[REDCO_DTYPE_COUNT] = {
    [REDCO_F32] = {"f32", 4, true}, [REDCO_F64] = {"f64", 8, true},  [REDCO_BFLOAT16] = {"bf16", 2, true},
    [REDCO_F16] = {"f16", 2, true}, [REDCO_I32] = {"i32", 4, false}, [REDCO_BOOL] = {"bool", 1, false},
};

redco_tensor_type redco_type(redco_dtype dtype, uint32_t rank, const uint64_t *dim)
{
    redco_tensor_type type;
    memset(&type, 0, sizeof type);
    type.dtype = dtype;
    type.rank = rank;
    for (uint32_t i = 0; i < rank && i < REDCO_RANK_MAX; i++) { type.dim[i] = dim[i]; }
    return type;
}

const char *redco_dtype_name(redco_dtype dtype)
{
    return (unsigned)dtype < REDCO_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

uint32_t redco_dtype_bytes(redco_dtype dtype)
{
    return dtypes[dtype].bytes;
}

bool redco_dtype_is_float(redco_dtype dtype)
{
    return dtypes[dtype].is_float;
}

redco_dtype redco_dtype_statistic(redco_dtype dtype)
{
    return dtype == REDCO_F64 ? REDCO_F64 : REDCO_F32;
}

uint64_t redco_type_elements(const redco_tensor_type *type)
{
    uint64_t elements = 1;
    for (uint32_t i = 0; i < type->rank; i++) { elements *= type->dim[i]; }
    return elements;
}

uint64_t redco_type_bytes(const redco_tensor_type *type)
{
    return redco_type_elements(type) * redco_dtype_bytes(type->dtype);
}

bool redco_type_same_dims(const redco_tensor_type *a, const redco_tensor_type *b)
{
    if (a->rank != b->rank) { return false; }
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dim[i] != b->dim[i]) { return false; }
    }
    return true;
}

bool redco_type_equal(const redco_tensor_type *a, const redco_tensor_type *b)
{
    return a->dtype == b->dtype && redco_type_same_dims(a, b);
}

redco_status redco_type_check(const redco_tensor_type *type, const char *place, redco_error *err)
{
    const uint64_t limit = UINT64_C(1) << 48;
    uint64_t elements = 1;
    if ((unsigned)type->dtype >= REDCO_DTYPE_COUNT) {
        return redco_fail(err, REDCO_EVALUE, place, "unknown element type %u", (unsigned)type->dtype);
    }
    if (type->rank > REDCO_RANK_MAX) {
        return redco_fail(err, REDCO_EVALUE, place, "a tensor of rank %u; at most %d are supported", type->rank,
                          REDCO_RANK_MAX);
    }
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dim[i] == 0) {
            return redco_fail(err, REDCO_EVALUE, place, "dimension %u is 0; each must be at least 1", i);
        }
        if (type->dim[i] > limit / elements) {
            return redco_fail(err, REDCO_EVALUE, place, "a tensor of more than 2^48 elements");
        }
        elements *= type->dim[i];
    }
    return REDCO_OK;
}

const char *redco_type_text(const redco_tensor_type *type, char text[REDCO_TYPE_TEXT_BYTES])
{
    size_t used = (size_t)snprintf(text, REDCO_TYPE_TEXT_BYTES, "%s[", redco_dtype_name(type->dtype));
    for (uint32_t i = 0; i < type->rank && i < REDCO_RANK_MAX; i++) {
        used += (size_t)snprintf(text + used, REDCO_TYPE_TEXT_BYTES - used, i == 0 ? "%llu" : ",%llu",
                                 (unsigned long long)type->dim[i]);
    }
    (void)snprintf(text + used, REDCO_TYPE_TEXT_BYTES - used, "]");
    return text;
}
