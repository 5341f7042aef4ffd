/* redco-validate PLAN TRACE...: the step that a plan's simulation predicts against traces of its run. */
#include "tools/validate/validate_trace.h"

#include "planner/assemble/assemble.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The prediction as a trace, and what waits for what in it. */
struct prediction {
    redco_step *step;
    redco_timeline *timeline;
    redco_trace *trace;
    uint32_t *first, *inputs;
};

/* Measured traces. */
struct readings {
    redco_trace **traces;
    redco_trace_load_report *reports;
    redco_compare_source *sources;
    const char **origins; /* their own words on how they came about */
    uint32_t count;
    bool simulated;         /* by redco-sim */
    uint64_t micro_batches; /* that a simulation lays out; 0: all */
};

static redco_status out_of_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static redco_status list_inputs(struct prediction *p, redco_error *err)
{
    uint32_t count = 0, inputs = 0, used = 0;
    (void)redco_step_ops(p->step, &count);
    for (uint32_t op = 0; op < count; op++) {
        (void)redco_step_inputs(p->step, op, &used);
        inputs += used;
    }
    p->first = malloc(((size_t)count + 1) * sizeof *p->first);
    p->inputs = malloc(((size_t)inputs + 1) * sizeof *p->inputs);
    if (p->first == NULL || p->inputs == NULL) { return out_of_memory(err); }
    inputs = 0;
    for (uint32_t op = 0; op < count; op++) {
        const uint32_t *const list = redco_step_inputs(p->step, op, &used);
        p->first[op] = inputs;
        for (uint32_t i = 0; i < used; i++) { p->inputs[inputs++] = list[i]; }
    }
    p->first[count] = inputs;
    return REDCO_OK;
}

/* @param micro_batches  that are laid out; 0: all of the step */
static redco_status predict(const struct validate_arguments *a, const redco_plan *plan, uint64_t micro_batches,
                            redco_plan_case *c, struct prediction *p, redco_error *err)
{
    const redco_step_options options = {.micro_batches = micro_batches};
    redco_status st = redco_plan_reopen(plan, a->files[0], a->plan_profiles, a->plan_profile_count, c, err);
    if (st != REDCO_OK ||
        (st = redco_step_build(c->costs, &c->parallelism, c->assignments, c->assignment_count, &options, &p->step,
                               err)) != REDCO_OK ||
        (st = redco_timeline_create(p->step, &p->timeline, err)) != REDCO_OK ||
        (st = redco_timeline_check(p->timeline, err)) != REDCO_OK ||
        (st = redco_timeline_trace(p->timeline, &p->trace, err)) != REDCO_OK) {
        return st;
    }
    return list_inputs(p, err);
}

static void prediction_free(struct prediction *p)
{
    redco_trace_free(p->trace);
    redco_timeline_free(p->timeline);
    redco_step_free(p->step);
    free(p->first);
    free(p->inputs);
}

static redco_status read_traces(const struct validate_arguments *a, struct readings *r, redco_error *err)
{
    static const char *const args[] = {"micro_batch", "step", NULL};
    const size_t count = a->file_count - 1;
    r->traces = calloc(count + 1, sizeof(redco_trace *));
    r->reports = calloc(count + 1, sizeof *r->reports);
    r->sources = calloc(count + 1, sizeof *r->sources);
    r->origins = calloc(count + 1, sizeof *r->origins);
    if (r->traces == NULL || r->reports == NULL || r->sources == NULL || r->origins == NULL) {
        return out_of_memory(err);
    }
    for (; r->count < count; r->count++) {
        const uint32_t i = r->count;
        const redco_status st = redco_trace_load(a->files[i + 1], args, &r->traces[i], &r->reports[i], err);
        if (st != REDCO_OK) { return st; }
        r->sources[i] = (redco_compare_source){r->traces[i], a->files[i + 1]};
        r->origins[i] = redco_trace_note(r->traces[i], "source");
    }
    return REDCO_OK;
}

/* redco-sim writes "32 of 1024" where the others repeat these: the prediction is of as many. */
static void find_simulated(struct readings *r)
{
    r->simulated = r->count > 0;
    for (uint32_t i = 0; i < r->count; i++) {
        const char *const text = redco_trace_note(r->traces[i], "micro_batches");
        char *end = NULL;
        const uint64_t shown = text != NULL ? strtoull(text, &end, 10) : 0;
        r->simulated =
            r->simulated && shown > 0 && strncmp(end, " of ", 4) == 0 && (i == 0 || shown == r->micro_batches);
        r->micro_batches = shown;
    }
    if (!r->simulated) { r->micro_batches = 0; }
}

static void readings_free(struct readings *r)
{
    for (uint32_t i = 0; i < r->count; i++) { redco_trace_free(r->traces[i]); }
    free(r->traces);
    free(r->reports);
    free(r->sources);
    free(r->origins);
}

