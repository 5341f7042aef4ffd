/** @file compare_internal.h  Parts of a comparison; internal to compare*.c. */
#ifndef REDCOI_COMPARE_INTERNAL_H
#define REDCOI_COMPARE_INTERNAL_H

#include "traces/compare/compare.h"
#include "traces/trace_internal.h"

#define REDCOI_NONE UINT32_MAX

enum { REDCOI_KINDS = 32, REDCOI_STREAMS = 16 };

/** A span that counts. Texts are kept by the comparison, each once: equal pointers are equal texts. */
typedef struct redcoi_op {
    const char *name, *stream;
    double start_s, end_s;
    uint32_t span;       /**< index in its trace */
    uint32_t rank, step; /**< index of rank and of step */
    uint32_t micro_batch, occurrence;
    uint32_t match; /**< the predicted one of a measured one, or REDCOI_NONE */
    uint32_t kind;  /**< or REDCOI_NONE: a mark of the writer */
    bool receives;  /**< lasts as long as its stage waits for another: a bubble, and no work of its own */
    bool cut;       /**< predicted: of a series that is cut into other pieces where it is measured */
} redcoi_op;

/** All of one side; the prediction's ranks are its processes, its only step is 0. */
typedef struct redcoi_side {
    redcoi_op *ops;
    uint32_t count, rank_count, step_count;
} redcoi_side;

typedef struct redcoi_rank {
    uint32_t file, process;
    uint32_t stage; /**< rank of the prediction that it is compared with */
    const char *name;
} redcoi_rank;

typedef struct redcoi_compare {
    redco_trace *texts;
    const redco_compare_source *measured_sources;
    uint32_t source_count;
    redcoi_side predicted, measured;
    redcoi_rank *ranks;     /**< ranks of the measurement */
    uint64_t *step_numbers; /**< ascending */
    bool *step_counts;
    double *step_weights; /**< share of each in the median step: 1 for one, or 0.5 for two */
    uint32_t counted_steps;
    const char *kinds[REDCOI_KINDS];
    bool communicates[REDCOI_KINDS];
    uint32_t kind_count;
    uint32_t launch, overhead, pipeline; /**< kinds, or REDCOI_NONE */
    redco_comparison *out;
} redcoi_compare;

/** Where a rank's step goes. */
typedef struct redcoi_account {
    redco_compare_time time;
    double exposed_s[REDCOI_KINDS];
    double from_s, to_s;
    double warm_up_s, sent_s; /**< see redco_compare_stage */
    uint32_t sent_count;
} redcoi_account;

static inline redco_status redcoi_compare_out_of_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static inline void redcoi_add_time(redco_compare_time *sum, const redco_compare_time *part, double weight)
{
    sum->step_s += weight * part->step_s;
    sum->compute_s += weight * part->compute_s;
    sum->launch_s += weight * part->launch_s;
    sum->overhead_s += weight * part->overhead_s;
    sum->wait_s += weight * part->wait_s;
    sum->bubble_s += weight * part->bubble_s;
    sum->idle_s += weight * part->idle_s;
    sum->communication_s += weight * part->communication_s;
    sum->covered_s += weight * part->covered_s;
}

/** Operators of both sides, their ranks, steps and kinds. */
redco_status redcoi_compare_collect(redcoi_compare *c, const redco_compare_source *predicted, const char *const *kinds,
                                    redco_error *err);
/** Matches, occurrences; measured operators take the kind of what they match. Sorts the measured ones by rank and step.
 */
redco_status redcoi_compare_match(redcoi_compare *c, const redco_compare_source *predicted, redco_error *err);

/** Times of steps and ranks, and which is shown. @param shown_rank_out, shown_step_out  indices */
redco_status redcoi_compare_times(redcoi_compare *c, uint32_t *shown_rank_out, uint32_t *shown_step_out,
                                  redco_error *err);
/** Stages as measured. @param accounts  [step][rank] @param shown_step  index */
void redcoi_compare_stages(redcoi_compare *c, const redcoi_account *accounts, uint32_t shown_step);
/** One rank's operators of one step. @param from_s, to_s  what is accounted for */
redco_status redcoi_account_make(const redcoi_compare *c, const redcoi_op *ops, uint32_t count, double from_s,
                                 double to_s, redcoi_account *account_out, redco_error *err);
redco_status redcoi_compare_critical(redcoi_compare *c, const redco_compare_graph *graph, uint32_t rank, uint32_t step,
                                     redco_error *err);
/** Totals by kind and by operator. */
redco_status redcoi_compare_totals(redcoi_compare *c, redco_error *err);
redco_status redcoi_compare_memory(redcoi_compare *c, const redco_trace *predicted, redco_error *err);

/** The operators of a rank in a step, side by side after redcoi_compare_match(). @return their number */
uint32_t redcoi_compare_ops_of(const redcoi_compare *c, uint32_t rank, uint32_t step, const redcoi_op **first_out);
/** A number among arguments; NaN: not there. */
double redcoi_compare_arg(const redco_trace *trace, uint32_t first, uint32_t count, const char *key);

#endif
