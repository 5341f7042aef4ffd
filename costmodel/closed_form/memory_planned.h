/** @file memory_planned.h  Internal to costmodel: bytes of engines that plan their memory (engine.h): every tensor that
 *  backward reads, once, in the training precision. Formulas: MEMORY_FORMULAS.md. */
#ifndef REDCOI_MEMORY_PLANNED_H
#define REDCOI_MEMORY_PLANNED_H

#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_model.h"

uint64_t redcoi_planned_embedding_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape);
/** The memory of a class beyond what it keeps, @p kept_bytes, when backward of it is fullest; of the head also of its
 *  forward. */
uint64_t redcoi_planned_moment_bytes(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                                     redco_recompute recompute, uint64_t kept_bytes);
/** Where a layer makes whole gradients that are not scattered, before they are taken to where they are kept; with
 *  Transformer Engine the empty gradients of a block's matrices that autograd is handed, and workspaces; else 0. */
uint64_t redcoi_slot_bytes(const redcoi_job *job);
/** Whole gradients of a layer that are cut, by an engine that does not plan its memory, and its bucket beyond one of
 *  the usual size. */
uint64_t redcoi_whole_gradient_bytes(const redcoi_job *job);
/** The transient fields of a layer's cost: gathered weights, whole gradients, buckets, what backward works with. */
void redcoi_planned_transients(const redcoi_job *job, redco_layer_cost *cost);

/** Bytes of an element of gradients that eager PyTorch keeps: DDP's buckets are a second copy. */
uint32_t redcoi_eager_gradient_bytes(const redcoi_job *job);
/** The memory fields of a layer's cost under eager PyTorch: from a step's moments (MEMORY.md). The states are set. */
void redcoi_eager_memory(const redcoi_job *job, const redcoi_states *states, redco_layer_cost *cost);

/** One tensor of the FFN's width. */
uint64_t redcoi_planned_ffn_bytes(const redco_model *model, const redco_shape *shape);
/** Part of the logits' bytes: the gradient of the head's input, which is made when that of its weights is through; 0
 * where the input, gathered for both, is there beside the latter. */
uint64_t redcoi_planned_head_input_bytes(const redco_model *model, const redco_shape *shape);

#endif
