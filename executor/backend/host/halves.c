/* Half-precision operators that need no whole copy of a tensor: elementwise ones, a block of elements at a time, and
 * sums of squares. */
#include "executor/backend/host/host_internal.h"

enum { BLOCK = 1024 };

static const redco_tensor *tensor_of(const redco_launch *launch, uint32_t i)
{
    return i < launch->input_count ? &launch->inputs[i] : &launch->outputs[i - launch->input_count];
}

/* As the kernel does it (reduce.c). */
static void sum_squares(const redco_launch *launch)
{
    const redco_tensor *const in = &launch->inputs[0];
    const uint64_t count = redco_type_elements(&in->type);
    float block[BLOCK];
    double sum = 0;
    for (uint64_t at = 0; at < count; at += BLOCK) {
        const uint64_t n = count - at < BLOCK ? count - at : BLOCK;
        redcoi_widen(in->type.dtype, (const uint16_t *)in->data + at, n, block);
        for (uint64_t i = 0; i < n; i++) {
            const float square = block[i] * block[i];
            sum += (double)square;
        }
    }
    *(float *)launch->outputs[0].data = (float)sum;
}

static redco_status run_block(redcoi_kernel kernel, const redco_launch *launch, uint64_t at, uint64_t n,
                              redco_error *err)
{
    redco_tensor parts[REDCOI_BLOCKS_TENSORS];
    float blocks[REDCOI_BLOCKS_HALVES][BLOCK];
    redco_launch part = *launch;
    uint32_t halves = 0;
    part.inputs = parts;
    part.outputs = parts + launch->input_count;
    for (uint32_t i = 0; i < launch->input_count + launch->output_count; i++) {
        const redco_tensor *const t = tensor_of(launch, i);
        parts[i] = *t;
        if (redcoi_host_is_shared(launch, i)) { continue; }
        parts[i].type = redco_type(t->type.dtype, 1, &n);
        parts[i].data = (unsigned char *)t->data + at * redco_dtype_bytes(t->type.dtype);
        if (!redcoi_is_half(t->type.dtype)) { continue; }
        if (i < launch->input_count) { redcoi_widen(t->type.dtype, parts[i].data, n, blocks[halves]); }
        parts[i].type.dtype = REDCO_F32;
        parts[i].data = blocks[halves++];
    }
    const redco_status st = kernel(&part, err);
    for (uint32_t i = launch->input_count; st == REDCO_OK && i < launch->input_count + launch->output_count; i++) {
        const redco_tensor *const t = tensor_of(launch, i);
        if (redcoi_is_half(t->type.dtype)) { redcoi_narrow(t->type.dtype, parts[i].data, n, (uint16_t *)t->data + at); }
    }
    return st;
}

redco_status redcoi_host_run_blocks(redcoi_kernel kernel, const redco_launch *launch, redco_error *err)
{
    const uint64_t count = redco_type_elements(&launch->outputs[0].type);
    redco_status st = REDCO_OK;
    if (launch->kind == REDCO_OP_SUM_SQUARES) {
        sum_squares(launch);
        return st;
    }
    for (uint64_t at = 0; at < count && st == REDCO_OK; at += BLOCK) {
        st = run_block(kernel, launch, at, count - at < BLOCK ? count - at : BLOCK, err);
    }
    return st;
}
