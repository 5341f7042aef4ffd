/* redco-profile measures on a device the work that redco-exec runs there: products with what follows them, and what is
 * left between products fused, counted by the launches that the device gets. */
#include "executor/backend/cuda/cuda.h"
#include "executor/measure/block.h"
#include "executor/measure/suite.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static redco_backend *device;

static int open_device(void **state)
{
    redco_error err = {.status = REDCO_OK};
    (void)state;
    if (redco_cuda_open(NULL, &device, &err) == REDCO_OK) { return 0; }
    print_message("skipped: %s: %s\n", err.place, err.text);
    exit(77); /* CTest's and tools/gpu-acceptance's word for it */
}

static int close_device(void **state)
{
    uint64_t live_bytes = 1, peak_bytes = 0;
    (void)state;
    device->calls->memory_use(device, &live_bytes, &peak_bytes);
    redco_backend_close(device);
    return live_bytes == 0 ? 0 : 1;
}

/* Each operator once in each of two runs: the first one tells how often it would have to be repeated for a sample, and
 * a sample is over at once. */
static redco_measurer *new_measurer(bool fused)
{
    const redco_measure_options options = {
        .queued = true, .fused = fused, .sample_s = 1e-9, .case_s = 1e-9, .runs = 1, .heat_s = 1e-9, .heat_side = 32};
    redco_measurer *measurer = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_measurer_create(device, &options, &measurer, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return measurer;
}

/* Operators of a case, forward and backward. */
static uint64_t operators_of(const redco_measure_case *of, bool fused)
{
    redco_measurer *const measurer = new_measurer(fused);
    redco_measure_case one = *of;
    redco_error err = {.status = REDCO_OK};
    if (redco_measure_case_run(measurer, &one, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    assert_true(isfinite(one.forward_s) && one.forward_s > 0.0 && isfinite(one.backward_s));
    const uint64_t count = redco_measure_queueing(measurer).count;
    redco_measurer_free(measurer);
    assert_int_equal(count % 2, 0);
    return count / 2;
}

/* By hand: forward silu(gate) up is one operator, the gradients of both another; the update of states, with its copy in
 * bf16, is one beside the norm of the gradient and the two that make its inputs positive. */
static void composites_are_fused(void **state)
{
    static const struct {
        const char *name;
        uint64_t rows, columns, least, most;
    } cases[] = {{"gated_activation", 16, 128, 2, 2},
                 {"rms_norm", 16, 128, 2, 5},
                 {"accumulate", 1, 2048, 1, 1},
                 {"copy", 1, 2048, 1, 1},
                 {"optimizer", 1, 2048, 4, 4}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const redco_measure_case one = {.kind = REDCO_MEASURE_OPERATOR,
                                        .dtype = REDCO_BFLOAT16,
                                        .name = cases[i].name,
                                        .rows = cases[i].rows,
                                        .columns = cases[i].columns,
                                        .table_rows = 64,
                                        .forward_s = (double)INFINITY,
                                        .backward_s = (double)INFINITY};
        const uint64_t fused = operators_of(&one, true), plain = operators_of(&one, false);
        if (fused < cases[i].least || fused > cases[i].most || fused > plain) {
            fail_msg("%s: %u operators, %u without fusing", one.name, (unsigned)fused, (unsigned)plain);
        }
        if (strcmp(one.name, "gated_activation") == 0) { assert_true(fused < plain); }
    }
}

/* Every launch of a second layer is one that a block is said to have. */
static void blocks_are_what_is_run(void **state)
{
    uint64_t count[2] = {0, 0};
    uint32_t forward = 0, backward = 0;
    redco_error err = {.status = REDCO_OK};
    (void)state;
    for (uint32_t layers = 1; layers <= 2; layers++) {
        const redco_model_dims dims = {
            .hidden = 64, .heads = 2, .kv_heads = 2, .ffn = 128, .vocab = 64, .layers = layers};
        const redco_measure_shape shape = {.micro_batch = 1, .seq_len = 16};
        redco_model *model = NULL;
        assert_int_equal(redco_measure_llama(&dims, &model, &err), REDCO_OK);
        redco_measurer *const measurer = new_measurer(true);
        redco_measure_step step;
        if (redco_measure_model_step(measurer, model, &shape, &step, &err) != REDCO_OK) {
            fail_msg("%s: %s", err.place, err.text);
        }
        count[layers - 1] = redco_measure_queueing(measurer).count / 2;
        redco_measurer_free(measurer);
        redco_model_free(model);
    }
    assert_int_equal(redco_measure_block_operators(device, &forward, &backward, &err), REDCO_OK);
    /* By hand: two norms, q, k, v, two rotations, attention, out with its sum, gate, up, their activation, ffn_out with
     * its sum. */
    assert_int_equal(forward, 13);
    assert_int_equal(count[1] - count[0], forward + backward);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(composites_are_fused),
                                       cmocka_unit_test(blocks_are_what_is_run)};
    return cmocka_run_group_tests(tests, open_device, close_device);
}
