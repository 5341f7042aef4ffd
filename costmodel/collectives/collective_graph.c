/* The result of NCCL's graph search, in closed form: channels and rates per channel.
 *
 * NCCL takes a rate per channel from a fixed list, lays as many channels as the links' budget permits, and lowers the
 * rate while that may pay. On a node whose GPUs all reach one another at the same rate the outcome needs no search:
 *   one node       n = floor(budget / s), s maximising n * s
 *   several nodes  n <= ports, s <= port rate, and (n - floor(n / gpus)) * s <= budget: a ring leaves every GPU by its
 *                  links in all channels but those that go out through the GPU's own port
 * Rates of lists and links: NCCL 2.30.7 src/graph/search.cc, src/graph/topo.h; Infinity Fabric: RCCL src/graph/topo.h
 * (36 GB/s per MI200 link of 50, 48 per MI300 link of 64). Checked against the channels NCCL logs on A100, A800, H100,
 * H800, B200.
 *
 * Fabrics that NCCL searches and this file approximates (where a machine has the links between its GPUs, the least cut
 * of a group takes the place of the first, gpu_order.h):
 *   point to point (bridges, hybrid meshes, XGMI)  a GPU of a group of g among L joined GPUs uses the links to the
 * other g - 1 members only: (g - 1)/(L - 1) of its links' rate. A group not inside one link group uses PCIe. PCIe
 * budget = peer_bytes_per_s, which the topology reader has already lowered to what bridges and sockets carry; Intel
 * hosts lose a sixth (GPU-to-GPU packets of 64 bytes, NCCL's "P2P overhead" 6/5). The NIC shares the GPU's slot, so all
 * channels count against the budget. NICs           k ports, GPU i nearest to port floor(i k / GPUs). More NICs than
 * GPUs: those of one GPU act as one port of their joint rate (NIC fusion since NCCL 2.23, multi-rail plug-ins). A NIC
 * of unknown rate counts 10 Gb/s. */
#include "costmodel/collectives/collective_nccl.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { MAX_RING_CHANNELS = 32, LISTS = 3, LIST_END = 0 };

/* GB/s per channel, 0 ends a list. Since 1; source: NCCL 2.30.7, src/graph/search.cc. */
static const double intra_list[LISTS][20] = {
    {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, LIST_END},
    {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3, LIST_END},
    {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18, LIST_END},
};
static const double inter_list[LISTS][24] = {
    {48, 30, 28, 24, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3, 2.4, 1.2, 0.24, 0.12, LIST_END},
    {48, 45, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12, LIST_END},
    {96, 86, 80, 48, 45.1, 42, 40, 30, 24, 22, 20, 17.5, 15, 12, 6, 3, 2.4, 1.2, 0.24, 0.12, LIST_END},
};

/* NCCL rates a PCIe Gen4 x16 slot 24 GB/s where 31.5 are there after coding; likewise the other generations. What it
 * does not know it takes for 10 Gb/s and a slot of Gen3 x16. Since 1; source: NCCL 2.30.7, src/graph/topo.h, topo.cc.
 */
static const double pcie_use_ratio = 24.0 / 31.5;
static const double intel_peer_overhead = 6.0 / 5.0;
static const double unknown_nic_bytes_per_s = 1.25e9;
static const double unknown_pcie_bytes_per_s = 15.75e9;
/* NCCL lays channels of 24 GB/s over a NIC of 25, 48 over 50. Since 1; source: NCCL 2.30.7, src/graph/search.cc. */
static const double nic_use_ratio = 0.96;
/* Quotients of rates are rounded. */
static const double rounding = 1.0 + 1e-9;

static bool is_nvidia(const redco_gpu *gpu)
{
    return gpu->maker == REDCO_GPU_NVIDIA && !redco_gpu_is_host(gpu);
}

/* AMD's CDNA3 is the first with FP8; others have no compute capability to go by. */
static redco_nccl_arch arch_of(const redco_gpu *gpu)
{
    if (!is_nvidia(gpu)) { return gpu->fp8_flops_per_s > 0.0 ? REDCO_NCCL_HOPPER : REDCO_NCCL_AMPERE; }
    if (gpu->compute_capability >= 100) { return REDCO_NCCL_BLACKWELL; }
    if (gpu->compute_capability >= 90) { return REDCO_NCCL_HOPPER; }
    return gpu->compute_capability >= 80 ? REDCO_NCCL_AMPERE : REDCO_NCCL_VOLTA;
}

