/** @file device_comm.h  Collectives on the memory of a backend: how ranks exchange weights, gradients and activations.
 *
 *  A carrier joins the devices of all ranks of a world. A team is a group of those ranks, for one kind of traffic. A
 * call on a team is work of a queue: it begins when the queue has passed what was queued before, and its result is
 * there when the queue has passed it; until then its memory must live. Calls return as soon as the carrier allows:
 *
 *      host    redco_host_carrier_open(): rings over sockets or MPI on memory that the processor follows. The processor
 *              does the work, so that the call waits for the queue and returns when all is done
 *      nccl    executor/comm/nccl/nccl.h: the device does the work, the call only queues it
 *
 *  What a program has in its own memory (sums of scalars, agreement) goes over the communicators of communicator.h.
 *
 *  One thread at a time uses a team, several teams may be in use at once, each with a queue of its own. All members
 *  make the same calls in the same order. Failures (REDCO_ESYSTEM) name the operation; those of queued work come back
 *  from a later call, or from redco_carrier_check(). After one, the carrier is of no more use. */
#ifndef REDCO_DEVICE_COMM_H
#define REDCO_DEVICE_COMM_H

#include "executor/backend/backend.h"
#include "executor/comm/communicator.h"
#include "topology/base/collective_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_carrier redco_carrier;
typedef struct redco_team redco_team;

/** The owner of a call: a handle of the calling thread, and the queue. */
typedef struct redco_lane {
    redco_backend *backend;
    redco_queue *queue;
} redco_lane;

/** The purposes of teams: calls of one kind follow each other, kinds may overlap (costmodel/simulator/step.h, streams).
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

typedef struct redco_team_options {
    const uint32_t
        *colours; /**< one for every rank of the world, borrowed for the call; see redco_communicator_split() */
    redco_traffic traffic;
    const char *name; /**< for error messages; copied */
} redco_team_options;

/** The team of this rank's colour. Every rank of the world calls it with the same options, in the same order. */
redco_status redco_team_split(redco_carrier *carrier, const redco_team_options *options, redco_team **team_out,
                              redco_error *err);
void redco_team_free(redco_team *team); /**< NULL is accepted. Queues have passed all of its calls */
uint32_t redco_team_rank(const redco_team *team);
uint32_t redco_team_size(const redco_team *team);

/* The collectives of communicator.h, where parameters of the same names are explained. Types that can be summed: F64,
 * F32, BF16, F16, I32. Gathers and broadcasts take any. Teams of one copy what is to be copied. */

redco_status redco_team_all_reduce(redco_team *team, redco_lane lane, redco_dtype dtype, redco_reduction reduction,
                                   void *data, uint64_t count, const char *what, redco_error *err);
redco_status redco_team_reduce_scatter(redco_team *team, redco_lane lane, redco_dtype dtype, redco_reduction reduction,
                                       const void *in, void *out, uint64_t count, const char *what, redco_error *err);
redco_status redco_team_reduce_scatter_parts(redco_team *team, redco_lane lane, redco_dtype dtype,
                                             redco_reduction reduction, void *data, const uint64_t *begin,
                                             const char *what, redco_error *err);
redco_status redco_team_reduce_scatter_ordered(redco_team *team, redco_lane lane, redco_dtype dtype,
                                               redco_reduction reduction, void *data, const uint32_t *order,
                                               uint64_t count, const char *what, redco_error *err);
redco_status redco_team_all_gather(redco_team *team, redco_lane lane, redco_dtype dtype, const void *in, void *out,
                                   uint64_t count, const char *what, redco_error *err);
redco_status redco_team_all_gather_ordered(redco_team *team, redco_lane lane, redco_dtype dtype, void *data,
                                           const uint32_t *order, uint64_t count, const char *what, redco_error *err);
/** A range of elements that one member sends to all others. */
typedef struct redco_team_part {
    uint64_t begin, count;
    uint32_t root;
} redco_team_part;
/** All parts of @p data at once, which do not overlap. @param parts  ascending, borrowed for the call */
redco_status redco_team_broadcast(redco_team *team, redco_lane lane, redco_dtype dtype, void *data,
                                  const redco_team_part *parts, uint32_t part_count, const char *what,
                                  redco_error *err);

/** The first failure of work that was queued. To be asked after waiting for a queue: a collective that was given up
 * lets its queue go on, with results that mean nothing. From any thread. */
redco_status redco_carrier_check(redco_carrier *carrier, redco_error *err);
/** Teams must be freed before, and the world closed after. NULL is accepted. */
void redco_carrier_close(redco_carrier *carrier);

/** @param world  must outlive the carrier */
redco_status redco_host_carrier_open(redco_world *world, redco_carrier **carrier_out, redco_error *err);

/* For makers of carriers */

/** A call with checked parameters. Teams of one and calls without any element never get so far. */
typedef struct redco_team_call {
    redco_collective kind; /**< all-reduce, reduce-scatter, all-gather or broadcast */
    redco_dtype dtype;
    redco_reduction reduction;
    const void *in;               /**< the input; the same as out where the call is in place */
    void *out;                    /**< the output */
    uint64_t count;               /**< elements of all-reduces, and of a rank's shard; else 0 */
    const uint64_t *begin;        /**< a reduce-scatter to parts: size + 1 entries; else NULL */
    const uint32_t *order;        /**< shards in another order than the ranks: size entries; else NULL */
    const redco_team_part *parts; /**< the parts of a broadcast */
    uint32_t part_count;
    const char *what; /**< the simulator's name of the operation: "bwd/gradients/bucket.0" */
} redco_team_call;

/** Members of this rank's team as world ranks, ascending; own is this rank's position. */
typedef struct redco_team_members {
    const uint32_t *ranks;
    uint32_t size, own;
} redco_team_members;

typedef struct redco_carrier_calls {
    const char *name; /**< "host", "nccl" */
    bool estimates;   /**< it is NCCL, which says how long a call will take */
    /** Collective. @param team_out  its first member is a redco_team, which is filled in afterwards */
    redco_status (*split)(redco_carrier *carrier, const redco_team_options *options, const redco_team_members *members,
                          redco_team **team_out, redco_error *err);
    redco_status (*run)(redco_team *team, redco_lane lane, const redco_team_call *call, redco_error *err);
    void (*free_team)(redco_team *team);
    redco_status (*check)(redco_carrier *carrier, redco_error *err); /**< NULL: nothing is left behind by calls */
    void (*close)(redco_carrier *carrier);
} redco_carrier_calls;

/** The first member of every carrier's own structure. */
struct redco_carrier {
    const redco_carrier_calls *calls;
    uint32_t rank, size; /**< in the world */
};

/** The first member of every team's own structure. */
struct redco_team {
    redco_carrier *carrier;
    uint32_t rank, size;
    redco_traffic traffic;
    char name[64];
};

/** Elements that a call reads or writes in its larger buffer: what nccl-tests print as size, and the simulator prices.
 */
uint64_t redco_team_call_elements(const redco_team *team, const redco_team_call *call);

#ifdef __cplusplus
}
#endif
#endif
