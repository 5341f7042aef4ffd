/* Types of the results of basic operators, and what their inputs must be. */
#include "costmodel/graph/infer.h"

#include <stdarg.h>
#include <stdio.h>

/* " (NAME)" of the i-th input, or of the operator that made it, for whoever looks for it in a source. */
static const char *input_name(const redcoi_signature *s, uint32_t i, char text[64])
{
    text[0] = 0;
    if (s->graph == NULL) { return text; }
    const redcoi_value_entry *const input = s->graph->values[s->inputs[i]];
    (void)snprintf(text, 64, " (%.60s)",
                   input->name != NULL ? input->name : redco_op_kind_name(s->graph->ops[input->op]->kind));
    return text;
}

redco_status redcoi_mismatch(redcoi_signature *signature, const char *what, ...)
{
    char text[300], inputs[420], type[REDCO_TYPE_TEXT_BYTES], name[64];
    size_t used = 0;
    va_list args;
    va_start(args, what);
    (void)vsnprintf(text, sizeof text, what, args);
    va_end(args);
    inputs[0] = 0;
    for (uint32_t i = 0; i < signature->input_count && used < sizeof inputs; i++) {
        const char *between = i == 0 ? " of " : i + 1 == signature->input_count ? " and " : ", ";
        used += (size_t)snprintf(inputs + used, sizeof inputs - used, "%s%s%s", between,
                                 redco_type_text(&signature->in[i], type), input_name(signature, i, name));
    }
    return redco_fail(signature->err, REDCO_EVALUE, signature->place, "%s%s: %s", redco_op_kind_name(signature->kind),
                      inputs, text);
}

static redco_tensor_type wanted_type(const redcoi_signature *s)
{
    return redco_type((redco_dtype)s->attributes->dtype, s->attributes->rank, s->attributes->size);
}

redco_status redcoi_infer_source(redcoi_signature *s)
{
    s->out[0] = wanted_type(s);
    return REDCO_OK;
}

redco_status redcoi_infer_iota(redcoi_signature *s)
{
    s->out[0] = wanted_type(s);
    if (s->out[0].dtype != REDCO_I32) { return redcoi_mismatch(s, "the result is i32"); }
    if (s->attributes->axis[0] >= s->attributes->rank) {
        return redcoi_mismatch(s, "axis %u of rank %u", s->attributes->axis[0], s->attributes->rank);
    }
    if (s->out[0].dim[s->attributes->axis[0]] > INT32_MAX) { return redcoi_mismatch(s, "more than 2^31 numbers"); }
    return REDCO_OK;
}

redco_status redcoi_infer_random(redcoi_signature *s)
{
    const redco_attributes *a = s->attributes;
    s->out[0] = wanted_type(s);
    if (s->in[0].dtype != REDCO_I32 || s->in[0].rank != 1 || s->in[0].dim[0] != 2) {
        return redcoi_mismatch(s, "the key is i32[2]");
    }
    if (s->out[0].dtype != REDCO_F32 && s->out[0].dtype != REDCO_F64) {
        return redcoi_mismatch(s, "numbers are of a floating-point type");
    }
    const redco_tensor_type whole = redco_type(s->out[0].dtype, a->rank, a->whole);
    const redco_status st = redco_type_check(&whole, s->place, s->err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->begin[i] > a->whole[i] || a->size[i] > a->whole[i] - a->begin[i]) {
            return redcoi_mismatch(s, "dimension %u: the part is outside of the whole", i);
        }
    }
    return REDCO_OK;
}

redco_status redcoi_infer_float(redcoi_signature *s)
{
    s->out[0] = s->in[0];
    if (!redco_dtype_is_float(s->in[0].dtype)) { return redcoi_mismatch(s, "it needs a floating-point tensor"); }
    return REDCO_OK;
}

redco_status redcoi_infer_not(redcoi_signature *s)
{
    s->out[0] = s->in[0];
    return s->in[0].dtype == REDCO_BOOL ? REDCO_OK : redcoi_mismatch(s, "it needs a bool tensor");
}

redco_status redcoi_infer_same(redcoi_signature *s)
{
    s->out[0] = s->in[0];
    return REDCO_OK;
}

redco_status redcoi_infer_cast(redcoi_signature *s)
{
    s->out[0] = s->in[0];
    s->out[0].dtype = (redco_dtype)s->attributes->dtype;
    return REDCO_OK;
}

