/** @file measure_collectives.h  Seconds of collectives over sizes and groups of a world's ranks: every rank calls. */
#ifndef REDCO_MEASURE_COLLECTIVES_H
#define REDCO_MEASURE_COLLECTIVES_H

#include "executor/comm/device_comm.h"
#include "topology/base/collective_op.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REDCO_MEASURE_COLLECTIVES = REDCO_BROADCAST + 1, /**< the first of redco_collective, up to broadcast */
    REDCO_MEASURE_SIZES_MAX = 16,
    REDCO_MEASURE_LEAST_BYTES = 1 << 10,
    REDCO_MEASURE_MOST_BYTES = 64 << 20,
    REDCO_MEASURE_DEVICE_BYTES = 1 << 30
};

/** One collective on one kind of group; all groups of the world run at the same time, as they do in a step. */
typedef struct redco_measure_curve {
    redco_collective op;
    uint32_t gpus, nodes;     /**< ranks in each node, nodes of a group */
    uint32_t stride;          /**< rank distance inside a node */
    uint32_t groups_per_node; /**< that run at once */
    uint32_t size_count;
    uint64_t size_bytes[REDCO_MEASURE_SIZES_MAX]; /**< the whole buffer, as nccl-tests counts it; ascending */
    double time_s[REDCO_MEASURE_SIZES_MAX];       /**< the slowest rank's, the least of all rounds */
} redco_measure_curve;

typedef struct redco_measure_collectives redco_measure_collectives;

typedef struct redco_measure_groups {
    uint32_t nodes;      /**< nodes that the world's ranks are on, contiguous and in equal numbers */
    uint64_t most_bytes; /**< sizes from REDCO_MEASURE_LEAST_BYTES up to this, by powers of two, or of four if those are
                              too many */
    redco_device_comm *device_comm; /**< moves values in the backend's memory; NULL: communicators, on the program's.
                                 Borrowed, like the backend, until redco_measure_collectives_free() */
    redco_backend *backend;         /**< with a device communicator */
} redco_measure_groups;

/** Makes communicators (process groups, with a device communicator) and buffers for all (ranks in a node, nodes) that
 * divide the world, of neighbours and of ranks as far apart as a node allows. With a device communicator a sample's
 * calls are queued back to back and timed by events on the device's clock.
 *  @return REDCO_EVALUE if the nodes do not divide the world, or most_bytes is not between the two above */
redco_status redco_measure_collectives_create(redco_world *world, const redco_measure_groups *groups,
                                              redco_measure_collectives **collectives_out, redco_error *err);
void redco_measure_collectives_free(redco_measure_collectives *collectives); /**< NULL is accepted */

/** Measures all once more. All ranks end with the same times. */
redco_status redco_measure_collectives_run(redco_measure_collectives *collectives, redco_error *err);
size_t redco_measure_collectives_curves(const redco_measure_collectives *collectives,
                                        const redco_measure_curve **curves_out);

#ifdef __cplusplus
}
#endif
#endif
