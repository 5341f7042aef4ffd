/** @file pipeline.h  Pipeline schedules as tables: which stage does which pass of which micro-batch in which order.
 *
 *  p stages stand in a line, one rank each. A stage holds v model chunks; a micro-batch goes through all chunks, in an
 *  order that the schedule decides (redco_pipeline_position()). With F, B, W the seconds of a stage's share of the
 *  model forward, backward as a whole, and of backward the part that makes gradients of weights, and m micro-batches:
 *
 *      schedule      bubble of a step, any stage   activations kept by stage i, in model chunks   m
 *      gpipe         (p-1)(F+B)                    m                                              any
 *      1f1b          (p-1)(F+B)                    min(p-i, m)                                    any
 *      interleaved   (p-1)(F+B)/v                  min(2(p-1-i) + (v-1)N + 1, vm)                 groups of N
 *      zb-h1         (p-1)(F + max(0, B-2W))       min(p, m)                                      any
 *      dualpipev     (p-1)(F+2B-3W)/2              2p+1                                           >= 2p; v = 2
 *      dualpipe      (p/2-1)(F+2B-3W)              p+1                                            even, >= 2p; p even
 *
 *  A step takes m(F+B) and the bubble where stages are equally long and transfers take no time. Under DualPipe every
 *  stage of the model lies on two ranks: rank i has stage i for one half of the micro-batches and stage p-1-i for the
 *  other, so parameters are there twice, and F, B, W are of one of its two stages. The last two bubbles are exact
 *  for F = W = B/2.
 *
 *  Sources: GPipe, arXiv 1811.06965; 1F1B, PipeDream-Flush, arXiv 2006.09503; interleaved, arXiv 2104.04473, section
 *  2.2, and Megatron Core 0.20, megatron/core/pipeline_parallel/schedules.py (get_pp_rank_microbatches(),
 *  get_schedule_table()); ZB-H1, arXiv 2401.10241, section 2.2 and table 1; DualPipe and DualPipeV, arXiv 2412.19437,
 *  table 2, and github.com/deepseek-ai/DualPipe (README, dualpipe.py, dualpipev.py). Its F&B, a forward and a backward
 *  pass at once, is F+B here.
 *
 *  Pure functions of plain values: no state; redco_pipeline_spans_s() alone allocates, for the call. */
#ifndef REDCO_PIPELINE_H
#define REDCO_PIPELINE_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_pipeline_kind {
    REDCO_PIPELINE_1F1B,
    REDCO_PIPELINE_INTERLEAVED,
    REDCO_PIPELINE_GPIPE,
    REDCO_PIPELINE_ZB_H1,
    REDCO_PIPELINE_DUALPIPE_V,
    REDCO_PIPELINE_DUALPIPE,
    REDCO_PIPELINE_COUNT
} redco_pipeline_kind;

/** "1f1b", "interleaved", "gpipe", "zb-h1", "dualpipev", "dualpipe", NULL */
extern const char *const redco_pipeline_words[];

enum { REDCO_PIPELINE_CHUNKS_MAX = 64, REDCO_PIPELINE_STAGES_MAX = 256 };

typedef struct redco_pipeline {
    redco_pipeline_kind kind;
    uint32_t stages; /**< p >= 1 */
    uint32_t chunks; /**< v: >= 2 of interleaved, 2 of DualPipeV and DualPipe, else 1 */
    uint32_t group;  /**< N of interleaved: micro-batches that a chunk takes one after the other; 0: p. Else 0 */
    uint32_t micro_batches;
} redco_pipeline;

/** @return REDCO_EVALUE, place "schedule", "chunks" or "group": what the schedule needs and does not have */
redco_status redco_pipeline_check(const redco_pipeline *schedule, redco_error *err);

