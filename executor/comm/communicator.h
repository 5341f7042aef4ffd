/** @file communicator.h  Collectives among processes: rings over point-to-point messages, the algorithm that the cost
 *  model prices, so that what is measured is what was predicted.
 *
 *  A world is all ranks of a run; a communicator is an ordered group of them. Calls block; a stream that overlaps with
 *  computation is a thread of its own with a communicator of its own. One thread at a time may use a communicator,
 *  several communicators may be in use at once. All members make the same calls in the same order.
 *
 *  A rank of size n sends to the next and hears from the one before, in rank order:
 *      reduce-scatter and all-gather  n - 1 steps of a shard
 *      all-reduce                     both, in place
 *      broadcast                      a chain from the root, in slices, each passed on while the next arrives
 *
 *  Failures (REDCO_ESYSTEM) name the operation, the peer and what it did: closed the connection, or was not heard of
 * for the time-out. After one, the communicator is of no more use; a rank that then leaves makes its neighbours fail
 * too, so that a run ends everywhere.
 */
#ifndef REDCO_COMMUNICATOR_H
#define REDCO_COMMUNICATOR_H

#include "costmodel/graph/type.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_world redco_world;
typedef struct redco_communicator redco_communicator;

typedef enum redco_transport {
    REDCO_TRANSPORT_SELF,   /**< one process alone */
    REDCO_TRANSPORT_SOCKET, /**< TCP, waiting without using the processor */
    REDCO_TRANSPORT_MPI     /**< ranks and size are MPI's */
} redco_transport;

/** Sockets and a secret for ranks that one process starts on its machine, made before it forks them. */
typedef struct redco_local_ranks redco_local_ranks;

typedef struct redco_world_options {
    redco_transport transport;
    uint32_t rank, size; /**< sockets only */
    /** Sockets: "host:port" where rank 0 listens and the others find it. */
    const char *address;
    double timeout_s; /**< for a silent peer; 0 = 60 */
    /** Sockets: bytes that only the ranks of this run know, at least REDCO_SECRET_MIN: who does not is no rank. What
     * ranks send each other is not encrypted: see executor/THREATS.md. */
    const unsigned char *secret;
    size_t secret_bytes;
    /** Sockets: this rank's address, or name of one, where the others find it; NULL: that from which it reaches rank 0,
     *  and of rank 0 that of @p address. */
    const char *listen;
    redco_local_ranks *local; /**< ranks of one machine: in place of address, secret and listen; used up */
    /** Sockets: this rank cannot start, and why. The call tells the others, for a moment at most, and fails with it; on
     *  those that were waiting it fails with the same, whose place then begins "rank N on HOST". NULL: it can. */
    const redco_error *failure;
} redco_world_options;

enum { REDCO_WORLD_MAX = 65536, REDCO_SECRET_MIN = 16, REDCO_SECRET_MAX = 4096 };

/** @param local_out  to be freed by the process that made it when it has started all, and by each rank that did not use
 *                    it up */
redco_status redco_local_ranks_make(uint32_t size, redco_local_ranks **local_out, redco_error *err);
void redco_local_ranks_free(redco_local_ranks *local); /**< NULL is accepted */

/** Every rank calls it. @return REDCO_EVALUE on options that make no sense or disagree between ranks */
redco_status redco_world_open(const redco_world_options *options, redco_world **world_out, redco_error *err);
/** Something that must be the same on all ranks: an option, a digest of a file. */
typedef struct redco_fact {
    char name[64], value[128];
} redco_fact;
enum { REDCO_FACTS_MAX = 48 };

/** Every rank calls it, first of all. Facts are compared by name and order with rank 0's.
 *  @param failure      why this rank cannot start; NULL: it can
 *  @param culprit_out  on failure: the rank whose error it is; 0 where all have the same
 *  @return the same on all ranks, with a place that begins "rank N on HOST" unless all have the same error:
 *          REDCO_EVALUE where something is another than on rank 0, or the status of a rank that cannot start */
redco_status redco_world_agree(redco_world *world, const redco_fact *facts, uint32_t count, const redco_error *failure,
                               uint32_t *culprit_out, redco_error *err);
/** "rank N on HOST: PLACE" of this machine. */
void redco_rank_place(uint32_t rank, const char *place, char *text, size_t size);
/** Communicators must be freed before. NULL is accepted. */
void redco_world_close(redco_world *world);
/** Ends what threads of this rank are doing in collectives, and all that come: they fail. From any thread. */
void redco_world_abort(redco_world *world);
/** From now on every operation is told of as it begins, in the thread that begins it: where a rank was when it ended.
 *  @param watch  must outlive the communicators; NULL: no longer */
