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
