/* Heuristic and products of the mock library for libcublasLt.so.13: what is asked for is checked against cublasLt.h's
 * words, then queued. */
#include "tests/cuda/mock_cublaslt.h"

#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

size_t blas_type_bytes(cudaDataType_t type)
{
    switch (type) {
    case CUDA_R_64F: return 8;
    case CUDA_R_32F: return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    default: return 0;
    }
}

size_t blas_matrix_bytes(const blas_matrix *matrix, int64_t batch)
{
    const int64_t last = (matrix->columns - 1) * matrix->leading + matrix->rows + (batch - 1) * matrix->stride;
    return (size_t)last * blas_type_bytes(matrix->type);
}

bool blas_has(const blas_problem *problem, uint32_t part)
{
    return (problem->epilogue & part) == part;
}

static bool is_bit_mask(const blas_problem *p)
{
    return blas_has(p, BLAS_EPILOGUE_MATRIX) && (blas_has(p, CUBLASLT_EPILOGUE_RELU) || blas_has(p, 8));
}

size_t blas_aux_bytes(const blas_problem *p)
{
    const int64_t elements = (p->n - 1) * p->aux_leading + p->m + (p->batch - 1) * p->aux_stride;
    return is_bit_mask(p) ? (size_t)(elements + 7) / 8 : (size_t)elements * blas_type_bytes(p->d.type);
}

static bool is_known_epilogue(uint32_t epilogue)
{
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_AUX:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DRELU:
    case CUBLASLT_EPILOGUE_DRELU_BGRAD:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
    case CUBLASLT_EPILOGUE_DGELU_BGRAD:
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB: return true;
    default: return false;
    }
}

