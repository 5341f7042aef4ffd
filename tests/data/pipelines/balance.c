/* A mixture of two linear experts with the loss that balances them (Switch Transformer; Fedus et al., arXiv
 * 2101.03961): the share of the examples that an expert is first for times its mean weight, summed. A product of two
 * means over the micro-batch: no mean over its examples. Examples are {"x": 0.5, "y": 1.5}. */
#include "executor/pipeline/user_pipeline.h"

enum { EXPERTS = 2 };

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_linear(shape, "router", 1, EXPERTS, 1.0);
    redco_user_pipeline_linear(shape, "experts", 1, EXPERTS, 1.0);
    redco_user_pipeline_input(shape, "x", REDCO_F32, 1, (const uint64_t[]){1});
    redco_user_pipeline_input(shape, "y", REDCO_F32, 1, (const uint64_t[]){1});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        ((float *)data[0])[i] = (float)json_number_value(json_object_get(examples[i], "x"));
        ((float *)data[1])[i] = (float)json_number_value(json_object_get(examples[i], "y"));
    }
    return REDCO_OK;
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    (void)context;
    const redco_value x = redco_scope_weight(scope, "x");
    const redco_value weights = redco_softmax(g, redco_scope_linear(scope, x, "router")); /* [examples, EXPERTS] */
    const redco_value made = redco_mul(g, weights, redco_scope_linear(scope, x, "experts"));
    const redco_value error = redco_sub(g, redco_sum_axis(g, made, 1, true), redco_scope_weight(scope, "y"));
    const redco_value largest = redco_reduce_max(g, weights, 1, (const uint32_t[]){1}, true);
    const redco_value first = redco_cast(g, redco_less_equal(g, largest, weights), scope->compute);
    const redco_value shares = redco_mean(g, first, 1, (const uint32_t[]){0}, false);
    const redco_value means = redco_mean(g, weights, 1, (const uint32_t[]){0}, false);
    const redco_value balance = redco_scale(g, redco_sum_all(g, redco_mul(g, shares, means)), EXPERTS);
    const redco_value mean = redco_mean_all(g, redco_mul(g, error, error));
    return redco_cast(g, redco_add(g, mean, redco_scale(g, balance, 0.01)), redco_dtype_statistic(scope->compute));
}

const redco_user_pipeline redco_user_pipeline_table = {
    .abi = REDCO_USER_PIPELINE_ABI, .name = "balance", .describe = describe, .collate = collate, .loss = loss};
