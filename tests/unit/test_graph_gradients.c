/* First and second derivatives of every operator against finite differences in F64, over random shapes, and fused
 * operators against their decompositions. graph_fixture.h states the bounds. */
#include "graph_fixture.h"

#include "costmodel/graph/graph_internal.h"
#include "costmodel/graph/pointwise_program.h"

#include <stdio.h>

enum { REPEATS = 8 };

typedef redco_value (*unary_call)(redco_graph *graph, redco_value a);
typedef redco_value (*binary_call)(redco_graph *graph, redco_value a, redco_value b);

static redco_value random_real(fixture *l, double low, double high)
{
    uint64_t dim[4];
    const uint32_t rank = (uint32_t)fixture_below(l, 5);
    fixture_dims(l, rank, 24, dim);
    return fixture_real(l, rank, dim, low, high);
}

static redco_value random_grid(fixture *l, double phase)
{
    uint64_t dim[4];
    const uint32_t rank = (uint32_t)fixture_below(l, 5);
    fixture_dims(l, rank, 24, dim);
    return fixture_grid(l, rank, dim, phase);
}

/** Another tensor that can stand beside @p dim: some dimensions 1, some leading ones left out. */
static uint32_t narrower(fixture *l, uint32_t rank, const uint64_t *dim, uint64_t *narrow)
{
    const uint32_t drop = fixture_below(l, 3) == 0 ? (uint32_t)fixture_below(l, rank + 1) : 0;
    for (uint32_t i = drop; i < rank; i++) { narrow[i - drop] = fixture_below(l, 3) == 0 ? 1 : dim[i]; }
    return rank - drop;
}

static void check_unary(fixture *l, const char *name, unary_call call, double low, double high)
{
    for (int i = 0; i < REPEATS; i++) {
        fixture_check_derivatives(l, name, call(l->g, random_real(l, low, high)));
        fixture_clear(l);
    }
}

static redco_value pow_2(redco_graph *g, redco_value a)
{
    return redco_pow(g, a, 2);
}
static redco_value pow_3(redco_graph *g, redco_value a)
{
    return redco_pow(g, a, 3);
}
static redco_value pow_25(redco_graph *g, redco_value a)
{
    return redco_pow(g, a, 2.5);
}
static redco_value pow_inverse(redco_graph *g, redco_value a)
{
    return redco_pow(g, a, -1);
}
static redco_value scale(redco_graph *g, redco_value a)
{
    return redco_scale(g, a, -1.75);
}
static redco_value shift(redco_graph *g, redco_value a)
{
    return redco_mul(g, a, redco_shift(g, a, 3));
}

static void unary_operators(void **state)
{
    fixture *l = *state;
    check_unary(l, "neg", redco_neg, -2, 2);
    check_unary(l, "exp", redco_exp, -2, 2);
    check_unary(l, "log", redco_log, 0.5, 3);
    check_unary(l, "sqrt", redco_sqrt, 0.5, 3);
    check_unary(l, "rsqrt", redco_rsqrt, 0.5, 3);
    check_unary(l, "pow 2", pow_2, -2, 2);
    check_unary(l, "pow 3", pow_3, -2, 2);
    check_unary(l, "pow 2.5", pow_25, 0.5, 3);
    check_unary(l, "pow -1", pow_inverse, 0.5, 3);
    check_unary(l, "tanh", redco_tanh, -2, 2);
    check_unary(l, "erf", redco_erf, -2, 2);
    check_unary(l, "sin", redco_sin, -3, 3);
    check_unary(l, "cos", redco_cos, -3, 3);
    check_unary(l, "sigmoid", redco_sigmoid, -4, 4);
    check_unary(l, "silu", redco_silu, -4, 4);
    check_unary(l, "gelu", redco_gelu, -3, 3);
    check_unary(l, "gelu_tanh", redco_gelu_tanh, -3, 3);
    check_unary(l, "softplus", redco_softplus, -4, 4);
    check_unary(l, "scale", scale, -2, 2);
    check_unary(l, "shift", shift, -2, 2);
    for (int i = 0; i < REPEATS; i++) { /* never within 0.05 of the kink */
        fixture_check_derivatives(l, "relu", redco_relu(l->g, random_grid(l, 0.5)));
        fixture_clear(l);
    }
}

static void check_binary(fixture *l, const char *name, binary_call call, double low, double high)
{
    for (int i = 0; i < 2 * REPEATS; i++) {
        uint64_t dim[4], narrow[4];
        const uint32_t rank = (uint32_t)fixture_below(l, 5);
        fixture_dims(l, rank, 24, dim);
        const uint32_t narrow_rank = narrower(l, rank, dim, narrow);
        const redco_value a = fixture_real(l, rank, dim, low, high),
                          b = fixture_real(l, narrow_rank, narrow, low, high);
        fixture_check_derivatives(l, name, i % 2 == 0 ? call(l->g, a, b) : call(l->g, b, a));
        fixture_clear(l);
    }
}

