/** @file measure_operators.h  The operators of a profile, built as the executor's graphs have them: one
 * composite for each name of the cost model (OPERATORS.md), forward and backward. Internal to
 * executor/measure. */
#ifndef REDCO_MEASURE_OPERATORS_H
#define REDCO_MEASURE_OPERATORS_H

#include "costmodel/graph/graph.h"

enum { REDCOI_RESULTS_MAX = 16 };

/** A graph, and what has to be run of it. Operators of order 0 are forward, others backward. */
typedef struct redcoi_composite {
    redco_graph *graph; /**< owned by the caller */
    redco_value results[REDCOI_RESULTS_MAX];
    uint32_t result_count;
    bool looks_up; /**< it reads rows of a table by index */
} redcoi_composite;

typedef struct redcoi_composite_size {
    uint64_t rows,
        columns; /**< size of the result, of a table that is looked up, or (columns alone) parameters of an update */
    uint64_t table_rows; /**< "embedding": of the table that is looked up */
    bool products_add;   /**< sums and biases behind a product are part of it, not of the norm or activation after */
} redcoi_composite_size;

/** @return REDCO_EVALUE for an unknown name */
redco_status redcoi_composite_create(const char *name, redco_dtype dtype, const redcoi_composite_size *size,
                                     redcoi_composite *composite_out, redco_error *err);
redco_status redcoi_composite_gemm(redco_dtype dtype, uint64_t m, uint64_t n, uint64_t k, bool transpose_a,
                                   bool transpose_b, redcoi_composite *composite_out, redco_error *err);

typedef struct redcoi_attention_shape {
    uint64_t batch, heads, kv_heads, sequence, head_dim;
    bool causal;
} redcoi_attention_shape;

redco_status redcoi_composite_attention(redco_dtype dtype, const redcoi_attention_shape *shape,
                                        redcoi_composite *composite_out, redco_error *err);

#endif
