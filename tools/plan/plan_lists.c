/* Answers that hold several plans: --compare and --sweep; and --check, which holds none. */
#include "tools/plan/plan_answer.h"

#include "planner/answer/priced.h"
#include "planner/assemble/assemble.h"
#include "planner/search/strategy.h"
#include "tools/plan/plan_html.h"
#include "tools/plan/plan_report.h"
#include "topology/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One search of the list, its row and its JSON document. */
struct entry {
    redco_search_result *result;
    json_t *json;
};

struct list {
    struct plan_args *args;
    struct entry *entries;
    struct report_row *rows;
    uint32_t count, most;
    bool any_fits;
    bool all_bad; /* every entry contradicted machine or model: that is bad input, not "no" */
    redco_error first_bad;
};

static redco_status list_new(struct plan_args *args, uint32_t most, struct list *out, redco_error *err)
{
    *out = (struct list){.args = args, .most = most, .all_bad = true};
    out->entries = calloc(most, sizeof *out->entries);
    out->rows = calloc(most, sizeof *out->rows);
    if (out->entries != NULL && out->rows != NULL) { return REDCO_OK; }
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static void list_free(struct list *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        redco_search_result_free(list->entries[i].result);
        json_decref(list->entries[i].json);
    }
    free(list->entries);
    free(list->rows);
}

/* A strategy or size that machine or model rules out is a row with the reason, not the end of the list. */
static void note_bad(struct list *list, const char *name, const redco_error *why)
{
    struct entry *entry = &list->entries[list->count - 1];
    struct report_row *row = &list->rows[list->count - 1];
    const bool placed = strchr(why->place, '/') == NULL && strcmp(why->place, "--gpus") != 0;
    (void)snprintf(row->reason, sizeof row->reason, "%.80s%s%.300s", placed ? why->place : "", placed ? ": " : "",
                   why->text);
    if (list->args->cli.json) { entry->json = answer_infeasible(NULL, name, row->reason, NULL); }
    if (list->first_bad.status == REDCO_OK) { list->first_bad = *why; }
}

