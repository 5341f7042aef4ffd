/** @file padded_shards.h  Internal to costmodel: shards of an engine that plans its memory, as redco-exec lays them out
 *  (executor/states/shard_layout.c): tensors behind one another in their module, modules in equal parts, padded. */
#ifndef REDCOI_PADDED_SHARDS_H
#define REDCOI_PADDED_SHARDS_H

#include "costmodel/closed_form/closed_form_internal.h"

/** Parameters by what becomes of them. */
typedef enum redcoi_param_kind { REDCOI_TRAINED = 1, REDCOI_ASSIGNED = 2, REDCOI_FROZEN = 4 } redcoi_param_kind;
enum { REDCOI_CHANGED = REDCOI_TRAINED | REDCOI_ASSIGNED, REDCOI_ALL_KINDS = REDCOI_CHANGED | REDCOI_FROZEN };

/** Elements of one of @p ranks shards of the layer's modules.
 *  @param kinds   of these kinds, to be added up
 *  @param passes  of those that change the ones whose gradients some of these passes hold (redco_passes) */
uint64_t redcoi_padded_shard(const redcoi_job *job, uint64_t ranks, unsigned kinds, uint8_t passes);
/** Bytes of the fullest rank's states, padding included. */
redcoi_states redcoi_padded_states(const redcoi_job *job);

#endif
