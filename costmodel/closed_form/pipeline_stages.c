/* The share of a step that each class of layers has where stages take turns, what a stage keeps, and transfers. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_saved.h"

#include <math.h>

/* A pipeline transfer's own latency. Since 1; source: public measurements (CALIBRATION.md). */
static const double pipeline_latency_s = 12e-6;

/* Pipeline stages (STEP.md):  T = m t_max + (p - 1) / v S, with v model chunks a stage and S an even share of
 * the layers; the second summand is the bubble. The slowest stage holds ceil(L / p) blocks; the first also the
 * embedding, the last the head, and of these two only the longer adds. With uneven stages the head takes a block's
 * place. */
static void edge_times(const redco_costs *costs, const redcoi_rank *rank, double edge_s[2], double *block_s)
{
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const double s = rank->classes[i].forward_s + rank->classes[i].backward_s;
        const redco_class_kind kind = costs->classes[i].kind;
        if (redco_class_is_block(kind)) {
            *block_s = fmax(*block_s, s);
        } else {
            edge_s[kind == REDCO_CLASS_HEAD ? 1 : 0] += s;
        }
    }
}

static double edge_repeat(const redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                          uint32_t class_index)
{
    double edge_s[2] = {0.0, 0.0}, block_s = 0.0; /* embedding, head */
    edge_times(costs, rank, edge_s, &block_s);
    const double micro_batches = (double)parallelism->micro_batches;
    const bool head = costs->classes[class_index].kind == REDCO_CLASS_HEAD;
    if (costs->blocks % parallelism->pp != 0) {
        const double beyond_s = fmax(0.0, edge_s[1] - block_s);
        if (!head || !(edge_s[1] > 0.0)) { return 0.0; }
        /* the rest of it is on the way down, and on the way up */
        return (micro_batches * beyond_s + fmin(2.0, micro_batches) * (edge_s[1] - beyond_s)) / edge_s[1];
    }
    if (head == (edge_s[1] >= edge_s[0])) { return micro_batches; }
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    return redcoi_smaller_edge_repeat(&rank->classes[class_index], &s);
}

/* The chunk of a stage that stands at the first or the last position, or chunks where none does. */
static uint32_t edge_chunk(const redco_pipeline *s, uint32_t stage, bool head)
{
    const uint32_t wanted = head ? redco_pipeline_positions(s->kind, s->stages, s->chunks) - 1 : 0;
    uint32_t chunk = 0;
    while (chunk < s->chunks && redco_pipeline_position(s->kind, s->stages, stage, chunk) != wanted) { chunk++; }
    return chunk;
}

/* Micro-batches of a chunk whose activations take memory at the fullest moment: an engine that plans its memory has
 * places for each chunk's. */
static uint64_t kept_of(const redco_costs *costs, const redco_pipeline *s, uint32_t stage, uint32_t chunk)
{
    return costs->workload.engine.planned_memory ? redco_pipeline_under_way(s, stage, chunk)
                                                 : redco_pipeline_kept(s, stage, chunk);
}

/* Activations that a stage keeps of its blocks at its fullest moment, a micro-batch and a layer each. */
static uint64_t kept_blocks(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t positions = redco_pipeline_positions(s.kind, s.stages, s.chunks);
    uint64_t kept = 0;
    const bool edges = redco_stage_edges_count(costs->blocks, positions);
    if (parallelism->split == NULL && (edges || costs->blocks % positions == 0)) { /* the search asks often */
        kept = (costs->blocks + (edges ? 2 : 0)) / positions * redco_pipeline_in_flight(&s, stage);
        if (edges && stage == 0) { kept -= redco_pipeline_kept(&s, 0, 0); }
        if (edges && edge_chunk(&s, stage, true) < s.chunks) {
            kept -= redco_pipeline_kept(&s, stage, edge_chunk(&s, stage, true));
        }
        return kept;
    }
    for (uint32_t chunk = 0; chunk < s.chunks; chunk++) {
        const uint32_t position = redco_pipeline_position(s.kind, s.stages, stage, chunk);
        kept += redcoi_position_blocks(costs, parallelism, position) * redco_pipeline_kept(&s, stage, chunk);
    }
    return kept;
}

