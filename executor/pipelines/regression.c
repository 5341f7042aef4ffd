/* Regression: a network of two hidden layers learns Friedman's function of ten numbers, of which five matter
 * (data/make_friedman.py). Examples are {"x": [0.1, ...], "y": 14.2}; the metric is the mean squared error, which the
 * noise of y, of variance 1, bounds from below. */
#include "executor/pipeline/user_pipeline.h"

enum { NUMBERS = 10, HIDDEN = 64 };

/* About the mean and deviation of y: the network's output is of size 1. */
static const double middle = 14.0, spread = 5.0;

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_linear(shape, "first", NUMBERS, HIDDEN, 0.8);
    redco_user_pipeline_linear(shape, "second", HIDDEN, HIDDEN, 0.18);
    redco_user_pipeline_linear(shape, "out", HIDDEN, 1, 0.18);
    redco_user_pipeline_input(shape, "x", REDCO_F32, 1, (const uint64_t[]){NUMBERS});
    redco_user_pipeline_input(shape, "y", REDCO_F32, 1, (const uint64_t[]){1});
    redco_user_pipeline_target(shape, "y");
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    float *const x = data[0], *const y = data[1];
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const list = json_object_get(examples[i], "x"), *const answer = json_object_get(examples[i], "y");
        if (json_array_size(list) != NUMBERS) {
            return redco_fail(err, REDCO_EVALUE, "", "\"x\" is no list of %d numbers", NUMBERS);
        }
        for (uint32_t k = 0; k < NUMBERS; k++) {
            const json_t *const item = json_array_get(list, k);
            if (!json_is_number(item)) {
                return redco_fail(err, REDCO_EVALUE, "", "\"x\" item %u is no number", k + 1);
            }
            x[i * NUMBERS + k] = (float)json_number_value(item);
        }
        if (answer != NULL && !json_is_number(answer)) {
            return redco_fail(err, REDCO_EVALUE, "", "\"y\" is no number");
        }
        y[i] = (float)json_number_value(answer); /* 0 of an example to predict */
    }
    return REDCO_OK;
}

static redco_value answer(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_weight(scope, "x");
    const redco_value first = redco_silu(g, redco_scope_linear(scope, x, "first"));
    const redco_value second = redco_silu(g, redco_scope_linear(scope, first, "second"));
    return redco_shift(g, redco_scale(g, redco_scope_linear(scope, second, "out"), spread), middle);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    (void)context;
    const redco_value error = redco_sub(g, answer(scope), redco_scope_weight(scope, "y"));
    return redco_cast(g, redco_mean_all(g, redco_mul(g, error, error)), redco_dtype_statistic(scope->compute));
}

static double squared_error(const json_t *example, const json_t *prediction)
{
    const double error = json_number_value(prediction) - json_number_value(json_object_get(example, "y"));
    return error * error;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "regression",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = answer,
                                                       .metric = squared_error};
