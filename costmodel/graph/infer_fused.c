/* Types of the results of fused operators. Statistics are f64 for f64 tensors, else f32. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/infer.h"

static redco_status check_float_rows(redcoi_signature *s)
{
    if (!redco_dtype_is_float(s->in[0].dtype)) { return redcoi_mismatch(s, "it needs floating-point tensors"); }
    if (s->in[0].rank == 0) { return redcoi_mismatch(s, "a scalar has no last dimension"); }
    return REDCO_OK;
}

static bool same_type(const redcoi_signature *s, uint32_t i, uint32_t j)
{
    return redco_type_equal(&s->in[i], &s->in[j]);
}

redco_status redcoi_infer_rows(redcoi_signature *s)
{
    s->out[0] = s->in[0];
    const redco_status st = check_float_rows(s);
    if (st == REDCO_OK && s->input_count == 2 && !same_type(s, 0, 1)) {
        return redcoi_mismatch(s, "both must be of one type");
    }
    return st;
}

static redco_tensor_type statistic_of(const redco_tensor_type *x)
{
    redco_tensor_type type = *x;
    type.dtype = redco_dtype_statistic(x->dtype);
    type.dim[type.rank - 1] = 1;
    return type;
}

/** Inputs first to first + count - 1 are vectors as long as the rows of input 0 (scale, shift). */
static redco_status check_vectors(redcoi_signature *s, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        if (s->in[i].rank != 1 || s->in[i].dim[0] != s->in[0].dim[s->in[0].rank - 1] ||
            s->in[i].dtype != s->in[0].dtype) {
            return redcoi_mismatch(s, "input %u must be a vector of the last dimension's size and type", i);
        }
    }
    return REDCO_OK;
}

static redco_status check_statistics(redcoi_signature *s, uint32_t first, uint32_t count)
{
    const redco_tensor_type wanted = statistic_of(&s->in[0]);
    char text[REDCO_TYPE_TEXT_BYTES];
    for (uint32_t i = first; i < first + count; i++) {
        if (!redco_type_equal(&s->in[i], &wanted)) {
            return redcoi_mismatch(s, "input %u must be %s", i, redco_type_text(&wanted, text));
        }
    }
    return REDCO_OK;
}

/* x, scale[, shift] -> y, [mean,] 1/deviation */
redco_status redcoi_infer_norm(redcoi_signature *s)
{
    const uint32_t vectors = s->kind == REDCO_OP_LAYER_NORM ? 2 : 1;
    redco_status st = check_float_rows(s);
    if (st == REDCO_OK) { st = check_vectors(s, 1, vectors); }
    if (st != REDCO_OK) { return st; }
    s->out[0] = s->in[0];
    for (uint32_t i = 1; i <= vectors; i++) { s->out[i] = statistic_of(&s->in[0]); }
    return REDCO_OK;
}

/* x, scale, [mean,] 1/deviation, dy -> dx, dscale[, dshift] */
redco_status redcoi_infer_norm_grad(redcoi_signature *s)
{
    const uint32_t statistics = s->kind == REDCO_OP_LAYER_NORM_GRAD ? 2 : 1;
    redco_status st = check_float_rows(s);
    if (st == REDCO_OK) { st = check_vectors(s, 1, 1); }
    if (st == REDCO_OK) { st = check_statistics(s, 2, statistics); }
    if (st != REDCO_OK) { return st; }
    if (!same_type(s, 0, 2 + statistics)) {
        return redcoi_mismatch(s, "the last input must be of the first one's type");
    }
    s->out[0] = s->in[0];
    for (uint32_t i = 1; i <= statistics; i++) { s->out[i] = s->in[1]; }
    return REDCO_OK;
}

/* x [batch, sequence, heads, size], cosines and sines [sequence, n] or [batch, sequence, n], 2 n <= size */
redco_status redcoi_infer_rotary(redcoi_signature *s)
{
    const redco_tensor_type *x = &s->in[0], *table = &s->in[1];
    const redco_status st = check_float_rows(s);
    s->out[0] = *x;
    if (st != REDCO_OK) { return st; }
    if (x->rank != 4) { return redcoi_mismatch(s, "the first input is [batch, sequence, heads, size]"); }
    const bool fits = redco_type_equal(table, &s->in[2]) && table->dtype == redco_dtype_statistic(x->dtype) &&
                      ((table->rank == 2 && table->dim[0] == x->dim[1]) ||
                       (table->rank == 3 && table->dim[0] == x->dim[0] && table->dim[1] == x->dim[1]));
    if (!fits || table->dim[table->rank - 1] > x->dim[3] / 2) {
        return redcoi_mismatch(s, "tables are %s [sequence, n] or [batch, sequence, n] with 2 n <= size",
                               redco_dtype_name(redco_dtype_statistic(x->dtype)));
    }
    return REDCO_OK;
}

/* q [batch, sequence, heads, size], k [batch, keys, groups, size], v [batch, keys, groups, value size],
 * mask or bias [batch|1, heads|1, sequence|1, keys] */
