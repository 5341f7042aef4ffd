/* redco-plan: the strategy that trains fastest within memory, why, and a plan file. */
#include "tools/plan_answer.h"
#include "tools/plan_engines.h"
#include "tools/plan_export.h"

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
