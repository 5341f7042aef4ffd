#include "tools/plan/run_here.h"

#include "topology/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A batch that processors train in a moment. */
enum { TOKENS = 128, SEQUENCES = 4, MOST_PROFILE_BYTES = 1 << 24 };

/* The measured profile, from run_here_close() to run_here_write(). */
static char *measured;
static size_t measured_size;

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
    if (!args->run_here) { return; }
    redco_error why = {.status = REDCO_OK};
    if (args->out != NULL &&
        redco_file_read(args->profiles[0], MOST_PROFILE_BYTES, &measured, &measured_size, &why) != REDCO_OK) {
        cli_warn(&args->cli, "--run-here: the measured profile cannot be kept beside the plan");
    }
    beside_close(beside);
}

redco_status run_here_write(const struct plan_args *args, const char **path_out, redco_error *err)
{
    static char path[BESIDE_PATH_BYTES];
    static const char end[] = ".json";
    struct stat plan;
    *path_out = NULL;
    if (measured == NULL || stat(args->out, &plan) != 0 || !S_ISREG(plan.st_mode)) { return REDCO_OK; }
    const size_t length = strlen(args->out), tail = sizeof end - 1;
    const bool named = length > tail && strcmp(args->out + length - tail, end) == 0;
    (void)snprintf(path, sizeof path, "%.*s.profile.json", (int)(named ? length - tail : length), args->out);
    const redco_status st = redco_file_write(path, measured, measured_size, err);
    free(measured);
    measured = NULL;
    *path_out = st == REDCO_OK ? path : NULL;
    return st;
}
