/* Classification: handwritten digits of 8 x 8 pixels by a network of one hidden layer. Examples are those of digits.h.
 */
#include "executor/pipelines/digits.h"

enum { HIDDEN = 256 };

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_linear(shape, "hidden", PIXELS, HIDDEN, 0.18);
    redco_user_pipeline_linear(shape, "out", HIDDEN, DIGITS, 0.09);
    redco_user_pipeline_input(shape, "pixels", REDCO_F32, 1, (const uint64_t[]){PIXELS});
    redco_user_pipeline_input(shape, "digit", REDCO_I32, 0, NULL);
    redco_user_pipeline_target(shape, "digit");
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    float *const pixels = data[0];
    int32_t *const digits = data[1];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = read_digit(examples[i], pixels + (size_t)i * PIXELS, digits + i, err);
    }
    return st;
}

static redco_value logits(redco_scope *scope)
{
    const redco_value x = redco_scope_weight(scope, "pixels");
    const redco_value hidden = redco_relu(scope->graph, redco_scope_linear(scope, x, "hidden"));
    return redco_scope_linear(scope, hidden, "out");
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    const redco_value digits = redco_scope_value(scope, "digit");
    return redco_mean_all(scope->graph, redco_cross_entropy(scope->graph, logits(scope), digits, false));
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "digits",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = logits,
                                                       .output = likeliest,
                                                       .metric = is_digit};
