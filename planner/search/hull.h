/** @file hull.h  The layouts for which measurements stand: what measured runs had, and how far a layout lies beyond
 * them. Pure. */
#ifndef REDCO_HULL_H
#define REDCO_HULL_H

#include "costmodel/closed_form/closed_form.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Ranges of measured runs. Degrees are the largest that ran; tokens are those of a micro-batch on one rank; nodes are
 *  those that a group spans. */
typedef struct redco_hull {
    uint32_t tp, cp, pp, chunks;
    uint32_t cp_nodes; /**< nodes of a tensor- and context-parallel group together */
    uint32_t dp_nodes;
    uint64_t least_tokens, most_tokens;
    uint64_t least_context_tokens; /**< beside cp > 1; 0: it never was */
} redco_hull;

/** The dimensions that lie outside; bits. Tokens and nodes may be twice as far as measured: between two points of a
 * doubling sweep nothing was measured either. */
enum {
    REDCO_BEYOND_TP = 1,
    REDCO_BEYOND_CP = 2,
    REDCO_BEYOND_PP = 4,
    REDCO_BEYOND_CHUNKS = 8,
    REDCO_BEYOND_CP_NODES = 16,
    REDCO_BEYOND_DP_NODES = 32,
    REDCO_BEYOND_TOKENS = 64,
    REDCO_BEYOND_CONTEXT_TOKENS = 128
};

/** A layout in the terms of a hull. */
typedef struct redco_reach {
    uint64_t tokens;
    uint32_t cp_nodes, dp_nodes;
} redco_reach;

redco_reach redco_reach_of(const redco_machine *machine, uint32_t seq_len, const redco_parallelism *parallelism);
/** @return REDCO_BEYOND_... bits, 0 = inside */
uint32_t redco_hull_beyond(const redco_hull *hull, const redco_parallelism *parallelism, const redco_reach *reach);

#ifdef __cplusplus
}
#endif
#endif