static uint32_t capability_of(const redco_gpu *gpu)
{
    static const uint32_t by_arch[] = {70, 80, 90, 100};
    return is_nvidia(gpu) && gpu->compute_capability > 0 ? gpu->compute_capability : by_arch[arch_of(gpu)];
}

/* NCCL's rate of a link over the data sheet's: e.g. 20 of 25 GB/s per NVLink3, 20.6 of 25 per NVLink4. */
static double link_use_ratio(const redco_gpu *gpu)
{
    if (redco_gpu_is_host(gpu)) { return 1.0; }
    if (gpu->maker == REDCO_GPU_AMD) { return gpu->fp8_flops_per_s > 0.0 ? 48.0 / 64.0 : 36.0 / 50.0; }
    const uint32_t capability = capability_of(gpu);
    if (capability >= 100) { return 40.1 / 50.0; }
    if (capability >= 90) { return 20.6 / 25.0; }
    if (capability >= 86 && capability < 89) { return 12.0 / 14.0625; }
    if (capability >= 70) { return 20.0 / 25.0; }
    return 18.0 / 20.0;
}

static uint32_t physical_gpus(const redco_machine *machine)
{
    const uint32_t physical = machine->node_gpus_physical;
    return physical > machine->gpus_per_node ? physical : (machine->gpus_per_node > 0 ? machine->gpus_per_node : 1);
}

static double slot_bytes_per_s(const redco_machine *machine)
{
    const double raw = machine->gpu.pcie_bytes_per_s > 0.0 ? machine->gpu.pcie_bytes_per_s : unknown_pcie_bytes_per_s;
    return redco_gpu_is_host(&machine->gpu) ? raw : raw * pcie_use_ratio;
}

static double peer_bytes_per_s(const redco_machine *machine)
{
    const double ratio = redco_gpu_is_host(&machine->gpu) ? 1.0 : pcie_use_ratio;
    const double raw = machine->peer_bytes_per_s > 0.0 ? machine->peer_bytes_per_s * ratio : slot_bytes_per_s(machine);
    return machine->cpu == REDCO_CPU_INTEL && !redco_gpu_is_host(&machine->gpu) ? raw / intel_peer_overhead : raw;
}

static void reach_links(const redco_machine *machine, uint32_t gpus, uint32_t stride, redco_nccl_reach *reach)
{
    const uint32_t joined = machine->link_group_gpus;
    const redco_group here = {.mesh = {gpus, 1}, .stride = stride};
    const double full = machine->scale_up_bytes_per_s * link_use_ratio(&machine->gpu);
    reach->linked = full > 0.0 && machine->fabric != REDCO_FABRIC_PCIE &&
                    (machine->fabric == REDCO_FABRIC_SWITCH || redco_group_crosses(here, joined) == REDCO_GROUP_LINKED);
    if (!reach->linked) {
        reach->link_bytes_per_s = peer_bytes_per_s(machine);
    } else if (machine->fabric == REDCO_FABRIC_DIRECT && joined > 2 && gpus > 1 && gpus < joined) {
        reach->link_bytes_per_s = full * (gpus - 1.0) / (joined - 1.0);
    } else {
        reach->link_bytes_per_s = full;
    }
    /* One GPU has no links inside the node to be slow. */
    if (gpus <= 1 && machine->fabric != REDCO_FABRIC_PCIE) { reach->linked = true; }
}

void redco_nccl_reach_links(const redco_machine *machine, double links_bytes_per_s, redco_nccl_reach *reach)
{
    reach->linked = links_bytes_per_s > 0.0;
    reach->link_bytes_per_s =
        reach->linked ? links_bytes_per_s * link_use_ratio(&machine->gpu) : peer_bytes_per_s(machine);
}

/* The share of a leaf's up-links that one group's ring gets: see redco_nccl_reach_of(). */
static double up_link_share(const redco_machine *machine, redco_group group, double network)
{
    const uint64_t leaf = machine->nodes_per_leaf, apart = group.node_stride > 0 ? group.node_stride : 1;
    if (leaf == 0 || apart * group.mesh.nodes <= leaf || !(machine->oversubscription_ratio > 1.0)) { return INFINITY; }
    const double rings = (double)group.groups_per_node * (double)(apart < leaf ? apart : leaf);
    return (double)leaf * network / machine->oversubscription_ratio / rings;
}

