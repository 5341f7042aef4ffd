/** @file statistics.h  Compares predictions with measurements: errors, ranking, choices, what fits into memory.
 *  Pure functions of arrays; memory is allocated for the call only. Measured and predicted values are positive and
 *  finite, in any unit that both share; others are REDCO_EVALUE. Groups are numbers, equal for rows among which a
 *  choice is made (redco_measured_groups()); NULL puts all rows into one. */
#ifndef REDCO_TRACES_STATISTICS_H
#define REDCO_TRACES_STATISTICS_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Relative errors e = predicted / measured - 1. All 0 where count is 0. */
typedef struct redco_error_summary {
    size_t count;
    double mape_ratio;       /**< mean of |e| */
    double median_ape_ratio; /**< median of |e|; between the middle two where count is even */
    double p90_ape_ratio;    /**< 90th percentile of |e|, linear between ranks (numpy's and R's default, type 7) */
    double bias_ratio;       /**< mean of e: above 0 where predictions are too fast */
} redco_error_summary;

redco_status redco_error_summarise(const double *measured, const double *predicted, size_t count,
                                   redco_error_summary *summary_out, redco_error *err);

/** Rank correlation over the pairs of rows that share a group. */
typedef struct redco_rank_correlation {
    size_t groups;  /**< with at least two rows */
    uint64_t pairs; /**< within groups */
    bool defined;   /**< false: no pair differs in both, so that there is no order to compare */
    double tau_b;   /**< -1 to 1, 0 where not defined */
} redco_rank_correlation;

/** Kendall's tau-b, ties allowed:  (C - D) / sqrt((C + D + Tm)(C + D + Tp)), where C, D, Tm and Tp count the pairs that
 *  agree, disagree, tie in the prediction only and tie in the measurement only, summed over groups. With one group it
 * is the textbook figure. Takes O(n log n): Knight, J. Am. Stat. Assoc. 61(314), 1966. */
redco_status redco_rank_correlate(const double *measured, const double *predicted, const size_t *groups, size_t count,
                                  redco_rank_correlation *correlation_out, redco_error *err);

/** The loss from running the best-predicted row of each group instead of its best-measured one. Values are
 *  throughputs: more is better. */
typedef struct redco_choice_loss {
    size_t groups;          /**< with at least two rows; the others offer no choice */
    size_t right;           /**< groups whose best row was chosen */
    double mean_loss_ratio; /**< mean over groups of 1 - measured(chosen) / measured(best) */
    double worst_loss_ratio;
    size_t
        worst_row; /**< the row chosen in the worst group, of equals that with the smallest number; 0 without groups */
} redco_choice_loss;

/** Counts the slowest of the rows with the same best prediction as chosen. */
redco_status redco_choice_assess(const double *measured, const double *predicted, const size_t *groups, size_t count,
                                 redco_choice_loss *loss_out, redco_error *err);

/** A verdict on a run's memory. */
typedef enum redco_said { REDCO_SAID_FITS, REDCO_SAID_UNCLEAR, REDCO_SAID_OOM } redco_said;
/** Runs that fit into memory or ran out of it, against what was predicted; unclear counts as wrong. */
typedef struct redco_memory_table {
    uint64_t fits_said_fits, fits_said_oom, oom_said_fits, oom_said_oom, fits_unclear, oom_unclear;
} redco_memory_table;

void redco_memory_table_add(redco_memory_table *table, bool fits, redco_said said);
/** Share of all runs that were predicted right; 0 if there are none. */
double redco_memory_table_right_ratio(const redco_memory_table *table);
/** The same of the runs that fit, or of those that ran out of memory; 1 if there are none. */
double redco_memory_table_kind_ratio(const redco_memory_table *table, bool fits);
/** Share of the runs that were neither. */
double redco_memory_table_unclear_ratio(const redco_memory_table *table);
/** Share of the runs predicted to fit that ran out of memory; 0 if there are none. */
double redco_memory_table_failed_ratio(const redco_memory_table *table);

#ifdef __cplusplus
}
#endif
#endif
