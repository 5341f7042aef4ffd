/** @file collectives.h  Runs the collective operators of a rank's graph: a table of calls beside that of the
 *  backend. They work on the backend's memory, behind what its stream holds: a library of the device queues them there,
 *  one that needs the processor waits for the stream first. The evaluator and the schedule call the same table; a
 *  schedule that overlaps calls it from one thread per stream, with a stream and communicators of that thread. */
#ifndef REDCO_COLLECTIVES_H
#define REDCO_COLLECTIVES_H

#include "executor/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_collectives {
    void *context; /**< handed to the calls */
    /** Depends on kind, attributes and types only. */
    uint64_t (*workspace_bytes)(void *context, const redco_launch *launch);
    /** One of REDCO_OP_ALL_REDUCE, REDCO_OP_ALL_GATHER, REDCO_OP_REDUCE_SCATTER; attributes->group says among whom.
     *  All ranks of the group make the same calls in the same order. An all-reduce may be in place. */
    redco_status (*run)(void *context, redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                        redco_error *err);
} redco_collectives;

#ifdef __cplusplus
}
#endif
#endif
