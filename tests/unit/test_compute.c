/* Operators, their seconds, and the calibration sets behind them. Wanted values are worked out by hand beside each. */
#include "cost_fixture.h"
#include "costmodel/operators/compute.h"
#include "topology/base/preset.h"

#include <math.h>

/* Round numbers, so that a reader can check the products. */
static redco_calibration round_calibration(void)
{
    return (redco_calibration){.gemm_efficiency = 0.5,
                               .gemm_k0 = 512.0,
                               .kernel_s = 10e-6,
                               .attention_efficiency = 0.5,
                               .attention_backward_ratio = 0.8,
                               .memory_traffic_factor = 2.0,
                               .head_traffic_factor = 1.5,
                               .optimizer_factor = 1.0,
                               .nvlink_efficiency = 1.0,
                               .network_efficiency = 1.0,
                               .tp_link_efficiency = 1.0,
                               .usable_memory_ratio = 0.94};
}

static redco_compute round_compute(void)
{
    const redco_gpu gpu = {
        .name = "round", .compute_capability = 80, .bf16_flops_per_s = 100e12, .memory_bandwidth_bytes_per_s = 1e12};
    const redco_calibration calibration = round_calibration();
    redco_compute compute;
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_compute_create(&gpu, REDCO_BF16, &calibration, &compute, &err), &err);
    return compute;
}

static redco_model *model_of(const char *name)
{
    redco_model *model = NULL;
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_model_read(name, &model, &err), &err);
    return model;
}

static uint32_t class_named(const redco_model *model, const char *name)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(classes[i].name, name) == 0) { return i; }
    }
    fail_msg("no class %s", name);
    return 0;
}

static const redco_operator *operator_named(const redco_operator *ops, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(redco_op_role_name(ops[i].role), name) == 0) { return &ops[i]; }
    }
    return NULL;
}

static redco_shape shape_4096(uint32_t tp, uint32_t cp, bool sequence_parallel)
{
    return (redco_shape){.seq_len = 4096,
                         .micro_batch = 1,
                         .tp = tp,
                         .cp = cp,
                         .sequence_parallel = sequence_parallel,
                         .precision = REDCO_BF16};
}

static double product_s(const redco_compute *compute, uint64_t m, uint64_t n, uint64_t k)
{
    const redco_operator op = {.kind = REDCO_OPERATOR_GEMM, .m = m, .n = n, .k = k};
    return redco_operator_s(compute, &op, REDCO_PASS_FORWARD);
}

static void gemm_seconds(void **state)
{
    (void)state;
    const redco_compute compute = round_compute();
    /* 2 x 1024^3 = 2.147483648e9 FLOP at 50 TFLOP/s: 42.94967296 us; x (1 + 512/1024) = 64.42450944; + 10 us. */
    check_near(product_s(&compute, 1024, 1024, 1024), 74.42450944e-6, 1e-15);
    /* One row: 2 (1 x 4096 + 4096 x 4096 + 4096) bytes = 33.570816e6 at 0.85 TB/s = 39.4950776 us, far above
     * 2 x 4096^2 / 50e12 x 1.125 = 0.755 us. */
    check_near(product_s(&compute, 1, 4096, 4096), 33570816.0 / 0.85e12 + 10e-6, 1e-15);
}

static void backward_seconds(void **state)
{
    (void)state;
    const redco_compute compute = round_compute();
    const redco_operator gemm = {.kind = REDCO_OPERATOR_GEMM, .m = 4096, .n = 8192, .k = 1024};
    /* dA = dC B^T sums over n, dB = A^T dC over m. 2 m n k = 68.719476736e9: 1.37438953472 ms at 50 TFLOP/s. */
    const double pure_s = 1.37438953472e-3;
    check_near(redco_operator_s(&compute, &gemm, REDCO_PASS_FORWARD), pure_s * 1.5 + 10e-6, 1e-12);
    check_near(redco_operator_s(&compute, &gemm, REDCO_PASS_GRAD_INPUT), pure_s * 1.0625 + 10e-6, 1e-12);
    check_near(redco_operator_s(&compute, &gemm, REDCO_PASS_GRAD_WEIGHT), pure_s * 1.125 + 10e-6, 1e-12);
    const redco_operator attention = {.kind = REDCO_OPERATOR_ATTENTION, .flops = 1e12};
    check_near(redco_operator_s(&compute, &attention, REDCO_PASS_FORWARD), 20e-3, 1e-12);
    check_near(redco_operator_s(&compute, &attention, REDCO_PASS_GRAD_INPUT), 20e-3 * 2.5 / 0.8, 1e-12);
    const redco_operator norm = {.kind = REDCO_OPERATOR_MEMORY, .bytes = 1e9};
    check_near(redco_operator_s(&compute, &norm, REDCO_PASS_FORWARD), 2e-3, 1e-12);
    check_near(redco_operator_s(&compute, &norm, REDCO_PASS_GRAD_INPUT), 4e-3, 1e-12);
    check_near(redco_operator_s(&compute, &norm, REDCO_PASS_GRAD_WEIGHT), 0.0, 0.0);
}

