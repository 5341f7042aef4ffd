/* redco-validate --regret: what is lost by running the layout that redco ranks first, in groups of measured runs in
 * which nothing but the layout differs. */
#include "tools/cli/text_table.h"
#include "tools/validate/validate_rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Smaller groups offer little choice. */
enum { LEAST_LAYOUTS = 4 };

/* One layout of a group: runs of it more than once are one, at their mean. */
struct choice {
    const struct validate_row *row; /* the first */
    double measured, predicted;     /* tokens/s/GPU */
    size_t runs;
};

struct group {
    const struct choice *chosen, *best; /* members of the list */
    size_t layouts;
    double regret_ratio; /* 1 - measured(chosen) / measured(best) */
};

/* The groups of one source. */
struct source {
    const char *name;
    size_t groups;
    double mean_ratio, worst_ratio;
};

struct report {
    struct validate_rows rows;
    size_t *tasks; /* task of each row */
    struct choice *choices;
    size_t choice_count;
    struct group *groups;
    size_t group_count;
    struct source *sources;
    size_t source_count;
    double mean_ratio, median_ratio, worst_ratio;
    size_t sure_count; /* groups that no odd row leads */
    double sure_mean_ratio, sure_worst_ratio;
    json_t *json;
};

static bool same_mesh(redco_mesh a, redco_mesh b)
{
    return a.gpus == b.gpus && a.nodes == b.nodes;
}

