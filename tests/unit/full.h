/** @file full.h  The amount of a long test that is done: REDCO_TEST=full (the tests NAME.full of CTest, label deep) all
 * of it, anything else what the quick tier has time for. */
#ifndef REDCO_TEST_FULL_H
#define REDCO_TEST_FULL_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline bool test_full(void)
{
    const char *const wanted = getenv("REDCO_TEST");
    return wanted != NULL && strcmp(wanted, "full") == 0;
}

#endif
