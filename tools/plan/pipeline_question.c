#include "tools/plan/pipeline_question.h"

#include "executor/pipeline/user_pipeline_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The question reads models from files: this one is in memory until the program ends. */
static redco_status keep(const json_t *config, const char **path_out, redco_error *err)
{
    static char path[40];
    const int descriptor = memfd_create("pipeline", MFD_CLOEXEC);
    if (descriptor < 0 || json_dumpfd(config, descriptor, JSON_COMPACT) != 0) {
        if (descriptor >= 0) { (void)close(descriptor); }
        return redco_fail(err, REDCO_ESYSTEM, "--pipeline", "cannot keep its model: %s", strerror(errno));
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    *path_out = path;
    return REDCO_OK;
}

redco_status plan_pipeline_open(struct plan_args *args, redco_error *err)
{
    redco_user_pipeline_file *file = NULL;
    json_t *config = NULL;
    if (args->pipeline == NULL) { return REDCO_OK; }
    if (args->question.names.model != NULL) {
        return redco_fail(err, REDCO_EVALUE, "--model", "is the pipeline's where --pipeline is given");
    }
    redco_status st = redco_user_pipeline_open(args->pipeline, &file, err);
    if (st == REDCO_OK) { st = redco_user_pipeline_model(file, &config, err); }
    if (st == REDCO_OK) { st = keep(config, &args->question.names.model, err); }
    json_decref(config);
    redco_user_pipeline_close(file);
    return st;
}
