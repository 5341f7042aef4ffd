/* Whole small models, forward and gradients, under RedCoast's specs, ideal specs and random ones, with and without
 * sequence parallelism, at 2, 3 and 4 ranks: the same losses and gradients as the whole graph. */
#include "partition_fixture.h"

#include <stdio.h>
#include <string.h>

#define DIMS(...)                                                                                                      \
    (sizeof((uint64_t[]){__VA_ARGS__}) / 8), (uint64_t[])                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
/* Sums of at most some hundred terms in another order, through two layers: some hundred units of 1.1e-16. */
#define BOUND 2e-13

enum { B = 2, S = 12, T = B * S, D = 24, F = 48, V = 36, H = 12, E = 8, LAYERS = 2 };

typedef struct model {
    fixture *r;
    char prefix[24];
} model;

/** "0.q": parameters of the layer at hand. */
static redco_value weight(model *m, const char *name, uint32_t rank, const uint64_t *dim)
{
    char full[96];
    (void)snprintf(full, sizeof full, "%s%s", m->prefix, name);
    return fixture_parameter(m->r, full, rank, dim);
}

static void op(model *m, const char *name)
{
    redco_graph_set_operator(m->r->g, name);
}

static void layer(model *m, const char *kind, uint32_t i)
{
    char name[32];
    (void)snprintf(name, sizeof name, "%s.%u", kind, i);
    redco_graph_set_layer(m->r->g, name);
    (void)snprintf(m->prefix, sizeof m->prefix, "%s.%u.", kind, i);
}

static redco_value linear(model *m, const char *name, redco_value x, uint64_t in, uint64_t out, bool bias)
{
    char full[64];
    const redco_value y = redco_matmul(m->r->g, x, weight(m, name, DIMS(in, out)), false, false);
    (void)snprintf(full, sizeof full, "%s_bias", name);
    return bias ? redco_add(m->r->g, y, weight(m, full, DIMS(out))) : y;
}

static redco_value layer_norm(model *m, const char *name, redco_value x)
{
    char shift[64];
    op(m, name);
    (void)snprintf(shift, sizeof shift, "%s_shift", name);
    const redco_value scale = weight(m, name, DIMS(D));
    return redco_layer_norm(m->r->g, x, scale, weight(m, shift, DIMS(D)), 1e-5);
}

static redco_value rms_norm(model *m, const char *name, redco_value x)
{
    op(m, name);
    return redco_rms_norm(m->r->g, x, weight(m, name, DIMS(D)), 1e-5);
}

static redco_value split_heads(model *m, redco_value x, uint64_t heads)
{
    const redco_tensor_type *type = redco_value_type(m->r->g, x);
    return redco_reshape(m->r->g, x, DIMS(B, type->dim[1], heads, type->dim[2] / heads));
}

static redco_value join_heads(model *m, redco_value x)
{
    const redco_tensor_type *type = redco_value_type(m->r->g, x);
    return redco_reshape(m->r->g, x, DIMS(B, type->dim[1], type->dim[2] * type->dim[3]));
}

static redco_value rotated(model *m, redco_value x, bool interleaved)
{
    redco_value cosines, sines;
    const redco_tensor_type places = redco_type(REDCO_I32, 1, (uint64_t[]){S});
    redco_rotary_tables(m->r->g, redco_iota(m->r->g, &places, 0), 2, 100, REDCO_F64, &cosines, &sines);
    return redco_rotary(m->r->g, x, cosines, sines, interleaved);
}

static const redco_attention_options causal = {.causal = true};

static redco_value self_attention(model *m, redco_value x, uint64_t groups, bool bias, int rotary)
{
    op(m, "qkv");
    redco_value q = split_heads(m, linear(m, "q", x, D, D, bias), H);
    redco_value k = split_heads(m, linear(m, "k", x, D, D / H * groups, bias), groups);
    const redco_value v = split_heads(m, linear(m, "v", x, D, D / H * groups, bias), groups);
    op(m, "attention");
    if (rotary > 0) {
        q = rotated(m, q, rotary == 2);
        k = rotated(m, k, rotary == 2);
    }
    const redco_value o = redco_attend(m->r->g, q, k, v, REDCO_NO_VALUE, &causal);
    op(m, "attn_out");
    return linear(m, "o", join_heads(m, o), D, D, bias);
}

