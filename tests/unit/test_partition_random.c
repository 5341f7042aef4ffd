/* Random graphs of all operators, their gradients and gradients of gradients, with random layouts of all inputs. */
#include "partition_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Results of some forty operators deep, relative to the largest gradient. */
#define BOUND 1e-10

enum { POOL = 96 };

typedef struct pool {
    fixture *r;
    redco_value value[POOL];
    uint32_t count;
    uint32_t serial;
} pool;

static redco_tensor_type type_of(const pool *b, redco_value v)
{
    assert_true(v < redco_graph_value_count(b->r->g));
    return *redco_value_type(b->r->g, v);
}

static uint64_t below(pool *b, uint64_t n)
{
    return fixture_below(b->r, n);
}

static redco_value any(pool *b)
{
    return b->value[below(b, b->count)];
}

/** The last value of that rank, counted from a random place. */
static redco_value of_rank(pool *b, uint32_t low, uint32_t high)
{
    const uint32_t from = (uint32_t)below(b, b->count);
    for (uint32_t i = 0; i < b->count; i++) {
        const redco_value v = b->value[(from + i) % b->count];
        const redco_tensor_type t = type_of(b, v);
        if (t.rank >= low && t.rank <= high) { return v; }
    }
    fail_msg("no value of rank %u to %u", low, high);
    return REDCO_NO_VALUE;
}

static void fresh_name(pool *b, char name[32])
{
    (void)snprintf(name, 32, "p%u", b->serial++);
}

static redco_value parameter(pool *b, const redco_tensor_type *type)
{
    char name[32];
    fresh_name(b, name);
    return fixture_parameter(b->r, name, type->rank, type->dim);
}

/** A value of that type: one that is there, or a new parameter. */
static redco_value alike(pool *b, const redco_tensor_type *type)
{
    for (uint32_t i = 0; i < b->count; i++) {
        const redco_tensor_type t = type_of(b, b->value[i]);
        if (redco_type_equal(&t, type) && below(b, 2) == 0) { return b->value[i]; }
    }
    return parameter(b, type);
}

static redco_value indices(pool *b, const redco_tensor_type *type, uint64_t rows, bool masked)
{
    char name[32];
    fresh_name(b, name);
    return fixture_integers(b->r, name, type->rank, type->dim, masked ? -2 : 0, (int32_t)rows);
}

static redco_value unary(pool *b)
{
    redco_graph *g = b->r->g;
    const redco_value a = any(b);
    switch (below(b, 9)) {
    case 0: return redco_neg(g, a);
    case 1: return redco_tanh(g, a);
    case 2: return redco_sigmoid(g, a);
    case 3: return redco_silu(g, a);
    case 4: return redco_gelu(g, a);
    case 5: return redco_sin(g, a);
    case 6: return redco_scale(g, a, 0.7);
    case 7: return redco_stop_gradient(g, a);
    default: return redco_cast(g, redco_cast(g, a, REDCO_F64), REDCO_F64);
    }
}

static redco_value binary(pool *b)
{
    redco_graph *g = b->r->g;
    const redco_value a = any(b);
    redco_tensor_type type = type_of(b, a);
    for (uint32_t d = 0; d < type.rank; d++) {
        if (below(b, 4) == 0) { type.dim[d] = 1; } /* repeated */
    }
    const redco_value c = alike(b, &type);
    switch (below(b, 6)) {
    case 0: return redco_sub(g, a, c);
    case 1: return redco_mul(g, a, c);
    case 2: return redco_max(g, c, a);
    case 3: return redco_select(g, redco_less(g, a, c), a, redco_tanh(g, c));
    default: return redco_add(g, a, c);
    }
}

static redco_value reduction(pool *b)
{
    const redco_value a = of_rank(b, 2, 4);
    const redco_tensor_type type = type_of(b, a);
    const uint32_t axis = (uint32_t)below(b, type.rank);
    const bool keep = type.rank == 2 || below(b, 2) == 0;
    if (below(b, 3) == 0) { return redco_reduce_max(b->r->g, a, 1, &axis, keep); }
    return redco_mean(b->r->g, a, 1, &axis, keep);
}