static void check_extreme(fixture *l, const char *name, binary_call call)
{
    for (int i = 0; i < REPEATS; i++) { /* the two grids are never within 0.05 of each other */
        uint64_t dim[4], narrow[4];
        const uint32_t rank = (uint32_t)fixture_below(l, 5);
        fixture_dims(l, rank, 24, dim);
        const uint32_t narrow_rank = narrower(l, rank, dim, narrow);
        const redco_value a = fixture_grid(l, rank, dim, 0), b = fixture_grid(l, narrow_rank, narrow, 0.5);
        fixture_check_derivatives(l, name, redco_mul(l->g, call(l->g, a, b), redco_add(l->g, a, b)));
        fixture_clear(l);
    }
}

/* Both at once have two-way broadcasts: [3,1] with [1,5]. */
static void crossed_broadcast(fixture *l)
{
    const redco_value a = fixture_real(l, 2, (uint64_t[]){3, 1}, 0.5, 2),
                      b = fixture_real(l, 2, (uint64_t[]){1, 5}, 0.5, 2);
    fixture_check_derivatives(l, "crossed", redco_div(l->g, redco_mul(l->g, a, b), redco_add(l->g, b, a)));
    fixture_clear(l);
}

static void binary_operators(void **state)
{
    fixture *l = *state;
    check_binary(l, "add", redco_add, -2, 2);
    check_binary(l, "sub", redco_sub, -2, 2);
    check_binary(l, "mul", redco_mul, -2, 2);
    check_binary(l, "div", redco_div, 0.5, 2);
    check_extreme(l, "max", redco_max);
    check_extreme(l, "min", redco_min);
    crossed_broadcast(l);
    for (int i = 0; i < REPEATS; i++) {
        uint64_t dim[3], c[3], b[3];
        fixture_dims(l, 3, 24, dim);
        const uint32_t rc = narrower(l, 3, dim, c), rb = narrower(l, 3, dim, b);
        const redco_value x = fixture_real(l, 3, dim, -2, 2), y = fixture_real(l, rb, b, -2, 2);
        const redco_value chosen = redco_select(l->g, fixture_bools(l, rc, c, 0.5), redco_mul(l->g, x, x), y);
        fixture_check_derivatives(l, "select", redco_mul(l->g, chosen, x));
        fixture_clear(l);
    }
    /* An operator of one value twice. */
    const redco_value x = fixture_real(l, 1, (uint64_t[]){3}, 0.5, 2);
    fixture_check_derivatives(l, "x x", redco_mul(l->g, x, redco_div(l->g, x, redco_add(l->g, x, x))));
    fixture_clear(l);
}

static uint32_t random_axes(fixture *l, uint32_t rank, uint32_t *axes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (fixture_below(l, 2) == 0) { axes[count++] = i; }
    }
    return count;
}

static void reductions(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < 3 * REPEATS; i++) {
        uint64_t dim[4];
        uint32_t axes[4];
        const uint32_t rank = (uint32_t)fixture_below(l, 5), count = random_axes(l, rank, axes);
        const bool keep = fixture_below(l, 2) == 0;
        fixture_dims(l, rank, 24, dim);
        const redco_value x = fixture_grid(l, rank, dim, 0.25), square = redco_mul(l->g, x, redco_shift(l->g, x, 10));
        const redco_value results[4] = {
            redco_sum(l->g, square, count, axes, keep), redco_mean(l->g, square, count, axes, keep),
            redco_reduce_max(l->g, square, count, axes, keep), redco_reduce_min(l->g, square, count, axes, keep)};
        static const char *const names[4] = {"sum", "mean", "reduce_max", "reduce_min"};
        fixture_check_derivatives(l, names[i % 4], redco_mul(l->g, results[i % 4], results[i % 4]));
        fixture_clear(l);
    }
}

static void moves(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < 6 * REPEATS; i++) {
        static const char *const names[6] = {"reshape", "transpose", "broadcast", "slice", "pad", "concat"};
        uint64_t dim[4], begin[4], size[4];
        const uint32_t rank = 1 + (uint32_t)fixture_below(l, 4);
        fixture_dims(l, rank, 24, dim);
        const redco_value x = fixture_real(l, rank, dim, -2, 2);
        redco_value y = REDCO_NO_VALUE;
        uint32_t axes[4] = {0, 1, 2, 3};
        for (uint32_t k = 0; k < rank; k++) {
            const uint32_t other = k + (uint32_t)fixture_below(l, rank - k), kept = axes[k];
            axes[k] = axes[other];
            axes[other] = kept;
            begin[k] = fixture_below(l, dim[k]);
        }
        if (i % 6 == 0) {
            const uint64_t flat = redco_type_elements(redco_value_type(l->g, x));
            y = redco_reshape(l->g, x, 1, &flat);
        } else if (i % 6 == 1) {
            y = redco_transpose(l->g, x, axes);
        } else if (i % 6 == 2) {
            uint64_t wide[5] = {2};
            for (uint32_t k = 0; k < rank; k++) { wide[k + 1] = dim[k] == 1 ? 1 + fixture_below(l, 3) : dim[k]; }
            y = redco_broadcast_to(l->g, x, rank + 1, wide);
        } else if (i % 6 == 3) {
            for (uint32_t k = 0; k < rank; k++) { size[k] = 1 + fixture_below(l, dim[k] - begin[k]); }
            y = redco_slice(l->g, x, begin, size);
        } else if (i % 6 == 4) {
            for (uint32_t k = 0; k < rank; k++) { size[k] = begin[k] + dim[k] + fixture_below(l, 2); }
            y = redco_pad(l->g, x, begin, size);
        } else {
            const uint32_t axis = axes[0];
            dim[axis] = 2;
            const redco_value parts[3] = {x, fixture_real(l, rank, dim, -2, 2), x};
            y = redco_concat(l->g, parts, 1 + (uint32_t)fixture_below(l, 3), axis);
        }
        fixture_check_derivatives(l, names[i % 6], redco_mul(l->g, y, y));
        fixture_clear(l);
    }
}

