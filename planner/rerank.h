/** @file rerank.h  The best few of a search, judged by the event simulator: the closed form that the search optimises
 * is its shadow. */
#ifndef REDCO_RERANK_H
#define REDCO_RERANK_H

#include "planner/inputs.h"
#include "planner/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Fills simulated_step_s of every ranked candidate. Where several were asked for and step time is the objective, the
 *  simulated step time orders them; equal ones (to 1e-9) keep their order.
 *  @param inputs, options  those of the search */
redco_status redco_rerank(const redco_inputs *inputs, const redco_search_options *options, redco_search_result *result,
                          redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
