/** @file priced.h  A search whose answers are priced as users read them: by the event simulator. The closed form, which
 *  the search optimises over, stays beside it in every candidate. */
#ifndef REDCO_PRICED_H
#define REDCO_PRICED_H

#include "planner/assemble/inputs.h"
#include "planner/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Costs of @p workload with the options' tensor-parallel layouts. @param costs_out  freed by redco_costs_free() */
redco_status redco_costs_of(const redco_inputs *inputs, const redco_search_options *options, redco_costs **costs_out,
                            redco_error *err);

/** Prices one candidate: prediction becomes the simulator's. */
redco_status redco_candidate_price(redco_costs *costs, redco_candidate *candidate, redco_error *err);

/** redco_search(), then:
 *  - every ranked candidate is priced; where several were asked for and step time is the objective, the simulated step
 *    orders them (equal ones, to 1e-9, keep their order);
 *  - where the simulator finds the first too large for the memory, a leaner one is searched for; others that are too
 *    large are left out;
 *  - where the first is a pipeline, or more than 3 % slower by the simulator than by the closed form, the best few are
 *    simulated, and the fastest leads (its status is "feasible");
 *  - the leanest strategy of a space in which the closed form finds nothing that fits is priced, too, and is the
 *    answer if the simulator says that it fits: a layout that is given is judged by the simulator alone. */
redco_status redco_search_priced(const redco_inputs *inputs, const redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
