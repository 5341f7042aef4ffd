/** @file assumptions.h  Assumptions behind the price of a mixture of experts: traits that neither the engine's file nor
 *  the user states. */
#ifndef REDCO_ASSUMPTIONS_H
#define REDCO_ASSUMPTIONS_H

#include "costmodel/engines/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Static texts. */
typedef struct redco_assumption {
    const char *what;  /**< the trait, as --engine states it */
    const char *value; /**< likewise */
    const char *why;
} redco_assumption;

/** @param hosts_per_node  more than 1: links join the hosts of a rack
 *  @return the @p index-th of a mixture trained by @p engine; false past the last */
bool redco_assumption_at(const redco_engine *engine, uint32_t hosts_per_node, size_t index,
                         redco_assumption *assumption_out);

/** [{"what", "value", "why"}]: a new reference; NULL when out of memory. */
json_t *redco_assumptions_json(const redco_engine *engine, uint32_t hosts_per_node);

#ifdef __cplusplus
}
#endif
#endif
