#include "tools/plan/run_answer.h"

#include "planner/run/run_compare.h"
#include "planner/run/run_frontier.h"
#include "planner/run/run_phases.h"
#include "tools/cli/text_table.h"
#include "tools/plan/run_html.h"
#include "tools/plan/run_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT = 64, WIDE = 160 };

/* tp, and pp and cp where they are not 1. */
static const char *degrees(const redco_parallelism *s, char *buffer, size_t size)
{
    size_t used = (size_t)snprintf(buffer, size, "tp %u", s->tp);
    if (s->pp > 1 && used < size) { used += (size_t)snprintf(buffer + used, size - used, ", pp %u", s->pp); }
    if (s->cp > 1 && used < size) {
        (void)snprintf(buffer + used, size - used, ", cp %u (%s)", s->cp, redco_cp_type_words[s->cp_type]);
    }
    return buffer;
}

static void frontier_row(struct table *table, const redco_frontier *f, uint32_t index, bool clusters, bool batches,
                         bool precisions)
{
    const redco_frontier_row *const row = &f->rows[index];
    const int i = (int)index;
    char text[WIDE], mark[8] = "";
    (void)snprintf(mark, sizeof mark, "%s%s", i == f->chosen && f->chosen_rival < 0 ? "*" : "",
                   row->front_money ? "o" : "");
    table_row(table);
    table_cell(table, "%s", mark);
    if (clusters) { table_cell(table, "%s", row->cluster); }
    table_cell(table, "%s", format_count(row->gpus, text, sizeof text));
    if (batches) { table_cell(table, "%s", format_count(row->global_batch, text, sizeof text)); }
    if (precisions) { table_cell(table, "%s", row->precision); }
    if (!row->feasible) {
        table_rest(table, "%s", row->reason);
        return;
    }
    const redco_run_estimate *const e = &row->run;
    table_cell(table, "%s", degrees(&row->parallelism, text, sizeof text));
    table_cell(table, "%.2f", row->mfu);
    table_cell(table, "%.1f", e->days.value);
    table_cell(table, "%.1f to %.1f", e->days.low, e->days.high);
    table_cell(table, "%.3f", e->ettr.value);
    table_cell(table, "%s", format_large(e->paid_gpu_hours.value, text, sizeof text));
    if (f->priced) { table_cell(table, "%s", format_large(e->money.value, text, sizeof text)); }
    if (e->mwh.known) {
        table_cell(table, "%s", format_large(e->mwh.value, text, sizeof text));
    } else {
        table_cell(table, "-");
    }
    if (f->deadline_s > 0.0 || f->budget > 0.0) {
        table_cell(table, "%s", row->keeps ? row->keeps_surely ? "yes" : "perhaps" : "no");
    }
}

/* No winner where another may be it. */
static void name_undecided(const redco_frontier *f, const char *what, int index, int rival)
{
    char days[2][SHORT], cost[2][SHORT], gpus[2][SHORT], decider[400];
    const int rows[] = {index, rival};
    for (int i = 0; i < 2; i++) {
        (void)format_count(f->rows[rows[i]].gpus, gpus[i], sizeof gpus[i]);
        (void)run_days(&f->rows[rows[i]].run.days, days[i], sizeof days[i]);
        (void)format_large(redco_frontier_cost(f, &f->rows[rows[i]]), cost[i], sizeof cost[i]);
    }
    const char *const of = f->priced ? "" : " GPU-hours";
    table_line("%-9s not decided, bands overlap: %s GPUs of %s, %s, %s%s, or %s of %s, %s, %s%s", what, gpus[0],
               f->rows[index].cluster, days[0], cost[0], of, gpus[1], f->rows[rival].cluster, days[1], cost[1], of);
    (void)printf("%-9s %s\n", "", redco_frontier_decider(f, index, rival, decider, sizeof decider));
}

static void name_choice(const redco_frontier *f, const char *what, int index, int rival)
{
    char days[SHORT], cost[SHORT], gpus[SHORT];
    if (index < 0) { return; }
    if (rival >= 0) {
        name_undecided(f, what, index, rival);
        return;
    }
    const redco_frontier_row *const row = &f->rows[index];
    table_line("%-9s %s GPUs of %s, %llu sequences a step: %s, %s%s%s", what,
               format_count(row->gpus, gpus, sizeof gpus), row->cluster, (unsigned long long)row->global_batch,
               run_days(&row->run.days, days, sizeof days),
               format_large(redco_frontier_cost(f, row), cost, sizeof cost), f->priced ? " " : " GPU-hours",
               f->priced ? f->currency[0] != '\0' ? f->currency : "of money" : "");
}

