#include "random_elementwise.h"

#include "costmodel/graph/graph_internal.h"

#include <stdio.h>
#include <string.h>

uint32_t elementwise_below(elementwise_graph *m, uint32_t n)
{
    m->random = m->random * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((m->random >> 33) % n);
}

static redco_value any(elementwise_graph *m)
{
    return m->pool[elementwise_below(m, 3) == 0 ? elementwise_below(m, m->count)
                                                : m->count - 1 - elementwise_below(m, m->count < 4 ? m->count : 4)];
}

static redco_dtype dtype_of(const elementwise_graph *m, redco_value v)
{
    return redco_value_type(m->g, v)->dtype;
}

static redco_value as(elementwise_graph *m, redco_value v, redco_dtype dtype)
{
    return redco_cast(m->g, v, dtype);
}

/** One of few names: most that could be fused has the same. */
static void name_next(elementwise_graph *m)
{
    static const char *const operators[] = {"activation", "activation", "activation", "out", ""};
    if (elementwise_below(m, 4) == 0) { redco_graph_set_operator(m->g, operators[elementwise_below(m, 5)]); }
    if (elementwise_below(m, 30) == 0) {
        redco_graph_set_layer(m->g, elementwise_below(m, 2) == 0 ? "block.0" : "block.1");
    }
    if (elementwise_below(m, 40) == 0) { m->g->label.copy = elementwise_below(m, 2); }
}

static redco_value unary_step(elementwise_graph *m, redco_value a)
{
    redco_graph *const g = m->g;
    switch (elementwise_below(m, 14)) {
    case 0: return redco_neg(g, a);
    case 1: return redco_exp(g, redco_neg(g, redco_mul(g, a, a)));
    case 2: return redco_sigmoid(g, a);
    case 3: return redco_silu(g, a);
    case 4: return redco_gelu(g, a);
    case 5: return redco_gelu_tanh(g, a);
    case 6: return redco_relu(g, a);
    case 7: return redco_pow(g, a, 2 + elementwise_below(m, 2));
    case 8: return redco_scale(g, a, 0.25 * (double)elementwise_below(m, 9));
    case 9: return redco_shift(g, a, (double)elementwise_below(m, 3));
    case 10: return redco_rsqrt(g, redco_shift(g, redco_mul(g, a, a), 1));
    case 11: return redco_stop_gradient(g, a);
    case 12: return redco_sin(g, a);
    default: return redco_tanh(g, a);
    }
}

static redco_value binary_step(elementwise_graph *m, redco_value a, redco_value b)
{
    redco_graph *const g = m->g;
    switch (elementwise_below(m, 9)) {
    case 0: return redco_add(g, a, b);
    case 1: return redco_sub(g, a, b);
    case 2: return redco_div(g, a, redco_shift(g, redco_mul(g, b, b), 1));
    case 3: return redco_max(g, a, b);
    case 4: return redco_min(g, a, b);
    case 5: return redco_select(g, redco_less(g, a, b), a, b);
    case 6: return redco_select(g, redco_or(g, redco_equal(g, a, b), redco_not(g, redco_less_equal(g, a, b))), b, a);
    default: return redco_mul(g, a, b);
    }
}

/** A value of the pool's size [p, q] and any type. */
static redco_value next(elementwise_graph *m)
{
    redco_graph *const g = m->g;
    redco_value a = any(m), b = any(m);
    const redco_tensor_type type = *redco_value_type(g, a);
    const redco_dtype dtype = dtype_of(m, a);
    const uint32_t what = elementwise_below(m, 20);
    if (what < 2) { return as(m, a, m->dtypes[elementwise_below(m, m->dtype_count)]); }
    if (dtype == REDCO_BOOL) { return redco_and(g, a, as(m, b, REDCO_BOOL)); }
    if (dtype == REDCO_I32) {
        b = as(m, b, REDCO_I32);
        return what < 10 ? redco_add(g, a, b)
                         : redco_select(g, redco_less(g, a, b), redco_max(g, a, b), redco_mul(g, a, b));
    }
    if (what < 9) { return unary_step(m, a); }
    b = as(m, b, dtype);
    if (what < 16) { return binary_step(m, a, b); }
    switch (what) { /* operators that a fusion cannot cross, and repeated ones */
    case 16: return redco_mul(g, a, redco_slice_axis(g, b, elementwise_below(m, 2), 0, 1));
    case 17: return redco_sub(g, a, redco_sum_axis(g, b, elementwise_below(m, 2), true));
    case 18:
        return redco_reshape(g, redco_neg(g, redco_reshape(g, a, 1, (uint64_t[]){type.dim[0] * type.dim[1]})), 2,
                             type.dim);
    default: return redco_softmax(g, a);
    }
}

