/* Own kernels on tensors of more than 2^32 elements: only where a device has the memory. */
#include "kernels_fixture.h"

#include "executor/backend/cuda/cuda.h"

/** Runs it on zeros but for a 1 at @p at. @return the byte @p wanted of the output */
static uint8_t byte_of_large(fixture *r, const redco_launch *launch, uint64_t at, uint64_t wanted)
{
    const redco_backend_calls *calls = r->cuda->calls;
    const uint8_t mark = 1;
    uint8_t found = 0xA5;
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    assert_int_equal(calls->fill_zero(r->cuda, r->stream, in->data, redco_type_bytes(&in->type), NULL), REDCO_OK);
    assert_int_equal(calls->copy(r->cuda, r->stream, (uint8_t *)in->data + at, &mark, 1, NULL), REDCO_OK);
    assert_int_equal(calls->run(r->cuda, r->stream, launch, NULL), REDCO_OK);
    assert_int_equal(calls->copy(r->cuda, r->stream, &found, (uint8_t *)out->data + wanted, 1, NULL), REDCO_OK);
    assert_int_equal(calls->stream_finish(r->cuda, r->stream, NULL), REDCO_OK);
    return found;
}

static void beyond_32_bits(void **state)
{
    fixture *r = *state;
    const uint64_t count = (UINT64_C(1) << 32) + 4099;
    redco_cuda_device device;
    redco_tensor in = {.type = DIMS(REDCO_BOOL, 4, 1, count)}, out = {.type = DIMS(REDCO_BOOL, 4, 1, count)};
    assert_int_equal(redco_cuda_describe(r->cuda, &device, NULL), REDCO_OK);
    if (device.free_bytes < UINT64_C(40) << 30) {
        printf("skipped: 40 GiB of device memory are wanted, %.1f are free\n", (double)device.free_bytes / 0x1p30);
        skip();
    }
    const uint64_t bytes = redco_type_bytes(&in.type);
    assert_int_equal(r->cuda->calls->allocate(r->cuda, REDCO_MEMORY_DEVICE, bytes, &in.data, NULL), REDCO_OK);
    assert_int_equal(r->cuda->calls->allocate(r->cuda, REDCO_MEMORY_DEVICE, bytes, &out.data, NULL), REDCO_OK);
    redco_attributes attributes = {.rank = 3, .axis = {1, 0, 2}, .axis_count = 3};
    redco_launch launch = {.kind = REDCO_OP_NOT,
                           .attributes = &attributes,
                           .input_count = 1,
                           .output_count = 1,
                           .inputs = &in,
                           .outputs = &out,
                           .name = "large"};
    assert_int_equal(byte_of_large(r, &launch, bytes - 1, bytes - 1), 0);
    assert_int_equal(byte_of_large(r, &launch, bytes - 1, bytes - 2), 1);
    launch.kind = REDCO_OP_TRANSPOSE;
    out.type = DIMS(REDCO_BOOL, 1, 4, count);
    assert_int_equal(byte_of_large(r, &launch, bytes - 3, bytes - 3), 1);
    launch.kind = REDCO_OP_SLICE;
    attributes.begin[0] = 3;
    attributes.begin[2] = count - 64;
    out.type = DIMS(REDCO_BOOL, 1, 1, 64);
    assert_int_equal(byte_of_large(r, &launch, bytes - 5, 59), 1);
    launch.kind = REDCO_OP_TRANSPOSE; /* by tiles */
    attributes = (redco_attributes){.rank = 2, .axis = {1, 0}, .axis_count = 2};
    in.type = DIMS(REDCO_BOOL, 16, bytes / 16);
    out.type = DIMS(REDCO_BOOL, bytes / 16, 16);
    assert_int_equal(byte_of_large(r, &launch, bytes / 16 * 15 + 7, 7 * 16 + 15), 1);
    assert_int_equal(byte_of_large(r, &launch, bytes / 16 * 16 - 1, bytes / 16 * 16 - 1), 1);
    r->cuda->calls->release(r->cuda, REDCO_MEMORY_DEVICE, in.data);
    r->cuda->calls->release(r->cuda, REDCO_MEMORY_DEVICE, out.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(beyond_32_bits)};
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