static bool print_frontier(const struct plan_args *args, const redco_frontier *f)
{
    char alignment[16] = "l";
    char tokens[SHORT];
    bool clusters = false, batches = false, precisions = false, limited;
    uint32_t hidden = 0;
    for (uint32_t i = 1; i < f->count; i++) {
        clusters = clusters || strcmp(f->rows[i].cluster, f->rows[0].cluster) != 0;
        batches = batches || f->rows[i].global_batch != f->rows[0].global_batch;
        precisions = precisions || f->rows[i].precision != f->rows[0].precision;
    }
    limited = args->run.deadline_s > 0.0 || args->run.budget > 0.0;
    table_line("%s, %s tokens%s%s", f->model, format_large(args->run.words.terms.tokens, tokens, sizeof tokens),
               clusters ? "" : " on ", clusters ? "" : f->rows[0].cluster);
    (void)printf("\n");
    (void)snprintf(alignment, sizeof alignment, "l%sr%s%slrrrrr%srl", clusters ? "l" : "", batches ? "r" : "",
                   precisions ? "l" : "", f->priced ? "r" : "");
    struct table *const table = table_new(alignment);
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "%s", "");
    if (clusters) { table_cell(table, "cluster"); }
    table_cell(table, "GPUs");
    if (batches) { table_cell(table, "batch"); }
    if (precisions) { table_cell(table, "precision"); }
    table_cell(table, "plan");
    table_cell(table, "MFU");
    table_cell(table, "days");
    table_cell(table, "band");
    table_cell(table, "ETTR");
    table_cell(table, "GPU-hours");
    if (f->priced) { table_cell(table, "%s", f->currency[0] != '\0' ? f->currency : "money"); }
    table_cell(table, "MWh");
    if (limited) { table_cell(table, "keeps limits"); }
    for (uint32_t i = 0; i < f->count; i++) {
        hidden += !f->rows[i].best_here;
        if (f->rows[i].best_here) { frontier_row(table, f, i, clusters, batches, precisions); }
    }
    const bool printed = table_print(table, "  ", stdout);
    table_free(table);
    (void)printf("\n");
    name_choice(f, "fastest", f->fastest, f->fastest_rival);
    name_choice(f, "cheapest", f->cheapest, f->cheapest_rival);
    if (f->leanest >= 0 && f->rows[f->leanest].run.mwh.known && f->leanest != f->cheapest) {
        name_choice(f, "least MWh", f->leanest, f->leanest_rival);
    }
    (void)printf("%-9s o: no other choice is better in days and %s%s\n", "marks", f->priced ? "money" : "GPU-hours",
                 f->chosen >= 0 && f->chosen_rival >= 0 ? "" : "; * chosen");
    if (hidden > 0) {
        (void)printf("%-9s %u batches or precisions that another on the same GPUs beats are in --json alone\n",
                     "left out", hidden);
    }
    return printed;
}

/* The assumptions of all rows are those of the chosen one, but for numbers of its size. */
static void print_assumed(const redco_run_estimate *e)
{
    for (uint32_t i = 0; i < e->assumed_count; i++) {
        (void)printf("%-9s %s\n", i == 0 ? "assumed" : "", e->assumed[i]);
    }
}

