#include "tools/plan/plan_answer.h"

#include "costmodel/simulator/simulate.h"
#include "planner/answer/explain.h"
#include "planner/answer/priced.h"
#include "planner/assemble/assemble.h"
#include "planner/search/strategy.h"
#include "tools/plan/plan_export.h"
#include "tools/plan/plan_html.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/plan_tp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *answer_name(const redco_search_options *options)
{
    if (options->strategy != REDCO_STRATEGY_ANY) { return redco_strategy_name(options->strategy); }
    return redco_options_fixed(options) ? "fixed" : "optimum";
}

int answer_fail(const struct cli *cli, const redco_error *err)
{
    static const struct {
        const char *quantity, *option;
    } names[] = {{"tp", "--tp"},
                 {"pp", "--pp"},
                 {"chunks", "--pp-chunks"},
                 {"cp", "--cp"},
                 {"dp", "--tp"}, /* what tp leaves of the GPUs */
                 {"gpus", "--gpus"},
                 {"sequence length", "--seq"},
                 {"global batch", "--global-batch"},
                 {"batch", "--global-batch"}};
    redco_error named = *err;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(err->place, names[i].quantity) == 0) {
            (void)snprintf(named.place, sizeof named.place, "%s", names[i].option);
        }
    }
    return cli_fail(cli, &named);
}

json_t *answer_infeasible(const redco_inputs *inputs, const char *strategy, const char *reason,
                          const redco_search_result *result)
{
    const redco_shortfall *const shortfall = result != NULL ? &result->shortfall : NULL;
    json_t *json = json_pack("{s:s,s:i,s:b,s:s,s:s,s:I}", "format", "redco-plan", "version", REDCO_PLAN_VERSION,
                             "feasible", 0, "strategy", strategy, "reason", reason, "short_bytes",
                             (json_int_t)(shortfall != NULL ? shortfall->short_bytes : 0));
    if (json == NULL || shortfall == NULL || shortfall->largest == NULL) { return json; }
    (void)json_object_set_new(json, "largest", json_string(shortfall->largest));
    (void)json_object_set_new(json, "cheapest_change", json_string(shortfall->cheapest_change));
    if (result->candidates == 1) {
        json_t *const predicted = redco_plan_predicted_json(inputs, &shortfall->leanest);
        if (predicted != NULL) { (void)json_object_update_missing(json, predicted); }
        json_decref(predicted);
    }
    return json;
}

/* One search and what belongs to it. */
struct answer {
    struct plan_args *args;
    const redco_inputs *inputs;
    redco_search_result *result;
    redco_search_result *free_result; /* NULL when nothing was fixed, or without it no degree divides */
    redco_assembler *assembler;       /* NULL until a plan is needed */
    redco_plan *plan;                 /* of the best */
    struct plan_tp tp;                /* layouts of its tensors */
    redco_help help[REDCO_HELP_COUNT];
    bool helped;
    redco_neighbour neighbours[REDCO_MOST_NEIGHBOURS];
    size_t neighbour_count;
    json_t *exports; /* reports; NULL without --json */
};

static void answer_free(struct answer *answer)
{
    json_decref(answer->exports);
    redco_plan_free(answer->plan);
    redco_assembler_free(answer->assembler);
    redco_search_result_free(answer->free_result);
    redco_search_result_free(answer->result);
}

static redco_status ask(const redco_inputs *inputs, const redco_search_options *options,
                        redco_search_result **result_out, redco_error *err)
{
    return redco_search_priced(inputs, options, result_out, err);
}

static redco_status find(struct answer *answer, redco_error *err)
{
    const redco_search_options *options = &answer->args->options;
    const redco_inputs *inputs = answer->inputs;
    redco_status st = ask(inputs, options, &answer->result, err);
    if (st == REDCO_OK) { st = plan_tp_try_rules(answer->args, inputs, &answer->result, err); }
    if (st != REDCO_OK || answer->result->ranked_count == 0) { return st; }
    if (redco_options_fixed(options)) {
        const redco_search_options freed = redco_options_freed(options);
        redco_error none = {0};
        st = ask(inputs, &freed, &answer->free_result, &none);
        /* T_comm has tp = 1 where it is free, and the batch need not divide then. */
        if (st != REDCO_OK && st != REDCO_EVALUE) { return redco_fail(err, st, none.place, "%s", none.text); }
    }
    const redco_candidate *best = &answer->result->ranked[0];
    if ((!answer->args->cli.json && options->top == 0) || answer->args->explain) {
        if ((st = plan_tp_find(answer->args, inputs, best, &answer->tp, err)) != REDCO_OK) { return st; }
    }
    /* People always see what would help; programs only when they ask, for it costs four searches. AMSP's T_comm knows
     * neither memory nor compute, and its times are as measured, so there it has no meaning. */
    if (options->objective == REDCO_OBJECTIVE_STEP_TIME &&
        (answer->args->explain || answer->args->report != NULL || (!answer->args->cli.json && options->top == 0))) {
        if ((st = redco_would_help(inputs, options, best, answer->help, err)) != REDCO_OK) { return st; }
        answer->helped = true;
    }
    if (answer->args->explain || answer->args->report != NULL) {
        return redco_neighbours(inputs, options, best, answer->neighbours, &answer->neighbour_count, err);
    }
    return REDCO_OK;
}

