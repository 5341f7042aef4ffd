/** @file gpu_order.h  Which GPUs of a node form a group: nested groups of equal size (the innermost is tensor
 * parallelism, those around it the shards of parameters, gradients and optimizer states), so that from the innermost
 * out first the least rate between two GPUs of a group is as high as possible, then the sum over all pairs of all
 * groups; what is still equal goes by their nearness on PCIe, from the innermost out again. Exact: dynamic programming
 * over sets of GPUs (planner/hosts/GPUS.md). */
#ifndef REDCO_GPU_ORDER_H
#define REDCO_GPU_ORDER_H

#include "topology/discovery/node.h"
#include "topology/discovery/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_ORDER_LEVELS = 5 };

/** Links between the GPUs of a node, symmetric; diagonals are ignored. */
typedef struct redco_pairs {
    uint32_t gpus; /**< 1 to REDCO_ORDER_GPUS */
    uint32_t rate[REDCO_ORDER_GPUS]
                 [REDCO_ORDER_GPUS]; /**< MB/s, one direction: by link, or by PCIe, then below any link */
    uint8_t distance[REDCO_ORDER_GPUS][REDCO_ORDER_GPUS]; /**< redco_path: less is nearer */
} redco_pairs;

/** @return false for nodes of more than REDCO_ORDER_GPUS GPUs */
bool redco_pairs_of(const redco_node *node, redco_pairs *pairs_out);
/** Says whether all pairs are the same, so that every order is as good as another. */
bool redco_pairs_alike(const redco_pairs *pairs);

/** Chooses sizes[levels - 1] of the GPUs and puts them in an order: groups of sizes[i] are consecutive GPUs, beginning
 *  at multiples of sizes[i]. Equal answers: the GPUs of lowest numbers come first, so that alike ones keep their order.
 *  @param sizes      ascending, each divides the next; the last is at most pairs->gpus
 *  @param levels     1 to REDCO_ORDER_LEVELS
 *  @param order_out  sizes[levels - 1] GPUs */
redco_status redco_order_find(const redco_pairs *pairs, const uint32_t *sizes, uint32_t levels, uint32_t *order_out,
                              redco_error *err);

/** Puts the members of each group of sizes[0] into the order in which they meet those of earlier groups best: the GPUs
 * at one place of several groups share data-parallel traffic. Group after group: the least rate to the members at the
 * same place of the groups that are nearest around it, then the sum over them, then the sum over all earlier groups;
 * equal ones stay ascending. Groups of more than 8 stay as they are. */
void redco_order_align(const redco_pairs *pairs, const uint32_t *sizes, uint32_t levels, uint32_t *order);

/** Sizes of the groups for one tensor-parallel degree on @p gpus GPUs of a node: tp, then its multiples up to @p gpus,
 *  through @p linked (GPUs that links join) where it is one of them.
 *  @return how many */
uint32_t redco_order_sizes(uint32_t tp, uint32_t linked, uint32_t gpus, uint32_t sizes_out[REDCO_ORDER_LEVELS]);

/** Fills the machine's orders and links for all degrees that divide gpus_per_node; nothing where GPUs are alike, of
 *  nodes that are several hosts, or too many. */
redco_status redco_machine_set_orders(redco_machine *machine, const redco_node *node, redco_error *err);

/** The order for a tensor-parallel degree (0 is 1), NULL where rank i of a node takes its GPU i. Borrowed. */
const redco_gpu_order *redco_machine_order(const redco_machine *machine, uint32_t tp);

/** The rate that the links of the slowest group carry: the least cut, i.e. the least that any part of the group can
 * send to its rest at once. No all-gather is faster, and packed trees reach it (Edmonds, "Edge-disjoint branchings",
 * 1973; Wang et al., "Blink", MLSys 2020, for NVLink). Groups are the GPUs at places base, base + stride, ... of the
 * order.
 *  @return bytes per second and GPU, 0 where links alone do not join a group, negative where the machine has no orders
 *          or no such group */
double redco_machine_group_rate(const redco_machine *machine, uint32_t tp, uint32_t gpus, uint32_t stride);

#ifdef __cplusplus
}
#endif
#endif