/* The first stage keeps the most activations; the second where the embedding takes a block's place in the first; any
 * stage where the blocks are split by hand. */
static uint64_t most_kept_blocks(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const uint32_t stages = parallelism->split != NULL || parallelism->pp < 2 ? parallelism->pp : 2;
    uint64_t most = 0;
    for (uint32_t i = 0; i < stages; i++) {
        const uint64_t kept = kept_blocks(costs, parallelism, i);
        most = kept > most ? kept : most;
    }
    return most;
}

/* Stages that hold a block less than the fullest, all behind those; 0 where chunks are interleaved or all are equal. */
static uint32_t shorter_stages(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const uint32_t rest = costs->blocks % parallelism->pp;
    return redco_parallelism_chunks(parallelism) > 1 || rest == 0 ? 0 : parallelism->pp - rest;
}

/* Micro-batches of a class, and the pipeline bubble, in passes through all its layers. */
static double repeat_of(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                        uint32_t class_index, double share)
{
    const double pp = parallelism->pp;
    if (redcoi_pace_needed(costs, parallelism)) {
        return redcoi_pace_find(costs, rank, parallelism)->repeat[class_index];
    }
    if (!redco_class_is_block(costs->classes[class_index].kind)) {
        return edge_repeat(costs, rank, parallelism, class_index);
    }
    const uint32_t shorter = shorter_stages(costs, parallelism);
    const double micro_batches = (double)parallelism->micro_batches;
    if (shorter == 0) { return micro_batches * share + (pp - 1.0) / pp / redco_parallelism_chunks(parallelism); }
    /* Stages that hold a block less keep the others waiting for less: once on the way down and up, and under 1F1B,
     * where a later stage's turn-around is what an earlier one waits for, once more. */
    const double held = share * costs->blocks, once = shorter;
    const double twice =
        redco_parallelism_pipeline(parallelism).kind == REDCO_PIPELINE_GPIPE ? 0.0 : fmin(once, micro_batches - 1.0);
    return micro_batches * share + fmax(0.0, (pp - 1.0) * held - once - twice) / costs->blocks;
}

void redcoi_stage_repeat(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                         uint32_t class_index, redcoi_stage *stage)
{
    const bool block = redco_class_is_block(costs->classes[class_index].kind);
    if (parallelism->pp <= 1) { return; }
    stage->repeat = repeat_of(costs, rank, parallelism, class_index, block ? stage->share : 1.0);
    stage->again = block && redcoi_pace_needed(costs, parallelism) ? redcoi_pace_find(costs, rank, parallelism)->again
                                                                   : stage->repeat;
}

/* The fullest stage in the closed form of one layer. */
redcoi_stage redcoi_stage_of(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index)
{
    const double micro_batches = (double)parallelism->micro_batches;
    if (parallelism->pp <= 1) { return (redcoi_stage){micro_batches, micro_batches, 1.0, 1.0, 1, 1, 1, 0}; }
    if (redco_class_is_block(costs->classes[class_index].kind)) {
        const uint64_t held = redcoi_most_blocks(costs, parallelism), kept = most_kept_blocks(costs, parallelism);
        const double share = (double)held / costs->blocks;
        const bool halves = redco_pipeline_splits_backward(parallelism->schedule);
        const uint64_t late =
            halves ? redcoi_memory_stage(costs, parallelism, class_index, parallelism->pp - 1).late : 0;
        return (redcoi_stage){0.0, 0.0, share, share, held, costs->blocks, kept, late};
    }
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const bool head = costs->classes[class_index].kind == REDCO_CLASS_HEAD;
    const uint32_t position = head ? redco_pipeline_positions(s.kind, s.stages, s.chunks) - 1 : 0;
    uint32_t chunk = 0;
    const uint32_t stage = redco_pipeline_stage_at(&s, position, 0, &chunk);
    return (redcoi_stage){0.0, 0.0, 1.0, 1.0, 1, 1, kept_of(costs, &s, stage, chunk), 0};
}

