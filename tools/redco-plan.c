/* redco-plan: the strategy that trains fastest within memory, why, and a plan file. */
#include "tools/plan_answer.h"
#include "tools/plan_engines.h"
#include "tools/plan_export.h"

#include <stdio.h>
#include <string.h>

/* Of a sweep, for the first size that the cluster can have. */
static redco_status read_inputs(const struct plan_args *args, redco_inputs *inputs_out, redco_error *err)
{
    if (args->sweep_count == 0) { return redco_inputs_read(&args->names, args->gpus, inputs_out, err); }
    redco_status st = REDCO_EVALUE;
    for (uint32_t i = 0; i < args->sweep_count && st == REDCO_EVALUE; i++) {
        st = redco_inputs_read(&args->names, args->sweep[i], inputs_out, err);
    }
    if (st == REDCO_OK) { redco_error_clear(err); }
    return st;
}

/* What was given and the engine does not have is priced all the same, and said. */
static void warn_limits(const struct plan_args *args, const redco_inputs *inputs)
{
    const redco_search_options *const o = &args->options;
    const redco_engine_file *const file = &inputs->engine;
    const struct {
        const char *what;
        bool given;
        uint32_t bit;
    } dimensions[] = {{"tensor parallelism", o->tp > 1, REDCO_HAS_TP},
                      {"pipeline stages", o->pp > 1 && o->pp != REDCO_DEGREE_AUTO, REDCO_HAS_PP},
                      {"model chunks", o->workload.engine.virtual_stages > 1, REDCO_HAS_CHUNKS},
                      {"context parallelism", o->cp > 1 && o->cp != REDCO_DEGREE_AUTO, REDCO_HAS_CP},
                      {"sequence parallelism", o->workload.sequence_parallel, REDCO_HAS_SP}};
    char text[200];
    for (size_t i = 0; i < sizeof dimensions / sizeof dimensions[0]; i++) {
        if (!dimensions[i].given || (file->dimensions & dimensions[i].bit) != 0) { continue; }
        (void)snprintf(text, sizeof text, "%s has no %s: priced as if it had", file->engine.name, dimensions[i].what);
        cli_warn(&args->cli, text);
    }
}

static int run(struct plan_args *args)
{
    redco_inputs inputs = {0};
    redco_error err = {0};
    int rc = CLI_DONE;
    /* Told before the search: a plan that cannot be kept need not be found. */
    if ((args->out != NULL && cli_writable(args->out, &err) != REDCO_OK) ||
        (args->timeline != NULL && cli_writable(args->timeline, &err) != REDCO_OK) ||
        (args->report != NULL && cli_writable(args->report, &err) != REDCO_OK) ||
        plan_export_writable(args, &err) != REDCO_OK) {
        return cli_fail(&args->cli, &err);
    }
    if (read_inputs(args, &inputs, &err) != REDCO_OK) { return cli_fail(&args->cli, &err); }
    for (size_t i = 0; redco_cluster_warning(inputs.cluster, i) != NULL; i++) {
        cli_warn(&args->cli, redco_cluster_warning(inputs.cluster, i));
    }
    if (redco_model_warning(inputs.model) != NULL) { cli_warn(&args->cli, redco_model_warning(inputs.model)); }
    if (inputs.tp_rules != NULL) {
        args->options.tp_placement = REDCO_TP_USER;
        args->options.tp_placement_fixed = true;
        args->options.tp_rules = inputs.tp_rules;
    }
    if (redco_comm_warning(inputs.comm) != NULL) { cli_warn(&args->cli, redco_comm_warning(inputs.comm)); }
    if (args->try_engines && plan_engines_choose(args, &inputs, args->engine_note, &err) != REDCO_OK) {
        redco_inputs_free(&inputs);
        return answer_fail(&args->cli, &err);
    }
    if (args->try_engines && strcmp(args->names.engine, inputs.engine.engine.name) != 0) {
        redco_inputs_free(&inputs);
        if (read_inputs(args, &inputs, &err) != REDCO_OK) { return cli_fail(&args->cli, &err); }
    }
    redco_inputs_use_engine(&inputs, &args->options);
    warn_limits(args, &inputs);
    if (args->compare_engines) {
        rc = answer_engines(args, &inputs);
    } else if (args->sweep_count > 0) {
        rc = answer_sweep(args, &inputs);
    } else if (args->compare) {
        rc = answer_compare(args, &inputs);
    } else {
        rc = answer_plan(args, &inputs);
    }
    redco_inputs_free(&inputs);
    return rc;
}

int main(int argc, char **argv)
{
    struct plan_args args = {
        .options = {.workload = {.seq_len = 4096,
                                 .global_batch = 1024,
                                 .precision = REDCO_BF16,
                                 .overlap = REDCO_OVERLAP_ALL},
                    .recompute = REDCO_RECOMPUTE_COUNT,
                    .top = 0,
                    .gap_ratio = 0.0005},
    };
    const int rc = plan_args_parse(argc, argv, &args);
    if (rc != CLI_RUN) { return rc; }
    if (args.from != NULL) { return plan_export_file(&args); }
    return args.check != NULL ? answer_check(&args) : run(&args);
}
