/* Attention as a graph of cuDNN operations.
 *
 * cuDNN knows attention as a pattern: products, pointwise operations and reductions in a certain order, which its
 * heuristics match against flash attention engines ("Fused Flash Attention fprop" and "bprop" in the cuDNN developer
 * guide, section "Graph API: Supported Graph Patterns"). The patterns here are those that NVIDIA's cudnn-frontend 1.23
 * (github.com/NVIDIA/cudnn-frontend, include/cudnn_frontend) makes for libraries before 9.21:
 *   node/scaled_dot_product_flash_attention.h   CompositeSDPANode, CompositeSDPABackwardNode::expand_node()
 *   node/softmax.h                              CompositeSoftmaxNode
 *   node/diagonal_band_mask.h                   CompositeDiagonalBandMaskNode
 *   utils/attn_score_modifiers.h                sliding_window_mask(): which bounds become which numbers
 * and its comments say that order matters: engines are found by it. Single descriptors
 * (CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR) are in 9.19's header, but take causal masks from 9.21 on only
 * (node/sdpa_support_surface.h), and 9.19 has no engine for backward ones.
 * tests/unit/test_dnn_engines.c asks the real library which engines it has for these graphs. */
#include "executor/backend/cuda/attention/dnn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef redcoi_dnn_graph graph;

/** Strides, in elements, of dimensions [batch, heads, tokens, size]. */
typedef struct layout {
    int64_t dim[4], stride[4];
} layout;

typedef struct tensor {
    cudnnBackendDescriptor_t descriptor;
    layout at;
} tensor;

redco_status redcoi_dnn_check(const redcoi_dnn_calls *calls, cudnnStatus_t status, const char *place, const char *what,
                              redco_error *err)
{
    char text[256] = "";
    if (status == CUDNN_STATUS_SUCCESS) { return REDCO_OK; }
    calls->last_error(text, sizeof text);
    text[sizeof text - 1] = '\0';
    return redco_fail(err, REDCO_ESYSTEM, place, "cuDNN: %s: %s%s%s", what, calls->error_string(status),
                      text[0] == '\0' ? "" : ": ", text);
}

static bool failed(graph *g, cudnnStatus_t status, const char *what)
{
    if (g->status == REDCO_OK) { g->status = redcoi_dnn_check(g->calls, status, "attention", what, g->err); }
    return g->status != REDCO_OK;
}

/** A descriptor that the graph owns; NULL after an error. */
static cudnnBackendDescriptor_t make(graph *g, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    if (g->status != REDCO_OK) { return NULL; }
    if (g->descriptor_count == g->descriptor_room) {
        const uint32_t room = g->descriptor_room == 0 ? 64 : 2 * g->descriptor_room;
        cudnnBackendDescriptor_t *grown = realloc(g->descriptors, room * sizeof(*grown));
        if (grown == NULL) {
            g->status = redco_fail(g->err, REDCO_ENOMEM, "attention", "descriptors");
            return NULL;
        }
        g->descriptors = grown;
        g->descriptor_room = room;
    }
    if (failed(g, g->calls->descriptor_create(type, &descriptor), "a descriptor")) { return NULL; }
    g->descriptors[g->descriptor_count++] = descriptor;
    return descriptor;
}

static void set(graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
    if (g->status == REDCO_OK) { (void)failed(g, g->calls->set(d, name, type, count, elements), "an attribute"); }
}

static void set_descriptor(graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finish(graph *g, cudnnBackendDescriptor_t d, const char *what)
{
    if (g->status == REDCO_OK) { (void)failed(g, g->calls->finalize(d), what); }
}

static void add_operation(graph *g, cudnnBackendDescriptor_t operation, const char *what)
{
    finish(g, operation, what);
    if (g->status != REDCO_OK) { return; }
    if (g->operation_count == sizeof g->operations / sizeof *g->operations) {
        g->status = redco_fail(g->err, REDCO_ESYSTEM, "attention", "too many operations");
        return;
    }
    g->operations[g->operation_count++] = operation;
}

/* Tensors */

enum kind { VIRTUAL, MEMORY, BY_VALUE };

static tensor make_tensor(graph *g, int64_t id, const layout *at, cudnnDataType_t type, enum kind kind)
{
    const int64_t alignment = 16; /* bytes; tensors of a backend are aligned to 256 */
    const bool yes = true;
    const tensor t = {make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR), *at};
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, at->dim);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, at->stride);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id);
    set(g, t.descriptor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (kind == VIRTUAL) { set(g, t.descriptor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes); }
    if (kind == BY_VALUE) { set(g, t.descriptor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes); }
    finish(g, t.descriptor, "a tensor");
    return t;
}

