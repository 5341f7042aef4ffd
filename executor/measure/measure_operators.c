#include "executor/measure/measure_operators.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"

#include <stdio.h>
#include <string.h>

/* A table that is measured for its size is looked up seldom. */
enum { EMBEDDING_TOKENS = 16, HEAD_SIZE = 64, PRODUCT_SIDE = 128 };

/* A composite while it is built. */
typedef struct work {
    redco_graph *g;
    redco_dtype dtype;
    uint64_t rows, columns, table_rows;
    bool products_add;
    redco_value wrt[REDCOI_RESULTS_MAX]; /* values whose gradients are wanted */
    uint32_t wrt_count, inputs;
} work;

static redco_value input_of(work *w, redco_dtype dtype, uint32_t rank, const uint64_t *dim)
{
    char name[16];
    const redco_tensor_type type = redco_type(dtype, rank, dim);
    (void)snprintf(name, sizeof name, "x%u", w->inputs++);
    return redco_input(w->g, name, &type);
}

static redco_value trained(work *w, uint32_t rank, const uint64_t *dim)
{
    const redco_value x = input_of(w, w->dtype, rank, dim);
    if (w->wrt_count < REDCOI_RESULTS_MAX) { w->wrt[w->wrt_count++] = x; }
    return x;
}

static redco_value matrix(work *w)
{
    return trained(w, 2, (const uint64_t[]){w->rows, w->columns});
}

static redco_value row(work *w)
{
    return trained(w, 1, (const uint64_t[]){w->columns});
}

/* The residual sum comes before a norm; whoever reads the norm also passes the sum on. */
static void rms_norm(work *w, redco_value *out, uint32_t *count)
{
    const redco_value x = matrix(w), sum = w->products_add ? x : redco_add(w->g, x, matrix(w));
    out[(*count)++] = redco_rms_norm(w->g, sum, row(w), 1e-5);
    out[(*count)++] = sum;
}

/* Models with layer norms have biases: that of the product before it. */
static void layer_norm(work *w, redco_value *out, uint32_t *count)
{
    const redco_value x = matrix(w);
    const redco_value sum = w->products_add ? x : redco_add(w->g, x, redco_add(w->g, matrix(w), row(w)));
    const redco_value scale = row(w);
    out[(*count)++] = redco_layer_norm(w->g, sum, scale, row(w), 1e-5);
    out[(*count)++] = sum;
}

static void rotary(work *w, redco_value *out, uint32_t *count)
{
    const uint64_t heads = w->columns / HEAD_SIZE > 0 ? w->columns / HEAD_SIZE : 1;
    const redco_value x = trained(w, 4, (const uint64_t[]){1, w->rows, heads, HEAD_SIZE});
    const redco_dtype dtype = redco_dtype_statistic(w->dtype);
    const redco_value cosines = input_of(w, dtype, 2, (const uint64_t[]){w->rows, HEAD_SIZE / 2});
    const redco_value sines = input_of(w, dtype, 2, (const uint64_t[]){w->rows, HEAD_SIZE / 2});
    out[(*count)++] = redco_rotary(w->g, x, cosines, sines, false);
}

/* Biases of q, k and v, which come from one product and are cut apart. Elements are those of q and k. */
static void split_heads(work *w, redco_value *out, uint32_t *count)
{
    const uint64_t width = w->columns / 2 > 0 ? w->columns / 2 : 1, all = 3 * width;
    const redco_value x = trained(w, 2, (const uint64_t[]){w->rows, all});
    const redco_value sum = w->products_add ? x : redco_add(w->g, x, trained(w, 1, &all));
    for (uint64_t part = 0; part < 3; part++) { out[(*count)++] = redco_slice_axis(w->g, sum, 1, part * width, width); }
}

static void activation(work *w, redco_value *out, uint32_t *count)
{
    const redco_value x = matrix(w);
    out[(*count)++] = redco_gelu_tanh(w->g, w->products_add ? x : redco_add(w->g, x, row(w)));
}

static void relu(work *w, redco_value *out, uint32_t *count)
{
    const redco_value x = matrix(w);
    out[(*count)++] = redco_relu(w->g, w->products_add ? x : redco_add(w->g, x, row(w)));
}

