/* Reductions, and adding by index: compiled for float and double (real.h). */
#include "executor/backend/host/real.h"

#include <string.h>

/** Adds or compares one row into sums that lie @p step (0 or 1) apart. */
static void reduce_row(redco_op_kind kind, const real *in, uint64_t n, double *to, uint64_t step)
{
    if (kind == REDCO_OP_REDUCE_SUM && step == 0) {
        double sum = 0;
        for (uint64_t i = 0; i < n; i++) { sum += (double)in[i]; }
        *to += sum;
    } else if (kind == REDCO_OP_REDUCE_SUM) {
        for (uint64_t i = 0; i < n; i++) { to[i * step] += (double)in[i]; }
    } else {
        const double sign = kind == REDCO_OP_REDUCE_MAX ? 1 : -1;
        for (uint64_t i = 0; i < n; i++) {
            const double x = (double)in[i];
            if (sign * x > sign * to[i * step] || isnan(x)) { to[i * step] = x; }
        }
    }
}

redco_status REAL_NAME(reduce)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t results = redco_type_elements(&out->type);
    const double start = launch->kind == REDCO_OP_REDUCE_SUM   ? 0
                         : launch->kind == REDCO_OP_REDUCE_MAX ? -(double)INFINITY
                                                               : (double)INFINITY;
    uint64_t stride[1][REDCO_RANK_MAX] = {{0}};
    redcoi_walk walk;
    double *sums = launch->workspace;
    (void)err;
    for (uint64_t i = 0; i < results; i++) { sums[i] = start; }
    redcoi_strides(&out->type, true, stride[0]);
    redcoi_walk_begin(&walk, &in->type, stride, 1);
    do {
        reduce_row(launch->kind, (const real *)in->data + walk.done, walk.count, sums + walk.first[0],
                   walk.stride[0][walk.rank - 1]);
    } while (redcoi_walk_next(&walk));
    for (uint64_t i = 0; i < results; i++) { ((real *)out->data)[i] = (real)sums[i]; }
    return REDCO_OK;
}

redco_status REAL_NAME(sum_squares)(const redco_launch *launch, redco_error *err)
{
    const real *const in = launch->inputs[0].data;
    const uint64_t count = redco_type_elements(&launch->inputs[0].type);
    double sum = 0;
    (void)err;
    for (uint64_t i = 0; i < count; i++) {
        const real square = in[i] * in[i];
        sum += (double)square;
    }
    *(real *)launch->outputs[0].data = (real)sum;
    return REDCO_OK;
}

redco_status REAL_NAME(scatter_add)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *out = &launch->outputs[0];
    const int32_t *index = launch->inputs[0].data;
    const real *update = launch->inputs[1].data;
    const uint64_t count = redco_type_elements(&launch->inputs[0].type), rows = out->type.dim[0];
    const uint64_t n = redco_type_elements(&out->type) / rows;
    memset(out->data, 0, rows * n * sizeof(real)); /* sums in double would take twice the table */
    for (uint64_t i = 0; i < count; i++) {
        uint64_t row;
        if (redcoi_row(index[i], launch->attributes->offset, rows, &row)) {
            real *to = (real *)out->data + row * n;
            for (uint64_t k = 0; k < n; k++) { to[k] += update[i * n + k]; }
        } else {
            const redco_status st = redcoi_skip_index(launch, index[i], rows, err);
            if (st != REDCO_OK) { return st; }
        }
    }
    return REDCO_OK;
}

redco_status REAL_NAME(pick)(const redco_launch *launch, redco_error *err)
{
    const real *a = launch->inputs[0].data;
    const int32_t *index = launch->inputs[1].data;
    const uint64_t count = redco_type_elements(&launch->inputs[1].type), n = row_length(&launch->inputs[0].type);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at;
        const bool inside = redcoi_row(index[i], launch->attributes->offset, n, &at);
        const redco_status st = inside ? REDCO_OK : redcoi_skip_index(launch, index[i], n, err);
        if (st != REDCO_OK) { return st; }
        ((real *)launch->outputs[0].data)[i] = inside ? a[i * n + at] : 0;
    }
    return REDCO_OK;
}

redco_status REAL_NAME(unpick)(const redco_launch *launch, redco_error *err)
{
    const int32_t *index = launch->inputs[0].data;
    const real *a = launch->inputs[1].data;
    real *out = launch->outputs[0].data;
    const uint64_t count = redco_type_elements(&launch->inputs[0].type), n = row_length(&launch->outputs[0].type);
    memset(out, 0, count * n * sizeof *out);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at;
        if (redcoi_row(index[i], launch->attributes->offset, n, &at)) {
            out[i * n + at] = a[i];
        } else {
            const redco_status st = redcoi_skip_index(launch, index[i], n, err);
            if (st != REDCO_OK) { return st; }
        }
    }
    return REDCO_OK;
}
