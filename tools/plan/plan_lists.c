/* Answers that hold several plans: --compare, --sweep, --compare engines, several clusters; and --check, which holds
 * none. */
#include "tools/plan/plan_answer.h"

#include "planner/answer/several.h"
#include "planner/search/strategy.h"
#include "tools/cli/text_table.h"
#include "tools/plan/plan_html.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/trainer_files.h"
#include "topology/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 64 };

/* A list as it is shown. */
struct list {
    const struct plan_args *args;
    const redco_inputs *inputs;
    redco_answer_list *answers;
    const char *title, *column; /* words of a page */
    enum report_kind kind;
    struct report_row rows[MOST_ROWS];
};

/* A strategy or size that machine or model rules out is a row with the reason; the place is told where it is no file's
 * and says more than the row. */
static void show_bad(const struct cli *cli, const redco_error *why, bool always_placed, struct report_row *row)
{
    const bool placed = always_placed || (strchr(why->place, '/') == NULL && strcmp(why->place, "gpus") != 0);
    (void)snprintf(row->reason, sizeof row->reason, "%.80s%s%.300s", placed ? cli_place(cli, why->place) : "",
                   placed ? ": " : "", why->text);
}

static void show_rows(struct list *list)
{
    for (uint32_t i = 0; i < list->answers->count; i++) {
        const redco_answer_row *const answer = &list->answers->rows[i];
        struct report_row *const row = &list->rows[i];
        *row = (struct report_row){.name = answer->name,
                                   .gpus = answer->gpus,
                                   .candidate = answer->best,
                                   .inputs = answer->inputs,
                                   .beyond = answer->beyond};
        if (answer->result == NULL) {
            show_bad(&list->args->cli, &answer->bad, list->kind != REPORT_SIZES && answer->inputs != NULL, row);
        } else if (answer->best == NULL) {
            (void)report_reason(&answer->result->shortfall, row->reason, sizeof row->reason);
            row->short_bytes = answer->result->shortfall.short_bytes;
        }
    }
}

static json_t *row_json(const struct list *list, uint32_t index)
{
    const redco_answer_row *const row = &list->answers->rows[index];
    const bool engine = row->inputs != NULL;
    json_t *json = NULL;
    if (row->plan != NULL) {
        json = redco_plan_to_json(row->plan);
    } else {
        const redco_inputs *const inputs = engine ? row->inputs : list->inputs;
        json = answer_infeasible(inputs, engine ? redco_question_name(&row->options) : row->name,
                                 list->rows[index].reason, row->result);
        if (json != NULL && engine && list->kind != REPORT_CLUSTERS) {
            (void)json_object_set_new(json, "engine", json_pack("{s:s}", "name", row->name));
        }
    }
    if (json != NULL && list->rows[index].lacked) {
        (void)json_object_set_new(json, "engine_has_strategy", json_false());
    }
    if (json != NULL && list->kind == REPORT_SIZES) {
        (void)json_object_set_new(json, "gpus", json_integer((json_int_t)row->gpus));
    }
    return json;
}

static int print_json(const struct list *list, bool optimum_apart)
{
    json_t *const plans = json_array();
    for (uint32_t i = optimum_apart ? 1 : 0; i < list->answers->count; i++) {
        (void)json_array_append_new(plans, row_json(list, i));
    }
    json_t *const document = optimum_apart ? json_pack("{s:o,s:o}", "plans", plans, "optimum", row_json(list, 0))
                                           : json_pack("{s:o}", "plans", plans);
    if (list->args->reading != NULL && list->kind == REPORT_CLUSTERS) {
        (void)json_object_set_new(document, "read", trainer_files_json(list->args, NULL));
    }
    const int rc = cli_print_json(&list->args->cli, document);
    json_decref(document);
    return rc;
}

static redco_status write_report(const struct list *list, redco_error *err)
{
    const redco_search_result *const first = list->answers->rows[0].result;
    char note[800] = "";
    const struct plan_html_list page = {.args = list->args,
                                        .inputs = list->inputs,
                                        .sizes = list->kind == REPORT_SIZES,
                                        .title = list->title,
                                        .column = list->column,
                                        .rows = list->rows,
                                        .count = list->answers->count,
                                        .result =
                                            list->args->compare && list->rows[0].candidate != NULL ? first : NULL};
    if (list->args->report == NULL || !list->answers->any_fits) { return REDCO_OK; }
    const redco_status st = plan_html_list_write(&page, list->args->report, note, err);
    if (st == REDCO_OK) { plan_html_warn(list->args, note); }
    return st;
}

