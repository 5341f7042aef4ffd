#include "planner/search/exact.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Compositions of a group that are gone through one by one: 21 layers with three options. */
static const double most_enumerated = 256.0, few_compositions = 256.0;
/* Limits for several classes with a choice: 140 layers of each of two with three options. One is gone through layer by
 * layer.
 */
static const double most_of_several = 1e8;

/* The distance from the group's Lagrangian bound at which a composition is looked for first, and its growth at each
 * further try. */
static const double first_slack_ratio = 1e-4, more_slack = 8.0;
static const double rounding = 1e-9; /* sums in another order */

/** Sums over the layers placed so far. */
struct partial {
    double base_s, kink_s[REDCOI_WINDOWS];
    double surplus_s; /**< cost of the options above the cheapest of their class, at the bound's prices */
    uint64_t bytes, transient[REDCO_TRANSIENT_COUNT];
};

/** Enumeration of one group, class by class in the order of `order`. */
struct enumeration {
    const redcoi_problem *problem;
    uint32_t order[REDCOI_MAX_CLASSES];
    uint32_t position; /**< position of the last class that has a choice; the classes behind it have one option */
    bool bounded;      /**< compositions that cannot be best are passed over many at a time */
    redcoi_bound bound;
    double cheapest_s[REDCOI_MAX_CLASSES]; /**< at the bound's prices */
    redcoi_objective objective;
    double cutoff_s; /**< falls to the best found when time is the objective */
    uint64_t most_bytes;
    bool found;
    size_t first[REDCOI_MAX_CLASSES], last[REDCOI_MAX_CLASSES]; /**< options of each class */
    double rest_s[REDCOI_MAX_CLASSES + 1];                      /**< least base of all later positions */
    uint64_t rest_bytes[REDCOI_MAX_CLASSES + 1];
    redcoi_answer now, best;
    double best_s;
    uint64_t best_bytes, looked_at;
};

static void add_transient(struct partial *to, const redcoi_option *option)
{
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
        if (option->transient_bytes[k] > to->transient[k]) { to->transient[k] = option->transient_bytes[k]; }
    }
}

static struct partial extend(const struct partial *from, const redcoi_option *option, uint32_t layers)
{
    struct partial to = *from;
    if (layers == 0) { return to; }
    to.base_s += layers * option->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { to.kink_s[k] += layers * option->kink_s[k]; }
    to.bytes += layers * option->resident_bytes;
    add_transient(&to, option);
    return to;
}

static uint64_t whole_bytes(const struct partial *sum)
{
    uint64_t bytes = sum->bytes;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { bytes += sum->transient[k]; }
    return bytes;
}

/* @return whether the composition at hand has more layers in earlier options than the best; both list options in order.
 */
static bool is_earlier(const redcoi_answer *now, const redcoi_answer *best)
{
    for (uint32_t i = 0; i < now->count && i < best->count; i++) {
        const redcoi_part *a = &now->parts[i];
        const redcoi_part *b = &best->parts[i];
        if (a->option != b->option) { return a->option < b->option; }
        if (a->layers != b->layers) { return a->layers > b->layers; }
    }
    return false;
}

static int by_option(const void *left, const void *right)
{
    const redcoi_part *a = left;
    const redcoi_part *b = right;
    return (a->option > b->option) - (a->option < b->option);
}

