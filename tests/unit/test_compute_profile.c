/* Measured operators in place of formulas: small tables by hand, and the shipped sample of a made-up processor
 * (tests/data/profiles/own-v2.json): products of 2mnk / 50 GFLOP/s + 1 us, those with A transposed 10 % slower. */
#include "costmodel/closed_form/closed_form.h"
#include "costmodel/collectives/collective.h"
#include "costmodel/operators/compute_profile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void close_to(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted))) { fail_msg("%.12g is not %.12g", got, wanted); }
}

static redco_compute_profile *profile_of(const char *const *texts, size_t count)
{
    redco_compute_profile *profile = NULL;
    redco_error err = {0};
    for (size_t i = 0; i < count; i++) {
        char text[4096];
        redco_profile *file = NULL;
        (void)snprintf(text, sizeof text, "{\"format\":\"redco-profile\",\"version\":2,%s}", texts[i]);
        if (redco_profile_parse(text, strlen(text), "x.json", &file, &err) != REDCO_OK ||
            redco_compute_profile_add(&profile, file, "x.json", &err) != REDCO_OK) {
            fail_msg("%s: %s", err.place, err.text);
        }
        redco_profile_free(file);
    }
    if (redco_compute_profile_finish(profile, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return profile;
}

static redco_compute_profile *sample(void)
{
    redco_profile *file = NULL;
    redco_compute_profile *profile = NULL;
    redco_error err = {0};
    const char *path = REDCO_TEST_DATA "/profiles/own-v2.json";
    if (redco_profile_read(path, &file, &err) != REDCO_OK ||
        redco_compute_profile_add(&profile, file, path, &err) != REDCO_OK ||
        redco_compute_profile_finish(profile, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    redco_profile_free(file);
    return profile;
}

static double gemm(const redco_compute_profile *profile, uint64_t m, uint64_t n, uint64_t k, redco_pass pass)
{
    double seconds = (double)NAN;
    assert_true(redco_compute_profile_gemm_s(profile, m, n, k, pass, REDCO_FP32, &seconds));
    return seconds;
}

/* Every row of the sample comes back, whatever its layout and type. */
static void measured_points_are_exact(void **state)
{
    (void)state;
    redco_compute_profile *profile = sample();
    redco_profile *file = NULL;
    const redco_profile_gemm *gemms = NULL;
    const redco_profile_attention *attentions = NULL;
    const redco_profile_operator *operators = NULL;
    assert_int_equal(redco_profile_read(REDCO_TEST_DATA "/profiles/own-v2.json", &file, NULL), REDCO_OK);
    const size_t gemm_count = redco_profile_gemms(file, &gemms);
    const size_t attention_count = redco_profile_attentions(file, &attentions);
    const size_t operator_count = redco_profile_operators(file, &operators);
    assert_true(gemm_count > 100 && attention_count == 8 && operator_count == 40);
    for (size_t i = 0; i < gemm_count; i++) {
        const redco_pass pass = gemms[i].transpose_a   ? REDCO_PASS_GRAD_WEIGHT
                                : gemms[i].transpose_b ? REDCO_PASS_GRAD_INPUT
                                                       : REDCO_PASS_FORWARD;
        const redco_precision precision = strcmp(gemms[i].type, "fp32") == 0 ? REDCO_FP32 : REDCO_BF16;
        double seconds = (double)NAN;
        assert_true(
            redco_compute_profile_gemm_s(profile, gemms[i].m, gemms[i].n, gemms[i].k, pass, precision, &seconds));
        close_to(seconds, gemms[i].time_s);
    }
    for (size_t i = 0; i < attention_count; i++) {
        const redco_profile_attention *a = &attentions[i];
        /* The model counts half of the square of a causal core. */
        const redco_operator op = {.kind = REDCO_OPERATOR_ATTENTION,
                                   .keys = a->sequence,
                                   .head_dim = a->head_dim,
                                   .causal = true,
                                   .flops = 2.0 * a->batch * a->heads * a->sequence * a->sequence * a->head_dim};
        const redco_precision precision = strcmp(a->type, "fp32") == 0 ? REDCO_FP32 : REDCO_BF16;
        double seconds[3];
        for (int pass = 0; pass < 3; pass++) {
            assert_true(redco_compute_profile_s(profile, &op, (redco_pass)pass, precision, &seconds[pass]));
        }
        close_to(seconds[REDCO_PASS_FORWARD], a->forward_s);
        close_to(seconds[REDCO_PASS_GRAD_INPUT], a->backward_s);
        assert_true(seconds[REDCO_PASS_GRAD_WEIGHT] == 0.0);
    }
    for (size_t i = 0; i < operator_count; i++) {
        const redco_operator op = {
            .kind = REDCO_OPERATOR_MEMORY, .measured_as = operators[i].name, .elements = (double)operators[i].elements};
        const redco_precision precision = strcmp(operators[i].type, "fp32") == 0 ? REDCO_FP32 : REDCO_BF16;
        double seconds = (double)NAN;
        assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_FORWARD, precision, &seconds));
        close_to(seconds, operators[i].forward_s);
        const bool backward = redco_compute_profile_s(profile, &op, REDCO_PASS_GRAD_INPUT, precision, &seconds);
        assert_int_equal(backward, operators[i].backward_s > 0.0);
        if (backward) { close_to(seconds, operators[i].backward_s); }
    }
    redco_profile_free(file);
    redco_compute_profile_free(profile);
}

/* Times of the sample grow with every size; so must what lies between and beyond. */
static void times_grow_with_every_size(void **state)
{
    (void)state;
    redco_compute_profile *profile = sample();
    for (int axis = 0; axis < 3; axis++) {
        for (uint64_t other = 8; other <= 2048; other *= 4) {
            double last_s = 0.0;
            for (double x = 4.0; x < 20000.0; x *= 1.19) {
                uint64_t size[3] = {other, other, other};
                size[axis] = (uint64_t)x;
                const double seconds = gemm(profile, size[0], size[1], size[2], REDCO_PASS_FORWARD);
                if (seconds < last_s * (1.0 - 1e-12)) {
                    fail_msg("axis %d, %llu beside %llu: %g s after %g s", axis, (unsigned long long)size[axis],
                             (unsigned long long)other, seconds, last_s);
                }
                last_s = seconds;
            }
        }
    }
    redco_compute_profile_free(profile);
}

#define ROW(m, n, k, time) "{\"m\":" #m ",\"n\":" #n ",\"k\":" #k ",\"type\":\"fp32\",\"time_s\":" #time "}"

/* n = k = 10. m = 100 takes 1 ms, m = 400 takes 2 ms: halfway in the logarithm, at 200, sqrt(1 * 2) = 1.41421356 ms.
 * Beyond 400 at its rate: 800 takes 4 ms. Below 100 likewise: 50 takes 0.5 ms. */
static void between_is_the_geometric_mean(void **state)
{
    (void)state;
    const char *const texts[] = {"\"gemm\":[" ROW(100, 10, 10, 0.001) "," ROW(400, 10, 10, 0.002) "]"};
    redco_compute_profile *profile = profile_of(texts, 1);
    close_to(gemm(profile, 200, 10, 10, REDCO_PASS_FORWARD), 1.41421356237e-3);
    close_to(gemm(profile, 800, 10, 10, REDCO_PASS_FORWARD), 4e-3);
    close_to(gemm(profile, 50, 10, 10, REDCO_PASS_FORWARD), 0.5e-3);
    close_to(gemm(profile, 400, 30, 10, REDCO_PASS_FORWARD), 6e-3);
    /* No other layout was measured, so this one's stands for them. */
    close_to(gemm(profile, 100, 10, 10, REDCO_PASS_GRAD_WEIGHT), 1e-3);
    double seconds = 0.0;
    assert_false(redco_compute_profile_gemm_s(profile, 100, 10, 10, REDCO_PASS_FORWARD, REDCO_BF16, &seconds));
    assert_false(redco_compute_profile_gemm_s(NULL, 100, 10, 10, REDCO_PASS_FORWARD, REDCO_FP32, &seconds));
    redco_compute_profile_free(profile);
}

/* Four corners of (m, n); the middle is the geometric mean of all: (1 * 2 * 4 * 16)^(1/4) = 3.36358566 ms. */
static void two_sizes_at_once(void **state)
{
    (void)state;
    const char *const texts[] = {"\"gemm\":[" ROW(16, 16, 8, 0.001) "," ROW(64, 16, 8, 0.002) "]",
                                 "\"gemm\":[" ROW(16, 64, 8, 0.004) "," ROW(64, 64, 8, 0.016) "]"};
    redco_compute_profile *profile = profile_of(texts, 2);
    close_to(gemm(profile, 32, 32, 8, REDCO_PASS_FORWARD), 3.36358566101e-3);
    close_to(gemm(profile, 16, 32, 8, REDCO_PASS_FORWARD), 2e-3);
    redco_compute_profile_free(profile);
}

/* (64, 64) was not measured; the nearest by factors is (64, 32), half the work in 3 ms. Of two times of one size the
 * shorter counts. */
static void a_missing_size_has_its_neighbours_rate(void **state)
{
    (void)state;
    const char *const texts[] = {"\"gemm\":[" ROW(16, 32, 8, 0.001) "," ROW(64, 32, 8, 0.003) "," ROW(
        64, 32, 8, 0.005) "," ROW(16, 64, 8, 0.007) "]"};
    redco_compute_profile *profile = profile_of(texts, 1);
    close_to(gemm(profile, 64, 64, 8, REDCO_PASS_FORWARD), 6e-3);
    close_to(gemm(profile, 64, 32, 8, REDCO_PASS_FORWARD), 3e-3);
    redco_compute_profile_free(profile);
}

static void too_many_sizes_are_refused(void **state)
{
    (void)state;
    char text[8192] = "{\"format\":\"redco-profile\",\"version\":2,\"gemm\":[";
    redco_compute_profile *profile = NULL;
    redco_profile *file = NULL;
    redco_error err = {0};
    for (int i = 1; i <= 49; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, sizeof text - used,
                       "%s{\"m\":%d,\"n\":1,\"k\":1,\"type\":\"fp32\",\"time_s\":1e-6}", i > 1 ? "," : "", i);
    }
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "]}");
    assert_int_equal(redco_profile_parse(text, strlen(text), "x.json", &file, &err), REDCO_OK);
    assert_int_equal(redco_compute_profile_add(&profile, file, "x.json", &err), REDCO_OK);
    assert_int_equal(redco_compute_profile_finish(profile, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "x.json");
    assert_non_null(strstr(err.text, "more than 48 different sizes of \"gemm fp32 00\""));
    redco_compute_profile_free(profile);
    redco_profile_free(file);
}

static redco_machine host_machine(const char *name)
{
    redco_machine machine = {.name = "here",
                             .gpu = {.vendor = "host",
                                     .arch = "processor",
                                     .fp32_flops_per_s = 5e10,
                                     .bf16_flops_per_s = 4e10,
                                     .memory_bytes = UINT64_C(8) << 30,
                                     .memory_bandwidth_bytes_per_s = 2e10,
                                     .link = "none",
                                     .pcie_bytes_per_s = 2e9},
                             .nodes = 1,
                             .gpus_per_node = 2,
                             .node_gpus_physical = 2,
                             .hosts_per_node = 1,
                             .fabric = REDCO_FABRIC_PCIE,
                             .link_group_gpus = 1,
                             .peer_bytes_per_s = 2e9,
                             .oversubscription_ratio = 1.0};
    (void)snprintf(machine.gpu.name, sizeof machine.gpu.name, "%s", name);
    return machine;
}

/* Measured operators count on the device that they were measured on, and on no other. */
static void operators_belong_to_their_device(void **state)
{
    (void)state;
    const char *const path = REDCO_TEST_DATA "/profiles/own-v2.json";
    const redco_machine same = host_machine("Host example CPU"), other = host_machine("host Other CPU");
    redco_comm *comm = NULL;
    assert_int_equal(redco_comm_create(&same, &path, 1, &comm, NULL), REDCO_OK);
    assert_non_null(redco_comm_compute(comm));
    assert_null(redco_comm_warning(comm));
    redco_comm_free(comm);
    assert_int_equal(redco_comm_create(&other, &path, 1, &comm, NULL), REDCO_OK);
    assert_null(redco_comm_compute(comm));
    assert_non_null(strstr(redco_comm_warning(comm), "measured on \"host Example CPU\" and are not used"));
    redco_comm_free(comm);
    /* Version 1 names no device. */
    const char *const old = REDCO_TEST_DATA "/profiles/own.json";
    assert_int_equal(redco_comm_create(&same, &old, 1, &comm, NULL), REDCO_OK);
    assert_null(redco_comm_compute(comm));
    redco_comm_free(comm);
}

/* A layer of the sample's processor: 64 hidden, 64 tokens, so that every product but the FFN's is 64^3 or 64 x 128 x
 * 64, and its cost is the sum of what the profile says, forward and backward. */
static void a_layer_costs_the_sum_of_its_operators(void **state)
{
    (void)state;
    const char *const path = REDCO_TEST_DATA "/profiles/own-v2.json";
    const redco_machine machine = host_machine("host Example CPU");
    const redco_model_dims dims = {
        .hidden = 64, .ffn = 256, .layers = 3, .heads = 2, .kv_heads = 1, .head_dim = 32, .vocab = 4096, .gated = true};
    const redco_workload workload = {
        .seq_len = 64, .global_batch = 2, .precision = REDCO_FP32, .bucket_bytes = UINT64_C(1) << 20};
    const redco_parallelism parallelism = {
        .tp = 1, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 1, .dp = {2, 1}, .scheme = REDCO_INTRA_TENSOR};
    const redco_layer_config config = {.shards = {{1, 1}, {1, 1}, {1, 1}}, .recompute = REDCO_RECOMPUTE_NONE};
    redco_error err = {0};
    redco_calibration calibration;
    redco_compute_profile *profile = sample();
    redco_model *model = NULL;
    redco_comm *comm = NULL;
    redco_costs *costs = NULL;
    const redco_layer_class *classes = NULL;
    assert_int_equal(redco_model_from_dims(&dims, "small", &model, &err), REDCO_OK);
    assert_int_equal(redco_calibration_read(NULL, &machine, &calibration, &err), REDCO_OK);
    assert_string_equal(calibration.name, "host");
    assert_int_equal(redco_comm_create(&machine, &path, 1, &comm, &err), REDCO_OK);
    assert_int_equal(redco_costs_create(&machine, model, &workload, &calibration, comm, &costs, &err), REDCO_OK);
    uint32_t block = 0;
    const size_t count = redco_model_classes(model, &classes);
    while (block < count && classes[block].kind != REDCO_CLASS_BLOCK) { block++; }
    assert_true(block < count);
    const redco_layer_cost cost = redco_cost_layer(costs, &parallelism, block, &config);

    /* By hand: norms 64 x 64 = 4096 elements at 2 + 4 ns, twice; rotary 64 (64 + 32) at 1 + 1 ns; activation 64 x 256
     * at 4 + 8 ns; attention of two heads 4 * 2 * 64^2 * 32 FLOP at 12.5 GFLOP/s forward, half of that rate backward.
     */
    const double norms_s = 2.0 * 4096.0 * 1e-9, rotary_s = 6144.0 * 1e-9, activation_s = 16384.0 * 1e-9;
    const double core_s = 167.772e-6 / 2.0; /* the row of four heads */
    double forward_s = 2.0 * norms_s + rotary_s + 4.0 * activation_s + core_s;
    double backward_s = 4.0 * norms_s + rotary_s + 8.0 * activation_s + 2.0 * core_s;
    /* n, k of q, k, v, out, gate, up, ffn_out: this engine multiplies by each weight. */
    const uint64_t products[7][2] = {{64, 64}, {32, 64}, {32, 64}, {64, 64}, {256, 64}, {256, 64}, {64, 256}};
    for (int i = 0; i < 7; i++) {
        const uint64_t n = products[i][0], k = products[i][1];
        forward_s += gemm(profile, 64, n, k, REDCO_PASS_FORWARD);
        backward_s += gemm(profile, 64, k, n, REDCO_PASS_GRAD_INPUT) + gemm(profile, k, n, 64, REDCO_PASS_GRAD_WEIGHT);
    }
    /* The file's times of operators have six digits, and what is smaller than any lies on a line through two. */
    assert_true(fabs(cost.forward_s / forward_s - 1.0) < 1e-6);
    assert_true(fabs(cost.backward_s / backward_s - 1.0) < 1e-6);
    /* The optimizer takes 3 ns a parameter, to the six digits of the file. */
    assert_true(fabs(cost.optimizer_s / (3e-9 * (double)classes[block].params) - 1.0) < 1e-6);
    redco_costs_recalibrate(costs, &calibration);
    assert_true(fabs(redco_cost_layer(costs, &parallelism, block, &config).forward_s / forward_s - 1.0) < 1e-6);
    redco_costs_free(costs);
    redco_comm_free(comm);
    redco_model_free(model);
    redco_compute_profile_free(profile);
}

/* By hand: X [8][4] by weights of 2 and 6 columns, and by one of 8. Rows are measured exactly as asked: forward 1 and 3
 * us, gradients of the input 5 and 7 us and one sum of 8 x 4 elements at 1/16 us, of the weights 9 and 11 us. */
static void weights_that_share_an_input_are_products_of_their_own(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"gemm\":[{\"m\":8,\"n\":2,\"k\":4,\"type\":\"bf16\",\"time_s\":1e-6},"
        "{\"m\":8,\"n\":6,\"k\":4,\"type\":\"bf16\",\"time_s\":3e-6},"
        "{\"m\":8,\"n\":8,\"k\":4,\"type\":\"bf16\",\"time_s\":2e-6},"
        "{\"m\":8,\"n\":4,\"k\":2,\"transposed\":\"b\",\"type\":\"bf16\",\"time_s\":5e-6},"
        "{\"m\":8,\"n\":4,\"k\":6,\"transposed\":\"b\",\"type\":\"bf16\",\"time_s\":7e-6},"
        "{\"m\":4,\"n\":2,\"k\":8,\"transposed\":\"a\",\"type\":\"bf16\",\"time_s\":9e-6},"
        "{\"m\":4,\"n\":6,\"k\":8,\"transposed\":\"a\",\"type\":\"bf16\",\"time_s\":11e-6}],"
        "\"operators\":[{\"operator\":\"accumulate\",\"type\":\"bf16\",\"elements\":32,\"forward_s\":2e-6}]"};
    redco_compute_profile *profile = profile_of(texts, 1);
    redco_operator op = {.kind = REDCO_OPERATOR_GEMM, .m = 8, .n = 8, .k = 4, .parts = {2, 6}, .part_count = 2};
    const double wanted[3] = {
        [REDCO_PASS_FORWARD] = 4e-6, [REDCO_PASS_GRAD_INPUT] = 14e-6, [REDCO_PASS_GRAD_WEIGHT] = 20e-6};
    double seconds = (double)NAN;
    for (int pass = 0; pass < 3; pass++) {
        assert_true(redco_compute_profile_s(profile, &op, (redco_pass)pass, REDCO_BF16, &seconds));
        close_to(seconds, wanted[pass]);
    }
    op.part_count = 0;
    assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_FORWARD, REDCO_BF16, &seconds));
    close_to(seconds, 2e-6);
    redco_compute_profile_free(profile);
}

