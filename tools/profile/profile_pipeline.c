#include "tools/profile/profile_pipeline.h"

#include "executor/pipeline/pipeline_work.h"

static redco_status see(void *context, const redco_graph *graph, const redco_op *op, const char *measured_as,
                        redco_error *err)
{
    return redco_measure_ops_add(context, graph, op, measured_as, err);
}

redco_status profile_pipeline_add(const char *path, const struct profile_pipeline *of, redco_measure_ops *ops,
                                  redco_error *err)
{
    redco_user_pipeline_file *file = NULL;
    redco_status st = redco_user_pipeline_open(path, &file, err);
    for (uint32_t i = 0; st == REDCO_OK && (i == 0 || i < of->micro_batch_count); i++) {
        const redco_pipeline_work_options options = {.most_tp = of->most_tp,
                                                     .micro_batch =
                                                         of->micro_batch_count > 0 ? of->micro_batches[i] : 0,
                                                     .see = see,
                                                     .context = ops};
        json_t *config = NULL;
        st = redco_pipeline_model(file, &options, &config, err);
        json_decref(config);
    }
    redco_user_pipeline_close(file);
    return st;
}