static bool same_word(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

/* Mixtures: where experts are, how rows get there, and what hides it. */
static bool same_experts(const redco_measured_run *a, const redco_measured_run *b)
{
    return a->ep == b->ep && a->etp == b->etp && a->ep_overlap == b->ep_overlap &&
           same_word(a->dispatcher, b->dispatcher) && same_word(a->cuda_graph, b->cuda_graph) &&
           same_word(a->pp_layout, b->pp_layout) && same_word(a->offload, b->offload);
}

static bool same_layout(const redco_measured_run *a, const redco_measured_run *b)
{
    const uint64_t left[] = {a->tp,          a->pp,        a->virtual_pp, a->cp, a->sequence_parallel,
                             a->micro_batch, a->recompute, a->scheme};
    const uint64_t right[] = {b->tp,          b->pp,        b->virtual_pp, b->cp, b->sequence_parallel,
                              b->micro_batch, b->recompute, b->scheme};
    return memcmp(left, right, sizeof left) == 0 && same_experts(a, b) &&
           same_mesh(a->shards.parameters, b->shards.parameters) &&
           same_mesh(a->shards.gradients, b->shards.gradients) && same_mesh(a->shards.optimizer, b->shards.optimizer) &&
           same_mesh(a->p_secondary, b->p_secondary) && a->overlap == b->overlap;
}

static void add_run(struct choice *list, size_t *count, const struct validate_row *row)
{
    size_t at = 0;
    while (at < *count && !same_layout(list[at].row->run, row->run)) { at++; }
    if (at == *count) { list[(*count)++] = (struct choice){.row = row}; }
    struct choice *const c = &list[at];
    c->measured += (row->run->tokens_per_s_per_gpu - c->measured) / (double)(c->runs + 1);
    c->predicted += (row->price.predicted.tokens_per_s_per_gpu - c->predicted) / (double)(c->runs + 1);
    c->runs++;
}

/* Among layouts that are predicted alike the slowest counts as chosen. */
static struct group judge(const struct choice *list, size_t count)
{
    struct group group = {.chosen = list, .best = list, .layouts = count};
    for (size_t i = 1; i < count; i++) {
        const struct choice *const c = &list[i], *const first = group.chosen;
        if (c->measured > group.best->measured) { group.best = c; }
        if (c->predicted > first->predicted || (!(c->predicted < first->predicted) && c->measured < first->measured)) {
            group.chosen = c;
        }
    }
    group.regret_ratio = 1.0 - group.chosen->measured / group.best->measured;
    return group;
}

static int by_regret(const void *left, const void *right)
{
    const struct group *const a = left, *const b = right;
    if (a->regret_ratio > b->regret_ratio || a->regret_ratio < b->regret_ratio) {
        return a->regret_ratio > b->regret_ratio ? -1 : 1;
    }
    return a->best->row < b->best->row ? -1 : 1;
}

static struct source *source_of(struct report *report, const char *name)
{
    for (size_t i = 0; i < report->source_count; i++) {
        struct source *const s = &report->sources[i];
        assert(s->name != NULL);
        if (strcmp(s->name, name) == 0) { return s; }
    }
    struct source *const added = &report->sources[report->source_count++];
    added->name = name;
    return added;
}

static bool is_odd(const struct group *group)
{
    return (group->best->row->run->use & REDCO_USE_ODD) != 0;
}

/* The sums once more, of the groups whose fastest run no other contradicts. */
static void sum_sure(struct report *report)
{
    for (size_t i = 0; i < report->group_count; i++) {
        const struct group *const g = &report->groups[i];
        if (is_odd(g)) { continue; }
        report->sure_mean_ratio += (g->regret_ratio - report->sure_mean_ratio) / (double)++report->sure_count;
        if (g->regret_ratio > report->sure_worst_ratio) { report->sure_worst_ratio = g->regret_ratio; }
    }
}

/* Sums by source: those with many small groups must not hide the others. */
static void sum_sources(struct report *report)
{
    for (size_t i = 0; i < report->group_count; i++) {
        const struct group *const g = &report->groups[i];
        struct source *const s = source_of(report, g->best->row->run->source);
        s->mean_ratio += (g->regret_ratio - s->mean_ratio) / (double)++s->groups;
        if (g->regret_ratio > s->worst_ratio) { s->worst_ratio = g->regret_ratio; }
    }
}

static void judge_groups(struct report *report)
{
    const size_t count = report->rows.files.count;
    for (size_t task = 0; task < count; task++) { /* a task's number is below the number of rows */
        struct choice *const list = &report->choices[report->choice_count];
        size_t layouts = 0;
        for (size_t i = 0; i < count; i++) {
            if (report->tasks[i] == task && report->rows.rows[i].speed) {
                add_run(list, &layouts, &report->rows.rows[i]);
            }
        }
        if (layouts < LEAST_LAYOUTS) { continue; }
        report->choice_count += layouts;
        report->groups[report->group_count++] = judge(list, layouts);
    }
    const size_t groups = report->group_count;
    if (groups == 0) { return; }
    qsort(report->groups, groups, sizeof *report->groups, by_regret);
    sum_sources(report);
    sum_sure(report);
    for (size_t i = 0; i < groups; i++) { report->mean_ratio += report->groups[i].regret_ratio / (double)groups; }
    report->worst_ratio = report->groups[0].regret_ratio;
    report->median_ratio =
        (report->groups[(groups - 1) / 2].regret_ratio + report->groups[groups / 2].regret_ratio) / 2.0;
}

static json_t *choice_json(const struct choice *choice)
{
    return json_pack("{s:s,s:f,s:f,s:I}", "location", choice->row->run->location, "measured_tgs", choice->measured,
                     "predicted_tgs", choice->predicted, "runs", (json_int_t)choice->runs);
}

static redco_status fill(struct report *report, redco_error *err)
{
    json_t *const groups = json_array();
    for (size_t i = 0; i < report->group_count; i++) {
        const struct group *const g = &report->groups[i];
        const redco_measured_run *const run = g->best->row->run;
        (void)json_array_append_new(
            groups, json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:s,s:I,s:f,s:o,s:o}", "source", run->source, "model",
                              run->model, "gpu", run->gpu, "gpus", (json_int_t)run->n_gpus, "seq_len",
                              (json_int_t)run->seq_len, "global_batch", (json_int_t)run->global_batch, "framework",
                              run->framework, "layouts", (json_int_t)g->layouts, "regret", g->regret_ratio, "chosen",
                              choice_json(g->chosen), "best", choice_json(g->best)));
    }
    json_t *const sources = json_array();
    for (size_t i = 0; i < report->source_count; i++) {
        const struct source *const s = &report->sources[i];
        (void)json_array_append_new(sources,
                                    json_pack("{s:s,s:I,s:f,s:f}", "source", s->name, "groups", (json_int_t)s->groups,
                                              "mean", s->mean_ratio, "worst", s->worst_ratio));
    }
    report->json =
        json_pack("{s:s,s:i,s:o,s:o,s:f,s:f,s:f,s:{s:I,s:f,s:f}}", "format", "redco-regret", "version", 1, "groups",
                  groups, "sources", sources, "mean", report->mean_ratio, "median", report->median_ratio, "worst",
                  report->worst_ratio, "without_odd", "groups", (json_int_t)report->sure_count, "mean",
                  report->sure_mean_ratio, "worst", report->sure_worst_ratio);
    return report->json != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static redco_status run(const struct validate_arguments *arguments, struct report *report, redco_error *err)
{
    redco_status st = validate_rows_read(arguments, &report->rows, err);
    if (st != REDCO_OK) { return st; }
    const size_t most = report->rows.files.count > 0 ? report->rows.files.count : 1;
    report->tasks = calloc(most, sizeof *report->tasks);
    report->choices = calloc(most, sizeof *report->choices);
    report->groups = calloc(most, sizeof *report->groups);
    report->sources = calloc(most, sizeof *report->sources);
    if (report->tasks == NULL || report->choices == NULL || report->groups == NULL || report->sources == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    st = redco_measured_tasks(report->rows.files.runs, report->rows.files.count, report->tasks, err);
    if (st != REDCO_OK) { return st; }
    judge_groups(report);
    return fill(report, err);
}

static const char *layout_text(const redco_measured_run *run, char *buffer, size_t size)
{
    static const char *const recomputed[] = {"", "", " selective", " half", " full"};
    const redco_mesh p = run->shards.parameters, os = run->shards.optimizer;
    (void)snprintf(buffer, size, "tp %u%s pp %u×%u cp %u mb %u p %u×%u os %u×%u%s", run->tp,
                   run->sequence_parallel ? "+sp" : "", run->pp, run->virtual_pp, run->cp, run->micro_batch, p.gpus,
                   p.nodes, os.gpus, os.nodes, recomputed[run->recompute]);
    return buffer;
}

static void print_report(const void *shown)
{
    static const char *const titles[] = {"regret", "layouts", "source", "model", "GPUs", "ranked first", "fastest"};
    const struct report *const report = shown;
    struct table *const table = table_new("rrllrll");
    char text[96];
    if (table == NULL) { return; }
    table_row(table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
    for (size_t i = 0; i < report->group_count; i++) {
        const struct group *const g = &report->groups[i];
        const redco_measured_run *const best = g->best->row->run;
        if (g->chosen == g->best) { continue; }
        table_row(table);
        table_cell(table, "%.1f %%", 100.0 * g->regret_ratio);
        table_cell(table, "%zu", g->layouts);
        table_cell(table, "%s", best->source);
        table_cell(table, "%s", best->model);
        table_cell(table, "%u", best->n_gpus);
        table_cell(table, "%s", layout_text(g->chosen->row->run, text, sizeof text));
        table_cell(table, "%s", layout_text(best, text, sizeof text));
    }
    (void)table_print(table, "", stdout);
    table_free(table);
    printf("\ngroups of %d layouts or more: %zu; regret in mean %.2f %%, median %.2f %%, worst %.1f %%\n",
           LEAST_LAYOUTS, report->group_count, 100.0 * report->mean_ratio, 100.0 * report->median_ratio,
           100.0 * report->worst_ratio);
    if (report->sure_count < report->group_count) {
        printf("without the %zu groups whose fastest run others contradict (use: odd): mean %.2f %%, worst %.1f %%\n",
               report->group_count - report->sure_count, 100.0 * report->sure_mean_ratio,
               100.0 * report->sure_worst_ratio);
    }
    for (size_t i = 0; i < report->source_count && report->source_count > 1; i++) {
        const struct source *const s = &report->sources[i];
        table_line("  %s: %zu groups, mean %.2f %%, worst %.1f %%", s->name, s->groups, 100.0 * s->mean_ratio,
                   100.0 * s->worst_ratio);
    }
}

int validate_regret(const struct validate_arguments *arguments)
{
    redco_error err = {.status = REDCO_OK};
    struct report report = {.groups = NULL};
    const redco_status st = run(arguments, &report, &err);
    const struct validate_outcome outcome = {.json = report.json, .print = print_report, .report = &report};
    const int code = st == REDCO_OK ? validate_finish(arguments, &outcome) : cli_fail(&arguments->cli, &err);
    json_decref(report.json);
    free(report.tasks);
    free(report.choices);
    free(report.groups);
    free(report.sources);
    validate_rows_free(&report.rows);
    return code;
}
