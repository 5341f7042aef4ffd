/** @file reliability.h  The part of a run's time that failures and checkpoints leave: formulas.
 *
 *  Failures of the job are a Poisson process of mean time M while it runs or restarts. Between two checkpoints lies a
 *  productive interval d; training waits w for each; an asynchronous one is durable W later. A cycle is L = d + w.
 *  A failure falls back to the last durable checkpoint and takes R until the next step; it may be hit by another.
 *  From one restart to the next, exp(-W/M) / (exp(L/M) - 1) cycles become durable on average, in M exp(R/M) of time:
 *
 *      wall time / productive time = M exp((R + W)/M) (exp(L/M) - 1) / d
 *
 *  With W = 0 that is Daly's closed form (Future Gener. Comput. Syst. 22(3), 2006, section 2); W is derived here in the
 *  same way. The event simulation (run_events.h) plays the same process. Pure functions. */
#ifndef REDCO_RELIABILITY_H
#define REDCO_RELIABILITY_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_saving {
    REDCO_SAVE_BLOCKING, /**< training waits until the checkpoint is written */
    REDCO_SAVE_ASYNC,    /**< it waits for a copy in host memory, which is then written in the background */
    REDCO_SAVE_MEMORY    /**< copies in the memory of other nodes; stored ones are written from these */
} redco_saving;

typedef struct redco_reliability {
    double mttf_s;    /**< M, of the whole job; INFINITY: it never fails */
    double restart_s; /**< R: detection, exchange of nodes, start, reload */
    redco_saving saving;
    double interval_s;        /**< d > 0 */
    double block_s;           /**< w >= 0 */
    double write_s;           /**< W; 0 of blocking ones. Of copies in memory: of the stored checkpoint */
    double stored_interval_s; /**< for copies in memory: productive time between stored checkpoints */
    double deep_ratio;        /**< for copies in memory and replicas: the share of failures that these do not cover */
    uint32_t replicas;        /**< fault-tolerant data parallelism: a failure stops one of so many; 0: all */
    double stall_s;           /**< then all wait so long at a failure, and the replica is away for restart_s */
    bool pooled;              /**< a node is replaced at once, by others than the spares; always so with replicas */
    uint32_t spares;          /**< else nodes that stand by; where none is left, all wait for the first repair */
    double repair_s;          /**< time to repair a node */
} redco_reliability;

/** Shares of wall-clock time; they add up to 1. The first is the effective training time ratio (ETTR). */
typedef struct redco_time_split {
    double compute;    /**< steps that the final model stands on */
    double checkpoint; /**< waiting for checkpoints */
    double failures;   /**< steps that were lost, and the time that lost replicas did not compute */
    double restart;    /**< detection, restart, reload, waiting for repair */
} redco_time_split;

/** @return REDCO_EVALUE naming what is out of range, else REDCO_OK */
redco_status redco_reliability_check(const redco_reliability *r, redco_error *err);

/** The formula above; of copies in memory and of replicas to first order (reliability.c). @param r  checked */
redco_time_split redco_time_split_of(const redco_reliability *r);

/** Young's interval sqrt(2 w M), and Daly's first estimate sqrt(2 w M) - w. */
double redco_interval_young(double block_s, double mttf_s);
double redco_interval_daly(double block_s, double mttf_s);
/** The interval of the largest share of compute by redco_time_split_of(), at least @p write_s, at most a day.
 *  @param r  its interval_s is not read */
double redco_interval_best(const redco_reliability *r);

/** Fewest spares with P[Binomial(nodes, down) <= spares] >= confidence. @param down_ratio  a node is in repair */
uint32_t redco_spares_needed(uint64_t nodes, double down_ratio, double confidence);
/** Share of time in which all wait for a repair: Erlang's loss formula for spares + 1 places and mttf, repair of nodes.
 *  It holds for any distribution of repair times (insensitivity). */
double redco_spares_wait(uint32_t spares, double mttf_s, double repair_s);

/** A Poisson count's confidence interval of 90 %: mean numbers under which so few, or so many, have 5 %.
 *  Source: Garwood, Biometrika 28, 1936; by bisection of the sums. */
void redco_count_band(double count, double *low_out, double *high_out);

#ifdef __cplusplus
}
#endif
#endif
