/* Measures the error of a profile: small models, timed operator by operator, against the sum that the cost model
 * predicts. */
#include "tools/profile/profile_check.h"

#include "costmodel/operators/compute_profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The check looks at the median error of these. */
static const struct profile_model models[] = {
    {{4, 128}, {.hidden = 256, .heads = 4, .kv_heads = 2, .ffn = 768, .vocab = 2048, .layers = 4}},
    {{1, 512}, {.hidden = 384, .heads = 6, .kv_heads = 6, .ffn = 1024, .vocab = 4096, .layers = 3}},
    {{2, 256}, {.hidden = 512, .heads = 8, .kv_heads = 4, .ffn = 1376, .vocab = 8192, .layers = 4}},
    {{1, 256}, {.hidden = 1024, .heads = 16, .kv_heads = 4, .ffn = 2816, .vocab = 8000, .layers = 2}},
    {{1, 1024}, {.hidden = 256, .heads = 8, .kv_heads = 8, .ffn = 512, .vocab = 1024, .layers = 3}},
};
enum { MODELS = sizeof models / sizeof models[0] };
static const double allowed_ratio = 0.10;

struct row {
    redco_measure_name predicted, measured;
};

struct answer {
    struct row rows[REDCO_MEASURE_NAMES_MAX];
    uint32_t count;
    double predicted_s, measured_s, wall_s;
    const char *path; /* path of the profile, for errors */
};

static struct row *row_of(struct answer *answer, redco_op_role role)
{
    for (uint32_t i = 0; i < answer->count; i++) {
        if (answer->rows[i].predicted.role == role) { return &answer->rows[i]; }
    }
    if (answer->count < REDCO_MEASURE_NAMES_MAX) { answer->count++; }
    struct row *row = &answer->rows[answer->count - 1];
    row->predicted.role = role;
    return row;
}

static redco_status predict_class(const redco_compute_profile *profile, const redco_model *model, uint32_t class_index,
                                  const redco_shape *shape, uint32_t members, struct answer *answer, redco_error *err)
{
    redco_operator operators[REDCO_OPERATORS_MAX];
    const uint32_t count = redco_layer_operators(model, class_index, shape, operators);
    for (uint32_t i = 0; i < count; i++) {
        struct row *row = row_of(answer, operators[i].role);
        double seconds[3];
        for (int pass = 0; pass < 3; pass++) {
            if (!redco_compute_profile_s(profile, &operators[i], (redco_pass)pass, shape->precision, &seconds[pass])) {
                return redco_fail(err, REDCO_EVALUE, answer->path, "has no times of %s in fp32",
                                  redco_op_role_name(operators[i].role));
            }
        }
        row->predicted.forward_s += members * seconds[REDCO_PASS_FORWARD];
        row->predicted.backward_s += members * (seconds[REDCO_PASS_GRAD_INPUT] + seconds[REDCO_PASS_GRAD_WEIGHT]);
        answer->predicted_s += members * (seconds[0] + seconds[1] + seconds[2]);
    }
    return REDCO_OK;
}

static redco_status predict(const redco_compute_profile *profile, const struct profile_model *m, struct answer *answer,
                            redco_error *err)
{
    const redco_shape shape = {
        .seq_len = m->shape.seq_len, .micro_batch = m->shape.micro_batch, .tp = 1, .cp = 1, .precision = REDCO_FP32};
    const redco_layer_class *classes = NULL;
    redco_model *model = NULL;
    redco_status st = redco_measure_llama(&m->dims, &model, err);
    const size_t count = st == REDCO_OK ? redco_model_classes(model, &classes) : 0;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = predict_class(profile, model, i, &shape, classes[i].layers, answer, err);
    }
    redco_model_free(model);
    return st;
}

static void take_measured(struct answer *answer, const redco_measure_step *step)
{
    for (uint32_t i = 0; i < step->count; i++) { row_of(answer, step->names[i].role)->measured = step->names[i]; }
    answer->measured_s = step->total_s;
    answer->wall_s = step->wall_s;
}

static double error_of(const struct answer *answer)
{
    return answer->predicted_s / answer->measured_s - 1.0;
}

static double median_error(const struct answer answers[MODELS])
{
    double errors[MODELS];
    for (uint32_t i = 0; i < MODELS; i++) {
        double e = fabs(error_of(&answers[i]));
        uint32_t at = i;
        for (; at > 0 && errors[at - 1] > e; at--) { errors[at] = errors[at - 1]; }
        errors[at] = e;
    }
    return errors[MODELS / 2];
}