static void index_operators(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < 4 * REPEATS; i++) {
        static const char *const names[4] = {"gather", "scatter_add", "pick", "unpick"};
        uint64_t dim[4];
        const uint32_t rank = (uint32_t)fixture_below(l, 3);
        const bool masked = fixture_below(l, 2) == 0;
        const redco_index_options options = {.offset = (int64_t)fixture_below(l, 3) - 1, .masked = masked};
        const int32_t low = (int32_t)options.offset - (masked ? 2 : 0),
                      high = (int32_t)options.offset + (masked ? 6 : 4);
        fixture_dims(l, rank, 12, dim);
        const redco_value index = fixture_integers(l, rank, dim, low, high);
        redco_value y;
        dim[rank] = i % 4 == 2 ? 4 : 3;
        if (i % 4 == 0) {
            y = redco_gather(l->g, fixture_real(l, 2, (uint64_t[]){4, 3}, -2, 2), index, &options);
        } else if (i % 4 == 1) {
            y = redco_scatter_add(l->g, index, fixture_real(l, rank + 1, dim, -2, 2), 4, &options);
        } else if (i % 4 == 2) {
            y = redco_pick(l->g, fixture_real(l, rank + 1, dim, -2, 2), index, &options);
        } else {
            y = redco_unpick(l->g, index, fixture_real(l, rank, dim, -2, 2), 4, &options);
        }
        fixture_check_derivatives(l, names[i % 4], redco_mul(l->g, y, y));
        fixture_clear(l);
    }
}

static void products(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < 4 * REPEATS; i++) {
        const bool ta = (i & 1) != 0, tb = (i & 2) != 0;
        const uint32_t batch = (uint32_t)fixture_below(l, 3),
                       drop = batch > 0 ? (uint32_t)fixture_below(l, batch + 1) : 0;
        uint64_t mnk[3], da[4], db[4];
        fixture_dims(l, 3, 30, mnk);
        fixture_dims(l, batch, 4, da);
        for (uint32_t k = 0; k < batch; k++) {
            db[k] = fixture_below(l, 3) == 0 ? 1 : da[k];
            if (fixture_below(l, 4) == 0) { da[k] = 1; }
        }
        da[batch] = ta ? mnk[2] : mnk[0];
        da[batch + 1] = ta ? mnk[0] : mnk[2];
        db[batch] = tb ? mnk[1] : mnk[2];
        db[batch + 1] = tb ? mnk[2] : mnk[1];
        const redco_value a = fixture_real(l, batch + 2, da, -2, 2),
                          b = fixture_real(l, batch + 2 - drop, db + drop, -2, 2);
        const redco_value y = redco_matmul(l->g, a, b, ta, tb);
        fixture_check_derivatives(l, "matmul", redco_mul(l->g, y, y));
        fixture_clear(l);
    }
}

static redco_value apply(fixture *l, redco_op_kind kind, const redco_value *in, uint32_t count,
                         const redco_attributes *attributes)
{
    redco_value out[REDCO_OUTPUTS_MAX];
    redco_graph_apply(l->g, kind, in, count, attributes, out);
    return fixture_join(l, out, redco_op_kind_outputs(kind));
}