static void look_at(struct enumeration *e, const struct partial *sum)
{
    e->looked_at++;
    double time_s = e->problem->constant_s + sum->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { time_s += fmax(0.0, sum->kink_s[k]); }
    const uint64_t bytes = whole_bytes(sum);
    if (bytes > e->problem->budget_bytes || time_s > e->cutoff_s) { return; }
    bool better = !e->found;
    if (e->objective != REDCOI_LEAST_MEMORY) {
        better = better || time_s < e->best_s || (time_s <= e->best_s && bytes < e->best_bytes);
    } else {
        better = better || bytes < e->best_bytes || (bytes == e->best_bytes && time_s < e->best_s);
    }
    const bool equal = e->bounded && e->found && bytes == e->best_bytes && !(time_s < e->best_s || time_s > e->best_s);
    if (!better && !equal) { return; }
    redcoi_answer now = e->now;
    qsort(now.parts, now.count, sizeof *now.parts, by_option);
    if (equal && !is_earlier(&now, &e->best)) { return; } /* visited out of order */
    e->found = true;
    e->best = now;
    e->best_s = time_s;
    e->best_bytes = bytes;
    if (e->objective == REDCOI_LEAST_TIME) { e->cutoff_s = time_s; }
    if (e->objective == REDCOI_LEAST_MEMORY) { e->most_bytes = bytes; }
}

static void place(struct enumeration *e, uint32_t position, size_t i, uint32_t left, const struct partial *sum);

/* No composition takes less than the bound and the surplus of all its layers. */
static double surplus_s(const struct enumeration *e, size_t i)
{
    const redcoi_option *option = &e->problem->options[i];
    return fmax(0.0, redcoi_bound_price(option, &e->bound) - e->cheapest_s[option->class_index]);
}

/* The most that further layers may cost above the cheapest. */
static double room_s(const struct enumeration *e, const struct partial *sum)
{
    return e->cutoff_s * (1.0 + rounding) - e->bound.value_s - sum->surplus_s;
}

/* The layers of option i that leave room: not too many of it, nor of the later ones. @return false: none do */
static bool narrow(const struct enumeration *e, const struct partial *sum, size_t i, size_t last, uint32_t left,
                   double *lowest, double *highest)
{
    const double room = room_s(e, sum);
    const double own = surplus_s(e, i);
    double later = (double)INFINITY;
    for (size_t j = i + 1; j < last; j++) { later = fmin(later, surplus_s(e, j)); }
    if (own > 0.0) { *highest = fmin(*highest, floor(room / own)); }
    if (later > 0.0) { *lowest = fmax(*lowest, left - floor(room / later)); }
    return room >= 0.0 && *lowest <= *highest;
}

/* Option i of the class at `position` gets that many of the `left` layers. */
static void give(struct enumeration *e, uint32_t position, size_t i, uint32_t left, uint32_t layers,
                 const struct partial *sum)
{
    struct partial more = extend(sum, &e->problem->options[i], layers);
    const uint32_t count = e->now.count;
    if (e->bounded) { more.surplus_s += layers * surplus_s(e, i); }
    if (layers > 0 && count < REDCOI_MAX_PARTS) { e->now.parts[e->now.count++] = (redcoi_part){(uint32_t)i, layers}; }
    if (layers < left) {
        place(e, position, i + 1, left - layers, &more);
    } else if (position + 1 < e->problem->class_count) {
        const uint32_t next = e->order[position + 1];
        place(e, position + 1, e->first[next], e->problem->class_layers[next], &more);
    } else {
        look_at(e, &more);
    }
    e->now.count = count;
}

/* Sums with the classes behind the last choice in them. */
static struct partial with_rest(const struct enumeration *e, const struct partial *sum)
{
    struct partial all = *sum;
    for (uint32_t p = e->position + 1; p < e->problem->class_count; p++) {
        const uint32_t c = e->order[p];
        all = extend(&all, &e->problem->options[e->first[c]], e->problem->class_layers[c]);
    }
    return all;
}

/** Time of m layers with option a and left - m with option b, for any m of [lowest, highest]: those that fit. Where m
 *  changes, the time is a convex chain of lines with a corner for each window. */
struct line {
    double at_0_s, base_s, kink_s[REDCOI_WINDOWS], by_s[REDCOI_WINDOWS];
    double lowest, highest;
};

static double time_at(const struct line *line, double m)
{
    double time_s = line->at_0_s + m * line->base_s;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { time_s += fmax(0.0, line->kink_s[k] + m * line->by_s[k]); }
    return time_s;
}

