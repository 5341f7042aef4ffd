/* Kernels that only move elements, whatever their type, and those on i32 and bool. */
#include "executor/backend/host/kernels.h"

#include <string.h>

redco_status redcoi_skip_index(const redco_launch *launch, int32_t index, uint64_t rows, redco_error *err)
{
    const redco_index_range range = redco_launch_indices(launch, rows);
    return index >= range.first && index < range.end
               ? REDCO_OK
               : redco_index_refuse(launch->kind, launch->name, index, range, err);
}

/** Copies @p count elements that lie @p step apart (0 or 1 mostly) to dense memory. */
static void copy_row(unsigned char *to, const unsigned char *from, uint64_t count, uint64_t step, uint32_t bytes)
{
    if (step == 1) {
        memcpy(to, from, count * bytes);
        return;
    }
#define COPY_AS(type)                                                                                                  \
    for (uint64_t i = 0; i < count; i++) { ((type *)(void *)to)[i] = ((const type *)(const void *)from)[i * step]; }
    switch (bytes) {
    case 1: COPY_AS(uint8_t) break;
    case 2: COPY_AS(uint16_t) break;
    case 4: COPY_AS(uint32_t) break;
    default: COPY_AS(uint64_t) break;
    }
#undef COPY_AS
}

redco_status redcoi_host_copy(const redco_launch *launch, redco_error *err)
{
    (void)err;
    memmove(launch->outputs[0].data, launch->inputs[0].data, redco_type_bytes(&launch->outputs[0].type));
    return REDCO_OK;
}

redco_status redcoi_host_constant(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *out = &launch->outputs[0];
    double one; /* room for an element of any type */
    (void)err;
    redcoi_store_f64(out->type.dtype, &launch->attributes->scalar, 1, &one);
    copy_row(out->data, (const unsigned char *)&one, redco_type_elements(&out->type), 0,
             redco_dtype_bytes(out->type.dtype));
    return REDCO_OK;
}

redco_status redcoi_host_iota(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->outputs[0].type;
    const uint32_t axis = launch->attributes->axis[0];
    const uint64_t count = redco_type_elements(type);
    uint64_t inner = 1;
    int32_t *out = launch->outputs[0].data;
    (void)err;
    for (uint32_t i = axis + 1; i < type->rank; i++) { inner *= type->dim[i]; }
    for (uint64_t i = 0; i < count; i++) { out[i] = (int32_t)(i / inner % type->dim[axis]); }
    return REDCO_OK;
}

redco_status redcoi_host_strided(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const redco_attributes *a = launch->attributes;
    const uint32_t bytes = redco_dtype_bytes(in->type.dtype);
    uint64_t own[REDCO_RANK_MAX], stride[1][REDCO_RANK_MAX] = {{0}}, begin = 0;
    redcoi_walk walk;
    (void)err;
    redcoi_strides(&in->type, launch->kind == REDCO_OP_BROADCAST, own);
    for (uint32_t i = 0; i < out->type.rank; i++) {
        stride[0][i] = launch->kind == REDCO_OP_TRANSPOSE ? own[a->axis[i]] : own[i];
        if (launch->kind == REDCO_OP_SLICE) { begin += a->begin[i] * own[i]; }
    }
    redcoi_walk_begin(&walk, &out->type, stride, 1);
    do {
        copy_row((unsigned char *)out->data + walk.done * bytes,
                 (const unsigned char *)in->data + (begin + walk.first[0]) * bytes, walk.count,
                 walk.stride[0][walk.rank - 1], bytes);
    } while (redcoi_walk_next(&walk));
    return REDCO_OK;
}

