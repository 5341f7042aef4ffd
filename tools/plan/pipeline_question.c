#include "tools/plan/pipeline_question.h"

#include "executor/pipeline/pipeline_work.h"
#include "tools/apart/apart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_DEGREE = 8 };

/* Dimensions that a pipeline does not have, and what is left. */
static redco_status settle(struct plan_args *args, redco_error *err)
{
    redco_search_options *const o = &args->question.options;
    if (args->question.names.model != NULL) {
        return redco_fail(err, REDCO_EVALUE, "--model", "is the pipeline's where --pipeline is given");
    }
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT; i++) {
        if (!args->exports[i].chosen || i == REDCO_FRAMEWORK_SBATCH) { continue; }
        return redco_fail(err, REDCO_EVALUE, "--export",
                          "%s: redco-exec alone trains pipelines: only sbatch is exported", redco_framework_words[i]);
    }
    if (o->tp_placement_fixed && o->tp_placement != REDCO_TP_RULES && o->tp_placement != REDCO_TP_USER) {
        return redco_fail(err, REDCO_EVALUE, "--tp-placement", "a pipeline's parameters are split by rules");
    }
    if (o->given.tp > 1 && !redco_degree_is_free(o->given.tp) && (o->given.tp & (o->given.tp - 1)) != 0) {
        return redco_fail(err, REDCO_EVALUE, "--tp",
                          "%u is no power of two, for which graphs of pipelines are laid out", o->given.tp);
    }
    if (o->sequence_parallel == REDCO_ON) {
        return redco_fail(err, REDCO_EVALUE, "--sequence-parallel", "a pipeline's examples are not sequences");
    }
    if (o->recompute != REDCO_RECOMPUTE_FREE && o->recompute != REDCO_RECOMPUTE_NONE) {
        return redco_fail(err, REDCO_EVALUE, "--recompute",
                          "a pipeline is one layer, of which backward would make everything again at once");
    }
    return REDCO_OK;
}

static redco_status make_model(const struct plan_args *args, redco_user_pipeline_call *call, json_t **config_out,
                               redco_error *err)
{
    const redco_search_options *const o = &args->question.options;
    const bool given = o->given.tp != 0 && !redco_degree_is_free(o->given.tp);
    redco_user_pipeline_file *file = NULL;
    redco_user_rules *rules = NULL;
    redco_status st = redco_user_pipeline_open(args->pipeline, call, &file, err);
    if (st == REDCO_OK && args->question.names.tp_rules != NULL) {
        st = redco_user_rules_read(args->question.names.tp_rules, &rules, err);
    }
    bool couples = false;
    const redco_pipeline_work_options options = {.most_tp = given ? o->given.tp : MOST_DEGREE,
                                                 .tp_given = given,
                                                 .micro_batch = o->given.micro_batch,
                                                 .rules = rules,
                                                 .couples_out = o->given.micro_batch == 0 ? &couples : NULL};
    if (st == REDCO_OK) { st = redco_pipeline_model(file, &options, config_out, err); }
    if (st == REDCO_OK && couples) {
        char text[256];
        (void)snprintf(text, sizeof text,
                       "the loss of %.80s compares the examples of a micro-batch: it is another one for other "
                       "micro-batches; fix it with --micro-batch",
                       redco_user_pipeline_of(file)->name);
        cli_warn(&args->cli, text);
    }
    redco_user_rules_free(rules);
    redco_user_pipeline_close(file);
    return st;
}

/* The question reads models from files: this one is in memory until the program ends. */
struct kept {
    const struct plan_args *args;
    int descriptor;
};

static redco_status cannot_keep(redco_error *err)
{
    return redco_fail(err, REDCO_ESYSTEM, "--pipeline", "cannot keep its model: %s", strerror(errno));
}

static int make_apart(void *context, struct apart *apart, FILE *output)
{
    const struct kept *const kept = context;
    json_t *config = NULL;
    (void)output;
    redco_status st = make_model(kept->args, &apart->call, &config, &apart->err);
    if (st == REDCO_OK && json_dumpfd(config, kept->descriptor, JSON_COMPACT) != 0) { st = cannot_keep(&apart->err); }
    json_decref(config);
    return st == REDCO_OK ? CLI_DONE : CLI_SYSTEM;
}

redco_status plan_pipeline_open(struct plan_args *args, redco_error *err)
{
    static char path[40];
    struct kept kept = {.args = args};
    const struct apart_options options = {.library = args->pipeline, .timeout_s = 60.0, .err = err};
    if (args->pipeline == NULL) { return REDCO_OK; }
    const redco_status st = settle(args, err);
    if (st != REDCO_OK) { return st; }
    kept.descriptor = memfd_create("pipeline", MFD_CLOEXEC);
    if (kept.descriptor < 0) { return cannot_keep(err); }
    if (apart_run(&args->cli, &options, make_apart, &kept) != CLI_DONE) {
        return err->status != REDCO_OK ? err->status
                                       : redco_fail(err, REDCO_ESYSTEM, args->pipeline, "its process did not end well");
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", kept.descriptor);
    args->question.names.model = path;
    return REDCO_OK;
}
