/* Models of real sizes, as graphs only: choices must not turn with the sizes. LLaMA-2-70B's shapes (grouped heads),
 * OPT-6.7B's (biases, tied table, learned places) and GPT-J-6B's (parallel block), in bf16 with f32 weights, at 2 to 16
 * ranks and at short and long sequences: the bytes of RedCoast's table. */
#include "partition_fixture.h"

#include "costmodel/graph/differentiate.h"
#include "costmodel/layouts/partition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define DIMS(...)                                                                                                      \
    (sizeof((uint64_t[]){__VA_ARGS__}) / 8), (uint64_t[])                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

enum { PARAMETERS = 1024, HALF = 2, SINGLE = 4 }; /* bytes */

typedef struct shape {
    const char *name;
    uint64_t layers, hidden, heads, groups, inner, words;
    bool gated, bias, tied, parallel;
} shape;

static const shape shapes[] = {
    {"llama", 80, 8192, 64, 8, 28672, 32000, true, false, false, false},
    {"opt", 32, 4096, 32, 32, 16384, 50272, false, true, true, false},
    {"gptj", 28, 4096, 16, 16, 16384, 50400, false, true, false, true},
};

typedef struct site {
    redco_graph *g;
    const shape *s;
    uint64_t batch, sequence;
    redco_value parameter[PARAMETERS];
    char name[PARAMETERS][40];
    redco_tp_layout layout[PARAMETERS];
    uint32_t count;
    char layer[24];
} site;

/** A parameter in f32, read as bf16. @param dim  to be split, or -1 */
static redco_value weight(site *m, const char *name, int dim, uint32_t rank, const uint64_t *dims)
{
    const redco_tensor_type type = redco_type(REDCO_F32, rank, dims);
    assert_true(m->count < PARAMETERS);
    (void)snprintf(m->name[m->count], sizeof m->name[0], "%s.%s", m->layer, name);
    m->parameter[m->count] = redco_parameter(m->g, m->name[m->count], &type);
    m->layout[m->count] = dim < 0 ? redco_tp_replicated() : redco_tp_split((uint32_t)dim);
    return redco_cast(m->g, m->parameter[m->count++], REDCO_BFLOAT16);
}

static void enter(site *m, const char *kind, uint64_t index)
{
    (void)snprintf(m->layer, sizeof m->layer, "%s.%u", kind, (unsigned)index);
    redco_graph_set_layer(m->g, m->layer);
}

static redco_value linear(site *m, const char *name, redco_value x, uint64_t in, uint64_t out, int dim, bool bias)
{
    char full[24];
    const redco_value y = redco_matmul(m->g, x, weight(m, name, dim, DIMS(in, out)), false, false);
    (void)snprintf(full, sizeof full, "%s_bias", name);
    return bias ? redco_add(m->g, y, weight(m, full, -1, DIMS(out))) : y;
}

static redco_value norm(site *m, const char *name, redco_value x)
{
    redco_graph_set_operator(m->g, name);
    return redco_rms_norm(m->g, x, weight(m, name, -1, DIMS(m->s->hidden)), 1e-5);
}

static redco_value attention(site *m, redco_value x)
{
    const shape *s = m->s;
    const bool bias = s->bias && !s->parallel;
    const uint64_t size = s->hidden / s->heads;
    const redco_attention_options causal = {.causal = true};
    const redco_tensor_type places = redco_type(REDCO_I32, 1, &m->sequence);
    redco_value cosines, sines;
    redco_graph_set_operator(m->g, "qkv");
    redco_value q = linear(m, "q", x, s->hidden, s->hidden, 1, bias);
    redco_value k = linear(m, "k", x, s->hidden, s->groups * size, 1, bias);
    redco_value v = linear(m, "v", x, s->hidden, s->groups * size, 1, bias);
    redco_graph_set_operator(m->g, "attention");
    q = redco_reshape(m->g, q, DIMS(m->batch, m->sequence, s->heads, size));
    k = redco_reshape(m->g, k, DIMS(m->batch, m->sequence, s->groups, size));
    v = redco_reshape(m->g, v, DIMS(m->batch, m->sequence, s->groups, size));
    redco_rotary_tables(m->g, redco_iota(m->g, &places, 0), size, 1e4, REDCO_F32, &cosines, &sines);
    const redco_value o = redco_attend(m->g, redco_rotary(m->g, q, cosines, sines, false),
                                       redco_rotary(m->g, k, cosines, sines, false), v, REDCO_NO_VALUE, &causal);
    redco_graph_set_operator(m->g, "attn_out");
    const redco_value flat = redco_reshape(m->g, o, DIMS(m->batch, m->sequence, s->hidden));
    return linear(m, "o", flat, s->hidden, s->hidden, 0, bias);
}

static redco_value feed_forward(site *m, redco_value x)
{
    const shape *s = m->s;
    redco_graph_set_operator(m->g, "ffn_in");
    redco_value a = redco_silu(m->g, linear(m, "up", x, s->hidden, s->inner, 1, s->bias));
    if (s->gated) { a = redco_mul(m->g, a, linear(m, "gate", x, s->hidden, s->inner, 1, false)); }
    redco_graph_set_operator(m->g, "ffn_out");
    return linear(m, "down", a, s->inner, s->hidden, 0, s->bias);
}

static redco_value block(site *m, redco_value x)
{
    const redco_value y = norm(m, "attn_norm", x);
    const redco_value a = attention(m, y);
    if (m->s->parallel) { return redco_add(m->g, redco_add(m->g, a, feed_forward(m, y)), x); }
    x = redco_add(m->g, x, a);
    return redco_add(m->g, x, feed_forward(m, norm(m, "ffn_norm", x)));
}

