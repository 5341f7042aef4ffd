/* A cluster from a description that is complete in itself. What reads machines (hwloc) is not needed for it. */
#include "topology/discovery/cluster_internal.h"

#include <stdio.h>
#include <stdlib.h>

redco_cluster *redcoi_cluster_new(void)
{
    redco_cluster *cluster = calloc(1, sizeof *cluster);
    if (cluster != NULL) { cluster->oversubscription_ratio = 1.0; }
    return cluster;
}

redco_status redco_cluster_from_json(const redco_json_value *value, redco_cluster **cluster_out, redco_error *err)
{
    static const redcoi_cluster_source sealed = {NULL, NULL, NULL, NULL};
    redco_cluster *cluster = redcoi_cluster_new();
    if (cluster == NULL) { return redco_fail(err, REDCO_ENOMEM, value->name, "out of memory"); }
    (void)snprintf(cluster->place, sizeof cluster->place, "%s", value->name);
    redco_status st = redcoi_cluster_from_root(value, &sealed, cluster, err);
    if (st == REDCO_OK && cluster->tree != NULL) { st = redcoi_cluster_build_leaves(cluster, NULL, err); }
    if (st != REDCO_OK) {
        redco_cluster_free(cluster);
        return st;
    }
    *cluster_out = cluster;
    return REDCO_OK;
}
