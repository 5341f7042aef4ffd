/* Language models as tasks: names, parameters, what is refused; and tasks of a user's own. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/transform.h"
#include "costmodel/models/language_model.h"
#include "costmodel/models/model.h"
#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"
#include "simulator_names.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const configs[] = {"llama", "llama-scaled", "mistral",   "qwen2",    "qwen3",
                                      "gpt2",  "gpt2-variant", "gptj",      "gpt_neox", "gpt_neox-sequential",
                                      "opt",   "gemma",        "internlm2", "bloom",    "mpt",
                                      "t5",    "mt5",          "bart",      "phi3",     "phi3-grouped"};
enum { CONFIGS = sizeof configs / sizeof configs[0] };

static const redco_task_options training = {
    .parameter = REDCO_F32, .compute = REDCO_F32, .training = true, .gradients = true};

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static redco_model *read_model(const char *name)
{
    redco_model *model = NULL;
    redco_error err = {0};
    char path[512];
    (void)snprintf(path, sizeof path, "%s/models/oracle/%s.json", REDCO_TEST_DATA, name);
    must(redco_model_read(path, &model, &err), &err);
    return model;
}

static redco_language_model *language_model(const redco_model *model)
{
    redco_language_model *lm = NULL;
    redco_error err = {0};
    must(redco_language_model_create(model, 2, 12, &lm, &err), &err);
    return lm;
}

static bool is_among(const char *name, char names[SIMULATOR_NAMES][SIMULATOR_NAME_SIZE], size_t count, bool *seen)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            seen[i] = true;
            return true;
        }
    }
    return false;
}

/* Each operator of the graph that works or moves data has a name that the simulator knows; and each name of the
 * simulator's is there. Gradients of what belongs to a product without being one (a bias, a residual sum) have no side:
 * the product's two then are both there. */
static void compare_names(const char *config)
{
    static char names[SIMULATOR_NAMES][SIMULATOR_NAME_SIZE];
    bool seen[SIMULATOR_NAMES] = {false};
    redco_model *model = read_model(config);
    redco_language_model *lm = language_model(model);
    redco_task_graph built;
    redco_error err = {0};
    const size_t count = simulator_names(model, names);
    assert_true(count < SIMULATOR_NAMES);
    must(redco_task_build(redco_language_model_task(lm), &training, &built, &err), &err);
    const uint32_t op_count = redco_graph_op_count(built.graph);
    bool *live = calloc(op_count, sizeof *live);
    redco_value wanted[129] = {built.loss};
    const size_t parameters = redco_language_model_task(lm)->parameter_count;
    assert_non_null(live);
    assert_true(parameters < 128);
    memcpy(wanted + 1, built.gradients, parameters * sizeof *wanted);
    redco_graph_live(built.graph, wanted, (uint32_t)parameters + 1, live);
    for (uint32_t i = 0; i < op_count; i++) {
        const redco_op *op = redco_graph_op(built.graph, i);
        char name[128], input[160], weight[160];
        if (!live[i] || redco_op_kind_class(op->kind) == REDCO_CLASS_SOURCE) { continue; }
        (void)redco_op_name(built.graph, op, name, sizeof name);
        if (is_among(name, names, count, seen)) { continue; }
        (void)snprintf(input, sizeof input, "%s/input", name);
        (void)snprintf(weight, sizeof weight, "%s/weight", name);
        if (op->order == 0 || !is_among(input, names, count, seen) || !is_among(weight, names, count, seen)) {
            fail_msg("%s: the simulator knows no %s (%s)", config, name, redco_op_kind_name(op->kind));
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (!seen[i]) { fail_msg("%s: no operator is named %s", config, names[i]); }
    }
    free(live);
    redco_task_graph_free(&built);
    redco_language_model_free(lm);
    redco_model_free(model);
}

static void names_are_the_simulators(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGS; i++) { compare_names(configs[i]); }
}

static void parameters_are_the_models(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGS; i++) {
        redco_model *model = read_model(configs[i]);
        redco_language_model *lm = language_model(model);
        const redco_task *task = redco_language_model_task(lm);
        uint64_t elements = 0;
        for (size_t p = 0; p < task->parameter_count; p++) {
            const redco_tensor_type type = redco_task_parameter_type(&task->parameters[p], REDCO_F32);
            elements += redco_type_elements(&type);
        }
        assert_int_equal(elements, redco_model_params(model));
        redco_language_model_free(lm);
        redco_model_free(model);
    }
}

