#include "planner/search/problem.h"

#include "topology/base/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static redco_status check_option(const redcoi_problem *problem, const redcoi_option *option, redco_error *err)
{
    bool sound = isfinite(option->base_s) && option->base_s >= 0.0;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { sound = sound && isfinite(option->kink_s[k]); }
    if (!sound) {
        return redco_fail(err, REDCO_EVALUE, "cost model",
                          "a layer of class %u takes %g s with windows of %g s and %g s: times must be finite and not "
                          "negative; check calibration and profiles",
                          option->class_index, option->base_s, option->kink_s[0], option->kink_s[1]);
    }
    if (option->class_index >= problem->class_count || option->group >= problem->group_count) {
        return redco_fail(err, REDCO_EVALUE, "cost model", "class %u or group %u is out of range", option->class_index,
                          option->group);
    }
    return REDCO_OK;
}

/* Every sum of bytes that a solver may form stays below 2^62, so none needs a check of its own. */
static bool bytes_fit(const redcoi_problem *problem)
{
    static const uint64_t most = UINT64_C(1) << 58;
    for (size_t i = 0; i < problem->option_count; i++) {
        const redcoi_option *option = &problem->options[i];
        uint64_t product = 0;
        if (!redco_mul_u64(option->resident_bytes, problem->class_layers[option->class_index], &product)) {
            return false;
        }
        if (product > most) { return false; }
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
            if (option->transient_bytes[k] > most) { return false; }
        }
    }
    return true;
}

redco_status redcoi_problem_check(const redcoi_problem *problem, redco_error *err)
{
    if (problem->class_count == 0 || problem->class_count > REDCOI_MAX_CLASSES) {
        return redco_fail(err, REDCO_EVALUE, "model", "%u layer classes: 1 to %d can be planned", problem->class_count,
                          REDCOI_MAX_CLASSES);
    }
    if (!isfinite(problem->constant_s)) {
        return redco_fail(err, REDCO_EVALUE, "cost model", "the fixed time of a step is %g s", problem->constant_s);
    }
    bool seen[REDCOI_MAX_CLASSES] = {false};
    for (size_t i = 0; i < problem->option_count; i++) {
        const redco_status st = check_option(problem, &problem->options[i], err);
        if (st != REDCO_OK) { return st; }
        seen[problem->options[i].class_index] = true;
    }
    for (uint32_t c = 0; c < problem->class_count; c++) {
        if (!seen[c] || problem->class_layers[c] == 0) {
            return redco_fail(err, REDCO_EVALUE, "model", "layer class %u has no layers or no configuration", c);
        }
    }
    if (!bytes_fit(problem)) {
        return redco_fail(err, REDCO_EVALUE, "model", "one rank would hold more than 2^58 bytes");
    }
    return REDCO_OK;
}

redcoi_problem *redcoi_problem_copy(const redcoi_problem *problem, const bool *keep_group)
{
    redcoi_problem *copy = malloc(sizeof *copy);
    if (copy == NULL) { return NULL; }
    *copy = *problem;
    copy->option_count = 0;
    copy->options = malloc((problem->option_count > 0 ? problem->option_count : 1) * sizeof *copy->options);
    if (copy->options == NULL) {
        free(copy);
        return NULL;
    }
    for (size_t i = 0; i < problem->option_count; i++) {
        if (keep_group == NULL || keep_group[problem->options[i].group]) {
            copy->options[copy->option_count] = problem->options[i];
            copy->options[copy->option_count++].origin = (uint32_t)i;
        }
    }
    return copy;
}

void redcoi_answer_to_origin(const redcoi_problem *copy, const redcoi_problem *original, redcoi_answer *answer)
{
    for (uint32_t i = 0; i < answer->count; i++) {
        answer->parts[i].option = copy->options[answer->parts[i].option].origin;
    }
    (void)redcoi_answer_evaluate(original, answer);
}

void redcoi_problem_free(redcoi_problem *problem)
{
    if (problem == NULL) { return; }
    free(problem->options);
    free(problem);
}

/* Replacing every layer of b by one of a: the windows grow by at most the positive differences of their kinks, the
   transient memory by at most those of its kinds (once, so b's layers need only save as much together). */
static bool beats(const redcoi_option *a, const redcoi_option *b)
{
    double base_s = a->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { base_s += fmax(0.0, a->kink_s[k] - b->kink_s[k]); }
    if (base_s > b->base_s) { return false; }
    uint64_t bytes = a->resident_bytes;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
        if (a->transient_bytes[k] > b->transient_bytes[k]) { bytes += a->transient_bytes[k] - b->transient_bytes[k]; }
    }
    return bytes <= b->resident_bytes;
}