static redco_value move(pool *b)
{
    redco_graph *g = b->r->g;
    const redco_value a = of_rank(b, 2, 4);
    redco_tensor_type type = type_of(b, a);
    const uint32_t axis = (uint32_t)below(b, type.rank);
    uint64_t begin[REDCO_RANK_MAX] = {0};
    uint32_t order[4] = {0, 1, 2, 3};
    switch (below(b, 6)) {
    case 0:
        order[axis] = 0;
        order[0] = axis;
        return redco_transpose(g, a, order);
    case 1: /* folded: the first two, or the last two */
        if (type.rank < 3) { return redco_reshape(g, a, 1, (uint64_t[]){redco_type_elements(&type)}); }
        if (below(b, 2) == 0) {
            type.dim[1] *= type.dim[0];
            return redco_reshape(g, a, type.rank - 1, type.dim + 1);
        }
        type.dim[type.rank - 2] *= type.dim[type.rank - 1];
        return redco_reshape(g, a, type.rank - 1, type.dim);
    case 2: /* unfolded */
        if (type.rank > 3 || type.dim[type.rank - 1] % 4 != 0) { return a; }
        type.dim[type.rank] = type.dim[type.rank - 1] / 4;
        type.dim[type.rank - 1] = 4;
        return redco_reshape(g, a, type.rank + 1, type.dim);
    case 3:
        if (type.dim[axis] < 2) { return a; }
        type.dim[axis] =
            type.dim[axis] % 2 == 0 && below(b, 2) == 0 ? type.dim[axis] / 2 : 1 + below(b, type.dim[axis]);
        begin[axis] = type_of(b, a).dim[axis] - type.dim[axis];
        return redco_slice(g, a, begin, type.dim);
    case 4:
        if (redco_type_elements(&type) > 800) { return a; }
        begin[axis] = below(b, 2) * type.dim[axis];
        type.dim[axis] *= 2;
        return redco_pad(g, a, begin, type.dim);
    default: {
        if (redco_type_elements(&type) > 800) { return a; }
        const redco_value parts[3] = {a, alike(b, &type), alike(b, &type)};
        return redco_concat(g, parts, 2 + (uint32_t)below(b, 2), axis);
    }
    }
}

static redco_value product(pool *b)
{
    redco_graph *g = b->r->g;
    const redco_value a = of_rank(b, 2, 4);
    redco_tensor_type type = type_of(b, a);
    const uint32_t last = type.rank - 1;
    const bool ta = type.rank == 2 && below(b, 3) == 0, tb = below(b, 2) == 0;
    const uint64_t inner = type.dim[ta ? last - 1 : last], columns = below(b, 2) == 0 ? 12 : 24;
    if (below(b, 2) == 0) { /* a matrix for all */
        type.rank = 2;
        type.dim[2] = type.dim[3] = 0;
    }
    type.dim[type.rank - 2] = tb ? columns : inner;
    type.dim[type.rank - 1] = tb ? inner : columns;
    return redco_scale(g, redco_matmul(g, a, alike(b, &type), ta, tb), 0.2);
}

static redco_value rows(pool *b)
{
    redco_graph *g = b->r->g;
    const redco_value a = of_rank(b, 2, 4);
    const redco_tensor_type type = type_of(b, a);
    const redco_tensor_type vector = redco_type(REDCO_F64, 1, &type.dim[type.rank - 1]);
    redco_tensor_type lines = type;
    lines.dtype = REDCO_I32;
    lines.dim[--lines.rank] = 0;
    switch (below(b, 5)) {
    case 0: return redco_softmax(g, a);
    case 1: return redco_log_softmax(g, a);
    case 2: return redco_rms_norm(g, a, alike(b, &vector), 1e-2);
    case 3: return redco_layer_norm(g, a, alike(b, &vector), alike(b, &vector), 1e-2);
    default: {
        const bool masked = below(b, 2) == 0;
        return redco_cross_entropy(g, a, indices(b, &lines, type.dim[type.rank - 1], masked), masked);
    }
    }
}