/* By hand: 4 heads of 64 at 128 keys run at 1 ns for 1000 FLOP of the square, 16 heads at half of that: 8 heads lie in
 * the middle of their logarithms, at 1/sqrt(2). */
static void few_heads_have_a_rate_of_their_own(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"attention\":[{\"batch\":1,\"heads\":4,\"kv_heads\":4,\"sequence\":128,\"head_dim\":64,\"causal\":true,"
        "\"type\":\"bf16\",\"forward_s\":16.777216e-6,\"backward_s\":33.554432e-6},"
        "{\"batch\":2,\"heads\":8,\"kv_heads\":8,\"sequence\":128,\"head_dim\":64,\"causal\":true,"
        "\"type\":\"bf16\",\"forward_s\":33.554432e-6,\"backward_s\":67.108864e-6}]"};
    redco_compute_profile *profile = profile_of(texts, 1);
    redco_operator op = {.kind = REDCO_OPERATOR_ATTENTION, .keys = 128, .head_dim = 64, .causal = true};
    const double square = 4.0 * 128.0 * 128.0 * 64.0; /* FLOPs of one head */
    double seconds = (double)NAN;
    op.flops = 0.5 * 8.0 * square;
    assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_FORWARD, REDCO_BF16, &seconds));
    close_to(seconds, 8.0 * square * 1e-12 / sqrt(2.0));
    op.flops = 0.5 * 64.0 * square; /* beyond the most: their rate */
    assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_GRAD_INPUT, REDCO_BF16, &seconds));
    close_to(seconds, 64.0 * square * 1e-12);
    redco_compute_profile_free(profile);
}