void redco_world_watch(redco_world *world, void (*watch)(void *context, const char *what), void *context);

/** The parting of ranks of which at least one has failed. */
typedef struct redco_farewell {
    bool broken;      /**< this rank met a failure of the communication: perhaps another's, which ended */
    bool speaks;      /**< this rank is to say what happened, the others are not */
    bool closes;      /**< the world can be closed; else it must be given up */
    uint32_t missing; /**< first rank that said nothing, or REDCO_WORLD_MAX */
} redco_farewell;

/** A failed rank's last call but one: under MPI, ranks that fail tell each other so, for at most a second, and agree on
 *  who speaks: the first whose failure is its own. Over sockets, each speaks for itself. */
void redco_world_part(redco_world *world, redco_farewell *farewell_out);
/** Leaves without waiting for anybody: under MPI the call ends this process and all others with @p code. */
void redco_world_give_up(redco_world *world, int code);
uint32_t redco_world_rank(const redco_world *world);
uint32_t redco_world_size(const redco_world *world);

/** Groups of equal colour, ordered by world rank; this rank's own is returned. Every rank of the world calls it with
 * the same colours, in the same order of calls.
 *  @param colours  of every rank of the world, borrowed for the call
 *  @param name     of the group, for error messages; copied */
redco_status redco_communicator_split(redco_world *world, const uint32_t *colours, const char *name,
                                      redco_communicator **communicator_out, redco_error *err);
void redco_communicator_free(redco_communicator *communicator);           /**< NULL is accepted */
uint32_t redco_communicator_rank(const redco_communicator *communicator); /**< position in the group */
uint32_t redco_communicator_size(const redco_communicator *communicator);
/** Memory that a communicator holds beside its callers' buffers. */
size_t redco_communicator_scratch_bytes(void);

typedef enum redco_reduction { REDCO_REDUCE_SUM, REDCO_REDUCE_MAX } redco_reduction;

/** Element counts are of one rank's shard. @p what names the operation in errors. Types: F64, F32, BF16 and F16 (summed
 * in 32 bits, rounded at every step, as devices do), I32; gathers and broadcasts take any. */
redco_status redco_all_reduce(redco_communicator *communicator, redco_dtype dtype, redco_reduction reduction,
                              void *data, uint64_t count, const char *what, redco_error *err);
/** @param in   size × count elements; shard i is the sum's part of rank i
 *  @param out  count elements; outside of @p in, or this rank's shard of it */
redco_status redco_reduce_scatter(redco_communicator *communicator, redco_dtype dtype, redco_reduction reduction,
                                  const void *in, void *out, uint64_t count, const char *what, redco_error *err);
/** Shards of any size, in place: where rank r's begins is begin[r], and all end at begin[size].
 *  @param data  afterwards the sum in this rank's shard; elsewhere of no meaning */
redco_status redco_reduce_scatter_parts(redco_communicator *communicator, redco_dtype dtype, redco_reduction reduction,
                                        void *data, const uint64_t *begin, const char *what, redco_error *err);
/** @param in   count elements; outside of @p out, or this rank's shard of it
 *  @param out  size × count elements */
redco_status redco_all_gather(redco_communicator *communicator, redco_dtype dtype, const void *in, void *out,
                              uint64_t count, const char *what, redco_error *err);
/** Reduce-scatter and all-gather where shards do not lie in rank order: in place, rank r's is number order[r] of the
 * equal shards of
 *  @p data. The ring stays that of the ranks, whatever nodes they are on. NULL is rank order. */
redco_status redco_reduce_scatter_ordered(redco_communicator *communicator, redco_dtype dtype,
                                          redco_reduction reduction, void *data, const uint32_t *order, uint64_t count,
                                          const char *what, redco_error *err);
redco_status redco_all_gather_ordered(redco_communicator *communicator, redco_dtype dtype, void *data,
                                      const uint32_t *order, uint64_t count, const char *what, redco_error *err);
redco_status redco_broadcast(redco_communicator *communicator, redco_dtype dtype, void *data, uint64_t count,
                             uint32_t root, const char *what, redco_error *err);
redco_status redco_barrier(redco_communicator *communicator, const char *what, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
