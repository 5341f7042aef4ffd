/** @file kernels_internal.h  Shared by kernels.c and its topics: work to be queued, shapes of operands, grids. */
#ifndef REDCO_CUDA_KERNELS_INTERNAL_H
#define REDCO_CUDA_KERNELS_INTERNAL_H

#include "executor/backend/cuda/cuda_internal.h"
#include "executor/backend/cuda/kernels/arguments.h"

typedef struct redcoi_work {
    redcoi_cuda *cuda;
    redco_device_stream *stream;
    const redco_launch *launch;
    redco_error *err;
} redcoi_work;

/** @param blocks  beyond what keeps the device busy they are fewer: every kernel goes on where its grid ends.
 *  @param format  of the kernel's name */
__attribute__((format(printf, 6, 7))) redco_status redcoi_work_launch(const redcoi_work *work, uint64_t blocks,
                                                                      uint32_t threads, uint32_t shared_bytes,
                                                                      const void *arguments, const char *format, ...);

redcoi_divisor redcoi_divisor_of(uint64_t divisor);
uint64_t redcoi_pieces(uint64_t count, uint64_t size); /**< pieces of @p size elements; the last may be smaller */
bool redcoi_is_aligned(const void *memory, uint64_t bytes);
/** A power of two of threads for @p items, from 32 to @p most. */
uint32_t redcoi_threads_for(uint64_t items, uint32_t most);

/** Dimensions of a tensor that is walked, with the strides of operands; neighbours that all treat alike are one, none
 *  is 1 unless it is alone. */
enum { REDCOI_SHAPE_OPERANDS = 8 };
typedef struct redcoi_shape {
    uint32_t rank, operands;
    uint64_t dim[REDCO_RANK_MAX];
    uint64_t stride[REDCOI_SHAPE_OPERANDS][REDCO_RANK_MAX];
} redcoi_shape;
void redcoi_shape_make(redcoi_shape *shape, const redco_tensor_type *type, uint64_t (*stride)[REDCO_RANK_MAX],
                       uint32_t operands);
/** Strides of a dense tensor; with @p repeat, those of dimensions of 1 are 0. */
void redcoi_dense_strides(const redco_tensor_type *type, bool repeat, uint64_t stride[REDCO_RANK_MAX]);

/** Elements of @p element_bytes that are moved as one, at most 16 bytes: the most that divides all of @p numbers. */
uint64_t redcoi_widest(uint64_t element_bytes, const uint64_t *numbers, uint32_t count);

/* By topic */

redco_status redcoi_run_elementwise(const redcoi_work *work); /**< and casts */
redco_status redcoi_run_adamw(const redcoi_work *work);
redco_status redcoi_run_constant(const redcoi_work *work);
redco_status redcoi_run_iota(const redcoi_work *work);
redco_status redcoi_run_random(const redcoi_work *work);
redco_status redcoi_run_copy(const redcoi_work *work);
redco_status redcoi_run_strided(const redcoi_work *work); /**< transpose, broadcast, slice */
redco_status redcoi_run_pad(const redcoi_work *work);
redco_status redcoi_run_concat(const redcoi_work *work);
redco_status redcoi_run_reduce(const redcoi_work *work);
redco_status redcoi_run_squares(const redcoi_work *work);
redco_status redcoi_run_gather(const redcoi_work *work);
redco_status redcoi_run_pick(const redcoi_work *work); /**< and unpick */
redco_status redcoi_run_scatter(const redcoi_work *work);
redco_status redcoi_run_softmax(const redcoi_work *work); /**< and its gradients */
redco_status redcoi_run_norm(const redcoi_work *work);
redco_status redcoi_run_norm_grad(const redcoi_work *work);
redco_status redcoi_run_rotary(const redcoi_work *work);
redco_status redcoi_run_cross_entropy(const redcoi_work *work); /**< and its gradient */

uint64_t redcoi_reduce_workspace(const redcoi_cuda *cuda, const redco_launch *launch);
uint64_t redcoi_squares_workspace(const redcoi_cuda *cuda, const redco_launch *launch);
uint64_t redcoi_scatter_workspace(const redcoi_cuda *cuda, const redco_launch *launch);
uint64_t redcoi_norm_grad_workspace(const redcoi_cuda *cuda, const redco_launch *launch);

/** Which of the programs with kernels of their own (kernels/pointwise.h) a pointwise operator is; NULL: none. */
const char *redcoi_pointwise_known(const redco_launch *launch);

/** Sums of the columns of [rows][columns] of sums, as vectors of @p to. */
redco_status redcoi_sum_columns(const redcoi_work *work, const void *in, redco_dtype from, uint64_t rows,
                                uint64_t columns, void *out, redco_dtype to);

#endif