/* By hand: 1000 elements at 3 ns added, 2 ns copied. */
static void gradients_are_copied_or_added(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"operators\":[{\"operator\":\"copy\",\"type\":\"fp32\",\"elements\":1000,\"forward_s\":2e-6},"
        "{\"operator\":\"accumulate\",\"type\":\"fp32\",\"elements\":1000,\"forward_s\":3e-6}]"};
    redco_compute_profile *profile = profile_of(texts, 1);
    double seconds = 0.0;
    assert_true(redco_compute_profile_keep_s(profile, 2000.0, false, REDCO_FP32, &seconds));
    close_to(seconds, 4e-6);
    assert_true(redco_compute_profile_keep_s(profile, 2000.0, true, REDCO_FP32, &seconds));
    close_to(seconds, 6e-6);
    assert_false(redco_compute_profile_keep_s(profile, 2000.0, true, REDCO_BF16, &seconds));
    assert_false(redco_compute_profile_keep_s(NULL, 2000.0, true, REDCO_FP32, &seconds));
    redco_compute_profile_free(profile);
}

/* By hand: 100 elements looked up at 10 ns forward, 20 ns backward; a table of 500 at 4 ns; its sum with the head's
 * gradient at 3 ns. */
static double norm_s(const redco_compute_profile *profile, double elements, uint32_t columns)
{
    const redco_operator op = {
        .kind = REDCO_OPERATOR_MEMORY, .measured_as = "rms_norm", .elements = elements, .columns = columns};
    double seconds = (double)NAN;
    assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_FORWARD, REDCO_BF16, &seconds));
    return seconds;
}