int run_answer_frontier(struct plan_args *args)
{
    const struct run_args *const run = &args->run;
    static const redco_run_goal goals[] = {REDCO_GOAL_TIME, REDCO_GOAL_MONEY, REDCO_GOAL_ENERGY};
    /* Without a wish the cheapest is chosen where a deadline is set, else the fastest. */
    const redco_run_goal goal = run->objective_given    ? goals[run->objective]
                                : run->deadline_s > 0.0 ? REDCO_GOAL_MONEY
                                                        : REDCO_GOAL_TIME;
    const redco_frontier_question asked = {.question = &args->question,
                                           .words = &run->words,
                                           .clusters = run->clusters,
                                           .cluster_count = run->cluster_count,
                                           .precisions = args->precisions,
                                           .deadline_s = run->deadline_s,
                                           .budget = run->budget,
                                           .goal = goal};
    redco_frontier *f = NULL;
    redco_error err = {0};
    int rc = CLI_DONE;
    redco_status st = redco_frontier_find(&asked, &f, &err);
    if (st == REDCO_OK && run->budget > 0.0 && !f->priced) {
        st = redco_fail(&err, REDCO_EVALUE, "--budget", "the price of a GPU here is not known");
    }
    if (st == REDCO_OK && run->words.price != NULL && !f->priced) {
        cli_warn(&args->cli, "the table of prices lacks a GPU: GPU-hours are compared, not money");
    }
    json_t *const json = st == REDCO_OK ? redco_frontier_to_json(f) : NULL;
    if (st == REDCO_OK && args->report != NULL) { st = run_html_frontier(args, f, json, &err); }
    if (st != REDCO_OK) {
        rc = cli_fail(&args->cli, &err);
        goto out;
    }
    if (args->cli.json) {
        rc = cli_print_json(&args->cli, json);
    } else {
        rc = print_frontier(args, f) ? CLI_DONE : CLI_SYSTEM;
        if (rc == CLI_DONE && f->chosen >= 0) { print_assumed(&f->rows[f->chosen].run); }
        if (rc == CLI_DONE && args->report != NULL) { cli_wrote(args->report); }
    }
    if (rc == CLI_DONE) { rc = cli_finish(&args->cli, CLI_DONE); }
    if (rc == CLI_DONE && f->chosen < 0) {
        bool any = false;
        for (uint32_t i = 0; i < f->count; i++) { any = any || f->rows[i].feasible; }
        (void)redco_fail(&err, REDCO_EINFEASIBLE, "", "%s",
                         any ? "no choice keeps deadline and budget" : "no number of GPUs has a plan");
        rc = cli_fail(&args->cli, &err);
    }
out:
    json_decref(json);
    redco_frontier_free(f);
    return rc;
}

static bool print_phases(const redco_phase_answer *answers, uint32_t count)
{
    struct table *const table = table_new("lrrrrlrrrr");
    char text[WIDE];
    if (table == NULL) { return false; }
    table_row(table);
    static const char *const names[] = {"phase", "tokens", "GPUs", "seq",  "batch",
                                        "plan",  "step",   "MFU",  "days", "GPU-hours"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) { table_cell(table, "%s", names[i]); }
    for (uint32_t i = 0; i < count; i++) {
        const redco_phase_answer *const a = &answers[i];
        table_row(table);
        table_cell(table, "%s", a->name);
        table_cell(table, "%s", format_large(a->run.tokens, text, sizeof text));
        table_cell(table, "%s", format_count(a->gpus, text, sizeof text));
        table_cell(table, "%u", a->seq_len);
        table_cell(table, "%s", format_count(a->global_batch, text, sizeof text));
        table_cell(table, "%s", degrees(&a->parallelism, text, sizeof text));
        table_cell(table, "%s", format_time(a->run.step_s.value, a->run.step_s.value, text, sizeof text));
        table_cell(table, "%.2f", a->mfu);
        table_cell(table, "%.2f", a->run.days.value);
        table_cell(table, "%s", format_large(a->run.gpu_hours.value, text, sizeof text));
    }
    const bool printed = table_print(table, "  ", stdout);
    table_free(table);
    (void)printf("\n");
    return printed;
}