static void llama_block_operators(void **state)
{
    (void)state;
    redco_model *const model = model_of("llama-7b");
    const uint32_t block = class_named(model, "block");
    static const char *const names[] = {"attn_norm", "qkv",    "rotary",     "attention", "out",
                                        "ffn_norm",  "ffn_in", "activation", "ffn_out"};
    redco_operator ops[REDCO_OPERATORS_MAX];
    redco_shape shape = shape_4096(1, 1, false);
    uint32_t count = redco_layer_operators(model, block, &shape, ops);
    double gemm_flops = 0.0, memory_bytes = 0.0;
    assert_int_equal(count, sizeof names / sizeof names[0]);
    for (uint32_t i = 0; i < count; i++) {
        assert_string_equal(redco_op_role_name(ops[i].role), names[i]);
        if (ops[i].kind == REDCO_OPERATOR_GEMM) { gemm_flops += ops[i].flops; }
        if (ops[i].kind == REDCO_OPERATOR_MEMORY) { memory_bytes += ops[i].bytes; }
    }
    /* Matrices: 4 x 4096^2 + 3 x 4096 x 11008 = 202,375,168; every token multiplies each once. */
    check_near(gemm_flops, 2.0 * 4096.0 * 202375168.0, 1.0);
    /* Causal half of 4 s^2 h: 2 x 4096^3 = 137.438953472e9. */
    check_near(operator_named(ops, count, "attention")->flops, 137438953472.0, 1.0);
    /* T (20 h + 8 f + 8 h) = 4096 x (28 x 4096 + 8 x 11008) = 830,472,192 */
    check_near(memory_bytes, 830472192.0, 1.0);

    shape = shape_4096(8, 2, true); /* 2048 tokens, 4 heads: an eighth of half of each */
    count = redco_layer_operators(model, block, &shape, ops);
    gemm_flops = 0.0;
    memory_bytes = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind == REDCO_OPERATOR_GEMM) { gemm_flops += ops[i].flops; }
        if (ops[i].kind == REDCO_OPERATOR_MEMORY) { memory_bytes += ops[i].bytes; }
    }
    check_near(gemm_flops, 2.0 * 4096.0 * 202375168.0 / 16.0, 1.0);
    check_near(operator_named(ops, count, "attention")->flops, 137438953472.0 / 16.0, 1.0);
    check_near(memory_bytes, 830472192.0 / 16.0, 1.0);
    shape.sequence_parallel = false; /* norms are whole then: 20 T h undivided by 8 */
    count = redco_layer_operators(model, block, &shape, ops);
    check_near(operator_named(ops, count, "attn_norm")->bytes, 10.0 * 2048.0 * 4096.0, 1.0);
    redco_model_free(model);
}

