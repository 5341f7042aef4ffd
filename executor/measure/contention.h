/** @file contention.h  The slow-down that a collective causes to computation on the same rank: both at once, in two
 * threads, against each alone. Every rank calls.
 *
 *  A share a of products and a share b of collectives get done, of what each would do alone in the same time. With the
 *  simulator's speeds (costmodel/simulator/simulate.h), a = 1 / (1 + y K) and b = y / (1 + y K), so that
 *
 *      y = b / a,   K = (1 - a) / b :  the computation that a second of collectives costs. */
#ifndef REDCO_MEASURE_CONTENTION_H
#define REDCO_MEASURE_CONTENTION_H

#include "executor/backend/backend.h"
#include "executor/comm/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_measure_contention {
    double contention_ratio; /**< K, held to 0 to 1: the middle one of several tries */
    double overlap_ratio;    /**< y, of the same try; more than 1: a collective loses less than computation does */
} redco_measure_contention;

/** All-reduces of @p bytes beside products of 512 x 512 matrices in single precision, for about @p seconds.
 *  @param backend  whose streams take work from the calling thread */
redco_status redco_measure_contend(redco_world *world, redco_backend *backend, uint64_t bytes, double seconds,
                                   redco_measure_contention *contention_out, redco_error *err);

/** The device memory that a collective reads and writes. */
typedef struct redco_measure_traffic {
    uint64_t size_bytes; /**< size of that memory */
    double bytes_per_s;
} redco_measure_traffic;

/** The same on one device with streams and without peers: work that moves as much memory as a collective would
 *  (redco_backend_calls.occupy) beside products of bf16 matrices of @p side, for about @p seconds. */
redco_status redco_measure_contend_device(redco_backend *backend, const redco_measure_traffic *traffic, uint64_t side,
                                          double seconds, redco_measure_contention *contention_out, redco_error *err);

/** Internal to executor/measure: the middle one by contention; @p tries are sorted. */
redco_measure_contention redcoi_middle_contention(redco_measure_contention *tries, uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
