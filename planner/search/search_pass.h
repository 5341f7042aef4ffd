/** @file search_pass.h  The parts of a search's options that no user says: what the engine allows, which is read from
 * its file, and the bookkeeping of one pass of an answer's searches. */
#ifndef REDCO_SEARCH_PASS_H
#define REDCO_SEARCH_PASS_H

#include "costmodel/closed_form/closed_form.h"
#include "planner/search/hull.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Limits of an engine; bits are 0 where it allows all. */
typedef struct redco_search_allows {
    uint32_t schemes;               /**< bit per redco_scheme that the engine has */
    redco_recompute_list recompute; /**< sets that the engine offers; none: no limits, but as training software has it,
                                         without modules beyond the attention core */
    uint32_t schedules;             /**< 1 << redco_pipeline_kind: tried beside 1F1B and interleaved 1F1B; 0: none */
    bool unequal_stages;            /**< stages that balance embedding and head (redco_cost_balance()) are tried, too */
    uint32_t dimensions;            /**< REDCO_HAS_...: degrees that are free stay 1 where it has none */
    uint32_t states;                /**< bits of REDCO_RUNS(): which triples free meshes may form */
    bool own_kinds; /**< free stages and context parallelism only in kinds (orders of passes, exchanges) that the
                         engine has; else a given kind is priced as if it had it */
} redco_search_allows;

struct redco_search_options;
struct redco_remedy;

/** Bookkeeping of one pass of an answer's searches. */
typedef struct redco_search_pass {
    redco_costs *costs;       /**< NULL, or those of this machine, model, workload and placement; borrowed */
    uint64_t margin_bytes;    /**< memory that answers leave free, by the closed form */
    const redco_hull *within; /**< NULL, or where answers lie; borrowed */
    /** 0, or how many points redco_search_result.others lists at most whose closed form is no more than look_ratio
     * above the best's, and a third as many others that at their gap (gaps.h) may be faster by more than aim_ratio. */
    uint32_t others;
    bool others_alone; /**< nothing is ranked, nor proven */
    double look_ratio, aim_ratio;
    /** Beside others: how much more memory points of redco_search_result.roomier may need than there is; 0: none are
     *  listed */
    double roomier_ratio;
    uint64_t above_bytes; /**< and those whose fullest stage holds no more are of no interest; 0: all are */
    bool brief;           /**< one answer of many in a table: fewer layouts are simulated */
    /** Answers further above the first than this share are not ranked; 0: all that fit */
    double spread_ratio;
    /** Where nothing fits: whether a changed question has a plan, as its user will find; NULL: the closed form says so.
     *  @param machine  of the change
     *  @param remedy  takes what the plan takes */
    bool (*would_fit)(void *context, const redco_machine *machine, const struct redco_search_options *options,
                      struct redco_remedy *remedy);
    void *would_fit_context;
    bool no_remedies; /**< nothing is said of what would fit */
    double limit_s;   /**< limit on the objective: slower answers are of no interest; 0: none is too slow */
    double gap_ratio; /**< proven optimality gap asked for, e.g. 0.0005 */
} redco_search_pass;

#ifdef __cplusplus
}
#endif
#endif
