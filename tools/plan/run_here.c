#include "tools/plan/run_here.h"

#include <stdio.h>

/* A batch that processors train in a moment. */
enum { TOKENS = 128, SEQUENCES = 4 };

static void use_defaults(struct plan_args *args)
{
    redco_workload *const w = &args->question.options.workload;
    args->question.usual_tokens = TOKENS;
    if (!plan_args_given(args, "global-batch")) { w->global_batch = SEQUENCES * args->question.gpus; }
    if (!plan_args_given(args, "precision")) { w->precision = REDCO_FP32; }
}

int run_here_measure(struct plan_args *args, struct beside *beside)
{
    static char cluster[BESIDE_PATH_BYTES], profile[BESIDE_PATH_BYTES]; /* the question's names, until it is read */
    char ranks[24];
    redco_error err = {.status = REDCO_OK};
    if (beside_open(beside, &err) != REDCO_OK) { return cli_fail(&args->cli, &err); }
    (void)beside_path(beside, "machine.json", cluster);
    (void)beside_path(beside, "profile.json", profile);
    (void)snprintf(ranks, sizeof ranks, "%llu", (unsigned long long)args->question.gpus);
    const char *const words[] = {"redco-profile", "--quick", "--quiet",   "--ranks", ranks,
                                 "--output",      profile,   "--cluster", cluster,   NULL};
    const int rc = beside_run(&args->cli, beside, words);
    if (rc != CLI_DONE) {
        beside_close(beside);
        return rc;
    }
    args->question.names.cluster = cluster;
    args->profiles[0] = profile;
    args->question.names.profiles = args->profiles;
    args->question.names.profile_count = 1;
    use_defaults(args);
    return CLI_DONE;
}

void run_here_close(const struct plan_args *args, struct beside *beside)
{
    if (args->run_here) { beside_close(beside); }
}
