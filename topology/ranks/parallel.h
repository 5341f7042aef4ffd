/** @file parallel.h  Where a rank stands: the one geometry of tensor, context, data, pipeline and expert parallelism.
 *
 *  Three views of the same ranks, each a mixed-radix number, fastest digit first:
 *
 *      dense grid    tp, cp, dp, pp             redco_rank_grid
 *      expert grid   etp, ep, edp, pp           redco_rank_grid
 *      mesh          inner, GPUs, nodes         redco_rank_mesh: data-parallel ranks as GPUs in a node x nodes
 *
 *  Ranks fill a node before the next one begins. A group of a grid holds the ranks that differ in some of the digits
 *  only; a group of a mesh lies between two sub-meshes. Both grids and their orders are Megatron-LM's
 *  (megatron/core/parallel_state.py, initialize_model_parallel and RankGenerator; folded experts: arXiv 2504.14960).
 *
 *  Pure functions of plain values: no allocation, no state; callable from any thread. Degrees and factors of meshes are
 *  at least 1 unless a function says otherwise. Errors have the quantity as their place ("tp", "gpus"), never an option
 *  of a program. */
#ifndef REDCO_PARALLEL_H
#define REDCO_PARALLEL_H

#include "topology/base/sharding.h"
#include "topology/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Grids ------------------------------------------------------------------------------------------------------ */

/** The digits of a grid. The expert grid has its own three and shares the pipeline's. */
typedef enum redco_rank_dim {
    REDCO_DIM_TP = 0,
    REDCO_DIM_CP = 1,
    REDCO_DIM_DP = 2,
    REDCO_DIM_PP = 3,
    REDCO_DIM_COUNT = 4,
    REDCO_DIM_ETP = REDCO_DIM_TP,
    REDCO_DIM_EP = REDCO_DIM_CP,
    REDCO_DIM_EDP = REDCO_DIM_DP
} redco_rank_dim;

/** Which digit is fastest. */
typedef enum redco_rank_order {
    REDCO_RANKS_TP_CP_DP_PP, /**< redco-exec, Megatron-LM, torchtitan, and all exports of redco */
    REDCO_RANKS_TP_CP_PP_DP, /**< Megatron-LM with --use-tp-pp-dp-mapping */
    REDCO_RANKS_ORDERS
} redco_rank_order;

typedef struct redco_rank_grid {
    uint32_t degrees[REDCO_DIM_COUNT];
    redco_rank_order order;
} redco_rank_grid;

/** A digit of each dimension, below its degree. */
typedef struct redco_rank_coords {
    uint32_t at[REDCO_DIM_COUNT];
} redco_rank_coords;

/** The expert grid over the ranks of @p dense:  edp = tp cp dp / (etp ep), same pp and order.
 *  @param experts   routed experts of a layer; 0: not known, any ep
 *  @param grid_out  written only on success
 *  @return REDCO_EVALUE, place "ep": etp x ep does not divide tp x cp x dp, or ep not the experts, or stages would hold
 *          other ranks than in the dense grid (an order with pp inside of dp needs edp = dp) */
redco_status redco_grid_of_experts(const redco_rank_grid *dense, uint32_t etp, uint32_t ep, uint32_t experts,
                                   redco_rank_grid *grid_out, redco_error *err);

/** Product of the degrees; UINT64_MAX where it is larger than that. */
uint64_t redco_grid_ranks(const redco_rank_grid *grid);
/** @param rank below redco_grid_ranks() */
redco_rank_coords redco_grid_coords(const redco_rank_grid *grid, uint32_t rank);
uint32_t redco_grid_rank(const redco_rank_grid *grid, redco_rank_coords coords);
/** Ranks between neighbours of a dimension: the product of the degrees that are faster. */
uint32_t redco_grid_stride(const redco_rank_grid *grid, redco_rank_dim dim);

/** Groups along some dimensions: ranks that are equal in all others.
 *  @param dims  bits 1 << redco_rank_dim; e.g. gradients of a dense layer are reduced along dp and cp */
