/* Placements as layouts of the cost model: what each costs more than the reference, solved when first asked for. */
#include "planner/tensor_parallel/tp_placement.h"

#include "planner/tensor_parallel/placed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SETTINGS = 64 };

/* All classes under one parallelism, as far as layouts depend on it. */
struct setting_costs {
    uint32_t tp, cp, pp, micro_batch; /* tp 0: empty */
    uint64_t micro_batches;
    bool sequence_parallel;
    redco_mesh dp;
    uint32_t first[REDCOI_TP_LAYERS]; /* first of a class's layouts in costs */
    redco_layout_cost *costs;         /* one for every layout of every class */
};

struct source {
    const redco_model *model;
    redco_tp_placement placement;
    redcoi_tp_solver solve;       /* NULL: the program cannot be solved */
    const redco_user_rules *user; /* NULL: RedCoast's rules */
    redcoi_tp_pricing pricing;
    redcoi_tp_ruled_splits ruled; /* splits for ruled_shards */
    uint32_t ruled_shards;
    uint32_t next;
    struct setting_costs known[MOST_SETTINGS];
};

static int64_t minus(uint64_t a, uint64_t b)
{
    return a >= b ? (int64_t)(a - b) : -(int64_t)(b - a);
}

/* Activations of blocks, logits of the head: both are the bytes of a layout. */
static redco_layout_cost difference(const redcoi_tp_cost *cost, const redcoi_tp_cost *reference, bool logits)
{
    const int64_t bytes = minus(cost->bytes, reference->bytes);
    return (redco_layout_cost){.forward_s = cost->forward_s - reference->forward_s,
                               .backward_s = cost->backward_s - reference->backward_s,
                               .tp_forward_s = cost->tp_forward_s - reference->tp_forward_s,
                               .tp_backward_s = cost->tp_backward_s - reference->tp_backward_s,
                               .params = minus(cost->params, reference->params),
                               .activation_bytes = logits ? 0 : bytes,
                               .logits_bytes = logits ? bytes : 0};
}

static redco_status fill_setting(struct source *source, const redco_parallelism *parallelism,
                                 struct setting_costs *costs, redco_error *err)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < REDCOI_TP_LAYERS; c++) {
        costs->first[c] = count;
        count += source->ruled.classes[c].count;
    }
    costs->costs = calloc((size_t)count + 1, sizeof *costs->costs);
    if (costs->costs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const bool program = source->placement == REDCO_TP_MILP;
    const redcoi_tp_base base = redcoi_tp_base_of(&source->pricing, source->model, parallelism);
    redcoi_tp_placed *placed = malloc(sizeof *placed);
    bool more = true;
    redco_status st = placed != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    for (uint32_t i = 0; st == REDCO_OK; i++) {
        st = redcoi_tp_place(&base, &source->ruled, program ? source->solve : NULL, i, placed, &more, err);
        if (st != REDCO_OK || !more) { break; }
        const redcoi_tp_total *const total = program ? &placed->milp.total : &placed->rules;
        for (uint32_t slot = 0; slot < REDCOI_TP_CLASSES; slot++) {
            const uint32_t class_index = placed->layer.classes[slot];
            if (class_index >= REDCOI_TP_LAYERS) { continue; }
            costs->costs[costs->first[class_index] + placed->layout] =
                difference(&total->classes[slot], &placed->reference.classes[slot], slot == 1);
        }
    }
    free(placed);
    return st;
}

static redco_status use_rules(struct source *source, uint32_t shards, redco_error *err)
{
    if (source->ruled_shards == shards) { return REDCO_OK; }
    redcoi_tp_rules_splits_free(&source->ruled);
    source->ruled_shards = 0;
    redco_error why = {0};
    redco_status st = redcoi_tp_rules_splits(source->model, shards, source->user, &source->ruled, &why);
    if (st == REDCO_EVALUE && source->user != NULL) { /* a plan of so many ranks will be refused */
        st = redcoi_tp_rules_splits(source->model, shards, NULL, &source->ruled, err);
    } else if (st != REDCO_OK) {
        return redco_fail(err, st, why.place, "%s", why.text);
    }
    if (st == REDCO_OK) { source->ruled_shards = shards; }
    return st;
}

