/** @file nccl_buffers.h  Internal to costmodel: device memory that NCCL allocates for the communicators of a plan.
 *  Sizes, counts and conditions are NCCL 2.30.7's; COLLECTIVES.md has the formulas and what they were compared with.
 *  Pure functions, no allocation. */
#ifndef REDCOI_NCCL_BUFFERS_H
#define REDCOI_NCCL_BUFFERS_H

#include "costmodel/closed_form/closed_form_internal.h"

/** The connections of a communicator. NCCL connects an algorithm when it first uses it (since 2.22). */
enum {
    REDCOI_NCCL_RING = 1 << 0,
    REDCOI_NCCL_TREE = 1 << 1,
    REDCOI_NCCL_NVLS = 1 << 2,
    REDCOI_NCCL_NVLS_TREE = 1 << 3, /**< with REDCOI_NCCL_NVLS */
    REDCOI_NCCL_SEND_RECV = 1 << 4  /**< both ways with two neighbours of a chain of stages, one of two ranks */
};

/** Communicators of one plan that have at most so many purposes. */
enum { REDCOI_NCCL_COMMUNICATORS_MAX = 8 };

typedef struct redcoi_nccl_communicator {
    redco_group group;
    uint32_t calls;         /**< bits 1 << redco_collective: with buffers of a layer or a bucket */
    bool norm;              /**< also an all-reduce of one number */
    uint32_t most_channels; /**< NCCL's maxCTAs */
} redcoi_nccl_communicator;

/** Communicators of more than one rank that do not depend on how states are sharded: tensor, context and pipeline
 *  parallelism. @return how many, at most REDCOI_NCCL_COMMUNICATORS_MAX */
uint32_t redcoi_nccl_outer(const redco_costs *costs, const redco_parallelism *parallelism,
                           redcoi_nccl_communicator out[REDCOI_NCCL_COMMUNICATORS_MAX]);
/** Those of the data-parallel ranks for one layer's shards: gathers of parameters, reductions of gradients, updated
 *  parameters. Frameworks use one communicator for all that the same ranks do; redco-exec one for each purpose. */
uint32_t redcoi_nccl_sharded(const redcoi_job *job, redcoi_nccl_communicator out[REDCOI_NCCL_COMMUNICATORS_MAX]);

/** Buffers that a communicator connects. */
typedef struct redcoi_nccl_connections {
    uint32_t channels;             /**< channels of rings and trees, or of sends */
    uint32_t nvls_channels, heads; /**< channels and heads of NVLink SHARP; 0 without it */
    uint32_t uses;                 /**< bits REDCOI_NCCL_...: the algorithms that NCCL chooses for its calls */
} redcoi_nccl_connections;

redcoi_nccl_connections redcoi_nccl_connect(const redco_machine *machine, const redcoi_nccl_communicator *communicator);
/** Bytes of the fullest rank. @param mesh  GPUs per node x nodes */
uint64_t redcoi_nccl_connected_bytes(redco_mesh mesh, const redcoi_nccl_connections *connections);

/** Bytes of redcoi_nccl_outer(), with those that the dispatcher of a mixture holds beside NCCL, and of
 *  redcoi_nccl_sharded(); 0 where there is no GPU. */
uint64_t redcoi_nccl_outer_bytes(redco_costs *costs, const redco_parallelism *parallelism);
uint64_t redcoi_nccl_sharded_bytes(const redcoi_job *job);

#endif