static redco_value by_index(pool *b)
{
    redco_graph *g = b->r->g;
    const redco_value a = of_rank(b, 2, 3);
    const redco_tensor_type type = type_of(b, a);
    const redco_index_options options = {.masked = below(b, 2) == 0};
    redco_tensor_type index = redco_type(REDCO_I32, 2, (uint64_t[]){2, 12});
    switch (below(b, 4)) {
    case 0: return redco_gather(g, a, indices(b, &index, type.dim[0], options.masked), &options);
    case 1:
        index = redco_type(REDCO_I32, 1, type.dim);
        return redco_scatter_add(g, indices(b, &index, 12, options.masked), a, 12, &options);
    case 2:
        index = redco_type(REDCO_I32, type.rank - 1, type.dim);
        return redco_pick(g, a, indices(b, &index, type.dim[type.rank - 1], options.masked), &options);
    default:
        index = redco_type(REDCO_I32, type.rank, type.dim);
        if (redco_type_elements(&type) > 200) { return a; }
        return redco_unpick(g, indices(b, &index, 12, options.masked), a, 12, &options);
    }
}

static redco_value attention(pool *b)
{
    static const uint64_t groups[4] = {1, 2, 4, 12};
    const redco_attention_options options = {.causal = below(b, 2) == 0};
    const uint64_t keys = groups[below(b, 4)];
    const redco_tensor_type q = redco_type(REDCO_F64, 4, (uint64_t[]){2, 6, 12, 2});
    const redco_tensor_type k = redco_type(REDCO_F64, 4, (uint64_t[]){2, 6, keys, 2});
    redco_graph *g = b->r->g;
    redco_value cosines, sines;
    const redco_tensor_type places = redco_type(REDCO_I32, 1, (uint64_t[]){6});
    redco_rotary_tables(g, redco_iota(g, &places, 0), 2, 100, REDCO_F64, &cosines, &sines);
    const redco_value rotated = redco_rotary(g, alike(b, &k), cosines, sines, true);
    redco_value mask = REDCO_NO_VALUE;
    if (below(b, 2) == 0) {
        const uint64_t dim[4] = {1 + below(b, 2), below(b, 2) == 0 ? 1 : 12, below(b, 2) == 0 ? 1 : 6, 6};
        const redco_tensor_type seen = redco_type(REDCO_F64, 4, dim);
        mask = redco_less_equal(g, redco_scalar(g, REDCO_F64, -0.3), alike(b, &seen));
    }
    return redco_attend(g, redco_rotary(g, alike(b, &q), cosines, sines, true), rotated, alike(b, &k), mask, &options);
}

static redco_value dropped(pool *b)
{
    const redco_tensor_type key = redco_type(REDCO_I32, 1, (uint64_t[]){2});
    return redco_dropout(b->r->g, any(b), 0.25, indices(b, &key, 100, false), b->serial, NULL);
}

