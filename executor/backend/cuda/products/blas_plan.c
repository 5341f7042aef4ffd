/* The plan of a product: cuBLASLt's descriptors of it and the algorithm, made once and kept. */
#include "executor/backend/cuda/products/blas.h"

#include <stdlib.h>
#include <string.h>

redco_status redcoi_blas_check(const redcoi_blas *blas, cublasStatus_t status, const char *place, const char *call,
                               redco_error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS) { return REDCO_OK; }
    const char *const name = blas->calls.GetStatusName(status), *const text = blas->calls.GetStatusString(status);
    return redco_fail(err, status == CUBLAS_STATUS_ALLOC_FAILED ? REDCO_ENOMEM : REDCO_ESYSTEM, place, "%s: %s (%s)",
                      call, name == NULL ? "an unknown status" : name, text == NULL ? "" : text);
}

static cudaDataType_t data_type(const redcoi_product *p)
{
    switch ((redco_dtype)p->dtype) {
    case REDCO_F64: return CUDA_R_64F;
    case REDCO_BFLOAT16: return CUDA_R_16BF;
    case REDCO_F16: return CUDA_R_16F;
    default: return CUDA_R_32F;
    }
}

static bool is_half(const redcoi_product *p)
{
    return p->dtype == REDCO_BFLOAT16 || p->dtype == REDCO_F16;
}

