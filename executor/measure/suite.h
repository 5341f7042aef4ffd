/** @file suite.h  The list of operators that a profile is made of, and their times. */
#ifndef REDCO_MEASURE_SUITE_H
#define REDCO_MEASURE_SUITE_H

#include "executor/measure/measure.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_measure_kind {
    REDCO_MEASURE_GEMM,
    REDCO_MEASURE_ATTENTION,
    REDCO_MEASURE_OPERATOR,
    REDCO_MEASURE_GRAPH /**< an operator of a user's graph: graph_passes.h */
} redco_measure_kind;

typedef struct redcoi_graph_pass redcoi_graph_pass;

/** A case, and the least seconds so far (infinity before the first run). */
typedef struct redco_measure_case {
    redco_measure_kind kind;
    redco_dtype dtype;
    const char *name;               /**< operator: static; else NULL */
    uint64_t m, n, k;               /**< gemm */
    bool transpose_a, transpose_b;  /**< gemm */
    uint64_t batch;                 /**< attention: sequences */
    uint64_t heads, sequence, size; /**< attention, causal, one key head per query head */
    uint64_t rows, columns;         /**< operator; elements are their product */
    uint64_t table_rows;            /**< operator: of a table that is looked up */
    double forward_s, backward_s;   /**< backward 0 where there is none */
    double average_s;               /**< average of all runs, both together */
    uint32_t rounds;                /**< so far */
    uint64_t workspace_bytes;       /**< the largest of its operators */
    redcoi_graph_pass *pass;        /**< graph: the pass that it is part of, which runs for its first part; borrowed */
    uint32_t part;
    const char *measured_as; /**< graph: its name in the profile; rows are the examples of a micro-batch */
} redco_measure_case;

/** @param quick  few and small ones, for tests
 *  @return their number; *@p cases_out is freed with free(). 0 when out of memory */
size_t redco_measure_cases(bool quick, redco_measure_case **cases_out);

/** A weight of [in][out]. */
typedef struct redco_measure_weight {
    uint64_t in, out;
} redco_measure_weight;

enum { REDCO_MEASURE_WEIGHTS_MAX = 40, REDCO_MEASURE_TOKENS_MAX = 8 };

/** The model that a list for a device is made for: products of all weights and tokens are in it exactly. */
typedef struct redco_measure_shapes {
    redco_measure_weight weights[REDCO_MEASURE_WEIGHTS_MAX];
    uint32_t weight_count;
    uint64_t tokens[REDCO_MEASURE_TOKENS_MAX]; /**< tokens of a micro-batch on one device */
    uint32_t token_count;
} redco_measure_shapes;

/** Weights of LLaMA-like models of 125 million to 7 billion parameters, 2048 to 16384 tokens. */
redco_measure_shapes redco_measure_default_shapes(void);
/** Adds a weight if it is new. @return false where there is no room */
bool redco_measure_add_weight(redco_measure_shapes *shapes, uint64_t in, uint64_t out);

/** The same for devices that need more work at a time to be busy: larger sizes, closer together, what matters most
 *  first, so that a list that is not finished is good for something.
 *  @return like redco_measure_cases() */
size_t redco_measure_device_cases(const redco_measure_shapes *shapes, redco_measure_case **cases_out);

/** Measures once more. Keeps what was faster or, where runs are queued, the mean of all rounds' medians. */
redco_status redco_measure_case_run(redco_measurer *measurer, redco_measure_case *one, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
