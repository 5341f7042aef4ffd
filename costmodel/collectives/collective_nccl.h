/** @file collective_nccl.h  NCCL 2.30's own latency-bandwidth model, which its tuner uses to choose algorithm and
 * protocol: t(S) = L + S / B        for every (collective, algorithm, protocol) Source of every constant and formula:
 * NCCL 2.30.7, src/graph/tuning.cc (NVIDIA, BSD licence); of graphs (channels and their rates): src/graph/search.cc and
 * src/graph/topo.h of the same version, restated in closed form in collective_graph.c. Pure functions, no allocation,
 * callable from any thread. */
#ifndef REDCO_COLLECTIVE_NCCL_H
#define REDCO_COLLECTIVE_NCCL_H

#include "costmodel/collectives/collective.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_nccl_algorithm {
    REDCO_NCCL_TREE,
    REDCO_NCCL_RING,
    REDCO_NCCL_COLLNET_DIRECT,
    REDCO_NCCL_COLLNET_CHAIN,
    REDCO_NCCL_NVLS,
    REDCO_NCCL_NVLS_TREE,
    REDCO_NCCL_PAT,
    REDCO_NCCL_ALGORITHM_COUNT
} redco_nccl_algorithm;

typedef enum redco_nccl_protocol {
    REDCO_NCCL_LL,
    REDCO_NCCL_LL128,
    REDCO_NCCL_SIMPLE,
    REDCO_NCCL_PROTOCOL_COUNT
} redco_nccl_protocol;

/** Rows of NCCL's tables. */
typedef enum redco_nccl_arch {
    REDCO_NCCL_VOLTA,
    REDCO_NCCL_AMPERE,
    REDCO_NCCL_HOPPER,
    REDCO_NCCL_BLACKWELL
} redco_nccl_arch;

/** Channels that NCCL's search lays through a node and the rate of each. */
typedef struct redco_nccl_graph {
    double channels; /**< 0 = the algorithm has no graph here */
    double intra_bytes_per_s, inter_bytes_per_s;
} redco_nccl_graph;

/** One communicator. */
typedef struct redco_nccl_group {
    uint32_t ranks, nodes; /**< ranks >= nodes >= 1 */
    redco_nccl_arch arch;
    uint32_t compute_capability;
    bool linked;  /**< neighbours inside a node are joined by NVLink (or its like), not PCIe */
    bool ll128;   /**< protocol LL128 is on */
    bool cpu_amd; /**< AMD x86 host: dearer network posting, other LL cap */
    bool cpu_x86;
    bool cpu_power;           /**< POWER host: another PCIe latency */
    bool tree_unbalanced;     /**< some node fell back to the plain tree pattern */
    double network_latency_s; /**< per hop, beyond NCCL's constant */
    uint32_t algorithms;      /**< bits 1 << redco_nccl_algorithm that may be used; 0 = all */
    uint32_t protocols;       /**< likewise */
    redco_nccl_graph ring, tree, nvls, collnet;
} redco_nccl_group;

/** t(S) = latency_s + S / bytes_per_s */
typedef struct redco_nccl_time {
    double latency_s, bytes_per_s;
    redco_nccl_algorithm algorithm;
    redco_nccl_protocol protocol;
} redco_nccl_time;

/** One pair. Collectives: all-reduce, all-gather, reduce-scatter, broadcast, reduce (others: false).
 *  @param size_bytes  S, as redco_comm_price()
 *  @return false if NCCL does not offer the pair here */
bool redco_nccl_price(const redco_nccl_group *group, redco_collective op, redco_nccl_algorithm algorithm,
                      redco_nccl_protocol protocol, double size_bytes, redco_nccl_time *time_out);

/** The pair that NCCL would choose: the least time of all that exist. @return false if there is none */
bool redco_nccl_fastest(const redco_nccl_group *group, redco_collective op, double size_bytes,
                        redco_nccl_time *time_out);

/** Time until the last rank of a broadcast or reduce ring sees its first byte, beyond the one hop that NCCL's tuner
 * counts (it compares protocols, for which the chain cancels; a prediction needs it): the ring's other hops, at the
 * protocol's latency each. 0 for other collectives. */
double redco_nccl_chain_s(const redco_nccl_group *group, redco_collective op, redco_nccl_protocol protocol);

/** Seconds of one hop inside a node, or between nodes, in the Simple ring protocol; posting included. */
double redco_nccl_hop_s(const redco_nccl_group *group, bool network);

/** Where a group's ranks lie in a node and what they can use, derived from a machine (collective_graph.c). */
typedef struct redco_nccl_reach {
    bool linked;
    double link_bytes_per_s; /**< rate from one GPU to the others of its group inside the node, as NCCL rates it */
    uint32_t ports;          /**< network ports nearest to the group's GPUs, at most one per GPU */
    double port_bytes_per_s; /**< rate of each port, not above the GPU's PCIe slot */
    double port_payload_bytes_per_s; /**< the part of it that carries data, for traffic that no graph is searched for */
    double share_ratio; /**< share of those ports' rate left by other groups and the leaf's up-links, 0 to 1 */
} redco_nccl_reach;

/** Leaves: the nodes of a job follow each other under leaf switches, a ring runs in node order. So it leaves a leaf
 * from one of its nodes there, however many they are; what groups of the leaf have a ring each, which share the
 * up-links: those of one node, times those that lie beside them where their nodes are apart. (executor/EMULATION.md:
 * measured on an oversubscribed spine.)
 *  @param group  stride 0 is taken for 1; tp is not looked at */
redco_nccl_reach redco_nccl_reach_of(const redco_machine *machine, redco_group group);

/** Puts in what the links of this group carry (redco_machine_group_rate()); 0: they go through PCIe. */
void redco_nccl_reach_links(const redco_machine *machine, double links_bytes_per_s, redco_nccl_reach *reach);

/** Ring, tree and NVLS graphs of @p gpus ranks per node with @p reach; share_ratio is not applied. */
typedef struct redco_nccl_graphs {
    redco_nccl_graph ring, tree, nvls;
} redco_nccl_graphs;
redco_nccl_graphs redco_nccl_search(const redco_machine *machine, uint32_t gpus, bool several_nodes,
                                    const redco_nccl_reach *reach);

/** The communicator of a group of @p machine: constants of machine and mesh, without graphs. */
redco_nccl_group redco_nccl_group_of(const redco_machine *machine, redco_mesh mesh, bool linked);
/** Puts graphs in, network parts scaled to what @p share_ratio leaves. */
void redco_nccl_set_graphs(redco_nccl_group *group, const redco_nccl_graphs *graphs, double share_ratio);

#ifdef __cplusplus
}
#endif
#endif