static redco_status assemble(struct answer *answer, redco_error *err)
{
    const redco_search_options *options = &answer->args->options;
    redco_status st = redco_assembler_create(answer->inputs, options, REDCO_VERSION, &answer->assembler, err);
    if (st != REDCO_OK) { return st; }
    return redco_plan_assemble(answer->assembler, answer->result, &answer->result->ranked[0], answer_name(options),
                               &answer->plan, err);
}

/* The best plan's step, for a viewer. */
static redco_status write_timeline(const struct answer *answer, redco_error *err)
{
    const redco_inputs *inputs = answer->inputs;
    const redco_candidate *best = &answer->result->ranked[0];
    redco_costs *costs = NULL;
    redco_trace *trace = NULL;
    redco_status st = redco_costs_of(inputs, &answer->args->options, &costs, err);
    if (st == REDCO_OK) {
        st = redco_simulate_trace(costs, &best->setting, best->assignments, best->assignment_count, NULL, &trace, err);
    }
    if (st == REDCO_OK) { st = redco_trace_write(trace, answer->args->timeline, err); }
    redco_trace_free(trace);
    redco_costs_free(costs);
    return st;
}

redco_mesh answer_grid(const redco_inputs *inputs, const redco_search_options *options,
                       const redco_candidate *candidate)
{
    return redco_shard_grid(&inputs->machine, &options->workload.engine, &candidate->setting);
}

static json_t *mesh_json(redco_mesh mesh)
{
    return json_pack("{s:I,s:I}", "gpus", (json_int_t)mesh.gpus, "nodes", (json_int_t)mesh.nodes);
}

/* JSON has no infinity: null is "up from nothing". */
static json_t *ratio_json(double ratio)
{
    return isfinite(ratio) ? json_real(ratio) : json_null();
}

static json_t *neighbour_json(const redco_neighbour *other)
{
    if (!other->feasible) {
        json_t *json = json_pack("{s:s,s:b,s:I}", "what", other->what, "feasible", 0, "short_bytes",
                                 (json_int_t)other->short_bytes);
        if (other->reason[0] != '\0') { (void)json_object_set_new(json, "reason", json_string(other->reason)); }
        return json;
    }
    return json_pack("{s:s,s:b,s:o,s:f,s:I,s:I,s:I,s:I,s:o,s:o,s:o}", "what", other->what, "feasible", 1, "cost_ratio",
                     ratio_json(other->cost_ratio), "step_s", other->step_s, "tp", (json_int_t)other->setting.tp, "pp",
                     (json_int_t)other->setting.pp, "cp", (json_int_t)other->setting.cp, "micro_batch",
                     (json_int_t)other->setting.micro_batch, "parameters", mesh_json(other->shards.parameters),
                     "gradients", mesh_json(other->shards.gradients), "optimizer", mesh_json(other->shards.optimizer));
}

static json_t *explain_json(const struct answer *answer)
{
    json_t *neighbours = json_array();
    json_t *help = json_array();
    for (size_t i = 0; i < answer->neighbour_count; i++) {
        (void)json_array_append_new(neighbours, neighbour_json(&answer->neighbours[i]));
    }
    for (size_t i = 0; i < REDCO_HELP_COUNT && answer->helped; i++) {
        (void)json_array_append_new(help, json_pack("{s:s,s:f,s:f}", "what", answer->help[i].what, "more_ratio", 0.1,
                                                    "gain_ratio", answer->help[i].gain_ratio));
    }
    json_t *json = json_pack("{s:o,s:o}", "neighbours", neighbours, "would_help", help);
    if (answer->tp.known) { (void)json_object_set_new(json, "tensor_parallel", plan_tp_json(&answer->tp)); }
    return json;
}