/* Embedding and head stand on one stage each, and what is done once a step takes as long as the stage with the most
 * parameters needs: the edges have what it holds beyond the blocks of the fullest. */
void redcoi_stages_once(const redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                        redcoi_stage *stages)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    double edge[2] = {0.0, 0.0}, blocks = 0.0, most = 0.0; /* parameters */
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redco_class_kind kind = costs->classes[i].kind;
        const double params = (double)rank->classes[i].trained_params * costs->classes[i].layers;
        *(redco_class_is_block(kind) ? &blocks : &edge[kind == REDCO_CLASS_HEAD ? 1 : 0]) += params;
    }
    const double block = blocks / costs->blocks, held = block * redcoi_most_blocks(costs, parallelism);
    for (uint32_t stage = 0; stage < s.stages; stage += s.stages - 1) {
        double params = block * (double)redcoi_stage_sum(costs, parallelism, stage);
        for (int head = 0; head < 2; head++) {
            params += edge_chunk(&s, stage, head != 0) < s.chunks ? edge[head] : 0.0;
        }
        most = fmax(most, params);
    }
    const double beyond = fmax(0.0, most - held);
    const double once[2] = {edge[0] > 0.0 ? fmin(1.0, beyond / edge[0]) : 0.0,
                            edge[1] > 0.0 ? fmin(1.0, fmax(0.0, beyond - edge[0]) / edge[1]) : 0.0};
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redco_class_kind kind = costs->classes[i].kind;
        if (!redco_class_is_block(kind)) { stages[i].once = once[kind == REDCO_CLASS_HEAD ? 1 : 0]; }
    }
}

uint32_t redcoi_class_at_position(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                  uint32_t position)
{
    const redco_layer_run *runs = NULL;
    const size_t count = redco_model_order(costs->model, &runs);
    uint32_t first = 0, at = 0, layers = 0;
    for (uint32_t i = 0; i < position; i++) { first += redcoi_position_blocks(costs, parallelism, i); }
    const uint32_t end = first + redcoi_position_blocks(costs, parallelism, position);
    for (size_t r = 0; r < count; r++) {
        if (!redco_class_is_block(costs->classes[runs[r].class_index].kind)) { continue; }
        const uint32_t from = at > first ? at : first, until = at + runs[r].layers < end ? at + runs[r].layers : end;
        if (runs[r].class_index == class_index && until > from) { layers += until - from; }
        at += runs[r].layers;
    }
    return layers;
}

/* Layers of a class of blocks on a stage, one by one: classes need not be spread evenly. */
static redcoi_stage listed_stage(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                 uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    redcoi_stage listed = {.of = costs->classes[class_index].layers};
    for (uint32_t chunk = 0; chunk < s.chunks; chunk++) {
        const uint32_t position = redco_pipeline_position(s.kind, s.stages, stage, chunk);
        const uint64_t layers = redcoi_class_at_position(costs, parallelism, class_index, position);
        listed.held += layers;
        listed.kept += layers * kept_of(costs, &s, stage, chunk);
    }
    listed.late = redco_share_up(listed.held * redco_pipeline_late(&s, stage), 1, s.chunks > 0 ? s.chunks : 1);
    return listed;
}

