/** @file strategy.h  Strategies: meshes of parameters, gradients and optimizer states (AMSP, arXiv
 *  2311.00257, section V-B), the names people use for points of that space, and what --fix leaves of it. Pure. */
#ifndef REDCO_STRATEGY_H
#define REDCO_STRATEGY_H

#include "planner/search/search.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** "any", "ddp", "zero1", ... in the order of redco_strategy; @p strategy in range. */
const char *redco_strategy_name(redco_strategy strategy);
/** @return false when no strategy has that name; "any" is one */
bool redco_strategy_parse(const char *name, redco_strategy *strategy_out);

/** O of AMSP equations 5 to 7: { (a, c) : a | dp.gpus, c | dp.nodes, c > 1 => a = dp.gpus }, by number of ranks.
 *  @param options_out  freed with free()
 *  @return REDCO_OK, REDCO_EVALUE when @p dp has a zero, REDCO_ENOMEM */
redco_status redco_mesh_options(redco_mesh dp, redco_mesh **options_out, size_t *count_out, redco_error *err);

/** All triples p, g, os with p in g in os (redco_mesh_nests) and g in {p, os}, out of O, that bear the name
 *  @p strategy and keep @p fix. A fixed mesh need not be in O, only divide @p dp and nest (a free one may then equal
 * it); "g in {p, os}" is waived when the fixed meshes alone break it. Order: p, then os, then g, each by number of
 * ranks.
 *  @param fix          meshes of 0x0 are free
 *  @param triples_out  freed with free()
 *  @return REDCO_OK with at least one triple; REDCO_EVALUE, @p err says which rule leaves none; REDCO_ENOMEM */
redco_status redco_strategy_triples(redco_mesh dp, redco_strategy strategy, const redco_shards *fix,
                                    redco_shards **triples_out, size_t *count_out, redco_error *err);

/** The secondary mesh that @p strategy asks of the setting: one node's ranks for ZeRO++, else 0x0. */
redco_mesh redco_strategy_secondary(redco_strategy strategy, redco_mesh dp);

/** @return whether the meshes of one layer on the ranks @p dp are a point of that name; any are of "any" and "amsp". */
bool redco_strategy_bears(redco_strategy strategy, redco_mesh dp, const redco_shards *shards);
/** The narrowest name that the point deserves, REDCO_STRATEGY_ANY when it has none (AMSP's planner is no point). */
redco_strategy redco_strategy_of(redco_mesh dp, redco_mesh secondary, const redco_shards *shards);
/** @return whether an engine that runs @p states (bits of REDCO_RUNS()) has the strategy; AMSP's is any triple. */
bool redco_strategy_offered(uint32_t states, redco_strategy strategy);
/** @return whether an engine that runs @p states (bits of REDCO_RUNS()) can run a triple on the ranks @p dp. */
bool redco_strategy_runs(uint32_t states, redco_mesh dp, redco_mesh secondary, const redco_shards *shards);

#ifdef __cplusplus
}
#endif
#endif
