/* Mixtures of experts: their tensors, classes, records and bytes against counts by hand and published numbers. */
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/models/model.h"
#include "costmodel/operators/compute.h"
#include "published_mixtures.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLISHED REDCO_SHARED_DIR "/models/"

static redco_model *read_path(const char *path)
{
    redco_model *model = NULL;
    redco_error err = {0};
    if (redco_model_read(path, &model, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return model;
}

static redco_model *own(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/models/mixtures/%s.json", REDCO_TEST_DATA, name);
    return read_path(path);
}

/* NULL: the file is not there. */
static redco_model *read_published(const char *name)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s%s.json", PUBLISHED, name);
    FILE *const stream = fopen(path, "r");
    if (stream == NULL) { return NULL; }
    (void)fclose(stream);
    return read_path(path);
}

static void published_models_have_their_parameters(void **state)
{
    (void)state;
    for (size_t i = 0; i < PUBLISHED_MIXTURES; i++) {
        redco_model *const model = read_published(published_mixtures[i].name);
        if (model == NULL) {
            print_message("no %s%s.json\n", PUBLISHED, published_mixtures[i].name);
            skip();
        }
        if (redco_model_params(model) != published_mixtures[i].params) {
            print_error("%s\n", published_mixtures[i].name);
        }
        assert_int_equal(redco_model_params(model), published_mixtures[i].params);
        assert_null(redco_model_warning(model, 0));
        redco_model_free(model);
    }
}

static const redco_layer_class *class_named(const redco_model *model, const char *name, uint32_t *index_out)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    for (uint32_t c = 0; c < count; c++) {
        if (strcmp(classes[c].name, name) != 0) { continue; }
        if (index_out != NULL) { *index_out = c; }
        return &classes[c];
    }
    fail_msg("no class %s", name);
    return NULL;
}

/* hidden 8, heads of 4. Attention: q 8 x 8 + 8, k and v 8 x 4 + 4 each, o 64, two norms: 72 + 72 + 64 + 16 = 224. FFN
 * 3 x 8 x 12 = 288. Experts: router 8 x 4, 4 x 3 x 8 x 6, shared 3 x 8 x 10, its gate 8: 32 + 576 + 240 + 8 = 856, of
 * which 288 are of experts that a token does not choose. Every second layer has experts, but not the fourth. */
static void layers_with_experts_are_a_class(void **state)
{
    const redco_layer_run *runs = NULL;
    redco_model *const model = own("qwen2-moe");
    (void)state;
    const redco_layer_class *const dense = class_named(model, "dense", NULL), *const moe =
                                                                                  class_named(model, "moe", NULL);
    assert_int_equal(dense->layers, 3);
    assert_int_equal(dense->params, 224 + 288);
    assert_int_equal(dense->active_params, dense->params);
    assert_int_equal(moe->layers, 1);
    assert_int_equal(moe->params, 224 + 856);
    assert_int_equal(moe->active_params, 224 + 856 - 288);
    assert_int_equal(redco_model_params(model), 2 * 32 * 8 + 8 + 3 * 512 + 1080);
    assert_int_equal(redco_model_active_params(model), 2 * 32 * 8 + 8 + 3 * 512 + 792);
    assert_int_equal(redco_model_order(model, &runs), 5); /* embedding, dense, moe, two dense, head */
    assert_int_equal(runs[2].index, 1);
    assert_int_equal(runs[3].layers, 2);
    redco_model_free(model);
}

/* hidden 8, 2 heads; q 6, kv 5, n 3, r 2, u 4. Attention: 8 x 6 + 6 + 6 x 10 + 8 x 7 + 5 + 5 x 14 + 8 x 8 = 309; norms
 * 16. FFN 240; router 32, experts 4 x 3 x 8 x 3 = 288, shared 3 x 8 x 6 = 144. A module of prediction has beside its
 * layer 2 norms, 8 x 16, a final norm, and copies of table and head: 16 + 128 + 8 + 256. */
static void latent_attention_and_predictions(void **state)
{
    redco_model *const model = own("deepseek-v3");
    (void)state;
    assert_int_equal(class_named(model, "dense", NULL)->params, 325 + 240);
    assert_int_equal(class_named(model, "moe", NULL)->params, 325 + 464);
    const redco_layer_class *const mtp = class_named(model, "mtp", NULL);
    assert_int_equal(mtp->params, 325 + 464 + 408);
    assert_int_equal(mtp->active_params, 325 + 320 + 408 - 128); /* its table is looked up */
    assert_int_equal(redco_model_params(model), 264 + 565 + 2 * 789 + 1197);
    redco_model_free(model);
}

