#include "tools/exec/exec_pipeline.h"

#include "tools/exec/exec_predict.h"

static redco_status open_records(struct exec_args *args, const char *path, redco_records **records_out,
                                 redco_error *err)
{
    if (path == NULL) { return REDCO_OK; }
    const redco_status st = redco_records_open(path, args->pipeline, args->skip_bad, records_out, err);
    if (st == REDCO_OK) { exec_files_skipped(args, path, redco_records_skipped(*records_out)); }
    return st;
}

redco_status exec_pipeline_open(struct exec_args *args, redco_error *err)
{
    static const char type[] = "pipeline";
    json_t *config = NULL;
    const json_t *const planned = json_object_get(args->plan->model_config, "model_type");
    json_t *const wanted = json_string(type);
    const bool of_pipeline = json_equal(planned, wanted) != 0;
    json_decref(wanted);
    if (args->pipeline_path == NULL) {
        return of_pipeline ? redco_fail(err, REDCO_EVALUE, args->path,
                                        "is a plan for the pipeline %.80s; give its library with --pipeline FILE.so",
                                        args->plan->model_name)
                           : REDCO_OK;
    }
    redco_status st = redco_user_pipeline_open(args->pipeline_path, &args->pipeline, err);
    if (st == REDCO_OK) {
        st = redco_user_pipeline_check_model(args->pipeline, args->plan->model_config, args->path, err);
    }
    if (st == REDCO_OK) {
        st = redco_user_pipeline_model(args->pipeline, &config, err);
    } /* errors of the loss come here */
    json_decref(config);
    if (st == REDCO_OK && args->data == NULL && args->steps > 0) {
        st = redco_fail(err, REDCO_EVALUE, "--data", "is missing; a pipeline is trained on JSON lines");
    }
    if (st == REDCO_OK && args->predict != NULL && redco_user_pipeline_of(args->pipeline)->predict == NULL) {
        st = redco_fail(err, REDCO_EVALUE, args->pipeline_path, "has no .predict, which --predict needs");
    }
    if (st == REDCO_OK) { st = open_records(args, args->data, &args->records, err); }
    if (st == REDCO_OK) { st = open_records(args, args->evaluate, &args->evaluated, err); }
    return st == REDCO_OK ? open_records(args, args->predict, &args->predicted, err) : st;
}

void exec_pipeline_close(struct exec_args *args)
{
    redco_records_close(args->records);
    redco_examples_close(args->examples);
    redco_records_close(args->evaluated);
    redco_records_close(args->predicted);
    redco_user_pipeline_close(args->pipeline);
}
