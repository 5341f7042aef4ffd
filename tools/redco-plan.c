/* redco-plan: the strategy that trains fastest within memory, why, and a plan file. */
#include "planner/search/strategy.h"
#include "tools/plan/plan_answer.h"
#include "tools/plan/plan_engines.h"
#include "tools/plan/plan_export.h"

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
    const bool full = o->recompute == REDCO_RECOMPUTE_FULL, half = o->workload.engine.partial_recompute;
    const uint32_t overlap = o->overlap_fixed ? o->workload.overlap & ~file->overlap : 0;
    const struct {
        const char *what;
        bool given;
        uint32_t bit, has;
    } limits[] = {
        {"tensor parallelism", o->tp > 1, REDCO_HAS_TP, file->dimensions},
        {"pipeline stages", o->pp > 1 && !redco_degree_is_free(o->pp), REDCO_HAS_PP, file->dimensions},
        {"model chunks", o->chunks > 1 && o->chunks != REDCO_DEGREE_AUTO, REDCO_HAS_CHUNKS, file->dimensions},
        {"context parallelism", o->cp > 1 && !redco_degree_is_free(o->cp), REDCO_HAS_CP, file->dimensions},
        {"sequence parallelism", o->sequence_parallel == REDCO_ON, REDCO_HAS_SP, file->dimensions},
        {"half recomputation", full && half, REDCO_OFFERS_HALF, file->recompute},
        {"full recomputation", full && !half, REDCO_OFFERS_FULL, file->recompute},
        {"optimizer shards of whole tensors", o->scheme_fixed && o->scheme == REDCO_INTER_TENSOR, true,
         file->inter_tensor},
        {"even optimizer shards", o->scheme_fixed && o->scheme == REDCO_INTRA_TENSOR, true, file->intra_tensor},
        {"overlap of gathers and scatters", (overlap & REDCO_OVERLAP_AG_RS) != 0, 0, 0},
        {"overlap of gradient reduction", (overlap & REDCO_OVERLAP_AR) != 0, 0, 0},
        {"overlap of updated parameters", (overlap & REDCO_OVERLAP_BC) != 0, 0, 0},
        {"overlap of tensor-parallel traffic", (overlap & REDCO_OVERLAP_TP) != 0, 0, 0},
        {"second copy of the parameters",
         o->fix_secondary.gpus > 0 && !redco_strategy_offered(file->states, REDCO_STRATEGY_ZEROPP), 0, 0},
        {redco_strategy_name(o->strategy),
         o->strategy != REDCO_STRATEGY_ANY && o->strategy != REDCO_STRATEGY_AMSP &&
             !redco_strategy_offered(file->states, o->strategy),
         0, 0}};
    char text[200];
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        if (!limits[i].given || (limits[i].has & limits[i].bit) != 0) { continue; }
        (void)snprintf(text, sizeof text, "%s has no %s: priced as if it had", file->engine.name, limits[i].what);
        cli_warn(&args->cli, text);
    }
}

/* They are the inputs' own. */
static void use_rules(struct plan_args *args, const redco_inputs *inputs)
{
    if (inputs->tp_rules == NULL) { return; }
    args->options.tp_placement = REDCO_TP_USER;
    args->options.tp_placement_fixed = true;
    args->options.tp_rules = inputs->tp_rules;
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
    for (size_t i = 0; redco_model_warning(inputs.model, i) != NULL; i++) {
        cli_warn(&args->cli, redco_model_warning(inputs.model, i));
    }
    use_rules(args, &inputs);
    if (redco_comm_warning(inputs.comm) != NULL) { cli_warn(&args->cli, redco_comm_warning(inputs.comm)); }
    if (args->try_engines && plan_engines_choose(args, &inputs, args->engine_note, &err) != REDCO_OK) {
        redco_inputs_free(&inputs);
        return answer_fail(&args->cli, &err);
    }
    if (args->try_engines && args->names.engine != NULL) { /* another than the default */
        redco_inputs_free(&inputs);
        if (read_inputs(args, &inputs, &err) != REDCO_OK) { return cli_fail(&args->cli, &err); }
        use_rules(args, &inputs);
    }
    if (args->compare_engines) { /* each takes the options as they were given */
        rc = answer_engines(args, &inputs);
        redco_inputs_free(&inputs);
        return rc;
    }
    redco_inputs_use_engine(&inputs, &args->options);
    warn_limits(args, &inputs);
    if (args->sweep_count > 0) {
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
    struct plan_args args;
    const int rc = plan_args_parse(argc, argv, &args);
    if (rc != CLI_RUN) { return rc; }
    if (args.from != NULL) { return plan_export_file(&args); }
    return args.check != NULL ? answer_check(&args) : run(&args);
}
