/* Pipelines of a setting: their schedule, and how many layers stand where. */
#include "costmodel/closed_form/closed_form_internal.h"

uint32_t redco_setting_chunks(const redco_setting *setting)
{
    if (setting->pp <= 1) { return 1; }
    if (setting->schedule == REDCO_PIPELINE_1F1B || setting->schedule == REDCO_PIPELINE_INTERLEAVED) {
        return setting->chunks > 1 ? setting->chunks : 1;
    }
    return redco_pipeline_chunks(setting->schedule, setting->chunks);
}

redco_pipeline redco_setting_pipeline(const redco_setting *setting)
{
    const uint64_t m = setting->micro_batches;
    redco_pipeline s = {.kind = setting->schedule,
                        .stages = setting->pp,
                        .chunks = redco_setting_chunks(setting),
                        .group = setting->group,
                        .micro_batches = m < UINT32_MAX ? (uint32_t)m : UINT32_MAX};
    if (s.kind == REDCO_PIPELINE_1F1B && s.chunks > 1) { s.kind = REDCO_PIPELINE_INTERLEAVED; }
    if (s.kind == REDCO_PIPELINE_INTERLEAVED && s.group == 0) {
        s.group = redco_pipeline_least_group(s.stages, s.micro_batches);
    }
    return s;
}

uint32_t redcoi_position_blocks(const redco_costs *costs, const redco_setting *setting, uint32_t position)
{
    const redco_pipeline s = redco_setting_pipeline(setting);
    if (setting->split != NULL) { return setting->split[position]; }
    return redco_stage_blocks(costs->blocks, redco_pipeline_positions(s.kind, s.stages, s.chunks), position);
}

uint64_t redcoi_stage_sum(const redco_costs *costs, const redco_setting *setting, uint32_t stage)
{
    const redco_pipeline s = redco_setting_pipeline(setting);
    uint64_t blocks = 0;
    for (uint32_t chunk = 0; chunk < s.chunks; chunk++) {
        blocks += redcoi_position_blocks(costs, setting, redco_pipeline_position(s.kind, s.stages, stage, chunk));
    }
    return blocks;
}

uint32_t redcoi_most_blocks(const redco_costs *costs, const redco_setting *setting)
{
    const uint32_t copies = setting->schedule == REDCO_PIPELINE_DUALPIPE ? 2 : 1;
    if (setting->split == NULL) { return copies * ((costs->blocks + setting->pp - 1) / setting->pp); }
    uint64_t most = 0;
    for (uint32_t i = 0; i < setting->pp; i++) {
        const uint64_t blocks = redcoi_stage_sum(costs, setting, i);
        most = blocks > most ? blocks : most;
    }
    return (uint32_t)most;
}

redco_status redco_step_chunks_check(const redco_costs *costs, const redco_setting *setting, redco_error *err)
{
    const redco_pipeline s = redco_setting_pipeline(setting);
    const uint32_t pp = setting->pp, chunks = pp > 1 ? s.chunks : setting->chunks > 1 ? setting->chunks : 1;
    const uint64_t positions = redco_pipeline_positions(s.kind, pp, chunks);
    redco_pipeline asked = s;
    asked.chunks = setting->chunks > 1 ? setting->chunks : s.chunks;
    if (asked.kind == REDCO_PIPELINE_1F1B && asked.chunks > 1) { asked.kind = REDCO_PIPELINE_INTERLEAVED; }
    if (chunks <= REDCO_PIPELINE_CHUNKS_MAX && pp <= REDCO_PIPELINE_STAGES_MAX && setting->split == NULL) {
        const bool edges = redco_stage_edges_count(costs->blocks, positions);
        if (positions > costs->blocks && !edges) {
            return redco_fail(err, REDCO_EVALUE, "chunks",
                              "%u in each of %u pipeline stages are more than the %u layers", chunks, pp,
                              costs->blocks);
        }
        /* Interleaved schedules need chunks of equal size: Megatron-LM refuses others. */
        if (s.kind == REDCO_PIPELINE_INTERLEAVED && costs->blocks % positions != 0 && !edges) {
            return redco_fail(err, REDCO_EVALUE, "chunks",
                              "%u in each of %u pipeline stages do not divide the %u layers, nor these and 2 for "
                              "embedding and head",
                              chunks, pp, costs->blocks);
        }
    }
    const redco_status st = redco_pipeline_check(&asked, err);
    return st == REDCO_OK && setting->split != NULL
               ? redco_split_check(setting->split, (uint32_t)positions, costs->blocks, err)
               : st;
}
