/* Patterns of RedCoast's table one by one: results as of the whole graph, and the bytes of the table. */
#include "partition_fixture.h"

#include <stdio.h>

#define DIMS(...)                                                                                                      \
    (sizeof((uint64_t[]){__VA_ARGS__}) / 8), (uint64_t[])                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }
#define BOUND 1e-12

static const redco_op_kind AR = REDCO_OP_ALL_REDUCE, AG = REDCO_OP_ALL_GATHER, RS = REDCO_OP_REDUCE_SCATTER;

/* t = 12 tokens (2 sequences of 6), in = out of a block = 24, inner = 48; all f64: 8 bytes. */
enum { B = 2, S = 6, T = 12, D = 24, F = 48, E = 8 };

static void start(fixture *r)
{
    fixture_clear(r);
    redco_graph_set_layer(r->g, "block.0");
}

static void name(fixture *r, const char *op)
{
    redco_graph_set_operator(r->g, op);
}

static redco_value mean_square(fixture *r, redco_value y)
{
    redco_graph_set_layer(r->g, "head.0");
    name(r, "loss");
    return redco_mean_all(r->g, redco_mul(r->g, y, y));
}

static redco_value norm(fixture *r, const char *scale, redco_value x)
{
    name(r, scale);
    return redco_rms_norm(r->g, x, fixture_parameter(r, scale, DIMS(D)), 1e-5);
}

/** Every byte of the last partition is in one of these. */
static void assert_cost(const fixture *r, uint64_t all_reduce, uint64_t gather, uint64_t scatter, const char *what,
                        uint32_t ranks)
{
    const uint64_t ar = fixture_bytes(r, AR, ""), ag = fixture_bytes(r, AG, ""), rs = fixture_bytes(r, RS, "");
    if (ar != all_reduce || ag != gather || rs != scatter) {
        fixture_print(r);
        fail_msg("%s, %u ranks: all-reduce %llu gather %llu scatter %llu; wanted %llu %llu %llu", what, ranks,
                 (unsigned long long)ar, (unsigned long long)ag, (unsigned long long)rs, (unsigned long long)all_reduce,
                 (unsigned long long)gather, (unsigned long long)scatter);
    }
}

/* norm, column, gelu, row, residual: 1 all-reduce forward (row), 1 backward (dx of column). */
static void test_pair(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value x0 = fixture_parameter(r, "x", DIMS(B, S, D));
    const redco_value x = norm(r, "norm", x0);
    name(r, "ffn_in");
    const redco_value up = redco_matmul(r->g, x, fixture_parameter(r, "up", DIMS(D, F)), false, false);
    const redco_value a = redco_gelu(r->g, redco_add(r->g, up, fixture_parameter(r, "up_bias", DIMS(F))));
    name(r, "ffn_out");
    const redco_value down = redco_matmul(r->g, a, fixture_parameter(r, "down", DIMS(F, D)), false, false);
    const redco_value y = redco_add(r->g, down, fixture_parameter(r, "down_bias", DIMS(D)));
    fixture_finish(r, mean_square(r, norm(r, "last", redco_add(r->g, x0, y))));
    fixture_set(r, "up", redco_tp_split(1));
    fixture_set(r, "down", redco_tp_split(0));
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "column and row");
        /* bias of the column: the gradient is gathered, F elements */
        assert_cost(r, 2 * T * D * E, F * E, 0, "column and row", n);
        assert_int_equal(fixture_bytes(r, AR, "fwd/block.0/ffn_out/reduce"), T * D * E);
        assert_int_equal(fixture_bytes(r, AR, "bwd/block.0/ffn_in/reduce"), T * D * E);
    }
}

/* GPT-2's c_attn without heads, ViT's intermediate: the product after a norm is split by its input. */
static void test_row_of_whole(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value x0 = fixture_parameter(r, "x", DIMS(B, S, D));
    name(r, "ffn_in");
    const redco_value w = fixture_parameter(r, "w", DIMS(D, F));
    const redco_value x = norm(r, "norm", x0);
    name(r, "ffn_in");
    const redco_value y = redco_gelu(r->g, redco_matmul(r->g, x, w, false, false));
    fixture_finish(r, mean_square(r, y));
    fixture_set(r, "w", redco_tp_split(0));
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "row, x whole");
        assert_cost(r, T * F * E, T * D * E, 0, "row, x whole", n);
    }
}