static void warn_of_file(const struct trace_report *report, uint32_t file)
{
    const redco_trace_load_report *const load = &report->loads[file];
    const char *const name = report->arguments->files[file + 1];
    char text[512];
    if (load->ignored > 0) {
        (void)snprintf(text, sizeof text, "%.200s: events that cannot be used: %llu; the first is %s", name,
                       (unsigned long long)load->ignored, load->first);
        cli_warn(&report->arguments->cli, text);
    }
    if (load->unpaired + load->duplicates > 0) {
        (void)snprintf(text, sizeof text,
                       "%.200s: left out: begins or ends without the other: %llu; repeated spans: %llu", name,
                       (unsigned long long)load->unpaired, (unsigned long long)load->duplicates);
        cli_warn(&report->arguments->cli, text);
    }
}

/* Remarks on the files for a reader of the numbers. */
static void warn(const struct trace_report *report)
{
    const redco_comparison *const c = report->comparison;
    const struct cli *const cli = &report->arguments->cli;
    const uint64_t ranks = redco_plan_gpus(report->plan);
    char text[512];
    for (uint32_t i = 0; i < report->load_count; i++) { warn_of_file(report, i); }
    if (c->other_stream > 0) {
        (void)snprintf(text, sizeof text, "operators that ran on another stream than predicted: %llu; the first is %s",
                       (unsigned long long)c->other_stream, c->other_stream_first);
        cli_warn(cli, text);
    }
    if (c->missing > c->matched || c->extra > c->matched) {
        cli_warn(cli, "most operators are on one side only: the trace seems to be of another plan");
    }
    bool replay = report->load_count > 0; /* true where a single rank was replayed on purpose */
    for (uint32_t i = 0; i < report->load_count; i++) {
        replay =
            replay && report->origins[i] != NULL && strcmp(report->origins[i], "measured, communication emulated") == 0;
    }
    if (c->rank_count != ranks && c->rank_count != report->plan->parallelism.pp && !replay) {
        (void)snprintf(text, sizeof text, "the plan has %llu ranks, the traces have %u", (unsigned long long)ranks,
                       c->rank_count);
        cli_warn(cli, text);
    }
}

/* Bounds of the command line; what was not measured breaks them. */
static bool passes(const struct validate_arguments *a, const redco_comparison *c)
{
    double predicted = 0.0, measured = 0.0;
    bool passed = true;
    if (!isnan(a->max_error_ratio)) {
        passed = fabs(redco_compare_error(c->predicted.step_s, c->measured.step_s)) <= a->max_error_ratio;
    }
    if (passed && !isnan(a->max_memory_error_ratio)) {
        passed = trace_report_peaks(c, &predicted, &measured) &&
                 fabs(redco_compare_error(predicted, measured)) <= a->max_memory_error_ratio;
    }
    return passed;
}

static int finish(struct trace_report *report, const struct prediction *p, const struct readings *r)
{
    const struct validate_arguments *const a = report->arguments;
    const redco_comparison *const c = report->comparison;
    report->loads = r->reports;
    report->origins = r->origins;
    report->load_count = r->count;
    report->passed = passes(a, c);
    warn(report);
    json_t *const json = trace_report_json(report);
    const struct plot_comparison traces = {p->trace, r->traces[c->shown_file], c};
    const struct validate_outcome outcome = {.json = json,
                                             .kind = PLOT_TIMELINES,
                                             .traces = &traces,
                                             .print = trace_report_print,
                                             .report = report,
                                             .code = report->passed ? CLI_DONE : CLI_NO};
    const int code = validate_finish(a, &outcome);
    json_decref(json);
    return code;
}

int validate_trace(const struct validate_arguments *arguments)
{
    const char *kinds[REDCO_WORK_COUNT + 1] = {NULL};
    redco_error err = {.status = REDCO_OK};
    redco_plan *plan = NULL;
    redco_plan_case reopened = {.costs = NULL};
    struct prediction predicted = {.step = NULL};
    struct readings readings = {.count = 0};
    struct trace_report report = {.arguments = arguments};
    redco_comparison *comparison = NULL;
    int code = CLI_DONE;
    for (int w = 0; w < REDCO_WORK_COUNT; w++) { kinds[w] = redco_work_name((redco_work)w); }
    redco_status st = redco_plan_read(arguments->files[0], &plan, &err);
    if (st != REDCO_OK || (st = read_traces(arguments, &readings, &err)) != REDCO_OK) { goto out; }
    find_simulated(&readings);
    if (!readings.simulated) { (void)redco_plan_run_here(plan); } /* traces are of redco-exec */
    st = predict(arguments, plan, readings.micro_batches, &reopened, &predicted, &err);
    if (st != REDCO_OK) { goto out; }
    const redco_compare_source source = {predicted.trace, "the plan's prediction"};
    const redco_compare_graph graph = {predicted.first, predicted.inputs};
    st = redco_trace_compare(&source, readings.sources, readings.count, kinds, &graph, &comparison, &err);
    if (st != REDCO_OK) { goto out; }
    report.plan = plan;
    report.comparison = comparison;
    code = finish(&report, &predicted, &readings);
out:
    if (st != REDCO_OK) { code = cli_fail(&arguments->cli, &err); }
    redco_comparison_free(comparison);
    readings_free(&readings);
    prediction_free(&predicted);
    redco_plan_case_free(&reopened);
    redco_plan_free(plan);
    return code;
}
