/* redco-plan: the strategy that trains fastest within memory, why, and a plan file. */
#include "costmodel/simulator/step.h"
#include "planner/answer/rescale.h"
#include "tools/plan/measured_log.h"
#include "tools/plan/pipeline_question.h"
#include "tools/plan/plan_answer.h"
#include "tools/plan/plan_export.h"
#include "tools/plan/plan_kept.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/run_answer.h"
#include "tools/plan/run_here.h"
#include "tools/plan/trainer_files.h"
#include "topology/base/preset.h"
#include "topology/base/text.h"
#include "topology/base/units.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A given choice that the engine lacks is priced all the same, or left out where it is free; a warning says so. */
static void warn_lacks(const struct plan_args *args, const redco_inputs *inputs)
{
    const char *lacks[REDCO_MOST_LACKS];
    const size_t count = redco_options_lack(&args->question.options, inputs, lacks);
    char text[200];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(text, sizeof text, "%s has no %s: priced as if it had", inputs->engine.engine.name, lacks[i]);
        cli_warn(&args->cli, text);
    }
    const char *const left_out = redco_options_left_out(&args->question.options, inputs);
    if (left_out != NULL) {
        (void)snprintf(text, sizeof text, "%s has no %s", inputs->engine.engine.name, left_out);
        cli_warn(&args->cli, text);
    }
}

/* --rescale: seconds, or a log of the run. */
static redco_status measured_step(const struct plan_args *args, const redco_inputs *inputs, double *step_s_out,
                                  redco_error *err)
{
    redco_run_log log;
    if (args->rescale[0] >= '0' && args->rescale[0] <= '9') {
        const redco_status st = redco_unit_parse(args->rescale, REDCO_UNIT_SECONDS, "--rescale", step_s_out, err);
        if (st == REDCO_OK && !(*step_s_out > 0.0)) {
            return redco_fail(err, REDCO_EVALUE, "--rescale", "a step takes more than 0 s");
        }
        return st;
    }
    redco_status st = redco_run_log_read(args->rescale, &log, err);
    if (st != REDCO_OK) { return st; }
    *step_s_out = measured_log_step_s(args, &log, inputs);
    return *step_s_out > 0.0 ? REDCO_OK : redco_fail(err, REDCO_EVALUE, args->rescale, "no line states a step's time");
}

static int answer(struct plan_args *args, redco_inputs *inputs)
{
    redco_error err = {0};
    if (args->compare_engines) { return answer_engines(args, inputs); } /* each takes the options as they were given */
    if (args->question.size_count > 0) {                                /* and so does each size */
        if (inputs->engine_named) { warn_lacks(args, inputs); }
        return answer_sweep(args, inputs);
    }
    if (redco_question_settle(&args->question, inputs, &err) != REDCO_OK ||
        redco_options_executable(&args->question.options, inputs, &err) != REDCO_OK) {
        return cli_fail(&args->cli, &err);
    }
    warn_lacks(args, inputs);
    double step_s = 0.0;
    if (args->rescale != NULL && (measured_step(args, inputs, &step_s, &err) != REDCO_OK ||
                                  redco_question_rescale(&args->question, inputs, step_s, &err) != REDCO_OK)) {
        return cli_fail(&args->cli, &err);
    }
    return args->compare ? answer_compare(args, inputs) : answer_plan(args, inputs);
}

/* Steps of so many layers are not laid out. */
static void warn_of_layers(const struct cli *cli, const redco_model *model)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    char text[160];
    if ((uint64_t)dims->layers + dims->encoder_layers <= REDCO_SIMULATED_LAYERS_MAX) { return; }
    (void)snprintf(text, sizeof text, "%s has more than %d layers: steps are priced by the closed form, not simulated",
                   redco_model_name(model), REDCO_SIMULATED_LAYERS_MAX);
    cli_warn(cli, text);
}

/* A model by another name than its preset's: the shape is the preset's. */
static void warn_of_name(const struct plan_args *args)
{
    const char *const name = args->question.names.model;
    const redco_preset *const preset = name != NULL ? redco_preset_model(name) : NULL;
    char text[300];
    if (preset == NULL || strcasecmp(preset->name, name) == 0) { return; }
    (void)snprintf(text, sizeof text, "%.120s: the preset %.60s has its shape and is priced", name, preset->name);
    redco_text_clean(text);
    cli_warn(&args->cli, text);
}

static int run(struct plan_args *args)
{
    redco_inputs inputs = {0};
    redco_error err = {0};
    /* Told before the search: a plan that cannot be kept need not be found. */
    if ((args->out != NULL && cli_writable(args->out, &err) != REDCO_OK) ||
        (args->timeline != NULL && cli_writable(args->timeline, &err) != REDCO_OK) ||
        (args->report != NULL && cli_writable(args->report, &err) != REDCO_OK) ||
        (args->write != NULL && cli_writable(args->write, &err) != REDCO_OK) ||
        plan_export_writable(args, &err) != REDCO_OK) {
        return cli_fail(&args->cli, &err);
    }
    if (args->run.file != NULL) { return run_answer_phases(args); }
    if (args->run.words.tokens_given && run_args_frontier(args)) { return run_answer_frontier(args); }
    if (args->run.cluster_count > 1) { return answer_clusters(args); }
    struct beside beside = {.folder = ""};
    if (args->run_here) {
        const int rc = run_here_measure(args, &beside);
        if (rc != CLI_DONE) { return rc; }
    }
    const redco_status read =
        plan_pipeline_open(args, &err) != REDCO_OK ? err.status : redco_question_read(&args->question, &inputs, &err);
    run_here_close(args, &beside);
    if (read != REDCO_OK) {
        trainer_files_place(args, &err);
        return cli_fail(&args->cli, &err);
    }
    warn_of_name(args);
    for (size_t i = 0; redco_cluster_warning(inputs.cluster, i) != NULL; i++) {
        cli_warn(&args->cli, redco_cluster_warning(inputs.cluster, i));
    }
    for (size_t i = 0; redco_model_warning(inputs.model, i) != NULL; i++) {
        cli_warn(&args->cli, redco_model_warning(inputs.model, i));
    }
    if (inputs.constants_warning[0] != '\0') { cli_warn(&args->cli, inputs.constants_warning); }
    warn_of_layers(&args->cli, inputs.model);
    if (redco_comm_warning(inputs.comm) != NULL) { cli_warn(&args->cli, redco_comm_warning(inputs.comm)); }
    const int rc = args->kept ? plan_kept(args, &inputs) : answer(args, &inputs);
    redco_inputs_free(&inputs);
    return rc;
}

static int job(struct plan_args *args)
{
    if (args->from != NULL) { return plan_export_file(args); }
    if (args->run.compared[0] != NULL) { return run_answer_compare(args); }
    return args->check != NULL ? answer_check(args) : run(args);
}

int main(int argc, char **argv)
{
    struct plan_args args;
    cli_tell_crashes();
    int rc = plan_args_parse(argc, argv, trainer_files_apply, &args);
    if (rc == CLI_RUN) { rc = job(&args); }
    redco_reading_free(args.reading);
    return rc;
}
