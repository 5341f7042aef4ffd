/* redco-validate --famous: what redco would have advised in place of layouts that were run. */
#include "planner/answer/advice.h"
#include "planner/answer/explain.h"
#include "planner/search/strategy.h"
#include "tools/cli/text_table.h"
#include "tools/validate/validate_rows.h"
#include "traces/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The search takes the leanest of answers within 0.1 % of each other. */
static const double slower_ratio = -1e-3;

/* A layout as people write it and as programs read it. */
struct layout {
    const redco_parallelism *parallelism;
    const redco_assignment *assignments;
    uint32_t count;
    redco_mesh grid; /* that meshes lie over */
    bool half;       /* full recomputation means half */
};

struct entry {
    const struct validate_row *row;
    const redco_request *request; /* NULL: skipped */
    bool fits;                    /* the layout that ran */
    redco_advice advice;
    char reason[256]; /* why there is no advice; "" = there is */
};

struct report {
    struct validate_rows rows;
    struct entry *entries;
    size_t advised, slower, refused, none;
    redco_error_summary errors;
    json_t *json;
};

static bool is_slower(const struct entry *entry)
{
    return entry->fits && (entry->advice.best == NULL || entry->advice.gain_ratio < slower_ratio);
}

static struct layout given_layout(const struct entry *entry)
{
    const redco_request *const r = entry->request;
    return (struct layout){&r->parallelism, r->assignments, r->assignment_count,
                           redco_shard_grid(&r->machine, &r->workload.engine, &r->parallelism),
                           r->workload.engine.partial_recompute};
}

static struct layout advised_layout(const struct entry *entry)
{
    const redco_request *const r = entry->request;
    const redco_candidate *const c = entry->advice.best;
    return (struct layout){&c->parallelism, c->assignments, c->assignment_count,
                           redco_shard_grid(&r->machine, &r->workload.engine, &c->parallelism), c->half};
}

/* The configuration of the most layers. */
static const redco_layer_config *main_config(const struct layout *layout)
{
    const redco_candidate as = {.assignments = (redco_assignment *)layout->assignments,
                                .assignment_count = layout->count};
    return &redco_main_assignment(&as)->config;
}

static const char *recompute_name(const struct layout *layout, char buffer[REDCO_RECOMPUTE_TEXT])
{
    return redco_recompute_text(main_config(layout)->recompute, layout->half, buffer, REDCO_RECOMPUTE_TEXT);
}

/* "tp 8+sp pp 8x6 cp 2 mb 1 zero1 full" */
static const char *layout_text(const struct layout *layout, char *buffer, size_t size)
{
    const redco_parallelism *const s = layout->parallelism;
    const redco_strategy strategy = redco_strategy_of(layout->grid, s->secondary, &main_config(layout)->shards);
    char pp[32] = "", cp[16] = "", recompute[REDCO_RECOMPUTE_TEXT];
    const uint32_t chunks = redco_parallelism_chunks(s);
    if (s->pp > 1) { (void)snprintf(pp, sizeof pp, chunks > 1 ? " pp %u×%u" : " pp %u", s->pp, chunks); }
    if (s->cp > 1) { (void)snprintf(cp, sizeof cp, " cp %u", s->cp); }
    (void)snprintf(buffer, size, "tp %u%s%s%s mb %u %s%s%s", s->tp, s->sequence_parallel ? "+sp" : "", pp, cp,
                   s->micro_batch, strategy == REDCO_STRATEGY_ANY ? "own meshes" : redco_strategy_name(strategy),
                   main_config(layout)->recompute == REDCO_RECOMPUTE_NONE ? "" : " ",
                   main_config(layout)->recompute == REDCO_RECOMPUTE_NONE ? "" : recompute_name(layout, recompute));
    return buffer;
}

static json_t *mesh_json(redco_mesh mesh)
{
    return json_pack("{s:I,s:I}", "gpus", (json_int_t)mesh.gpus, "nodes", (json_int_t)mesh.nodes);
}

static json_t *layout_json(const struct layout *layout)
{
    char recompute[REDCO_RECOMPUTE_TEXT];
    const redco_parallelism *const s = layout->parallelism;
    const redco_shards *const shards = &main_config(layout)->shards;
    return json_pack("{s:I,s:b,s:I,s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:s}", "tp", (json_int_t)s->tp, "sequence_parallel",
                     s->sequence_parallel, "pp", (json_int_t)s->pp, "pp_chunks",
                     (json_int_t)redco_parallelism_chunks(s), "cp", (json_int_t)s->cp, "micro_batch",
                     (json_int_t)s->micro_batch, "micro_batches", (json_int_t)s->micro_batches, "parameters",
                     mesh_json(shards->parameters), "gradients", mesh_json(shards->gradients), "optimizer",
                     mesh_json(shards->optimizer), "recompute", recompute_name(layout, recompute));
}

