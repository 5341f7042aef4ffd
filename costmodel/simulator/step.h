/** @file step.h  One training step of a strategy as a graph of operators on streams, in the engine's issue order
 *  (AMSP, arXiv 2311.00257, section V-C; InternEvo, March 2024). simulate.h lays it out in time. Formulas, and what the
 *  graph holds that the closed form does not: SIMULATOR.md.
 *
 *  A pipeline stage is represented by one rank. A step begins when the optimizer of the step before has ended: all
 *  gradients meet in the norm, so nothing else crosses that line, and a step that follows a step takes as long as any.
 */
/* clang-format off */
/** Names are the same in prediction and measurement:
 *
 *      name   = pass "/" layer "/" what          pass = "fwd" | "bwd" | "re" (forward again, in backward)
 *             | pass "/stage." index "/send"     activations (fwd), their gradients (bwd) to the next stage
 *             | "bwd/gradients/" batch "." index batch = "bucket" (once a step) | "shards" (every micro-batch)
 *             | "step/" once
 *      layer  = class "." index                  "block.12", "embedding.0", "head.0"; index as in plan files
 *      what   = operator                         compute.h: "qkv"; backward of what has no matrix
 *             | operator "/input" | "/weight"    backward of a matrix: the two gradients
 *             | module "/gather" | "/scatter"    weights of sharded parameters, their gradients
 *             | operator "/reduce"               tensor-parallel all-reduce behind an operator, or, with sequence
 *             | operator "/tp_gather" | "/tp_scatter"    parallelism, around it
 *             | operator "/cp_ring"              keys and values of other context-parallel ranks: the exposed part of
 *             | operator "/cp_gather" | "/cp_scatter"    their hops, or their all-gather and their gradients'
 *             | operator "/cp_all_to_all"        reduce-scatter, or heads for tokens, on both sides of attention
 *             | "launch"                         the host launches the collectives that follow
 *             | "update"                         updated parameters to the ranks that share them
 *      module = the end of the parameter's name that is unique in its layer: "q_proj", "SelfAttention.q"
 *      once   = "launch" | "grad_norm" | "grad_norm/reduce" | "optimizer" | "overhead"
 */
/* clang-format on */
#ifndef REDCO_STEP_H
#define REDCO_STEP_H

#include "costmodel/closed_form/closed_form.h"

