/* Federated averaging (McMahan et al., arXiv 1602.05629): every example is a client with handwritten digits of its own,
 * {"digits": [{"pixels": "...", "digit": 3}, ...]}, which no one else sees. A client goes a few steps of gradient
 * descent on them from the server's weights, and sends the way that it went; the server goes the mean way. Train with
 * SGD of rate 1 and no clipping: then new weights are the mean of the clients'. */
#include "executor/pipelines/digits.h"

enum { HIDDEN = 64, WEIGHTS = 4, LOCAL = 20, LOCAL_STEPS = 5 };
static const double local_rate = 0.5;
static const char *const names[WEIGHTS] = {"hidden.weight", "hidden.bias", "out.weight", "out.bias"};
static const uint64_t shapes[WEIGHTS][2] = {{PIXELS, HIDDEN}, {1, HIDDEN}, {HIDDEN, DIGITS}, {1, DIGITS}};

static void describe(redco_user_pipeline_shape *shape)
{
    const redco_initial normal = {REDCO_INITIAL_NORMAL, 0.15}, zero = {REDCO_INITIAL_ZERO, 0.0};
    for (int i = 0; i < WEIGHTS; i++) {
        redco_user_pipeline_parameter(shape, names[i], 2, shapes[i], i % 2 == 0 ? normal : zero);
    }
    redco_user_pipeline_input(shape, "pixels", REDCO_F32, 2, (const uint64_t[]){LOCAL, PIXELS});
    redco_user_pipeline_input(shape, "digits", REDCO_I32, 1, (const uint64_t[]){LOCAL});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const json_t *const digits = json_object_get(examples[i], "digits");
        if (json_array_size(digits) != LOCAL) {
            return redco_fail(err, REDCO_EVALUE, "", "\"digits\" is no list of %d", LOCAL);
        }
        for (uint32_t k = i * LOCAL; k < (i + 1) * LOCAL && st == REDCO_OK; k++) {
            st = read_digit(json_array_get(digits, k % LOCAL), (float *)data[0] + (size_t)k * PIXELS,
                            (int32_t *)data[1] + k, err);
        }
    }
    return st;
}

/* x [clients, digits, pixels], weights [clients, in, out] or [in, out] */
static redco_value network(redco_graph *g, redco_value x, const redco_value *w)
{
    const redco_value hidden = redco_relu(g, redco_add(g, redco_matmul(g, x, w[0], false, false), w[1]));
    return redco_add(g, redco_matmul(g, hidden, w[2], false, false), w[3]);
}

static redco_value error_of(redco_scope *scope, const redco_value *w)
{
    redco_graph *const g = scope->graph;
    const redco_value logits = network(g, redco_scope_weight(scope, "pixels"), w);
    return redco_mean_all(g, redco_cross_entropy(g, logits, redco_scope_value(scope, "digits"), false));
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_value w[WEIGHTS];
    (void)context;
    for (int i = 0; i < WEIGHTS; i++) { w[i] = redco_scope_weight(scope, names[i]); }
    return error_of(scope, w);
}

/* The loss that is told is that of the clients' weights before their last step. */
static redco_value step(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_value(scope, "pixels");
    redco_value w[WEIGHTS], gradient[WEIGHTS], told = REDCO_NO_VALUE;
    (void)context;
    const uint64_t clients = redco_value_type(g, x)->dim[0];
    for (int i = 0; i < WEIGHTS; i++) { /* a copy for each client */
        w[i] = redco_broadcast_to(g, redco_scope_weight(scope, names[i]), 3,
                                  (const uint64_t[]){clients, shapes[i][0], shapes[i][1]});
    }
    for (int s = 0; s < LOCAL_STEPS; s++) {
        told = error_of(scope, w); /* a mean over clients: each one's gradient is so many times larger */
        redco_gradient(g, told, w, WEIGHTS, gradient);
        for (int i = 0; i < WEIGHTS; i++) {
            w[i] = redco_sub(g, w[i], redco_scale(g, gradient[i], local_rate * (double)clients));
        }
    }
    for (int i = 0; i < WEIGHTS; i++) {
        const redco_value mean = redco_mean(g, w[i], 1, (const uint32_t[]){0}, false);
        redco_scope_set_gradient(scope, names[i], redco_sub(g, redco_scope_weight(scope, names[i]), mean));
    }
    return told;
}

static redco_value logits(redco_scope *scope)
{
    redco_value w[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) { w[i] = redco_scope_weight(scope, names[i]); }
    return network(scope->graph, redco_scope_weight(scope, "pixels"), w);
}

/* The share of a client's digits that are told apart. */
static double accuracy(const json_t *example, const json_t *prediction)
{
    const json_t *const digits = json_object_get(example, "digits");
    double right = 0.0;
    for (size_t k = 0; k < LOCAL; k++) {
        size_t best = 0;
        for (size_t d = 1; d < DIGITS; d++) {
            const double value = json_number_value(json_array_get(prediction, k * DIGITS + d));
            best = value > json_number_value(json_array_get(prediction, k * DIGITS + best)) ? d : best;
        }
        right +=
            json_integer_value(json_object_get(json_array_get(digits, k), "digit")) == (json_int_t)best ? 1.0 : 0.0;
    }
    return right / LOCAL;
}

const redco_user_pipeline redco_user_pipeline_table = {
    .abi = REDCO_USER_PIPELINE_ABI,
    .name = "fedavg",
    .describe = describe,
    .collate = collate,
    .loss = loss,
    .step = step,
    .predict = logits,
    .metric = accuracy,
    .options = "--optimizer sgd --learning-rate 1 --clip-norm 0 --weight-decay 0"};