/* @return false when no m fits; the transient buffers of a and b count if `both` */
static bool make_line(const struct enumeration *e, const struct partial *sum, size_t a, uint32_t left, bool both,
                      struct line *line)
{
    const redcoi_option *x = &e->problem->options[a];
    const redcoi_option *y = &e->problem->options[a + 1];
    struct partial all = with_rest(e, sum);
    if (both) {
        add_transient(&all, x);
        add_transient(&all, y);
    }
    *line = (struct line){.at_0_s = e->problem->constant_s + all.base_s + left * y->base_s,
                          .base_s = x->base_s - y->base_s,
                          .lowest = 0.0,
                          .highest = left};
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        line->kink_s[k] = all.kink_s[k] + left * y->kink_s[k];
        line->by_s[k] = x->kink_s[k] - y->kink_s[k];
    }
    const double room = (double)e->problem->budget_bytes - (double)whole_bytes(&all) - left * (double)y->resident_bytes;
    const double by = (double)x->resident_bytes - (double)y->resident_bytes;
    if (by > 0.0) { line->highest = fmin(line->highest, room / by); }
    if (by < 0.0) { line->lowest = fmax(line->lowest, room / by); }
    return (by > 0.0 || by < 0.0 || room >= 0.0) && line->lowest <= line->highest;
}

/* Where a line's least can be: its ends and its corners. @return how many */
static int corners(const struct line *line, double at_out[2 + REDCOI_WINDOWS])
{
    int count = 0;
    at_out[count++] = line->lowest;
    at_out[count++] = line->highest;
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        const double corner = -line->kink_s[k] / line->by_s[k];
        if (corner > line->lowest && corner < line->highest) { at_out[count++] = corner; }
    }
    return count;
}

/* The least time that the last two options could take if layers could be split; INFINITY where nothing fits. */
static double relaxed_s(const struct enumeration *e, const struct partial *sum, size_t a, uint32_t left)
{
    struct line line;
    double at[2 + REDCOI_WINDOWS];
    double least_s = (double)INFINITY;
    if (!make_line(e, sum, a, left, false, &line)) { return least_s; }
    const int count = corners(&line, at);
    for (int i = 0; i < count; i++) { least_s = fmin(least_s, time_at(&line, at[i])); }
    return least_s;
}

/* The last two options of the last class that has a choice: all of one, all of the other, or both. Whole numbers beside
 * the corners; one more on each side, for the corners are rounded. */
static void place_pair(struct enumeration *e, size_t a, uint32_t left, const struct partial *sum)
{
    struct line line;
    double at[2 + REDCOI_WINDOWS];
    give(e, e->position, a, left, left, sum);
    if (left > 0) { give(e, e->position, a, left, 0, sum); }
    if (left < 2 || !make_line(e, sum, a, left, true, &line)) { return; }
    const int count = corners(&line, at);
    for (int i = 0; i < count; i++) {
        for (int step = -1; step <= 2; step++) {
            const double m = floor(at[i]) + step;
            if (m >= 1.0 && m <= left - 1.0) { give(e, e->position, a, left, (uint32_t)m, sum); }
        }
    }
}

/* Third but last option: how long the rest takes at least is convex in the layers that this one gets, so those worth a
 * look lie together around its least. */
static double rest_s(const struct enumeration *e, const struct partial *sum, size_t i, uint32_t left, uint32_t layers)
{
    struct partial more = extend(sum, &e->problem->options[i], layers);
    memcpy(more.transient, sum->transient, sizeof more.transient); /* jumps at one layer */
    return relaxed_s(e, &more, i + 1, left - layers);
}

static bool worth_a_look(const struct enumeration *e, double time_s)
{
    return time_s <= e->cutoff_s * (1.0 + rounding);
}

