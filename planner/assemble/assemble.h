/** @file assemble.h  From an answer of the search to a plan, and back: a plan's numbers computed again from the model,
 *  cluster and calibration that it embeds. */
#ifndef REDCO_ASSEMBLE_H
#define REDCO_ASSEMBLE_H

#include "planner/assemble/inputs.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Descriptions and digests that all plans made from the same inputs share: they are made once. */
typedef struct redco_assembler redco_assembler;

/** @param inputs, options  borrowed until redco_assembler_free()
 *  @param version          of redco, for the plan file; borrowed */
redco_status redco_assembler_create(const redco_inputs *inputs, const redco_search_options *options,
                                    const char *version, redco_assembler **assembler_out, redco_error *err);
void redco_assembler_free(redco_assembler *assembler);

/** Fills a plan: consecutive layers per configuration (within a class: most recomputation first, then fewest ranks of
 *  parameters, gradients, optimizer states; with pipeline stages: as the candidate has them), RedCoast's rules for the
 * tensor-parallel degree, hosts in rank order.
 *  @param result     of the search that found @p candidate: solver and proof
 *  @param strategy   "optimum", "fixed" or the name of a named strategy
 *  @param plan_out   freed with redco_plan_free() */
redco_status redco_plan_assemble(const redco_assembler *assembler, const redco_search_result *result,
                                 const redco_candidate *candidate, const char *strategy, redco_plan **plan_out,
                                 redco_error *err);

/** {"predicted": ..., "closed_form": ...} of a priced candidate as in plan files: a new reference, NULL when out of
 *  memory. */
json_t *redco_plan_predicted_json(const redco_inputs *inputs, const redco_candidate *candidate);

/** Rebuilds model, cluster, calibration and costs from what @p plan embeds, predicts again and compares every number.
 *  @param name      of the plan, for errors, which name JSON pointer, stated and recomputed value
 *  @param profiles  the files whose digest the plan states; NULL with 0
 *  @param refined_ratio_out  the search's own estimate is so far from today's; 0: it is the same
 *  @return REDCO_OK when nothing contradicts */
redco_status redco_plan_verify(const redco_plan *plan, const char *name, const char *const *profiles,
                               uint32_t profile_count, double *refined_ratio_out, redco_error *err);

/** Prices a plan's tensor-parallel layouts: redco_tp_attach(), which needs GLPK. */
typedef redco_status (*redco_attach)(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                                     const redco_user_rules *user, redco_error *err);

/** A plan to compute with: model, cluster, calibration rebuilt from what it embeds. */
typedef struct redco_plan_case {
    redco_attach attach; /* NULL: layouts are split in pairs, as the closed form has them */
    redco_inputs inputs;
    redco_workload workload;
    redco_tp_placement tp_placement;
    redco_user_rules *tp_rules; /* rules of a plan whose placement is "user" */
    redco_costs *costs;
    redco_parallelism parallelism;
    redco_assignment *assignments;
    uint32_t assignment_count;
} redco_plan_case;

/** @param name, profiles  as for redco_plan_verify()
 *  @param case_out        freed with redco_plan_case_free() */
redco_status redco_plan_reopen(const redco_plan *plan, const char *name, const char *const *profiles,
                               uint32_t profile_count, redco_plan_case *case_out, redco_error *err);
/** The same for programs without the planner.
 *  @param attach        prices layouts; may be NULL
 *  @param same_profile  the profiles must be those that the plan was made with; else prices may be others */
redco_status redco_plan_case_open(const redco_plan *plan, const char *name, const char *const *profiles,
                                  uint32_t profile_count, redco_attach attach, bool same_profile,
                                  redco_plan_case *case_out, redco_error *err);
/** Makes a plan's engine the one that redco-exec is: it gathers by module whatever the plan's engine gathers.
 *  @return whether that changed the plan's engine, so that its predictions are those of another */
bool redco_plan_run_here(redco_plan *plan);
/** The same plan under other overlap: redco_overlap bits. */
redco_status redco_plan_case_overlap(redco_plan_case *reopened, uint32_t overlap, redco_error *err);
void redco_plan_case_free(redco_plan_case *reopened);

/** The half-width of the confidence band on tokens/s/GPU; 0 when the calibration claims none. */
double redco_band_tokens(const redco_calibration *calibration, const redco_prediction *prediction);

#ifdef __cplusplus
}
#endif
#endif