/* Columns whose value the source does not state. */
static json_t *assumed_json(const redco_measured_run *run)
{
    json_t *const list = json_array();
    for (int c = 0; c < REDCO_COLUMN_COUNT; c++) {
        if (redco_measured_is_inferred(run, (redco_measured_column)c)) {
            (void)json_array_append_new(list, json_string(redco_measured_column_name((redco_measured_column)c)));
        }
    }
    return list;
}

static json_t *real_or_null(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

static json_t *entry_json(const struct entry *entry)
{
    const redco_measured_run *const run = entry->row->run;
    const bool advised = entry->advice.best != NULL;
    const double predicted = entry->row->price.predicted.tokens_per_s_per_gpu;
    json_t *const json = json_pack("{s:s,s:s,s:s,s:s,s:I,s:s,s:o,s:o,s:s?}", "source", run->source, "location",
                                   run->location, "model", run->model, "gpu", run->gpu, "gpus", (json_int_t)run->n_gpus,
                                   "framework", run->framework, "assumed", assumed_json(run), "measured_tgs",
                                   real_or_null(run->tokens_per_s_per_gpu > 0.0, run->tokens_per_s_per_gpu), "skipped",
                                   entry->request == NULL ? entry->row->skip : NULL);
    if (json == NULL || entry->request == NULL) { return json; }
    const struct layout given = given_layout(entry);
    (void)json_object_set_new(json, "predicted_tgs", json_real(predicted));
    (void)json_object_set_new(json, "error",
                              real_or_null(entry->row->speed, predicted / run->tokens_per_s_per_gpu - 1.0));
    (void)json_object_set_new(json, "fits", json_boolean(entry->fits));
    (void)json_object_set_new(json, "memory_bytes", json_integer((json_int_t)entry->row->price.predicted.total_bytes));
    (void)json_object_set_new(json, "capacity_bytes",
                              json_integer((json_int_t)entry->row->price.predicted.capacity_bytes));
    (void)json_object_set_new(json, "layout", layout_json(&given));
    (void)json_object_set_new(
        json, "advice_tgs", real_or_null(advised, advised ? entry->advice.best->prediction.tokens_per_s_per_gpu : 0.0));
    (void)json_object_set_new(json, "gain", real_or_null(advised, entry->advice.gain_ratio));
    (void)json_object_set_new(json, "slower", json_boolean(is_slower(entry)));
    if (advised) {
        const struct layout best = advised_layout(entry);
        (void)json_object_set_new(json, "advice", layout_json(&best));
    } else {
        (void)json_object_set_new(json, "advice", json_null());
    }
    return json;
}

static redco_status advise(struct report *report, size_t index, redco_error *err)
{
    struct entry *const entry = &report->entries[index];
    redco_error why = {.status = REDCO_OK};
    entry->row = &report->rows.rows[index];
    if (entry->row->skip != NULL) { return REDCO_OK; }
    entry->request = redco_evaluations_request(report->rows.files.evaluations, index);
    redco_status st = redco_advise(entry->request, redco_evaluations_comm(report->rows.files.evaluations, index),
                                   &entry->row->price.predicted, &entry->advice, &why);
    if (st == REDCO_EVALUE) { (void)snprintf(entry->reason, sizeof entry->reason, "%.200s", why.text); }
    if (st != REDCO_OK && st != REDCO_EVALUE) { return redco_fail(err, st, why.place, "%s", why.text); }
    const redco_prediction *const p = &entry->row->price.predicted;
    entry->fits = p->total_bytes <= p->capacity_bytes;
    report->advised++;
    report->refused += entry->fits ? 0 : 1;
    report->slower += is_slower(entry) ? 1 : 0;
    report->none += entry->advice.best == NULL ? 1 : 0;
    return REDCO_OK;
}

static redco_status summarise(struct report *report, redco_error *err)
{
    const size_t most = report->rows.files.count > 0 ? report->rows.files.count : 1;
    double *const measured = calloc(most, sizeof *measured), *const predicted = calloc(most, sizeof *predicted);
    size_t count = 0;
    redco_status st = measured != NULL && predicted != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "memory");
    for (size_t i = 0; i < report->rows.files.count && st == REDCO_OK; i++) {
        const struct validate_row *const row = &report->rows.rows[i];
        if (!row->speed) { continue; }
        measured[count] = row->run->tokens_per_s_per_gpu;
        predicted[count++] = row->price.predicted.tokens_per_s_per_gpu;
    }
    if (st == REDCO_OK) { st = redco_error_summarise(measured, predicted, count, &report->errors, err); }
    free(measured);
    free(predicted);
    return st;
}

