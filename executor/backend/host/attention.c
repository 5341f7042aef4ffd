/* Rotary embedding, attention and its gradient: compiled for float and double (real.h). Scores exist only for a block
 * of queries at a time, and gradients compute them again, as in Dao et al., FlashAttention-2 (arXiv 2307.08691). */
#include "executor/backend/host/attention.h"

#include "executor/backend/host/real.h"

#include <string.h>

redco_status REAL_NAME(rotary)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor_type *type = &launch->inputs[0].type, *table = &launch->inputs[1].type;
    const uint64_t heads = type->dim[2], size = type->dim[3], n = row_length(table);
    const uint64_t rows = type->dim[0] * type->dim[1], table_rows = row_count(table);
    const bool interleaved = (launch->attributes->flags & REDCO_FLAG_INTERLEAVED) != 0;
    const real sign = (launch->attributes->flags & REDCO_FLAG_INVERSE) != 0 ? -1 : 1;
    const uint64_t step = interleaved ? 2 : 1, other = interleaved ? 1 : n;
    (void)err;
    for (uint64_t r = 0; r < rows; r++) {
        const real *c = (const real *)launch->inputs[1].data + r % table_rows * n;
        const real *s = (const real *)launch->inputs[2].data + r % table_rows * n;
        for (uint64_t h = 0; h < heads; h++) {
            const real *x = (const real *)launch->inputs[0].data + (r * heads + h) * size;
            real *y = (real *)launch->outputs[0].data + (r * heads + h) * size;
            for (uint64_t i = 0; i < n; i++) {
                const real a = x[i * step], b = x[i * step + other];
                y[i * step] = a * c[i] - b * sign * s[i];
                y[i * step + other] = b * c[i] + a * sign * s[i];
            }
            memcpy(y + 2 * n, x + 2 * n, (size - 2 * n) * sizeof *y);
        }
    }
    return REDCO_OK;
}

/** Sizes, and one head's view of the tensors. */
typedef struct heads {
    const redco_attributes *attributes;
    uint64_t batch, queries, keys, count, groups, size, value_size;
    const redco_tensor *mask; /**< NULL: none; a bias if its elements are no BOOL */
} heads;

static heads head_sizes(const redco_launch *launch, bool masked)
{
    const redco_tensor_type *q = &launch->inputs[0].type, *k = &launch->inputs[1].type;
    return (heads){.attributes = launch->attributes,
                   .batch = q->dim[0],
                   .queries = q->dim[1],
                   .keys = k->dim[1],
                   .count = q->dim[2],
                   .groups = k->dim[2],
                   .size = q->dim[3],
                   .value_size = launch->inputs[2].type.dim[3],
                   .mask = masked ? &launch->inputs[3] : NULL};
}

/** Keys [first, end) that query @p i may see by position. */
static void key_range(const heads *h, uint64_t i, uint64_t *first_out, uint64_t *end_out)
{
    const int64_t keys = (int64_t)h->keys;
    int64_t first = 0, end = keys;
    if ((h->attributes->flags & REDCO_FLAG_CAUSAL) != 0) {
        const int64_t last = (int64_t)i + h->attributes->offset;
        const int64_t window = h->attributes->window > INT64_MAX / 4 ? 0 : (int64_t)h->attributes->window;
        end = last + 1 < 0 ? 0 : last + 1 > keys ? keys : last + 1;
        if (window > 0 && last + 1 - window > 0) { first = last + 1 - window; }
        if (first > end) { first = end; }
    }
    *first_out = (uint64_t)first;
    *end_out = (uint64_t)end;
}

/** First element of a mask's or bias's row for a query of a head. */
static uint64_t row_of(const redco_tensor_type *type, uint64_t b, uint64_t head, uint64_t i)
{
    uint64_t stride[REDCO_RANK_MAX];
    redcoi_strides(type, true, stride);
    return b * stride[0] + head * stride[1] + i * stride[2];
}

/** The mask's row for a query of a head, or NULL. */
static const uint8_t *mask_row(const heads *h, uint64_t b, uint64_t head, uint64_t i)
{
    if (h->mask == NULL || h->mask->type.dtype != REDCO_BOOL) { return NULL; }
    return (const uint8_t *)h->mask->data + row_of(&h->mask->type, b, head, i);
}

