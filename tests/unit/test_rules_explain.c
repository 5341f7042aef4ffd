#include "rules_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

/* A preset, a config or a list of parameters. */
static void open_case(const redco_json_value *item, redco_rules_setting *setting, redco_rules_tree **tree_out)
{
    redco_model *model = NULL;
    redco_json_value config;
    const char *preset = NULL;
    if (redco_json_has(item, "params")) {
        redco_rules_part *parts = NULL;
        const redco_rules_param *params = NULL;
        assert_int_equal(redco_json_u32(item, "heads", 1, 1000, &setting->heads, NULL), REDCO_OK);
        setting->kv_heads = setting->heads;
        assert_int_equal(redco_rules_tree_from_json(item, tree_out, NULL), REDCO_OK);
        const size_t count = redco_rules_tree_params(*tree_out, &params);
        assert_int_equal(redco_rules_parts(params, count, &parts, NULL), REDCO_OK);
        setting->tied = redco_rules_seem_tied(params, parts, count);
        free(parts);
        return;
    }
    if (redco_json_has(item, "preset")) {
        assert_int_equal(redco_json_string(item, "preset", &preset, NULL), REDCO_OK);
        assert_int_equal(redco_model_read(preset, &model, NULL), REDCO_OK);
    } else {
        assert_int_equal(redco_json_object(item, "config", &config, NULL), REDCO_OK);
        assert_int_equal(redco_model_from_json(&config, NULL, &model, NULL), REDCO_OK);
    }
    assert_int_equal(redco_rules_tree_from_model(model, false, tree_out, NULL), REDCO_OK);
    const redco_model_dims *dims = redco_rules_tree_dims(*tree_out);
    assert_non_null(dims);
    *setting = (redco_rules_setting){setting->shards, dims->heads, dims->kv_heads, dims->tied};
    redco_model_free(model);
}

static bool is_wanted(const json_t *wanted, const char *text)
{
    for (size_t i = 0; i < json_array_size(wanted); i++) {
        if (strcmp(json_string_value(json_array_get(wanted, i)), text) == 0) { return true; }
    }
    return false;
}

/* Exactly the concerns that are known, each as "concern:role" (of the first parameter). */
static void assert_concerns(const struct explained *explained, const json_t *wanted, const char *model)
{
    for (size_t i = 0; i < explained->warning_count; i++) {
        char text[80];
        const redco_rules_warning *warning = &explained->warnings[i];
        (void)snprintf(text, sizeof text, "%s:%s", redco_concern_name(warning->concern),
                       redco_role_name(explained->parts[warning->param].role));
        if (!is_wanted(wanted, text)) {
            fail_msg("%s at %u: %s, %s", model, explained->setting.shards, text, warning->text);
        }
    }
    if (explained->warning_count != json_array_size(wanted)) {
        fail_msg("%s at %u: %zu concerns, %zu are known", model, explained->setting.shards, explained->warning_count,
                 json_array_size(wanted));
    }
}