/* BERT outputs, Bloom's dense: two column products in a row. */
static void test_column_of_split(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value x0 = fixture_parameter(r, "x", DIMS(B, S, D));
    const redco_value x = norm(r, "norm", x0);
    name(r, "ffn_in");
    const redco_value a = redco_gelu(r->g, redco_matmul(r->g, x, fixture_parameter(r, "up", DIMS(D, F)), false, false));
    name(r, "ffn_out");
    const redco_value y = redco_matmul(r->g, a, fixture_parameter(r, "down", DIMS(F, D)), false, false);
    fixture_finish(r, mean_square(r, norm(r, "last", redco_add(r->g, x0, y))));
    fixture_set(r, "up", redco_tp_split(1));
    fixture_set(r, "down", redco_tp_split(1));
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "column, x split");
        /* up: dx. down: gather x and y; scatter dx */
        assert_cost(r, T * D * E, T * F * E + T * D * E, T * F * E, "column, x split", n);
    }
}

/* Rows of the table, then columns of it. */
static void test_embedding(void **state)
{
    fixture *r = *state;
    for (uint32_t dim = 0; dim < 2; dim++) {
        start(r);
        const redco_value ids = fixture_integers(r, "ids", DIMS(B, S), 0, 48);
        name(r, "embedding");
        const redco_value x = redco_gather(r->g, fixture_parameter(r, "table", DIMS(48, D)), ids, NULL);
        fixture_finish(r, mean_square(r, norm(r, "norm", x)));
        fixture_set(r, "table", redco_tp_split(dim));
        for (uint32_t n = 2; n <= 4; n++) {
            fixture_check(r, n, BOUND, "embedding");
            assert_cost(r, dim == 0 ? T * D * E : 0, dim == 0 ? 0 : T * D * E, 0, "embedding", n);
        }
    }
}

/* OPT: tables of words and places, added: one all-reduce of both together. */
static void test_two_tables(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value ids = fixture_integers(r, "ids", DIMS(B, S), 0, 48);
    const redco_value places = fixture_integers(r, "places", DIMS(S), 0, 12);
    name(r, "embedding");
    const redco_value x = redco_add(r->g, redco_gather(r->g, fixture_parameter(r, "words", DIMS(48, D)), ids, NULL),
                                    redco_gather(r->g, fixture_parameter(r, "table", DIMS(12, D)), places, NULL));
    fixture_finish(r, mean_square(r, norm(r, "norm", x)));
    for (uint32_t dim = 0; dim < 2; dim++) {
        fixture_set(r, "words", redco_tp_split(dim));
        fixture_set(r, "table", redco_tp_split(dim));
        for (uint32_t n = 2; n <= 4; n++) {
            fixture_check(r, n, BOUND, "two tables");
            assert_cost(r, dim == 0 ? T * D * E : 0, dim == 0 ? 0 : T * D * E, 0, "two tables", n);
        }
    }
}

/* Cross-entropy over words that every rank has a part of; some targets are -100. */
static void head(fixture *r, bool tied, bool masked)
{
    start(r);
    const redco_value x0 = fixture_parameter(r, "x", DIMS(B, S, D));
    const redco_value targets = fixture_integers(r, "targets", DIMS(B, S), masked ? -20 : 0, 48);
    const redco_value x = norm(r, "norm", x0);
    redco_graph_set_layer(r->g, "head.0");
    name(r, "head");
    const redco_value w = tied ? fixture_parameter(r, "w", DIMS(48, D)) : fixture_parameter(r, "w", DIMS(D, 48));
    const redco_value logits = redco_matmul(r->g, x, w, false, tied);
    name(r, "loss");
    fixture_finish(r, redco_mean_all(r->g, redco_cross_entropy(r->g, logits, targets, masked)));
}

