/** @file random_elementwise.h  Random graphs, mostly of elementwise operators under few names, and data for them. */
#ifndef REDCO_TEST_RANDOM_ELEMENTWISE_H
#define REDCO_TEST_RANDOM_ELEMENTWISE_H

#include "costmodel/graph/build_calls.h"
#include "executor/backend/evaluate.h"

enum { ELEMENTWISE_INPUTS = 5, ELEMENTWISE_VALUES = 40, ELEMENTWISE_RESULTS = 6, ELEMENTWISE_MOST = 64 * 320 };

typedef struct elementwise_graph {
    redco_graph *g; /**< freed by the caller */
    uint64_t random;
    const redco_dtype *dtypes; /**< types of the values */
    uint32_t dtype_count;
    redco_value pool[ELEMENTWISE_VALUES];
    uint32_t count;
    redco_value outputs[ELEMENTWISE_RESULTS];
    uint32_t output_count;
    redco_binding bindings[ELEMENTWISE_INPUTS];
    double data[ELEMENTWISE_INPUTS][ELEMENTWISE_MOST];
} elementwise_graph;

/** @param dtypes  borrowed for the call */
void elementwise_make(elementwise_graph *e, uint64_t seed, const redco_dtype *dtypes, uint32_t dtype_count);
uint32_t elementwise_below(elementwise_graph *m, uint32_t n);
/** The same data for a graph that was made of e->g. @return how many inputs it has */
uint32_t elementwise_rebind(const elementwise_graph *e, const redco_graph *graph,
                            redco_binding bindings_out[ELEMENTWISE_INPUTS]);

#endif
