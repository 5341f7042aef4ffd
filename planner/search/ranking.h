/** @file ranking.h  Internal: the best points found so far, one per configuration and group, and the stated order of
 *  ties: objective, step time, memory, then the smallest factors. */
#ifndef REDCO_RANKING_H
#define REDCO_RANKING_H

#include "planner/search/search_space.h"

/** A point of the space: an answer of configuration->steps (and ->objective). */
typedef struct redcoi_point {
    const redcoi_configuration *configuration;
    uint32_t group; /**< group of all its layers; UINT32_MAX when they differ */
    double value_s; /**< the objective */
    double step_s;
    uint64_t bytes; /**< fixed bytes included */
    redcoi_answer answer;
} redcoi_point;

typedef struct redcoi_ranking {
    redcoi_point *points; /**< best first */
    uint32_t count, capacity;
} redcoi_ranking;

/** T_comm: brute force must find the same value, so only rounding makes a tie. */
static const double redcoi_exact_tie_ratio = 1e-9;

/** Fills value_s, step_s and bytes from configuration and answer. */
void redcoi_point_measure(redcoi_point *point);

/** < 0 when @p a has less memory or, at equal memory, smaller factors: a total order. */
int redcoi_point_compare_memory(const redcoi_point *a, const redcoi_point *b);

/** By objective; equal objectives (to 1e-9) by step time, then as redcoi_point_compare_memory(). */
int redcoi_point_compare(const redcoi_point *a, const redcoi_point *b);

/** Inserts where it belongs and forgets what falls off the end. */
void redcoi_ranking_add(redcoi_ranking *ranking, const redcoi_point *point);

/** Puts @p point first; another entry of the same configuration and group is removed. */
void redcoi_ranking_lead(redcoi_ranking *ranking, const redcoi_point *point);

#endif
