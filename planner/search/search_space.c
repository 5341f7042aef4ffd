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

static bool is_block(redco_class_kind kind)
{
    return kind == REDCO_CLASS_BLOCK || kind == REDCO_CLASS_CROSS;
}

static void unprice(redcoi_outer *outer)
{
    redcoi_problem_free(outer->lean);
    if (outer->goal != outer->steps) { redcoi_problem_free(outer->goal); }
    redcoi_problem_free(outer->steps);
    free(outer->bounds_s);
    outer->lean = NULL;
    outer->goal = NULL;
    outer->steps = NULL;
    outer->bounds_s = NULL;
}

static void free_outer(redcoi_outer *outer)
{
    free(outer->groups);
    unprice(outer);
}

void redcoi_space_free(redcoi_space *space)
{
    if (space == NULL) { return; }
    for (uint32_t i = 0; i < space->outer_count; i++) { free_outer(&space->outers[i]); }
    free(space->outers);
    redco_costs_free(space->costs);
    free(space);
}

/* Where the batch divides over no layout without them, stages and context parallelism that nobody fixed are tried.
 * @return whether that is more than before */
static bool widen(redco_search_options *o, const redco_search_options *asked, bool comm)
{
    const uint32_t has = asked->dimensions != 0 ? asked->dimensions : ~0U;
    const redco_search_options before = *o;
    if ((asked->pp == 0 || asked->pp == REDCO_DEGREE_MEASURED) && !comm && (has & REDCO_HAS_PP) != 0) {
        o->pp = REDCO_DEGREE_AUTO;
    }
    if ((asked->cp == 0 || asked->cp == REDCO_DEGREE_MEASURED) && !comm && (has & REDCO_HAS_CP) != 0) {
        o->cp = REDCO_DEGREE_AUTO;
    }
    return o->pp != before.pp || o->cp != before.cp;
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
        if (!o->scheme_fixed) { o->scheme = REDCO_INTER_TENSOR; }
        o->scheme_fixed = true;
    }
    space->comm = o->objective == REDCO_OBJECTIVE_COMM || o->strategy == REDCO_STRATEGY_AMSP;
    if (o->pp == 0 || (space->comm && redco_degree_is_free(o->pp))) { o->pp = 1; }
    if (o->cp == 0 || (space->comm && redco_degree_is_free(o->cp))) { o->cp = 1; }
    if (space->comm && o->chunks == REDCO_DEGREE_AUTO) { o->chunks = 1; }
    if (space->comm && o->sequence_parallel == REDCO_EITHER) { o->sequence_parallel = REDCO_OFF; }
    /* Strategies with a name are data parallel: their papers have neither stages nor context parallelism. */
    if (o->strategy != REDCO_STRATEGY_ANY) {
        if (o->pp == REDCO_DEGREE_MEASURED) { o->pp = 1; }
        if (o->cp == REDCO_DEGREE_MEASURED) { o->cp = 1; }
    }
    if (o->dimensions != 0) { /* the search leaves out what the engine lacks */
        if (o->tp == 0 && (o->dimensions & REDCO_HAS_TP) == 0) { o->tp = 1; }
        if (redco_degree_is_free(o->pp) && (o->dimensions & REDCO_HAS_PP) == 0) { o->pp = 1; }
        if (redco_degree_is_free(o->cp) && (o->dimensions & REDCO_HAS_CP) == 0) { o->cp = 1; }
        if (o->chunks == REDCO_DEGREE_AUTO && (o->dimensions & REDCO_HAS_CHUNKS) == 0) { o->chunks = 1; }
        if (o->sequence_parallel == REDCO_EITHER && (o->dimensions & REDCO_HAS_SP) == 0) {
            o->sequence_parallel = REDCO_OFF;
        }
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
    if (space->blocks > REDCO_SIMULATED_LAYERS_MAX) { /* no measured run has so many layers */
        if (o->pp == REDCO_DEGREE_MEASURED) { o->pp = 1; }
        if (o->cp == REDCO_DEGREE_MEASURED) { o->cp = 1; }
    }
    if ((st = list_layouts(space, inputs, options, err)) != REDCO_OK) { goto out; }
    space->counts->listed += space->outer_count;
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
    return redco_pipeline_positions(setting->schedule, setting->pp, redco_setting_chunks(setting));
}