/* The layers from 0 to left, all of which fit if any of them does, with the least time for the rest. */
static uint32_t find_least(const struct enumeration *e, const struct partial *sum, size_t i, uint32_t left,
                           uint32_t lowest, uint32_t highest)
{
    while (highest - lowest > 2) {
        const uint32_t third = (highest - lowest) / 3;
        if (rest_s(e, sum, i, left, lowest + third) <= rest_s(e, sum, i, left, highest - third)) {
            highest -= third;
        } else {
            lowest += third;
        }
    }
    uint32_t least = lowest;
    for (uint32_t n = lowest + 1; n <= highest; n++) {
        if (rest_s(e, sum, i, left, n) < rest_s(e, sum, i, left, least)) { least = n; }
    }
    return least;
}

/* The last of the layers from `good`, which is worth a look, towards `end`. */
static uint32_t find_edge(const struct enumeration *e, const struct partial *sum, size_t i, uint32_t left,
                          uint32_t good, uint32_t end)
{
    while (good != end) {
        const uint32_t middle = good < end ? good + (end - good + 1) / 2 : good - (good - end + 1) / 2;
        if (worth_a_look(e, rest_s(e, sum, i, left, middle))) {
            good = middle;
        } else {
            end = good < end ? middle - 1 : middle + 1;
        }
    }
    return good;
}

static void place_triple(struct enumeration *e, size_t i, uint32_t left, const struct partial *sum)
{
    const redcoi_option *options = e->problem->options;
    const struct partial all = with_rest(e, sum);
    const double leaner = fmin((double)options[i + 1].resident_bytes, (double)options[i + 2].resident_bytes);
    const double room = (double)e->problem->budget_bytes - (double)whole_bytes(&all) - left * leaner;
    const double by = (double)options[i].resident_bytes - leaner;
    double lowest = 0.0;
    double highest = left;
    if (by > 0.0) { highest = fmin(highest, floor(room / by)); }
    if (by < 0.0) { lowest = fmax(lowest, ceil(room / by)); }
    if (!(by > 0.0) && !(by < 0.0) && room < 0.0) { return; }
    if (!narrow(e, sum, i, i + 3, left, &lowest, &highest)) { return; }
    const uint32_t least = find_least(e, sum, i, left, (uint32_t)lowest, (uint32_t)highest);
    give(e, e->position, i, left, least, sum);                                 /* sets the cut-off */
    if (least > 0 && lowest <= 0.0) { give(e, e->position, i, left, 0, sum); } /* without its transient buffer */
    if (!worth_a_look(e, rest_s(e, sum, i, left, least))) { return; }
    const uint32_t from = find_edge(e, sum, i, left, least, (uint32_t)highest);
    const uint32_t to = find_edge(e, sum, i, left, least, (uint32_t)lowest);
    for (uint32_t layers = from;; layers--) {
        if (layers != least && worth_a_look(e, rest_s(e, sum, i, left, layers))) {
            give(e, e->position, i, left, layers, sum);
        }
        if (layers == to) { break; }
    }
}

/* Option i gets from left down to 0 layers, the last option what is left. */
static void place(struct enumeration *e, uint32_t position, size_t i, uint32_t left, const struct partial *sum)
{
    const size_t last = e->last[e->order[position]];
    if (e->problem->constant_s + sum->base_s + e->rest_s[position + 1] > e->cutoff_s) { return; }
    if (whole_bytes(sum) + e->rest_bytes[position + 1] > e->most_bytes) { return; }
    if (e->bounded && room_s(e, sum) < 0.0) { return; }
    if (i + 1 == last) {
        give(e, position, i, left, left, sum);
    } else if (e->objective == REDCOI_LEAST_MEMORY) {
        /* All layers of a mixture on its leanest option take no more. */
        give(e, position, i, left, left, sum);
        if (left > 0) { give(e, position, i, left, 0, sum); }
    } else if (e->bounded && position == e->position && i + 2 == last) {
        place_pair(e, i, left, sum);
    } else if (e->bounded && position == e->position && i + 3 == last) {
        place_triple(e, i, left, sum);
    } else {
        double lowest = 0.0;
        double highest = left;
        if (e->bounded && !narrow(e, sum, i, last, left, &lowest, &highest)) { return; }
        for (uint32_t layers = (uint32_t)highest;; layers--) {
            give(e, position, i, left, layers, sum);
            if (layers == (uint32_t)lowest) { break; }
        }
    }
}

