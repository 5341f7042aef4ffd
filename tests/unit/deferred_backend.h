/** @file deferred_backend.h  A table of calls around the host's whose streams are threads that begin everything a
 * little later, for tests of who waits for whom. What a caller forgot to wait for is then not there yet: memory is full
 * of not-a-number when it is given and when it is taken back, times of events that are not passed are errors, and
 * memory and launches are only looked at when their turn has come. Results are bit by bit the host's. */
#ifndef REDCO_TESTS_DEFERRED_BACKEND_H
#define REDCO_TESTS_DEFERRED_BACKEND_H

#include "executor/backend/backend.h"

typedef struct deferred_options {
    uint64_t seed;            /**< seed of the delays */
    uint64_t vector_elements; /**< 0 = the host's */
    bool quick;               /**< no delays: only another thread */
} deferred_options;

/** @param options  copied */
redco_status deferred_open(const deferred_options *options, redco_backend **backend_out, redco_error *err);

#endif
