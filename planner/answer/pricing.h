/** @file pricing.h  Internal: one question whose layouts are simulated. The search lists layouts, the shortlist says
 * which of them to simulate (shortlist.c), and priced.c makes answers of those. */
#ifndef REDCO_PRICING_H
#define REDCO_PRICING_H

#include "planner/assemble/step_memo.h"
#include "planner/search/search.h"

/** Answers that are simulated for several that are asked for, beyond these. */
enum { REDCOI_BEST_FEW = 16 };

/** A layout that is not simulated yet. */
typedef struct redcoi_waiting {
    redco_candidate candidate;
    double paced_s; /**< its recurrence: it is likely to take that; the objective, where the simulator does not order */
    double least_s; /**< it takes no less, at its gap */
} redcoi_waiting;

/** One question, its answers so far, and what was learnt of them. */
typedef struct redcoi_pricing {
    redco_costs *costs;
    redco_known_steps *known; /**< NULL: none is */
    const redco_inputs *inputs;
    const redco_search_options *options;
    redco_search_result *result; /**< its candidates are priced, in the order in which they were */
    redcoi_waiting *waiting;     /**< by paced_s */
    uint32_t waiting_count;
    const redco_assignment *own; /**< the search's first, or the leaner one that took its place */
    uint32_t asked;              /**< answers that are wanted by now, at least 1 */
    bool simulates;              /**< the simulator orders answers; else the objective does, of those that fit by it */
    double bound_s;              /**< no strategy has a smaller objective, by the closed form */
    double unlisted_s;           /**< no layout that was not listed is faster by the simulator */
    bool moved;                  /**< the first is not the search's own */
    redco_error refused;         /**< why a layout could not be laid out */
    uint64_t operators;          /**< that were simulated */
    uint64_t layer_operators[2]; /**< beyond passes of stages, the most of a layout so far: without stages, with; 0:
                                    none was simulated */
    uint64_t likely_operators;   /**< simulated before the first that is only doubtful; 0: none was */
    uint32_t below_tried;        /**< simulated because they may be within the limit, though not likely */
    double roomier_s;            /**< the fastest that is too large, but not by more than options->roomier_ratio */
} redcoi_pricing;

/** Sums of the same numbers in another order differ by less. */
extern const double redcoi_rounding_ratio;
/** Steps that differ by less are equally fast: the closed form's order, which knows memory, decides. */
extern const double redcoi_tie_ratio;

/** @return whether experts may have other meshes than the rest of their layers: nothing fixes these, and the engine
 * runs any. */
bool redcoi_experts_are_free(const redcoi_pricing *p);
enum { REDCOI_MOST_FOUND = 8 };
/** Gives the fastest layouts that were priced other meshes of experts, and the recomputation that these spare, and
 * keeps those that the closed form puts before them.
 *  @param found_out  by their closed form; their assignments are freed with free() */
redco_status redcoi_experts_again(redcoi_pricing *p, redco_candidate found_out[REDCOI_MOST_FOUND], uint32_t *count_out,
                                  redco_error *err);
/** Asks the search for what may be simulated beside its own answer. */
void redcoi_shortlist_ask(redco_search_options *options);

/** Takes over @p count candidates of a search, also on failure; those that are known are left out. */
redco_status redcoi_shortlist_add(redcoi_pricing *p, const redco_candidate *candidates, uint32_t count,
                                  redco_error *err);
/** Simulates layouts while one is likely to be a better answer. @param searched  the options of the search that listed
 *  them */
redco_status redcoi_shortlist_price(redcoi_pricing *p, const redco_search_options *searched, redco_error *err);
/** No layout that is still waiting, and likely to fit, is faster than this. */
double redcoi_shortlist_least_s(const redcoi_pricing *p);
/** result->roomier_s: the fastest layout with more memory, of those listed the few that are likely to be faster than
 * the answer. */
redco_status redcoi_shortlist_roomier(redcoi_pricing *p, redco_error *err);
/** Learns how many operators layouts like a simulated one have. */
void redcoi_shortlist_note_operators(redcoi_pricing *p, const redco_candidate *candidate, uint64_t operators);
void redcoi_shortlist_free(redcoi_pricing *p);

/** The simulated price of a candidate, or the one that is known. @return REDCO_EVALUE if it cannot be laid out */
redco_status redcoi_price_candidate(redcoi_pricing *p, redco_candidate *candidate, redco_error *err);
/** The price of an answer. @param priced_out  false: it cannot be laid out, which is no failure */
redco_status redcoi_price_one(redcoi_pricing *p, redco_candidate *candidate, bool *priced_out, redco_error *err);
/** By the closed form: what the search's proof is about. */
double redcoi_value_of(const redcoi_pricing *p, const redco_candidate *candidate);
void redcoi_candidates_free(redco_candidate *candidates, uint32_t count);
bool redcoi_fits(const redco_candidate *candidate);
redco_status redcoi_expect(redcoi_pricing *p, const redco_candidate *c, redco_paced *paced_out, redco_error *err);
redco_status redcoi_search_again(redcoi_pricing *p, const redco_search_options *options,
                                 redco_search_result **again_out, redco_error *err);
void redcoi_counts_add(redco_search_counts *to, const redco_search_counts *from);
/** Takes over a candidate. */
redco_status redcoi_result_append(redco_search_result *result, const redco_candidate *candidate, redco_error *err);

#endif
