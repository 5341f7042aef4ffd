/* The Lagrangian dual of problem.h. Pricing memory at mu >= 0 and replacing max(0, K) by lambda K, 0 <= lambda <= 1,
   splits the problem into its layers, each taking its cheapest option; the value is a lower bound for every mu and
   lambda, concave and piecewise linear in them. It is maximised one variable inside the other, each by intersecting
   the two lines that bracket its maximum: finitely many steps, no step size, no tolerance to tune. */
#include "planner/search/problem.h"

#include <math.h>

static const double gib = 1073741824.0;

enum { DIMENSIONS = 1 + REDCOI_WINDOWS, MOST_STEPS = 40 };

/* Seconds per GiB; above it cancellation would eat the bound's digits. Any price gives a valid bound. */
static const double highest_price = 4096.0;

/** A value of the dual and a supergradient there. */
struct point {
    double at[DIMENSIONS]; /**< memory price, window ratios */
    double value;
    double slope[DIMENSIONS];
};

struct dual {
    const redcoi_problem *problem;
    size_t first, last;
    double memory_gib; /**< for resident bytes: budget less the transient that no answer can avoid */
};

double redcoi_bound_price(const redcoi_option *option, const redcoi_bound *bound)
{
    double price = option->base_s + bound->memory_s_per_gib * ((double)option->resident_bytes / gib);
    for (int k = 0; k < REDCOI_WINDOWS; k++) { price += bound->window_ratio[k] * option->kink_s[k]; }
    return price;
}

static void evaluate(const struct dual *dual, struct point *point)
{
    const redcoi_bound prices = {.memory_s_per_gib = point->at[0], .window_ratio = {point->at[1], point->at[2]}};
    const redcoi_option *cheapest[REDCOI_MAX_CLASSES] = {0};
    double least[REDCOI_MAX_CLASSES];
    for (size_t i = dual->first; i < dual->last; i++) {
        const redcoi_option *option = &dual->problem->options[i];
        const uint32_t c = option->class_index;
        const double price = redcoi_bound_price(option, &prices);
        /* Equal prices: the leaner one, so that a price of infinity need not be searched for. */
        const bool better = cheapest[c] == NULL || price < least[c] ||
                            (price <= least[c] && option->resident_bytes < cheapest[c]->resident_bytes);
        if (better) {
            cheapest[c] = option;
            least[c] = price;
        }
    }
    point->value = dual->problem->constant_s - point->at[0] * dual->memory_gib;
    point->slope[0] = -dual->memory_gib;
    for (int k = 0; k < REDCOI_WINDOWS; k++) { point->slope[1 + k] = 0.0; }
    for (uint32_t c = 0; c < dual->problem->class_count; c++) {
        if (cheapest[c] == NULL) { continue; }
        const double layers = dual->problem->class_layers[c];
        point->value += layers * least[c];
        point->slope[0] += layers * ((double)cheapest[c]->resident_bytes / gib);
        for (int k = 0; k < REDCOI_WINDOWS; k++) { point->slope[1 + k] += layers * cheapest[c]->kink_s[k]; }
    }
}

static void maximise(const struct dual *dual, int dimension, struct point *point);

static void maximise_at(const struct dual *dual, int dimension, double value, struct point *point)
{
    point->at[dimension] = value;
    if (dimension == 0) {
        evaluate(dual, point);
    } else {
        maximise(dual, dimension - 1, point);
    }
}

/* Between two points whose slopes along @p dimension have opposite signs there is a supergradient with slope 0: their
   mean so weighted. The outer dimension needs that one to know where to go. */
static void blend_slopes(int dimension, const struct point *left, const struct point *right, struct point *best)
{
    const double span = left->slope[dimension] - right->slope[dimension];
    const double weight = span > 0.0 ? left->slope[dimension] / span : 0.5;
    for (int d = 0; d < DIMENSIONS; d++) {
        best->slope[d] = (1.0 - weight) * left->slope[d] + weight * right->slope[d];
    }
}

/* Maximises over at[0..dimension], the outer ones being set in @p point. */
static void maximise(const struct dual *dual, int dimension, struct point *point)
{
    struct point left = *point;
    maximise_at(dual, dimension, 0.0, &left);
    *point = left;
    if (left.slope[dimension] <= 0.0) { return; }
    struct point right = left;
    double at = 1.0;
    maximise_at(dual, dimension, at, &right);
    while (dimension == 0 && right.slope[0] > 0.0 && at < highest_price) {
        left = right;
        at *= 8.0;
        maximise_at(dual, dimension, at, &right);
    }
    *point = right;
    if (right.slope[dimension] >= 0.0) { return; }
    *point = left.value > right.value ? left : right;
    for (int i = 0; i < MOST_STEPS; i++) {
        const double crossing = (right.value - left.value + left.slope[dimension] * left.at[dimension] -
                                 right.slope[dimension] * right.at[dimension]) /
                                (left.slope[dimension] - right.slope[dimension]);
        if (!(crossing > left.at[dimension]) || !(crossing < right.at[dimension])) { break; }
        struct point middle = left;
        maximise_at(dual, dimension, crossing, &middle);
        if (middle.value > point->value) { *point = middle; }
        const double promised = left.value + left.slope[dimension] * (crossing - left.at[dimension]);
        if (middle.slope[dimension] > 0.0) {
            left = middle;
        } else {
            right = middle;
        }
        if (middle.value >= promised - 1e-12 * (1.0 + fabs(promised))) { break; }
    }
    blend_slopes(dimension, &left, &right, point);
}

/* Resident bytes of the leanest answer, and the transient that every answer has: each class uses some option. */
static bool fits_at_all(const redcoi_problem *problem, size_t first, size_t last, uint64_t *transient_out)
{
    uint64_t resident[REDCOI_MAX_CLASSES];
    uint64_t transient[REDCOI_MAX_CLASSES][REDCO_TRANSIENT_COUNT];
    bool seen[REDCOI_MAX_CLASSES] = {false};
    for (size_t i = first; i < last; i++) {
        const redcoi_option *option = &problem->options[i];
        const uint32_t c = option->class_index;
        if (!seen[c] || option->resident_bytes < resident[c]) { resident[c] = option->resident_bytes; }
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
            const uint64_t bytes = option->transient_bytes[k];
            if (!seen[c] || bytes < transient[c][k]) { transient[c][k] = bytes; }
        }
        seen[c] = true;
    }
    uint64_t sum = 0;
    uint64_t largest[REDCO_TRANSIENT_COUNT] = {0};
    for (uint32_t c = 0; c < problem->class_count; c++) {
        if (!seen[c]) { return false; }
        sum += resident[c] * problem->class_layers[c];
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
            if (transient[c][k] > largest[k]) { largest[k] = transient[c][k]; }
        }
    }
    *transient_out = 0;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { *transient_out += largest[k]; }
    return sum + *transient_out <= problem->budget_bytes;
}

redcoi_bound redcoi_bound_best(const redcoi_problem *problem, size_t first, size_t last)
{
    uint64_t transient = 0;
    if (!fits_at_all(problem, first, last, &transient)) { return (redcoi_bound){.value_s = (double)INFINITY}; }
    const struct dual dual = {problem, first, last, (double)(problem->budget_bytes - transient) / gib};
    struct point best = {.at = {0}};
    maximise(&dual, DIMENSIONS - 1, &best);
    return (redcoi_bound){
        .value_s = best.value, .memory_s_per_gib = best.at[0], .window_ratio = {best.at[1], best.at[2]}};
}
