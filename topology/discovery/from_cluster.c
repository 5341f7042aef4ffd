/* The cluster file: node type, number of nodes and network. */
#include "topology/base/file.h"
#include "topology/base/preset.h"
#include "topology/discovery/cluster_internal.h"
#include "topology/discovery/node_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A value may stand alone or as {"value": ..., "source": "where it is from"}. */
struct field {
    redco_json_value object;
    const char *key;
};

static const size_t max_slurm_bytes = (size_t)64 << 20;

redco_status redcoi_cluster_read_slurm(const char *path, redco_cluster *cluster, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    redco_status st = redco_file_read(path, max_slurm_bytes, &text, &size, err);
    if (st == REDCO_OK) { st = redcoi_tree_from_slurm(text, size, path, &cluster->tree, err); }
    if (st == REDCO_OK) { st = redcoi_cluster_cut_leaves(cluster, err); }
    free(text);
    return st;
}

static redco_status find_field(const redco_json_value *object, const char *key, struct field *field_out,
                               redco_error *err)
{
    static const char *const keys[] = {"value", "source", NULL};
    const char *text = NULL;
    *field_out = (struct field){*object, key};
    if (!json_is_object(json_object_get(object->json, key))) { return REDCO_OK; }
    redco_json_value sourced;
    redco_status st = redco_json_object(object, key, &sourced, err);
    if (st == REDCO_OK) { st = redco_json_only(&sourced, keys, err); }
    if (st == REDCO_OK && redco_json_has(&sourced, "source")) {
        st = redco_json_string(&sourced, "source", &text, err);
    }
    *field_out = (struct field){sourced, "value"};
    return st;
}

static redco_status read_text(const redco_json_value *object, const char *key, const char **out, redco_error *err)
{
    struct field field;
    const redco_status st = find_field(object, key, &field, err);
    return st == REDCO_OK ? redco_json_string(&field.object, field.key, out, err) : st;
}

static redco_status read_count(const redco_json_value *object, const char *key, uint32_t min, uint32_t max,
                               uint32_t *out, redco_error *err)
{
    struct field field;
    const redco_status st = find_field(object, key, &field, err);
    return st == REDCO_OK ? redco_json_u32(&field.object, field.key, min, max, out, err) : st;
}

static redco_status read_quantity(const redco_json_value *object, const char *key, redco_unit unit, double *out,
                                  redco_error *err)
{
    struct field field;
    const redco_status st = find_field(object, key, &field, err);
    return st == REDCO_OK ? redco_json_quantity(&field.object, field.key, unit, out, err) : st;
}

static redco_status read_nic_rate(const redco_json_value *object, double *out, redco_error *err)
{
    static const double least = 1e6; /* bytes/s; no port of a training cluster is outside of these */
    static const double most = 1e13;
    const redco_status st = read_quantity(object, "nic_rate", REDCO_UNIT_BYTES_PER_S, out, err);
    if (st == REDCO_OK && !(*out >= least && *out <= most)) {
        return redco_json_fail(object, "nic_rate", err, "is %g Gb/s; 0.008 Gb/s to 80000 Gb/s can be", *out * 8e-9);
    }
    return st;
}

/* One of a NULL-terminated list of words; the error lists them. */
static redco_status read_word(const redco_json_value *object, const char *key, const char *const *words,
                              uint32_t *index_out, redco_error *err)
{
    struct field field;
    const char *text = NULL;
    char list[128];
    size_t used = 0;
    redco_status st = find_field(object, key, &field, err);
    if (st == REDCO_OK) { st = redco_json_string(&field.object, field.key, &text, err); }
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; words[i] != NULL; i++) {
        if (strcmp(text, words[i]) == 0) {
            *index_out = i;
            return REDCO_OK;
        }
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", words[i]);
    }
    return redco_json_fail(&field.object, field.key, err, "is \"%.40s\"; one of %s is needed", text, list);
}

/* A path in a cluster file is relative to that file; to be freed. */
static char *path_beside(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    char *joined = NULL;
    if (path[0] == '/' || slash == NULL) { return strdup(path); }
    return asprintf(&joined, "%.*s/%s", (int)(slash - file), file, path) < 0 ? NULL : joined;
}

