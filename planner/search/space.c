#include "planner/search/space.h"

#include "costmodel/simulator/step.h"
#include "planner/search/strategy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Micro-batches of more sequences are not tried; those given are. */
enum { LARGEST_MICRO_BATCH = 65536 };
/* Higher context-parallel degrees are not tried either: each exchanges keys and values in every layer. */
enum { LARGEST_CONTEXT = 16 };

/* Layer-wise T_comm: step time enters with this weight, so that it breaks ties and little else. */
static const double step_weight = 1e-6;

static bool is_block(redco_class_kind kind)
{
    return kind == REDCO_CLASS_BLOCK || kind == REDCO_CLASS_CROSS;
}

static void free_outer(redcoi_outer *outer)
{
    free(outer->groups);
    free(outer->bounds_s);
    redcoi_problem_free(outer->lean);
    if (outer->goal != outer->steps) { redcoi_problem_free(outer->goal); }
    redcoi_problem_free(outer->steps);
}

void redcoi_space_free(redcoi_space *space)
{
    if (space == NULL) { return; }
    for (uint32_t i = 0; i < space->outer_count; i++) { free_outer(&space->outers[i]); }
    free(space->outers);
    redco_costs_free(space->costs);
    free(space);
}

static bool has_fixed_meshes(const redco_search_options *options)
{
    return options->fix.parameters.gpus > 0 || options->fix.gradients.gpus > 0 || options->fix.optimizer.gpus > 0 ||
           options->fix_secondary.gpus > 0;
}

bool redco_search_offers(const redco_search_options *options, redco_recompute policy)
{
    static const uint32_t bits[REDCO_RECOMPUTE_COUNT] = {[REDCO_RECOMPUTE_NONE] = ~0U,
                                                         [REDCO_RECOMPUTE_SELECTIVE] = REDCO_OFFERS_SELECTIVE,
                                                         [REDCO_RECOMPUTE_FULL] =
                                                             REDCO_OFFERS_FULL | REDCO_OFFERS_HALF};
    return options->offers == 0 || (options->offers & bits[policy]) != 0;
}

static bool has_scheme(const redco_search_options *options, redco_scheme scheme)
{
    return options->schemes == 0 || (options->schemes >> scheme & 1) != 0;
}

/* A second copy shares its ranks with fewer others than the first. */
static bool is_copy(redco_mesh secondary, redco_mesh parameters)
{
    return redco_mesh_nests(secondary, parameters) && !redco_mesh_equal(secondary, parameters);
}

static redco_status list_groups(const redcoi_space *space, redcoi_outer *outer, redco_error *err)
{
    const redco_search_options *o = &space->options;
    const bool copied = outer->setting.secondary.gpus > 0 && o->fix_secondary.gpus == 0;
    const redco_strategy strategy = copied ? REDCO_STRATEGY_ZEROPP : o->strategy;
    const redco_mesh grid = redco_costs_grid(space->costs, &outer->setting);
    const bool limited = o->states != 0 && o->strategy == REDCO_STRATEGY_ANY && !has_fixed_meshes(o);
    size_t count = 0;
    bool copyable = o->fix_secondary.gpus == 0;
    const redco_status st = redco_strategy_triples(grid, strategy, &o->fix, &outer->groups, &count, err);
    if (st != REDCO_OK) { return st; }
    /* Without updated parameters to spread both schemes are one: it is listed under the first. */
    const bool second_scheme =
        !o->scheme_fixed && outer->setting.scheme == REDCO_INTRA_TENSOR && has_scheme(o, REDCO_INTER_TENSOR);
    for (size_t i = 0; i < count; i++) {
        const redco_shards *s = &outer->groups[i];
        if (o->fix_secondary.gpus > 0 && !is_copy(o->fix_secondary, s->parameters)) { continue; }
        copyable = true;
        if (second_scheme && redco_mesh_equal(s->parameters, s->optimizer)) { continue; }
        if (limited && !redco_strategy_runs(o->states, grid, outer->setting.secondary, s)) { continue; }
        outer->groups[outer->group_count++] = *s;
    }
    if (copyable) { return REDCO_OK; }
    free(outer->groups);
    return redco_fail(err, REDCO_EVALUE, "--fix", "p2=%ux%u is no part of a larger mesh of the parameters",
                      o->fix_secondary.gpus, o->fix_secondary.nodes);
}

