/* Rules of a user's in a plan. */
#include "planner/assemble/assemble_internal.h"
#include "planner/rules/rules_params.h"
#include "planner/rules/rules_user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char user_placement[] = "user";

static void free_rules(redco_plan_rule *rules, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) { free(rules[i].match); }
    free(rules);
}

static redco_status replace_rules(redco_plan *plan, const redco_rules *rules, redco_error *err)
{
    const redco_rule *list = NULL;
    const size_t count = redco_rules_list(rules, &list);
    char *placement = strdup(user_placement);
    redco_plan_rule *copies = calloc(count + 1, sizeof *copies);
    uint32_t copied = 0;
    if (placement == NULL || copies == NULL) { goto failed; }
    for (size_t i = 0; i < count; i++) {
        if (list[i].overridden) { continue; }
        copies[copied].dim = list[i].dim;
        copies[copied].match = strdup(list[i].key);
        if (copies[copied].match == NULL) { goto failed; }
        copied++;
    }
    free_rules(plan->rules, plan->rules_count);
    free(plan->tp_placement);
    plan->rules = copies;
    plan->rules_count = copied;
    plan->tp_placement = placement;
    return REDCO_OK;
failed:
    if (copies != NULL) { free_rules(copies, copied); }
    free(placement);
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

/* Every layer: a rule may be for some of them. */
static redco_status decide(const redco_model *model, uint32_t shards, const redco_user_rules *user,
                           redco_rules **rules_out, redco_error *err)
{
    redco_rules_tree *tree = NULL;
    const redco_rules_param *params = NULL;
    redco_status st = redco_rules_tree_from_model(model, true, &tree, err);
    if (st == REDCO_OK) {
        const size_t count = redco_rules_tree_params(tree, &params);
        st = redco_rules_decide_user(params, count, shards, user, rules_out, err);
    }
    redco_rules_tree_free(tree);
    return st;
}

redco_status redcoi_apply_user_rules(redco_plan *plan, const redco_inputs *inputs, redco_error *err)
{
    redco_rules *rules = NULL;
    if (inputs->tp_rules == NULL) { return REDCO_OK; }
    redco_status st = decide(inputs->model, plan->parallelism.tp, inputs->tp_rules, &rules, err);
    if (st == REDCO_OK) { st = replace_rules(plan, rules, err); }
    redco_rules_free(rules);
    return st;
}

bool redcoi_has_user_rules(const redco_plan *plan)
{
    return strcmp(plan->tp_placement, user_placement) == 0;
}

static redco_status rules_of_plan(const redco_plan *plan, const char *name, const redco_model *model,
                                  redco_user_rules **user_out, redco_error *err)
{
    char place[512];
    redco_rules *rules = NULL;
    (void)snprintf(place, sizeof place, "%.470s:/tensor_parallel/rules", name);
    if (plan->parallelism.tp == 1) {
        return plan->rules_count == 0
                   ? REDCO_OK
                   : redco_fail(err, REDCO_EVALUE, place, "has %u rules, but tp = 1 splits nothing", plan->rules_count);
    }
    redco_status st = redco_user_rules_of_plan(plan, place, user_out, err);
    if (st == REDCO_OK) { st = decide(model, plan->parallelism.tp, *user_out, &rules, err); }
    redco_rules_free(rules);
    return st;
}

redco_status redcoi_reopen_user_rules(const redco_plan *plan, const char *name, const redco_model *model,
                                      redco_user_rules **rules_out, redco_error *err)
{
    return redcoi_has_user_rules(plan) ? rules_of_plan(plan, name, model, rules_out, err) : REDCO_OK;
}

redco_status redcoi_check_user_rules(const redco_plan *plan, const char *name, const redco_model *model,
                                     redco_error *err)
{
    redco_user_rules *user = NULL;
    const redco_status st = rules_of_plan(plan, name, model, &user, err);
    redco_user_rules_free(user);
    return st;
}
