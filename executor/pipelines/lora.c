/* LoRA (Hu et al., arXiv 2106.09685): a network that digits.c has trained learns to read digits in a mirror. Its
 * weights are frozen, and may be sharded; to each matrix W [in, out] two thin ones are added, W + scale (B A)^T, which
 * alone are trained. Their names and shapes are those of PEFT, which loads them. Examples are those of digits.h. */
#include "executor/pipelines/digits.h"

enum { HIDDEN = 256, RANK = 8, ALPHA = 16 };

static void describe(redco_user_pipeline_shape *shape)
{
    const redco_initial zero = {REDCO_INITIAL_ZERO, 0.0}, small = {REDCO_INITIAL_NORMAL, 0.1};
    redco_user_pipeline_parameter(shape, "hidden.weight", 2, (const uint64_t[]){PIXELS, HIDDEN}, small);
    redco_user_pipeline_parameter(shape, "hidden.bias", 1, (const uint64_t[]){HIDDEN}, zero);
    redco_user_pipeline_parameter(shape, "out.weight", 2, (const uint64_t[]){HIDDEN, DIGITS}, small);
    redco_user_pipeline_parameter(shape, "out.bias", 1, (const uint64_t[]){DIGITS}, zero);
    redco_user_pipeline_training(shape, "", REDCO_FROZEN);
    redco_user_pipeline_parameter(shape, "base_model.model.hidden.lora_A.weight", 2, (const uint64_t[]){RANK, PIXELS},
                                  small);
    redco_user_pipeline_parameter(shape, "base_model.model.hidden.lora_B.weight", 2, (const uint64_t[]){HIDDEN, RANK},
                                  zero);
    redco_user_pipeline_parameter(shape, "base_model.model.out.lora_A.weight", 2, (const uint64_t[]){RANK, HIDDEN},
                                  small);
    redco_user_pipeline_parameter(shape, "base_model.model.out.lora_B.weight", 2, (const uint64_t[]){DIGITS, RANK},
                                  zero);
    redco_user_pipeline_input(shape, "pixels", REDCO_F32, 1, (const uint64_t[]){PIXELS});
    redco_user_pipeline_input(shape, "digit", REDCO_I32, 0, NULL);
    redco_user_pipeline_target(shape, "digit");
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    float *const mirrored = data[0], pixels[PIXELS];
    int32_t *const digits = data[1];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = read_digit(examples[i], pixels, digits + i, err);
        for (uint32_t p = 0; p < PIXELS && st == REDCO_OK; p++) {
            mirrored[i * PIXELS + p] = pixels[p / SIDE * SIDE + SIDE - 1 - p % SIDE];
        }
    }
    return st;
}

/* x W + bias + scale (x A^T) B^T */
static redco_value layer(redco_scope *scope, redco_value x, const char *const names[4])
{
    redco_graph *const g = scope->graph;
    redco_value weight[4];
    for (int i = 0; i < 4; i++) { weight[i] = redco_scope_weight(scope, names[i]); }
    const redco_value thin = redco_matmul(g, redco_matmul(g, x, weight[2], false, true), weight[3], false, true);
    const redco_value base = redco_add(g, redco_matmul(g, x, weight[0], false, false), weight[1]);
    return redco_add(g, base, redco_scale(g, thin, (double)ALPHA / RANK));
}

static redco_value logits(redco_scope *scope)
{
    static const char *const hidden[] = {"hidden.weight", "hidden.bias", "base_model.model.hidden.lora_A.weight",
                                         "base_model.model.hidden.lora_B.weight"};
    static const char *const out[] = {"out.weight", "out.bias", "base_model.model.out.lora_A.weight",
                                      "base_model.model.out.lora_B.weight"};
    const redco_value x = redco_scope_weight(scope, "pixels");
    return layer(scope, redco_relu(scope->graph, layer(scope, x, hidden)), out);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    const redco_value digits = redco_scope_value(scope, "digit");
    return redco_mean_all(scope->graph, redco_cross_entropy(scope->graph, logits(scope), digits, false));
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "lora",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = logits,
                                                       .metric = is_digit,
                                                       .options = "--learning-rate 0.003"};
