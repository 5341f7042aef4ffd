#include "costmodel/collectives/collective_nccl.h"

#include <math.h>

/* Times in microseconds and rates in GB/s = 1e9 B/s, as in NCCL's source. */

enum { TREE = REDCO_NCCL_TREE, RING = REDCO_NCCL_RING, DIRECT = REDCO_NCCL_COLLNET_DIRECT };
enum { CHAIN = REDCO_NCCL_COLLNET_CHAIN, NVLS = REDCO_NCCL_NVLS, NVLS_TREE = REDCO_NCCL_NVLS_TREE };
enum { PAT = REDCO_NCCL_PAT, ALGORITHMS = REDCO_NCCL_ALGORITHM_COUNT };
enum {
    LL = REDCO_NCCL_LL,
    LL128 = REDCO_NCCL_LL128,
    SIMPLE = REDCO_NCCL_SIMPLE,
    PROTOCOLS = REDCO_NCCL_PROTOCOL_COUNT
};
enum { HW_NVLINK, HW_PCI, HW_NET, HW_COUNT };
enum { ARCHS = 4, COLUMNS = 3 }; /* columns: one node, two, more */

/* Since 1; source of these tables: NCCL 2.30.7, src/graph/tuning.cc. */
static const double base_latency_us[ALGORITHMS][PROTOCOLS] = {
    [TREE] = {6.8, 14.0, 8.4}, [RING] = {6.6, 14.0, 8.4}, [PAT] = {8.0, 8.0, 8.0}};
static const double hardware_latency_us[HW_COUNT][ALGORITHMS][PROTOCOLS] = {
    [HW_NVLINK] = {[TREE] = {0.6, 1.25, 4.0},
                   [RING] = {0.6, 1.9, 3.4},
                   [DIRECT] = {0.0, 0.0, 3.7},
                   [CHAIN] = {0.0, 0.0, 2.8},
                   [NVLS] = {0.0, 0.0, 25.0},
                   [NVLS_TREE] = {0.0, 0.0, 25.0},
                   [PAT] = {0.0, 0.0, 4.0}},
    [HW_PCI] = {[TREE] = {1.0, 1.9, 4.0},
                [RING] = {1.0, 2.5, 5.7},
                [DIRECT] = {0.0, 0.0, 3.7},
                [CHAIN] = {0.0, 0.0, 2.8},
                [PAT] = {0.0, 0.0, 4.0}},
    [HW_NET] = {[TREE] = {5.0, 8.5, 14.0},
                [RING] = {2.7, 4.0, 14.0},
                [DIRECT] = {0.0, 0.0, 31.0},
                [CHAIN] = {0.0, 0.0, 30.0},
                [NVLS] = {0.0, 0.0, 18.0},
                [NVLS_TREE] = {0.0, 0.0, 20.9},
                [PAT] = {0.0, 0.0, 14.0}},
};
static const double ll_cap_gb_per_s[ARCHS][COLUMNS] = {
    {39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}};