static layout dense(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (layout){{a, b, c, d}, {b * c * d, c * d, d, 1}};
}

/** [batch][tokens][heads][size] in memory, as [batch, heads, tokens, size]. */
static layout tokens(int64_t batch, int64_t count, int64_t heads, int64_t size)
{
    return (layout){{batch, heads, count, size}, {count * heads * size, size, heads * size, 1}};
}

/** With the last two dimensions exchanged: no memory moves. */
static layout turned(const layout *a)
{
    return (layout){{a->dim[0], a->dim[1], a->dim[3], a->dim[2]},
                    {a->stride[0], a->stride[1], a->stride[3], a->stride[2]}};
}

static tensor port(graph *g, redcoi_dnn_port id, const layout *at, cudnnDataType_t type)
{
    g->ports[g->port_count++] = id;
    return make_tensor(g, id, at, type, MEMORY);
}

static tensor between(graph *g, const layout *at, cudnnDataType_t type)
{
    return make_tensor(g, g->next_id++, at, type, VIRTUAL);
}

static tensor number(graph *g, cudnnDataType_t type, redcoi_dnn_number value)
{
    const layout one = dense(1, 1, 1, 1);
    if (g->scalar_count == REDCOI_DNN_SCALARS_MAX) {
        if (g->status == REDCO_OK) { g->status = redco_fail(g->err, REDCO_ESYSTEM, "attention", "too many numbers"); }
        return (tensor){NULL, one};
    }
    g->scalar_ids[g->scalar_count] = g->next_id;
    g->scalars[g->scalar_count++] = value;
    return make_tensor(g, g->next_id++, &one, type, BY_VALUE);
}

static tensor real_number(graph *g, double value)
{
    return number(g, CUDNN_DATA_FLOAT, (redcoi_dnn_number){.real = (float)value});
}

static tensor whole_number(graph *g, int64_t value)
{
    return number(g, CUDNN_DATA_INT32, (redcoi_dnn_number){.integer = (int32_t)value});
}

/* Operations */

/** An operator with one, two or three inputs. @param b, t NULL: none. @param axis of an index, else -1 */
static void pointwise(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t compute, int64_t axis, const tensor *x,
                      const tensor *b, const tensor *t, const tensor *y)
{
    const cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    const cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    const float one = 1;
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    if (axis >= 0) { set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis); }
    finish(g, how, "a pointwise operation");
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x->descriptor);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y->descriptor);
    if (b != NULL) { set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->descriptor); }
    if (t != NULL) { set_descriptor(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t->descriptor); }
    set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    set(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    add_operation(g, op, "a pointwise operation");
}

/** In float, between operations; the result is laid out as x is. */
static tensor calculate(graph *g, cudnnPointwiseMode_t mode, const tensor *x, const tensor *b)
{
    const tensor y = between(g, &x->at, CUDNN_DATA_FLOAT);
    pointwise(g, mode, CUDNN_DATA_FLOAT, -1, x, b, NULL, &y);
    return y;
}

static void product(graph *g, const tensor *a, const tensor *b, const tensor *c)
{
    const cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    const cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    set(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finish(g, how, "a product");
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a->descriptor);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b->descriptor);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c->descriptor);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_operation(g, op, "a product");
}

static void reduction(graph *g, cudnnReduceTensorOp_t mode, const tensor *x, const tensor *y)
{
    const cudnnBackendDescriptor_t how = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    const cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    const cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    set(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &mode);
    finish(g, how, "a reduction");
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x->descriptor);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y->descriptor);
    add_operation(g, op, "a reduction");
}

