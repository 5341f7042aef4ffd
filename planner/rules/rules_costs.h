/** @file rules_costs.h  Which collectives a correct execution of a split needs, parameter by parameter: column and row
 *  linears, embeddings by rows or by width, heads. t tokens pass through n shards; activations between the layers are
 *  whole on every shard. The conjugate operators of M. Shoeybi et al., Megatron-LM, arXiv 1909.08053, section 3, with
 *  the gathers that other splits need. Pure functions. */
#ifndef REDCO_RULES_COSTS_H
#define REDCO_RULES_COSTS_H

#include "planner/rules/rules.h"
#include "planner/rules/rules_roles.h"
#include "topology/base/collective_op.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Collectives of one kind over the shards. The size is that of the whole tensor: of the result of an all-gather, of
 *  one rank's input to a reduce-scatter. */
typedef struct redco_transfer {
    redco_collective kind;     /**< all-reduce, all-gather or reduce-scatter */
    uint32_t calls;            /**< 3 for the maximum, sum and target of a cross-entropy; else 1 */
    double elements_per_token; /**< elements of all calls together */
    double elements;           /**< likewise, whatever the number of tokens */
} redco_transfer;

enum { REDCO_TRANSFERS = 3 };

/** Layout of the activations at the input of a kernel. */
typedef enum redco_input_state { REDCO_INPUT_WHOLE, REDCO_INPUT_SPLIT } redco_input_state;

typedef struct redco_rules_cost {
    redco_transfer forward[REDCO_TRANSFERS];
    redco_transfer backward[REDCO_TRANSFERS];
    uint32_t forward_count, backward_count;
    uint32_t shares;         /**< index of the parameter whose transfer serves this one, too (the gradient of an input
                                that Q, K and V read, or of the encoder's output that the keys and values of all
                                cross attentions read; tables that are added), or REDCO_PART_NONE */
    redco_input_state input; /**< input of a kernel */
    bool heads_cut;          /**< a shard boundary lies inside a head, or between a query and its key */
} redco_rules_cost;

typedef struct redco_rules_setting {
    uint32_t shards;
    uint32_t heads, kv_heads; /**< 0: not known; heads are then taken for whole */
    bool tied;                /**< the vocabulary's table is the head, too */
} redco_rules_setting;

/** @param parts      of the same parameters, see redco_rules_parts()
 *  @param dims       of each parameter the dimension that is split, or REDCO_RULES_REPLICATED; any layout, not only
 *                    RedCoast's
 *  @param costs_out  one for each parameter, written only on success */
redco_status redco_rules_costs(const redco_rules_param *params, const redco_rules_part *parts, const int32_t *dims,
                               size_t count, const redco_rules_setting *setting, redco_rules_cost *costs_out,
                               redco_error *err);
/** Says whether a tree has a vocabulary but no linear that could be its head: it is tied then. */
bool redco_rules_seem_tied(const redco_rules_param *params, const redco_rules_part *parts, size_t count);

#ifdef __cplusplus
}
#endif
#endif
