/** @file layer_moments.h  The moments of a layer at which memory may be fullest, in symbols: derived from the class's
 *  graph and its gradients, as redco-exec runs them: cut by tensor parallelism, recomputed, fused, one operator after
 * the other, results over inputs that nobody reads any more (executor/memory_plan/lifetimes.h). Gradients of weights
 * have places of their own, as gathered weights do: a moment says of which products they are there. */
#ifndef REDCO_LAYER_MOMENTS_H
#define REDCO_LAYER_MOMENTS_H

#include "costmodel/models/model.h"
#include "topology/base/sharding.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REDCO_MOMENT_SIZES = 64,
    REDCO_MOMENTS_MAX = 128,
    REDCO_MOMENT_PRODUCTS = 16,
    REDCO_MOMENT_NONE = 255, /**< no product */
    REDCO_MOMENT_NEXT = 254  /**< that of the next layer which backward needs first */
};

/** Values of one size. */
typedef struct redco_moment_size {
    redco_extent elements; /**< the rank's, by redco_rank_axis_sizes() */
    uint8_t bytes;         /**< an element's; 0: as many as training has */
    bool shared;           /**< ranks that share a sequence split it */
} redco_moment_size;

/** Values that need memory together. */
typedef struct redco_moment {
    uint8_t times[REDCO_MOMENT_SIZES]; /**< by size */
    bool product;                      /**< beside the workspace of a device's products */
    /** Gradients of weights before those of inputs, as the executor has them, which gives memory to weights and their
     *  gradients, too; else in the order of the graph, of values alone. */
    bool slots;
    uint8_t
        staged; /**< place of a size, plus 1, of which there is one more where there are several sequences; 0: none */
    bool makes; /**< the gradients of the weights of the product that is at work */
    /** Products are counted among the class's groups (layer_work.h). */
    uint8_t reads; /**< that whose weights are at work, or none */
    uint8_t ahead; /**< that whose weights are fetched ahead */
    uint8_t made;  /**< gradients of its weights and of those of all behind it are made; their number: none are */
} redco_moment;

typedef struct redco_layer_moments {
    redco_moment_size sizes[REDCO_MOMENT_SIZES];
    uint32_t size_count;
    /** Those of backward, for a head of both passes, with what the layer keeps, its input included. None needs less
     *  than another one, whatever the sizes. */
    redco_moment moments[REDCO_MOMENTS_MAX];
    uint32_t count;
} redco_layer_moments;

typedef struct redco_moment_options {
    bool cut, rows;         /**< by tensor parallelism; the sequences, too */
    redco_recompute policy; /**< core attention or all; other modules are kept */
    bool fused;             /**< elementwise operators, as on GPUs */
    bool widened;           /**< operators copy their tensors to 32 bits, as on processors */
} redco_moment_options;

/** Found when they are first asked for; from any thread. Classes whose operators are listed (redco_layer_work.listed)
 *  have their moments there, and none here.
 *  @return borrowed until the model is freed; NULL on failure */
const redco_layer_moments *redco_model_layer_moments(const redco_model *model, uint32_t class_index,
                                                     const redco_moment_options *options, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
