#include "planner/answer/advice.h"

#include "planner/answer/priced.h"
#include "planner/answer/question.h"
#include "planner/search/strategy.h"

static bool shards_as(const redco_request *request, uint32_t states)
{
    const redco_parallelism *const s = &request->parallelism;
    const redco_mesh grid = redco_shard_grid(&request->machine, &request->workload.engine, s);
    for (uint32_t i = 0; i < request->assignment_count; i++) {
        if (!redco_strategy_runs(states, grid, s->secondary, &request->assignments[i].config.shards)) { return false; }
    }
    return true;
}

static redco_search_options options_of(const redco_request *request, const redco_inputs *inputs)
{
    redco_search_options options = redco_question_default().options;
    options.workload = request->workload;
    options.workload.engine.partial_recompute = false; /* that was the layout's choice */
    options.overlap_fixed = true;
    redco_inputs_use_engine(inputs, &options);
    if (options.allows.dimensions != 0) {
        options.allows.dimensions |= redco_setting_dimensions(&request->parallelism);
    }
    if (options.allows.states != 0 && !shards_as(request, options.allows.states)) { options.allows.states = 0; }
    if (options.allows.schemes != 0) { options.allows.schemes |= 1U << request->parallelism.scheme; }
    for (uint32_t i = 0; i < request->assignment_count && options.allows.recompute.count != 0; i++) {
        (void)redco_recompute_add(&options.allows.recompute, request->assignments[i].config.recompute);
    }
    return options;
}

redco_status redco_advise(const redco_request *request, const redco_comm *comm, const redco_prediction *given,
                          redco_advice *advice_out, redco_error *err)
{
    /* A view: what it points at is borrowed, so it is never freed. */
    redco_inputs inputs = {.model = (redco_model *)request->model,
                           .machine = request->machine,
                           .calibration = request->calibration,
                           .engine_named = true,
                           .engine_limits = true,
                           .comm = (redco_comm *)comm};
    redco_status st = redco_engine_file_read(request->workload.engine.name, &inputs.engine, err);
    if (st != REDCO_OK) { return st; }
    inputs.choice = redco_engine_choose(&inputs.engine, request->workload.precision);
    inputs.choice.engine = request->workload.engine;
    inputs.choice.bucket_bytes = request->workload.bucket_bytes;
    redco_search_options options = options_of(request, &inputs);
    redco_advice advice = {.best = NULL};
    if ((st = redco_search_answer(&inputs, &options, &advice.result, err)) != REDCO_OK) { return st; }
    if (advice.result->ranked_count > 0) {
        advice.best = &advice.result->ranked[0];
        advice.gain_ratio = advice.best->prediction.tokens_per_s_per_gpu / given->tokens_per_s_per_gpu - 1.0;
    }
    *advice_out = advice;
    return REDCO_OK;
}

void redco_advice_free(redco_advice *advice)
{
    redco_search_result_free(advice->result);
    *advice = (redco_advice){.best = NULL};
}
