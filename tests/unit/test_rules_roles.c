#include "planner/rules/rules_params.h"
#include "planner/rules/rules_roles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct named_role {
    redco_rules_param param;
    redco_role role;
    redco_qkv_order qkv;
    bool cross;
};

#define K(path, a, b)                                                                                                  \
    {                                                                                                                  \
        path, 2,                                                                                                       \
        {                                                                                                              \
            a, b                                                                                                       \
        }                                                                                                              \
    }

/* Names of the modules in transformers 4.48; what each is for stands in its modeling_*.py. */
static const struct named_role names[] = {
    {K("model/layers/3/self_attn/q_proj/kernel", 8, 8), REDCO_ROLE_QUERY, REDCO_QKV_NOT_FUSED, false},
    {K("model/layers/3/mlp/gate_proj/kernel", 8, 32), REDCO_ROLE_FFN_IN, REDCO_QKV_NOT_FUSED, false},
    {K("model/layers/3/mlp/down_proj/kernel", 32, 8), REDCO_ROLE_FFN_OUT, REDCO_QKV_NOT_FUSED, false},
    {K("model/embed_tokens/embedding", 32, 8), REDCO_ROLE_VOCABULARY, REDCO_QKV_NOT_FUSED, false},
    {K("model/decoder/embed_positions/embedding", 32, 8), REDCO_ROLE_POSITIONS, REDCO_QKV_NOT_FUSED, false},
    {K("lm_head/kernel", 8, 32), REDCO_ROLE_HEAD, REDCO_QKV_NOT_FUSED, false},
    {K("model/layers/0/attention/wqkv/kernel", 8, 12), REDCO_ROLE_QKV, REDCO_QKV_BY_GROUP, false},
    {K("model/layers/0/attention/wo/kernel", 8, 8), REDCO_ROLE_ATTENTION_OUT, REDCO_QKV_NOT_FUSED, false},
    {K("model/layers/0/feed_forward/w2/kernel", 32, 8), REDCO_ROLE_FFN_OUT, REDCO_QKV_NOT_FUSED, false},
    {K("output/kernel", 8, 32), REDCO_ROLE_HEAD, REDCO_QKV_NOT_FUSED, false},
    {K("transformer/blocks/0/attn/Wqkv/kernel", 8, 24), REDCO_ROLE_QKV, REDCO_QKV_BLOCKS, false},
    {K("transformer/h/0/self_attention/query_key_value/kernel", 8, 24), REDCO_ROLE_QKV, REDCO_QKV_BY_HEAD, false},
    {K("transformer/h/0/self_attention/dense/kernel", 8, 8), REDCO_ROLE_ATTENTION_OUT, REDCO_QKV_NOT_FUSED, false},
    {K("decoder/block/0/layer/1/EncDecAttention/k/kernel", 8, 8), REDCO_ROLE_KEY, REDCO_QKV_NOT_FUSED, true},
    {K("decoder/block/0/layer/2/DenseReluDense/wi_0/kernel", 8, 32), REDCO_ROLE_FFN_IN, REDCO_QKV_NOT_FUSED, false},
    {K("decoder/block/0/layer/2/DenseReluDense/wo/kernel", 32, 8), REDCO_ROLE_FFN_OUT, REDCO_QKV_NOT_FUSED, false},
    {K("encoder/block/0/layer/0/SelfAttention/relative_attention_bias/embedding", 32, 8), REDCO_ROLE_RELATIVE_BIAS,
     REDCO_QKV_NOT_FUSED, false},
    {K("model/decoder/layers/0/encoder_attn/v_proj/kernel", 8, 8), REDCO_ROLE_VALUE, REDCO_QKV_NOT_FUSED, true},
    {K("bert/encoder/layer/0/attention/self/query/kernel", 8, 8), REDCO_ROLE_QUERY, REDCO_QKV_NOT_FUSED, false},
    {K("bert/encoder/layer/0/attention/output/dense/kernel", 8, 8), REDCO_ROLE_ATTENTION_OUT, REDCO_QKV_NOT_FUSED,
     false},
    {K("bert/encoder/layer/0/intermediate/dense/kernel", 8, 32), REDCO_ROLE_FFN_IN, REDCO_QKV_NOT_FUSED, false},
    {K("bert/encoder/layer/0/output/dense/kernel", 32, 8), REDCO_ROLE_FFN_OUT, REDCO_QKV_NOT_FUSED, false},
    {K("bert/pooler/dense/kernel", 8, 8), REDCO_ROLE_OTHER, REDCO_QKV_NOT_FUSED, false},
    {K("bert/embeddings/token_type_embeddings/embedding", 2, 8), REDCO_ROLE_TOKEN_TYPES, REDCO_QKV_NOT_FUSED, false},
    {{"bert/embeddings/LayerNorm/scale", 1, {8}}, REDCO_ROLE_NORM, REDCO_QKV_NOT_FUSED, false},
    {{"model/norm/weight", 1, {8}}, REDCO_ROLE_NORM, REDCO_QKV_NOT_FUSED, false},
    {{"cls_token", 3, {1, 1, 8}}, REDCO_ROLE_OTHER, REDCO_QKV_NOT_FUSED, false},
    {{"kernel", 2, {8, 8}}, REDCO_ROLE_OTHER, REDCO_QKV_NOT_FUSED, false},
};

