/* Products by cuBLASLt. Each is one call with its epilogue, whose plan (descriptors, algorithm) was made when its shape
 * was met first; from then on a launch finds the plan, sets the epilogue's addresses and queues the call. */
#include "executor/backend/cuda/products/blas.h"

#include <stdio.h>
#include <stdlib.h>

/* cuBLAS library documentation, cublasSetWorkspace(): 32 MiB are recommended (and cuBLAS's own default) on compute
 * capability 9.0 and 10.x, 4 MiB before. Partial sums of products split along k lie there. Fixed, so that memory is
 * planned from types alone and whichever algorithm is chosen finds room. */
enum { WORKSPACE_BYTES = 4 << 20, WORKSPACE_BYTES_FROM_9 = 32 << 20 };

#define SYMBOL(name)                                                                                                   \
    {                                                                                                                  \
        "cublasLt" #name, (void (**)(void)) & blas->calls.name                                                         \
    }

static redco_status load(const redcoi_device *device, redcoi_blas *blas, redco_error *err)
{
    const redcoi_symbol symbols[] = {
        SYMBOL(Create),
        SYMBOL(Destroy),
        SYMBOL(GetVersion),
        SYMBOL(GetStatusName),
        SYMBOL(GetStatusString),
        SYMBOL(MatmulDescCreate),
        SYMBOL(MatmulDescDestroy),
        SYMBOL(MatmulDescSetAttribute),
        SYMBOL(MatrixLayoutCreate),
        SYMBOL(MatrixLayoutDestroy),
        SYMBOL(MatrixLayoutSetAttribute),
        SYMBOL(MatmulPreferenceCreate),
        SYMBOL(MatmulPreferenceDestroy),
        SYMBOL(MatmulPreferenceSetAttribute),
        SYMBOL(MatmulAlgoGetHeuristic),
        SYMBOL(Matmul),
    };
    return redcoi_library_open_kind(device, REDCO_CUDA_LIBRARY_BLAS, symbols, sizeof symbols / sizeof symbols[0],
                                    &blas->library, err);
}

redco_status redcoi_blas_open(redcoi_cuda *cuda, redco_error *err)
{
    redcoi_blas *const blas = calloc(1, sizeof *blas);
    if (blas == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "no memory for cuBLASLt"); }
    cuda->blas = blas;
    blas->workspace_bytes = cuda->device->major >= 9 ? WORKSPACE_BYTES_FROM_9 : WORKSPACE_BYTES;
    redco_status st = load(cuda->device, blas, err);
    if (st != REDCO_OK || (st = redcoi_cuda_enter(cuda, err)) != REDCO_OK) { goto out; }
    st = redcoi_blas_check(blas, blas->calls.Create(&blas->handle), "cuda", "cublasLtCreate", err);
out:
    if (st != REDCO_OK) { redcoi_blas_close(cuda); }
    return st;
}

void redcoi_blas_close(redcoi_cuda *cuda)
{
    redcoi_blas *const blas = cuda->blas;
    if (blas == NULL) { return; }
    for (uint32_t i = 0; i < blas->plan_room; i++) { redcoi_blas_plan_free(blas, blas->plans[i]); }
    if (blas->handle != NULL && redcoi_cuda_enter(cuda, NULL) == REDCO_OK) { (void)blas->calls.Destroy(blas->handle); }
    redcoi_library_close(blas->library);
    free(blas->plans);
    free(blas);
    cuda->blas = NULL;
}

uint32_t redcoi_blas_version(const redcoi_cuda *cuda)
{
    return cuda->blas == NULL ? 0 : (uint32_t)cuda->blas->calls.GetVersion();
}

static redco_status find_plan(const redcoi_cuda *cuda, const redcoi_product *product, redcoi_blas_plan **plan_out,
                              redco_error *err)
{
    return redcoi_blas_plan_find(cuda->blas, product, cuda->device->options.tf32, plan_out, err);
}

/* A plain product is always taken: nothing else has it. Whether an epilogue is there is cuBLASLt's to say. */
static bool supports(const redcoi_cuda *cuda, const redco_launch *launch)
{
    redcoi_product product;
    redcoi_configuration configuration;
    redcoi_blas_plan *plan = NULL;
    if (!redcoi_product_of(launch, &product, &configuration)) { return false; }
    if (launch->kind == REDCO_OP_MATMUL) { return true; }
    if (configuration.rank > 0 || product.count > 1 || redcoi_cuda_enter(cuda, NULL) != REDCO_OK) { return false; }
    return find_plan(cuda, &product, &plan, NULL) == REDCO_OK && plan->candidate_count > 0;
}

