#include "planner/search/search_space.h"

#include "costmodel/simulator/step.h"
#include "planner/search/strategy.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Layer-wise T_comm: step time enters with this weight, so that it breaks ties and little else. */
static const double step_weight = 1e-6;

double redco_memory_ratio(redco_pipeline_kind schedule)
{
    return redco_pipeline_splits_backward(schedule) ? 0.18 : 0.12;
}

static void unprice(redcoi_configuration *configuration)
{
    redcoi_problem_free(configuration->pareto);
    if (configuration->objective != configuration->steps) { redcoi_problem_free(configuration->objective); }
    redcoi_problem_free(configuration->steps);
    free(configuration->bounds_s);
    configuration->pareto = NULL;
    configuration->objective = NULL;
    configuration->steps = NULL;
    configuration->bounds_s = NULL;
}

static void free_configuration(redcoi_configuration *configuration)
{
    free(configuration->groups);
    free(configuration->loads);
    unprice(configuration);
}

void redcoi_space_free(redcoi_space *space)
{
    if (space == NULL) { return; }
    for (uint32_t i = 0; i < space->configuration_count; i++) { free_configuration(&space->configurations[i]); }
    free(space->configurations);
    for (uint32_t i = 0; i < space->split_count; i++) { free(space->splits[i]); }
    free(space->splits);
    free(space->last.triples);
    free(space->last.runs);
    if (!space->costs_borrowed) { redco_costs_free(space->costs); }
    free(space);
}

/* Where the batch divides over no layout without them, stages and context parallelism that nobody fixed are tried: of
 * named strategies, say. @return whether that is more than before */
static bool widen(redco_search_options *o, const redco_search_options *asked, bool comm)
{
    const uint32_t has = asked->allows.dimensions != 0 ? asked->allows.dimensions : ~0U;
    const redco_search_options before = *o;
    if ((asked->given.pp == 0 || asked->given.pp == REDCO_DEGREE_MEASURED) && !comm && (has & REDCO_HAS_PP) != 0) {
        o->given.pp = REDCO_DEGREE_MEASURED;
    }
    if ((asked->given.cp == 0 || asked->given.cp == REDCO_DEGREE_MEASURED) && !comm && (has & REDCO_HAS_CP) != 0) {
        o->given.cp = REDCO_DEGREE_MEASURED;
    }
    return o->given.pp != before.given.pp || o->given.cp != before.given.cp;
}

