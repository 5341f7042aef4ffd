/* The answers of the real cuDNN to the graphs of dnn_graph.c, without a GPU: it has engines for them on described
 * devices, compiles their kernels, and wants the workspace that the README's formulas give. Also that mistakes get the
 * same statuses from it as from the mock library. A driver that takes any machine code stands in (loading_driver.cpp):
 * nothing is run. Skipped where libcudnn.so.9 is not installed. */
#include "executor/backend/cuda/attention/dnn.h"

#include "executor/backend/cuda/cuda_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As cuDNN writes device properties; numbers from NVIDIA's data sheets and tuning guides of the three. */
#define DEVICE(name, version, multiprocessors, shared, l2, memory, clock)                                              \
    "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"                \
    "\"multiProcessorCount\":" #multiprocessors ",\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"                  \
    "\"maxSharedMemoryPerBlockOptin\":" #shared ",\"reservedSharedMemoryPerBlock\":1024,"                              \
    "\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"            \
    "\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":" #clock                           \
    ",\"memClockRateKHz\":3201000,\"l2CacheSize\":" #l2 ",\"deviceName\":\"" name "\",\"deviceVer\":" #version         \
    ",\"driverVer\":13000,\"cudaDeviceId\":0,\"totalGlobalMem\":" #memory "}"

static const struct {
    const char *name, *properties;
} devices[] = {
    {"H200", DEVICE("NVIDIA H200", 900, 132, 232448, 52428800, 150000000000, 1980000)},
    {"A100", DEVICE("NVIDIA A100-SXM4-80GB", 800, 108, 166912, 41943040, 85000000000, 1410000)},
    {"B200", DEVICE("NVIDIA B200", 1000, 148, 232448, 132120576, 190000000000, 1965000)},
};
enum { H200, A100, B200 };

static const struct {
    int device;
    bool accepted;
    redcoi_dnn_shape shape; /* type, backward, causal, batch, queries, keys, heads, groups, sizes, offset, window */
} cases[] = {
    {H200, true, {CUDNN_DATA_BFLOAT16, false, true, 2, 2048, 2048, 32, 32, 128, 128, 0, 0}},
    {H200, true, {CUDNN_DATA_BFLOAT16, false, true, 1, 1000, 1500, 32, 8, 128, 128, 500, 200}},
    {H200, true, {CUDNN_DATA_BFLOAT16, true, true, 2, 2048, 2048, 32, 32, 128, 128, 0, 0}},
    {H200, true, {CUDNN_DATA_BFLOAT16, true, true, 1, 4096, 4096, 32, 8, 128, 128, 0, 1024}},
    {H200, true, {CUDNN_DATA_HALF, true, true, 1, 1000, 1500, 32, 8, 64, 64, 500, 0}},
    {H200, true, {CUDNN_DATA_BFLOAT16, true, true, 1, 1000, 1500, 32, 8, 128, 128, 7, 0}},
    {H200, false, {CUDNN_DATA_BFLOAT16, false, true, 1, 64, 64, 4, 4, 20, 20, 0, 0}},
    {A100, true, {CUDNN_DATA_BFLOAT16, false, true, 1, 2048, 2048, 32, 8, 128, 128, 0, 0}},
    {A100, true, {CUDNN_DATA_HALF, true, false, 3, 333, 333, 4, 2, 80, 80, 0, 0}},
    {A100, false, {CUDNN_DATA_BFLOAT16, true, true, 1, 256, 256, 4, 4, 256, 256, 0, 0}},
    {B200, true, {CUDNN_DATA_BFLOAT16, false, true, 1, 2048, 2048, 32, 8, 128, 128, 0, 0}},
    {B200, true, {CUDNN_DATA_BFLOAT16, true, true, 1, 2048, 2048, 32, 8, 128, 128, 0, 0}},
};

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/** README.md: Attention, workspace; without the engines' counters. */
static uint64_t workspace_of(int device, const redcoi_dnn_shape *s)
{
    const uint64_t rows = (uint64_t)(s->batch * s->heads * s->queries), size = (uint64_t)s->size;
    uint64_t engine = 0;
    if (!s->backward) { return 0; }
    if (s->groups != s->heads) { engine += 2 * (uint64_t)(s->batch * s->heads * s->keys * (s->size + s->value_size)); }
    if (device == A100) { engine += 4 * (uint64_t)(s->batch * s->heads * ((s->queries + 7) / 8 * 8)) * size; }
    return aligned(4 * rows) + aligned(4 * rows * size) + aligned(engine);
}

