#include "planner/search/others.h"

#include "planner/search/solve_group.h"

#include <math.h>
#include <stdlib.h>

/* So many compositions of a group are looked at for one whose fullest stage fits. */
enum { STAGE_TRIES = 8 };

redco_status redcoi_others_create(redcoi_space *space, redcoi_others *others_out, redco_error *err)
{
    const redco_search_options *const o = &space->options;
    redcoi_others made = {
        .space = space,
        .near = {.capacity = o->pass.others},
        .doubtful = {.capacity = space->comm ? 0 : (o->pass.others + 2) / 3},
        .roomier = {.capacity = o->pass.roomier_ratio > 0.0 && o->pass.others > 0 ? REDCO_ROOMIER_MAX : 0},
        .best_s = o->pass.limit_s > 0.0 ? o->pass.limit_s : (double)INFINITY,
        .dropped_s = (double)INFINITY};
    redcoi_ranking *const lists[] = {&made.near, &made.doubtful, &made.roomier};
    bool all = true;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        lists[i]->points = calloc(lists[i]->capacity + (size_t)1, sizeof *lists[i]->points);
        all = all && lists[i]->points != NULL;
    }
    *others_out = made;
    if (all) { return REDCO_OK; }
    redcoi_others_free(others_out);
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

void redcoi_others_free(redcoi_others *others)
{
    free(others->near.points);
    free(others->doubtful.points);
    free(others->roomier.points);
    *others = (redcoi_others){.space = NULL};
}

/* The closed form up to which points are near the best. */
static double near_s(const redcoi_others *others)
{
    return (1.0 + others->space->options.pass.look_ratio) * others->best_s;
}

/* Adds to a ranking that may be full. @return the point that is not in it, or NULL */
static const redcoi_point *add_or_drop(redcoi_ranking *ranking, const redcoi_point *point, redcoi_point *dropped)
{
    const bool full = ranking->count == ranking->capacity;
    const redcoi_point *const last = full ? &ranking->points[ranking->count - 1] : NULL;
    if (full) { *dropped = redcoi_point_compare(point, last) < 0 ? *last : *point; }
    redcoi_ranking_add(ranking, point);
    return full ? dropped : NULL;
}

static void list_doubtful(redcoi_others *others, const redcoi_point *point, redcoi_point *dropped)
{
    redcoi_point by_least = *point;
    if (others->doubtful.capacity == 0) { return; }
    by_least.value_s = redcoi_least_simulated_s(others->space, point->configuration, point->group, point->value_s);
    if (add_or_drop(&others->doubtful, &by_least, dropped) != NULL) {
        others->dropped_s = fmin(others->dropped_s, dropped->value_s);
    }
}

static void list_one(redcoi_others *others, const redcoi_point *point, bool fits)
{
    redcoi_point dropped[2];
    /* Within a limit all are of interest: those that fit by the closed form alone rule out none that does. */
    if (fits && !others->space->options.pass.others_alone) { others->best_s = fmin(others->best_s, point->value_s); }
    if (point->value_s > near_s(others)) {
        list_doubtful(others, point, &dropped[1]);
    } else if (add_or_drop(&others->near, point, &dropped[0]) != NULL) {
        list_doubtful(others, &dropped[0], &dropped[1]);
    }
}

/* @return whether no composition of a group would be kept: it is not near, and more doubtful ones fill the list */
static bool is_crowded_out(redcoi_others *others, const redcoi_configuration *configuration, uint32_t group,
                           double bound_s)
{
    const redcoi_ranking *const doubtful = &others->doubtful;
    const double least_s = redcoi_least_simulated_s(others->space, configuration, group, bound_s);
    if (bound_s > near_s(others) && doubtful->capacity == 0) { return true; }
    if (bound_s <= near_s(others) || doubtful->count < doubtful->capacity ||
        least_s < doubtful->points[doubtful->count - 1].value_s) {
        return false;
    }
    others->dropped_s = fmin(others->dropped_s, least_s);
    return true;
}

double redcoi_others_crowded_s(const redcoi_others *others)
{
    const redcoi_ranking *const doubtful = &others->doubtful;
    const bool full = doubtful->count == doubtful->capacity && doubtful->capacity > 0;
    return full ? doubtful->points[doubtful->count - 1].value_s : (double)INFINITY;
}