/* Norms of 32 query and 8 KV heads of 128: 10 bytes an element, of this rank's heads, whatever is split beside. */
static void qwen3_norms_heads(void **state)
{
    (void)state;
    redco_model *const model = model_of("qwen3-8b");
    const uint32_t block = class_named(model, "block");
    static const char *const names[] = {"attn_norm", "qkv",      "q_norm", "k_norm",     "rotary", "attention",
                                        "out",       "ffn_norm", "ffn_in", "activation", "ffn_out"};
    redco_operator ops[REDCO_OPERATORS_MAX];
    redco_shape shape = shape_4096(1, 1, false);
    uint32_t count = redco_layer_operators(model, block, &shape, ops);
    assert_int_equal(count, sizeof names / sizeof names[0]);
    for (uint32_t i = 0; i < count; i++) { assert_string_equal(redco_op_role_name(ops[i].role), names[i]); }
    check_near(operator_named(ops, count, "q_norm")->bytes, 10.0 * 4096.0 * 32.0 * 128.0, 1.0);
    check_near(operator_named(ops, count, "k_norm")->bytes, 10.0 * 4096.0 * 8.0 * 128.0, 1.0);
    assert_int_equal(operator_named(ops, count, "k_norm")->columns, 128);
    assert_string_equal(operator_named(ops, count, "q_norm")->measured_as, "rms_norm");
    shape = shape_4096(4, 1, true);
    count = redco_layer_operators(model, block, &shape, ops);
    check_near(operator_named(ops, count, "q_norm")->bytes, 10.0 * 4096.0 * 8.0 * 128.0, 1.0);
    check_near(operator_named(ops, count, "k_norm")->bytes, 10.0 * 4096.0 * 2.0 * 128.0, 1.0);
    redco_model_free(model);
}

static void other_families(void **state)
{
    (void)state;
    redco_operator ops[REDCO_OPERATORS_MAX];
    const redco_shape shape = shape_4096(1, 1, false);
    redco_model *model = model_of("gpt-j-6b"); /* attention and FFN read one norm; not gated */
    uint32_t count = redco_layer_operators(model, class_named(model, "block"), &shape, ops);
    assert_null(operator_named(ops, count, "ffn_norm"));
    assert_int_equal(operator_named(ops, count, "ffn_in")->n, 16384);
    assert_non_null(operator_named(ops, count, "rotary"));
    redco_model_free(model);

    model = model_of("t5-11b"); /* 128 heads of 128 on a width of 1024 */
    count = redco_layer_operators(model, class_named(model, "encoder"), &shape, ops);
    assert_null(operator_named(ops, count, "cross_attention"));
    assert_null(operator_named(ops, count, "rotary"));
    /* An encoder sees every pair: 4 s^2 (128 x 128) */
    const double square = 4.0 * 4096.0 * 4096.0 * 16384.0;
    check_near(operator_named(ops, count, "attention")->flops, square, 1.0);
    count = redco_layer_operators(model, class_named(model, "decoder"), &shape, ops);
    check_near(operator_named(ops, count, "attention")->flops, square / 2.0, 1.0);
    check_near(operator_named(ops, count, "cross_attention")->flops, square, 1.0);
    assert_int_equal(operator_named(ops, count, "cross_kv")->n, 2 * 16384);
    assert_int_equal(operator_named(ops, count, "out")->k, 16384);
    redco_model_free(model);

    model = model_of("llama-3-8b"); /* 32 query, 8 key-value heads of 128; vocabulary 128,256 */
    const redco_shape split = shape_4096(16, 1, false);
    count = redco_layer_operators(model, class_named(model, "block"), &shape, ops);
    assert_int_equal(operator_named(ops, count, "qkv")->n, (32 + 2 * 8) * 128);
    count = redco_layer_operators(model, class_named(model, "block"), &split, ops);
    assert_int_equal(operator_named(ops, count, "qkv")->n, (2 + 2 * 1) * 128); /* one KV head each, held twice */
    count = redco_layer_operators(model, class_named(model, "head"), &split, ops);
    assert_int_equal(operator_named(ops, count, "head")->n, 8016);
    redco_model_free(model);
}

