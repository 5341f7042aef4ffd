#include "planner/rules/rules_costs.h"
#include "planner/rules/rules_params.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMS = 8 };

/* "all-reduce 8/t" for each transfer, "x3" where it is three calls, "; all-gather 8" where tokens do not count. */
static void add_transfers(char *text, size_t size, const redco_transfer *transfers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const size_t used = strlen(text);
        const bool tokens = transfers[i].elements_per_token > 0.0;
        (void)snprintf(text + used, size - used, "%s%s %.0f%s%s", used > 0 && text[used - 1] != '|' ? " " : "",
                       redco_collective_word(transfers[i].kind),
                       tokens ? transfers[i].elements_per_token : transfers[i].elements, tokens ? "/t" : "",
                       transfers[i].calls == 3 ? " x3" : "");
    }
}

static const char *cost_text(const redco_rules_cost *cost, char *text, size_t size)
{
    text[0] = '\0';
    add_transfers(text, size, cost->forward, cost->forward_count);
    (void)snprintf(text + strlen(text), size - strlen(text), "|");
    add_transfers(text, size, cost->backward, cost->backward_count);
    if (cost->shares != REDCO_PART_NONE) {
        (void)snprintf(text + strlen(text), size - strlen(text), " with %u", cost->shares);
    }
    if (cost->heads_cut) { (void)snprintf(text + strlen(text), size - strlen(text), " cut"); }
    return text;
}

struct cost_case {
    const char *why;
    redco_rules_setting setting;
    struct {
        redco_rules_param param;
        int32_t dim;
        const char *cost;
    } rows[MAX_PARAMS];
};

#define K(path, a, b)                                                                                                  \
    {                                                                                                                  \
        path, 2,                                                                                                       \
        {                                                                                                              \
            a, b                                                                                                       \
        }                                                                                                              \
    }
#define B(path, a)                                                                                                     \
    {                                                                                                                  \
        path, 1,                                                                                                       \
        {                                                                                                              \
            a                                                                                                          \
        }                                                                                                              \
    }

/* By hand: y = x W with t tokens. Column: dx = sum over shards. Row: y = sum over shards, dx is local. A gather brings
 * what the next product needs whole; its gradient is the slice or the scattered sum. */