/* Follows a path that the description names; *path_out is to be freed. */
static redco_status read_path(const redco_json_value *object, const char *key, const redcoi_cluster_source *source,
                              char **path_out, redco_error *err)
{
    const char *path = NULL;
    const redco_status st = read_text(object, key, &path, err);
    if (st != REDCO_OK) { return st; }
    if (source->file == NULL || path[0] == '\0') {
        return redco_json_fail(object, key, err, "\"%.80s\" is a path; it is followed in cluster files only", path);
    }
    *path_out = path_beside(source->file, path);
    return *path_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, path, "out of memory");
}

/* A preset, or in a cluster file the path of a GPU file. */
static redco_status find_gpu(const redco_json_value *object, const char *name, const redcoi_cluster_source *source,
                             redco_gpu *gpu_out, redco_error *err)
{
    char names[400];
    if (redco_preset_find("gpus", name) != NULL || redco_gpu_of_model(name) != NULL) {
        return redco_gpu_find_any(name, gpu_out, err);
    }
    if (source->file == NULL || strchr(name, '.') == NULL) {
        return redco_json_fail(object, "gpu", err,
                               "\"%.60s\" is not a GPU that redco knows; %s; a GPU file can describe it, made like "
                               "topology/presets/gpus/L40S.json, and be named here: \"gpu\": \"mine.json\"",
                               name, redco_preset_names("gpus", name, names, sizeof names));
    }
    char *path = path_beside(source->file, name);
    if (path == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    const redco_status st = redco_gpu_find(path, gpu_out, err);
    free(path);
    return st;
}

/* The same by its key, or the whole GPU file in its place. */
static redco_status read_gpu(const redco_json_value *object, const redcoi_cluster_source *source, redco_gpu *gpu_out,
                             redco_error *err)
{
    redco_json_value whole;
    const char *name = NULL;
    const json_t *const json = json_object_get(object->json, "gpu");
    if (json_object_get(json, "format") == NULL) {
        const redco_status st = read_text(object, "gpu", &name, err);
        return st == REDCO_OK ? find_gpu(object, name, source, gpu_out, err) : st;
    }
    const redco_status st = redco_json_object(object, "gpu", &whole, err);
    return st == REDCO_OK ? redco_gpu_from_json(&whole, gpu_out, err) : st;
}

static uint32_t default_link_group(redco_fabric fabric, const redco_gpu *gpu, uint32_t gpus)
{
    const char *end = strstr(gpu->link, "-bridge");
    if (fabric == REDCO_FABRIC_PCIE) { return 1; }
    if (fabric == REDCO_FABRIC_DIRECT && end != NULL) { return gpus < 2 ? gpus : 2; }
    return gpus;
}

/* {"gpu": ..., "gpus": 8, ...}: equal GPUs, NICs spread evenly. */
static redco_status read_short_node(const redco_json_value *object, const redcoi_cluster_source *source,
                                    const char *cluster_name, redco_node **node_out, redco_error *err)
{
    static const char *const keys[] = {"name", "gpu",      "gpus",  "fabric", "link_group", "nics",
                                       "cpu",  "nic_rate", "hosts", "source", NULL};
    static const char *const fabrics[] = {"pcie", "direct", "switch", NULL};
    static const char *const cpus[] = {"unknown", "intel", "amd", "arm", "power", NULL};
    enum { MOST_GPUS = 1024, MOST_NICS = 4096 };
    const char *name = cluster_name;
    const char *text = NULL;
    redco_gpu gpu;
    uint32_t gpus = 0;
    uint32_t fabric = 0;
    uint32_t nics = 0;
    uint32_t cpu = 0;
    uint32_t hosts = 1;
    double rate = 0.0;
    redco_status st = redco_json_only(object, keys, err);
    if (st == REDCO_OK && redco_json_has(object, "source")) { st = redco_json_string(object, "source", &text, err); }
    if (st == REDCO_OK && redco_json_has(object, "name")) { st = read_text(object, "name", &name, err); }
    if (st == REDCO_OK) { st = read_gpu(object, source, &gpu, err); }
    if (st == REDCO_OK) { st = read_count(object, "gpus", 1, MOST_GPUS, &gpus, err); }
    if (st == REDCO_OK) { st = read_word(object, "fabric", fabrics, &fabric, err); }
    if (st == REDCO_OK && (redco_json_has(object, "nics") || redco_json_has(object, "nic_rate"))) {
        st = read_count(object, "nics", 0, MOST_NICS, &nics, err);
    }
    if (st == REDCO_OK && nics > 0) { st = read_nic_rate(object, &rate, err); }
    if (st == REDCO_OK && redco_json_has(object, "cpu")) { st = read_word(object, "cpu", cpus, &cpu, err); }
    if (st == REDCO_OK && redco_json_has(object, "hosts")) { st = read_count(object, "hosts", 1, gpus, &hosts, err); }
    if (st != REDCO_OK) { return st; }
    if (gpus % hosts != 0) {
        return redco_json_fail(object, "hosts", err, "is %u, which does not divide the %u GPUs", hosts, gpus);
    }
    uint32_t group = default_link_group((redco_fabric)fabric, &gpu, gpus);
    if (redco_json_has(object, "link_group")) {
        st = read_count(object, "link_group", 1, gpus, &group, err);
        if (st != REDCO_OK) { return st; }
    }
    return redco_node_uniform(name, &gpu, gpus, (redco_fabric)fabric, group, nics, rate, (redco_cpu_vendor)cpu, hosts,
                              node_out, err);
}

/* The file of a node: "node.xml", or {"file": "node.xml", "gpu": "H100-SXM5-80GB"} where it does not name its GPUs. */
static redco_status read_node_file(const redco_json_value *object, const char *key, const redcoi_cluster_source *source,
                                   redco_node **node_out, redco_error *err)
{
    char *path = NULL;
    redco_status st = read_path(object, key, source, &path, err);
    if (st == REDCO_OK) { st = source->read_node(path, node_out, err); }
    free(path);
    return st;
}

static redco_status read_file_node(const redco_json_value *object, const redcoi_cluster_source *source,
                                   redco_node **node_out, redco_error *err)
{
    static const char *const keys[] = {"file", "gpu", "source", NULL};
    redco_gpu gpu;
    redco_status st = redco_json_only(object, keys, err);
    if (st == REDCO_OK) { st = read_node_file(object, "file", source, node_out, err); }
    if (st != REDCO_OK || !redco_json_has(object, "gpu")) { return st; }
    st = read_gpu(object, source, &gpu, err);
    return st == REDCO_OK ? redco_node_set_gpu(*node_out, &gpu, err) : st;
}

static redco_status read_node(const redco_json_value *root, const redcoi_cluster_source *source, redco_cluster *cluster,
                              redco_error *err)
{
    redco_json_value object;
    if (source->node_path != NULL) { return source->read_node(source->node_path, &cluster->node, err); }
    if (json_is_string(json_object_get(root->json, "node"))) {
        return read_node_file(root, "node", source, &cluster->node, err);
    }
    const redco_status st = redco_json_object(root, "node", &object, err);
    if (st != REDCO_OK) { return st; }
    if (redco_json_has(&object, "format")) { return redco_node_from_json(&object, &cluster->node, err); }
    if (redco_json_has(&object, "file")) { return read_file_node(&object, source, &cluster->node, err); }
    return read_short_node(&object, source, cluster->name, &cluster->node, err);
}

/* ["a[1-4]", "a[5-8]"]: one host list per node of several hosts. *joined_out: all of them as one list, to be freed. */
static redco_status read_node_lists(const redco_json_value *leaves, const char *name, redco_cluster *cluster,
                                    char **joined_out, redco_error *err)
{
    char place[512];
    size_t count = 0;
    size_t size = 0;
    redco_json_value array;
    FILE *stream = NULL;
    redco_hostlist *hosts = redco_hostlist_new();
    redco_status st = redco_json_array(leaves, name, &array, &count, err);
    if (st != REDCO_OK) { goto out; }
    if (count == 0) {
        st = redco_json_fail(leaves, name, err, "is empty; one host list per node is needed");
        goto out;
    }
    stream = open_memstream(joined_out, &size);
    if (hosts == NULL || stream == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory");
        goto out;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(array.json, i);
        const char *text = json_string_value(item);
        const size_t before = redco_hostlist_count(hosts);
        if (text == NULL) {
            st = redco_json_fail(leaves, name, err, "element %zu is not a host list", i);
            goto out;
        }
        st = redco_hostlist_append(hosts, text, json_string_length(item),
                                   redco_json_place(leaves, name, place, sizeof place), err);
        if (st != REDCO_OK) { goto out; }
        const size_t added = redco_hostlist_count(hosts) - before;
        if (added > redco_node_hosts(cluster->node)) {
            st = redco_json_fail(leaves, name, err, "element %zu names %zu hosts; a node of this type has %u", i, added,
                                 redco_node_hosts(cluster->node));
            goto out;
        }
        if ((st = redcoi_cluster_add_node(cluster, (uint32_t)added, err)) != REDCO_OK) { goto out; }
        (void)fprintf(stream, "%s%s", i > 0 ? "," : "", text);
    }
out:
    if (stream != NULL && fclose(stream) != 0 && st == REDCO_OK) {
        st = redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory");
    }
    redco_hostlist_free(hosts);
    return st;
}

static redco_status read_leaf(const redco_json_value *leaves, const char *name, redco_cluster *cluster,
                              redco_error *err)
{
    char place[512];
    const uint32_t hosts_per_node = redco_node_hosts(cluster->node);
    const json_t *json = json_object_get(leaves->json, name);
    const char *list = json_string_value(json);
    size_t list_size = json_string_length(json);
    char *joined = NULL;
    redco_status st = REDCO_OK;
    if (list == NULL) {
        if ((st = read_node_lists(leaves, name, cluster, &joined, err)) != REDCO_OK) { goto out; }
        list = joined;
        list_size = strlen(joined);
    }
    st = redcoi_tree_add(cluster->tree, name, strlen(name), list, list_size, NULL, 0,
                         redco_json_place(leaves, name, place, sizeof place), err);
    if (st != REDCO_OK || joined != NULL) { goto out; }
    const uint32_t hosts = cluster->tree->switches[cluster->tree->switch_count - 1].host_count;
    if (hosts % hosts_per_node != 0) {
        st = redco_json_fail(leaves, name, err,
                             "has %u hosts, which is not a multiple of %u, the hosts of one node; drained hosts are "
                             "left out by giving one host list per node, as an array",
                             hosts, hosts_per_node);
        goto out;
    }
    for (uint32_t i = 0; i < hosts && st == REDCO_OK; i += hosts_per_node) {
        st = redcoi_cluster_add_node(cluster, hosts_per_node, err);
    }
out:
    free(joined);
    return st;
}

/* "leaves": {"leaf1": "node[1-8]"}, "switches": {"spine": "leaf[1-4]"} */
static redco_status read_switches(const redco_json_value *network, redco_cluster *cluster, redco_error *err)
{
    char place[512];
    const char *name = NULL;
    json_t *item = NULL;
    redco_json_value leaves;
    redco_json_value uppers;
    redco_status st = redco_json_object(network, "leaves", &leaves, err);
    if (st != REDCO_OK) { return st; }
    cluster->tree = redcoi_tree_new(redco_json_place(network, NULL, place, sizeof place));
    if (cluster->tree == NULL) { return redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory"); }
    json_object_foreach((json_t *)(uintptr_t)leaves.json, name, item)
    {
        if ((st = read_leaf(&leaves, name, cluster, err)) != REDCO_OK) { return st; }
    }
    if (redco_json_has(network, "switches")) {
        if ((st = redco_json_object(network, "switches", &uppers, err)) != REDCO_OK) { return st; }
        json_object_foreach((json_t *)(uintptr_t)uppers.json, name, item)
        {
            const char *list = NULL;
            if ((st = redco_json_string(&uppers, name, &list, err)) != REDCO_OK) { return st; }
            st = redcoi_tree_add(cluster->tree, name, strlen(name), NULL, 0, list, json_string_length(item),
                                 redco_json_place(&uppers, name, place, sizeof place), err);
            if (st != REDCO_OK) { return st; }
        }
    }
    return redcoi_tree_finish(cluster->tree, err);
}

/* Exactly one way may say which leaves there are. */
static redco_status check_shape_keys(const redco_json_value *network, redco_error *err)
{
    static const char *const ways[] = {"leaf_nodes", "slurm_topology", "leaves"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        if (!redco_json_has(network, ways[i])) { continue; }
        if (found != NULL) {
            return redco_json_fail(network, ways[i], err,
                                   "stands beside \"%s\"; only one may say which leaves there are", found);
        }
        found = ways[i];
    }
    if (redco_json_has(network, "switches") && (found == NULL || strcmp(found, "leaves") != 0)) {
        return redco_json_fail(network, "switches", err, "needs \"leaves\" beside it");
    }
    return REDCO_OK;
}

static redco_status read_network(const redco_json_value *root, const redcoi_cluster_source *source,
                                 redco_cluster *cluster, redco_error *err)
{
    static const char *const keys[] = {"leaf_nodes",     "oversubscription", "latency",  "nics",   "nic_rate",
                                       "slurm_topology", "leaves",           "switches", "source", NULL};
    enum { MOST_NICS = 4096 };
    static const double most_latency_s = 1.0;
    const char *text = NULL;
    redco_json_value network;
    struct field field;
    if (!redco_json_has(root, "network")) { return REDCO_OK; }
    redco_status st = redco_json_object(root, "network", &network, err);
    if (st == REDCO_OK) { st = redco_json_only(&network, keys, err); }
    if (st == REDCO_OK) { st = check_shape_keys(&network, err); }
    if (st == REDCO_OK && redco_json_has(&network, "source")) {
        st = redco_json_string(&network, "source", &text, err);
    }
    if (st == REDCO_OK && redco_json_has(&network, "leaf_nodes")) {
        st = read_count(&network, "leaf_nodes", 1, REDCOI_MAX_NODES, &cluster->leaf_nodes, err);
    }
    if (st == REDCO_OK && redco_json_has(&network, "oversubscription")) {
        st = find_field(&network, "oversubscription", &field, err);
        if (st == REDCO_OK) {
            st = redco_json_number(&field.object, field.key, 1.0, 1000.0, &cluster->oversubscription_ratio, err);
        }
    }
    if (st == REDCO_OK && redco_json_has(&network, "latency")) {
        st = read_quantity(&network, "latency", REDCO_UNIT_SECONDS, &cluster->latency_s, err);
        if (st == REDCO_OK && cluster->latency_s > most_latency_s) {
            st =
                redco_json_fail(&network, "latency", err, "is above 1 s; one way through a network takes microseconds");
        }
    }
    if (st == REDCO_OK && redco_json_has(&network, "nics")) {
        st = read_count(&network, "nics", 0, MOST_NICS, &cluster->nics, err);
        cluster->nics_given = true;
    }
    if (st == REDCO_OK && redco_json_has(&network, "nic_rate")) {
        st = read_nic_rate(&network, &cluster->nic_bytes_per_s, err);
    }
    if (st != REDCO_OK || source->slurm_path != NULL) { return st; }
    if (redco_json_has(&network, "leaves")) { return read_switches(&network, cluster, err); }
    if (redco_json_has(&network, "slurm_topology")) {
        char *path = NULL;
        st = read_path(&network, "slurm_topology", source, &path, err);
        if (st == REDCO_OK) { st = redcoi_cluster_read_slurm(path, cluster, err); }
        free(path);
    }
    return st;
}

static redco_status check_node_count(const redco_json_value *root, const redco_cluster *cluster, redco_error *err)
{
    if (cluster->tree == NULL || cluster->nodes == 0 || cluster->nodes == cluster->node_count) { return REDCO_OK; }
    return redco_json_fail(root, "nodes", err, "is %u, but the network names the hosts of %u node%s; leave it out",
                           cluster->nodes, cluster->node_count, cluster->node_count == 1 ? "" : "s");
}

redco_status redcoi_cluster_from_root(const redco_json_value *root, const redcoi_cluster_source *source,
                                      redco_cluster *cluster, redco_error *err)
{
    static const char *const keys[] = {"format",  "version", "name",   "also",   "about", "node",
                                       "network", "nodes",   "source", "engine", NULL};
    static const uint32_t newest_version = 1;
    uint32_t version = 0;
    const char *name = NULL;
    const char *text = NULL;
    redco_status st = redco_json_format(root, "redco-cluster", newest_version, &version, err);
    if (st == REDCO_OK) { st = redco_json_only(root, keys, err); }
    if (st == REDCO_OK) { st = redco_json_string(root, "name", &name, err); }
    if (st == REDCO_OK && redco_json_has(root, "about")) { st = redco_json_string(root, "about", &text, err); }
    if (st == REDCO_OK && redco_json_has(root, "source")) { st = redco_json_string(root, "source", &text, err); }
    if (st != REDCO_OK) { return st; }
    if (name[0] == '\0' || strlen(name) >= sizeof cluster->name) {
        return redco_json_fail(root, "name", err, "is %zu bytes long; 1 to %zu are needed", strlen(name),
                               sizeof cluster->name - 1);
    }
    redcoi_text_copy(cluster->name, sizeof cluster->name, name);
    if (redco_json_has(root, "engine")) { st = redcoi_engine_read(root, &cluster->engine, err); }
    if (st == REDCO_OK && redco_json_has(root, "nodes")) {
        st = read_count(root, "nodes", 1, REDCOI_MAX_NODES, &cluster->nodes, err);
    }
    if (st == REDCO_OK) { st = read_node(root, source, cluster, err); }
    if (st == REDCO_OK) { st = read_network(root, source, cluster, err); }
    return st == REDCO_OK ? check_node_count(root, cluster, err) : st;
}