static const double ring_ll128_cap_gb_per_s[ARCHS][COLUMNS] = {
    {20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {40.0, 40.0, 40.0}};
static const double tree_ll128_cap_gb_per_s[ARCHS][COLUMNS] = {
    {20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}};
static const double tree_cap_gb_per_s[ARCHS][COLUMNS] = {
    {26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}};
static const double nvls_tree_cap_gb_per_s[ARCHS][COLUMNS] = {
    {26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 80.0}};
static const double nvls_efficiency[ARCHS] = {0.0, 0.0, 0.85, 0.74};

enum { CORRECTIONS = 24 };
/* By log2(S / 64 B). Since 1; source: NCCL 2.30.7, src/graph/tuning.cc, treeCorrectionFactor. */
static const double tree_correction[PROTOCOLS][CORRECTIONS] = {
    [LL] = {1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1.0, 1.0, 1.0, 1.0, 1.0},
    [LL128] = {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1.0, 1.0, 1.0},
    [SIMPLE] = {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
};

static int log2_floor(uint64_t x)
{
    return x == 0 ? -1 : 63 - __builtin_clzll(x);
}

static uint32_t column_of(uint32_t nodes)
{
    return nodes >= COLUMNS ? COLUMNS - 1 : nodes - 1;
}

static double ranks_per_node(const redco_nccl_group *group)
{
    return (double)group->ranks / group->nodes;
}

static bool is_gather(redco_collective op)
{
    return op == REDCO_ALL_GATHER || op == REDCO_REDUCE_SCATTER;
}

static const redco_nccl_graph *graph_of(const redco_nccl_group *group, int algorithm)
{
    switch (algorithm) {
    case TREE: return &group->tree;
    case NVLS:
    case NVLS_TREE: return &group->nvls;
    case DIRECT:
    case CHAIN: return &group->collnet;
    default: return &group->ring;
    }
}

static bool exists(const redco_nccl_group *group, redco_collective op, int algorithm, int protocol)
{
    const bool reduce_all = op == REDCO_ALL_REDUCE;
    if (group->algorithms != 0 && (group->algorithms & (1u << algorithm)) == 0) { return false; }
    if (group->protocols != 0 && (group->protocols & (1u << protocol)) == 0) { return false; }
    if (protocol == LL128 && (!group->ll128 || group->compute_capability < 70)) { return false; }
    if (algorithm != TREE && algorithm != RING && protocol != SIMPLE) { return false; }
    if (graph_of(group, algorithm)->channels <= 0.0) { return false; }
    const bool nvls_here = group->arch >= REDCO_NCCL_HOPPER && group->nvls.channels >= 2.0;
    switch (algorithm) {
    case RING: return true;
    case TREE:
    case CHAIN: return reduce_all;
    case NVLS_TREE: return reduce_all && nvls_here && group->nodes > 1;
    /* Over several nodes NVLS reduces in the network: all-reduce with CollNet only. */
    case NVLS:
        return nvls_here &&
               (group->nodes == 1 ? reduce_all || is_gather(op) : reduce_all && group->collnet.channels > 0.0);
    case DIRECT: return reduce_all;
    case PAT: return is_gather(op) && group->nodes == group->ranks && group->compute_capability >= 60;
    default: return false;
    }
}

static double nvls_rate(const redco_nccl_group *group, redco_collective op, bool tree)
{
    const redco_nccl_graph *graph = &group->nvls;
    const double ppn = ranks_per_node(group);
    const double use = op == REDCO_ALL_REDUCE ? 2.0 : (ppn - 1.0) / ppn;
    const double intra = graph->intra_bytes_per_s * 1e-9 * nvls_efficiency[group->arch] *
                         ((graph->channels - 1.0) / graph->channels) * use;
    const double inter = graph->inter_bytes_per_s * 1e-9 * (tree && group->nodes <= 2 ? 2.0 : 1.0);
    const double rate = fmin(intra, inter);
    return tree ? fmin(rate, nvls_tree_cap_gb_per_s[group->arch][column_of(group->nodes)]) : rate;
}

static double bus_gb_per_s(const redco_nccl_group *group, redco_collective op, int algorithm, int protocol)
{
    const redco_nccl_graph *graph = graph_of(group, algorithm);
    const uint32_t column = column_of(group->nodes);
    const bool collnet = algorithm == DIRECT || algorithm == CHAIN;
    const double channels = graph->channels;
    /* One node caps LL by its GPU, several by the CPU that drives the NICs. */
    const double ll_cap = ll_cap_gb_per_s[group->nodes == 1 ? (int)group->arch : (group->cpu_amd ? 1 : 0)][column];
    double rate = (group->nodes <= 2 || collnet ? graph->intra_bytes_per_s : graph->inter_bytes_per_s) * 1e-9;
    if (algorithm == NVLS || algorithm == NVLS_TREE) { rate = nvls_rate(group, op, algorithm == NVLS_TREE); }
    double bus = channels * rate;
    if (algorithm == RING && protocol == LL) { bus = fmin(ll_cap, 0.5 * bus); }
    if (algorithm == RING && protocol == LL128) {
        bus = fmin(0.92 * bus, channels * ring_ll128_cap_gb_per_s[group->arch][column]);
    }
    if (algorithm == TREE) {
        bus = fmin(0.92 * bus, channels * tree_cap_gb_per_s[group->arch][column]);
        if (protocol == LL) { bus = fmin(bus / 3.8, ll_cap); }
        if (protocol == LL128) {
            bus = fmin(bus * (group->nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                       channels * tree_ll128_cap_gb_per_s[group->arch][column]);
        }
        if (group->tree_unbalanced) { bus *= 0.85; }
    }
    if (algorithm == PAT) { bus *= 0.75; }
    if (algorithm == DIRECT) {
        double factor = ranks_per_node(group) / channels;
        factor -= (factor - 1.0) / 2.0;
        bus /= factor;
        if (group->compute_capability >= 90) { bus *= 0.85; }
    }
    return bus;
}

static double ring_steps(redco_collective op, double ranks)
{
    if (op == REDCO_ALL_REDUCE) { return 2.0 * (ranks - 1.0); }
    return is_gather(op) ? ranks - 1.0 : ranks;
}

/* Algorithm bandwidth over bus bandwidth. */
static double bandwidth_ratio(const redco_nccl_group *group, redco_collective op, int algorithm)
{
    const bool nvls = algorithm == NVLS || algorithm == NVLS_TREE;
    if (algorithm == RING || (nvls && op == REDCO_ALL_REDUCE)) { return group->ranks / ring_steps(op, group->ranks); }
    return is_gather(op) ? 1.0 : 0.5;
}

struct hops {
    double intra_us, inter_us, posting_us;
};

static struct hops hops_of(const redco_nccl_group *group, int algorithm, int protocol)
{
    const double post_us = group->cpu_amd ? 2.0 : 1.0;
    const double extra_us = group->network_latency_s * 1e6;
    /* One rank per node has no chain inside the node: the ring is priced with the tree's network latency. */
    const int network_algorithm = group->ranks == group->nodes ? TREE : algorithm;
    double intra_us = hardware_latency_us[group->linked ? HW_NVLINK : HW_PCI][algorithm][protocol];
    if (group->cpu_power && !group->linked && algorithm == TREE && protocol == SIMPLE) {
        intra_us = hardware_latency_us[HW_PCI][RING][SIMPLE];
    }
    return (struct hops){
        .intra_us = intra_us,
        /* Simple flushes the received data, a second trip. */
        .inter_us =
            hardware_latency_us[HW_NET][network_algorithm][protocol] + extra_us * (protocol == SIMPLE ? 2.0 : 1.0),
        .posting_us = post_us * (protocol == SIMPLE ? 3.0 : 1.0),
    };
}

static double ring_latency_us(const redco_nccl_group *group, redco_collective op, int protocol, double size_bytes)
{
    const struct hops hops = hops_of(group, RING, protocol);
    const double base_us = base_latency_us[RING][protocol];
    const double nodes = group->nodes;
    if (op == REDCO_BROADCAST || op == REDCO_REDUCE) {
        return base_us + (group->nodes > 1
                              ? hardware_latency_us[HW_NET][RING][protocol] + group->network_latency_s * 1e6
                              : hops.intra_us);
    }
    const double steps = ring_steps(op, group->ranks);
    double network_steps = 0.0;
    double intra_us = hops.intra_us;
    if (group->nodes > 1) {
        network_steps = (op == REDCO_ALL_REDUCE ? 2.0 : 1.0) * (nodes - 1.0);
        intra_us = fmax(intra_us, hops.posting_us);
    }
    double latency_us = base_us + (steps - network_steps) * intra_us + network_steps * hops.inter_us;
    if (protocol == SIMPLE && op == REDCO_ALL_REDUCE && group->nodes > 1 &&
        size_bytes / (group->ring.channels * group->ranks) >= 64.0) {
        latency_us *= group->compute_capability < 80 ? 1.9 : 1.4;
    }
    return latency_us;
}

static double latency_us_of(const redco_nccl_group *group, redco_collective op, int algorithm, int protocol,
                            double size_bytes)
{
    if (algorithm == RING) { return ring_latency_us(group, op, protocol, size_bytes); }
    const struct hops hops = hops_of(group, algorithm, protocol);
    const double base_us = base_latency_us[algorithm][protocol];
    const uint32_t local = group->ranks / group->nodes;
    const double others = (double)local - 1.0;
    const double levels = log2_floor(group->nodes);
    switch (algorithm) {
    case TREE: return base_us + 2.0 * (others * hops.intra_us + levels * hops.inter_us);
    case DIRECT: return base_us + 2.0 * (fmin(1.0, others) * hops.intra_us + others * 0.4) + hops.inter_us;
    case CHAIN: return base_us + 2.0 * others * hops.intra_us + hops.inter_us;
    case NVLS: return hops.intra_us + (group->nodes > 1 ? hops.inter_us : 0.0);
    case NVLS_TREE: return hops.intra_us + 2.0 * levels * hops.inter_us;
    case PAT: return base_us + levels * hops.inter_us / 3.5 + 2.8 * group->ranks;
    default: return base_us;
    }
}

static double correction_of(const redco_nccl_group *group, redco_collective op, int algorithm, int protocol,
                            double size_bytes)
{
    const int step = size_bytes < 9e18 ? log2_floor((uint64_t)size_bytes >> 6) : CORRECTIONS;
    if (op != REDCO_ALL_REDUCE || step < 0) { return 1.0; }
    if (algorithm == TREE && step < CORRECTIONS - 1) { return tree_correction[protocol][step]; }
    if (algorithm == NVLS_TREE && group->arch == REDCO_NCCL_BLACKWELL && group->cpu_x86 && step < CORRECTIONS) {
        return tree_correction[protocol][step];
    }
    return 1.0;
}

bool redco_nccl_price(const redco_nccl_group *group, redco_collective op, redco_nccl_algorithm algorithm,
                      redco_nccl_protocol protocol, double size_bytes, redco_nccl_time *time_out)
{
    if (op > REDCO_REDUCE || !exists(group, op, (int)algorithm, (int)protocol)) { return false; }
    const double bus = bus_gb_per_s(group, op, (int)algorithm, (int)protocol);
    const double rate = bus * bandwidth_ratio(group, op, (int)algorithm) *
                        correction_of(group, op, (int)algorithm, (int)protocol, size_bytes);
    if (!(rate > 0.0)) { return false; }
    *time_out = (redco_nccl_time){
        .latency_s = latency_us_of(group, op, (int)algorithm, (int)protocol, size_bytes) * 1e-6,
        .bytes_per_s = rate * 1e9,
        .algorithm = algorithm,
        .protocol = protocol,
    };
    return true;
}

bool redco_nccl_fastest(const redco_nccl_group *group, redco_collective op, double size_bytes,
                        redco_nccl_time *time_out)
{
    double least_s = INFINITY;
    for (int algorithm = 0; algorithm < ALGORITHMS; algorithm++) {
        for (int protocol = 0; protocol < PROTOCOLS; protocol++) {
            redco_nccl_time time;
            if (!redco_nccl_price(group, op, (redco_nccl_algorithm)algorithm, (redco_nccl_protocol)protocol, size_bytes,
                                  &time)) {
                continue;
            }
            const double total_s = time.latency_s + size_bytes / time.bytes_per_s;
            if (total_s < least_s) {
                least_s = total_s;
                *time_out = time;
            }
        }
    }
    return isfinite(least_s);
}

double redco_nccl_chain_s(const redco_nccl_group *group, redco_collective op, redco_nccl_protocol protocol)
{
    if (op != REDCO_BROADCAST && op != REDCO_REDUCE) { return 0.0; }
    const struct hops hops = hops_of(group, RING, (int)protocol);
    const double network = group->nodes - 1.0;
    const double inside = group->ranks - 1.0 - network;
    const double all_us = inside * hops.intra_us + network * hops.inter_us;
    const double counted_us = group->nodes > 1 ? hops.inter_us : hops.intra_us;
    return fmax(0.0, all_us - counted_us) * 1e-6;
}

double redco_nccl_hop_s(const redco_nccl_group *group, bool network)
{
    const struct hops hops = hops_of(group, RING, SIMPLE);
    return (network ? hops.inter_us : hops.intra_us) * 1e-6;
}