static void print_written(const struct list *list, const char *path)
{
    if (path != NULL && !list->args->cli.json) { cli_wrote(path); }
}

/* The optimum is one that the engine can run; a named strategy beside it need not be. */
static void mark_lacked(struct list *list)
{
    redco_strategy lacked[REDCO_STRATEGY_COUNT];
    const uint32_t count = redco_strategies_lacked(&list->args->question.options, lacked);
    for (uint32_t i = 0; i < list->answers->count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            if (strcmp(list->rows[i].name, redco_strategy_name(lacked[k])) == 0) { list->rows[i].lacked = true; }
        }
    }
}

/* @return CLI_RUN, or the exit code where there is nothing to show: every row contradicts machine or model, say */
static int begin(struct list *list, redco_status st, redco_error *err)
{
    if (st == REDCO_OK) {
        show_rows(list);
        if (list->args->compare) { list->rows[0].marked = true; }
        if (list->kind == REPORT_STRATEGIES && list->answers->rows[0].inputs == NULL) { mark_lacked(list); }
        st = write_report(list, err);
    }
    if (st != REDCO_OK) { return cli_fail(&list->args->cli, err); }
    return list->answers->all_bad ? cli_fail(&list->args->cli, &list->answers->rows[0].bad) : CLI_RUN;
}

/* @param fits  else the error line says why the first row does not */
static int finish(const struct list *list, int rc, int code, bool fits)
{
    redco_error err = {0};
    if (rc == CLI_DONE && list->answers->any_fits) { print_written(list, list->args->report); }
    if (rc == CLI_DONE) { rc = cli_finish(&list->args->cli, code); }
    if (rc != CLI_DONE || fits) { return rc; }
    (void)redco_fail(&err, REDCO_EINFEASIBLE, "", "%s: %s", list->rows[0].name, list->rows[0].reason);
    return cli_fail(&list->args->cli, &err);
}

static int print_table(const struct list *list)
{
    report_header(list->args, list->inputs, NULL);
    return report_table(list->inputs, list->kind, list->rows, list->answers->count) ? CLI_DONE : CLI_SYSTEM;
}

int answer_compare(const struct plan_args *args, const redco_inputs *inputs)
{
    struct list list = {.args = args,
                        .inputs = inputs,
                        .title = "Strategies side by side",
                        .column = "<strategy",
                        .kind = REPORT_STRATEGIES};
    redco_error err = {0};
    redco_status st =
        redco_answer_strategies(&args->question, inputs, args->cli.json || args->out != NULL, &list.answers, &err);
    const redco_answer_row *const optimum = st == REDCO_OK ? &list.answers->rows[0] : NULL;
    const bool fits = optimum != NULL && optimum->best != NULL;
    if (fits && args->out != NULL) { st = redco_plan_write(optimum->plan, args->out, &err); }
    int rc = begin(&list, st, &err);
    if (rc == CLI_RUN) {
        rc = args->cli.json ? print_json(&list, true) : print_table(&list);
        if (rc == CLI_DONE && !args->cli.json && fits) { report_solver(optimum->result, inputs); }
        if (rc == CLI_DONE && fits) { print_written(&list, args->out); }
        rc = finish(&list, rc, fits && optimum->result->verify_failed ? CLI_NO : CLI_DONE, fits);
    }
    redco_answer_list_free(list.answers);
    return rc;
}

/* The engines whose steps the rows are. */
static void print_engines(const redco_answer_list *answers)
{
    const char *last = "", *between = "engine    ";
    char gpus[32];
    for (uint32_t i = 0; i < answers->count; i++) {
        const redco_answer_row *const row = &answers->rows[i];
        const char *const name = row->best != NULL ? row->inputs->engine.engine.name : last;
        if (strcmp(name, last) == 0) { continue; }
        (void)printf("%s%s from %s GPUs on", between, name, format_count(row->gpus, gpus, sizeof gpus));
        last = name;
        between = ", ";
    }
    if (last[0] != '\0') { (void)printf("\n"); }
}

