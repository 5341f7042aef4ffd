/* A pipeline whose gradients are known: the mean of (x weight + bias - y)^2, and that of the squares of a cube. */
#include "executor/pipeline/user_pipeline.h"

enum { IN = 6, OUT = 4 };

static void describe(redco_user_pipeline_shape *shape)
{
    const redco_initial normal = {REDCO_INITIAL_NORMAL, 0.5};
    redco_user_pipeline_parameter(shape, "plain.weight", 2, (const uint64_t[]){IN, OUT}, normal);
    redco_user_pipeline_parameter(shape, "plain.bias", 1, (const uint64_t[]){OUT}, normal);
    redco_user_pipeline_parameter(shape, "cube.weight", 3, (const uint64_t[]){2, 3, 4}, normal);
    redco_user_pipeline_input(shape, "x", REDCO_F32, 1, (const uint64_t[]){IN});
    redco_user_pipeline_input(shape, "y", REDCO_F32, 1, (const uint64_t[]){OUT});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const x = json_object_get(examples[i], "x"), *const y = json_object_get(examples[i], "y");
        for (uint32_t k = 0; k < IN; k++) {
            ((float *)data[0])[i * IN + k] = (float)json_number_value(json_array_get(x, k));
        }
        for (uint32_t k = 0; k < OUT; k++) {
            ((float *)data[1])[i * OUT + k] = (float)json_number_value(json_array_get(y, k));
        }
    }
    return REDCO_OK;
}

static redco_value line(redco_scope *scope)
{
    const redco_value x = redco_scope_weight(scope, "x"), w = redco_scope_weight(scope, "plain.weight");
    return redco_add(scope->graph, redco_matmul(scope->graph, x, w, false, false),
                     redco_scope_weight(scope, "plain.bias"));
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    (void)context;
    const redco_value error = redco_sub(g, line(scope), redco_scope_weight(scope, "y"));
    const redco_value cube = redco_scope_weight(scope, "cube.weight");
    return redco_add(g, redco_mean_all(g, redco_mul(g, error, error)), redco_mean_all(g, redco_mul(g, cube, cube)));
}

/* Closer than 1 to all of y, so that the metric moves while it learns. */
static double close_to(const json_t *example, const json_t *prediction)
{
    const json_t *const y = json_object_get(example, "y");
    for (size_t k = 0; k < OUT; k++) {
        const double error = json_number_value(json_array_get(y, k)) - json_number_value(json_array_get(prediction, k));
        if (error > 1.0 || error < -1.0) { return 0.0; }
    }
    return 1.0;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "plain",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = line,
                                                       .metric = close_to};