/* C(layers + options - 1, options - 1) ways to share a class's layers out */
static double compositions(uint32_t layers, size_t options)
{
    double count = 1.0;
    for (size_t k = 1; k < options; k++) { count *= ((double)layers + (double)k) / (double)k; }
    return count;
}

/* @return whether class a comes before b when bounded, where the last class that has a choice is not gone through layer
 * by layer: one with few compositions first, then one whose layers have fewer ways to go at the bound, then one with
 * fewer layers. Classes without a choice stand behind. */
static bool comes_before(const struct enumeration *e, uint32_t a, uint32_t b)
{
    const uint32_t classes[2] = {a, b};
    uint32_t ways[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        const uint32_t c = classes[k];
        const double slack_s = first_slack_ratio * e->bound.value_s;
        for (size_t i = e->first[c]; i < e->last[c]; i++) {
            ways[k] += surplus_s(e, i) * e->problem->class_layers[c] <= slack_s;
        }
        if (compositions(e->problem->class_layers[c], e->last[c] - e->first[c]) <= few_compositions) { ways[k] = 0; }
        if (e->last[c] - e->first[c] == 1) { ways[k] = UINT32_MAX; }
    }
    return ways[0] < ways[1] || (ways[0] == ways[1] && e->problem->class_layers[a] < e->problem->class_layers[b]);
}

static void order_classes(struct enumeration *e)
{
    const redcoi_problem *problem = e->problem;
    const uint32_t classes = problem->class_count;
    for (uint32_t p = 0; p < classes; p++) {
        uint32_t at = p;
        for (; e->bounded && at > 0 && comes_before(e, p, e->order[at - 1]); at--) { e->order[at] = e->order[at - 1]; }
        e->order[at] = p;
    }
    e->position = classes - 1;
    while (e->position > 0 && e->last[e->order[e->position]] - e->first[e->order[e->position]] == 1) { e->position--; }
}

static bool find_classes(struct enumeration *e, size_t first, size_t last)
{
    const redcoi_problem *problem = e->problem;
    const uint32_t classes = problem->class_count;
    double least_s[REDCOI_MAX_CLASSES];
    uint64_t least_bytes[REDCOI_MAX_CLASSES];
    for (uint32_t c = 0; c < classes; c++) {
        e->first[c] = last;
        e->last[c] = last;
        least_s[c] = (double)INFINITY;
        e->cheapest_s[c] = (double)INFINITY;
        least_bytes[c] = UINT64_MAX;
        for (size_t i = first; i < last; i++) {
            const redcoi_option *option = &problem->options[i];
            if (option->class_index != c) { continue; }
            if (e->first[c] == last) { e->first[c] = i; }
            e->last[c] = i + 1;
            least_s[c] = fmin(least_s[c], option->base_s);
            if (option->resident_bytes < least_bytes[c]) { least_bytes[c] = option->resident_bytes; }
            e->cheapest_s[c] = fmin(e->cheapest_s[c], redcoi_bound_price(option, &e->bound));
        }
        if (e->first[c] == last) { return false; }
    }
    order_classes(e);
    e->rest_s[classes] = 0.0;
    e->rest_bytes[classes] = 0;
    for (uint32_t p = classes; p-- > 0;) {
        const uint32_t c = e->order[p];
        e->rest_s[p] = e->rest_s[p + 1] + problem->class_layers[c] * least_s[c];
        e->rest_bytes[p] = e->rest_bytes[p + 1] + problem->class_layers[c] * least_bytes[c];
    }
    return true;
}