static cublasComputeType_t compute_type(const redcoi_product *p, bool tf32)
{
    if (p->dtype == REDCO_F64) { return CUBLAS_COMPUTE_64F; }
    return p->dtype == REDCO_F32 && tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

static cublasStatus_t set(const redcoi_blas *blas, cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t what,
                          const void *value, size_t size)
{
    return blas->calls.MatmulDescSetAttribute(operation, what, value, size);
}

static bool reads_bias(uint32_t epilogue)
{
    return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
}

static bool writes_bias_gradient(uint32_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/** GELU's with a second matrix. */
static bool has_matrix(uint32_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           epilogue == CUBLASLT_EPILOGUE_DGELU;
}

static cublasStatus_t set_pointer(const redcoi_blas *blas, const redcoi_blas_plan *plan,
                                  cublasLtMatmulDescAttributes_t what, const void *address)
{
    return set(blas, plan->operation, what, &address, sizeof address);
}

/* The heuristic does not follow pointers, but takes their alignment from them. */
static cublasStatus_t describe_epilogue(const redcoi_blas *blas, const redcoi_blas_plan *plan)
{
    const redcoi_product *const p = &plan->product;
    const int64_t leading = (int64_t)p->n;
    const void *const aligned = (const void *)(uintptr_t)p->alignment_bytes;
    cublasStatus_t st = set(blas, plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof p->epilogue);
    if (st == CUBLAS_STATUS_SUCCESS && (reads_bias(p->epilogue) || writes_bias_gradient(p->epilogue))) {
        st = set_pointer(blas, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, aligned);
    }
    if (st == CUBLAS_STATUS_SUCCESS && has_matrix(p->epilogue)) {
        st = set_pointer(blas, plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aligned);
        if (st != CUBLAS_STATUS_SUCCESS) { return st; }
        st = set(blas, plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &leading, sizeof leading);
    }
    return st;
}

static cublasStatus_t describe_operation(const redcoi_blas *blas, redcoi_blas_plan *plan, bool tf32)
{
    const redcoi_product *const p = &plan->product;
    const int32_t of_a = (p->transposes & REDCO_FLAG_TRANSPOSE_B) != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t of_b = (p->transposes & REDCO_FLAG_TRANSPOSE_A) != 0 ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t st = blas->calls.MatmulDescCreate(&plan->operation, compute_type(p, tf32),
                                                     p->dtype == REDCO_F64 ? CUDA_R_64F : CUDA_R_32F);
    if (st == CUBLAS_STATUS_SUCCESS) {
        st = set(blas, plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &of_a, sizeof of_a);
    }
    if (st == CUBLAS_STATUS_SUCCESS) {
        st = set(blas, plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &of_b, sizeof of_b);
    }
    return st == CUBLAS_STATUS_SUCCESS ? describe_epilogue(blas, plan) : st;
}

/** @p rows x @p columns as stored, row-major. */
static cublasStatus_t describe_matrix(const redcoi_blas *blas, const redcoi_product *p, uint64_t rows, uint64_t columns,
                                      uint64_t stride, cublasLtMatrixLayout_t *layout_out)
{
    const int32_t count = (int32_t)p->count;
    const int64_t elements = (int64_t)stride;
    cublasStatus_t st = blas->calls.MatrixLayoutCreate(layout_out, data_type(p), columns, rows, (int64_t)columns);
    if (st != CUBLAS_STATUS_SUCCESS || count == 1) { return st; }
    st = blas->calls.MatrixLayoutSetAttribute(*layout_out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (st != CUBLAS_STATUS_SUCCESS) { return st; }
    return blas->calls.MatrixLayoutSetAttribute(*layout_out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &elements,
                                                sizeof elements);
}

static cublasStatus_t describe_matrices(const redcoi_blas *blas, redcoi_blas_plan *plan)
{
    const redcoi_product *const p = &plan->product;
    const bool ta = (p->transposes & REDCO_FLAG_TRANSPOSE_A) != 0, tb = (p->transposes & REDCO_FLAG_TRANSPOSE_B) != 0;
    cublasStatus_t st = describe_matrix(blas, p, ta ? p->k : p->m, ta ? p->m : p->k, p->stride_a, &plan->a);
    if (st == CUBLAS_STATUS_SUCCESS) {
        st = describe_matrix(blas, p, tb ? p->n : p->k, tb ? p->k : p->n, p->stride_b, &plan->b);
    }
    return st == CUBLAS_STATUS_SUCCESS ? describe_matrix(blas, p, p->m, p->n, p->stride_c, &plan->c) : st;
}

/* Partial sums of 16-bit results are kept in f32: adding them up in the result's type, which cuBLASLt may do otherwise,
 * would not be accumulation in f32. */
static cublasStatus_t describe_wish(const redcoi_blas *blas, const redcoi_product *p,
                                    cublasLtMatmulPreference_t *wish_out)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[4] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint32_t reductions = is_half(p) ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE : CUBLASLT_REDUCTION_SCHEME_MASK;
    cublasStatus_t st = blas->calls.MatmulPreferenceCreate(wish_out);
    if (st != CUBLAS_STATUS_SUCCESS) { return st; }
    st = blas->calls.MatmulPreferenceSetAttribute(*wish_out, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                  &blas->workspace_bytes, sizeof blas->workspace_bytes);
    if (st == CUBLAS_STATUS_SUCCESS) {
        st = blas->calls.MatmulPreferenceSetAttribute(*wish_out, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                      &reductions, sizeof reductions);
    }
    for (uint32_t i = 0; i < 4 && st == CUBLAS_STATUS_SUCCESS; i++) {
        st = blas->calls.MatmulPreferenceSetAttribute(*wish_out, alignments[i], &p->alignment_bytes,
                                                      sizeof p->alignment_bytes);
    }
    return st;
}

/* Fastest first, by the heuristic's estimate. What it marks as unusable, or needs more workspace than there will be, is
 * left out. */
static void keep_usable(const redcoi_blas *blas, redcoi_blas_plan *plan, int count)
{
    uint32_t kept = 0;
    for (int i = 0; i < count; i++) {
        if (plan->candidates[i].state != CUBLAS_STATUS_SUCCESS ||
            plan->candidates[i].workspaceSize > blas->workspace_bytes) {
            continue;
        }
        plan->candidates[kept++] = plan->candidates[i];
    }
    plan->candidate_count = kept;
}

static redco_status choose(redcoi_blas *blas, redcoi_blas_plan *plan, redco_error *err)
{
    cublasLtMatmulPreference_t wish = NULL;
    int count = 0;
    cublasStatus_t st = describe_wish(blas, &plan->product, &wish);
    if (st != CUBLAS_STATUS_SUCCESS) { goto out; }
    blas->queries++;
    plan->status = blas->calls.MatmulAlgoGetHeuristic(blas->handle, plan->operation, plan->b, plan->a, plan->c, plan->c,
                                                      wish, REDCOI_BLAS_CANDIDATES, plan->candidates, &count);
    if (plan->status == CUBLAS_STATUS_SUCCESS) { keep_usable(blas, plan, count); }
    if (plan->status == CUBLAS_STATUS_SUCCESS && plan->candidate_count == 0) {
        plan->status = CUBLAS_STATUS_NOT_SUPPORTED;
    }
out:
    if (wish != NULL) { (void)blas->calls.MatmulPreferenceDestroy(wish); }
    return redcoi_blas_check(blas, st, "cuda", "cublasLtMatmulPreferenceSetAttribute", err);
}

static redco_status make(redcoi_blas *blas, const redcoi_product *product, bool tf32, redcoi_blas_plan **plan_out,
                         redco_error *err)
{
    redcoi_blas_plan *plan = calloc(1, sizeof *plan);
    redco_status st = REDCO_OK;
    if (plan == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "no memory for the plan of a product"); }
    plan->product = *product;
    st = redcoi_blas_check(blas, describe_operation(blas, plan, tf32), "cuda", "cublasLtMatmulDescSetAttribute", err);
    if (st != REDCO_OK) { goto out; }
    st = redcoi_blas_check(blas, describe_matrices(blas, plan), "cuda", "cublasLtMatrixLayoutSetAttribute", err);
    if (st != REDCO_OK) { goto out; }
    if ((st = choose(blas, plan, err)) != REDCO_OK) { goto out; }
    *plan_out = plan;
    plan = NULL;
out:
    redcoi_blas_plan_free(blas, plan);
    return st;
}

void redcoi_blas_plan_free(const redcoi_blas *blas, redcoi_blas_plan *plan)
{
    if (plan == NULL) { return; }
    if (plan->operation != NULL) { (void)blas->calls.MatmulDescDestroy(plan->operation); }
    if (plan->a != NULL) { (void)blas->calls.MatrixLayoutDestroy(plan->a); }
    if (plan->b != NULL) { (void)blas->calls.MatrixLayoutDestroy(plan->b); }
    if (plan->c != NULL) { (void)blas->calls.MatrixLayoutDestroy(plan->c); }
    free(plan);
}

_Static_assert(sizeof(redcoi_product) == 7 * 8 + 6 * 4, "no padding that a hash would see");

/* FNV-1a by words, then Fibonacci's multiplier: the low bits of products differ in high bits only. */
static uint64_t hash(const redcoi_product *product)
{
    uint64_t words[sizeof *product / sizeof(uint64_t)], h = UINT64_C(14695981039346656037);
    memcpy(words, product, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) { h = (h ^ words[i]) * UINT64_C(1099511628211); }
    return (h * UINT64_C(11400714819323198485)) >> 32;
}

/** Where it is, or the empty entry where it belongs; the table has one. */
static redcoi_blas_plan **entry(redcoi_blas_plan **plans, uint32_t room, const redcoi_product *product)
{
    uint64_t at = hash(product) & (room - 1);
    while (plans[at] != NULL && memcmp(&plans[at]->product, product, sizeof *product) != 0) {
        at = (at + 1) & (room - 1);
    }
    return &plans[at];
}

static redco_status grow(redcoi_blas *blas, redco_error *err)
{
    const uint32_t room = blas->plan_room == 0 ? 128 : 2 * blas->plan_room;
    if (blas->plan_count < blas->plan_room / 2) { return REDCO_OK; }
    redcoi_blas_plan **const plans = calloc(room, sizeof *plans);
    if (plans == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "no memory for the plans of products"); }
    for (uint32_t i = 0; i < blas->plan_room; i++) {
        if (blas->plans[i] != NULL) { *entry(plans, room, &blas->plans[i]->product) = blas->plans[i]; }
    }
    free(blas->plans);
    blas->plans = plans;
    blas->plan_room = room;
    return REDCO_OK;
}

