#include "tools/plan/plan_answer.h"

#include "costmodel/closed_form/memory_model.h"
#include "costmodel/engines/assumptions.h"
#include "planner/answer/answer.h"
#include "planner/run/run_json.h"
#include "planner/run/run_step.h"
#include "planner/search/strategy.h"
#include "tools/plan/measured_log.h"
#include "tools/plan/plan_export.h"
#include "tools/plan/plan_html.h"
#include "tools/plan/plan_peak.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/plan_tp.h"
#include "tools/plan/run_here.h"
#include "tools/plan/run_report.h"
#include "tools/plan/trainer_files.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

json_t *answer_infeasible(const redco_inputs *inputs, const char *strategy, const char *reason,
                          const redco_search_result *result)
{
    const redco_shortfall *const shortfall = result != NULL ? &result->shortfall : NULL;
    json_t *json = json_pack("{s:s,s:i,s:b,s:s,s:s,s:I}", "format", "redco-plan", "version", REDCO_PLAN_VERSION,
                             "feasible", 0, "strategy", strategy, "reason", reason, "short_bytes",
                             (json_int_t)(shortfall != NULL ? shortfall->short_bytes : 0));
    if (json != NULL && redco_model_get_dims(inputs->model)->experts > 0) {
        (void)json_object_set_new(json, "assumed",
                                  redco_assumptions_json(&inputs->choice.engine, inputs->machine.hosts_per_node));
    }
    if (json == NULL || shortfall == NULL || shortfall->largest == NULL) { return json; }
    (void)json_object_set_new(json, "uncertain_bytes",
                              json_integer((json_int_t)shortfall->leanest.prediction.uncertain_bytes));
    (void)json_object_set_new(json, "largest", json_string(shortfall->largest));
    char change[REMEDY_TEXT];
    (void)json_object_set_new(json, "cheapest_change", json_string(report_change(shortfall, change, sizeof change)));
    json_t *const remedies = json_array();
    for (uint32_t i = 0; i < shortfall->remedy_count; i++) {
        const redco_remedy *const remedy = &shortfall->remedies[i];
        (void)redco_remedy_text(remedy, cli_option_of, false, change, sizeof change);
        (void)json_array_append_new(remedies, json_pack("{s:s,s:I,s:f}", "change", change, "total_bytes",
                                                        (json_int_t)remedy->total_bytes, "step_s", remedy->step_s));
    }
    (void)json_object_set_new(json, "remedies", remedies);
    if (result->candidates == 1) {
        json_t *const predicted = redco_plan_predicted_json(inputs, &shortfall->leanest);
        if (predicted != NULL) { (void)json_object_update_missing(json, predicted); }
        json_decref(predicted);
    }
    return json;
}

/* An answer as it is shown. */
struct shown {
    const struct plan_args *args; /* its options are the answer's */
    const redco_inputs *inputs;
    const redco_answer *answer;
    json_t *exports; /* reports; NULL without --json */
    bool run_known;  /* --tokens */
    redco_run_estimate run;
    const char *profile;          /* written beside the plan by --run-here; NULL: none */
    const redco_run_log *log;     /* read by --log; NULL: none */
    const redco_changes *changes; /**< those of a trainer's file; NULL: none is read */
};

/* The best plan's step, for a viewer. */
static redco_status write_timeline(const struct shown *shown, redco_error *err)
{
    redco_trace *trace = NULL;
    redco_status st = redco_answer_trace(shown->answer, shown->inputs, &trace, err);
    if (st == REDCO_OK) { st = redco_trace_write(trace, shown->args->timeline, err); }
    redco_trace_free(trace);
    return st;
}

redco_mesh answer_grid(const redco_inputs *inputs, const redco_search_options *options,
                       const redco_candidate *candidate)
{
    return redco_shard_grid(&inputs->machine, &options->workload.engine, &candidate->parallelism);
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
    return json_pack("{s:s,s:b,s:s?,s:o,s:f,s:I,s:I,s:I,s:I,s:o,s:o,s:o}", "what", other->what, "feasible", 1, "aside",
                     other->aside, "cost_ratio", ratio_json(other->cost_ratio), "step_s", other->step_s, "tp",
                     (json_int_t)other->parallelism.tp, "pp", (json_int_t)other->parallelism.pp, "cp",
                     (json_int_t)other->parallelism.cp, "micro_batch", (json_int_t)other->parallelism.micro_batch,
                     "parameters", mesh_json(other->shards.parameters), "gradients", mesh_json(other->shards.gradients),
                     "optimizer", mesh_json(other->shards.optimizer));
}