/* hidden 8, 4 heads of 2: q and o 8 x 8 + 8, k and v 8 x 4 + 4, 4 sinks, norms 16; router 8 x 2 + 2, gate and up 2 x 8
 * x 10 + 2 x 10, down 2 x 5 x 8 + 2 x 8: 530 a layer, of which the second sees all keys. */
static void biases_of_experts_and_windows(void **state)
{
    redco_model *const model = own("gpt-oss");
    (void)state;
    const redco_layer_class *const window = class_named(model, "window", NULL);
    assert_int_equal(window->params, 530);
    assert_int_equal(window->layers, 2);
    assert_int_equal(window->window, 128);
    assert_int_equal(class_named(model, "full", NULL)->layers, 1);
    assert_int_equal(redco_model_params(model), 3 * 530 + 2 * 128 + 8);
    redco_model_free(model);
}

/* As the generic model, a layer of 208 - 16 (no biases) + 16 + experts 848 or FFN 288; table and head 512, norm 8. */
static void tables_of_runs_know_mixtures(void **state)
{
    redco_model *model = own("generic"), *again = NULL;
    const uint64_t params = 520 + (192 + 16 + 288) + (192 + 16 + 848);
    (void)state;
    assert_int_equal(redco_model_params(model), params);
    redco_model_dims dims = *redco_model_get_dims(model);
    redco_model_free(model);
    assert_int_equal(redco_model_from_dims(&dims, "row", &again, NULL), REDCO_OK);
    assert_int_equal(redco_model_params(again), params);
    redco_model_free(again);
}

static void unknown_types_are_read_as_the_nearest(void **state)
{
    redco_model *const model = own("unknown");
    (void)state;
    assert_string_equal(redco_model_type(model), "glm4_moe");
    assert_non_null(strstr(redco_model_warning(model, 0),
                           "\"someone_moe\" is not a model type that redco knows; read as the nearest, glm4_moe"));
    assert_non_null(strstr(redco_model_warning(model, 1), "1 key is not known for glm4_moe, which may change what it "
                                                          "computes: \"moe_gate_norm\": true"));
    redco_model_free(model);
}

#define SIZES                                                                                                          \
    "\"hidden_size\": 8, \"intermediate_size\": 12, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "            \
    "\"vocab_size\": 32"

static void bad_mixtures_name_the_key(void **state)
{
    static const struct {
        const char *config, *place, *text;
    } bad[] = {
        {"{\"model_type\": \"mixtral\", " SIZES "}", "config:/num_local_experts",
         "is missing; a mixture of type \"mixtral\" is known by its dimensions alone"},
        {"{\"model_type\": \"mixtral\", " SIZES ", \"num_local_experts\": 4, \"num_experts_per_tok\": 5}",
         "config:/num_experts_per_tok", "is 5 of 4 experts"},
        {"{\"model_type\": \"next_moe\", " SIZES ", \"num_experts\": 4, \"num_experts_per_tok\": 2, "
         "\"linear_num_key_heads\": 2}",
         "config:/linear_num_key_heads", "is a key of linear attention, which redco does not know"},
        {"{\"model_type\": \"deepseek_v3\", " SIZES ", \"index_topk\": 2048}", "config:/index_topk",
         "is a key of sparse attention"},
        {"{\"model_type\": \"hybrid\", " SIZES ", \"mamba_d_state\": 16}", "config:/mamba_d_state",
         "is a key of Mamba layers"},
        {"{\"model_type\": \"qwen3_moe\", " SIZES ", \"num_experts\": 4, \"num_experts_per_tok\": 2, "
         "\"moe_intermediate_size\": 6, \"mlp_only_layers\": [2]}",
         "config:/mlp_only_layers", "entry 0 is no layer of 2"},
        {"{\"model_type\": \"dbrx\", \"d_model\": 8, \"n_layers\": 2, \"n_heads\": 2, \"vocab_size\": 32}",
         "config:/ffn_config", "is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_json *document = NULL;
        redco_model *model = NULL;
        redco_error err = {0};
        assert_int_equal(redco_json_parse(bad[i].config, strlen(bad[i].config), "config", &document, &err), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        assert_int_equal(redco_model_from_json(&root, NULL, &model, &err), REDCO_EVALUE);
        assert_string_equal(err.place, bad[i].place);
        if (strstr(err.text, bad[i].text) == NULL) { fail_msg("%s: %s", bad[i].place, err.text); }
        redco_json_close(document);
    }
}

/* Names and, where they have some, shapes: checkpoints have one tensor an expert or one for all. */
static void checkpoints_of_both_kinds_are_read(void **state)
{

    static const char *const wanted[] = {"each", "all", "none"};
    redco_model *const model = own("unknown");
    const redco_param *params = NULL;
    const redco_layer_run *runs = NULL;
    const size_t count = redco_model_tensors(model, &params);
    (void)redco_model_order(model, &runs);
    (void)state;
    for (size_t kind = 0; kind < sizeof wanted / sizeof wanted[0]; kind++) {
        json_t *const map = json_object(), *const index = json_pack("{s:{s:i}}", "metadata", "total_size", 2 * 4000);
        for (size_t i = 0; i < count; i++) {
            for (uint32_t layer = 0; layer < params[i].count; layer++) {
                char name[200], with[200];
                const char *const brace = strstr(params[i].name, "{}");
                (void)snprintf(name, sizeof name, "%.*s%u%s", brace != NULL ? (int)(brace - params[i].name) : 0,
                               params[i].name, layer, brace != NULL ? brace + 2 : "");
                if (brace == NULL) { (void)snprintf(name, sizeof name, "%s", params[i].name); }
                char *const expert = strstr(name, "{}");
                for (uint32_t e = 0; e < 4 && expert != NULL && kind == 0; e++) {
                    (void)snprintf(with, sizeof with, "%.*s%u%s", (int)(expert - name), name, e, expert + 2);
                    (void)json_object_set_new(map, with, json_string("a"));
                }
                if (expert != NULL && kind == 1) {
                    const bool down = params[i].use == REDCO_USE_EXPERT_DOWN;
                    (void)snprintf(with, sizeof with, "%.*s%s", (int)(expert - name), name,
                                   down ? "down_proj" : "gate_up_proj");
                    (void)json_object_set_new(map, with, json_string("a"));
                }
                if (expert == NULL) { (void)json_object_set_new(map, name, json_string("a")); }
            }
        }
        (void)json_object_set_new(index, "weight_map", map);
        const char *const path = "mixture.safetensors.index.json";
        assert_int_equal(json_dump_file(index, path, 0), 0);
        json_decref(index);
        redco_error err = {0};
        const redco_status st = redco_model_check_safetensors(model, path, &err);
        if (kind < 2 && st != REDCO_OK) { fail_msg("%s: %s: %s", wanted[kind], err.place, err.text); }
        if (kind == 2) { assert_non_null(strstr(err.text, "has neither a tensor of each expert nor one of all")); }
        (void)remove(path);
    }

    redco_model_free(model);
}

static const redco_operator *operator_of(const redco_operator *ops, uint32_t count, const char *role)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(redco_op_role_name(ops[i].role), role) == 0) { return &ops[i]; }
    }
    fail_msg("no operator %s", role);
    return NULL;
}