/** Dimensions of inputs from @p first on, where 1 repeats. */
static redco_status broadcast_dims(redcoi_signature *s, uint32_t first, redco_tensor_type *out)
{
    *out = s->in[first];
    for (uint32_t k = first + 1; k < s->input_count; k++) {
        if (s->in[k].rank != out->rank) { return redcoi_mismatch(s, "ranks differ"); }
        for (uint32_t i = 0; i < out->rank; i++) {
            const uint64_t dim = s->in[k].dim[i];
            if (dim != out->dim[i] && dim != 1 && out->dim[i] != 1) {
                return redcoi_mismatch(s, "dimension %u is %llu and %llu", i, (unsigned long long)out->dim[i],
                                       (unsigned long long)dim);
            }
            if (dim > out->dim[i]) { out->dim[i] = dim; }
        }
    }
    return REDCO_OK;
}

static redco_status same_dtypes(redcoi_signature *s, uint32_t first)
{
    for (uint32_t k = first + 1; k < s->input_count; k++) {
        if (s->in[k].dtype != s->in[first].dtype) { return redcoi_mismatch(s, "element types differ: cast one"); }
    }
    return REDCO_OK;
}

redco_status redcoi_infer_arithmetic(redcoi_signature *s)
{
    const redco_status st = same_dtypes(s, 0);
    if (st != REDCO_OK) { return st; }
    if (s->in[0].dtype == REDCO_BOOL) { return redcoi_mismatch(s, "it needs numbers"); }
    if (s->kind == REDCO_OP_DIV && s->in[0].dtype == REDCO_I32) {
        return redcoi_mismatch(s, "it needs floating-point tensors");
    }
    return broadcast_dims(s, 0, &s->out[0]);
}

redco_status redcoi_infer_float_arithmetic(redcoi_signature *s)
{
    if (!redco_dtype_is_float(s->in[0].dtype)) { return redcoi_mismatch(s, "it needs floating-point tensors"); }
    return redcoi_infer_arithmetic(s);
}

redco_status redcoi_infer_compare(redcoi_signature *s)
{
    redco_status st = same_dtypes(s, 0);
    if (st == REDCO_OK) { st = broadcast_dims(s, 0, &s->out[0]); }
    s->out[0].dtype = REDCO_BOOL;
    return st;
}

redco_status redcoi_infer_logic(redcoi_signature *s)
{
    if (s->in[0].dtype != REDCO_BOOL) { return redcoi_mismatch(s, "it needs bool tensors"); }
    return redcoi_infer_compare(s);
}

redco_status redcoi_infer_select(redcoi_signature *s)
{
    if (s->in[0].dtype != REDCO_BOOL) { return redcoi_mismatch(s, "the condition is a bool tensor"); }
    redco_status st = same_dtypes(s, 1);
    if (st == REDCO_OK) { st = broadcast_dims(s, 0, &s->out[0]); }
    s->out[0].dtype = s->in[1].dtype;
    return st;
}

redco_status redcoi_infer_reduce(redcoi_signature *s)
{
    const redco_attributes *a = s->attributes;
    s->out[0] = s->in[0];
    if (!redco_dtype_is_float(s->in[0].dtype)) { return redcoi_mismatch(s, "it needs a floating-point tensor"); }
    for (uint32_t i = 0; i < a->axis_count; i++) {
        if (a->axis[i] >= s->in[0].rank || (i > 0 && a->axis[i] <= a->axis[i - 1])) {
            return redcoi_mismatch(s, "axis %u; axes ascend and are below %u", a->axis[i], s->in[0].rank);
        }
        s->out[0].dim[a->axis[i]] = 1;
    }
    return REDCO_OK;
}

redco_status redcoi_infer_reshape(redcoi_signature *s)
{
    s->out[0] = redco_type(s->in[0].dtype, s->attributes->rank, s->attributes->size);
    const redco_status st = redco_type_check(&s->out[0], s->place, s->err);
    if (st == REDCO_OK && redco_type_elements(&s->out[0]) != redco_type_elements(&s->in[0])) {
        char text[REDCO_TYPE_TEXT_BYTES];
        return redcoi_mismatch(s, "%s has another number of elements", redco_type_text(&s->out[0], text));
    }
    return st;
}

redco_status redcoi_infer_transpose(redcoi_signature *s)
{
    const redco_attributes *a = s->attributes;
    bool seen[REDCO_RANK_MAX] = {false};
    s->out[0] = s->in[0];
    if (a->axis_count != s->in[0].rank) { return redcoi_mismatch(s, "%u axes were given", a->axis_count); }
    for (uint32_t i = 0; i < a->axis_count; i++) {
        if (a->axis[i] >= s->in[0].rank || seen[a->axis[i]]) {
            return redcoi_mismatch(s, "axis %u is out of range or stands twice", a->axis[i]);
        }
        seen[a->axis[i]] = true;
        s->out[0].dim[i] = s->in[0].dim[a->axis[i]];
    }
    return REDCO_OK;
}

