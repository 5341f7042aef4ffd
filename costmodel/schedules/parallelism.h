/** @file parallelism.h  The split of one step, which a search chooses, a plan file holds and the cost model prices.
 * Each member is a row of the table of dimensions (dimensions.h). */
#ifndef REDCO_PARALLELISM_H
#define REDCO_PARALLELISM_H

#include "costmodel/schedules/pipeline.h"
#include "topology/base/sharding.h"
#include "topology/ranks/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

/** "inter-tensor", "intra-tensor"; NULL-terminated, indexed by redco_scheme. */
extern const char *const redco_scheme_words[];
/** "ag_rs", "ar", "bc", "tp"; NULL-terminated, by bit number of redco_overlap. */
extern const char *const redco_overlap_words[];

/** A way to split one step: degrees, schedule, micro-batches, the grid of states and the order of updates. */
typedef struct redco_parallelism {
    uint32_t tp, pp, cp;
    uint32_t ep;  /**< ranks over which a layer's experts are shared out; 0 and 1: each has all */
    uint32_t etp; /**< tensor parallelism of experts, tp or 1; 0: tp */
    redco_cp_type cp_type;
    uint32_t chunks;              /**< model chunks of a pipeline stage (interleaved 1F1B); 0 and 1, or pp = 1: one */
    redco_pipeline_kind schedule; /**< a pipeline's; 1F1B of several chunks is interleaved */
    uint32_t group; /**< micro-batches that a chunk takes one after the other (interleaved); 0: as few as can be */
    const uint32_t *split;  /**< blocks at each position of the pipeline (stages.h), borrowed; NULL: equal shares */
    bool sequence_parallel; /**< norms and dropout are split over the tensor-parallel ranks, too */
    uint32_t micro_batch;   /**< sequences */
    uint64_t micro_batches; /**< per step and rank */
    redco_mesh dp;          /**< s0_dp = gpus per node / tp, s1_dp = nodes (pp = cp = 1) */
    redco_scheme scheme;
    redco_mesh secondary; /**< ZeRO++ hpZ: backward gathers use this mesh; 0x0 = none */
    redco_shards experts; /**< meshes of routed experts among an expert's replicas (edp); 0x0: as the layer's others */
} redco_parallelism;

/** @return whether experts have meshes of their own. */
bool redco_parallelism_own_experts(const redco_parallelism *parallelism);
/** Expert parallelism, at least 1. */
uint32_t redco_parallelism_ep(const redco_parallelism *parallelism);
/** Tensor parallelism of experts, at least 1. */
uint32_t redco_parallelism_etp(const redco_parallelism *parallelism);
/** Model chunks of a pipeline stage, at least 1. */
uint32_t redco_parallelism_chunks(const redco_parallelism *parallelism);
/** The schedule of its pipeline, with chunks and group. */
redco_pipeline redco_parallelism_pipeline(const redco_parallelism *parallelism);
#ifdef __cplusplus
}
#endif
#endif
