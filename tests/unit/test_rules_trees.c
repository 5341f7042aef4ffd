#include "memory_file.h"

#include "rules_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Every path and shape of transformers' Flax class, where it has one that can express the config. */
static void model_trees_are_those_of_the_flax_classes(void **state)
{
    const char *folder = REDCO_TEST_DATA "/models";
    DIR *listing = opendir(folder);
    size_t compared = 0;
    (void)state;
    assert_non_null(listing);
    for (const struct dirent *item = readdir(listing); item != NULL; item = readdir(listing)) {
        char path[512];
        redco_json *document = NULL;
        redco_json_value config;
        redco_model *model = NULL;
        redco_rules_tree *tree = NULL;
        const redco_rules_param *params = NULL;
        if (strstr(item->d_name, ".json") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        assert_int_equal(redco_json_open(path, &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        const json_t *wanted = json_object_get(root.json, "flax");
        if (json_is_object(wanted)) {
            assert_int_equal(redco_json_object(&root, "config", &config, NULL), REDCO_OK);
            assert_int_equal(redco_model_from_json(&config, item->d_name, &model, NULL), REDCO_OK);
            assert_int_equal(redco_rules_tree_from_model(model, true, &tree, NULL), REDCO_OK);
            const size_t count = redco_rules_tree_params(tree, &params);
            for (size_t i = 0; i < count; i++) {
                const json_t *shape = json_object_get(wanted, params[i].path);
                if (shape == NULL || !same_shape(&params[i], shape)) {
                    print_error("%s: %s\n", item->d_name, params[i].path);
                }
                assert_true(shape != NULL && same_shape(&params[i], shape));
            }
            if (count != json_object_size(wanted)) { print_error("%s\n", item->d_name); }
            assert_int_equal(count, json_object_size(wanted));
            compared++;
        }
        redco_rules_tree_free(tree);
        redco_model_free(model);
        redco_json_close(document);
    }
    (void)closedir(listing);
    assert_true(compared >= 17);
}

/* Layer 0 of each class decides the same rules as all layers. */
static void one_layer_decides_for_all(void **state)
{
    char one[2048];
    char all[2048];
    redco_model *model = NULL;
    (void)state;
    assert_int_equal(redco_model_read("bart-large", &model, NULL), REDCO_OK);
    for (int every = 0; every <= 1; every++) {
        redco_rules_tree *tree = NULL;
        redco_rules *rules = NULL;
        const redco_rules_param *params = NULL;
        assert_int_equal(redco_rules_tree_from_model(model, every == 1, &tree, NULL), REDCO_OK);
        const size_t count = redco_rules_tree_params(tree, &params);
        /* 7 outside the layers, 16 in an encoder layer, 26 in a decoder layer, final_logits_bias */
        assert_int_equal(count, every == 1 ? 7 + 12 * (16 + 26) + 1 : 7 + 16 + 26 + 1);
        assert_int_equal(redco_rules_decide(params, count, 4, &rules, NULL), REDCO_OK);
        rules_text(rules, every == 1 ? all : one, sizeof one);
        redco_rules_free(rules);
        redco_rules_tree_free(tree);
    }
    assert_string_equal(one, all);
    redco_model_free(model);
}

/* Where layers of two classes take turns, each keeps its number in the stack, and the model's order. */
static void layers_keep_their_numbers(void **state)
{
    static const char text[] = "{\"model_type\": \"gemma2\", \"num_hidden_layers\": 4}";
    redco_model *model = NULL;
    redco_rules_tree *tree = NULL;
    const redco_rules_param *params = NULL;
    json_t *const json = json_loads(text, 0, NULL);
    const redco_json_value config = {.json = json, .name = "gemma2"};
    char name[REDCO_RULES_PATH_BYTES];
    uint32_t next = 0;
    (void)state;
    assert_int_equal(redco_model_from_json(&config, "gemma2", &model, NULL), REDCO_OK);
    assert_int_equal(redco_rules_tree_from_model(model, true, &tree, NULL), REDCO_OK);
    const size_t count = redco_rules_tree_params(tree, &params);
    for (size_t i = 0; i < count; i++) {
        char wanted[80], path[80];
        (void)snprintf(wanted, sizeof wanted, "model.layers.%u.mlp.down_proj.weight", next);
        (void)snprintf(path, sizeof path, "model/layers/%u/mlp/down_proj/kernel", next);
        if (strstr(params[i].path, "down_proj") == NULL) { continue; }
        assert_string_equal(params[i].path, path);
        assert_string_equal(redco_rules_tree_name(tree, model, i, name), wanted);
        next++;
    }
    assert_int_equal(next, 4);
    redco_rules_tree_free(tree);
    redco_model_free(model);
    json_decref(json);
}

/* One tensor of a file. */
struct torch_tensor {
    const char *name, *shape;
};

/* A file of nothing but its header: 8 bytes of length, JSON. */
static redco_status tree_of_json(json_t *header, redco_rules_tree **tree_out, redco_error *err)
{
    redco_safetensors *tensors = NULL;
    char *text = json_dumps(header, JSON_COMPACT);
    assert_non_null(text);
    const size_t length = strlen(text);
    unsigned char *file = malloc(8 + length);
    assert_non_null(file);
    for (size_t i = 0; i < 8; i++) { file[i] = (unsigned char)(length >> (8 * i)); }
    memcpy(file + 8, text, length);
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const stream = memory_file(file, 8 + length, path);
    assert_int_equal(redco_safetensors_open(path, &tensors, NULL), REDCO_OK);
    (void)fclose(stream);
    const redco_status st = redco_rules_tree_from_safetensors(tensors, "m.safetensors", tree_out, err);
    redco_safetensors_free(tensors);
    free(file);
    free(text);
    json_decref(header);
    return st;
}

static void add_tensor(json_t *header, const char *name, json_t *shape)
{
    json_int_t size = 4;
    json_int_t begin = 0;
    size_t i = 0;
    const char *other = NULL;
    json_t *value = NULL;
    json_array_foreach(shape, i, value)
    {
        size *= json_integer_value(value);
    }
    json_object_foreach(header, other, value)
    {
        const json_int_t end = json_integer_value(json_array_get(json_object_get(value, "data_offsets"), 1));
        begin = end > begin ? end : begin;
    }
    json_t *offsets = json_pack("[I,I]", begin, begin + size);
    assert_int_equal(
        json_object_set_new(header, name,
                            json_pack("{s:s,s:o,s:o}", "dtype", "F32", "shape", shape, "data_offsets", offsets)),
        0);
}

static redco_status tree_of(const struct torch_tensor *tensors, size_t count, redco_rules_tree **tree_out,
                            redco_error *err)
{
    json_t *header = json_object();
    for (size_t i = 0; i < count; i++) { add_tensor(header, tensors[i].name, json_loads(tensors[i].shape, 0, NULL)); }
    return tree_of_json(header, tree_out, err);
}

static void torch_names_become_flax_names(void **state)
{
    static const struct torch_tensor tensors[] = {
        {"model.embed_tokens.weight", "[32,8]"},
        {"model.layers.0.q_proj.weight", "[16,8]"},
        {"model.norm.weight", "[8]"},
        {"model.ln.weight", "[8]"},
        {"model.ln.bias", "[8]"},
        {"block.SelfAttention.relative_attention_bias.weight", "[32,4]"},
        {"embed_out.weight", "[32,8]"},
        {"embeddings_project.weight", "[8,4]"},
        {"conv.weight", "[2,3,5,6]"},
        {"conv1d.weight", "[2,3,5]"},
        {"cls_token", "[1,8]"},
        {"blocks.0.tok_emb.weight", "[32,8]"},
        {"h.0.attn.c_attn.weight", "[8,24]"},
    };
    static const redco_rules_param wanted[] = {
        P2("model/embed_tokens/embedding", 32, 8), /* a table keeps its order */
        P2("model/layers/0/q_proj/kernel", 8, 16), /* [out, in] to (in, out) */
        P1("model/norm/weight", 8),                /* no bias: an RMS norm */
        P1("model/ln/scale", 8),                   /* with a bias: a layer norm */
        P1("model/ln/bias", 8),
        P2("block/SelfAttention/relative_attention_bias/embedding", 32, 4),
        P2("embed_out/kernel", 8, 32),         /* a head in spite of its name */
        P2("embeddings_project/kernel", 4, 8), /* likewise a linear */
        {"conv/kernel", 4, {5, 6, 3, 2}},      /* (out, in, h, w) to (h, w, in, out) */
        {"conv1d/kernel", 3, {5, 3, 2}},
        P2("cls_token", 1, 8),
        P2("blocks/0/tok_emb/embedding", 32, 8),
        P2("h/0/attn/c_attn/kernel", 24, 8), /* GPT-2: torch has [in, out], Flax (out, in) */
    };
    redco_rules_tree *tree = NULL;
    const redco_rules_param *params = NULL;
    (void)state;
    assert_int_equal(tree_of(tensors, sizeof tensors / sizeof tensors[0], &tree, NULL), REDCO_OK);
    assert_int_equal(redco_rules_tree_params(tree, &params), sizeof wanted / sizeof wanted[0]);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const redco_rules_param *found = find_param(tree, wanted[i].path);
        if (found == NULL || found->rank != wanted[i].rank) {
            fail_msg("%s is absent or of another rank", wanted[i].path);
            return;
        }
        assert_memory_equal(found->shape, wanted[i].shape, wanted[i].rank * sizeof wanted[i].shape[0]);
    }
    redco_rules_tree_free(tree);
    redco_rules_tree_free(NULL);
}

static void different_names_must_stay_different(void **state)
{
    static const struct torch_tensor tensors[] = {{"a.b.bias", "[8]"}, {"a/b.bias", "[8]"}};
    redco_rules_tree *tree = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(tree_of(tensors, 2, &tree, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "a/b/bias is there twice"));
}

static bool ends_with(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* The same parameter in a tree made from names alone, where a layer norm without bias looks like an RMS norm. */
static const redco_rules_param *find_alike(const redco_rules_tree *tree, const redco_rules_param *param)
{
    char path[512];
    const redco_rules_param *found = find_param(tree, param->path);
    if (found != NULL || !ends_with(param->path, "/scale")) { return found; }
    (void)snprintf(path, sizeof path, "%.*sweight", (int)(strlen(param->path) - strlen("scale")), param->path);
    return find_param(tree, path);
}

/* The names and shapes that torch gives to a model of every family make the tree that its config makes: the same
 * linears, tables, transpositions, and the same splits. */
static void torch_files_of_every_family_make_the_tree_of_the_config(void **state)
{
    const char *folder = REDCO_TEST_DATA "/models";
    DIR *listing = opendir(folder);
    size_t compared = 0;
    size_t tensors = 0;
    (void)state;
    assert_non_null(listing);
    for (const struct dirent *item = readdir(listing); item != NULL; item = readdir(listing)) {
        char path[512];
        redco_json *document = NULL;
        redco_json_value config;
        redco_model *model = NULL;
        redco_rules_tree *trees[2] = {NULL, NULL};
        redco_rules *rules[2] = {NULL, NULL};
        const redco_rules_param *params[2] = {NULL, NULL};
        if (strstr(item->d_name, ".json") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        assert_int_equal(redco_json_open(path, &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        assert_int_equal(redco_json_object(&root, "config", &config, NULL), REDCO_OK);
        assert_int_equal(redco_model_from_json(&config, item->d_name, &model, NULL), REDCO_OK);
        assert_int_equal(redco_rules_tree_from_model(model, true, &trees[0], NULL), REDCO_OK);
        json_t *header = json_object();
        const char *name = NULL;
        json_t *shape = NULL;
        json_object_foreach(json_object_get(root.json, "tensors"), name, shape)
        {
            add_tensor(header, name, json_deep_copy(shape));
        }
        assert_int_equal(tree_of_json(header, &trees[1], NULL), REDCO_OK);
        size_t count = redco_rules_tree_params(trees[0], &params[0]);
        const size_t torch_count = redco_rules_tree_params(trees[1], &params[1]);
        assert_int_equal(redco_rules_decide(params[0], count, 2, &rules[0], NULL), REDCO_OK);
        assert_int_equal(redco_rules_decide(params[1], torch_count, 2, &rules[1], NULL), REDCO_OK);
        for (size_t i = 0; i < redco_rules_tree_params(trees[0], &params[0]); i++) {
            if (strcmp(params[0][i].path, "final_logits_bias") == 0) { /* a buffer in torch */
                count--;
                continue;
            }
            const redco_rules_param *found = find_alike(trees[1], &params[0][i]);
            if (found == NULL) {
                fail_msg("%s: no %s", item->d_name, params[0][i].path);
                return;
            }
            assert_int_equal(found->rank, params[0][i].rank);
            assert_memory_equal(found->shape, params[0][i].shape, found->rank * sizeof found->shape[0]);
            assert_int_equal(redco_rules_dim(rules[1], (size_t)(found - params[1])), redco_rules_dim(rules[0], i));
        }
        assert_int_equal(torch_count, count);
        tensors += count;
        compared++;
        for (int i = 0; i < 2; i++) {
            redco_rules_free(rules[i]);
            redco_rules_tree_free(trees[i]);
        }
        redco_model_free(model);
        redco_json_close(document);
    }
    (void)closedir(listing);
    print_message("%zu models, %zu tensors: torch names make the tree of the config\n", compared, tensors);
    assert_true(compared >= 29);
}

struct bad_row {
    const char *text, *place, *what;
};

static const struct bad_row bad[] = {
    {"{}", "p.json:/params", "is missing"},
    {"[]", "p.json", "is an array"},
    {"{\"params\":{}}", "p.json:/params", "an array is needed"},
    {"{\"params\":[]}", "p.json:/params", "has 0 entries; 1 to 1000000 are needed"},
    {"{\"params\":[7]}", "p.json:/params/0", "is a number"},
    {"{\"params\":[{\"path\":\"a\"}]}", "p.json:/params/0/shape", "is missing"},
    {"{\"params\":[{\"shape\":[1]}]}", "p.json:/params/0/path", "is missing"},
    {"{\"params\":[{\"path\":\"\",\"shape\":[1]}]}", "p.json:/params/0/path", "names joined with '/'"},
    {"{\"params\":[{\"path\":\"a//b\",\"shape\":[1]}]}", "p.json:/params/0/path", "names joined with '/'"},
    {"{\"params\":[{\"path\":\"a\",\"shape\":[0]}]}", "p.json:/params/0/shape", "positive whole numbers"},
    {"{\"params\":[{\"path\":\"a\",\"shape\":[1,-2]}]}", "p.json:/params/0/shape", "positive whole numbers"},
    {"{\"params\":[{\"path\":\"a\",\"shape\":[1,1,1,1,1,1,1,1,1]}]}", "p.json:/params/0/shape", "has 9 dimensions"},
    {"{\"params\":[{\"path\":\"a\",\"shape\":[1]},{\"path\":\"a\",\"shape\":[1]}]}", "p.json:/params",
     "the parameter a is there twice"},
};

static void bad_lists_name_the_entry(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_json *document = NULL;
        redco_rules_tree *tree = NULL;
        redco_error err = {0};
        assert_int_equal(redco_json_parse(bad[i].text, strlen(bad[i].text), "p.json", &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        assert_int_equal(redco_rules_tree_from_json(&root, &tree, &err), REDCO_EVALUE);
        assert_string_equal(err.place, bad[i].place);
        assert_non_null(strstr(err.text, bad[i].what));
        redco_json_close(document);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(model_trees_are_those_of_the_flax_classes),
        cmocka_unit_test(one_layer_decides_for_all),
        cmocka_unit_test(layers_keep_their_numbers),
        cmocka_unit_test(torch_names_become_flax_names),
        cmocka_unit_test(torch_files_of_every_family_make_the_tree_of_the_config),
        cmocka_unit_test(different_names_must_stay_different),
        cmocka_unit_test(bad_lists_name_the_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