typedef struct library {
    redcoi_dnn_calls calls;
    void *handle;
} library;

static int open_library(void **state)
{
    static library l;
    redco_error err = {.status = REDCO_OK};
    *state = NULL;
    if (redcoi_dnn_load(NULL, &l.calls, &l.handle, &err) != REDCO_OK) {
        print_message("%s: %s\n", err.place, err.text);
    } else {
        *state = &l;
    }
    return 0;
}

static int close_library(void **state)
{
    if (*state != NULL) { redcoi_library_close(((library *)*state)->handle); }
    return 0;
}

static library *library_of(void **state)
{
    if (*state == NULL) { skip(); }
    return *state;
}

/** NULL: the mock library, which knows nothing of devices. */
static cudnnBackendDescriptor_t describe(const redcoi_dnn_calls *c, const char *properties)
{
    cudnnBackendDescriptor_t d = NULL;
    if (c->descriptor_create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) != CUDNN_STATUS_SUCCESS) {
        print_message("the mock library: nothing to ask\n");
        return NULL;
    }
    assert_int_equal(
        c->set(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(properties), properties),
        CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->finalize(d), CUDNN_STATUS_SUCCESS);
    return d;
}

static void engines_take_our_graphs(void **state)
{
    const redcoi_dnn_calls *c = &library_of(state)->calls;
    cudnnBackendDescriptor_t described[3];
    for (int i = 0; i < 3; i++) {
        if ((described[i] = describe(c, devices[i].properties)) == NULL) { return; }
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const redcoi_dnn_shape *s = &cases[i].shape;
        redcoi_dnn_plan plan = {.graph = NULL};
        redco_error err = {.status = REDCO_OK};
        const redco_status st = redcoi_dnn_plan_create(c, NULL, described[cases[i].device], s, false, &plan, &err);
        print_message("%s %s %lld x %lld, %lld of %lld heads of %lld: ", devices[cases[i].device].name,
                      s->backward ? "backward" : "forward", (long long)s->queries, (long long)s->keys,
                      (long long)s->groups, (long long)s->heads, (long long)s->size);
        if (st != REDCO_OK) {
            print_message("no engine\n");
            if (cases[i].accepted) { fail_msg("%s: %s", err.place, err.text); }
            assert_int_equal(st, REDCO_ESYSTEM);
            continue;
        }
        print_message("engine %lld, %llu bytes\n", (long long)plan.engine, (unsigned long long)plan.workspace_bytes);
        assert_true(cases[i].accepted);
        const uint64_t predicted = workspace_of(cases[i].device, s);
        assert_in_range(plan.workspace_bytes, predicted, predicted + 512);
        redcoi_dnn_plan_close(&plan);
    }
    for (int i = 0; i < 3; i++) { (void)c->descriptor_destroy(described[i]); }
}

/** README's rule for the deterministic graph: it keeps all gradients of scores, in 16 bits. */
static void determinism_costs_memory(void **state)
{
    const redcoi_dnn_calls *c = &library_of(state)->calls;
    const redcoi_dnn_shape s = {CUDNN_DATA_BFLOAT16, true, true, 1, 2048, 2048, 32, 32, 128, 128, 0, 0};
    const cudnnBackendDescriptor_t device = describe(c, devices[H200].properties);
    redcoi_dnn_plan plan = {.graph = NULL};
    if (device == NULL) { return; }
    assert_int_equal(redcoi_dnn_plan_create(c, NULL, device, &s, true, &plan, NULL), REDCO_OK);
    assert_in_range(plan.workspace_bytes, 2 * 32 * UINT64_C(2048) * 2048, 2 * 32 * UINT64_C(2048) * 2048 + 600000);
    redcoi_dnn_plan_close(&plan);
    (void)c->descriptor_destroy(device);
}

static cudnnBackendDescriptor_t make(const redcoi_dnn_calls *c, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    assert_int_equal(c->descriptor_create(type, &d), CUDNN_STATUS_SUCCESS);
    return d;
}

