/** @file device_comm.h  Collectives on the memory of a backend: how ranks exchange weights, gradients and activations.
 *
 *  A device communicator joins the devices of all ranks of a world. A process group is a group of those ranks, for one
 * kind of traffic. A call on a process group is work of a stream: it begins when the stream has passed what was queued
 * before, and its result is there when the stream has passed it; until then its memory must live. Calls return as soon
 * as the device communicator allows:
 *
 *      host    redco_host_device_comm_open(): rings over sockets or MPI on memory that the processor follows. The
 * processor does the work, so that the call waits for the stream and returns when all is done nccl
 * executor/comm/nccl/nccl.h: the device does the work, the call only queues it
 *
 *  What a program has in its own memory (sums of scalars, agreement) goes over the communicators of communicator.h.
 *
 *  One thread at a time uses a process group, several process groups may be in use at once, each with a stream of its
 * own. All members make the same calls in the same order. Failures (REDCO_ESYSTEM) name the operation; those of queued
 * work come back from a later call, or from redco_device_comm_check(). After one, the device communicator is of no more
 * use. */
#ifndef REDCO_DEVICE_COMM_H
#define REDCO_DEVICE_COMM_H

#include "executor/backend/backend.h"
#include "executor/comm/communicator.h"
#include "topology/base/collective_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_device_comm redco_device_comm;
typedef struct redco_process_group redco_process_group;

/** The owner of a call: a handle of the calling thread, and the stream. */
typedef struct redco_stream_handle {
    redco_backend *backend;
    redco_device_stream *stream;
} redco_stream_handle;

/** The purposes of process groups: calls of one kind follow each other, kinds may overlap (costmodel/simulator/step.h,
 * streams).
 */
typedef enum redco_traffic {
    REDCO_TRAFFIC_TENSOR,     /**< tensor parallelism, between operators */
    REDCO_TRAFFIC_PARAMETERS, /**< weights gathered, their gradients scattered */
    REDCO_TRAFFIC_SECONDARY,  /**< weights gathered from the second copy */
    REDCO_TRAFFIC_GRADIENTS,  /**< buckets */
    REDCO_TRAFFIC_UPDATE,     /**< updated weights */
    REDCO_TRAFFIC_OTHER,
    REDCO_TRAFFIC_COUNT
} redco_traffic;

typedef struct redco_process_group_options {
    const uint32_t
        *colours; /**< one for every rank of the world, borrowed for the call; see redco_communicator_split() */
    redco_traffic traffic;
    const char *name; /**< for error messages; copied */
} redco_process_group_options;

/** The process group of this rank's colour. Every rank of the world calls it with the same options, in the same order.
 */
redco_status redco_process_group_split(redco_device_comm *device_comm, const redco_process_group_options *options,
                                       redco_process_group **group_out, redco_error *err);
void redco_process_group_free(
    redco_process_group *process_group); /**< NULL is accepted. Queues have passed all of its calls */
uint32_t redco_process_group_size(const redco_process_group *process_group);

/* The collectives of communicator.h, where parameters of the same names are explained. Types that can be summed: F64,
 * F32, BF16, F16, I32. Gathers and broadcasts take any. Process groups of one copy what is to be copied. */

redco_status redco_process_group_all_reduce(redco_process_group *process_group, redco_stream_handle on,
                                            redco_dtype dtype, redco_reduction reduction, void *data, uint64_t count,
                                            const char *what, redco_error *err);
redco_status redco_process_group_reduce_scatter(redco_process_group *process_group, redco_stream_handle on,
                                                redco_dtype dtype, redco_reduction reduction, const void *in, void *out,
                                                uint64_t count, const char *what, redco_error *err);
redco_status redco_process_group_reduce_scatter_parts(redco_process_group *process_group, redco_stream_handle on,
                                                      redco_dtype dtype, redco_reduction reduction, void *data,
                                                      const uint64_t *begin, const char *what, redco_error *err);
redco_status redco_process_group_reduce_scatter_ordered(redco_process_group *process_group, redco_stream_handle on,
                                                        redco_dtype dtype, redco_reduction reduction, void *data,
                                                        const uint32_t *order, uint64_t count, const char *what,
                                                        redco_error *err);
