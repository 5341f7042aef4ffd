/** @file power.h  Watts of a GPU under training: the clock that its power limit leaves to a step's products, and the
 *  energy of a step.
 *
 *  The model (POWER.md, with the runs that its constants were fitted to):
 *  - a product or attention takes 1 / c of its time at a clock of c of the full one; memory-bound operators do not
 *    depend on it, since memory has its own clock;
 *  - above idle, a product's FLOP takes product_j_per_flop * c joules (a GPU's voltage falls with its clock, and energy
 *    goes with its square), memory-bound operators memory_w;
 *  - the clock is the highest, up to 1, at which power averaged over forward and backward of a micro-batch stays within
 *    the limit. The update and exposed traffic are left out: controllers average over tens of milliseconds, so that a
 *    step does not bank watts there.
 *  Times of training runs, which calibrations are fitted on, have the limit in them already: only times that
 *  redco-profile took in short bursts are slowed. */
#ifndef REDCO_POWER_H
#define REDCO_POWER_H

#include "topology/base/sharding.h"
#include "topology/discovery/topology.h"
#include "traces/profile.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_power {
    double limit_w;            /**< limit of one GPU; 0: nothing is known, and no energy is reported */
    double idle_w;             /**< with a context, at full clock */
    double product_j_per_flop; /**< above idle, at full clock, in the training precision */
    double memory_w;           /**< above idle, while a memory-bound operator runs */
    double burst_clock_ratio;  /**< share of the full clock at which products were profiled; 0: no time is slowed */
} redco_power;

/** Finds the constants of @p how_io that it does not have, from joules that a profile measured without pause:
 *  - product_j_per_flop, over products of numbers: least squares of the relative error of their joules above idle;
 *  - memory_w: the mean of the watts above idle of memory-bound operators;
 *  - burst_clock_ratio: the mean, over products that were also timed in bursts, of the seconds that they would take at
 *    full clock over those of the burst; 1 where there is none.
 *  Needs its idle_w, power_limit_w and clock_hz.
 *  @return whether there was enough for it: a product and a memory-bound operator, each above idle */
bool redco_power_fit(const redco_profile_power *rows, size_t row_count, const redco_profile_gemm *gemms,
                     size_t gemm_count, redco_profile_measured *how_io);

/** @param how  what the profile in use says of itself; NULL: no profile, or one that does not tell watts: shares of
 *              what lies between idle and limit that an H200 was measured to take, and nothing is slowed */
redco_power redco_power_of(const redco_gpu *gpu, redco_precision precision, const redco_profile_measured *how);

/** The work of one GPU between two updates, at full clock. */
typedef struct redco_load {
    double product_s; /**< seconds of products, as profiled */
    double core_s;    /**< seconds of attention: at full clock also when profiled, since it draws less */
    double memory_s;  /**< seconds of memory-bound operators */
    double flops;     /**< FLOPs of products and attention */
} redco_load;

/** The clock that the limit leaves, of the full one: above 0 and at most 1; 1 where no time is slowed. */
double redco_power_clock_ratio(const redco_power *power, const redco_load *load);

typedef struct redco_energy {
    double energy_j;           /**< energy of a step, all GPUs; 0: nothing is known (likewise below) */
    double energy_j_per_token; /**< energy of a token of the batch */
    double watts_per_gpu;      /**< average of a step */
} redco_energy;

/** @param dynamic_j  above idle, of one GPU and step
 *  @param tokens     of a step */
redco_energy redco_power_energy(const redco_power *power, double dynamic_j, double step_s, double gpus, double tokens);

#ifdef __cplusplus
}
#endif
#endif
