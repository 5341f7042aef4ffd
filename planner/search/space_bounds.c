/* Bounds of a configuration's groups before they are priced, and the limits up to which points are of interest. */
#include "planner/search/search_space.h"

#include <math.h>
#include <string.h>

/* Lower bounds of the simulated step, too: computation alone, gathers alone. */
static double alone_s(const redcoi_configuration *configuration, uint32_t group)
{
    const redcoi_load *const load = &configuration->loads[group];
    return fmax(configuration->least_s + load->longer_s, load->stream_s);
}

static double closed_gap(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group)
{
    const bool mixture = redco_costs_experts(space->costs) > 0;
    const double ratio = configuration->loads[group].ratio;
    return redco_gap_of(redco_gap_kind(&configuration->parallelism, mixture, ratio)).closed_ratio;
}

double redcoi_least_simulated_s(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                                double value_s)
{
    return fmax(alone_s(configuration, group), value_s / (1.0 + closed_gap(space, configuration, group)));
}

double redcoi_limit_of_others(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                              double best_s, double crowded_s)
{
    const redco_search_options *const o = &space->options;
    const double near_s = (1.0 + o->pass.look_ratio) * best_s;
    const double aim_s = fmin(crowded_s, (1.0 - o->pass.aim_ratio) * best_s);
    if (space->comm) { return near_s; } /* which no simulation changes, nor a bound of the step */
    if (alone_s(configuration, group) > near_s) { return 0.0; }
    if (alone_s(configuration, group) > aim_s) { return near_s; }
    return fmax(near_s, aim_s * (1.0 + closed_gap(space, configuration, group)));
}

double redcoi_limit_of(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                       const redcoi_limits *limits)
{
    return fmax(limits->ranked_s,
                redcoi_limit_of_others(space, configuration, group, limits->best_s, limits->crowded_s));
}

/* A configuration's bounds by the meshes of parameters. */
struct mesh_bounds {
    redcoi_space *space;
    redcoi_configuration *configuration;
    const redco_fixed_cost *fixed;
    redco_recompute_list sets[REDCOI_MAX_CLASSES];                         /* all groups together */
    redco_recomputed recomputed[REDCOI_MAX_CLASSES][REDCO_RECOMPUTE_SETS]; /* by these */
    redcoi_option computed[REDCOI_MAX_CLASSES][REDCO_RECOMPUTE_SETS];      /* without traffic of states, likewise */
    redcoi_option options[REDCOI_MAX_CLASSES][REDCO_RECOMPUTE_SETS];  /* with one mesh, likewise, of classes that */
    bool priced[REDCOI_MAX_CLASSES];                                  /* have them; of the others as computed */
    redco_layer_cost least[REDCOI_MAX_CLASSES][REDCO_RECOMPUTE_SETS]; /* with that mesh and one set, of those */
    uint32_t known[REDCOI_MAX_CLASSES];                               /* that have been asked for: a bit a set */
    uint32_t order[REDCOI_MAX_CLASSES];                               /* classes, those that compute most first */
    double computed_s[REDCO_RECOMPUTE_SETS + 1];                      /* bounds without traffic, by copy */
    double most_s; /* groups that are bounded above it are of no interest, whatever their traffic and other points */
};

/* The options of a class with some sets, by the least that it costs with these. */
static void use_least(struct mesh_bounds *b, uint32_t class_index, const redco_recompute_list *sets,
                      const redco_layer_cost *least)
{
    for (uint32_t i = 0; i < sets->count; i++) {
        const uint32_t at = redco_recompute_find(&b->sets[class_index], sets->sets[i]);
        const redco_recomputed *const recomputed = &b->recomputed[class_index][at];
        redco_layer_cost cost = *least;
        cost.compute_s += recomputed->recompute_s;
        cost.activation_bytes = recomputed->activation_bytes;
        redcoi_option *const option = &b->options[class_index][at];
        *option = redcoi_option_of(b->space, b->fixed, &cost);
        redcoi_option_times(option, b->configuration->layers_each[class_index]);
        option->class_index = class_index;
    }
    b->priced[class_index] = true;
}

/* The least that a class costs with parameters on a mesh and whichever of its sets. */
static void bound_class(struct mesh_bounds *b, uint32_t group, uint32_t class_index)
{
    const redco_parallelism *const p = &b->configuration->parallelism;
    const redco_mesh mesh = b->configuration->groups[group].parameters;
    const redco_recompute_list *const sets = &b->sets[class_index];
    const redco_layer_cost least = redco_cost_layer_least(b->space->costs, p, class_index, mesh, sets);
    redcoi_space_note_load(b->space, b->configuration, b->fixed, group, class_index, &least);
    use_least(b, class_index, sets, &least);
}