/** The same numbers seen with the last two dimensions exchanged. */
static tensor transposed(graph *g, const tensor *x, cudnnDataType_t type)
{
    const cudnnBackendDescriptor_t op = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    const layout at = turned(&x->at);
    const tensor y = between(g, &at, type);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x->descriptor);
    set_descriptor(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
    add_operation(g, op, "a transposition");
    return y;
}

/* Masks */

static tensor index_of(graph *g, const tensor *scores, int64_t axis)
{
    const tensor y = between(g, &scores->at, CUDNN_DATA_INT32);
    pointwise(g, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, axis, scores, NULL, NULL, &y);
    return y;
}

static tensor shifted(graph *g, cudnnPointwiseMode_t mode, cudnnDataType_t type, const tensor *index, const tensor *by)
{
    const tensor y = between(g, &index->at, type);
    pointwise(g, mode, type, -1, index, by, NULL, &y);
    return y;
}

/** Scores where @p a compares so with @p b, else minus infinity (which is what 9.10 and later want). */
static tensor keep_where(graph *g, cudnnPointwiseMode_t mode, const tensor *a, const tensor *b, const tensor *scores)
{
    const tensor inside = between(g, &scores->at, CUDNN_DATA_BOOLEAN), y = between(g, &scores->at, CUDNN_DATA_FLOAT);
    const tensor nothing = real_number(g, -INFINITY);
    pointwise(g, mode, CUDNN_DATA_BOOLEAN, -1, a, b, NULL, &inside);
    pointwise(g, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, -1, scores, &nothing, &inside, &y);
    return y;
}

/** Scores of keys that a query does not see become minus infinity. Query i sees keys j with i + offset >= j > i +
 * offset - window: an offset of keys - queries is the frontend's "bottom right" diagonal, any other its "right bound".
 */
static tensor masked(graph *g, tensor scores)
{
    const redcoi_dnn_shape *s = &g->shape;
    if (!s->causal) { return scores; }
    tensor row = index_of(g, &scores, 2), column = index_of(g, &scores, 3);
    if (s->offset == s->keys - s->queries && s->offset != 0) {
        const tensor keys = whole_number(g, s->keys), queries = whole_number(g, s->queries);
        row = shifted(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, &row, &keys);
        row = shifted(g, CUDNN_POINTWISE_SUB, CUDNN_DATA_INT32, &row, &queries);
    } else if (s->offset != 0) {
        const tensor by = whole_number(g, s->offset);
        row = shifted(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_INT32, &row, &by);
    }
    scores = keep_where(g, CUDNN_POINTWISE_CMP_GE, &row, &column, &scores);
    if (s->window == 0) { return scores; }
    row = index_of(g, &scores, 2);
    column = index_of(g, &scores, 3);
    const tensor left = real_number(g, (double)(s->window - s->offset));
    column = shifted(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, &column, &left);
    return keep_where(g, CUDNN_POINTWISE_CMP_GT, &column, &row, &scores);
}

/* The two graphs */

/** The scale of the scores: its value comes with each launch. */
static tensor scale_number(graph *g)
{
    g->scale = g->scalar_count;
    return real_number(g, 1);
}

/** max, exp, sum, log-sum-exp, quotient: what engines know as softmax with statistics. */
static tensor softmax(graph *g, const tensor *scores, const tensor *statistics)
{
    const layout *a = &scores->at;
    const layout rows = dense(a->dim[0], a->dim[1], a->dim[2], 1);
    const tensor max = between(g, &rows, CUDNN_DATA_FLOAT);
    reduction(g, CUDNN_REDUCE_TENSOR_MAX, scores, &max);
    const tensor less = calculate(g, CUDNN_POINTWISE_SUB, scores, &max);
    const tensor power = calculate(g, CUDNN_POINTWISE_EXP, &less, NULL);
    const tensor sum = between(g, &rows, CUDNN_DATA_FLOAT);
    reduction(g, CUDNN_REDUCE_TENSOR_ADD, &power, &sum);
    const tensor log = calculate(g, CUDNN_POINTWISE_LOG, &sum, NULL);
    pointwise(g, CUDNN_POINTWISE_ADD, CUDNN_DATA_FLOAT, -1, &max, &log, NULL, statistics);
    /* The product that reads it wants tensors of one type. */
    const tensor p = between(g, a, (cudnnDataType_t)g->shape.type);
    pointwise(g, CUDNN_POINTWISE_DIV, CUDNN_DATA_FLOAT, -1, &power, &sum, NULL, &p);
    return p;
}