/* FLOPs of a token in one layer of DeepSeek-V3 at 4096 tokens: MLA by Megatron-LM, training/training.py (h 7168, 128
 * heads, q 1536, kv 512, n 128, r 64, u 128), the core s a (n + r + u), causal; the mixture 2 h E, 4 K h e, 2 K e h and
 * 6 h S in all with E 256, K 8, e and S 2048. */
static const struct {
    const char *role;
    double flops;
} layer_flops[] = {
    {"q_down", 2.0 * 7168 * 1536},    {"q_up", 2.0 * 1536 * 128 * 192},     {"kv_down", 2.0 * 7168 * 576},
    {"kv_up", 2.0 * 512 * 128 * 256}, {"attention", 4096.0 * 128 * 320},    {"out", 2.0 * 128 * 128 * 7168},
    {"router", 2.0 * 7168 * 256},     {"expert_in", 4.0 * 8 * 7168 * 2048}, {"expert_out", 2.0 * 8 * 2048 * 7168},
    {"shared_in", 4.0 * 7168 * 2048}, {"shared_out", 2.0 * 2048 * 7168},
};

static void records_have_the_operators_of_the_layer(void **state)
{
    redco_model *const model = read_published("deepseek-v3");
    uint32_t moe = 0;
    redco_operator ops[REDCO_OPERATORS_MAX];
    (void)state;
    if (model == NULL) { skip(); }
    (void)class_named(model, "moe", &moe);
    const redco_shape shape = {.seq_len = 4096,
                               .micro_batch = 1,
                               .tp = 1,
                               .cp = 1,
                               .precision = REDCO_BF16,
                               .engine.imbalance_percent = 100}; /* all ranks have as many rows */
    const uint32_t count = redco_layer_operators(model, moe, &shape, ops);
    for (size_t i = 0; i < sizeof layer_flops / sizeof layer_flops[0]; i++) {
        const redco_operator *const op = operator_of(ops, count, layer_flops[i].role);
        if (op->flops != 4096.0 * layer_flops[i].flops) { print_error("%s\n", layer_flops[i].role); }
        assert_true(op->flops == 4096.0 * layer_flops[i].flops);
    }
    /* All experts' matrices are read: 8 x 4096 rows in and out, and 256 x 7168 x 2048, twice in the first product. */
    const redco_operator *const in = operator_of(ops, count, "expert_in");
    assert_int_equal(in->experts, 256);
    assert_true(in->bytes == 2.0 * (32768.0 * 7168 + 256.0 * 7168 * 4096 + 32768.0 * 4096));
    /* A row is read for a token, and written for each of its experts; back likewise. */
    assert_true(operator_of(ops, count, "permute")->bytes == 2.0 * 4096 * 7168 * 9);
    assert_true(operator_of(ops, count, "unpermute")->bytes == 2.0 * 4096 * 7168 * 9);
    redco_model_free(model);
}

