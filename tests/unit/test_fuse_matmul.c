/* Products that take along what follows them: which ones, that names, orders and memory stay, and that numbers are
 * those of the graph as it was. */
#include "evaluate_planned.h"
#include "language_fixture.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/fuse_matmul.h"
#include "costmodel/graph/transform.h"
#include "costmodel/kept/recompute.h"
#include "executor/backend/host/host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEQUENCES = 2, LENGTH = 12, KINDS = 5, BLOCKS = 2 };

static const redco_op_kind kinds[KINDS] = {REDCO_OP_MATMUL_ADD, REDCO_OP_MATMUL_BIAS, REDCO_OP_MATMUL_GELU,
                                           REDCO_OP_MATMUL_GELU_GRAD, REDCO_OP_MATMUL_BIAS_GRAD};

static bool everything(void *context, const redco_op *op, const redco_tensor_type *inputs,
                       const redco_tensor_type *outputs)
{
    (void)context;
    (void)op;
    (void)inputs;
    (void)outputs;
    return true;
}

static bool nothing(void *context, const redco_op *op, const redco_tensor_type *inputs,
                    const redco_tensor_type *outputs)
{
    return !everything(context, op, inputs, outputs);
}

static void count_kinds(const redco_graph *graph, uint32_t counts[KINDS], uint32_t *products_out)
{
    memset(counts, 0, KINDS * sizeof *counts);
    *products_out = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op_kind kind = redco_graph_op(graph, i)->kind;
        *products_out += redco_op_kind_class(kind) == REDCO_CLASS_MATMUL;
        for (uint32_t k = 0; k < KINDS; k++) { counts[k] += kinds[k] == kind; }
    }
}

/* Models */

typedef struct family {
    const char *config;
    uint32_t blocks[KINDS]; /* in one block, forward and backward */
    uint32_t rest[KINDS];   /* in embedding and head */
} family;

/* By hand. Forward: a bias is one, unless a residual sum takes it along; each residual sum is one, but where two parts
 * are added first only the second of them; GELU's argument is kept. Backward: sums of the parts that q, k and v (gate
 * and up) send to their input are one less than there are parts; each weight with a bias sums its rows; only GPT-2's
 * GELU is an epilogue. */
static const family families[] = {
    /*                    add            bias gelu grad  sums */
    {"llama", {2 + 2 + 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0}},
    {"mistral", {2 + 2 + 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0}},
    {"qwen3", {2 + 2 + 1, 0, 0, 0, 0}, {0, 0, 0, 0, 0}},
    {"qwen2", {2 + 2 + 1, 3, 0, 0, 3}, {0, 0, 0, 0, 0}},
    {"gpt2", {2, 1, 1, 1, 4}, {0, 0, 0, 0, 0}},
    {"opt", {2 + 2, 3 + 1, 0, 0, 6}, {0, 0, 0, 0, 0}},
    {"gptj", {1 + 3, 0, 1, 1, 2}, {0, 1, 0, 0, 1}},
    {"gpt_neox", {1, 2 + 1, 0, 0, 3}, {0, 0, 0, 0, 0}}, /* both parts have one gradient, so one sum */
};

static void model_path(const char *config, char path[512])
{
    (void)snprintf(path, 512, "%s/models/oracle/%s.json", REDCO_TEST_DATA, config);
}

static redco_graph *fuse(const redco_graph *graph, const redco_value *outputs, uint32_t count, redco_value *outputs_out)
{
    const redco_fuse_choice choice = {everything, NULL};
    redco_graph *fused = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_graph_fuse_matmul(graph, outputs, count, &choice, &fused, outputs_out, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return fused;
}

static void every_family_has_its_epilogues(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < sizeof families / sizeof families[0]; f++) {
        const language_shape shape = {REDCO_BFLOAT16, SEQUENCES, LENGTH, 1, 0, false, NULL, NULL};
        redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1];
        uint32_t counts[KINDS], before[KINDS], products[2];
        language l;
        char path[512];
        model_path(families[f].config, path);
        language_open(&l, path, &shape);
        redco_graph *const fused = fuse(l.graph, l.outputs, l.output_count, outputs);
        const redco_model_dims *const dims = redco_model_get_dims(l.model);
        count_kinds(l.graph, before, &products[0]);
        count_kinds(fused, counts, &products[1]);
        assert_int_equal(products[0], products[1]);
        for (uint32_t k = 0; k < KINDS; k++) {
            const uint32_t want = dims->layers * families[f].blocks[k] + families[f].rest[k];
            if (counts[k] != want) {
                fail_msg("%s: %u of %s instead of %u", families[f].config, counts[k], redco_op_kind_name(kinds[k]),
                         want);
            }
        }
        redco_graph_free(fused);
        language_close(&l);
    }
}

