/** @file explain.h  Why this plan: what its neighbours would cost, what would help most, what the user's own choices
 *  cost. Each answer is a search of its own, so everything that is not named is optimised again. */
#ifndef REDCO_EXPLAIN_H
#define REDCO_EXPLAIN_H

#include "planner/answer/question.h"
#include "planner/assemble/inputs.h"
#include "planner/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_MOST_NEIGHBOURS = 28 };

/** The things that 10 % more is given of; the last is all rates and latencies at once. */
enum {
    REDCO_HELP_NIC,
    REDCO_HELP_LINK,
    REDCO_HELP_MEMORY, /**< capacity */
    REDCO_HELP_MEMORY_RATE,
    REDCO_HELP_COMPUTE,
    REDCO_HELP_LATENCY, /**< times that no rate changes: host, launches, latencies, waits for the last rank */
    REDCO_HELP_ALL,
    REDCO_HELP_COUNT
};

/** The gain from 10 % more of something: for the same plan, or, of memory, to the best plan there. */
typedef struct redco_help {
    const char *what;  /**< "NIC", "NVLink" (or the node's own link), "memory", "memory rate", "compute", "host and
                            latency", "all of them" (but memory): static */
    double gain_ratio; /**< step before / step after - 1, simulated */
} redco_help;

/** That 10 %; every answer but a brief one or one with a limit was sought with so much more memory, too. */
extern const double redco_help_ratio;

/** @param found  its first answer is explained, priced */
redco_status redco_would_help(const redco_inputs *inputs, const redco_search_options *options,
                              const redco_search_result *found, redco_help help_out[REDCO_HELP_COUNT],
                              redco_error *err);

/** The answer with one thing fixed at its next smaller or larger value, the rest as it was asked. */
typedef struct redco_neighbour {
    char what[96]; /**< "parameters 2x1" (with a multiplication sign), "tp 2", "pp 4", "micro-batch 2", "recompute full"
                    */
    const char *aside; /**< why the question leaves it out: it fixes what is moved, say; static, NULL: it does not */
    char engine[REDCO_ENGINE_NAME]; /**< its engine, where another than the answer's */
    bool feasible;
    double cost_ratio; /**< redco_candidate_ratio() */
    redco_parallelism parallelism;
    redco_shards shards; /**< shards of most layers; feasible only */
    double step_s;
    uint64_t short_bytes; /**< when it does not fit */
    char reason[160];     /**< when it cannot be: which rule forbids it, or that the engine does not have it */
} redco_neighbour;

/** Neighbours of the first answer in the chains of parameters, gradients, optimizer, tp, pp, cp, micro-batch and
 *  recomputation: what the option of that name gives; of a mixture, of ep, etp and the engine's dispatcher, too.
 *  @param question        settled
 *  @param answer          the answer to @p options; a neighbour that beats it leads it from then on
 *  @param neighbours_out  room for REDCO_MOST_NEIGHBOURS; their costs are against what leads in the end */
redco_status redco_neighbours(const redco_question *question, const redco_inputs *inputs,
                              const redco_search_options *options, redco_search_result *answer,
                              redco_neighbour *neighbours_out, size_t *count_out, redco_error *err);

/** The extra cost of @p objective over @p best, as a ratio: 0 where both are 0 (no communication at all), infinite
 * where only @p best is. */
double redco_cost_ratio(double objective, double best);

/** The loss of @p candidate against @p best, as users read it: simulated step, or T_comm where that is the
 *  objective. */
double redco_candidate_ratio(const redco_search_options *options, const redco_candidate *candidate,
                             const redco_candidate *best);

/** The configuration that most layers of @p candidate have (the first of equals). */
const redco_assignment *redco_main_assignment(const redco_candidate *candidate);

#ifdef __cplusplus
}
#endif
#endif