static void fill(elementwise_graph *m, const redco_tensor_type *type, void *data)
{
    const uint64_t count = redco_type_elements(type);
    for (uint64_t i = 0; i < count; i++) {
        const float real = (float)elementwise_below(m, 1 << 16) * 0x1p-14F - 2;
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        switch (type->dtype) {
        case REDCO_F32: ((float *)data)[i] = real; break;
        case REDCO_F64: ((double *)data)[i] = (double)real; break;
        case REDCO_BFLOAT16: ((uint16_t *)data)[i] = (uint16_t)(bits >> 16); break;
        case REDCO_F16: ((uint16_t *)data)[i] = (uint16_t)(0x3000 + elementwise_below(m, 0x1000)); break;
        case REDCO_I32: ((int32_t *)data)[i] = (int32_t)elementwise_below(m, 9) - 4; break;
        default: ((uint8_t *)data)[i] = (uint8_t)elementwise_below(m, 2); break;
        }
    }
}

void elementwise_make(elementwise_graph *e, uint64_t seed, const redco_dtype *dtypes, uint32_t dtype_count)
{
    e->g = redco_graph_create();
    e->random = seed;
    e->dtypes = dtypes;
    e->dtype_count = dtype_count;
    e->count = 0;
    const uint64_t wide = 250 + elementwise_below(e, 60), narrow = 1 + elementwise_below(e, 40);
    const uint64_t length = elementwise_below(e, 3) == 0 ? wide : narrow;
    /* Every second one is whole vectors of a device. */
    const uint64_t dims[2] = {1 + elementwise_below(e, 5),
                              elementwise_below(e, 2) == 0 ? length : (length + 7) / 8 * 8};
    for (uint32_t i = 0; i < ELEMENTWISE_INPUTS; i++) {
        const redco_tensor_type type = redco_type(dtypes[elementwise_below(e, dtype_count)], 2, dims);
        char name[8];
        (void)snprintf(name, sizeof name, "in%u", i);
        e->pool[e->count++] = redco_input(e->g, name, &type);
        fill(e, &type, e->data[i]);
        e->bindings[i] = (redco_binding){e->pool[i], e->data[i]};
    }
    const uint32_t size = ELEMENTWISE_INPUTS + 4 + elementwise_below(e, ELEMENTWISE_VALUES - ELEMENTWISE_INPUTS - 3);
    while (e->count < size) {
        name_next(e);
        const redco_value value = next(e);
        e->pool[e->count++] = value;
    }
    e->output_count = 1 + elementwise_below(e, ELEMENTWISE_RESULTS);
    for (uint32_t i = 0; i < e->output_count; i++) {
        e->outputs[i] = e->pool[e->count - 1 - elementwise_below(e, size - 1)];
    }
}

uint32_t elementwise_rebind(const elementwise_graph *e, const redco_graph *graph,
                            redco_binding bindings_out[ELEMENTWISE_INPUTS])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < ELEMENTWISE_INPUTS; i++) {
        const redco_value value = redco_graph_find_input(graph, redco_value_name(e->g, e->bindings[i].value));
        if (value != REDCO_NO_VALUE) { bindings_out[count++] = (redco_binding){value, e->data[i]}; }
    }
    return count;
}
