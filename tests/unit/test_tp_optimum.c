/* Problem 2 by GLPK against every combination of options: all models' graphs, random graphs, and what cannot be. */
#include "tests/unit/tp_fixture.h"

static void check_optimum(const redcoi_tp_graph *graph, bool every, uint64_t *count, const char *what)
{
    uint32_t allowed[REDCOI_TP_NODES];
    redcoi_tp_choice choice;
    redcoi_tp_total total;
    redcoi_tp_answer answer;
    redco_error err = {0};
    uint64_t seen = 0;
    redcoi_tp_legal(graph, allowed);
    const bool found = redcoi_tp_enumerate(graph, allowed, every, &choice, &total, &seen);
    if (redcoi_tp_solve(graph, &answer, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    *count += seen;
    if (answer.feasible != found) { fail_msg("%s: feasible %d against %d", what, answer.feasible, found); }
    assert_true(answer.proven);
    if (!found) { return; }
    assert_true(graph->limit_bytes == 0 || answer.total.memory_bytes <= graph->limit_bytes);
    if (fabs(answer.total.value_s - total.value_s) > 1e-8 * total.value_s) {
        fail_msg("%s: GLPK %.12g s, enumeration %.12g s", what, answer.total.value_s, total.value_s);
    }
}

static void optimum_of_every_block(void **state)
{
    (void)state;
    uint64_t every = 0, cut = 0;
    uint32_t blocks = 0;
    for (size_t i = 0; subject_model(i) != NULL; i++) {
        const char *const name = subject_model(i);
        for (size_t n = 0; n < 2 * sizeof shards / sizeof shards[0]; n++) {
            struct subject s;
            const bool sequence_parallel = n % 2 == 1;
            if (subject_open(&s, name, shards[n / 2], sequence_parallel)) {
                redcoi_tp_pricing pricing = {.costs = s.costs};
                const redcoi_tp_base base = redcoi_tp_base_of(&pricing, s.inputs.model, &s.parallelism);
                redcoi_tp_ruled_splits ruled;
                redcoi_tp_placed placed;
                bool more = true;
                assert_int_equal(redcoi_tp_rules_splits(s.inputs.model, shards[n / 2], NULL, &ruled, NULL), REDCO_OK);
                for (uint32_t g = 0;; g++) {
                    assert_int_equal(redcoi_tp_place(&base, &ruled, NULL, g, &placed, &more, NULL), REDCO_OK);
                    if (!more) { break; }
                    const bool few = placed.layer.graph.node_count <= 12;
                    check_optimum(&placed.layer.graph, few, few ? &every : &cut, name);
                    blocks++;
                }
                redcoi_tp_rules_splits_free(&ruled);
            }
            subject_close(&s);
        }
    }
    print_message("%u graphs; %llu combinations, and %llu of larger graphs with cuts\n", blocks,
                  (unsigned long long)every, (unsigned long long)cut);
}

/* Ten weights of a T5 decoder's kind, every combination of the splits, no sequence parallelism: 3^10 and more. */
static void optimum_of_ten_weights(void **state)
{
    (void)state;
    struct subject s;
    uint64_t count = 0;
    assert_true(subject_open(&s, "bart-large", 4, false));
    redcoi_tp_pricing pricing = {.costs = s.costs};
    const redcoi_tp_base base = redcoi_tp_base_of(&pricing, s.inputs.model, &s.parallelism);
    redcoi_tp_layer layer;
    assert_int_equal(redcoi_tp_build(&base, (const uint32_t[]){2, UINT32_MAX}, &layer, NULL), REDCO_OK);
    (void)redcoi_tp_limit(&layer.graph, 0);
    check_optimum(&layer.graph, true, &count, "bart decoder");
    assert_true(count >= 59049);
    print_message("%llu combinations\n", (unsigned long long)count);
    subject_close(&s);
}

/* xorshift64: the same graphs on every run. */
static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static double random_ratio(uint64_t *seed)
{
    return (double)(next_random(seed) >> 11) / 9007199254740992.0;
}

static double random_price(void *context, redco_collective op, double bytes)
{
    const double *per_byte_s = context;
    return 1e-5 + per_byte_s[op] * bytes;
}

/* Chains with branches, forms as linears, attention and elementwise operators have them. */
static void random_graph(uint64_t *seed, double per_byte_s[REDCO_COLLECTIVE_COUNT], redcoi_tp_graph *graph)
{
    static const redcoi_tp_form wanted[] = {REDCOI_TP_WHOLE, REDCOI_TP_SHARED, REDCOI_TP_SPLIT, REDCOI_TP_ROWS};
    static const redcoi_tp_form made[] = {REDCOI_TP_WHOLE, REDCOI_TP_SPLIT, REDCOI_TP_PARTIAL, REDCOI_TP_ROWS,
                                          REDCOI_TP_CUT};
    for (int i = 0; i < REDCO_COLLECTIVE_COUNT; i++) { per_byte_s[i] = 1e-11 * (0.2 + random_ratio(seed)); }
    *graph = (redcoi_tp_graph){.ranks = 2U << next_random(seed) % 3,
                               .node_count = 4 + (uint32_t)(next_random(seed) % 7),
                               .prices = {per_byte_s, random_price},
                               .exposed_ratio = 0.5 + random_ratio(seed),
                               .param_s = 1e-12 * random_ratio(seed),
                               .param_bytes = 16};
    for (uint32_t n = 0; n < graph->node_count; n++) {
        redcoi_tp_node *const node = &graph->nodes[n];
        *node = (redcoi_tp_node){.name = "random",
                                 .class_slot = (uint32_t)(next_random(seed) % 2),
                                 .input_count = n == 0 ? 0 : 1 + (uint32_t)(n > 2 && next_random(seed) % 3 == 0),
                                 .width_bytes = 1e8 * random_ratio(seed),
                                 .traffic_ratio = next_random(seed) % 8 == 0 ? 0.25 : 1.0,
                                 .tied = REDCOI_TP_NONE,
                                 .option_count = 1 + (uint32_t)(next_random(seed) % 4)};
        for (uint32_t i = 0; i < node->input_count; i++) {
            node->inputs[i] = (uint32_t)(n - 1 - next_random(seed) % (n < 3 ? n : 3));
        }
        for (uint32_t o = 0; o < node->option_count; o++) {
            redcoi_tp_option *const option = &node->options[o];
            *option = (redcoi_tp_option){.split = (redcoi_tp_split)(REDCOI_TP_REPLICATE + (int)(o % 3)),
                                         .legal = o == 0 || next_random(seed) % 8 != 0,
                                         .output = made[next_random(seed) % 5],
                                         .forward_s = 1e-3 * random_ratio(seed),
                                         .backward_s = 2e-3 * random_ratio(seed),
                                         .tp_forward_s = next_random(seed) % 4 == 0 ? 1e-4 : 0.0,
                                         .params = next_random(seed) % 100000000,
                                         .bytes = next_random(seed) % 1000000000};
            for (uint32_t i = 0; i < REDCOI_TP_INPUTS; i++) { option->input[i] = wanted[next_random(seed) % 4]; }
        }
        if (n > 3 && next_random(seed) % 8 == 0) { node->tied = n - 2; }
    }
}

static void optimum_of_random_graphs(void **state)
{
    (void)state;
    enum { GRAPHS = 400 };
    uint64_t seed = UINT64_C(0x2545f4914f6cdd1d), count = 0;
    uint32_t infeasible = 0, bound = 0;
    for (int i = 0; i < GRAPHS; i++) {
        static redcoi_tp_graph graph;
        double per_byte_s[REDCO_COLLECTIVE_COUNT];
        uint32_t allowed[REDCOI_TP_NODES];
        redcoi_tp_choice choice;
        redcoi_tp_total free_total, total;
        char what[32];
        (void)snprintf(what, sizeof what, "graph %d", i);
        random_graph(&seed, per_byte_s, &graph);
        assert_int_equal(redcoi_tp_price(&graph, NULL), REDCO_OK);
        check_optimum(&graph, true, &count, what);
        redcoi_tp_legal(&graph, allowed);
        if (!redcoi_tp_enumerate(&graph, allowed, true, &choice, &free_total, NULL)) { continue; }
        /* Limits from far too little to enough. */
        for (int step = 0; step < 4; step++) {
            graph.limit_bytes = (uint64_t)((0.55 + 0.15 * step) * (double)free_total.memory_bytes);
            check_optimum(&graph, true, &count, what);
            const bool fits = redcoi_tp_enumerate(&graph, allowed, true, &choice, &total, NULL);
            infeasible += !fits;
            bound += fits && total.value_s > free_total.value_s;
        }
    }
    print_message("%d graphs, %llu combinations; limits: %u forbid all, %u the best\n", GRAPHS,
                  (unsigned long long)count, infeasible, bound);
    assert_true(infeasible > 20 && bound > 100);
}

static void says_how_much_is_missing(void **state)
{
    (void)state;
    struct subject s;
    assert_true(subject_open(&s, "llama-7b", 4, false));
    redcoi_tp_layer *layer = block_of(&s, REDCO_CLASS_BLOCK);
    redcoi_tp_answer answer;
    const redcoi_tp_total reference = redcoi_tp_limit(&layer->graph, 0);
    /* Nothing is leaner than all weights and activations split, which is the reference. */
    layer->graph.limit_bytes = reference.memory_bytes - 1000;
    assert_int_equal(redcoi_tp_solve(&layer->graph, &answer, NULL), REDCO_OK);
    assert_false(answer.feasible);
    assert_true(answer.proven);
    assert_int_equal(answer.short_bytes, 1000);
    layer->graph.limit_bytes = reference.memory_bytes;
    assert_int_equal(redcoi_tp_solve(&layer->graph, &answer, NULL), REDCO_OK);
    assert_true(answer.feasible);
    free(layer);
    subject_close(&s);
}

static void refuses_what_is_no_number(void **state)
{
    (void)state;
    struct subject s;
    redco_error err = {0};
    assert_true(subject_open(&s, "llama-7b", 4, false));
    redcoi_tp_layer *layer = block_of(&s, REDCO_CLASS_BLOCK);
    layer->graph.nodes[2].options[0].forward_s = (double)NAN;
    assert_int_equal(redcoi_tp_price(&layer->graph, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "a cost of a product is not a number");
    free(layer);
    s.parallelism.tp = 1;
    redco_tp_report report;
    redco_error alone = {0};
    assert_int_equal(redco_tp_compare(s.costs, s.inputs.model, NULL, &s.parallelism, &report, &alone), REDCO_EVALUE);
    assert_string_equal(alone.text, "is 1: nothing is split");
    subject_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimum_of_every_block),    cmocka_unit_test(optimum_of_ten_weights),
        cmocka_unit_test(optimum_of_random_graphs),  cmocka_unit_test(says_how_much_is_missing),
        cmocka_unit_test(refuses_what_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