/* Five kinds and what they may be given: an addend, a bias, an activation, whose rows are added up. */
static void products_with_epilogues(void **state)
{
    fixture *l = *state;
    static const redco_op_kind kinds[5] = {REDCO_OP_MATMUL_ADD, REDCO_OP_MATMUL_BIAS, REDCO_OP_MATMUL_GELU,
                                           REDCO_OP_MATMUL_GELU_GRAD, REDCO_OP_MATMUL_BIAS_GRAD};
    for (uint32_t i = 0; i < 20 * REPEATS; i++) {
        const redco_op_kind kind = kinds[i % 5];
        const bool ta = (i / 5 & 1) != 0, tb = (i / 5 & 2) != 0, option = fixture_below(l, 2) == 0;
        uint64_t mnk[3];
        redco_value in[4];
        uint32_t count = 0;
        redco_attributes attributes;
        memset(&attributes, 0, sizeof attributes);
        attributes.flags = (ta ? REDCO_FLAG_TRANSPOSE_A : 0U) | (tb ? REDCO_FLAG_TRANSPOSE_B : 0U);
        fixture_dims(l, 3, 30, mnk);
        if (kind == REDCO_OP_MATMUL_ADD) { in[count++] = fixture_real(l, 2, mnk, -2, 2); }
        in[count++] = fixture_real(l, 2, ta ? (uint64_t[]){mnk[2], mnk[0]} : (uint64_t[]){mnk[0], mnk[2]}, -1, 1);
        in[count++] = fixture_real(l, 2, tb ? (uint64_t[]){mnk[1], mnk[2]} : (uint64_t[]){mnk[2], mnk[1]}, -1, 1);
        if (kind == REDCO_OP_MATMUL_BIAS || (option && (kind == REDCO_OP_MATMUL_ADD || kind == REDCO_OP_MATMUL_GELU))) {
            in[count++] = fixture_real(l, 1, &mnk[1], -1, 1);
        }
        if (kind == REDCO_OP_MATMUL_BIAS && option) { attributes.flags |= REDCO_FLAG_GELU; }
        if (kind == REDCO_OP_MATMUL_GELU_GRAD) { in[count++] = fixture_real(l, 2, mnk, -2, 2); }
        if (kind == REDCO_OP_MATMUL_BIAS_GRAD) {
            attributes.axis_count = 1;
            attributes.axis[0] = option ? 0 : 1;
        }
        fixture_check_derivatives(l, redco_op_kind_name(kind), apply(l, kind, in, count, &attributes));
        fixture_clear(l);
    }
}

/* Gradient operators are differentiated as functions of all their inputs, as if those were independent. */
static void activation_gradients(void **state)
{
    fixture *l = *state;
    static const redco_op_kind kinds[3] = {REDCO_OP_SILU_GRAD, REDCO_OP_GELU_GRAD, REDCO_OP_GELU_TANH_GRAD};
    for (uint32_t i = 0; i < 3 * REPEATS; i++) {
        uint64_t dim[2], narrow[2];
        fixture_dims(l, 2, 15, dim);
        for (uint32_t k = 0; k < 2; k++) { narrow[k] = fixture_below(l, 3) == 0 ? 1 : dim[k]; }
        const redco_value in[2] = {fixture_real(l, 2, dim, -3, 3), fixture_real(l, 2, narrow, -2, 2)};
        fixture_check_derivatives(l, redco_op_kind_name(kinds[i % 3]), apply(l, kinds[i % 3], in, 2, NULL));
        fixture_clear(l);
    }
}

static void softmax_operators(void **state)
{
    fixture *l = *state;
    static const redco_op_kind kinds[4] = {REDCO_OP_SOFTMAX, REDCO_OP_LOG_SOFTMAX, REDCO_OP_SOFTMAX_GRAD,
                                           REDCO_OP_LOG_SOFTMAX_GRAD};
    for (uint32_t i = 0; i < 4 * REPEATS; i++) {
        uint64_t dim[3];
        const uint32_t rank = 1 + (uint32_t)fixture_below(l, 3);
        fixture_dims(l, rank, 24, dim);
        const redco_value in[2] = {fixture_real(l, rank, dim, -2, 2), fixture_real(l, rank, dim, -2, 2)};
        const redco_value y = apply(l, kinds[i % 4], in, i % 4 < 2 ? 1 : 2, NULL);
        fixture_check_derivatives(l, redco_op_kind_name(kinds[i % 4]), redco_mul(l->g, y, y));
        fixture_clear(l);
    }
}

static void norms(void **state)
{
    fixture *l = *state;
    static const redco_op_kind kinds[4] = {REDCO_OP_RMS_NORM, REDCO_OP_LAYER_NORM, REDCO_OP_RMS_NORM_GRAD,
                                           REDCO_OP_LAYER_NORM_GRAD};
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.scalar = 0.1;
    for (uint32_t i = 0; i < 4 * REPEATS; i++) {
        uint64_t dim[3], column[3];
        const uint32_t rank = 1 + (uint32_t)fixture_below(l, 3);
        fixture_dims(l, rank, 24, dim);
        memcpy(column, dim, sizeof column);
        column[rank - 1] = 1;
        const redco_value x = fixture_real(l, rank, dim, -2, 2), w = fixture_real(l, 1, &dim[rank - 1], 0.5, 2);
        redco_value in[5] = {x, w};
        uint32_t count = 2;
        if (i % 4 == 1) { in[count++] = fixture_real(l, 1, &dim[rank - 1], -1, 1); }
        if (i % 4 == 3) { in[count++] = fixture_real(l, rank, column, -0.5, 0.5); }
        if (i % 4 >= 2) {
            in[count++] = fixture_real(l, rank, column, 0.5, 2);
            in[count++] = fixture_real(l, rank, dim, -2, 2);
        }
        fixture_check_derivatives(l, redco_op_kind_name(kinds[i % 4]),
                                  apply(l, kinds[i % 4], in, count, i % 4 < 2 ? &attributes : NULL));
        fixture_clear(l);
    }
    for (int i = 0; i < REPEATS; i++) { /* the usual way: statistics are not used, so gradients are the fused ones */
        uint64_t dim[2];
        fixture_dims(l, 2, 15, dim);
        const redco_value x = fixture_real(l, 2, dim, -2, 2), w = fixture_real(l, 1, dim + 1, 0.5, 2);
        fixture_check_derivatives(l, "rms_norm", redco_rms_norm(l->g, x, w, 0.1));
        fixture_clear(l);
        const redco_value z = fixture_real(l, 2, dim, -2, 2), s = fixture_real(l, 1, dim + 1, 0.5, 2);
        fixture_check_derivatives(l, "layer_norm",
                                  redco_layer_norm(l->g, z, s, fixture_real(l, 1, dim + 1, -1, 1), 0.1));
        fixture_clear(l);
    }
}