/* Pipeline stages must take equally long, and the closed form takes them to: what one stage does with its n-th layer,
   all do. Where stages are unequal or of two kinds of layers, a class has one configuration. */
static void group_layers(const redcoi_space *space, redcoi_outer *outer)
{
    const uint32_t stages = stages_of(&outer->setting);
    uint32_t block_classes = 0;
    for (uint32_t c = 0; c < space->class_count; c++) { block_classes += is_block(space->classes[c].kind); }
    const bool alike = block_classes == 1 && outer->setting.split == NULL && space->blocks % stages == 0;
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
static bool wants(const redcoi_space *space, uint32_t class_index, redco_recompute recompute)
{
    const redco_recompute policy = space->options.recompute;
    if (!is_block(space->classes[class_index].kind)) { return recompute == REDCO_RECOMPUTE_NONE; }
    return policy == REDCO_RECOMPUTE_COUNT ? redco_search_offers(&space->options, recompute) : policy == recompute;
}

/* @return whether blocks of that group may have the policy. */
static bool allows(const redcoi_space *space, const redcoi_outer *outer, uint32_t group, uint32_t class_index,
                   redco_recompute recompute)
{
    if (!wants(space, class_index, recompute)) { return false; }
    if (!is_block(space->classes[class_index].kind) || outer->first_module_group == outer->group_count) { return true; }
    return (group >= outer->first_module_group) == (recompute == REDCO_RECOMPUTE_MLP);
}

static void price_class(redcoi_space *space, redcoi_outer *outer, const redco_fixed_cost *fixed, uint32_t group,
                        uint32_t class_index)
{
    for (uint32_t r = 0; r < REDCO_RECOMPUTE_COUNT; r++) {
        if (!allows(space, outer, group, class_index, (redco_recompute)r)) { continue; }
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

/* All but options. */
static redcoi_problem empty_problem(const redcoi_space *space, const redcoi_outer *outer, const redco_fixed_cost *fixed)
{
    const uint64_t taken = fixed->fixed_bytes + space->options.margin_bytes;
    const uint64_t room = fixed->capacity_bytes + space->options.slack_bytes;
    redcoi_problem problem = {.class_count = space->class_count,
                              .group_count = outer->group_count,
                              .constant_s = fixed->scale * fixed->fixed_s + fixed->overhead_s,
                              .budget_bytes = room > taken ? room - taken : 0};
    for (uint32_t c = 0; c < space->class_count; c++) {
        problem.class_layers[c] = space->classes[c].layers / outer->layers_each[c];
    }
    return problem;
}

static redcoi_problem *new_problem(const redcoi_space *space, const redcoi_outer *outer, const redco_fixed_cost *fixed)
{
    redcoi_problem *problem = malloc(sizeof *problem);
    if (problem == NULL) { return NULL; }
    *problem = empty_problem(space, outer, fixed);
    const size_t most = (size_t)outer->group_count * space->class_count * REDCO_RECOMPUTE_COUNT;
    problem->options = malloc(most * sizeof *problem->options);
    if (problem->options == NULL) {
        free(problem);
        return NULL;
    }
    return problem;
}

static redco_status bound_groups(redcoi_outer *outer, const double *least_s, redco_error *err)
{
    outer->lean = redcoi_problem_copy(outer->goal, NULL);
    outer->bounds_s = malloc(outer->group_count * sizeof *outer->bounds_s);
    if (outer->lean == NULL || outer->bounds_s == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redcoi_problem_pareto(outer->lean, true);
    size_t first = 0;
    for (uint32_t g = 0; g < outer->group_count; g++) {
        size_t last = first;
        while (last < outer->lean->option_count && outer->lean->options[last].group == g) { last++; }
        outer->bounds_s[g] = last > first ? redcoi_bound_best(outer->lean, first, last).value_s : least_s[g];
        first = last;
    }
    return REDCO_OK;
}

/* Bounds of all groups by their parameters' meshes, of which there are few: the same problem with what is least over
   all meshes of gradients and optimizer states. @return the least of them */
static double bound_meshes(redcoi_space *space, redcoi_outer *outer, const redco_fixed_cost *fixed, double *least_s)
{
    redcoi_option options[REDCOI_MAX_CLASSES * REDCO_RECOMPUTE_COUNT];
    redcoi_problem least = empty_problem(space, outer, fixed);
    double all_s = (double)INFINITY;
    least.options = options;
    for (uint32_t g = 0; g < outer->group_count; g++) {
        const redco_mesh mesh = outer->groups[g].parameters;
        uint32_t same = 0;
        const bool module = g >= outer->first_module_group;
        while (!redco_mesh_equal(outer->groups[same].parameters, mesh) ||
               (same >= outer->first_module_group) != module) {
            same++;
        }
        if (same < g) {
            least_s[g] = least_s[same];
            continue;
        }
        least.option_count = 0;
        for (uint32_t c = 0; c < space->class_count; c++) {
            for (uint32_t r = 0; r < REDCO_RECOMPUTE_COUNT; r++) {
                if (!allows(space, outer, g, c, (redco_recompute)r)) { continue; }
                const redco_layer_cost cost =
                    redco_cost_layer_least(space->costs, &outer->setting, c, mesh, (redco_recompute)r);
                redcoi_option option = make_option(space, fixed, &cost);
                times_layers(&option, outer->layers_each[c]);
                option.class_index = c;
                options[least.option_count++] = option;
            }
        }
        least_s[g] = redcoi_bound_best(&least, 0, least.option_count).value_s;
        all_s = fmin(all_s, least_s[g]);
    }
    return all_s;
}

static redco_status price_groups(redcoi_space *space, redcoi_outer *outer, const redco_fixed_cost *fixed,
                                 const double *least_s, double limit_s, redco_error *err)
{
    for (uint32_t g = 0; g < outer->group_count; g++) {
        if (least_s[g] > limit_s) { continue; }
        for (uint32_t c = 0; c < space->class_count; c++) { price_class(space, outer, fixed, g, c); }
    }
    redco_status st = redco_costs_failure(space->costs, err);
    if (st != REDCO_OK || (st = redcoi_problem_check(outer->steps, err)) != REDCO_OK) { return st; }
    if (space->comm) {
        outer->goal->constant_s = 0.0;
        if ((st = redcoi_problem_check(outer->goal, err)) != REDCO_OK) { return st; }
    }
    return bound_groups(outer, least_s, err);
}

/* Fixed bytes and, of every class, the policy that keeps least. */
void redcoi_space_bound_memory(redcoi_space *space, redcoi_outer *outer)
{
    if (outer->capacity_bytes > 0) { return; }
    const redco_fixed_cost fixed = redco_cost_fixed(space->costs, &outer->setting);
    outer->fixed_bytes = fixed.fixed_bytes;
    outer->capacity_bytes = fixed.capacity_bytes;
    outer->least_bytes = fixed.fixed_bytes;
    for (uint32_t c = 0; c < space->class_count; c++) {
        uint64_t least = UINT64_MAX;
        for (uint32_t r = 0; r < REDCO_RECOMPUTE_COUNT; r++) {
            if (!wants(space, c, (redco_recompute)r)) { continue; }
            const uint64_t bytes = redco_cost_least_bytes(space->costs, &outer->setting, c, (redco_recompute)r);
            least = bytes < least ? bytes : least;
        }
        const uint64_t layers = space->classes[c].layers;
        const uint64_t room = (UINT64_MAX - outer->least_bytes) / layers;
        outer->least_bytes = least <= room ? outer->least_bytes + layers * least : UINT64_MAX;
    }
}

redco_status redcoi_space_price(redcoi_space *space, redcoi_outer *outer, double limit_s, redco_error *err)
{
    const bool all = space->comm || space->options.layerwise || isinf(limit_s);
    if (outer->lean != NULL && (outer->whole || !all)) { return REDCO_OK; }
    const bool first = outer->lean == NULL;
    unprice(outer);
    const redco_fixed_cost fixed = redco_cost_fixed(space->costs, &outer->setting);
    redco_status st = REDCO_OK;
    redcoi_space_bound_memory(space, outer);
    group_layers(space, outer);
    double *least_s = calloc(outer->group_count, sizeof *least_s);
    if (least_s == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (!all && bound_meshes(space, outer, &fixed, least_s) > limit_s) { goto out; }
    outer->steps = new_problem(space, outer, &fixed);
    outer->goal = space->comm ? new_problem(space, outer, &fixed) : outer->steps;
    if (outer->steps == NULL || outer->goal == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    outer->whole = all;
    if (first) { space->counts->priced++; }
    st = price_groups(space, outer, &fixed, least_s, all ? (double)INFINITY : limit_s, err);
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
