/* Meta-learning (MAML: Finn, Abbeel, Levine, arXiv 1703.03400, section 5.1): weights from which one step of gradient
 * descent on ten points of a sinusoid learns that sinusoid. Examples are {"task": 7}: the number determines amplitude
 * (0.1 to 5), phase (0 to pi), ten points to learn from and ten to be judged by (x from -5 to 5). The loss is
 * differentiated through the step, so that gradients are of second order. */
#include "executor/pipeline/user_pipeline.h"

#include <math.h>

enum { POINTS = 10, HIDDEN = 40, WEIGHTS = 6 };
static const double inner_rate = 0.01;
static const char *const names[WEIGHTS] = {"first.weight", "first.bias", "second.weight",
                                           "second.bias",  "out.weight", "out.bias"};
static const uint64_t shapes[WEIGHTS][2] = {{1, HIDDEN}, {1, HIDDEN}, {HIDDEN, HIDDEN},
                                            {1, HIDDEN}, {HIDDEN, 1}, {1, 1}};

static void describe(redco_user_pipeline_shape *shape)
{
    for (int i = 0; i < WEIGHTS; i++) { /* deviations of uniform numbers up to 1 / sqrt(in), as PyTorch draws */
        const double in = (double)(i % 2 == 0 ? shapes[i][0] : 4);
        const redco_initial normal = {REDCO_INITIAL_NORMAL, sqrt(1.0 / (3.0 * in))};
        redco_user_pipeline_parameter(shape, names[i], 2, shapes[i], normal);
    }
    for (int i = 0; i < 4; i++) {
        static const char *const inputs[] = {"x", "y", "asked", "answer"};
        redco_user_pipeline_input(shape, inputs[i], REDCO_F32, 2, (const uint64_t[]){POINTS, 1});
    }
}

/* Numbers from 0 to 1 of a task: splitmix64 (Steele, Lea, Flood, OOPSLA 2014). */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0;
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const task = json_object_get(examples[i], "task");
        uint64_t state = (uint64_t)json_integer_value(task) << 32;
        if (!json_is_integer(task)) { return redco_fail(err, REDCO_EVALUE, "", "\"task\" is no whole number"); }
        const double amplitude = 0.1 + 4.9 * draw(&state), phase = 3.14159265358979 * draw(&state);
        for (int which = 0; which < 4; which += 2) {
            float *const x = (float *)data[which] + i * POINTS, *const y = (float *)data[which + 1] + i * POINTS;
            for (int p = 0; p < POINTS; p++) {
                x[p] = (float)(10.0 * draw(&state) - 5.0);
                y[p] = (float)(amplitude * sin((double)x[p] - phase));
            }
        }
    }
    return REDCO_OK;
}

/* x [tasks, points, 1], weights [tasks, in, out] */
static redco_value network(redco_graph *g, redco_value x, const redco_value *w)
{
    for (int i = 0; i < WEIGHTS; i += 2) {
        x = redco_add(g, redco_matmul(g, x, w[i], false, false), w[i + 1]);
        if (i + 2 < WEIGHTS) { x = redco_relu(g, x); }
    }
    return x;
}

static redco_value mean_square(redco_graph *g, redco_value a, redco_value b)
{
    const redco_value error = redco_sub(g, a, b);
    return redco_mean_all(g, redco_mul(g, error, error));
}

/* Each task's adapted weights answer for the points that are asked for. */
static redco_value adapted(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_weight(scope, "x"), y = redco_scope_weight(scope, "y");
    redco_value w[WEIGHTS], gradient[WEIGHTS];
    const uint64_t tasks = redco_value_type(g, x)->dim[0];
    for (int i = 0; i < WEIGHTS; i++) { /* a copy for each task, so that each has a gradient of its own */
        w[i] = redco_broadcast_to(g, redco_scope_weight(scope, names[i]), 3,
                                  (const uint64_t[]){tasks, shapes[i][0], shapes[i][1]});
    }
    redco_gradient(g, mean_square(g, network(g, x, w), y), w, WEIGHTS, gradient);
    for (int i = 0; i < WEIGHTS; i++) { /* the loss above is a mean over tasks */
        w[i] = redco_sub(g, w[i], redco_scale(g, gradient[i], inner_rate * (double)tasks));
    }
    return network(g, redco_scope_weight(scope, "asked"), w);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    const redco_value error = mean_square(scope->graph, adapted(scope), redco_scope_weight(scope, "answer"));
    return redco_cast(scope->graph, error, redco_dtype_statistic(scope->compute));
}

const redco_user_pipeline redco_user_pipeline_table = {
    .abi = REDCO_USER_PIPELINE_ABI,
    .name = "maml",
    .describe = describe,
    .collate = collate,
    .loss = loss,
    .predict = adapted,
    .options = "--learning-rate 0.005 --clip-norm 10 --weight-decay 0 --beta2 0.999"};