static void cross_entropies(void **state)
{
    fixture *l = *state;
    for (uint32_t i = 0; i < 3 * REPEATS; i++) {
        uint64_t dim[3];
        const uint32_t rank = (uint32_t)fixture_below(l, 3);
        const bool masked = fixture_below(l, 2) == 0;
        redco_attributes attributes;
        memset(&attributes, 0, sizeof attributes);
        attributes.flags = masked ? REDCO_FLAG_MASKED : 0;
        fixture_dims(l, rank, 12, dim);
        dim[rank] = 1 + fixture_below(l, 5);
        const int32_t n = (int32_t)dim[rank];
        const redco_value x = fixture_real(l, rank + 1, dim, -2, 2);
        const redco_value target = fixture_integers(l, rank, dim, masked ? -2 : 0, masked && i % 3 > 0 ? n + 2 : n);
        if (i % 3 == 0) {
            fixture_check_derivatives(l, "cross_entropy", redco_cross_entropy(l->g, x, target, masked));
        } else if (i % 3 == 1) { /* the log-sum-exp is used, too */
            fixture_check_derivatives(l, "cross_entropy, lse",
                                      apply(l, REDCO_OP_CROSS_ENTROPY, (redco_value[]){x, target}, 2, &attributes));
        } else {
            const redco_value in[4] = {x, target, fixture_real(l, rank, dim, 1, 3), fixture_real(l, rank, dim, -2, 2)};
            attributes.offset = (int64_t)fixture_below(l, 2) * (masked ? 1 : 0);
            fixture_check_derivatives(l, "cross_entropy_grad",
                                      apply(l, REDCO_OP_CROSS_ENTROPY_GRAD, in, 4, &attributes));
        }
        fixture_clear(l);
    }
}

/* Differentiable, too: by learning rates, and through steps of an inner loop. */
static void optimizer(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t dim[3];
        const uint32_t rank = (uint32_t)fixture_below(l, 4);
        fixture_dims(l, rank, 12, dim);
        const redco_value p = fixture_real(l, rank, dim, -1, 1), m = fixture_real(l, rank, dim, -1, 1);
        const redco_value v = fixture_real(l, rank, dim, 1, 2), gradient = fixture_real(l, rank, dim, -1, 1);
        const redco_value numbers = fixture_real(l, 1, (uint64_t[]){REDCO_ADAMW_COUNT}, 0.5, 0.9);
        redco_value out[4];
        if (i % 2 == 0) {
            redco_adamw(l->g, p, m, v, gradient, numbers, out);
            fixture_check_derivatives(l, "adamw", fixture_join(l, out, 3));
        } else { /* in f64 nothing is rounded: the fourth is the first again */
            redco_adamw_rounded(l->g, p, m, v, gradient, numbers, out);
            fixture_check_derivatives(l, "adamw_rounded", fixture_join(l, out, 4));
        }
        fixture_clear(l);
    }
}

static void squares(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < REPEATS; i++) {
        uint64_t dim[3];
        const uint32_t rank = (uint32_t)fixture_below(l, 4);
        fixture_dims(l, rank, 12, dim);
        const redco_value x = fixture_real(l, rank, dim, -1, 1);
        fixture_check_derivatives(l, "sum_squares",
                                  redco_mul(l->g, redco_sum_squares(l->g, x), redco_sum_all(l->g, x)));
        fixture_clear(l);
    }
}

static void rotary(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < 2 * REPEATS; i++) {
        uint64_t dim[4], table[3];
        fixture_dims(l, 3, 12, dim);
        const uint64_t n = 1 + fixture_below(l, 3);
        dim[3] = 2 * n + fixture_below(l, 3);
        memcpy(table, dim, 2 * sizeof *table);
        table[2] = n;
        const uint32_t rank = 2 + (uint32_t)fixture_below(l, 2);
        const redco_value x = fixture_real(l, 4, dim, -2, 2);
        const redco_value c = fixture_real(l, rank, table + 3 - rank, -1, 1),
                          s = fixture_real(l, rank, table + 3 - rank, -1, 1);
        if (i % 4 == 0) { /* tables as constants: the fused gradient */
            l->varied[1] = l->varied[2] = false;
        }
        const redco_value y = redco_rotary(l->g, x, c, s, i % 2 == 0);
        fixture_check_derivatives(l, "rotary", redco_mul(l->g, y, y));
        fixture_clear(l);
    }
}

