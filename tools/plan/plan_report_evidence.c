/* Tells whether measured runs stand behind the answer, the best for which they do, and the nearest of them; and which
 * rows of a table are no answers that the engine can run. */
#include "tools/plan/plan_report.h"

#include "tools/cli/text_table.h"

#include <stdio.h>
#include <string.h>

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
                 report_degree_list(&c->parallelism, " = ", ", ", degrees, sizeof degrees),
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
    const size_t count = redco_evidence_nearest(answer->weighed.evidence, gpus_of(inputs), best, &reach, nearest);
    for (size_t i = 0; i < count; i++) {
        const redco_evidence_run *const run = &answer->weighed.evidence->runs[nearest[i]];
        (void)printf("%-*s%s, %s: %u GPUs, tp %u, pp %u×%u, cp %u, %llu tokens a rank and micro-batch\n", LABEL,
                     i == 0 ? "nearest" : "", run->source, run->model, run->gpus, run->tp, run->pp, run->chunks,
                     run->cp, (unsigned long long)run->reach.tokens);
    }
}

static void print_mfu(const redco_answer *answer, const redco_inputs *inputs)
{
    char text[REDCO_EVIDENCE_TEXT];
    if (answer->result->ranked_count == 0) { return; }
    (void)redco_inputs_beyond_mfu(inputs, &answer->options.workload, answer->result->ranked[0].prediction.mfu, text,
                                  sizeof text);
    if (text[0] != '\0') { (void)printf("%-*sbeyond all: %s\n", LABEL, "evidence", text); }
}

void report_evidence(const redco_answer *answer, const redco_inputs *inputs, bool explain)
{
    print_mfu(answer, inputs);
    if (answer->weighed.evidence == NULL) { return; }
    if (answer->weighed.beyond[0] != '\0') {
        (void)printf("%-*sextrapolated: %s\n", LABEL, "evidence", answer->weighed.beyond);
        print_inside(&answer->options, &answer->result->ranked[0], answer->weighed.inside);
    }
    if (explain) { print_nearest(answer, inputs); }
}

static bool same_beyond(const struct report_row *a, const struct report_row *b)
{
    return a->beyond != NULL && b->beyond != NULL && strcmp(a->beyond, b->beyond) == 0;
}

bool report_extrapolated(enum report_kind kind, const struct report_row *rows, uint32_t count, uint32_t index,
                         char *buffer, size_t size)
{
    const struct report_row *const row = &rows[index];
    char gpus[SHORT];
    size_t used = 0;
    if (row->beyond == NULL || row->beyond[0] == '\0') { return false; }
    for (uint32_t i = 0; i < index; i++) {
        if (same_beyond(&rows[i], row)) { return false; }
    }
    for (uint32_t i = index; i < count && used < size; i++) {
        if (!same_beyond(&rows[i], row)) { continue; }
        const char *const name = kind == REPORT_SIZES ? format_count(rows[i].gpus, gpus, sizeof gpus) : rows[i].name;
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", used > 0 ? ", " : "", name);
    }
    if (used < size) {
        (void)snprintf(buffer + used, size - used, "%s extrapolated: %s", kind == REPORT_SIZES ? " GPUs" : "",
                       row->beyond);
    }
    return true;
}

bool report_lacked(const redco_inputs *inputs, const struct report_row *rows, uint32_t count, char *buffer, size_t size)
{
    size_t used = 0;
    uint32_t found = 0;
    for (uint32_t i = 0; i < count && used < size; i++) {
        if (!rows[i].lacked) { continue; }
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", found++ > 0 ? ", " : "", rows[i].name);
    }
    if (used < size) {
        (void)snprintf(buffer + used, size - used, ": %s does not have %s; priced as if it had",
                       inputs->engine.engine.name, found > 1 ? "them" : "it");
    }
    return found > 0;
}
