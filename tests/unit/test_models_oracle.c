/* The model families, trained by the one-rank reference, against HuggingFace transformers in float64 from the same
 * weights and tokens: tests/data/models/oracle. */
#include "costmodel/models/language_model.h"
#include "costmodel/models/model.h"
#include "executor/backend/host/host.h"
#include "executor/reference/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As in make_reference.py. */
enum { STEPS = 20, MICRO_BATCHES = 2, SEQUENCES = 2, LENGTH = 12, PARAMETERS_MAX = 128 };

static double number(uint64_t stream, uint64_t i)
{
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15 + stream * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

typedef struct fixture {
    redco_backend *backend;
    redco_model *model;
    redco_language_model *lm;
    const redco_task *task;
    redco_reference *reference;
    redco_dtype dtype;                                  /* type of master weights */
    const redco_task_parameter *sorted[PARAMETERS_MAX]; /* by name */
    int32_t tokens[MICRO_BATCHES][SEQUENCES * LENGTH], targets[MICRO_BATCHES][SEQUENCES * LENGTH];
} fixture;

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const redco_task_parameter *const *)a)->name, (*(const redco_task_parameter *const *)b)->name);
}

/* Element i of a tensor as files hold it is element place() as the executor stores it. */
static uint64_t place(const redco_task_parameter *p, uint64_t i)
{
    return p->transposed ? (i % p->dim[0]) * p->dim[1] + i / p->dim[0] : i;
}

static uint64_t elements(const redco_task_parameter *p)
{
    const redco_tensor_type type = redco_task_parameter_type(p, REDCO_F64);
    return redco_type_elements(&type);
}

static double get(const fixture *l, const void *data, uint64_t i)
{
    return l->dtype == REDCO_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static void set(const fixture *l, void *data, uint64_t i, double value)
{
    if (l->dtype == REDCO_F64) {
        ((double *)data)[i] = value;
    } else {
        ((float *)data)[i] = (float)value;
    }
}

static size_t index_of(const fixture *l, size_t sorted)
{
    return (size_t)(l->sorted[sorted] - l->task->parameters);
}

static void set_weights(const fixture *l)
{
    static const char weight[] = "weight";
    for (size_t k = 0; k < l->task->parameter_count; k++) {
        const redco_task_parameter *p = l->sorted[k];
        const size_t length = strlen(p->name), ending = sizeof weight - 1;
        const bool gain = p->rank == 1 && length > ending && strcmp(p->name + length - ending, weight) == 0;
        void *master = redco_reference_master(l->reference, index_of(l, k));
        for (uint64_t i = 0; i < elements(p); i++) {
            set(l, master, place(p, i), (gain ? 1.0 : 0.0) + (p->rank > 1 ? 0.4 : 0.2) * (number(k, i) - 0.5));
        }
    }
}

/* Master weights and states are f32 for compute types with fewer digits. */
static void open_fixture(fixture *l, const char *name, redco_dtype compute)
{
    const redco_dtype master = redco_dtype_statistic(compute);
    redco_error err = {0};
    char path[512];
    const redco_reference_options options = {
        .parameter = compute,
        .compute = compute,
        .master = master,
        .micro_batches = MICRO_BATCHES,
        .optimizer = {
            .kind = REDCO_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .clip_norm = 1.0}};
    *l = (fixture){.dtype = master};
    (void)snprintf(path, sizeof path, "%s/models/oracle/%s.json", REDCO_TEST_DATA, name);
    must(redco_host_open(NULL, &l->backend, &err), &err);
    must(redco_model_read(path, &l->model, &err), &err);
    must(redco_language_model_create(l->model, SEQUENCES, LENGTH, &l->lm, &err), &err);
    l->task = redco_language_model_task(l->lm);
    must(redco_reference_create(l->backend, l->task, &options, &l->reference, &err), &err);
    assert_true(l->task->parameter_count <= PARAMETERS_MAX);
    for (size_t i = 0; i < l->task->parameter_count; i++) { l->sorted[i] = &l->task->parameters[i]; }
    qsort(l->sorted, l->task->parameter_count, sizeof(void *), by_name);
    set_weights(l);
}

static void close_fixture(fixture *l)
{
    redco_reference_free(l->reference);
    redco_language_model_free(l->lm);
    redco_model_free(l->model);
    redco_backend_close(l->backend);
}

static double train_step(fixture *l, int step, double *norm_out)
{
    const void *inputs[2 * MICRO_BATCHES];
    const uint64_t vocabulary = redco_model_get_dims(l->model)->vocab;
    redco_reference_step done;
    redco_error err = {0};
    for (int m = 0; m < MICRO_BATCHES; m++) {
        for (int s = 0; s < SEQUENCES; s++) {
            const uint64_t n = ((uint64_t)step * MICRO_BATCHES + (uint64_t)m) * SEQUENCES + (uint64_t)s;
            for (uint64_t t = 0; t < LENGTH; t++) {
                l->tokens[m][s * LENGTH + (int)t] = (int32_t)(number(100000 + n, t) * (double)vocabulary);
                l->targets[m][s * LENGTH + (int)t] =
                    (n + t) % 7 == 0 ? -100 : (int32_t)(number(100000 + n, t + 1) * (double)vocabulary);
            }
        }
        inputs[2 * m] = l->tokens[m];
        inputs[2 * m + 1] = l->targets[m];
    }
    must(redco_reference_train(l->reference, inputs, NULL, 0.01 * fmin(1.0, (step + 1) / 5.0), &done, &err), &err);
    *norm_out = done.gradient_norm;
    return done.loss;
}

/* Length, and sum weighted by cos(0.3 i), of a tensor as files hold it. */
static void checksums(const fixture *l, const redco_task_parameter *p, const void *data, double *length_out,
                      double *sum_out)
{
    double squares = 0, sum = 0;
    for (uint64_t i = 0; i < elements(p); i++) {
        const double x = get(l, data, place(p, i));
        squares += x * x;
        sum += x * cos(0.3 * (double)i);
    }
    *length_out = sqrt(squares);
    *sum_out = sum;
}

static FILE *reference(const char *name)
{
    char line[256], title[64];
    FILE *file = fopen(REDCO_TEST_DATA "/models/oracle/reference.txt", "r");
    assert_non_null(file);
    (void)snprintf(title, sizeof title, "%s ", name);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, title, strlen(title)) == 0) { return file; }
    }
    fail_msg("no %s in the reference", name);
    return NULL;
}

