/** @file shard_layout.h  Which elements of which parameter a rank holds, of weights, gradients and optimizer states,
 * and where in its memory. Pure: every rank computes it alone, from the same numbers.
 *
 *  A model is layers of modules of tensors, in forward order; a module's weights are gathered together. Sizes are those
 *  of one tensor-parallel rank. All counts are elements.
 *
 *  Frozen modules come behind the others in a layer's shard, and have no gradients and no owners:
 *
 *  whole      a module's tensors, contiguous, each beginning at a multiple of tensor_granule
 *  shard      the whole in as many equal parts as parameters have ranks; a layer's shard is those of its modules, last
 *             module first: the order in which backward makes gradients. Its first part is trained, the rest frozen
 *  gradients  what of the trained part this rank keeps of gradients
 *  owned      what of the gradients this rank updates
 *
 *  Within a shard, optimizer states are assigned to owners in one of two ways:
 *      intra-tensor  the layer's shard is cut into equal parts. Gradients are consecutive parts.
 *      inter-tensor  slices of tensors go whole to owners, largest tensor first, each to the emptiest
 *                    (Graham 1969), over all layers; what a rank keeps is contiguous.
 *  A slice is what of one tensor one owner has.
 */
#ifndef REDCO_STATES_LAYOUT_H
#define REDCO_STATES_LAYOUT_H

#include "costmodel/models/task.h"
#include "topology/ranks/parallel.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_state_tensor {
    const char *name;
    uint64_t elements; /**< at least 1 */
    bool replicated;   /**< all tensor-parallel ranks hold the same elements: they count once in norms */
    bool decayed;      /**< weight decay applies */
    bool frozen;       /**< it is not trained: no gradient, no optimizer state. All tensors of a module are, or none */
    bool assigned;     /**< the mean of its gradients is subtracted from it, whatever the optimizer does */
    redco_own_settings own;
} redco_state_tensor;

/** A tensor seen as [matrices, rows, columns]; vectors have no rows. Needed by optimizers that keep rows and columns
 *  apart. A split dimension is that of redco_tp_layout, dimensions before it folded into its blocks. */
typedef struct redco_state_matrix {
    uint64_t matrices, rows, columns; /**< sizes of the whole tensor; rows = 0: one vector of so many columns */
    int split;                        /**< 0 matrices, 1 rows, 2 columns; -1: none */
    uint64_t blocks;                  /**< blocks of the split */
    uint32_t ranks, rank;             /**< tensor-parallel ranks */
} redco_state_matrix;

typedef struct redco_state_module {
    const char *name; /**< "q_proj": for operation names */
    uint32_t first_tensor, tensor_count;
} redco_state_module;

typedef struct redco_state_layer {
    const char *name; /**< "block.3" */
    redco_shards shards;
    uint32_t first_module, module_count; /**< modules may be none */
    bool assigned; /**< it is the rest of the layer before, modules all of which are assigned: no moments */
    bool shared;   /**< another pipeline stage has it as well: gradients are summed over both */
} redco_state_layer;

/** Modules of a layer and tensors of a module follow each other, in forward order, without gaps. */
typedef struct redco_state_model {
    const redco_state_layer *layers;
    const redco_state_module *modules;
    const redco_state_tensor *tensors;
    uint32_t layer_count, module_count, tensor_count;
    const uint32_t *numbers; /**< by layer: of the plan's step; NULL: all layers of the step are here, in order */
} redco_state_model;

/** Layers of a plan's step are those here and their rests. @return the number there of a layer, or of a rest's layer */
static inline uint32_t redco_step_layer_of(const redco_state_model *model, uint32_t layer)
{
    uint32_t number = 0;
    if (model->numbers != NULL) { return model->numbers[layer]; }
    for (uint32_t l = 1; l <= layer; l++) { number += model->layers[l].assigned ? 0 : 1; }
    return number;
}
/** The reverse; its rest, if there is one, comes behind it.
 *  @return layer_count for a number that no layer has; layers in between are of other stages */
static inline uint32_t redco_layer_of_step(const redco_state_model *model, uint32_t number)
{
    uint32_t l = 0;
    while (model->numbers != NULL && l < model->layer_count && model->numbers[l] < number) { l++; }
    while (model->numbers == NULL && l < model->layer_count && (model->layers[l].assigned || number-- > 0)) { l++; }
    return l;
}

