#include "planner/rules/rules_params.h"
#include "planner/rules/rules_user.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define K(path, a, b)                                                                                                  \
    {                                                                                                                  \
        path, 2,                                                                                                       \
        {                                                                                                              \
            a, b                                                                                                       \
        }                                                                                                              \
    }

/* GPT-2 in small: (out, in). */
static const redco_rules_param gpt2[] = {
    K("wte/embedding", 97, 8),         K("h/0/attn/c_attn/kernel", 24, 8), K("h/0/attn/c_proj/kernel", 8, 8),
    K("h/0/mlp/c_fc/kernel", 32, 8),   K("h/0/mlp/c_proj/kernel", 8, 32),  {"h/0/mlp/c_proj/bias", 1, {8}},
    K("h/1/mlp/c_proj/kernel", 8, 30),
};
enum { GPT2_PARAMS = sizeof gpt2 / sizeof gpt2[0] };

static redco_status read_text(const char *text, redco_user_rules **user_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_json_parse(text, strlen(text), "r.json", &document, err);
    if (st == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        st = redco_user_rules_from_json(&root, user_out, err);
    }
    redco_json_close(document);
    return st;
}

static redco_status decide_text(const char *text, uint32_t shards, redco_rules **rules_out, redco_error *err)
{
    redco_user_rules *user = NULL;
    redco_status st = read_text(text, &user, err);
    if (st == REDCO_OK) { st = redco_rules_decide_user(gpt2, GPT2_PARAMS, shards, user, rules_out, err); }
    redco_user_rules_free(user);
    return st;
}

struct good_case {
    const char *why, *text;
    int32_t dims[GPT2_PARAMS];
};

/* RedCoast alone at 2: c_attn 1 (first plain key), c_fc 0, c_proj 1, embedding 1 (97 is odd), bias whole. */
static const struct good_case good[] = {
    {"one key given, the rest is RedCoast's and does not change its turns",
     "{\"rules\":[{\"match\":\"c_attn/kernel\",\"dim\":0}]}",
     {1, 0, 1, 0, 1, -1, 1}},
    {"two names tell attention from FFN; null keeps whole",
     "{\"format\":\"redco-rules\",\"version\":1,\"mode\":\"override\",\"rules\":[{\"match\":\"mlp/"
     "c_proj\",\"dim\":null}]}",
     {1, 1, 1, 0, -1, -1, -1}},
    {"the first that matches is taken, as long a match as it may be",
     "{\"rules\":[{\"match\":\"h/0/mlp\",\"dim\":0},{\"match\":\"c_proj/kernel\",\"dim\":1}]}",
     {1, 1, 1, 0, 0, 0, 1}},
    {"as redco-rules prints them",
     "{\"rules\":[{\"key\":\"wte\",\"spec\":[null,\"mp\"]},{\"key\":\"c_fc\",\"spec\":[]}]}",
     {1, 1, 1, -1, 1, -1, 1}},
    {"instead of RedCoast's",
     "{\"mode\":\"replace\",\"rules\":[{\"match\":\"wte\",\"dim\":null},{\"match\":\"h\",\"dim\":0}]}",
     {-1, 0, 0, 0, 0, 0, 0}},
};

static void given_rules_come_first(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        redco_rules *rules = NULL;
        redco_error err = {0};
        if (decide_text(good[i].text, 2, &rules, &err) != REDCO_OK) { fail_msg("%s: %s", good[i].why, err.text); }
        for (size_t j = 0; j < GPT2_PARAMS; j++) {
            if (redco_rules_dim(rules, j) != good[i].dims[j]) { print_error("%s: %s\n", good[i].why, gpt2[j].path); }
            assert_int_equal(redco_rules_dim(rules, j), good[i].dims[j]);
        }
        redco_rules_free(rules);
    }
}