static void names_tell_roles(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        redco_rules_part *part = NULL;
        assert_int_equal(redco_rules_parts(&names[i].param, 1, &part, NULL), REDCO_OK);
        if (part->role != names[i].role) { print_error("%s: %s\n", names[i].param.path, redco_role_name(part->role)); }
        assert_int_equal(part->role, names[i].role);
        assert_int_equal(part->qkv, names[i].qkv);
        assert_int_equal(part->cross, names[i].cross);
        free(part);
    }
}

/* One attention, one FFN: kernels of a unit share a number, those of two units never do. */
static void units_hold_what_belongs_together(void **state)
{
    static const redco_rules_param params[] = {
        K("decoder/layers/0/self_attn/q_proj/kernel", 8, 8),
        K("decoder/layers/0/self_attn/out_proj/kernel", 8, 8),
        K("decoder/layers/0/encoder_attn/q_proj/kernel", 8, 8),
        K("decoder/layers/0/fc1/kernel", 8, 32),
        K("decoder/layers/0/fc2/kernel", 32, 8),
        K("decoder/layers/1/fc1/kernel", 8, 32),
        K("decoder/layers/10/fc1/kernel", 8, 32),
        K("lm_head/kernel", 8, 32),
        K("encoder/layers/0/fc1/kernel", 8, 32),
        {"decoder/layers/0/fc1/bias", 1, {32}},
    };
    redco_rules_part *parts = NULL;
    (void)state;
    assert_int_equal(redco_rules_parts(params, sizeof params / sizeof params[0], &parts, NULL), REDCO_OK);
    assert_int_equal(parts[0].unit, parts[1].unit);
    assert_int_equal(parts[3].unit, parts[4].unit);
    const size_t first_of_units[] = {0, 2, 3, 5, 6, 8};
    for (size_t i = 0; i < 6; i++) {
        assert_true(parts[first_of_units[i]].unit < 6);
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(parts[first_of_units[i]].unit, parts[first_of_units[j]].unit);
        }
    }
    assert_true(parts[7].unit == REDCO_PART_NONE && parts[9].unit == REDCO_PART_NONE);
    assert_int_equal(parts[9].owner, 3);
    assert_true(parts[3].owner == REDCO_PART_NONE);
    free(parts);
}

/* FlaxConv1D: (out, in), known by the fused matrix; GPT-Neo's c_fc, a Dense, is not one. */
static void gpt2_stores_its_linears_turned(void **state)
{
    static const redco_rules_param gpt2[] = {K("h/0/attn/c_attn/kernel", 24, 8), K("h/0/mlp/c_fc/kernel", 32, 8),
                                             K("h/0/mlp/c_proj/kernel", 8, 32), K("lm_head/kernel", 8, 99)};
    static const redco_rules_param neo[] = {K("h/0/mlp/c_fc/kernel", 8, 32), K("h/0/mlp/c_proj/kernel", 32, 8)};
    redco_rules_part *parts = NULL;
    (void)state;
    assert_int_equal(redco_rules_parts(gpt2, 4, &parts, NULL), REDCO_OK);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(parts[i].input_dim, i < 3 ? 1 : 0);
        assert_int_equal(parts[i].output_dim, i < 3 ? 0 : 1);
    }
    free(parts);
    assert_int_equal(redco_rules_parts(neo, 2, &parts, NULL), REDCO_OK);
    assert_true(parts[0].input_dim == 0 && parts[1].input_dim == 0);
    free(parts);
}

/* Every matrix and table of the families that redco reads is known; OPT's projections of its table have no pair. */
static void every_preset_is_known(void **state)
{
    static const char *const presets[] = {"llama-2-70b", "mistral-7b", "qwen2-7b",     "internlm2-7b", "gemma-2b",
                                          "gpt2",        "gpt-j-6b",   "gpt-neox-20b", "opt-125m",     "bloom-560m",
                                          "mpt-7b",      "t5-11b",     "bart-large",   "phi-4"};
    (void)state;
    for (size_t i = 0; i < sizeof presets / sizeof presets[0]; i++) {
        redco_model *model = NULL;
        redco_rules_tree *tree = NULL;
        redco_rules_part *parts = NULL;
        const redco_rules_param *params = NULL;
        const redco_param *tensors = NULL;
        assert_int_equal(redco_model_read(presets[i], &model, NULL), REDCO_OK);
        assert_int_equal(redco_rules_tree_from_model(model, false, &tree, NULL), REDCO_OK);
        const size_t count = redco_rules_tree_params(tree, &params);
        (void)redco_model_tensors(model, &tensors);
        assert_int_equal(redco_rules_parts(params, count, &parts, NULL), REDCO_OK);
        for (size_t j = 0; j < count; j++) {
            const size_t tensor = redco_rules_tree_tensor(tree, j);
            if (parts[j].role == REDCO_ROLE_OTHER) { print_error("%s: %s\n", presets[i], params[j].path); }
            assert_int_not_equal(parts[j].role, REDCO_ROLE_OTHER);
            if (tensor == REDCO_RULES_NO_TENSOR) {
                assert_string_equal(params[j].path, "final_logits_bias");
                continue;
            }
            assert_int_equal(parts[j].role == REDCO_ROLE_BIAS, tensors[tensor].role == REDCO_PARAM_BIAS);
            assert_int_equal(parts[j].input_dim == 1, tensors[tensor].role == REDCO_PARAM_CONV1D);
        }
        free(parts);
        redco_rules_tree_free(tree);
        redco_model_free(model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_tell_roles),
        cmocka_unit_test(units_hold_what_belongs_together),
        cmocka_unit_test(gpt2_stores_its_linears_turned),
        cmocka_unit_test(every_preset_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