static redco_value build(site *m)
{
    const shape *s = m->s;
    const redco_tensor_type tokens = redco_type(REDCO_I32, 2, (uint64_t[]){m->batch, m->sequence});
    const redco_tensor_type line = redco_type(REDCO_I32, 1, &m->sequence);
    const redco_value ids = redco_input(m->g, "ids", &tokens), targets = redco_input(m->g, "targets", &tokens);
    enter(m, "embedding", 0);
    redco_graph_set_operator(m->g, "embedding");
    const redco_value words = weight(m, "words", 0, DIMS(s->words, s->hidden));
    redco_value x = redco_gather(m->g, words, ids, NULL);
    if (s->tied) {
        const redco_value places = weight(m, "places", -1, DIMS(m->sequence, s->hidden));
        x = redco_add(m->g, x, redco_gather(m->g, places, redco_iota(m->g, &line, 0), NULL));
    }
    for (uint64_t i = 0; i < s->layers; i++) {
        enter(m, "block", i);
        x = block(m, x);
    }
    enter(m, "head", 0);
    x = norm(m, "norm", x);
    redco_graph_set_operator(m->g, "head");
    const redco_value logits =
        s->tied ? redco_matmul(m->g, x, words, false, true) : linear(m, "lm_head", x, s->hidden, s->words, 1, false);
    redco_graph_set_operator(m->g, "loss");
    return redco_mean_all(m->g, redco_cross_entropy(m->g, logits, targets, true));
}

/** @return bytes, all-reduces counted twice */
static uint64_t partition_cost(site *m, redco_value loss, uint32_t ranks, bool sequence_parallel)
{
    static redco_value gradients[PARAMETERS], outputs_out[PARAMETERS + 1];
    static redco_partition_output outputs[PARAMETERS + 1];
    static redco_tp_input inputs[PARAMETERS];
    redco_graph *local = NULL;
    fixture_traffic *traffic = NULL;
    redco_error err = {0};
    uint32_t count = 0;
    uint64_t cost = 0;
    redco_gradient(m->g, loss, m->parameter, m->count, gradients);
    outputs[0] = (redco_partition_output){loss, NULL};
    for (uint32_t i = 0; i < m->count; i++) {
        outputs[i + 1] = (redco_partition_output){gradients[i], m->name[i]};
        inputs[i] = (redco_tp_input){.name = m->name[i], .layout = m->layout[i]};
    }
    const redco_partition_options options = {.group = {0, ranks},
                                             .rank = ranks - 1,
                                             .inputs = inputs,
                                             .input_count = m->count,
                                             .sequence_parallel = sequence_parallel,
                                             .batch = m->batch,
                                             .sequences = &m->sequence,
                                             .sequence_count = 1};
    if (redco_partition(m->g, outputs, m->count + 1, &options, &local, outputs_out, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    assert_int_equal(fixture_list_traffic(local, &traffic, &count, NULL), REDCO_OK);
    for (uint32_t i = 0; i < count; i++) {
        cost += traffic[i].size_bytes * (traffic[i].kind == REDCO_OP_ALL_REDUCE ? 2 : 1);
    }
    free(traffic);
    redco_graph_free(local);
    return cost;
}

/** Activations in bf16; three numbers per token in f32; gradients of split biases in bf16 or, cast before, f32. */
static uint64_t table_cost(const site *m, uint32_t ranks, uint64_t *vectors_out)
{
    const shape *s = m->s;
    const uint64_t tokens = m->batch * m->sequence, x = tokens * s->hidden * HALF;
    const uint64_t keys = s->groups % ranks == 0 ? 0 : 2 * tokens * (s->hidden / s->heads * s->groups) * HALF;
    const uint64_t pairs = s->parallel ? 1 : 2;
    const uint64_t bias = !s->bias ? 0 : (s->parallel ? 0 : 3 * s->hidden) + s->inner;
    *vectors_out = 2 * SINGLE * s->hidden * (2 * s->layers + 1);
    if (s->tied) { *vectors_out += 2 * SINGLE * m->sequence * s->hidden; }
    return s->layers * (pairs * 2 * 2 * x + 2 * keys + bias * SINGLE) + 2 * 2 * x + 2 * 3 * tokens * SINGLE;
}

static void test_sizes(void **state)
{
    (void)state;
    static site m;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint32_t k = 0; k < 3; k++) {
            memset(&m, 0, sizeof m);
            m.s = &shapes[i];
            m.batch = k == 1 ? 8 : 1;
            m.sequence = k == 0 ? 128 : 4096;
            m.g = redco_graph_create();
            const redco_value loss = build(&m);
            const unsigned long long tokens = m.batch * m.sequence;
            for (uint32_t ranks = 2; ranks <= 16; ranks *= 2) {
                uint64_t vectors;
                const uint64_t table = table_cost(&m, ranks, &vectors);
                const uint64_t cost = partition_cost(&m, loss, ranks, false);
                const uint64_t split = partition_cost(&m, loss, ranks, true);
                printf("%-5s %6llu tokens, %2u ranks: %12llu, with sequence parallelism %12llu of %12llu bytes\n",
                       shapes[i].name, tokens, ranks, (unsigned long long)cost, (unsigned long long)split,
                       (unsigned long long)table);
                assert_true(cost <= table);
                assert_true(split <= table + vectors);
            }
            redco_graph_free(m.g);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes)};
    return cmocka_run_group_tests_name("partition at real sizes", tests, NULL, NULL);
}