int run_answer_phases(struct plan_args *args)
{
    redco_phases *phases = NULL;
    redco_phase_answer *answers = NULL;
    redco_run_estimate total;
    redco_error err = {0};
    int rc = CLI_DONE;
    uint32_t count = 0;
    redco_status st = redco_phases_read(args->run.file, &args->run.words, &args->question.names, &phases, &err);
    if (st == REDCO_OK) {
        count = redco_phases_count(phases);
        answers = calloc(count, sizeof *answers);
        if (answers == NULL) { st = redco_fail(&err, REDCO_ENOMEM, "", "out of memory"); }
    }
    if (st == REDCO_OK) { st = redco_phases_plan(phases, &args->question, &args->run.words, answers, &total, &err); }
    if (st == REDCO_OK && args->report != NULL) { st = run_html_phases(args, answers, count, &total, &err); }
    if (st != REDCO_OK) {
        rc = cli_fail(&args->cli, &err);
        goto out;
    }
    if (args->cli.json) {
        json_t *const json = redco_phases_to_json(answers, count, &total);
        rc = cli_print_json(&args->cli, json);
        json_decref(json);
    } else {
        rc = print_phases(answers, count) ? CLI_DONE : CLI_SYSTEM;
        if (rc == CLI_DONE) { run_report(&total); }
        if (rc == CLI_DONE && args->report != NULL) { cli_wrote(args->report); }
    }
    if (rc == CLI_DONE) { rc = cli_finish(&args->cli, CLI_DONE); }
out:
    free(answers);
    redco_phases_free(phases);
    return rc;
}

static json_t *changes_json(const redco_run_summary runs[2], const redco_run_change *changes)
{
    const bool priced = runs[0].priced && runs[1].priced;
    json_t *const causes = json_array();
    for (int i = 0; i < REDCO_RUN_CHANGES; i++) {
        (void)json_array_append_new(causes,
                                    json_pack("{s:s,s:f,s:o}", "cause", changes[i].cause, "days", changes[i].days,
                                              "money", priced ? json_real(changes[i].money) : json_null()));
    }
    return json_pack("{s:s,s:i,s:{s:f,s:f},s:{s:f,s:f},s:{s:o,s:o},s:o}", "format", "redco-run-comparison", "version",
                     1, "days", "a", runs[0].days, "b", runs[1].days, "ettr", "a", runs[0].ettr, "b", runs[1].ettr,
                     "money", "a", runs[0].priced ? json_real(runs[0].money) : json_null(), "b",
                     runs[1].priced ? json_real(runs[1].money) : json_null(), "causes", causes);
}

static int print_changes(const redco_run_summary runs[2], const redco_run_change *changes)
{
    const bool priced = runs[0].priced && runs[1].priced;
    struct table *const table = table_new(priced ? "lrr" : "lr");
    char text[SHORT];
    if (table == NULL) { return CLI_SYSTEM; }
    table_row(table);
    table_cell(table, "%s", "");
    table_cell(table, "days");
    if (priced) { table_cell(table, "money"); }
    for (int i = -1; i <= REDCO_RUN_CHANGES; i++) {
        const bool end = i < 0 || i == REDCO_RUN_CHANGES;
        const redco_run_summary *const run = &runs[i < 0 ? 0 : 1];
        if (!end && fabs(changes[i].days) < 0.005 && fabs(changes[i].money) < 0.5) { continue; }
        table_row(table);
        table_cell(table, "%s", end ? i < 0 ? "A" : "B" : changes[i].cause);
        table_cell(table, end ? "%.2f" : "%+.2f", end ? run->days : changes[i].days);
        if (!priced) { continue; }
        const double money = end ? run->money : changes[i].money;
        table_cell(table, "%s%s",
                   end           ? ""
                   : money < 0.0 ? "-"
                                 : "+",
                   format_large(money < 0.0 ? -money : money, text, sizeof text));
    }
    const bool printed = table_print(table, "  ", stdout);
    table_free(table);
    if (!priced) { (void)printf("\nno money: %s has no price\n", runs[0].priced ? "B" : "A"); }
    return printed ? CLI_DONE : CLI_SYSTEM;
}

int run_answer_compare(const struct plan_args *args)
{
    redco_run_summary runs[2];
    redco_run_change changes[REDCO_RUN_CHANGES];
    redco_error err = {0};
    for (int i = 0; i < 2; i++) {
        if (redco_run_summary_read(args->run.compared[i], &runs[i], &err) != REDCO_OK) {
            return cli_fail(&args->cli, &err);
        }
    }
    redco_run_changes(&runs[0], &runs[1], changes);
    int rc = CLI_DONE;
    if (args->cli.json) {
        json_t *const json = changes_json(runs, changes);
        rc = cli_print_json(&args->cli, json);
        json_decref(json);
    } else {
        rc = print_changes(runs, changes);
    }
    return rc == CLI_DONE ? cli_finish(&args->cli, CLI_DONE) : rc;
}
