/* An operator of the graph as matrix products: which tensors, which dimensions, how many. */
#include "executor/backend/cuda/products/blas.h"

#include <limits.h>
#include <string.h>

redcoi_operands redcoi_operands_of(const redco_launch *launch)
{
    const redco_tensor *const in = launch->inputs, *const out = launch->outputs;
    redcoi_operands o = {.a = &in[0], .b = &in[1], .result = &out[0]};
    switch (launch->kind) {
    case REDCO_OP_MATMUL_ADD:
        o.addend = &in[0];
        o.a = &in[1];
        o.b = &in[2];
        o.bias = launch->input_count > 3 ? &in[3] : NULL;
        break;
    case REDCO_OP_MATMUL_BIAS: o.bias = &in[2]; break;
    case REDCO_OP_MATMUL_GELU:
        o.bias = launch->input_count > 2 ? &in[2] : NULL;
        o.before_out = &out[1];
        break;
    case REDCO_OP_MATMUL_GELU_GRAD: o.before = &in[2]; break;
    case REDCO_OP_MATMUL_BIAS_GRAD: o.bias_gradient = &out[1]; break;
    default: break;
    }
    return o;
}

static uint32_t epilogue_of(const redco_launch *launch, const redcoi_operands *o)
{
    const uint32_t bias = o->bias != NULL ? CUBLASLT_EPILOGUE_BIAS : 0;
    switch (launch->kind) {
    case REDCO_OP_MATMUL_BIAS:
        if ((launch->attributes->flags & REDCO_FLAG_RELU) != 0) { return CUBLASLT_EPILOGUE_RELU_BIAS; }
        return (launch->attributes->flags & REDCO_FLAG_GELU) != 0 ? CUBLASLT_EPILOGUE_GELU_BIAS : bias;
    case REDCO_OP_MATMUL_GELU: return CUBLASLT_EPILOGUE_GELU_AUX | bias;
    case REDCO_OP_MATMUL_GELU_GRAD: return CUBLASLT_EPILOGUE_DGELU;
    case REDCO_OP_MATMUL_BIAS_GRAD: /* its A is the operator's b */
        return launch->attributes->axis[0] == 0 ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    default: return bias != 0 ? bias : CUBLASLT_EPILOGUE_DEFAULT;
    }
}

static bool is_product(const redco_launch *launch)
{
    switch (launch->kind) {
    case REDCO_OP_MATMUL:
    case REDCO_OP_MATMUL_ADD:
    case REDCO_OP_MATMUL_BIAS:
    case REDCO_OP_MATMUL_GELU:
    case REDCO_OP_MATMUL_GELU_GRAD:
    case REDCO_OP_MATMUL_BIAS_GRAD: return true;
    default: return false;
    }
}

/** Batch dimensions with neighbours joined where one stride covers both, outermost first. */
static void join_batches(const redco_tensor_type *a, const redco_tensor_type *b, const redco_tensor_type *c,
                         redcoi_configuration *joined)
{
    uint64_t size[3] = {1, 1, 1};
    const redco_tensor_type *const of[3] = {a, b, c};
    const uint32_t batch = c->rank - 2;
    for (uint32_t t = 0; t < 3; t++) { size[t] = of[t]->dim[batch] * of[t]->dim[batch + 1]; }
    joined->rank = 0;
    for (uint32_t i = batch; i-- > 0;) { /* innermost first */
        uint64_t stride[3];
        bool joins = joined->rank > 0;
        if (c->dim[i] == 1) { continue; }
        for (uint32_t t = 0; t < 3; t++) {
            stride[t] = of[t]->dim[i] == 1 ? 0 : size[t];
            size[t] *= of[t]->dim[i];
            const uint32_t last = joined->rank > 0 ? joined->rank - 1 : 0;
            joins = joins && stride[t] == joined->stride[t][last] * joined->dim[last];
        }
        if (joins) {
            joined->dim[joined->rank - 1] *= c->dim[i];
            continue;
        }
        for (uint32_t t = 0; t < 3; t++) { joined->stride[t][joined->rank] = stride[t]; }
        joined->dim[joined->rank++] = c->dim[i];
    }
}

static void drop(redcoi_configuration *configuration, uint32_t which)
{
    configuration->rank--;
    for (uint32_t i = which; i < configuration->rank; i++) {
        configuration->dim[i] = configuration->dim[i + 1];
        for (uint32_t t = 0; t < 3; t++) { configuration->stride[t][i] = configuration->stride[t][i + 1]; }
    }
}

