/** @file run_frontier.h  Chooses the number of GPUs, the machine and the batch: every choice priced as a run, and those
 * that no other beats in days and money, or in days and energy. Nothing here prints. */
#ifndef REDCO_RUN_FRONTIER_H
#define REDCO_RUN_FRONTIER_H

#include "planner/answer/question.h"
#include "planner/answer/several.h"
#include "planner/run/run_terms.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_FRONTIER_BATCHES = 4 /**< half the question's, it, twice and four times that */ };

typedef enum redco_run_goal { REDCO_GOAL_TIME, REDCO_GOAL_MONEY, REDCO_GOAL_ENERGY } redco_run_goal;

typedef struct redco_frontier_question {
    const redco_question *question; /**< read again for each cluster; its sizes, or its GPUs */
    const redco_run_words *words;
    const char *const *clusters; /**< NULL with 0: the question's own */
    uint32_t cluster_count;
    bool precisions;           /**< fp8 products are tried beside the question's precision */
    double deadline_s, budget; /**< 0: none */
    redco_run_goal goal;
} redco_frontier_question;

typedef struct redco_frontier_row {
    char cluster[64], gpu[64];
    uint32_t cluster_index;
    uint64_t gpus, global_batch;
    uint32_t seq_len;
    const char *precision; /**< static */
    bool feasible;         /**< else reason */
    char reason[400];
    redco_parallelism parallelism;
    double mfu;
    redco_run_estimate run;
    double band_low_ratio, band_high_ratio; /**< ends of the band of its step, on tokens/s */
    char unseen[160];                       /**< the part of engine and GPU that no fitted run has; "": nothing */
    char engine[REDCO_ENGINE_NAME];
    bool keeps;        /**< deadline and budget */
    bool keeps_surely; /**< with the worse end of the band, too */
    bool best_here;    /**< no batch or precision on the same GPUs of the cluster beats it in days and cost */
    bool front_money, front_energy; /**< no choice beats it in days and money (without prices GPU-hours), or MWh */
} redco_frontier_row;

typedef struct redco_frontier {
    redco_frontier_row *rows; /**< by cluster as given, then GPUs, batch */
    uint32_t count;
    int cheapest, fastest, leanest; /**< among those that keep deadline and budget; -1: none */
    int chosen;                     /**< by the goal */
    /** Rows of other GPUs that may be better than these: their bands overlap. -1: none, it is decided. */
    int cheapest_rival, fastest_rival, leanest_rival, chosen_rival;
    double deadline_s, budget; /**< as asked */
    bool priced;               /**< money is known of all that fit; else GPU-hours count as money */
    char currency[16];
    char model[96];
} redco_frontier;

/** @param frontier_out  freed with redco_frontier_free() */
redco_status redco_frontier_find(const redco_frontier_question *asked, redco_frontier **frontier_out, redco_error *err);
void redco_frontier_free(redco_frontier *frontier);
/** {"format": "redco-frontier", ...} (planner/run/frontier.schema.json): a new reference, NULL when out of memory. */
json_t *redco_frontier_to_json(const redco_frontier *frontier);

/** Says which measured run would decide between two rows: of the one whose band is wider. @return @p buffer */
const char *redco_frontier_decider(const redco_frontier *frontier, int leads, int rival, char *buffer, size_t size);
/** @return the cost of a row: money, or GPU-hours */
double redco_frontier_cost(const redco_frontier *frontier, const redco_frontier_row *row);

/** Marks what no other point beats in both numbers; of equal points the first.
 *  @param front_out  @p count marks */
void redco_pareto(const double *x, const double *y, uint32_t count, bool *front_out);

#ifdef __cplusplus
}
#endif
#endif
