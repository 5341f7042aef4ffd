/** @file gaps.h  By how much the seconds of a layout that were not simulated may be above its simulated step, by kinds
 *  of layouts. Measured, not proven: the most over the layouts of random spaces that were simulated whole, rounded up
 *  (tools/run prove measures it anew and fails where a layout is further off). Pure. */
#ifndef REDCO_GAPS_H
#define REDCO_GAPS_H

#include "costmodel/closed_form/closed_form.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_GAP_PIPELINES = 6, REDCO_GAP_LOADS = 7, REDCO_GAP_KINDS = REDCO_GAP_PIPELINES * REDCO_GAP_LOADS };

/** For a kind of layouts: no stages, stages of one chunk, stages of several, of dense models and then of mixtures; and
 *  how much is gathered, scattered and reduced in every micro-batch beside computation. Where kinds of layers are mixed
 *  each is priced as if the others of a pass took as long. */
typedef struct redco_gap {
    double closed_ratio; /**< gap of redco_cost_step() */
    double paced_ratio;  /**< gap of redco_cost_paced() */
} redco_gap;

/** @param mixture  the model has experts
 *  @param traffic_ratio  redco_paced.traffic_ratio
 *  @return below REDCO_GAP_KINDS */
uint32_t redco_gap_kind(const redco_parallelism *parallelism, bool mixture, double traffic_ratio);
redco_gap redco_gap_of(uint32_t kind);

#ifdef __cplusplus
}
#endif
#endif