uint32_t redco_grid_group_size(const redco_rank_grid *grid, uint32_t dims);
/** Position of @p rank in its group; members are in the order of their ranks. */
uint32_t redco_grid_group_position(const redco_rank_grid *grid, uint32_t dims, uint32_t rank);
/** The member at @p position, below redco_grid_group_size(), of the group of @p rank. */
uint32_t redco_grid_group_member(const redco_rank_grid *grid, uint32_t dims, uint32_t rank, uint32_t position);
/** Ranks between neighbours where that is one number for the whole group, else 0; 1 for a group of one. */
uint32_t redco_grid_group_stride(const redco_rank_grid *grid, uint32_t dims);

/** The slowest link between two members of a group. */
typedef enum redco_group_link {
    REDCO_GROUP_ALONE,     /**< one member */
    REDCO_GROUP_LINKED,    /**< one set of linked GPUs: NVLink or its like */
    REDCO_GROUP_IN_NODE,   /**< one node, over PCIe */
    REDCO_GROUP_OVER_NODES /**< network */
} redco_group_link;

typedef struct redco_group_reach {
    redco_group_link link;
    uint32_t nodes;   /**< that hold a member */
    uint32_t in_node; /**< members in the node that holds most */
} redco_group_reach;

/** The link that the group of @p rank crosses. Takes time in proportion to the group.
 *  @param gpus_per_node  ranks of a node
 *  @param linked_gpus    consecutive GPUs of a node that links join (redco_machine_domain()); divides the node */
redco_group_reach redco_grid_group_reach(const redco_rank_grid *grid, uint32_t dims, uint32_t rank,
                                         uint32_t gpus_per_node, uint32_t linked_gpus);

/* ---- Meshes of states ------------------------------------------------------------------------------------------- */

/** Ranks as a mesh: @p tp ranks inside that share a position, then the GPUs of a node, then nodes. Parameters,
 *  gradients and optimizer states are cut over sub-meshes of dp (AMSP, arXiv 2311.00257, section IV): dp falls into
 *  blocks of the sub-mesh, each block holds everything once, and a rank's position in its block says which part it
 *  holds. */
typedef struct redco_rank_mesh {
    uint32_t tp;
    redco_mesh dp;
} redco_rank_mesh;

typedef struct redco_place {
    uint32_t tp;        /**< below mesh.tp */
    uint32_t gpu, node; /**< below mesh.dp.gpus, mesh.dp.nodes */
} redco_place;

/** A group lies between two meshes of which the inner divides the outer: ranks of one outer block that have the same
 *  position in their inner block. From this all traffic follows:
 *
 *      1x1 to parameters        gathers weights, scatters their gradients
 *      parameters to dp         reduces gradients
 *      parameters to gradients  reduces them in every micro-batch, to where they are kept
 *      parameters to optimizer  synchronises updated parameters */
typedef struct redco_between {
    redco_mesh inner, outer;
} redco_between;

uint64_t redco_rank_count(redco_rank_mesh mesh);
redco_place redco_place_of(redco_rank_mesh mesh, uint32_t rank); /**< @p rank < redco_rank_count() */
uint32_t redco_rank_at(redco_rank_mesh mesh, redco_place place);
/** Which of the data-parallel ranks it is: consecutive over the GPUs of a node, then over nodes. */
uint32_t redco_replica_at(redco_rank_mesh mesh, redco_place place);

/** @return whether a group of @p outer ranks divides into groups of @p inner: each factor divides, because a shard is
 * cut further, never across. False where a factor is 0. */
static inline bool redco_mesh_nests(redco_mesh inner, redco_mesh outer)
{
    return inner.gpus > 0 && inner.nodes > 0 && outer.gpus > 0 && outer.nodes > 0 && outer.gpus % inner.gpus == 0 &&
           outer.nodes % inner.nodes == 0;
}
/** @return whether the ranks of a block follow one another among those of @p whole: of one node, or of whole nodes. */
bool redco_mesh_consecutive(redco_mesh mesh, redco_mesh whole);
/** The block of @p whole that has so many consecutive ranks: it fills a node before it spans nodes.
 *  @return false where no such block divides @p whole */
bool redco_mesh_of_ranks(redco_mesh whole, uint64_t ranks, redco_mesh *mesh_out);
/** Every factor is at least 1 and ranks are at most 65536.
 *  @return REDCO_EVALUE */
