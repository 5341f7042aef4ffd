/* Tests which things are measured, not how long they take: times are positive and finite, every operator of the list
 * exists on the host backend in every type, and graphs that a backend cannot run are refused. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/operators/compute.h"
#include "executor/backend/host/host.h"
#include "executor/measure/block.h"
#include "executor/measure/contention.h"
#include "executor/measure/graph_passes.h"
#include "executor/measure/measure_collectives.h"
#include "executor/measure/suite.h"
#include "tests/unit/processes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const redco_measure_options once = {.processor_time = true, .sample_s = 1e-9, .case_s = 1e-9, .runs = 1};

struct bench {
    redco_backend *backend;
    redco_measurer *measurer;
};

static int set_up(void **state)
{
    static struct bench bench;
    assert_int_equal(redco_host_open(NULL, &bench.backend, NULL), REDCO_OK);
    assert_int_equal(redco_measurer_create(bench.backend, &once, &bench.measurer, NULL), REDCO_OK);
    *state = &bench;
    return 0;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    uint64_t live = 1, peak = 0;
    redco_measurer_free(bench->measurer);
    redco_host_memory(bench->backend, &live, &peak);
    assert_int_equal(live, 0); /* all memory was given back */
    redco_backend_close(bench->backend);
    return 0;
}

static bool sound(double seconds)
{
    return isfinite(seconds) && seconds > 0.0;
}

