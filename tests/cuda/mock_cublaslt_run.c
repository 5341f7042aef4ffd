/* The product itself, on the stream's thread: in double precision, rounded where the library rounds. */
#include "tests/cuda/mock_cublaslt.h"

#include <math.h>
#include <stdlib.h>
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

/** To @p kept bits of the significand behind the point, ties to even. */
static float shorten(float value, int kept)
{
    const uint32_t bits = bits_of(value), cut = 23 - (uint32_t)kept;
    if (!isfinite(value)) { return value; }
    return float_of((bits + (UINT32_C(1) << (cut - 1)) - 1 + ((bits >> cut) & 1)) & ~((UINT32_C(1) << cut) - 1));
}

static float half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000U) << 16, exponent = (half >> 10) & 31U, fraction = half & 1023U;
    if (exponent == 31) { return float_of(sign | 0x7F800000U | fraction << 13); }
    const float size =
        exponent == 0 ? ldexpf((float)fraction, -24) : ldexpf((float)(fraction | 1024U), (int)exponent - 25);
    return sign != 0 ? -size : size;
}

static uint16_t float_to_half(float value)
{
    const uint16_t sign = (uint16_t)(bits_of(value) >> 16 & 0x8000U);
    const float size = fabsf(value);
    if (isnan(value)) { return (uint16_t)(sign | 0x7E00U); }
    if (size >= 65520.0F) { return (uint16_t)(sign | 0x7C00U); }
    if (size < ldexpf(1.0F, -14)) { return (uint16_t)(sign | (uint16_t)rintf(ldexpf(size, 24))); }
    const uint32_t bits = bits_of(shorten(size, 10));
    return (uint16_t)(sign | (uint16_t)((bits >> 13) - (UINT32_C(112) << 10)));
}

static double load(cudaDataType_t type, const void *at, int64_t i)
{
    uint16_t half;
    switch (type) {
    case CUDA_R_64F: return ((const double *)at)[i];
    case CUDA_R_32F: return (double)((const float *)at)[i];
    case CUDA_R_16F: return (double)half_to_float(((const uint16_t *)at)[i]);
    default: half = ((const uint16_t *)at)[i]; return (double)float_of((uint32_t)half << 16);
    }
}

static void store(cudaDataType_t type, void *at, int64_t i, double value)
{
    switch (type) {
    case CUDA_R_64F: ((double *)at)[i] = value; return;
    case CUDA_R_32F: ((float *)at)[i] = (float)value; return;
    case CUDA_R_16F: ((uint16_t *)at)[i] = float_to_half((float)value); return;
    default: ((uint16_t *)at)[i] = isnan(value) ? 0x7FC0U : (uint16_t)(bits_of(shorten((float)value, 7)) >> 16); return;
    }
}

static double rounded(cudaDataType_t type, double value)
{
    double kept = 0;
    store(type, &kept, 0, value);
    return load(type, &kept, 0);
}

/** op(matrix) by columns: element (i, j) at i + j rows. TF32 has 10 bits behind the point. */
static void unpack(const blas_matrix *matrix, const void *data, int64_t first, bool transpose, bool tf32, double *to)
{
    const int64_t rows = transpose ? matrix->columns : matrix->rows;
    for (int64_t j = 0; j < matrix->columns; j++) {
        for (int64_t i = 0; i < matrix->rows; i++) {
            const double value = load(matrix->type, data, first + j * matrix->leading + i);
            to[transpose ? j + i * rows : i + j * rows] = tf32 ? (double)shorten((float)value, 10) : value;
        }
    }
}

/** Column @p j of op(A) op(B), in parts along k where the algorithm makes them apart. */
static void multiply(const blas_job *job, const double *a, const double *b, int64_t j, double *part, double *sum)
{
    const blas_problem *const p = &job->problem;
    memset(sum, 0, (size_t)p->m * sizeof *sum);
    for (int64_t s = 0; s < job->algorithm.splits; s++) {
        const int64_t begin = p->k * s / job->algorithm.splits, end = p->k * (s + 1) / job->algorithm.splits;
        memset(part, 0, (size_t)p->m * sizeof *part);
        for (int64_t l = begin; l < end; l++) {
            const double factor = b[l + j * p->k];
            const double *const column = a + l * p->m;
            for (int64_t i = 0; i < p->m; i++) { part[i] += column[i] * factor; }
        }
        for (int64_t i = 0; i < p->m; i++) {
            sum[i] += job->algorithm.rounds ? rounded(p->d.type, part[i]) : part[i];
            if (job->algorithm.rounds) { sum[i] = rounded(p->d.type, sum[i]); }
        }
    }
}

/* Hendrycks and Gimpel, arXiv 1606.08415: the form with tanh. */
static double gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    const double scale = sqrt(2.0 / acos(-1.0)), t = tanh(scale * (x + 0.044715 * x * x * x));
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * scale * (1.0 + 3 * 0.044715 * x * x);
}

static bool aux_bit(const blas_problem *p, int64_t at)
{
    return (((const unsigned char *)p->aux)[at / 8] >> (at % 8) & 1U) != 0;
}

