#include "rules_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_CASE_PARAMS = 8 };

struct rule_case {
    const char *why;
    uint32_t shards;
    redco_rules_param params[MAX_CASE_PARAMS];
    const char *rules;             /* in order */
    int32_t dims[MAX_CASE_PARAMS]; /* per parameter */
};

/* Wanted values by hand from the published algorithm. */
static const struct rule_case cases[] = {
    {"plain keys alternate between the last dimension and the one before, in order of their names",
     2,
     {P2("z/kernel", 4, 4), P2("a/kernel", 4, 4), P2("m/kernel", 4, 4)},
     "a/kernel[1] m/kernel[0] z/kernel[1]",
     {1, 1, 0}},
    {"a plain key with one valid dimension takes it although it was the last one's",
     2,
     {P2("a/kernel", 4, 4), P2("b/kernel", 3, 4), P2("c/kernel", 4, 4)},
     "a/kernel[1] b/kernel[1] c/kernel[0]",
     {1, 1, 0}},
    {"special and replicated keys take no turn",
     2,
     {P2("a/kernel", 4, 4), P2("b/kernel", 3, 3), P2("c_in/kernel", 4, 4), P2("d/kernel", 4, 4)},
     "a/kernel[1] b/kernel[-] c_in/kernel[1] d/kernel[0]",
     {1, -1, 1, 0}},
    {"one indivisible parameter closes the dimension for the whole key",
     4,
     {P2("x/fc/kernel", 8, 8), P2("y/fc/kernel", 8, 6), P2("e/embedding", 50257, 8), P2("p/embedding", 8, 8)},
     "embedding[1] fc/kernel[0]",
     {0, 0, 1, 1}},
    {"3 shards divide odd sizes", 3, {P2("a/kernel", 9, 4), P2("b/kernel", 4, 6)}, "a/kernel[0] b/kernel[1]", {0, 1}},
    {"ranks that differ replicate the key, whichever comes first and whatever divides",
     2,
     {P2("x/fc/kernel", 4, 4), P3("y/fc/kernel", 4, 4, 3), P1("z/up/kernel", 4), P2("w/up/kernel", 4, 4)},
     "fc/kernel[-] up/kernel[-]",
     {-1, -1, -1, -1}},
    {"convolutions: highest valid of four, then the next lower",
     2,
     {{"a/kernel", 4, {2, 2, 4, 8}}, {"b/kernel", 4, {3, 2, 4, 8}}, {"c/kernel", 4, {3, 3, 3, 8}}},
     "a/kernel[3] b/kernel[2] c/kernel[3]",
     {3, 2, 3}},
    {"in attention q, k, v at either end take the output, o the input; elsewhere they are plain",
     2,
     {P2("attn/wq/kernel", 4, 4), P2("self_Attention/value/kernel", 4, 4), P2("attn/o_proj/kernel", 4, 4),
      P2("attn/proj_o/kernel", 4, 4), P2("mlp/k1/kernel", 4, 4), P2("mlp/k2/kernel", 4, 4)},
     "k1/kernel[1] k2/kernel[0] o_proj/kernel[0] proj_o/kernel[0] value/kernel[1] wq/kernel[1]",
     {1, 1, 0, 0, 1, 0}},
    {"one use outside attention makes a key an ordinary one",
     2,
     {P2("attn/q/kernel", 4, 4), P2("pool/q/kernel", 4, 4), P2("a/kernel", 4, 4)},
     "a/kernel[1] q/kernel[0]",
     {0, 0, 1}},
    {"names of FFN halves and heads; 'in' and 'out' as words between underscores only",
     2,
     {P2("gate_proj/kernel", 4, 4), P2("down/kernel", 4, 4), P2("wi_0/kernel", 4, 4), P2("wo/kernel", 4, 4),
      P2("fc_out/kernel", 4, 4), P2("proj_in_b/kernel", 4, 4), P2("lm_head/kernel", 4, 4), P2("xin/kernel", 4, 4)},
     "down/kernel[0] fc_out/kernel[0] gate_proj/kernel[1] lm_head/kernel[1] proj_in_b/kernel[1] wi_0/kernel[1] "
     "wo/kernel[0] xin/kernel[1]",
     {1, 0, 1, 0, 0, 1, 1, 1}},
    {"a prefix sorts first, and by code point: capitals before small letters, 10 before 2, letters with accents last; "
     "the lone kernel's rule then stands before that of the accented name and matches its path, too",
     2,
     {P2("d2/kernel", 4, 4), P2("d10/kernel", 4, 4), P2("d/kernel", 4, 4), P2("D/kernel", 4, 4),
      P2("\xc3\xa9/kernel", 4, 4), P2("kernel", 4, 4)},
     "D/kernel[1] d/kernel[0] d10/kernel[1] d2/kernel[0] kernel[1] \xc3\xa9/kernel[0]",
     {0, 1, 0, 1, 1, 1}},
    {"the first rule whose names stand anywhere in the path wins, not that of the parameter's own key",
     2,
     {P2("embedding/proj/kernel", 3, 5), P2("e/embedding", 4, 4), P1("embedding/scale", 4)},
     "embedding[0] proj/kernel[-] scale[-]",
     {0, 0, 0}},
    {"neither kernel nor embedding: never split",
     2,
     {P2("final_logits_bias", 4, 8), P2("cls_token", 4, 4), P2("x/weight", 4, 4)},
     "cls_token[-] final_logits_bias[-] weight[-]",
     {-1, -1, -1}},
    {"names with metacharacters are literal",
     2,
     {P2("fc.1/kernel", 4, 4), P2("fcx1/kernel", 4, 4)},
     "fc.1/kernel[1] fcx1/kernel[0]",
     {1, 0}},
    {"a scalar kernel", 2, {{"s/kernel", 0, {0}}}, "s/kernel[-]", {-1}},
    {"1 shard: no rules", 1, {P2("a/kernel", 4, 4)}, "", {-1}},
};

