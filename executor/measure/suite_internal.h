/** @file suite_internal.h  Lists of cases while they grow. Internal to executor/measure. */
#ifndef REDCO_MEASURE_SUITE_INTERNAL_H
#define REDCO_MEASURE_SUITE_INTERNAL_H

#include "executor/measure/suite.h"

typedef struct redcoi_cases {
    redco_measure_case *items;
    size_t count, capacity;
    bool failed; /* out of memory */
} redcoi_cases;

/** Its times become infinite: not measured. */
void redcoi_cases_add(redcoi_cases *list, redco_measure_case one);
/** @return the number; 0 when out of memory */
size_t redcoi_cases_hand_over(redcoi_cases *list, redco_measure_case **cases_out);

#endif