static redco_status check_attention(redcoi_signature *s, bool masked)
{
    const redco_tensor_type *q = &s->in[0], *k = &s->in[1], *v = &s->in[2];
    const redco_status st = check_float_rows(s);
    if (st != REDCO_OK) { return st; }
    if (q->rank != 4 || k->rank != 4 || v->rank != 4 || q->dtype != k->dtype || q->dtype != v->dtype) {
        return redcoi_mismatch(s, "query, key and value are [batch, sequence, heads, size] of one element type");
    }
    if (q->dim[0] != k->dim[0] || k->dim[0] != v->dim[0]) { return redcoi_mismatch(s, "batches differ"); }
    if (k->dim[1] != v->dim[1]) { return redcoi_mismatch(s, "numbers of keys and values differ"); }
    if (k->dim[2] != v->dim[2] || q->dim[2] % k->dim[2] != 0) {
        return redcoi_mismatch(s, "query heads must be a multiple of key heads, which are as many as value heads");
    }
    if (q->dim[3] != k->dim[3]) { return redcoi_mismatch(s, "sizes of query and key heads differ"); }
    if (!masked) { return REDCO_OK; }
    const redco_tensor_type *m = &s->in[3];
    const uint64_t wanted[3] = {q->dim[0], q->dim[2], q->dim[1]};
    const redco_dtype bias = redco_dtype_statistic(q->dtype);
    bool fits = (m->dtype == REDCO_BOOL || m->dtype == bias) && m->rank == 4 && m->dim[3] == k->dim[1];
    for (uint32_t i = 0; i < 3 && fits; i++) { fits = m->dim[i] == wanted[i] || m->dim[i] == 1; }
    return fits ? REDCO_OK
                : redcoi_mismatch(s, "a mask is bool, a bias %s [batch or 1, heads or 1, sequence or 1, keys]",
                                  redco_dtype_name(bias));
}

static void attention_outputs(const redcoi_signature *s, redco_tensor_type *out, redco_tensor_type *lse)
{
    const uint64_t dims[3] = {s->in[0].dim[0], s->in[0].dim[2], s->in[0].dim[1]};
    *out = s->in[0];
    out->dim[3] = s->in[2].dim[3];
    *lse = redco_type(redco_dtype_statistic(s->in[0].dtype), 3, dims);
}

/* q, k, v[, mask or bias] -> output, log-sum-exp of the scores [batch, heads, sequence] */
redco_status redcoi_infer_attention(redcoi_signature *s)
{
    const redco_status st = check_attention(s, s->input_count == 4);
    if (st == REDCO_OK) { attention_outputs(s, &s->out[0], &s->out[1]); }
    return st;
}

static redco_status check_attention_grad(redcoi_signature *s)
{
    const uint32_t at = s->input_count == 7 ? 4 : 3;
    redco_tensor_type out, lse;
    const redco_status st = check_attention(s, s->input_count == 7);
    if (st != REDCO_OK) { return st; }
    attention_outputs(s, &out, &lse);
    if (!redco_type_equal(&s->in[at], &out) || !redco_type_equal(&s->in[at + 1], &lse) ||
        !redco_type_equal(&s->in[at + 2], &out)) {
        return redcoi_mismatch(s, "output, log-sum-exp and gradient must be of the types that attention returns");
    }
    return REDCO_OK;
}

/* q, k, v, [mask or bias,] output, log-sum-exp, doutput -> dq, dk, dv */
redco_status redcoi_infer_attention_grad(redcoi_signature *s)
{
    for (uint32_t i = 0; i < 3; i++) { s->out[i] = s->in[i]; }
    return check_attention_grad(s);
}

/* q, k, v, bias, output, log-sum-exp, doutput -> dbias */
redco_status redcoi_infer_attention_bias_grad(redcoi_signature *s)
{
    s->out[0] = s->in[3];
    if (s->in[3].dtype == REDCO_BOOL) { return redcoi_mismatch(s, "a mask has no gradient"); }
    return check_attention_grad(s);
}

/* logits [..., n], targets [...] -> loss [...], log-sum-exp [...] */
redco_status redcoi_infer_cross_entropy(redcoi_signature *s)
{
    redco_status st = check_float_rows(s);
    if (st != REDCO_OK) { return st; }
    if (s->in[1].dtype != REDCO_I32) { return redcoi_mismatch(s, "targets are i32"); }
    if ((st = redcoi_check_rows(s, &s->in[0], &s->in[1])) != REDCO_OK) { return st; }
    s->out[0] = s->in[1];
    s->out[0].dtype = redco_dtype_statistic(s->in[0].dtype);
    s->out[1] = s->out[0];
    return REDCO_OK;
}

/* logits [..., n], targets [...], log-sum-exp [...], dloss [...] -> dlogits */
redco_status redcoi_infer_cross_entropy_grad(redcoi_signature *s)
{
    const redco_status st = redcoi_infer_cross_entropy(s);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 2; i < 4; i++) {
        if (!redco_type_equal(&s->in[i], &s->out[0])) {
            return redcoi_mismatch(s, "log-sum-exp and gradient must be of the types that cross-entropy returns");
        }
    }
    s->out[0] = s->in[0];
    return REDCO_OK;
}

