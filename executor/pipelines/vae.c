/* A variational auto-encoder (Kingma, Welling, arXiv 1312.6114) of handwritten digits, which it describes by eight
 * numbers. The loss is minus the evidence lower bound: the binary cross entropy of the pixels, taken for probabilities,
 * and the divergence of what the encoder says from the standard normal distribution. A prediction is the image that the
 * decoder makes of the encoder's means; the metric is its mean squared error. Examples are those of digits.h. */
#include "executor/pipelines/digits.h"

enum { HIDDEN = 128, LATENT = 8, LEVELS = 16 };

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_linear(shape, "encoder", PIXELS, HIDDEN, 0.15);
    redco_user_pipeline_linear(shape, "mean", HIDDEN, LATENT, 0.09);
    redco_user_pipeline_linear(shape, "log_variance", HIDDEN, LATENT, 0.02);
    redco_user_pipeline_linear(shape, "decoder", LATENT, HIDDEN, 0.35);
    redco_user_pipeline_linear(shape, "image", HIDDEN, PIXELS, 0.09);
    redco_user_pipeline_input(shape, "pixels", REDCO_F32, 1, (const uint64_t[]){PIXELS});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    redco_status st = REDCO_OK;
    int32_t digit = 0;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = read_digit(examples[i], (float *)data[0] + (size_t)i * PIXELS, &digit, err);
    }
    return st;
}

struct vae {
    redco_value mean, log_variance; /* [examples, LATENT] */
    redco_value logits;             /* [examples, PIXELS] */
};

static struct vae build(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_weight(scope, "pixels");
    const redco_value seen = redco_silu(g, redco_scope_linear(scope, x, "encoder"));
    struct vae v = {.mean = redco_scope_linear(scope, seen, "mean"),
                    .log_variance = redco_scope_linear(scope, seen, "log_variance")};
    redco_value code = v.mean;
    if (scope->training) { /* mean + deviation noise: the gradient passes both (reparameterisation) */
        const redco_value noise = redco_normal(g, scope->key, 0, redco_value_type(g, code), NULL);
        const redco_value deviation = redco_exp(g, redco_scale(g, v.log_variance, 0.5));
        code = redco_add(g, v.mean, redco_mul(g, deviation, noise));
    }
    const redco_value made = redco_silu(g, redco_scope_linear(scope, code, "decoder"));
    v.logits = redco_scope_linear(scope, made, "image");
    return v;
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_dtype wide = redco_dtype_statistic(scope->compute);
    const struct vae v = build(scope);
    (void)context;
    const redco_value x = redco_cast(g, redco_scope_value(scope, "pixels"), wide);
    const redco_value logits = redco_cast(g, v.logits, wide), mean = redco_cast(g, v.mean, wide);
    const redco_value log_variance = redco_cast(g, v.log_variance, wide);
    const redco_value pixels = redco_sub(g, redco_softplus(g, logits), redco_mul(g, x, logits));
    /* (mean^2 + variance - 1 - log variance) / 2 for each number of the code */
    const redco_value squares = redco_add(g, redco_mul(g, mean, mean), redco_exp(g, log_variance));
    const redco_value apart = redco_sub(g, squares, redco_shift(g, log_variance, 1.0));
    const redco_value divergence = redco_scale(g, redco_sum_axis(g, apart, 1, false), 0.5);
    return redco_mean_all(g, redco_add(g, redco_sum_axis(g, pixels, 1, false), divergence));
}

static redco_value predict(redco_scope *scope)
{
    return redco_sigmoid(scope->graph, build(scope).logits);
}

static json_t *image(const json_t *example, const double *values, uint32_t count)
{
    char text[PIXELS + 1] = "";
    (void)example;
    for (uint32_t p = 0; p < count && p < PIXELS; p++) { text[p] = (char)('a' + (int)(values[p] * LEVELS + 0.5)); }
    return json_string(text);
}

static double squared_error(const json_t *example, const json_t *prediction)
{
    const char *const was = json_string_value(json_object_get(example, "pixels"));
    const char *const made = json_string_value(prediction);
    double sum = 0.0;
    for (uint32_t p = 0; p < PIXELS; p++) { sum += (double)(was[p] - made[p]) * (was[p] - made[p]); }
    return sum / PIXELS / LEVELS / LEVELS;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "vae",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = predict,
                                                       .output = image,
                                                       .metric = squared_error,
                                                       .options = "--weight-decay 0 --beta2 0.99"};
