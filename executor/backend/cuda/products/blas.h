/** @file blas.h  Shared by the files about cuBLASLt's products: an operator seen as matrix products, and how each of
 *  them is computed.
 *
 *  A tensor is row-major, a matrix of cuBLASLt column-major: the memory of C [m, n] is that of C' = C^T, n x m with
 *  leading dimension n, and C = op(A) op(B) is C' = op(B)' op(A)'. So cuBLASLt's A is the operator's b and its B the
 *  operator's a, each transposed where the operator's is, its rows are n, its columns m, and a vector as long as a row
 *  of C (a bias) is one as long as its columns, which is what its epilogues take.
 *
 *  With weights [in, out]: forward x W is NN, the input's gradient dy W^T is TN, the weight's gradient x^T dy is NT.
 * The tensor cores of compute capability 8 and 9 read 16-bit operands in either order (ldmatrix.trans; wgmma's
 * transposed shared memory operands are for f16 and bf16 alone: PTX ISA, wgmma.mma_async), so none of the three costs a
 * copy.
 *
 *  Design on an H200 (989 TFLOP/s bf16, 4.8 TB/s): products of at least some 620 in each dimension are bound by
 *  computation (2 n^3 / 989e12 > 6 n^2 / 4.8e12 from n = 618 on), so all large ones of language models are. Tiles that
 *  fill whole waves of 132 multiprocessors should reach 0.75 to 0.80 of that rate (the best of shape searches on H100
 *  and H200 is 795 TFLOP/s: S. Bekman, Machine Learning Engineering, 2026), products of few tiles less. One launch an
 *  operator, epilogue included; the host's part of it is a hash of 80 bytes and one call. Measured on one H200: 833
 * TFLOP/s in bursts at best, 0.84 of the data sheet's; at the power limit, where large models are, 1.07 to 1.13 of that
 * time.
 */
#ifndef REDCO_CUDA_BLAS_H
#define REDCO_CUDA_BLAS_H

#include "executor/backend/cuda/cuda_internal.h"

#include <cublasLt.h>

/** By their own names, without the prefix. */
typedef struct redcoi_blas_calls {
    __typeof__(&cublasLtCreate) Create;
    __typeof__(&cublasLtDestroy) Destroy;
    __typeof__(&cublasLtGetVersion) GetVersion;
    __typeof__(&cublasLtGetStatusName) GetStatusName;
    __typeof__(&cublasLtGetStatusString) GetStatusString;
    __typeof__(&cublasLtMatmulDescCreate) MatmulDescCreate;
    __typeof__(&cublasLtMatmulDescDestroy) MatmulDescDestroy;
    __typeof__(&cublasLtMatmulDescSetAttribute) MatmulDescSetAttribute;
    __typeof__(&cublasLtMatrixLayoutCreate) MatrixLayoutCreate;
    __typeof__(&cublasLtMatrixLayoutDestroy) MatrixLayoutDestroy;
    __typeof__(&cublasLtMatrixLayoutSetAttribute) MatrixLayoutSetAttribute;
    __typeof__(&cublasLtMatmulPreferenceCreate) MatmulPreferenceCreate;
    __typeof__(&cublasLtMatmulPreferenceDestroy) MatmulPreferenceDestroy;
    __typeof__(&cublasLtMatmulPreferenceSetAttribute) MatmulPreferenceSetAttribute;
    __typeof__(&cublasLtMatmulAlgoGetHeuristic) MatmulAlgoGetHeuristic;
    __typeof__(&cublasLtMatmul) Matmul;
} redcoi_blas_calls;

/** All that an algorithm is chosen by: equal products have one plan. Plain bytes without padding, compared as such. */
typedef struct redcoi_product {
    uint64_t m, n, k;                      /**< C [m, n] = op(A) [m, k] op(B) [k, n], row-major */
    uint64_t count;                        /**< matrices of one call */
    uint64_t stride_a, stride_b, stride_c; /**< elements from one to the next; 0: the same for all */
    uint32_t dtype;
    uint32_t epilogue; /**< cublasLtEpilogue_t */
    uint32_t transposes;
    uint32_t addend; /**< 1: C is added to a tensor */
    uint32_t alignment_bytes;
    uint32_t zero;
} redcoi_product;