redco_status redco_rank_mesh_check(redco_rank_mesh mesh, const char *place, redco_error *err);
/** Parameters divide gradients divide optimizer states divide dp: a rank holds gradients and states of parameters that
 *  it holds. @param place of the error: whose */
redco_status redco_shards_check(redco_rank_mesh mesh, const redco_shards *shards, const char *place, redco_error *err);

/** Which of the mesh's redco_mesh_ranks() parts the rank at @p place holds; GPUs fastest. */
uint32_t redco_mesh_position(redco_mesh mesh, redco_place place);

/** Members of each group. */
uint32_t redco_between_size(redco_between between);
/** Place in the group, in rank order: GPUs fastest. */
uint32_t redco_between_position(redco_between between, redco_place place);
/** The member at @p position of the group of @p place. */
redco_place redco_between_member(redco_between between, redco_place place, uint32_t position);
/** Groups have different colours, for redco_communicator_split(). */
uint32_t redco_between_colour(redco_rank_mesh mesh, redco_between between, uint32_t rank);
/** Colours of the groups that share all but their place in tensor parallelism. */
uint32_t redco_tp_colour(redco_rank_mesh mesh, uint32_t rank);

/* ---- Context parallelism ---------------------------------------------------------------------------------------- */

/** The way of attention to the keys and values of other context-parallel ranks. */
typedef enum redco_cp_type {
    REDCO_CP_P2P,        /**< they go around in a ring beside attention (Liu et al., arXiv 2310.01889) */
    REDCO_CP_ALL_GATHER, /**< gathered before attention (Llama 3, arXiv 2407.21783, section 3.3.2) */
    REDCO_CP_ALL_TO_ALL, /**< heads for tokens: a rank has all tokens of some heads (Ulysses, arXiv 2309.14509) */
    REDCO_CP_TYPES
} redco_cp_type;

/** "p2p", "all-gather", "all-to-all". NULL-terminated, indexed by the enum. */
extern const char *const redco_cp_type_words[];

/* ---- Degrees on nodes ------------------------------------------------------------------------------------------- */

/** Degrees of parallelism and the nodes that they lie on, order REDCO_RANKS_TP_CP_DP_PP. */
typedef struct redco_parallel {
    uint32_t nodes, gpus_per_node; /**< in use */
    uint32_t tp, cp, pp;
    redco_mesh dp;       /**< 0x0 until redco_parallel_place() */
    bool states_over_cp; /**< states are sharded over context-parallel ranks, too */
    redco_cp_type cp_type;
} redco_parallel;

redco_rank_grid redco_parallel_grid(const redco_parallel *p);
/** That order as plan files have it, fastest first: "tp,dp-gpus,dp-nodes", or "tp,cp,dp-gpus,dp-nodes,pp" where
 * cp or pp is more than 1. @return static */
const char *redco_parallel_order_text(const redco_parallel *p);

/** Data-parallel ranks that fit into a node beside @p inner = tp x cp; 1 where these fill it. */
uint32_t redco_dp_in_node(uint32_t gpus_per_node, uint64_t inner);
/** @p ranks data-parallel ranks as GPUs of a node x nodes.
 *  @return REDCO_EVALUE, place "dp": they do not fill their nodes */
redco_status redco_dp_mesh(uint32_t gpus_per_node, uint64_t inner, uint64_t ranks, redco_mesh *mesh_out,
                           redco_error *err);
/** Fills p->dp with the GPUs that tp, cp and pp leave.
 *  @return REDCO_EVALUE, place "gpus" or "dp": they do not divide the GPUs, or dp does not fill its nodes */
redco_status redco_parallel_place(redco_parallel *p, redco_error *err);

/** @return whether nodes hold whole groups, so that none of consecutive ranks begins in one node and ends in the next.
 */
