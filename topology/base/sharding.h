/** @file sharding.h  The words every module shares to describe a strategy: meshes, precision, overlap; recompute.h:
 * recomputation. Plain values. The mesh model is AMSP's (arXiv 2311.00257, section IV): parameters, gradients and
 * optimizer states each have a sub-mesh of the data-parallel mesh. */
#ifndef REDCO_BASE_SHARDING_H
#define REDCO_BASE_SHARDING_H

#include "topology/base/recomputation.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A device mesh: @p gpus ranks in each of @p nodes nodes (a node is one NVLink domain). 1x1 = replicated. */
typedef struct redco_mesh {
    uint32_t gpus;
    uint32_t nodes;
} redco_mesh;

/** Sub-meshes of parameters, gradients and optimizer states: p <= g <= os componentwise. */
typedef struct redco_shards {
    redco_mesh parameters;
    redco_mesh gradients;
    redco_mesh optimizer;
} redco_shards;

static inline uint64_t redco_mesh_ranks(redco_mesh mesh)
{
    return (uint64_t)mesh.gpus * mesh.nodes;
}
static inline bool redco_mesh_equal(redco_mesh a, redco_mesh b)
{
    return a.gpus == b.gpus && a.nodes == b.nodes;
}
static inline bool redco_shards_equal(redco_shards a, redco_shards b)
{
    return redco_mesh_equal(a.parameters, b.parameters) && redco_mesh_equal(a.gradients, b.gradients) &&
           redco_mesh_equal(a.optimizer, b.optimizer);
}

typedef enum redco_precision { REDCO_BF16, REDCO_FP16, REDCO_FP32 } redco_precision;

/** Ways in which updated parameters reach the ranks that share an optimizer shard. */
typedef enum redco_scheme {
    REDCO_INTER_TENSOR, /**< whole tensors assigned to owners: one broadcast per owner (AMSP) */
    REDCO_INTRA_TENSOR  /**< every tensor cut evenly: one all-gather (ZeRO, FSDP) */
} redco_scheme;

/** Which traffic the engine hides behind compute (reference: AMSP section V-C). */
typedef enum redco_overlap {
    REDCO_OVERLAP_NONE = 0,
    REDCO_OVERLAP_AG_RS = 1, /**< gathers and reduce-scatters of sharded parameters */
    REDCO_OVERLAP_AR = 2,    /**< gradient reduction behind the last micro-batch's backward */
    REDCO_OVERLAP_BC = 4,    /**< synchronising updated parameters behind the next forward */
    REDCO_OVERLAP_TP = 8,    /**< tensor-parallel traffic is cut up and overlapped with the products beside it */
    REDCO_OVERLAP_ALL = 7    /**< all traffic of the states; not tensor-parallel traffic, which few engines overlap */
} redco_overlap;

#ifdef __cplusplus
}
#endif
#endif