static void precision_needs_the_gpu(void **state)
{
    (void)state;
    const redco_calibration calibration = round_calibration();
    redco_compute compute;
    redco_error err = {.status = REDCO_OK};
    redco_gpu v100 = {.name = "V100-SXM2-16GB",
                      .compute_capability = 70,
                      .fp16_flops_per_s = 125e12,
                      .fp32_flops_per_s = 15.7e12,
                      .memory_bandwidth_bytes_per_s = 900e9};
    assert_int_equal(redco_compute_create(&v100, REDCO_BF16, &calibration, &compute, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "V100-SXM2-16GB");
    assert_string_equal(err.text, "has no bf16 matrix units: use --precision fp16");
    check_ok(redco_compute_create(&v100, REDCO_FP32, &calibration, &compute, NULL), &err);
    assert_false(compute.tf32);
    check_near(compute.peak_flops_per_s, 15.7e12, 0.0);
    const redco_gpu a800 = a800_gpu();
    check_ok(redco_compute_create(&a800, REDCO_FP32, &calibration, &compute, NULL), &err);
    assert_true(compute.tf32);
    check_near(compute.peak_flops_per_s, 156e12, 0.0);
    assert_int_equal(compute.element_bytes, 4);
}

/* 100 TFLOP/s, 1 TB/s, e_g 0.5, u 1, rho 2, w 2. Scores of 32 heads over 2048 x 2048: 134,217,728; products
 * 4 x 2048 x 2048 x 4096 = 68,719,476,736 FLOP over 0.55 x 50 TFLOP/s = 2.498890 ms; plain softmax 26 x 134,217,728
 * bytes = 3.489661 ms; backward 2 and 1.6 times those. Fused: 11 bytes, 1.476395 ms. */
static void engines_change_operators(void **state)
{
    (void)state;
    const redco_gpu gpu = {.name = "round",
                           .bf16_flops_per_s = 100e12,
                           .fp8_flops_per_s = 200e12,
                           .fp4_flops_per_s = 600e12,
                           .memory_bandwidth_bytes_per_s = 1e12};
    redco_calibration calibration = round_calibration();
    calibration.scores_traffic_factor = 1.0;
    calibration.norm_traffic_factor = 2.0;
    calibration.fp8_efficiency = 0.9;
    calibration.fp4_efficiency = 0.5;
    calibration.flash1_ratio = 0.6;
    calibration.compiled_ratio = 0.5;
    redco_error err = {.status = REDCO_OK};
    redco_model *const model = model_of("llama-7b");
    redco_compute compute;
    redco_operator ops[REDCO_OPERATORS_MAX];
    redco_shape shape = {.seq_len = 2048, .micro_batch = 1, .tp = 1, .cp = 1, .precision = REDCO_BF16};
    shape.engine =
        (redco_engine){.attention = REDCO_ATTENTION_UNFUSED, .plain_norm = true, .gemm_format = REDCO_GEMM_FP8};
    check_ok(redco_compute_create(&gpu, REDCO_BF16, &calibration, &compute, &err), &err);
    check_ok(redco_compute_use_engine(&compute, &gpu, &shape.engine, &err), &err);
    check_near(compute.low_precision_flops_per_s, 180e12, 1.0);
    uint32_t count = redco_layer_operators(model, class_named(model, "block"), &shape, ops);
    const redco_operator *const core = operator_named(ops, count, "attention");
    check_near(redco_operator_s(&compute, core, REDCO_PASS_FORWARD), 2.498890e-3 + 3.489661e-3, 1e-9);
    check_near(redco_operator_s(&compute, core, REDCO_PASS_GRAD_INPUT), 2 * 2.498890e-3 + 1.6 * 3.489661e-3, 2e-9);
    /* (10 + 18 x 2) T h bytes, twice (w), over 1 TB/s. */
    check_near(redco_operator_s(&compute, operator_named(ops, count, "attn_norm"), REDCO_PASS_FORWARD),
               2.0 * 46.0 * 2048.0 * 4096.0 * 1e-12, 1e-12);
    /* T (6 h + 3 f), whatever w. */
    check_near(redco_operator_s(&compute, operator_named(ops, count, "casts"), REDCO_PASS_FORWARD),
               2048.0 * (6.0 * 4096.0 + 3.0 * 11008.0) * 1e-12, 1e-12);
    /* 2 x 2048 x 4096 x 4096 FLOP at 0.5 x 180 TFLOP/s x (1 + 512 / 4096), and 10 us. */
    check_near(redco_operator_s(&compute, operator_named(ops, count, "out"), REDCO_PASS_FORWARD),
               2.0 * 2048.0 * 4096.0 * 4096.0 / 90e12 * 1.125 + 10e-6, 1e-12);
    shape.engine =
        (redco_engine){.attention = REDCO_ATTENTION_FUSED, .compiled = true, .gemm_format = REDCO_GEMM_NVFP4};
    check_ok(redco_compute_create(&gpu, REDCO_BF16, &calibration, &compute, &err), &err);
    check_ok(redco_compute_use_engine(&compute, &gpu, &shape.engine, &err), &err);
    check_near(compute.low_precision_flops_per_s, 270e12, 1.0); /* 600 x 0.9 x 0.5 */
    check_near(compute.calibration.memory_traffic_factor, 1.0, 0.0);
    count = redco_layer_operators(model, class_named(model, "block"), &shape, ops);
    check_near(redco_operator_s(&compute, operator_named(ops, count, "attention"), REDCO_PASS_FORWARD),
               2.498890e-3 + 1.476395e-3, 1e-9);
    const redco_gpu a800 = a800_gpu();
    assert_int_equal(redco_compute_use_engine(&compute, &a800, &shape.engine, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "has no 8-bit matrix units");
    redco_model_free(model);
}

/* Version 1 lacks what engines need; the values that its formulas had then stand in. */
static void older_sets_are_read(void **state)
{
    (void)state;
    redco_calibration read;
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_calibration_read(REDCO_TEST_DATA "/calibration-v1.json", NULL, &read, &err), &err);
    assert_string_equal(read.name, "a100-eager");
    check_near(read.flash1_ratio, 0.65, 0.0);
    check_near(read.cp_exposed_ratio, 0.3, 0.0);
    check_near(read.sync_s, 0.0, 0.0);
    check_near(read.gemm_efficiency, 0.825, 0.0);
}

static void host_floor_is_smooth(void **state)
{
    (void)state;
    check_near(redco_pass_s(3e-3, 0.0), 3e-3, 0.0);
    check_near(redco_pass_s(1e-3, 1e-3), 1.122462048309373e-3, 1e-15); /* 2^(1/6) */
    check_near(redco_pass_s(10e-3, 1e-3), 10e-3, 1e-8);
    check_near(redco_pass_s(0.0, 1e-3), 1e-3, 1e-15);
}

static void calibration_sets_are_whole(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool fitted;
    } sets[] = {{"prior-a100-eager", false},   {"prior-a100-megatron", false},
                {"prior-h100-eager", false},   {"prior-h100-te", false},
                {"prior-blackwell-te", false}, {"a100-eager", true},
                {"a100-megatron", true},       {"a800-amsp", true},
                {"h100-eager", true},          {"h100-te", true},
                {"h200-eager", false},         {"h200-te", false},
                {"blackwell-te", true},        {"a100-llm-foundry", true},
                {"a100-aleph-alpha", true},    {"h100-nemo", true},
                {"h100-maxtext", true},        {"a100-megatron-deepspeed", true},
                {"a100-megatron-lm", true},    {"blackwell-megatron-bridge", true}};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        redco_calibration read, again;
        redco_error err = {.status = REDCO_OK};
        memset(&read, 0, sizeof read);
        memset(&again, 0, sizeof again);
        check_ok(redco_calibration_read(sets[i].name, NULL, &read, &err), &err);
        assert_string_equal(read.name, sets[i].name);
        assert_true(sets[i].fitted == (read.fitted_rows > 0));
        assert_true(strstr(read.basis, "fitted") != NULL);
        if (sets[i].fitted) { /* an error and a band go with every fit; unseen rows are never easier than seen ones */
            assert_true(read.mape_ratio > 0.0 && read.band_ratio > 0.0);
            assert_true(read.cross_validated_ratio > read.mape_ratio && read.left_out_ratio > read.mape_ratio);
        }
        json_t *const json = redco_calibration_describe(&read);
        const redco_json_value value = redco_json_wrap(json, "described");
        check_ok(redco_calibration_from_json(&value, &again, &err), &err);
        assert_memory_equal(&read, &again, sizeof read);
        json_decref(json);
    }
}