static void grow(pool *b)
{
    redco_value (*const ways[])(pool *) = {unary,   binary,  binary, reduction, move,      move,
                                           product, product, rows,   by_index,  attention, dropped};
    const redco_value v = ways[below(b, sizeof ways / sizeof ways[0])](b);
    redco_error err = {0};
    if (redco_graph_status(b->r->g, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    const redco_tensor_type type = type_of(b, v);
    if (type.rank == 0 || type.rank > 4 || redco_type_elements(&type) > 3000 || b->count == POOL) { return; }
    b->value[b->count++] = v;
}

static redco_value loss_of(pool *b)
{
    redco_graph *g = b->r->g;
    redco_value loss = redco_scalar(g, REDCO_F64, 0);
    for (uint32_t i = b->count > 8 ? b->count - 8 : 0; i < b->count; i++) {
        const redco_value v = redco_tanh(g, b->value[i]);
        loss = redco_add(g, loss, redco_mean_all(g, redco_mul(g, v, redco_shift(g, v, 0.3))));
    }
    return loss;
}

/** As MAML: the loss behind a step down the gradient. */
static redco_value second_loss(pool *b, redco_value loss)
{
    redco_graph *g = b->r->g;
    redco_value wrt[RIG_INPUTS], gradients[RIG_INPUTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < b->r->inputs; i++) {
        if (b->r->input[i].parameter) { wrt[count++] = b->r->input[i].value; }
    }
    redco_gradient(g, loss, wrt, count, gradients);
    for (uint32_t i = 0; i < count; i++) {
        const redco_value moved = redco_sub(g, wrt[i], redco_scale(g, gradients[i], 0.1));
        loss = redco_add(g, loss, redco_mean_all(g, redco_mul(g, moved, moved)));
    }
    return loss;
}

static redco_tp_layout random_layout(fixture *r, const redco_tensor_type *type, uint32_t ranks)
{
    const redco_tp_layout layout = {REDCO_TP_SPLIT, (uint32_t)fixture_below(r, type->rank),
                                    fixture_below(r, 4) == 0 ? 2 : 1};
    return fixture_below(r, 4) != 0 && redco_tp_fits(layout, type, ranks) ? layout : redco_tp_replicated();
}

static void run(fixture *r, uint32_t ops, bool twice, uint32_t round)
{
    static const uint64_t shapes[][4] = {{12, 24, 0, 0}, {2, 12, 24, 0}, {24, 12, 0, 0}, {2, 6, 12, 4}, {8, 12, 0, 0}};
    pool b = {.r = r};
    fixture_clear(r);
    for (uint32_t i = 0; i < 5; i++) {
        const redco_tensor_type type = redco_type(REDCO_F64, i == 3 ? 4 : i == 1 ? 3 : 2, shapes[i]);
        b.value[b.count++] = parameter(&b, &type);
    }
    for (uint32_t i = 0; i < ops; i++) { grow(&b); }
    redco_value loss = loss_of(&b);
    if (twice) { loss = second_loss(&b, loss); }
    fixture_finish(r, loss);
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t ranks = 2 + (uint32_t)fixture_below(r, 3);
        char what[64];
        for (uint32_t k = 0; k < r->inputs; k++) { r->input[k].layout = random_layout(r, &r->input[k].type, ranks); }
        r->sequence_parallel = fixture_below(r, 3) == 0;
        r->batch = 2;
        r->sequences[0] = 12;
        (void)snprintf(what, sizeof what, "random graph %u", round);
        fixture_check(r, ranks, BOUND, what);
    }
}

static uint32_t rounds(void)
{
    const char *text = getenv("REDCO_TEST_ROUNDS");
    return text == NULL ? 60 : (uint32_t)strtoul(text, NULL, 10);
}

static void test_graphs(void **state)
{
    for (uint32_t i = 0; i < rounds(); i++) { run(*state, 10 + i % 30, false, i); }
}

static void test_second_order(void **state)
{
    for (uint32_t i = 0; i < rounds() / 3; i++) { run(*state, 5 + i % 10, true, i); }
}

static int open_fixture(void **state)
{
    static fixture r;
    const char *seed = getenv("REDCO_TEST_SEED");
    fixture_open(&r, seed == NULL ? 11 : strtoull(seed, NULL, 10));
    *state = &r;
    return 0;
}

static int close_fixture(void **state)
{
    const fixture *r = *state;
    printf("%u random graphs and %u with gradients of gradients, 3 assignments of layouts each; worst error %.1e\n",
           rounds(), rounds() / 3, r->worst);
    fixture_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_graphs), cmocka_unit_test(test_second_order)};
    return cmocka_run_group_tests_name("partitioned random graphs", tests, open_fixture, close_fixture);
}
