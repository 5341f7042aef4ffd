/* Contrastive pairs (CLIP; Radford et al., arXiv 2103.00020): the other examples of the micro-batch are the negatives,
 * in both directions. An example {"n": 3} is a picture and a caption of it, formulas of n. */
#include "executor/pipeline/user_pipeline.h"

#include <math.h>

enum { SEEN = 16, WIDTH = 8 };

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_linear(shape, "picture", SEEN, WIDTH, 0);
    redco_user_pipeline_linear(shape, "caption", SEEN, WIDTH, 0);
    redco_user_pipeline_input(shape, "pictures", REDCO_F32, 1, (const uint64_t[]){SEEN});
    redco_user_pipeline_input(shape, "captions", REDCO_F32, 1, (const uint64_t[]){SEEN});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const json_t *const n = json_object_get(examples[i], "n");
        if (!json_is_integer(n)) { return redco_fail(err, REDCO_EVALUE, "n", "is no whole number"); }
        for (uint32_t k = 0; k < SEEN; k++) {
            const double angle = (double)json_integer_value(n) * (k + 1);
            ((float *)data[0])[i * SEEN + k] = (float)sin(angle);
            ((float *)data[1])[i * SEEN + SEEN - 1 - k] = (float)(k % 2 == 0 ? sin(angle) : -sin(angle));
        }
    }
    return REDCO_OK;
}

static redco_value direction(redco_scope *scope, const char *input, const char *layer)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_linear(scope, redco_scope_weight(scope, input), layer);
    const redco_value squares = redco_sum_axis(g, redco_mul(g, x, x), 1, true);
    return redco_mul(g, x, redco_rsqrt(g, redco_shift(g, squares, 1e-6)));
}

static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    (void)context;
    const redco_value a = redco_scale(g, direction(scope, "pictures", "picture"), 10.0),
                      b = direction(scope, "captions", "caption");
    const redco_value scores = redco_matmul(g, a, b, false, true);
    const uint64_t examples = redco_value_type(g, redco_scope_value(scope, "pictures"))->dim[0];
    const redco_tensor_type rows = redco_type(REDCO_I32, 1, &examples);
    const redco_value own = redco_iota(g, &rows, 0);
    const redco_value to_caption = redco_cross_entropy_mean(g, scores, own);
    const redco_value to_picture = redco_cross_entropy_mean(g, redco_matmul(g, b, a, false, true), own);
    return redco_scale(g, redco_add(g, to_caption, to_picture), 0.5);
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "clip",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .options = "--learning-rate 0.02 --weight-decay 0"};