static const struct cost_case cases[] = {
    {"Megatron's pairs: one sum forward and one backward for each of attention and FFN",
     {2, 4, 4, false},
     {{K("h/0/attn/q_proj/kernel", 8, 8), 1, "|all-reduce 8/t"},
      {K("h/0/attn/k_proj/kernel", 8, 8), 1, "| with 0"},
      {K("h/0/attn/v_proj/kernel", 8, 8), 1, "| with 0"},
      {K("h/0/attn/o_proj/kernel", 8, 8), 0, "all-reduce 8/t|"},
      {K("h/0/mlp/gate_proj/kernel", 8, 32), 1, "|all-reduce 8/t"},
      {K("h/0/mlp/up_proj/kernel", 8, 32), 1, "| with 4"},
      {K("h/0/mlp/down_proj/kernel", 32, 8), 0, "all-reduce 8/t|"}}},
    {"keys and values of a cross attention sum the gradient of the encoder's output",
     {2, 4, 4, false},
     {{K("d/0/encoder_attn/q_proj/kernel", 8, 8), 1, "|all-reduce 8/t"},
      {K("d/0/encoder_attn/k_proj/kernel", 8, 8), 1, "|all-reduce 8/t"},
      {K("d/0/encoder_attn/v_proj/kernel", 8, 8), 1, "| with 1"},
      {K("d/0/encoder_attn/out_proj/kernel", 8, 8), 0, "all-reduce 8/t|"}}},
    {"heads: 6 query heads and 2 key heads of 4 over 4 shards are cut",
     {4, 6, 2, false},
     {{K("h/0/attn/q_proj/kernel", 8, 24), 1, "all-gather 24/t|reduce-scatter 24/t all-reduce 8/t cut"},
      {K("h/0/attn/k_proj/kernel", 8, 8), 1, "all-gather 8/t|reduce-scatter 8/t with 0 cut"},
      {K("h/0/attn/v_proj/kernel", 8, 8), -1, "|"},
      {K("h/0/attn/o_proj/kernel", 24, 8), 0, "all-reduce 8/t|"}}},
    {"BERT at 4: every dense is column, so the outer ones gather their input and their output",
     {4, 4, 4, false},
     {{K("layer/0/attention/self/query/kernel", 8, 8), 1, "|all-reduce 8/t"},
      {K("layer/0/attention/output/dense/kernel", 8, 8), 1, "all-gather 8/t all-gather 8/t|reduce-scatter 8/t"},
      {K("layer/0/intermediate/dense/kernel", 8, 32), 1, "|all-reduce 8/t"},
      {K("layer/0/output/dense/kernel", 32, 8), 1, "all-gather 32/t all-gather 8/t|reduce-scatter 32/t"},
      {K("classifier/kernel", 8, 2), 0, "all-reduce 2/t|all-gather 8/t"}}},
    {"every dense is row: the intermediate one slices its input, so its output is whole",
     {4, 4, 4, false},
     {{K("layer/0/intermediate/dense/kernel", 8, 32), 0, "all-reduce 32/t|all-gather 8/t"},
      {K("layer/0/output/dense/kernel", 32, 8), 0, "all-reduce 8/t|all-gather 32/t"},
      {K("layer/1/intermediate/dense/kernel", 8, 32), -1, "|"},
      {K("layer/1/output/dense/kernel", 32, 8), 1, "all-gather 8/t|all-reduce 32/t"},
      {K("layer/2/intermediate/dense/kernel", 8, 32), 1, "|all-reduce 8/t"},
      {K("layer/2/output/dense/kernel", 32, 8), -1, "all-gather 32/t|"}}},
    {"GPT-2: (out, in), so dimension 1 of the fused matrix is its input; [Q|K|V] as column would cut across",
     {2, 4, 4, false},
     {{K("h/0/attn/c_attn/kernel", 24, 8), 1, "all-reduce 24/t|all-gather 8/t"},
      {K("h/0/attn/c_proj/kernel", 8, 8), 1, "all-reduce 8/t|all-gather 8/t"},
      {K("h/0/mlp/c_fc/kernel", 32, 8), 0, "|all-reduce 8/t"},
      {K("h/0/mlp/c_proj/kernel", 8, 32), 1, "all-reduce 8/t|"},
      {K("h/1/attn/c_attn/kernel", 24, 8), 0, "all-gather 24/t|reduce-scatter 24/t all-reduce 8/t cut"}}},
    {"Bloom's fused matrix has whole heads; a tied table by rows is a column head",
     {2, 4, 4, true},
     {{K("h/0/self_attention/query_key_value/kernel", 8, 24), 1, "|all-reduce 8/t"},
      {K("word_embeddings/embedding", 64, 8), 0, "all-reduce 8/t all-reduce 3/t x3|all-reduce 8/t"}}},
    {"a tied table by width sums the logits of the whole vocabulary; position tables are added before",
     {2, 4, 4, true},
     {{K("wte/embedding", 64, 8), 1, "all-gather 8/t all-reduce 64/t|all-gather 8/t"},
      {K("wpe/embedding", 16, 8), 1, "| with 0"},
      {K("token_type_embeddings/embedding", 2, 8), 0, "all-reduce 8/t|"}}},
    {"an own head; biases of columns; T5's bias by bucket and by head",
     {2, 4, 4, false},
     {{K("lm_head/kernel", 8, 64), 1, "all-reduce 3/t x3|all-reduce 8/t"},
      {B("lm_head/bias", 64), -1, "|all-gather 64"},
      {K("h/0/mlp/fc1/kernel", 8, 32), 1, "|all-reduce 8/t"},
      {B("h/0/mlp/fc1/bias", 32), 0, "|"},
      {K("h/0/mlp/fc2/kernel", 32, 8), 0, "all-reduce 8/t|"},
      {B("h/0/mlp/fc2/bias", 8), -1, "|"},
      {K("e/0/SelfAttention/relative_attention_bias/embedding", 32, 4), 0, "all-gather 128|reduce-scatter 128"},
      {K("d/0/SelfAttention/relative_attention_bias/embedding", 32, 4), 1, "|"}}},
    {"splits that no product can use gather the parameter itself",
     {2, 0, 0, false},
     {{B("norm/scale", 8), 0, "all-gather 8|reduce-scatter 8"},
      {{"conv/kernel", 4, {2, 2, 4, 6}}, 0, "all-gather 96|reduce-scatter 96"},
      {{"conv2/kernel", 4, {2, 2, 4, 6}}, 3, "all-gather 6/t|all-reduce 4/t"},
      {{"conv3/kernel", 4, {2, 2, 4, 6}}, 2, "all-reduce 6/t|all-gather 4/t"},
      {K("lm_head/kernel", 8, 63), 0, "all-reduce 63/t|all-gather 8/t"}}},
    {"one shard", {1, 4, 4, true}, {{K("h/0/attn/q_proj/kernel", 8, 8), -1, "|"}}},
};

static void costs_by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_rules_param params[MAX_PARAMS];
        int32_t dims[MAX_PARAMS];
        redco_rules_cost costs[MAX_PARAMS];
        redco_rules_part *parts = NULL;
        size_t count = 0;
        for (; count < MAX_PARAMS && cases[i].rows[count].cost != NULL; count++) {
            params[count] = cases[i].rows[count].param;
            dims[count] = cases[i].rows[count].dim;
        }
        assert_int_equal(redco_rules_parts(params, count, &parts, NULL), REDCO_OK);
        assert_int_equal(redco_rules_costs(params, parts, dims, count, &cases[i].setting, costs, NULL), REDCO_OK);
        for (size_t j = 0; j < count; j++) {
            char text[256];
            (void)cost_text(&costs[j], text, sizeof text);
            if (strcmp(text, cases[i].rows[j].cost) != 0) { print_error("%s: %s\n", cases[i].why, params[j].path); }
            assert_string_equal(text, cases[i].rows[j].cost);
        }
        free(parts);
    }
}