#define NORM(elements, columns, time)                                                                                  \
    "{\"operator\":\"rms_norm\",\"type\":\"bf16\",\"elements\":" #elements columns ",\"forward_s\":" #time "}"

/* 1,000 elements take 3 us, 2,000 take 5: 1 us and 2 us a thousand, so that 4,000 take 9 and 500 take 2. A start's cost
 * is held to half of an edge: 1,000 in 3 us and 2,000 in 3.1 make 500 take 2.25 (slope 1.5 us a thousand), not 2.95. */
static void beyond_its_sizes_an_operator_goes_on_straight(void **state)
{
    (void)state;
    const char *const line[] = {"\"operators\":[" NORM(1000, "", 3e-6) "," NORM(2000, "", 5e-6) "]"};
    const char *const flat[] = {"\"operators\":[" NORM(1000, "", 3e-6) "," NORM(2000, "", 3.1e-6) "]"};
    redco_compute_profile *profile = profile_of(line, 1);
    close_to(norm_s(profile, 4000.0, 0), 9e-6);
    close_to(norm_s(profile, 500.0, 0), 2e-6);
    close_to(norm_s(profile, 2000.0, 0), 5e-6);
    redco_compute_profile_free(profile);
    profile = profile_of(flat, 1);
    close_to(norm_s(profile, 500.0, 0), 2.25e-6);
    redco_compute_profile_free(profile);
}