int answer_sweep(const struct plan_args *args, const redco_inputs *inputs)
{
    struct list list = {.args = args,
                        .inputs = inputs,
                        .title = "Numbers of GPUs side by side",
                        .column = "GPUs",
                        .kind = REPORT_SIZES};
    redco_error err = {0};
    int rc = begin(&list, redco_answer_sizes(&args->question, inputs, args->cli.json, &list.answers, &err), &err);
    if (rc == CLI_RUN) {
        rc = args->cli.json ? print_json(&list, false) : print_table(&list);
        if (rc == CLI_DONE && !args->cli.json) { print_engines(list.answers); }
        rc = finish(&list, rc, CLI_DONE, list.answers->any_fits);
    }
    redco_answer_list_free(list.answers);
    return rc;
}

/* The engine that the question alone would take, and why. */
static redco_status find_taken(const struct plan_args *args, const redco_inputs *inputs, redco_inputs *taken_out,
                               redco_error *err)
{
    redco_question one = args->question;
    redco_status st = redco_question_read_like(&one, inputs, taken_out, err);
    if (st == REDCO_OK && (st = redco_question_settle(&one, taken_out, err)) != REDCO_OK) {
        redco_inputs_free(taken_out);
    }
    return st;
}

static const redco_band *band_of(const redco_answer_row *row, const redco_inputs *inputs)
{
    return &(row->inputs != NULL ? row->inputs : inputs)->calibration.band;
}

/* The engine, other than the fastest, whose band reaches above the worse end of that one's. NULL: the order stands. */
static const redco_answer_row *rival_of(const redco_answer_list *answers, const redco_inputs *inputs)
{
    const redco_answer_row *const first = &answers->rows[0];
    for (uint32_t i = 1; i < answers->count && first->best != NULL; i++) {
        const redco_answer_row *const row = &answers->rows[i];
        const double most = redco_answer_tokens(row) * band_of(row, inputs)->high_68;
        const bool other = strcmp(row->name, first->name) != 0 && row->best != NULL;
        if (other && most > redco_answer_tokens(first) * band_of(first, inputs)->low_68) { return row; }
    }
    return NULL;
}

/* No winner where the bands of two engines overlap: what would decide is a run of the one that is less known. */
static void print_undecided(const redco_inputs *inputs, const redco_answer_row *first, const redco_answer_row *rival)
{
    const redco_band *const a = band_of(first, inputs), *const b = band_of(rival, inputs);
    const bool of_first = redco_band_half_ratio(a) >= redco_band_half_ratio(b);
    const redco_answer_row *const row = of_first ? first : rival;
    (void)printf(
        "not decided: the bands of %s and %s overlap; a measured run of %s by %s on %s (tp %u, micro-batch %u) "
        "would decide\n",
        first->name, rival->name, redco_model_name(inputs->model), row->name, inputs->machine.gpu.name,
        row->best->parallelism.tp, row->best->parallelism.micro_batch);
}

int answer_engines(const struct plan_args *args, const redco_inputs *inputs)
{
    struct list list = {.args = args,
                        .inputs = inputs,
                        .title = "Engines side by side",
                        .column = "<engine",
                        .kind = REPORT_STRATEGIES};
    redco_error err = {0};
    redco_inputs taken = {0};
    redco_status st = redco_answer_engines(&args->question, inputs, args->cli.json, &list.answers, &err);
    if (st == REDCO_OK) { redco_answer_list_sort(list.answers); }
    if (st == REDCO_OK) { st = find_taken(args, inputs, &taken, &err); }
    int rc = begin(&list, st, &err);
    if (rc == CLI_RUN) {
        const char *const name = taken.engine.engine.name;
        const redco_answer_row *const rival = rival_of(list.answers, inputs);
        for (uint32_t i = 0; i < list.answers->count; i++) {
            list.rows[i].marked = rival == NULL && strcmp(list.rows[i].name, name) == 0;
        }
        rc = args->cli.json ? print_json(&list, false) : print_table(&list);
        if (rc == CLI_DONE && !args->cli.json) {
            if (rival != NULL) { print_undecided(inputs, &list.answers->rows[0], rival); }
            (void)printf("%s%s is %s: %s\n", rival == NULL ? "* " : "", name,
                         inputs->engine_named ? "the one asked for" : "taken where none is named", taken.engine_reason);
        }
        rc = finish(&list, rc, CLI_DONE, list.answers->any_fits);
    }
    redco_answer_list_free(list.answers);
    redco_inputs_free(&taken);
    return rc;
}