redco_status redcoi_infer_broadcast(redcoi_signature *s)
{
    char text[REDCO_TYPE_TEXT_BYTES];
    s->out[0] = redco_type(s->in[0].dtype, s->attributes->rank, s->attributes->size);
    if (s->out[0].rank != s->in[0].rank) {
        return redcoi_mismatch(s, "%s has another rank", redco_type_text(&s->out[0], text));
    }
    for (uint32_t i = 0; i < s->in[0].rank; i++) {
        if (s->in[0].dim[i] != s->out[0].dim[i] && s->in[0].dim[i] != 1) {
            return redcoi_mismatch(s, "dimension %u cannot be repeated to %s", i, redco_type_text(&s->out[0], text));
        }
    }
    return REDCO_OK;
}

/** @p inner lies in @p outer from begin on. */
static redco_status check_inside(redcoi_signature *s, const redco_tensor_type *inner, const redco_tensor_type *outer)
{
    char text[REDCO_TYPE_TEXT_BYTES];
    if (inner->rank != outer->rank) {
        return redcoi_mismatch(s, "%s has another rank", redco_type_text(&s->out[0], text));
    }
    for (uint32_t i = 0; i < inner->rank; i++) {
        const uint64_t begin = s->attributes->begin[i];
        if (begin > outer->dim[i] || inner->dim[i] > outer->dim[i] - begin) {
            return redcoi_mismatch(s, "dimension %u: %llu from %llu on do not lie in %llu", i,
                                   (unsigned long long)inner->dim[i], (unsigned long long)begin,
                                   (unsigned long long)outer->dim[i]);
        }
    }
    return REDCO_OK;
}

redco_status redcoi_infer_slice(redcoi_signature *s)
{
    s->out[0] = redco_type(s->in[0].dtype, s->attributes->rank, s->attributes->size);
    return check_inside(s, &s->out[0], &s->in[0]);
}

redco_status redcoi_infer_pad(redcoi_signature *s)
{
    s->out[0] = redco_type(s->in[0].dtype, s->attributes->rank, s->attributes->size);
    return check_inside(s, &s->in[0], &s->out[0]);
}

redco_status redcoi_infer_concat(redcoi_signature *s)
{
    const uint32_t axis = s->attributes->axis[0];
    const redco_status st = same_dtypes(s, 0);
    if (st != REDCO_OK) { return st; }
    s->out[0] = s->in[0];
    if (axis >= s->in[0].rank) { return redcoi_mismatch(s, "axis %u", axis); }
    for (uint32_t k = 1; k < s->input_count; k++) {
        if (s->in[k].rank != s->in[0].rank) { return redcoi_mismatch(s, "ranks differ"); }
        for (uint32_t i = 0; i < s->in[0].rank; i++) {
            if (i != axis && s->in[k].dim[i] != s->in[0].dim[i]) {
                return redcoi_mismatch(s, "dimension %u differs", i);
            }
        }
        s->out[0].dim[axis] += s->in[k].dim[axis];
    }
    return REDCO_OK;
}

redco_status redcoi_infer_gather(redcoi_signature *s)
{
    const redco_tensor_type *table = &s->in[0], *index = &s->in[1];
    if (index->dtype != REDCO_I32) { return redcoi_mismatch(s, "indices are i32"); }
    if (table->rank == 0 || table->rank - 1 + index->rank > REDCO_RANK_MAX) {
        return redcoi_mismatch(s, "a table needs rows, and the result at most rank %d", REDCO_RANK_MAX);
    }
    s->out[0] = *index;
    s->out[0].dtype = table->dtype;
    s->out[0].rank = index->rank + table->rank - 1;
    for (uint32_t i = 1; i < table->rank; i++) { s->out[0].dim[index->rank + i - 1] = table->dim[i]; }
    return REDCO_OK;
}