/** Products of one operator that one call cannot have: as many calls as the dimensions' product. */
typedef struct redcoi_configuration {
    uint32_t rank;
    uint64_t dim[REDCO_RANK_MAX];
    uint64_t stride[3][REDCO_RANK_MAX]; /**< elements of a, b and c from one call to the next */
} redcoi_configuration;

/** Which tensor of a launch is what; NULL where there is none. */
typedef struct redcoi_operands {
    const redco_tensor *a, *b, *addend, *bias, *before; /**< before: what an activation was given */
    const redco_tensor *result, *before_out, *bias_gradient;
} redcoi_operands;

/** Algorithms that are timed: the heuristic's first. */
enum { REDCOI_BLAS_CANDIDATES = 8 };

typedef struct redcoi_blas_plan {
    redcoi_product product;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c; /**< the operator's; the result has the addend's layout */
    cublasStatus_t status;          /**< why there is no algorithm */
    uint32_t candidate_count;       /**< 0: there is none */
    uint32_t chosen;
    bool tuned;
    cublasLtMatmulHeuristicResult_t candidates[REDCOI_BLAS_CANDIDATES];
} redcoi_blas_plan;

/** One handle's, so one thread's. */
struct redcoi_blas {
    void *library;
    redcoi_blas_calls calls;
    cublasLtHandle_t handle;
    redcoi_blas_plan **plans; /**< open addressing by hash of the product; NULL is empty */
    uint32_t plan_count, plan_room;
    uint64_t workspace_bytes;
    uint64_t queries; /**< to the heuristic: as many as there are different products */
    uint64_t lookups;
};

/** One call: where its matrices lie. */
typedef struct redcoi_blas_place {
    const void *a, *b, *addend; /**< addend: NULL if there is none */
    void *result;
} redcoi_blas_place;

/* blas_product.c: operators as products; pure */

redcoi_operands redcoi_operands_of(const redco_launch *launch);
/** @return false if cuBLASLt is not asked for such an operator: other types or kinds, dimensions beyond 2^31 - 1 */
bool redcoi_product_of(const redco_launch *launch, redcoi_product *product_out,
                       redcoi_configuration *configuration_out);
/** Bytes of one element of its matrices. */
uint32_t redcoi_product_bytes(const redcoi_product *product);

/* blas_plan.c: how a product is computed */

/** The plan of @p product, made when it is met first. @return REDCO_OK also for a plan without an algorithm */
redco_status redcoi_blas_plan_find(redcoi_blas *blas, const redcoi_product *product, bool tf32,
                                   redcoi_blas_plan **plan_out, redco_error *err);
void redcoi_blas_plan_free(const redcoi_blas *blas, redcoi_blas_plan *plan);
redco_status redcoi_blas_check(const redcoi_blas *blas, cublasStatus_t status, const char *place, const char *call,
                               redco_error *err);
/** Queues one call by candidate @p which. */
cublasStatus_t redcoi_blas_call(const redcoi_blas *blas, const redcoi_blas_plan *plan, uint32_t which,
                                const redcoi_blas_place *at, void *workspace, CUstream stream);
/** The vectors and matrices that the epilogue reads and writes, for the calls that follow. */
redco_status redcoi_blas_epilogue(const redcoi_blas *blas, const redcoi_blas_plan *plan, const redcoi_operands *with,
                                  const char *place, redco_error *err);

/* blas_tune.c */

/** Times the plan's candidates on @p stream, which it waits for, and chooses the fastest. Nothing but @p at's result,
 *  which is written anyhow, and the workspace is touched; a result that is also an addend is put elsewhere meanwhile.
 */
redco_status redcoi_blas_tune(redcoi_cuda *cuda, redco_device_stream *stream, redcoi_blas_plan *plan,
                              const redcoi_blas_place *at, void *workspace, const char *place, redco_error *err);

#endif
