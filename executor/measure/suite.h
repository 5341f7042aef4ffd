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
    REDCO_MEASURE_OPERATOR
} redco_measure_kind;

/** What is measured, and the least seconds so far (infinity before the first run). */
typedef struct redco_measure_case {
    redco_measure_kind kind;
    redco_dtype dtype;
    const char *name;               /**< operator: static; else NULL */
    uint64_t m, n, k;               /**< gemm */
    bool transpose_a, transpose_b;  /**< gemm */
    uint64_t heads, sequence, size; /**< attention, causal, one sequence, one key head per query head */
    uint64_t rows, columns;         /**< operator; elements are their product */
    double forward_s, backward_s;   /**< backward 0 where there is none */
    double average_s;               /**< of all runs, both together */
    uint32_t rounds;                /**< so far */
} redco_measure_case;

/** @param quick  few and small ones, for tests
 *  @return their number; *@p cases_out is freed with free(). 0 when out of memory */
size_t redco_measure_cases(bool quick, redco_measure_case **cases_out);

/** Measures once more and keeps what was faster. */
redco_status redco_measure_case_run(redco_measurer *measurer, redco_measure_case *one, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