/* Largest errors. Sums are compared relative to the length of the tensor. */
typedef struct errors {
    double loss, norm, gradient, weight;
} errors;

/* Softmax does not see what all keys share, so without rotary positions the gradient of the keys' bias is 0 but for
 * rounding, of which AdamW makes steps of any size up to the learning rate; nothing else feels them. */
static bool is_key_bias(const char *name)
{
    return strstr(name, "k_proj.bias") != NULL || strstr(name, "c_attn.bias") != NULL ||
           strstr(name, "query_key_value.bias") != NULL;
}

static void compare(const char *name, redco_dtype dtype, const errors *bound)
{
    fixture l;
    double first[PARAMETERS_MAX][2];
    errors worst = {0, 0, 0, 0};
    open_fixture(&l, name, dtype);
    FILE *file = reference(name);
    for (int step = 0; step < STEPS; step++) {
        double want_loss, want_norm, norm;
        assert_int_equal(fscanf(file, "%lf %lf", &want_loss, &want_norm), 2);
        const double loss = train_step(&l, step, &norm);
        worst.loss = fmax(worst.loss, fabs(loss - want_loss));
        worst.norm = fmax(worst.norm, fabs(norm - want_norm) / want_norm);
        for (size_t k = 0; step == 0 && k < l.task->parameter_count; k++) {
            /* AdamW's mean of gradients is by now (1 - beta1) x the gradient, clipped as torch does it. */
            const double scale = fmax(norm + 1e-6, 1.0) / (1.0 - 0.9);
            checksums(&l, l.sorted[k], redco_reference_state(l.reference, index_of(&l, k), 0), &first[k][0],
                      &first[k][1]);
            first[k][0] *= scale;
            first[k][1] *= scale;
        }
    }
    for (size_t k = 0; k < l.task->parameter_count; k++) {
        char parameter[200];
        double want[4], length, sum;
        assert_int_equal(fscanf(file, "%199s %lf %lf %lf %lf", parameter, &want[0], &want[1], &want[2], &want[3]), 5);
        assert_string_equal(parameter, l.sorted[k]->name);
        checksums(&l, l.sorted[k], redco_reference_master(l.reference, index_of(&l, k)), &length, &sum);
        const double g = fmax(fabs(first[k][0] - want[0]), fabs(first[k][1] - want[1]));
        const double w = fmax(fabs(length - want[2]), fabs(sum - want[3])) / want[2];
        worst.gradient = fmax(worst.gradient, g / (is_key_bias(parameter) ? 1.0 : want[0]));
        if (!is_key_bias(parameter)) {
            worst.weight = fmax(worst.weight, w);
        } else if (l.dtype == REDCO_F64) { /* epsilon is far above rounding: small steps */
            assert_true(w < 1e-7);
        }
    }
    (void)fclose(file);
    (void)printf("%-20s %s: losses %.1e, norms %.1e, first gradients %.1e, weights after %d steps %.1e\n", name,
                 redco_dtype_name(dtype), worst.loss, worst.norm, worst.gradient, STEPS, worst.weight);
    assert_true(worst.loss <= bound->loss);
    assert_true(worst.norm <= bound->norm);
    assert_true(worst.gradient <= bound->gradient);
    assert_true(worst.weight <= bound->weight);
    close_fixture(&l);
}

