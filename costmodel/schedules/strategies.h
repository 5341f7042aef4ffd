/** @file strategies.h  The names of strategies, a row each: the words of command lines, plans and engine files, and
 *  their usual spelling. The meshes that bear a name: planner/search/strategy.h. */
#ifndef REDCO_STRATEGIES_H
#define REDCO_STRATEGIES_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A name for a set of points of the space of meshes. */
typedef enum redco_strategy {
    REDCO_STRATEGY_ANY, /**< the whole space */
    REDCO_STRATEGY_DDP,
    REDCO_STRATEGY_ZERO1,
    REDCO_STRATEGY_ZERO2,
    REDCO_STRATEGY_ZERO3,
    REDCO_STRATEGY_MICS,   /**< p = g = os = k, any k smaller than the whole data-parallel mesh */
    REDCO_STRATEGY_ZEROPP, /**< ZeRO-3 with a secondary copy of the parameters sharded over one node */
    REDCO_STRATEGY_HSDP,   /**< p = g = os = all GPUs of one node */
    REDCO_STRATEGY_AMSP,   /**< the paper's own planner: least T_comm over its space (tp = 1 and inter-tensor unless
                              given), one recomputation policy: the least with which anything fits */
    REDCO_STRATEGY_COUNT
} redco_strategy;

/** The bit of a strategy in redco_engine_file.states; that of REDCO_STRATEGY_ANY: the engine runs any triple. */
#define REDCO_RUNS(strategy) (1U << (strategy))

/** A row. */
typedef struct redco_strategy_row {
    const char *word, *label;     /**< "zero1", "ZeRO-1" */
    const char *alias, *of_alias; /**< another word on command lines, and its difference; NULL: there is none */
} redco_strategy_row;

/** By redco_strategy. */
extern const redco_strategy_row redco_strategies[REDCO_STRATEGY_COUNT];

/** "ddp, zero1, zero2, ...": all that have a name.
 *  @param aliases  with their aliases, and "or" before the last */
const char *redco_strategy_list(bool aliases, char *buffer, size_t size);

#ifdef __cplusplus
}
#endif
#endif