/* An option can only be beaten by one that comes before it here, equal ones aside. */
static int compare_by_base(const void *left, const void *right)
{
    const redcoi_option *a = *(const redcoi_option *const *)left;
    const redcoi_option *b = *(const redcoi_option *const *)right;
    if (a->base_s < b->base_s || a->base_s > b->base_s) { return a->base_s < b->base_s ? -1 : 1; }
    if (a->resident_bytes != b->resident_bytes) { return a->resident_bytes < b->resident_bytes ? -1 : 1; }
    return a == b ? 0 : (a < b ? -1 : 1);
}

/* "Beats" is transitive, so an option need only be compared with those kept. @p order is scratch of all options */
static void mark_beaten(const redcoi_problem *problem, size_t first, size_t last, uint32_t class_index,
                        const redcoi_option **order, bool *gone)
{
    size_t count = 0;
    for (size_t i = first; i < last; i++) {
        if (problem->options[i].class_index == class_index) { order[count++] = &problem->options[i]; }
    }
    qsort(order, count, sizeof(const redcoi_option *), compare_by_base);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const redcoi_option *option = order[i];
        bool beaten = false;
        for (size_t j = kept; j-- > 0 && !beaten;) { beaten = beats(order[j], option); }
        if (beaten) {
            gone[option - problem->options] = true;
        } else {
            order[kept++] = option;
        }
    }
}

void redcoi_problem_pareto(redcoi_problem *problem, bool within_group)
{
    const size_t count = problem->option_count;
    bool *gone = calloc(count + 1, sizeof *gone);
    const redcoi_option **order = malloc((count + 1) * sizeof(const redcoi_option *));
    size_t first = 0;
    while (gone != NULL && order != NULL && first < count) { /* Out of memory: the filter is for speed only. */
        size_t last = within_group ? first : count;
        while (last < count && problem->options[last].group == problem->options[first].group) { last++; }
        for (uint32_t c = 0; c < problem->class_count; c++) { mark_beaten(problem, first, last, c, order, gone); }
        first = last;
    }
    size_t kept = 0;
    for (size_t i = 0; i < count && gone != NULL; i++) {
        if (!gone[i]) { problem->options[kept++] = problem->options[i]; }
    }
    if (gone != NULL) { problem->option_count = kept; }
    free(order);
    free(gone);
}

void redcoi_problem_group(const redcoi_problem *problem, uint32_t group, size_t *first_out, size_t *last_out)
{
    size_t low = 0;
    size_t high = problem->option_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (problem->options[middle].group < group) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *first_out = low;
    while (low < problem->option_count && problem->options[low].group == group) { low++; }
    *last_out = low;
}

bool redcoi_answer_evaluate(const redcoi_problem *problem, redcoi_answer *answer)
{
    uint32_t layers[REDCOI_MAX_CLASSES] = {0};
    uint64_t transient[REDCO_TRANSIENT_COUNT] = {0};
    double kink_s[REDCOI_WINDOWS] = {0};
    double objective_s = problem->constant_s;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < answer->count; i++) {
        const redcoi_part part = answer->parts[i];
        if (part.option >= problem->option_count) { return false; }
        const redcoi_option *option = &problem->options[part.option];
        if (part.layers > problem->class_layers[option->class_index] - layers[option->class_index]) { return false; }
        layers[option->class_index] += part.layers;
        objective_s += part.layers * option->base_s;
        for (int k = 0; k < REDCOI_WINDOWS; k++) { kink_s[k] += part.layers * option->kink_s[k]; }
        bytes += part.layers * option->resident_bytes;
        for (int k = 0; k < REDCO_TRANSIENT_COUNT && part.layers > 0; k++) {
            if (option->transient_bytes[k] > transient[k]) { transient[k] = option->transient_bytes[k]; }
        }
    }
    for (int k = 0; k < REDCOI_WINDOWS; k++) { objective_s += fmax(0.0, kink_s[k]); }
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { bytes += transient[k]; }
    answer->objective_s = objective_s;
    answer->bytes = bytes;
    for (uint32_t c = 0; c < problem->class_count; c++) {
        if (layers[c] != problem->class_layers[c]) { return false; }
    }
    return bytes <= problem->budget_bytes;
}
