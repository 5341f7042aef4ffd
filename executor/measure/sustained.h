/** @file sustained.h  Measures an operator on a device that does nothing else for a second: seconds, joules, clock.
 *
 *  A device under training runs at its power limit, which bursts of milliseconds do not show. Here the stream is always
 *  filled ahead of the device, by recordings where the backend has them, so that it works without pause while a meter
 *  is read; what happens before the clock has settled is left out. */
#ifndef REDCO_MEASURE_SUSTAINED_H
#define REDCO_MEASURE_SUSTAINED_H

#include "executor/backend/meter.h"
#include "executor/measure/suite.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The values of floating-point operands. Matrix units draw less, and so are faster, where fewer bits change. */
typedef enum redco_measure_numbers {
    REDCO_NUMBERS_UNIFORM, /**< in [-0.5, 0.5): bursts */
    REDCO_NUMBERS_NORMAL,  /**< mean 0, deviation 0.02: as weights and gradients */
    REDCO_NUMBERS_ZEROS
} redco_measure_numbers;

typedef struct redco_measure_load {
    redco_meter meter;
    redco_measure_numbers numbers;
    bool backward;   /**< only the operators of backward; else only forward's */
    double settle_s; /**< at first, left out */
    double window_s; /**< that is looked at then */
    double chunk_s;  /**< work between two looks at the meter */
} redco_measure_load;

typedef struct redco_measure_sustained {
    double time_s;                    /**< time of one operator (all of a pass of the case) */
    double energy_j;                  /**< energy of one, idle watts included */
    double watts;                     /**< average of the window */
    double clock_hz, memory_clock_hz; /**< likewise; 0: not known */
    double settle_s;                  /**< until the clock stayed within 2 % of that; 0: at once, or not known */
    double window_s;
    bool sampled; /**< watts were sampled; else the device counted joules */
} redco_measure_sustained;

/** @param one  its times stay as they are
 *  @return REDCO_ENOMEM where the device has no room for it, REDCO_EVALUE where it lacks an operator, or where nothing
 *          of that pass is to be run; what the meter returned */
redco_status redco_measure_case_sustained(redco_measurer *measurer, const redco_measure_case *one,
                                          const redco_measure_load *load, redco_measure_sustained *sustained_out,
                                          redco_error *err);

/** Average watts while the device does nothing, for @p seconds. Counted where the meter counts. */
redco_status redco_measure_idle(const redco_meter *meter, double seconds, double *watts_out, redco_error *err);

/** Internal to executor/measure: averages over the samples from @p first on.
 *  @return REDCO_EVALUE where they tell neither joules nor watts */
redco_status redcoi_measure_average(const redco_meter_sample *samples, uint32_t count, uint32_t first,
                                    redco_measure_sustained *out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