static void set_aux_bit(const blas_problem *p, int64_t at, bool on)
{
    unsigned char *const byte = (unsigned char *)p->aux + at / 8;
    *byte = (unsigned char)((*byte & ~(1U << (at % 8))) | (on ? 1U << (at % 8) : 0U));
}

/** Applies the epilogue to the sum at row @p i, column @p j of matrix @p batch. */
static double finish(const blas_problem *p, double x, int64_t i, int64_t j, int64_t batch)
{
    const int64_t aux = batch * p->aux_stride + j * p->aux_leading + i;
    const bool matrix = blas_has(p, BLAS_EPILOGUE_MATRIX);
    if (blas_has(p, CUBLASLT_EPILOGUE_BIAS)) { x += load(p->d.type, p->bias, batch * p->bias_stride + i); }
    if (blas_has(p, CUBLASLT_EPILOGUE_DGELU)) { return x * gelu_slope(load(p->d.type, p->aux, aux)); }
    if (blas_has(p, CUBLASLT_EPILOGUE_DRELU)) { return aux_bit(p, aux) ? x : 0.0; }
    if (blas_has(p, CUBLASLT_EPILOGUE_GELU)) {
        if (matrix) { store(p->d.type, p->aux, aux, x); }
        return gelu(x);
    }
    if (blas_has(p, CUBLASLT_EPILOGUE_RELU)) {
        if (matrix) { set_aux_bit(p, aux, x > 0); }
        return x > 0 || isnan(x) ? x : 0.0;
    }
    return x;
}

/** Sums of rows of an m x n matrix by columns. */
static void sum_rows(const blas_problem *p, const double *matrix, int64_t rows, int64_t columns, int64_t batch)
{
    for (int64_t i = 0; i < rows; i++) {
        double sum = 0;
        for (int64_t j = 0; j < columns; j++) { sum += matrix[i + j * rows]; }
        store(p->d.type, p->bias, batch * p->bias_stride + i, sum);
    }
}

static void sum_columns(const blas_problem *p, const double *matrix, int64_t rows, int64_t columns, int64_t batch)
{
    for (int64_t j = 0; j < columns; j++) {
        double sum = 0;
        for (int64_t i = 0; i < rows; i++) { sum += matrix[i + j * rows]; }
        store(p->d.type, p->bias, batch * p->bias_stride + j, sum);
    }
}

static void run_one(const blas_job *job, int64_t batch, double *a, double *b, double *d)
{
    const blas_problem *const p = &job->problem;
    const bool tf32 = p->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    double *const part = d + p->m * p->n;
    unpack(&p->a, job->a, batch * p->a.stride, p->transpose_a, tf32, a);
    unpack(&p->b, job->b, batch * p->b.stride, p->transpose_b, tf32, b);
    for (int64_t j = 0; j < p->n; j++) {
        double *const column = d + j * p->m;
        multiply(job, a, b, j, part, column);
        for (int64_t i = 0; i < p->m; i++) {
            double x = job->alpha * column[i];
            if (job->beta != 0) {
                x += job->beta * load(p->c.type, job->c, batch * p->c.stride + j * p->c.leading + i);
            }
            column[i] = finish(p, x, i, j, batch);
        }
    }
    if (blas_has(p, BLAS_EPILOGUE_SUM_D) && p->epilogue < 256) { sum_rows(p, d, p->m, p->n, batch); }
    if (p->epilogue == CUBLASLT_EPILOGUE_BGRADA) { sum_rows(p, a, p->m, p->k, batch); }
    if (p->epilogue == CUBLASLT_EPILOGUE_BGRADB) { sum_columns(p, b, p->k, p->n, batch); }
    for (int64_t j = 0; j < p->n; j++) {
        for (int64_t i = 0; i < p->m; i++) {
            store(p->d.type, job->d, batch * p->d.stride + j * p->d.leading + i, d[i + j * p->m]);
        }
    }
}

/* The workspace is written over, as an algorithm does: whoever has something there sees it. */
void blas_run(void *context)
{
    blas_job *const job = context;
    const blas_problem *const p = &job->problem;
    const size_t a = (size_t)(p->m * p->k), b = (size_t)(p->k * p->n), d = (size_t)(p->m * p->n + p->m);
    double *const memory = malloc((a + b + d) * sizeof *memory);
    if (memory == NULL || !mock_is_device(job->a, blas_matrix_bytes(&p->a, p->batch)) ||
        !mock_is_device(job->b, blas_matrix_bytes(&p->b, p->batch)) ||
        !mock_is_device(job->d, blas_matrix_bytes(&p->d, p->batch))) {
        mock_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "cublasLtMatmul: a matrix was freed before it was computed");
    } else {
        if (job->algorithm.workspace_bytes > 0) { memset(job->workspace, 0xA5, job->algorithm.workspace_bytes); }
        for (int64_t i = 0; i < p->batch; i++) { run_one(job, i, memory, memory + a, memory + a + b); }
    }
    free(memory);
}
