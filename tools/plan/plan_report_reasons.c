/* Why this strategy: its neighbours, the proof, what was fixed, what does not fit. */
#include "tools/plan/plan_report.h"

#include "costmodel/engines/assumptions.h"
#include "tools/cli/text_table.h"

#include <stdio.h>
#include <string.h>

#define TIMES "\xc3\x97"
#define DOT " \xc2\xb7 "

enum { SHORT = 64, LABEL = 10 };

void report_neighbours(const redco_neighbour *neighbours, size_t count, double like_s)
{
    char p[SHORT];
    char g[SHORT];
    char os[SHORT];
    char time[SHORT];
    char degrees[SHORT];
    struct table *table = table_new("lrrl");
    if (table == NULL) { return; }
    for (size_t i = 0; i < count; i++) {
        const redco_neighbour *other = &neighbours[i];
        table_row(table);
        table_cell(table, "%s", other->what);
        if (other->feasible && other->aside != NULL) {
            table_rest(table, "%s: %s, %s", other->aside, format_time(other->step_s, like_s, time, sizeof time),
                       format_change(other->cost_ratio, p, sizeof p));
        } else if (other->feasible) {
            table_cell(table, "%s", format_change(other->cost_ratio, p, sizeof p));
            table_cell(table, "%s", format_time(other->step_s, like_s, time, sizeof time));
            table_rest(table, "best then %s, %llu" TIMES "%u, %s %s %s%s%s",
                       report_degree_list(&other->parallelism, " ", ", ", degrees, sizeof degrees),
                       (unsigned long long)other->parallelism.micro_batches, other->parallelism.micro_batch,
                       report_mesh(other->shards.parameters, p, sizeof p),
                       report_mesh(other->shards.gradients, g, sizeof g),
                       report_mesh(other->shards.optimizer, os, sizeof os), other->engine[0] != '\0' ? ", by " : "",
                       other->engine);
        } else if (other->reason[0] != '\0') {
            table_rest(table, "impossible: %s", other->reason);
        } else {
            table_rest(table, "does not fit: %s GB too much",
                       format_gigabytes((double)other->short_bytes, p, sizeof p));
        }
    }
    (void)printf("\nwhy not\n");
    (void)table_print(table, "  ", stdout);
    table_free(table);
}

static void print_calibration(const redco_calibration *calibration)
{
    char rows[SHORT];
    if (calibration->fitted_rows == 0) {
        (void)printf("calibration %s: uncalibrated (literature mid-range)\n", calibration->name);
        return;
    }
    (void)printf("calibration %s: fitted to %s runs, MAPE %.1f %%\n", calibration->name,
                 format_count(calibration->fitted_rows, rows, sizeof rows), calibration->mape_ratio * 100.0);
}

/* A question that is far from all evidence. */
static void print_unseen(const redco_inputs *inputs, const redco_prediction *p)
{
    const redco_band *const band = &inputs->calibration.band;
    char low[SHORT], high[SHORT];
    if (inputs->unseen[0] == '\0') { return; }
    (void)printf("%-*s%s: nine of ten such runs have %s to %s tokens/s/GPU\n", LABEL, "band", inputs->unseen,
                 format_count((uint64_t)(p->tokens_per_s_per_gpu * band->low_90 + 0.5), low, sizeof low),
                 format_count((uint64_t)(p->tokens_per_s_per_gpu * band->high_90 + 0.5), high, sizeof high));
}

static void print_verified(const redco_search_result *result)
{
    char count[SHORT];
    char best[SHORT];
    (void)printf("%s: %s", result->verify_failed ? "NOT verified" : "verified", result->verify_method);
    if (result->verify_count > 0) {
        (void)printf(" of %s strategies", format_count(result->verify_count, count, sizeof count));
    }
    (void)printf(result->verify_failed ? " found a better one: %s\n" : " finds nothing better than %s\n",
                 format_time(result->verify_objective, result->verify_objective, best, sizeof best));
    if (result->verify_simulated > 0) {
        (void)printf("simulated all of %llu layouts that fit by the closed form: the fastest takes %s\n",
                     (unsigned long long)result->verify_simulated,
                     format_time(result->verify_simulated_s, result->verify_simulated_s, best, sizeof best));
    }
}

void report_traits(const redco_inputs *inputs, const redco_search_options *options)
{
    const redco_engine_choice choice = {options->workload.engine, options->workload.bucket_bytes};
    (void)printf("\nengine %s (%s)\n", choice.engine.name, inputs->engine.title);
    for (int t = 0; t < REDCO_TRAIT_COUNT; t++) {
        char value[SHORT];
        const bool stated = (choice.engine.stated >> t & 1) != 0;
        if (redco_trait_of_experts((redco_trait)t) && redco_model_get_dims(inputs->model)->experts == 0) { continue; }
        (void)redco_engine_trait(&choice, options->workload.precision, (redco_trait)t, value, sizeof value);
        (void)printf("  %-18s %-12s %s\n", redco_trait_words[t], value,
                     stated ? "stated with --engine" : inputs->engine.sources[t]);
    }
}

