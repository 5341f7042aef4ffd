/* Seconds of collectives inside a training step: what they take alone, by the calibration. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>
#include <string.h>

/* Ring collectives reach this share of the links' rate. Since 1; source: NCCL 2.30.7, src/graph/search.cc on NVSwitch
 * nodes: A100 240 of 300, H100 360 of 450, B200 720 of 900 GB/s. */
static const double ring_link_ratio = 0.8;
/* Rings over many nodes lose this share of the network's rate per doubling. Since 1; source: public measurements
 * (CALIBRATION.md). */
static const double spread_loss_ratio = 0.03;
/* Where each rank of a node is in a group of its own, every hop of every ring crosses the network, and the rings
 * collide in the switches above the leaves: wire time grows by this share per doubling of their number.
 * Since 2; source: Megatron's runs; NeMo's show that groups with two or four ranks in a node do not feel it
 * (CALIBRATION.md, "ranks without a group"). */
static const double lone_ranks_loss_ratio = 0.2;
/* Nodes below one set of leaf switches; it takes one doubling more for most of a ring's traffic to leave them. Since 2;
 * source: assumed, as the presets of clusters have it (topology/presets/clusters). */
static const double leaf_nodes = 16.0;
/* Buckets over NICs slow computation down by this share of what traffic over NVLink does: 0.02 for 0.15 of the
 * multiprocessors. Since 2; source: Calculon's systems (Isaev et al., SC 2023). */
static const double nic_contention_ratio = 2.0 / 15.0;
/* A broadcast's pipeline fills at this share of the latency of a whole ring of hops. Since 1; source: public
 * measurements: 0.25 to 0.75 of it (CALIBRATION.md). */
static const double broadcast_fill_ratio = 0.5;

/* Traffic that is hidden shows by this share at least (window() of STEP.md). Since 1; source: public measurements
 * (CALIBRATION.md). */
const double redcoi_hidden_residue_ratio = 0.03;

static bool price_matches(const redcoi_price *price, redco_collective op, double size_bytes, redco_group group)
{
    return price->size_bytes == size_bytes && price->op == op && redco_mesh_equal(price->group.mesh, group.mesh) &&
           price->group.stride == group.stride && price->group.groups_per_node == group.groups_per_node &&
           price->group.tp == group.tp && price->group.node_stride == group.node_stride;
}

/* @return NULL for a group of one rank or nothing to send, which take no time */
static redcoi_price *price_of(redco_costs *costs, redco_collective op, double size_bytes, redco_group group)
{
    if (!(size_bytes > 0.0) || redco_mesh_ranks(group.mesh) <= 1) { return NULL; }
    uint64_t key = 0;
    memcpy(&key, &size_bytes, sizeof key);
    key ^= ((uint64_t)op << 56) ^ ((uint64_t)group.mesh.gpus << 40) ^ ((uint64_t)group.mesh.nodes << 16) ^
           ((uint64_t)group.stride << 8) ^ ((uint64_t)group.tp << 32) ^ ((uint64_t)group.node_stride << 24) ^
           group.groups_per_node;
    key *= UINT64_C(0x9e3779b97f4a7c15); /* Fibonacci hashing: the high bits mix all of the key */
    redcoi_price *const slot = &costs->prices[key >> 52];
    if (!price_matches(slot, op, size_bytes, group)) {
        *slot = (redcoi_price){size_bytes, op, group, redco_comm_price(costs->comm, op, size_bytes, group), 0.0, 0};
    }
    return slot;
}

_Static_assert(REDCOI_PRICES_CACHED == 4096, "the hash keeps 12 bits");

redco_comm_time redcoi_price_find(redco_costs *costs, redco_collective op, double size_bytes, redco_group group)
{
    const redcoi_price *const price = price_of(costs, op, size_bytes, group);
    return price != NULL ? price->time : (redco_comm_time){.network = false};
}

/* Bytes that one rank sends over its links for a buffer of @p size_bytes, ring algorithm. */
static double link_bytes(redco_collective op, double size_bytes, double ranks)
{
    switch (op) {
    case REDCO_ALL_REDUCE: return 2.0 * size_bytes * (ranks - 1.0) / ranks;
    case REDCO_ALL_GATHER:
    case REDCO_REDUCE_SCATTER:
    case REDCO_ALL_TO_ALL: return size_bytes * (ranks - 1.0) / ranks;
    default: return size_bytes;
    }
}

/* The factor on a group's wire time where it has one rank in each of many nodes, like others beside it. */
static double lone_ranks_ratio(redco_group group)
{
    const double groups = group.groups_per_node, above = log2((double)group.mesh.nodes / leaf_nodes);
    if (group.mesh.gpus > 1 || !(groups > 1.0) || !(above > 0.0)) { return 1.0; }
    return 1.0 + lone_ranks_loss_ratio * log2(groups) * fmin(1.0, above);
}