/** Random sizes and options of an attention; @return inputs used */
static uint32_t random_attention(fixture *l, redco_value *in, redco_attributes *attributes,
                                 redco_attention_options *options)
{
    const uint64_t batch = 1 + fixture_below(l, 2), groups = 1 + fixture_below(l, 2), shared = 1 + fixture_below(l, 2);
    const uint64_t queries = 1 + fixture_below(l, 3), keys = 1 + fixture_below(l, 4), size = 1 + fixture_below(l, 2);
    const uint64_t value_size = 1 + fixture_below(l, 2), heads = groups * shared;
    in[0] = fixture_real(l, 4, (uint64_t[]){batch, queries, heads, size}, -1.5, 1.5);
    in[1] = fixture_real(l, 4, (uint64_t[]){batch, keys, groups, size}, -1.5, 1.5);
    in[2] = fixture_real(l, 4, (uint64_t[]){batch, keys, groups, value_size}, -1.5, 1.5);
    memset(options, 0, sizeof *options);
    memset(attributes, 0, sizeof *attributes);
    options->scale = attributes->scalar = 0.8;
    if (fixture_below(l, 3) != 0) {
        options->causal = true;
        options->has_offset = fixture_below(l, 2) == 0; /* may leave queries that see nothing */
        options->offset = (int64_t)fixture_below(l, 5) - 2;
        options->window = fixture_below(l, 3);
        attributes->flags = REDCO_FLAG_CAUSAL;
        attributes->offset = options->has_offset ? options->offset : (int64_t)keys - (int64_t)queries;
        attributes->window = options->window;
    }
    in[3] = REDCO_NO_VALUE;
    if (fixture_below(l, 2) == 0) { return 3; }
    const uint64_t dim[4] = {fixture_below(l, 2) == 0 ? 1 : batch, fixture_below(l, 2) == 0 ? 1 : heads,
                             fixture_below(l, 2) == 0 ? 1 : queries, keys};
    in[3] = fixture_below(l, 2) == 0 ? fixture_real(l, 4, dim, -1, 1) : fixture_bools(l, 4, dim, 0.7);
    return 4;
}

static void attention(void **state)
{
    fixture *l = *state;
    for (int i = 0; i < 6 * REPEATS; i++) {
        redco_value in[7];
        redco_attributes attributes;
        redco_attention_options options;
        uint32_t count = random_attention(l, in, &attributes, &options);
        if (i % 3 == 0) {
            fixture_check_derivatives(l, "attention", redco_attend(l->g, in[0], in[1], in[2], in[3], &options));
        } else if (i % 3 == 1) {
            fixture_check_derivatives(l, "attention, lse", apply(l, REDCO_OP_ATTENTION, in, count, &attributes));
        } else {
            const redco_tensor_type q = *redco_value_type(l->g, in[0]), v = *redco_value_type(l->g, in[2]);
            const uint64_t out[4] = {q.dim[0], q.dim[1], q.dim[2], v.dim[3]}, lse[3] = {q.dim[0], q.dim[2], q.dim[1]};
            in[count++] = fixture_real(l, 4, out, -1, 1);
            in[count++] = fixture_real(l, 3, lse, 1, 2);
            in[count++] = fixture_real(l, 4, out, -1, 1);
            fixture_check_derivatives(l, "attention_grad", apply(l, REDCO_OP_ATTENTION_GRAD, in, count, &attributes));
            if (count == 7 && redco_value_type(l->g, in[3])->dtype == REDCO_F64) {
                fixture_check_derivatives(l, "attention_bias_grad",
                                          apply(l, REDCO_OP_ATTENTION_BIAS_GRAD, in, count, &attributes));
            }
        }
        fixture_clear(l);
    }
    /* One tensor as query, key and value, and more queries than the kernel takes at a time. */
    const redco_value x = fixture_real(l, 4, (uint64_t[]){1, 67, 2, 1}, -1, 1);
    fixture_check_derivatives(l, "self-attention",
                              redco_attend(l->g, x, x, x, REDCO_NO_VALUE, &(redco_attention_options){.causal = true}));
    fixture_clear(l);
    /* A bias of all queries, which the batch repeats. */
    const redco_value y = fixture_real(l, 4, (uint64_t[]){2, 67, 1, 1}, -1, 1);
    const redco_value keys = fixture_real(l, 4, (uint64_t[]){2, 3, 1, 1}, -1, 1);
    const redco_value bias = fixture_real(l, 4, (uint64_t[]){1, 1, 67, 3}, -1, 1);
    fixture_check_derivatives(l, "biased",
                              redco_attend(l->g, y, keys, keys, bias, &(redco_attention_options){.causal = false}));
    fixture_clear(l);
}