/* Norms of a width have times of their own: the nearest by factors counts, and one that tells no width where none does.
 */
static void norms_go_by_their_width(void **state)
{
    (void)state;
    const char *const widths[] = {
        "\"operators\":[" NORM(1000, ",\"columns\":768", 3e-6) "," NORM(1000, ",\"columns\":4096", 2e-6) "]"};
    const char *const none[] = {"\"operators\":[" NORM(1000, "", 5e-6) "]"};
    redco_compute_profile *profile = profile_of(widths, 1);
    close_to(norm_s(profile, 1000.0, 1024), 3e-6);
    close_to(norm_s(profile, 1000.0, 2048), 2e-6); /* 2 from 4096, 2.7 from 768 */
    redco_compute_profile_free(profile);
    profile = profile_of(none, 1);
    close_to(norm_s(profile, 1000.0, 2048), 5e-6);
    redco_compute_profile_free(profile);
}

static void all_of_a_table_has_a_gradient(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"operators\":[{\"operator\":\"embedding\",\"type\":\"fp32\",\"elements\":100,\"forward_s\":1e-6,"
        "\"backward_s\":2e-6},"
        "{\"operator\":\"embedding_table\",\"type\":\"fp32\",\"elements\":500,\"forward_s\":1e-9,\"backward_s\":2e-6},"
        "{\"operator\":\"accumulate\",\"type\":\"fp32\",\"elements\":500,\"forward_s\":1.5e-6}]"};
    redco_compute_profile *profile = profile_of(texts, 1);
    redco_operator op = {
        .kind = REDCO_OPERATOR_EMBEDDING, .measured_as = "embedding", .elements = 100.0, .table_elements = 500.0};
    double seconds = 0.0;
    assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_FORWARD, REDCO_FP32, &seconds));
    close_to(seconds, 1e-6);
    assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_GRAD_INPUT, REDCO_FP32, &seconds));
    close_to(seconds, 4e-6);
    op.table_shared = true;
    assert_true(redco_compute_profile_s(profile, &op, REDCO_PASS_GRAD_INPUT, REDCO_FP32, &seconds));
    close_to(seconds, 5.5e-6);
    redco_compute_profile_free(profile);
}

