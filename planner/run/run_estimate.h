/** @file run_estimate.h  From a step to a run: steps, days, GPU-hours, effective training time, money, energy, carbon,
 *  each with a band and the evidence for it.
 *
 *      days = tokens x inflation(batch) / (tokens of a step) x step / ETTR
 *
 *  ETTR is productive time over wall-clock time from the first to the last step; queueing is not in it. Productive are
 *  the steps that the final model stands on. A band's ends move all causes to their better, and to their worse, end at
 *  once. Nothing here prints. */
#ifndef REDCO_RUN_ESTIMATE_H
#define REDCO_RUN_ESTIMATE_H

#include "planner/run/batch_size.h"
#include "planner/run/reliability.h"
#include "planner/run/run_values.h"
#include "planner/run/scale_noise.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The inputs of a run beside its step; one that is not given has a default, and is listed as an assumption. */
typedef struct redco_run_terms {
    double tokens;
    redco_failures failures;
    redco_saving saving;
    double interval_s;                   /**< between checkpoints; 0: the best */
    double block_s, write_s, reload_s;   /**< negative: from bytes and rates */
    bool storage_given;                  /**< else of a node of 8 GPUs */
    redco_run_value storage_bytes_per_s; /**< all nodes together */
    bool fault_tolerant;                 /**< a failure stops one data-parallel replica */
    redco_run_value stall_s;
    bool spares_given; /**< else nodes are replaced from a pool, and not paid for */
    uint32_t spares;   /**< nodes */
    bool priced, has_grid, pue_given, host_given;
    redco_run_value price; /**< price of a GPU-hour */
    char currency[16];
    redco_run_value pue, grid_g_per_kwh, host_w; /**< the latter of one GPU's share of a host */
    bool noise_given;                            /**< else noise beyond that of calibrated runs widens the band alone */
    redco_noise noise;
    double slow_rank; /**< one rank computes so many times as long; 1 */
    redco_critical_batch critical;
    double batch_like; /**< tokens are counted for this batch, in tokens; 0: for that of the step */
    uint64_t seed;     /**< seed of the event simulation */
} redco_run_terms;

redco_run_terms redco_run_terms_default(void);

/** The step of a plan, as far as a run needs it. */
typedef struct redco_run_step {
    double step_s;
    double band_ratio;                      /**< half-width of the band of tokens/s */
    double band_low_ratio, band_high_ratio; /**< its ends, shares of the predicted; 0: 1 less and more band_ratio */
    redco_run_evidence evidence;
    char source[192];
    double compute_s; /**< a rank's compute, which a slow one stretches */
    uint64_t gpus;
    uint32_t nodes, hosts_per_node; /**< a node is one NVLink domain, which fails as a whole */
    double batch_tokens;
    double micro_batches;
    double watts_per_gpu, idle_w, tdp_w; /**< 0: not known */
    redco_run_evidence power_evidence;
    double checkpoint_bytes; /**< bytes of one copy of weights and optimizer states */
    double writers;          /**< GPUs that hold one copy together */
    uint32_t replicas;       /**< data-parallel */
} redco_run_step;

typedef struct redco_run_figure {
    bool known;
    double value, low, high;
    redco_run_evidence evidence;
} redco_run_figure;

enum { REDCO_RUN_CAUSES = 6, REDCO_RUN_MOST_ASSUMED = 16 };

/** The change of the days by one cause alone. */
typedef struct redco_run_cause {
    const char *what; /**< "step time", "scale-out noise", "failure rate", "recovery", "storage": static */
    double low_days, high_days;
    redco_run_evidence evidence;
    char source[320];
} redco_run_cause;

typedef struct redco_run_estimate {
    double tokens; /**< inflation included */
    double inflation;
    double steps, batch_tokens;
    bool above_critical; /**< the batch is */
    double critical_tokens;
    redco_run_figure step_s, mttf_s, failures, ettr, days, gpu_hours, paid_gpu_hours, mwh, tonnes_co2, money;
    redco_time_split split, split_low, split_high; /**< the latter at the ends of the band of days */
    bool played;                                   /**< by the event simulation: losses of 25 % or more */
    redco_reliability reliability;                 /**< as taken */
    double young_s, daly_s, best_s;                /**< intervals; young and daly for blocking time */
    double checkpoint_bytes, reload_s;
    uint32_t spares_95, spares_99;
    char currency[16];
    redco_run_cause causes[REDCO_RUN_CAUSES];
    char assumed[REDCO_RUN_MOST_ASSUMED][400];
    uint32_t assumed_count;
} redco_run_estimate;

/** @return REDCO_EVALUE where terms contradict one another, REDCO_EINFEASIBLE where the run would never end */
redco_status redco_run_estimate_of(const redco_run_terms *terms, const redco_run_step *step,
                                   redco_run_estimate *estimate_out, redco_error *err);

/** Sums of several phases, each known where all are; shares and ETTR by their time. @param total_out  its reliability,
 *  intervals and causes are those of the longest phase but for causes' days */
void redco_run_total(const redco_run_estimate *phases, uint32_t count, redco_run_estimate *total_out);

#ifdef __cplusplus
}
#endif
#endif