/** The smallest group that so many micro-batches can be taken in: p where p divides them. */
uint32_t redco_pipeline_least_group(uint32_t stages, uint32_t micro_batches);
/** 1F1B of several chunks a stage is the interleaved schedule; other kinds stay. */
redco_pipeline_kind redco_pipeline_of_chunks(redco_pipeline_kind kind, uint32_t chunks);
/** The chunks that a stage has under such a schedule: @p asked, or the only number that is possible. */
uint32_t redco_pipeline_chunks(redco_pipeline_kind kind, uint32_t asked);
/** Places of a model's layers: p v, or p where two ranks hold the same stage (DualPipe). */
uint32_t redco_pipeline_positions(redco_pipeline_kind kind, uint32_t stages, uint32_t chunks);
/** Which of these, in the order of the model's layers, a stage's chunk is. */
uint32_t redco_pipeline_position(redco_pipeline_kind kind, uint32_t stages, uint32_t stage, uint32_t chunk);
/** Which chunk of which stage is at that position for a micro-batch. */
uint32_t redco_pipeline_stage_at(const redco_pipeline *schedule, uint32_t position, uint32_t micro_batch,
                                 uint32_t *chunk_out);
/** The first and the last micro-batch that go through a chunk: all, or one half of them (DualPipe). */
uint32_t redco_pipeline_first_batch(const redco_pipeline *schedule, uint32_t chunk);
uint32_t redco_pipeline_last_batch(const redco_pipeline *schedule, uint32_t chunk);

typedef enum redco_turn_kind {
    REDCO_TURN_FORWARD,
    REDCO_TURN_BACKWARD, /**< both parts of it */
    REDCO_TURN_INPUT,    /**< backward, gradients of inputs: the stage before waits for them */
    REDCO_TURN_WEIGHT,   /**< backward, gradients of weights, some time after REDCO_TURN_INPUT */
    REDCO_TURN_KINDS
} redco_turn_kind;

/** One pass of one stage. */
typedef struct redco_turn {
    redco_turn_kind kind;
    uint32_t chunk, micro_batch;
    bool joined; /**< runs at once with the turn after it, which is a backward one of another micro-batch */
} redco_turn;

/** At least as many as the turns of a stage: 3 v m. */
uint64_t redco_pipeline_room(const redco_pipeline *schedule);
/** The table of one stage, in the order in which it works.
 *  @param schedule   that redco_pipeline_check() allows
 *  @param turns_out  room for redco_pipeline_room() of them
 *  @return their number */
uint32_t redco_pipeline_table(const redco_pipeline *schedule, uint32_t stage, redco_turn *turns_out);

/** The third column of the table above: micro-batches times model chunks whose activations a stage keeps at its fullest
 *  moment. */
uint64_t redco_pipeline_in_flight(const redco_pipeline *schedule, uint32_t stage);
/** @return how many of them belong to one of its chunks */
uint64_t redco_pipeline_kept(const redco_pipeline *schedule, uint32_t stage, uint32_t chunk);
/** Micro-batches of a chunk that are under way at once, at most: from the beginning of forward to the end of backward.
 *  Those of several chunks may have their most at different moments. */
uint64_t redco_pipeline_under_way(const redco_pipeline *schedule, uint32_t stage, uint32_t chunk);
/** Model chunks times micro-batches whose gradients of weights are still to come when those of inputs are made, at
 * most; 0 where backward is whole. */
uint64_t redco_pipeline_late(const redco_pipeline *pipeline, uint32_t stage);

/** Seconds of one pass through the layers of a position. */
typedef struct redco_position_times {
    double forward_s, backward_s;
    double weight_s; /**< part of backward: gradients of weights */
} redco_position_times;

/** From the first pass of a step to the last, where positions differ: a pass starts when its stage is free and what it
 *  needs has come; a joined turn is two.
 *  @param times   of each position
 *  @param send_s  from one stage to another, beside whatever that computes
 *  @return REDCO_ENOMEM */
redco_status redco_pipeline_span_s(const redco_pipeline *pipeline, const redco_position_times *times, double send_s,
                                   double *span_s_out, redco_error *err);
typedef struct redco_span_times {
    const redco_position_times *times;
    double send_s;
} redco_span_times;

/** The same for several sets of times at once. @param span_s_out  one for each */
redco_status redco_pipeline_spans_s(const redco_pipeline *pipeline, const redco_span_times *sets, uint32_t set_count,
                                    double *span_s_out, redco_error *err);
/** @return whether backward is cut in two. */
bool redco_pipeline_splits_backward(redco_pipeline_kind kind);

#ifdef __cplusplus
}
#endif
#endif