redco_status redcoi_infer_scatter(redcoi_signature *s)
{
    const redco_tensor_type *index = &s->in[0], *update = &s->in[1];
    if (index->dtype != REDCO_I32) { return redcoi_mismatch(s, "indices are i32"); }
    if (!redco_dtype_is_float(update->dtype)) { return redcoi_mismatch(s, "it needs floating-point updates"); }
    if (update->rank < index->rank) { return redcoi_mismatch(s, "fewer dimensions than indices"); }
    for (uint32_t i = 0; i < index->rank; i++) {
        if (index->dim[i] != update->dim[i]) { return redcoi_mismatch(s, "dimension %u differs", i); }
    }
    if (update->rank - index->rank + 1 > REDCO_RANK_MAX) { return redcoi_mismatch(s, "rank of the result"); }
    s->out[0] = redco_type(update->dtype, 0, NULL);
    s->out[0].rank = update->rank - index->rank + 1;
    s->out[0].dim[0] = s->attributes->size[0];
    for (uint32_t i = 1; i < s->out[0].rank; i++) { s->out[0].dim[i] = update->dim[index->rank + i - 1]; }
    return REDCO_OK;
}

/** The dimensions of @p rows are those of @p table without the last. */
redco_status redcoi_check_rows(redcoi_signature *s, const redco_tensor_type *table, const redco_tensor_type *rows)
{
    bool fits = table->rank == rows->rank + 1;
    for (uint32_t i = 0; fits && i < rows->rank; i++) { fits = table->dim[i] == rows->dim[i]; }
    return fits ? REDCO_OK : redcoi_mismatch(s, "all dimensions but the last must agree");
}

redco_status redcoi_infer_pick(redcoi_signature *s)
{
    if (s->in[1].dtype != REDCO_I32) { return redcoi_mismatch(s, "indices are i32"); }
    if (!redco_dtype_is_float(s->in[0].dtype)) { return redcoi_mismatch(s, "it needs a floating-point tensor"); }
    s->out[0] = s->in[1];
    s->out[0].dtype = s->in[0].dtype;
    return redcoi_check_rows(s, &s->in[0], &s->in[1]);
}

redco_status redcoi_infer_unpick(redcoi_signature *s)
{
    if (s->in[0].dtype != REDCO_I32) { return redcoi_mismatch(s, "indices are i32"); }
    if (!redco_dtype_is_float(s->in[1].dtype)) { return redcoi_mismatch(s, "it needs a floating-point tensor"); }
    if (!redco_type_same_dims(&s->in[0], &s->in[1])) { return redcoi_mismatch(s, "dimensions differ"); }
    if (s->in[0].rank == REDCO_RANK_MAX) { return redcoi_mismatch(s, "rank of the result"); }
    s->out[0] = s->in[1];
    s->out[0].dim[s->out[0].rank++] = s->attributes->size[0];
    return REDCO_OK;
}

redco_status redcoi_infer_top_k(redcoi_signature *s)
{
    const redco_tensor_type *const in = &s->in[0];
    const uint64_t count = s->attributes->size[0];
    if (!redco_dtype_is_float(in->dtype) || in->rank == 0) { return redcoi_mismatch(s, "it needs rows of numbers"); }
    if (count == 0 || count > in->dim[in->rank - 1]) {
        return redcoi_mismatch(s, "%llu of %llu", (unsigned long long)count, (unsigned long long)in->dim[in->rank - 1]);
    }
    s->out[0] = *in;
    s->out[0].dtype = REDCO_I32;
    s->out[0].dim[in->rank - 1] = count;
    return REDCO_OK;
}

/** Experts that tokens chose: i32 [tokens, choices]. */
static redco_status check_choices(redcoi_signature *s, const redco_tensor_type *index)
{
    if (index->dtype != REDCO_I32 || index->rank != 2) {
        return redcoi_mismatch(s, "experts are i32 [tokens, choices]");
    }
    return s->attributes->size[0] > 0 ? REDCO_OK : redcoi_mismatch(s, "there are no experts");
}

redco_status redcoi_infer_sort_rows(redcoi_signature *s)
{
    const bool back = (s->attributes->flags & REDCO_FLAG_INVERSE) != 0;
    const redco_tensor_type *const x = &s->in[0], *const index = &s->in[1];
    const redco_status st = check_choices(s, index);
    if (st != REDCO_OK) { return st; }
    if (!redco_dtype_is_float(x->dtype) || x->rank != 2) { return redcoi_mismatch(s, "it needs rows of numbers"); }
    const uint64_t tokens = index->dim[0], rows = tokens * index->dim[1];
    if (x->dim[0] != (back ? rows : tokens)) { return redcoi_mismatch(s, "%llu rows", (unsigned long long)x->dim[0]); }
    s->out[0] = *x;
    s->out[0].dim[0] = back ? tokens : rows;
    return REDCO_OK;
}

