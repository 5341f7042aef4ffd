/* Denoising diffusion (Ho et al., arXiv 2006.11239) of points {"x": 1, "y": 0}: the loss draws a step and noise for
 * each example, predict() begins with noise and draws some in every step. */
#include "executor/pipeline/user_pipeline.h"

#include <math.h>

enum { SIZE = 2, HIDDEN = 64, STEPS = 20 };

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_linear(shape, "first", SIZE + 1, HIDDEN, 0);
    redco_user_pipeline_linear(shape, "second", HIDDEN, HIDDEN, 0);
    redco_user_pipeline_linear(shape, "noise", HIDDEN, SIZE, 0);
    redco_user_pipeline_input(shape, "point", REDCO_F32, 1, (const uint64_t[]){SIZE});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    (void)err;
    for (uint32_t i = 0; i < count; i++) {
        ((float *)data[0])[2 * i] = (float)json_number_value(json_object_get(examples[i], "x"));
        ((float *)data[0])[2 * i + 1] = (float)json_number_value(json_object_get(examples[i], "y"));
    }
    return REDCO_OK;
}

/* cos^2 of a quarter turn: the share of the point's variance at a time from 0 to 1. */
static double kept_at(int step)
{
    const double c = cos(1.5 * step / STEPS);
    return c * c;
}

/* @param time  [examples, 1], from 0 to 1 */
static redco_value noise_of(redco_scope *scope, redco_value x, redco_value time)
{
    redco_graph *const g = scope->graph;
    const redco_value seen = redco_concat(g, (redco_value[]){x, time}, 2, 1);
    const redco_value hidden = redco_silu(g, redco_scope_linear(scope, seen, "first"));
    return redco_scope_linear(scope, redco_silu(g, redco_scope_linear(scope, hidden, "second")), "noise");
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    (void)context;
    const redco_value x = redco_scope_weight(scope, "point");
    if (redco_graph_status(g, NULL) != REDCO_OK) { return REDCO_NO_VALUE; }
    redco_tensor_type times = *redco_value_type(g, x);
    times.dim[1] = 1;
    const redco_value time = redco_uniform(g, scope->key, 0, &times, NULL);
    const redco_value noise = redco_normal(g, scope->key, 1, redco_value_type(g, x), NULL);
    const redco_value angle = redco_scale(g, time, 1.5);
    const redco_value mixed =
        redco_add(g, redco_mul(g, x, redco_cos(g, angle)), redco_mul(g, noise, redco_sin(g, angle)));
    const redco_value error = redco_sub(g, noise_of(scope, mixed, time), noise);
    return redco_cast(g, redco_mean_all(g, redco_mul(g, error, error)), redco_dtype_statistic(scope->compute));
}

static redco_value predict(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    const redco_tensor_type type = *redco_value_type(g, redco_scope_weight(scope, "point"));
    redco_tensor_type times = type;
    times.dim[1] = 1;
    redco_value x = redco_normal(g, scope->key, 0, &type, NULL);
    for (int step = STEPS; step > 0; step--) {
        const double now = kept_at(step), next = kept_at(step - 1), share = now / next;
        const redco_value noise = noise_of(scope, x, redco_constant(g, &times, (double)step / STEPS));
        x = redco_scale(g, redco_sub(g, x, redco_scale(g, noise, (1.0 - share) / sqrt(1.0 - now))), 1.0 / sqrt(share));
        if (step == 1) { break; }
        const redco_value more = redco_normal(g, scope->key, (uint64_t)step, &type, NULL);
        x = redco_add(g, x, redco_scale(g, more, sqrt((1.0 - share) * (1.0 - next) / (1.0 - now))));
    }
    return x;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "diffusion",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = predict,
                                                       .options = "--learning-rate 0.01 --weight-decay 0"};
