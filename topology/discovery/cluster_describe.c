/* A cluster as a self-contained cluster file; reading it and describing again gives the same bytes. */
#include "topology/discovery/cluster_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The short form where it says the value exactly, else all digits of the base unit. */
static json_t *quantity(double value, redco_unit unit, const char *base)
{
    char text[64];
    double back = 0.0;
    (void)redco_unit_format(value, unit, text, sizeof text);
    if (redco_unit_parse(text, unit, "", &back, NULL) != REDCO_OK || back != value) {
        (void)snprintf(text, sizeof text, "%.17g %s", value, base);
    }
    return json_string(text);
}

static json_t *compact(const char *const *names, size_t count)
{
    char *text = redco_hostlist_compact(names, count);
    json_t *value = text != NULL ? json_string(text) : NULL;
    free(text);
    return value;
}

/* One host list; one per node where a node of several hosts lacks some. */
static json_t *describe_leaf(const redco_leaf *leaf, uint32_t hosts_per_node)
{
    if (redco_leaf_nodes(leaf, hosts_per_node) == leaf->node_count) { return compact(leaf->hosts, leaf->host_count); }
    json_t *nodes = json_array();
    for (uint32_t i = 0; nodes != NULL && i < leaf->node_count; i++) {
        const uint32_t first = leaf->node_starts[i];
        if (json_array_append_new(nodes, compact(leaf->hosts + first, leaf->node_starts[i + 1] - first)) != 0) {
            json_decref(nodes);
            nodes = NULL;
        }
    }
    return nodes;
}

/* The children of a switch that still have hosts below them. */
static json_t *describe_switch(const redcoi_tree *tree, const redcoi_switch *upper, const bool *alive)
{
    const char **names = calloc(upper->child_count + 1, sizeof *names);
    size_t count = 0;
    if (names == NULL) { return NULL; }
    for (uint32_t i = 0; i < upper->child_count; i++) {
        const uint32_t child = tree->children[upper->first_child + i];
        if (alive[child]) { names[count++] = tree->switches[child].name; }
    }
    json_t *value = compact(names, count);
    free(names);
    return value;
}

/* Adds value under key and takes it over. False: out of memory. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static bool describe_tree(const redco_cluster *cluster, json_t *network)
{
    const redcoi_tree *tree = cluster->tree;
    json_t *leaves = json_object();
    json_t *switches = json_object();
    bool *alive = calloc(tree->switch_count, sizeof *alive);
    bool good = leaves != NULL && switches != NULL && alive != NULL;
    for (size_t i = 0; good && i < cluster->leaf_count; i++) {
        const redco_leaf *leaf = &cluster->leaves[i];
        alive[leaf->ancestor_count > 0 ? leaf->parent : leaf->root] = true;
        for (uint32_t a = 0; a < leaf->ancestor_count; a++) { alive[leaf->ancestors[a]] = true; }
        good = put(leaves, leaf->name, describe_leaf(leaf, redco_node_hosts(cluster->node)));
    }
    /* Leaves are marked by their own entry: a drained one has none. */
    for (uint32_t i = 0; good && i < tree->switch_count; i++) {
        if (tree->switches[i].host_count > 0) { alive[i] = json_object_get(leaves, tree->switches[i].name) != NULL; }
    }
    for (uint32_t i = 0; good && i < tree->switch_count; i++) {
        if (tree->switches[i].host_count > 0 || !alive[i]) { continue; }
        good = put(switches, tree->switches[i].name, describe_switch(tree, &tree->switches[i], alive));
    }
    free(alive);
    if (!good) {
        json_decref(leaves);
        json_decref(switches);
        return false;
    }
    const bool flat = json_object_size(switches) == 0;
    good = put(network, "leaves", leaves);
    if (flat || !good) {
        json_decref(switches);
        return good;
    }
    return put(network, "switches", switches);
}

static json_t *describe_network(const redco_cluster *cluster)
{
    json_t *network = json_object();
    bool good = network != NULL;
    if (good && cluster->nics_given) { good = put(network, "nics", json_integer(cluster->nics)); }
    if (good && cluster->nic_bytes_per_s > 0.0) {
        good = put(network, "nic_rate", quantity(cluster->nic_bytes_per_s, REDCO_UNIT_BYTES_PER_S, "B/s"));
    }
    if (good && cluster->tree == NULL && cluster->leaf_nodes > 0) {
        good = put(network, "leaf_nodes", json_integer(cluster->leaf_nodes));
    }
    good = good && put(network, "oversubscription", json_real(cluster->oversubscription_ratio)) &&
           put(network, "latency", quantity(cluster->latency_s, REDCO_UNIT_SECONDS, "s"));
    if (good && cluster->tree != NULL) { good = describe_tree(cluster, network); }
    if (good) { return network; }
    json_decref(network);
    return NULL;
}

json_t *redco_cluster_describe(const redco_cluster *cluster)
{
    json_t *root = json_object();
    bool good = root != NULL && put(root, "format", json_string("redco-cluster")) &&
                put(root, "version", json_integer(1)) && put(root, "name", json_string(cluster->name)) &&
                put(root, "node", redco_node_describe(cluster->node));
    if (good && cluster->tree == NULL && cluster->nodes > 0) {
        good = put(root, "nodes", json_integer(cluster->nodes));
    }
    good = good && put(root, "network", describe_network(cluster));
    if (good) { return root; }
    json_decref(root);
    return NULL;
}