static void test_head(void **state)
{
    fixture *r = *state;
    for (uint32_t i = 0; i < 4; i++) {
        const bool tied = (i & 1) != 0, masked = (i & 2) != 0;
        head(r, tied, masked);
        fixture_set(r, "w", redco_tp_split(tied ? 0 : 1));
        for (uint32_t n = 2; n <= 4; n++) {
            fixture_check(r, n, BOUND, "head by words");
            assert_cost(r, 3 * T * E + T * D * E, 0, 0, "head by words", n);
            assert_int_equal(fixture_bytes(r, AR, "fwd/head.0/loss/reduce"), 3 * T * E);
            assert_int_equal(fixture_bytes(r, AR, "bwd/head.0/head/reduce"), T * D * E);
        }
    }
}

/* Tied to a table split by columns: the logits are summed. */
static void test_head_by_columns(void **state)
{
    fixture *r = *state;
    head(r, true, false);
    fixture_set(r, "w", redco_tp_split(1));
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "head by columns");
        assert_cost(r, T * 48 * E, T * D * E, 0, "head by columns", n);
    }
}

/* Self-attention; @p groups key heads of 12 query heads of size 2. */
enum { H = 12 };

static redco_value attention(fixture *r, redco_value x, uint64_t heads, uint64_t groups, uint64_t size)
{
    const uint64_t q_dim[4] = {B, S, heads, size}, k_dim[4] = {B, S, groups, size}, flat[3] = {B, S, heads * size};
    const redco_attention_options causal = {.causal = true};
    redco_value cosines, sines;
    name(r, "qkv");
    const redco_value q = redco_matmul(r->g, x, fixture_parameter(r, "q", DIMS(D, heads * size)), false, false);
    const redco_value k = redco_matmul(r->g, x, fixture_parameter(r, "k", DIMS(D, groups * size)), false, false);
    const redco_value v = redco_matmul(r->g, x, fixture_parameter(r, "v", DIMS(D, groups * size)), false, false);
    const redco_tensor_type places = redco_type(REDCO_I32, 1, (uint64_t[]){S});
    name(r, "attention");
    redco_rotary_tables(r->g, redco_iota(r->g, &places, 0), size, 100, REDCO_F64, &cosines, &sines);
    const redco_value qr = redco_rotary(r->g, redco_reshape(r->g, q, 4, q_dim), cosines, sines, false);
    const redco_value kr = redco_rotary(r->g, redco_reshape(r->g, k, 4, k_dim), cosines, sines, false);
    const redco_value o = redco_attend(r->g, qr, kr, redco_reshape(r->g, v, 4, k_dim), REDCO_NO_VALUE, &causal);
    name(r, "attn_out");
    return redco_matmul(r->g, redco_reshape(r->g, o, 3, flat), fixture_parameter(r, "o", DIMS(heads * size, D)), false,
                        false);
}

static void attention_block(fixture *r, uint64_t heads, uint64_t groups, uint64_t size)
{
    start(r);
    const redco_value x = fixture_parameter(r, "x", DIMS(B, S, D));
    const redco_value y = attention(r, norm(r, "norm", x), heads, groups, size);
    fixture_finish(r, mean_square(r, norm(r, "last", redco_add(r->g, x, y))));
    fixture_set(r, "q", redco_tp_split(1));
    fixture_set(r, "k", redco_tp_split(1));
    fixture_set(r, "v", redco_tp_split(1));
    fixture_set(r, "o", redco_tp_split(0));
}

static void test_attention(void **state)
{
    fixture *r = *state;
    attention_block(r, H, H, 2);
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "attention");
        assert_cost(r, 2 * T * D * E, 0, 0, "attention", n);
        assert_int_equal(fixture_bytes(r, AR, "bwd/block.0/qkv/reduce"), T * D * E); /* once for q, k and v */
    }
}

/* One key head of size 12: cut inside; every rank gathers it and uses it whole. Two of size 12: at 4 ranks each serves
 * two ranks, at 2 they divide. At 3, with 12 query heads, rank 1's queries use both. */