static void gated_activation(work *w, redco_value *out, uint32_t *count)
{
    const redco_value gate = matrix(w);
    out[(*count)++] = redco_mul(w->g, redco_silu(w->g, gate), matrix(w));
}

static void loss(work *w, redco_value *out, uint32_t *count)
{
    const redco_value logits = matrix(w);
    const redco_value targets = input_of(w, REDCO_I32, 1, (const uint64_t[]){w->rows});
    out[(*count)++] = redco_cross_entropy(w->g, logits, targets, false);
}

static void embedding(work *w, redco_value *out, uint32_t *count)
{
    const redco_value table = trained(w, 2, (const uint64_t[]){w->table_rows, w->columns});
    const redco_value tokens = input_of(w, REDCO_I32, 1, (const uint64_t[]){w->rows});
    out[(*count)++] = redco_gather(w->g, table, tokens, NULL);
}

/* The gradient into a table: all of it is written. */
static void embedding_table(work *w, redco_value *out, uint32_t *count)
{
    const redco_value tokens = input_of(w, REDCO_I32, 1, (const uint64_t[]){EMBEDDING_TOKENS});
    out[(*count)++] = redco_gather(w->g, matrix(w), tokens, NULL);
}

/* The update of sharded states as states/programs.c has it: norm of the gradient, AdamW on single-precision states,
 * weights of 16 bits beside. Rates and the factor that clips are numbers that the program writes. */
static void optimizer(work *w, redco_value *out, uint32_t *count)
{
    const redco_dtype state = redco_dtype_statistic(w->dtype);
    const uint64_t dim[1] = {w->columns}, number_dim[1] = {REDCO_ADAMW_COUNT};
    redco_graph *const g = w->g;
    const redco_value gradient = input_of(w, w->dtype, 1, dim), master = input_of(w, state, 1, dim);
    const redco_value first = input_of(w, state, 1, dim);
    redco_value second = input_of(w, state, 1, dim), numbers = input_of(w, state, 1, number_dim);
    redco_graph_set_role(g, REDCO_OP_ROLE_PREPARATION);
    second = redco_mul(g, second, second); /* neither is negative */
    numbers = redco_mul(g, numbers, numbers);
    redco_graph_set_role(g, REDCO_OP_ROLE_OPTIMIZER);
    out[(*count)++] = redco_sum_squares(g, gradient);
    if (state != w->dtype) {
        redco_adamw_rounded(g, master, first, second, gradient, numbers, out + *count);
        *count += 4;
    } else {
        redco_adamw(g, master, first, second, gradient, numbers, out + *count);
        *count += 3;
    }
}

/* A gradient onto the sum of those before it. */
static void accumulate(work *w, redco_value *out, uint32_t *count)
{
    const redco_value sum = input_of(w, w->dtype, 1, (const uint64_t[]){w->columns});
    out[(*count)++] = redco_add(w->g, sum, input_of(w, w->dtype, 1, (const uint64_t[]){w->columns}));
}

/* The same memory transposed twice over would be free, a sum with itself would not be a copy: slices are copied. */
static void copy(work *w, redco_value *out, uint32_t *count)
{
    const redco_value x = input_of(w, w->dtype, 1, (const uint64_t[]){w->columns + 1});
    out[(*count)++] = redco_slice_axis(w->g, x, 0, 0, w->columns);
}

/* Many small products at once, as of heads: [batch][side][columns] of [batch][side][side] by [batch][side][columns]. */
static void batched_product(work *w, redco_value *out, uint32_t *count)
{
    const uint64_t batch = w->rows / PRODUCT_SIDE > 0 ? w->rows / PRODUCT_SIDE : 1;
    const redco_value a = trained(w, 3, (const uint64_t[]){batch, PRODUCT_SIDE, PRODUCT_SIDE});
    const redco_value b = trained(w, 3, (const uint64_t[]){batch, PRODUCT_SIDE, w->columns});
    out[(*count)++] = redco_matmul(w->g, a, b, false, false);
}

