/** @file cluster.h  A cluster: one node type, a count or a list of hosts, and the network between them. */
#ifndef REDCO_CLUSTER_H
#define REDCO_CLUSTER_H

#include "topology/discovery/node.h"
#include "topology/discovery/topology.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_cluster redco_cluster;

/** One leaf switch and the free hosts under it, in file order. Borrowed from the cluster. */
typedef struct redco_leaf {
    const char *name;
    uint32_t host_count;
    const char *const *hosts;
    uint32_t node_count;         /**< nodes with a free host; equal to host_count unless a node has several hosts */
    const uint32_t *node_starts; /**< node i is hosts[node_starts[i]] up to hosts[node_starts[i + 1]], exclusive */
    uint32_t parent;             /**< switch directly above, by number; equal parents are nearer. Itself if none */
    uint32_t root;               /**< uppermost switch above: jobs cannot span trees */
    uint32_t ancestor_count;     /**< switches above */
    const uint32_t *ancestors;   /**< from the parent up to the root */
} redco_leaf;

/** Nodes of a leaf with at least @p hosts_per_node free hosts. */
uint32_t redco_leaf_nodes(const redco_leaf *leaf, uint32_t hosts_per_node);

/** Reads a cluster by preset name, cluster file (JSON), or from parts.
 *  @param name_or_path  preset, a provider's name of one ("p5.48xlarge"), cluster file, or GPUs ("8x H100", "RTX
 * 4090"): their usual server, which a warning names; NULL when @p node_path is given
 *  @param node_path     NULL, or what replaces the node type: hwloc XML, NCCL XML, node JSON of redco-topo
 *  @param slurm_path    NULL, or a Slurm topology.conf that replaces the network's shape
 *  @param hosts         NULL, or a host list ("node[001-128,200]") of free hosts; others are drained. On a cluster that
 *                       names no hosts they are its nodes and fill leaves in their order (with a warning)
 *  Warnings (doubled links and the like) are kept: redco_cluster_warning(). */
redco_status redco_cluster_read(const char *name_or_path, const char *node_path, const char *slurm_path,
                                const char *hosts, redco_cluster **cluster_out, redco_error *err);
/** The same from the "description" that redco_cluster_describe() wrote (plan files). Opens no other file: a path in it
 *  is an error. */
redco_status redco_cluster_from_json(const redco_json_value *value, redco_cluster **cluster_out, redco_error *err);
void redco_cluster_free(redco_cluster *cluster);

const char *redco_cluster_name(const redco_cluster *cluster);
const redco_node *redco_cluster_node(const redco_cluster *cluster);
/** The engine whose steps are planned there unless the user says: the cluster file's, else its GPU's.
 *  @return whether the cluster's file names it */
bool redco_cluster_engine(const redco_cluster *cluster, const redco_gpu *gpu, redco_default_engine *engine_out);
/** Nodes that exist (with a free host, where a host list was given); 0 = as many as asked for (presets). */
uint32_t redco_cluster_nodes(const redco_cluster *cluster);
/** Named leaves; 0 where the cluster knows only counts (then redco_machine's nodes_per_leaf says all there is). */
size_t redco_cluster_leaves(const redco_cluster *cluster, const redco_leaf **leaves_out);
/** The @p index-th warning or NULL. */
const char *redco_cluster_warning(const redco_cluster *cluster, size_t index);

/** The flat view of @p gpus GPUs of the cluster (0 = all it has; of a forest, what its largest tree has). Whole nodes,
 * or a part of one host that divides it; of multi-host nodes (NVL72) the smallest number of nodes such that all hold
 * the same number of whole hosts, and the machine's GPUs, NICs and hosts per node are those of the hosts in use.
 *  nodes_per_leaf is the smallest of the leaves that are needed when the largest are taken first.
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