static bool matrix_of(const void *pointer, blas_matrix *matrix_out, int64_t *batch_out)
{
    const blas_object *const layout = blas_find(pointer, BLAS_LAYOUT);
    if (layout == NULL) { return false; }
    *matrix_out = (blas_matrix){.type = (cudaDataType_t)blas_i32(layout, CUBLASLT_MATRIX_LAYOUT_TYPE),
                                .rows = blas_i64(layout, CUBLASLT_MATRIX_LAYOUT_ROWS),
                                .columns = blas_i64(layout, CUBLASLT_MATRIX_LAYOUT_COLS),
                                .leading = blas_i64(layout, CUBLASLT_MATRIX_LAYOUT_LD),
                                .stride = blas_i64(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)};
    *batch_out = blas_i32(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
    if (blas_i32(layout, CUBLASLT_MATRIX_LAYOUT_ORDER) != CUBLASLT_ORDER_COL ||
        blas_i32(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE) != CUBLASLT_BATCH_MODE_STRIDED ||
        blas_i64(layout, CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET) != 0) {
        mock_complain("cublasLt: the mock library has column-major matrices at fixed strides only");
        return false;
    }
    return matrix_out->rows > 0 && matrix_out->columns > 0 && matrix_out->rows <= INT32_MAX &&
           matrix_out->columns <= INT32_MAX && matrix_out->leading >= matrix_out->rows && *batch_out > 0 &&
           matrix_out->stride >= 0;
}

/* Documentation of cublasLtMatmul(), table of types. */
static bool has_types(const blas_problem *p)
{
    const cudaDataType_t in = p->a.type, out = p->d.type;
    if (in != p->b.type || out != p->c.type) { return false; }
    switch (p->compute) {
    case CUBLAS_COMPUTE_32F:
        return p->scale == CUDA_R_32F && ((in == out && (in == CUDA_R_32F || in == CUDA_R_16F || in == CUDA_R_16BF)) ||
                                          ((in == CUDA_R_16F || in == CUDA_R_16BF) && out == CUDA_R_32F));
    case CUBLAS_COMPUTE_32F_FAST_TF32: return p->scale == CUDA_R_32F && in == CUDA_R_32F && out == CUDA_R_32F;
    case CUBLAS_COMPUTE_64F: return p->scale == CUDA_R_64F && in == CUDA_R_64F && out == CUDA_R_64F;
    default: return false;
    }
}

static bool is_operation(int32_t transpose)
{
    return transpose == CUBLAS_OP_N || transpose == CUBLAS_OP_T;
}

static cublasStatus_t check_epilogue(const blas_object *o, const blas_problem *p)
{
    const int32_t bias = blas_i32(o, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
    const int32_t aux = blas_i32(o, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE);
    if (!is_known_epilogue(p->epilogue)) { return CUBLAS_STATUS_INVALID_VALUE; }
    if ((bias != -1 && bias != (int32_t)p->d.type) || (aux != -1 && aux != (int32_t)p->d.type)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    /* An own limit: not everything that is asked for is there. */
    if (p->d.type == CUDA_R_64F && (p->epilogue & ~(uint32_t)(CUBLASLT_EPILOGUE_RELU_BIAS | 1)) != 0) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (!blas_has(p, BLAS_EPILOGUE_MATRIX)) { return CUBLAS_STATUS_SUCCESS; }
    const int64_t unit = is_bit_mask(p) ? 128 : 8;
    const bool fits = p->aux_leading >= p->m && p->aux_leading % unit == 0 && p->aux_stride % unit == 0;
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t blas_problem_of(const void *operation, const void *a, const void *b, const void *c, const void *d,
                               blas_problem *problem_out)
{
    const blas_object *const o = blas_find(operation, BLAS_OPERATION);
    blas_problem p = {.batch = 1};
    int64_t batch[4];
    if (o == NULL || !matrix_of(a, &p.a, &batch[0]) || !matrix_of(b, &p.b, &batch[1]) ||
        !matrix_of(c, &p.c, &batch[2]) || !matrix_of(d, &p.d, &batch[3])) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const int32_t ta = blas_i32(o, CUBLASLT_MATMUL_DESC_TRANSA), tb = blas_i32(o, CUBLASLT_MATMUL_DESC_TRANSB);
    p.compute = (cublasComputeType_t)blas_i32(o, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
    p.scale = (cudaDataType_t)blas_i32(o, CUBLASLT_MATMUL_DESC_SCALE_TYPE);
    p.epilogue = (uint32_t)blas_i32(o, CUBLASLT_MATMUL_DESC_EPILOGUE);
    p.transpose_a = ta == CUBLAS_OP_T;
    p.transpose_b = tb == CUBLAS_OP_T;
    p.m = p.d.rows;
    p.n = p.d.columns;
    p.k = p.transpose_a ? p.a.rows : p.a.columns;
    p.batch = batch[3];
    p.bias = blas_pointer(o, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
    p.bias_stride = blas_i64(o, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
    p.aux = blas_pointer(o, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
    p.aux_leading = blas_i64(o, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
    p.aux_stride = blas_i64(o, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
    if (!is_operation(ta) || !is_operation(tb) || blas_i32(o, CUBLASLT_MATMUL_DESC_TRANSC) != CUBLAS_OP_N ||
        blas_i32(o, CUBLASLT_MATMUL_DESC_POINTER_MODE) != CUBLASLT_POINTER_MODE_HOST ||
        blas_i32(o, CUBLASLT_MATMUL_DESC_FILL_MODE) != CUBLAS_FILL_MODE_FULL) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if ((p.transpose_a ? p.a.columns : p.a.rows) != p.m || (p.transpose_b ? p.b.columns : p.b.rows) != p.k ||
        (p.transpose_b ? p.b.rows : p.b.columns) != p.n || p.c.rows != p.m || p.c.columns != p.n ||
        batch[0] != p.batch || batch[1] != p.batch || batch[2] != p.batch ||
        (p.batch > 1 && p.d.stride < p.d.leading * p.d.columns)) {
        mock_complain("cublasLt: the matrices do not fit each other");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    *problem_out = p;
    return has_types(&p) ? check_epilogue(o, &p) : CUBLAS_STATUS_NOT_SUPPORTED;
}

uint32_t blas_signature(const blas_problem *p)
{
    return (uint32_t)p->a.type * 31 + (uint32_t)p->d.type * 7 + (uint32_t)p->compute * 1009 + p->epilogue * 65537 +
           (p->transpose_a ? 1 : 0) + (p->transpose_b ? 2 : 0);
}

/* The algorithms that it claims to have, by its own estimate fastest first. */
static const struct candidate {
    uint64_t workspace_bytes;
    uint32_t alignment_bytes; /* 0: an element */
    uint32_t splits;
    cublasLtReductionScheme_t scheme;
    cublasStatus_t state;
} candidates[] = {
    {UINT64_C(64) << 20, 16, 4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLAS_STATUS_SUCCESS},
    {UINT64_C(256) << 10, 16, 4, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, CUBLAS_STATUS_SUCCESS},
    {UINT64_C(512) << 10, 16, 2, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLAS_STATUS_SUCCESS},
    {0, 16, 1, CUBLASLT_REDUCTION_SCHEME_NONE, CUBLAS_STATUS_NOT_SUPPORTED},
    {UINT64_C(64) << 10, 128, 1, CUBLASLT_REDUCTION_SCHEME_NONE, CUBLAS_STATUS_SUCCESS},
    {UINT64_C(64) << 10, 16, 1, CUBLASLT_REDUCTION_SCHEME_NONE, CUBLAS_STATUS_SUCCESS},
    {0, 0, 1, CUBLASLT_REDUCTION_SCHEME_NONE, CUBLAS_STATUS_SUCCESS},
};
enum { CANDIDATES = sizeof candidates / sizeof candidates[0] };

static uint32_t least_alignment(const blas_object *preference)
{
    uint32_t least = UINT32_MAX;
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++) {
        const uint32_t bytes = (uint32_t)blas_i32(preference, i);
        if (bytes < least) { least = bytes; }
    }
    return least;
}

/** Leading dimensions and strides count, too. */
static bool is_aligned(const blas_problem *p, uint32_t bytes)
{
    const blas_matrix *const all[4] = {&p->a, &p->b, &p->c, &p->d};
    for (int i = 0; i < 4; i++) {
        const size_t size = blas_type_bytes(all[i]->type);
        if ((size_t)all[i]->leading * size % bytes != 0 || (size_t)all[i]->stride * size % bytes != 0) { return false; }
    }
    return true;
}

static uint32_t alignment_of(const struct candidate *c, const blas_problem *p)
{
    return c->alignment_bytes > 0 ? c->alignment_bytes : (uint32_t)blas_type_bytes(p->d.type);
}

static bool is_wanted(const struct candidate *c, const blas_problem *p, const blas_object *preference)
{
    const uint32_t schemes = (uint32_t)blas_i32(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
    const uint32_t alignment = alignment_of(c, p);
    const bool scheme = c->scheme == CUBLASLT_REDUCTION_SCHEME_NONE || ((uint32_t)c->scheme & schemes) != 0;
    return scheme && c->workspace_bytes <= (uint64_t)blas_i64(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) &&
           p->k >= 16 * (int64_t)c->splits * (c->splits > 1 ? 1 : 0) && least_alignment(preference) >= alignment &&
           is_aligned(p, alignment) && (c->alignment_bytes == 0 || p->d.type != CUDA_R_64F);
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t operationDesc,
                                                     cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                                     cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                                     cublasLtMatmulPreference_t preference, int requestedAlgoCount,
                                                     cublasLtMatmulHeuristicResult_t heuristicResultsArray[],
                                                     int *returnAlgoCount)
{
    blas_problem p;
    if (blas_find(lightHandle, BLAS_HANDLE) == NULL) { return CUBLAS_STATUS_NOT_INITIALIZED; }
    if (requestedAlgoCount <= 0 || heuristicResultsArray == NULL || returnAlgoCount == NULL) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const blas_object *const asked = blas_find(preference, BLAS_PREFERENCE);
    *returnAlgoCount = 0;
    if (asked == NULL) { return CUBLAS_STATUS_INVALID_VALUE; }
    const cublasStatus_t st = blas_problem_of(operationDesc, Adesc, Bdesc, Cdesc, Ddesc, &p);
    if (st != CUBLAS_STATUS_SUCCESS) { return st; }
    for (uint32_t i = 0; i < CANDIDATES && *returnAlgoCount < requestedAlgoCount; i++) {
        const struct candidate *const from = &candidates[i];
        if (!is_wanted(from, &p, asked)) { continue; }
        const blas_algorithm algorithm = {.magic = BLAS_MAGIC,
                                          .id = i,
                                          .alignment_bytes = alignment_of(from, &p),
                                          .splits = from->splits,
                                          .rounds = from->scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
                                          .signature = blas_signature(&p),
                                          .workspace_bytes = from->workspace_bytes};
        cublasLtMatmulHeuristicResult_t *const to = &heuristicResultsArray[(*returnAlgoCount)++];
        memset(to, 0, sizeof *to);
        to->state = from->state;
        to->workspaceSize = from->state == CUBLAS_STATUS_SUCCESS ? from->workspace_bytes : SIZE_MAX;
        to->wavesCount = 1.0F;
        _Static_assert(sizeof algorithm <= sizeof to->algo, "an algorithm has 64 bytes");
        memcpy(&to->algo, &algorithm, sizeof algorithm);
    }
    return *returnAlgoCount > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

typedef struct range {
    const char *name;
    const void *at;
    size_t bytes;
    bool written;
} range;

static bool overlap(const range *x, const range *y)
{
    const uintptr_t a = (uintptr_t)x->at, b = (uintptr_t)y->at;
    return x->bytes > 0 && y->bytes > 0 && a < b + y->bytes && b < a + x->bytes;
}

/* All in live device memory; what is written apart from everything else, but that D may be C. */
static cublasStatus_t check_memory(const blas_job *job)
{
    const blas_problem *const p = &job->problem;
    const size_t bias = blas_has(p, CUBLASLT_EPILOGUE_BIAS) || (p->epilogue & (BLAS_EPILOGUE_SUM_D | 256)) != 0
                            ? (size_t)p->m
                        : (p->epilogue & 512) != 0 ? (size_t)p->n
                                                   : 0;
    const bool gradient = !blas_has(p, CUBLASLT_EPILOGUE_BIAS);
    const bool backward = (p->epilogue & (8 | 64)) != 0;
    const range all[] = {
        {"A", job->a, blas_matrix_bytes(&p->a, p->batch), false},
        {"B", job->b, blas_matrix_bytes(&p->b, p->batch), false},
        {"C", job->c, job->beta != 0 ? blas_matrix_bytes(&p->c, p->batch) : 0, false},
        {"D", job->d, blas_matrix_bytes(&p->d, p->batch), true},
        {"bias", p->bias, bias * blas_type_bytes(p->d.type), gradient},
        {"auxiliary", p->aux, blas_has(p, BLAS_EPILOGUE_MATRIX) ? blas_aux_bytes(p) : 0, !backward},
        {"workspace", job->workspace, job->algorithm.workspace_bytes, true},
    };
    enum { RANGES = sizeof all / sizeof all[0] };
    for (int i = 0; i < RANGES; i++) {
        if (all[i].bytes > 0 && !mock_is_device(all[i].at, all[i].bytes)) {
            mock_complain("cublasLtMatmul: %s: %zu bytes at %p are no live device memory", all[i].name, all[i].bytes,
                          all[i].at);
            return CUBLAS_STATUS_INVALID_VALUE;
        }
        for (int k = 0; k < i; k++) {
            const bool in_place = k == 2 && i == 3 && all[i].at == all[k].at;
            if (!in_place && (all[i].written || all[k].written) && overlap(&all[i], &all[k])) {
                mock_complain("cublasLtMatmul: %s and %s overlap", all[k].name, all[i].name);
                return CUBLAS_STATUS_INVALID_VALUE;
            }
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_at(const void *address, uint32_t alignment)
{
    return address != NULL && (uintptr_t)address % alignment == 0;
}

/* In place: as the documentation says, C's layout must be D's then. */
static cublasStatus_t check_job(const blas_job *job, size_t workspace_bytes)
{
    const blas_problem *const p = &job->problem;
    const blas_algorithm *const algorithm = &job->algorithm;
    const uint32_t alignment = algorithm->alignment_bytes;
    if (algorithm->magic != BLAS_MAGIC || algorithm->signature != blas_signature(p)) {
        mock_complain("cublasLtMatmul: the algorithm is for another operation");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (algorithm->workspace_bytes > workspace_bytes ||
        (algorithm->workspace_bytes > 0 && !is_at(job->workspace, 256))) {
        mock_complain("cublasLtMatmul: a workspace of %zu bytes at %p; the algorithm needs %llu", workspace_bytes,
                      job->workspace, (unsigned long long)algorithm->workspace_bytes);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!is_at(job->a, alignment) || !is_at(job->b, alignment) || !is_at(job->d, alignment) ||
        (job->beta != 0 && !is_at(job->c, alignment)) || !is_aligned(p, alignment)) {
        mock_complain("cublasLtMatmul: the algorithm needs matrices aligned to %u bytes", alignment);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (job->c == job->d && (p->c.leading != p->d.leading || p->c.stride != p->d.stride)) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    return check_memory(job);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters are the library's */
EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc, const void *alpha,
                                     const void *A, cublasLtMatrixLayout_t Adesc, const void *B,
                                     cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C,
                                     cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc,
                                     const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspaceSizeInBytes,
                                     cudaStream_t stream)
{
    blas_job *job = NULL;
    if (blas_find(lightHandle, BLAS_HANDLE) == NULL) { return CUBLAS_STATUS_NOT_INITIALIZED; }
    if (alpha == NULL || beta == NULL || algo == NULL) { return CUBLAS_STATUS_INVALID_VALUE; }
    if ((job = calloc(1, sizeof *job)) == NULL) { return CUBLAS_STATUS_ALLOC_FAILED; }
    cublasStatus_t st = blas_problem_of(computeDesc, Adesc, Bdesc, Cdesc, Ddesc, &job->problem);
    if (st != CUBLAS_STATUS_SUCCESS) { goto out; }
    const bool wide = job->problem.scale == CUDA_R_64F;
    job->alpha = wide ? *(const double *)alpha : (double)*(const float *)alpha;
    job->beta = wide ? *(const double *)beta : (double)*(const float *)beta;
    job->a = A;
    job->b = B;
    job->c = C;
    job->d = D;
    job->workspace = workspace;
    memcpy(&job->algorithm, algo, sizeof job->algorithm);
    if ((st = check_job(job, workspaceSizeInBytes)) != CUBLAS_STATUS_SUCCESS) { goto out; }
    if (mock_stream_work((CUstream)stream, "cublasLtMatmul", blas_run, job, free) != CUDA_SUCCESS) {
        st = CUBLAS_STATUS_EXECUTION_FAILED;
    }
    job = NULL;
out:
    free(job);
    return st;
}