double redcoi_contention_ratio(const redco_costs *costs, bool network)
{
    return network ? redcoi_least_contention_ratio(costs) : costs->calibration.contention_ratio;
}

double redcoi_least_contention_ratio(const redco_costs *costs)
{
    return nic_contention_ratio * costs->calibration.contention_ratio;
}

static double step_s(redco_costs *costs, redco_collective op, double size_bytes, redco_group group,
                     redco_comm_time time)
{
    const redco_calibration *const c = &costs->calibration;
    if (time.measured) { return time.latency_s + time.wire_s; } /* the factors below correct NCCL's model only */
    double latency_s = time.latency_s;
    double wire_s = time.wire_s / (time.network ? c->network_efficiency : c->nvlink_efficiency);
    if (time.network && !redco_gpu_is_host(&costs->machine.gpu)) {
        wire_s *= (1.0 + spread_loss_ratio * log2((double)group.mesh.nodes)) * lone_ranks_ratio(group);
    }
    if (wire_s > 0.0 && time.network && group.mesh.gpus > 1 && costs->machine.scale_up_bytes_per_s > 0.0) {
        /* A ring over nodes also passes through every GPU's links, which may be the slower part. */
        const double link_rate = c->nvlink_efficiency * ring_link_ratio * costs->machine.scale_up_bytes_per_s;
        wire_s = fmax(wire_s, link_bytes(op, size_bytes, (double)redco_mesh_ranks(group.mesh)) / link_rate);
    }
    if (op == REDCO_BROADCAST && latency_s > 0.0) {
        const double ring_s = redcoi_price_find(costs, REDCO_ALL_GATHER, size_bytes, group).latency_s;
        latency_s = fmax(latency_s, broadcast_fill_ratio * ring_s);
    }
    return latency_s * c->latency_factor + wire_s;
}

double redcoi_comm_s(redco_costs *costs, redco_collective op, double size_bytes, redco_group group, bool *network_out)
{
    redcoi_price *price = price_of(costs, op, size_bytes, group);
    if (network_out != NULL) { *network_out = price != NULL && price->time.network; }
    if (price == NULL) { return 0.0; }
    if (price->calibrated != costs->calibrated) {
        const double seconds = step_s(costs, op, size_bytes, group, price->time);
        price = price_of(costs, op, size_bytes, group); /* prices of other collectives share its slot */
        price->step_s = seconds;
        price->calibrated = costs->calibrated;
    }
    return price->step_s;
}

double redcoi_transfer_s(const redco_costs *costs, double size_bytes, redco_group pair, bool *network_out)
{
    const redco_calibration *const c = &costs->calibration;
    const redco_comm_time time = redco_comm_price(costs->comm, REDCO_SEND_RECV, size_bytes, pair);
    if (network_out != NULL) { *network_out = time.network; }
    const double efficiency = time.measured ? 1.0 : time.network ? c->network_efficiency : c->nvlink_efficiency;
    return time.wire_s / efficiency;
}

double redco_costs_tp_s(redco_costs *costs, uint32_t tp, redco_collective op, double size_bytes)
{
    const redco_calibration *const c = &costs->calibration;
    if (tp <= 1 || !(size_bytes > 0.0)) { return 0.0; }
    const redco_parallel p = {.gpus_per_node = costs->machine.gpus_per_node, .tp = tp, .cp = 1};
    const redco_comm_time time = redcoi_price_find(costs, op, size_bytes, redco_parallel_tp_group(&p));
    if (time.measured) { return time.latency_s + time.wire_s; }
    return fmax(time.latency_s * c->latency_factor, c->tp_launch_s) + time.wire_s / c->tp_link_efficiency;
}

/* Every rank gets the logits of the others, and later the gradients of its own from them. */
double redcoi_gathered_logits_s(redco_costs *costs, const redco_shape *shape)
{
    if (shape->tp <= 1 || !shape->engine.logits_gathered) { return 0.0; }
    const double tokens = (double)shape->micro_batch * ceil((double)shape->seq_len / shape->cp);
    const double bytes = tokens * (double)costs->dims->vocab * costs->compute.element_bytes;
    const redco_parallel p = {.gpus_per_node = costs->machine.gpus_per_node, .tp = shape->tp, .cp = shape->cp};
    return redcoi_comm_s(costs, REDCO_ALL_GATHER, bytes, redco_parallel_tp_group(&p), NULL);
}

/* The part of the rate of a GPU's slot that copies of pinned memory reach. Since 2; source: assumed, 25 GB/s of PCIe
 * Gen4 x16's 31.5. */
static const double host_copy_ratio = 0.8;

double redcoi_host_copy_s(const redco_costs *costs, double bytes)
{
    const double rate = costs->machine.gpu.pcie_bytes_per_s;
    return rate > 0.0 ? bytes / (host_copy_ratio * rate) : 0.0;
}
