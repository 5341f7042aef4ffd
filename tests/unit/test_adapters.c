/* Low-rank adapters against sums by hand: parameters, bytes of states, what backward keeps, FLOPs. LLaMA-7B has 32
 * blocks of hidden 4096 and FFN 11008; A is [r, in] and B [out, r]. Trained parameters of LLaMA-7B and 13B with r = 8
 * beside queries and values are also those that LitGPT prints (tutorials/resource-tables.md@26857050). */
#include "cost_fixture.h"

#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/models/adapters/trainable.h"
#include "costmodel/operators/compute.h"
#include "tests/unit/recomputed.h"

#include <stdlib.h>
#include <string.h>

static redco_model *model_of(const char *preset, const char *trainable)
{
    redco_model *model = NULL;
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_model_read_trained(preset, trainable, &model, &err), &err);
    return model;
}

static void parameters_by_hand(void **state)
{
    enum { h = 4096, f = 11008, blocks = 32 };
    static const struct {
        const char *preset, *trainable;
        uint64_t trained;
    } rows[] = {
        {"llama-7b", "lora:r=8,targets=q+v", UINT64_C(4194304)},
        {"llama-13b", "lora:r=8,targets=q_proj+v_proj", UINT64_C(6553600)},
        {"llama-7b", "lora:r=16", UINT64_C(16) * blocks * (4 * (h + h) + 3 * (h + f))},
        {"llama-7b", "qlora:r=4,targets=mlp", UINT64_C(4) * blocks * 3 * (h + f)},
        /* 8 key heads of 128: K and V are [1024, 4096] */
        {"llama-3-8b", "lora:r=8,targets=attention", UINT64_C(8) * 32 * (2 * (4096 + 4096) + 2 * (4096 + 1024))},
        /* one matrix for queries, keys and values */
        {"gpt2", "lora:r=8,targets=q", UINT64_C(8) * 12 * (768 + 3 * 768)},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_model *const plain = model_of(rows[i].preset, NULL);
        redco_model *const model = model_of(rows[i].preset, rows[i].trainable);
        assert_int_equal(redco_model_trained_params(model), rows[i].trained);
        assert_int_equal(redco_model_params(model), redco_model_params(plain) + rows[i].trained);
        assert_int_equal(redco_model_trained_params(plain), redco_model_params(plain));
        redco_model_free(plain);
        redco_model_free(model);
    }
}

/* Under tp, B of a matrix cut by columns and A of one cut by rows are cut, the others whole. */
static void halves_are_cut_as_their_matrix(void **state)
{
    enum { r = 16, h = 4096, tp = 4 };
    redco_model *const model = model_of("llama-7b", "lora:r=16,targets=q+o");
    const uint64_t all = redco_rank_params(model, 1, REDCO_PART_DENSE, tp);
    const uint64_t frozen = redco_rank_frozen_params(model, 1, REDCO_PART_DENSE, tp);
    (void)state;
    assert_int_equal(all - frozen, r * h + r * h / tp + r * h / tp + r * h);
    redco_model_free(model);
}

static void states_by_hand(void **state)
{
    static const uint64_t base = UINT64_C(6738415616), trained = 4194304;
    static const uint64_t matrices = UINT64_C(32) * (4 * 4096 * 4096 + 3 * 4096 * UINT64_C(11008));
    static const redco_shards whole = {{1, 1}, {1, 1}, {1, 1}}, parts = {{8, 1}, {8, 1}, {8, 1}};
    static const char *const trainable[] = {"lora:r=8,targets=q+v", "qlora:r=8,targets=q+v"};
    (void)state;
    for (int quantised = 0; quantised < 2; quantised++) {
        /* NF4: half a byte, a byte for 64 numbers, four for 64 x 256 of them */
        const uint64_t four = matrices / 2 + matrices / 64 + matrices / (64 * 64);
        const uint64_t frozen = quantised ? 2 * (base - matrices) + four : 2 * base;
        struct fixture b;
        fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
        redco_model_free(b.model);
        b.model = model_of("llama-7b", trainable[quantised]);
        fixture_costs(&b);
        redco_parallelism parallelism = plain_setting(&b, 1);
        parallelism.scheme = REDCO_INTRA_TENSOR;
        redco_prediction p = uniform_step(&b, &parallelism, whole, REDCO_RECOMPUTE_NONE);
        check_near((double)p.parameter_bytes / (double)(frozen + 2 * trained), 1.0, 1e-6);
        assert_int_equal(p.gradient_bytes, 2 * trained);
        assert_int_equal(p.optimizer_bytes, 12 * trained);
        p = uniform_step(&b, &parallelism, parts, REDCO_RECOMPUTE_NONE);
        check_near((double)p.parameter_bytes / (double)((frozen + 2 * trained) / 8), 1.0, 1e-6);
        assert_int_equal(p.optimizer_bytes, 12 * trained / 8);
        fixture_close(&b);
    }
}

/* Bytes a token and layer of eager PyTorch with norms of several kernels. LLaMA in full: test_saving.c. Frozen gains
 * keep no normed values, 2 x 2h; products without an adapter keep no operand: with q and v those are the input of the
 * FFN, 2h, and of its last product, 2f; kept beside are A's input once more, 2h, and A's results, 2 x 2r. */
