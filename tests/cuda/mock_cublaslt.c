/* Handles and descriptors of the mock library for libcublasLt.so.13: every attribute has the size that cublasLt.h gives
 * it.
 */
#include "tests/cuda/mock_cublaslt.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static blas_object *alive;

static const uint8_t operation_sizes[BLAS_ATTRIBUTES] = {
    [CUBLASLT_MATMUL_DESC_COMPUTE_TYPE] = 4,
    [CUBLASLT_MATMUL_DESC_SCALE_TYPE] = 4,
    [CUBLASLT_MATMUL_DESC_POINTER_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_TRANSA] = 4,
    [CUBLASLT_MATMUL_DESC_TRANSB] = 4,
    [CUBLASLT_MATMUL_DESC_TRANSC] = 4,
    [CUBLASLT_MATMUL_DESC_FILL_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_EPILOGUE] = 4,
    [CUBLASLT_MATMUL_DESC_BIAS_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE] = 8,
    [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD] = 8,
    [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE] = 8,
    [CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE] = 8,
    [CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET] = 4,
    [CUBLASLT_MATMUL_DESC_A_SCALE_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_B_SCALE_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_C_SCALE_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_D_SCALE_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_AMAX_D_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE] = 4,
    [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_AMAX_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_FAST_ACCUM] = 1,
    [CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE] = 4,
    [CUBLASLT_MATMUL_DESC_A_SCALE_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_B_SCALE_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_C_SCALE_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_D_SCALE_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_SCALE_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_D_OUT_SCALE_POINTER] = 8,
    [CUBLASLT_MATMUL_DESC_D_OUT_SCALE_MODE] = 4,
    [CUBLASLT_MATMUL_DESC_EMULATION_DESCRIPTOR] = 8,
};

static const uint8_t layout_sizes[BLAS_ATTRIBUTES] = {
    [CUBLASLT_MATRIX_LAYOUT_TYPE] = 4,
    [CUBLASLT_MATRIX_LAYOUT_ORDER] = 4,
    [CUBLASLT_MATRIX_LAYOUT_ROWS] = 8,
    [CUBLASLT_MATRIX_LAYOUT_COLS] = 8,
    [CUBLASLT_MATRIX_LAYOUT_LD] = 8,
    [CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] = 4,
    [CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET] = 8,
    [CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET] = 8,
    [CUBLASLT_MATRIX_LAYOUT_BATCH_MODE] = 4,
};

static const uint8_t preference_sizes[BLAS_ATTRIBUTES] = {
    [CUBLASLT_MATMUL_PREF_SEARCH_MODE] = 4,
    [CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES] = 8,
    [CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] = 4,
    [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES] = 4,
    [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES] = 4,
    [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES] = 4,
    [CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES] = 4,
    [CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT] = 4,
    [CUBLASLT_MATMUL_PREF_IMPL_MASK] = 8,
};

static const uint8_t *sizes_of(blas_kind kind)
{
    return kind == BLAS_OPERATION ? operation_sizes : kind == BLAS_LAYOUT ? layout_sizes : preference_sizes;
}

blas_object *blas_find(const void *pointer, blas_kind kind)
{
    static const char *const names[] = {"", "handle", "operation", "layout", "preference"};
    (void)pthread_mutex_lock(&lock);
    blas_object *at = alive;
    while (at != NULL && (at != pointer || at->kind != kind)) { at = at->next; }
    (void)pthread_mutex_unlock(&lock);
    if (at == NULL) { mock_complain("cublasLt: %p is no live %s", pointer, names[kind]); }
    return at;
}

static blas_object *make(blas_kind kind)
{
    blas_object *const made = calloc(1, sizeof *made);
    if (made == NULL) { return NULL; }
    made->kind = kind;
    (void)pthread_mutex_lock(&lock);
    made->next = alive;
    alive = made;
    (void)pthread_mutex_unlock(&lock);
    return made;
}

/* The library takes NULL. */
static cublasStatus_t destroy(void *pointer, blas_kind kind)
{
    if (pointer == NULL) { return CUBLAS_STATUS_SUCCESS; }
    (void)pthread_mutex_lock(&lock);
    blas_object **at = &alive;
    while (*at != NULL && (*at != pointer || (*at)->kind != kind)) { at = &(*at)->next; }
    blas_object *const found = *at;
    if (found != NULL) { *at = found->next; }
    (void)pthread_mutex_unlock(&lock);
    if (found == NULL) {
        mock_complain("cublasLt: %p is destroyed twice, or was never made", pointer);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    free(found);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *pointer, blas_kind kind, int attribute, const void *value, size_t size)
{
    blas_object *const object = blas_find(pointer, kind);
    if (object == NULL || value == NULL || attribute < 0 || attribute >= BLAS_ATTRIBUTES ||
        sizes_of(kind)[attribute] == 0 || size != sizes_of(kind)[attribute]) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    object->attributes[attribute] = 0;
    memcpy(&object->attributes[attribute], value, size);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t get(void *pointer, blas_kind kind, int attribute, void *value, size_t size, size_t *written)
{
    blas_object *const object = blas_find(pointer, kind);
    if (object == NULL || attribute < 0 || attribute >= BLAS_ATTRIBUTES || sizes_of(kind)[attribute] == 0 ||
        (size == 0 && written == NULL) || (size != 0 && (value == NULL || size != sizes_of(kind)[attribute]))) {
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (size != 0) { memcpy(value, &object->attributes[attribute], size); }
    if (written != NULL) { *written = sizes_of(kind)[attribute]; }
    return CUBLAS_STATUS_SUCCESS;
}

static void put(blas_object *object, int attribute, int64_t value, size_t size)
{
    object->attributes[attribute] = 0;
    memcpy(&object->attributes[attribute], &value, size); /* little-endian, as CUDA's hosts are */
}

int32_t blas_i32(const blas_object *object, int attribute)
{
    int32_t value = 0;
    memcpy(&value, &object->attributes[attribute], sizeof value);
    return value;
}

int64_t blas_i64(const blas_object *object, int attribute)
{
    int64_t value = 0;
    memcpy(&value, &object->attributes[attribute], sizeof value);
    return value;
}

void *blas_pointer(const blas_object *object, int attribute)
{
    void *value = NULL;
    memcpy(&value, &object->attributes[attribute], sizeof value);
    return value;
}

/* A handle is of the current context's device. */
EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *lightHandle)
{
    CUcontext context = NULL;
    if (lightHandle == NULL) { return CUBLAS_STATUS_INVALID_VALUE; }
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == NULL) {
        mock_complain("cublasLtCreate: no context is current");
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    blas_object *const made = make(BLAS_HANDLE);
    *lightHandle = (cublasLtHandle_t)(void *)made;
    return made == NULL ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t lightHandle)
{
    if (blas_find(lightHandle, BLAS_HANDLE) == NULL) { return CUBLAS_STATUS_NOT_INITIALIZED; }
    return destroy(lightHandle, BLAS_HANDLE);
}

EXPORT size_t cublasLtGetVersion(void)
{
    return 130100;
}

EXPORT const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH: return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
    }
}

