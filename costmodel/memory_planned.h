/** @file memory_planned.h  Internal to costmodel: bytes of engines that plan their memory (engine.h): every tensor that
 *  backward reads, once, in the training precision. Formulas: costmodel/README.md, section 5. */
#ifndef REDCOI_MEMORY_PLANNED_H
#define REDCOI_MEMORY_PLANNED_H

#include "costmodel/memory.h"

uint64_t redcoi_planned_activation_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                         redco_recompute recompute);
uint64_t redcoi_planned_recompute_bytes(const redco_model *model, uint32_t class_index, const redco_shape *shape,
                                        redco_recompute recompute);
uint64_t redcoi_planned_logits_bytes(const redco_model *model, const redco_shape *shape);

#endif