static void the_list_has_both(void **state)
{
    const redco_rule *list = NULL;
    redco_rules *rules = NULL;
    (void)state;
    assert_int_equal(decide_text("{\"rules\":[{\"match\":\"attn/c_proj\",\"dim\":0},{\"match\":\"wte\",\"dim\":null}]}",
                                 2, &rules, NULL),
                     REDCO_OK);
    static const char *const keys[] = {"attn/c_proj", "wte",           "bias",     "c_attn/kernel",
                                       "c_fc/kernel", "c_proj/kernel", "embedding"};
    assert_int_equal(redco_rules_list(rules, &list), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) { assert_string_equal(list[i].key, keys[i]); }
    assert_true(list[0].reason == REDCO_RULE_USER && list[0].rank == 2 && list[0].dim == 0);
    assert_true(list[1].reason == REDCO_RULE_USER && list[1].rank == 0 && list[1].dim == REDCO_RULES_REPLICATED);
    assert_true(list[4].reason == REDCO_RULE_PLAIN && list[4].previous == 3 && list[4].turned);
    assert_ptr_equal(redco_rules_of(rules, 2), &list[0]);
    assert_ptr_equal(redco_rules_of(rules, 0), &list[1]);
    redco_rules_free(rules);
    /* RedCoast's own rule for a key that is given stays in the list, as others alternate with it. */
    assert_int_equal(decide_text("{\"rules\":[{\"match\":\"c_attn/kernel\",\"dim\":0}]}", 2, &rules, NULL), REDCO_OK);
    assert_int_equal(redco_rules_list(rules, &list), 6);
    assert_string_equal(list[2].key, "c_attn/kernel");
    assert_true(list[2].overridden && !list[0].overridden && !list[1].overridden && list[3].previous == 2);
    redco_rules_free(rules);
    /* One shard: nothing is split, but a rule that matches nothing is told all the same. */
    assert_int_equal(decide_text("{\"rules\":[{\"match\":\"wte\",\"dim\":0}]}", 1, &rules, NULL), REDCO_OK);
    assert_int_equal(redco_rules_list(rules, &list), 0);
    redco_rules_free(rules);
    assert_int_equal(decide_text("{\"rules\":[{\"match\":\"wt\",\"dim\":0}]}", 1, &rules, NULL), REDCO_EVALUE);
}

struct bad_case {
    const char *text, *place, *what;
};

static const struct bad_case bad[] = {
    {"{}", "r.json:/rules", "is missing"},
    {"{\"rules\":[]}", "r.json:/rules", "has 0 entries"},
    {"{\"format\":\"redco-plan\",\"version\":1,\"rules\":[]}", "r.json:/format", "redco-rules"},
    {"{\"version\":1,\"rules\":[]}", "r.json:/format", "is missing"},
    {"{\"mode\":\"both\",\"rules\":[]}", "r.json:/mode", "\"override\" or \"replace\""},
    {"{\"rules\":[7]}", "r.json:/rules/0", "is a number"},
    {"{\"rules\":[{\"match\":\"wte\"}]}", "r.json:/rules/0", "needs \"dim\""},
    {"{\"rules\":[{\"match\":\"wte\",\"dim\":0,\"spec\":[]}]}", "r.json:/rules/0", "not both"},
    {"{\"rules\":[{\"dim\":0}]}", "r.json:/rules/0", "needs \"match\""},
    {"{\"rules\":[{\"match\":\"wte\",\"key\":\"wte\",\"dim\":0}]}", "r.json:/rules/0", "not both"},
    {"{\"rules\":[{\"match\":\"wte\",\"dims\":0}]}", "r.json:/rules/0/dims", "dim"},
    {"{\"rules\":[{\"match\":\"wte\",\"dim\":8}]}", "r.json:/rules/0/dim", "7"},
    {"{\"rules\":[{\"match\":\"wte\",\"dim\":-1}]}", "r.json:/rules/0/dim", "0"},
    {"{\"rules\":[{\"match\":\"wte\",\"dim\":\"mp\"}]}", "r.json:/rules/0/dim", "is a string"},
    {"{\"rules\":[{\"match\":\"wte\",\"spec\":[\"mp\",\"mp\"]}]}", "r.json:/rules/0/spec", "splits two dimensions"},
    {"{\"rules\":[{\"match\":\"wte\",\"spec\":[\"dp\"]}]}", "r.json:/rules/0/spec", "null and \"mp\" only"},
    {"{\"rules\":[{\"match\":\"wte\",\"spec\":[null,null,null,null,null,null,null,null,\"mp\"]}]}",
     "r.json:/rules/0/spec", "too many dimensions"},
    {"{\"rules\":[{\"match\":\"\",\"dim\":0}]}", "r.json:/rules/0", "names joined with '/'"},
    {"{\"rules\":[{\"match\":\"/wte\",\"dim\":0}]}", "r.json:/rules/0", "names joined with '/'"},
    {"{\"rules\":[{\"match\":\"a\\u0007\",\"dim\":0}]}", "r.json:/rules/0", "control character"},
    {"{\"rules\":[{\"match\":\"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17\",\"dim\":0}]}", "r.json:/rules/0",
     "17 names"},
    {"{\"rules\":[{\"match\":\"wte\",\"dim\":1},{\"match\":\"h\",\"dim\":0},{\"match\":\"wte\",\"dim\":1}]}",
     "r.json:/rules/2", "\"wte\" has a rule already, number 0"},
    /* against the parameters */
    {"{\"rules\":[{\"match\":\"c_porj/kernel\",\"dim\":0}]}", "r.json:/rules/0",
     "\"c_porj/kernel\" matches no parameter; the nearest is \"c_proj/kernel\""},
    {"{\"rules\":[{\"match\":\"mlp/c_porj\",\"dim\":0}]}", "r.json:/rules/0",
     "\"mlp/c_porj\" matches no parameter; the nearest is \"mlp/c_proj\""},
    {"{\"rules\":[{\"match\":\"0/mlp/c_fc/kernel/x\",\"dim\":0}]}", "r.json:/rules/0",
     "matches no parameter; the nearest is \"h/0/mlp/c_fc/kernel\""},
    {"{\"rules\":[{\"match\":\"a/b/c/d/e/f\",\"dim\":0}]}", "r.json:/rules/0", "no path has so many names"},
    {"{\"rules\":[{\"match\":\"wte\",\"dim\":1},{\"match\":\"c_proj\",\"dim\":1}]}", "r.json:/rules/1",
     "splits dimension 1 of h/0/mlp/c_proj/bias [8], which has 1; they are counted from 0"},
    {"{\"rules\":[{\"match\":\"wte\",\"dim\":0}]}", "r.json:/rules/0",
     "splits dimension 0 of wte/embedding [97, 8] into 4 shards, but 4 does not divide 97"},
    {"{\"rules\":[{\"match\":\"c_proj/kernel\",\"dim\":1}]}", "r.json:/rules/0",
     "splits dimension 1 of h/1/mlp/c_proj/kernel [8, 30] into 4 shards, but 4 does not divide 30"},
    {"{\"mode\":\"replace\",\"rules\":[{\"match\":\"kernel\",\"dim\":0}]}", "r.json:/rules",
     "no rule matches wte/embedding [97, 8]; the mode \"replace\" needs one for every parameter"},
};

