/* Softmax, norms and cross-entropy over rows of the last dimension: compiled for float and double (real.h). */
#include "executor/backend/host/real.h"

#include <string.h>

static real row_max(const real *x, uint64_t n)
{
    real max = x[0];
    for (uint64_t i = 1; i < n; i++) {
        if (x[i] > max) { max = x[i]; }
    }
    return max;
}

static double row_sum_exp(const real *x, uint64_t n, real max)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) { sum += (double)REAL_FN(exp)(x[i] - max); }
    return sum;
}

redco_status REAL_NAME(softmax)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->inputs[0].type;
    const uint64_t n = row_length(type), rows = row_count(type);
    (void)err;
    for (uint64_t r = 0; r < rows; r++) {
        const real *x = (const real *)launch->inputs[0].data + r * n;
        real *y = (real *)launch->outputs[0].data + r * n;
        const real max = row_max(x, n);
        const double sum = row_sum_exp(x, n, max);
        if (launch->kind == REDCO_OP_LOG_SOFTMAX) {
            const real shift = max + (real)log(sum);
            for (uint64_t i = 0; i < n; i++) { y[i] = x[i] - shift; }
        } else {
            const real scale = (real)(1 / sum);
            for (uint64_t i = 0; i < n; i++) { y[i] = REAL_FN(exp)(x[i] - max) * scale; }
        }
    }
    return REDCO_OK;
}

redco_status REAL_NAME(softmax_grad)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->inputs[0].type;
    const uint64_t n = row_length(type), rows = row_count(type);
    const bool logarithm = launch->kind == REDCO_OP_LOG_SOFTMAX_GRAD;
    (void)err;
    for (uint64_t r = 0; r < rows; r++) {
        const real *y = (const real *)launch->inputs[0].data + r * n;
        const real *d = (const real *)launch->inputs[1].data + r * n;
        real *out = (real *)launch->outputs[0].data + r * n;
        double sum = 0;
        for (uint64_t i = 0; i < n; i++) { sum += (double)d[i] * (logarithm ? 1 : (double)y[i]); }
        const real s = (real)sum;
        for (uint64_t i = 0; i < n; i++) { out[i] = logarithm ? d[i] - REAL_FN(exp)(y[i]) * s : y[i] * (d[i] - s); }
    }
    return REDCO_OK;
}

/** RMS norm (scale, 1/deviation) or layer norm (scale, shift, mean, 1/deviation). */
redco_status REAL_NAME(norm)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->inputs[0].type;
    const bool layer = launch->kind == REDCO_OP_LAYER_NORM;
    const uint64_t n = row_length(type), rows = row_count(type);
    const real *scale = launch->inputs[1].data, *shift = layer ? launch->inputs[2].data : NULL;
    (void)err;
    for (uint64_t r = 0; r < rows; r++) {
        const real *x = (const real *)launch->inputs[0].data + r * n;
        real *y = (real *)launch->outputs[0].data + r * n;
        double sum = 0, squares = 0;
        for (uint64_t i = 0; layer && i < n; i++) { sum += (double)x[i]; }
        const double mean = sum / (double)n;
        for (uint64_t i = 0; i < n; i++) { squares += ((double)x[i] - mean) * ((double)x[i] - mean); }
        const double inverse = 1 / sqrt(squares / (double)n + launch->attributes->scalar);
        for (uint64_t i = 0; i < n; i++) {
            const real normal = (real)(((double)x[i] - mean) * inverse);
            y[i] = normal * scale[i] + (layer ? shift[i] : 0);
        }
        if (layer) { ((real *)launch->outputs[1].data)[r] = (real)mean; }
        ((real *)launch->outputs[layer ? 2 : 1].data)[r] = (real)inverse;
    }
    return REDCO_OK;
}