EXPORT const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "an error of the mock library";
}

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *matmulDesc, cublasComputeType_t computeType,
                                               cudaDataType_t scaleType)
{
    if (matmulDesc == NULL) { return CUBLAS_STATUS_INVALID_VALUE; }
    blas_object *const made = make(BLAS_OPERATION);
    *matmulDesc = (cublasLtMatmulDesc_t)(void *)made;
    if (made == NULL) { return CUBLAS_STATUS_ALLOC_FAILED; }
    put(made, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, computeType, 4);
    put(made, CUBLASLT_MATMUL_DESC_SCALE_TYPE, scaleType, 4);
    put(made, CUBLASLT_MATMUL_DESC_FILL_MODE, CUBLAS_FILL_MODE_FULL, 4);
    put(made, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT, 4);
    put(made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, -1, 4);
    put(made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, -1, 4);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t matmulDesc)
{
    return destroy(matmulDesc, BLAS_OPERATION);
}

EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                                     cublasLtMatmulDescAttributes_t attr, const void *buf,
                                                     size_t sizeInBytes)
{
    return set(matmulDesc, BLAS_OPERATION, (int)attr, buf, sizeInBytes);
}

EXPORT cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t matmulDesc,
                                                     cublasLtMatmulDescAttributes_t attr, void *buf, size_t sizeInBytes,
                                                     size_t *sizeWritten)
{
    return get(matmulDesc, BLAS_OPERATION, (int)attr, buf, sizeInBytes, sizeWritten);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *matLayout, cudaDataType type, uint64_t rows,
                                                 uint64_t cols, int64_t ld)
{
    if (matLayout == NULL) { return CUBLAS_STATUS_INVALID_VALUE; }
    blas_object *const made = make(BLAS_LAYOUT);
    *matLayout = (cublasLtMatrixLayout_t)(void *)made;
    if (made == NULL) { return CUBLAS_STATUS_ALLOC_FAILED; }
    put(made, CUBLASLT_MATRIX_LAYOUT_TYPE, type, 4);
    put(made, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL, 4);
    put(made, CUBLASLT_MATRIX_LAYOUT_ROWS, (int64_t)rows, 8);
    put(made, CUBLASLT_MATRIX_LAYOUT_COLS, (int64_t)cols, 8);
    put(made, CUBLASLT_MATRIX_LAYOUT_LD, ld, 8);
    put(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1, 4);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t matLayout)
{
    return destroy(matLayout, BLAS_LAYOUT);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t matLayout,
                                                       cublasLtMatrixLayoutAttribute_t attr, const void *buf,
                                                       size_t sizeInBytes)
{
    return set(matLayout, BLAS_LAYOUT, (int)attr, buf, sizeInBytes);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t matLayout,
                                                       cublasLtMatrixLayoutAttribute_t attr, void *buf,
                                                       size_t sizeInBytes, size_t *sizeWritten)
{
    return get(matLayout, BLAS_LAYOUT, (int)attr, buf, sizeInBytes, sizeWritten);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    if (pref == NULL) { return CUBLAS_STATUS_INVALID_VALUE; }
    blas_object *const made = make(BLAS_PREFERENCE);
    *pref = (cublasLtMatmulPreference_t)(void *)made;
    if (made == NULL) { return CUBLAS_STATUS_ALLOC_FAILED; }
    put(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_MASK, 4);
    put(made, CUBLASLT_MATMUL_PREF_IMPL_MASK, -1, 8);
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++) {
        put(made, i, 256, 4);
    }
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    return destroy(pref, BLAS_PREFERENCE);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                           cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
                                                           size_t sizeInBytes)
{
    return set(pref, BLAS_PREFERENCE, (int)attr, buf, sizeInBytes);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t pref,
                                                           cublasLtMatmulPreferenceAttributes_t attr, void *buf,
                                                           size_t sizeInBytes, size_t *sizeWritten)
{
    return get(pref, BLAS_PREFERENCE, (int)attr, buf, sizeInBytes, sizeWritten);
}

/** @return the number of objects that the program has not destroyed; for tests, found by dlsym(). */
EXPORT size_t mock_cublaslt_alive(void);
EXPORT size_t mock_cublaslt_alive(void)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&lock);
    for (const blas_object *at = alive; at != NULL; at = at->next) { count++; }
    (void)pthread_mutex_unlock(&lock);
    return count;
}