static void default_set_follows_the_architecture(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"Ampere", "a100-eager"},
                                          {"Volta", "a100-eager"},
                                          {"CDNA3", "cdna3-eager"},
                                          {"Hopper", "h100-eager"},
                                          {"Blackwell", "blackwell-eager"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_machine machine = a800_machine(1);
        redco_calibration read;
        (void)snprintf(machine.gpu.arch, sizeof machine.gpu.arch, "%s", rows[i][0]);
        (void)snprintf(machine.gpu.name, sizeof machine.gpu.name, "a GPU");
        assert_int_equal(redco_calibration_read(NULL, &machine, &read, NULL), REDCO_OK);
        assert_string_equal(read.name, rows[i][1]);
    }
    const redco_machine a800 = a800_machine(1);
    redco_calibration read;
    assert_int_equal(redco_calibration_read(NULL, &a800, &read, NULL), REDCO_OK);
    assert_string_equal(read.name, "a800-amsp");
}

/* Ranks on processors keep the gate; a set says so, and the one that ships under their name is read as before. */
static void processors_keep_the_gate(void **state)
{
    static const char *const names[] = {"host", "cuda"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        redco_calibration calibration, again;
        redco_error err = {.status = REDCO_OK};
        check_ok(redco_calibration_read(names[i], NULL, &calibration, &err), &err);
        assert_int_equal(calibration.keeps_gate, i == 0);
        json_t *json = redco_calibration_describe(&calibration);
        assert_null(json_object_get(json, "keeps_gate")); /* plans hold what they held */
        json_decref(json);
        (void)snprintf(calibration.name, sizeof calibration.name, i == 0 ? "own" : "host");
        json = redco_calibration_describe(&calibration);
        const redco_json_value root = redco_json_wrap(json, "own");
        check_ok(redco_calibration_from_json(&root, &again, &err), &err);
        assert_int_equal(again.keeps_gate, i == 0);
        json_decref(json);
    }
}