static redco_value lookup(model *m, const char *table, uint64_t rows, redco_value ids)
{
    op(m, "embedding");
    return redco_gather(m->r->g, weight(m, table, DIMS(rows, D)), ids, NULL);
}

static redco_value loss_of(model *m, redco_value logits)
{
    const redco_value targets = fixture_integers(m->r, "targets", DIMS(B, S), -8, V);
    op(m, "loss");
    return redco_mean_all(m->r->g, redco_cross_entropy(m->r->g, logits, targets, true));
}

static void llama(model *m)
{
    redco_graph *g = m->r->g;
    layer(m, "embedding", 0);
    redco_value x = lookup(m, "words", V, fixture_integers(m->r, "ids", DIMS(B, S), 0, V));
    for (uint32_t i = 0; i < LAYERS; i++) {
        layer(m, "block", i);
        x = redco_add(g, x, self_attention(m, rms_norm(m, "attn_norm", x), 6, false, 1));
        const redco_value y = rms_norm(m, "ffn_norm", x);
        op(m, "ffn_in");
        const redco_value gate = redco_silu(g, linear(m, "gate", y, D, F, false));
        const redco_value a = redco_mul(g, gate, linear(m, "up", y, D, F, false));
        op(m, "ffn_out");
        x = redco_add(g, x, linear(m, "down", a, F, D, false));
    }
    layer(m, "head", 0);
    x = rms_norm(m, "norm", x);
    op(m, "head");
    fixture_finish(m->r, loss_of(m, linear(m, "lm_head", x, D, V, false)));
}

/** Fused query, key and value; learned places; the head is the table of words. */
static void gpt2(model *m)
{
    redco_graph *g = m->r->g;
    layer(m, "embedding", 0);
    const redco_value words = weight(m, "words", DIMS(V, D));
    op(m, "embedding");
    const redco_value key = fixture_integers(m->r, "key", DIMS(2), 0, 99);
    const redco_value ids = fixture_integers(m->r, "ids", DIMS(B, S), 0, V);
    const redco_tensor_type places = redco_type(REDCO_I32, 1, (uint64_t[]){S});
    redco_value x = redco_add(g, redco_gather(g, words, ids, NULL),
                              redco_gather(g, weight(m, "places", DIMS(S, D)), redco_iota(g, &places, 0), NULL));
    x = redco_dropout(g, x, 0.1, key, 99, NULL);
    for (uint32_t i = 0; i < LAYERS; i++) {
        redco_value part[3];
        layer(m, "block", i);
        const redco_value y = layer_norm(m, "ln_1", x);
        op(m, "qkv");
        const redco_value qkv = linear(m, "c_attn", y, D, 3 * D, true);
        for (uint32_t k = 0; k < 3; k++) { part[k] = split_heads(m, redco_slice_axis(g, qkv, 2, k * D, D), H); }
        op(m, "attention");
        const redco_value o = redco_attend(g, part[0], part[1], part[2], REDCO_NO_VALUE, &causal);
        op(m, "attn_out");
        x = redco_add(g, x, redco_dropout(g, linear(m, "c_proj", join_heads(m, o), D, D, true), 0.1, key, 2 * i, NULL));
        const redco_value z = layer_norm(m, "ln_2", x);
        op(m, "ffn_in");
        const redco_value a = redco_gelu_tanh(g, linear(m, "c_fc", z, D, F, true));
        op(m, "ffn_out");
        x = redco_add(g, x, redco_dropout(g, linear(m, "mlp_proj", a, F, D, true), 0.1, key, 2 * i + 1, NULL));
    }
    layer(m, "head", 0);
    x = layer_norm(m, "norm", x);
    op(m, "head");
    fixture_finish(m->r, loss_of(m, redco_matmul(g, x, words, false, true)));
}