/** Copies the dense tensor @p in to where it lies in the dense tensor @p out. */
static void place(const redco_tensor *in, const redco_tensor *out, const uint64_t *begin)
{
    const uint32_t bytes = redco_dtype_bytes(in->type.dtype);
    uint64_t stride[1][REDCO_RANK_MAX] = {{0}}, first = 0;
    redcoi_walk walk;
    redcoi_strides(&out->type, false, stride[0]);
    for (uint32_t i = 0; i < in->type.rank; i++) { first += begin[i] * stride[0][i]; }
    redcoi_walk_begin(&walk, &in->type, stride, 1);
    do {
        unsigned char *to = (unsigned char *)out->data + (first + walk.first[0]) * bytes;
        const unsigned char *from = (const unsigned char *)in->data + walk.done * bytes;
        const uint64_t step = walk.stride[0][walk.rank - 1];
        if (step <= 1) {
            memcpy(to, from, walk.count * bytes);
        } else {
            for (uint64_t i = 0; i < walk.count; i++) { memcpy(to + i * step * bytes, from + i * bytes, bytes); }
        }
    } while (redcoi_walk_next(&walk));
}

redco_status redcoi_host_pad(const redco_launch *launch, redco_error *err)
{
    (void)err;
    memset(launch->outputs[0].data, 0, redco_type_bytes(&launch->outputs[0].type));
    place(&launch->inputs[0], &launch->outputs[0], launch->attributes->begin);
    return REDCO_OK;
}

redco_status redcoi_host_concat(const redco_launch *launch, redco_error *err)
{
    const uint32_t axis = launch->attributes->axis[0];
    uint64_t begin[REDCO_RANK_MAX] = {0};
    (void)err;
    for (uint32_t i = 0; i < launch->input_count; i++) {
        place(&launch->inputs[i], &launch->outputs[0], begin);
        begin[axis] += launch->inputs[i].type.dim[axis];
    }
    return REDCO_OK;
}

redco_status redcoi_host_gather(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *table = &launch->inputs[0];
    const int32_t *index = launch->inputs[1].data;
    const uint64_t count = redco_type_elements(&launch->inputs[1].type), rows = table->type.dim[0];
    const uint64_t row_bytes = redco_type_bytes(&table->type) / rows;
    unsigned char *out = launch->outputs[0].data;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row;
        if (redcoi_row(index[i], launch->attributes->offset, rows, &row)) {
            memcpy(out + i * row_bytes, (const unsigned char *)table->data + row * row_bytes, row_bytes);
        } else {
            const redco_status st = redcoi_skip_index(launch, index[i], rows, err);
            if (st != REDCO_OK) { return st; }
            memset(out + i * row_bytes, 0, row_bytes);
        }
    }
    return REDCO_OK;
}

redco_status redcoi_host_select(const redco_launch *launch, redco_error *err)
{
    const uint32_t bytes = redco_dtype_bytes(launch->outputs[0].type.dtype);
    redcoi_walk walk;
    (void)err;
    redcoi_walk_inputs(&walk, launch);
    const uint32_t last = walk.rank - 1;
    const uint64_t sc = walk.stride[0][last], sa = walk.stride[1][last], sb = walk.stride[2][last];
    do {
        const uint8_t *condition = (const uint8_t *)launch->inputs[0].data + walk.first[0];
        const unsigned char *a = (const unsigned char *)launch->inputs[1].data + walk.first[1] * bytes;
        const unsigned char *b = (const unsigned char *)launch->inputs[2].data + walk.first[2] * bytes;
        unsigned char *out = (unsigned char *)launch->outputs[0].data + walk.done * bytes;
        if (sc == 0 && (condition[0] != 0 ? sa : sb) == 1) { /* a row of one of them; it may lie there already */
            const unsigned char *const from = condition[0] != 0 ? a : b;
            if (from != out) { memcpy(out, from, walk.count * bytes); }
            continue;
        }
        /* Both are read and one is kept: a branch that follows numbers is guessed wrongly every other time. Masks of a
         * gradient, the commonest, have a loop that compilers make wide. */
#define SELECT_AS(type)                                                                                                \
    if (sc == 1 && sa == 1 && sb == 0) {                                                                               \
        const type first = ((const type *)(const void *)b)[0];                                                         \
        for (uint64_t i = 0; i < walk.count; i++) {                                                                    \
            const type kept = ((const type *)(const void *)a)[i];                                                      \
            ((type *)(void *)out)[i] = condition[i] != 0 ? kept : first;                                               \
        }                                                                                                              \
    } else {                                                                                                           \
        for (uint64_t i = 0; i < walk.count; i++) {                                                                    \
            const type kept = ((const type *)(const void *)a)[i * sa],                                                 \
                       other = ((const type *)(const void *)b)[i * sb];                                                \
            ((type *)(void *)out)[i] = condition[i * sc] != 0 ? kept : other;                                          \
        }                                                                                                              \
    }
        switch (bytes) {
        case 1: SELECT_AS(uint8_t) break;
        case 2: SELECT_AS(uint16_t) break;
        case 4: SELECT_AS(uint32_t) break;
        default: SELECT_AS(uint64_t) break;
        }
#undef SELECT_AS
    } while (redcoi_walk_next(&walk));
    return REDCO_OK;
}