/* Rows are of a micro-batch's examples, whatever the operator's results are: a weight's gradient has as many elements
 * for any. By hand: 1 ms at 16 examples and 3 ms at 32, twice each. */
static void a_pipelines_operators_go_by_examples(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\"operators\":[{\"operator\":\"op-1\",\"type\":\"fp32\",\"elements\":16,\"forward_s\":1e-3},"
        "{\"operator\":\"op-1\",\"type\":\"fp32\",\"elements\":32,\"forward_s\":3e-3}]"};
    redco_work_op one = {.kind = REDCO_GRAPH_ELEMENTS,
                         .name = "sum",
                         .measured_as = "op-1",
                         .backward = true,
                         .times = 2,
                         .elements = {{100.0}}};
    const redco_compute compute = {.measured = profile_of(texts, 1), .precision = REDCO_FP32};
    redco_operator op = {.kind = REDCO_OPERATOR_LISTED, .listed = &one, .examples = 16};
    close_to(redco_operator_s(&compute, &op, REDCO_PASS_GRAD_INPUT), 2e-3);
    assert_true(redco_operator_s(&compute, &op, REDCO_PASS_FORWARD) == 0.0);
    op.examples = 32;
    close_to(redco_operator_s(&compute, &op, REDCO_PASS_GRAD_INPUT), 6e-3);
    redco_compute_profile_free((redco_compute_profile *)(uintptr_t)compute.measured);
}

