#include "planner/search/ranking.h"

#include <math.h>
#include <string.h>

/* Sums of the same numbers in another order differ by less. */
static const double rounding_ratio = 1e-9;

void redcoi_point_measure(redcoi_point *point)
{
    redcoi_answer objective = point->answer;
    (void)redcoi_answer_evaluate(point->configuration->objective, &objective);
    point->value_s = objective.objective_s;
    (void)redcoi_answer_evaluate(point->configuration->steps, &point->answer);
    point->step_s = point->answer.objective_s;
    point->bytes = point->answer.bytes + point->configuration->fixed_bytes;
    point->group = UINT32_MAX;
    for (uint32_t i = 0; i < point->answer.count; i++) {
        const uint32_t group = point->configuration->steps->options[point->answer.parts[i].option].group;
        if (i > 0 && group != point->group) {
            point->group = UINT32_MAX;
            return;
        }
        point->group = group;
    }
}

static int compare_doubles(double a, double b)
{
    const double slack = rounding_ratio * fmax(fabs(a), fabs(b));
    if (fabs(a - b) <= slack) { return 0; }
    return a < b ? -1 : 1;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return a == b ? 0 : (a < b ? -1 : 1);
}

/* Layers weighted by the ranks that each component is sharded over: the smallest factors of mixed meshes. */
static void spread_ranks(const redcoi_point *point, uint64_t sums_out[3])
{
    memset(sums_out, 0, 3 * sizeof *sums_out);
    for (uint32_t i = 0; i < point->answer.count; i++) {
        const redcoi_part part = point->answer.parts[i];
        const redcoi_option *option = &point->configuration->steps->options[part.option];
        const redco_shards *s = &point->configuration->groups[option->group];
        const uint64_t layers = (uint64_t)part.layers * point->configuration->layers_each[option->class_index];
        sums_out[0] += layers * redco_mesh_ranks(s->optimizer);
        sums_out[1] += layers * redco_mesh_ranks(s->gradients);
        sums_out[2] += layers * redco_mesh_ranks(s->parameters);
    }
}

int redcoi_point_compare_memory(const redcoi_point *a, const redcoi_point *b)
{
    int order = compare_u64(a->bytes, b->bytes);
    uint64_t ours[3];
    uint64_t theirs[3];
    spread_ranks(a, ours);
    spread_ranks(b, theirs);
    for (int i = 0; i < 3 && order == 0; i++) { order = compare_u64(ours[i], theirs[i]); }
    const redco_parallelism *x = &a->configuration->parallelism;
    const redco_parallelism *y = &b->configuration->parallelism;
    if (order == 0) { order = redco_parallelism_compare(x, y); }
    if (order == 0) { order = compare_u64(a->group, b->group); }
    return order;
}

int redcoi_point_compare(const redcoi_point *a, const redcoi_point *b)
{
    int order = compare_doubles(a->value_s, b->value_s);
    if (order == 0) { order = compare_doubles(a->step_s, b->step_s); }
    return order != 0 ? order : redcoi_point_compare_memory(a, b);
}

static void insert(redcoi_ranking *ranking, uint32_t at, const redcoi_point *point)
{
    if (at >= ranking->capacity) { return; }
    const uint32_t last = ranking->count < ranking->capacity ? ranking->count : ranking->capacity - 1;
    memmove(&ranking->points[at + 1], &ranking->points[at], (last - at) * sizeof *ranking->points);
    ranking->points[at] = *point;
    ranking->count = last + 1;
}

void redcoi_ranking_add(redcoi_ranking *ranking, const redcoi_point *point)
{
    uint32_t at = ranking->count;
    while (at > 0 && redcoi_point_compare(point, &ranking->points[at - 1]) < 0) { at--; }
    insert(ranking, at, point);
}

void redcoi_ranking_lead(redcoi_ranking *ranking, const redcoi_point *point)
{
    for (uint32_t i = 0; i < ranking->count && point->group != UINT32_MAX; i++) {
        if (ranking->points[i].configuration != point->configuration || ranking->points[i].group != point->group) {
            continue;
        }
        ranking->count--;
        memmove(&ranking->points[i], &ranking->points[i + 1], (ranking->count - i) * sizeof *ranking->points);
        break;
    }
    insert(ranking, 0, point);
}
