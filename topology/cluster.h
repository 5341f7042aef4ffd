/** @file cluster.h  A cluster: one node type, a count or a list of hosts, and the network between them. */
#ifndef REDCO_CLUSTER_H
#define REDCO_CLUSTER_H

#include "topology/node.h"
#include "topology/topology.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_cluster redco_cluster;

/** One leaf switch: which hosts hang under it. Borrowed from the cluster. */
typedef struct redco_leaf {
    const char *name;
    uint32_t host_count;
    const char *const *hosts; /**< NULL where the cluster only knows counts */
    uint32_t parent;          /**< index of the leaf's group of leaves at the next level up; equal parents are nearer */
    uint32_t root;            /**< index of the tree this leaf belongs to: jobs cannot span trees */
} redco_leaf;

/** Reads a cluster by preset name, cluster file (JSON), or from parts.
 *  @param name_or_path  preset or cluster file; NULL when @p node_path is given
 *  @param node_path     NULL, or what replaces the node type: hwloc XML, NCCL XML, node JSON of redco-topo
 *  @param slurm_path    NULL, or a Slurm topology.conf that replaces the network's shape
 *  @param hosts         NULL, or a host list ("node[001-128,200]") of free hosts; others are drained
 *  Warnings (doubled links and the like) are kept: redco_cluster_warning(). */
redco_status redco_cluster_read(const char *name_or_path, const char *node_path, const char *slurm_path,
                                const char *hosts, redco_cluster **cluster_out, redco_error *err);
/** The same from the "description" that redco_cluster_describe() wrote (plan files). */
redco_status redco_cluster_from_json(const redco_json_value *value, redco_cluster **cluster_out, redco_error *err);
void redco_cluster_free(redco_cluster *cluster);

const char *redco_cluster_name(const redco_cluster *cluster);
const redco_node *redco_cluster_node(const redco_cluster *cluster);
/** Nodes that exist (free ones where a host list was given); 0 = as many as asked for (presets). */
uint32_t redco_cluster_nodes(const redco_cluster *cluster);
size_t redco_cluster_leaves(const redco_cluster *cluster, const redco_leaf **leaves_out);
/** The @p index-th warning or NULL. */
const char *redco_cluster_warning(const redco_cluster *cluster, size_t index);

/** The flat view of @p gpus GPUs of the cluster (0 = all it has). Whole nodes, or a part of one node that divides it;
 *  of a multi-host node (NVL72), equal parts of whole hosts.
 *  @return REDCO_EVALUE if @p gpus is 0 on an endless cluster, does not fill nodes, or is more than there are */
redco_status redco_cluster_machine(const redco_cluster *cluster, uint64_t gpus, redco_machine *machine_out,
                                   redco_error *err);

/** A self-contained JSON description (node type included), a new reference, that redco_cluster_from_json() accepts
 *  and the cluster file format is. NULL when out of memory. */
json_t *redco_cluster_describe(const redco_cluster *cluster);

#ifdef __cplusplus
}
#endif
#endif