bool redcoi_others_may_fit(const redcoi_others *others, const redcoi_configuration *configuration)
{
    const redco_search_options *const o = &others->space->options;
    const double above = redco_memory_ratio(configuration->parallelism.schedule);
    const double ratio = 1.0 + fmax(above, o->pass.roomier_ratio);
    const uint64_t room = (uint64_t)(ratio * (double)configuration->capacity_bytes);
    return o->pass.others > 0 && configuration->stage_least_bytes <= room &&
           o->pass.margin_bytes <= room - configuration->stage_least_bytes;
}

/* Compositions whose fullest stage holds no more than the capacity, with what the closed form may count too much (or
 * the memory that the caller thinks of), with less of that and without: the simulator says which is the fastest that
 * fits. The problem counts more than that: what a composition is too large
 * by is what the next one must do without. */
static redco_status list_by_stages(redcoi_others *others, const redcoi_configuration *configuration, uint32_t group,
                                   double limit_s, redcoi_point *point, bool *ranked_out, redco_error *err)
{
    redcoi_problem *const problem = configuration->pareto;
    const redco_search_options *const o = &others->space->options;
    const uint64_t capacity_bytes = configuration->capacity_bytes;
    const double above = redco_memory_ratio(configuration->parallelism.schedule);
    const double thought_of = o->pass.roomier_ratio > 0.0 ? o->pass.roomier_ratio : 0.8 * above;
    /* A step of 2 to 5 % is no more than what one layer more or less recomputed changes. */
    const double ratios[] = {
        fmax(above, thought_of), fmin(above, thought_of), 0.6 * above, 0.35 * above, 0.15 * above, 0.0, -0.015};
    enum { CEILINGS = sizeof ratios / sizeof ratios[0] };
    uint64_t ceilings[CEILINGS];
    redco_status st = REDCO_OK;
    bool found = true;
    size_t first = 0, last = 0, k = 0;
    for (size_t i = 0; i < CEILINGS; i++) { ceilings[i] = (uint64_t)((1.0 + ratios[i]) * (double)capacity_bytes); }
    redcoi_problem_group(problem, group, &first, &last);
    problem->budget_bytes = redcoi_space_roomy_bytes(others->space, configuration, problem, first, last);
    for (int i = 0; i < STAGE_TRIES && k < CEILINGS; i++) {
        st = redcoi_solve_group(others->space, configuration, group, limit_s, point, &found, err);
        if (st != REDCO_OK || !found) { break; }
        const bool roomy = point->answer.bytes > configuration->budget_bytes;
        if (i == 0 && !roomy && o->pass.above_bytes == 0) { /* no stage is fuller than the problem counts */
            list_one(others, point, true);
            *ranked_out = true;
            break;
        }
        const uint64_t bytes = redcoi_space_bytes(others->space, configuration, &point->answer);
        if (bytes <= o->pass.above_bytes) { break; }
        if (bytes <= ceilings[k]) { list_one(others, point, bytes <= capacity_bytes); }
        if (bytes <= ceilings[k] && bytes > capacity_bytes && others->roomier.capacity > 0) {
            redcoi_ranking_add(&others->roomier, point);
        }
        while (k < CEILINGS && bytes <= ceilings[k]) { k++; }
        if (k == CEILINGS || bytes - ceilings[k] >= point->answer.bytes) { break; }
        problem->budget_bytes = point->answer.bytes - (bytes - ceilings[k]);
    }
    problem->budget_bytes = configuration->budget_bytes;
    return st;
}

redco_status redcoi_others_list(redcoi_others *others, const redcoi_configuration *configuration, uint32_t group,
                                double bound_s, redcoi_point *point, bool *ranked_out, redco_error *err)
{
    const double best_s = others->near.capacity > 0 ? others->best_s : 0.0;
    const double limit_s = redcoi_limit_of_others(others->space, configuration, group, best_s, (double)INFINITY);
    *ranked_out = false;
    if (!(best_s > 0.0) || bound_s > limit_s || is_crowded_out(others, configuration, group, bound_s)) {
        return REDCO_OK;
    }
    return list_by_stages(others, configuration, group, limit_s, point, ranked_out, err);
}