/** @return whether a module's tensors are frozen. */
static inline bool redco_module_frozen(const redco_state_model *model, uint32_t module)
{
    return model->tensors[model->modules[module].first_tensor].frozen;
}

typedef struct redco_layout_options {
    redco_rank_mesh mesh;
    redco_mesh secondary; /**< a second copy of sharded parameters for backward, over fewer ranks; 0x0 = none */
    redco_scheme scheme;
    uint32_t tensor_granule; /**< 0 = 128: 256 bytes of 16-bit elements */
    uint32_t shard_granule;  /**< shards are multiples of it; 0 = 8: 16 bytes of 16-bit elements */
} redco_layout_options;

typedef struct redco_shard_slice {
    uint32_t tensor;
    uint32_t owner;       /**< position in the group between parameters and optimizer of the layer; frozen: 0 */
    uint64_t begin;       /**< first element in the tensor */
    uint64_t count;       /**< elements, at least 1 */
    uint64_t shard_at;    /**< place in the layer's shard */
    uint64_t gradient_at; /**< place in the layer's gradients, REDCO_NOWHERE if not kept */
    uint64_t owned_at;    /**< place in the layer's optimizer states, REDCO_NOWHERE if another's */
} redco_shard_slice;

#define REDCO_NOWHERE UINT64_MAX

typedef struct redco_module_layout {
    uint64_t whole;        /**< room for the gathered module: parts of equal size behind one another */
    uint64_t shard;        /**< one part of it */
    uint64_t shard_at;     /**< in the layer's shard */
    uint64_t secondary;    /**< a part of the second copy, 0 if there is none */
    uint64_t secondary_at; /**< in the layer's second copy */
} redco_module_layout;

typedef struct redco_layer_layout {
    uint64_t shard, secondary, gradients, owned; /**< sizes of this rank's parts, padding included */
    uint64_t trained;                            /**< the first part of the shard */
    uint64_t part;                               /**< intra-tensor: size of one owner's part, else 0 */
    uint64_t gradient_begin;                     /**< where in the shard gradients begin that are not packed */
    bool packed;                                 /**< gradients are contiguous slices, not one range */
    uint32_t first_slice, slice_count;           /**< slices of the shard, whoever owns them, by shard_at */
    uint32_t trained_pieces;                     /**< the first ones */
} redco_layer_layout;

typedef struct redco_layout redco_layout;

/** @param model  borrowed until redco_layout_free()
 *  @param rank   whose layout
 *  @return REDCO_EVALUE: meshes do not divide each other, the model's counts do not fit */
redco_status redco_layout_create(const redco_state_model *model, const redco_layout_options *options, uint32_t rank,
                                 redco_layout **layout_out, redco_error *err);
void redco_layout_free(redco_layout *layout); /**< NULL is accepted */

const redco_state_model *redco_layout_model(const redco_layout *layout);
redco_place redco_layout_place(const redco_layout *layout);
redco_rank_mesh redco_layout_mesh(const redco_layout *layout);
redco_scheme redco_layout_scheme(const redco_layout *layout);
/** The secondary mesh where the layer uses one (its parameters have more ranks), else 0x0. */
redco_mesh redco_layout_secondary(const redco_layout *layout, uint32_t layer);
/** The same of any layer whose parameters have that mesh. */
redco_mesh redco_layout_second_mesh(const redco_layout *layout, redco_mesh parameters);
const redco_layer_layout *redco_layout_layer(const redco_layout *layout, uint32_t layer);
const redco_module_layout *redco_layout_module(const redco_layout *layout, uint32_t module);
const redco_shard_slice *redco_layout_slices(const redco_layout *layout, uint32_t layer, uint32_t *count_out);
uint64_t redco_layout_tensor_at(const redco_layout *layout, uint32_t tensor); /**< first element in its module */
uint32_t redco_layout_module_of(const redco_layout *layout, uint32_t tensor);
uint32_t redco_layout_layer_of(const redco_layout *layout, uint32_t module);
uint32_t redco_layout_slice_count(const redco_layout *layout); /**< in all layers */

/** Elements that a rank holds for good; the difference to what it needs is padding. */
typedef struct redco_layout_size {
    uint64_t parameters, secondary, gradients, optimizer;
    uint64_t whole; /**< the largest gathered module */
} redco_layout_size;
redco_layout_size redco_layout_sizes(const redco_layout *layout);

#ifdef __cplusplus
}
#endif
#endif