static void every_case_has_times(void **state)
{
    struct bench *bench = *state;
    redco_measure_case *cases = NULL;
    uint32_t kinds[3] = {0, 0, 0};
    redco_error err = {0};
    const size_t count = redco_measure_cases(true, &cases);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        redco_measure_case *c = &cases[i];
        if (redco_measure_case_run(bench->measurer, c, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
        assert_true(sound(c->forward_s));
        const bool backward = c->kind == REDCO_MEASURE_ATTENTION ||
                              (c->kind == REDCO_MEASURE_OPERATOR && strcmp(c->name, "optimizer") != 0 &&
                               strcmp(c->name, "accumulate") != 0 && strcmp(c->name, "copy") != 0);
        if (backward != sound(c->backward_s) || (!backward && c->backward_s != 0.0)) {
            fail_msg("%s: %g s backward", c->name != NULL ? c->name : "product or attention", c->backward_s);
        }
        const double first_s = c->forward_s;
        assert_int_equal(redco_measure_case_run(bench->measurer, c, NULL), REDCO_OK);
        assert_true(c->forward_s <= first_s); /* the best of both */
        kinds[c->kind]++;
    }
    assert_true(kinds[REDCO_MEASURE_GEMM] > 0 && kinds[REDCO_MEASURE_ATTENTION] > 0);
    assert_int_equal(kinds[REDCO_MEASURE_OPERATOR], 2 * 13); /* single precision and bf16 */
    free(cases);
}

/* The whole list: no size twice, products within their limit. Nothing of it is run. */
static void the_full_list_is_sane(void **state)
{
    (void)state;
    redco_measure_case *cases = NULL;
    const size_t count = redco_measure_cases(false, &cases);
    assert_true(count > 500 && count < 2000);
    for (size_t i = 0; i < count; i++) {
        const redco_measure_case *a = &cases[i];
        assert_true(isinf(a->forward_s));
        if (a->kind == REDCO_MEASURE_GEMM) { assert_true((double)a->m * (double)a->n * (double)a->k <= 4.5e9); }
        for (size_t j = 0; j < i; j++) {
            const redco_measure_case *b = &cases[j];
            const bool same = a->kind == b->kind && a->dtype == b->dtype && a->name == b->name && a->m == b->m &&
                              a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a &&
                              a->transpose_b == b->transpose_b && a->sequence == b->sequence && a->size == b->size &&
                              a->rows == b->rows && a->columns == b->columns;
            assert_false(same);
        }
    }
    free(cases);
}

/* The list for devices: no case twice, and of every weight and number of tokens the three products of a step. */
static void the_list_for_devices_holds_what_was_asked_for(void **state)
{
    (void)state;
    redco_measure_case *cases = NULL;
    redco_measure_shapes shapes = {.tokens = {96, 1000}, .token_count = 2};
    assert_true(redco_measure_add_weight(&shapes, 48, 80));
    assert_true(redco_measure_add_weight(&shapes, 80, 48));
    assert_true(redco_measure_add_weight(&shapes, 48, 80)); /* known */
    assert_int_equal(shapes.weight_count, 2);
    const size_t count = redco_measure_device_cases(&shapes, &cases);
    uint32_t found = 0;
    assert_true(count > 500 && count < 3000);
    for (size_t i = 0; i < count; i++) {
        const redco_measure_case *a = &cases[i];
        assert_true(isinf(a->forward_s));
        if (a->kind == REDCO_MEASURE_GEMM && (a->m == 1000 || a->k == 1000)) {
            const bool weight = a->transpose_a;
            assert_true(weight ? a->k == 1000 && a->m != a->n : a->m == 1000 && a->n != a->k);
            found++;
        }
        for (size_t j = 0; j < i; j++) {
            const redco_measure_case *b = &cases[j];
            const bool same = a->kind == b->kind && a->dtype == b->dtype && a->name == b->name && a->m == b->m &&
                              a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a &&
                              a->transpose_b == b->transpose_b && a->sequence == b->sequence && a->size == b->size &&
                              a->rows == b->rows && a->columns == b->columns && a->batch == b->batch &&
                              a->heads == b->heads;
            assert_false(same);
        }
    }
    assert_int_equal(found, 2 * 3);
    free(cases);
    shapes = redco_measure_default_shapes();
    assert_int_equal(shapes.token_count, 4);
    while (shapes.weight_count < REDCO_MEASURE_WEIGHTS_MAX) {
        assert_true(redco_measure_add_weight(&shapes, 1, shapes.weight_count + 1));
    }
    assert_false(redco_measure_add_weight(&shapes, 2, 1));
}

/* A device with streams, played by the host's: every kind of case has times, repeats take turns on copies, rounds are
 * averaged, and what needs more memory than allowed is told from other failures. */
static void queued_runs_have_times(void **state)
{
    struct bench *bench = *state;
    const redco_measure_options options = {.queued = true,
                                           .fused = true,
                                           .sample_s = 1e-6,
                                           .case_s = 1e-9,
                                           .runs = 3,
                                           .cold_bytes = 1 << 20,
                                           .most_bytes = 1 << 22,
                                           .heat_s = 1e-9,
                                           .heat_side = 16};
    redco_measurer *measurer = NULL;
    redco_measure_case *cases = NULL;
    redco_error err = {0};
    double ratio = 0.0;
    assert_int_equal(redco_measurer_create(bench->backend, &options, &measurer, &err), REDCO_OK);
    const size_t count = redco_measure_cases(true, &cases);
    for (size_t i = 0; i < count; i++) {
        redco_measure_case *const c = &cases[i];
        for (int round = 0; round < 2; round++) {
            if (redco_measure_case_run(measurer, c, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
        }
        assert_true(sound(c->forward_s) && c->rounds == 2 && isfinite(c->backward_s));
        if (c->kind == REDCO_MEASURE_ATTENTION) { assert_true(sound(c->backward_s)); }
    }
    const redco_measure_launches launches = redco_measure_queueing(measurer);
    assert_true(launches.count > 4 * count && launches.host_s > 0.0);
    assert_true(redco_measure_processor_ratio(measurer) == 1.0);
    assert_int_equal(redco_measure_hot_ratio(measurer, &ratio, &err), REDCO_OK);
    assert_true(sound(ratio));
    redco_measure_case large = {.kind = REDCO_MEASURE_OPERATOR,
                                .dtype = REDCO_F32,
                                .name = "copy",
                                .rows = 1,
                                .columns = 1 << 21,
                                .forward_s = (double)INFINITY};
    assert_int_equal(redco_measure_case_run(measurer, &large, &err), REDCO_ENOMEM);
    assert_true(isinf(large.forward_s) && large.rounds == 0);
    free(cases);
    redco_measurer_free(measurer);
}

static void a_device_alone_has_contention(void **state)
{
    struct bench *bench = *state;
    const redco_measure_traffic traffic = {.size_bytes = 1 << 16, .bytes_per_s = 1e8};
    redco_measure_contention contention = {.contention_ratio = -1.0};
    redco_error err = {0};
    if (redco_measure_contend_device(bench->backend, &traffic, 16, 0.015, &contention, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    assert_true(contention.contention_ratio >= 0.0 && contention.contention_ratio <= 1.0);
    assert_true(sound(contention.overlap_ratio));
}

/* By hand, forward: two norms, q, k, v, two rotations, attention, out with its sum, gate, up, their activation, ffn_out
 * with its sum make 13; backward has more, as each product has two gradients. */
static void a_block_is_so_many_operators(void **state)
{
    struct bench *bench = *state;
    uint32_t forward = 0, backward = 0;
    assert_int_equal(redco_measure_block_operators(bench->backend, &forward, &backward, NULL), REDCO_OK);
    assert_int_equal(forward, 13);
    assert_true(backward > forward && backward < 3 * forward);
}

/* Inputs, reshapes and what no result needs take no time; the rest does. */
static void only_what_is_needed_is_run(void **state)
{
    struct bench *bench = *state;
    redco_graph *g = redco_graph_create();
    const redco_tensor_type type = redco_type(REDCO_F32, 2, (const uint64_t[]){8, 4});
    const redco_value x = redco_input(g, "x", &type);
    const redco_value flat = redco_reshape(g, x, 1, (const uint64_t[]){32});
    const redco_value used = redco_exp(g, flat), unused = redco_tanh(g, flat);
    double op_s[8];
    for (int i = 0; i < 8; i++) { op_s[i] = (double)INFINITY; }
    assert_int_equal(redco_measure_graph(bench->measurer, g, &used, 1, 0, op_s, NULL), REDCO_OK);
    assert_true(sound(op_s[redco_value_op(g, used)->id]));
    assert_true(isinf(op_s[redco_value_op(g, unused)->id]));
    assert_true(isinf(op_s[redco_value_op(g, x)->id]) && isinf(op_s[redco_value_op(g, flat)->id]));
    assert_true(redco_measure_spread(bench->measurer) >= 0.0);
    assert_true(redco_measure_processor_ratio(bench->measurer) <= 1.0);
    redco_graph_free(g);
}

/* Every operator of the family's layers as the cost model has them is measured, each in both passes, and no other. */
static void a_models_operators_are_the_familys(void **state)
{
    static const char *const configs[] = {
        "{\"model_type\":\"llama\",\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":32,\"max_position_embeddings\":64}",
        "{\"model_type\":\"gpt2\",\"n_embd\":16,\"n_layer\":2,\"n_head\":4,\"vocab_size\":32,\"n_positions\":64}",
        "{\"model_type\":\"qwen3\",\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_layers\":2,\"head_dim\":8,"
        "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":32,\"max_position_embeddings\":64}"};
    struct bench *bench = *state;
    const redco_measure_shape shape = {.micro_batch = 2, .seq_len = 8};
    for (size_t c = 0; c < sizeof configs / sizeof configs[0]; c++) {
        redco_json *document = NULL;
        redco_model *model = NULL;
        redco_measure_step step;
        redco_error err = {0};
        bool wanted[REDCO_OP_ROLE_COUNT] = {false};
        uint32_t roles = 0;
        double sum_s = 0.0;
        assert_int_equal(redco_json_parse(configs[c], strlen(configs[c]), "config", &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        if (redco_model_from_json(&root, "small", &model, &err) != REDCO_OK ||
            redco_measure_model_step(bench->measurer, model, &shape, &step, &err) != REDCO_OK) {
            fail_msg("%s: %s", err.place, err.text);
        }
        const redco_layer_class *classes = NULL;
        const size_t count = redco_model_classes(model, &classes);
        const redco_shape priced = {.seq_len = 8, .micro_batch = 2, .tp = 1, .cp = 1, .precision = REDCO_FP32};
        for (uint32_t i = 0; i < count; i++) {
            redco_operator operators[REDCO_OPERATORS_MAX];
            const uint32_t n = redco_layer_operators(model, i, &priced, operators);
            for (uint32_t k = 0; k < n; k++) {
                roles += !wanted[operators[k].role];
                wanted[operators[k].role] = true;
            }
        }
        for (uint32_t k = 0; k < step.count; k++) {
            const redco_measure_name *const name = &step.names[k];
            sum_s += name->forward_s + name->backward_s;
            if (!wanted[name->role] || !sound(name->forward_s) || !sound(name->backward_s)) {
                fail_msg("config %zu: %s: %g and %g s", c, redco_op_role_name(name->role), name->forward_s,
                         name->backward_s);
            }
        }
        assert_int_equal(step.count, roles);
        assert_true(fabs(sum_s - step.total_s) <= 1e-9 * sum_s && sound(step.wall_s));
        redco_model_free(model);
        redco_json_close(document);
    }
}

/* Teams of a device communicator on a backend's memory, timed by events: as GPUs have them, here those of the host. */
static int measure_teams(redco_world *world, void *context)
{
    (void)context;
    redco_backend *backend = NULL;
    redco_device_comm *device_comm = NULL;
    redco_measure_collectives *collectives = NULL;
    const redco_measure_curve *curves = NULL;
    bool good = redco_host_open(NULL, &backend, NULL) == REDCO_OK &&
                redco_host_device_comm_open(world, &device_comm, NULL) == REDCO_OK;
    const redco_measure_groups groups = {
        .nodes = 1, .most_bytes = 4096, .device_comm = device_comm, .backend = backend};
    good = good && redco_measure_collectives_create(world, &groups, &collectives, NULL) == REDCO_OK &&
           redco_measure_collectives_run(collectives, NULL) == REDCO_OK;
    const size_t count = good ? redco_measure_collectives_curves(collectives, &curves) : 0;
    good = good && count == REDCO_MEASURE_COLLECTIVES;
    for (size_t i = 0; i < count; i++) {
        good = good && curves[i].gpus == 2 && curves[i].size_count == 3;
        for (uint32_t s = 0; s < curves[i].size_count; s++) { good = good && sound(curves[i].time_s[s]); }
    }
    redco_measure_collectives_free(collectives);
    redco_device_comm_close(device_comm);
    redco_backend_close(backend);
    return good ? 0 : 1;
}

static void teams_have_curves(void **state)
{
    (void)state;
    assert_int_equal(run_ranks(2, 30.0, measure_teams, NULL, 0), 2);
}

static void one_rank_has_no_collectives(void **state)
{
    (void)state;
    const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF, .size = 1};
    redco_world *world = NULL;
    redco_measure_collectives *collectives = NULL;
    const redco_measure_curve *curves = NULL;
    const redco_measure_groups one = {.nodes = 1, .most_bytes = 16384}, two = {.nodes = 2, .most_bytes = 16384};
    redco_error err = {0};
    assert_int_equal(redco_world_open(&options, &world, NULL), REDCO_OK);
    assert_int_equal(redco_measure_collectives_create(world, &two, &collectives, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "2 do not divide 1 ranks"));
    assert_int_equal(redco_measure_collectives_create(world, &one, &collectives, NULL), REDCO_OK);
    assert_int_equal(redco_measure_collectives_curves(collectives, &curves), 0);
    assert_int_equal(redco_measure_collectives_run(collectives, NULL), REDCO_OK);
    redco_measure_collectives_free(collectives);
    redco_world_close(world);
}

/* Alone, all-reduces do next to nothing; what comes out is in range. */
static void contention_is_a_ratio(void **state)
{
    struct bench *bench = *state;
    const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF, .size = 1};
    redco_world *world = NULL;
    redco_measure_contention contention = {-1.0, -1.0};
    redco_error err = {0};
    assert_int_equal(redco_world_open(&options, &world, NULL), REDCO_OK);
    if (redco_measure_contend(world, bench->backend, 16384, 0.03, &contention, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    assert_true(contention.contention_ratio >= 0.0 && contention.contention_ratio <= 1.0);
    assert_true(contention.overlap_ratio > 0.0 && isfinite(contention.overlap_ratio));
    redco_world_close(world);
}

enum { ROWS = 5, EXAMPLES = 3 };

/* Rows of a table by number, added up: the last row exists, the next does not. */
struct fed {
    uint32_t batches;
    bool fails;
};

static redco_status next_numbers(void *context, uint32_t examples, void *const *data, redco_error *err)
{
    struct fed *const fed = context;
    assert_int_equal(examples, EXAMPLES);
    if (fed->fails) { return redco_fail(err, REDCO_EVALUE, "examples:7", "is bad"); }
    for (uint32_t i = 0; i < examples; i++) { ((int32_t *)data[1])[i] = ROWS - 1; }
    fed->batches++;
    return REDCO_OK;
}

/* The order is gather, sum, sum, all-reduce, of which the sums have one name and the all-reduce none; the graph lacks
 * the first input of a batch. */
static redco_status add_graph(redco_measure_ops *ops, struct fed *fed)
{
    static const char *const inputs[] = {"unused", "numbers"};
    static const uint64_t input_bytes[] = {64, EXAMPLES * sizeof(int32_t)};
    static const char names[4][REDCO_MEASURED_AS] = {"op-gather", "op-sum", "op-sum", ""};
    const uint64_t table_dim[2] = {ROWS, 8}, numbers_dim[1] = {EXAMPLES};
    const redco_tensor_type table_type = redco_type(REDCO_F32, 2, table_dim),
                            numbers_type = redco_type(REDCO_I32, 1, numbers_dim);
    redco_graph *const g = redco_graph_create();
    const redco_value table = redco_input(g, "table", &table_type), numbers = redco_input(g, "numbers", &numbers_type);
    const redco_value rows = redco_gather(g, table, numbers, NULL);
    const redco_value twice = redco_add(g, rows, rows), fourfold = redco_add(g, twice, twice);
    const redco_value all = redco_graph_all_reduce(g, fourfold, (redco_rank_group){0, 2}, false);
    const uint32_t order[4] = {redco_value_op(g, rows)->id, redco_value_op(g, twice)->id,
                               redco_value_op(g, fourfold)->id, redco_value_op(g, all)->id};
    assert_int_equal(redco_graph_status(g, NULL), REDCO_OK);
    const redco_measure_graph_of of = {.graph = g,
                                       .order = order,
                                       .order_count = 4,
                                       .outputs = &all,
                                       .output_count = 1,
                                       .measured_as = names,
                                       .examples = EXAMPLES,
                                       .next = fed != NULL ? next_numbers : NULL,
                                       .context = fed,
                                       .inputs = inputs,
                                       .input_bytes = input_bytes,
                                       .input_count = fed != NULL ? 2 : 0,
                                       .batch_measured_as = "op-batch"};
    return redco_measure_ops_add(ops, &of, NULL);
}

/* A row for each name and one for the batch, each of the micro-batch's examples; a batch comes before every pass. */
static void a_users_graph_has_a_row_for_each_name(void **state)
{
    struct bench *bench = *state;
    static const char *const wanted[] = {"op-gather", "op-sum", "op-batch"};
    redco_measure_ops ops = {.count = 0};
    struct fed fed = {.batches = 0};
    assert_int_equal(add_graph(&ops, &fed), REDCO_OK);
    assert_int_equal(ops.count, 3);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < ops.count; i++) {
            const double before_s = ops.cases[i].forward_s;
            assert_int_equal(redco_measure_case_run(bench->measurer, &ops.cases[i], NULL), REDCO_OK);
            assert_string_equal(ops.cases[i].measured_as, wanted[i]);
            assert_int_equal(ops.cases[i].rows, EXAMPLES);
            assert_true(sound(ops.cases[i].forward_s) && ops.cases[i].backward_s == 0.0);
            assert_true(ops.cases[i].forward_s <= before_s);
        }
    }
    assert_true(fed.batches >= 4); /* two rounds, each with one pass that warms up */
    fed.fails = true;
    redco_error err = {0};
    assert_int_equal(redco_measure_case_run(bench->measurer, &ops.cases[0], &err), REDCO_EVALUE);
    assert_string_equal(err.place, "examples:7");
    redco_measure_ops_free(&ops);
}

/* Numbers that nobody feeds are rows of the table: the sanitizers of the debug preset see others. */
static void a_users_graph_needs_no_data(void **state)
{
    struct bench *bench = *state;
    redco_measure_ops ops = {.count = 0};
    assert_int_equal(add_graph(&ops, NULL), REDCO_OK);
    assert_int_equal(ops.count, 2);
    for (size_t i = 0; i < ops.count; i++) {
        assert_int_equal(redco_measure_case_run(bench->measurer, &ops.cases[i], NULL), REDCO_OK);
        assert_true(sound(ops.cases[i].forward_s));
    }
    redco_measure_ops_free(&ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_users_graph_has_a_row_for_each_name),
        cmocka_unit_test(a_users_graph_needs_no_data),
        cmocka_unit_test(the_list_for_devices_holds_what_was_asked_for),
        cmocka_unit_test(queued_runs_have_times),
        cmocka_unit_test(a_device_alone_has_contention),
        cmocka_unit_test(a_block_is_so_many_operators),
        cmocka_unit_test(every_case_has_times),
        cmocka_unit_test(the_full_list_is_sane),
        cmocka_unit_test(only_what_is_needed_is_run),
        cmocka_unit_test(a_models_operators_are_the_familys),
        cmocka_unit_test(teams_have_curves),
        cmocka_unit_test(one_rank_has_no_collectives),
        cmocka_unit_test(contention_is_a_ratio),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