static void hand_made_trees(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024];
        redco_rules *rules = NULL;
        size_t count = 0;
        while (count < MAX_CASE_PARAMS && cases[i].params[count].path != NULL) { count++; }
        assert_int_equal(redco_rules_decide(cases[i].params, count, cases[i].shards, &rules, NULL), REDCO_OK);
        rules_text(rules, text, sizeof text);
        if (strcmp(text, cases[i].rules) != 0) { print_error("%s\n", cases[i].why); }
        assert_string_equal(text, cases[i].rules);
        for (size_t j = 0; j < count; j++) {
            if (redco_rules_dim(rules, j) != cases[i].dims[j]) { print_error("%s: %zu\n", cases[i].why, j); }
            assert_int_equal(redco_rules_dim(rules, j), cases[i].dims[j]);
        }
        redco_rules_free(rules);
    }
    redco_rules_free(NULL);
}

/* A spec as the reference writes it ([] or one entry per dimension) names @p dim. */
static void assert_spec(const json_t *spec, int32_t dim, const char *what)
{
    int32_t wanted = -1;
    assert_true(json_is_array(spec));
    for (size_t i = 0; i < json_array_size(spec); i++) {
        if (json_is_string(json_array_get(spec, i))) { wanted = (int32_t)i; }
    }
    if (wanted != dim) { print_error("%s\n", what); }
    assert_int_equal(dim, wanted);
}

/* The wanted rules, a list of {key, spec} or an object in order, are exactly these. */
static void assert_rules(const redco_rules *rules, const json_t *wanted, const char *what)
{
    const redco_rule *list = NULL;
    const size_t count = redco_rules_list(rules, &list);
    void *walk = json_is_object(wanted) ? json_object_iter((json_t *)(uintptr_t)wanted) : NULL;
    assert_int_equal(count, json_is_object(wanted) ? json_object_size(wanted) : json_array_size(wanted));
    for (size_t i = 0; i < count; i++) {
        const json_t *row = json_array_get(wanted, i);
        const char *key = walk != NULL ? json_object_iter_key(walk) : json_string_value(json_object_get(row, "key"));
        assert_string_equal(list[i].key, key);
        assert_spec(walk != NULL ? json_object_iter_value(walk) : json_object_get(row, "spec"), list[i].dim, what);
        if (walk != NULL) { walk = json_object_iter_next((json_t *)(uintptr_t)wanted, walk); }
    }
}

/* @return how many of the wanted specs the tree has; those must agree */
static size_t compare_specs(const redco_rules_tree *tree, const redco_rules *rules, const json_t *wanted)
{
    const redco_rules_param *params = NULL;
    const size_t count = redco_rules_tree_params(tree, &params);
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        const json_t *spec = json_object_get(wanted, params[i].path);
        if (spec == NULL) { continue; }
        assert_spec(spec, redco_rules_dim(rules, i), params[i].path);
        found++;
    }
    return found;
}