static void bad_calibrations_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *key, *value, *text; /* value NULL: the key is taken away */
    } rows[] = {{"gemm_efficiency", "7", "is 7; a number from 0.01 to 1.5 is needed"},
                {"kernel_s", "-1", "is -1; a number from 0 to 0.01 is needed"},
                {"network_efficiency", NULL, "is missing"},
                {"gemm_eficiency", "0.5", "gemm_efficiency"},
                {"version", "9", "newer"},
                {"scale_ratio", "\"much\"", "number"}};
    const redco_preset *const preset = redco_preset_find("calibrations", "a100-eager");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        redco_calibration read;
        json_t *const json = json_loads(preset->text, 0, NULL);
        if (rows[i].value == NULL) {
            assert_int_equal(json_object_del(json, rows[i].key), 0);
        } else {
            json_t *const number = json_loads(rows[i].value, JSON_DECODE_ANY, NULL);
            assert_int_equal(json_object_set_new(json, rows[i].key, number), 0);
        }
        const redco_json_value value = redco_json_wrap(json, "bad.json");
        assert_int_equal(redco_calibration_from_json(&value, &read, &err), REDCO_EVALUE);
        if (strstr(err.text, rows[i].text) == NULL) { fail_msg("%s: %s", err.place, err.text); }
        json_decref(json);
    }
    redco_error err = {.status = REDCO_OK};
    redco_calibration read;
    assert_int_equal(redco_calibration_read("a900-eager", NULL, &read, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "a100-megatron"));
}

/* Mistral's queries see 4096 keys: of 8192 the first half see half of them, the others all: 3/8 of the square, where
 * whole attention has half of it. The other operators are the same. */
static void a_window_makes_attention_shorter(void **state)
{
    (void)state;
    redco_model *const model = model_of("mistral-7b");
    const redco_shape shape = {.seq_len = 8192, .micro_batch = 1, .tp = 1, .cp = 1, .precision = REDCO_BF16};
    redco_operator ops[REDCO_OPERATORS_MAX];
    const uint32_t count = redco_layer_operators(model, class_named(model, "block"), &shape, ops);
    const redco_operator *const core = operator_named(ops, count, "attention");
    assert_non_null(core);
    assert_true(fabs(core->flops / (4.0 * 8192.0 * 8192.0 * 4096.0) - 0.375) < 1e-12);
    redco_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gemm_seconds),
                                       cmocka_unit_test(backward_seconds),
                                       cmocka_unit_test(llama_block_operators),
                                       cmocka_unit_test(qwen3_norms_heads),
                                       cmocka_unit_test(other_families),
                                       cmocka_unit_test(precision_needs_the_gpu),
                                       cmocka_unit_test(engines_change_operators),
                                       cmocka_unit_test(older_sets_are_read),
                                       cmocka_unit_test(host_floor_is_smooth),
                                       cmocka_unit_test(calibration_sets_are_whole),
                                       cmocka_unit_test(default_set_follows_the_architecture),
                                       cmocka_unit_test(processors_keep_the_gate),
                                       cmocka_unit_test(bad_calibrations_are_refused),
                                       cmocka_unit_test(a_window_makes_attention_shorter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
