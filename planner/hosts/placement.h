/** @file placement.h  Problem 3: which node goes under which leaf switch. Chooses nodes among the free ones and orders
 *  them, so that subgroups (consecutive nodes in rank order) cross as few switches as possible: first the least bytes
 *  beyond leaf switches, then beyond the next tier up, and so on; a job never spans two trees of a forest. Equal
 * answers go to the order of the file. An exact method builds the answer, GLPK proves that no other placement has less.
 */
#ifndef REDCO_PLACEMENT_H
#define REDCO_PLACEMENT_H

#include "topology/discovery/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The subgroups of one component: nodes [0, nodes), [nodes, 2 nodes), ... in rank order. */
typedef struct redco_placement_level {
    uint32_t nodes; /**< s1 of the sub-mesh; divides all nodes of the job; 1 never spans */
    uint64_t bytes; /**< per step and subgroup, when the subgroup spans leaf switches */
} redco_placement_level;

typedef struct redco_placed_level {
    uint32_t nodes;
    uint64_t bytes; /**< levels of equal size are added up */
    uint32_t groups;
    uint32_t spanning_groups; /**< those that are not under one leaf */
} redco_placed_level;

typedef struct redco_placement {
    uint32_t nodes;
    uint32_t *leaf_of_node; /**< in rank order: index among the cluster's leaves */
    char **hosts;           /**< rank order, machine.hosts_per_node to a node; NULL on a cluster without named hosts */
    uint32_t host_count;
    uint32_t leaves_used;
    redco_placed_level *levels; /**< distinct sizes above 1, ascending */
    uint32_t level_count;
    uint32_t spanning_groups;  /**< on all levels; one as large as the job is a subgroup, too */
    uint64_t spanning_bytes;   /**< per step, of all levels */
    uint64_t file_order_bytes; /**< the same if free nodes were taken in file order */
    const char *solver;        /**< "GLPK 5.0", or "dynamic program" where GLPK gave up: static */
    const char *status;        /**< "optimal", or "feasible" where nothing proves it: static */
    double solver_seconds;
} redco_placement;

/** @param machine      of redco_cluster_machine() on the same cluster
 *  @param levels       subgroup sizes, in any order; the optimum is proven where each divides the next
 *  @return REDCO_EVALUE when a size does not divide the nodes, or bytes are out of range */
redco_status redco_placement_solve(const redco_cluster *cluster, const redco_machine *machine,
                                   const redco_placement_level *levels, uint32_t level_count,
                                   redco_placement **placement_out, redco_error *err);
void redco_placement_free(redco_placement *placement);

#ifdef __cplusplus
}
#endif
#endif
