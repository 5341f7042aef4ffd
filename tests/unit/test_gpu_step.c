/* The parts of a step of redco-exec on one GPU, priced from a profile: the simulator's step against the sum of its
 * operators, reckoned here from the model's dimensions with loops and numbers of this file alone. The profile is made
 * up: every kind of operator has one rate, so that nothing depends on how sizes between measured ones are filled in. */
#include "costmodel/simulator/simulate.h"
#include "planner/assemble/inputs.h"
#include "tests/unit/recomputed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Seconds per FLOP of X W, dY W^T and X^T dY, of attention's square forward and backward. */
static const double product_s[3] = {1.0 / 600e12, 1.0 / 500e12, 1.0 / 400e12};
static const double attention_s[2] = {1.0 / 800e12, 1.0 / 350e12};
/* Seconds per element, forward and backward. */
static const struct {
    const char *name;
    double forward_s, backward_s;
} elements_s[] = {{"rms_norm", 5e-12, 8e-12}, {"rotary", 1e-12, 1.5e-12},    {"gated_activation", 3e-12, 6e-12},
                  {"loss", 1e-12, 2e-12},     {"embedding", 2e-12, 3e-12},   {"embedding_table", 1e-12, 0.5e-12},
                  {"optimizer", 7e-12, 0.0},  {"accumulate", 1.25e-12, 0.0}, {"copy", 0.75e-12, 0.0}};
static const uint64_t reserve_bytes = 1000000000, workspace_bytes = 33554432;

static double per_element(const char *name, bool backward)
{
    for (size_t i = 0; i < sizeof elements_s / sizeof elements_s[0]; i++) {
        if (strcmp(elements_s[i].name, name) == 0) {
            return backward ? elements_s[i].backward_s : elements_s[i].forward_s;
        }
    }
    fail_msg("%s", name);
    return 0.0;
}

/* @param host_s  of a block's forward that the program takes; twice that backward, a third as one graph */
static void write_profile(FILE *file, double host_s)
{
    static const char *const layouts[3] = {"none", "b", "a"};
    (void)fprintf(file,
                  "{\"format\":\"redco-profile\",\"version\":3,\"measured\":{\"device\":\"H200-SXM-141GB\","
                  "\"backend\":\"cuda\",\"reserve_bytes\":%llu,\"workspace_bytes\":%llu,\"host_forward_s\":%.9g,"
                  "\"host_backward_s\":%.9g,\"graph_launch_s\":%.9g},\"gemm\":[",
                  (unsigned long long)reserve_bytes, (unsigned long long)workspace_bytes, host_s, 2.0 * host_s,
                  host_s / 3.0);
    for (int i = 0; i < 3; i++) {
        (void)fprintf(file,
                      "%s{\"m\":1024,\"n\":1024,\"k\":1024,\"transposed\":\"%s\",\"type\":\"bf16\",\"time_s\":%.17g}",
                      i > 0 ? "," : "", layouts[i], 2.0 * 1024.0 * 1024.0 * 1024.0 * product_s[i]);
    }
    const double square = 4.0 * 32.0 * 1024.0 * 1024.0 * 128.0;
    (void)fprintf(file,
                  "],\"attention\":[{\"batch\":1,\"heads\":32,\"kv_heads\":32,\"sequence\":1024,\"head_dim\":128,"
                  "\"causal\":true,\"type\":\"bf16\",\"forward_s\":%.17g,\"backward_s\":%.17g}],\"operators\":[",
                  square * attention_s[0], square * attention_s[1]);
    for (size_t i = 0; i < sizeof elements_s / sizeof elements_s[0]; i++) {
        (void)fprintf(file, "%s{\"operator\":\"%s\",\"type\":\"bf16\",\"elements\":1000000,\"forward_s\":%.17g",
                      i > 0 ? "," : "", elements_s[i].name, 1e6 * elements_s[i].forward_s);
        if (elements_s[i].backward_s > 0.0) {
            (void)fprintf(file, ",\"backward_s\":%.17g", 1e6 * elements_s[i].backward_s);
        }
        (void)fprintf(file, "}");
    }
    (void)fprintf(file, "]}\n");
}

