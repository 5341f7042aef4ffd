/* The flat view of some GPUs of a cluster: which node counts are possible, and what one such machine looks like. */
#include "topology/discovery/cluster_internal.h"
#include "topology/discovery/gpu_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of GPUs on nodes. */
struct shape {
    uint32_t nodes;
    uint32_t hosts;         /* in use per node */
    uint32_t gpus_per_node; /* in use */
};

/* The hosts of the cluster: nodes[h] = the most nodes of one tree that have h free hosts each, for 1 <= h <= hosts. */
struct offer {
    uint32_t gpus_per_host;
    uint32_t hosts; /* hosts of a whole node */
    uint32_t trees; /* 0 without named leaves */
    bool any_part;  /* any number of GPUs of a host: each pair is linked alike */
    uint32_t *nodes;
};

static int by_root(const void *a, const void *b)
{
    const redco_leaf *left = *(const redco_leaf *const *)a;
    const redco_leaf *right = *(const redco_leaf *const *)b;
    return (left->root > right->root) - (left->root < right->root);
}

/* The leaves so that those of one tree stand together; to be freed. */
static const redco_leaf **leaves_by_tree(const redco_cluster *cluster)
{
    const redco_leaf **leaves = calloc(cluster->leaf_count + 1, sizeof *leaves);
    if (leaves == NULL) { return NULL; }
    for (size_t i = 0; i < cluster->leaf_count; i++) { leaves[i] = &cluster->leaves[i]; }
    if (cluster->leaf_count > 1) { qsort(leaves, cluster->leaf_count, sizeof *leaves, by_root); }
    return leaves;
}

/* End of the run of leaves that share the tree of leaves[first]. */
static size_t tree_end(const redco_leaf *const *leaves, size_t count, size_t first)
{
    size_t end = first;
    while (end < count && leaves[end]->root == leaves[first]->root) { end++; }
    return end;
}

/* Raises offer->nodes to what one tree has; scratch holds hosts + 1 zeros before and after. */
static void offer_tree(const redco_leaf *const *leaves, size_t count, struct offer *offer, uint32_t *scratch)
{
    for (size_t i = 0; i < count; i++) {
        for (uint32_t n = 0; n < leaves[i]->node_count; n++) {
            scratch[leaves[i]->node_starts[n + 1] - leaves[i]->node_starts[n]]++;
        }
    }
    for (uint32_t h = offer->hosts; h-- > 1;) { scratch[h] += scratch[h + 1]; }
    for (uint32_t h = 1; h <= offer->hosts; h++) {
        if (scratch[h] > offer->nodes[h]) { offer->nodes[h] = scratch[h]; }
    }
    memset(scratch, 0, (offer->hosts + 1) * sizeof *scratch);
    offer->trees++;
}

