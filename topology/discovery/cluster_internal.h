/** @file cluster_internal.h  Internal: the cluster and the steps that build it. */
#ifndef REDCOI_CLUSTER_INTERNAL_H
#define REDCOI_CLUSTER_INTERNAL_H

#include "topology/discovery/cluster.h"
#include "topology/discovery/switch_tree.h"

enum { REDCOI_MAX_NODES = 1000000 };

struct redco_cluster {
    char name[64];
    char place[256]; /* file or preset that says what the nodes are, for errors */
    redco_node *node;
    redco_default_engine engine; /* name "": the GPU's */
    uint32_t nodes;              /* counted nodes, 0 = endless; unused with a tree */
    uint32_t leaf_nodes;         /* nodes under each leaf, 0 = not known; unused with a tree */
    double oversubscription_ratio;
    double latency_s;
    bool nics_given; /* nics replaces the node's own count */
    uint32_t nics;
    double nic_bytes_per_s; /* 0 = the node's own rate */

    redcoi_tree *tree;   /* NULL without named hosts; owns all names */
    uint32_t *node_ends; /* per node: hosts up to its end; filled in leaf order, before hosts are drained */
    uint32_t node_count, node_capacity;

    redco_leaf *leaves; /* free hosts only */
    size_t leaf_count;
    const char **hosts;
    uint32_t *node_starts; /* starts of all leaves, node_count + 1 entries each */
    uint32_t *ancestors;

    char **warnings; /* beside those of the node */
    size_t warning_count;
};

/** Where a cluster description comes from and what replaces its parts. */
typedef struct redcoi_cluster_source {
    const char *file;       /**< paths in it are relative to its folder; NULL = paths are refused */
    const char *node_path;  /**< NULL = the description's own */
    const char *slurm_path; /**< likewise */
    /** Reads the file of a node; NULL where paths are refused. */
    redco_status (*read_node)(const char *path, redco_node **node_out, redco_error *err);
} redcoi_cluster_source;

redco_cluster *redcoi_cluster_new(void); /**< empty; NULL when out of memory */

/** Opens the description of a cluster by what people call it: a preset, a provider's name of it, a file, or GPUs
 *  ("8x H100"), whose usual server is taken or assumed; @p cluster keeps a warning that says which. */
redco_status redcoi_cluster_open(const char *name, redco_cluster *cluster, redco_json **document_out, redco_error *err);

/** Reads a cluster file's document into an empty cluster; its leaves are not built yet. */
redco_status redcoi_cluster_from_root(const redco_json_value *root, const redcoi_cluster_source *source,
                                      redco_cluster *cluster, redco_error *err);
/** Gives a cluster that has its node type the hosts of a topology.conf. */
redco_status redcoi_cluster_read_slurm(const char *path, redco_cluster *cluster, redco_error *err);
/** Appends the next node's host count; nodes are added leaf by leaf. */
redco_status redcoi_cluster_add_node(redco_cluster *cluster, uint32_t hosts, redco_error *err);
/** Cuts every leaf of the tree into nodes of the node type's number of hosts. */
redco_status redcoi_cluster_cut_leaves(redco_cluster *cluster, redco_error *err);
/** Builds the leaves from tree and nodes. @param free_hosts  NULL, or the host list of free hosts */
redco_status redcoi_cluster_build_leaves(redco_cluster *cluster, const char *free_hosts, redco_error *err);
/** Keeps a warning. */
__attribute__((format(printf, 2, 3))) redco_status redcoi_cluster_warn(redco_cluster *cluster, const char *format, ...);

/** NICs of a node and their rate: what the network section says, else those of the node's fastest kind. */
void redcoi_cluster_nics(const redco_cluster *cluster, uint32_t *nics_out, double *nic_bytes_per_s_out);

#endif