static void test_cut_heads(void **state)
{
    fixture *r = *state;
    attention_block(r, H, 1, 12);
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "one key head");
        assert_cost(r, 2 * T * D * E, 2 * T * 12 * E, 2 * T * 12 * E, "one key head", n);
    }
    attention_block(r, H, 2, 12);
    fixture_check(r, 2, BOUND, "two key heads");
    assert_cost(r, 2 * T * D * E, 0, 0, "two key heads", 2);
    fixture_check(r, 4, BOUND, "two key heads");
    assert_cost(r, 2 * T * D * E, 2 * T * 24 * E, 2 * T * 24 * E, "two key heads", 4);
    fixture_check(r, 3, BOUND, "two key heads");
    assert_cost(r, 2 * T * D * E, 2 * T * 24 * E, 2 * T * 24 * E, "two key heads", 3);
    attention_block(r, 5, 5, 12); /* an odd count of heads */
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "five heads");
        assert_cost(r, 2 * T * D * E, T * (180 + 60) * E, 0, "five heads", n);
        assert_true(fixture_cost(r) <= 2 * 2 * T * D * E + 2 * T * 180 * E);
    }
}

/* Key heads that every rank has whole, as a layout table may say. */
static void test_whole_keys(void **state)
{
    fixture *r = *state;
    attention_block(r, H, 1, 12);
    fixture_set(r, "k", redco_tp_replicated());
    fixture_set(r, "v", redco_tp_replicated());
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "replicated key head");
        assert_cost(r, 2 * T * D * E + 2 * T * 12 * E, 0, 0, "replicated key head", n);
    }
}

/* Fused query, key, value of GPT-2, split by its input: scattered to the heads, gathered for the gradient. */
static void fused_block(fixture *r)
{
    const uint64_t heads[4] = {B, S, H, 2}, flat[3] = {B, S, D};
    const redco_attention_options causal = {.causal = true};
    redco_value part[3];
    start(r);
    const redco_value x = fixture_parameter(r, "x", DIMS(B, S, D));
    const redco_value y = norm(r, "norm", x);
    name(r, "qkv");
    const redco_value qkv =
        redco_add(r->g, redco_matmul(r->g, y, fixture_parameter(r, "c_attn", DIMS(D, 3 * D)), false, false),
                  fixture_parameter(r, "c_bias", DIMS(3 * D)));
    for (uint32_t i = 0; i < 3; i++) {
        part[i] = redco_reshape(r->g, redco_slice_axis(r->g, qkv, 2, i * D, D), 4, heads);
    }
    name(r, "attention");
    const redco_value o = redco_attend(r->g, part[0], part[1], part[2], REDCO_NO_VALUE, &causal);
    name(r, "attn_out");
    const redco_value out =
        redco_matmul(r->g, redco_reshape(r->g, o, 3, flat), fixture_parameter(r, "c_proj", DIMS(D, D)), false, false);
    fixture_finish(r, mean_square(r, norm(r, "last", redco_add(r->g, x, out))));
}

static void test_fused(void **state)
{
    fixture *r = *state;
    fused_block(r);
    fixture_set(r, "c_attn", redco_tp_split(0));
    fixture_set(r, "c_proj", redco_tp_split(0));
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "fused, by rows");
        /* c_attn: scatter 3 D, gather its gradient, gather dx; c_proj: all-reduce. The bias' gradient comes from
         * the gathered one. Table: an all-reduce of 3 D and a gather of D, and the same for c_proj. */
        assert_cost(r, T * D * E, T * 3 * D * E + T * D * E, T * 3 * D * E, "fused, by rows", n);
        assert_true(fixture_cost(r) <= 2 * 3 * T * D * E + T * D * E + 2 * T * D * E);
    }
    /* Heads of q, k and v by blocks: as Megatron stores it, no traffic but the two all-reduces. */
    fixture_set(r, "c_attn", (redco_tp_layout){REDCO_TP_SPLIT, 1, 3});
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "fused, by heads");
        assert_cost(r, 2 * T * D * E, 3 * D * E, 0, "fused, by heads", n);
    }
    /* Contiguous columns are no heads: gathered. */
    fixture_set(r, "c_attn", redco_tp_split(1));
    for (uint32_t n = 2; n <= 4; n++) { fixture_check(r, n, BOUND, "fused, by columns"); }
}

