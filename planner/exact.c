#include "planner/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/** Sums over the layers placed so far. */
struct partial {
    double base_s, kink_s[REDCOI_WINDOWS];
    uint64_t bytes, transient[REDCO_TRANSIENT_COUNT];
};

/** Enumeration of one group. */
struct enumeration {
    const redcoi_problem *problem;
    redcoi_goal goal;
    double cutoff_s; /**< falls to the best found when time is the goal */
    uint64_t most_bytes;
    bool found;
    size_t first[REDCOI_MAX_CLASSES], last[REDCOI_MAX_CLASSES]; /**< options of each class */
    double rest_s[REDCOI_MAX_CLASSES + 1];                      /**< least base of all later classes */
    uint64_t rest_bytes[REDCOI_MAX_CLASSES + 1];
    redcoi_answer now, best;
    double best_s;
    uint64_t best_bytes, looked_at;
};

static struct partial extend(const struct partial *from, const redcoi_option *option, uint32_t layers)
{
    struct partial to = *from;
    if (layers == 0) { return to; }
    to.base_s += layers * option->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { to.kink_s[k] += layers * option->kink_s[k]; }
    to.bytes += layers * option->resident_bytes;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
        if (option->transient_bytes[k] > to.transient[k]) { to.transient[k] = option->transient_bytes[k]; }
    }
    return to;
}

static uint64_t whole_bytes(const struct partial *sum)
{
    uint64_t bytes = sum->bytes;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { bytes += sum->transient[k]; }
    return bytes;
}

static void look_at(struct enumeration *e, const struct partial *sum)
{
    e->looked_at++;
    double time_s = e->problem->constant_s + sum->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { time_s += fmax(0.0, sum->kink_s[k]); }
    const uint64_t bytes = whole_bytes(sum);
    if (bytes > e->problem->budget_bytes || time_s > e->cutoff_s) { return; }
    bool better = !e->found;
    if (e->goal != REDCOI_LEAST_MEMORY) {
        better = better || time_s < e->best_s || (time_s <= e->best_s && bytes < e->best_bytes);
    } else {
        better = better || bytes < e->best_bytes || (bytes == e->best_bytes && time_s < e->best_s);
    }
    if (!better) { return; }
    e->found = true;
    e->best = e->now;
    e->best_s = time_s;
    e->best_bytes = bytes;
    if (e->goal == REDCOI_LEAST_TIME) { e->cutoff_s = time_s; }
    if (e->goal == REDCOI_LEAST_MEMORY) { e->most_bytes = bytes; }
}

/* Option i of class c gets from left down to 0 layers, the last option what is left. */
static void place(struct enumeration *e, uint32_t c, size_t i, uint32_t left, const struct partial *sum)
{
    if (e->problem->constant_s + sum->base_s + e->rest_s[c + 1] > e->cutoff_s) { return; }
    if (whole_bytes(sum) + e->rest_bytes[c + 1] > e->most_bytes) { return; }
    const bool last_option = i + 1 == e->last[c];
    for (uint32_t layers = left;; layers--) {
        const struct partial more = extend(sum, &e->problem->options[i], layers);
        const uint32_t count = e->now.count;
        if (layers > 0 && count < REDCOI_MAX_PARTS) {
            e->now.parts[e->now.count++] = (redcoi_part){(uint32_t)i, layers};
        }
        if (layers < left && !last_option) {
            place(e, c, i + 1, left - layers, &more);
        } else if (c + 1 < e->problem->class_count) {
            place(e, c + 1, e->first[c + 1], e->problem->class_layers[c + 1], &more);
        } else {
            look_at(e, &more);
        }
        e->now.count = count;
        if (layers == 0 || last_option) { break; }
    }
}

static bool find_classes(struct enumeration *e, size_t first, size_t last)
{
    const redcoi_problem *problem = e->problem;
    const uint32_t classes = problem->class_count;
    e->rest_s[classes] = 0.0;
    e->rest_bytes[classes] = 0;
    for (uint32_t c = classes; c-- > 0;) {
        e->first[c] = last;
        e->last[c] = last;
        double least_s = (double)INFINITY;
        uint64_t least_bytes = UINT64_MAX;
        for (size_t i = first; i < last; i++) {
            const redcoi_option *option = &problem->options[i];
            if (option->class_index != c) { continue; }
            if (e->first[c] == last) { e->first[c] = i; }
            e->last[c] = i + 1;
            least_s = fmin(least_s, option->base_s);
            if (option->resident_bytes < least_bytes) { least_bytes = option->resident_bytes; }
        }
        if (e->first[c] == last) { return false; }
        e->rest_s[c] = e->rest_s[c + 1] + problem->class_layers[c] * least_s;
        e->rest_bytes[c] = e->rest_bytes[c + 1] + problem->class_layers[c] * least_bytes;
    }
    return true;
}

/* C(layers + options - 1, options - 1) ways to share a class's layers out */
double redcoi_exact_count(const redcoi_problem *problem, uint32_t group)
{
    size_t first = 0;
    size_t last = 0;
    redcoi_problem_group(problem, group, &first, &last);
    uint32_t options[REDCOI_MAX_CLASSES] = {0};
    for (size_t i = first; i < last; i++) { options[problem->options[i].class_index]++; }
    double count = 1.0;
    for (uint32_t c = 0; c < problem->class_count; c++) {
        for (uint32_t k = 1; k < options[c]; k++) { count *= (double)(problem->class_layers[c] + k) / k; }
        if (options[c] == 0) { return 0.0; }
    }
    return count;
}

bool redcoi_exact_group(const redcoi_problem *problem, uint32_t group, redcoi_goal goal, double cutoff_s,
                        redcoi_answer *answer_out, uint64_t *looked_at)
{
    size_t first = 0;
    size_t last = 0;
    redcoi_problem_group(problem, group, &first, &last);
    struct enumeration e = {
        .problem = problem, .goal = goal, .cutoff_s = cutoff_s, .most_bytes = problem->budget_bytes};
    if (!find_classes(&e, first, last)) { return false; }
    const struct partial nothing = {0};
    place(&e, 0, e.first[0], problem->class_layers[0], &nothing);
    if (looked_at != NULL) { *looked_at += e.looked_at; }
    if (!e.found) { return false; }
    *answer_out = e.best;
    return redcoi_answer_evaluate(problem, answer_out);
}
