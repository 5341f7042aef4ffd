/* Differentially private SGD (Abadi et al., arXiv 1607.00133): handwritten digits, as digits.h has them. In every step
 * each example takes part with probability SAMPLED / examples, alone (Poisson sampling); its gradient is cut to length
 * CLIP, and normal noise of deviation NOISE x CLIP is added to their sum. A step's global batch must be all examples:
 * the share of them that takes part is drawn from the key. epsilon is that of the sampled Gaussian mechanism by Renyi
 * differential privacy: Mironov, Talwar, Zhang, arXiv 1908.10530, section 3.3, integer orders; Mironov, arXiv
 * 1702.07476, proposition 3. */
#include "executor/pipelines/digits.h"

#include <math.h>

enum { HIDDEN = 32, WEIGHTS = 4, SAMPLED = 128, ORDERS = 64 };
static const double clip = 1.0, noise = 2.0, delta = 1e-4;
/* The share that takes part, of 1,408 examples: known before the data is, as the graph is. */
static const double sampled_ratio = SAMPLED / 1408.0;
static const char *const names[WEIGHTS] = {"hidden.weight", "hidden.bias", "out.weight", "out.bias"};
static const uint64_t shapes[WEIGHTS][2] = {{PIXELS, HIDDEN}, {1, HIDDEN}, {HIDDEN, DIGITS}, {1, DIGITS}};

static void describe(redco_user_pipeline_shape *shape)
{
    const redco_initial normal = {REDCO_INITIAL_NORMAL, 0.15}, zero = {REDCO_INITIAL_ZERO, 0.0};
    for (int i = 0; i < WEIGHTS; i++) {
        redco_user_pipeline_parameter(shape, names[i], 2, shapes[i], i % 2 == 0 ? normal : zero);
    }
    redco_user_pipeline_input(shape, "pixels", REDCO_F32, 2, (const uint64_t[]){1, PIXELS});
    redco_user_pipeline_input(shape, "digit", REDCO_I32, 1, (const uint64_t[]){1});
    redco_user_pipeline_target(shape, "digit");
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = read_digit(examples[i], (float *)data[0] + (size_t)i * PIXELS, (int32_t *)data[1] + i, err);
    }
    return st;
}

/* x [examples, 1, pixels], weights [examples, in, out] or [in, out] */
static redco_value network(redco_scope *scope, const redco_value *w)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_weight(scope, "pixels");
    const redco_value hidden = redco_relu(g, redco_add(g, redco_matmul(g, x, w[0], false, false), w[1]));
    return redco_add(g, redco_matmul(g, hidden, w[2], false, false), w[3]);
}

static redco_value logits(redco_scope *scope)
{
    redco_value w[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) { w[i] = redco_scope_weight(scope, names[i]); }
    return network(scope, w);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    const redco_value digits = redco_scope_value(scope, "digit");
    return redco_mean_all(scope->graph, redco_cross_entropy(scope->graph, logits(scope), digits, false));
}

static redco_value step(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_value(scope, "pixels");
    redco_value w[WEIGHTS], gradient[WEIGHTS], squares = REDCO_NO_VALUE;
    (void)context;
    const uint64_t examples = redco_value_type(g, x)->dim[0];
    const redco_dtype wide = redco_dtype_statistic(scope->compute); /* lengths and noise */
    const redco_tensor_type each = redco_type(wide, 3, (const uint64_t[]){examples, 1, 1});
    for (int i = 0; i < WEIGHTS; i++) { /* a copy for each example, so that each has a gradient of its own */
        w[i] = redco_broadcast_to(g, redco_scope_weight(scope, names[i]), 3,
                                  (const uint64_t[]){examples, shapes[i][0], shapes[i][1]});
    }
    const redco_value losses = redco_cross_entropy(g, network(scope, w), redco_scope_value(scope, "digit"), false);
    redco_gradient(g, redco_sum_all(g, losses), w, WEIGHTS, gradient);
    for (int i = 0; i < WEIGHTS; i++) {
        gradient[i] = redco_cast(g, gradient[i], wide);
        const redco_value square = redco_mul(g, gradient[i], gradient[i]);
        const redco_value sum = redco_sum(g, square, 2, (const uint32_t[]){1, 2}, true);
        squares = i == 0 ? sum : redco_add(g, squares, sum);
    }
    const redco_value cut = redco_constant(g, &each, clip), one = redco_constant(g, &each, 1.0);
    const redco_value shorter = redco_min(g, redco_div(g, cut, redco_sqrt(g, redco_shift(g, squares, 1e-12))), one);
    const redco_value drawn = redco_uniform(g, scope->key, 0, &each, NULL);
    const redco_value taken = redco_cast(g, redco_less(g, drawn, redco_constant(g, &each, sampled_ratio)), wide);
    const redco_value weight = redco_mul(g, shorter, taken);
    /* The noise of a step's sum is that of its micro-batches together. */
    const double expected = sampled_ratio * (double)examples, deviation = noise * clip / sqrt(scope->micro_batches);
    for (int i = 0; i < WEIGHTS; i++) {
        const redco_tensor_type type = redco_type(wide, 2, shapes[i]);
        const redco_value sum = redco_sum(g, redco_mul(g, gradient[i], weight), 1, (const uint32_t[]){0}, false);
        const redco_value normal = redco_normal(g, scope->key, 1 + (uint64_t)i, &type, NULL);
        const redco_value noisy = redco_add(g, sum, redco_scale(g, normal, deviation));
        const redco_value mean = redco_scale(g, noisy, 1.0 / expected);
        redco_scope_set_gradient(scope, names[i], redco_cast(g, mean, scope->compute));
    }
    return redco_mean_all(g, losses);
}

static json_t *report(const redco_user_run *run)
{
    double best = INFINITY;
    for (int order = 2; order <= ORDERS; order++) {
        double moment = 0.0; /* E (p / p')^order, of one step */
        for (int k = 0; k <= order; k++) {
            const double choose = lgamma(order + 1.0) - lgamma(k + 1.0) - lgamma(order - k + 1.0);
            moment += exp(choose + (order - k) * log1p(-sampled_ratio) + k * log(sampled_ratio) +
                          (double)k * (k - 1) / (2.0 * noise * noise));
        }
        best = fmin(best, ((double)run->steps * log(moment) - log(delta)) / (order - 1));
    }
    return json_pack("{s:f, s:f, s:f, s:f}", "epsilon", best, "delta", delta, "noise", noise, "sampled", sampled_ratio);
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "dp_sgd",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .step = step,
                                                       .predict = logits,
                                                       .metric = is_digit,
                                                       .report = report,
                                                       .options =
                                                           "--learning-rate 0.015 --clip-norm 0 --weight-decay 0"};