/* GPT-J: attention and MLP read one norm; one all-reduce forward and one backward, with or without biases. */
static void test_parallel_block(void **state)
{
    fixture *r = *state;
    for (uint32_t order = 0; order < 2; order++) {
        start(r);
        const redco_value x0 = fixture_parameter(r, "x", DIMS(B, S, D));
        const redco_value x = norm(r, "norm", x0);
        const redco_value a = attention(r, x, H, H, 2);
        name(r, "ffn_in");
        const redco_value up = redco_matmul(r->g, x, fixture_parameter(r, "up", DIMS(D, F)), false, false);
        const redco_value f = redco_gelu_tanh(r->g, redco_add(r->g, up, fixture_parameter(r, "up_bias", DIMS(F))));
        name(r, "ffn_out");
        redco_value m = redco_matmul(r->g, f, fixture_parameter(r, "down", DIMS(F, D)), false, false);
        m = redco_add(r->g, m, fixture_parameter(r, "down_bias", DIMS(D)));
        const redco_value y =
            order == 0 ? redco_add(r->g, redco_add(r->g, a, m), x0) : redco_add(r->g, redco_add(r->g, x0, a), m);
        fixture_finish(r, mean_square(r, norm(r, "last", y)));
        for (uint32_t i = 0; i < 4; i++) {
            fixture_set(r, (const char *[]){"q", "k", "v", "up"}[i], redco_tp_split(1));
        }
        fixture_set(r, "o", redco_tp_split(0));
        fixture_set(r, "down", redco_tp_split(0));
        for (uint32_t n = 2; n <= 4; n++) {
            fixture_check(r, n, BOUND, "parallel block");
            assert_cost(r, 2 * T * D * E, F * E, 0, "parallel block", n);
        }
    }
}

/* T5's relative bias (buckets, heads), split by bucket or by head, added to split scores. */
static void test_relative_bias(void **state)
{
    fixture *r = *state;
    for (uint32_t dim = 0; dim < 2; dim++) {
        start(r);
        const uint32_t forward[4] = {0, 2, 1, 3}, heads_first[3] = {2, 0, 1};
        const uint64_t heads[4] = {B, S, H, 2}, bias_dim[4] = {1, H, S, S}, flat[3] = {B, S, D};
        redco_value part[3];
        const redco_value x0 = fixture_parameter(r, "x", DIMS(B, S, D));
        const redco_value buckets = fixture_integers(r, "buckets", DIMS(S, S), 0, 12);
        const redco_value x = norm(r, "norm", x0);
        name(r, "qkv");
        for (uint32_t i = 0; i < 3; i++) {
            const redco_value w = fixture_parameter(r, (const char *[]){"q", "k", "v"}[i], DIMS(D, D));
            part[i] =
                redco_transpose(r->g, redco_reshape(r->g, redco_matmul(r->g, x, w, false, false), 4, heads), forward);
        }
        name(r, "attention");
        const redco_value bias = redco_transpose(
            r->g, redco_gather(r->g, fixture_parameter(r, "relative", DIMS(12, H)), buckets, NULL), heads_first);
        const redco_value scores =
            redco_add(r->g, redco_matmul(r->g, part[0], part[1], false, true), redco_reshape(r->g, bias, 4, bias_dim));
        const redco_value o =
            redco_transpose(r->g, redco_matmul(r->g, redco_softmax(r->g, scores), part[2], false, false), forward);
        name(r, "attn_out");
        const redco_value y =
            redco_matmul(r->g, redco_reshape(r->g, o, 3, flat), fixture_parameter(r, "o", DIMS(D, D)), false, false);
        fixture_finish(r, mean_square(r, norm(r, "last", redco_add(r->g, x0, y))));
        for (uint32_t i = 0; i < 3; i++) { fixture_set(r, (const char *[]){"q", "k", "v"}[i], redco_tp_split(1)); }
        fixture_set(r, "o", redco_tp_split(0));
        fixture_set(r, "relative", redco_tp_split(dim));
        for (uint32_t n = 2; n <= 4; n++) {
            fixture_check(r, n, BOUND, "relative bias");
            /* by bucket: the table is gathered, its gradient is gathered too (the table says scattered: as many) */
            assert_cost(r, 2 * T * D * E, dim == 0 ? 2 * 12 * H * E : 0, 0, "relative bias", n);
        }
    }
}