static redco_status to_json(struct list *list, const redco_inputs *inputs, const redco_search_options *options,
                            const redco_search_result *result, const char *name, redco_assembler **shared,
                            redco_error *err)
{
    redco_plan *plan = NULL;
    redco_status st = REDCO_OK;
    if (*shared == NULL) { st = redco_assembler_create(inputs, options, REDCO_VERSION, shared, err); }
    if (st != REDCO_OK ||
        (st = redco_plan_assemble(*shared, result, &result->ranked[0], name, &plan, err)) != REDCO_OK) {
        return st;
    }
    list->entries[list->count - 1].json = redco_plan_to_json(plan);
    redco_plan_free(plan);
    return list->entries[list->count - 1].json != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

/* Searches and appends an entry. @param shared  an assembler to make and reuse, or to make anew */
static redco_status add(struct list *list, const redco_inputs *inputs, const redco_search_options *options,
                        const char *name, redco_assembler **shared, redco_error *err)
{
    redco_error why = {0};
    struct entry *entry = &list->entries[list->count];
    struct report_row *row = &list->rows[list->count++];
    row->name = name;
    row->gpus = (uint64_t)inputs->machine.nodes * inputs->machine.gpus_per_node;
    const redco_status st = redco_search_priced(inputs, options, &entry->result, &why);
    if (st == REDCO_EVALUE) {
        note_bad(list, name, &why);
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    list->all_bad = false;
    if (entry->result->ranked_count == 0) {
        (void)report_reason(entry->result, row->reason, sizeof row->reason);
        row->short_bytes = entry->result->shortfall.short_bytes;
        if (list->args->cli.json) { entry->json = answer_infeasible(inputs, name, row->reason, entry->result); }
        return REDCO_OK;
    }
    list->any_fits = true;
    row->candidate = &entry->result->ranked[0];
    return list->args->cli.json ? to_json(list, inputs, options, entry->result, name, shared, err) : REDCO_OK;
}

static int finish(const struct list *list)
{
    if (list->all_bad && list->first_bad.status != REDCO_OK) { return answer_fail(&list->args->cli, &list->first_bad); }
    return CLI_RUN;
}

/* The error line of a list in which nothing fits: why the first does not. */
static int none_fits(const struct list *list)
{
    redco_error err = {0};
    (void)redco_fail(&err, REDCO_EINFEASIBLE, "", "%s: %s", list->rows[0].name, list->rows[0].reason);
    return answer_fail(&list->args->cli, &err);
}

static json_t *plans_json(struct list *list, uint32_t first)
{
    json_t *plans = json_array();
    for (uint32_t i = first; i < list->count; i++) { (void)json_array_append(plans, list->entries[i].json); }
    return plans;
}

static int print_compare(struct list *list, const redco_inputs *inputs)
{
    const struct cli *cli = &list->args->cli;
    if (cli->json) {
        json_t *json = json_pack("{s:o,s:O}", "plans", plans_json(list, 1), "optimum", list->entries[0].json);
        const int rc = cli_print_json(cli, json);
        json_decref(json);
        return rc;
    }
    report_header(list->args, inputs, NULL);
    if (!report_table(inputs, REPORT_STRATEGIES, list->rows, list->count)) { return CLI_SYSTEM; }
    if (list->entries[0].result != NULL && list->entries[0].result->ranked_count > 0) {
        report_solver(list->entries[0].result, inputs);
    }
    return CLI_DONE;
}

static redco_status write_optimum(const struct list *list, const redco_inputs *inputs,
                                  const redco_search_options *options, redco_error *err)
{
    redco_assembler *assembler = NULL;
    redco_plan *plan = NULL;
    const redco_search_result *result = list->entries[0].result;
    redco_status st = redco_assembler_create(inputs, options, REDCO_VERSION, &assembler, err);
    if (st == REDCO_OK &&
        (st = redco_plan_assemble(assembler, result, &result->ranked[0], "optimum", &plan, err)) == REDCO_OK) {
        st = redco_plan_write(plan, list->args->out, err);
    }
    redco_plan_free(plan);
    redco_assembler_free(assembler);
    return st;
}

static redco_status write_report(const struct list *list, const redco_inputs *inputs, redco_error *err)
{
    const bool sizes = list->args->sweep_count > 0;
    char note[800] = "";
    const struct plan_html_list page = {.args = list->args,
                                        .inputs = inputs,
                                        .sizes = sizes,
                                        .title = sizes ? "Numbers of GPUs side by side" : "Strategies side by side",
                                        .column = sizes ? "GPUs" : "<strategy",
                                        .rows = list->rows,
                                        .count = list->count,
                                        .result =
                                            !sizes && list->rows[0].candidate != NULL ? list->entries[0].result : NULL};
    if (list->args->report == NULL || !list->any_fits) { return REDCO_OK; }
    const redco_status st = plan_html_list_write(&page, list->args->report, note, err);
    if (st == REDCO_OK) { plan_html_warn(list->args, note); }
    return st;
}

static void print_written(const struct list *list, const char *path)
{
    if (path != NULL && !list->args->cli.json) { cli_wrote(path); }
}

/* The optimum is one that the engine can run; a named strategy beside it need not be. */
static void warn_strategies(const struct plan_args *args, const redco_inputs *inputs)
{
    char text[200];
    size_t used = 0;
    for (int i = REDCO_STRATEGY_DDP; i < REDCO_STRATEGY_COUNT; i++) {
        if (args->options.states == 0 || redco_strategy_offered(args->options.states, (redco_strategy)i)) { continue; }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "",
                                 redco_strategy_name((redco_strategy)i));
    }
    if (used == 0) { return; }
    (void)snprintf(text + used, sizeof text - used, ": %s does not have them, and they are priced as if it had",
                   inputs->engine.engine.name);
    cli_warn(&args->cli, text);
}

int answer_compare(struct plan_args *args, const redco_inputs *inputs)
{
    struct list list;
    redco_assembler *shared = NULL;
    redco_error err = {0};
    redco_search_options options = args->options;
    int rc = CLI_RUN;
    redco_status st = list_new(args, REDCO_STRATEGY_COUNT, &list, &err);
    for (int i = REDCO_STRATEGY_ANY; i < REDCO_STRATEGY_COUNT && st == REDCO_OK; i++) {
        options.strategy = (redco_strategy)i;
        options.verify = args->options.verify && i == REDCO_STRATEGY_ANY;
        st = add(&list, inputs, &options, i == REDCO_STRATEGY_ANY ? "optimum" : answer_name(&options), &shared, &err);
    }
    options.strategy = REDCO_STRATEGY_ANY;
    const bool fits = st == REDCO_OK && list.rows[0].candidate != NULL;
    if (st == REDCO_OK) { list.rows[0].marked = true; }
    if (st == REDCO_OK && fits && args->out != NULL) { st = write_optimum(&list, inputs, &options, &err); }
    if (st == REDCO_OK) { st = write_report(&list, inputs, &err); }
    rc = st == REDCO_OK ? finish(&list) : answer_fail(&args->cli, &err);
    if (rc == CLI_RUN) {
        warn_strategies(args, inputs);
        rc = print_compare(&list, inputs);
    }
    if (rc == CLI_DONE && fits) { print_written(&list, args->out); }
    if (rc == CLI_DONE && list.any_fits) { print_written(&list, args->report); }
    if (rc == CLI_DONE) {
        const bool beaten = fits && list.entries[0].result->verify_failed;
        rc = cli_finish(&args->cli, beaten ? CLI_NO : CLI_DONE);
        if (rc == CLI_DONE && !fits) { rc = none_fits(&list); }
    }
    redco_assembler_free(shared);
    list_free(&list);
    return rc;
}

static redco_status sweep_one(struct list *list, redco_inputs *inputs, uint64_t gpus, redco_error *err)
{
    redco_error why = {0};
    redco_assembler *own = NULL;
    const char *name = answer_name(&list->args->options);
    redco_status st = redco_inputs_resize(inputs, &list->args->names, gpus, &why);
    if (st == REDCO_EVALUE) {
        list->rows[list->count].name = name;
        list->rows[list->count].gpus = gpus;
        list->count++;
        note_bad(list, name, &why);
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    st = add(list, inputs, &list->args->options, name, &own, err);
    redco_assembler_free(own);
    return st;
}

int answer_sweep(struct plan_args *args, redco_inputs *inputs)
{
    struct list list;
    redco_error err = {0};
    int rc = CLI_RUN;
    redco_status st = list_new(args, args->sweep_count, &list, &err);
    for (uint32_t i = 0; i < args->sweep_count && st == REDCO_OK; i++) {
        st = sweep_one(&list, inputs, args->sweep[i], &err);
        if (list.entries[i].json != NULL) {
            (void)json_object_set_new(list.entries[i].json, "gpus", json_integer((json_int_t)args->sweep[i]));
        }
    }
    if (st == REDCO_OK) { st = write_report(&list, inputs, &err); }
    rc = st == REDCO_OK ? finish(&list) : answer_fail(&args->cli, &err);
    if (rc == CLI_RUN && args->cli.json) {
        json_t *json = json_pack("{s:o}", "plans", plans_json(&list, 0));
        rc = cli_print_json(&args->cli, json);
        json_decref(json);
    } else if (rc == CLI_RUN) {
        report_header(args, inputs, NULL);
        rc = report_table(inputs, REPORT_SIZES, list.rows, list.count) ? CLI_DONE : CLI_SYSTEM;
    }
    if (rc == CLI_DONE && list.any_fits) { print_written(&list, args->report); }
    if (rc == CLI_DONE) { rc = cli_finish(&args->cli, CLI_DONE); }
    if (rc == CLI_DONE && !list.any_fits) { rc = none_fits(&list); }
    list_free(&list);
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

int answer_check(struct plan_args *args)
{
    redco_plan *plan = NULL;
    redco_error err = {0};
    const struct cli *cli = &args->cli;
    int rc = CLI_DONE;
    redco_status st = redco_plan_read(args->check, &plan, &err);
    if (st == REDCO_OK) {
        st = redco_plan_verify(plan, args->check, args->names.profiles, args->names.profile_count, &err);
        if (st == REDCO_EVALUE) { note_version(plan, &err); }
    }
    if (st != REDCO_OK) {
        redco_plan_free(plan);
        return cli_fail(cli, &err);
    }
    if (cli->json) {
        json_t *json =
            json_pack("{s:s,s:o,s:s,s:I,s:f}", "check", "ok", "plan", cli_json_text(args->check), "strategy",
                      plan->strategy, "gpus", (json_int_t)redco_plan_gpus(plan), "step_s", plan->predicted.step_s);
        rc = cli_print_json(cli, json);
        json_decref(json);
    } else if (!cli->quiet) {
        redco_text_write(stdout, args->check);
        (void)printf(": OK: %s on %llu GPUs of %s, %.4g s a step, %.1f of %.1f GB; every number follows from what it "
                     "embeds\n",
                     plan->model_name, (unsigned long long)redco_plan_gpus(plan), plan->cluster_name,
                     plan->predicted.step_s, (double)plan->predicted.total_bytes / 1e9,
                     (double)plan->predicted.capacity_bytes / 1e9);
    }
    redco_plan_free(plan);
    return rc == CLI_DONE ? cli_finish(cli, CLI_DONE) : rc;
}
