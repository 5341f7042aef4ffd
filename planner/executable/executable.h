/** @file executable.h  "Does redco-exec run this plan, and what of it does it not run?" One question, which the planner
 *  asks of what is given, plan files hold the answer to, and redco-exec asks before it begins. The texts are the same,
 *  and each names the nearest that runs.
 *
 *  Not of the plan, so not asked here: the world's size, the memory and the files of a machine. */
#ifndef REDCO_EXECUTABLE_H
#define REDCO_EXECUTABLE_H

#include "costmodel/models/model.h"
#include "planner/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_REFUSALS_MAX = 12, REDCO_REFUSAL_BYTES = 512 };

/** Reasons why not; none: it is run. */
typedef struct redco_refusals {
    uint32_t count;
    char text[REDCO_REFUSALS_MAX][REDCO_REFUSAL_BYTES];
} redco_refusals;

/** Refuses degrees, formats and optimizers of a question that are not run, whatever the model: a limit of the search.
 *  @param recompute  of all layers; REDCO_RECOMPUTE_FREE is read as none
 *  @param out        refusals are added */
void redco_layout_executable(const redco_parallelism *parallelism, const redco_engine *engine,
                             redco_recompute recompute, redco_executor executor, redco_refusals *out);

/** Refuses a plan, its model and layouts included.
 *  @param model  the plan's (plan->model_config)
 *  @param out    all its refusals
 *  @return REDCO_ENOMEM, or what else keeps the question from being answered */
redco_status redco_plan_executable(const redco_plan *plan, const redco_model *model, redco_executor executor,
                                   redco_refusals *out, redco_error *err);

/** The first of these as an error.
 *  @param place  of the plan, for errors
 *  @return REDCO_EVALUE if the plan is not run */
redco_status redco_plan_check_executable(const redco_plan *plan, redco_executor executor, const char *place,
                                         redco_error *err);

/** The member "execution" of plan files: {"host": {"executable": false, "because": ["..."]}, "cuda": {...}}, a new
 *  reference. */
redco_status redco_plan_execution(const redco_plan *plan, const redco_model *model, json_t **execution_out,
                                  redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
