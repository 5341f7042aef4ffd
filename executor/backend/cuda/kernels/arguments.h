/** @file arguments.h  The parameters of own kernels, as host and device share them: plain C types, passed by value.
 *  Strides and counts are in elements of the kernel's own element size, which may be several of the tensor's. */
#ifndef REDCO_CUDA_KERNELS_ARGUMENTS_H
#define REDCO_CUDA_KERNELS_ARGUMENTS_H

#include <stdint.h>

enum {
    REDCOI_KERNEL_RANK = 8,      /**< REDCO_RANK_MAX */
    REDCOI_KERNEL_PARTS = 64,    /**< REDCO_INPUTS_MAX */
    REDCOI_KERNEL_THREADS = 256, /**< threads a block, where a kernel does not say otherwise */
    REDCOI_ROW_THREADS_MAX = 512 /**< threads of a block that has a row of its own */
};

/** Division by a number that the host knows: n / divisor = high 64 bits of n * factor, shifted; for n < 2^48, the most
 *  elements that a tensor has. Source: Granlund and Montgomery, "Division by invariant integers using multiplication",
 * PLDI 1994. factor 0: the divisor is 1. */
typedef struct redcoi_divisor {
    uint64_t divisor, factor;
    uint32_t shift;
} redcoi_divisor;

/** An error that a kernel met and the host would have refused: an index out of range. The first one stays. It lies in
 * the program's memory, which kernels reach, so that asking for it costs nothing. */
typedef struct redcoi_fault {
    uint32_t claimed; /**< by whoever writes the rest */
    uint32_t kind;    /**< redco_op_kind + 1, written last; 0: none */
    int32_t index;
    int64_t first, end; /**< the range in which it is not */
} redcoi_fault;

/** Elementwise: the output is walked in rows of @p inner elements, of which each input has a row that is dense (step 1)
 *  or one number (step 0). */
typedef struct redcoi_elementwise_args {
    void *out;
    const void *in[3];
    uint64_t count; /**< elements of the output */
    double scalar;
    uint32_t wide; /**< by vectors of 16 bytes: inner is a multiple of them, or rank is 0 */
    uint32_t rank; /**< number of dimensions outside of rows; 0: one row */
    uint32_t step[3];
    redcoi_divisor inner; /**< by vectors, or elements of a row */
    redcoi_divisor dim[REDCOI_KERNEL_RANK];
    uint64_t stride[3][REDCOI_KERNEL_RANK];
} redcoi_elementwise_args;

typedef struct redcoi_adamw_args {
    void *next_p, *next_m, *next_v;
    void *rounded; /**< NULL, or next_p in the gradient's type */
    const void *p, *m, *v, *gradient, *numbers;
    uint64_t count;
} redcoi_adamw_args;

/** Sums of pieces of @p chunk elements, a multiple of 16. */
typedef struct redcoi_squares_args {
    void *out;
    const void *in;
    uint64_t count, chunk, pieces;
} redcoi_squares_args;

/** Every 16 bytes of the output are @p pattern. */
typedef struct redcoi_fill_args {
    void *out;
    uint64_t bytes;
    uint32_t pattern[4];
} redcoi_fill_args;

typedef struct redcoi_iota_args {
    int32_t *out;
    uint64_t count;
    redcoi_divisor inner, size;
} redcoi_iota_args;

/** Element i of the output is element begin + (its place by strides) of the whole. */
typedef struct redcoi_random_args {
    void *out;
    const int32_t *key;
    uint64_t count, stream, begin;
    uint32_t rank; /**< 0: the output is one run of the whole */
    redcoi_divisor dim[REDCOI_KERNEL_RANK];
    uint64_t stride[REDCOI_KERNEL_RANK];
} redcoi_random_args;

/** out[...] = in[...] by strides of both. */
typedef struct redcoi_move_args {
    void *out;
    const void *in;
    uint64_t count;
    uint32_t rank;
    redcoi_divisor dim[REDCOI_KERNEL_RANK];
    uint64_t in_stride[REDCOI_KERNEL_RANK], out_stride[REDCOI_KERNEL_RANK];
} redcoi_move_args;

/** out[c][r] = in[r][c] by tiles, for each of @p outer matrices. */
typedef struct redcoi_transpose_args {
    void *out;
    const void *in;
    uint64_t rows, columns, in_row, out_row, tiles;
    redcoi_divisor row_tiles, column_tiles;
    uint32_t rank;
    redcoi_divisor dim[REDCOI_KERNEL_RANK];
    uint64_t in_stride[REDCOI_KERNEL_RANK], out_stride[REDCOI_KERNEL_RANK];
} redcoi_transpose_args;