/* Linears turn around, GPT-2's and tables do not; GPT-2's residual matrices begin smaller: 0.02 / sqrt(2 x 2 layers).
 */
static void parameters_are_stored_as_products_take_them(void **state)
{
    (void)state;
    redco_model *model = read_model("llama");
    redco_language_model *lm = language_model(model);
    const redco_task_parameter *p =
        redco_task_find(redco_language_model_task(lm), "model.layers.1.self_attn.k_proj.weight");
    assert_non_null(p);
    assert_string_equal(p->layer, "block.1");
    assert_true(p->transposed);
    assert_int_equal(p->dim[0], 32);
    assert_int_equal(p->dim[1], 16);
    assert_null(redco_task_find(redco_language_model_task(lm), "model.layers.2.self_attn.k_proj.weight"));
    redco_language_model_free(lm);
    redco_model_free(model);
    model = read_model("gpt2");
    lm = language_model(model);
    p = redco_task_find(redco_language_model_task(lm), "transformer.h.1.attn.c_attn.bias");
    assert_non_null(p);
    assert_int_equal(p->blocks, 3); /* queries, keys, values */
    p = redco_task_find(redco_language_model_task(lm), "transformer.h.0.mlp.c_proj.weight");
    assert_non_null(p);
    assert_int_equal(p->blocks, 1);
    assert_false(p->transposed);
    assert_int_equal(p->dim[0], 128);
    assert_true(fabs(p->initial.deviation - 0.01) < 1e-15);
    p = redco_task_find(redco_language_model_task(lm), "transformer.h.0.mlp.c_proj.bias");
    assert_int_equal(p->initial.kind, REDCO_INITIAL_ZERO);
    p = redco_task_find(redco_language_model_task(lm), "transformer.h.0.ln_1.weight");
    assert_int_equal(p->initial.kind, REDCO_INITIAL_ONE);
    redco_language_model_free(lm);
    redco_model_free(model);
}

/* @return the error of a config with one member changed */
static redco_error refusal(const char *config, const char *key, const char *value, uint32_t seq_len)
{
    redco_error err = {0};
    redco_model *plain = read_model(config), *model = NULL;
    redco_language_model *lm = NULL;
    json_t *changed = json_deep_copy(redco_model_config(plain));
    if (key != NULL) {
        json_t *json = json_loads(value, JSON_DECODE_ANY, NULL);
        assert_non_null(json);
        assert_int_equal(json_object_set_new(changed, key, json), 0);
    }
    const redco_json_value root = redco_json_wrap(changed, "c.json");
    must(redco_model_from_json(&root, NULL, &model, &err), &err);
    assert_int_equal(redco_language_model_create(model, 2, seq_len, &lm, &err), REDCO_EVALUE);
    assert_null(lm);
    json_decref(changed);
    redco_model_free(model);
    redco_model_free(plain);
    return err;
}

/* A config without any one of its members: the default stands in its place, or an error says why not. */
static void members_may_be_left_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < CONFIGS; i++) {
        redco_model *const plain = read_model(configs[i]);
        json_t *const config = json_deep_copy(redco_model_config(plain)), *value = NULL;
        const char *key = NULL;
        json_object_foreach(config, key, value)
        {
            redco_error err = {0};
            redco_model *model = NULL;
            redco_language_model *lm = NULL;
            json_t *const changed = json_deep_copy(config);
            if (strcmp(key, "model_type") != 0) { assert_int_equal(json_object_del(changed, key), 0); }
            const redco_json_value root = redco_json_wrap(changed, "c.json");
            redco_status st = redco_model_from_json(&root, NULL, &model, &err);
            if (st == REDCO_OK) { st = redco_language_model_create(model, 2, 12, &lm, &err); }
            if (st != REDCO_OK) { assert_int_equal(st, REDCO_EVALUE); }
            assert_int_equal(st == REDCO_OK, err.text[0] == '\0');
            json_decref(changed);
            redco_language_model_free(lm);
            redco_model_free(model);
        }
        json_decref(config);
        redco_model_free(plain);
    }
}

static void expect(redco_error err, const char *place, const char *text)
{
    if (strcmp(err.place, place) != 0 || strcmp(err.text, text) != 0) {
        fail_msg("got \"%s: %s\", not \"%s: %s\"", err.place, err.text, place, text);
    }
}

