/** @file plan_tp.h  What redco-plan says of the tensor-parallel layout: RedCoast's rules against the program. */
#ifndef REDCO_TOOLS_PLAN_TP_H
#define REDCO_TOOLS_PLAN_TP_H

#include "planner/tensor_parallel/tp_placement.h"
#include "tools/plan/plan_args.h"

#include <jansson.h>

struct plan_tp {
    bool known; /* false: nothing is split, or the model has matrices of unknown use */
    bool rows;  /* sequence parallelism */
    redco_tp_report layers;
    double rules_step_s, milp_step_s; /* of the same strategy */
};

/** GLPK weighs layers, not strategies: where the fastest plan of the rules is faster, or the only one that fits, takes
 *  it, sets the option and says so. */
redco_status plan_tp_try_rules(struct plan_args *args, const redco_inputs *inputs, redco_search_result **result,
                               redco_error *err);

redco_status plan_tp_find(const struct plan_args *args, const redco_inputs *inputs, const redco_candidate *best,
                          struct plan_tp *tp_out, redco_error *err);
/** One line, where there is something to say. */
void plan_tp_report(const struct plan_tp *tp, const redco_search_options *options);
/** The table of layers. */
void plan_tp_layers(const struct plan_tp *tp);
json_t *plan_tp_json(const struct plan_tp *tp);

#endif
