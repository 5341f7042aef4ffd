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
 *  - those join that are near the best or may be faster at their gap (gaps.h), also such whose fullest stage is too
 * large by the closed form by up to redco_memory_ratio;
 *  - what is likely to be faster than the answer at hand, and to fit by what was learnt of layouts like it, is
 * simulated in the order of the recurrence of its schedule (redco_cost_paced()), then what may be by more than 1.5 %,
 * where there are operators for all of that. One that cannot be laid out is left out;
 *  - the fastest layout with 10 % more memory is simulated, too (roomier_s): it may be too large by the closed form
 *    alone, and lead. A brief search, or one with a limit, leaves that out;
 *  - the fastest by the simulator leads unless the search's own is within 0.1 % of it (by_simulation says which). Of
 *    several answers asked for the others follow in the order of their simulated steps (equal ones, to 1e-9, keep their
 *    order);
 *  - where the simulator finds the search's own answer too large for the memory, a leaner one is searched for; others
 *    that are too large are left out. Where communication is minimised, the first that fits leads;
 *  - gap_ratio and status say how far the closed form of the answer that leads in the end is above the first search's
 *    bound; within_ratio how much faster by the simulator another layout could be;
 *  - with options->verify a space of fewer layouts than REDCO_RANKED_MAX is simulated whole;
 *  - the leanest strategy of a space in which nothing is found that fits is priced, too, and is the answer if the
 *    simulator says that it fits: a layout that is given is judged by the simulator alone;
 *  - layouts that may differ by layer are searched beside those that are alike, and the faster ones lead. */
redco_status redco_search_priced(const redco_inputs *inputs, const redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err);
/** A search with pass.limit_s, which lists fewer layouts and simulates none that is doubtful, finds one where the
 * answer of one without is faster than the limit by this share, and is slower than that answer by no more than it.
 * Measured, not proven: the most over random small spaces (0.6 %; tools/run prove measures it anew and fails where a
 * search misses by more) and over 627 answers of engines to random questions of tests/consistency (1.9 %). */
extern const double redco_limited_ratio;

/** A layout that another search found leads @p result: one of a smaller space, a neighbour, a named strategy.
 *  @param candidate  priced; copied
 *  @return REDCO_ENOMEM */
redco_status redco_answer_adopt(const redco_search_options *options, const redco_candidate *candidate,
                                redco_search_result *result, redco_error *err);
/** True if @p candidate beats the answer by more than layouts that are equally fast may differ. */
bool redco_answer_beaten(const redco_search_options *options, const redco_candidate *candidate,
                         const redco_search_result *result);
/** The answer to a question, whoever asks: redco_search_priced(), and again
 *  - with half recomputation where the engine has both grains and the first answer recomputes layers as a whole, or
 * there is none;
 *  - with the tensor-parallel layouts of the rules where GLPK places tensors layer by layer.
 *  @param options  in: as asked; out: those of the best answer */
redco_status redco_search_answer(const redco_inputs *inputs, redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