static void what_is_not_built_is_refused(void **state)
{
    (void)state;
    expect(refusal("llama", "hidden_act", "\"tanh\"", 12), "c.json:/hidden_act",
           "\"tanh\" is not an activation that the executor has: silu, swish, gelu, gelu_new, gelu_fast, "
           "gelu_pytorch_tanh, relu, relu2");
    expect(refusal("llama", "rope_scaling", "{\"rope_type\":\"ntk\",\"factor\":2.0}", 12),
           "c.json:/rope_scaling/rope_type",
           "\"ntk\" is not a scaling that the executor has: default, linear, llama3, yarn, dynamic");
    expect(refusal("internlm3", NULL, NULL, 65), "c.json",
           "sequences of 65 tokens; from 64 on its rotary positions depend on the length (dynamic), which the executor "
           "does not build");
    expect(refusal("falcon", "alibi", "true", 12), "c.json:/alibi",
           "is true; the executor builds Falcon with rotary positions");
    expect(refusal("cohere", "use_qk_norm", "true", 12), "c.json:/use_qk_norm",
           "is true; the executor has no norms with a gain for each head");
    expect(refusal("stablelm", "qk_layernorm", "true", 12), "c.json:/qk_layernorm",
           "is true; the executor has no norms with a gain for each head");
    expect(refusal("llama", "rope_scaling", "{\"type\":\"linear\"}", 12), "c.json:/rope_scaling/factor", "is missing");
    expect(refusal("gptj", "rotary_dim", "null", 12), "c.json:/rotary_dim",
           "is null; the number of rotated elements of a head is needed");
    expect(refusal("gptj", "rotary_dim", "3", 12), "c.json:/rotary_dim",
           "must be even, at least 2 and at most the size of a head");
    expect(refusal("gpt_neox", "rotary_pct", "0.01", 12), "c.json:/rotary_pct",
           "must make an even number of elements of a head, at least 2");
    expect(refusal("phi3", "partial_rotary_factor", "0.1", 12), "c.json:/partial_rotary_factor",
           "must leave two elements of a head");
    expect(refusal("phi3", "rope_scaling", "{\"type\":\"longrope\"}", 12), "c.json:/rope_scaling/type",
           "\"longrope\" is not a scaling that the executor has: default, linear, llama3, yarn, dynamic");
    expect(refusal("gpt2", NULL, NULL, 17), "c.json", "sequences of 17 tokens; its table has 16 positions");
    expect(refusal("gpt2", NULL, NULL, 0), "c.json", "a micro-batch of 2 sequences of 0 tokens is empty");
    expect(refusal("llama", "model_type", "\"generic\"", 12), "c.json",
           "is of type \"generic\", which the executor does not build; it builds llama, mistral, qwen2, qwen3, phi3, "
           "internlm2, gemma, gemma2, gemma3_text, olmo, olmo2, olmo3, granite, smollm3, seed_oss, glm, glm4, exaone, "
           "exaone4, "
           "internlm3, baichuan, minicpm, qwen, starcoder2, falcon, cohere, cohere2, phi, stablelm, nemotron, gpt2, "
           "gpt_bigcode, gptj, "
           "gpt_neox, opt, bloom, mpt, t5, mt5, bart");
    expect(refusal("mpt", "attn_config", "{\"clip_qkv\":8.0}", 12), "c.json:/attn_config/clip_qkv",
           "is set; the executor builds MPT without it");
    expect(refusal("mpt", "attn_config", "{\"alibi\":false}", 12), "c.json:/attn_config",
           "\"alibi\" is false; the executor builds MPT with ALiBi");
    expect(refusal("t5", "relative_attention_num_buckets", "3", 12), "c.json:/relative_attention_num_buckets",
           "is 3; the executor needs 4 or more, and \"relative_attention_max_distance\" above half of them");
    expect(refusal("t5", "feed_forward_proj", "\"gated-tanh\"", 12), "c.json:/feed_forward_proj",
           "\"tanh\" is not an activation that the executor has: silu, swish, gelu, gelu_new, gelu_fast, "
           "gelu_pytorch_tanh, relu, relu2");
    expect(refusal("t5", "decoder_start_token_id", "61", 12), "c.json",
           "decoder_start_token_id is 61 and pad_token_id 0; ids of tokens are below vocab_size = 61");
    expect(refusal("bart", "encoder_attention_heads", "2", 12), "c.json:/encoder_attention_heads",
           "is 2; the executor needs as many as the decoder has, 4");
}

