/* Classification: handwritten digits of 8 x 8 pixels by a network of one hidden layer. Examples are
 * {"pixels": "aagq...", "digit": 3}: 64 letters from a (white) to q (black); data/README.md says where they are from.
 */
#include "executor/pipeline/user_pipeline.h"

#include <string.h>

enum { PIXELS = 64, HIDDEN = 256, DIGITS = 10 };

static void describe(redco_user_pipeline_shape *shape)
{
    const redco_initial first = {REDCO_INITIAL_NORMAL, 0.18}, second = {REDCO_INITIAL_NORMAL, 0.09};
    const redco_initial zero = {REDCO_INITIAL_ZERO, 0.0};
    redco_user_pipeline_parameter(shape, "hidden.weight", 2, (const uint64_t[]){PIXELS, HIDDEN}, first);
    redco_user_pipeline_parameter(shape, "hidden.bias", 1, (const uint64_t[]){HIDDEN}, zero);
    redco_user_pipeline_parameter(shape, "out.weight", 2, (const uint64_t[]){HIDDEN, DIGITS}, second);
    redco_user_pipeline_parameter(shape, "out.bias", 1, (const uint64_t[]){DIGITS}, zero);
    redco_user_pipeline_input(shape, "pixels", REDCO_F32, 1, (const uint64_t[]){PIXELS});
    redco_user_pipeline_input(shape, "digit", REDCO_I32, 0, NULL);
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    float *const pixels = data[0];
    int32_t *const digits = data[1];
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const digit = json_object_get(examples[i], "digit");
        const char *const text = json_string_value(json_object_get(examples[i], "pixels"));
        if (text == NULL || strspn(text, "abcdefghijklmnopq") != PIXELS || strlen(text) != PIXELS) {
            return redco_fail(err, REDCO_EVALUE, "", "\"pixels\" is no text of %d letters from a to q", PIXELS);
        }
        for (uint32_t p = 0; p < PIXELS; p++) { pixels[i * PIXELS + p] = (float)(text[p] - 'a') / 16.0F; }
        digits[i] = (int32_t)json_integer_value(digit); /* 0 where none is given */
        if (digit != NULL && (!json_is_integer(digit) || digits[i] < 0 || digits[i] >= DIGITS)) {
            return redco_fail(err, REDCO_EVALUE, "", "\"digit\" is no whole number from 0 to 9");
        }
    }
    return REDCO_OK;
}

static redco_value layer(redco_scope *scope, redco_value x, const char *weight, const char *bias)
{
    redco_graph *const g = scope->graph;
    return redco_add(g, redco_matmul(g, x, redco_scope_weight(scope, weight), false, false),
                     redco_scope_weight(scope, bias));
}

static redco_value logits(redco_scope *scope)
{
    const redco_value x = redco_scope_weight(scope, "pixels");
    const redco_value hidden = redco_relu(scope->graph, layer(scope, x, "hidden.weight", "hidden.bias"));
    return layer(scope, hidden, "out.weight", "out.bias");
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    const redco_value digits = redco_scope_value(scope, "digit");
    return redco_mean_all(scope->graph, redco_cross_entropy(scope->graph, logits(scope), digits, false));
}

static json_t *likeliest(const json_t *example, const double *values, uint32_t count)
{
    uint32_t best = 0;
    (void)example;
    for (uint32_t i = 1; i < count; i++) { best = values[i] > values[best] ? i : best; }
    return json_integer(best);
}

static double accuracy(const json_t *example, const json_t *prediction)
{
    return json_equal(json_object_get(example, "digit"), prediction) ? 1.0 : 0.0;
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "digits",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = logits,
                                                       .output = likeliest,
                                                       .metric = accuracy};
