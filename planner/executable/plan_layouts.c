#include "planner/executable/plan_layouts.h"

#include "planner/rules/rules_params.h"
#include "planner/rules/rules_user.h"

#include <stdio.h>
#include <string.h>

struct rules {
    const redco_plan *plan;
    char place[512];
    redco_rules_tree *tree;
    redco_user_rules *user;
};

/* The first that matches. What GLPK placed lists only what it splits. */
static redco_status find_rule(const struct rules *r, const char *path, const redco_plan_rule **rule_out,
                              redco_error *err)
{
    const size_t rule = redco_user_rule_of(r->user, path);
    *rule_out = rule != REDCO_RULES_NONE ? &r->plan->rules[rule] : NULL;
    if (*rule_out != NULL || strcmp(r->plan->tp_placement, "milp") == 0) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, r->place, "no rule matches %s", path);
}

/* GPT-2's matrices stand the other way round in Flax. */
static uint32_t own_dim(const redco_model *model, const struct rules *r, size_t index, uint32_t dim)
{
    const redco_param *params = NULL;
    const size_t tensor = redco_rules_tree_tensor(r->tree, index);
    const size_t count = redco_model_tensors(model, &params);
    return tensor < count && params[tensor].role == REDCO_PARAM_CONV1D && params[tensor].rank == 2 ? 1 - dim : dim;
}

static redco_status lay(const struct rules *r, const redco_task_parameter *p, const redco_plan_rule *rule, uint32_t dim,
                        redco_tp_layout *layout_out, redco_error *err)
{
    const uint32_t tp = r->plan->parallelism.tp, parts = rule->parts > 1 ? rule->parts : 1;
    const uint64_t unit = rule->unit > 1 ? rule->unit : 1;
    const redco_tensor_type type = redco_task_parameter_type(p, REDCO_F32);
    redco_tp_layout layout = redco_tp_split(dim);
    if (dim + 1 == p->rank && p->blocks > 1) { layout.blocks = p->blocks; } /* each of a fused product's matrices */
    if (parts > 1) { layout.blocks = parts; }
    if (!redco_tp_fits(layout, &type, tp) && parts == 1) { layout.blocks = 1; }
    if (!redco_tp_fits(layout, &type, tp) || p->dim[dim] / layout.blocks / tp % unit != 0) {
        return redco_fail(err, REDCO_EVALUE, r->place,
                          "%s splits dimension %u of %s, %llu, among %u ranks in %u parts and units of %llu: uneven "
                          "parts and shared units are not executed; plan with --tp-placement rules",
                          rule->match, dim, p->name, (unsigned long long)p->dim[dim], tp, parts,
                          (unsigned long long)unit);
    }
    *layout_out = layout;
    return REDCO_OK;
}

redco_status redco_plan_layouts(const redco_plan *plan, const char *place, const redco_model *model,
                                const redco_task *task, redco_tp_layout *layouts_out, redco_error *err)
{
    struct rules r = {.plan = plan};
    const redco_rules_param *params = NULL;
    for (size_t i = 0; i < task->parameter_count; i++) { layouts_out[i] = redco_tp_replicated(); }
    if (plan->parallelism.tp == 1) { return REDCO_OK; }
    (void)snprintf(r.place, sizeof r.place, "%.470s:/tensor_parallel/rules", place);
    redco_status st = redco_user_rules_of_plan(plan, r.place, &r.user, err);
    if (st == REDCO_OK) { st = redco_rules_tree_from_model(model, true, &r.tree, err); }
    if (st != REDCO_OK) { goto out; }
    const size_t count = redco_rules_tree_params(r.tree, &params);
    size_t known = 0;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        char name[REDCO_RULES_PATH_BYTES];
        const redco_plan_rule *rule = NULL;
        if (redco_rules_tree_name(r.tree, model, i, name) == NULL) { continue; } /* only Flax has it */
        const redco_task_parameter *const p = redco_task_find(task, name);
        if (p == NULL) { break; }
        known++;
        st = find_rule(&r, params[i].path, &rule, err);
        if (st != REDCO_OK || rule == NULL || rule->dim < 0 || rule->dim >= (int32_t)params[i].rank) { continue; }
        st = lay(&r, p, rule, own_dim(model, &r, i, (uint32_t)rule->dim), &layouts_out[p - task->parameters], err);
    }
    if (st == REDCO_OK && known != task->parameter_count) {
        st = redco_fail(err, REDCO_EVALUE, place, "rules and executor do not know the same parameters of %s",
                        task->name);
    }
out:
    redco_user_rules_free(r.user);
    redco_rules_tree_free(r.tree);
    return st;
}