static redco_status add_outer(redcoi_space *space, const redco_setting *setting, redco_error *err)
{
    redco_status st = redco_setting_check(space->costs, setting, err);
    if (st != REDCO_OK) { return st; }
    if (space->outer_count == space->outer_capacity) {
        const uint32_t capacity = space->outer_capacity > 0 ? 2 * space->outer_capacity : 32;
        redcoi_outer *more = realloc(space->outers, capacity * sizeof *more);
        if (more == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
        space->outers = more;
        space->outer_capacity = capacity;
    }
    redcoi_outer *outer = &space->outers[space->outer_count];
    *outer = (redcoi_outer){.setting = *setting};
    if ((st = list_groups(space, outer, err)) != REDCO_OK) { return st; }
    if (outer->group_count == 0) {
        free(outer->groups);
        return REDCO_OK;
    }
    outer->least_s = space->comm ? 0.0 : redco_cost_bound(space->costs, setting);
    if ((st = redco_costs_failure(space->costs, err)) != REDCO_OK) {
        free(outer->groups);
        return st;
    }
    if (!isfinite(outer->least_s)) {
        free(outer->groups);
        return redco_fail(err, REDCO_EVALUE, "cost model", "the compute time of a step is %g s", outer->least_s);
    }
    uint32_t policies = 0;
    for (int r = 0; r < REDCO_RECOMPUTE_COUNT; r++) {
        policies += redco_search_offers(&space->options, (redco_recompute)r) ? 1 : 0;
    }
    if (space->options.recompute != REDCO_RECOMPUTE_COUNT) { policies = 1; }
    space->candidates += (uint64_t)outer->group_count * policies;
    space->outer_count++;
    return REDCO_OK;
}

/* "tp = 2, pp = 4": the degrees of a setting, for errors; what is 1 by default only where it is not. */
static const char *degrees_text(const redco_setting *setting, char *buffer, size_t size)
{
    const int used = snprintf(buffer, size, "tp = %u", setting->tp);
    const struct {
        const char *name;
        uint32_t degree;
    } more[] = {{"cp", setting->cp}, {"pp", setting->pp}};
    size_t at = used > 0 ? (size_t)used : 0;
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        if (more[i].degree <= 1 || at >= size) { continue; }
        const int added = snprintf(buffer + at, size - at, ", %s = %u", more[i].name, more[i].degree);
        at += added > 0 ? (size_t)added : 0;
    }
    return buffer;
}

redco_status redcoi_place_ranks(const redco_machine *machine, redco_setting *setting, redco_error *err)
{
    redco_parallel p = {.nodes = machine->nodes,
                        .gpus_per_node = machine->gpus_per_node,
                        .tp = setting->tp,
                        .cp = setting->cp,
                        .pp = setting->pp};
    const redco_status st = redco_parallel_place(&p, err);
    if (st != REDCO_OK) { return st; }
    setting->dp = p.dp;
    return redco_parallel_check_nodes(&p, err);
}

/* Whether a second copy of the parameters is one of the choices: it is in the free space of step times, but neither in
   AMSP's nor among meshes that are given. */
static bool may_copy(const redcoi_space *space, redco_mesh grid)
{
    const redco_search_options *o = &space->options;
    const bool runs = o->states == 0 || (o->states & (REDCO_RUNS_ANY | REDCO_RUNS_ZEROPP)) != 0;
    return runs && o->strategy == REDCO_STRATEGY_ANY && !space->comm && !has_fixed_meshes(o) && grid.nodes > 1;
}