/** Zeros, with a dense tensor from begin on. */
typedef struct redcoi_pad_args {
    void *out;
    const void *in;
    uint64_t count;
    uint32_t rank;
    redcoi_divisor dim[REDCOI_KERNEL_RANK];
    uint64_t begin[REDCOI_KERNEL_RANK], size[REDCOI_KERNEL_RANK], in_stride[REDCOI_KERNEL_RANK];
} redcoi_pad_args;

/** The output's rows are @p total long; part k has columns [begin[k], begin[k + 1]). */
typedef struct redcoi_concat_args {
    void *out;
    uint64_t count;
    uint32_t parts;
    redcoi_divisor total;
    const void *in[REDCOI_KERNEL_PARTS];
    uint64_t begin[REDCOI_KERNEL_PARTS + 1];
} redcoi_concat_args;

/** Gather: rows of @p width of the table. Pick: one element of each row of @p rows. Unpick: the reverse. */
typedef struct redcoi_index_args {
    void *out;
    const void *in;
    const int32_t *index;
    redcoi_fault *fault;
    uint64_t count; /**< number of indices */
    uint64_t rows;
    int64_t offset;
    int64_t first, end; /**< indices in [first, end) are no error */
    uint32_t kind;
    redcoi_divisor width; /**< gather: of a row; unpick: of a row of the output */
} redcoi_index_args;

/** Stage 1 orders the indices by row, stage 2 adds up. */
typedef struct redcoi_scatter_args {
    void *out;
    const void *update;
    const int32_t *index;
    redcoi_fault *fault;
    uint32_t *order; /**< count numbers: indices by row; in a row, as they came */
    uint32_t *start; /**< rows + 1 numbers: where in order a row begins */
    uint64_t count, rows, width;
    int64_t offset;
    int64_t first, end; /**< indices in [first, end) are no error */
    uint32_t kind, wide;
    redcoi_divisor tiles; /**< stage 2: pieces of a row, one block each */
} redcoi_scatter_args;

/** One result of @p length elements for each of @p outputs, in @p splits pieces of @p chunk elements. */
typedef struct redcoi_reduce_args {
    void *out; /**< @p splits rows: [outputs][splits] by rows, [splits][outputs] by columns */
    const void *in;
    uint64_t outputs, length, chunk;
    redcoi_divisor splits;
    uint32_t wide;
    uint32_t warps; /**< rows: a warp, not a block, has a result */
    uint32_t kept_rank, reduced_rank;
    redcoi_divisor tiles; /**< columns: of the innermost dimension that stays */
    redcoi_divisor kept[REDCOI_KERNEL_RANK], reduced[REDCOI_KERNEL_RANK];
    uint64_t kept_stride[REDCOI_KERNEL_RANK], reduced_stride[REDCOI_KERNEL_RANK];
} redcoi_reduce_args;

/** Rows of the last dimension. */
typedef struct redcoi_rows_args {
    void *out;
    const void *a, *b;
    uint64_t rows, length;
    uint32_t warps;     /**< a warp, not a block, has a row */
    uint32_t logarithm; /**< writes the logarithm of softmax */
} redcoi_rows_args;

/** RMS norm has neither shift nor mean. */
typedef struct redcoi_norm_args {
    void *out, *mean_out, *inverse_out;
    const void *x, *scale, *shift;
    uint64_t rows, length;
    double epsilon;
    uint32_t warps, wide, layer;
} redcoi_norm_args;

typedef struct redcoi_norm_grad_args {
    void *dx;
    void *scale_parts, *shift_parts; /**< [blocks][length], of the type that sums have */
    const void *x, *scale, *mean, *inverse, *dy;
    uint64_t rows, length;
    uint32_t wide, layer;
    uint32_t in_shared; /**< sums of columns lie in shared memory until the block ends */
} redcoi_norm_grad_args;

typedef struct redcoi_rotary_args {
    void *out;
    const void *x, *cosines, *sines;
    uint64_t count;   /**< number of pieces: pairs, or 16 bytes of pairs, and of what stays */
    uint64_t size, n; /**< elements of a head, number of angles */
    uint32_t wide, interleaved;
    float sign;
    redcoi_divisor pieces; /**< pieces of a head */
    redcoi_divisor heads, table_rows;
} redcoi_rotary_args;

typedef struct redcoi_cross_entropy_args {
    void *out, *lse_out; /**< loss and log-sum-exp, or the gradient */
    const void *logits;
    const int32_t *target;
    const void *lse, *dloss;
    redcoi_fault *fault;
    uint64_t rows, length;
    int64_t offset;
    int64_t first, end; /**< targets in [first, end) are no error */
    uint32_t kind, warps;
} redcoi_cross_entropy_args;

#endif
