/** @file transform.h  Graphs from graphs. */
#ifndef REDCO_GRAPH_TRANSFORM_H
#define REDCO_GRAPH_TRANSFORM_H

#include "costmodel/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which operators @p outputs depend on.
 *  @param live_out  redco_graph_op_count() entries */
void redco_graph_live(const redco_graph *graph, const redco_value *outputs, uint32_t output_count, bool *live_out);

/** @return whether a fused operator is to be written in basic ones. */
typedef bool (*redco_decompose_choice)(const redco_op *op, void *context);

/** A new graph of only what @p outputs depend on, inputs included; names, orders, copies and origins are kept.
 *  @param choose     asked for every fused operator (a backend or layout without it says yes); NULL: none
 *  @param graph_out  the caller frees it
 *  @param map_out    redco_value_count() entries: each old value's new one, or REDCO_NO_VALUE */
redco_status redco_graph_extract(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                 redco_decompose_choice choose, void *context, redco_graph **graph_out,
                                 redco_value *map_out, redco_error *err);

/** A value in whose place a part of a graph has an input. */
typedef struct redco_graph_cut {
    redco_value value;
    const char *name; /**< the input's */
    bool unread;      /**< the input is there, but the value is made here all the same, or has one before */
} redco_graph_cut;

/** A new graph of what @p outputs depend on, up to values that are inputs there: made elsewhere. Inputs of no output's
 *  are left out.
 *  @param cuts       each value once, unread ones aside
 *  @param map_out    as of redco_graph_extract() */
redco_status redco_graph_extract_part(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                      const redco_graph_cut *cuts, uint32_t cut_count, redco_graph **graph_out,
                                      redco_value *map_out, redco_error *err);

/** A digest of operators, shapes and constants: functions that build the same have the same. */
uint64_t redco_graph_digest(const redco_graph *graph);

#ifdef __cplusplus
}
#endif
#endif