/* Everything that is read for a plan of one H200. */
/* @param engine  NULL: that of the profile */
static redco_inputs inputs_of(const char *model, const char *engine, double host_s)
{
    char path[] = "/tmp/redco-gpu-step-XXXXXX";
    const char *const profiles[1] = {path};
    const redco_input_names names = {
        .model = model, .cluster = "hgx-h200", .profiles = profiles, .profile_count = 1, .engine = engine};
    redco_inputs inputs;
    redco_error err = {0};
    const int fd = mkstemp(path);
    FILE *const file = fd >= 0 ? fdopen(fd, "w") : NULL;
    assert_non_null(file);
    write_profile(file, host_s);
    assert_int_equal(fclose(file), 0);
    const redco_status st = redco_inputs_read(&names, 1, &inputs, &err);
    (void)unlink(path);
    if (st != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return inputs;
}

/* LLaMA's dimensions as its paper prints them. */
struct dims {
    const char *name;
    double layers, hidden, kv, ffn, heads, words;
};
static const struct dims models[] = {
    {REDCO_TEST_DATA "/models/gpu/llama-125m.json", 12, 768, 768, 2048, 12, 32000},
    {REDCO_TEST_DATA "/models/gpu/tinyllama-1.1b.json", 22, 2048, 256, 5632, 32, 32000},
    {REDCO_TEST_DATA "/models/gpu/sheared-llama-2.7b.json", 32, 2560, 2560, 6912, 20, 32000},
    {"llama-7b", 32, 4096, 4096, 11008, 32, 32000}};

struct pass_s {
    double forward_s, backward_s;
};

/* A product of T tokens by a weight: forward, and both gradients. */
static void add_weight(struct pass_s *pass, double tokens, double in, double out)
{
    const double flops = 2.0 * tokens * in * out;
    pass->forward_s += flops * product_s[0];
    pass->backward_s += flops * (product_s[1] + product_s[2]);
}

static void add_elements(struct pass_s *pass, const char *name, double elements)
{
    pass->forward_s += elements * per_element(name, false);
    pass->backward_s += elements * per_element(name, true);
}

/* For @p sequences of @p length: what a block takes; what of it is made again with full recomputation. */
static struct pass_s block_s(const struct dims *d, double sequences, double length, double *again_s_out)
{
    const double t = sequences * length, h = d->hidden;
    struct pass_s block = {0.0, 0.0};
    add_elements(&block, "rms_norm", t * h); /* before attention and before the FFN */
    add_elements(&block, "rms_norm", t * h);
    add_weight(&block, t, h, h); /* q, k, v, out */
    add_weight(&block, t, h, d->kv);
    add_weight(&block, t, h, d->kv);
    add_weight(&block, t, h, h);
    add_elements(&block, "rotary", t * (h + d->kv));
    const double square = 4.0 * sequences * length * length * h; /* scores and product with V, not halved */
    block.forward_s += square * attention_s[0];
    block.backward_s += square * attention_s[1];
    add_weight(&block, t, h, d->ffn); /* gate, up, down */
    add_weight(&block, t, h, d->ffn);
    add_elements(&block, "gated_activation", t * d->ffn);
    const double before_s = block.forward_s;
    add_weight(&block, t, d->ffn, h);
    /* A product that adds to a value reads it, half of a copy: gradients of the input that q, k and v share, and of
     * what gate and up share; forward two residual sums, of which the first is made again. */
    const double read_s = 0.5 * t * h * per_element("copy", false);
    block.backward_s += 3.0 * read_s;
    block.forward_s += 2.0 * read_s;
    *again_s_out = before_s + read_s; /* nobody reads the last product */
    return block;
}

static double params_of(const struct dims *d)
{
    const double block =
        2.0 * d->hidden * d->hidden + 2.0 * d->hidden * d->kv + 3.0 * d->hidden * d->ffn + 2.0 * d->hidden;
    return d->layers * block + 2.0 * d->words * d->hidden + d->hidden;
}

static double floor_s(double gpu_s, double host_s)
{
    return host_s > 0.0 ? pow(pow(gpu_s, 6.0) + pow(host_s, 6.0), 1.0 / 6.0) : gpu_s;
}

static double step_s(const struct dims *d, double sequences, double length, double micro_batches,
                     redco_recompute recompute, double host_s)
{
    const double t = sequences * length, h = d->hidden;
    double again_s = 0.0;
    struct pass_s block = block_s(d, sequences, length, &again_s), ends = {0.0, 0.0};
    if (recompute == REDCO_RECOMPUTE_NONE) { again_s = 0.0; }
    if (recompute == REDCO_RECOMPUTE_CORE_ATTN) { again_s = 4.0 * sequences * length * length * h * attention_s[0]; }
    const double stretch = floor_s(block.forward_s, host_s) / block.forward_s;
    if (recompute == REDCO_RECOMPUTE_FULL) { again_s *= stretch; }
    block.forward_s = floor_s(block.forward_s, host_s);
    block.backward_s = floor_s(block.backward_s, 2.0 * host_s);
    add_elements(&ends, "embedding", t * h);
    ends.backward_s += d->words * h * per_element("embedding_table", true);
    add_elements(&ends, "rms_norm", t * h);
    add_weight(&ends, t, h, d->words);
    add_elements(&ends, "loss", t * d->words);
    const double params = params_of(d);
    const double kept_s =
        params * (per_element("copy", false) + (micro_batches - 1.0) * per_element("accumulate", false));
    return micro_batches *
               (d->layers * (block.forward_s + block.backward_s + again_s) + ends.forward_s + ends.backward_s) +
           kept_s + params * per_element("optimizer", false);
}

/* One way to run every layer. @return the number of assignments */
static uint32_t assign(const redco_model *model, redco_recompute recompute, redco_assignment all[8])
{
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(model, &classes);
    assert_true(count <= 8);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (redco_assignment){.class_index = i,
                                    .layers = classes[i].layers,
                                    .config = {.shards = {{1, 1}, {1, 1}, {1, 1}}, .recompute = recompute}};
    }
    return count;
}