static void opt(model *m)
{
    redco_graph *g = m->r->g;
    layer(m, "embedding", 0);
    const redco_value words = weight(m, "words", DIMS(V, D));
    op(m, "embedding");
    const redco_value places = fixture_integers(m->r, "positions", DIMS(B, S), 2, S + 2);
    redco_value x = redco_add(g, redco_gather(g, words, fixture_integers(m->r, "ids", DIMS(B, S), 0, V), NULL),
                              lookup(m, "places", S + 2 + 10, places));
    for (uint32_t i = 0; i < LAYERS; i++) {
        layer(m, "block", i);
        x = redco_add(g, x, self_attention(m, layer_norm(m, "attn_norm", x), H, true, 0));
        const redco_value y = layer_norm(m, "ffn_norm", x);
        op(m, "ffn_in");
        const redco_value a = redco_relu(g, linear(m, "fc1", y, D, F, true));
        op(m, "ffn_out");
        x = redco_add(g, x, linear(m, "fc2", a, F, D, true));
    }
    layer(m, "head", 0);
    x = layer_norm(m, "norm", x);
    op(m, "head");
    fixture_finish(m->r, loss_of(m, redco_matmul(g, x, words, false, true)));
}

static void gptj(model *m)
{
    redco_graph *g = m->r->g;
    layer(m, "embedding", 0);
    redco_value x = lookup(m, "words", V, fixture_integers(m->r, "ids", DIMS(B, S), 0, V));
    for (uint32_t i = 0; i < LAYERS; i++) {
        layer(m, "block", i);
        const redco_value y = layer_norm(m, "ln_1", x);
        const redco_value a = self_attention(m, y, H, false, 2);
        op(m, "ffn_in");
        const redco_value f = redco_gelu_tanh(g, linear(m, "fc_in", y, D, F, true));
        op(m, "ffn_out");
        x = redco_add(g, redco_add(g, a, linear(m, "fc_out", f, F, D, true)), x);
    }
    layer(m, "head", 0);
    x = layer_norm(m, "norm", x);
    op(m, "head");
    fixture_finish(m->r, loss_of(m, linear(m, "lm_head", x, D, V, true)));
}

/** Attention of decomposed operators: scores with a bias. */
static redco_value t5_attention(model *m, const char *kind, redco_value x, redco_value keys, redco_value bias)
{
    static const uint32_t heads_first[4] = {0, 2, 1, 3};
    redco_graph *g = m->r->g;
    redco_value part[3];
    char name[24];
    op(m, "qkv");
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "%s_%c", kind, "qkv"[i]);
        part[i] = redco_transpose(g, split_heads(m, linear(m, name, i == 0 ? x : keys, D, D, false), H), heads_first);
    }
    op(m, "attention");
    redco_value scores = redco_matmul(g, part[0], part[1], false, true);
    if (bias != REDCO_NO_VALUE) { scores = redco_add(g, scores, bias); }
    const redco_value o =
        redco_transpose(g, redco_matmul(g, redco_softmax(g, scores), part[2], false, false), heads_first);
    op(m, "attn_out");
    (void)snprintf(name, sizeof name, "%s_o", kind);
    return linear(m, name, join_heads(m, o), D, D, false);
}

static redco_value t5_bias(model *m, const char *name, uint64_t length)
{
    static const uint32_t order[3] = {2, 0, 1};
    redco_graph *g = m->r->g;
    const redco_value buckets = fixture_integers(m->r, name, DIMS(length, length), 0, 12);
    op(m, "relative");
    const redco_value bias = redco_gather(g, weight(m, "relative", DIMS(12, H)), buckets, NULL);
    return redco_reshape(g, redco_transpose(g, bias, order), DIMS(1, H, length, length));
}

static redco_value t5_ffn(model *m, redco_value x)
{
    const redco_value y = rms_norm(m, "ffn_norm", x);
    op(m, "ffn_in");
    const redco_value a = redco_mul(m->r->g, redco_gelu_tanh(m->r->g, linear(m, "wi_0", y, D, F, false)),
                                    linear(m, "wi_1", y, D, F, false));
    op(m, "ffn_out");
    return redco_add(m->r->g, x, linear(m, "wo", a, F, D, false));
}