/* A task of a user's own: loss = mean (x w - y)^2. */
static redco_value line_loss(redco_scope *scope, const void *context)
{
    redco_graph *const g = scope->graph;
    const char *const name = context;
    const redco_value w = redco_scope_weight(scope, name), x = redco_scope_value(scope, "x");
    const redco_value rest = redco_sub(g, redco_matmul(g, x, w, false, false), redco_scope_value(scope, "y"));
    return redco_mean_all(g, redco_mul(g, rest, rest));
}

static const redco_task_parameter line_parameter = {.name = "line.kernel", .layer = "line.0", .rank = 2, .dim = {2, 1}};

static redco_task line_task(const redco_task_input inputs[2], const char *asks_for)
{
    return (redco_task){.name = "line",
                        .parameters = &line_parameter,
                        .parameter_count = 1,
                        .inputs = inputs,
                        .input_count = 2,
                        .loss = line_loss,
                        .context = asks_for};
}

static void tasks_of_a_user_are_built_alike(void **state)
{
    const uint64_t dim_x[2] = {2, 2}, dim_y[2] = {2, 1};
    const redco_task_input inputs[2] = {{"x", redco_type(REDCO_F64, 2, dim_x)}, {"y", redco_type(REDCO_F64, 2, dim_y)}};
    const redco_task task = line_task(inputs, "line.kernel");
    const redco_task_options options = {REDCO_F64, REDCO_F64, true, true, 1};
    const double x[4] = {1, 2, 3, 4}, y[2] = {1, 0}, w[2] = {1, 1};
    double loss = 0, gradient[2] = {0, 0};
    redco_task_graph built;
    redco_backend *backend = NULL;
    redco_error err = {0};
    (void)state;
    must(redco_task_build(&task, &options, &built, &err), &err);
    must(redco_host_open(NULL, &backend, &err), &err);
    const redco_binding bindings[3] = {{built.inputs[0], x}, {built.inputs[1], y}, {built.parameters[0], w}};
    const redco_result results[2] = {{built.loss, &loss}, {built.gradients[0], gradient}};
    must(redco_evaluate(backend, built.graph, bindings, 3, results, 2, &err), &err);
    /* rest = (2, 7): loss = 53 / 2, gradient = x^T rest = (2 + 21, 4 + 28) */
    assert_true(fabs(loss - 26.5) < 1e-14);
    assert_true(fabs(gradient[0] - 23) < 1e-14 && fabs(gradient[1] - 32) < 1e-14);
    redco_task_graph_free(&built);
    redco_backend_close(backend);
}

static redco_value vector_loss(redco_scope *scope, const void *context)
{
    (void)context;
    return redco_scope_value(scope, "x");
}

static void errors_of_a_users_task_are_told(void **state)
{
    const uint64_t dim_x[2] = {2, 3}, dim_y[2] = {2, 1};
    const redco_task_input inputs[2] = {{"x", redco_type(REDCO_F64, 2, dim_x)}, {"y", redco_type(REDCO_F64, 2, dim_y)}};
    const redco_task_options options = {REDCO_F64, REDCO_F64, true, true, 1};
    redco_task task = line_task(inputs, "line.bias");
    redco_task_graph built = {.graph = NULL};
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_task_build(&task, &options, &built, &err), REDCO_EVALUE);
    expect(err, "line.bias", "a function asks for it; the task has no parameter and no input of that name");
    redco_error_clear(&err);
    task = line_task(inputs, "line.kernel"); /* x is [2,3], the kernel [2,1] */
    assert_int_equal(redco_task_build(&task, &options, &built, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "matmul of f64[2,3] (x) and f64[2,1] (line.kernel)"));
    redco_error_clear(&err);
    task.loss = vector_loss;
    assert_int_equal(redco_task_build(&task, &options, &built, &err), REDCO_EVALUE);
    expect(err, "line", "the loss is f64[2,3]; it must be a scalar, f32 or f64");
    assert_null(built.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_the_simulators),
        cmocka_unit_test(parameters_are_the_models),
        cmocka_unit_test(parameters_are_stored_as_products_take_them),
        cmocka_unit_test(members_may_be_left_out),
        cmocka_unit_test(what_is_not_built_is_refused),
        cmocka_unit_test(tasks_of_a_user_are_built_alike),
        cmocka_unit_test(errors_of_a_users_task_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