#ifdef __cplusplus
extern "C" {
#endif

/** First come, first served, each. All but compute are communicators of their own. */
typedef enum redco_stream {
    REDCO_STREAM_COMPUTE,
    REDCO_STREAM_TENSOR,     /**< tensor-parallel and context-parallel collectives */
    REDCO_STREAM_PARAMETERS, /**< gathers of weights, reduce-scatters of their gradients */
    REDCO_STREAM_SECONDARY,  /**< ZeRO++: backward's gathers over the secondary mesh */
    REDCO_STREAM_GRADIENTS,  /**< reductions of gradients */
    REDCO_STREAM_UPDATE,     /**< updated parameters */
    REDCO_STREAM_PIPELINE,   /**< to the neighbouring stages */
    REDCO_STREAM_EXCHANGE,   /**< rows to the ranks of their experts and back */
    REDCO_STREAM_COUNT
} redco_stream;

typedef enum redco_work {
    REDCO_WORK_FORWARD,
    REDCO_WORK_RECOMPUTE,
    REDCO_WORK_BACKWARD,
    REDCO_WORK_NORM,
    REDCO_WORK_OPTIMIZER,
    REDCO_WORK_LAUNCH,   /**< on the compute stream; the GPU waits */
    REDCO_WORK_OVERHEAD, /**< likewise, once a step */
    REDCO_WORK_TENSOR,   /**< from here on communication */
    REDCO_WORK_CONTEXT,
    REDCO_WORK_EXCHANGE,
    REDCO_WORK_GATHER,
    REDCO_WORK_SCATTER,
    REDCO_WORK_SHARD,  /**< gradients that are sharded further than parameters, every micro-batch but the last */
    REDCO_WORK_REDUCE, /**< gradients once a step */
    REDCO_WORK_UPDATE,
    REDCO_WORK_PIPELINE,
    REDCO_WORK_NORM_REDUCE,
    REDCO_WORK_COUNT
} redco_work;

typedef enum redco_link { REDCO_LINK_NONE, REDCO_LINK_NVLINK, REDCO_LINK_NETWORK, REDCO_LINK_COUNT } redco_link;

typedef enum redco_step_pass { REDCO_PASS_NAME_FWD, REDCO_PASS_NAME_BWD, REDCO_PASS_NAME_RE } redco_step_pass;

typedef enum redco_step_suffix {
    REDCO_SUFFIX_NONE,
    REDCO_SUFFIX_INPUT,
    REDCO_SUFFIX_WEIGHT,
    REDCO_SUFFIX_GATHER,
    REDCO_SUFFIX_SCATTER,
    REDCO_SUFFIX_REDUCE,
    REDCO_SUFFIX_TP_GATHER,
    REDCO_SUFFIX_TP_SCATTER,
    REDCO_SUFFIX_CP_RING,
    REDCO_SUFFIX_CP_GATHER,
    REDCO_SUFFIX_CP_SCATTER,
    REDCO_SUFFIX_CP_ALL_TO_ALL,
    REDCO_SUFFIX_DISPATCH,
    REDCO_SUFFIX_COMBINE,
    REDCO_SUFFIX_SERIAL, /**< "." and the serial number */
    REDCO_SUFFIX_SEND,   /**< pass "/stage." rank "/send" */
    REDCO_SUFFIX_RECEIVE /**< pass "/stage." rank "/receive": redco_step_of_rank() */
} redco_step_suffix;

/** The categories of memory. The first three and the reserve, which has NCCL's buffers, last all step. */
typedef enum redco_memory_category {
    REDCO_CATEGORY_PARAMETERS,
    REDCO_CATEGORY_GRADIENTS,
    REDCO_CATEGORY_OPTIMIZER,
    REDCO_CATEGORY_RESERVE,
    REDCO_CATEGORY_ACTIVATIONS,
    REDCO_CATEGORY_LOGITS,
    REDCO_CATEGORY_RECOMPUTED,
    REDCO_CATEGORY_GATHERED,  /**< weights in use or fetched ahead */
    REDCO_CATEGORY_SCATTERED, /**< whole gradients that are not yet scattered */
    REDCO_CATEGORY_BUCKETS,
    REDCO_CATEGORY_COUNT
} redco_memory_category;

#define REDCO_STEP_NONE UINT32_MAX

/** Layers of a model whose steps are simulated, layer by layer: four times as many as the deepest that people train
 *  (Llama 3.1 405B: 126), which takes a second and 150 MB at most. Steps of more cost the closed form, whose work grows
 *  with kinds of layers. */
#define REDCO_SIMULATED_LAYERS_MAX 512
/** Micro-batches of a step that is built one by one. */
#define REDCO_SIMULATED_MICRO_BATCHES_MAX (1 << 20)

/** One operator. Those before it in the array that it waits for: redco_step_inputs(); and all before it on its stream.
 */
typedef struct redco_step_op {
    double seconds;         /**< alone */
    uint32_t traffic;       /**< index for redco_step_traffic(), or REDCO_STEP_NONE */
    uint32_t layer;         /**< in the model, from 0 through all classes, or REDCO_STEP_NONE */
    uint32_t micro_batch;   /**< or REDCO_STEP_NONE: once a step */
    uint32_t label, serial; /**< kind and number, for redco_step_name() */
    uint16_t rank;          /**< pipeline stage */
    uint8_t stream, work, link;
    uint8_t pass, suffix; /**< redco_step_pass, redco_step_suffix: parts of the name */
    uint32_t fold;        /**< 0; in graphs that redco_simulate() makes: a pass, or (collectives) one of its operators
                             that may outlast it */
    uint8_t role;         /**< redco_op_role of an operator, 0: of a module and others */
    uint16_t module;      /**< for a gather or scatter: which of the layer's, from 1 in the order of its parameters; 0:
                             all of them, or one of another layer */
    uint16_t position; /**< a transfer: the place in the model of the pass that makes it (redco_pipeline_position()) */
    bool contends;     /**< slows, and is slowed by, the other side when communication and computation overlap */
} redco_step_op;

/** The traffic of a communication operator. */
typedef struct redco_step_traffic {
    redco_collective op;
    uint32_t calls;    /**< collectives behind each other */
    double size_bytes; /**< bytes of each, as in collective.h */
    redco_group group;
    double contention_ratio; /**< seconds that computation loses per second beside it */
} redco_step_traffic;

/** Memory that an operator takes when it starts or gives back when it ends. */
typedef struct redco_step_memory {
    int64_t bytes; /**< > 0: at the start, < 0: at the end */
    redco_memory_category category;
} redco_step_memory;

typedef struct redco_step_options {
    uint64_t micro_batches; /**< build only so many of them; 0 = all */
    uint32_t steps;         /**< consecutive ones; 0 is 1 */
    /** Inter-tensor scheme: count buckets per owner of optimizer states, so that those of many owners fill only at the
     *  end of backward (InternEvo with sharded gradients); else one bucket for all gradients of a rank, as in the
     *  closed form and in AMSP's measured runs. */
    bool buckets_per_owner;
    /** Passes that repeat one before become few operators: same times, for redco_simulate(). */
    bool fold;
} redco_step_options;

typedef struct redco_step redco_step;

/** @param costs        borrowed for the call; its workload says which traffic overlaps
 *  @param assignments  as for redco_cost_step(); layers of a class in the order given
 *  @return REDCO_EVALUE when chunks and stages do not fit the model, or when there would be more than some 10^7
 *          operators: build fewer micro-batches */
redco_status redco_step_build(redco_costs *costs, const redco_parallelism *parallelism,
                              const redco_assignment *assignments, uint32_t count, const redco_step_options *options,
                              redco_step **step_out, redco_error *err);
void redco_step_free(redco_step *step);

const redco_step_op *redco_step_ops(const redco_step *step, uint32_t *count_out);
/** Operators that @p op waits for: indices below its own. */
const uint32_t *redco_step_inputs(const redco_step *step, uint32_t op, uint32_t *count_out);
const redco_step_traffic *redco_step_traffic_of(const redco_step *step, uint32_t op); /**< NULL: computation */
/** The memory of a rank before and after a step, by category. */
const uint64_t *redco_step_resident_bytes(const redco_step *step, uint32_t rank);
uint64_t redco_step_micro_batches(const redco_step *step); /**< built */

/** The operator's name, cut to fit. @return @p buffer */
const char *redco_step_name(const redco_step *step, uint32_t op, char *buffer, size_t size);
/** "block.12". @return @p buffer, cut to fit */
const char *redco_step_layer_name(const redco_step *step, uint32_t layer, char *buffer, size_t size);
uint32_t redco_step_layer_count(const redco_step *step);
/** The label that reads @p text, or REDCO_STEP_NONE: "qkv", "q_proj". */
uint32_t redco_step_find_label(const redco_step *step, const char *text);
const char *redco_step_suffix_name(redco_step_suffix suffix);           /**< static: "input", "weight", ...; "" */
const char *redco_stream_name(redco_stream stream);                     /**< static: "compute", ... */
const char *redco_work_name(redco_work work);                           /**< static: "forward", ... */
const char *redco_memory_category_name(redco_memory_category category); /**< static: "parameters", ... */
const char *redco_link_name(redco_link link);                           /**< static: "NVLink", ... */

/** The operators of one stage of a step, which wait for nothing of the others: a transfer that comes from another stage
 *  is an operator of this one's, "receive", in front of the first that waits for it.
 *  @return REDCO_EVALUE if an operator waits for anything else of another stage than transfers and norms, which are
 *          summed over all anyway */
redco_status redco_step_of_rank(const redco_step *step, uint32_t rank, redco_step **step_out, redco_error *err);

/** Graphs by hand, for tests and for engines of other schedules: operators in issue order. All calls after the first
 *  failure (out of memory, bad index) do nothing; redco_step_finish() tells. */
redco_step *redco_step_new(uint32_t ranks, double overlap_ratio); /**< NULL when out of memory */
/** Without operators, with labels, layers, traffic and resident memory of another: their numbers mean the same. NULL
 * when out of memory */
redco_step *redco_step_new_like(const redco_step *step);
uint32_t redco_step_add(redco_step *step, const redco_step_op *op, const uint32_t *inputs, uint32_t input_count);
/** The memory of a rank before and after the step. */
void redco_step_hold(redco_step *step, uint32_t rank, redco_memory_category category, uint64_t bytes);
/** For the operator added last. */
void redco_step_add_memory(redco_step *step, redco_memory_category category, int64_t bytes);
uint32_t redco_step_add_traffic(redco_step *step, const redco_step_traffic *traffic);
uint32_t redco_step_add_label(redco_step *step, const char *label); /**< copied; the same text has the same index */
redco_status redco_step_finish(redco_step *step, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