static void randomness_and_casts(void **state)
{
    fixture *l = *state;
    static const int32_t key[2] = {5, 7};
    const redco_value k = fixture_given(l, REDCO_I32, 1, (uint64_t[]){2}, key);
    const redco_value x = fixture_real(l, 2, (uint64_t[]){3, 5}, -2, 2);
    fixture_check_derivatives(l, "dropout", redco_dropout(l->g, redco_mul(l->g, x, x), 0.4, k, 1, NULL));
    fixture_clear(l);
    /* A stopped value is a constant: d(x stop(x)) = stop(x) dx. */
    const redco_value y = fixture_real(l, 1, (uint64_t[]){1}, 0.5, 2);
    const redco_value f = redco_sum_all(l->g, redco_mul(l->g, y, redco_stop_gradient(l->g, y)));
    redco_value d, dd;
    redco_gradient(l->g, f, &y, 1, &d);
    redco_gradient(l->g, redco_sum_all(l->g, d), &y, 1, &dd);
    assert_true(fixture_first(l, d) == fixture_first(l, y));
    assert_true(fixture_first(l, dd) == 0);
    fixture_clear(l);
    /* Through a cast the gradient comes back in the first type. */
    const redco_value z = fixture_real(l, 1, (uint64_t[]){2}, 0.5, 2);
    redco_gradient(l->g, redco_sum_all(l->g, redco_scale(l->g, redco_cast(l->g, z, REDCO_BFLOAT16), 3)), &z, 1, &d);
    assert_true(fixture_first(l, d) == 3);
    fixture_clear(l);
}

/* Third derivatives: of x^5 it is 60 x^2, of the RMS norm of a vector of one element without epsilon it is 0. */
static void third_derivatives(void **state)
{
    fixture *l = *state;
    const redco_value x = fixture_real(l, 0, NULL, 1, 2);
    redco_value d = redco_pow(l->g, x, 5);
    for (int i = 0; i < 3; i++) { redco_gradient(l->g, d, &x, 1, &d); }
    const double at = fixture_scalar(l, x);
    assert_true(fabs(fixture_scalar(l, d) - 60 * at * at) < 1e-9);
    fixture_clear(l);
    /* silu''' = s' (3 (1 - 2 s) ... ) is checked by differences of the second derivative, which the table above covers.
     */
    const redco_value y = fixture_real(l, 1, (uint64_t[]){3}, -2, 2);
    redco_value g, h;
    redco_gradient(l->g, redco_sum_all(l->g, redco_silu(l->g, y)), &y, 1, &g);
    redco_gradient(l->g, redco_sum_all(l->g, redco_mul(l->g, g, g)), &y, 1, &h);
    fixture_check_derivatives(l, "silu, third and fourth", h);
    fixture_clear(l);
}

/* With respect to a value in the middle, and to one that the loss does not depend on. */
static void what_gradients_are_of(void **state)
{
    fixture *l = *state;
    const redco_value x = fixture_real(l, 0, NULL, 1, 2), unused = fixture_real(l, 1, (uint64_t[]){2}, 1, 2);
    const redco_value square = redco_mul(l->g, x, x), f = redco_mul(l->g, square, square);
    const redco_value wrt[3] = {x, square, unused};
    redco_value d[3];
    redco_gradient(l->g, f, wrt, 3, d);
    const double at = fixture_scalar(l, x);
    assert_true(fabs(fixture_scalar(l, d[0]) - 4 * at * at * at) < 1e-12); /* not cut at the square */
    assert_true(fabs(fixture_scalar(l, d[1]) - 2 * at * at) < 1e-12);
    assert_true(fixture_first(l, d[2]) == 0);
    fixture_clear(l);
}

/* Steps x y, its sigmoid, a constant and a choice, with two results; y may be repeated. */
static void programs(void **state)
{
    fixture *l = *state;
    redco_pointwise p;
    redco_attributes attributes;
    memset(&p, 0, sizeof p);
    p.input_count = 2;
    p.steps[0] = (redco_pointwise_step){REDCO_OP_MUL, {0, 1, 0}};
    p.steps[1] = (redco_pointwise_step){REDCO_OP_SIGMOID, {2, 0, 0}};
    p.steps[2] = (redco_pointwise_step){REDCO_OP_CONSTANT, {0, REDCO_F64, 0}};
    p.steps[3] = (redco_pointwise_step){REDCO_OP_LT, {4, 2, 0}};
    p.steps[4] = (redco_pointwise_step){REDCO_OP_SELECT, {5, 3, 0}};
    p.step_count = 5;
    p.constants[0] = 0.0625; /* no product of the inputs */
    p.constant_count = 1;
    p.outputs[0] = 6;
    p.outputs[1] = 3;
    p.output_count = 2;
    redco_pointwise_pack(&p, &attributes);
    for (int i = 0; i < REPEATS; i++) {
        const uint64_t dim[2] = {2, 3}, narrow[2] = {i % 2 == 0 ? 1 : 2, 3};
        redco_value out[REDCO_OUTPUTS_MAX];
        const redco_value in[2] = {fixture_grid(l, 2, dim, 0.35), fixture_real(l, 2, narrow, 0.5, 1.5)};
        redco_graph_apply(l->g, REDCO_OP_POINTWISE, in, 2, &attributes, out);
        fixture_check_derivatives(l, "pointwise", redco_mul(l->g, out[0], out[1]));
        fixture_clear(l);
    }
}