static redco_parallelism setting_of(uint32_t sequences, uint32_t micro_batches)
{
    return (redco_parallelism){.tp = 1,
                               .pp = 1,
                               .cp = 1,
                               .micro_batch = sequences,
                               .micro_batches = micro_batches,
                               .dp = {1, 1},
                               .scheme = REDCO_INTRA_TENSOR};
}

static redco_workload workload_of(uint32_t sequences, uint32_t length)
{
    return (redco_workload){.seq_len = length,
                            .global_batch = sequences,
                            .precision = REDCO_BF16,
                            .overlap = REDCO_OVERLAP_ALL,
                            .bucket_bytes = UINT64_C(1) << 30};
}

/* The same by the simulator and by the closed form. */
static void check(redco_inputs *inputs, const struct dims *d, uint32_t sequences, uint32_t length,
                  uint32_t micro_batches, redco_recompute recompute, double host_s)
{
    const redco_workload workload = workload_of(sequences * micro_batches, length);
    const redco_parallelism parallelism = setting_of(sequences, micro_batches);
    redco_assignment all[8];
    redco_costs *costs = NULL;
    redco_simulation simulated = {.step_s = 0.0};
    redco_error err = {0};
    const uint32_t count = assign(inputs->model, recompute, all);
    if (redco_costs_create(&inputs->machine, inputs->model, &workload, &inputs->calibration, inputs->comm, &costs,
                           &err) != REDCO_OK ||
        redco_simulate(costs, &parallelism, all, count, NULL, &simulated, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    const double wanted_s = step_s(d, sequences, length, micro_batches, recompute, host_s);
    const redco_prediction p = redco_cost_step(costs, &parallelism, all, count);
    if (fabs(simulated.step_s / wanted_s - 1.0) > 1e-6 || fabs(p.step_s / wanted_s - 1.0) > 1e-6) {
        fail_msg("%s, %u x %u, %u micro-batches, recompute %d: simulated %.9g, closed form %.9g, by hand %.9g s",
                 d->name, sequences, length, micro_batches, (int)recompute, simulated.step_s, p.step_s, wanted_s);
    }
    redco_costs_free(costs);
}

static void steps_are_the_sum_of_their_operators(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        redco_inputs inputs = inputs_of(models[m].name, NULL, 0.0);
        assert_string_equal(inputs.calibration.name, "cuda");
        assert_true(inputs.calibration.planned_memory);
        for (int recompute = 0; recompute < RECOMPUTED; recompute++) {
            if (!redco_recompute_mixes(recomputed[recompute])) { continue; } /* redco-exec does not run it */
            check(&inputs, &models[m], 2, 2048, 1, recomputed[recompute], 0.0);
            check(&inputs, &models[m], 1, 4096, 3, recomputed[recompute], 0.0);
        }
        redco_inputs_free(&inputs);
    }
}

/* The time to launch a block's operators is a floor under its passes: one by one or, as redco-exec does
 * unless it is told otherwise, as a graph. */
static void small_models_wait_for_launches(void **state)
{
    (void)state;
    const double host_s = 0.4e-3;
    redco_inputs inputs = inputs_of(models[0].name, "redco-exec,cuda_graphs=0", host_s);
    assert_true(inputs.calibration.host_forward_s == host_s && inputs.calibration.host_backward_s == 2.0 * host_s);
    check(&inputs, &models[0], 1, 2048, 2, REDCO_RECOMPUTE_NONE, host_s);
    check(&inputs, &models[0], 1, 2048, 1, REDCO_RECOMPUTE_FULL, host_s);
    redco_inputs_free(&inputs);
    inputs = inputs_of(models[0].name, NULL, 0.3e-3);
    assert_true(fabs(inputs.calibration.host_forward_s - 0.1e-3) < 1e-12);
    assert_true(inputs.calibration.host_backward_s == inputs.calibration.host_forward_s);
    redco_inputs_free(&inputs);
}

static uint64_t total_bytes(redco_inputs *inputs, const redco_comm *comm)
{
    const redco_workload workload = workload_of(1, 2048);
    const redco_parallelism parallelism = setting_of(1, 1);
    redco_assignment all[8];
    redco_costs *costs = NULL;
    const uint32_t count = assign(inputs->model, REDCO_RECOMPUTE_NONE, all);
    assert_int_equal(
        redco_costs_create(&inputs->machine, inputs->model, &workload, &inputs->calibration, comm, &costs, NULL),
        REDCO_OK);
    const uint64_t bytes = redco_cost_step(costs, &parallelism, all, count).total_bytes;
    redco_costs_free(costs);
    return bytes;
}

/* Memory of driver and libraries, and a product's workspace, is counted once. */
static void measured_reserves_are_counted(void **state)
{
    (void)state;
    redco_inputs inputs = inputs_of("llama-7b", NULL, 0.0);
    redco_comm *none = NULL;
    assert_int_equal(redco_comm_create(&inputs.machine, NULL, 0, &none, NULL), REDCO_OK);
    assert_true(inputs.calibration.reserve_bytes == (double)reserve_bytes);
    const uint64_t all = total_bytes(&inputs, inputs.comm);
    assert_int_equal(all - total_bytes(&inputs, none), workspace_bytes);
    inputs.calibration.reserve_bytes = 0.0;
    assert_int_equal(all - total_bytes(&inputs, inputs.comm), reserve_bytes);
    redco_comm_free(none);
    redco_inputs_free(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_the_sum_of_their_operators),
        cmocka_unit_test(small_models_wait_for_launches),
        cmocka_unit_test(measured_reserves_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