enum { SOURCE = 24 }; /* length of the encoder's sequence */

static void t5(model *m)
{
    redco_graph *g = m->r->g;
    redco_value bias = REDCO_NO_VALUE;
    layer(m, "embedding", 0);
    const redco_value words = weight(m, "words", DIMS(V, D));
    op(m, "embedding");
    redco_value x = redco_gather(g, words, fixture_integers(m->r, "source", DIMS(B, SOURCE), 0, V), NULL);
    for (uint32_t i = 0; i < LAYERS; i++) {
        layer(m, "encoder", i);
        const redco_value y = rms_norm(m, "attn_norm", x);
        if (i == 0) { bias = t5_bias(m, "source_buckets", SOURCE); }
        x = redco_add(g, x, t5_attention(m, "self", y, y, bias));
        x = t5_ffn(m, x);
    }
    const redco_value encoded = rms_norm(m, "last", x);
    layer(m, "embedding", 1);
    op(m, "embedding");
    x = redco_gather(g, words, fixture_integers(m->r, "ids", DIMS(B, S), 0, V), NULL);
    for (uint32_t i = 0; i < LAYERS; i++) {
        layer(m, "decoder", i);
        const redco_value y = rms_norm(m, "attn_norm", x);
        if (i == 0) { bias = t5_bias(m, "buckets", S); }
        x = redco_add(g, x, t5_attention(m, "self", y, y, bias));
        x = redco_add(g, x, t5_attention(m, "cross", rms_norm(m, "cross_norm", x), encoded, REDCO_NO_VALUE));
        x = t5_ffn(m, x);
    }
    layer(m, "head", 0);
    x = rms_norm(m, "norm", x);
    op(m, "head");
    fixture_finish(m->r, loss_of(m, redco_matmul(g, redco_scale(g, x, 0.2), words, false, true)));
}

/** Norms behind the residual, a learned type, all products are called dense. */
static void bert(model *m)
{
    redco_graph *g = m->r->g;
    layer(m, "embedding", 0);
    redco_value x = lookup(m, "words", V, fixture_integers(m->r, "ids", DIMS(B, S), 0, V));
    x = layer_norm(m, "norm",
                   redco_add(g, x, lookup(m, "types", 12, fixture_integers(m->r, "types", DIMS(B, S), 0, 2))));
    for (uint32_t i = 0; i < LAYERS; i++) {
        layer(m, "block", i);
        x = layer_norm(m, "ln_1", redco_add(g, x, self_attention(m, x, H, true, 0)));
        op(m, "ffn_in");
        const redco_value a = redco_gelu(g, linear(m, "up", x, D, F, true));
        op(m, "ffn_out");
        x = layer_norm(m, "ln_2", redco_add(g, x, linear(m, "down", a, F, D, true)));
    }
    layer(m, "head", 0);
    op(m, "head");
    fixture_finish(m->r, loss_of(m, linear(m, "decoder", x, D, V, true)));
}

typedef struct spec {
    const char *name; /**< end of a parameter's name */
    uint32_t dim;
} spec;

typedef struct family {
    const char *name;
    void (*build)(model *m);
    spec ideal[16];    /**< column and row pairs, tables by words, heads by words */
    spec redcoast[16]; /**< the answers of its rules: DESIGN's reference for the names */
    uint64_t sequences[2];
} family;