static redco_status add_schemes(redcoi_space *space, redco_setting *setting, redco_error *err)
{
    static const redco_scheme schemes[2] = {REDCO_INTER_TENSOR, REDCO_INTRA_TENSOR};
    const redco_search_options *o = &space->options;
    redco_status st = REDCO_OK;
    for (int i = 0; i < 2 && st == REDCO_OK; i++) {
        if (o->scheme_fixed ? schemes[i] != o->scheme : !has_scheme(o, schemes[i])) { continue; }
        setting->scheme = schemes[i];
        const redco_mesh grid = redco_costs_grid(space->costs, setting);
        setting->secondary = o->fix_secondary.gpus > 0 ? o->fix_secondary : redco_strategy_secondary(o->strategy, grid);
        if (o->fix_secondary.gpus > 0 && !redco_mesh_nests(o->fix_secondary, grid)) {
            return redco_fail(err, REDCO_EVALUE, "--fix", "p2=%ux%u does not divide the mesh of %ux%u (GPUs x nodes)",
                              o->fix_secondary.gpus, o->fix_secondary.nodes, grid.gpus, grid.nodes);
        }
        st = add_outer(space, setting, err);
        if (st != REDCO_OK || !may_copy(space, grid)) { continue; }
        setting->secondary = redco_strategy_secondary(REDCO_STRATEGY_ZEROPP, grid);
        st = add_outer(space, setting, err);
    }
    return st;
}

/* Whether stages can hold the model chunks that were asked for; one stage has none. */
static bool may_interleave(const redcoi_space *space, const redco_setting *setting, redco_error *err)
{
    return redco_setting_chunks(setting) <= 1 || redco_step_chunks_check(space->costs, setting, err) == REDCO_OK;
}

/* All micro-batches of one choice of degrees. REDCO_EVALUE: it has none, or one that does not divide. */
static redco_status add_degrees(redcoi_space *space, const redcoi_inputs *inputs, redco_setting setting,
                                redco_error *err)
{
    const redco_search_options *o = &space->options;
    char degrees[64];
    redco_status st = redcoi_place_ranks(inputs->machine, &setting, err);
    if (st != REDCO_OK) { return st; }
    const uint64_t ranks = redco_mesh_ranks(setting.dp);
    const uint64_t batch = o->workload.global_batch;
    if (batch % ranks != 0) {
        return redco_fail(err, REDCO_EVALUE, "--global-batch",
                          "%llu sequence%s not divide over %llu data-parallel ranks (%s); a multiple of %llu would",
                          (unsigned long long)batch, batch == 1 ? " does" : "s do", (unsigned long long)ranks,
                          degrees_text(&setting, degrees, sizeof degrees), (unsigned long long)ranks);
    }
    const uint64_t per_rank = batch / ranks;
    if (o->micro_batch != 0 && per_rank % o->micro_batch != 0) {
        return redco_fail(err, REDCO_EVALUE, "--micro-batch",
                          "%u does not divide the %llu sequence%s of a data-parallel rank (%s)", o->micro_batch,
                          (unsigned long long)per_rank, per_rank == 1 ? "" : "s",
                          degrees_text(&setting, degrees, sizeof degrees));
    }
    const uint64_t first = o->micro_batch != 0 ? o->micro_batch : 1;
    const uint64_t most = per_rank < LARGEST_MICRO_BATCH ? per_rank : LARGEST_MICRO_BATCH;
    const uint64_t last = o->micro_batch != 0 ? o->micro_batch : most;
    bool any = false;
    for (uint64_t b = first; b <= last; b++) {
        if (per_rank % b != 0) { continue; }
        setting.micro_batch = (uint32_t)b;
        setting.micro_batches = per_rank / b;
        if (!may_interleave(space, &setting, err)) { continue; }
        any = true;
        if ((st = add_schemes(space, &setting, err)) != REDCO_OK) { return st; }
    }
    return any ? REDCO_OK : REDCO_EVALUE;
}

/* All pipeline depths beside one tensor- and context-parallel degree: stages hold a layer at least. */
static redco_status add_depths(redcoi_space *space, const redcoi_inputs *inputs, redco_setting setting,
                               redco_error *first)
{
    const uint32_t given = space->options.pp;
    const uint64_t world = (uint64_t)inputs->machine->nodes * inputs->machine->gpus_per_node;
    const uint64_t ranks = world / ((uint64_t)setting.tp * setting.cp);
    const uint32_t most = given == REDCO_DEGREE_AUTO ? space->blocks : given;
    for (uint32_t pp = given == REDCO_DEGREE_AUTO ? 1 : given; pp <= most; pp++) {
        if (given == REDCO_DEGREE_AUTO && (ranks == 0 || ranks % pp != 0)) { continue; }
        setting.pp = pp;
        setting.chunks = pp > 1 ? space->options.chunks : 1;
        const redco_status st = add_degrees(space, inputs, setting, first);
        /* A degree that does not divide something is no option, unless all are none. */
        if (st != REDCO_OK && st != REDCO_EVALUE) { return st; }
    }
    return REDCO_OK;
}

