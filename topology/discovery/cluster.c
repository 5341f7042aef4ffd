#include "topology/discovery/cluster_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void redco_cluster_free(redco_cluster *cluster)
{
    if (cluster == NULL) { return; }
    redco_node_free(cluster->node);
    redcoi_tree_free(cluster->tree);
    free(cluster->node_ends);
    free(cluster->leaves);
    free(cluster->hosts);
    free(cluster->node_starts);
    free(cluster->ancestors);
    for (size_t i = 0; i < cluster->warning_count; i++) { free(cluster->warnings[i]); }
    free(cluster->warnings);
    free(cluster);
}

const char *redco_cluster_name(const redco_cluster *cluster)
{
    return cluster->name;
}

const redco_node *redco_cluster_node(const redco_cluster *cluster)
{
    return cluster->node;
}

bool redco_cluster_engine(const redco_cluster *cluster, const redco_gpu *gpu, redco_default_engine *engine_out)
{
    const bool own = cluster->engine.name[0] != '\0' && !redco_gpu_is_host(gpu);
    redco_gpu_engine(gpu, engine_out);
    if (own) { *engine_out = cluster->engine; }
    return own;
}

uint32_t redco_cluster_nodes(const redco_cluster *cluster)
{
    if (cluster->tree == NULL) { return cluster->nodes; }
    uint32_t nodes = 0;
    for (size_t i = 0; i < cluster->leaf_count; i++) { nodes += cluster->leaves[i].node_count; }
    return nodes;
}

size_t redco_cluster_leaves(const redco_cluster *cluster, const redco_leaf **leaves_out)
{
    *leaves_out = cluster->leaves;
    return cluster->leaf_count;
}

uint32_t redco_leaf_nodes(const redco_leaf *leaf, uint32_t hosts_per_node)
{
    uint32_t nodes = 0;
    for (uint32_t i = 0; i < leaf->node_count; i++) {
        nodes += leaf->node_starts[i + 1] - leaf->node_starts[i] >= hosts_per_node;
    }
    return nodes;
}

const char *redco_cluster_warning(const redco_cluster *cluster, size_t index)
{
    size_t of_node = 0;
    while (redco_node_warning(cluster->node, of_node) != NULL) { of_node++; }
    if (index < of_node) { return redco_node_warning(cluster->node, index); }
    return index - of_node < cluster->warning_count ? cluster->warnings[index - of_node] : NULL;
}

redco_status redcoi_cluster_warn(redco_cluster *cluster, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    char **warnings = realloc(cluster->warnings, (cluster->warning_count + 1) * sizeof *warnings);
    if (warnings == NULL) { return REDCO_ENOMEM; }
    cluster->warnings = warnings;
    va_start(args, format);
    const int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0) { return REDCO_ENOMEM; }
    cluster->warnings[cluster->warning_count++] = text;
    return REDCO_OK;
}

void redcoi_cluster_nics(const redco_cluster *cluster, uint32_t *nics_out, double *nic_bytes_per_s_out)
{
    const redco_node_nic *nics = NULL;
    const size_t count = redco_node_nics(cluster->node, &nics);
    double fastest = 0.0;
    uint32_t equal = 0;
    for (size_t i = 0; i < count; i++) { fastest = nics[i].bytes_per_s > fastest ? nics[i].bytes_per_s : fastest; }
    /* A slower port beside fast ones is there for management or storage. */
    for (size_t i = 0; i < count; i++) { equal += nics[i].bytes_per_s == fastest; }
    *nics_out = cluster->nics_given ? cluster->nics : equal;
    *nic_bytes_per_s_out = cluster->nic_bytes_per_s > 0.0 ? cluster->nic_bytes_per_s : fastest;
}

