/** @file rate.h  The learning rate of every update. Pure. */
#ifndef REDCO_RATE_H
#define REDCO_RATE_H

#include "topology/base/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_rate_kind {
    REDCO_RATE_CONSTANT,
    REDCO_RATE_LINEAR,
    REDCO_RATE_COSINE,
    REDCO_RATE_WSD /**< warm-up, stable, decay: linear over the last updates */
} redco_rate_kind;

/** With T updates, w of warm-up and f = final_ratio, update u from 1 on has the rate times
 *
 *      u / w                                              u <= w
 *      1                                                  constant
 *      1 - (1 - f) p           p = (u - 1 - w) / (T - w)  linear
 *      f + (1 - f) (1 + cos pi p) / 2                     cosine
 *      1 - (1 - f) max(0, (u - 1 - (T - d)) / d)          wsd, d = decay_updates
 *
 *  It advances once an update, however many micro-batches an update has. Behind T it stays f of the rate. */
typedef struct redco_rate_schedule {
    redco_rate_kind kind;
    uint64_t updates; /**< T; of constant rates it is not looked at */
    uint64_t warmup;
    uint64_t decay_updates; /**< for wsd: d */
    double final_ratio;
} redco_rate_schedule;

/** @return REDCO_EVALUE if warm-up and decay are more than the updates, or the ratio is not in [0, 1] */
redco_status redco_rate_check(const redco_rate_schedule *schedule, redco_error *err);
/** @param update  from 1 */
double redco_rate_at(const redco_rate_schedule *schedule, double rate, uint64_t update);

#ifdef __cplusplus
}
#endif
#endif
