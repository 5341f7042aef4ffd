/* Batched products: compiled for float and double (real.h). */
#include "executor/backend/host/real.h"

redco_status REAL_NAME(matmul)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *a = &launch->inputs[0], *b = &launch->inputs[1], *c = &launch->outputs[0];
    const uint32_t batch = c->type.rank - 2;
    const bool ta = (launch->attributes->flags & REDCO_FLAG_TRANSPOSE_A) != 0;
    const bool tb = (launch->attributes->flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    const uint64_t m = c->type.dim[batch], n = c->type.dim[batch + 1], k = a->type.dim[batch + (ta ? 0 : 1)];
    redcoi_gemm g = {.transpose_a = ta,
                     .transpose_b = tb,
                     .m = m,
                     .n = n,
                     .k = k,
                     .row_a = ta ? m : k,
                     .row_b = tb ? k : n,
                     .row_c = n,
                     .alpha = 1,
                     .beta = 0};
    uint64_t stride[2][REDCO_RANK_MAX] = {{0}};
    redco_status st = REDCO_OK;
    redcoi_walk walk;
    redco_tensor_type batches = c->type; /* one element per matrix */
    batches.rank = batch;
    redcoi_strides(&a->type, true, stride[0]);
    redcoi_strides(&b->type, true, stride[1]);
    redcoi_walk_begin(&walk, &batches, stride, 2);
    const uint32_t last = walk.rank - 1;
    do {
        for (uint64_t i = 0; i < walk.count && st == REDCO_OK; i++) {
            g.a = (const real *)a->data + walk.first[0] + i * walk.stride[0][last];
            g.b = (const real *)b->data + walk.first[1] + i * walk.stride[1][last];
            g.c = (real *)c->data + (walk.done + i) * m * n;
            st = REAL_NAME(gemm)(&g, err);
        }
    } while (st == REDCO_OK && redcoi_walk_next(&walk));
    return st;
}