static json_t *verify_json(const redco_search_result *result)
{
    return json_pack("{s:s,s:b,s:f,s:I}", "method", result->verify_method, "beaten", result->verify_failed, "objective",
                     result->verify_objective, "candidates", (json_int_t)result->verify_count);
}

/* The plan, with what was asked beside it. */
static json_t *one_json(const struct answer *answer)
{
    json_t *json = redco_plan_to_json(answer->plan);
    if (json == NULL) { return NULL; }
    if (answer->free_result != NULL && answer->free_result->ranked_count > 0) {
        const redco_candidate *best = &answer->free_result->ranked[0];
        const double ratio = redco_candidate_ratio(&answer->args->options, &answer->result->ranked[0], best);
        (void)json_object_set_new(
            json, "free_optimum",
            json_pack("{s:f,s:o}", "step_s", best->prediction.step_s, "cost_ratio", ratio_json(ratio)));
    }
    if (answer->result->verified) { (void)json_object_set_new(json, "verify", verify_json(answer->result)); }
    if (answer->args->explain) { (void)json_object_set_new(json, "explain", explain_json(answer)); }
    if (answer->exports != NULL) { (void)json_object_set(json, "exports", answer->exports); }
    return json;
}

static redco_status top_json(const struct answer *answer, json_t **json_out, redco_error *err)
{
    json_t *plans = json_array();
    for (uint32_t i = 0; i < answer->result->ranked_count; i++) {
        redco_plan *plan = NULL;
        const redco_status st = redco_plan_assemble(answer->assembler, answer->result, &answer->result->ranked[i],
                                                    answer_name(&answer->args->options), &plan, err);
        if (st != REDCO_OK) {
            json_decref(plans);
            return st;
        }
        (void)json_array_append_new(plans, redco_plan_to_json(plan));
        redco_plan_free(plan);
    }
    *json_out = json_pack("{s:o}", "plans", plans);
    return REDCO_OK;
}

static int print_json(const struct answer *answer)
{
    const struct cli *cli = &answer->args->cli;
    redco_error err = {0};
    json_t *json = NULL;
    if (answer->args->options.top == 0) {
        json = one_json(answer);
    } else if (top_json(answer, &json, &err) != REDCO_OK) {
        return cli_fail(cli, &err);
    }
    const int rc = cli_print_json(cli, json);
    json_decref(json);
    return rc;
}

static void print_one(const struct answer *answer)
{
    const struct plan_args *args = answer->args;
    const redco_candidate *best = &answer->result->ranked[0];
    char name[64];
    const redco_strategy known =
        redco_strategy_of(answer_grid(answer->inputs, &args->options, best), best->setting.secondary,
                          &redco_main_assignment(best)->config.shards);
    struct report_row row = {.name = name, .marked = true, .candidate = best};
    (void)snprintf(name, sizeof name, "%s", answer_name(&args->options));
    if (args->options.strategy == REDCO_STRATEGY_ANY && known != REDCO_STRATEGY_ANY && !args->options.layerwise) {
        (void)snprintf(name, sizeof name, "%s (%s)", answer_name(&args->options), redco_strategy_name(known));
    }
    report_header(args, answer->inputs, best);
    (void)report_table(answer->inputs, REPORT_ONE, &row, 1);
    report_layers(answer->plan);
    report_time(best);
    if (args->options.objective == REDCO_OBJECTIVE_COMM) { report_comm(&best->prediction); }
    report_memory(&best->prediction);
    report_energy(&best->prediction);
    report_gpu_groups(answer->plan, &answer->inputs->machine);
    report_placement(answer->plan);
    plan_tp_report(&answer->tp, &args->options);
    report_schedule(&best->setting);
    if (answer->helped) { report_help(answer->help, REDCO_HELP_COUNT); }
    if (answer->free_result != NULL && answer->free_result->ranked_count > 0) {
        report_free_optimum(args, best, &answer->free_result->ranked[0]);
    }
    report_engine(answer->inputs, args->engine_note);
    report_solver(answer->result, answer->inputs);
    if (args->explain) { report_neighbours(answer->neighbours, answer->neighbour_count, best->prediction.step_s); }
    if (args->explain) { report_traits(answer->inputs, &args->options); }
    if (args->explain) { plan_tp_layers(&answer->tp); }
}

