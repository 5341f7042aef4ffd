/* Mixtures of experts: rows by expert, and products of them. Compiled for float and double (real.h). */
#include "executor/backend/host/real.h"

#include <string.h>

redco_status REAL_NAME(top_k)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *const in = &launch->inputs[0], *const out = &launch->outputs[0];
    const uint64_t rows = row_count(&in->type), n = row_length(&in->type), count = row_length(&out->type);
    (void)err;
    for (uint64_t r = 0; r < rows; r++) {
        const real *const a = (const real *)in->data + r * n;
        int32_t *const best = (int32_t *)out->data + r * count;
        for (uint64_t filled = 0, i = 0; i < n; i++) { /* into the sorted list, behind equal ones */
            uint64_t at = filled;
            while (at > 0 && a[best[at - 1]] < a[i]) { at--; }
            if (at == count) { continue; }
            if (filled < count) { filled++; }
            memmove(best + at + 1, best + at, (filled - 1 - at) * sizeof *best);
            best[at] = (int32_t)i;
        }
    }
    return REDCO_OK;
}

static redco_status check_experts(const redco_launch *launch, const redco_tensor *index, redco_error *err)
{
    const uint64_t choices = redco_type_elements(&index->type), experts = launch->attributes->size[0];
    const int32_t *const chosen = index->data;
    for (uint64_t i = 0; i < choices; i++) {
        uint64_t expert = 0;
        if (!redcoi_row(chosen[i], 0, experts, &expert)) {
            return redco_fail(err, REDCO_EVALUE, launch->name, "expert %d is outside of [0, %llu)", chosen[i],
                              (unsigned long long)experts);
        }
    }
    return REDCO_OK;
}

redco_status REAL_NAME(sort_rows)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *const index = &launch->inputs[1];
    const bool back = (launch->attributes->flags & REDCO_FLAG_INVERSE) != 0;
    const uint64_t choices = redco_type_elements(&index->type), each = row_length(&index->type);
    const uint64_t n = row_length(&launch->outputs[0].type);
    const real *const in = launch->inputs[0].data;
    const int32_t *const chosen = index->data;
    real *const out = launch->outputs[0].data;
    const redco_status st = check_experts(launch, index, err);
    if (st != REDCO_OK) { return st; }
    if (back) { memset(out, 0, choices / each * n * sizeof *out); }
    for (uint64_t expert = 0, row = 0; expert < launch->attributes->size[0]; expert++) {
        for (uint64_t i = 0; i < choices; i++) {
            if ((uint64_t)chosen[i] != expert) { continue; }
            const uint64_t token = i / each;
            for (uint64_t k = 0; k < n && back; k++) { out[token * n + k] += in[row * n + k]; }
            if (!back) { memcpy(out + row * n, in + token * n, n * sizeof *out); }
            row++;
        }
    }
    return REDCO_OK;
}

/* The rows of an expert among those that lie by expert. */
static uint64_t rows_of(const redco_tensor *index, uint64_t expert)
{
    const uint64_t choices = redco_type_elements(&index->type);
    const int32_t *const chosen = index->data;
    uint64_t rows = 0;
    for (uint64_t i = 0; i < choices; i++) { rows += (uint64_t)chosen[i] == expert ? 1 : 0; }
    return rows;
}

redco_status REAL_NAME(grouped_matmul)(const redco_launch *launch, redco_error *err)
{
    const bool turned = (launch->attributes->flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    const uint64_t k = row_length(&launch->inputs[0].type), n = row_length(&launch->outputs[0].type);
    const real *a = launch->inputs[0].data, *b = launch->inputs[1].data;
    real *c = launch->outputs[0].data;
    redco_status st = check_experts(launch, &launch->inputs[2], err);
    for (uint64_t expert = 0; expert < launch->attributes->size[0] && st == REDCO_OK; expert++) {
        const uint64_t rows = rows_of(&launch->inputs[2], expert);
        const redcoi_gemm g = {.transpose_b = turned,
                               .m = rows,
                               .n = n,
                               .k = k,
                               .row_a = k,
                               .row_b = turned ? k : n,
                               .row_c = n,
                               .alpha = 1,
                               .a = a,
                               .b = b,
                               .c = c};
        if (rows > 0) { st = REAL_NAME(gemm)(&g, err); }
        a += rows * k;
        b += k * n;
        c += rows * n;
    }
    return st;
}

redco_status REAL_NAME(grouped_matmul_grad)(const redco_launch *launch, redco_error *err)
{
    const uint64_t m = row_length(&launch->inputs[0].type), n = row_length(&launch->inputs[1].type);
    const real *a = launch->inputs[0].data, *b = launch->inputs[1].data;
    real *c = launch->outputs[0].data;
    redco_status st = check_experts(launch, &launch->inputs[2], err);
    for (uint64_t expert = 0; expert < launch->attributes->size[0] && st == REDCO_OK; expert++) {
        const uint64_t rows = rows_of(&launch->inputs[2], expert);
        const redcoi_gemm g = {.transpose_a = true,
                               .m = m,
                               .n = n,
                               .k = rows,
                               .row_a = m,
                               .row_b = n,
                               .row_c = n,
                               .alpha = 1,
                               .a = a,
                               .b = b,
                               .c = c};
        if (rows > 0) {
            st = REAL_NAME(gemm)(&g, err);
        } else { /* no token chose it */
            memset(c, 0, m * n * sizeof *c);
        }
        a += rows * m;
        b += rows * n;
        c += m * n;
    }
    return st;
}
