/** @file memory_saved.h  The memory that training software keeps of a layer for backward, by its rules
 *  (costmodel/saving), and what it allocates beside: derived from what each framework's functions save, not fitted. The
 *  page is costmodel/closed_form/MEMORY.md. Pure functions. */
#ifndef REDCO_MEMORY_SAVED_H
#define REDCO_MEMORY_SAVED_H

#include "costmodel/operators/compute.h"
#include "costmodel/saving/saving_rules.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The rules of an engine. Where it recomputes a share of a layer's operators, full recomputation has its own: a list
 *  of what checkpointing by operator keeps. */
redco_saver redco_saver_of(const redco_engine *engine, redco_recompute policy);

/** Transformer Engine's norms are in the kernels of the products that read them. */
bool redco_norms_in_products(const redco_engine *engine);
/** The modules that an engine may recompute in some block of a model. */
redco_recompute redco_model_modules(const redco_model *model, const redco_engine *engine);

/** A rank's layer as rules see it.
 *  @param sizes_out  lives as long as the result is used */
redco_saving_case redco_saving_case_of(const redco_model *model, const redco_shape *shape,
                                       uint64_t sizes_out[REDCO_AXIS_COUNT]);

/** Bytes that one rank keeps of a layer and micro-batch. @param sets  as in redco_saving_bytes() */
redco_saved_bytes redco_saved_of(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                 redco_saver saver, const redco_recompute_list *sets);

/** The bias of the scores of T5's relative positions in one stack, which all of its blocks share; else 0. */
uint64_t redco_relative_bias_bytes(const redco_model_dims *dims, const redco_shape *shape);
/** The memory that redco-exec keeps of an embedding. */
uint64_t redco_embedding_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape);
/** The memory that backward of a block allocates beside kept tensors, at its fullest moment. */
uint64_t redco_backward_working_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape);
/** Logits, their gradient and what the head's backward allocates beside. */
uint64_t redco_loss_bytes(const redco_model *model, const redco_shape *shape);

#ifdef __cplusplus
}
#endif
#endif