/** One row's input gradient: (e - mean e - x' mean(e x')) / deviation, e = d scale; RMS norm has no mean e. */
static void norm_grad_row(const real *x, const real *scale, const real *d, uint64_t n, bool layer, double mean,
                          double inverse, real *dx, double *dscale, double *dshift)
{
    double sum = 0, product = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double normal = ((double)x[i] - mean) * inverse, e = (double)d[i] * (double)scale[i];
        sum += e;
        product += e * normal;
        dscale[i] += (double)d[i] * normal;
        dshift[i] += (double)d[i];
    }
    const double centre = layer ? sum / (double)n : 0, along = product / (double)n;
    for (uint64_t i = 0; i < n; i++) {
        const double normal = ((double)x[i] - mean) * inverse, e = (double)d[i] * (double)scale[i];
        dx[i] = (real)(inverse * (e - centre - normal * along));
    }
}

redco_status REAL_NAME(norm_grad)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->inputs[0].type;
    const bool layer = launch->kind == REDCO_OP_LAYER_NORM_GRAD;
    const uint64_t n = row_length(type), rows = row_count(type);
    const real *means = layer ? launch->inputs[2].data : NULL, *inverses = launch->inputs[layer ? 3 : 2].data;
    double *dscale = launch->workspace, *dshift = dscale + n;
    (void)err;
    memset(dscale, 0, 2 * n * sizeof *dscale);
    for (uint64_t r = 0; r < rows; r++) {
        norm_grad_row((const real *)launch->inputs[0].data + r * n, launch->inputs[1].data,
                      (const real *)launch->inputs[layer ? 4 : 3].data + r * n, n, layer, layer ? (double)means[r] : 0,
                      (double)inverses[r], (real *)launch->outputs[0].data + r * n, dscale, dshift);
    }
    for (uint64_t i = 0; i < n; i++) { ((real *)launch->outputs[1].data)[i] = (real)dscale[i]; }
    for (uint64_t i = 0; layer && i < n; i++) { ((real *)launch->outputs[2].data)[i] = (real)dshift[i]; }
    return REDCO_OK;
}

redco_status REAL_NAME(cross_entropy)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->inputs[0].type;
    const uint64_t n = row_length(type), rows = row_count(type);
    const int32_t *target = launch->inputs[1].data;
    real *loss = launch->outputs[0].data, *lse = launch->outputs[1].data;
    for (uint64_t r = 0; r < rows; r++) {
        const real *x = (const real *)launch->inputs[0].data + r * n;
        const real max = row_max(x, n);
        uint64_t at;
        const bool inside = redcoi_row(target[r], launch->attributes->offset, n, &at);
        const redco_status st = inside ? REDCO_OK : redcoi_skip_index(launch, target[r], n, err);
        if (st != REDCO_OK) { return st; }
        const double sum = log(row_sum_exp(x, n, max));
        lse[r] = (real)((double)max + sum);
        loss[r] = inside ? (real)((double)max - (double)x[at] + sum) : 0;
    }
    return REDCO_OK;
}

redco_status REAL_NAME(cross_entropy_grad)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->inputs[0].type;
    const uint64_t n = row_length(type), rows = row_count(type);
    const int32_t *target = launch->inputs[1].data;
    const real *lse = launch->inputs[2].data, *d = launch->inputs[3].data;
    for (uint64_t r = 0; r < rows; r++) {
        const real *x = (const real *)launch->inputs[0].data + r * n;
        real *out = (real *)launch->outputs[0].data + r * n;
        uint64_t at;
        const bool inside = redcoi_row(target[r], launch->attributes->offset, n, &at);
        const redco_status st = inside ? REDCO_OK : redcoi_skip_index(launch, target[r], n, err);
        if (st != REDCO_OK) { return st; }
        for (uint64_t i = 0; i < n; i++) { out[i] = d[r] * REAL_FN(exp)(x[i] - lse[r]); }
        if (inside) { out[at] -= d[r]; }
    }
    return REDCO_OK;
}
