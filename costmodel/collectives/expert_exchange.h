/** @file expert_exchange.h  Seconds in which rows of a mixture of experts get to the ranks of their experts, or back.
 *  Pure functions. Formulas: COLLECTIVES.md. */
#ifndef REDCO_EXPERT_EXCHANGE_H
#define REDCO_EXPERT_EXCHANGE_H

#include "costmodel/engines/engine.h"
#include "costmodel/engines/expert_constants.h"
#include "topology/discovery/topology.h"
#include "topology/ranks/parallel.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_exchange {
    const redco_machine *machine;            /**< borrowed, */
    const redco_expert_constants *constants; /**< likewise */
    redco_group group;                       /**< ranks that experts are shared out over */
    redco_dispatcher dispatcher;
    bool no_mnnvl;             /**< links inside of hosts only */
    bool no_call;              /**< a graph launches it */
    uint32_t experts, choices; /**< a layer has; a token has */
    double tokens, row_bytes;  /**< a rank has; bytes of each */
    double load;               /**< rows of the fullest rank over the mean */
} redco_exchange;

/** One direction, nothing hidden; one rank takes 0 s. */
double redco_exchange_s(const redco_exchange *exchange);
/** Bytes that the dispatcher holds on each rank beside NCCL's buffers, of a size that routing does not change: DeepEP's
 *  channels, HybridEP's room for every row of the group. 0 for all-to-alls and for one rank. */
uint64_t redco_exchange_buffer_bytes(const redco_exchange *exchange);
/** Nodes that a token's choices lie on, on average, of uniform routing over @p nodes that have equal numbers of the
 *  experts: N (1 - C(E - E/N, K) / C(E, K)). */
double redco_exchange_distinct_nodes(uint32_t experts, uint32_t choices, double nodes);

#ifdef __cplusplus
}
#endif
#endif