/* Options of each class in @p group. */
static void count_options(const redcoi_problem *problem, uint32_t group, uint32_t options[REDCOI_MAX_CLASSES])
{
    size_t first = 0;
    size_t last = 0;
    redcoi_problem_group(problem, group, &first, &last);
    for (size_t i = first; i < last; i++) { options[problem->options[i].class_index]++; }
}

bool redcoi_exact_is_long(const redcoi_problem *problem, uint32_t group)
{
    uint32_t options[REDCOI_MAX_CLASSES] = {0};
    uint32_t several = 0;
    count_options(problem, group, options);
    for (uint32_t c = 0; c < problem->class_count; c++) { several += options[c] > 1 ? 1 : 0; }
    return several > 1 && redcoi_exact_count(problem, group) > most_of_several;
}

double redcoi_exact_count(const redcoi_problem *problem, uint32_t group)
{
    uint32_t options[REDCOI_MAX_CLASSES] = {0};
    count_options(problem, group, options);
    double count = 1.0;
    for (uint32_t c = 0; c < problem->class_count; c++) {
        if (options[c] == 0) { return 0.0; }
        count *= compositions(problem->class_layers[c], options[c]);
    }
    return count;
}

/* An upper bound on the memory of any composition. */
static double slowest_s(const struct enumeration *e)
{
    double sum_s = e->problem->constant_s;
    for (uint32_t c = 0; c < e->problem->class_count; c++) {
        double most_s = 0.0;
        for (size_t i = e->first[c]; i < e->last[c]; i++) {
            const redcoi_option *option = &e->problem->options[i];
            double layer_s = option->base_s;
            for (int k = 0; k < REDCOI_WINDOWS; k++) { layer_s += fmax(0.0, option->kink_s[k]); }
            most_s = fmax(most_s, layer_s);
        }
        sum_s += e->problem->class_layers[c] * most_s;
    }
    return sum_s * (1.0 + rounding);
}

/* All that take at most the bound and some slack; more slack until there is one, which is then the best of all. */
static void search_near_bound(struct enumeration *e, double cutoff_s)
{
    const struct partial nothing = {0};
    const double most_s = fmin(cutoff_s, slowest_s(e));
    const uint32_t c = e->order[0];
    for (double slack_s = first_slack_ratio * e->bound.value_s;; slack_s *= more_slack) {
        e->cutoff_s = fmin(most_s, e->bound.value_s + slack_s);
        place(e, 0, e->first[c], e->problem->class_layers[c], &nothing);
        if (e->found || !(e->cutoff_s < most_s)) { return; }
    }
}

bool redcoi_exact_group(const redcoi_problem *problem, uint32_t group, redcoi_objective objective, double cutoff_s,
                        redcoi_answer *answer_out, uint64_t *looked_at)
{
    size_t first = 0;
    size_t last = 0;
    redcoi_problem_group(problem, group, &first, &last);
    struct enumeration e = {
        .problem = problem, .objective = objective, .cutoff_s = cutoff_s, .most_bytes = problem->budget_bytes};
    e.bounded = objective == REDCOI_LEAST_TIME && redcoi_exact_count(problem, group) > most_enumerated;
    if (e.bounded) { e.bound = redcoi_bound_best(problem, first, last); }
    if (isinf(e.bound.value_s) || !find_classes(&e, first, last)) { return false; }
    const struct partial nothing = {0};
    if (e.bounded) {
        search_near_bound(&e, cutoff_s);
    } else {
        place(&e, 0, e.first[e.order[0]], problem->class_layers[e.order[0]], &nothing);
    }
    if (looked_at != NULL) { *looked_at += e.looked_at; }
    if (!e.found) { return false; }
    *answer_out = e.best;
    return redcoi_answer_evaluate(problem, answer_out);
}
