/* The second pass over a mixture: the first has experts on the same blocks of ranks as the layer's other parameters. */
#include "costmodel/evaluation/request.h"
#include "planner/answer/pricing.h"
#include "planner/search/strategy.h"

#include <stdlib.h>
#include <string.h>

/* Configurations within this share of the best are looked at again, and so many layouts at most. */
static const double near_ratio = 0.05;
enum { MOST_LAYOUTS = 8 };
/* Faster by less is none. */
static const double least_gain_ratio = 1e-3;

struct pass {
    redcoi_pricing *pricing;
    redco_recompute_list sets;
    redco_candidate *found; /* REDCOI_MOST_FOUND, by their closed form */
    uint32_t count;
};

static bool is_block(const redcoi_pricing *p, const redco_assignment *a)
{
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(p->inputs->model, &classes);
    return redco_class_is_block(classes[a->class_index].kind);
}

/* All blocks with one set, or, where it is free, each with its own. */
static redco_status consider(struct pass *pass, const redco_candidate *like, const redco_shards *experts,
                             redco_recompute set, redco_error *err)
{
    redcoi_pricing *const p = pass->pricing;
    redco_candidate c;
    redco_status st = redco_candidate_copy(like, &c, err);
    if (st != REDCO_OK) { return st; }
    c.closed_form.step_s = 0.0; /* where it is none */
    c.parallelism.experts = *experts;
    for (uint32_t i = 0; i < c.assignment_count; i++) {
        if (set != REDCO_RECOMPUTE_FREE && is_block(p, &c.assignments[i])) { c.assignments[i].config.recompute = set; }
    }
    if (redco_request_check(p->costs, &c.parallelism, c.assignments, c.assignment_count, NULL) == REDCO_OK) {
        c.closed_form = redco_cost_step(p->costs, &c.parallelism, c.assignments, c.assignment_count);
        c.prediction = c.closed_form;
        c.objective = c.closed_form.step_s;
    }
    uint32_t at = pass->count;
    const bool better = c.closed_form.step_s < like->closed_form.step_s * (1.0 - least_gain_ratio) &&
                        c.closed_form.step_s > 0.0 && c.closed_form.total_bytes <= c.closed_form.capacity_bytes;
    while (at > 0 && better && c.closed_form.step_s < pass->found[at - 1].closed_form.step_s) { at--; }
    if (!better || at == REDCOI_MOST_FOUND) {
        free(c.assignments);
        return redco_costs_failure(p->costs, err);
    }
    if (pass->count == REDCOI_MOST_FOUND) { free(pass->found[--pass->count].assignments); }
    memmove(&pass->found[at + 1], &pass->found[at], (pass->count++ - at) * sizeof c);
    pass->found[at] = c;
    return redco_costs_failure(p->costs, err);
}

static redco_status look_at(struct pass *pass, const redco_candidate *like, redco_error *err)
{
    const redco_shards free_meshes = {.parameters = {0, 0}};
    redco_shards *triples = NULL;
    size_t count = 0;
    const redco_mesh grid = redco_costs_expert_grid(pass->pricing->costs, &like->parallelism);
    redco_status st = redco_strategy_triples(grid, REDCO_STRATEGY_ANY, &free_meshes, &triples, &count, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = consider(pass, like, &triples[i], REDCO_RECOMPUTE_FREE, err);
        for (uint32_t s = 0; s < pass->sets.count && st == REDCO_OK; s++) {
            st = consider(pass, like, &triples[i], pass->sets.sets[s], err);
        }
    }
    free(triples);
    return st;
}

bool redcoi_experts_are_free(const redcoi_pricing *p)
{
    const redco_search_options *const o = p->options;
    const bool any = o->allows.states == 0 || (o->allows.states & REDCO_RUNS(REDCO_STRATEGY_ANY)) != 0;
    const redco_shards *const fix = &o->fix;
    return redco_costs_experts(p->costs) > 0 && any && p->simulates && !o->layerwise && !o->pass.brief &&
           o->strategy == REDCO_STRATEGY_ANY && !redco_parallelism_own_experts(&o->given) &&
           fix->parameters.gpus == 0 && fix->gradients.gpus == 0 && fix->optimizer.gpus == 0;
}

redco_status redcoi_experts_again(redcoi_pricing *p, redco_candidate found_out[REDCOI_MOST_FOUND], uint32_t *count_out,
                                  redco_error *err)
{
    struct pass pass = {.pricing = p, .sets = redco_search_recompute(p->inputs->model, p->options), .found = found_out};
    const double best_s = p->result->ranked[0].prediction.step_s;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0, seen = 0; i < p->result->ranked_count && seen < MOST_LAYOUTS && st == REDCO_OK; i++) {
        if (p->result->ranked[i].prediction.step_s > best_s * (1.0 + near_ratio)) { continue; }
        st = look_at(&pass, &p->result->ranked[i], err);
        seen++;
    }
    for (uint32_t i = 0; i < pass.count && st != REDCO_OK; i++) { free(found_out[i].assignments); }
    *count_out = st == REDCO_OK ? pass.count : 0;
    return st;
}