static const family families[] = {
    {"llama",
     llama,
     {{".q", 1},
      {".k", 1},
      {".v", 1},
      {".o", 0},
      {".gate", 1},
      {".up", 1},
      {".down", 0},
      {".words", 0},
      {".lm_head", 1}},
     {{".q", 1},
      {".k", 1},
      {".v", 1},
      {".o", 0},
      {".gate", 1},
      {".up", 1},
      {".down", 0},
      {".words", 0},
      {".lm_head", 1}},
     {S, 0}},
    /* Flax stores (out, in): c_attn becomes a row product; its vocabulary is odd: tables by columns. */
    {"gpt2",
     gpt2,
     {{".c_proj", 0}, {".c_fc", 1}, {".mlp_proj", 0}, {".words", 0}, {".places", 0}},
     {{".c_attn", 0}, {".c_proj", 0}, {".c_fc", 1}, {".mlp_proj", 0}, {".words", 1}, {".places", 1}},
     {S, 0}},
    /* At 4 ranks the 2050 places force the words to columns. */
    {"opt",
     opt,
     {{".q", 1}, {".k", 1}, {".v", 1}, {".o", 0}, {".fc1", 1}, {".fc2", 0}, {".words", 0}},
     {{".q", 1}, {".k", 1}, {".v", 1}, {".o", 0}, {".fc1", 1}, {".fc2", 0}, {".words", 1}, {".places", 1}},
     {S, 0}},
    {"gptj",
     gptj,
     {{".q", 1}, {".k", 1}, {".v", 1}, {".o", 0}, {".fc_in", 1}, {".fc_out", 0}, {".words", 0}, {".lm_head", 1}},
     {{".q", 1}, {".k", 1}, {".v", 1}, {".o", 0}, {".fc_in", 1}, {".fc_out", 0}, {".words", 0}, {".lm_head", 1}},
     {S, 0}},
    {"t5",
     t5,
     {{"_q", 1},
      {"_k", 1},
      {"_v", 1},
      {"_o", 0},
      {".wi_0", 1},
      {".wi_1", 1},
      {".wo", 0},
      {".words", 0},
      {".relative", 1}},
     {{"_q", 1},
      {"_k", 1},
      {"_v", 1},
      {"_o", 0},
      {".wi_0", 1},
      {".wi_1", 1},
      {".wo", 0},
      {".words", 0},
      {".relative", 0}},
     {SOURCE, S}},
    {"bert",
     bert,
     {{".q", 1}, {".k", 1}, {".v", 1}, {".o", 0}, {".up", 1}, {".down", 0}, {".words", 0}, {".decoder", 1}},
     {{".q", 1},
      {".k", 1},
      {".v", 1},
      {".o", 1},
      {".up", 1},
      {".down", 1},
      {".words", 1},
      {".types", 1},
      {".decoder", 1}},
     {S, 0}},
};
enum { FAMILIES = sizeof families / sizeof families[0] };

static void build(fixture *r, const family *f)
{
    model m = {.r = r};
    fixture_clear(r);
    f->build(&m);
    r->batch = B;
    r->sequences[0] = f->sequences[0];
    r->sequences[1] = f->sequences[1];
}

static void apply(fixture *r, const spec *specs, const family *f)
{
    for (uint32_t i = 0; i < r->inputs; i++) { r->input[i].layout = redco_tp_replicated(); }
    for (uint32_t i = 0; i < r->inputs; i++) {
        const size_t length = strlen(r->input[i].name);
        for (const spec *s = specs; s->name != NULL; s++) {
            const size_t end = strlen(s->name);
            if (length > end && strcmp(r->input[i].name + length - end, s->name) == 0 && r->input[i].parameter) {
                r->input[i].layout = redco_tp_split(s->dim);
            }
        }
    }
    if (specs == f->ideal && strcmp(f->name, "gpt2") == 0) { /* heads of q, k and v */
        for (uint32_t i = 0; i < LAYERS; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "block.%u.c_attn", i);
            fixture_set(r, name, (redco_tp_layout){REDCO_TP_SPLIT, 1, 3});
        }
    }
}

/** Traffic that RedCoast's table allows, in bytes: a gather or scatter counts once, an all-reduce twice. x: tokens by
 * hidden.
 */