static void known_quirks_of_models(void **state)
{
    redco_json *document = NULL;
    redco_json_value list;
    size_t count = 0;
    size_t compared = 0;
    (void)state;
    assert_int_equal(redco_json_open(REDCO_TEST_DATA "/rules/quirks.json", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    assert_int_equal(redco_json_array(&root, "cases", &list, &count, NULL), REDCO_OK);
    for (size_t i = 0; i < count; i++) {
        redco_json_value item;
        assert_int_equal(redco_json_element(&list, i, &item, NULL), REDCO_OK);
        for (uint32_t shards = 2; shards <= 8; shards *= 2) {
            struct explained explained;
            redco_rules_setting setting = {.shards = shards};
            redco_rules_tree *tree = NULL;
            char key[8];
            (void)snprintf(key, sizeof key, "%u", shards);
            const json_t *wanted = json_object_get(json_object_get(item.json, "concerns"), key);
            assert_true(json_is_array(wanted));
            open_case(&item, &setting, &tree);
            assert_int_equal(explain_tree(tree, &setting, &explained), REDCO_OK);
            assert_concerns(&explained, wanted, json_string_value(json_object_get(item.json, "model")));
            explained_free(&explained);
            compared++;
        }
    }
    print_message("%zu models at 2, 4 and 8 shards: %zu sets of concerns as known\n", count, compared);
    assert_true(count >= 22);
    redco_json_close(document);
}

static void open_text(const char *text, const redco_rules_setting *setting, struct explained *explained)
{
    redco_json *document = NULL;
    redco_rules_tree *tree = NULL;
    assert_int_equal(redco_json_parse(text, strlen(text), "p.json", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    assert_int_equal(redco_rules_tree_from_json(&root, &tree, NULL), REDCO_OK);
    redco_json_close(document);
    assert_int_equal(explain_tree(tree, setting, explained), REDCO_OK);
}

#define P(path, shape) "{\"path\":\"" path "\",\"shape\":" shape "}"

static const redco_rule *rule_of(const struct explained *explained, const char *key)
{
    for (size_t i = 0; i < explained->rule_count; i++) {
        if (strcmp(explained->list[i].key, key) == 0) { return &explained->list[i]; }
    }
    fail_msg("no rule %s", key);
    return NULL;
}

/* One key for each case of the algorithm, and each thing that a plain key can meet. */
static void each_case_has_its_reason(void **state)
{
    static const struct {
        const char *key, *reason, *why;
    } wanted[] = {
        {"embedding", "a", "lowest"},
        {"q/kernel", "b", "highest"},
        {"o/kernel", "c", "lowest"},
        {"fc_in/kernel", "d", "the word in"},
        {"wo/kernel", "e", "the word out"},
        {"lm_head/kernel", "f", "head"},
        {"A/kernel", "g", "first of the plain keys"},
        {"B/kernel", "g", "alternates: A/kernel took dimension 1"},
        {"C/kernel", "g", "highest divisible dimension: B/kernel took dimension 0"},
        {"D/kernel", "g", "would alternate with C/kernel, but only dimension 1 is divisible"},
        {"odd/kernel", "indivisible", "divisible by 2"},
        {"mixed/kernel", "ranks", "numbers of dimensions"},
        {"bias", "leaf", "never split"},
    };
    const redco_rules_setting setting = {.shards = 2};
    struct explained explained;
    char why[200];
    (void)state;
    open_text(
        "{\"params\":[" P("e/embedding", "[4,4]") "," P("attn/q/kernel", "[4,4]") "," P("attn/o/kernel", "[4,4]") "," P("fc_in/kernel", "[4,4]") "," P(
            "wo/kernel",
            "[4,4]") "," P("lm_head/kernel",
                           "[4,4]") "," P("A/kernel",
                                          "[4,4]") "," P("B/kernel",
                                                         "[4,4]") "," P("C/kernel",
                                                                        "[4,4]") "," P("D/kernel",
                                                                                       "[3,4]") "," P("odd/kernel",
                                                                                                      "[3,5]") "," P("x"
                                                                                                                     "/"
                                                                                                                     "m"
                                                                                                                     "i"
                                                                                                                     "x"
                                                                                                                     "e"
                                                                                                                     "d"
                                                                                                                     "/"
                                                                                                                     "k"
                                                                                                                     "e"
                                                                                                                     "r"
                                                                                                                     "n"
                                                                                                                     "e"
                                                                                                                     "l",
                                                                                                                     "["
                                                                                                                     "4"
                                                                                                                     "]") "," P("y/mixed/kernel",
                                                                                                                                "[4,4]") "," P("A/bias",
                                                                                                                                               "[4]") "]}",
        &setting, &explained);
    assert_int_equal(explained.rule_count, sizeof wanted / sizeof wanted[0]);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const redco_rule *rule = rule_of(&explained, wanted[i].key);
        assert_string_equal(redco_rule_case_name(rule->reason), wanted[i].reason);
        (void)redco_rule_why(explained.list, (size_t)(rule - explained.list), 2, why, sizeof why);
        if (strstr(why, wanted[i].why) == NULL) { fail_msg("%s: %s", wanted[i].key, why); }
    }
    explained_free(&explained);
}

/* Which key takes the turn before fc1 decides; only one that is neither attention nor FFN is called unrelated. */
static void unrelated_keys_flip_pairs(void **state)
{
    const redco_rules_setting setting = {.shards = 2};
    struct explained explained;
    (void)state;
    /* conv takes dimension 1, fc1 dimension 0, fc2 dimension 1: both wrong; without conv both would be right. */
    open_text("{\"params\":[" P("conv/kernel", "[4,4]") "," P("h/0/fc1/kernel", "[4,8]") "," P("h/0/fc2/kernel",
                                                                                               "[8,4]") "]}",
              &setting, &explained);
    assert_int_equal(explained.warning_count, 2);
    assert_int_equal(explained.warnings[0].concern, REDCO_CONCERN_FLIPPED);
    assert_non_null(strstr(explained.warnings[0].text, "conv/kernel took dimension 1"));
    /* fc2 follows fc1, which is related to it: its direction is poor, but not flipped by fc1. */
    assert_int_equal(explained.warnings[1].concern, REDCO_CONCERN_DIRECTION);
    explained_free(&explained);
    /* Two keys before: the turns are even again. */
    open_text("{\"params\":[" P("a/kernel", "[4,4]") "," P("conv/kernel", "[4,4]") "," P(
                  "h/0/fc1/kernel", "[4,8]") "," P("h/0/fc2/kernel", "[8,4]") "]}",
              &setting, &explained);
    assert_int_equal(explained.warning_count, 0);
    explained_free(&explained);
}

static void odd_trees_are_warned_of(void **state)
{
    static const struct {
        const char *text;
        redco_concern concern;
        const char *says;
    } wanted[] = {
        {"{\"params\":[" P("embedding/proj/kernel", "[3,5]") "," P("e/embedding", "[4,4]") "]}",
         REDCO_CONCERN_OTHER_KEY,
         "its own key is proj/kernel, but the names of this rule stand in its path; 3 is not divisible by 2"},
        {"{\"params\":[" P("h/0/fc1/kernel", "[3,5]") "]}", REDCO_CONCERN_WHOLE,
         "every shard holds it whole: no dimension"},
        {"{\"params\":[" P("x/up/kernel", "[4,4]") "," P("y/up/kernel", "[4,4,4]") "]}", REDCO_CONCERN_WHOLE,
         "numbers of dimensions differ"},
        {"{\"params\":[" P("lm_head/kernel", "[4,5]") "]}", REDCO_CONCERN_VOCABULARY,
         "is split by its width: 5 entries are not divisible by 2"},
        {"{\"params\":[" P("wte/embedding", "[5,3]") "]}", REDCO_CONCERN_VOCABULARY, "stays whole: 5 entries"},
        {"{\"params\":[" P("h/0/attn/Wqkv/kernel", "[4,12]") "," P("k/kernel", "[4,4]") "]}", REDCO_CONCERN_FUSED_MIXED,
         "[Q|K|V] is cut across"},
    };
    const redco_rules_setting setting = {.shards = 2};
    (void)state;
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        struct explained explained;
        open_text(wanted[i].text, &setting, &explained);
        assert_int_equal(explained.warning_count, 1);
        assert_int_equal(explained.warnings[0].concern, wanted[i].concern);
        if (strstr(explained.warnings[0].text, wanted[i].says) == NULL) { fail_msg("%s", explained.warnings[0].text); }
        explained_free(&explained);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_quirks_of_models),
        cmocka_unit_test(each_case_has_its_reason),
        cmocka_unit_test(unrelated_keys_flip_pairs),
        cmocka_unit_test(odd_trees_are_warned_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