static void trees_decided_by_the_reference(void **state)
{
    redco_json *document = NULL;
    redco_json_value list;
    size_t count = 0;
    (void)state;
    assert_int_equal(redco_json_open(REDCO_TEST_DATA "/rules/reference.json", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    assert_int_equal(redco_json_array(&root, "cases", &list, &count, NULL), REDCO_OK);
    assert_true(count >= 90);
    for (size_t i = 0; i < count; i++) {
        redco_json_value item;
        redco_rules_tree *tree = NULL;
        redco_rules *rules = NULL;
        const redco_rules_param *params = NULL;
        uint32_t shards = 0;
        assert_int_equal(redco_json_element(&list, i, &item, NULL), REDCO_OK);
        assert_int_equal(redco_json_u32(&item, "shards", 2, 64, &shards, NULL), REDCO_OK);
        assert_int_equal(redco_rules_tree_from_json(&item, &tree, NULL), REDCO_OK);
        const size_t params_count = redco_rules_tree_params(tree, &params);
        assert_int_equal(redco_rules_decide(params, params_count, shards, &rules, NULL), REDCO_OK);
        assert_rules(rules, json_object_get(item.json, "rules"), item.pointer);
        assert_int_equal(compare_specs(tree, rules, json_object_get(item.json, "specs")), params_count);
        redco_rules_free(rules);
        redco_rules_tree_free(tree);
    }
    redco_json_close(document);
}

/* Total elements of the golden list, each entry times its count. */
static uint64_t golden_total(const json_t *list)
{
    uint64_t total = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *row = json_array_get(list, i);
        uint64_t elements = (uint64_t)json_integer_value(json_object_get(row, "count"));
        const json_t *shape = json_object_get(row, "shape");
        for (size_t d = 0; d < json_array_size(shape); d++) {
            elements *= (uint64_t)json_integer_value(json_array_get(shape, d));
        }
        total += elements;
    }
    return total;
}

static void check_golden_shards(const redco_rules_tree *tree, const json_t *golden, uint32_t shards)
{
    redco_rules *rules = NULL;
    const redco_rule *list = NULL;
    const redco_rules_param *params = NULL;
    const size_t count = redco_rules_tree_params(tree, &params);
    char key[16];
    (void)snprintf(key, sizeof key, "%u", shards);
    const json_t *wanted = json_object_get(json_object_get(golden, "shards"), key);
    uint64_t mine = 0;
    assert_int_equal(redco_rules_decide(params, count, shards, &rules, NULL), REDCO_OK);
    assert_rules(rules, json_object_get(wanted, "rules"), key);
    const json_t *specs = json_object_get(wanted, "specs");
    assert_int_equal(compare_specs(tree, rules, specs), json_object_size(specs));
    for (size_t i = 0; i < count; i++) {
        uint64_t elements = 1;
        for (uint32_t d = 0; d < params[i].rank; d++) { elements *= params[i].shape[d]; }
        mine += redco_rules_dim(rules, i) >= 0 ? elements / shards : elements;
    }
    assert_int_equal(mine, json_integer_value(json_object_get(wanted, "n_params_per_shard")));
    print_message("%s at %u shards: %zu of %zu rules, %zu of %zu specs agree\n",
                  json_string_value(json_object_get(golden, "model")), shards,
                  json_array_size(json_object_get(wanted, "rules")) +
                      json_object_size(json_object_get(wanted, "rules")),
                  redco_rules_list(rules, &list), compare_specs(tree, rules, specs), json_object_size(specs));
    redco_rules_free(rules);
}

static void check_golden(const char *name)
{
    char path[512];
    redco_json *document = NULL;
    redco_json_value config;
    redco_model *model = NULL;
    redco_rules_tree *tree = NULL;
    const redco_rules_param *params = NULL;
    size_t found = 0;
    (void)snprintf(path, sizeof path, REDCO_SHARED_DIR "/redcoast/golden/%s.json", name);
    assert_int_equal(redco_json_open(path, &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    const json_t *list = json_object_get(root.json, "params");
    const uint64_t total = (uint64_t)json_integer_value(json_object_get(root.json, "n_params"));
    assert_int_equal(redco_json_object(&root, "config", &config, NULL), REDCO_OK);
    assert_int_equal(redco_model_from_json(&config, name, &model, NULL), REDCO_OK);
    assert_int_equal(redco_model_params(model), total);
    assert_int_equal(golden_total(list), total);
    assert_int_equal(redco_rules_tree_from_model(model, true, &tree, NULL), REDCO_OK);
    const size_t count = redco_rules_tree_params(tree, &params);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < json_array_size(list); j++) {
            const json_t *row = json_array_get(list, j);
            if (strcmp(json_string_value(json_object_get(row, "path")), params[i].path) != 0) { continue; }
            assert_true(same_shape(&params[i], json_object_get(row, "shape")));
            found++;
        }
    }
    assert_int_equal(found, json_array_size(list));
    check_golden_shards(tree, root.json, 2);
    check_golden_shards(tree, root.json, 4);
    check_golden_shards(tree, root.json, 8);
    redco_rules_tree_free(tree);
    redco_model_free(model);
    redco_json_close(document);
}

static void golden_models_agree_in_every_rule_and_spec(void **state)
{
    static const char *const names[] = {"gpt-j-6b", "llama-7b", "opt-66b", "t5-11b"};
    (void)state;
    if (access(REDCO_SHARED_DIR "/redcoast/golden/llama-7b.json", R_OK) != 0) {
        print_message("skipped: no " REDCO_SHARED_DIR "/redcoast/golden\n");
        skip();
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) { check_golden(names[i]); }
}

static void wrong_arguments_are_refused(void **state)
{
    static const redco_rules_param param = {.path = "a/kernel", .rank = 9};
    redco_rules *rules = NULL;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_rules_decide(&param, 1, 2, &rules, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "a/kernel");
    redco_error_clear(&err);
    assert_int_equal(redco_rules_decide(&param, 0, 0, &rules, &err), REDCO_EVALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hand_made_trees),
        cmocka_unit_test(trees_decided_by_the_reference),
        cmocka_unit_test(golden_models_agree_in_every_rule_and_spec),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