/* T_comm leaves tensor-parallel traffic out, so that a free degree would always be the largest: the paper's is 1. A
   free degree stays inside the links of a node (pairs with bridges, all with NVSwitch); one that is given may leave
   them. */
static redco_status add_all(redcoi_space *space, const redcoi_inputs *inputs, redco_error *err)
{
    const redco_search_options *o = &space->options;
    const uint32_t domain = redco_machine_domain(inputs->machine);
    const uint32_t tp_given = o->tp != 0 ? o->tp : space->comm ? 1 : REDCO_DEGREE_AUTO;
    const uint32_t most_cp = o->cp == REDCO_DEGREE_AUTO ? LARGEST_CONTEXT : o->cp;
    redco_error first = {0};
    redco_status st = REDCO_OK;
    for (uint32_t tp = tp_given != REDCO_DEGREE_AUTO ? tp_given : 1;
         tp <= (tp_given != REDCO_DEGREE_AUTO ? tp_given : domain) && st == REDCO_OK; tp++) {
        if (tp_given == REDCO_DEGREE_AUTO && domain % tp != 0) { continue; }
        for (uint32_t cp = o->cp == REDCO_DEGREE_AUTO ? 1 : o->cp; cp <= most_cp && st == REDCO_OK; cp++) {
            if (o->cp == REDCO_DEGREE_AUTO && o->workload.seq_len % cp != 0) { continue; }
            const redco_setting setting = {.tp = tp, .cp = cp, .sequence_parallel = o->sequence_parallel == REDCO_ON};
            st = add_depths(space, inputs, setting, &first);
        }
    }
    if (st == REDCO_OK && space->outer_count == 0) { st = first.status; }
    return st == REDCO_OK ? REDCO_OK : redco_fail(err, st, first.place, "%s", first.text);
}

static int compare_outers(const void *left, const void *right)
{
    const redcoi_outer *a = left;
    const redcoi_outer *b = right;
    if (a->least_s < b->least_s || a->least_s > b->least_s) { return a->least_s < b->least_s ? -1 : 1; }
    if (a->setting.tp != b->setting.tp) { return a->setting.tp < b->setting.tp ? -1 : 1; }
    if (a->setting.cp != b->setting.cp) { return a->setting.cp < b->setting.cp ? -1 : 1; }
    if (a->setting.pp != b->setting.pp) { return a->setting.pp < b->setting.pp ? -1 : 1; }
    if (a->setting.micro_batch != b->setting.micro_batch) {
        return a->setting.micro_batch < b->setting.micro_batch ? -1 : 1;
    }
    if (a->setting.scheme != b->setting.scheme) { return a->setting.scheme < b->setting.scheme ? -1 : 1; }
    return (a->setting.secondary.gpus > 0) - (b->setting.secondary.gpus > 0);
}

