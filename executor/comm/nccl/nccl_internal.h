/** @file nccl_internal.h  Shared by the files of executor/comm/nccl. They are part of the CUDA backend: streams and
 *  contexts are taken from its structures. */
#ifndef REDCOI_NCCL_INTERNAL_H
#define REDCOI_NCCL_INTERNAL_H

#include "executor/backend/cuda/cuda_internal.h"
#include "executor/comm/nccl/nccl.h"
#include "executor/comm/transport.h"

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

/* NCCL's calls that are used: member, name in nccl.h */
#define REDCOI_NCCL_CALLS(X)                                                                                           \
    X(get_version, ncclGetVersion)                                                                                     \
    X(get_unique_id, ncclGetUniqueId)                                                                                  \
    X(init_rank, ncclCommInitRankConfig)                                                                               \
    X(split, ncclCommSplit)                                                                                            \
    X(finalize, ncclCommFinalize)                                                                                      \
    X(destroy, ncclCommDestroy)                                                                                        \
    X(abort, ncclCommAbort)                                                                                            \
    X(async_error, ncclCommGetAsyncError)                                                                              \
    X(error_string, ncclGetErrorString)                                                                                \
    X(last_error, ncclGetLastError)                                                                                    \
    X(group_start, ncclGroupStart)                                                                                     \
    X(group_end, ncclGroupEnd)                                                                                         \
    X(all_reduce, ncclAllReduce)                                                                                       \
    X(reduce_scatter, ncclReduceScatter)                                                                               \
    X(reduce, ncclReduce)                                                                                              \
    X(all_gather, ncclAllGather)                                                                                       \
    X(broadcast, ncclBroadcast)

typedef struct redcoi_nccl_library {
    void *library;
#define REDCOI_MEMBER(member, name) __typeof__(&name) member; /* NOLINT(bugprone-macro-parentheses): a declaration */
    REDCOI_NCCL_CALLS(REDCOI_MEMBER)
#undef REDCOI_MEMBER
} redcoi_nccl_library;

/** A communicator, made by open.c. */
typedef struct redcoi_nccl_comm {
    ncclComm_t comm; /**< NULL: none, or given up */
    bool given_up;
    bool begun;                    /**< NCCL may still put it there */
    uint32_t *order;               /**< NULL, or whose shards these ranks are in the order of */
    struct redcoi_nccl_comm *next; /**< the process group's next */
} redcoi_nccl_comm;

typedef struct redcoi_nccl_device_comm redcoi_nccl_device_comm;

typedef struct redcoi_nccl_process_group {
    redco_process_group base;
    redcoi_nccl_device_comm *device_comm;
    pthread_mutex_t calls; /**< held while NCCL is called for this process group: it may not be given up meanwhile */
    redcoi_nccl_comm
        *comms;    /**< that of the process group first, then those of other orders; NULL: a process group of one */
    char last[96]; /**< operation that was queued last */
    bool seized;   /**< by the thread that gives communicators up */
    struct redcoi_nccl_process_group *next;
} redcoi_nccl_process_group;

struct redcoi_nccl_device_comm {
    redco_device_comm base;
    redco_world *world;
    const redcoi_cuda *cuda;
    redco_nccl_options options; /**< zeros filled in */
    redcoi_nccl_library nccl;
    redcoi_nccl_process_group
        root; /**< all ranks: process groups are split from its communicator, nothing is queued there */
    redco_communicator *heartbeat;
    pthread_t thread;
    bool watched;         /**< the thread was started */
    atomic_bool broken;   /**< nothing may be queued any more */
    atomic_bool left;     /**< another rank closes its device communicator */
    pthread_mutex_t list; /**< guards the list of process groups, which are all but the root; taken before a process
                             group's calls */
    redcoi_nccl_process_group *process_groups;
    pthread_mutex_t lock; /**< guards failure and closing; nothing is locked under it */
    pthread_cond_t changed;
    redco_error failure; /**< the first */
    bool closing;
    redcoi_nccl_comm *abandoned; /**< used by the closing thread alone */
};

/* nccl_comm.c */

ncclConfig_t redcoi_nccl_config(const redcoi_nccl_device_comm *device_comm, redco_traffic traffic);
/** Makes a communicator and waits for it, at most for the time-out.
 *  @param begun  what NCCL returned when it was begun
 *  @param comm   where NCCL puts it; of a given-up one, NULL */
redco_status redcoi_nccl_await(const redcoi_nccl_process_group *process_group, ncclResult_t begun, ncclComm_t *comm,
                               const char *what, redco_error *err);

typedef struct redcoi_nccl_split {
    int colour, key;
    redco_traffic traffic;
    const char *name;
} redcoi_nccl_split;

/** Splits a process group's first communicator. Its calls are locked by the caller. */
redco_status redcoi_nccl_split_comm(redcoi_nccl_process_group *parent, const redcoi_nccl_split *split,
                                    redcoi_nccl_comm *comm, redco_error *err);

/* run_nccl.c */

redco_status redcoi_nccl_run(redco_process_group *base, redco_stream_handle on, const redco_process_group_call *call,
                             redco_error *err);

/* watch.c */

/** An error of what NCCL returned for a process group; REDCO_OK for success. */
redco_status redcoi_nccl_check(const redcoi_nccl_process_group *process_group, ncclResult_t result, const char *what,
                               redco_error *err);
redco_status redcoi_nccl_watch(redcoi_nccl_device_comm *device_comm, redco_error *err);
/** Tells the other ranks that this one leaves, unless something failed, and ends the thread. */
void redcoi_nccl_unwatch(redcoi_nccl_device_comm *device_comm);
/** The first failure is kept; all communicators are given up by the thread. */
void redcoi_nccl_break(redcoi_nccl_device_comm *device_comm, const redco_error *failure);
/** Tells the world's watch that an operation begins. */
void redcoi_nccl_notice(const redcoi_nccl_device_comm *device_comm, const char *what);
/** The failure, if there was one. */
redco_status redcoi_nccl_failure(redcoi_nccl_device_comm *device_comm, redco_error *err);

#endif