/** The bias's row, or NULL. */
static const real *bias_row(const heads *h, uint64_t b, uint64_t head, uint64_t i)
{
    if (h->mask == NULL || h->mask->type.dtype == REDCO_BOOL) { return NULL; }
    return (const real *)h->mask->data + row_of(&h->mask->type, b, head, i);
}

/** A block of queries of one head: rows [row, row + rows), and the keys [key, key + keys) that any of them sees. */
typedef struct block {
    uint64_t b, head, group, row, rows, key, keys;
} block;

static block make_block(const heads *h, uint64_t b, uint64_t head, uint64_t row)
{
    uint64_t low, end, high, first;
    block k = {.b = b, .head = head, .group = head / (h->count / h->groups), .row = row};
    k.rows = h->queries - row < REDCOI_ATTENTION_ROWS ? h->queries - row : REDCOI_ATTENTION_ROWS;
    key_range(h, row, &low, &end);
    key_range(h, row + k.rows - 1, &first, &high);
    k.key = low;
    k.keys = high - low;
    return k;
}

/** Leaves out the first and last keys that the mask shows to no query: room for tokens that are still to come. */
static void leave_out_hidden(const heads *h, block *k)
{
    uint64_t first = k->keys, end = 0;
    for (uint64_t r = 0; r < k->rows; r++) {
        const uint8_t *const row = mask_row(h, k->b, k->head, k->row + r);
        if (row == NULL) { return; }
        const uint8_t *const mask = row + k->key;
        uint64_t low = 0, high = k->keys;
        while (low < first && mask[low] == 0) { low++; }
        while (high > end && mask[high - 1] == 0) { high--; }
        first = low;
        end = high;
    }
    k->key += first;
    k->keys = end > first ? end - first : 0;
}

/** Element of [batch][sequence][heads][size]. */
static uint64_t at(uint64_t b, uint64_t i, uint64_t head, uint64_t sequence, uint64_t count, uint64_t size)
{
    return ((b * sequence + i) * count + head) * size;
}

static real capped(real score, real cap)
{
    return cap > 0 ? cap * REAL_FN(tanh)(score / cap) : score;
}

/** scores = scale q k^T of a block, capped; rows of k->keys. */
static redco_status block_scores(const heads *h, const block *k, const redco_launch *launch, void *scores,
                                 redco_error *err)
{
    const redcoi_gemm g = {
        .transpose_b = true,
        .m = k->rows,
        .n = k->keys,
        .k = h->size,
        .alpha = h->attributes->scalar,
        .row_a = h->count * h->size,
        .row_b = h->groups * h->size,
        .row_c = k->keys,
        .a = (const real *)launch->inputs[0].data + at(k->b, k->row, k->head, h->queries, h->count, h->size),
        .b = (const real *)launch->inputs[1].data + at(k->b, k->key, k->group, h->keys, h->groups, h->size),
        .c = scores};
    const redco_status st = REAL_NAME(gemm)(&g, err);
    const real cap = (real)h->attributes->cap;
    real *const x = scores;
    for (uint64_t i = 0; st == REDCO_OK && cap > 0 && i < k->rows * k->keys; i++) { x[i] = capped(x[i], cap); }
    return st;
}

/** Adds the bias, and sets what a query does not see to minus infinity. */
static void hide(const heads *h, const block *k, uint64_t r, real *scores)
{
    const uint8_t *mask = mask_row(h, k->b, k->head, k->row + r);
    const real *bias = bias_row(h, k->b, k->head, k->row + r);
    uint64_t first, end;
    for (uint64_t j = 0; bias != NULL && j < k->keys; j++) { scores[j] += bias[k->key + j]; }
    key_range(h, k->row + r, &first, &end);
    for (uint64_t j = 0; j < k->keys; j++) {
        const uint64_t key = k->key + j;
        if (key < first || key >= end || (mask != NULL && mask[key] == 0)) { scores[j] = -(real)INFINITY; }
    }
}

/** Probabilities of one row in place. @return log-sum-exp, 0 for a row that sees nothing (all 0) */
static real softmax_row(real *x, uint64_t n)
{
    real max = -(real)INFINITY;
    double sum = 0;
    for (uint64_t j = 0; j < n; j++) {
        if (x[j] > max || isnan(x[j])) { max = x[j]; }
    }
    if (max == -(real)INFINITY) {
        memset(x, 0, n * sizeof *x);
        return 0;
    }
    for (uint64_t j = 0; j < n; j++) {
        x[j] = REAL_FN(exp)(x[j] - max);
        sum += (double)x[j];
    }
    const real scale = (real)(1 / sum);
    for (uint64_t j = 0; j < n; j++) { x[j] *= scale; }
    return (real)((double)max + log(sum));
}

