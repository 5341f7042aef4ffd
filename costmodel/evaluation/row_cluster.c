#include "costmodel/evaluation/row_cluster.h"

#include "topology/base/preset.h"
#include "topology/discovery/cluster.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* GPUs whose hosts share links, by the beginning of their name: hosts of a rack are those of the cluster preset. */
static const struct rack {
    const char *gpu, *preset;
} racks[] = {{"GB200", "gb200-nvl72"}, {"GB300", "gb300-nvl72"}};

/* One node, in the words of a cluster file. */
struct node {
    redco_gpu gpu;
    uint32_t gpus, hosts;
    double network_bytes_per_s;
};

/* Tables give the GPUs of a host; a rack of other hosts than the preset's is as many GPUs. */
static redco_status find_rack(const redco_measured_run *run, struct node *node, redco_error *err)
{
    node->gpus = run->gpus_per_node;
    node->hosts = 1;
    for (size_t i = 0; i < sizeof racks / sizeof racks[0]; i++) {
        redco_json *document = NULL;
        redco_json_value at, count;
        if (strncasecmp(node->gpu.name, racks[i].gpu, strlen(racks[i].gpu)) != 0) { continue; }
        redco_status st = redco_preset_open("clusters", "a cluster", racks[i].preset, &document, err);
        if (st != REDCO_OK) { return st; }
        const redco_json_value root = redco_json_root(document);
        st = redco_json_object(&root, "node", &at, err);
        if (st == REDCO_OK) { st = redco_json_object(&at, "gpus", &count, err); }
        if (st == REDCO_OK) { st = redco_json_u32(&count, "value", 1, UINT32_MAX, &node->gpus, err); }
        redco_json_close(document);
        if (st == REDCO_OK && node->gpus % run->gpus_per_node != 0) {
            return redco_fail(err, REDCO_EVALUE, "gpus_per_node", "%u do not divide a rack of %u GPUs",
                              run->gpus_per_node, node->gpus);
        }
        node->hosts = node->gpus / run->gpus_per_node;
        return st;
    }
    return REDCO_OK;
}

/* Tables give a node's rate. The ports of these clusters are 200 Gb/s InfiniBand beside Ampere, 400 Gb/s since Hopper,
 * at most one a GPU: four a node for AMSP (arXiv 2311.00257, section VI-A) and vTrain (arXiv 2312.12391), eight
 * elsewhere. */
static uint32_t ports_of(const struct node *node)
{
    const double port_bytes_per_s = node->gpu.compute_capability >= 90 ? 50e9 : 25e9;
    const double ports = round(node->network_bytes_per_s / port_bytes_per_s);
    return ports < 1.0 ? 1 : ports < node->gpus ? (uint32_t)ports : node->gpus;
}

static json_t *with_source(json_t *value, const char *source)
{
    return json_pack("{s:o, s:s}", "value", value, "source", source);
}

/* A preset by its name, another GPU as a whole. */
static redco_status gpu_value(const char *name, const redco_gpu *gpu, json_t **value_out, redco_error *err)
{
    redco_json *document = NULL;
    if (redco_preset_find("gpus", name) != NULL || redco_gpu_of_model(name) != NULL) {
        *value_out = json_string(gpu->name);
    } else {
        const redco_status st = redco_preset_open("gpus", "a GPU", name, &document, err);
        if (st != REDCO_OK) { return st; }
        *value_out = json_deep_copy(redco_json_root(document).json);
        redco_json_close(document);
    }
    return *value_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "cluster", "out of memory");
}

