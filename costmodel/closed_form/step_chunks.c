/* Model chunks of pipeline stages: how many, and whether they fit. */
#include "costmodel/closed_form/costs_internal.h"

/* Embedding and head each take the place of a block: as Llama 3's 126 layers were trained on 128 chunks. */
bool redcoi_edges_count(uint32_t blocks, uint64_t stages)
{
    return blocks % stages != 0 && (blocks + (uint64_t)2) % stages == 0;
}

uint32_t redcoi_stage_blocks(uint32_t blocks, uint64_t stages, uint64_t stage)
{
    if (redcoi_edges_count(blocks, stages)) {
        return (uint32_t)((blocks + (uint64_t)2) / stages) - (stage == 0 || stage + 1 == stages ? 1 : 0);
    }
    return (uint32_t)(blocks / stages) + (stage < blocks % stages ? 1 : 0);
}

redco_status redco_step_chunks_check(const redco_costs *costs, const redco_setting *setting, redco_error *err)
{
    const uint32_t pp = setting->pp, chunks = setting->chunks > 0 ? setting->chunks : 1;
    const uint64_t stages = (uint64_t)pp * chunks;
    if (chunks > REDCO_CHUNKS_MAX || pp > REDCOI_STAGES_MAX ||
        (stages > costs->blocks && !redcoi_edges_count(costs->blocks, stages))) {
        return redco_fail(err, REDCO_EVALUE, "chunks", "%u in each of %u pipeline stages are more than the %u layers",
                          chunks, pp, costs->blocks);
    }
    /* Interleaved schedules need chunks of equal size: Megatron-LM refuses others. */
    if (chunks > 1 && pp > 1 && costs->blocks % stages != 0 && !redcoi_edges_count(costs->blocks, stages)) {
        return redco_fail(err, REDCO_EVALUE, "chunks",
                          "%u in each of %u pipeline stages do not divide the %u layers, nor these and 2 for embedding "
                          "and head",
                          chunks, pp, costs->blocks);
    }
    if (chunks > 1 && (pp < 2 || setting->micro_batches % pp != 0)) {
        return redco_fail(err, REDCO_EVALUE, "chunks",
                          "%u a stage need 2 stages or more and micro-batches in multiples of them, not %u and %llu",
                          chunks, pp, (unsigned long long)setting->micro_batches);
    }
    return REDCO_OK;
}

uint32_t redco_setting_chunks(const redco_setting *setting)
{
    return setting->pp > 1 && setting->chunks > 1 ? setting->chunks : 1;
}