/* The same with each of the sets of a group, which has its load from the first: what groups of one mesh share is asked
 * for once. */
static void bound_own_sets(struct mesh_bounds *b, uint32_t group, uint32_t class_index)
{
    const redco_parallelism *const p = &b->configuration->parallelism;
    const redco_mesh mesh = b->configuration->groups[group].parameters;
    const redco_recompute_list sets = redcoi_space_sets(b->space, b->configuration, group, class_index);
    for (uint32_t i = 0; i < sets.count; i++) {
        const redco_recompute_list one = {{sets.sets[i]}, 1};
        const uint32_t at = redco_recompute_find(&b->sets[class_index], sets.sets[i]);
        redco_layer_cost *const least = &b->least[class_index][at];
        if ((b->known[class_index] >> at & 1) == 0) {
            *least = redco_cost_layer_least(b->space->costs, p, class_index, mesh, &one);
            b->known[class_index] |= 1U << at;
        }
        if (i == 0) { redcoi_space_note_load(b->space, b->configuration, b->fixed, group, class_index, least); }
        use_least(b, class_index, &one, least);
    }
}

/* The bound of a group by the options of its sets. @param windows  false: what a window exposes is left out */
static double bound_group(const struct mesh_bounds *b, uint32_t group, bool windows)
{
    redcoi_option options[REDCOI_MAX_CLASSES * REDCO_RECOMPUTE_SETS];
    redcoi_problem least = redcoi_space_problem(b->space, b->configuration, b->fixed);
    least.options = options;
    for (uint32_t c = 0; c < b->space->class_count; c++) {
        const redco_recompute_list sets = redcoi_space_sets(b->space, b->configuration, group, c);
        for (uint32_t i = 0; i < sets.count; i++) {
            redcoi_option *const option = &options[least.option_count++];
            const uint32_t at = redco_recompute_find(&b->sets[c], sets.sets[i]);
            *option = b->priced[c] ? b->options[c][at] : b->computed[c][at];
            for (int k = 0; k < REDCOI_WINDOWS && !windows; k++) { option->kink_s[k] = 0.0; }
        }
    }
    least.budget_bytes = redcoi_space_roomy_bytes(b->space, b->configuration, &least, 0, least.option_count);
    return redcoi_bound_best(&least, 0, least.option_count).value_s;
}

/* Classes by the time of all their layers, the longest first. */
static void order_classes(struct mesh_bounds *b)
{
    const redcoi_space *const space = b->space;
    double all_s[REDCOI_MAX_CLASSES];
    for (uint32_t c = 0; c < space->class_count; c++) {
        uint32_t at = c;
        all_s[c] = space->classes[c].layers * b->recomputed[c][0].passes_s;
        for (; at > 0 && all_s[c] > all_s[b->order[at - 1]]; at--) { b->order[at] = b->order[at - 1]; }
        b->order[at] = c;
    }
}

/* Bounds without traffic of states, each of them on all ranks, whatever the meshes.
 * @return whether no group is of interest, whatever its traffic */
static bool bound_computation(struct mesh_bounds *b, double *least_s)
{
    redcoi_configuration *const configuration = b->configuration;
    const redco_parallelism *const p = &configuration->parallelism;
    redco_costs *const costs = b->space->costs;
    bool none = true;
    for (uint32_t c = 0; c < b->space->class_count; c++) {
        const uint64_t states_bytes = redco_cost_least_bytes(costs, p, c);
        for (uint32_t i = 0; i < b->sets[c].count; i++) {
            const redco_recomputed recomputed = redco_cost_recomputed(costs, p, c, b->sets[c].sets[i]);
            redcoi_option *const option = &b->computed[c][i];
            b->recomputed[c][i] = recomputed;
            *option = (redcoi_option){.class_index = c,
                                      .base_s = b->fixed->scale * (recomputed.passes_s + recomputed.recompute_s),
                                      .resident_bytes = states_bytes + recomputed.activation_bytes};
            redcoi_option_times(option, configuration->layers_each[c]);
        }
    }
    memset(b->priced, 0, sizeof b->priced);
    order_classes(b);
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        double *const copy_s = &b->computed_s[g / configuration->triples];
        if (g % configuration->triples == 0) { *copy_s = bound_group(b, g, false); }
        configuration->loads[g] = (redcoi_load){.ratio = (double)INFINITY};
        least_s[g] = *copy_s;
        none = none && *copy_s > b->most_s;
    }
    return none;
}

/* The bound of a group by the mesh of its parameters and its own sets: class after class, since most groups are of no
 * interest before all are priced. Windows are of all classes together: one hides another's traffic. Fills its load. */