/* Takes @p gpu. NULL when out of memory. */
static json_t *node_json(const struct node *node, json_t *gpu)
{
    const bool linked = node->gpu.scale_up_bytes_per_s > 0.0;
    json_t *const json = json_object();
    bool good = json_object_set_new(json, "gpu", gpu) == 0 &&
                json_object_set_new(json, "gpus", json_integer(node->gpus)) == 0 &&
                json_object_set_new(json, "fabric",
                                    json_string(!linked             ? "pcie"
                                                : node->gpu.bridged ? "direct"
                                                                    : "switch")) == 0;
    if (node->hosts > 1) {
        good = good && json_object_set_new(json, "hosts",
                                           with_source(json_integer(node->hosts), "one rack is one link domain")) == 0;
    }
    if (node->network_bytes_per_s > 0.0) {
        const uint32_t ports = ports_of(node);
        char rate[48];
        (void)snprintf(rate, sizeof rate, "%.17g B/s", node->network_bytes_per_s / ports);
        good = good &&
               json_object_set_new(json, "nics",
                                   with_source(json_integer(ports), "assumed: ports of 200 Gb/s beside Ampere, of "
                                                                    "400 Gb/s since Hopper, at most one a GPU")) == 0 &&
               json_object_set_new(json, "nic_rate",
                                   with_source(json_string(rate), "the row: a node's rate / ports")) == 0;
    }
    if (good) { return json; }
    json_decref(json);
    return NULL;
}

static redco_status describe(const redco_measured_run *run, json_t **cluster_out, redco_error *err)
{
    struct node node = {.hosts = 1};
    json_t *gpu = NULL;
    redco_status st = redco_gpu_find_any(run->gpu, &node.gpu, err);
    if (st == REDCO_OK && run->gpus_per_node == 0) { st = redco_fail(err, REDCO_EVALUE, "gpus_per_node", "is 0"); }
    if (st == REDCO_OK) { st = find_rack(run, &node, err); }
    if (st == REDCO_OK) { st = gpu_value(run->gpu, &node.gpu, &gpu, err); }
    if (st != REDCO_OK) { return st; }
    node.network_bytes_per_s = run->node_network_bytes_per_s * node.hosts;
    *cluster_out =
        json_pack("{s:s, s:i, s:s, s:s, s:o}", "format", "redco-cluster", "version", 1, "name", "row", "about",
                  "What a table of measured runs says of a run's cluster", "node", node_json(&node, gpu));
    return *cluster_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "cluster", "out of memory");
}

static redco_status read_machine(const json_t *json, uint64_t gpus, redco_machine *machine_out, redco_error *err)
{
    redco_cluster *cluster = NULL;
    redco_error why = {.status = REDCO_OK};
    const redco_json_value root = redco_json_wrap(json, "cluster");
    redco_status st = redco_cluster_from_json(&root, &cluster, err);
    if (st != REDCO_OK) { return st; }
    st = redco_cluster_machine(cluster, gpus, machine_out, &why);
    if (st != REDCO_OK) { /* a column of the row */
        st = redco_fail(err, st, strcmp(why.place, "gpus") == 0 ? "n_gpus" : why.place, "%s", why.text);
    }
    redco_cluster_free(cluster);
    return st;
}

/* The cluster and the machine that it is to the row, which gives it its name. */
static redco_status build(const redco_measured_run *run, json_t **cluster_out, redco_machine *machine_out,
                          redco_error *err)
{
    json_t *json = NULL;
    redco_machine machine = {.nodes = 0};
    redco_status st = describe(run, &json, err);
    if (st == REDCO_OK) { st = read_machine(json, run->n_gpus, &machine, err); }
    if (st == REDCO_OK) {
        (void)snprintf(machine.name, sizeof machine.name, "%u x %u %s", machine.nodes, machine.gpus_per_node,
                       machine.gpu.name);
        if (json_object_set_new(json, "name", json_string(machine.name)) != 0) {
            st = redco_fail(err, REDCO_ENOMEM, "cluster", "out of memory");
        }
    }
    if (st == REDCO_OK) {
        *machine_out = machine;
        *cluster_out = json_incref(json);
    }
    json_decref(json);
    return st;
}

redco_status redco_row_cluster(const redco_measured_run *run, json_t **cluster_out, redco_error *err)
{
    redco_machine machine;
    return build(run, cluster_out, &machine, err);
}

redco_status redco_row_machine(const redco_measured_run *run, redco_machine *machine_out, redco_error *err)
{
    json_t *cluster = NULL;
    const redco_status st = build(run, &cluster, machine_out, err);
    if (st == REDCO_OK) { json_decref(cluster); }
    return st;
}