typedef enum redco_node_fit {
    REDCO_FITS_NODES,
    REDCO_SPLITS_CP, /**< tp x cp GPUs are neither whole nodes, one data-parallel rank in each, nor divide one */
    REDCO_SPLITS_DP  /**< tp x cp x the data-parallel ranks of a node do not divide it: nor do stages */
} redco_node_fit;
redco_node_fit redco_parallel_node_fit(const redco_parallel *p);
/** redco_parallel_node_fit() as a sentence. @return REDCO_EVALUE, place "cp" or "pp" */
redco_status redco_parallel_check_nodes(const redco_parallel *p, redco_error *err);

/** The limits of a model and its cluster; names are for sentences and borrowed for the call. */
typedef struct redco_parallel_limits {
    const char *model, *cluster;
    uint32_t heads, kv_heads, layers, seq_len;
    bool sequence_parallel;
    bool zigzag; /**< a context-parallel rank has a piece of each half of the sequence */
} redco_parallel_limits;

/** tp divides the heads and a node and agrees with the key-value heads; cp divides the sequence, twice of it where
 *  ranks have two pieces, and by all-to-all the key-value heads of a tensor-parallel rank; tp divides what
 *  sequence parallelism cuts; dp is what the GPUs leave, node after node; a stage has a layer.
 *  @return REDCO_EVALUE, place "tp", "cp", "dp", "pp" or "gpus" */
redco_status redco_parallel_check(const redco_parallel *p, const redco_parallel_limits *limits, redco_error *err);
/** The part of it that depends on cp_type. @return REDCO_EVALUE, place "cp" */
redco_status redco_parallel_check_exchange(const redco_parallel *p, const redco_parallel_limits *limits,
                                           redco_error *err);

/** All data- and context-parallel ranks as one mesh, context-parallel ones first: they stand between tensor- and
 *  data-parallel ranks, as many as fit into a node beside tp and the node's share of dp, then over nodes. */
redco_mesh redco_parallel_dp_cp(const redco_parallel *p);
/** The ranks over which states may be sharded: dp, or dp and cp where p->states_over_cp. */
redco_mesh redco_parallel_state_grid(const redco_parallel *p);
/** Nodes from one node of a mesh of states to the next: more than 1 where what lies inside is larger than a node.
 *  @param over_cp  the mesh holds context-parallel ranks, too */
uint32_t redco_parallel_nodes_each(const redco_parallel *p, bool over_cp);

/* ---- Groups that collectives are priced for --------------------------------------------------------------------- */

/** mesh.gpus ranks in each of mesh.nodes nodes. */
typedef struct redco_group {
    redco_mesh mesh;
    uint32_t stride;          /**< rank distance of neighbours inside a node (1 = adjacent GPUs) */
    uint32_t groups_per_node; /**< equal groups that communicate at once and share a node's links and NICs, >= 1 */
    uint32_t tp;          /**< tensor-parallel degree that the GPUs of a node are ordered for (gpu_order.h); 0 = 1 */
    uint32_t node_stride; /**< distance of its neighbouring nodes, in nodes of the job: 1 = adjacent; 0 = 1 */
} redco_group;

/** As redco_group_reach.link. @param linked_gpus as in redco_grid_group_reach() */
redco_group_link redco_group_crosses(redco_group group, uint32_t linked_gpus);

redco_group redco_parallel_tp_group(const redco_parallel *p); /**< tensor-parallel ranks; p->dp is not looked at */
redco_group redco_parallel_cp_group(const redco_parallel *p); /**< context-parallel ranks; p->dp is not looked at */
redco_group redco_parallel_world(const redco_parallel *p);    /**< all ranks */
/** One rank and its like in the next stage, tp x cp x dp ranks on: where a stage is a node or more so many nodes
 * further, and all ranks of a node send at once; else in the same node, as most pairs are then, at that stride. */
redco_group redco_parallel_stage_pair(const redco_parallel *p);
/** A group of the state grid between two meshes. Neighbouring nodes of the mesh are priced as adjacent ones also where
 *  redco_parallel_nodes_each() is more than 1. */
redco_group redco_parallel_state_group(const redco_parallel *p, redco_between between);
/** All ranks that hold the same part of parameters cut over that mesh, context-parallel ones included: they reduce the
 *  same gradients. */
redco_group redco_parallel_replicas(const redco_parallel *p, redco_mesh parameters);

#ifdef __cplusplus
}
#endif
#endif
