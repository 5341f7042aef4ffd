/** @file stages.h  Which layers of a model stand where in a pipeline.
 *
 *  A model is an embedding, its blocks in order, and a head with the loss. A position is a place for some of them
 *  (redco_pipeline_positions()); the embedding is at the first, the head at the last. How many blocks are at each is a
 *  split: an array of one number a position, or NULL for equal shares.
 *
 *  Pure functions: no allocation, no state. */
#ifndef REDCO_STAGES_H
#define REDCO_STAGES_H

#include "costmodel/schedules/pipeline.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @return whether embedding and head take the place of a block each, as Llama 3's 126 layers were trained on 128
 * chunks (arXiv 2407.21783, section 3.3.2). So where blocks do not divide over the positions, and blocks and 2 do. */
bool redco_stage_edges_count(uint32_t blocks, uint64_t positions);
/** Blocks at a position without a split: equal shares, the first ones one more where they do not divide. */
uint32_t redco_stage_blocks(uint32_t blocks, uint64_t positions, uint64_t position);

enum { REDCO_SPLIT_POSITIONS_MAX = 1024 };

/** A split as people write it, one of
 *
 *      7,8,8,7              blocks of each position
 *      first=7,last=7       of the first and the last stage, either may be left out, the others equal shares
 *      embedding,loss       equal shares where these, or one of them, count as a block
 *      Et*7|t*8|t*8|t*7mL   a position each: E embedding, t block, m module of multi-token prediction, which is a
 *                           block behind the last, L loss; *n repeats a letter or a (group); commas are ignored
 *
 *  as Megatron Core 0.20 has them: --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers,
 *  --account-for-embedding-in-pipeline-split, --account-for-loss-in-pipeline-split, --pipeline-model-parallel-layout
 *  (megatron/core/transformer/transformer_block.py, get_num_layers_to_build(); pipeline_parallel_layer_layout.py).
 *  @param chunks     of a stage; 0: as many as the text says, or 1
 *  @param split_out  room for REDCO_SPLIT_POSITIONS_MAX
 *  @return REDCO_EVALUE, place "split" */
redco_status redco_split_read(const char *text, uint32_t blocks, uint32_t stages, uint32_t chunks, uint32_t *split_out,
                              uint32_t *chunks_out, redco_error *err);

/** @return whether it is "equal": equal shares, of any number of chunks */
bool redco_split_says_equal(const char *text);

/** Every position has a layer, and all blocks are somewhere.
 *  @return REDCO_EVALUE, place "split" */
redco_status redco_split_check(const uint32_t *split, uint32_t positions, uint32_t blocks, redco_error *err);

/** @return whether both are NULL or the same numbers. */
bool redco_split_same(const uint32_t *a, const uint32_t *b, uint32_t positions);

/** @return whether passes of this order can do without a split: chunks of interleaved ones are of equal size unless
 *  their layers are given, as Megatron-LM has it; embedding and head may count */
bool redco_stages_divide(redco_pipeline_kind kind, uint32_t blocks, uint64_t positions);
/** @return whether @p split is what NULL stands for: redco_stage_blocks() at each position, and these divide */
bool redco_split_is_equal(redco_pipeline_kind kind, const uint32_t *split, uint32_t positions, uint32_t blocks);

#ifdef __cplusplus
}
#endif
#endif
