/** @file step_memo.h  The steps that were priced in one call. Several searches of one question come to the same
 * layouts: to choose an engine, for the answer, for its neighbours. Each layout is simulated once.
 *
 *  A memo belongs to the collectives, model and rules of the inputs that it was made with: these lend it with them, and
 *  free it before them. The rest that a price depends on is compared: machine, calibration, workload with all traits of
 *  its engine, placement of tensors, and the layout. */
#ifndef REDCO_STEP_MEMO_H
#define REDCO_STEP_MEMO_H

#include "planner/assemble/inputs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @param inputs  with comm, model and tp_rules. @return NULL when out of memory: no step is kept */
redco_step_memo *redco_step_memo_create(const redco_inputs *inputs);
void redco_step_memo_free(redco_step_memo *memo);

/** The steps of one machine, calibration, workload and placement. */
typedef struct redco_known_steps redco_known_steps;

/** @return what is known where steps are priced with these; NULL: nothing is, and nothing can be kept. It stays until
 *  the memo of @p inputs is freed */
redco_known_steps *redco_known_steps_of(const redco_inputs *inputs, const redco_search_options *options);
/** The costs with which they are priced: what they keep is found again by the next search. Borrowed; set once. */
redco_costs *redco_known_steps_costs(const redco_known_steps *known);
/** @param costs  handed over */
void redco_known_steps_use(redco_known_steps *known, redco_costs *costs);
/** Puts prices into a candidate whose layout is known. @param known  NULL: none is
 *  @param operators_out  that the simulator laid out for it */
bool redco_known_steps_find(const redco_known_steps *known, redco_candidate *candidate, uint64_t *operators_out);
/** Keeps a priced candidate, a copy of it, as long as there is room: some MB in all. */
void redco_known_steps_keep(redco_known_steps *known, const redco_candidate *candidate, uint64_t operators);

/** Keeps the answer to a search for the next one that asks the same.
 *  @param asked     its options before, @p answered after it
 *  @param result    handed over, with a plan; what would fit is not part of it
 *  @param release   frees it: programs that make plans without a search have none */
void redco_known_answer_keep(const redco_inputs *inputs, const redco_search_options *asked,
                             const redco_search_options *answered, redco_search_result *result,
                             void (*release)(redco_search_result *));
/** Hands a kept answer over. @param options  in: asked; out: of the answer. @return false: there is none */
bool redco_known_answer_take(const redco_inputs *inputs, redco_search_options *options,
                             redco_search_result **result_out);

#ifdef __cplusplus
}
#endif
#endif