static const char *const names[] = {"llama",         "llama-scaled",  "mistral", "qwen2",     "qwen3",
                                    "gpt2",          "gpt2-variant",  "gptj",    "gpt_neox",  "gpt_neox-sequential",
                                    "opt",           "opt-post-norm", "gemma",   "internlm2", "bloom",
                                    "bloom-variant", "mpt",           "t5",      "mt5",       "bart",
                                    "phi3",          "phi3-grouped"};
static const char *const later[] = {"gemma2",
                                    "gemma3",
                                    "olmo2",
                                    "olmo3",
                                    "smollm3",
                                    "granite",
                                    "seed_oss",
                                    "glm",
                                    "glm4",
                                    "exaone4",
                                    "falcon",
                                    "starcoder2",
                                    "falcon-grouped",
                                    "cohere",
                                    "cohere2",
                                    "phi",
                                    "stablelm",
                                    "stablelm-parallel",
                                    "nemotron",
                                    "internlm3",
                                    "minicpm",
                                    "baichuan",
                                    "baichuan2",
                                    "qwen",
                                    "exaone",
                                    "gpt_bigcode",
                                    "gpt_bigcode-heads",
                                    "olmo"};

/* Bounds: 53 bits of significand, some 1e2 roundings behind each other and sums of some 1e3 parts: 1e-13 of a gradient.
 * AdamW divides by the root of the second moment, so that the first steps turn rounding of a gradient g into steps of
 * rounding / |g|: a few elements out of 20,000 have a |g| of 1e-6 or less, and training spreads that by ten or a
 * hundred. */
static void f64_equals_transformers(void **state)
{
    static const errors bound = {1e-12, 1e-11, 1e-13, 1e-11};
    static const errors cut_bound = {1e-9, 1e-9, 1e-8, 1e-8}; /* BLOOM has 0.79788456 for the root of 2 / pi in GELU */
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        compare(names[i], REDCO_F64, strncmp(names[i], "bloom", strlen("bloom")) == 0 ? &cut_bound : &bound);
    }
}

/* Some have factors, caps and gains of 1 + g that transformers computes in another order: ten times the roundings, of
 * which small gradients make more. */
static void later_families_equal_transformers(void **state)
{
    static const errors bound = {1e-10, 1e-9, 1e-12, 1e-9};
    (void)state;
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) { compare(later[i], REDCO_F64, &bound); }
}

/* The same with 24 bits: 2^29 times as much. */
static void f32_equals_transformers(void **state)
{
    static const errors bound = {2e-4, 2e-3, 1e-5, 1e-3};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) { compare(names[i], REDCO_F32, &bound); }
}

/* Storage of 8 bits of significand, f32 master weights: activations, products and gradients are rounded to 2^-9, some
 * ten times a layer in random directions. Weights differ by whole steps of AdamW where gradients are small. */
static void bf16_is_near_transformers(void **state)
{
    static const errors bound = {5e-2, 2e-1, 1e-1, 0.5};
    static const errors t5_bound = {2e-1, 2, 2e-1, 0.5}; /* scores are not divided by the root of a head's size */
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        compare(names[i], REDCO_BFLOAT16, strstr(names[i], "t5") != NULL ? &t5_bound : &bound);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_equals_transformers),
        cmocka_unit_test(later_families_equal_transformers),
        cmocka_unit_test(f32_equals_transformers),
        cmocka_unit_test(bf16_is_near_transformers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