redco_status redcoi_space_create(const redcoi_inputs *inputs, const redco_search_options *options,
                                 redcoi_space **space_out, redco_error *err)
{
    redcoi_space *space = calloc(1, sizeof *space);
    if (space == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    space->options = *options;
    redco_search_options *o = &space->options;
    if (o->top == 0) { o->top = 1; }
    if (o->strategy == REDCO_STRATEGY_AMSP) {
        o->layerwise = false;
        if (!o->scheme_fixed) { o->scheme = REDCO_INTER_TENSOR; }
        o->scheme_fixed = true;
    }
    space->comm = o->objective == REDCO_OBJECTIVE_COMM || o->strategy == REDCO_STRATEGY_AMSP;
    if (o->pp == 0 || (space->comm && o->pp == REDCO_DEGREE_AUTO)) { o->pp = 1; }
    if (o->cp == 0 || (space->comm && o->cp == REDCO_DEGREE_AUTO)) { o->cp = 1; }
    if (o->dimensions != 0) { /* what the engine lacks is not searched */
        if (o->tp == 0 && (o->dimensions & REDCO_HAS_TP) == 0) { o->tp = 1; }
        if (o->pp == REDCO_DEGREE_AUTO && (o->dimensions & REDCO_HAS_PP) == 0) { o->pp = 1; }
        if (o->cp == REDCO_DEGREE_AUTO && (o->dimensions & REDCO_HAS_CP) == 0) { o->cp = 1; }
    }
    redco_status st = redco_costs_create(inputs->machine, inputs->model, &o->workload, inputs->calibration,
                                         inputs->comm, &space->costs, err);
    if (st == REDCO_OK) { st = redco_tp_attach(space->costs, inputs->model, o->tp_placement, o->tp_rules, err); }
    if (st != REDCO_OK) { goto out; }
    space->class_count = (uint32_t)redco_model_classes(inputs->model, &space->classes);
    if (space->class_count == 0 || space->class_count > REDCOI_MAX_CLASSES) {
        st = redco_fail(err, REDCO_EVALUE, "model", "%u layer classes: 1 to %d can be planned", space->class_count,
                        REDCOI_MAX_CLASSES);
        goto out;
    }
    for (uint32_t c = 0; c < space->class_count; c++) {
        if (is_block(space->classes[c].kind)) { space->blocks += space->classes[c].layers; }
    }
    if ((st = add_all(space, inputs, err)) != REDCO_OK) { goto out; }
    qsort(space->outers, space->outer_count, sizeof *space->outers, compare_outers);
    *space_out = space;
    space = NULL;
out:
    redcoi_space_free(space);
    return st;
}

/* max(h X, X - u C) = h X + max(0, (1 - h) X - u C) */
static void add_window(redcoi_option *option, int window, bool overlapped, const redco_fixed_cost *fixed, double comm_s,
                       double compute_s)
{
    const double hidden = overlapped ? fixed->window_hidden_factor : 1.0;
    option->base_s += fixed->scale * hidden * comm_s;
    option->kink_s[window] =
        overlapped ? fixed->scale * ((1.0 - hidden) * comm_s - fixed->window_use * compute_s) : 0.0;
}

/* Pipeline stages, or, where they hold several model chunks each, those. */
static uint32_t stages_of(const redco_setting *setting)
{
    return setting->pp * redco_setting_chunks(setting);
}

/* Pipeline stages must take equally long, and the closed form takes them to: what one stage does with its n-th layer,
   all do. Where stages are unequal or of two kinds of layers, a class has one configuration. */
static void group_layers(const redcoi_space *space, redcoi_outer *outer)
{
    const uint32_t stages = stages_of(&outer->setting);
    uint32_t block_classes = 0;
    for (uint32_t c = 0; c < space->class_count; c++) { block_classes += is_block(space->classes[c].kind); }
    const bool alike = block_classes == 1 && space->blocks % stages == 0;
    for (uint32_t c = 0; c < space->class_count; c++) {
        const bool staged = stages > 1 && is_block(space->classes[c].kind);
        outer->layers_each[c] = !staged ? 1 : alike ? stages : space->classes[c].layers;
    }
}

/* One layer of each stage. */
static void times_layers(redcoi_option *option, uint32_t layers)
{
    option->base_s *= layers;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { option->kink_s[k] *= layers; }
    const uint64_t bytes = option->resident_bytes;
    option->resident_bytes = bytes <= UINT64_MAX / layers ? bytes * layers : UINT64_MAX;
}

static redcoi_option make_option(const redcoi_space *space, const redco_fixed_cost *fixed, const redco_layer_cost *cost)
{
    const uint32_t overlap = space->options.workload.overlap;
    redcoi_option option = {
        .base_s = fixed->scale * (cost->compute_s + cost->exposed_s + cost->optimizer_s),
        .resident_bytes = cost->parameter_bytes + cost->gradient_bytes + cost->optimizer_bytes + cost->activation_bytes,
    };
    add_window(&option, 0, (overlap & REDCO_OVERLAP_AR) != 0, fixed, cost->grad_comm_s, cost->grad_window_s);
    add_window(&option, 1, (overlap & REDCO_OVERLAP_BC) != 0, fixed, cost->spread_comm_s, cost->spread_window_s);
    memcpy(option.transient_bytes, cost->transient_bytes, sizeof option.transient_bytes);
    return option;
}

static redcoi_option comm_option(const redcoi_space *space, const redcoi_option *step, uint32_t layers,
                                 const redco_layer_cost *cost)
{
    redcoi_option option = *step;
    const double weight = space->options.layerwise ? step_weight : 0.0;
    option.base_s = layers * cost->amsp_s + weight * step->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { option.kink_s[k] = weight * step->kink_s[k]; }
    return option;
}

/* Embedding and head are computed once and freed at once: only blocks are worth computing again. */
static void price_class(redcoi_space *space, redcoi_outer *outer, const redco_fixed_cost *fixed, uint32_t group,
                        uint32_t class_index)
{
    const redco_recompute policy = space->options.recompute;
    const bool block = is_block(space->classes[class_index].kind);
    for (uint32_t r = 0; r < REDCO_RECOMPUTE_COUNT; r++) {
        const bool offered =
            policy == REDCO_RECOMPUTE_COUNT && redco_search_offers(&space->options, (redco_recompute)r);
        const bool wanted =
            block ? offered || policy == (redco_recompute)r : (redco_recompute)r == REDCO_RECOMPUTE_NONE;
        if (!wanted) { continue; }
        const redco_layer_config config = {outer->groups[group], (redco_recompute)r};
        const redco_layer_cost cost = redco_cost_layer(space->costs, &outer->setting, class_index, &config);
        redcoi_option option = make_option(space, fixed, &cost);
        times_layers(&option, outer->layers_each[class_index]);
        option.class_index = class_index;
        option.group = group;
        option.recompute = (redco_recompute)r;
        outer->steps->options[outer->steps->option_count++] = option;
        if (!space->comm) { continue; }
        outer->goal->options[outer->goal->option_count++] =
            comm_option(space, &option, outer->layers_each[class_index], &cost);
    }
}

static redcoi_problem *new_problem(const redcoi_space *space, const redcoi_outer *outer, const redco_fixed_cost *fixed)
{
    redcoi_problem *problem = calloc(1, sizeof *problem);
    if (problem == NULL) { return NULL; }
    const size_t most = (size_t)outer->group_count * space->class_count * REDCO_RECOMPUTE_COUNT;
    problem->options = malloc(most * sizeof *problem->options);
    if (problem->options == NULL) {
        free(problem);
        return NULL;
    }
    problem->class_count = space->class_count;
    for (uint32_t c = 0; c < space->class_count; c++) {
        problem->class_layers[c] = space->classes[c].layers / outer->layers_each[c];
    }
    problem->group_count = outer->group_count;
    problem->constant_s = fixed->scale * fixed->fixed_s + fixed->overhead_s;
    const uint64_t taken = fixed->fixed_bytes + space->options.margin_bytes;
    problem->budget_bytes = fixed->capacity_bytes > taken ? fixed->capacity_bytes - taken : 0;
    return problem;
}

static redco_status bound_groups(redcoi_outer *outer, redco_error *err)
{
    outer->lean = redcoi_problem_copy(outer->goal, NULL);
    outer->bounds_s = malloc(outer->group_count * sizeof *outer->bounds_s);
    if (outer->lean == NULL || outer->bounds_s == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redcoi_problem_pareto(outer->lean, true);
    size_t first = 0;
    for (uint32_t g = 0; g < outer->group_count; g++) {
        size_t last = first;
        while (last < outer->lean->option_count && outer->lean->options[last].group == g) { last++; }
        outer->bounds_s[g] = redcoi_bound_best(outer->lean, first, last).value_s;
        first = last;
    }
    return REDCO_OK;
}

redco_status redcoi_space_price(redcoi_space *space, redcoi_outer *outer, redco_error *err)
{
    if (outer->lean != NULL) { return REDCO_OK; }
    const redco_fixed_cost fixed = redco_cost_fixed(space->costs, &outer->setting);
    outer->fixed_bytes = fixed.fixed_bytes;
    outer->capacity_bytes = fixed.capacity_bytes;
    group_layers(space, outer);
    outer->steps = new_problem(space, outer, &fixed);
    outer->goal = space->comm ? new_problem(space, outer, &fixed) : outer->steps;
    if (outer->steps == NULL || outer->goal == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t g = 0; g < outer->group_count; g++) {
        for (uint32_t c = 0; c < space->class_count; c++) { price_class(space, outer, &fixed, g, c); }
    }
    redco_status st = redco_costs_failure(space->costs, err);
    if (st != REDCO_OK || (st = redcoi_problem_check(outer->steps, err)) != REDCO_OK) { return st; }
    if (space->comm) {
        outer->goal->constant_s = 0.0;
        if ((st = redcoi_problem_check(outer->goal, err)) != REDCO_OK) { return st; }
    }
    return bound_groups(outer, err);
}

/* As plans list them, so that what is priced is what is written: most recomputation first, then fewest ranks. */
static int compare_assignments(const void *left, const void *right)
{
    const redco_assignment *a = left;
    const redco_assignment *b = right;
    if (a->class_index != b->class_index) { return a->class_index < b->class_index ? -1 : 1; }
    if (a->config.recompute != b->config.recompute) { return a->config.recompute > b->config.recompute ? -1 : 1; }
    const redco_mesh ours[3] = {a->config.shards.parameters, a->config.shards.gradients, a->config.shards.optimizer};
    const redco_mesh theirs[3] = {b->config.shards.parameters, b->config.shards.gradients, b->config.shards.optimizer};
    for (int i = 0; i < 3; i++) {
        const uint64_t x = redco_mesh_ranks(ours[i]);
        const uint64_t y = redco_mesh_ranks(theirs[i]);
        if (x != y) { return x < y ? -1 : 1; }
        if (ours[i].gpus != theirs[i].gpus) { return ours[i].gpus < theirs[i].gpus ? -1 : 1; }
    }
    return 0;
}

/* Stage after stage, each with all of its configurations. @return how many were added */
static uint32_t repeat_stages(redco_assignment *list, const redco_assignment *parts, uint32_t count, uint32_t stages)
{
    uint32_t made = 0;
    for (uint32_t stage = 0; stage < stages; stage++) {
        for (uint32_t i = 0; i < count; i++) { list[made++] = parts[i]; }
    }
    return made;
}

/* In class order. Where a class has several configurations and there are stages, each stage has its share of each. */
static uint32_t list_assignments(const redcoi_outer *outer, redco_assignment *parts, uint32_t count,
                                 redco_assignment *list)
{
    uint32_t made = 0;
    qsort(parts, count, sizeof *parts, compare_assignments);
    for (uint32_t first = 0, end = 0; first < count; first = end) {
        const uint32_t each = outer->layers_each[parts[first].class_index];
        while (end < count && parts[end].class_index == parts[first].class_index) { end++; }
        const bool mixed = end - first > 1;
        for (uint32_t i = first; i < end && !mixed; i++) { parts[i].layers *= each; }
        made += repeat_stages(&list[made], &parts[first], end - first, mixed ? each : 1);
    }
    return made;
}

redco_status redcoi_space_candidate(redcoi_space *space, const redcoi_outer *outer, const redcoi_answer *answer,
                                    redco_candidate *candidate_out, redco_error *err)
{
    const size_t most = (size_t)answer->count * stages_of(&outer->setting);
    redco_assignment *parts = malloc((answer->count > 0 ? answer->count : 1) * sizeof *parts);
    redco_assignment *list = malloc((most > 0 ? most : 1) * sizeof *list);
    if (parts == NULL || list == NULL) {
        free(parts);
        free(list);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    for (uint32_t i = 0; i < answer->count; i++) {
        const redcoi_option *option = &outer->steps->options[answer->parts[i].option];
        parts[i] = (redco_assignment){.class_index = option->class_index,
                                      .layers = answer->parts[i].layers,
                                      .config = {outer->groups[option->group], option->recompute}};
    }
    const uint32_t count = list_assignments(outer, parts, answer->count, list);
    free(parts);
    *candidate_out = (redco_candidate){.setting = outer->setting, .assignments = list, .assignment_count = count};
    candidate_out->closed_form = redco_cost_step(space->costs, &outer->setting, list, count);
    candidate_out->prediction = candidate_out->closed_form;
    candidate_out->objective = space->options.objective == REDCO_OBJECTIVE_COMM ? candidate_out->prediction.amsp_total_s
                                                                                : candidate_out->prediction.step_s;
    return REDCO_OK;
}