/* Sums of all-reduces over the layers of one class in a model, in units of the hidden width; nothing else may be there.
 */
static void assert_layer(const char *preset, uint32_t shards, const char *prefix, double forward, double backward)
{
    redco_model *model = NULL;
    redco_rules_tree *tree = NULL;
    redco_rules *rules = NULL;
    redco_rules_part *parts = NULL;
    const redco_rules_param *params = NULL;
    double sums[2] = {0.0, 0.0};
    assert_int_equal(redco_model_read(preset, &model, NULL), REDCO_OK);
    assert_int_equal(redco_rules_tree_from_model(model, false, &tree, NULL), REDCO_OK);
    const redco_model_dims *dims = redco_model_get_dims(model);
    const redco_rules_setting setting = {shards, dims->heads, dims->kv_heads, dims->tied};
    const size_t count = redco_rules_tree_params(tree, &params);
    assert_int_equal(redco_rules_decide(params, count, shards, &rules, NULL), REDCO_OK);
    assert_int_equal(redco_rules_parts(params, count, &parts, NULL), REDCO_OK);
    int32_t *split = calloc(count, sizeof *split);
    redco_rules_cost *costs = calloc(count, sizeof *costs);
    assert_true(split != NULL && costs != NULL);
    for (size_t i = 0; i < count; i++) { split[i] = redco_rules_dim(rules, i); }
    assert_int_equal(redco_rules_costs(params, parts, split, count, &setting, costs, NULL), REDCO_OK);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(params[i].path, prefix, strlen(prefix)) != 0 || parts[i].leaf != REDCO_PART_LEAF_KERNEL) {
            continue;
        }
        for (uint32_t j = 0; j < costs[i].forward_count; j++) {
            assert_int_equal(costs[i].forward[j].kind, REDCO_ALL_REDUCE);
            sums[0] += costs[i].forward[j].elements_per_token;
        }
        for (uint32_t j = 0; j < costs[i].backward_count; j++) {
            assert_int_equal(costs[i].backward[j].kind, REDCO_ALL_REDUCE);
            sums[1] += costs[i].backward[j].elements_per_token;
        }
    }
    assert_true(sums[0] == forward * dims->hidden);
    assert_true(sums[1] == backward * dims->hidden);
    free(split);
    free(costs);
    free(parts);
    redco_rules_free(rules);
    redco_rules_tree_free(tree);
    redco_model_free(model);
}

/* Megatron-LM, section 3: two sums of t x hidden forward and two backward per layer; three with cross attention, and
 * one more backward for the encoder's output. GPT-J's attention and FFN read one norm: counted apart here. */
static void reference_models_cost_what_megatron_does(void **state)
{
    (void)state;
    for (uint32_t shards = 2; shards <= 8; shards *= 2) {
        assert_layer("llama-7b", shards, "model/layers/0/", 2, 2);
        assert_layer("llama-2-70b", shards, "model/layers/0/", 2, 2);
        assert_layer("mistral-7b", shards, "model/layers/0/", 2, 2);
        assert_layer("gpt-j-6b", shards, "transformer/h/0/", 2, 2);
        assert_layer("opt-66b", shards, "model/decoder/layers/0/", 2, 2);
        assert_layer("t5-11b", shards, "encoder/block/0/", 2, 2);
        assert_layer("t5-11b", shards, "decoder/block/0/", 3, 4);
        assert_layer("bart-large", shards, "model/decoder/layers/0/", 3, 4);
    }
}

static void tied_heads_are_seen(void **state)
{
    static const redco_rules_param params[] = {K("wte/embedding", 64, 8), K("h/0/mlp/fc1/kernel", 8, 32),
                                               K("lm_head/kernel", 8, 64), K("classifier/kernel", 8, 2)};
    redco_rules_part *parts = NULL;
    (void)state;
    assert_int_equal(redco_rules_parts(params, 4, &parts, NULL), REDCO_OK);
    assert_true(redco_rules_seem_tied(params, parts, 2));
    assert_false(redco_rules_seem_tied(params, parts, 3));
    assert_false(redco_rules_seem_tied(&params[1], &parts[1], 1));
    assert_false(redco_rules_seem_tied(&params[3], &parts[3], 1));
    free(parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(costs_by_hand),
        cmocka_unit_test(reference_models_cost_what_megatron_does),
        cmocka_unit_test(tied_heads_are_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