int answer_clusters(const struct plan_args *args)
{
    struct list list = {.args = args, .kind = REPORT_CLUSTERS};
    redco_error err = {0};
    char large[120], gpus[40] = "all GPUs";
    redco_status st = redco_answer_clusters(&args->question, args->run.clusters, args->run.cluster_count,
                                            args->cli.json, &list.answers, &err);
    if (st == REDCO_OK) {
        redco_answer_list_sort(list.answers);
        list.inputs = list.answers->rows[0].inputs;
    }
    int rc = begin(&list, st, &err);
    if (rc == CLI_RUN && args->cli.json) {
        rc = print_json(&list, false);
    } else if (rc == CLI_RUN) {
        const redco_model *const model = list.inputs->model;
        if (args->question.gpus > 0) {
            (void)snprintf(gpus, sizeof gpus, "%llu GPUs", (unsigned long long)args->question.gpus);
        }
        if (args->reading != NULL) { trainer_files_report(args); }
        (void)printf("%s, %s \xc2\xb7 %s of each cluster\n\n", redco_model_name(model),
                     report_parameters(model, large, sizeof large), gpus);
        rc = report_table(list.inputs, list.kind, list.rows, list.answers->count) ? CLI_DONE : CLI_SYSTEM;
    }
    if (list.answers != NULL) { rc = rc == CLI_DONE ? finish(&list, rc, CLI_DONE, list.answers->any_fits) : rc; }
    redco_answer_list_free(list.answers);
    return rc;
}

/* Another redco may predict otherwise: then it is not the plan that contradicts itself. */
static void note_version(const redco_plan *plan, redco_error *err)
{
    const size_t used = strlen(err->text);
    if (strcmp(plan->redco_version, REDCO_VERSION) == 0) { return; }
    (void)snprintf(err->text + used, sizeof err->text - used, " (the plan is of redco %.40s, this is %s)",
                   plan->redco_version, REDCO_VERSION);
}

int answer_check(const struct plan_args *args)
{
    redco_plan *plan = NULL;
    redco_error err = {0};
    const struct cli *cli = &args->cli;
    int rc = CLI_DONE;
    double refined_ratio = 0.0;
    redco_status st = redco_plan_read(args->check, &plan, &err);
    if (st == REDCO_OK) {
        st = redco_plan_verify(plan, args->check, args->question.names.profiles, args->question.names.profile_count,
                               &refined_ratio, &err);
        if (st == REDCO_EVALUE) { note_version(plan, &err); }
    }
    if (st != REDCO_OK) {
        redco_plan_free(plan);
        return cli_fail(cli, &err);
    }
    if (cli->json) {
        json_t *json = json_pack("{s:s,s:o,s:s,s:I,s:f,s:f}", "check", "ok", "plan", cli_json_text(args->check),
                                 "strategy", plan->strategy, "gpus", (json_int_t)redco_plan_gpus(plan), "step_s",
                                 plan->predicted.step_s, "refined_ratio", refined_ratio);
        rc = cli_print_json(cli, json);
        json_decref(json);
    } else if (!cli->quiet) {
        redco_text_write(stdout, args->check);
        (void)printf(": OK: %s on %llu GPUs of %s, %.4g s a step, %.1f of %.1f GB; every number follows from what it "
                     "embeds",
                     plan->model_name, (unsigned long long)redco_plan_gpus(plan), plan->cluster_name,
                     plan->predicted.step_s, (double)plan->predicted.total_bytes / 1e9,
                     (double)plan->predicted.capacity_bytes / 1e9);
        if (refined_ratio > 0.0) {
            (void)printf(" but the search's own estimate, which was refined since: up to %.2g %% apart",
                         100.0 * refined_ratio);
        }
        (void)printf("\n");
    }
    redco_plan_free(plan);
    return rc == CLI_DONE ? cli_finish(cli, CLI_DONE) : rc;
}