redco_status redcoi_infer_sum_squares(redcoi_signature *s)
{
    if (!redco_dtype_is_float(s->in[0].dtype)) { return redcoi_mismatch(s, "it needs a floating-point tensor"); }
    s->out[0] = redco_type(redco_dtype_statistic(s->in[0].dtype), 0, NULL);
    return REDCO_OK;
}

/* parameter, first and second moment, gradient, numbers [REDCO_ADAMW_COUNT] -> the first three, and, if there is a
 * fourth output, the first one rounded to the gradient's type */
redco_status redcoi_infer_adamw(redcoi_signature *s)
{
    const redco_tensor_type *p = &s->in[0], *numbers = &s->in[4];
    if (p->dtype != REDCO_F32 && p->dtype != REDCO_F64) {
        return redcoi_mismatch(s, "parameter and moments are f32 or f64 (master weights)");
    }
    if (!same_type(s, 0, 1) || !same_type(s, 0, 2)) {
        return redcoi_mismatch(s, "parameter and moments must be of one type");
    }
    if (!redco_dtype_is_float(s->in[3].dtype) || !redco_type_same_dims(p, &s->in[3])) {
        return redcoi_mismatch(s, "the gradient must have the parameter's dimensions");
    }
    if (numbers->dtype != p->dtype || numbers->rank != 1 || numbers->dim[0] != REDCO_ADAMW_COUNT) {
        return redcoi_mismatch(s, "the numbers are %s[%d]", redco_dtype_name(p->dtype), REDCO_ADAMW_COUNT);
    }
    for (uint32_t i = 0; i < 3; i++) { s->out[i] = *p; }
    s->out[3] = s->in[3];
    return REDCO_OK;
}

/* Products with an epilogue: two matrices, and what is added to or made of their product. */

/** The product of inputs @p a and @p a + 1, with which every other rule begins. */
static redco_status infer_product(redcoi_signature *s, uint32_t a)
{
    const redco_attributes *const attributes = s->attributes;
    const uint32_t known = REDCO_FLAG_TRANSPOSE_A | REDCO_FLAG_TRANSPOSE_B;
    redco_attributes plain = {.flags = attributes->flags & known};
    redcoi_signature product = {
        .kind = s->kind, .input_count = 2, .in = s->in + a, .attributes = &plain, .place = s->place, .err = s->err};
    if (s->in[a].rank != 2) { return redcoi_mismatch(s, "the first factor is no matrix"); }
    const redco_status st = redcoi_infer_matmul(&product);
    s->out[0] = product.out[0];
    return st;
}

/** Input @p i is as long as a row of the product. */
static redco_status check_bias(redcoi_signature *s, uint32_t i)
{
    const redco_tensor_type *const bias = &s->in[i];
    if (bias->dtype == s->out[0].dtype && bias->rank == 1 && bias->dim[0] == s->out[0].dim[1]) { return REDCO_OK; }
    return redcoi_mismatch(s, "the bias must be a vector of %llu elements of the product's type",
                           (unsigned long long)s->out[0].dim[1]);
}

static redco_status check_same(redcoi_signature *s, uint32_t i)
{
    if (redco_type_equal(&s->in[i], &s->out[0])) { return REDCO_OK; }
    return redcoi_mismatch(s, "input %u must have the product's type", i);
}

redco_status redcoi_infer_matmul_add(redcoi_signature *s)
{
    redco_status st = infer_product(s, 1);
    if (st == REDCO_OK) { st = check_same(s, 0); }
    return st == REDCO_OK && s->input_count > 3 ? check_bias(s, 3) : st;
}

redco_status redcoi_infer_matmul_bias(redcoi_signature *s)
{
    const uint32_t both = REDCO_FLAG_RELU | REDCO_FLAG_GELU;
    if ((s->attributes->flags & both) == both) { return redcoi_mismatch(s, "it has one activation or none"); }
    const redco_status st = infer_product(s, 0);
    return st == REDCO_OK ? check_bias(s, 2) : st;
}

redco_status redcoi_infer_matmul_gelu(redcoi_signature *s)
{
    const redco_status st = infer_product(s, 0);
    s->out[1] = s->out[0];
    return st == REDCO_OK && s->input_count > 2 ? check_bias(s, 2) : st;
}

redco_status redcoi_infer_matmul_gelu_grad(redcoi_signature *s)
{
    const redco_status st = infer_product(s, 0);
    return st == REDCO_OK ? check_same(s, 2) : st;
}

redco_status redcoi_infer_matmul_bias_grad(redcoi_signature *s)
{
    const uint32_t side = s->attributes->axis[0];
    if (s->attributes->axis_count != 1 || side > 1) { return redcoi_mismatch(s, "the rows of which factor are added"); }
    const redco_status st = infer_product(s, 0);
    if (st != REDCO_OK) { return st; }
    s->out[1] = redco_type(s->out[0].dtype, 1, &s->out[0].dim[side]);
    return REDCO_OK;
}
