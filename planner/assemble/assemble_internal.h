/** @file assemble_internal.h  Shared by assemble.c, assemble_fill.c and check_plan.c. */
#ifndef REDCO_ASSEMBLE_INTERNAL_H
#define REDCO_ASSEMBLE_INTERNAL_H

#include "planner/assemble/assemble.h"

redco_plan_predicted redcoi_predicted(const redco_prediction *prediction, const redco_calibration *calibration);
redco_plan_closed_form redcoi_closed_form(const redco_prediction *prediction);
/** Transformer layers: all but embedding and head. */
uint32_t redcoi_blocks(const redco_model *model);
redco_status redcoi_ranges(const redco_model *model, uint32_t stages, const redco_assignment *assignments,
                           uint32_t count, redco_plan_layers **layers_out, uint32_t *count_out, redco_error *err);
/** The workload and the configuration that a plan states. */
redco_workload redcoi_plan_workload(const redco_plan *plan);
redco_parallelism redcoi_plan_setting(const redco_plan *plan);
/** tensor_parallel of a plan whose workload and mesh are set. */
redco_status redcoi_fill_rules(redco_plan *plan, const redco_inputs *inputs, redco_tp_placement placement,
                               redco_error *err);
/** The placement that a plan names. @param name  of the plan, for the error */
/** The model's class that a plan names so. @return UINT32_MAX, and @p class_out as it was, if there is none */
uint32_t redcoi_plan_class(const redco_model *model, const char *class_name, const redco_layer_class **class_out);
redco_status redcoi_plan_placement(const redco_plan *plan, const char *name, redco_tp_placement *placement_out,
                                   redco_error *err);
/** Puts the user's rules, if there are any, before those of a plan, or in their place. */
redco_status redcoi_apply_user_rules(redco_plan *plan, const redco_inputs *inputs, redco_error *err);
/** Says whether a plan has rules of a user's. */
bool redcoi_has_user_rules(const redco_plan *plan);
/** Such rules as read, once it is known that they can be applied to the model; NULL for other plans.
 *  @param name  of the plan, for errors */
redco_status redcoi_reopen_user_rules(const redco_plan *plan, const char *name, const redco_model *model,
                                      redco_user_rules **rules_out, redco_error *err);
/** Such rules can be applied to the model.  @param name  of the plan, for errors */
redco_status redcoi_check_user_rules(const redco_plan *plan, const char *name, const redco_model *model,
                                     redco_error *err);
/** placement of a plan whose meshes, layers, precision and micro-batches are set. */
redco_status redcoi_fill_placement(redco_plan *plan, const redco_inputs *inputs, redco_error *err);
/** "NAME:POINTER: what". */
__attribute__((format(printf, 4, 5))) redco_status redcoi_refuse(const char *name, const char *pointer,
                                                                 redco_error *err, const char *format, ...);
/** The profile that the plan was made with is the one given. */
redco_status redcoi_check_profile(const redco_plan *plan, const char *name, const redco_comm *comm, redco_error *err);
redco_status redcoi_reopen_inputs(const redco_plan *plan, const char *name, const char *const *profiles,
                                  uint32_t profile_count, redco_inputs *out, redco_error *err);
/** Fills all but inputs. */
redco_status redcoi_reopen_costs(const redco_plan *plan, const char *name, redco_plan_case *reopened, redco_error *err);

#endif
