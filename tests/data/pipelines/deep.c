/* More modules than any layer of redco's families has: a table, 66 residual layers of three modules, a matrix. */
#include "executor/pipeline/user_pipeline.h"

#include <stdio.h>

enum { LAYERS = 66, WIDTH = 64, HIDDEN = 128, LETTERS = 40, LENGTH = 4, NAME_BYTES = 40 };

static const char *name_of(char name[NAME_BYTES], int layer, const char *what)
{
    (void)snprintf(name, NAME_BYTES, "layers.%d.%s", layer, what);
    return name;
}

static void describe(redco_user_pipeline_shape *shape)
{
    const redco_initial wide = {REDCO_INITIAL_NORMAL, 1.0}, narrow = {REDCO_INITIAL_NORMAL, 0.1};
    const redco_initial one = {REDCO_INITIAL_ONE, 0.0}, zero = {REDCO_INITIAL_ZERO, 0.0};
    const uint64_t table[] = {LETTERS, WIDTH}, up[] = {WIDTH, HIDDEN}, down[] = {HIDDEN, WIDTH};
    const uint64_t out[] = {WIDTH, LETTERS}, *const bias = down, *const scale = up;
    char name[NAME_BYTES];
    redco_user_pipeline_parameter(shape, "letters.weight", 2, table, wide);
    for (int i = 0; i < LAYERS; i++) {
        redco_user_pipeline_parameter(shape, name_of(name, i, "norm.weight"), 1, scale, one);
        redco_user_pipeline_parameter(shape, name_of(name, i, "up.weight"), 2, up, narrow);
        redco_user_pipeline_parameter(shape, name_of(name, i, "up.bias"), 1, bias, zero);
        redco_user_pipeline_parameter(shape, name_of(name, i, "down.weight"), 2, down, narrow);
    }
    redco_user_pipeline_parameter(shape, "out.weight", 2, out, narrow);
    redco_user_pipeline_input(shape, "text", REDCO_I32, 1, (const uint64_t[]){LENGTH});
    redco_user_pipeline_input(shape, "next", REDCO_I32, 1, (const uint64_t[]){LENGTH});
}

/* Letters 7 n + t^2: what comes next is to be learnt. */
static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    int32_t *const text = data[0], *const next = data[1];
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const n = json_object_get(examples[i], "n");
        if (!json_is_integer(n)) { return redco_fail(err, REDCO_EVALUE, "n", "is no whole number"); }
        for (int t = 0; t < LENGTH; t++) {
            text[i * LENGTH + (uint32_t)t] = (int32_t)((json_integer_value(n) * 7 + t * t) % LETTERS);
            next[i * LENGTH + (uint32_t)t] = (int32_t)((json_integer_value(n) * 7 + (t + 1) * (t + 1)) % LETTERS);
        }
    }
    return REDCO_OK;
}

static redco_value logits(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    char name[NAME_BYTES];
    redco_value x =
        redco_gather(g, redco_scope_weight(scope, "letters.weight"), redco_scope_value(scope, "text"), NULL);
    for (int i = 0; i < LAYERS; i++) {
        const redco_value scale = redco_scope_weight(scope, name_of(name, i, "norm.weight"));
        const redco_value up = redco_scope_weight(scope, name_of(name, i, "up.weight"));
        const redco_value bias = redco_scope_weight(scope, name_of(name, i, "up.bias"));
        const redco_value down = redco_scope_weight(scope, name_of(name, i, "down.weight"));
        const redco_value hidden = redco_matmul(g, redco_rms_norm(g, x, scale, 1e-6), up, false, false);
        x = redco_add(g, x, redco_matmul(g, redco_silu(g, redco_add(g, hidden, bias)), down, false, false));
    }
    return redco_matmul(g, x, redco_scope_weight(scope, "out.weight"), false, false);
}

static redco_value loss(redco_scope *scope, const void *context)
{
    (void)context;
    return redco_cross_entropy_mean(scope->graph, logits(scope), redco_scope_value(scope, "next"));
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "deep",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = logits};