static int print_top(const struct answer *answer)
{
    struct report_row rows[PLAN_MOST_TOP];
    char names[PLAN_MOST_TOP][12];
    const uint32_t count = answer->result->ranked_count;
    for (uint32_t i = 0; i < count && i < PLAN_MOST_TOP; i++) {
        (void)snprintf(names[i], sizeof names[i], "%u", i + 1);
        rows[i] = (struct report_row){
            .name = names[i], .marked = i == 0, .candidate = &answer->result->ranked[i], .reason = ""};
    }
    report_header(answer->args, answer->inputs, NULL);
    (void)report_table(answer->inputs, REPORT_RANKS, rows, count);
    report_solver(answer->result, answer->inputs);
    return CLI_DONE;
}

/* One layout was given: what it would do all the same. */
static void report_given(const struct answer *answer)
{
    const redco_candidate *const given = &answer->result->shortfall.leanest;
    const struct report_row row = {.name = answer_name(&answer->args->options), .candidate = given};
    (void)report_table(answer->inputs, REPORT_ONE, &row, 1);
    report_time(given);
}

static int print_infeasible(const struct answer *answer)
{
    const struct plan_args *args = answer->args;
    const redco_search_result *result = answer->result;
    redco_error err = {0};
    char reason[400];
    (void)report_reason(result, reason, sizeof reason);
    if (args->cli.json) {
        json_t *json = answer_infeasible(answer->inputs, answer_name(&args->options), reason, result);
        const int rc = cli_print_json(&args->cli, json);
        json_decref(json);
        if (rc != CLI_DONE) { return rc; }
    } else {
        report_header(args, answer->inputs, NULL);
        if (result->candidates == 1 && result->shortfall.leanest.assignments != NULL) { report_given(answer); }
        report_shortfall(&result->shortfall);
        const int rc = cli_finish(&args->cli, CLI_DONE);
        if (rc != CLI_DONE) { return rc; }
    }
    (void)redco_fail(&err, REDCO_EINFEASIBLE, "", "%s%s%s", reason,
                     result->shortfall.cheapest_change[0] != '\0' ? "; " : "", result->shortfall.cheapest_change);
    return cli_fail(&args->cli, &err);
}

static redco_status write_report(const struct answer *answer, redco_error *err)
{
    const struct plan_args *args = answer->args;
    char note[800] = "";
    const struct plan_html page = {.args = args,
                                   .inputs = answer->inputs,
                                   .name = answer_name(&args->options),
                                   .plan = answer->plan,
                                   .result = answer->result,
                                   .free_result = answer->free_result,
                                   .help = answer->helped ? answer->help : NULL,
                                   .neighbours = answer->neighbours,
                                   .neighbour_count = answer->neighbour_count};
    const redco_status st = plan_html_write(&page, args->report, note, err);
    if (st == REDCO_OK) { plan_html_warn(args, note); }
    return st;
}

/* Standard output holds one thing: a JSON document, an export, or tables and what was written. */
static int print_answer(const struct answer *answer)
{
    const struct plan_args *args = answer->args;
    int rc = CLI_DONE;
    if (args->cli.json) { return print_json(answer); }
    if (plan_export_prints(args)) { return CLI_DONE; }
    if (args->options.top > 0) {
        rc = print_top(answer);
    } else {
        print_one(answer);
    }
    if (args->out != NULL) { cli_wrote(args->out); }
    if (args->timeline != NULL) { cli_wrote(args->timeline); }
    if (args->report != NULL) { cli_wrote(args->report); }
    plan_export_print_written(args);
    return rc;
}

int answer_plan(struct plan_args *args, const redco_inputs *inputs)
{
    struct answer answer = {.args = args, .inputs = inputs};
    redco_error err = {0};
    int rc = CLI_DONE;
    redco_status st = find(&answer, &err);
    if (st == REDCO_OK && answer.result->ranked_count == 0) {
        rc = print_infeasible(&answer);
        goto out;
    }
    if (st == REDCO_OK) { st = assemble(&answer, &err); }
    if (st == REDCO_OK && args->out != NULL) { st = redco_plan_write(answer.plan, args->out, &err); }
    if (st == REDCO_OK && args->timeline != NULL) { st = write_timeline(&answer, &err); }
    if (st == REDCO_OK && args->report != NULL) { st = write_report(&answer, &err); }
    if (st == REDCO_OK && args->exports_any) { st = plan_export(args, answer.plan, "plan", &answer.exports, &err); }
    if (st != REDCO_OK) {
        rc = answer_fail(&args->cli, &err);
        goto out;
    }
    rc = print_answer(&answer);
    if (rc == CLI_DONE) { rc = cli_finish(&args->cli, answer.result->verify_failed ? CLI_NO : CLI_DONE); }
out:
    answer_free(&answer);
    return rc;
}