redco_status redcoi_cluster_add_node(redco_cluster *cluster, uint32_t hosts, redco_error *err)
{
    if (cluster->node_count == cluster->node_capacity) {
        const uint32_t capacity = cluster->node_capacity == 0 ? 64 : cluster->node_capacity * 2;
        uint32_t *ends = realloc(cluster->node_ends, capacity * sizeof *ends);
        if (ends == NULL) { return redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory"); }
        cluster->node_ends = ends;
        cluster->node_capacity = capacity;
    }
    const uint32_t before = cluster->node_count > 0 ? cluster->node_ends[cluster->node_count - 1] : 0;
    cluster->node_ends[cluster->node_count++] = before + hosts;
    return REDCO_OK;
}

redco_status redcoi_cluster_cut_leaves(redco_cluster *cluster, redco_error *err)
{
    const uint32_t hosts_per_node = redco_node_hosts(cluster->node);
    for (uint32_t i = 0; i < cluster->tree->switch_count; i++) {
        const redcoi_switch *leaf = &cluster->tree->switches[i];
        if (leaf->host_count % hosts_per_node != 0) {
            return redco_fail(err, REDCO_EVALUE, leaf->place,
                              "switch \"%s\" has %u hosts, which is not a multiple of %u, the hosts of one node \"%s\" "
                              "(one NVLink domain)",
                              leaf->name, leaf->host_count, hosts_per_node, redco_node_name(cluster->node));
        }
        for (uint32_t host = 0; host < leaf->host_count; host += hosts_per_node) {
            const redco_status st = redcoi_cluster_add_node(cluster, hosts_per_node, err);
            if (st != REDCO_OK) { return st; }
        }
    }
    return REDCO_OK;
}

static redco_status fail_unknown_host(const redco_cluster *cluster, const char *host, size_t unknown, redco_error *err)
{
    enum { SHOWN = 64 };
    const char *names[SHOWN];
    size_t count = redco_hostlist_count(cluster->tree->hosts);
    const char *more = count > SHOWN ? ", ..." : "";
    count = count < SHOWN ? count : SHOWN;
    for (size_t i = 0; i < count; i++) { names[i] = redco_hostlist_name(cluster->tree->hosts, i); }
    char *known = redco_hostlist_compact(names, count);
    char others[48] = "";
    if (unknown > 1) { (void)snprintf(others, sizeof others, " (and %zu more)", unknown - 1); }
    const redco_status st = redco_fail(err, REDCO_EVALUE, "hosts", "host \"%s\"%s is not in %s, which has %s%s", host,
                                       others, cluster->tree->source, known != NULL ? known : "others", more);
    free(known);
    return st;
}

/* Marks the hosts that the list names; all others are drained. */
static redco_status mark_free_hosts(const redco_cluster *cluster, const char *free_hosts, bool *is_free,
                                    redco_error *err)
{
    const size_t count = redco_hostlist_count(cluster->tree->hosts);
    redco_hostlist *list = redco_hostlist_new();
    redcoi_name *sorted = malloc((count + 1) * sizeof *sorted);
    const char *stranger = NULL;
    size_t strangers = 0;
    redco_status st = REDCO_OK;
    if (list == NULL || sorted == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "hosts", "out of memory");
        goto out;
    }
    if ((st = redco_hostlist_append(list, free_hosts, strlen(free_hosts), "hosts", err)) != REDCO_OK) { goto out; }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = (redcoi_name){redco_hostlist_name(cluster->tree->hosts, i), (uint32_t)i};
    }
    redcoi_names_sort(sorted, count);
    for (size_t i = 0; i < redco_hostlist_count(list); i++) {
        const uint32_t host = redcoi_names_find(sorted, count, redco_hostlist_name(list, i));
        if (host != UINT32_MAX) {
            is_free[host] = true;
        } else if (strangers++ == 0) {
            stranger = redco_hostlist_name(list, i);
        }
    }
    if (strangers > 0) { st = fail_unknown_host(cluster, stranger, strangers, err); }
out:
    free(sorted);
    redco_hostlist_free(list);
    return st;
}

/* Appends the free hosts of one switch, node by node; a switch without any gives no leaf. */
static void add_leaf(redco_cluster *cluster, uint32_t index, const bool *is_free, uint32_t *node, uint32_t *hosts_used,
                     uint32_t *starts_used, uint32_t *ancestors_used)
{
    const redcoi_tree *tree = cluster->tree;
    const redcoi_switch *leaf = &tree->switches[index];
    redco_leaf built = {.name = leaf->name, .parent = index, .root = index};
    const char **hosts = cluster->hosts + *hosts_used;
    uint32_t *starts = cluster->node_starts + *starts_used;
    uint32_t *ancestors = cluster->ancestors + *ancestors_used;
    uint32_t host = leaf->first_host;
    for (; host < leaf->first_host + leaf->host_count; (*node)++) {
        const uint32_t before = built.host_count;
        for (; host < cluster->node_ends[*node]; host++) {
            if (is_free[host]) { hosts[built.host_count++] = redco_hostlist_name(tree->hosts, host); }
        }
        if (built.host_count > before) { starts[built.node_count++] = before; }
    }
    if (built.host_count == 0) { return; }
    starts[built.node_count] = built.host_count;
    for (uint32_t up = leaf->parent; up != REDCOI_NO_SWITCH; up = tree->switches[up].parent) {
        ancestors[built.ancestor_count++] = up;
        built.root = up;
    }
    if (built.ancestor_count > 0) { built.parent = ancestors[0]; }
    built.hosts = hosts;
    built.node_starts = starts;
    built.ancestors = ancestors;
    *hosts_used += built.host_count;
    *starts_used += built.node_count + 1;
    *ancestors_used += built.ancestor_count;
    cluster->leaves[cluster->leaf_count++] = built;
}

redco_status redcoi_cluster_build_leaves(redco_cluster *cluster, const char *free_hosts, redco_error *err)
{
    const redcoi_tree *tree = cluster->tree;
    const size_t host_count = redco_hostlist_count(tree->hosts);
    const size_t switches = tree->switch_count;
    bool *is_free = malloc(host_count + 1);
    redco_status st = REDCO_OK;
    cluster->hosts = calloc(host_count + 1, sizeof *cluster->hosts);
    cluster->node_starts = calloc(cluster->node_count + switches + 1, sizeof *cluster->node_starts);
    cluster->ancestors = calloc(switches * REDCOI_MAX_TIERS, sizeof *cluster->ancestors);
    cluster->leaves = calloc(switches, sizeof *cluster->leaves);
    if (is_free == NULL || cluster->hosts == NULL || cluster->node_starts == NULL || cluster->ancestors == NULL ||
        cluster->leaves == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory");
        goto out;
    }
    memset(is_free, free_hosts == NULL, host_count);
    if (free_hosts != NULL && (st = mark_free_hosts(cluster, free_hosts, is_free, err)) != REDCO_OK) { goto out; }
    uint32_t node = 0;
    uint32_t hosts_used = 0;
    uint32_t starts_used = 0;
    uint32_t ancestors_used = 0;
    for (uint32_t i = 0; i < tree->switch_count; i++) {
        if (tree->switches[i].host_count == 0) { continue; }
        add_leaf(cluster, i, is_free, &node, &hosts_used, &starts_used, &ancestors_used);
    }
out:
    free(is_free);
    return st;
}