static uint64_t workspace_bytes(const redcoi_cuda *cuda, const redco_launch *launch)
{
    (void)launch;
    return cuda->blas->workspace_bytes;
}

static redco_status refuse(const redcoi_cuda *cuda, const redco_launch *launch, const redcoi_blas_plan *plan,
                           redco_error *err)
{
    const redcoi_product *const p = &plan->product;
    const char *const name = cuda->blas->calls.GetStatusName(plan->status);
    return redco_fail(err, REDCO_ESYSTEM, launch->name,
                      "cuBLASLt has no algorithm for this %s: %llu of %s [%llu, %llu] = [%llu, %llu]%s [%llu, %llu]%s, "
                      "epilogue %u, aligned to %u bytes, workspace %llu bytes (%s)",
                      redco_op_kind_name(launch->kind), (unsigned long long)p->count,
                      redco_dtype_name((redco_dtype)p->dtype), (unsigned long long)p->m, (unsigned long long)p->n,
                      (unsigned long long)p->m, (unsigned long long)p->k,
                      (p->transposes & REDCO_FLAG_TRANSPOSE_A) != 0 ? "T" : "", (unsigned long long)p->k,
                      (unsigned long long)p->n, (p->transposes & REDCO_FLAG_TRANSPOSE_B) != 0 ? "T" : "", p->epilogue,
                      p->alignment_bytes, (unsigned long long)cuda->blas->workspace_bytes, name == NULL ? "" : name);
}

static const void *moved(const redco_tensor *t, uint64_t elements)
{
    return t == NULL ? NULL : (const unsigned char *)t->data + elements * redco_dtype_bytes(t->type.dtype);
}

/** Where call @p call of those that one operator takes finds its matrices. */
static redcoi_blas_place place_of(const redcoi_operands *o, const redcoi_configuration *configuration, uint64_t call)
{
    uint64_t at[3] = {0, 0, 0};
    for (uint32_t i = 0; i < configuration->rank; i++) {
        const uint64_t index = call % configuration->dim[i];
        call /= configuration->dim[i];
        for (uint32_t t = 0; t < 3; t++) { at[t] += index * configuration->stride[t][i]; }
    }
    const uint64_t result = at[2] * redco_dtype_bytes(o->result->type.dtype);
    return (redcoi_blas_place){moved(o->a, at[0]), moved(o->b, at[1]), moved(o->addend, at[2]),
                               (unsigned char *)o->result->data + result};
}

static redco_status run(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch, redco_error *err)
{
    redcoi_product product;
    redcoi_configuration configuration;
    redcoi_blas_plan *plan = NULL;
    if (!redcoi_product_of(launch, &product, &configuration)) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "cuBLASLt does not compute this %s",
                          redco_op_kind_name(launch->kind));
    }
    redco_status st = find_plan(cuda, &product, &plan, err);
    if (st != REDCO_OK) { return st; }
    if (plan->candidate_count == 0) { return refuse(cuda, launch, plan, err); }
    const redcoi_operands with = redcoi_operands_of(launch);
    if ((st = redcoi_blas_epilogue(cuda->blas, plan, &with, launch->name, err)) != REDCO_OK) { return st; }
    uint64_t calls = 1;
    for (uint32_t i = 0; i < configuration.rank; i++) { calls *= configuration.dim[i]; }
    for (uint64_t i = 0; i < calls && st == REDCO_OK; i++) {
        const redcoi_blas_place at = place_of(&with, &configuration, i);
        if (cuda->device->options.tune && !plan->tuned) {
            st = redcoi_blas_tune(cuda, stream, plan, &at, launch->workspace, launch->name, err);
            if (st != REDCO_OK) { break; }
        }
        if (!stream->recording) { redcoi_cuda_count_call(cuda); }
        st = redcoi_blas_check(cuda->blas,
                               redcoi_blas_call(cuda->blas, plan, plan->chosen, &at, launch->workspace, stream->handle),
                               launch->name, "cublasLtMatmul", err);
    }
    return st;
}

const redcoi_runner redcoi_matmul_runner = {supports, workspace_bytes, run};
