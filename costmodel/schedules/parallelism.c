#include "costmodel/schedules/parallelism.h"

#include <stddef.h>

const char *const redco_scheme_words[] = {"inter-tensor", "intra-tensor", NULL};
const char *const redco_overlap_words[] = {"ag_rs", "ar", "bc", "tp", NULL};

bool redco_parallelism_own_experts(const redco_parallelism *parallelism)
{
    const redco_shards *const s = &parallelism->experts;
    return s->parameters.gpus > 0 || s->gradients.gpus > 0 || s->optimizer.gpus > 0;
}

uint32_t redco_parallelism_ep(const redco_parallelism *parallelism)
{
    return parallelism->ep > 1 ? parallelism->ep : 1;
}

uint32_t redco_parallelism_etp(const redco_parallelism *parallelism)
{
    return parallelism->etp > 0 ? parallelism->etp : parallelism->tp;
}

uint32_t redco_parallelism_chunks(const redco_parallelism *parallelism)
{
    if (parallelism->pp <= 1) { return 1; }
    if (parallelism->schedule == REDCO_PIPELINE_1F1B || parallelism->schedule == REDCO_PIPELINE_INTERLEAVED) {
        return parallelism->chunks > 1 ? parallelism->chunks : 1;
    }
    return redco_pipeline_chunks(parallelism->schedule, parallelism->chunks);
}

redco_pipeline redco_parallelism_pipeline(const redco_parallelism *parallelism)
{
    const uint64_t m = parallelism->micro_batches;
    redco_pipeline s = {.kind = parallelism->schedule,
                        .stages = parallelism->pp,
                        .chunks = redco_parallelism_chunks(parallelism),
                        .group = parallelism->group,
                        .micro_batches = m < UINT32_MAX ? (uint32_t)m : UINT32_MAX};
    s.kind = redco_pipeline_of_chunks(s.kind, s.chunks);
    if (s.kind == REDCO_PIPELINE_INTERLEAVED && s.group == 0) {
        s.group = redco_pipeline_least_group(s.stages, s.micro_batches);
    }
    return s;
}
