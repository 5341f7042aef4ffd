/* A file of phases: what is accepted has phases, and terms that make an estimate or an error. */
#include "planner/run/run_phases.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_phases *phases = NULL;
    redco_run_words words = redco_run_words_default();
    redco_input_names names = {.model = NULL};
    redco_run_terms terms;
    if (redco_json_parse((const char *)data, size, "run.json", &document, NULL) != REDCO_OK) { return 0; }
    if (redco_phases_from_json(document, &words, &names, &phases, NULL) != REDCO_OK) { return 0; }
    const uint32_t count = redco_phases_count(phases);
    if (count == 0 || count > REDCO_MOST_PHASES) { abort(); }
    if (redco_run_words_finish(&words, "H100-SXM5-80GB", &terms, NULL, NULL) == REDCO_OK) {
        const redco_run_step step = {.step_s = 1.0,
                                     .band_ratio = 0.05,
                                     .compute_s = 0.8,
                                     .gpus = 64,
                                     .nodes = 8,
                                     .hosts_per_node = 1,
                                     .batch_tokens = 4e6,
                                     .micro_batches = 4.0,
                                     .watts_per_gpu = 500.0,
                                     .idle_w = 100.0,
                                     .tdp_w = 700.0,
                                     .checkpoint_bytes = 1e11,
                                     .writers = 64.0,
                                     .replicas = 8};
        redco_run_estimate estimate;
        terms.tokens = 1e9;
        if (redco_run_estimate_of(&terms, &step, &estimate, NULL) == REDCO_OK) {
            const redco_run_figure *const days = &estimate.days;
            const redco_time_split *const s = &estimate.split;
            if (!(days->low <= days->value) || !(days->value <= days->high) || !isfinite(days->value)) { abort(); }
            if (fabs(s->compute + s->checkpoint + s->failures + s->restart - 1.0) > 1e-6) { abort(); }
        }
    }
    redco_phases_free(phases);
    return 0;
}