static uint64_t table_cost(const family *f, bool redcoast, uint32_t n)
{
    const uint64_t x = T * D * E, xf = T * F * E, source = B * SOURCE * D * E, loss = 2 * 3 * T * E;
    const uint64_t ends = 2 * x + 2 * x + loss;     /* table and head by words */
    const uint64_t columns = 2 * x + T * V * E * 2; /* both by columns: gather, all-reduce of logits, gather */
    const uint64_t pairs = 4 * 2 * x;               /* two pairs, forward and backward */
    const uint64_t qkv_bias = 3 * D * E, up_bias = F * E;
    if (f->build == llama) { /* 6 key heads, 12 wide, are cut at 4 ranks: gathered, their gradients scattered */
        return LAYERS * (pairs + (n == 4 ? 2 * 2 * T * 12 * E : 0)) + ends;
    }
    if (f->build == gpt2 && redcoast) { /* c_attn by rows: all-reduce of 3 x, gather of dx; then rows, and a pair */
        return LAYERS * (2 * 3 * x + x + 2 * x + 2 * 2 * x + up_bias) + columns;
    }
    if (f->build == gpt2) { return LAYERS * (pairs + qkv_bias + up_bias) + ends; }
    if (f->build == opt) { return LAYERS * (pairs + qkv_bias + up_bias) + (redcoast ? columns : ends); }
    if (f->build == gptj) { return LAYERS * (2 * 2 * x + up_bias) + ends + V * E; }
    if (f->build == t5) { /* encoder 2 + 2, decoder 3 + 3, the encoder's output once; two tables of 12 buckets */
        return LAYERS * (4 * 2 * source + 6 * 2 * x) + 2 * source + 2 * source + ends +
               (redcoast ? 2 * 2 * 12 * H * E : 0);
    }
    if (redcoast) { /* bert: q, k, v and up columns of whole x; o and down of split x */
        return LAYERS * (2 * x + 3 * x + 2 * x + xf + x + xf + qkv_bias + up_bias + 2 * D * E) + x + 2 * x + loss +
               V * E;
    }
    return LAYERS * (pairs + qkv_bias + up_bias) + ends + V * E;
}

static uint64_t replicated_bytes(const fixture *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->inputs; i++) {
        const bool whole = r->input[i].layout.kind == REDCO_TP_REPLICATED;
        if (whole && r->input[i].parameter) { sum += redco_type_bytes(&r->input[i].type); }
    }
    return sum;
}

static void check_specs(fixture *r, bool sequence_parallel)
{
    for (uint32_t i = 0; i < FAMILIES; i++) {
        for (uint32_t k = 0; k < 2; k++) {
            build(r, &families[i]);
            r->sequence_parallel = sequence_parallel;
            apply(r, k == 0 ? families[i].ideal : families[i].redcoast, &families[i]);
            for (uint32_t n = 2; n <= 4; n++) {
                fixture_check(r, n, BOUND, families[i].name);
                const uint64_t table = table_cost(&families[i], k == 1, n);
                printf("%-6s %-9s %s n=%u: %2u collectives, all-reduce %6llu gather %6llu scatter %6llu, cost %6llu of "
                       "%6llu bytes\n",
                       families[i].name, k == 0 ? "ideal" : "redcoast", sequence_parallel ? "sp" : "  ", n,
                       r->traffic_count, (unsigned long long)fixture_bytes(r, REDCO_OP_ALL_REDUCE, ""),
                       (unsigned long long)fixture_bytes(r, REDCO_OP_ALL_GATHER, ""),
                       (unsigned long long)fixture_bytes(r, REDCO_OP_REDUCE_SCATTER, ""),
                       (unsigned long long)fixture_cost(r), (unsigned long long)table);
                if (!sequence_parallel) { assert_true(fixture_cost(r) <= table); }
                /* Gradients of what is whole beside split activations (norms, places) are all-reduced. */
                if (k == 0) { assert_true(fixture_cost(r) <= table + 2 * replicated_bytes(r)); }
            }
        }
    }
}

static void test_specs(void **state)
{
    check_specs(*state, false);
}

