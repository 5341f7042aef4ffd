#include "costmodel/record/extent.h"

#include <stddef.h>
#include <string.h>

uint64_t redco_extent_count(const redco_extent *extent, const uint64_t sizes[REDCO_AXIS_COUNT])
{
    uint64_t count = extent->factor;
    for (unsigned a = 0; a < REDCO_AXIS_COUNT; a++) {
        for (unsigned i = 0; i < extent->power[a]; i++) { count *= sizes[a]; }
    }
    return count;
}

redco_axis redco_extent_split(const redco_extent *extent)
{
    static const redco_axis cut[] = {REDCO_AXIS_HEADS,      REDCO_AXIS_KV_HEADS,   REDCO_AXIS_QKV_HEADS, REDCO_AXIS_FFN,
                                     REDCO_AXIS_EXPERT_FFN, REDCO_AXIS_SHARED_FFN, REDCO_AXIS_VOCAB};
    for (size_t i = 0; i < sizeof cut / sizeof cut[0]; i++) {
        if (extent->power[cut[i]] > 0) { return cut[i]; }
    }
    return REDCO_AXIS_COUNT;
}

bool redco_extent_equal(const redco_extent *a, const redco_extent *b)
{
    return a->factor == b->factor && memcmp(a->power, b->power, sizeof a->power) == 0;
}