/* A time that was measured for both at once comes from the newest file that has it. */
static void contention_is_the_newest_files(void **state)
{
    (void)state;
#define COPY "\"operators\":[{\"operator\":\"copy\",\"type\":\"fp32\",\"elements\":1,\"forward_s\":1}]"
    static const char *const texts[] = {"\"measured\":{\"contention_ratio\":0.25,\"overlap_ratio\":0.75}," COPY,
                                        "\"measured\":{\"contention_ratio\":0.5,\"overlap_ratio\":1.5}," COPY,
                                        "\"measured\":{\"ranks\":2}," COPY};
#undef COPY
    redco_compute_profile *profile = profile_of(texts, 3);
    double contention = 0.0, overlap = 0.0;
    assert_true(redco_compute_profile_contention(profile, &contention, &overlap));
    close_to(contention, 0.5);
    close_to(overlap, 1.5);
    redco_compute_profile_free(profile);
    profile = profile_of(texts + 2, 1);
    assert_false(redco_compute_profile_contention(profile, &contention, &overlap));
    redco_compute_profile_free(profile);
    assert_false(redco_compute_profile_contention(NULL, &contention, &overlap));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(measured_points_are_exact),
        cmocka_unit_test(times_grow_with_every_size),
        cmocka_unit_test(between_is_the_geometric_mean),
        cmocka_unit_test(two_sizes_at_once),
        cmocka_unit_test(a_missing_size_has_its_neighbours_rate),
        cmocka_unit_test(too_many_sizes_are_refused),
        cmocka_unit_test(operators_belong_to_their_device),
        cmocka_unit_test(a_layer_costs_the_sum_of_its_operators),
        cmocka_unit_test(weights_that_share_an_input_are_products_of_their_own),
        cmocka_unit_test(few_heads_have_a_rate_of_their_own),
        cmocka_unit_test(gradients_are_copied_or_added),
        cmocka_unit_test(all_of_a_table_has_a_gradient),
        cmocka_unit_test(beyond_its_sizes_an_operator_goes_on_straight),
        cmocka_unit_test(norms_go_by_their_width),
        cmocka_unit_test(a_pipelines_operators_go_by_examples),
        cmocka_unit_test(contention_is_the_newest_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
