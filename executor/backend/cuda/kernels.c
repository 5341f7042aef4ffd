/* Own kernels: which operator has which, and the faults that they report. */
#include "executor/backend/cuda/driver.h"
#include "executor/backend/cuda/kernels_internal.h"

#include <string.h>

typedef struct topic {
    redco_status (*run)(const redcoi_work *work);
    uint64_t (*workspace_bytes)(const redcoi_cuda *cuda, const redco_launch *launch); /* NULL: none */
} topic;

/* clang-format off */
static const topic topics[REDCO_OP_COUNT] = {
    [REDCO_OP_CONSTANT] = {redcoi_run_constant, NULL},
    [REDCO_OP_IOTA] = {redcoi_run_iota, NULL},
    [REDCO_OP_UNIFORM] = {redcoi_run_random, NULL},
    [REDCO_OP_NORMAL] = {redcoi_run_random, NULL},
    [REDCO_OP_NEG] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_EXP] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_LOG] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_SQRT] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_RSQRT] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_POW] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_TANH] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_ERF] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_SIN] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_COS] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_SIGMOID] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_RELU] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_SILU] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_GELU] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_GELU_TANH] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_NOT] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_CAST] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_STOP_GRADIENT] = {redcoi_run_copy, NULL},
    [REDCO_OP_SILU_GRAD] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_GELU_GRAD] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_GELU_TANH_GRAD] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_ADD] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_SUB] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_MUL] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_DIV] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_MAX] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_MIN] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_EQ] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_LT] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_LE] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_AND] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_OR] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_SELECT] = {redcoi_run_elementwise, NULL},
    [REDCO_OP_REDUCE_SUM] = {redcoi_run_reduce, redcoi_reduce_workspace},
    [REDCO_OP_REDUCE_MAX] = {redcoi_run_reduce, redcoi_reduce_workspace},
    [REDCO_OP_REDUCE_MIN] = {redcoi_run_reduce, redcoi_reduce_workspace},
    [REDCO_OP_RESHAPE] = {redcoi_run_copy, NULL},
    [REDCO_OP_TRANSPOSE] = {redcoi_run_strided, NULL},
    [REDCO_OP_BROADCAST] = {redcoi_run_strided, NULL},
    [REDCO_OP_SLICE] = {redcoi_run_strided, NULL},
    [REDCO_OP_PAD] = {redcoi_run_pad, NULL},
    [REDCO_OP_CONCAT] = {redcoi_run_concat, NULL},
    [REDCO_OP_GATHER] = {redcoi_run_gather, NULL},
    [REDCO_OP_SCATTER_ADD] = {redcoi_run_scatter, redcoi_scatter_workspace},
    [REDCO_OP_PICK] = {redcoi_run_pick, NULL},
    [REDCO_OP_UNPICK] = {redcoi_run_pick, NULL},
    [REDCO_OP_SOFTMAX] = {redcoi_run_softmax, NULL},
    [REDCO_OP_SOFTMAX_GRAD] = {redcoi_run_softmax, NULL},
    [REDCO_OP_LOG_SOFTMAX] = {redcoi_run_softmax, NULL},
    [REDCO_OP_LOG_SOFTMAX_GRAD] = {redcoi_run_softmax, NULL},
    [REDCO_OP_RMS_NORM] = {redcoi_run_norm, NULL},
    [REDCO_OP_RMS_NORM_GRAD] = {redcoi_run_norm_grad, redcoi_norm_grad_workspace},
    [REDCO_OP_LAYER_NORM] = {redcoi_run_norm, NULL},
    [REDCO_OP_LAYER_NORM_GRAD] = {redcoi_run_norm_grad, redcoi_norm_grad_workspace},
    [REDCO_OP_ROTARY] = {redcoi_run_rotary, NULL},
    [REDCO_OP_CROSS_ENTROPY] = {redcoi_run_cross_entropy, NULL},
    [REDCO_OP_CROSS_ENTROPY_GRAD] = {redcoi_run_cross_entropy, NULL},
    [REDCO_OP_SUM_SQUARES] = {redcoi_run_squares, redcoi_squares_workspace},
    [REDCO_OP_ADAMW] = {redcoi_run_adamw, NULL},
    [REDCO_OP_ADAMW_ROUNDED] = {redcoi_run_adamw, NULL},
};
/* clang-format on */

redco_status redcoi_fault_open(redcoi_device *device, redco_error *err)
{
    void *memory = NULL;
    const redco_status st =
        redcoi_cuda_check(device,
                          device->driver->mem_host_alloc(&memory, sizeof *device->fault,
                                                         CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                          "cuda", "cuMemHostAlloc", err);
    if (st != REDCO_OK) { return st; }
    memset(memory, 0, sizeof *device->fault);
    device->fault = memory; /* with unified addressing it is the device's address, too */
    return REDCO_OK;
}

void redcoi_fault_close(redcoi_device *device)
{
    if (device->fault != NULL) { (void)device->driver->mem_free_host(device->fault); }
    device->fault = NULL;
}

redco_status redcoi_fault_check(const redcoi_device *device, redco_error *err)
{
    redcoi_fault *fault = device->fault;
    const uint32_t kind = __atomic_load_n(&fault->kind, __ATOMIC_ACQUIRE);
    if (kind == 0) { return REDCO_OK; }
    const redcoi_fault found = *fault;
    __atomic_store_n(&fault->kind, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&fault->claimed, 0, __ATOMIC_RELEASE);
    return redco_index_refuse((redco_op_kind)(kind - 1), "cuda", found.index,
                              (redco_index_range){found.first, found.end}, err);
}

/* The orders of scatter_add are numbers of 32 bits. */
static bool is_too_large(const redco_launch *launch)
{
    return launch->kind == REDCO_OP_SCATTER_ADD &&
           (redco_type_elements(&launch->inputs[0].type) > UINT32_MAX || launch->outputs[0].type.dim[0] >= UINT32_MAX);
}

static bool supports(const redcoi_cuda *cuda, const redco_launch *launch)
{
    (void)cuda;
    return (unsigned)launch->kind < REDCO_OP_COUNT && topics[launch->kind].run != NULL && !is_too_large(launch);
}

static uint64_t workspace_bytes(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const topic *t = &topics[launch->kind];
    return t->workspace_bytes == NULL ? 0 : t->workspace_bytes(cuda, launch);
}

static redco_status run(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch, redco_error *err)
{
    return topics[launch->kind].run(&(redcoi_work){cuda, stream, launch, err});
}

const redcoi_runner redcoi_kernels_runner = {supports, workspace_bytes, run};