static redco_status list_layouts(redcoi_space *space, const redcoi_inputs *inputs, const redco_search_options *asked,
                                 redco_error *err)
{
    redco_error why = {.status = REDCO_OK};
    redco_status st = redcoi_space_list(space, inputs, &why);
    if (st == REDCO_EVALUE && !space->batch_fits && widen(&space->options, asked, space->comm)) {
        redco_error_clear(&why);
        st = redcoi_space_list(space, inputs, &why);
    }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

redco_status redcoi_space_create(const redcoi_inputs *inputs, const redco_search_options *options,
                                 redcoi_space **space_out, redco_error *err)
{
    redcoi_space *space = calloc(1, sizeof *space);
    if (space == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    space->options = *options;
    space->counts = inputs->counts;
    redco_search_options *o = &space->options;
    if (o->top == 0) { o->top = 1; }
    if (o->strategy == REDCO_STRATEGY_AMSP) {
        o->layerwise = false;
        if (!redco_search_states(o, REDCO_OF_SCHEME)) { o->given.scheme = REDCO_INTER_TENSOR; }
        o->stated |= REDCO_STATES(REDCO_OF_SCHEME);
    }
    space->comm = o->objective == REDCO_OBJECTIVE_COMM || o->strategy == REDCO_STRATEGY_AMSP;
    if (o->given.pp == 0 || (space->comm && redco_degree_is_free(o->given.pp))) { o->given.pp = 1; }
    if (o->given.cp == 0 || (space->comm && redco_degree_is_free(o->given.cp))) { o->given.cp = 1; }
    if (space->comm && o->given.chunks == REDCO_DEGREE_AUTO) { o->given.chunks = 1; }
    if (space->comm && o->sequence_parallel == REDCO_EITHER) { o->sequence_parallel = REDCO_OFF; }
    /* Strategies with a name are data parallel: their papers have neither stages nor context parallelism. */
    if (o->strategy != REDCO_STRATEGY_ANY) {
        if (o->given.pp == REDCO_DEGREE_MEASURED) { o->given.pp = 1; }
        if (o->given.cp == REDCO_DEGREE_MEASURED) { o->given.cp = 1; }
    }
    if (o->allows.dimensions != 0) { /* the search leaves out what the engine lacks */
        for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
            if (!redco_dimension_is_degree(d)) { continue; }
            uint32_t *const given = redco_dimension_in(&o->given, d);
            const bool free = *given == 0 || redco_degree_is_free(*given);
            if (free && (o->allows.dimensions & d->bit) == 0) { *given = 1; }
        }
        if (o->sequence_parallel == REDCO_EITHER && (o->allows.dimensions & REDCO_HAS_SP) == 0) {
            o->sequence_parallel = REDCO_OFF;
        }
    }
    redco_status st = REDCO_OK;
    space->costs = o->pass.costs;
    space->costs_borrowed = o->pass.costs != NULL;
    o->pass.costs = NULL; /* options that are changed from here on have costs of their own */
    if (!space->costs_borrowed) {
        st = redco_costs_create(inputs->machine, inputs->model, &o->workload, inputs->calibration, inputs->comm,
                                &space->costs, err);
        if (st == REDCO_OK) { st = redco_tp_attach(space->costs, inputs->model, o->tp_placement, o->tp_rules, err); }
    }
    if (st != REDCO_OK) { goto out; }
    space->class_count = (uint32_t)redco_model_classes(inputs->model, &space->classes);
    if (space->class_count == 0 || space->class_count > REDCOI_MAX_CLASSES) {
        st = redco_fail(err, REDCO_EVALUE, "model", "%u layer classes: 1 to %d can be planned", space->class_count,
                        REDCOI_MAX_CLASSES);
        goto out;
    }
    for (uint32_t c = 0; c < space->class_count; c++) {
        if (redco_class_is_block(space->classes[c].kind)) { space->blocks += space->classes[c].layers; }
    }
    space->recompute = redco_search_recompute(inputs->model, o);
    redco_costs_prepare(space->costs, &space->recompute);
    if (space->blocks > REDCO_SIMULATED_LAYERS_MAX) { /* no measured run has so many layers */
        if (o->given.pp == REDCO_DEGREE_MEASURED) { o->given.pp = 1; }
        if (o->given.cp == REDCO_DEGREE_MEASURED) { o->given.cp = 1; }
    }
    if ((st = list_layouts(space, inputs, options, err)) != REDCO_OK) { goto out; }
    space->counts->listed += space->configuration_count;
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
static uint32_t stages_of(const redco_parallelism *parallelism)
{
    return redco_pipeline_positions(parallelism->schedule, parallelism->pp, redco_parallelism_chunks(parallelism));
}

/* Pipeline stages must take equally long, and the closed form takes them to: what one stage does with its n-th layer,
   all do. Where stages are unequal or of two kinds of layers, a class has one configuration. */
static void group_layers(const redcoi_space *space, redcoi_configuration *configuration)
{
    const uint32_t stages = stages_of(&configuration->parallelism);
    uint32_t block_classes = 0;
    for (uint32_t c = 0; c < space->class_count; c++) { block_classes += redco_class_is_block(space->classes[c].kind); }
    const bool alike = block_classes == 1 && configuration->parallelism.split == NULL && space->blocks % stages == 0;
    for (uint32_t c = 0; c < space->class_count; c++) {
        const bool staged = stages > 1 && redco_class_is_block(space->classes[c].kind);
        configuration->layers_each[c] = !staged ? 1 : alike ? stages : space->classes[c].layers;
    }
}

/* The share of a stage's blocks by which the stage that has most of them and the one that keeps most may differ: two
 * of them, where they do not. */
static double unequal_ratio(const redcoi_space *space, const redcoi_configuration *configuration)
{
    const redco_parallelism *const s = &configuration->parallelism;
    if (s->pp <= 1 || (s->split == NULL && space->blocks % stages_of(s) == 0)) { return 0.0; }
    return fmin(1.0, 2.0 * s->pp / space->blocks);
}

void redcoi_option_times(redcoi_option *option, uint32_t layers)
{
    option->base_s *= layers;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { option->kink_s[k] *= layers; }
    const uint64_t bytes = option->resident_bytes;
    option->resident_bytes = bytes <= UINT64_MAX / layers ? bytes * layers : UINT64_MAX;
}

redcoi_option redcoi_option_of(const redcoi_space *space, const redco_fixed_cost *fixed, const redco_layer_cost *cost)
{
    const uint32_t overlap = space->options.workload.overlap;
    redcoi_option option = {
        .base_s = fixed->scale * (cost->compute_s + cost->exposed_s + cost->optimizer_s),
        .resident_bytes = cost->parameter_bytes + cost->gradient_bytes + cost->optimizer_bytes + cost->activation_bytes,
    };
    add_window(&option, 0, (overlap & REDCO_OVERLAP_AR) != 0, fixed, cost->grad_comm_s, cost->grad_window_s);
    add_window(&option, 1, (overlap & REDCO_OVERLAP_BC) != 0, fixed, cost->param_sync_comm_s,
               cost->param_sync_window_s);
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

void redcoi_space_note_load(const redcoi_space *space, redcoi_configuration *configuration,
                            const redco_fixed_cost *fixed, uint32_t group, uint32_t class_index,
                            const redco_layer_cost *cost)
{
    const redco_layer_class *const class = &space->classes[class_index];
    redcoi_load *const load = &configuration->loads[group];
    const double pp = configuration->parallelism.pp;
    if (redco_class_is_block(class->kind)) { load->ratio = fmax(load->ratio, redco_layer_traffic_ratio(cost)); }
    if (!redco_class_is_block(class->kind) && configuration->parallelism.pp > 1) { return; }
    /* The fullest stage holds an even share at least; every one all but one of it, without a split by hand. */
    const double passes = fixed->scale * (double)configuration->parallelism.micro_batches, share = class->layers / pp;
    const double all = configuration->parallelism.pp <= 1         ? share
                       : configuration->parallelism.split == NULL ? fmax(0.0, floor(share) - 1.0)
                                                                  : 0.0;
    load->stream_s += passes * share * cost->stream_s;
    load->longer_s += passes * all *
                      (fmax(0.0, cost->gather_forward_s - cost->bare_forward_s) +
                       fmax(0.0, cost->gather_backward_s - cost->bare_backward_s));
}

static void price_class(redcoi_space *space, redcoi_configuration *configuration, const redco_fixed_cost *fixed,
                        uint32_t group, uint32_t class_index)
{
    const redco_recompute_list sets = redcoi_space_sets(space, configuration, group, class_index);
    for (uint32_t i = 0; i < sets.count; i++) {
        const redco_layer_config config = {configuration->groups[group], sets.sets[i]};
        const redco_layer_cost cost =
            space->comm ? redco_cost_layer(space->costs, &configuration->parallelism, class_index, &config)
                        : redco_cost_layer_step(space->costs, &configuration->parallelism, class_index, &config);
        redcoi_option option = redcoi_option_of(space, fixed, &cost);
        redcoi_option_times(&option, configuration->layers_each[class_index]);
        option.class_index = class_index;
        option.group = group;
        option.recompute = sets.sets[i];
        configuration->steps->options[configuration->steps->option_count++] = option;
        if (i == 0) { redcoi_space_note_load(space, configuration, fixed, group, class_index, &cost); }
        if (!space->comm) { continue; }
        configuration->objective->options[configuration->objective->option_count++] =
            comm_option(space, &option, configuration->layers_each[class_index], &cost);
    }
}

redcoi_problem redcoi_space_problem(const redcoi_space *space, const redcoi_configuration *configuration,
                                    const redco_fixed_cost *fixed)
{
    redcoi_problem problem = {.class_count = space->class_count,
                              .group_count = configuration->group_count,
                              .constant_s = fixed->scale * fixed->fixed_s + fixed->overhead_s,
                              .budget_bytes = configuration->roomy_bytes};
    for (uint32_t c = 0; c < space->class_count; c++) {
        problem.class_layers[c] = space->classes[c].layers / configuration->layers_each[c];
    }
    return problem;
}

static redcoi_problem *new_problem(const redcoi_space *space, const redcoi_configuration *configuration,
                                   const redco_fixed_cost *fixed)
{
    redcoi_problem *problem = malloc(sizeof *problem);
    if (problem == NULL) { return NULL; }
    *problem = redcoi_space_problem(space, configuration, fixed);
    const size_t most = (size_t)configuration->group_count * space->class_count * REDCO_RECOMPUTE_SETS;
    problem->options = malloc(most * sizeof *problem->options);
    if (problem->options == NULL) {
        free(problem);
        return NULL;
    }
    return problem;
}

uint64_t redcoi_space_roomy_bytes(const redcoi_space *space, const redcoi_configuration *configuration,
                                  const redcoi_problem *problem, size_t first, size_t last)
{
    uint64_t edges = 0, blocks = 0, transient[REDCO_TRANSIENT_COUNT] = {0};
    if (configuration->parallelism.pp <= 1) { return configuration->roomy_bytes; }
    for (size_t i = first; i < last; i++) {
        const redcoi_option *const option = &problem->options[i];
        const uint64_t layers = problem->class_layers[option->class_index];
        const uint64_t bytes =
            option->resident_bytes <= (UINT64_MAX >> 8) / layers ? option->resident_bytes * layers : UINT64_MAX >> 8;
        if (redco_class_is_block(space->classes[option->class_index].kind)) {
            blocks = bytes > blocks ? bytes : blocks;
            continue;
        }
        edges += bytes; /* they have one option each */
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
            if (option->transient_bytes[k] > transient[k]) { transient[k] = option->transient_bytes[k]; }
        }
    }
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { edges += transient[k]; }
    /* The stage with most layers and the one that keeps most activations are two where stages are unequal. */
    return configuration->roomy_bytes + edges + (uint64_t)(unequal_ratio(space, configuration) * (double)blocks);
}

static redco_status bound_groups(const redcoi_space *space, redcoi_configuration *configuration, const double *least_s,
                                 redco_error *err)
{
    configuration->pareto = redcoi_problem_copy(configuration->objective, NULL);
    configuration->bounds_s = malloc(configuration->group_count * sizeof *configuration->bounds_s);
    if (configuration->pareto == NULL || configuration->bounds_s == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    redcoi_problem_pareto(configuration->pareto, true);
    size_t first = 0;
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        size_t last = first;
        while (last < configuration->pareto->option_count && configuration->pareto->options[last].group == g) {
            last++;
        }
        configuration->pareto->budget_bytes =
            redcoi_space_roomy_bytes(space, configuration, configuration->pareto, first, last);
        configuration->bounds_s[g] =
            last > first ? redcoi_bound_best(configuration->pareto, first, last).value_s : least_s[g];
        first = last;
    }
    return REDCO_OK;
}

static redco_status price_groups(redcoi_space *space, redcoi_configuration *configuration,
                                 const redco_fixed_cost *fixed, const double *least_s, const redcoi_limits *limits,
                                 redco_error *err)
{
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        if (limits != NULL && least_s[g] > redcoi_limit_of(space, configuration, g, limits)) { continue; }
        configuration->loads[g] = (redcoi_load){.ratio = 0.0};
        for (uint32_t c = 0; c < space->class_count; c++) { price_class(space, configuration, fixed, g, c); }
    }
    redco_status st = redco_costs_failure(space->costs, err);
    if (st != REDCO_OK || (st = redcoi_problem_check(configuration->steps, err)) != REDCO_OK) { return st; }
    if (space->comm) {
        configuration->objective->constant_s = 0.0;
        if ((st = redcoi_problem_check(configuration->objective, err)) != REDCO_OK) { return st; }
    }
    return bound_groups(space, configuration, least_s, err);
}

/* Fixed bytes and, of every class, the policy that keeps least; of a stage those of its blocks. */
void redcoi_space_bound_memory(redcoi_space *space, redcoi_configuration *configuration)
{
    if (configuration->capacity_bytes > 0) { return; }
    const redco_fixed_cost fixed = redco_cost_fixed_memory(space->costs, &configuration->parallelism);
    configuration->fixed_bytes = fixed.fixed_bytes;
    configuration->capacity_bytes = fixed.capacity_bytes;
    configuration->least_bytes = fixed.fixed_bytes;
    configuration->stage_least_bytes = fixed.fixed_bytes - fixed.logits_bytes;
    for (uint32_t c = 0; c < space->class_count; c++) {
        uint64_t least = UINT64_MAX;
        const redco_recompute_list sets = redcoi_space_sets(space, configuration, REDCOI_ANY_GROUP, c);
        for (uint32_t i = 0; i < sets.count; i++) {
            const uint64_t bytes = redco_cost_kept_bytes(space->costs, &configuration->parallelism, c, sets.sets[i]);
            least = bytes < least ? bytes : least;
        }
        least += redco_cost_least_bytes(space->costs, &configuration->parallelism, c);
        const uint64_t layers = space->classes[c].layers;
        const uint64_t room = (UINT64_MAX - configuration->least_bytes) / layers;
        configuration->least_bytes = least <= room ? configuration->least_bytes + layers * least : UINT64_MAX;
        if (!redco_class_is_block(space->classes[c].kind) || least > room) { continue; }
        configuration->stage_least_bytes +=
            (uint64_t)((1.0 - unequal_ratio(space, configuration)) * (double)(layers * least));
    }
    if (configuration->parallelism.pp <= 1) { configuration->stage_least_bytes = configuration->least_bytes; }
}

/* Where nothing is listed beside the ranked points, these are all. */
static void set_budgets(const redcoi_space *space, redcoi_configuration *configuration, const redco_fixed_cost *fixed)
{
    const redco_search_options *const o = &space->options;
    const uint64_t taken = configuration->fixed_bytes + o->pass.margin_bytes, capacity = configuration->capacity_bytes;
    const double ratio =
        o->pass.others > 0 ? fmax(redco_memory_ratio(configuration->parallelism.schedule), o->pass.roomier_ratio) : 0.0;
    const uint64_t room =
        capacity + (uint64_t)(ratio * (double)capacity) + (configuration->parallelism.pp > 1 ? fixed->logits_bytes : 0);
    configuration->budget_bytes = capacity > taken ? capacity - taken : 0;
    configuration->roomy_bytes = room > taken ? room - taken : 0;
}

redco_status redcoi_space_price(redcoi_space *space, redcoi_configuration *configuration, const redcoi_limits *limits,
                                redco_error *err)
{
    const bool all =
        space->comm || space->options.layerwise || limits == NULL || isinf(limits->ranked_s) || isinf(limits->best_s);
    if (configuration->pareto != NULL && (configuration->whole || !all)) { return REDCO_OK; }
    const bool first = configuration->pareto == NULL;
    unprice(configuration);
    const redco_fixed_cost fixed = redco_cost_fixed(space->costs, &configuration->parallelism);
    redco_status st = REDCO_OK;
    redcoi_space_bound_memory(space, configuration);
    set_budgets(space, configuration, &fixed);
    group_layers(space, configuration);
    double *least_s = calloc(configuration->group_count, sizeof *least_s);
    if (configuration->loads == NULL) {
        configuration->loads = calloc(configuration->group_count, sizeof *configuration->loads);
    }
    if (least_s == NULL || configuration->loads == NULL) {
        free(least_s);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    if (!all) {
        redcoi_space_bound_meshes(space, configuration, &fixed, limits, least_s);
        if (!redcoi_space_any_within(space, configuration, limits, least_s)) { goto out; }
    }
    configuration->steps = new_problem(space, configuration, &fixed);
    configuration->objective = space->comm ? new_problem(space, configuration, &fixed) : configuration->steps;
    if (configuration->steps == NULL || configuration->objective == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    configuration->whole = all;
    if (first) { space->counts->priced++; }
    st = price_groups(space, configuration, &fixed, least_s, all ? NULL : limits, err);
    configuration->steps->budget_bytes = configuration->objective->budget_bytes = configuration->budget_bytes;
    if (configuration->pareto != NULL) { configuration->pareto->budget_bytes = configuration->budget_bytes; }
out:
    free(least_s);
    return st;
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
static uint32_t list_assignments(const redcoi_configuration *configuration, redco_assignment *parts, uint32_t count,
                                 redco_assignment *list)
{
    uint32_t made = 0;
    qsort(parts, count, sizeof *parts, compare_assignments);
    for (uint32_t first = 0, end = 0; first < count; first = end) {
        const uint32_t each = configuration->layers_each[parts[first].class_index];
        while (end < count && parts[end].class_index == parts[first].class_index) { end++; }
        const bool mixed = end - first > 1;
        for (uint32_t i = first; i < end && !mixed; i++) { parts[i].layers *= each; }
        made += repeat_stages(&list[made], &parts[first], end - first, mixed ? each : 1);
    }
    return made;
}

/* The assignments of an answer, each of its configurations once. */
static void fill_parts(const redcoi_configuration *configuration, const redcoi_answer *answer, redco_assignment *parts)
{
    for (uint32_t i = 0; i < answer->count; i++) {
        const redcoi_option *option = &configuration->steps->options[answer->parts[i].option];
        parts[i] = (redco_assignment){.class_index = option->class_index,
                                      .layers = answer->parts[i].layers,
                                      .config = {configuration->groups[option->group], option->recompute}};
    }
}

uint64_t redcoi_space_bytes(redcoi_space *space, const redcoi_configuration *configuration, const redcoi_answer *answer)
{
    redco_assignment parts[REDCOI_MAX_PARTS];
    fill_parts(configuration, answer, parts);
    for (uint32_t i = 0; i < answer->count; i++) {
        parts[i].layers *= configuration->layers_each[parts[i].class_index];
    }
    return redco_cost_bytes(space->costs, &configuration->parallelism, parts, answer->count);
}

/* The split of a candidate lies behind its assignments, and is freed with them. */
static void copy_split(redco_candidate *candidate, size_t room)
{
    const uint32_t *const split = candidate->parallelism.split;
    uint32_t *const copy = (uint32_t *)&candidate->assignments[room];
    if (split == NULL) { return; }
    memcpy(copy, split, stages_of(&candidate->parallelism) * sizeof *split);
    candidate->parallelism.split = copy;
}

redco_status redcoi_space_candidate(redcoi_space *space, const redcoi_configuration *configuration,
                                    const redcoi_answer *answer, redco_candidate *candidate_out, redco_error *err)
{
    const uint32_t positions = stages_of(&configuration->parallelism);
    const size_t most = (size_t)answer->count * positions;
    redco_assignment *parts = malloc((answer->count > 0 ? answer->count : 1) * sizeof *parts);
    redco_assignment *list = malloc((most + 1) * sizeof *list + positions * sizeof *configuration->parallelism.split);
    if (parts == NULL || list == NULL) {
        free(parts);
        free(list);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    fill_parts(configuration, answer, parts);
    const uint32_t count = list_assignments(configuration, parts, answer->count, list);
    free(parts);
    *candidate_out = (redco_candidate){.parallelism = configuration->parallelism,
                                       .assignments = list,
                                       .assignment_count = count,
                                       .half = space->options.workload.engine.partial_recompute};
    copy_split(candidate_out, most + 1);
    candidate_out->closed_form = redco_cost_step(space->costs, &configuration->parallelism, list, count);
    candidate_out->prediction = candidate_out->closed_form;
    candidate_out->objective = space->options.objective == REDCO_OBJECTIVE_COMM ? candidate_out->prediction.amsp_total_s
                                                                                : candidate_out->prediction.step_s;
    return REDCO_OK;
}