static redco_status attention_block(const heads *h, const block *k, const redco_launch *launch, redco_error *err)
{
    real *scores = launch->workspace, *lse = launch->outputs[1].data;
    real *out = (real *)launch->outputs[0].data + at(k->b, k->row, k->head, h->queries, h->count, h->value_size);
    const uint64_t row_out = h->count * h->value_size;
    lse += (k->b * h->count + k->head) * h->queries + k->row;
    if (k->keys == 0) { /* nobody sees anything */
        for (uint64_t r = 0; r < k->rows; r++) {
            memset(out + r * row_out, 0, h->value_size * sizeof *out);
            lse[r] = 0;
        }
        return REDCO_OK;
    }
    const redco_status st = block_scores(h, k, launch, scores, err);
    if (st != REDCO_OK) { return st; }
    for (uint64_t r = 0; r < k->rows; r++) {
        hide(h, k, r, scores + r * k->keys);
        lse[r] = softmax_row(scores + r * k->keys, k->keys);
    }
    const redcoi_gemm g = {.m = k->rows,
                           .n = h->value_size,
                           .k = k->keys,
                           .alpha = 1,
                           .row_a = k->keys,
                           .row_b = h->groups * h->value_size,
                           .row_c = row_out,
                           .a = scores,
                           .b = (const real *)launch->inputs[2].data +
                                at(k->b, k->key, k->group, h->keys, h->groups, h->value_size),
                           .c = out};
    return REAL_NAME(gemm)(&g, err);
}

static real dot(const real *a, const real *b, uint64_t n)
{
    enum { LANES = 16 }; /* sums beside each other, which compilers put into vectors */
    real lanes[LANES] = {0}, sum = 0;
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (uint64_t l = 0; l < LANES; l++) { lanes[l] += a[i + l] * b[i + l]; }
    }
    for (; i < n; i++) { sum += a[i] * b[i]; }
    for (uint64_t l = 0; l < LANES; l++) { sum += lanes[l]; }
    return sum;
}

/** The one query of all heads, a key after the other: caches of keys and values are read as they lie in memory. */
static void attention_of_one(const heads *h, uint64_t b, const redco_launch *launch)
{
    const uint64_t shared = h->count / h->groups, row = h->value_size;
    const real *const q = (const real *)launch->inputs[0].data + b * h->count * h->size;
    real *const out = (real *)launch->outputs[0].data + b * h->count * row;
    real *const lse = (real *)launch->outputs[1].data + b * h->count, *const scores = launch->workspace;
    block all = make_block(h, b, 0, 0);
    uint64_t first = all.keys, end = 0;
    for (uint64_t head = 0; head < h->count; head++) { /* masks may differ by head */
        block k = make_block(h, b, head, 0);
        leave_out_hidden(h, &k);
        if (k.keys == 0) { continue; }
        first = k.key - all.key < first ? k.key - all.key : first;
        end = k.key - all.key + k.keys > end ? k.key - all.key + k.keys : end;
    }
    memset(out, 0, h->count * row * sizeof *out);
    all.key += first < end ? first : 0;
    all.keys = first < end ? end - first : 0;
    for (uint64_t j = 0; j < all.keys; j++) {
        const real *const key =
            (const real *)launch->inputs[1].data + at(b, all.key + j, 0, h->keys, h->groups, h->size);
        for (uint64_t head = 0; head < h->count; head++) {
            const real score =
                (real)h->attributes->scalar * dot(q + head * h->size, key + head / shared * h->size, h->size);
            scores[head * all.keys + j] = capped(score, (real)h->attributes->cap);
        }
    }
    for (uint64_t head = 0; head < h->count; head++) {
        all.head = head;
        hide(h, &all, 0, scores + head * all.keys);
        lse[head] = softmax_row(scores + head * all.keys, all.keys);
    }
    for (uint64_t j = 0; j < all.keys; j++) {
        const real *const value = (const real *)launch->inputs[2].data + at(b, all.key + j, 0, h->keys, h->groups, row);
        for (uint64_t head = 0; head < h->count; head++) {
            const real p = scores[head * all.keys + j], *const v = value + head / shared * row;
            for (uint64_t i = 0; i < row; i++) { out[head * row + i] += p * v[i]; }
        }
    }
}