redco_status redcoi_blas_plan_find(redcoi_blas *blas, const redcoi_product *product, bool tf32,
                                   redcoi_blas_plan **plan_out, redco_error *err)
{
    blas->lookups++;
    redco_status st = grow(blas, err);
    if (st != REDCO_OK) { return st; }
    redcoi_blas_plan **const at = entry(blas->plans, blas->plan_room, product);
    if (*at == NULL) {
        if ((st = make(blas, product, tf32, at, err)) != REDCO_OK) { return st; }
        blas->plan_count++;
    }
    *plan_out = *at;
    return REDCO_OK;
}

redco_status redcoi_blas_epilogue(const redcoi_blas *blas, const redcoi_blas_plan *plan, const redcoi_operands *with,
                                  const char *place, redco_error *err)
{
    const redco_tensor *const vector = with->bias != NULL ? with->bias : with->bias_gradient;
    const redco_tensor *const matrix = with->before != NULL ? with->before : with->before_out;
    cublasStatus_t st = CUBLAS_STATUS_SUCCESS;
    if (vector != NULL) { st = set_pointer(blas, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector->data); }
    if (matrix != NULL && st == CUBLAS_STATUS_SUCCESS) {
        st = set_pointer(blas, plan, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, matrix->data);
    }
    return redcoi_blas_check(blas, st, place, "cublasLtMatmulDescSetAttribute", err);
}

cublasStatus_t redcoi_blas_call(const redcoi_blas *blas, const redcoi_blas_plan *plan, uint32_t which,
                                const redcoi_blas_place *at, void *workspace, CUstream stream)
{
    static const float one_f32 = 1.0F, zero_f32 = 0.0F;
    static const double one_f64 = 1.0, zero_f64 = 0.0;
    const bool wide = plan->product.dtype == REDCO_F64;
    const void *const one = wide ? (const void *)&one_f64 : (const void *)&one_f32;
    const void *const zero = wide ? (const void *)&zero_f64 : (const void *)&zero_f32;
    const void *const addend = at->addend != NULL ? at->addend : at->result;
    return blas->calls.Matmul(blas->handle, plan->operation, one, at->b, plan->b, at->a, plan->a,
                              at->addend != NULL ? one : zero, addend, plan->c, at->result, plan->c,
                              &plan->candidates[which].algo, workspace, blas->workspace_bytes, stream);
}