/* A value that two operators read is reduced once, whether they add to it or scale it. */
static void test_shared_sum(void **state)
{
    fixture *r = *state;
    for (uint32_t scaled = 0; scaled < 2; scaled++) {
        start(r);
        redco_value read[2];
        const redco_value x = fixture_parameter(r, "x", DIMS(T, F));
        const redco_value y = redco_matmul(r->g, x, fixture_parameter(r, "w", DIMS(F, D)), false, false);
        for (uint32_t i = 0; i < 2; i++) {
            const redco_value c = fixture_parameter(r, i == 0 ? "c" : "d", DIMS(T, D));
            const redco_value changed = scaled == 1 ? redco_scale(r->g, y, 2.0 + i) : redco_add(r->g, y, c);
            read[i] = redco_tanh(r->g, redco_mul(r->g, changed, c));
        }
        fixture_finish(r, mean_square(r, redco_add(r->g, read[0], read[1])));
        fixture_set(r, "x", redco_tp_split(1));
        fixture_set(r, "w", redco_tp_split(0));
        for (uint32_t n = 2; n <= 4; n++) {
            fixture_check(r, n, BOUND, "sum that two read");
            assert_cost(r, T * D * E, 0, 0, "sum that two read", n);
        }
    }
}

/* A column and a row product are added: the partial sum is scattered to the columns, and both are gathered at once. */
static void test_mixed_sum(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value x = fixture_data(r, "x", DIMS(T, D)), z = fixture_data(r, "z", DIMS(T, F));
    const redco_value column = redco_matmul(r->g, x, fixture_parameter(r, "a", DIMS(D, D)), false, false);
    const redco_value row = redco_matmul(r->g, z, fixture_parameter(r, "b", DIMS(F, D)), false, false);
    fixture_finish(r, mean_square(r, norm(r, "norm", redco_add(r->g, column, row))));
    fixture_set(r, "a", redco_tp_split(1));
    fixture_set(r, "b", redco_tp_split(0));
    fixture_set(r, "z", redco_tp_split(1));
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "column and row added");
        assert_cost(r, 0, T * D * E, T * D * E, "column and row added", n);
    }
}

/* Two row products side by side before a third whose rows are split in two blocks: scattered, not summed whole. */
static void test_concatenated(void **state)
{
    fixture *r = *state;
    start(r);
    redco_value half[2];
    const redco_value x = fixture_data(r, "x", DIMS(T, F));
    for (uint32_t i = 0; i < 2; i++) {
        const redco_value w = fixture_parameter(r, i == 0 ? "a" : "b", DIMS(F, D));
        half[i] = redco_tanh(r->g, redco_matmul(r->g, x, w, false, false));
    }
    const redco_value both = redco_concat(r->g, half, 2, 1);
    const redco_value y = redco_matmul(r->g, both, fixture_parameter(r, "c", DIMS(2 * D, D)), false, false);
    fixture_finish(r, mean_square(r, y));
    fixture_set(r, "x", redco_tp_split(1));
    fixture_set(r, "a", redco_tp_split(0));
    fixture_set(r, "b", redco_tp_split(0));
    fixture_set(r, "c", (redco_tp_layout){REDCO_TP_SPLIT, 0, 2});
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, BOUND, "side by side");
        /* y is all-reduced; the gradients of both halves are gathered for those of their weights */
        assert_cost(r, T * D * E, 2 * T * D * E, 2 * T * D * E, "side by side", n);
    }
}

/* The model itself reads the part of x that rank 0 would take of it: still the same operators on all ranks. */
static void test_own_slice_of_model(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value x = redco_tanh(r->g, fixture_parameter(r, "x", DIMS(T, D)));
    const redco_value part = redco_silu(r->g, redco_slice_axis(r->g, x, 1, 0, D / 2));
    const redco_value y = redco_matmul(r->g, x, fixture_parameter(r, "w", DIMS(D, D / 2)), false, false);
    fixture_finish(r, mean_square(r, redco_mul(r->g, part, y)));
    fixture_set(r, "w", redco_tp_split(0));
    fixture_check(r, 2, BOUND, "slice of the model");
    /* y, and the gradient of x; x itself stays whole */
    assert_cost(r, T * D / 2 * E, T * D * E, 0, "slice of the model", 2);
}

