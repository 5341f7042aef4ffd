/* Cluster files: what is accepted describes itself, and the description reads back to the same description. Machines of
 * a few sizes must be consistent. */
#include "topology/discovery/cluster.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static char *describe(const redco_cluster *cluster)
{
    size_t size = 0;
    json_t *json = redco_cluster_describe(cluster);
    if (json == NULL) { abort(); }
    char *text = redco_json_text(json, 17, &size);
    json_decref(json);
    return text;
}

static redco_cluster *read_text(const char *text, size_t size)
{
    redco_json *document = NULL;
    redco_cluster *cluster = NULL;
    redco_error err = {0};
    redco_status st = redco_json_parse(text, size, "cluster.json", &document, &err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = redco_cluster_from_json(&root, &cluster, &err);
    }
    if ((st == REDCO_OK) != (cluster != NULL) || (st == REDCO_OK) != (err.text[0] == '\0')) { abort(); }
    redco_json_close(document);
    return cluster;
}

static void check_machine(const redco_cluster *cluster, uint64_t gpus)
{
    redco_machine machine;
    if (redco_cluster_machine(cluster, gpus, &machine, NULL) != REDCO_OK) { return; }
    const uint64_t got = (uint64_t)machine.nodes * machine.gpus_per_node;
    if (got == 0 || (gpus > 0 && got != gpus)) { abort(); }
    if (machine.gpus_per_node > machine.node_gpus_physical || machine.hosts_per_node == 0) { abort(); }
    if (!(machine.oversubscription_ratio >= 1.0) || !isfinite(machine.network_latency_s) ||
        !isfinite(machine.node_network_bytes_per_s) || !isfinite(machine.scale_up_bytes_per_s)) {
        abort();
    }
}

enum { LONG_ENOUGH = 10000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_cluster *cluster = read_text((const char *)data, size);
    if (cluster == NULL) { return 0; }
    static const uint64_t counts[] = {0, 1, 2, 6, 8, 16, 64, 1000, 1024, 131072, UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) { check_machine(cluster, counts[i]); }
    if (redco_cluster_nodes(cluster) > LONG_ENOUGH) { /* writing and reading again takes as long, four times over */
        redco_cluster_free(cluster);
        return 0;
    }
    char *first = describe(cluster);
    redco_cluster *again = read_text(first, strlen(first));
    if (again == NULL) { abort(); }
    char *second = describe(again);
    if (strcmp(first, second) != 0) { abort(); }
    free(first);
    free(second);
    redco_cluster_free(again);
    redco_cluster_free(cluster);
    return 0;
}