void report_assumed(const redco_inputs *inputs)
{
    redco_assumption one;
    if (redco_model_get_dims(inputs->model)->experts == 0) { return; }
    for (size_t i = 0; redco_assumption_at(&inputs->choice.engine, inputs->machine.hosts_per_node, i, &one); i++) {
        (void)printf("%-*s%s=%s: %s\n", LABEL, "assumed", one.what, one.value, one.why);
    }
}

void report_engine(const redco_inputs *inputs)
{
    (void)printf("%-*s%s: %s\n", LABEL, "engine", inputs->choice.engine.name, inputs->engine_reason);
    report_assumed(inputs);
}

void report_solver(const redco_search_result *result, const redco_inputs *inputs)
{
    char count[SHORT];
    char seconds[SHORT];
    const bool optimal = strcmp(result->status, "optimal") == 0;
    const bool simulated = !optimal && result->by_simulation;
    if (simulated) {
        (void)printf("fastest of %llu simulated", (unsigned long long)result->counts.simulated);
    } else {
        (void)printf("%s", optimal ? "optimal" : "not proven optimal");
    }
    (void)printf(": %s %s over %s strategies in %s", result->solver,
                 optimal     ? "proved it"
                 : simulated ? "proved its closed form"
                             : "stopped",
                 format_count(result->candidates, count, sizeof count),
                 format_time(result->seconds, result->seconds, seconds, sizeof seconds));
    if (result->gap_ratio > 1e-9) { (void)printf(", to %.2g %%", result->gap_ratio * 100.0); }
    if (result->within_ratio > 0.0) { (void)printf("; by the simulator within %.2g %%", result->within_ratio * 100.0); }
    (void)printf("\n");
    if (result->verified) { print_verified(result); }
    print_calibration(&inputs->calibration);
    if (result->ranked_count > 0) { print_unseen(inputs, &result->ranked[0].prediction); }
}

static void print_given(const redco_search_options *options, redco_dimension_id id, const char **comma)
{
    const redco_dimension *const d = &redco_dimensions[id];
    redco_parallelism given = options->given;
    if (!redco_options_give(options, id)) { return; }
    (void)printf("%s", *comma);
    *comma = ", ";
    if (d->kind == REDCO_DIMENSION_SWITCH) {
        (void)printf("%s %s", options->sequence_parallel == REDCO_ON ? "with" : "without", d->says);
    } else if (d->kind == REDCO_DIMENSION_SPLIT) {
        (void)printf("%s", given.split != NULL ? "stages of given layers" : "equal stages");
    } else if (d->kind == REDCO_DIMENSION_WORD) {
        (void)printf("%s%s", d->says, d->words[*redco_dimension_in(&given, d)]);
    } else {
        (void)printf("%s%u", d->says, *redco_dimension_in(&given, d));
    }
}

/* The user's choices, as items that read "tp 8, micro-batch 2". */
static void print_fixed(const redco_search_options *options)
{
    const struct {
        const char *name;
        redco_mesh mesh;
    } meshes[] = {{"parameters", options->fix.parameters},
                  {"gradients", options->fix.gradients},
                  {"optimizer", options->fix.optimizer},
                  {"second copy", options->given.secondary},
                  {"experts' parameters", options->given.experts.parameters},
                  {"experts' gradients", options->given.experts.gradients},
                  {"experts' optimizer", options->given.experts.optimizer}};
    static const redco_dimension_id first[] = {
        REDCO_OF_TP,       REDCO_OF_PP,    REDCO_OF_CP,     REDCO_OF_CP_TYPE,           REDCO_OF_CHUNKS,
        REDCO_OF_SCHEDULE, REDCO_OF_GROUP, REDCO_OF_STAGES, REDCO_OF_SEQUENCE_PARALLEL, REDCO_OF_MICRO_BATCH};
    uint32_t others = ~REDCO_STATES(REDCO_OF_SECONDARY); /* one of the meshes */
    const char *comma = "";
    char text[SHORT];
    if (options->strategy != REDCO_STRATEGY_ANY) {
        (void)printf("%s", redco_strategy_name(options->strategy));
        comma = ", ";
    }
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++) {
        print_given(options, first[i], &comma);
        others &= ~REDCO_STATES(first[i]);
    }
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        if (meshes[i].mesh.gpus == 0) { continue; }
        (void)printf("%s%s %s", comma, meshes[i].name, report_mesh(meshes[i].mesh, text, sizeof text));
        comma = ", ";
    }
    if (options->recompute != REDCO_RECOMPUTE_FREE) {
        char recompute[REDCO_RECOMPUTE_TEXT];
        (void)printf("%srecompute %s", comma,
                     redco_recompute_text(options->recompute, options->workload.engine.partial_recompute, recompute,
                                          sizeof recompute));
        comma = ", ";
    }
    for (int id = 0; id < REDCO_DIMENSIONS; id++) {
        if ((others >> id & 1) != 0) { print_given(options, (redco_dimension_id)id, &comma); }
    }
}