static void reach_network(const redco_machine *machine, redco_group group, redco_nccl_reach *reach)
{
    const uint32_t gpus = physical_gpus(machine), here = group.mesh.gpus;
    const uint32_t nics = machine->nics_per_node > 0 ? machine->nics_per_node : 1;
    double network = machine->node_network_bytes_per_s;
    double nic = machine->nic_bytes_per_s;
    if (network <= 0.0) { network = nics * (nic > 0.0 ? nic : unknown_nic_bytes_per_s); }
    if (nic <= 0.0) { nic = network / nics; }
    if (nics > gpus) {
        reach->ports = here;
        nic = network / gpus;
    } else {
        /* Distinct values of floor(i * stride * nics / gpus): all different where neighbours are a port or more apart.
         */
        const uint64_t apart = (uint64_t)group.stride * nics;
        const uint64_t ports = apart >= gpus ? here : (here * apart + gpus - 1) / gpus;
        reach->ports = (uint32_t)(ports < 1 ? 1 : (ports > here ? here : ports));
        if (reach->ports > nics) { reach->ports = nics; }
    }
    reach->port_bytes_per_s = fmin(nic, slot_bytes_per_s(machine));
    reach->port_payload_bytes_per_s = fmin(nic * nic_use_ratio, slot_bytes_per_s(machine));
    const double left = fmin(network / group.groups_per_node, up_link_share(machine, group, network));
    const double alone = reach->ports * nic;
    reach->share_ratio = left < alone ? left / alone : 1.0;
}

redco_nccl_reach redco_nccl_reach_of(const redco_machine *machine, redco_group group)
{
    redco_nccl_reach reach = {.share_ratio = 1.0};
    if (group.stride == 0) { group.stride = 1; }
    if (group.groups_per_node == 0) { group.groups_per_node = 1; }
    reach_links(machine, group.mesh.gpus, group.stride, &reach);
    if (group.mesh.nodes > 1) { reach_network(machine, group, &reach); }
    return reach;
}

static int list_of(const redco_machine *machine)
{
    const redco_nccl_arch arch = arch_of(&machine->gpu);
    return arch == REDCO_NCCL_BLACKWELL ? 2 : (arch == REDCO_NCCL_HOPPER ? 1 : 0);
}

/* All in GB/s. */
struct found {
    double channels, rate;
    size_t index; /* place of the rate in its list */
};

static struct found search_one_node(const double *list, double budget)
{
    struct found best = {0.0, 0.0, 0};
    for (size_t i = 0; list[i] > 0.0 && (best.rate == 0.0 || list[i] > 0.49 * best.rate); i++) {
        const double channels = fmin(floor(budget / list[i] * rounding), MAX_RING_CHANNELS);
        if (channels * list[i] > best.channels * best.rate) { best = (struct found){channels, list[i], i}; }
    }
    return best;
}

/* Channels that leave the busiest GPU by its links: all, but for those that go out through its own port. */
static double link_channels(double channels, uint32_t gpus, bool linked)
{
    if (gpus <= 1) { return 0.0; }
    return linked ? channels - floor(channels / gpus) : channels;
}

static struct found search_nodes(const double *list, const redco_nccl_reach *reach, uint32_t gpus)
{
    struct found best = {0.0, 0.0, 0};
    const double port = reach->port_bytes_per_s * 1e-9 * rounding;
    const double budget = reach->link_bytes_per_s * 1e-9 * rounding;
    for (size_t i = 0; list[i] > 0.0 && (best.rate == 0.0 || list[i] > 0.49 * best.rate); i++) {
        double channels = fmin(reach->ports, MAX_RING_CHANNELS);
        if (list[i] > port) { continue; }
        while (channels > 0.0 && link_channels(channels, gpus, reach->linked) * list[i] > budget) { channels -= 1.0; }
        if (channels * list[i] > best.channels * best.rate) { best = (struct found){channels, list[i], i}; }
    }
    return best;
}

/* Wide channels are split in two, which more threads can fill. */
static double split_factor(uint32_t capability, const struct found *ring)
{
    const bool keep = ring->rate < 25.0 || (capability > 80 && ring->rate < 50.0 && ring->channels > 4.0);
    return !keep && ring->channels * 2.0 <= MAX_RING_CHANNELS ? 2.0 : 1.0;
}

static redco_nccl_graph graph(double channels, double intra_gb_per_s, double inter_gb_per_s)
{
    return (redco_nccl_graph){channels, intra_gb_per_s * 1e9, inter_gb_per_s * 1e9};
}

/* A head per GPU; each GPU sends to the switch once for every head and once more for its own. Then the network rate is
 * raised, on one node without limit, while below twice the inside rate. */