static double bound_classes(struct mesh_bounds *b, uint32_t group)
{
    redcoi_load *const load = &b->configuration->loads[group];
    const uint32_t classes = b->space->class_count;
    *load = (redcoi_load){.ratio = 0.0};
    memset(b->priced, 0, sizeof b->priced);
    for (uint32_t n = 0; n < classes; n++) {
        bound_own_sets(b, group, b->order[n]);
        const double least_s = bound_group(b, group, n + 1 == classes);
        if (n + 1 == classes) { return least_s; }
        if (least_s > b->most_s) {
            *load = (redcoi_load){.ratio = (double)INFINITY};
            return least_s;
        }
    }
    return 0.0;
}

/* Bounds by one mesh: where nothing is gathered, with the reduction of gradients behind the longest recomputation of
 * any group, and, where that may be within the limit, behind its own. */
static void bound_copies(struct mesh_bounds *b, uint32_t triple, const redcoi_limits *limits, double *least_s)
{
    redcoi_configuration *const configuration = b->configuration;
    const uint32_t triples = configuration->triples;
    const bool gathers = redco_mesh_ranks(configuration->groups[triple].parameters) > 1;
    redcoi_load load = {.ratio = 0.0};
    bool within[REDCO_RECOMPUTE_SETS + 1] = {false};
    memset(b->known, 0, sizeof b->known);
    if (!gathers) {
        configuration->loads[triple] = load;
        for (uint32_t c = 0; c < b->space->class_count; c++) { bound_class(b, triple, c); }
        load = configuration->loads[triple];
    }
    for (uint32_t g = triple, copy = 0; g < configuration->group_count; g += triples, copy++) {
        within[copy] = !(b->computed_s[copy] > b->most_s);
        if (!within[copy] || gathers) { continue; }
        configuration->loads[g] = load;
        least_s[g] = bound_group(b, g, true);
        within[copy] = !(least_s[g] > redcoi_limit_of(b->space, configuration, g, limits));
    }
    for (uint32_t g = triple, copy = 0; g < configuration->group_count; g += triples, copy++) {
        if (within[copy]) { least_s[g] = bound_classes(b, g); }
    }
}

/* The limit of a group of which nothing is known but the computation, among other points however many there are. */
static double farthest_s(const redcoi_space *space, redcoi_configuration *configuration, const redcoi_limits *limits)
{
    redcoi_limits all = *limits;
    all.crowded_s = (double)INFINITY;
    configuration->loads[0] = (redcoi_load){.ratio = (double)INFINITY};
    return redcoi_limit_of(space, configuration, 0, &all);
}

void redcoi_space_bound_meshes(redcoi_space *space, redcoi_configuration *configuration, const redco_fixed_cost *fixed,
                               const redcoi_limits *limits, double *least_s)
{
    struct mesh_bounds b; /* its options are filled as they are read */
    const uint32_t triples = configuration->triples;
    b.space = space;
    b.configuration = configuration;
    b.fixed = fixed;
    b.most_s = farthest_s(space, configuration, limits);
    memset(b.recomputed, 0, sizeof b.recomputed);
    memset(b.order, 0, sizeof b.order);
    memset(b.computed_s, 0, sizeof b.computed_s);
    for (uint32_t c = 0; c < space->class_count; c++) {
        b.sets[c] = redcoi_space_sets(space, configuration, REDCOI_ANY_GROUP, c);
    }
    if (bound_computation(&b, least_s)) { return; }
    for (uint32_t t = 0; t < triples; t++) {
        uint32_t same = 0;
        while (!redco_mesh_equal(configuration->groups[same].parameters, configuration->groups[t].parameters)) {
            same++;
        }
        if (same == t) { bound_copies(&b, t, limits, least_s); }
        for (uint32_t g = t; same < t && g < configuration->group_count; g += triples) {
            least_s[g] = least_s[g - t + same];
            configuration->loads[g] = configuration->loads[g - t + same];
        }
    }
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        const redco_shards *const shards = &configuration->groups[g];
        if (!redco_mesh_equal(shards->gradients, shards->parameters)) {
            configuration->loads[g].ratio = (double)INFINITY;
        }
    }
}

bool redcoi_space_any_within(const redcoi_space *space, redcoi_configuration *configuration,
                             const redcoi_limits *limits, const double *least_s)
{
    redcoi_limits all = *limits;
    all.crowded_s = (double)INFINITY;
    configuration->crowded_s = (double)INFINITY;
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        if (!(least_s[g] > redcoi_limit_of(space, configuration, g, limits))) { return true; }
        if (least_s[g] > redcoi_limit_of(space, configuration, g, &all)) { continue; }
        const double least_simulated_s = redcoi_least_simulated_s(space, configuration, g, least_s[g]);
        configuration->crowded_s = fmin(configuration->crowded_s, least_simulated_s);
    }
    return false;
}
