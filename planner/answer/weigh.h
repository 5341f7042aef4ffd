/** @file weigh.h  Tells whether measured runs stand behind an answer, and the best answer for which they do. */
#ifndef REDCO_WEIGH_H
#define REDCO_WEIGH_H

#include "planner/answer/evidence.h"
#include "planner/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_weighed {
    redco_evidence *evidence; /**< the calibration's; NULL: no runs of it ship, or none stand for the objective */
    char
        beyond[REDCO_EVIDENCE_TEXT]; /**< where the best lies outside of what was measured; "" = inside, or not known */
    redco_search_result *inside; /**< for an answer beyond, the best inside; NULL or ranked_count 0: there is none */
} redco_weighed;

/** Weighs the first of @p result, which has one. Where it lies beyond, the smaller space is searched, too: the best
 *  inside leads @p result where that is faster.
 *  @param weighed_out  freed with redco_weighed_free(), also on failure */
redco_status redco_weigh(const redco_inputs *inputs, const redco_search_options *options, redco_search_result *result,
                         redco_weighed *weighed_out, redco_error *err);
void redco_weighed_free(redco_weighed *weighed);

#ifdef __cplusplus
}
#endif
#endif