/** Rows by their experts: two matrices of one element type, and one row for each choice. */
static redco_status check_grouped(redcoi_signature *s, uint32_t second_rank)
{
    const redco_tensor_type *const a = &s->in[0], *const b = &s->in[1], *const index = &s->in[2];
    const redco_status st = check_choices(s, index);
    if (st != REDCO_OK) { return st; }
    if (!redco_dtype_is_float(a->dtype) || a->dtype != b->dtype || a->rank != 2 || b->rank != second_rank) {
        return redcoi_mismatch(s, "it needs rows and %s of one floating-point type",
                               second_rank == 3 ? "[experts, in, out]" : "rows");
    }
    if (a->dim[0] != index->dim[0] * index->dim[1]) { return redcoi_mismatch(s, "a row for each choice is needed"); }
    return REDCO_OK;
}

redco_status redcoi_infer_grouped_matmul(redcoi_signature *s)
{
    const bool turned = (s->attributes->flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    const redco_status st = check_grouped(s, 3);
    if (st != REDCO_OK) { return st; }
    const redco_tensor_type *const weights = &s->in[1];
    if (weights->dim[0] != s->attributes->size[0] || weights->dim[turned ? 2 : 1] != s->in[0].dim[1]) {
        return redcoi_mismatch(s, "experts or inner dimensions differ");
    }
    s->out[0] = s->in[0];
    s->out[0].dim[1] = weights->dim[turned ? 1 : 2];
    return REDCO_OK;
}

redco_status redcoi_infer_grouped_matmul_grad(redcoi_signature *s)
{
    const redco_status st = check_grouped(s, 2);
    if (st != REDCO_OK) { return st; }
    if (s->in[1].dim[0] != s->in[0].dim[0]) { return redcoi_mismatch(s, "numbers of rows differ"); }
    s->out[0] =
        redco_type(s->in[0].dtype, 3, (const uint64_t[]){s->attributes->size[0], s->in[0].dim[1], s->in[1].dim[1]});
    return REDCO_OK;
}

redco_status redcoi_infer_matmul(redcoi_signature *s)
{
    const redco_tensor_type *a = &s->in[0], *b = &s->in[1];
    const bool ta = (s->attributes->flags & REDCO_FLAG_TRANSPOSE_A) != 0;
    const bool tb = (s->attributes->flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    const redco_status st = same_dtypes(s, 0);
    if (st != REDCO_OK) { return st; }
    if (!redco_dtype_is_float(a->dtype)) { return redcoi_mismatch(s, "it needs floating-point tensors"); }
    if (a->rank < 2 || a->rank != b->rank) { return redcoi_mismatch(s, "both need the same rank, at least 2"); }
    const uint32_t batch = a->rank - 2;
    const uint64_t ka = a->dim[batch + (ta ? 0 : 1)], kb = b->dim[batch + (tb ? 1 : 0)];
    if (ka != kb) {
        return redcoi_mismatch(s, "inner dimensions %llu%s and %llu%s differ", (unsigned long long)ka,
                               ta ? " (transposed)" : "", (unsigned long long)kb, tb ? " (transposed)" : "");
    }
    s->out[0] = *a;
    for (uint32_t i = 0; i < batch; i++) {
        if (a->dim[i] != b->dim[i] && a->dim[i] != 1 && b->dim[i] != 1) {
            return redcoi_mismatch(s, "batch dimension %u differs", i);
        }
        if (b->dim[i] > a->dim[i]) { s->out[0].dim[i] = b->dim[i]; }
    }
    s->out[0].dim[batch] = a->dim[batch + (ta ? 1 : 0)];
    s->out[0].dim[batch + 1] = b->dim[batch + (tb ? 0 : 1)];
    return REDCO_OK;
}

redco_status redcoi_infer_collective(redcoi_signature *s)
{
    const redco_attributes *a = s->attributes;
    const uint32_t axis = a->axis[0];
    s->out[0] = s->in[0];
    if (a->ranks == 0 || a->ranks > 1 << 15) { return redcoi_mismatch(s, "a group of %u ranks", a->ranks); }
    if (s->kind == REDCO_OP_ALL_REDUCE) { return REDCO_OK; }
    if (axis >= s->in[0].rank) { return redcoi_mismatch(s, "axis %u", axis); }
    if (s->kind == REDCO_OP_ALL_GATHER) {
        s->out[0].dim[axis] *= a->ranks;
    } else if (s->in[0].dim[axis] % a->ranks != 0) {
        return redcoi_mismatch(s, "%u ranks do not divide dimension %u", a->ranks, axis);
    } else {
        s->out[0].dim[axis] /= a->ranks;
    }
    return REDCO_OK;
}