redco_status REAL_NAME(attention)(const redco_launch *launch, redco_error *err)
{
    const heads h = head_sizes(launch, launch->input_count == 4);
    redco_status st = REDCO_OK;
    if (h.queries == 1) {
        for (uint64_t b = 0; b < h.batch; b++) { attention_of_one(&h, b, launch); }
        return REDCO_OK;
    }
    for (uint64_t b = 0; b < h.batch; b++) {
        for (uint64_t head = 0; head < h.count; head++) {
            for (uint64_t row = 0; row < h.queries && st == REDCO_OK; row += REDCOI_ATTENTION_ROWS) {
                block k = make_block(&h, b, head, row);
                leave_out_hidden(&h, &k);
                st = attention_block(&h, &k, launch, err);
            }
        }
    }
    return st;
}

/** From scores and d v^T: probabilities, and the gradient of the scores times @p scale; with @p cap, of those before
 * they were capped. */
static void score_gradients(const heads *h, const block *k, const redco_launch *launch, uint32_t first, real scale,
                            real cap, real *p, real *e)
{
    const uint64_t row = h->count * h->value_size,
                   begin = at(k->b, k->row, k->head, h->queries, h->count, h->value_size);
    const real *o = (const real *)launch->inputs[first].data + begin;
    const real *d = (const real *)launch->inputs[first + 2].data + begin;
    const real *lse = (const real *)launch->inputs[first + 1].data + (k->b * h->count + k->head) * h->queries + k->row;
    for (uint64_t r = 0; r < k->rows; r++) {
        double sum = 0;
        for (uint64_t i = 0; i < h->value_size; i++) { sum += (double)o[r * row + i] * (double)d[r * row + i]; }
        for (uint64_t j = r * k->keys; cap > 0 && j < (r + 1) * k->keys; j++) {
            const real part = p[j] / cap; /* the derivative is 1 - part^2 */
            e[j] = (real)sum + (e[j] - (real)sum) * (1 - part * part);
        }
        hide(h, k, r, p + r * k->keys);
        for (uint64_t j = r * k->keys; j < (r + 1) * k->keys; j++) {
            p[j] = REAL_FN(exp)(p[j] - lse[r]);
            e[j] = p[j] * (e[j] - (real)sum) * scale;
        }
    }
}

/** dq = e k, dk += e^T q, dv += p^T do, and before that e = do v^T. */
static redco_status attention_grad_block(const heads *h, const block *k, const redco_launch *launch, uint32_t first,
                                         redco_error *err)
{
    real *p = launch->workspace, *e = p + k->rows * k->keys;
    const uint64_t q_at = at(k->b, k->row, k->head, h->queries, h->count, h->size), q_row = h->count * h->size;
    const uint64_t o_at = at(k->b, k->row, k->head, h->queries, h->count, h->value_size);
    const uint64_t k_at = at(k->b, k->key, k->group, h->keys, h->groups, h->size), k_row = h->groups * h->size;
    const uint64_t v_at = at(k->b, k->key, k->group, h->keys, h->groups, h->value_size);
    const uint64_t v_row = h->groups * h->value_size, o_row = h->count * h->value_size;
    const real *q = (const real *)launch->inputs[0].data + q_at, *keys = (const real *)launch->inputs[1].data + k_at;
    const real *v = (const real *)launch->inputs[2].data + v_at,
               *d = (const real *)launch->inputs[first + 2].data + o_at;
    real *dq = (real *)launch->outputs[0].data + q_at;
    if (k->keys == 0) {
        for (uint64_t r = 0; r < k->rows; r++) { memset(dq + r * q_row, 0, h->size * sizeof *dq); }
        return REDCO_OK;
    }
    redco_status st = block_scores(h, k, launch, p, err);
    const redcoi_gemm products[4] = {{.transpose_b = true,
                                      .m = k->rows,
                                      .n = k->keys,
                                      .k = h->value_size,
                                      .alpha = 1,
                                      .row_a = o_row,
                                      .row_b = v_row,
                                      .row_c = k->keys,
                                      .a = d,
                                      .b = v,
                                      .c = e},
                                     {.m = k->rows,
                                      .n = h->size,
                                      .k = k->keys,
                                      .alpha = 1,
                                      .row_a = k->keys,
                                      .row_b = k_row,
                                      .row_c = q_row,
                                      .a = e,
                                      .b = keys,
                                      .c = dq},
                                     {.transpose_a = true,
                                      .m = k->keys,
                                      .n = h->size,
                                      .k = k->rows,
                                      .alpha = 1,
                                      .beta = 1,
                                      .row_a = k->keys,
                                      .row_b = q_row,
                                      .row_c = k_row,
                                      .a = e,
                                      .b = q,
                                      .c = (real *)launch->outputs[1].data + k_at},
                                     {.transpose_a = true,
                                      .m = k->keys,
                                      .n = h->value_size,
                                      .k = k->rows,
                                      .alpha = 1,
                                      .beta = 1,
                                      .row_a = k->keys,
                                      .row_b = o_row,
                                      .row_c = v_row,
                                      .a = p,
                                      .b = d,
                                      .c = (real *)launch->outputs[2].data + v_at}};
    for (uint32_t i = 0; i < 4 && st == REDCO_OK; i++) {
        st = REAL_NAME(gemm)(&products[i], err);
        if (i == 0) {
            score_gradients(h, k, launch, first, (real)h->attributes->scalar, (real)h->attributes->cap, p, e);
        }
    }
    return st;
}

