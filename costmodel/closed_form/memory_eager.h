/** @file memory_eager.h  Internal to costmodel: whole gradients, weights that are copied and what an update needs, of
 *  engines that do not plan their memory (MEMORY.md). */
#ifndef REDCOI_MEMORY_EAGER_H
#define REDCOI_MEMORY_EAGER_H

#include "costmodel/closed_form/closed_form_internal.h"

/** Whole gradients of a layer that are cut, and its bucket beyond one of the usual size. */
uint64_t redcoi_whole_gradient_bytes(const redcoi_job *job);
/** Bytes of an element of gradients that eager PyTorch keeps: DDP's buckets are a second copy. */
uint32_t redcoi_eager_gradient_bytes(const redcoi_job *job);
/** The memory fields of a layer's cost under eager PyTorch: from a step's moments (MEMORY.md). The states are set. */
void redcoi_eager_memory(const redcoi_job *job, const redcoi_states *states, redco_layer_cost *cost);

#endif