static redco_status make_offer(const redco_cluster *cluster, struct offer *offer, redco_error *err)
{
    const redco_node_gpu *gpus = NULL;
    const size_t gpu_count = redco_node_gpus(cluster->node, &gpus);
    *offer = (struct offer){.hosts = redco_node_hosts(cluster->node)};
    offer->gpus_per_host = (uint32_t)(gpu_count / offer->hosts);
    /* Behind a switch the others may be idle, or another job's, and all is as before for those that work. */
    offer->any_part = redco_node_fabric(cluster->node) == REDCO_FABRIC_SWITCH &&
                      redco_node_link_group(cluster->node) >= offer->gpus_per_host;
    if (offer->gpus_per_host == 0) {
        return redco_fail(err, REDCO_EVALUE, cluster->place, "node \"%s\" has no GPU, so there is nothing to plan for",
                          redco_node_name(cluster->node));
    }
    offer->nodes = calloc((size_t)offer->hosts + 1, sizeof *offer->nodes);
    if (offer->nodes == NULL) { return redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory"); }
    if (cluster->tree == NULL) {
        const uint32_t nodes = cluster->nodes > 0 ? cluster->nodes : REDCOI_MAX_NODES;
        for (uint32_t h = 1; h <= offer->hosts; h++) { offer->nodes[h] = nodes; }
        return REDCO_OK;
    }
    const redco_leaf **leaves = leaves_by_tree(cluster);
    uint32_t *scratch = calloc((size_t)offer->hosts + 1, sizeof *scratch);
    redco_status st = REDCO_OK;
    if (leaves == NULL || scratch == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory");
    } else {
        for (size_t at = 0; at < cluster->leaf_count;) {
            const size_t end = tree_end(leaves, cluster->leaf_count, at);
            offer_tree(leaves + at, end - at, offer, scratch);
            at = end;
        }
    }
    free(leaves);
    free(scratch);
    return st;
}

/* The most GPUs that one job can have; ties prefer fuller nodes. */
static struct shape largest_shape(const struct offer *offer)
{
    struct shape best = {0};
    for (uint32_t h = offer->hosts; h >= 1; h--) {
        if ((uint64_t)offer->nodes[h] * h > (uint64_t)best.nodes * best.hosts) {
            best = (struct shape){offer->nodes[h], h, h * offer->gpus_per_host};
        }
    }
    return best;
}

static uint64_t shape_gpus(struct shape shape)
{
    return (uint64_t)shape.nodes * shape.gpus_per_node;
}

/* As many GPUs of each of several hosts, half of one and more: 20 are 5 of each of 4. */
static bool find_parts(const struct offer *offer, uint64_t gpus, struct shape *shape_out)
{
    const uint32_t per_host = offer->gpus_per_host;
    if (!offer->any_part || offer->hosts > 1) { return false; }
    for (uint32_t part = per_host - 1; part > 0 && 2 * part >= per_host; part--) {
        if (gpus % part != 0 || gpus / part > offer->nodes[1]) { continue; }
        *shape_out = (struct shape){(uint32_t)(gpus / part), 1, part};
        return true;
    }
    return false;
}

/* The fewest nodes that share gpus equally in whole hosts, else in parts. False: there is no such shape. */
static bool find_shape(const struct offer *offer, uint64_t gpus, struct shape *shape_out)
{
    const uint64_t per_host = offer->gpus_per_host > 0 ? offer->gpus_per_host : 1;
    if (gpus == 0) { return false; }
    if (gpus < per_host) { /* part of one host */
        if (!offer->any_part && per_host % gpus != 0) { return false; }
        *shape_out = (struct shape){1, 1, (uint32_t)gpus};
        return true;
    }
    const uint64_t hosts = gpus / per_host;
    if (gpus % per_host != 0) { return find_parts(offer, gpus, shape_out); }
    if (hosts > (uint64_t)REDCOI_MAX_NODES * offer->hosts) { return false; }
    for (uint32_t h = offer->hosts; h >= 1; h--) {
        if (hosts % h == 0 && hosts / h <= offer->nodes[h]) {
            *shape_out = (struct shape){(uint32_t)(hosts / h), h, h * offer->gpus_per_host};
            return true;
        }
    }
    return false;
}

/* The nearest possible number of GPUs in one direction, 0 if there is none. */
static uint64_t nearest(const struct offer *offer, uint64_t gpus, uint64_t most, bool up)
{
    struct shape shape;
    for (uint64_t n = up ? gpus + 1 : gpus - 1; n >= 1 && n <= most; n = up ? n + 1 : n - 1) {
        if (find_shape(offer, n, &shape)) { return n; }
    }
    return 0;
}

static redco_status fail_too_many(const redco_cluster *cluster, const struct offer *offer, uint64_t gpus,
                                  redco_error *err)
{
    const uint64_t most = shape_gpus(largest_shape(offer));
    const char *node = redco_node_name(cluster->node);
    const uint64_t per_node = (uint64_t)offer->gpus_per_host * offer->hosts;
    if (offer->trees > 1) {
        return redco_fail(err, REDCO_EVALUE, "gpus",
                          "%llu GPUs are more than one job can have on \"%s\": its %u nodes of %llu GPUs are in %u "
                          "networks without a common root, the largest of which has %llu",
                          (unsigned long long)gpus, cluster->name, redco_cluster_nodes(cluster),
                          (unsigned long long)per_node, offer->trees, (unsigned long long)most);
    }
    if (cluster->tree == NULL && cluster->nodes == 0) {
        return redco_fail(err, REDCO_EVALUE, "gpus",
                          "%llu GPUs are more than the %u nodes \"%s\" of %llu GPUs that are planned for at most",
                          (unsigned long long)gpus, (unsigned)REDCOI_MAX_NODES, node, (unsigned long long)per_node);
    }
    const uint32_t nodes = redco_cluster_nodes(cluster);
    return redco_fail(
        err, REDCO_EVALUE, "gpus", "%llu GPUs are more than \"%s\" has: %u node%s of %llu GPUs%s, so at most %llu",
        (unsigned long long)gpus, cluster->name, nodes, nodes == 1 ? "" : "s", (unsigned long long)per_node,
        nodes * per_node == most ? "" : " with drained hosts", (unsigned long long)most);
}

static redco_status fail_shape(const redco_cluster *cluster, const struct offer *offer, uint64_t gpus, redco_error *err)
{
    const uint64_t most = shape_gpus(largest_shape(offer));
    char unit[64];
    char counts[96];
    if (gpus > most) { return fail_too_many(cluster, offer, gpus, err); }
    const uint64_t below = nearest(offer, gpus, most, false);
    const uint64_t above = nearest(offer, gpus, most, true);
    if (below > 0 && above > 0) {
        (void)snprintf(counts, sizeof counts, "%llu or %llu", (unsigned long long)below, (unsigned long long)above);
    } else {
        (void)snprintf(counts, sizeof counts, "%llu", (unsigned long long)(below > 0 ? below : above));
    }
    (void)snprintf(unit, sizeof unit, "%s of %u", offer->hosts > 1 ? "hosts" : "nodes", offer->gpus_per_host);
    if (offer->gpus_per_host > 0 && gpus > offer->gpus_per_host && gpus % offer->gpus_per_host == 0) {
        return redco_fail(err, REDCO_EVALUE, "gpus",
                          "%llu GPUs (%llu hosts) cannot be spread so that all nodes (NVLink domains of %u hosts) hold "
                          "the same number of hosts; %s can",
                          (unsigned long long)gpus, (unsigned long long)(gpus / offer->gpus_per_host), offer->hosts,
                          counts);
    }
    if (gpus < offer->gpus_per_host) {
        return redco_fail(err, REDCO_EVALUE, "gpus",
                          "%llu GPUs are neither whole %s GPUs nor a part that divides one; %s would be right",
                          (unsigned long long)gpus, unit, counts);
    }
    return redco_fail(err, REDCO_EVALUE, "gpus", "%llu GPUs do not fill %s GPUs; %s would", (unsigned long long)gpus,
                      unit, counts);
}

static int descending(const void *a, const void *b)
{
    const uint32_t left = *(const uint32_t *)a;
    const uint32_t right = *(const uint32_t *)b;
    return (left < right) - (left > right);
}

/* The smallest leaf that is needed when a tree's largest are taken first; 0 if the tree is too small. */
static uint32_t smallest_leaf_in_use(const redco_leaf *const *leaves, size_t count, struct shape shape,
                                     uint32_t *scratch)
{
    uint64_t nodes = 0;
    for (size_t i = 0; i < count; i++) { scratch[i] = redco_leaf_nodes(leaves[i], shape.hosts); }
    qsort(scratch, count, sizeof *scratch, descending);
    for (size_t i = 0; i < count; i++) {
        nodes += scratch[i];
        if (nodes >= shape.nodes) { return scratch[i]; }
    }
    return 0;
}

static redco_status find_nodes_per_leaf(const redco_cluster *cluster, struct shape shape, uint32_t *nodes_out,
                                        redco_error *err)
{
    if (cluster->tree == NULL) {
        *nodes_out = cluster->leaf_nodes;
        return REDCO_OK;
    }
    const redco_leaf **leaves = leaves_by_tree(cluster);
    uint32_t *scratch = calloc(cluster->leaf_count + 1, sizeof *scratch);
    redco_status st = REDCO_OK;
    if (leaves == NULL || scratch == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, cluster->name, "out of memory");
    } else {
        *nodes_out = 0;
        for (size_t at = 0; at < cluster->leaf_count;) {
            const size_t end = tree_end(leaves, cluster->leaf_count, at);
            const uint32_t smallest = smallest_leaf_in_use(leaves + at, end - at, shape, scratch);
            if (smallest > *nodes_out) { *nodes_out = smallest; }
            at = end;
        }
    }
    free(leaves);
    free(scratch);
    return st;
}

