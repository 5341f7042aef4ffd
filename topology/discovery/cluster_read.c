/* A cluster from what a command line names: a preset or cluster file, a node, a Slurm topology, free hosts. */
#include "topology/base/preset.h"
#include "topology/discovery/cluster_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds leaves of at most leaf_hosts names each and, above several of them, one root. */
static redco_status add_named_leaves(redco_cluster *cluster, const char *const *names, uint32_t count,
                                     uint32_t leaf_hosts, redco_error *err)
{
    const char *const place = "hosts";
    char name[32];
    uint32_t leaves = 0;
    redco_status st = REDCO_OK;
    for (uint32_t first = 0; first < count && st == REDCO_OK; first += leaf_hosts) {
        const uint32_t here = count - first < leaf_hosts ? count - first : leaf_hosts;
        char *list = redco_hostlist_compact(names + first, here);
        if (list == NULL) { return redco_fail(err, REDCO_ENOMEM, place, "out of memory"); }
        const int length = snprintf(name, sizeof name, "leaf%u", ++leaves);
        st = redcoi_tree_add(cluster->tree, name, (size_t)length, list, strlen(list), NULL, 0, place, err);
        free(list);
    }
    if (st == REDCO_OK && leaves > 1) {
        const int length = snprintf(name, sizeof name, "leaf[1-%u]", leaves);
        st = redcoi_tree_add(cluster->tree, "spine", strlen("spine"), NULL, 0, name, (size_t)length, place, err);
    }
    if (st == REDCO_OK) { st = redcoi_tree_finish(cluster->tree, err); }
    return st == REDCO_OK ? redcoi_cluster_cut_leaves(cluster, err) : st;
}

static redco_status check_host_count(const redco_cluster *cluster, uint32_t count, redco_error *err)
{
    const uint32_t hosts_per_node = redco_node_hosts(cluster->node);
    if (count % hosts_per_node != 0) {
        return redco_fail(err, REDCO_EVALUE, "hosts",
                          "names %u hosts, but a node of \"%s\" has %u: a multiple is needed, or a cluster file that "
                          "says which hosts share a node",
                          count, cluster->name, hosts_per_node);
    }
    if (cluster->nodes > 0 && count / hosts_per_node > cluster->nodes) {
        return redco_fail(err, REDCO_EVALUE, "hosts", "names %u hosts, but \"%s\" has %u", count, cluster->name,
                          cluster->nodes * hosts_per_node);
    }
    return REDCO_OK;
}

/* On a cluster without named hosts the free hosts are its nodes, under leaves of the known size. */
static redco_status name_hosts(redco_cluster *cluster, const char *hosts, redco_error *err)
{
    const char *const place = "hosts";
    const char **names = NULL;
    redco_hostlist *list = redco_hostlist_new();
    redco_status st = REDCO_OK;
    cluster->tree = redcoi_tree_new(place);
    if (list == NULL || cluster->tree == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, place, "out of memory");
        goto out;
    }
    if ((st = redco_hostlist_append(list, hosts, strlen(hosts), place, err)) != REDCO_OK) { goto out; }
    const uint32_t count = (uint32_t)redco_hostlist_count(list);
    if ((st = check_host_count(cluster, count, err)) != REDCO_OK) { goto out; }
    names = calloc(count, sizeof *names);
    if (names == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, place, "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) { names[i] = redco_hostlist_name(list, i); }
    const uint64_t wanted = (uint64_t)cluster->leaf_nodes * redco_node_hosts(cluster->node);
    const uint32_t leaf_hosts = wanted == 0 || wanted > count ? count : (uint32_t)wanted;
    if ((st = add_named_leaves(cluster, names, count, leaf_hosts, err)) != REDCO_OK) { goto out; }
    if (leaf_hosts < count &&
        redcoi_cluster_warn(cluster,
                            "hosts are taken to fill leaf switches of %u in the order of the list; a Slurm "
                            "topology.conf would say where they are",
                            leaf_hosts) != REDCO_OK) {
        st = redco_fail(err, REDCO_ENOMEM, place, "out of memory");
    }
out:
    free(names);
    redco_hostlist_free(list);
    return st;
}

/* Last step of every reader: what the command line adds, and the leaves. */
static redco_status complete(redco_cluster *cluster, const char *slurm_path, const char *hosts, redco_error *err)
{
    redco_status st = REDCO_OK;
    if (slurm_path != NULL) { st = redcoi_cluster_read_slurm(slurm_path, cluster, err); }
    if (st == REDCO_OK && hosts != NULL && cluster->tree == NULL) {
        st = name_hosts(cluster, hosts, err);
        hosts = NULL; /* all that there are now */
    }
    if (st == REDCO_OK && cluster->tree != NULL) { st = redcoi_cluster_build_leaves(cluster, hosts, err); }
    return st;
}

redco_status redco_cluster_read(const char *name_or_path, const char *node_path, const char *slurm_path,
                                const char *hosts, redco_cluster **cluster_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_cluster *cluster = redcoi_cluster_new();
    redco_status st = REDCO_OK;
    if (cluster == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "cluster", "out of memory");
        goto out;
    }
    if (name_or_path == NULL && node_path == NULL) {
        st = redco_fail(err, REDCO_EVALUE, "cluster",
                        "neither a cluster nor a node is given; a preset or a file is "
                        "needed");
        goto out;
    }
    (void)snprintf(cluster->place, sizeof cluster->place, "%s", node_path != NULL ? node_path : name_or_path);
    if (name_or_path == NULL) {
        if ((st = redco_node_read(node_path, &cluster->node, err)) != REDCO_OK) { goto out; }
        const char *name = redco_node_name(cluster->node);
        (void)snprintf(cluster->name, sizeof cluster->name, "%s", name[0] != '\0' ? name : "node");
    } else {
        st = redcoi_cluster_open(name_or_path, cluster, &document, err);
        if (st != REDCO_OK) { goto out; }
        const redco_json_value root = redco_json_root(document);
        const redcoi_cluster_source source = {root.name, node_path, slurm_path, redco_node_read};
        if ((st = redcoi_cluster_from_root(&root, &source, cluster, err)) != REDCO_OK) { goto out; }
    }
    if ((st = complete(cluster, slurm_path, hosts, err)) != REDCO_OK) { goto out; }
    *cluster_out = cluster;
    cluster = NULL; /* the caller owns it now */
out:
    redco_cluster_free(cluster);
    redco_json_close(document);
    return st;
}
