/** @file memory_model.h  Bytes of one GPU, component by component, in whole numbers; ranks that hold more than others
 * are the ones counted. Formulas: MEMORY_FORMULAS.md. Pure functions; counts that do not fit saturate. */
#ifndef REDCO_MEMORY_H
#define REDCO_MEMORY_H

#include "costmodel/operators/compute.h"
#include "topology/base/share.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes per parameter: mixed precision keeps 32-bit master weights and two Adam moments (2 + 2 + 12), fp32 only the
 *  moments (4 + 4 + 8). */
typedef struct redco_state_bytes {
    uint32_t parameter, gradient, optimizer;
    uint32_t master; /**< part of optimizer: weights in 32 bits beside those in 16 */
} redco_state_bytes;
/** @param moments  that the model's own optimizer keeps, redco_model_moments() */
redco_state_bytes redco_state_bytes_of(redco_precision precision, const redco_engine *engine, uint32_t moments);
/** @return bytes of an element of each of Adam's moments; 0: the engine trains without them. */
uint32_t redco_adam_bytes(redco_precision precision, const redco_engine *engine);

/** Parameters of one member of a class that one tensor-parallel rank holds: matrices and tables are cut, rounded up;
 *  vectors (norms, biases) and KV heads fewer than ranks are replicated. */
uint64_t redco_rank_params(const redco_model *model, uint32_t class_index, redco_param_part part, uint32_t tp);
/** The part of them that is not trained. */
uint64_t redco_rank_frozen_params(const redco_model *model, uint32_t class_index, redco_param_part part, uint32_t tp);

/** Their bytes: in the width of the training precision, of quantised matrices 4 bits and their scales. */
uint64_t redco_rank_frozen_bytes(const redco_model *model, uint32_t class_index, redco_param_part part, uint32_t tp,
                                 redco_precision precision);

/** The trained parameters of the fullest of @p owners that whole tensors of all layers are assigned to, largest first,
 * each to the emptiest owner (so at least the largest tensor, however many owners). @p tp as in redco_rank_params().
 *  @param assigned  of a pipeline's assigned parameters instead, which have owners of their own */
uint64_t redco_fullest_owner_params(const redco_model *model, redco_param_part part, uint32_t tp, uint64_t owners,
                                    bool assigned);

/** The memory of one member for one micro-batch, by what it recomputes. */
typedef struct redco_layer_bytes {
    uint64_t kept[REDCO_RECOMPUTE_SETS]; /**< from forward to backward */
    /** The memory that backward builds again while it is in one recomputed member; 0 for engines that plan their
     *  memory: their moments are of costs. */
    uint64_t again[REDCO_RECOMPUTE_SETS];
} redco_layer_bytes;
redco_layer_bytes redco_layer_bytes_of(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                       const redco_recompute_list *sets);
/** The values of a pass of a graph that lists its operators when they need most, and the micro-batch's inputs. */
uint64_t redco_listed_pass_bytes(const redco_degree_work *degree, const redco_shape *shape, bool backward);
/** Logits, their 32-bit copy and their gradient; of engines that plan their memory the gradient alone, over the logits,
 *  and what the head's backward works with. */
uint64_t redco_logits_bytes(const redco_model *model, const redco_shape *shape);

/** One layer's keys and values, as transformers' cache keeps them. */
uint64_t redco_key_value_bytes(const redco_model *model, const redco_shape *shape);
/** The logits of the outputs that a script holds; 0: it holds none. */
uint64_t redco_held_logits_bytes(const redco_model *model, const redco_shape *shape);

/** The most that a plan may use of a GPU: its physical memory less what driver and ECC take, times the share above
 *  which runs fail or slow down. */
uint64_t redco_usable_memory_bytes(const redco_gpu *gpu, const redco_calibration *calibration);

/** The verdict whether a plan fits. So close to the capacity as measured peaks of the engine were off, it may not, or
 * may all the same (MEMORY.md). */
typedef enum redco_memory_verdict {
    REDCO_MEMORY_FITS,
    REDCO_MEMORY_MAY_NOT_FIT,
    REDCO_MEMORY_DOES_NOT_FIT
} redco_memory_verdict;
/** @param uncertain_bytes  half-width of that band: redco_prediction.uncertain_bytes */
redco_memory_verdict redco_memory_judge(uint64_t total_bytes, uint64_t capacity_bytes, uint64_t uncertain_bytes);
/** "fits", "may not fit", "does not fit". */
const char *redco_memory_word(redco_memory_verdict verdict);

/** CUDA context and loaded kernels. */
extern const double redco_context_bytes;
/** Context and fragmentation take that much of a GPU: the calibration's reserve on GPUs of 80 GiB and more, on
 *  which it was seen; on smaller ones the loaded kernels as they are, and the rest in proportion to the memory. */
uint64_t redco_reserve_bytes(const redco_gpu *gpu, const redco_calibration *calibration);

#ifdef __cplusplus
}
#endif
#endif