static const struct builder {
    const char *name;
    void (*build)(work *w, redco_value *out, uint32_t *count);
    bool looks_up; /* rows of a table */
} builders[] = {
    {"rms_norm", rms_norm, false},
    {"layer_norm", layer_norm, false},
    {"rotary", rotary, false},
    {"split_heads", split_heads, false},
    {"activation", activation, false},
    {"relu", relu, false},
    {"gated_activation", gated_activation, false},
    {"loss", loss, false},
    {"embedding", embedding, true},
    {"embedding_table", embedding_table, true},
    {"optimizer", optimizer, false},
    {"accumulate", accumulate, false},
    {"copy", copy, false},
    {"batched_product", batched_product, false},
};

/* Adds gradients of everything trained, from given gradients of the outputs. */
static void add_backward(work *w, const redco_value *outputs, uint32_t count, redcoi_composite *composite)
{
    redco_value cotangents[REDCOI_RESULTS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        const redco_tensor_type *type = redco_value_type(w->g, outputs[i]);
        cotangents[i] = input_of(w, type->dtype, type->rank, type->dim);
    }
    redco_vector_jacobian(w->g, outputs, cotangents, count, w->wrt, w->wrt_count,
                          composite->results + composite->result_count);
    composite->result_count += w->wrt_count;
}

static redco_status finish(work *w, const redco_value *outputs, uint32_t count, redcoi_composite *composite,
                           redco_error *err)
{
    redco_status st = redco_graph_status(w->g, err);
    if (st == REDCO_OK) {
        memcpy(composite->results, outputs, count * sizeof *outputs);
        composite->result_count = count;
        if (w->wrt_count > 0) { add_backward(w, outputs, count, composite); }
        st = redco_graph_status(w->g, err);
    }
    if (st != REDCO_OK) {
        redco_graph_free(w->g);
        composite->graph = NULL;
        return st;
    }
    composite->graph = w->g;
    return REDCO_OK;
}

static redco_status begin(work *w, redco_error *err)
{
    w->g = redco_graph_create();
    return w->g != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
}

redco_status redcoi_composite_create(const char *name, redco_dtype dtype, const redcoi_composite_size *size,
                                     redcoi_composite *composite_out, redco_error *err)
{
    work w = {.dtype = dtype,
              .rows = size->rows,
              .columns = size->columns,
              .table_rows = size->table_rows,
              .products_add = size->products_add};
    redco_value outputs[REDCOI_RESULTS_MAX];
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof builders / sizeof builders[0]; i++) {
        if (strcmp(builders[i].name, name) != 0) { continue; }
        const redco_status st = begin(&w, err);
        if (st != REDCO_OK) { return st; }
        redco_graph_set_operator(w.g, name);
        composite_out->looks_up = builders[i].looks_up;
        builders[i].build(&w, outputs, &count);
        return finish(&w, outputs, count, composite_out, err);
    }
    return redco_fail(err, REDCO_EVALUE, name, "is no operator that is measured");
}

redco_status redcoi_composite_gemm(redco_dtype dtype, uint64_t m, uint64_t n, uint64_t k, bool transpose_a,
                                   bool transpose_b, redcoi_composite *composite_out, redco_error *err)
{
    work w = {.dtype = dtype};
    const redco_status st = begin(&w, err);
    if (st != REDCO_OK) { return st; }
    const redco_value a = input_of(&w, dtype, 2, (const uint64_t[]){transpose_a ? k : m, transpose_a ? m : k});
    const redco_value b = input_of(&w, dtype, 2, (const uint64_t[]){transpose_b ? n : k, transpose_b ? k : n});
    const redco_value c = redco_matmul(w.g, a, b, transpose_a, transpose_b);
    return finish(&w, &c, 1, composite_out, err);
}

redco_status redcoi_composite_attention(redco_dtype dtype, const redcoi_attention_shape *shape,
                                        redcoi_composite *composite_out, redco_error *err)
{
    work w = {.dtype = dtype};
    const redco_status st = begin(&w, err);
    if (st != REDCO_OK) { return st; }
    const uint64_t query[4] = {shape->batch, shape->sequence, shape->heads, shape->head_dim};
    const uint64_t key[4] = {shape->batch, shape->sequence, shape->kv_heads, shape->head_dim};
    const redco_value q = trained(&w, 4, query), k = trained(&w, 4, key), v = trained(&w, 4, key);
    const redco_attention_options options = {.causal = shape->causal};
    const redco_value out = redco_attend(w.g, q, k, v, REDCO_NO_VALUE, &options);
    return finish(&w, &out, 1, composite_out, err);
}