static json_t *explain_json(const redco_answer *answer)
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
    if (answer->layouts.known) { (void)json_object_set_new(json, "tensor_parallel", plan_tp_json(&answer->layouts)); }
    return json;
}

static json_t *verify_json(const redco_search_result *result)
{
    json_t *json = json_pack("{s:s,s:b,s:f,s:I}", "method", result->verify_method, "beaten", result->verify_failed,
                             "objective", result->verify_objective, "candidates", (json_int_t)result->verify_count);
    if (result->verify_simulated > 0) {
        (void)json_object_set_new(json, "simulated", json_integer((json_int_t)result->verify_simulated));
        (void)json_object_set_new(json, "fastest_s", json_real(result->verify_simulated_s));
        double above = -1.0;
        for (uint32_t kind = 0; kind < REDCO_GAP_KINDS; kind++) {
            above = fmax(above, result->seen[kind].closed_ratio);
        }
        (void)json_object_set_new(json, "closed_form_above_ratio", json_real(above));
    }
    return json;
}

/* The plan, with what was asked beside it. */
static json_t *one_json(const struct shown *shown)
{
    json_t *json = redco_plan_to_json(shown->answer->plan);
    if (json == NULL) { return NULL; }
    if (shown->answer->free_result != NULL && shown->answer->free_result->ranked_count > 0) {
        const redco_candidate *best = &shown->answer->free_result->ranked[0];
        const double ratio =
            redco_candidate_ratio(&shown->args->question.options, &shown->answer->result->ranked[0], best);
        json_t *const free_json =
            json_pack("{s:f,s:o}", "step_s", best->prediction.step_s, "cost_ratio", ratio_json(ratio));
        if (shown->answer->free_leaves_out != NULL) {
            (void)json_object_set_new(free_json, "leaves_out", json_string(shown->answer->free_leaves_out));
        }
        (void)json_object_set_new(json, "free_optimum", free_json);
    }
    if (shown->answer->result->verified) {
        (void)json_object_set_new(json, "verify", verify_json(shown->answer->result));
    }
    if (shown->args->explain) { (void)json_object_set_new(json, "explain", explain_json(shown->answer)); }
    if (shown->args->reading != NULL) {
        (void)json_object_set_new(json, "read", trainer_files_json(shown->args, shown->changes));
    }
    if (shown->log != NULL) {
        (void)json_object_set_new(
            json, "measured",
            measured_log_json(shown->args, shown->log, shown->inputs, &shown->answer->result->ranked[0].prediction));
    }
    if (shown->exports != NULL) { (void)json_object_set(json, "exports", shown->exports); }
    if (shown->run_known) {
        (void)json_object_set_new(json, "run", redco_run_to_json(&shown->run, redco_plan_gpus(shown->answer->plan)));
    }
    return json;
}