redco_status redco_process_group_all_gather(redco_process_group *process_group, redco_stream_handle on,
                                            redco_dtype dtype, const void *in, void *out, uint64_t count,
                                            const char *what, redco_error *err);
redco_status redco_process_group_all_gather_ordered(redco_process_group *process_group, redco_stream_handle on,
                                                    redco_dtype dtype, void *data, const uint32_t *order,
                                                    uint64_t count, const char *what, redco_error *err);
/** A range of elements that one member sends to all others. */
typedef struct redco_process_group_part {
    uint64_t begin, count;
    uint32_t root;
} redco_process_group_part;
/** All parts of @p data at once, which do not overlap. @param parts  ascending, borrowed for the call */
redco_status redco_process_group_broadcast(redco_process_group *process_group, redco_stream_handle on,
                                           redco_dtype dtype, void *data, const redco_process_group_part *parts,
                                           uint32_t part_count, const char *what, redco_error *err);

/** The first failure of work that was queued. To be asked after waiting for a stream: a collective that was given up
 * lets its stream go on, with results that mean nothing. From any thread. */
redco_status redco_device_comm_check(redco_device_comm *device_comm, redco_error *err);
/** Process groups must be freed before, and the world closed after. NULL is accepted. */
void redco_device_comm_close(redco_device_comm *device_comm);

/** @param world  must outlive the device communicator */
redco_status redco_host_device_comm_open(redco_world *world, redco_device_comm **device_comm_out, redco_error *err);

/* For makers of device communicators */

/** A call with checked parameters. Process groups of one and calls without any element never get so far. */
typedef struct redco_process_group_call {
    redco_collective kind; /**< all-reduce, reduce-scatter, all-gather or broadcast */
    redco_dtype dtype;
    redco_reduction reduction;
    const void *in;                        /**< the input; the same as out where the call is in place */
    void *out;                             /**< the output */
    uint64_t count;                        /**< elements of all-reduces, and of a rank's shard; else 0 */
    const uint64_t *begin;                 /**< a reduce-scatter to parts: size + 1 entries; else NULL */
    const uint32_t *order;                 /**< shards in another order than the ranks: size entries; else NULL */
    const redco_process_group_part *parts; /**< the parts of a broadcast */
    uint32_t part_count;
    const char *what; /**< the simulator's name of the operation: "bwd/gradients/bucket.0" */
} redco_process_group_call;

/** Members of this rank's process group as world ranks, ascending; own is this rank's position. */
typedef struct redco_process_group_members {
    const uint32_t *ranks;
    uint32_t size, own;
} redco_process_group_members;

typedef struct redco_device_comm_calls {
    const char *name; /**< "host", "nccl" */
    /** Collective. @param group_out  its first member is a redco_process_group, which is filled in afterwards */
    redco_status (*split)(redco_device_comm *device_comm, const redco_process_group_options *options,
                          const redco_process_group_members *members, redco_process_group **group_out,
                          redco_error *err);
    redco_status (*run)(redco_process_group *process_group, redco_stream_handle on,
                        const redco_process_group_call *call, redco_error *err);
    void (*free_process_group)(redco_process_group *process_group);
    redco_status (*check)(redco_device_comm *device_comm,
                          redco_error *err); /**< NULL: nothing is left behind by calls */
    void (*close)(redco_device_comm *device_comm);
} redco_device_comm_calls;

/** The first member of every device communicator's own structure. */
struct redco_device_comm {
    const redco_device_comm_calls *calls;
    uint32_t rank, size; /**< in the world */
};

/** The first member of every process group's own structure. */
struct redco_process_group {
    redco_device_comm *device_comm;
    uint32_t rank, size;
    redco_traffic traffic;
    char name[64];
};

/** Elements that a call reads or writes in its larger buffer: what nccl-tests print as size, and the simulator prices.
 */
uint64_t redco_process_group_call_elements(const redco_process_group *process_group,
                                           const redco_process_group_call *call);

#ifdef __cplusplus
}
#endif
#endif
