/** @file kernels.h  The kernels of the host. Those on real numbers are compiled twice, for float and double (real.h).
 */
#ifndef REDCO_HOST_KERNELS_H
#define REDCO_HOST_KERNELS_H

#include "executor/backend/backend.h"

/** @return REDCO_EVALUE with a text if data (an index) is out of range */
typedef redco_status (*redcoi_kernel)(const redco_launch *launch, redco_error *err);

extern const redcoi_kernel redcoi_kernels_f32[REDCO_OP_COUNT]; /**< NULL: not a kernel on real numbers */
extern const redcoi_kernel redcoi_kernels_f64[REDCO_OP_COUNT];

/** The workspace that a kernel on real numbers itself needs; element_bytes of the type it computes in. */
uint64_t redcoi_kernel_workspace_bytes(const redco_launch *launch, uint64_t element_bytes);

/* Kernels that move elements of any type, or compute with i32 and bool. */
redco_status redcoi_host_constant(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_iota(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_copy(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_cast(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_strided(const redco_launch *launch, redco_error *err); /**< transpose, broadcast, slice */
redco_status redcoi_host_pad(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_concat(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_gather(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_select(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_logic(const redco_launch *launch, redco_error *err);
redco_status redcoi_host_integer(const redco_launch *launch, redco_error *err); /**< arithmetic and comparison */

redco_status redcoi_host_pointwise(const redco_launch *launch, redco_error *err);

/* Rows of elementwise operators: what the operators themselves and programs of them run. */
void redcoi_unary_row_f32(redco_op_kind kind, uint64_t n, const float *a, float scalar, float *out);
void redcoi_unary_row_f64(redco_op_kind kind, uint64_t n, const double *a, double scalar, double *out);
/** @param out  uint8_t of comparisons */
void redcoi_binary_row_f32(redco_op_kind kind, uint64_t n, const float *a, const float *b, void *out);
void redcoi_binary_row_f64(redco_op_kind kind, uint64_t n, const double *a, const double *b, void *out);
int32_t redcoi_integer_result(redco_op_kind kind, int32_t a, int32_t b);

/** Elements as double and back, rounding to nearest even; integers saturate, not-a-number becomes 0. */
void redcoi_load_f64(redco_dtype dtype, const void *from, uint64_t count, double *to);
void redcoi_store_f64(redco_dtype dtype, const double *from, uint64_t count, void *to);
/** BF16 or F16 to float and back. */
void redcoi_widen(redco_dtype dtype, const uint16_t *from, uint64_t count, float *to);
void redcoi_narrow(redco_dtype dtype, const float *from, uint64_t count, uint16_t *to);

/** C = alpha A' B' + beta C for row-major matrices: C is m x n, A' m x k. @return REDCO_EVALUE beyond 2^31 - 1 */
typedef struct redcoi_gemm {
    bool transpose_a, transpose_b;
    uint64_t m, n, k;
    uint64_t row_a, row_b, row_c; /**< elements from a row as stored to the next */
    double alpha, beta;
    const void *a, *b;
    void *c;
} redcoi_gemm;
redco_status redcoi_gemm_f32(const redcoi_gemm *g, redco_error *err);
redco_status redcoi_gemm_f64(const redcoi_gemm *g, redco_error *err);
void redcoi_blas_threads(int threads);

/** A block of four 32-bit words (Philox4x32-10, Salmon et al., SC 2011). */
void redcoi_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t words_out[4]);

/** Row of an index; @return whether it is inside [0, rows). */
static inline bool redcoi_row(int32_t index, int64_t offset, uint64_t rows, uint64_t *row_out)
{
    const int64_t row = (int64_t)index - offset;
    *row_out = (uint64_t)row;
    return row >= 0 && (uint64_t)row < rows;
}

/** @return REDCO_EVALUE unless an index outside of the @p rows from the offset on is one to skip */
redco_status redcoi_skip_index(const redco_launch *launch, int32_t index, uint64_t rows, redco_error *err);

/** Walks over a tensor in rows of the last dimension, with where the row of each operand begins; neighbouring
 * dimensions that all operands treat alike are one. */
enum { REDCOI_WALK_OPERANDS = 3 };
typedef struct redcoi_walk {
    uint32_t rank, operands;
    uint64_t dim[REDCO_RANK_MAX];
    uint64_t stride[REDCOI_WALK_OPERANDS][REDCO_RANK_MAX]; /**< elements */
    uint64_t at[REDCO_RANK_MAX];
    uint64_t first[REDCOI_WALK_OPERANDS]; /**< element where the operand's row begins */
    uint64_t done;                        /**< elements of the walked tensor before this row */
    uint64_t count;                       /**< elements of a row */
} redcoi_walk;

/** @param stride  one row of strides per operand, in elements, for each dimension of @p type */
void redcoi_walk_begin(redcoi_walk *walk, const redco_tensor_type *type, uint64_t (*stride)[REDCO_RANK_MAX],
                       uint32_t operands);
/** To the next row. @return false after the last */
bool redcoi_walk_next(redcoi_walk *walk);
/** Strides of a dense tensor; with @p repeat, those of dimensions of 1 are 0. */
void redcoi_strides(const redco_tensor_type *type, bool repeat, uint64_t stride[REDCO_RANK_MAX]);
/** A walk over the output with inputs first.. of a launch repeated to it. */
void redcoi_walk_inputs(redcoi_walk *walk, const redco_launch *launch);

#endif
