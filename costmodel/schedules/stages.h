/** @file stages.h  Which layers of a model stand where in a pipeline.
 *
 *  A model is an embedding, its blocks in order, and a head with the loss. A position is a place for some of them
 *  (redco_pipeline_positions()); the embedding is at the first, the head at the last. How many blocks are at each is a
 *  split: an array of one number a position, or NULL for equal shares.
 *
 *  Pure functions but for redco_split_read(), which allocates. */
#ifndef REDCO_STAGES_H
#define REDCO_STAGES_H

#include "costmodel/schedules/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whether embedding and head take the place of a block each: as Llama 3's 126 layers were trained on 128 chunks
 *  (arXiv 2407.21783, section 3.3.2). So where blocks do not divide over the positions, and blocks and 2 do. */
bool redco_stage_edges_count(uint32_t blocks, uint64_t positions);
/** Blocks at a position without a split: equal shares, the first ones one more where they do not divide. */
uint32_t redco_stage_blocks(uint32_t blocks, uint64_t positions, uint64_t position);

/** Every position has a layer, and all blocks are somewhere.
 *  @return REDCO_EVALUE, place "split" */
redco_status redco_split_check(const uint32_t *split, uint32_t positions, uint32_t blocks, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
