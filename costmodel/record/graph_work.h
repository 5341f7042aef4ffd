/** @file graph_work.h  The work of a user's loss graph and its gradients on one rank, as a plan file holds it:
 * operators with their sizes, collectives, and the memory of values, once for each degree of tensor parallelism. Sizes
 * are in symbols of the micro-batch, so that a plan is priced without the pipeline's library.
 *
 *  It is written by whoever has the graph (executor/pipeline) and read by the model (user_pipeline.c). */
#ifndef REDCO_GRAPH_WORK_H
#define REDCO_GRAPH_WORK_H

#include "topology/base/collective_op.h"
#include "topology/base/json.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_COUNT_TERMS = 3, REDCO_MEASURED_NAME = 24, REDCO_WORK_DEGREES = 16 };

/** of[0] + of[1] b + of[2] b^2 for a micro-batch of b examples: losses may compare all examples with all others. */
typedef struct redco_count {
    double of[REDCO_COUNT_TERMS];
} redco_count;

/** At least 0. */
double redco_count_at(const redco_count *count, uint64_t examples);

/** Passes, to be added up. */
typedef enum redco_passes { REDCO_IN_FORWARD = 1, REDCO_IN_BACKWARD = 2, REDCO_IN_BOTH = 3 } redco_passes;
/** "forward", "backward", "both". */
extern const char *const redco_passes_words[REDCO_IN_BOTH + 1];

typedef enum redco_work_op_kind {
    REDCO_GRAPH_ELEMENTS,  /**< bound by memory traffic */
    REDCO_GRAPH_PRODUCT,   /**< batch products [m][k] by [k][n] */
    REDCO_GRAPH_ATTENTION, /**< batch heads of m queries, n keys, size k */
    REDCO_GRAPH_COLLECTIVE /**< tensor parallelism's; elements are those of the whole tensor */
} redco_work_op_kind;

/** Operators of equal sizes in one pass. */
typedef struct redco_work_op {
    redco_work_op_kind kind;
    char name[REDCO_MEASURED_NAME]; /**< "gelu": for people */
    /** "op-1f0e...": by what a profile knows it: of the operator's kind, attributes and sizes in symbols. */
    char measured_as[REDCO_MEASURED_NAME];
    bool backward;
    uint32_t times;
    bool causal;                          /**< attention */
    bool transpose_a, transpose_b;        /**< product */
    redco_collective collective;          /**< collective */
    redco_count batch, m, n, k, elements; /**< elements: of its results */
    redco_count moved;                    /**< elements that it reads and writes */
} redco_work_op;

/** Values of equal sizes that need memory at one moment. */
typedef struct redco_graph_values {
    double times;
    redco_count bytes; /**< bytes of each, which are rounded up to the executor's alignment */
} redco_graph_values;

/** Types in which a graph is computed, and by whom: its values and workspaces depend on them. */
typedef enum redco_computed {
    REDCO_COMPUTED_32,
    REDCO_COMPUTED_16,        /**< on a device that does */
    REDCO_COMPUTED_16_WIDENED /**< on processors, which make 32-bit copies of an operator's tensors */
} redco_computed;

/** A moment of a pass at which memory may be fullest. */
typedef struct redco_graph_moment {
    bool backward;
    redco_computed computed;
    redco_graph_values *values;
    uint32_t value_count;
} redco_graph_moment;

/** The graph of one rank of a tensor-parallel group. */
typedef struct redco_degree_work {
    uint32_t tp;
    int32_t *splits; /**< the dimension of each parameter that is split, or -1: as many as the model has tensors */
    redco_work_op *ops;
    uint32_t op_count;
    redco_graph_moment *moments;
    uint32_t moment_count;
    redco_graph_values *inputs; /**< inputs of a micro-batch */
    uint32_t input_count;
} redco_degree_work;

typedef struct redco_graph_work {
    redco_degree_work degrees[REDCO_WORK_DEGREES];
    uint32_t degree_count;
    uint32_t optimizer_states; /**< tensors of 32 bits for each parameter: AdamW has 2 */
    uint32_t examples;         /**< the one micro-batch that it is of, as its graph is another one for others; 0: any */
} redco_graph_work;

/** @param parameters  number of the model's
 *  @param work_out    freed with redco_graph_work_free() */
redco_status redco_graph_work_read(const redco_json_value *config, size_t parameters, redco_graph_work **work_out,
                                   redco_error *err);
/** Adds the keys "optimizer_states", "micro_batch" (where it is of one) and "degrees". @return false when out of memory
 */
bool redco_graph_work_write(const redco_graph_work *work, size_t parameters, json_t *config);
void redco_graph_work_free(redco_graph_work *work); /**< NULL is accepted */

/** No degree: a class's work is all in groups (layer_work.h). */
extern const redco_graph_work redco_nothing_listed;

/** @return NULL if the graph was not laid out for so many ranks */
const redco_degree_work *redco_graph_work_of(const redco_graph_work *work, uint32_t tp);
/** @return that of one rank if the graph was not laid out for so many; nothing where it has none */
const redco_degree_work *redco_graph_work_near(const redco_graph_work *work, uint32_t tp);
/** Floating-point operations of the products and attention of a pass. */
double redco_degree_flops(const redco_degree_work *degree, bool backward, uint64_t examples);
double redco_work_op_flops(const redco_work_op *op, uint64_t examples);
/** Bytes of the values of a pass when they need most.
 *  @param computed  where the graph can be: else in 32 bits */
uint64_t redco_degree_value_bytes(const redco_degree_work *degree, bool backward, redco_computed computed,
                                  uint64_t examples);
/** Bytes of a micro-batch's inputs. */
uint64_t redco_degree_input_bytes(const redco_degree_work *degree, uint64_t examples);

#ifdef __cplusplus
}
#endif
#endif
