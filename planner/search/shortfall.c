/* Nothing fits: by how much, and what is largest. */
#include "planner/search/exact.h"
#include "planner/search/search_space.h"

#include <stdlib.h>

const char *redcoi_largest_component(const redco_prediction *p)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"parameters", p->parameter_bytes}, {"gradients", p->gradient_bytes},
                 {"optimizer", p->optimizer_bytes},  {"activations", p->activation_bytes},
                 {"transient", p->transient_bytes},  {"NCCL buffers", p->nccl_bytes}};
    size_t largest = 0;
    for (size_t i = 1; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].bytes > parts[largest].bytes) { largest = i; }
    }
    return parts[largest].name;
}

redco_status redcoi_shortfall_find(redcoi_space *space, const redcoi_inputs *inputs, redco_shortfall *shortfall_out,
                                   redco_error *err)
{
    const redcoi_configuration *configuration = NULL;
    int64_t short_bytes = 0;
    redcoi_answer *answer = malloc(sizeof *answer);
    if (answer == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = redcoi_space_least_memory(space, false, &short_bytes, &configuration, answer, err);
    if (st == REDCO_OK && configuration == NULL) {
        st = redco_fail(err, REDCO_EVALUE, "model", "no strategy has a known size");
    }
    if (st == REDCO_OK) { st = redcoi_space_candidate(space, configuration, answer, &shortfall_out->leanest, err); }
    free(answer);
    if (st != REDCO_OK) { return st; }
    shortfall_out->short_bytes = short_bytes > 0 ? (uint64_t)short_bytes : 0;
    shortfall_out->largest = redcoi_largest_component(&shortfall_out->leanest.prediction);
    if (space->options.pass.no_remedies) { return REDCO_OK; }
    redcoi_remedies_find(inputs, &space->options, shortfall_out);
    return REDCO_OK;
}