/* Bytes that Megatron with Transformer Engine keeps of a token in such a layer: 2 h of each of layer input, second
 * norm's input and both norms' outputs; the latents and their norms' outputs; queries, keys and values, attention's
 * output and 4 bytes a head; 4 bytes for each of four norms; scores of experts; rows, both products' results in, what
 * the activation made of them; shared experts (../shared/reference/moe.md, section 4, but for the norms' statistics and
 * the shared key before it is rotated). */
static void kept_bytes_are_those_of_the_table(void **state)
{
    redco_model *const model = read_published("deepseek-v3");
    uint32_t moe = 0;
    (void)state;
    if (model == NULL) { skip(); }
    (void)class_named(model, "moe", &moe);
    const redco_shape shape = {.seq_len = 4096,
                               .micro_batch = 1,
                               .tp = 1,
                               .cp = 1,
                               .precision = REDCO_BF16,
                               .engine = {.memory = REDCO_MEMORY_MEGATRON, .software = REDCO_SOFTWARE_TE_XLA}};
    const uint64_t token = 8 * 7168 + 4 * (1536 + 512) + 2 * 128 * (2 * 192 + 128) + 2 * 128 * 128 + 4 * 128 + 4 * 4 +
                           9 * 256 + 2 * 8 * 7168 + 4 * 8 * 2048 + 2 * 8 * 2048 + 6 * 2048;
    /* Norms of layers with latent attention and experts are kernels of their own: what they make, and a statistic. */
    static const struct {
        redco_recompute set;
        uint64_t token_bytes;
    } freed[] = {
        {REDCO_RECOMPUTE_NONE, 0},
        {REDCO_RECOMPUTE_MLP, 0},
        {REDCO_RECOMPUTE_LAYERNORM, 2 * (2 * 7168 + 4)},
        {REDCO_RECOMPUTE_MLA_UP_PROJ, 2 * 128 * (2 * 192 + 128)},
        {REDCO_RECOMPUTE_MOE_ACT, 2 * 8 * 2048},
        {REDCO_RECOMPUTE_SHARED_EXPERTS, 6 * 2048},
        {REDCO_RECOMPUTE_MOE, 9 * 256 + 2 * 8 * 7168 + 6 * 8 * 2048 + 6 * 2048},
        {REDCO_RECOMPUTE_MOE_ACT | REDCO_RECOMPUTE_LAYERNORM, 2 * (2 * 7168 + 4) + 2 * 8 * 2048},
        {REDCO_RECOMPUTE_MOE | REDCO_RECOMPUTE_SHARED_EXPERTS, 9 * 256 + 2 * 8 * 7168 + 6 * 8 * 2048 + 6 * 2048}};
    redco_recompute_list sets = {.count = 0};
    for (size_t i = 0; i < sizeof freed / sizeof freed[0]; i++) { sets.sets[sets.count++] = freed[i].set; }
    const redco_saved_bytes saved = redco_saved_of(model, moe, &shape, REDCO_SAVER_TE, &sets);
    assert_int_equal(saved.kept, 4096 * token);
    for (size_t i = 0; i < sizeof freed / sizeof freed[0]; i++) {
        if (saved.freed[i] != 4096 * freed[i].token_bytes) {
            fail_msg("set %u frees %llu bytes a token, not %llu", freed[i].set,
                     (unsigned long long)(saved.freed[i] / 4096), (unsigned long long)freed[i].token_bytes);
        }
    }
    redco_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_models_have_their_parameters),
        cmocka_unit_test(layers_with_experts_are_a_class),
        cmocka_unit_test(latent_attention_and_predictions),
        cmocka_unit_test(biases_of_experts_and_windows),
        cmocka_unit_test(tables_of_runs_know_mixtures),
        cmocka_unit_test(unknown_types_are_read_as_the_nearest),
        cmocka_unit_test(bad_mixtures_name_the_key),
        cmocka_unit_test(checkpoints_of_both_kinds_are_read),
        cmocka_unit_test(records_have_the_operators_of_the_layer),
        cmocka_unit_test(kept_bytes_are_those_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
