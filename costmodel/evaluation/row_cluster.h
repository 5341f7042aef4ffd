/** @file row_cluster.h  The cluster that a measured run was made on, from what its row says: a cluster file, read by
 * the reader of cluster files, so that a row and a file are one machine. */
#ifndef REDCO_ROW_CLUSTER_H
#define REDCO_ROW_CLUSTER_H

#include "topology/discovery/topology.h"
#include "traces/measured.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A cluster file of as many nodes as asked for: GPU, GPUs per host and the node's network are the row's; its ports are
 *  those of clusters of that GPU's age, and of GPUs that are sold in racks a node is a rack. Whatever the GPU's name
 *  stands for is inside: no other file is needed.
 *  @param cluster_out  a new reference
 *  @return REDCO_EVALUE if there is no such GPU, or the row's do not fill nodes */
redco_status redco_row_cluster(const redco_measured_run *run, json_t **cluster_out, redco_error *err);

/** The row's GPUs of that cluster, as redco_cluster_from_json() and redco_cluster_machine() give them. */
redco_status redco_row_machine(const redco_measured_run *run, redco_machine *machine_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