/* The rate at which a GPU can send to its link group when only some GPUs work: with point-to-point links those to idle
 * GPUs carry nothing. */
static double scale_up_rate(const redco_node *node, const redco_machine *machine)
{
    const redco_node_gpu *all = NULL;
    const redco_gpu_order *order = redco_machine_order(machine, 1);
    const uint32_t gpus = machine->gpus_per_node;
    double least = redco_node_scale_up(node);
    if (redco_node_fabric(node) != REDCO_FABRIC_DIRECT || gpus < 2 || gpus >= redco_node_gpus(node, &all)) {
        return least;
    }
    for (uint32_t from = 0; from < gpus; from++) {
        double rate = 0.0;
        for (uint32_t to = 0; to < gpus; to++) {
            rate +=
                redco_node_link(node, order != NULL ? order->gpus[from] : from, order != NULL ? order->gpus[to] : to);
        }
        least = rate < least ? rate : least;
    }
    return least;
}

static redco_status fill_machine(const redco_cluster *cluster, const struct offer *offer, struct shape shape,
                                 redco_machine *machine, redco_error *err)
{
    const redco_node *node = cluster->node;
    uint32_t nics = 0;
    double nic_bytes_per_s = 0.0;
    redco_error why = {0};
    redco_status st = redco_node_gpu_type(node, &machine->gpu, &why);
    if (st != REDCO_OK) { return redco_fail(err, st, cluster->place, "%s", why.text); }
    redcoi_cluster_nics(cluster, &nics, &nic_bytes_per_s);
    if (shape.nodes > 1 && (nics == 0 || !(nic_bytes_per_s > 0.0))) {
        return redco_fail(err, REDCO_EVALUE, cluster->place,
                          nics == 0
                              ? "node \"%s\" has no NIC, so that %u nodes cannot work together; give \"nics\" and "
                                "\"nic_rate\" in the cluster file's \"network\""
                              : "the rate of the NICs of node \"%s\" is not known, but %u nodes need it; give "
                                "\"nic_rate\" in the cluster file's \"network\"",
                          redco_node_name(node), shape.nodes);
    }
    (void)snprintf(machine->name, sizeof machine->name, "%s", cluster->name);
    machine->cpu = redco_node_cpu(node);
    machine->nodes = shape.nodes;
    machine->gpus_per_node = shape.gpus_per_node;
    machine->node_gpus_physical = shape.hosts * offer->gpus_per_host;
    machine->hosts_per_node = shape.hosts;
    machine->fabric = redco_node_fabric(node);
    machine->link_group_gpus = redco_node_link_group(node);
    if (machine->link_group_gpus > shape.gpus_per_node) { machine->link_group_gpus = shape.gpus_per_node; }
    if ((st = redco_machine_set_orders(machine, node, err)) != REDCO_OK) { return st; }
    machine->scale_up_bytes_per_s = scale_up_rate(node, machine);
    machine->peer_bytes_per_s = machine->gpu.pcie_bytes_per_s;
    /* NICs of the hosts in use; at least one, should a node have fewer NICs than hosts. */
    machine->nics_per_node = (uint32_t)((uint64_t)nics * shape.hosts / offer->hosts);
    if (machine->nics_per_node == 0 && nics > 0) { machine->nics_per_node = 1; }
    machine->nic_bytes_per_s = nic_bytes_per_s;
    machine->node_network_bytes_per_s = machine->nics_per_node * nic_bytes_per_s;
    machine->whole_node_gpus = offer->hosts * offer->gpus_per_host;
    machine->most_nodes = nics > 0 ? offer->nodes[offer->hosts] : 1;
    machine->oversubscription_ratio = cluster->oversubscription_ratio;
    machine->network_latency_s = cluster->latency_s;
    return find_nodes_per_leaf(cluster, shape, &machine->nodes_per_leaf, err);
}

redco_status redco_cluster_machine(const redco_cluster *cluster, uint64_t gpus, redco_machine *machine_out,
                                   redco_error *err)
{
    struct offer offer;
    struct shape shape = {0};
    redco_machine machine = {0};
    redco_status st = make_offer(cluster, &offer, err);
    if (st != REDCO_OK) { goto out; }
    if (gpus == 0 && cluster->tree == NULL && cluster->nodes == 0) {
        st = redco_fail(err, REDCO_EVALUE, "gpus", "is missing: \"%s\" has no fixed size, so say how many GPUs",
                        cluster->name);
        goto out;
    }
    if (gpus == 0) {
        shape = largest_shape(&offer);
    } else if (!find_shape(&offer, gpus, &shape)) {
        st = fail_shape(cluster, &offer, gpus, err);
        goto out;
    }
    if ((st = fill_machine(cluster, &offer, shape, &machine, err)) != REDCO_OK) { goto out; }
    *machine_out = machine;
out:
    free(offer.nodes);
    return st;
}
