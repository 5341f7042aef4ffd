/* Tells whether measured runs stand behind the answer, the best for which they do, and the nearest of them. */
#include "tools/plan/plan_report.h"

#include "tools/cli/text_table.h"

#include <stdio.h>

enum { LABEL = 10, SHORT = 48 };

static redco_reach reach_of(const redco_inputs *inputs, const redco_search_options *options,
                            const redco_parallelism *parallelism)
{
    return redco_reach_of(&inputs->machine, options->workload.seq_len, parallelism);
}

static uint64_t gpus_of(const redco_inputs *inputs)
{
    return (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node;
}

static void print_inside(const redco_search_options *options, const redco_candidate *best,
                         const redco_search_result *inside)
{
    char change[SHORT], time[SHORT], degrees[SHORT];
    if (inside == NULL || inside->ranked_count == 0) {
        (void)printf("%*snone of these choices lies within what was measured\n", LABEL, "");
        return;
    }
    const redco_candidate *const c = &inside->ranked[0];
    const redco_shards shards = redco_main_assignment(c)->config.shards;
    char p[SHORT], g[SHORT], os[SHORT];
    (void)printf("%*sthe best within: %s (%s) with %s, %llu micro-%s of %u, %s %s %s\n", LABEL, "",
                 format_time(c->prediction.step_s, c->prediction.step_s, time, sizeof time),
                 format_change(redco_candidate_ratio(options, c, best), change, sizeof change),
                 report_degrees(&c->parallelism, " = ", ", ", degrees, sizeof degrees),
                 (unsigned long long)c->parallelism.micro_batches,
                 c->parallelism.micro_batches == 1 ? "batch" : "batches", c->parallelism.micro_batch,
                 report_mesh(shards.parameters, p, sizeof p), report_mesh(shards.gradients, g, sizeof g),
                 report_mesh(shards.optimizer, os, sizeof os));
}

static void print_nearest(const redco_answer *answer, const redco_inputs *inputs)
{
    const redco_parallelism *const best = &answer->result->ranked[0].parallelism;
    const redco_reach reach = reach_of(inputs, &answer->options, best);
    size_t nearest[REDCO_EVIDENCE_NEAREST];
    const size_t count = redco_evidence_nearest(answer->evidence, gpus_of(inputs), best, &reach, nearest);
    for (size_t i = 0; i < count; i++) {
        const redco_evidence_run *const run = &answer->evidence->runs[nearest[i]];
        (void)printf("%-*s%s, %s: %u GPUs, tp %u, pp %u×%u, cp %u, %llu tokens a rank and micro-batch\n", LABEL,
                     i == 0 ? "nearest" : "", run->source, run->model, run->gpus, run->tp, run->pp, run->chunks,
                     run->cp, (unsigned long long)run->reach.tokens);
    }
}

void report_evidence(const redco_answer *answer, const redco_inputs *inputs, bool explain)
{
    if (answer->evidence == NULL) { return; }
    if (answer->beyond[0] != '\0') {
        (void)printf("%-*sextrapolated: %s\n", LABEL, "evidence", answer->beyond);
        print_inside(&answer->options, &answer->result->ranked[0], answer->inside);
    }
    if (explain) { print_nearest(answer, inputs); }
}

static json_t *nearest_json(const redco_answer *answer, const redco_inputs *inputs,
                            const redco_parallelism *parallelism)
{
    const redco_reach reach = reach_of(inputs, &answer->options, parallelism);
    size_t nearest[REDCO_EVIDENCE_NEAREST];
    const size_t count = redco_evidence_nearest(answer->evidence, gpus_of(inputs), parallelism, &reach, nearest);
    json_t *const list = json_array();
    for (size_t i = 0; i < count; i++) {
        const redco_evidence_run *const run = &answer->evidence->runs[nearest[i]];
        (void)json_array_append_new(list,
                                    json_pack("{s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "source", run->source, "model",
                                              run->model, "gpus", (json_int_t)run->gpus, "tp", (json_int_t)run->tp,
                                              "pp", (json_int_t)run->pp, "pp_chunks", (json_int_t)run->chunks, "cp",
                                              (json_int_t)run->cp, "tokens", (json_int_t)run->reach.tokens));
    }
    return list;
}

json_t *report_evidence_json(const redco_answer *answer, const redco_inputs *inputs, uint32_t index)
{
    const redco_parallelism *const parallelism = &answer->result->ranked[index].parallelism;
    char beyond[REDCO_EVIDENCE_TEXT];
    if (answer->evidence == NULL) { return NULL; }
    const redco_reach reach = reach_of(inputs, &answer->options, parallelism);
    (void)redco_evidence_beyond(answer->evidence, parallelism, &reach, beyond, sizeof beyond);
    json_t *const json = json_pack("{s:s,s:I,s:b,s:s,s:o}", "set", inputs->calibration.name, "layouts",
                                   (json_int_t)answer->evidence->count, "extrapolated", beyond[0] != '\0', "beyond",
                                   beyond, "nearest", nearest_json(answer, inputs, parallelism));
    if (json == NULL || index > 0 || answer->inside == NULL || answer->inside->ranked_count == 0) { return json; }
    const redco_candidate *const c = &answer->inside->ranked[0];
    (void)json_object_set_new(
        json, "inside",
        json_pack("{s:I,s:b,s:I,s:I,s:I,s:I,s:f,s:f}", "tp", (json_int_t)c->parallelism.tp, "sequence_parallel",
                  c->parallelism.sequence_parallel, "pp", (json_int_t)c->parallelism.pp, "pp_chunks",
                  (json_int_t)redco_parallelism_chunks(&c->parallelism), "cp", (json_int_t)c->parallelism.cp,
                  "micro_batch", (json_int_t)c->parallelism.micro_batch, "step_s", c->prediction.step_s,
                  "tokens_per_s_per_gpu", c->prediction.tokens_per_s_per_gpu));
    return json;
}