redco_status redcoi_host_logic(const redco_launch *launch, redco_error *err)
{
    redcoi_walk walk;
    uint8_t *out = launch->outputs[0].data;
    (void)err;
    redcoi_walk_inputs(&walk, launch);
    const uint32_t last = walk.rank - 1, other = launch->kind == REDCO_OP_NOT ? 0 : 1;
    const uint64_t sa = walk.stride[0][last], sb = walk.stride[other][last];
    do {
        const uint8_t *a = (const uint8_t *)launch->inputs[0].data + walk.first[0];
        const uint8_t *b = (const uint8_t *)launch->inputs[other].data + walk.first[other];
        for (uint64_t i = 0; i < walk.count; i++) {
            const bool x = a[i * sa] != 0, y = b[i * sb] != 0;
            out[walk.done + i] = launch->kind == REDCO_OP_NOT ? !x : launch->kind == REDCO_OP_AND ? x && y : x || y;
        }
    } while (redcoi_walk_next(&walk));
    return REDCO_OK;
}

/** Arithmetic wraps; truth values count as 0 and 1. */
int32_t redcoi_integer_result(redco_op_kind kind, int32_t a, int32_t b)
{
    switch (kind) {
    case REDCO_OP_ADD: return (int32_t)((uint32_t)a + (uint32_t)b);
    case REDCO_OP_SUB: return (int32_t)((uint32_t)a - (uint32_t)b);
    case REDCO_OP_MUL: return (int32_t)((uint32_t)a * (uint32_t)b);
    case REDCO_OP_MAX: return a > b ? a : b;
    case REDCO_OP_MIN: return a < b ? a : b;
    case REDCO_OP_EQ: return a == b;
    case REDCO_OP_LT: return a < b;
    default: return a <= b;
    }
}

static int32_t integer_at(const redco_tensor *t, uint64_t i)
{
    return t->type.dtype == REDCO_I32 ? ((const int32_t *)t->data)[i] : ((const uint8_t *)t->data)[i] != 0;
}

redco_status redcoi_host_integer(const redco_launch *launch, redco_error *err)
{
    redcoi_walk walk;
    (void)err;
    redcoi_walk_inputs(&walk, launch);
    const redco_tensor *out = &launch->outputs[0];
    const uint32_t last = walk.rank - 1;
    do {
        for (uint64_t i = 0; i < walk.count; i++) {
            const int32_t a = integer_at(&launch->inputs[0], walk.first[0] + i * walk.stride[0][last]);
            const int32_t b = integer_at(&launch->inputs[1], walk.first[1] + i * walk.stride[1][last]);
            const int32_t result = redcoi_integer_result(launch->kind, a, b);
            if (out->type.dtype == REDCO_I32) {
                ((int32_t *)out->data)[walk.done + i] = result;
            } else {
                ((uint8_t *)out->data)[walk.done + i] = (uint8_t)result;
            }
        }
    } while (redcoi_walk_next(&walk));
    return REDCO_OK;
}