static redco_status top_json(const struct shown *shown, json_t **json_out, redco_error *err)
{
    json_t *plans = json_array();
    for (uint32_t i = 0; i < shown->answer->result->ranked_count; i++) {
        redco_plan *plan = NULL;
        const redco_status st = redco_answer_plan(shown->answer, i, &plan, err);
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

static int print_json(const struct shown *shown)
{
    const struct cli *cli = &shown->args->cli;
    redco_error err = {0};
    json_t *json = NULL;
    if (shown->args->question.options.top == 0) {
        json = one_json(shown);
    } else if (top_json(shown, &json, &err) != REDCO_OK) {
        return cli_fail(cli, &err);
    }
    const int rc = cli_print_json(cli, json);
    json_decref(json);
    return rc;
}

static void print_one(const struct shown *shown)
{
    const struct plan_args *args = shown->args;
    const redco_candidate *best = &shown->answer->result->ranked[0];
    char name[64];
    const redco_strategy known =
        redco_strategy_of(answer_grid(shown->inputs, &args->question.options, best), best->parallelism.secondary,
                          &redco_main_assignment(best)->config.shards);
    struct report_row row = {.name = name, .marked = true, .candidate = best};
    (void)snprintf(name, sizeof name, "%s", redco_question_name(&args->question.options));
    if (args->question.options.strategy == REDCO_STRATEGY_ANY && known != REDCO_STRATEGY_ANY &&
        !args->question.options.layerwise) {
        (void)snprintf(name, sizeof name, "%s (%s)", redco_question_name(&args->question.options),
                       redco_strategy_name(known));
    }
    if (args->reading != NULL) { trainer_files_report(args); }
    report_header(args, shown->inputs, best);
    (void)report_table(shown->inputs, REPORT_ONE, &row, 1);
    report_layers(shown->answer->plan);
    report_time(best);
    if (args->question.options.objective == REDCO_OBJECTIVE_COMM) { report_comm(&best->prediction); }
    report_memory(&best->prediction);
    report_energy(&best->prediction);
    report_gpu_groups(shown->answer->plan, &shown->inputs->machine);
    report_placement(shown->answer->plan);
    plan_tp_report(&shown->answer->layouts, &args->question.options);
    report_schedule(&best->parallelism);
    if (shown->answer->helped) { report_help(shown->answer->help, REDCO_HELP_COUNT); }
    if (shown->answer->free_result != NULL && shown->answer->free_result->ranked_count > 0) {
        report_free_optimum(args, shown->answer);
    }
    report_engine(shown->inputs);
    report_evidence(shown->answer, shown->inputs, args->explain);
    report_solver(shown->answer->result, shown->inputs);
    if (shown->log != NULL) {
        measured_log_report(args, shown->log, shown->inputs, &best->prediction, &shown->answer->plan->predicted.band);
    }
    if (shown->changes != NULL) { trainer_files_changes(shown->changes, true); }
    if (shown->run_known) { run_report(&shown->run); }
    if (args->explain) {
        report_neighbours(shown->answer->neighbours, shown->answer->neighbour_count, best->prediction.step_s);
    }
    if (args->explain) { report_traits(shown->inputs, &args->question.options); }
    if (args->explain) { plan_tp_layers(&shown->answer->layouts); }
    if (args->memory) { plan_peak(shown->inputs, &args->question.options, best); }
}

static int print_top(const struct shown *shown)
{
    struct report_row rows[PLAN_MOST_TOP];
    char names[PLAN_MOST_TOP][12];
    const uint32_t count = shown->answer->result->ranked_count;
    for (uint32_t i = 0; i < count && i < PLAN_MOST_TOP; i++) {
        (void)snprintf(names[i], sizeof names[i], "%u", i + 1);
        rows[i] = (struct report_row){
            .name = names[i], .marked = i == 0, .candidate = &shown->answer->result->ranked[i], .reason = ""};
    }
    report_header(shown->args, shown->inputs, NULL);
    (void)report_table(shown->inputs, REPORT_RANKS, rows, count);
    report_solver(shown->answer->result, shown->inputs);
    return CLI_DONE;
}

/* One layout was given: what it would do all the same. */
static void report_given(const struct shown *shown)
{
    const redco_candidate *const given = &shown->answer->result->shortfall.leanest;
    const struct report_row row = {.name = redco_question_name(&shown->args->question.options), .candidate = given};
    (void)report_table(shown->inputs, REPORT_ONE, &row, 1);
    report_time(given);
}

static int print_infeasible(const struct shown *shown)
{
    const struct plan_args *args = shown->args;
    const redco_search_result *result = shown->answer->result;
    redco_error err = {0};
    char reason[400];
    char change[REMEDY_TEXT];
    const bool given = result->candidates == 1 && result->shortfall.leanest.assignments != NULL;
    (void)report_reason(&result->shortfall, reason, sizeof reason);
    if (args->cli.json) {
        json_t *json = answer_infeasible(shown->inputs, redco_question_name(&args->question.options), reason, result);
        if (args->reading != NULL && json != NULL) {
            (void)json_object_set_new(json, "read", trainer_files_json(args, shown->changes));
        }
        if (shown->log != NULL && json != NULL && given) {
            (void)json_object_set_new(
                json, "measured",
                measured_log_json(args, shown->log, shown->inputs, &result->shortfall.leanest.prediction));
        }
        const int rc = cli_print_json(&args->cli, json);
        json_decref(json);
        if (rc != CLI_DONE) { return rc; }
    } else {
        if (args->reading != NULL) { trainer_files_report(args); }
        report_header(args, shown->inputs, NULL);
        if (given) { report_given(shown); }
        report_shortfall(&result->shortfall);
        report_assumed(shown->inputs);
        if (shown->log != NULL && given) {
            const redco_band none = {.low_68 = 0.0};
            measured_log_report(args, shown->log, shown->inputs, &result->shortfall.leanest.prediction, &none);
        }
        if (shown->changes != NULL) { trainer_files_changes(shown->changes, false); }
        const redco_candidate *const leanest = &result->shortfall.leanest;
        if (args->memory && leanest->assignment_count > 0) {
            plan_peak(shown->inputs, &args->question.options, leanest);
        }
        const int rc = cli_finish(&args->cli, CLI_DONE);
        if (rc != CLI_DONE) { return rc; }
    }
    (void)redco_fail(&err, REDCO_EINFEASIBLE, "", "%s%s%s", reason,
                     result->shortfall.cheapest_change[0] != '\0' ? "; " : "",
                     report_change(&result->shortfall, change, sizeof change));
    return cli_fail(&args->cli, &err);
}

static redco_status write_report(const struct shown *shown, redco_error *err)
{
    const struct plan_args *args = shown->args;
    char note[800] = "";
    const struct plan_html page = {.args = args,
                                   .inputs = shown->inputs,
                                   .name = redco_question_name(&args->question.options),
                                   .plan = shown->answer->plan,
                                   .result = shown->answer->result,
                                   .free_result = shown->answer->free_result,
                                   .free_leaves_out = shown->answer->free_leaves_out,
                                   .help = shown->answer->helped ? shown->answer->help : NULL,
                                   .neighbours = shown->answer->neighbours,
                                   .neighbour_count = shown->answer->neighbour_count,
                                   .run = shown->run_known ? &shown->run : NULL};
    const redco_status st = plan_html_write(&page, args->report, note, err);
    if (st == REDCO_OK) { plan_html_warn(args, note); }
    return st;
}

/* Standard output holds one thing: a JSON document, an export, or tables and what was written. */
static int print_answer(const struct shown *shown)
{
    const struct plan_args *args = shown->args;
    int rc = CLI_DONE;
    if (args->cli.json) { return print_json(shown); }
    if (plan_export_prints(args)) { return CLI_DONE; }
    if (args->question.options.top > 0) {
        rc = print_top(shown);
    } else {
        print_one(shown);
    }
    if (args->out != NULL) { cli_wrote(args->out); }
    if (shown->profile != NULL) { cli_wrote(shown->profile); }
    if (args->timeline != NULL) { cli_wrote(args->timeline); }
    if (args->report != NULL) { cli_wrote(args->report); }
    plan_export_print_written(args);
    return rc;
}

/* People always see layouts and what would help; programs only when they ask, for that costs searches. */
static uint32_t wanted(const struct plan_args *args)
{
    const bool people = !args->cli.json && args->question.options.top == 0;
    const bool page = args->report != NULL;
    return (people || args->explain ? REDCO_ANSWER_LAYOUTS : 0) |
           (people || args->explain || page ? REDCO_ANSWER_HELP : 0) |
           (args->explain || page ? REDCO_ANSWER_NEIGHBOURS : 0);
}

static redco_status write_files(struct shown *shown, redco_error *err)
{
    const struct plan_args *const args = shown->args;
    const redco_plan *const plan = shown->answer->plan;
    redco_status st = REDCO_OK;
    if (args->out != NULL) { st = redco_plan_write(plan, args->out, err); }
    if (st == REDCO_OK && args->out != NULL) { st = run_here_write(args, &shown->profile, err); }
    if (st == REDCO_OK && args->timeline != NULL) { st = write_timeline(shown, err); }
    if (st == REDCO_OK && args->report != NULL) { st = write_report(shown, err); }
    if (st == REDCO_OK && args->exports_any) { st = plan_export(args, plan, "plan", &shown->exports, err); }
    return st;
}

static void add_lacked(const redco_inputs *inputs, const char *what, uint32_t bit, char *list, size_t size,
                       size_t *used)
{
    if ((inputs->engine.dimensions & bit) != 0 || *used >= size) { return; }
    *used += (size_t)snprintf(list + *used, size - *used, "%s%s", *used > 0 ? ", " : "", what);
}

/* An engine that nobody named does not limit the search: the answer may use what it lacks, and says so. What was given
 * has been said already. */
static void warn_of_engine(const struct plan_args *args, const redco_inputs *inputs,
                           const redco_parallelism *parallelism)
{
    const redco_search_options *const o = &args->question.options;
    redco_parallelism given = o->given, taken = *parallelism;
    char list[120] = "", text[400];
    size_t used = 0;
    if (inputs->engine_limits) { return; }
    for (const redco_dimension *d = redco_dimensions; d->key != NULL; d++) {
        if (!redco_dimension_is_degree(d)) { continue; }
        const uint32_t asked = *redco_dimension_in(&given, d);
        if (*redco_dimension_in(&taken, d) <= 1 || (asked != 0 && !redco_degree_is_free(asked))) { continue; }
        add_lacked(inputs, d->what, d->bit, list, sizeof list, &used);
    }
    if (taken.sequence_parallel && o->sequence_parallel != REDCO_ON) {
        add_lacked(inputs, "sequence parallelism", REDCO_HAS_SP, list, sizeof list, &used);
    }
    if (used == 0) { return; }
    (void)snprintf(text, sizeof text,
                   "%s, whose steps are priced, has no %s: name an engine that has (--engine megatron-lm), or keep "
                   "to what it runs (--engine %s)",
                   inputs->engine.engine.name, list, inputs->engine.engine.name);
    cli_warn(&args->cli, text);
}

/* The run that --tokens asks for, with the best plan. */
static redco_status find_run(struct shown *shown, redco_error *err)
{
    const struct plan_args *const args = shown->args;
    const redco_run_step step =
        redco_run_step_of(shown->inputs, &args->question.options, &shown->answer->result->ranked[0]);
    redco_run_terms terms;
    bool price_known = true;
    redco_status st =
        redco_run_words_finish(&args->run.words, shown->inputs->machine.gpu.name, &terms, &price_known, err);
    if (st == REDCO_OK) { st = redco_run_estimate_of(&terms, &step, &shown->run, err); }
    shown->run_known = st == REDCO_OK;
    if (st == REDCO_OK) { run_warn(&args->cli, &shown->run, shown->inputs->machine.gpu.name, price_known); }
    return st;
}

int answer_plan(const struct plan_args *given, const redco_inputs *inputs)
{
    struct plan_args args = *given;
    redco_answer answer;
    struct shown shown = {.args = &args, .inputs = inputs, .answer = &answer};
    redco_changes changes;
    redco_error err = {0};
    int rc = CLI_DONE;
    redco_run_log log;
    if (args.log != NULL && redco_run_log_read(args.log, &log, &err) != REDCO_OK) { return cli_fail(&args.cli, &err); }
    shown.log = args.log != NULL ? &log : NULL;
    redco_status st = redco_answer_find(&given->question, inputs, wanted(given), &answer, &err);
    args.question.options = answer.options;
    if (answer.rules_taken) {
        cli_warn(&args.cli, "RedCoast's rules give a faster plan than the layouts that GLPK finds best layer by layer: "
                            "they are taken (placement \"rules\")");
    }
    if (st == REDCO_OK && args.reading != NULL && args.question.options.top == 0) {
        st = redco_changes_find(args.reading, &given->question, inputs,
                                answer.plan != NULL ? &answer.result->ranked[0] : NULL, trainer_files_beside, &args,
                                &changes, &err);
        shown.changes = &changes;
    }
    if (st == REDCO_OK && answer.plan == NULL) {
        if (args.write != NULL && shown.changes != NULL &&
            trainer_files_write(&args, shown.changes, &err) != REDCO_OK) {
            rc = cli_fail(&args.cli, &err);
            goto out;
        }
        rc = print_infeasible(&shown);
        goto out;
    }
    if (st == REDCO_OK) { warn_of_engine(&args, inputs, &answer.result->ranked[0].parallelism); }
    if (st == REDCO_OK && args.run.words.tokens_given) { st = find_run(&shown, &err); }
    if (st == REDCO_OK) { st = write_files(&shown, &err); }
    if (st != REDCO_OK) {
        rc = cli_fail(&args.cli, &err);
        goto out;
    }
    rc = print_answer(&shown);
    if (rc == CLI_DONE && args.write != NULL && shown.changes != NULL &&
        trainer_files_write(&args, shown.changes, &err) != REDCO_OK) {
        rc = cli_fail(&args.cli, &err);
    }
    if (rc == CLI_DONE) { rc = cli_finish(&args.cli, answer.result->verify_failed ? CLI_NO : CLI_DONE); }
out:
    json_decref(shown.exports);
    redco_answer_free(&answer);
    return rc;
}