redco_status REAL_NAME(attention_grad)(const redco_launch *launch, redco_error *err)
{
    const bool masked = launch->input_count == 7;
    const heads h = head_sizes(launch, masked);
    redco_status st = REDCO_OK;
    for (uint32_t i = 1; i < 3; i++) { memset(launch->outputs[i].data, 0, redco_type_bytes(&launch->outputs[i].type)); }
    for (uint64_t b = 0; b < h.batch; b++) {
        for (uint64_t head = 0; head < h.count; head++) {
            for (uint64_t row = 0; row < h.queries && st == REDCO_OK; row += REDCOI_ATTENTION_ROWS) {
                const block k = make_block(&h, b, head, row);
                st = attention_grad_block(&h, &k, launch, masked ? 4 : 3, err);
            }
        }
    }
    return st;
}

/** Adds the gradient of a block's scores to the bias that they had. */
static redco_status bias_grad_block(const heads *h, const block *k, const redco_launch *launch, redco_error *err)
{
    enum { FIRST = 4 }; /* output, log-sum-exp, doutput */
    real *p = launch->workspace, *e = p + k->rows * k->keys;
    if (k->keys == 0) { return REDCO_OK; }
    redco_status st = block_scores(h, k, launch, p, err);
    const redcoi_gemm g = {.transpose_b = true,
                           .m = k->rows,
                           .n = k->keys,
                           .k = h->value_size,
                           .alpha = 1,
                           .row_a = h->count * h->value_size,
                           .row_b = h->groups * h->value_size,
                           .row_c = k->keys,
                           .a = (const real *)launch->inputs[FIRST + 2].data +
                                at(k->b, k->row, k->head, h->queries, h->count, h->value_size),
                           .b = (const real *)launch->inputs[2].data +
                                at(k->b, k->key, k->group, h->keys, h->groups, h->value_size),
                           .c = e};
    if (st == REDCO_OK) { st = REAL_NAME(gemm)(&g, err); }
    if (st != REDCO_OK) { return st; }
    score_gradients(h, k, launch, FIRST, 1, 0, p, e);
    for (uint64_t r = 0; r < k->rows; r++) {
        real *row =
            (real *)launch->outputs[0].data + row_of(&launch->outputs[0].type, k->b, k->head, k->row + r) + k->key;
        for (uint64_t j = 0; j < k->keys; j++) { row[j] += e[r * k->keys + j]; }
    }
    return REDCO_OK;
}

redco_status REAL_NAME(attention_bias_grad)(const redco_launch *launch, redco_error *err)
{
    const heads h = head_sizes(launch, true);
    redco_status st = REDCO_OK;
    memset(launch->outputs[0].data, 0, redco_type_bytes(&launch->outputs[0].type));
    for (uint64_t b = 0; b < h.batch; b++) {
        for (uint64_t head = 0; head < h.count; head++) {
            for (uint64_t row = 0; row < h.queries && st == REDCO_OK; row += REDCOI_ATTENTION_ROWS) {
                const block k = make_block(&h, b, head, row);
                st = bias_grad_block(&h, &k, launch, err);
            }
        }
    }
    return st;
}