static void kept_by_hand(void **state)
{
    enum { h = 4096, f = 11008, r = 8, tokens = 128 };
    const redco_shape shape = {
        .seq_len = tokens, .micro_batch = 1, .tp = 1, .cp = 1, .precision = REDCO_BF16, .engine = {.plain_norm = true}};
    redco_model *const plain = model_of("llama-7b", NULL), *const some = model_of("llama-7b", "lora:r=8,targets=q+v"),
                       *const all = model_of("llama-7b", "lora:r=8");
    const uint64_t full = redco_saved_of(plain, 1, &shape, REDCO_SAVER_EAGER, &not_recomputed).kept;
    (void)state;
    assert_int_equal(full - redco_saved_of(some, 1, &shape, REDCO_SAVER_EAGER, &not_recomputed).kept,
                     (uint64_t)tokens * (2 * 2 * h + 2 * h + 2 * f - 2 * h - 2 * 2 * r));
    /* all: copies for k, v and up; 7 results of A */
    assert_int_equal(redco_saved_of(all, 1, &shape, REDCO_SAVER_EAGER, &not_recomputed).kept,
                     full + (uint64_t)tokens * (3 * 2 * h + 7 * 2 * r - 2 * 2 * h));
    redco_model_free(plain);
    redco_model_free(some);
    redco_model_free(all);
}

/* Frozen products have no gradient of weights; MFU counts 4 FLOPs of their parameters, 6 of trained ones. */
static void frozen_products_have_two_passes(void **state)
{
    static const uint64_t base = UINT64_C(6738415616), trained = 4194304;
    redco_operator ops[REDCO_OPERATORS_MAX];
    struct fixture b;
    (void)state;
    fixture_open(&b, "llama-7b", a800_machine(1), plain_workload(8));
    redco_parallelism parallelism = plain_setting(&b, 1);
    const double full = redco_cost_fixed(b.costs, &parallelism).model_flops_per_token;
    redco_model_free(b.model);
    b.model = model_of("llama-7b", "lora:r=8,targets=q+v");
    fixture_costs(&b);
    const double adapted = redco_cost_fixed(b.costs, &parallelism).model_flops_per_token;
    check_near((full - adapted) / (2.0 * (double)base - 6.0 * (double)trained), 1.0, 1e-9);
    const redco_shape shape = redco_costs_shape(b.costs, &parallelism);
    const uint32_t count = redco_layer_operators(b.model, 1, &shape, ops);
    uint32_t frozen = 0, adapters = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind != REDCO_OPERATOR_GEMM) { continue; }
        const double s = redco_operator_s(redco_costs_compute(b.costs), &ops[i], REDCO_PASS_GRAD_WEIGHT);
        const bool adapter = ops[i].role == REDCO_OP_ROLE_ADAPTER;
        assert_true(adapter ? s > 0.0 : s == 0.0);
        frozen += adapter ? 0 : 1;
        adapters += adapter ? 1 : 0;
    }
    assert_int_equal(frozen, 4);   /* qkv, out, gate and up, down */
    assert_int_equal(adapters, 2); /* A and B beside qkv */
    fixture_close(&b);
}

static void words_are_read(void **state)
{
    static const struct {
        const char *text, *error;
    } bad[] = {
        {"lora", "none of all"},
        {"dora:r=8", "none of all"},
        {"lora:", "neither r=N"},
        {"lora:r=0", "no rank"},
        {"lora:r=5000", "no rank"},
        {"lora:r=8x", "no rank"},
        {"lora:targets=q", "says no rank"},
        {"lora:r=8,targets=lm_head", "no target"},
        {"lora:r=8,rank=3", "neither r=N"},
    };
    redco_trainable trainable;
    redco_error err = {.status = REDCO_OK};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err = (redco_error){.status = REDCO_OK};
        assert_int_equal(redco_trainable_read(bad[i].text, "--trainable", &trainable, &err), REDCO_EVALUE);
        if (strstr(err.text, bad[i].error) == NULL) { fail_msg("%s: %s", bad[i].text, err.text); }
    }
    check_ok(redco_trainable_read("all", "", &trainable, &err), &err);
    assert_int_equal(trainable.adapter_rank, 0);
    check_ok(redco_trainable_read("qlora:targets=q+down,r=64", "", &trainable, &err), &err);
    assert_int_equal(trainable.adapter_rank, 64);
    assert_true(trainable.quantised);
    assert_int_equal(trainable.adapted,
                     UINT64_C(1) << REDCO_USE_QUERY | UINT64_C(1) << REDCO_USE_QKV | UINT64_C(1) << REDCO_USE_DOWN);
}

static void others_are_refused_by_name(void **state)
{
    static const char *const models[][2] = {{"mixtral-8x7b", "mixtures"}, {"t5-11b", "encoder-decoder"}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        redco_model *model = NULL;
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redco_model_read_trained(models[i][0], "lora:r=8", &model, &err), REDCO_EVALUE);
        assert_non_null(strstr(err.text, models[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_by_hand),
        cmocka_unit_test(halves_are_cut_as_their_matrix),
        cmocka_unit_test(states_by_hand),
        cmocka_unit_test(kept_by_hand),
        cmocka_unit_test(frozen_products_have_two_passes),
        cmocka_unit_test(words_are_read),
        cmocka_unit_test(others_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
