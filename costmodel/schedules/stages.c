#include "costmodel/schedules/stages.h"

#include <string.h>

bool redco_stage_edges_count(uint32_t blocks, uint64_t positions)
{
    return blocks % positions != 0 && (blocks + (uint64_t)2) % positions == 0;
}

uint32_t redco_stage_blocks(uint32_t blocks, uint64_t positions, uint64_t position)
{
    if (redco_stage_edges_count(blocks, positions)) {
        const bool edge = position == 0 || position + 1 == positions;
        return (uint32_t)((blocks + (uint64_t)2) / positions) - (edge ? 1 : 0);
    }
    return (uint32_t)(blocks / positions) + (position < blocks % positions ? 1 : 0);
}

redco_status redco_split_check(const uint32_t *split, uint32_t positions, uint32_t blocks, redco_error *err)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < positions; i++) {
        sum += split[i];
        if (split[i] == 0 && i > 0 && i + 1 < positions) {
            return redco_fail(err, REDCO_EVALUE, "split", "position %u of %u has no layer", i, positions);
        }
    }
    if (sum == blocks) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "split", "%u positions have %llu layers; the model has %u", positions,
                      (unsigned long long)sum, blocks);
}

bool redco_split_same(const uint32_t *a, const uint32_t *b, uint32_t positions)
{
    return a == b || (a != NULL && b != NULL && memcmp(a, b, positions * sizeof *a) == 0);
}

bool redco_stages_divide(redco_pipeline_kind kind, uint32_t blocks, uint64_t positions)
{
    return kind != REDCO_PIPELINE_INTERLEAVED || blocks % positions == 0 || redco_stage_edges_count(blocks, positions);
}

bool redco_split_is_equal(redco_pipeline_kind kind, const uint32_t *split, uint32_t positions, uint32_t blocks)
{
    const bool some_empty = positions > blocks && !redco_stage_edges_count(blocks, positions); /* such are named */
    if (some_empty || !redco_stages_divide(kind, blocks, positions)) { return false; }
    for (uint32_t i = 0; i < positions; i++) {
        if (split[i] != redco_stage_blocks(blocks, positions, i)) { return false; }
    }
    return true;
}
