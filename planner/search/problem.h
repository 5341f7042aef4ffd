/** @file problem.h  Internal: the optimisation problem of one configuration, stripped of meaning. Layers of a class
 *  are counts; an option is one configuration of one class; with n layers per option
 *      objective_s = constant_s + sum n base_s + sum over windows max(0, sum n kink_s)
 *      bytes       = sum n resident_bytes + sum over kinds of the largest transient_bytes in use <= budget_bytes
 *  A window of closed_form.h, max(h X, X - u C), is base = h X and kink = (1 - h) X - u C. Options of one group (a mesh
 *  triple) may be used together; in uniform mode all layers use options of one group. */
#ifndef REDCO_PROBLEM_H
#define REDCO_PROBLEM_H

#include "costmodel/closed_form/closed_form.h"

#include <stddef.h>

enum {
    REDCOI_MAX_CLASSES = 8,
    REDCOI_MAX_PARTS = 128, /**< different options in one answer; optima use a handful */
    REDCOI_WINDOWS = 2
};

typedef struct redcoi_option {
    uint32_t class_index, group;
    uint32_t origin; /**< index in the problem that this one was copied from */
    redco_recompute recompute;
    double base_s;                 /**< >= 0 */
    double kink_s[REDCOI_WINDOWS]; /**< either sign */
    uint64_t resident_bytes;
    uint64_t transient_bytes[REDCO_TRANSIENT_COUNT];
} redcoi_option;

typedef struct redcoi_problem {
    uint32_t class_count;
    uint32_t class_layers[REDCOI_MAX_CLASSES];
    uint32_t group_count;
    redcoi_option *options; /**< sorted by group, class, recompute */
    size_t option_count;
    double constant_s;
    uint64_t budget_bytes;
} redcoi_problem;

/** @p layers layers of options[option]'s class use it. */
typedef struct redcoi_part {
    uint32_t option, layers;
} redcoi_part;

typedef struct redcoi_answer {
    redcoi_part parts[REDCOI_MAX_PARTS];
    uint32_t count;
    double objective_s;
    uint64_t bytes;
} redcoi_answer;

/** A point of the Lagrangian dual and its value, a lower bound of the objective. */
typedef struct redcoi_bound {
    double value_s; /**< INFINITY: nothing fits */
    double memory_s_per_gib;
    double window_ratio[REDCOI_WINDOWS]; /**< in [0, 1] */
} redcoi_bound;

/** Refuses coefficients that are not finite or negative, byte sums that overflow, classes without options.
 *  GLPK takes NaN and calls the result optimal. @return REDCO_EVALUE */
redco_status redcoi_problem_check(const redcoi_problem *problem, redco_error *err);

/** A copy with the options of the groups that @p keep_group marks (NULL: all), groups unchanged, origins set; or NULL
 *  when out of memory. */
redcoi_problem *redcoi_problem_copy(const redcoi_problem *problem, const bool *keep_group);
void redcoi_problem_free(redcoi_problem *problem);

/** Turns an answer of a copy into one of its original. */
void redcoi_answer_to_origin(const redcoi_problem *copy, const redcoi_problem *original, redcoi_answer *answer);

/** Drops options that another of the same class (and, if @p within_group, of the same group) beats or equals in every
 *  use: no optimum is lost. Of equal ones the first stays. */
void redcoi_problem_pareto(redcoi_problem *problem, bool within_group);

/** [first, last) of a group's options. */
void redcoi_problem_group(const redcoi_problem *problem, uint32_t group, size_t *first_out, size_t *last_out);

/** Fills objective_s and bytes, exactly and in one order. @return false when layers are missing, counted twice, of
 *  unknown options, or do not fit */
bool redcoi_answer_evaluate(const redcoi_problem *problem, redcoi_answer *answer);

/** The best Lagrangian bound over options [first, last): memory and windows priced, layers split at will. */
redcoi_bound redcoi_bound_best(const redcoi_problem *problem, size_t first, size_t last);

/** option's share of that bound per layer: base + priced windows + priced memory. */
double redcoi_bound_price(const redcoi_option *option, const redcoi_bound *bound);

#endif