/* Numbers, from a planned arena whose freed parts are overwritten */

static const char *const configs[] = {"llama", "llama-scaled", "mistral", "qwen2",    "qwen3",
                                      "gpt2",  "gpt2-variant", "gptj",    "gpt_neox", "gpt_neox-sequential",
                                      "opt",   "opt-post-norm"};
enum { CONFIGS = sizeof configs / sizeof configs[0], POLICIES = 3 };

static redco_recompute policy_of(void *context, const char *layer)
{
    return strncmp(layer, "block.", 6) == 0 ? *(const redco_recompute *)context : REDCO_RECOMPUTE_NONE;
}

typedef struct outcome {
    redco_result results[LANGUAGE_PARAMETERS_MAX + 1];
    uint32_t count;
} outcome;

/** @return bytes of the arena without workspaces */
static uint64_t run(redco_backend *host, const language *l, const redco_graph *graph, const redco_value *outputs,
                    outcome *o)
{
    static redco_binding bindings[LANGUAGE_PARAMETERS_MAX + 3];
    const redco_lifetimes_options bare = {.outside = outputs, .outside_count = l->output_count}, none = {.order = NULL};
    redco_memory_plan plan;
    redco_error err = {.status = REDCO_OK};
    o->count = l->output_count;
    for (uint32_t i = 0; i < o->count; i++) {
        o->results[i] = (redco_result){outputs[i], malloc(redco_type_bytes(redco_value_type(graph, outputs[i])) + 1)};
    }
    const uint32_t bound = language_rebind(l, graph, bindings);
    if (redco_evaluate_planned(host, NULL, graph, &none, bindings, bound, o->results, o->count, true, NULL, &err) !=
            REDCO_OK ||
        redco_memory_plan_make(graph, &bare, &plan, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    const uint64_t bytes = plan.arena.bytes;
    redco_memory_plan_free(&plan);
    return bytes;
}

static double number(redco_dtype dtype, const void *data, uint64_t i)
{
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[dtype == REDCO_BFLOAT16 ? i : 0] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    if (dtype == REDCO_BFLOAT16) { return (double)value; }
    return dtype == REDCO_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/** Length of the difference over the length of @p y; what is shorter than 1e-3 is none but for rounding (gradients of
 * keys' biases are 0). */
static double distance(const redco_tensor_type *type, const void *x, const void *y)
{
    double length = 1e-6, apart = 0;
    for (uint64_t i = 0; i < redco_type_elements(type); i++) {
        const double a = number(type->dtype, x, i), b = number(type->dtype, y, i);
        apart += (a - b) * (a - b);
        length += b * b;
    }
    return sqrt(apart / length);
}

static void check_model(redco_backend *host, const char *config, redco_dtype dtype, redco_recompute policy)
{
    const double bound = dtype == REDCO_F64 ? 1e-12 : dtype == REDCO_F32 ? 2e-4 : 0.1;
    const language_shape shape = {dtype, SEQUENCES, LENGTH, 1, 0, false, NULL, NULL};
    const redco_recompute_options options = {policy_of, &policy, false};
    redco_value before[LANGUAGE_PARAMETERS_MAX + 1], after[LANGUAGE_PARAMETERS_MAX + 1];
    static outcome want, have;
    redco_graph *graph = NULL;
    redco_error err = {.status = REDCO_OK};
    language l;
    char path[512];
    model_path(config, path);
    language_open(&l, path, &shape);
    language_data(&l);
    if (redco_recompute_graph(l.graph, l.outputs, l.output_count, &options, &graph, before, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    redco_graph *const fused = fuse(graph, before, l.output_count, after);
    const uint64_t bytes[2] = {run(host, &l, graph, before, &want), run(host, &l, fused, after, &have)};
    if (bytes[1] > bytes[0]) {
        fail_msg("%s, recomputation %u: %llu bytes fused, %llu before", config, policy, (unsigned long long)bytes[1],
                 (unsigned long long)bytes[0]);
    }
    for (uint32_t i = 0; i < want.count; i++) {
        const redco_tensor_type *const type = redco_value_type(graph, before[i]);
        assert_true(redco_type_equal(type, redco_value_type(fused, after[i])));
        const double error = distance(type, have.results[i].data, want.results[i].data);
        if (!(error <= bound)) {
            fail_msg("%s, %s, recomputation %u, output %u: relative error %.3g", config, redco_dtype_name(dtype),
                     policy, i, error);
        }
        free(want.results[i].data);
        free(have.results[i].data);
    }
    redco_graph_free(fused);
    redco_graph_free(graph);
    language_close(&l);
}

static void numbers_and_memory_stay(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_F64, REDCO_F32, REDCO_BFLOAT16};
    static const redco_recompute policies[POLICIES] = {REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_CORE_ATTN,
                                                       REDCO_RECOMPUTE_FULL};
    redco_backend *host = NULL;
    (void)state;
    assert_int_equal(redco_host_open(NULL, &host, NULL), REDCO_OK);
    for (uint32_t c = 0; c < CONFIGS; c++) {
        for (uint32_t d = 0; d < 3; d++) {
            for (uint32_t p = 0; p < POLICIES; p++) { check_model(host, configs[c], dtypes[d], policies[p]); }
        }
    }
    redco_backend_close(host);
}

/* Names */

/** "bwd/block.0/qkv" of "bwd/block.0/qkv/input": sums of gradients have no side, and belong to either. */
static void side_off(char *name)
{
    char *const slash = strrchr(name, '/');
    if (slash != NULL && (strcmp(slash, "/input") == 0 || strcmp(slash, "/weight") == 0)) { *slash = '\0'; }
}

static bool has_name(const redco_graph *graph, const char *wanted)
{
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        redco_op other = *op;
        char name[200];
        if (redco_op_is_view(op->kind) || op->kind == REDCO_OP_INPUT) { continue; }
        (void)redco_op_name(graph, op, name, sizeof name);
        side_off(name);
        if (strcmp(name, wanted) == 0) { return true; }
        other.operator_name = op->absorbed;
        other.toward = REDCO_NO_VALUE;
        if (op->absorbed[0] != '\0' && strcmp(redco_op_name(graph, &other, name, sizeof name), wanted) == 0) {
            return true;
        }
    }
    return false;
}

static void names_stay(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < CONFIGS; c++) {
        const language_shape shape = {REDCO_F32, SEQUENCES, LENGTH, 1, 0, false, NULL, NULL};
        redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1];
        redco_recompute policy = REDCO_RECOMPUTE_FULL;
        const redco_recompute_options options = {policy_of, &policy, false};
        redco_graph *graphs[2] = {NULL, NULL};
        language l;
        char path[512], name[200];
        model_path(configs[c], path);
        language_open(&l, path, &shape);
        assert_int_equal(redco_recompute_graph(l.graph, l.outputs, l.output_count, &options, &graphs[0], outputs, NULL),
                         REDCO_OK);
        graphs[1] = fuse(graphs[0], outputs, l.output_count, outputs);
        for (uint32_t g = 0; g < 2; g++) {
            for (uint32_t i = 0; i < redco_graph_op_count(graphs[g]); i++) {
                const redco_op *const op = redco_graph_op(graphs[g], i);
                if (redco_op_is_view(op->kind) || op->kind == REDCO_OP_INPUT) { continue; }
                (void)redco_op_name(graphs[g], op, name, sizeof name);
                side_off(name);
                if (!has_name(graphs[1 - g], name)) { fail_msg("%s: %s in one graph only", configs[c], name); }
            }
        }
        redco_graph_free(graphs[0]);
        redco_graph_free(graphs[1]);
        language_close(&l);
    }
}

/* Where nothing may be joined */

typedef struct small {
    redco_graph *g;
    redco_value x, w, b; /* [6, 4], [4, 4], [4] */
} small;

static small begin(void)
{
    small s = {.g = redco_graph_create()};
    const redco_tensor_type x = redco_type(REDCO_F64, 2, (const uint64_t[]){6, 4}),
                            w = redco_type(REDCO_F64, 2, (const uint64_t[]){4, 4}),
                            b = redco_type(REDCO_F64, 1, (const uint64_t[]){4});
    s.x = redco_input(s.g, "x", &x);
    s.w = redco_input(s.g, "w", &w);
    s.b = redco_input(s.g, "b", &b);
    return s;
}

/** Counts the results of each kind. */
static void expect(const small *s, const redco_value *results, uint32_t count, const char *what,
                   const uint32_t want[KINDS])
{
    redco_value outputs[4];
    uint32_t counts[KINDS], products;
    redco_error err = {.status = REDCO_OK};
    if (redco_graph_status(s->g, &err) != REDCO_OK) { fail_msg("%s: %s", what, err.text); }
    redco_graph *const fused = fuse(s->g, results, count, outputs);
    count_kinds(fused, counts, &products);
    for (uint32_t k = 0; k < KINDS; k++) {
        if (counts[k] != want[k]) {
            fail_msg("%s: %u of %s instead of %u", what, counts[k], redco_op_kind_name(kinds[k]), want[k]);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(redco_type_equal(redco_value_type(fused, outputs[i]), redco_value_type(s->g, results[i])));
    }
    redco_graph_free(fused);
    redco_graph_free(s->g);
}

static void what_is_not_joined(void **state)
{
    static const uint32_t none[KINDS] = {0}, add[KINDS] = {1, 0, 0, 0, 0}, bias[KINDS] = {0, 1, 0, 0, 0},
                          sums[KINDS] = {0, 0, 0, 0, 1};
    (void)state;
    small s = begin();
    redco_value y = redco_matmul(s.g, s.x, s.w, false, false);
    redco_value both[2] = {redco_add(s.g, y, s.b), y};
    expect(&s, both, 2, "a product that is a result itself", none);

    s = begin();
    y = redco_matmul(s.g, s.x, s.w, false, false);
    both[0] = redco_add(s.g, y, s.x);
    expect(&s, both, 1, "an addend that is a factor", none);

    s = begin();
    y = redco_matmul(s.g, s.x, s.w, false, false);
    both[0] = redco_add(s.g, y, redco_exp(s.g, s.x));
    expect(&s, both, 1, "an addend that is made later", none);

    s = begin();
    both[1] = redco_exp(s.g, s.x);
    y = redco_matmul(s.g, s.x, s.w, false, false);
    both[0] = redco_add(s.g, both[1], y);
    expect(&s, both, 1, "an addend that is made before", add);

    s = begin();
    both[1] = redco_exp(s.g, s.x);
    redco_graph_set_layer(s.g, "one");
    y = redco_matmul(s.g, s.x, s.w, false, false);
    redco_graph_set_layer(s.g, "two");
    both[0] = redco_add(s.g, both[1], y);
    expect(&s, both, 1, "the sum of another layer", none);

    s = begin();
    y = redco_matmul(s.g, s.x, s.w, false, false);
    both[0] = redco_add(s.g, y, redco_exp(s.g, s.b));
    expect(&s, both, 1, "a bias that is made later, of others", bias);

    s = begin();
    y = redco_matmul(s.g, s.x, s.w, false, false);
    both[0] = redco_add(s.g, y, redco_sum_axis(s.g, y, 0, false));
    expect(&s, both, 1, "a bias that is made of the product", none);

    s = begin();
    y = redco_matmul(s.g, s.x, s.w, false, false);
    both[0] = redco_add(s.g, y, redco_slice_axis(s.g, s.x, 1, 0, 1));
    expect(&s, both, 1, "a column that is repeated", none);

    s = begin();
    both[0] = redco_sum_axis(s.g, s.x, 0, false);
    both[1] = redco_matmul(s.g, s.w, s.x, false, true);
    expect(&s, both, 2, "a sum over what the product does not sum over", none);

    s = begin();
    both[0] = redco_sum_axis(s.g, s.x, 0, false);
    both[1] = redco_matmul(s.g, redco_exp(s.g, s.x), s.x, true, false);
    expect(&s, both, 2, "rows of a factor", sums);

    s = begin();
    both[0] = redco_sum_axis(s.g, s.x, 1, false);
    both[1] = redco_matmul(s.g, redco_exp(s.g, s.x), s.x, true, false);
    expect(&s, both, 2, "columns of a factor", none);

    s = begin();
    both[0] = redco_sum_axis(s.g, s.x, 0, false);
    both[1] = redco_matmul(s.g, redco_mul(s.g, s.x, both[0]), s.x, true, false);
    expect(&s, both, 2, "a sum that the product needs", none);

    s = begin();
    y = redco_reshape(s.g, s.x, 3, (const uint64_t[]){2, 3, 4});
    y = redco_matmul(s.g, y, redco_reshape(s.g, s.x, 3, (const uint64_t[]){2, 3, 4}), false, true);
    both[0] = redco_add(s.g, y, redco_scalar(s.g, REDCO_F64, 1));
    expect(&s, both, 1, "products of batches", none);
}

/* An element-wise reader between the sum and its product: the product comes earlier. */
static void a_sum_is_read_before_its_product(void **state)
{
    (void)state;
    small s = begin();
    redco_value results[2], outputs[2];
    const redco_value late = redco_exp(s.g, s.x), sum = redco_sum_axis(s.g, late, 0, false);
    results[0] = redco_exp(s.g, sum);
    results[1] = redco_matmul(s.g, redco_sin(s.g, s.x), late, true, false);
    redco_graph *const fused = fuse(s.g, results, 2, outputs);
    double x[24], w[16] = {0}, b[4] = {0}, want[2][16], have[2][16];
    for (uint32_t i = 0; i < 24; i++) { x[i] = 0.1 * i - 1; }
    redco_backend *host = NULL;
    assert_int_equal(redco_host_open(NULL, &host, NULL), REDCO_OK);
    for (uint32_t g = 0; g < 2; g++) {
        const redco_graph *const graph = g == 0 ? s.g : fused;
        const redco_value *const from = g == 0 ? results : outputs;
        const redco_binding bindings[] = {{redco_graph_find_input(graph, "x"), x}};
        const redco_result wanted[] = {{from[0], g == 0 ? want[0] : have[0]}, {from[1], g == 0 ? want[1] : have[1]}};
        redco_error err = {.status = REDCO_OK};
        if (redco_evaluate(host, graph, bindings, 1, wanted, 2, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    }
    (void)w;
    (void)b;
    for (uint32_t i = 0; i < 4; i++) { assert_true(fabs(want[0][i] / have[0][i] - 1) < 1e-13); }
    for (uint32_t i = 0; i < 16; i++) { assert_true(fabs(want[1][i] - have[1][i]) < 1e-12); }
    redco_backend_close(host);
    redco_graph_free(fused);
    redco_graph_free(s.g);
}

static void a_device_without_them_gets_the_same_graph(void **state)
{
    const redco_fuse_choice choice = {nothing, NULL};
    const language_shape shape = {REDCO_F32, SEQUENCES, LENGTH, 1, 0, false, NULL, NULL};
    redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1];
    redco_graph *graph = NULL;
    language l;
    char path[512];
    (void)state;
    model_path("gpt2", path);
    language_open(&l, path, &shape);
    assert_int_equal(redco_graph_fuse_matmul(l.graph, l.outputs, l.output_count, &choice, &graph, outputs, NULL),
                     REDCO_OK);
    uint32_t at = 0; /* the same work in the same order; views stand where they are read */
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        if (redco_op_is_view(op->kind)) { continue; }
        while (redco_op_is_view(redco_graph_op(l.graph, at)->kind) || redco_graph_op(l.graph, at)->kind != op->kind) {
            at++;
        }
        assert_string_equal(redco_graph_op(l.graph, at)->operator_name, op->operator_name);
        at++;
    }
    const redco_value bad = redco_graph_value_count(l.graph);
    redco_error err = {.status = REDCO_OK};
    redco_graph *none = NULL;
    assert_int_equal(redco_graph_fuse_matmul(l.graph, &bad, 1, &choice, &none, outputs, &err), REDCO_EVALUE);
    redco_graph_free(graph);
    language_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_family_has_its_epilogues),
                                       cmocka_unit_test(numbers_and_memory_stay),
                                       cmocka_unit_test(names_stay),
                                       cmocka_unit_test(what_is_not_joined),
                                       cmocka_unit_test(a_sum_is_read_before_its_product),
                                       cmocka_unit_test(a_device_without_them_gets_the_same_graph)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