static cudnnBackendDescriptor_t make_tensor(const redcoi_dnn_calls *c, int64_t id, int64_t heads, int64_t rows,
                                            int64_t columns)
{
    const cudnnBackendDescriptor_t d = make(c, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const int64_t dims[4] = {1, heads, rows, columns},
                  strides[4] = {heads * rows * columns, rows * columns, columns, 1};
    const int64_t alignment = 16;
    assert_int_equal(c->set(d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type), CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->set(d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims), CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->set(d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides), CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->set(d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id), CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->set(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment),
                     CUDNN_STATUS_SUCCESS);
    return d;
}

static cudnnBackendDescriptor_t make_product(const redcoi_dnn_calls *c, const cudnnBackendDescriptor_t *abc)
{
    static const cudnnBackendAttributeName_t names[] = {
        CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC};
    const cudnnBackendDescriptor_t op = make(c, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    const cudnnBackendDescriptor_t how = make(c, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    assert_int_equal(c->set(how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type), CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->finalize(how), CUDNN_STATUS_SUCCESS);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c->set(op, names[i], CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &abc[i]), CUDNN_STATUS_SUCCESS);
    }
    assert_int_equal(c->set(op, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &how),
                     CUDNN_STATUS_SUCCESS);
    return op; /* the process decides how */
}

/** Run on the mock library and on the real library: both must say the same. */
static void mistakes_have_their_statuses(void **state)
{
    const redcoi_dnn_calls *c = &library_of(state)->calls;
    const int64_t one[2] = {1, 1}, short_strides[3] = {4, 2, 1};
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    void *pointers[2] = {&(int){0}, &(int){0}};
    int64_t n = 0, id = 0;
    cudnnBackendDescriptor_t t = make_tensor(c, 1, 2, 8, 16);
    assert_int_equal(c->set(NULL, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, one),
                     CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(c->set(t, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(c->set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT32, 1, one),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(c->set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 0, one), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(c->set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 2, one), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(c->set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, NULL), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(c->get(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &n, &id),
                     CUDNN_STATUS_NOT_INITIALIZED);
    assert_int_equal(c->finalize(t), CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->finalize(t), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(c->finalize(NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    assert_int_equal(c->set(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, one), CUDNN_STATUS_BAD_PARAM);
    assert_int_equal(c->get(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &n, &id), CUDNN_STATUS_SUCCESS);
    assert_int_equal(id, 1);
    assert_int_equal(c->get(t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT32, 1, &n, &id),
                     CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    assert_int_equal(c->descriptor_destroy(NULL), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);

    const cudnnBackendDescriptor_t short_one = make_tensor(c, 2, 2, 8, 16);
    assert_int_equal(c->set(short_one, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 3, short_strides),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->finalize(short_one), CUDNN_STATUS_BAD_PARAM);

    const cudnnBackendDescriptor_t b = make_tensor(c, 3, 2, 16, 8), y = make_tensor(c, 4, 2, 8, 8);
    const cudnnBackendDescriptor_t shared = make_tensor(c, 5, 1, 16, 8), odd = make_tensor(c, 6, 3, 16, 8);
    const cudnnBackendDescriptor_t all[] = {b, y, shared, odd};
    for (int i = 0; i < 4; i++) { assert_int_equal(c->finalize(all[i]), CUDNN_STATUS_SUCCESS); }
    const cudnnBackendDescriptor_t products[4][3] = {{t, b, y}, {t, shared, y}, {t, odd, y}, {t, t, y}};
    for (int i = 0; i < 4; i++) { /* one head for all is fine; three for two, or other inner sizes are not */
        const cudnnBackendDescriptor_t op = make_product(c, products[i]);
        assert_int_equal(c->finalize(op), i < 2 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM);
        (void)c->descriptor_destroy(op);
    }
    const cudnnBackendDescriptor_t empty = make(c, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    assert_int_equal(c->finalize(empty), CUDNN_STATUS_BAD_PARAM);
    const cudnnBackendDescriptor_t heuristic = make(c, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    assert_int_equal(c->finalize(heuristic), CUDNN_STATUS_BAD_PARAM);
    const cudnnBackendDescriptor_t pack = make(c, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    assert_int_equal(c->set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 2, (int64_t[]){1, 2}),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, pointers),
                     CUDNN_STATUS_SUCCESS);
    assert_int_equal(c->finalize(pack), CUDNN_STATUS_BAD_PARAM);
    const cudnnBackendDescriptor_t rest[] = {t, short_one, b, y, shared, odd, empty, heuristic, pack};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        assert_int_equal(c->descriptor_destroy(rest[i]), CUDNN_STATUS_SUCCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mistakes_have_their_statuses, open_library, close_library),
        cmocka_unit_test_setup_teardown(engines_take_our_graphs, open_library, close_library),
        cmocka_unit_test_setup_teardown(determinism_costs_memory, open_library, close_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
