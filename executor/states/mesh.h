/** @file mesh.h  Where a rank stands in the mesh of a plan, and the groups of ranks that its sub-meshes make.
 *
 *  World = tp × dp, tensor-parallel ranks fastest, then the GPUs of a node, then nodes ("tp,dp-gpus,dp-nodes" in plan
 *  files). Parameters, gradients and optimizer states are cut over sub-meshes of dp (AMSP, arXiv 2311.00257, section
 *  IV): dp falls into blocks of the sub-mesh, each block holds everything once, and a rank's position in its block says
 *  which part it holds. A group lies between two meshes of which the inner divides the outer: ranks of one outer block
 *  that have the same position in their inner block. From this all traffic follows:
 *
 *      1x1 to parameters        gathers weights, scatters their gradients
 *      parameters to dp         reduces gradients
 *      parameters to gradients  reduces them in every micro-batch, to where they are kept
 *      parameters to optimizer  spreads updated parameters
 *
 *  Pure functions. */
#ifndef REDCO_STATES_MESH_H
#define REDCO_STATES_MESH_H

#include "topology/base/sharding.h"
#include "topology/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_rank_mesh {
    uint32_t tp;
    redco_mesh dp;
} redco_rank_mesh;

typedef struct redco_place {
    uint32_t tp;        /**< below mesh.tp */
    uint32_t gpu, node; /**< below mesh.dp.gpus, mesh.dp.nodes */
} redco_place;

/** Between two meshes. */
typedef struct redco_between {
    redco_mesh inner, outer;
} redco_between;

uint64_t redco_rank_count(redco_rank_mesh mesh);
redco_place redco_place_of(redco_rank_mesh mesh, uint32_t rank); /**< @p rank < redco_rank_count() */
uint32_t redco_rank_at(redco_rank_mesh mesh, redco_place place);

/** Whether each factor of @p inner divides that of @p outer; no factor is 0. */
bool redco_mesh_divides(redco_mesh inner, redco_mesh outer);
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

#ifdef __cplusplus
}
#endif
#endif