static void what_cannot_be_names_rule_and_parameter(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_rules *rules = NULL;
        redco_error err = {0};
        assert_int_equal(decide_text(bad[i].text, 4, &rules, &err), REDCO_EVALUE);
        if (strcmp(err.place, bad[i].place) != 0 || strstr(err.text, bad[i].what) == NULL) {
            fail_msg("%s\n%s: %s", bad[i].text, err.place, err.text);
        }
    }
}

/* The output of redco-rules as a file of rules changes nothing, whatever the tree. */
static void own_rules_given_back_change_nothing(void **state)
{
    static const char *const presets[] = {"llama-7b", "gpt2", "t5-11b", "bart-large", "opt-125m", "bloom-560m"};
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        redco_model *model = NULL;
        redco_rules_tree *tree = NULL;
        redco_rules *rules = NULL;
        const redco_rules_param *params = NULL;
        const redco_rule *list = NULL;
        assert_int_equal(redco_model_read(presets[i], &model, NULL), REDCO_OK);
        assert_int_equal(redco_rules_tree_from_model(model, false, &tree, NULL), REDCO_OK);
        const size_t count = redco_rules_tree_params(tree, &params);
        assert_int_equal(redco_rules_decide(params, count, 4, &rules, NULL), REDCO_OK);
        const size_t rule_count = redco_rules_list(rules, &list);
        redco_user_rule *given = calloc(rule_count, sizeof *given);
        assert_non_null(given);
        for (size_t j = 0; j < rule_count; j++) {
            given[j] = (redco_user_rule){.match = list[j].key, .dim = list[j].dim};
        }
        for (int mode = 0; mode < 2; mode++) {
            redco_user_rules *user = NULL;
            redco_rules *again = NULL;
            assert_int_equal(redco_user_rules_create(given, rule_count,
                                                     mode == 0 ? REDCO_USER_OVERRIDE : REDCO_USER_REPLACE, "r", &user,
                                                     NULL),
                             REDCO_OK);
            assert_int_equal(redco_rules_decide_user(params, count, 4, user, &again, NULL), REDCO_OK);
            for (size_t j = 0; j < count; j++) {
                assert_int_equal(redco_rules_dim(again, j), redco_rules_dim(rules, j));
            }
            redco_rules_free(again);
            redco_user_rules_free(user);
        }
        free(given);
        redco_rules_free(rules);
        redco_rules_tree_free(tree);
        redco_model_free(model);
    }
    redco_user_rules_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_rules_come_first),
        cmocka_unit_test(the_list_has_both),
        cmocka_unit_test(what_cannot_be_names_rule_and_parameter),
        cmocka_unit_test(own_rules_given_back_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
