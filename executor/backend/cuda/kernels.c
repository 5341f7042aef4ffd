/* Own kernels: which operator has which, and what they share. */
#include "executor/backend/cuda/driver.h"
#include "executor/backend/cuda/kernels_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS_PER_MULTIPROCESSOR = 32 }; /* several times what is resident, so that none runs alone at the end */

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

redcoi_divisor redcoi_divisor_of(uint64_t divisor)
{
    redcoi_divisor d = {.divisor = divisor};
    uint32_t bits = 0; /* 2^bits <= divisor */
    if (divisor <= 1) { return d; }
    while (bits < 63 && divisor >> (bits + 1) != 0) { bits++; }
    d.shift = (divisor & (divisor - 1)) == 0 ? bits - 1 : bits;
    /* 2^(64 + shift) / divisor, rounded up, bit by bit. Then e = factor divisor - 2^(64 + shift) < divisor, and for
     * n < 2^48 n e < 2^(49 + bits) <= 2^(64 + shift): n factor / 2^(64 + shift) is less than 1 / divisor too large. */
    uint64_t rest = 0, quotient = 0;
    for (uint32_t i = 0; i < 65 + d.shift; i++) {
        rest = (rest << 1) | (i == 0 ? 1 : 0);
        quotient <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= 1;
        }
    }
    d.factor = quotient + (rest > 0 ? 1 : 0);
    return d;
}

uint64_t redcoi_pieces(uint64_t count, uint64_t size)
{
    return (count + size - 1) / size;
}

bool redcoi_is_aligned(const void *memory, uint64_t bytes)
{
    return (uintptr_t)memory % bytes == 0;
}

uint32_t redcoi_threads_for(uint64_t items, uint32_t most)
{
    uint32_t threads = 32;
    while (threads < most && threads < items) { threads *= 2; }
    return threads;
}

redco_status redcoi_work_launch(const redcoi_work *work, uint64_t blocks, uint32_t threads, uint32_t shared_bytes,
                                const void *arguments, const char *format, ...)
{
    const uint64_t most = (uint64_t)work->cuda->device->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    redcoi_grid grid = {.threads = threads, .shared_bytes = shared_bytes};
    char name[100];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(name, sizeof name, format, list);
    va_end(list);
    grid.blocks[0] = (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most);
    return redcoi_kernel_launch(work->cuda, work->stream, name, &grid, arguments, work->launch->name, work->err);
}

void redcoi_dense_strides(const redco_tensor_type *type, bool repeat, uint64_t stride[REDCO_RANK_MAX])
{
    uint64_t elements = 1;
    for (uint32_t i = type->rank; i > 0; i--) {
        stride[i - 1] = repeat && type->dim[i - 1] == 1 ? 0 : elements;
        elements *= type->dim[i - 1];
    }
}

/* @return whether dimension i and the next, as added to the shape last, are one run for all operands. */
static bool joins(const redcoi_shape *shape, uint64_t (*stride)[REDCO_RANK_MAX], uint32_t i)
{
    for (uint32_t k = 0; k < shape->operands; k++) {
        if (stride[k][i] != shape->stride[k][0] * shape->dim[0]) { return false; }
    }
    return true;
}

void redcoi_shape_make(redcoi_shape *shape, const redco_tensor_type *type, uint64_t (*stride)[REDCO_RANK_MAX],
                       uint32_t operands)
{
    memset(shape, 0, sizeof *shape);
    shape->operands = operands;
    for (uint32_t i = type->rank; i > 0; i--) {
        if (type->dim[i - 1] == 1) { continue; }
        if (shape->rank > 0 && joins(shape, stride, i - 1)) {
            shape->dim[0] *= type->dim[i - 1];
            continue;
        }
        memmove(shape->dim + 1, shape->dim, shape->rank * sizeof *shape->dim);
        shape->dim[0] = type->dim[i - 1];
        for (uint32_t k = 0; k < operands; k++) {
            memmove(shape->stride[k] + 1, shape->stride[k], shape->rank * sizeof *shape->stride[k]);
            shape->stride[k][0] = stride[k][i - 1];
        }
        shape->rank++;
    }
    if (shape->rank == 0) { /* one element */
        shape->rank = 1;
        shape->dim[0] = 1;
        for (uint32_t k = 0; k < operands; k++) { shape->stride[k][0] = 1; }
    }
}

uint64_t redcoi_widest(uint64_t element_bytes, const uint64_t *numbers, uint32_t count)
{
    uint64_t all = 16 / element_bytes;
    for (uint32_t i = 0; i < count; i++) {
        while (numbers[i] % all != 0) { all /= 2; }
    }
    return all;
}

redcoi_fault *redcoi_fault_of(const redcoi_work *work)
{
    return work->cuda->device->fault;
}

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