/* Three tokens that choose two of four experts, of which one has no token; then each choice's row by itself. */
static void experts(void **state)
{
    fixture *l = *state;
    static const int32_t chosen[6] = {3, 0, 0, 1, 1, 3};
    const redco_value index = fixture_given(l, REDCO_I32, 2, (const uint64_t[]){3, 2}, chosen);
    const redco_value x = fixture_real(l, 2, (const uint64_t[]){3, 2}, -1, 1);
    const redco_value w = fixture_real(l, 3, (const uint64_t[]){4, 2, 3}, -1, 1);
    const redco_value down = fixture_real(l, 3, (const uint64_t[]){4, 2, 3}, -1, 1);
    const redco_value rows = redco_sort_rows(l->g, x, index, 4, false);
    const redco_value y = redco_grouped_matmul(
        l->g, redco_tanh(l->g, redco_grouped_matmul(l->g, rows, w, index, false)), down, index, true);
    fixture_check_derivatives(l, "experts", redco_sort_rows(l->g, y, index, 4, true));
    fixture_check_derivatives(l, "gradient of experts", redco_grouped_matmul_grad(l->g, rows, y, index, 4));
    /* Rows by expert: 0 of tokens 0 and 1; 1 of 1 and 2; 3 of 0 and 2. Twice back is the number of choices. */
    static const double one[6] = {1, 2, 3, 4, 5, 6}, wanted[12] = {1, 2, 3, 4, 3, 4, 5, 6, 1, 2, 5, 6};
    const redco_value given = fixture_given(l, REDCO_F64, 2, (const uint64_t[]){3, 2}, one);
    const redco_value sorted = redco_sort_rows(l->g, given, index, 4, false);
    double got[12], back[6];
    fixture_run(l, sorted, got);
    fixture_run(l, redco_sort_rows(l->g, sorted, index, 4, true), back);
    for (uint32_t i = 0; i < 12; i++) { assert_true(got[i] == wanted[i]); }
    for (uint32_t i = 0; i < 6; i++) { assert_true(back[i] == 2 * one[i]); }
    fixture_clear(l);
    static const double scores[8] = {1, 3, 3, 2, -1, -4, -2, -3};
    static const int32_t best[6] = {1, 2, 3, 0, 2, 3};
    int32_t found[6];
    const redco_value s = fixture_given(l, REDCO_F64, 2, (const uint64_t[]){2, 4}, scores);
    fixture_run(l, redco_top_k(l->g, s, 3), found);
    for (uint32_t i = 0; i < 6; i++) { assert_int_equal(found[i], best[i]); }
    fixture_clear(l);
    /* Refused: an expert that there is not, a choice without a row. */
    static const int32_t beyond[2] = {0, 4};
    const redco_value far = fixture_given(l, REDCO_I32, 2, (const uint64_t[]){1, 2}, beyond);
    const redco_value z = fixture_real(l, 2, (const uint64_t[]){1, 2}, -1, 1);
    fixture_refuses(l, redco_sort_rows(l->g, z, far, 4, false), "expert 4 is outside of [0, 4)");
    fixture_clear(l);
}

/* A new operator is not forgotten here: whatever passes a gradient was checked, when all tests run. */
static void no_operator_is_left_out(void **state)
{
    const fixture *l = *state;
    for (uint32_t i = 0; i < REDCO_OP_COUNT; i++) {
        const redcoi_gradient_rule *row = &redcoi_gradient_rules[i];
        const bool passes =
            (row->vjp != NULL || row->decompose != NULL) && i != REDCO_OP_CAST; /* differences need F64 */
        if (passes && !l->seen[i]) { fail_msg("%s was not checked", redcoi_operators[i].name); }
    }
}

static int open_fixture(void **state)
{
    static fixture l;
    fixture_open(&l, 20);
    *state = &l;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *l = *state;
    (void)printf("first derivatives: %u checks, worst relative error %.1e (%s)\n", l->first.checks, l->first.worst,
                 l->first.where);
    (void)printf("second derivatives: %u checks, worst relative error %.1e (%s)\n", l->second.checks, l->second.worst,
                 l->second.where);
    (void)printf("fused against decomposed: %u values, worst relative error %.1e (%s)\n", l->fused.checks,
                 l->fused.worst, l->fused.where);
    fixture_close(l);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_operators),
        cmocka_unit_test(binary_operators),
        cmocka_unit_test(reductions),
        cmocka_unit_test(moves),
        cmocka_unit_test(index_operators),
        cmocka_unit_test(products),
        cmocka_unit_test(products_with_epilogues),
        cmocka_unit_test(activation_gradients),
        cmocka_unit_test(softmax_operators),
        cmocka_unit_test(norms),
        cmocka_unit_test(cross_entropies),
        cmocka_unit_test(optimizer),
        cmocka_unit_test(squares),
        cmocka_unit_test(rotary),
        cmocka_unit_test(attention),
        cmocka_unit_test(randomness_and_casts),
        cmocka_unit_test(third_derivatives),
        cmocka_unit_test(what_gradients_are_of),
        cmocka_unit_test(programs),
        cmocka_unit_test(experts),
        cmocka_unit_test(no_operator_is_left_out),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