redcoi_stage redcoi_memory_stage(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                 uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const redco_class_kind kind = costs->classes[class_index].kind;
    if (redco_class_is_block(kind) && costs->workload.engine.planned_memory) {
        return listed_stage(costs, parallelism, class_index, stage);
    }
    if (redco_class_is_block(kind)) {
        const uint64_t blocks = redcoi_stage_sum(costs, parallelism, stage);
        return (redcoi_stage){.held = blocks,
                              .of = costs->blocks,
                              .late = (blocks * redco_pipeline_late(&s, stage) + s.chunks - 1) / s.chunks,
                              .kept = kept_blocks(costs, parallelism, stage)};
    }
    const uint32_t chunk = edge_chunk(&s, stage, kind == REDCO_CLASS_HEAD);
    const bool here = chunk < s.chunks;
    return (redcoi_stage){.held = here ? 1 : 0, .of = 1, .kept = here ? kept_of(costs, &s, stage, chunk) : 0};
}

uint64_t redcoi_stage_logits(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t chunk = edge_chunk(&s, stage, true);
    const uint32_t rest = s.group > 0 ? s.micro_batches % s.group : 0;
    if (chunk >= s.chunks) { return 0; }
    if (costs->workload.engine.planned_memory || s.kind != REDCO_PIPELINE_INTERLEAVED || rest == 0) {
        return kept_of(costs, &s, stage, chunk);
    }
    /* A last group of fewer is through all chunks while gradients of the one before are made. */
    const uint64_t ahead = (uint64_t)(s.chunks - 1) * (s.group - rest) + 1;
    return ahead < rest ? ahead : rest;
}

/* Activations between layers, a micro-batch. */
static uint64_t hidden_bytes(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const uint64_t rows = (uint64_t)parallelism->micro_batch * costs->workload.seq_len;
    return redco_share_up(rows * costs->dims->hidden, (uint64_t)costs->compute.element_bytes,
                          parallelism->sequence_parallel ? parallelism->tp : 1);
}

/* An encoder's output and the norm behind it, and the bias of the decoder's scores. */
static uint64_t decoder_bytes(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_shape shape = redcoi_shape_of(costs, parallelism);
    return 2 * hidden_bytes(costs, parallelism) + redco_relative_bias_bytes(costs->dims, &shape);
}

static uint32_t blocks_before(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t position)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < position; i++) { blocks += redcoi_position_blocks(costs, parallelism, i); }
    return blocks;
}

/* Forward into a position, and so much backward out of it: of an encoder-decoder also the decoder's embedding on its
 * way, or the encoder's output; inside of a stack the bias of its scores. */
static uint64_t crossing_bytes(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t position)
{
    const redco_shape shape = redcoi_shape_of(costs, parallelism);
    const uint32_t encoder = costs->dims->encoder_layers;
    const uint64_t one = hidden_bytes(costs, parallelism);
    if (encoder == 0) { return one; }
    const bool inside = blocks_before(costs, parallelism, position) != encoder;
    return 2 * one + (inside ? redco_relative_bias_bytes(costs->dims, &shape) : 0);
}

/* Places for what comes and goes: one more of what comes forward than micro-batches are under way, whose own inputs
 * count with the layers; of gradients that come one more than are read; two for what leaves. */
uint64_t redcoi_stage_buffer_bytes(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t last = redco_pipeline_positions(s.kind, s.stages, s.chunks) - 1;
    const uint64_t m = s.micro_batches, two = m < 2 ? m : 2, late = redco_pipeline_late(&s, stage) / s.chunks + 1;
    const uint64_t comes = late < two ? two : late < m ? late : m;
    uint64_t bytes = 0;
    if (!costs->workload.engine.planned_memory) { return 0; }
    for (uint32_t chunk = 0; chunk < s.chunks; chunk++) {
        const uint32_t position = redco_pipeline_position(s.kind, s.stages, stage, chunk);
        const uint64_t kept = kept_of(costs, &s, stage, chunk);
        if (position > 0) {
            bytes += (kept + (kept < m ? 1 : 0) + two) * crossing_bytes(costs, parallelism, position) -
                     kept * hidden_bytes(costs, parallelism);
        }
        if (position < last) { bytes += (two + comes) * crossing_bytes(costs, parallelism, position + 1); }
    }
    return bytes;
}