static void print(const struct answer answers[MODELS])
{
    for (uint32_t i = 0; i < MODELS; i++) {
        const struct profile_model *m = &models[i];
        (void)printf("%u layers of %u, %u x %u tokens: predicted %.3f ms, measured %.3f ms (%+.1f %%)\n",
                     m->dims.layers, m->dims.hidden, m->shape.micro_batch, m->shape.seq_len,
                     1e3 * answers[i].predicted_s, 1e3 * answers[i].measured_s, 100.0 * error_of(&answers[i]));
        (void)printf("  %-12s %12s %12s %12s %12s\n", "ms", "forward", "measured", "backward", "measured");
        for (uint32_t k = 0; k < answers[i].count; k++) {
            const struct row *row = &answers[i].rows[k];
            (void)printf("  %-12s %12.3f %12.3f %12.3f %12.3f\n", redco_op_role_name(row->predicted.role),
                         1e3 * row->predicted.forward_s, 1e3 * row->measured.forward_s, 1e3 * row->predicted.backward_s,
                         1e3 * row->measured.backward_s);
        }
    }
    (void)printf("median error %.1f %%, %.0f %% are allowed\n", 100.0 * median_error(answers), 100.0 * allowed_ratio);
}

static json_t *document(const struct answer answers[MODELS])
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < MODELS; i++) {
        json_t *operators = json_array();
        for (uint32_t k = 0; k < answers[i].count; k++) {
            const struct row *row = &answers[i].rows[k];
            (void)json_array_append_new(
                operators, json_pack("{s:s, s:f, s:f, s:f, s:f}", "operator", redco_op_role_name(row->predicted.role),
                                     "predicted_forward_s", row->predicted.forward_s, "measured_forward_s",
                                     row->measured.forward_s, "predicted_backward_s", row->predicted.backward_s,
                                     "measured_backward_s", row->measured.backward_s));
        }
        (void)json_array_append_new(list, json_pack("{s:f, s:f, s:f, s:f, s:o}", "predicted_s", answers[i].predicted_s,
                                                    "measured_s", answers[i].measured_s, "wall_s", answers[i].wall_s,
                                                    "error", error_of(&answers[i]), "operators", operators));
    }
    return json_pack("{s:f, s:f, s:o}", "median_error", median_error(answers), "allowed", allowed_ratio, "models",
                     list);
}

/* Other kernels, other times: a comparison would say nothing of the profile. */
static void compare_kernels(const struct cli *cli, const redco_profile *file)
{
    char here[64], text[256];
    const redco_profile_measured *how = redco_profile_how(file);
    profile_kernels(here, sizeof here);
    if (how->kernels[0] == '\0' || strcmp(how->kernels, here) == 0) { return; }
    (void)snprintf(text, sizeof text, "measured with %s, now there are %s (OPENBLAS_CORETYPE decides)", how->kernels,
                   here);
    cli_warn(cli, text);
}

int profile_check(const struct cli *cli, const char *path)
{
    struct answer answers[MODELS] = {0};
    redco_measure_step steps[MODELS];
    redco_profile *file = NULL;
    redco_compute_profile *profile = NULL;
    redco_error err = {0};
    int code = CLI_DONE;
    redco_status st = redco_profile_read(path, &file, &err);
    if (st == REDCO_OK) { st = redco_compute_profile_add(&profile, file, path, &err); }
    if (st == REDCO_OK) { st = redco_compute_profile_finish(profile, &err); }
    for (uint32_t i = 0; i < MODELS && st == REDCO_OK; i++) {
        answers[i].path = path;
        st = predict(profile, &models[i], &answers[i], &err);
    }
    if (st == REDCO_OK) { compare_kernels(cli, file); }
    if (st == REDCO_OK) { st = profile_steps(models, MODELS, steps, &err); }
    if (st != REDCO_OK) {
        code = cli_fail(cli, &err);
    } else {
        for (uint32_t i = 0; i < MODELS; i++) { take_measured(&answers[i], &steps[i]); }
        code = median_error(answers) <= allowed_ratio ? CLI_DONE : CLI_NO;
        json_t *json = cli->json ? document(answers) : NULL;
        if (cli->json) {
            const int printed = cli_print_json(cli, json);
            code = printed == CLI_DONE ? code : printed;
        } else {
            print(answers);
            code = cli_finish(cli, code);
        }
        json_decref(json);
    }
    redco_compute_profile_free(profile);
    redco_profile_free(file);
    return code;
}
