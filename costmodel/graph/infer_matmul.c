/* Type rules of products with an epilogue: two matrices, and what is added to or made of their product. */
#include "costmodel/graph/infer.h"

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