/* Rows that follow each other in a and c, with one b for all of them, are one product of more rows. */
static void fold_rows(redcoi_product *p, redcoi_configuration *configuration)
{
    for (uint32_t i = 0; i < configuration->rank; i++) {
        if ((p->transposes & REDCO_FLAG_TRANSPOSE_A) == 0 && configuration->stride[0][i] == p->m * p->k &&
            configuration->stride[1][i] == 0 && configuration->stride[2][i] == p->m * p->n &&
            configuration->dim[i] * p->m <= INT32_MAX) {
            p->m *= configuration->dim[i];
            drop(configuration, i);
            i = UINT32_MAX; /* another may follow the rows now */
        }
    }
}

/* The longest dimension becomes the batch of a call: fewest calls. */
static void take_batch(redcoi_product *p, redcoi_configuration *configuration)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < configuration->rank; i++) {
        if (configuration->dim[i] > configuration->dim[longest]) { longest = i; }
    }
    p->count = 1;
    if (configuration->rank == 0) { return; }
    p->count = configuration->dim[longest];
    p->stride_a = configuration->stride[0][longest];
    p->stride_b = configuration->stride[1][longest];
    p->stride_c = configuration->stride[2][longest];
    drop(configuration, longest);
}

/* The largest power of two that divides it; REDCO_ALIGNMENT_BYTES for 0. */
static uint32_t alignment_of(uintptr_t bits)
{
    const uintptr_t with = bits | REDCO_ALIGNMENT_BYTES;
    return (uint32_t)(with & (~with + 1));
}

static uintptr_t address_of(const redco_tensor *t)
{
    return t == NULL ? 0 : (uintptr_t)t->data;
}

static bool has_dtype(const redco_tensor *t, redco_dtype dtype)
{
    return t == NULL || t->type.dtype == dtype;
}

uint32_t redcoi_product_bytes(const redcoi_product *product)
{
    return redco_dtype_bytes((redco_dtype)product->dtype);
}

bool redcoi_product_of(const redco_launch *launch, redcoi_product *product_out, redcoi_configuration *configuration_out)
{
    redcoi_product p;
    redcoi_configuration configuration = {0};
    if (!is_product(launch)) { return false; }
    const redcoi_operands o = redcoi_operands_of(launch);
    const redco_tensor_type *const a = &o.a->type, *const b = &o.b->type, *const c = &o.result->type;
    const uint32_t batch = c->rank - 2, flags = launch->attributes->flags;
    if (!redco_dtype_is_float(c->dtype) || !has_dtype(o.a, c->dtype) || !has_dtype(o.b, c->dtype) ||
        !has_dtype(o.addend, c->dtype) || !has_dtype(o.bias, c->dtype) || !has_dtype(o.before, c->dtype)) {
        return false;
    }
    memset(&p, 0, sizeof p);
    p.m = c->dim[batch];
    p.n = c->dim[batch + 1];
    p.k = a->dim[batch + ((flags & REDCO_FLAG_TRANSPOSE_A) != 0 ? 0 : 1)];
    p.dtype = (uint32_t)c->dtype;
    p.epilogue = epilogue_of(launch, &o);
    p.transposes = flags & (REDCO_FLAG_TRANSPOSE_A | REDCO_FLAG_TRANSPOSE_B);
    p.addend = o.addend != NULL ? 1 : 0;
    join_batches(a, b, c, &configuration);
    fold_rows(&p, &configuration);
    take_batch(&p, &configuration);
    uintptr_t bits = address_of(o.a) | address_of(o.b) | address_of(o.addend) | address_of(o.bias) |
                     address_of(o.before) | address_of(o.result) | address_of(o.before_out) |
                     address_of(o.bias_gradient);
    for (uint32_t i = 0; i < configuration.rank; i++) {
        for (uint32_t t = 0; t < 3; t++) { bits |= configuration.stride[t][i] * redco_dtype_bytes(c->dtype); }
    }
    p.alignment_bytes = alignment_of(bits);
    *product_out = p;
    *configuration_out = configuration;
    return p.m <= INT32_MAX && p.n <= INT32_MAX && p.k <= INT32_MAX && p.count <= INT32_MAX;
}
