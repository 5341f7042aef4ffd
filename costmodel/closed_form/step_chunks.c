/* Pipelines of a parallelism: how many layers stand where, and what interleaved stages wait for. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>
#include <string.h>

static uint32_t positions_of(const redco_parallelism *parallelism)
{
    const uint32_t chunks = redco_parallelism_chunks(parallelism);
    const redco_pipeline_kind kind = redco_pipeline_of_chunks(parallelism->schedule, chunks);
    return redco_pipeline_positions(kind, parallelism->pp, chunks);
}

uint32_t redcoi_position_blocks(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t position)
{
    if (parallelism->split != NULL) { return parallelism->split[position]; }
    return redco_stage_blocks(costs->blocks, positions_of(parallelism), position);
}

void redcoi_split_keep(redcoi_kept_split *kept, const redco_parallelism *parallelism)
{
    kept->given = parallelism->split != NULL;
    if (!kept->given) { return; }
    memcpy(kept->blocks, parallelism->split, positions_of(parallelism) * sizeof *kept->blocks);
}

bool redcoi_split_kept(const redcoi_kept_split *kept, const redco_parallelism *parallelism)
{
    return redco_split_same(kept->given ? kept->blocks : NULL, parallelism->split,
                            parallelism->split != NULL ? positions_of(parallelism) : 0);
}

uint64_t redcoi_stage_sum(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    uint64_t blocks = 0;
    for (uint32_t chunk = 0; chunk < s.chunks; chunk++) {
        blocks += redcoi_position_blocks(costs, parallelism, redco_pipeline_position(s.kind, s.stages, stage, chunk));
    }
    return blocks;
}

uint32_t redcoi_most_blocks(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const uint32_t copies = parallelism->schedule == REDCO_PIPELINE_DUALPIPE ? 2 : 1;
    if (parallelism->split == NULL) { return copies * ((costs->blocks + parallelism->pp - 1) / parallelism->pp); }
    uint64_t most = 0;
    for (uint32_t i = 0; i < parallelism->pp; i++) {
        const uint64_t blocks = redcoi_stage_sum(costs, parallelism, i);
        most = blocks > most ? blocks : most;
    }
    return (uint32_t)most;
}

redco_status redco_step_chunks_check(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t pp = parallelism->pp, chunks = pp > 1 ? s.chunks : parallelism->chunks > 1 ? parallelism->chunks : 1;
    const uint64_t positions = redco_pipeline_positions(s.kind, pp, chunks);
    redco_pipeline asked = s;
    asked.chunks = parallelism->chunks > 1 ? parallelism->chunks : s.chunks;
    asked.kind = redco_pipeline_of_chunks(asked.kind, asked.chunks);
    if (chunks <= REDCO_PIPELINE_CHUNKS_MAX && pp <= REDCO_PIPELINE_STAGES_MAX && parallelism->split == NULL) {
        const bool edges = redco_stage_edges_count(costs->blocks, positions);
        if (positions > costs->blocks && !edges) {
            return redco_fail(err, REDCO_EVALUE, "chunks",
                              "%u in each of %u pipeline stages are more than the %u layers", chunks, pp,
                              costs->blocks);
        }
        if (!redco_stages_divide(s.kind, costs->blocks, positions)) {
            return redco_fail(err, REDCO_EVALUE, "chunks",
                              "%u in each of %u pipeline stages do not divide the %u layers, nor these and 2 for "
                              "embedding and head",
                              chunks, pp, costs->blocks);
        }
    }
    const redco_status st = redco_pipeline_check(&asked, err);
    return st == REDCO_OK && parallelism->split != NULL
               ? redco_split_check(parallelism->split, (uint32_t)positions, costs->blocks, err)
               : st;
}

uint32_t redcoi_last_group(const redco_pipeline *s)
{
    const uint32_t rest = s->group > 0 ? s->micro_batches % s->group : 0;
    return rest > 0 ? rest : s->group;
}

/* Interleaved stages wait for the smaller of embedding and head, too, while the first group of micro-batches goes
 * through it forward and the last one backward: the rest of the time it is done beside the larger. */
double redcoi_smaller_edge_repeat(const redcoi_times *edge, const redco_pipeline *s)
{
    const double both_s = edge->forward_s + edge->backward_s;
    if (s->kind != REDCO_PIPELINE_INTERLEAVED || !(both_s > 0.0)) { return 0.0; }
    return (s->group * edge->forward_s + redcoi_last_group(s) * edge->backward_s) / both_s;
}

/* A group's first micro-batch takes p passes and p transfers from a model chunk to the next; N - p passes of the others
 * hide some of them. Forward the first group waits so before each chunk but the first, backward the last group. Beside
 * the first chunk they hide behind the embedding of the group as well. */
double redcoi_interleaved_s(const redco_costs *costs, const redcoi_rank *rank, const redco_pipeline *s, double send_s)
{
    double forward_s = 0.0, backward_s = 0.0, first_s = 0.0, last_s = 0.0;
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redcoi_times *const t = &rank->classes[i];
        const redco_class_kind kind = costs->classes[i].kind;
        if (redco_class_is_block(kind)) {
            forward_s += costs->classes[i].layers * t->forward_s / s->stages / s->chunks;
            backward_s += costs->classes[i].layers * t->backward_s / s->stages / s->chunks;
        } else if (kind != REDCO_CLASS_HEAD) {
            first_s += t->forward_s;
            last_s += t->backward_s;
        }
    }
    const double pp = s->stages, group = s->group, last = redcoi_last_group(s), loops = s->chunks - 2.0;
    const double down_s = pp * send_s - (group - pp) * forward_s, up_s = pp * send_s - (last - pp) * backward_s;
    return loops * (fmax(0.0, down_s) + fmax(0.0, up_s)) + fmax(0.0, down_s - (group - 1.0) * first_s) +
           fmax(0.0, up_s - (last - 1.0) * last_s);
}
