#include "costmodel/collectives/expert_exchange.h"

#include <math.h>

double redco_exchange_distinct_nodes(uint32_t experts, uint32_t choices, double nodes)
{
    const double each = experts / nodes;
    double none = 1.0; /* probability that no choice lies on a node */
    for (uint32_t i = 0; i < choices && i < experts; i++) { none *= fmax(0.0, experts - each - i) / (experts - i); }
    return nodes * (1.0 - none);
}

/* Ranks of a link domain and the number of domains. */
struct reach {
    double inside, domains;
};

static struct reach reach_of(const redco_exchange *e)
{
    struct reach reach = {e->group.mesh.gpus, e->group.mesh.nodes};
    const double host = (double)e->machine->node_gpus_physical / fmax(1.0, e->machine->hosts_per_node);
    if (e->no_mnnvl && reach.inside > host) {
        reach.domains *= ceil(reach.inside / host);
        reach.inside = host;
    }
    return reach;
}

/* DeepEP 1.2 (deep_ep/buffer.py, get_dispatch_config(); csrc/config.hpp, get_nvl_buffer_size_hint() and
 * get_rdma_buffer_size_hint()): half as many channels as SMs, of which Megatron Core gives it 20 (moe_deepep_num_sms);
 * each channel has room for some rows of every GPU of a node, and of every node, with 128 choices and scales each. */
enum { DEEPEP_CHANNELS = 10, DEEPEP_PEERS = 8, DEEPEP_NODE_ROWS = 128, DEEPEP_ROW_BYTES = 8 + 128 * (8 + 4) + 128 * 4 };
enum { DEEPEP_WORKSPACE = 32 << 20, DEEPEP_VECTOR = 16 };

static double deepep_rows(double ranks)
{
    return ranks <= 8.0 ? 256.0 : ranks <= 64.0 ? 288.0 : ranks <= 96.0 ? 480.0 : ranks <= 128.0 ? 560.0 : 720.0;
}

static double deepep_bytes(const redco_exchange *e, double ranks)
{
    const double row = e->row_bytes + DEEPEP_ROW_BYTES, nodes = fmax(1.0, ranks / DEEPEP_PEERS);
    const double peers = fmin(ranks, DEEPEP_PEERS);
    const double links = DEEPEP_CHANNELS * peers * ((2.0 * nodes + 3.0) * 4.0 + deepep_rows(ranks) * row);
    const double network =
        DEEPEP_CHANNELS * nodes * 2.0 * ((2.0 * DEEPEP_PEERS + 2.0) * 4.0 + DEEPEP_NODE_ROWS * (row + DEEPEP_VECTOR));
    return DEEPEP_WORKSPACE + links + (ranks > DEEPEP_PEERS ? network : 0.0);
}

/* DeepEP's branch hybrid-ep, csrc/hybrid_ep/allocator: a rank has room for all rows of the group, one for dispatch and
 * combine (use_shared_buffer), with a probability for each expert of the domain and a scale for 128 elements; between
 * domains for its own rows, and for those from the other domains on their way out, reduced, and back. */
static double hybridep_bytes(const redco_exchange *e, struct reach reach)
{
    const double chances = 4.0 * e->experts / reach.domains, others = reach.domains - 1.0;
    const double rows = e->tokens * reach.inside * reach.domains;
    const double inside = rows * (e->row_bytes + chances + e->row_bytes / 64.0);
    return inside + (others > 0.0 ? e->tokens * (e->row_bytes + 3.0 * others * (e->row_bytes + chances)) : 0.0);
}

uint64_t redco_exchange_buffer_bytes(const redco_exchange *e)
{
    const struct reach reach = reach_of(e);
    const double ranks = reach.inside * reach.domains;
    if (ranks <= 1.0 || e->dispatcher == REDCO_DISPATCHER_ALL_TO_ALL) { return 0; }
    return (uint64_t)(e->dispatcher == REDCO_DISPATCHER_HYBRIDEP ? hybridep_bytes(e, reach) : deepep_bytes(e, ranks));
}

/* Both kinds of links work at once. Every GPU has its share of its node's NICs, as all of them exchange rows. */
double redco_exchange_s(const redco_exchange *e)
{
    const redco_expert_constants *const c = e->constants;
    const redco_machine *const m = e->machine;
    const struct reach reach = reach_of(e);
    const double ranks = reach.inside * reach.domains;
    const double all = e->load * e->tokens * e->choices * e->row_bytes;
    const double link_rate = m->scale_up_bytes_per_s > 0.0 ? m->scale_up_bytes_per_s : m->peer_bytes_per_s;
    const double nic_rate = m->node_network_bytes_per_s / fmax(1.0, m->node_gpus_physical);
    const bool once = e->dispatcher != REDCO_DISPATCHER_ALL_TO_ALL; /* a row crosses to a node once */
    double link_bytes = all * (reach.inside - 1.0) / ranks, network_bytes = 0.0;
    if (ranks <= 1.0) { return 0.0; }
    if (reach.domains > 1.0) {
        const double distinct = redco_exchange_distinct_nodes(e->experts, e->choices, reach.domains);
        network_bytes = once ? e->load * e->tokens * e->row_bytes * distinct * (reach.domains - 1.0) / reach.domains
                             : all * (ranks - reach.inside) / ranks;
        if (once) { link_bytes = all * (reach.inside - 1.0) / reach.inside; }
    }
    const double link_s = link_bytes / (link_rate * (once ? c->dedup_link_ratio : c->nccl_link_ratio));
    const double network_s = network_bytes > 0.0
                                 ? network_bytes / (nic_rate * (once ? c->dedup_network_ratio : c->nccl_network_ratio))
                                 : 0.0;
    return (e->no_call ? 0.0 : c->exchange_call_s) + (link_bytes > 0.0 ? fmax(link_s, network_s) : network_s);
}