static void forward(graph *g)
{
    const redcoi_dnn_shape *s = &g->shape;
    const cudnnDataType_t type = (cudnnDataType_t)s->type;
    const layout q_at = tokens(s->batch, s->queries, s->heads, s->size);
    const layout k_at = tokens(s->batch, s->keys, s->groups, s->size), kt_at = turned(&k_at);
    const layout v_at = tokens(s->batch, s->keys, s->groups, s->value_size);
    const layout o_at = tokens(s->batch, s->queries, s->heads, s->value_size);
    const layout scores_at = dense(s->batch, s->heads, s->queries, s->keys);
    const layout rows_at = dense(s->batch, s->heads, s->queries, 1);
    const tensor q = port(g, REDCOI_DNN_Q, &q_at, type), k = port(g, REDCOI_DNN_K, &kt_at, type);
    const tensor v = port(g, REDCOI_DNN_V, &v_at, type), o = port(g, REDCOI_DNN_O, &o_at, type);
    const tensor statistics = port(g, REDCOI_DNN_STATISTICS, &rows_at, CUDNN_DATA_FLOAT);
    const tensor products = between(g, &scores_at, CUDNN_DATA_FLOAT);
    product(g, &q, &k, &products);
    const tensor scale = scale_number(g);
    const tensor scores = masked(g, calculate(g, CUDNN_POINTWISE_MUL, &products, &scale));
    const tensor p = softmax(g, &scores, &statistics);
    product(g, &p, &v, &o);
}

/** x^T y, or with grouped heads the sums of those over a group. */
static void head_sums(graph *g, const tensor *x, const tensor *y, const tensor *out)
{
    const redcoi_dnn_shape *s = &g->shape;
    if (s->heads == s->groups) {
        product(g, x, y, out);
        return;
    }
    const layout at = dense(s->batch, s->heads, s->keys, out->at.dim[3]);
    const tensor all = between(g, &at, (cudnnDataType_t)s->type);
    product(g, x, y, &all);
    reduction(g, CUDNN_REDUCE_TENSOR_ADD, &all, out);
}