static bool is_of(const struct setting_costs *known, const redco_parallelism *parallelism)
{
    return known->tp == parallelism->tp && known->cp == parallelism->cp && known->pp == parallelism->pp &&
           known->sequence_parallel == parallelism->sequence_parallel &&
           known->micro_batch == parallelism->micro_batch && known->micro_batches == parallelism->micro_batches &&
           redco_mesh_equal(known->dp, parallelism->dp);
}

static redco_layout_cost cost_in(const struct setting_costs *known, uint32_t class_index, uint32_t layout)
{
    return known->costs[known->first[class_index] + layout];
}

/* Which layers are alike depends on the ranks: where they do not divide what the user splits, RedCoast's rules stand
 * in.
 */
static uint32_t count_layouts(void *context, const redco_parallelism *parallelism, uint32_t class_index,
                              const uint32_t **of_out)
{
    struct source *const source = context;
    redco_error why = {0}; /* pricing fails likewise, and says so */
    *of_out = NULL;
    if (source->user == NULL || class_index >= REDCOI_TP_LAYERS ||
        use_rules(source, parallelism->tp, &why) != REDCO_OK) {
        return 1;
    }
    *of_out = source->ruled.classes[class_index].of;
    return source->ruled.classes[class_index].count;
}

static redco_status layout_cost(void *context, const redco_parallelism *parallelism, uint32_t class_index,
                                uint32_t layout, redco_layout_cost *cost_out, redco_error *err)
{
    struct source *const source = context;
    for (uint32_t i = 0; i < MOST_SETTINGS; i++) {
        const struct setting_costs *const known = &source->known[i];
        if (is_of(known, parallelism)) {
            *cost_out = cost_in(known, class_index, layout);
            return REDCO_OK;
        }
    }
    struct setting_costs made = {.tp = parallelism->tp,
                                 .cp = parallelism->cp,
                                 .pp = parallelism->pp,
                                 .sequence_parallel = parallelism->sequence_parallel,
                                 .micro_batch = parallelism->micro_batch,
                                 .micro_batches = parallelism->micro_batches,
                                 .dp = parallelism->dp};
    redco_status st = use_rules(source, parallelism->tp, err);
    if (st == REDCO_OK) { st = fill_setting(source, parallelism, &made, err); }
    if (st != REDCO_OK) {
        free(made.costs);
        return st;
    }
    free(source->known[source->next].costs);
    source->known[source->next] = made;
    source->next = (source->next + 1) % MOST_SETTINGS;
    *cost_out = cost_in(&made, class_index, layout);
    return REDCO_OK;
}

static void free_source(void *context)
{
    struct source *const source = context;
    for (uint32_t i = 0; i < MOST_SETTINGS; i++) { free(source->known[i].costs); }
    redcoi_tp_rules_splits_free(&source->ruled);
    free(source);
}

redco_status redco_tp_attach_rules(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                                   const redco_user_rules *user, redco_error *err)
{
    const bool solves = placement == REDCO_TP_MILP && !redco_model_is_paired(model);
    return solves ? REDCO_OK : redcoi_tp_attach(costs, model, placement, user, NULL, err);
}

redco_status redcoi_tp_attach(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                              const redco_user_rules *user, redcoi_tp_solver solve, redco_error *err)
{
    if (placement == REDCO_TP_PAIRED) { return REDCO_OK; }
    if (redco_model_is_paired(model)) {
        return redco_fail(
            err, REDCO_EVALUE, redco_model_name(model),
            "has experts or latent attention, which tensor parallelism cuts in pairs of columns and rows: "
            "no other placement of its tensors is known");
    }
    if (!redco_model_lays_out(model)) { return REDCO_OK; }
    struct source *source = calloc(1, sizeof *source);
    if (source == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    source->model = model;
    source->placement = placement;
    source->solve = solve;
    source->user = placement == REDCO_TP_USER ? user : NULL;
    source->pricing.costs = costs;
    const redco_layouts layouts = {.cost = layout_cost,
                                   .count = count_layouts,
                                   .free = free_source,
                                   .context = source,
                                   .of_micro_batch = placement == REDCO_TP_RULES};
    redco_costs_set_layouts(costs, layouts);
    return REDCO_OK;
}