static uint64_t drawn_elements(fixture *r, uint32_t ranks)
{
    redco_value outputs[RIG_INPUTS + 1];
    redco_graph *local = NULL;
    uint64_t elements = 0;
    assert_int_equal(fixture_partition(r, ranks, 1, &local, outputs, NULL), REDCO_OK);
    for (uint32_t i = 0; i < redco_graph_op_count(local); i++) {
        const redco_op *op = redco_graph_op(local, i);
        if (op->kind != REDCO_OP_UNIFORM) { continue; }
        elements += redco_type_elements(redco_value_type(local, op->first_output));
    }
    redco_graph_free(local);
    return elements;
}

/* Dropout draws the same numbers however it is cut: before, inside and behind the split products. */
static void test_dropout(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value key = fixture_integers(r, "key", DIMS(2), 0, 1000);
    const redco_value x0 = fixture_parameter(r, "x", DIMS(B, S, D));
    const redco_value x = norm(r, "norm", redco_dropout(r->g, x0, 0.2, key, 1, NULL));
    name(r, "ffn_in");
    redco_value a = redco_gelu(r->g, redco_matmul(r->g, x, fixture_parameter(r, "up", DIMS(D, F)), false, false));
    a = redco_dropout(r->g, a, 0.3, key, 2, NULL);
    name(r, "ffn_out");
    const redco_value y = redco_matmul(r->g, a, fixture_parameter(r, "down", DIMS(F, D)), false, false);
    const redco_value z = redco_add(r->g, x0, redco_dropout(r->g, y, 0.1, key, 3, NULL));
    fixture_finish(r, mean_square(r, norm(r, "last", z)));
    fixture_set(r, "up", redco_tp_split(1));
    fixture_set(r, "down", redco_tp_split(0));
    for (uint32_t sp = 0; sp < 2; sp++) {
        r->sequence_parallel = sp == 1;
        r->batch = B;
        r->sequences[0] = S;
        for (uint32_t n = 2; n < 4; n++) {
            fixture_check(r, n, BOUND, "dropout");
            if (sp == 0) { assert_cost(r, 2 * T * D * E, 0, 0, "dropout", n); }
            /* Inside the pair a rank draws its columns; before and behind it all, or its part of the sequence. */
            assert_int_equal(drawn_elements(r, n), T * F / n + 2 * T * D / (sp == 1 ? n : 1));
        }
    }
}

/* Noise on a split weight is drawn where the weight is: the own part of it alone, with the same numbers. */
static void test_noise_on_weight(void **state)
{
    fixture *r = *state;
    start(r);
    const redco_value key = fixture_integers(r, "key", DIMS(2), 0, 1000);
    const redco_tensor_type type = redco_type(REDCO_F64, DIMS(D, F));
    const redco_value x = fixture_parameter(r, "x", DIMS(T, D));
    const redco_value noise = redco_uniform(r->g, key, 1, &type, NULL);
    const redco_value w = redco_add(r->g, fixture_parameter(r, "w", DIMS(D, F)), noise);
    fixture_finish(r, mean_square(r, redco_matmul(r->g, x, w, false, false)));
    fixture_set(r, "w", redco_tp_split(1));
    for (uint32_t n = 2; n < 4; n++) {
        fixture_check(r, n, BOUND, "noise on a weight");
        assert_int_equal(drawn_elements(r, n), D * F / n);
    }
}

static int open_fixture(void **state)
{
    static fixture r;
    fixture_open(&r, 1);
    *state = &r;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair),
        cmocka_unit_test(test_row_of_whole),
        cmocka_unit_test(test_column_of_split),
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_two_tables),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_head_by_columns),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_cut_heads),
        cmocka_unit_test(test_whole_keys),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_parallel_block),
        cmocka_unit_test(test_relative_bias),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_noise_on_weight),
        cmocka_unit_test(test_shared_sum),
        cmocka_unit_test(test_mixed_sum),
        cmocka_unit_test(test_concatenated),
        cmocka_unit_test(test_own_slice_of_model),
    };
    return cmocka_run_group_tests_name("partition", tests, open_fixture, fixture_end);
}