/* p = exp(x - lse), e = p (dO V^T - sum(dO O)) scale:  dQ = e K, dK = e^T Q, dV = p^T dO */
static void backward(graph *g, bool deterministic)
{
    const redcoi_dnn_shape *s = &g->shape;
    const cudnnDataType_t type = (cudnnDataType_t)s->type;
    const layout q_at = tokens(s->batch, s->queries, s->heads, s->size);
    const layout k_at = tokens(s->batch, s->keys, s->groups, s->size), kt_at = turned(&k_at);
    const layout v_at = tokens(s->batch, s->keys, s->groups, s->value_size), vt_at = turned(&v_at);
    const layout o_at = tokens(s->batch, s->queries, s->heads, s->value_size);
    const layout scores_at = dense(s->batch, s->heads, s->queries, s->keys);
    const layout rows_at = dense(s->batch, s->heads, s->queries, 1);
    const layout q_sum_at = dense(s->batch, s->heads, s->queries, s->size);
    const tensor q = port(g, REDCOI_DNN_Q, &q_at, type), k = port(g, REDCOI_DNN_K, &kt_at, type);
    const tensor v = port(g, REDCOI_DNN_V, &vt_at, type), o = port(g, REDCOI_DNN_O, &o_at, type);
    const tensor statistics = port(g, REDCOI_DNN_STATISTICS, &rows_at, CUDNN_DATA_FLOAT);
    const tensor d_o = port(g, REDCOI_DNN_D_O, &o_at, type), d_q = port(g, REDCOI_DNN_D_Q, &q_at, type);
    const tensor d_k = port(g, REDCOI_DNN_D_K, &k_at, type), d_v = port(g, REDCOI_DNN_D_V, &v_at, type);

    /* sum(dO O), times one (where dropout's factor would be), in memory */
    const tensor sums = port(g, REDCOI_DNN_SUMS, &rows_at, CUDNN_DATA_FLOAT);
    const tensor d_o_o = calculate(g, CUDNN_POINTWISE_MUL, &d_o, &o);
    const tensor row_sums = between(g, &rows_at, CUDNN_DATA_FLOAT);
    reduction(g, CUDNN_REDUCE_TENSOR_ADD, &d_o_o, &row_sums);
    const tensor one = real_number(g, 1);
    pointwise(g, CUDNN_POINTWISE_MUL, CUDNN_DATA_FLOAT, -1, &row_sums, &one, NULL, &sums);

    const tensor products = between(g, &scores_at, CUDNN_DATA_FLOAT);
    product(g, &q, &k, &products);
    const tensor scale = scale_number(g);
    const tensor x = calculate(g, CUDNN_POINTWISE_MUL, &products, &scale);
    const tensor logs = masked(g, calculate(g, CUDNN_POINTWISE_SUB, &x, &statistics));
    const tensor p = calculate(g, CUDNN_POINTWISE_EXP, &logs, NULL);
    const tensor pt = transposed(g, &p, type);
    head_sums(g, &pt, &d_o, &d_v);

    const tensor d_p = between(g, &scores_at, CUDNN_DATA_FLOAT);
    product(g, &d_o, &v, &d_p);
    const tensor inner = calculate(g, CUDNN_POINTWISE_SUB, &d_p, &sums);
    const tensor d_x = calculate(g, CUDNN_POINTWISE_MUL, &inner, &p);
    const tensor e = calculate(g, CUDNN_POINTWISE_MUL, &d_x, &scale);
    const tensor et = transposed(g, &e, type);
    head_sums(g, &et, &q, &d_k);

    const tensor rows_of_k = transposed(g, &k, type);
    if (deterministic) {
        product(g, &e, &rows_of_k, &d_q);
        return;
    }
    const tensor d_q_sum = port(g, REDCOI_DNN_D_Q_SUM, &q_sum_at, CUDNN_DATA_FLOAT);
    product(g, &e, &rows_of_k, &d_q_sum);
    pointwise(g, CUDNN_POINTWISE_IDENTITY, CUDNN_DATA_FLOAT, -1, &d_q_sum, NULL, NULL, &d_q);
}

redco_status redcoi_dnn_graph_create(const redcoi_dnn_calls *calls, cudnnHandle_t handle, const redcoi_dnn_shape *shape,
                                     bool deterministic, redcoi_dnn_graph **graph_out, redco_error *err)
{
    graph *g = calloc(1, sizeof *g);
    if (g == NULL) { return redco_fail(err, REDCO_ENOMEM, "attention", "a graph"); }
    g->calls = calls;
    g->shape = *shape;
    g->err = err;
    g->next_id = REDCOI_DNN_PORTS;
    if (shape->backward) {
        backward(g, deterministic);
    } else {
        forward(g);
    }
    g->whole = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (handle != NULL) { set(g, g->whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle); }
    set(g, g->whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operation_count, g->operations);
    finish(g, g->whole, "the graph of operations");
    const redco_status st = g->status;
    g->err = NULL;
    if (st == REDCO_OK) {
        *graph_out = g;
    } else {
        redcoi_dnn_graph_free(g);
    }
    return st;
}

void redcoi_dnn_graph_free(redcoi_dnn_graph *g)
{
    if (g == NULL) { return; }
    for (uint32_t i = g->descriptor_count; i > 0; i--) { (void)g->calls->descriptor_destroy(g->descriptors[i - 1]); }
    free(g->descriptors);
    free(g);
}