static redco_nccl_graph search_nvls(const redco_machine *machine, uint32_t gpus, bool several_nodes,
                                    const redco_nccl_reach *reach)
{
    const bool able = machine->fabric == REDCO_FABRIC_SWITCH && is_nvidia(&machine->gpu) &&
                      capability_of(&machine->gpu) >= 90 && gpus >= 2;
    if (!able) { return graph(0.0, 0.0, 0.0); }
    const double *list = several_nodes ? inter_list[list_of(machine)] : intra_list[list_of(machine)];
    double heads = fmin(gpus, MAX_RING_CHANNELS);
    double port = INFINITY;
    if (several_nodes) {
        heads = fmin(heads, reach->ports);
        port = reach->port_bytes_per_s * 1e-9 * rounding;
    }
    const double budget = reach->link_bytes_per_s * 1e-9 * rounding;
    size_t i = 0;
    while (list[i] > 0.0 && ((heads + 1.0) * list[i] > budget || list[i] > port)) { i++; }
    if (list[i] <= 0.0) { return graph(0.0, 0.0, 0.0); }
    const double intra = list[i];
    while (i > 0 && list[i] < 2.0 * intra && list[i - 1] <= port) { i--; }
    return graph(heads, intra, list[i]);
}

redco_nccl_graphs redco_nccl_search(const redco_machine *machine, uint32_t gpus, bool several_nodes,
                                    const redco_nccl_reach *reach)
{
    redco_nccl_graphs graphs;
    const uint32_t capability = capability_of(&machine->gpu);
    const double budget = reach->link_bytes_per_s * 1e-9;
    if (!several_nodes) {
        struct found ring = search_one_node(intra_list[list_of(machine)], budget);
        if (ring.channels == 0.0) { ring = (struct found){1.0, budget, 0}; } /* slower than the list's end */
        const double split = split_factor(capability, &ring);
        graphs.ring = graph(ring.channels * split, ring.rate / split, ring.rate / split);
        graphs.tree = graphs.ring;
    } else {
        const double *list = inter_list[list_of(machine)];
        struct found ring = search_nodes(list, reach, gpus);
        if (ring.channels == 0.0) {
            const double port = reach->port_bytes_per_s * 1e-9;
            ring = (struct found){1.0, gpus > 1 ? fmin(port, budget) : port, 0};
        }
        /* A two-node tree sends half of the data through each NIC: the search raises the rate inside the node. */
        double inside = ring.rate;
        for (size_t i = ring.index; i > 0 && inside < 2.0 * ring.rate; i--) {
            if (link_channels(ring.channels, gpus, reach->linked) * list[i - 1] > budget * rounding) { break; }
            inside = list[i - 1];
        }
        const double split = split_factor(capability, &ring);
        graphs.ring = graph(ring.channels * split, ring.rate / split, ring.rate / split);
        graphs.tree = graph(ring.channels * split, inside / split, ring.rate / split);
    }
    graphs.nvls = search_nvls(machine, gpus, several_nodes, reach);
    return graphs;
}

redco_nccl_group redco_nccl_group_of(const redco_machine *machine, redco_mesh mesh, bool linked)
{
    const redco_cpu_vendor cpu = machine->cpu;
    return (redco_nccl_group){
        .ranks = mesh.gpus * mesh.nodes,
        .nodes = mesh.nodes,
        .arch = arch_of(&machine->gpu),
        .compute_capability = capability_of(&machine->gpu),
        .linked = linked,
        /* LL128 needs 128-byte stores that arrive whole: links, not PCIe, between the GPUs of a node. */
        .ll128 = linked,
        .cpu_amd = cpu == REDCO_CPU_AMD,
        .cpu_x86 = cpu != REDCO_CPU_ARM && cpu != REDCO_CPU_POWER,
        .cpu_power = cpu == REDCO_CPU_POWER,
        .network_latency_s = machine->network_latency_s,
    };
}

void redco_nccl_set_graphs(redco_nccl_group *group, const redco_nccl_graphs *graphs, double share_ratio)
{
    group->ring = graphs->ring;
    group->tree = graphs->tree;
    group->nvls = graphs->nvls;
    if (group->nodes <= 1 || share_ratio >= 1.0) { return; }
    group->ring.inter_bytes_per_s *= share_ratio;
    group->ring.intra_bytes_per_s = fmin(group->ring.intra_bytes_per_s, group->ring.inter_bytes_per_s);
    /* On two nodes NCCL prices a tree by its inside rate, of which the network carries half. */
    group->tree.inter_bytes_per_s *= share_ratio;
    group->tree.intra_bytes_per_s = fmin(group->tree.intra_bytes_per_s, 2.0 * group->tree.inter_bytes_per_s);
    group->nvls.inter_bytes_per_s *= share_ratio;
}