static redco_status fill(struct report *report, redco_error *err)
{
    json_t *const rows = json_array();
    for (size_t i = 0; i < report->rows.files.count; i++) {
        (void)json_array_append_new(rows, entry_json(&report->entries[i]));
    }
    report->json = json_pack("{s:s,s:i,s:o,s:I,s:I,s:I,s:I,s:f,s:f}", "format", "redco-famous", "version", 1, "rows",
                             rows, "advised", (json_int_t)report->advised, "slower", (json_int_t)report->slower,
                             "refused", (json_int_t)report->refused, "without_advice", (json_int_t)report->none, "mape",
                             report->errors.mape_ratio, "median_ape", report->errors.median_ape_ratio);
    return report->json != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static redco_status run(const struct validate_arguments *arguments, struct report *report, redco_error *err)
{
    redco_status st = validate_rows_read(arguments, &report->rows, err);
    if (st != REDCO_OK) { return st; }
    report->entries = calloc(report->rows.files.count > 0 ? report->rows.files.count : 1, sizeof *report->entries);
    if (report->entries == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < report->rows.files.count && st == REDCO_OK; i++) { st = advise(report, i, err); }
    if (st == REDCO_OK) { st = summarise(report, err); }
    return st == REDCO_OK ? fill(report, err) : st;
}

static void add_row(struct table *table, const struct entry *entry)
{
    const redco_measured_run *const run = entry->row->run;
    char text[96], number[32];
    const struct layout given = given_layout(entry);
    table_row(table);
    table_cell(table, "%s", run->model);
    table_cell(table, "%s", format_count(run->n_gpus, number, sizeof number));
    table_cell(table, "%s", layout_text(&given, text, sizeof text));
    table_cell(table, entry->row->speed ? "%.0f" : "-", run->tokens_per_s_per_gpu);
    table_cell(table, "%.0f%s", entry->row->price.predicted.tokens_per_s_per_gpu, entry->fits ? "" : " !");
    if (entry->advice.best == NULL) {
        table_rest(table, "no advice: %s", entry->reason[0] != '\0' ? entry->reason : "nothing fits");
        return;
    }
    const struct layout best = advised_layout(entry);
    table_cell(table, "%.0f", entry->advice.best->prediction.tokens_per_s_per_gpu);
    table_cell(table, "%s%s", format_change(entry->advice.gain_ratio, number, sizeof number),
               is_slower(entry) ? " <" : "");
    table_cell(table, "%s", layout_text(&best, text, sizeof text));
    table_cell(table, "%s", run->source);
}

static void print_report(const void *shown)
{
    static const char *const titles[] = {"model",  "GPUs", "layout that ran", "measured", "predicted",
                                         "advice", "gain", "advised layout",  "source"};
    const struct report *const report = shown;
    struct table *const table = table_new("lrlrrrrll");
    if (table == NULL) { return; }
    table_row(table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
    for (size_t i = 0; i < report->rows.files.count; i++) {
        const struct entry *const entry = &report->entries[i];
        if (entry->request != NULL) { add_row(table, entry); }
    }
    (void)table_print(table, "", stdout);
    table_free(table);
    printf("\ntokens/s/GPU, all by redco's own model but what was measured · ! told not to fit · < slower advice\n");
    printf("%zu runs: advice slower than the layout that ran %zu, none %zu, told not to fit %zu\n", report->advised,
           report->slower, report->none, report->refused);
    printf("%zu with a throughput: error in mean %.1f %%, median %.1f %%\n", report->errors.count,
           100.0 * report->errors.mape_ratio, 100.0 * report->errors.median_ape_ratio);
    for (size_t i = 0; i < report->rows.files.count; i++) {
        const struct entry *const entry = &report->entries[i];
        if (entry->request == NULL) {
            table_line("skipped  %s, %s: %s", entry->row->run->source, entry->row->run->location, entry->row->skip);
        }
    }
}

int validate_famous(const struct validate_arguments *arguments)
{
    redco_error err = {.status = REDCO_OK};
    struct report report = {.entries = NULL};
    const redco_status st = run(arguments, &report, &err);
    const struct validate_outcome outcome = {.json = report.json,
                                             .kind = PLOT_FAMOUS,
                                             .print = print_report,
                                             .report = &report,
                                             .code = report.slower > 0 ? CLI_NO : CLI_DONE};
    const int code = st == REDCO_OK ? validate_finish(arguments, &outcome) : cli_fail(&arguments->cli, &err);
    for (size_t i = 0; report.entries != NULL && i < report.rows.files.count; i++) {
        redco_advice_free(&report.entries[i].advice);
    }
    free(report.entries);
    json_decref(report.json);
    validate_rows_free(&report.rows);
    return code;
}
