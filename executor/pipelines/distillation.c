/* Distillation (Hinton et al., arXiv 1503.02531): a student with 32 hidden units learns what digits.c's network, the
 * frozen teacher (--weights-of teacher.=DIR), says of the images. Examples are those of digits.h; where one has
 * "alone": true, the student learns its digit and not from the teacher, so that both can be compared. */
#include "executor/pipelines/digits.h"

enum { TEACHER = 256, STUDENT = 32 };
static const double temperature = 3.0;

static void describe(redco_user_pipeline_shape *shape)
{
    redco_user_pipeline_linear(shape, "teacher.hidden", PIXELS, TEACHER, 0.18);
    redco_user_pipeline_linear(shape, "teacher.out", TEACHER, DIGITS, 0.18);
    redco_user_pipeline_linear(shape, "student.hidden", PIXELS, STUDENT, 0.18);
    redco_user_pipeline_linear(shape, "student.out", STUDENT, DIGITS, 0.18);
    redco_user_pipeline_training(shape, "teacher.", REDCO_FROZEN);
    redco_user_pipeline_input(shape, "pixels", REDCO_F32, 1, (const uint64_t[]){PIXELS});
    redco_user_pipeline_input(shape, "digit", REDCO_I32, 0, NULL);
    redco_user_pipeline_target(shape, "digit");
    redco_user_pipeline_input(shape, "taught", REDCO_F32, 0, NULL); /* 1, or 0 alone */
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    float *const pixels = data[0], *const taught = data[2];
    int32_t *const digits = data[1];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = read_digit(examples[i], pixels + (size_t)i * PIXELS, digits + i, err);
        taught[i] = json_is_true(json_object_get(examples[i], "alone")) ? 0.0F : 1.0F;
    }
    return st;
}

static redco_value logits(redco_scope *scope, const char *hidden, const char *out)
{
    const redco_value x = redco_scope_linear(scope, redco_scope_weight(scope, "pixels"), hidden);
    return redco_scope_linear(scope, redco_relu(scope->graph, x), out);
}

static redco_value students(redco_scope *scope)
{
    return logits(scope, "student.hidden", "student.out");
}

/* At a temperature, gradients shrink by its square: multiplied by it, they weigh as much as those of the digits. */
static redco_value loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const redco_value own = students(scope), taught = redco_scope_weight(scope, "taught");
    (void)context;
    const redco_value soft =
        redco_softmax(g, redco_scale(g, logits(scope, "teacher.hidden", "teacher.out"), 1.0 / temperature));
    const redco_value said = redco_log_softmax(g, redco_scale(g, own, 1.0 / temperature));
    const redco_value as_taught =
        redco_scale(g, redco_sum_axis(g, redco_mul(g, soft, said), 1, false), -temperature * temperature);
    const redco_value alone =
        redco_cast(g, redco_cross_entropy(g, own, redco_scope_value(scope, "digit"), false), scope->compute);
    const redco_value both = redco_add(g, alone, redco_mul(g, taught, redco_sub(g, as_taught, alone)));
    return redco_cast(g, redco_mean_all(g, both), redco_dtype_statistic(scope->compute));
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "distillation",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = students,
                                                       .output = likeliest,
                                                       .metric = is_digit};