/* Key heads that every rank has whole: an all-reduce of their gradients, or a scatter and a gather. */
static void test_whole_keys(void **state)
{
    fixture *r = *state;
    for (uint32_t sp = 0; sp < 2; sp++) {
        build(r, &families[0]);
        apply(r, families[0].ideal, &families[0]);
        r->sequence_parallel = sp == 1;
        for (uint32_t i = 0; i < 2 * LAYERS; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "block.%u.%c", i / 2, "kv"[i % 2]);
            fixture_set(r, name, redco_tp_replicated());
        }
        fixture_check(r, 4, BOUND, "whole keys");
        assert_true(fixture_cost(r) <= table_cost(&families[0], false, 4) + 2 * replicated_bytes(r) * sp);
    }
}

static void test_sequence_parallel(void **state)
{
    check_specs(*state, true);
}

/* One layer of LLaMA, as the simulator calls it: costmodel/simulator/step.h. */
static void test_names(void **state)
{
    static const char *const wanted[2][9] = {{"fwd/block.1/attn_out/reduce", "fwd/block.1/ffn_out/reduce",
                                              "bwd/block.1/ffn_in/reduce", "bwd/block.1/qkv/reduce", NULL},
                                             {"fwd/block.1/qkv/tp_gather", "fwd/block.1/attn_out/tp_scatter",
                                              "fwd/block.1/ffn_in/tp_gather", "fwd/block.1/ffn_out/tp_scatter",
                                              "bwd/block.1/ffn_out/tp_gather", "bwd/block.1/ffn_in/tp_scatter",
                                              "bwd/block.1/attn_out/tp_gather", "bwd/block.1/qkv/tp_scatter", NULL}};
    fixture *r = *state;
    for (uint32_t sp = 0; sp < 2; sp++) {
        uint32_t found = 0;
        build(r, &families[0]);
        apply(r, families[0].ideal, &families[0]);
        r->sequence_parallel = sp == 1;
        fixture_check(r, 2, BOUND, "names");
        for (uint32_t i = 0; i < r->traffic_count; i++) {
            if (strstr(r->names[i], "block.1/") == NULL || strstr(r->names[i], "norm/reduce") != NULL) { continue; }
            assert_non_null(wanted[sp][found]);
            assert_string_equal(r->names[i], wanted[sp][found++]);
        }
        assert_null(wanted[sp][found]);
    }
}

static redco_tp_layout random_layout(fixture *r, const redco_tensor_type *type, uint32_t ranks)
{
    redco_tp_layout layout = {REDCO_TP_SPLIT, (uint32_t)fixture_below(r, type->rank), fixture_below(r, 4) == 0 ? 2 : 1};
    return fixture_below(r, 4) != 0 && redco_tp_fits(layout, type, ranks) ? layout : redco_tp_replicated();
}

/* Any parameter split on any dimension that divides, also in blocks, also inputs that are no parameters. */
static void test_random_specs(void **state)
{
    fixture *r = *state;
    uint32_t count = 0;
    for (uint32_t i = 0; i < FAMILIES; i++) {
        build(r, &families[i]);
        for (uint32_t round = 0; round < 12; round++) {
            const uint32_t ranks = 2 + (uint32_t)fixture_below(r, 3);
            char what[64];
            for (uint32_t k = 0; k < r->inputs; k++) {
                r->input[k].layout = r->input[k].parameter || fixture_below(r, 5) == 0
                                         ? random_layout(r, &r->input[k].type, ranks)
                                         : redco_tp_replicated();
            }
            r->sequence_parallel = fixture_below(r, 2) == 0;
            (void)snprintf(what, sizeof what, "%s, random specs %u", families[i].name, round);
            fixture_check(r, ranks, BOUND, what);
            count++;
        }
    }
    printf("%u random assignments of layouts\n", count);
}

static int open_fixture(void **state)
{
    static fixture r;
    fixture_open(&r, 5);
    *state = &r;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_specs), cmocka_unit_test(test_whole_keys),
                                       cmocka_unit_test(test_sequence_parallel), cmocka_unit_test(test_random_specs),
                                       cmocka_unit_test(test_names)};
    return cmocka_run_group_tests_name("partitioned models", tests, open_fixture, fixture_end);
}