void report_free_optimum(const struct plan_args *args, const redco_answer *answer)
{
    const redco_candidate *const mine = &answer->result->ranked[0], *const best = &answer->free_result->ranked[0];
    char p[SHORT];
    char g[SHORT];
    char os[SHORT];
    char change[SHORT];
    char time[SHORT];
    const bool comm = args->question.options.objective == REDCO_OBJECTIVE_COMM;
    const double ratio = redco_candidate_ratio(&args->question.options, mine, best);
    const double free_s = comm ? best->objective : best->prediction.step_s;
    const redco_shards shards = redco_main_assignment(best)->config.shards;
    (void)printf("%-*syour ", LABEL, "fixed");
    print_fixed(&args->question.options);
    const bool left_out = ratio < -0.0005 && answer->free_leaves_out != NULL;
    if (ratio < 0.0005 && !left_out) {
        (void)printf(": costs nothing, the free optimum is no %s\n", comm ? "better" : "faster");
        return;
    }
    char degrees[SHORT];
    (void)printf(": %s%s against the free optimum\n%*s%s%s with %s, %llu micro-%s of %u, %s %s %s%s%s\n",
                 format_change(ratio, change, sizeof change), comm ? " T_comm" : "", LABEL, "", comm ? "T_comm " : "",
                 format_time(free_s, free_s, time, sizeof time),
                 report_degree_list(&best->parallelism, " = ", ", ", degrees, sizeof degrees),
                 (unsigned long long)best->parallelism.micro_batches,
                 best->parallelism.micro_batches == 1 ? "batch" : "batches", best->parallelism.micro_batch,
                 report_mesh(shards.parameters, p, sizeof p), report_mesh(shards.gradients, g, sizeof g),
                 report_mesh(shards.optimizer, os, sizeof os), answer->free_engine[0] != '\0' ? ", by " : "",
                 answer->free_engine);
    if (left_out) { (void)printf("%*sa free search leaves yours out: it is %s\n", LABEL, "", answer->free_leaves_out); }
}

void report_shortfall(const redco_shortfall *shortfall)
{
    const redco_candidate *leanest = &shortfall->leanest;
    char p[SHORT];
    char g[SHORT];
    char os[SHORT];
    char degrees[SHORT];
    char recompute[REDCO_RECOMPUTE_TEXT];
    if (leanest->assignment_count == 0) { return; }
    const redco_shards shards = redco_main_assignment(leanest)->config.shards;
    (void)printf("%-10s%s" DOT "%llu micro-%s of %u" DOT "parameters %s, gradients %s, optimizer %s" DOT
                 "recompute %s\n",
                 "leanest", report_degree_list(&leanest->parallelism, " ", DOT, degrees, sizeof degrees),
                 (unsigned long long)leanest->parallelism.micro_batches,
                 leanest->parallelism.micro_batches == 1 ? "batch" : "batches", leanest->parallelism.micro_batch,
                 report_mesh(shards.parameters, p, sizeof p), report_mesh(shards.gradients, g, sizeof g),
                 report_mesh(shards.optimizer, os, sizeof os),
                 redco_recompute_text(redco_main_assignment(leanest)->config.recompute, leanest->half, recompute,
                                      sizeof recompute));
    report_memory(&leanest->prediction);
    (void)printf("%-10s%s GB, of which %s GB can be used: %s GB too much\n", "in all",
                 format_gigabytes((double)leanest->prediction.total_bytes, p, sizeof p),
                 format_gigabytes((double)leanest->prediction.capacity_bytes, g, sizeof g),
                 format_gigabytes((double)shortfall->short_bytes, os, sizeof os));
    if (shortfall->cheapest_change[0] != '\0') {
        char change[REMEDY_TEXT];
        (void)printf("%-10s%s\n", "cheapest", report_change(shortfall, change, sizeof change));
    }
    for (uint32_t i = 0; i < shortfall->remedy_count; i++) {
        const redco_remedy *const remedy = &shortfall->remedies[i];
        char text[REMEDY_TEXT];
        if (remedy->step_s == 0.0) { continue; }
        (void)printf("%-10s%6s GB  %8s  %s\n", i == 0 ? "tried" : "",
                     format_gigabytes((double)remedy->total_bytes, p, sizeof p),
                     format_time(remedy->step_s, remedy->step_s, g, sizeof g),
                     redco_remedy_text(remedy, cli_option_of, false, text, sizeof text));
    }
}

const char *report_change(const redco_shortfall *shortfall, char *buffer, size_t size)
{
    if (shortfall->remedy_count > 0) {
        return redco_remedy_text(&shortfall->remedies[0], cli_option_of, true, buffer, size);
    }
    (void)snprintf(buffer, size, "%s", shortfall->cheapest_change);
    return buffer;
}

const char *report_reason(const redco_shortfall *shortfall, char *buffer, size_t size)
{
    char text[SHORT];
    (void)snprintf(buffer, size, "does not fit: %s GB too much on every GPU; largest: %s",
                   format_gigabytes((double)shortfall->short_bytes, text, sizeof text),
                   shortfall->largest != NULL ? shortfall->largest : "memory");
    return buffer;
}