int64_t redcoi_stage_decoder_bytes(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t encoder = costs->dims->encoder_layers;
    int64_t bytes = 0;
    if (encoder == 0 || !costs->workload.engine.planned_memory) { return 0; }
    for (uint32_t chunk = 0; chunk < s.chunks; chunk++) {
        const uint32_t position = redco_pipeline_position(s.kind, s.stages, stage, chunk);
        const uint32_t first = blocks_before(costs, parallelism, position),
                       end = first + redcoi_position_blocks(costs, parallelism, position);
        const int64_t all = (int64_t)(kept_of(costs, &s, stage, chunk) * decoder_bytes(costs, parallelism));
        if (position == 0) { bytes -= all; }
        if (first <= encoder && encoder < end) { bytes += all; }
    }
    return bytes;
}

redco_group redcoi_stage_pair(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    return redco_parallel_stage_pair(&p);
}

double redcoi_stage_transfer_s(const redco_costs *costs, const redco_parallelism *parallelism, double *bytes_out,
                               bool *network_out)
{
    const redco_group pair = redcoi_stage_pair(costs, parallelism);
    /* Tensor-parallel ranks send a part each and gather it behind (Narayanan et al. 2021, section 4.1). */
    const double tokens = (double)parallelism->micro_batch * costs->workload.seq_len / parallelism->cp;
    const double bytes = tokens * costs->dims->hidden * costs->compute.element_bytes / parallelism->tp;
    if (bytes_out != NULL) { *bytes_out = bytes; }
    return pipeline_latency_s + redcoi_transfer_s(costs, bytes, pair, network_out);
}

/* Transfers that stages wait for, though they are sent beside computation: the first micro-batch on its way down, the
 * last on its way up, and what stretches the pace between. Under 1F1B a stage waits for the gradient of what it has
 * just sent: k stages in a row take k micro-batches in no less than their passes and 2 (k - 1) transfers, so that the
 * pace is that of the slowest such row. */
double redcoi_pipeline_s(redco_costs *costs, const redco_parallelism *parallelism)
{
    if (parallelism->pp <= 1) { return 0.0; }
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    if (redcoi_pace_needed(costs, parallelism)) { return redcoi_pace_find(costs, rank, parallelism)->transfers_s; }
    const double send_s = redcoi_stage_transfer_s(costs, parallelism, NULL, NULL), pp = parallelism->pp;
    if (s.kind == REDCO_PIPELINE_INTERLEAVED) {
        return 2.0 * (pp - 1.0) * send_s + redcoi_interleaved_s(costs, rank, &s, send_s);
    }
    if (s.kind == REDCO_PIPELINE_GPIPE) { return 2.0 * (pp - 1.0) * send_s; }
    double edge_s[2] = {0.0, 0.0}, block_s = 0.0;
    edge_times(costs, rank, edge_s, &block_s);
    const double longer = costs->blocks % parallelism->pp; /* stages that hold a block more than the last */
    const double base_s = longer > 0.0 ? fmax(block_s, edge_s[1]) : fmax(edge_s[0], edge_s[1]); /* over the others */
    const double all_s = (longer * block_s + edge_s[0] + edge_s[1] + 2.0 * (pp - 1.0) * send_s) / pp;
    const double row_s = longer > 0.0 ? block_s + (edge_s[0] + 2.0 * (longer - 1.0) * send_s) / longer : 0.0;
    const double pace_s = fmax(fmax(all_s, row_s), (longer > 0.0 ? block_s : 0.0) + edge_s[0]);
    const double slower_s = (double)parallelism->micro_batches * fmax(0.0, pace_s - base_s);
    return 2.0 * (pp - 1.0) * send_s + fmax(0.0, slower_s - 2.0 * send_s);
}
