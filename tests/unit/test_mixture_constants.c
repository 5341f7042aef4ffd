/* Exchanges, launches and constants of mixtures of experts, against sums by hand. */
#include "costmodel/collectives/expert_exchange.h"
#include "costmodel/engines/assumptions.h"
#include "costmodel/engines/expert_constants.h"
#include "costmodel/operators/launches.h"
#include "topology/base/preset.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void near(double got, double wanted, double most)
{
    if (!(fabs(got - wanted) <= most)) { fail_msg("%.12g is not %.12g", got, wanted); }
}

/* E = 256, K = 8: N (1 - C(E - E/N, K) / C(E, K)), DeepEP's counts of nodes. */
static void distinct_nodes_are_those_of_uniform_routing(void **state)
{
    const struct {
        double nodes, distinct;
    } rows[] = {{1, 1.0}, {2, 1.99}, {4, 3.61}, {8, 5.29}, {16, 6.52}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        near(redco_exchange_distinct_nodes(256, 8, rows[i].nodes), rows[i].distinct, 0.01);
    }
    near(redco_exchange_distinct_nodes(8, 8, 8), 8.0, 1e-12);
}

static redco_expert_constants plain(void)
{
    return (redco_expert_constants){.name = "plain",
                                    .nccl_link_ratio = 0.5,
                                    .nccl_network_ratio = 0.8,
                                    .dedup_link_ratio = 0.9,
                                    .dedup_network_ratio = 1.0,
                                    .exchange_call_s = 1e-4,
                                    .launch_s = 1e-5,
                                    .grace_launch_factor = 2.0,
                                    .older_launch_factor = 1.5};
}

/* 1024 tokens of 8 choices, rows of 4096 bytes: 32 MiB. */
static void exchanges_take_the_slower_of_links_and_nics(void **state)
{
    const redco_expert_constants constants = plain();
    redco_machine machine = {.nodes = 4,
                             .gpus_per_node = 8,
                             .node_gpus_physical = 8,
                             .hosts_per_node = 1,
                             .scale_up_bytes_per_s = 400e9,
                             .node_network_bytes_per_s = 400e9};
    redco_exchange e = {.machine = &machine,
                        .constants = &constants,
                        .group = {.mesh = {8, 1}, .stride = 1, .groups_per_node = 1},
                        .experts = 64,
                        .choices = 8,
                        .tokens = 1024.0,
                        .row_bytes = 4096.0,
                        .load = 1.0};
    const double all = 1024.0 * 8.0 * 4096.0;
    (void)state;
    near(redco_exchange_s(&e), 1e-4 + all * 7.0 / 8.0 / (0.5 * 400e9), 1e-12);
    e.load = 1.3;
    near(redco_exchange_s(&e), 1e-4 + 1.3 * all * 7.0 / 8.0 / (0.5 * 400e9), 1e-12);
    e.load = 1.0;
    e.group.mesh = (redco_mesh){8, 4}; /* 24 of 32 ranks are behind the NICs, 50 GB/s a GPU */
    near(redco_exchange_s(&e), 1e-4 + all * 24.0 / 32.0 / (0.8 * 50e9), 1e-12);
    e.dispatcher = REDCO_DISPATCHER_DEEPEP;
    const double once = 1024.0 * 4096.0 * redco_exchange_distinct_nodes(64, 8, 4.0) * 3.0 / 4.0;
    near(redco_exchange_s(&e), 1e-4 + fmax(once / 50e9, all * 7.0 / 8.0 / (0.9 * 400e9)), 1e-12);
    e.no_call = true;
    near(redco_exchange_s(&e), fmax(once / 50e9, all * 7.0 / 8.0 / (0.9 * 400e9)), 1e-12);
    e.group.mesh = (redco_mesh){1, 1};
    near(redco_exchange_s(&e), 0.0, 0.0);
}

/* 1024 tokens of 4096 bytes over 8 GPUs, and over 4 nodes of 8, of 64 experts. DeepEP: 32 MiB; 10 channels x 8 GPUs x
 * (5 counts of 4 bytes and 256 rows of 4096 + 2056 bytes), between nodes (11 counts and 288 rows) and 10 x 4 nodes x 2
 * x (18 counts and 128 rows of 16 bytes more). HybridEP: 1024 x ranks rows, with a number for each expert of a node and
 * for 128 elements; between nodes 1024 rows, and three times those of 3 nodes. */
static void dispatchers_hold_buffers(void **state)
{
    const redco_expert_constants constants = plain();
    const redco_machine machine = {.nodes = 4, .gpus_per_node = 8, .node_gpus_physical = 8, .hosts_per_node = 1};
    const struct {
        redco_dispatcher dispatcher;
        redco_mesh mesh;
        uint64_t bytes;
    } cases[] = {
        {REDCO_DISPATCHER_ALL_TO_ALL, {8, 4}, 0},
        {REDCO_DISPATCHER_DEEPEP, {1, 1}, 0},
        {REDCO_DISPATCHER_DEEPEP, {8, 1}, 33554432 + 80 * (20 + 256 * 6152)},
        {REDCO_DISPATCHER_NCCLEP, {8, 1}, 33554432 + 80 * (20 + 256 * 6152)},
        {REDCO_DISPATCHER_DEEPEP, {8, 4}, 33554432 + 80 * (44 + 288 * 6152) + 80 * (72 + 128 * 6168)},
        {REDCO_DISPATCHER_HYBRIDEP, {8, 1}, 8192 * (4096 + 4 * 64 + 64)},
        {REDCO_DISPATCHER_HYBRIDEP, {8, 4}, 32768 * (4096 + 4 * 16 + 64) + 1024 * (4096 + 3 * 3 * (4096 + 4 * 16))}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const redco_exchange e = {.machine = &machine,
                                  .constants = &constants,
                                  .group = {.mesh = cases[i].mesh, .stride = 1, .groups_per_node = 1},
                                  .dispatcher = cases[i].dispatcher,
                                  .experts = 64,
                                  .choices = 8,
                                  .tokens = 1024.0,
                                  .row_bytes = 4096.0,
                                  .load = 1.3}; /* buffers are of one size, whatever the routing */
        assert_int_equal(redco_exchange_buffer_bytes(&e), cases[i].bytes);
    }
}

/* A rack of 18 hosts of four: without its links between them three quarters of 16 ranks are behind NICs. */
static void a_rack_without_its_links_is_hosts(void **state)
{
    const redco_expert_constants constants = plain();
    const redco_machine machine = {.nodes = 1,
                                   .gpus_per_node = 64,
                                   .node_gpus_physical = 72,
                                   .hosts_per_node = 18,
                                   .scale_up_bytes_per_s = 900e9,
                                   .node_network_bytes_per_s = 72 * 50e9};
    redco_exchange e = {.machine = &machine,
                        .constants = &constants,
                        .group = {.mesh = {16, 1}, .stride = 1, .groups_per_node = 1},
                        .experts = 64,
                        .choices = 8,
                        .tokens = 1024.0,
                        .row_bytes = 4096.0,
                        .load = 1.0};
    const double all = 1024.0 * 8.0 * 4096.0;
    (void)state;
    near(redco_exchange_s(&e), 1e-4 + all * 15.0 / 16.0 / (0.5 * 900e9), 1e-12);
    e.no_mnnvl = true;
    near(redco_exchange_s(&e), 1e-4 + all * 12.0 / 16.0 / (0.8 * 50e9), 1e-12);
}

/* Qwen3-30B, 8 local experts: 151 launches a layer and micro-batch in a trace of Megatron-Bridge, both passes. */
static void launches_are_near_a_trace(void **state)
{
    redco_model *model = NULL;
    redco_shape shape = {.seq_len = 4096, .micro_batch = 1, .tp = 1, .cp = 1, .ep = 16, .etp = 1};
    (void)state;
    assert_int_equal(redco_model_read("qwen3-30b-a3b", &model, NULL), REDCO_OK);
    const redco_rank_layer layer = redco_rank_layer_of(model, 1, &shape);
    const double all = redco_layer_launches(&layer, false) + redco_layer_launches(&layer, true);
    assert_true(fabs(all / 151.0 - 1.0) < 0.1);
    double before = all;
    const redco_graph_scope scopes[] = {REDCO_GRAPHS_ATTENTION, REDCO_GRAPHS_ROUTER};
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
        shape.engine.graphs = scopes[i];
        const double left = redco_layer_launches(&layer, false) + redco_layer_launches(&layer, true);
        assert_true(left < before && left > 8.0 * 6.0);
        before = left;
    }
    shape.engine.graphs = REDCO_GRAPHS_ALL;
    shape.engine.cuda_graphs = true;
    near(redco_layer_launches(&layer, true), 0.0, 0.0);
    redco_model_free(model);
}

static void hosts_and_releases_have_their_factors(void **state)
{
    const redco_expert_constants constants = plain();
    const redco_gpu h100 = {.name = "H100-SXM5-80GB"}, gb200 = {.name = "GB200-per-GPU"};
    uint32_t release = 0;
    (void)state;
    near(redco_expert_launch_s(&constants, release, REDCO_CPU_UNKNOWN, &h100), 1e-5, 1e-15);
    near(redco_expert_launch_s(&constants, release, REDCO_CPU_UNKNOWN, &gb200), 2e-5, 1e-15);
    release = 202510;
    near(redco_expert_launch_s(&constants, release, REDCO_CPU_ARM, &h100), 3e-5, 1e-15);
    release = 202511;
    near(redco_expert_launch_s(&constants, release, REDCO_CPU_INTEL, &h100), 1e-5, 1e-15);
}

static void shipped_sets_say_what_they_were_fitted_on(void **state)
{
    (void)state;
    for (size_t i = 0; redco_preset_at("experts", i) != NULL; i++) {
        redco_expert_constants read, again;
        const char *const name = redco_preset_at("experts", i)->name;
        assert_int_equal(redco_expert_constants_read(name, &read, NULL), REDCO_OK);
        assert_string_equal(read.name, name);
        assert_int_equal(strncmp(name, "prior-", 6) == 0, read.fitted_rows == 0);
        json_t *const json = redco_expert_constants_describe(&read);
        const redco_json_value value = redco_json_wrap(json, "experts");
        assert_int_equal(redco_expert_constants_from_json(&value, &again, NULL), REDCO_OK);
        for (size_t k = 0; redco_expert_constant_key(k) != NULL; k++) {
            const char *const key = redco_expert_constant_key(k);
            near(*redco_expert_constant(&read, key), *redco_expert_constant(&again, key), 0.0);
        }
        json_decref(json);
    }
    const redco_gpu b300 = {.arch = "Blackwell"}, h200 = {.arch = "Hopper"}, a100 = {.arch = "Ampere"};
    assert_string_equal(redco_expert_constants_set(&b300), "blackwell");
    assert_string_equal(redco_expert_constants_set(&h200), "hopper");
    assert_string_equal(redco_expert_constants_set(&a100), "hopper");
    assert_null(redco_expert_constant(NULL, "mape_ratio"));
}

static void wrong_files_are_told(void **state)
{
    static const char head[] = "{\"format\": \"redco-experts\", \"version\": 1, \"name\": \"x\", \"basis\": \"y\", ";
    static const struct {
        const char *rest, *text;
    } wrong[] = {{"\"fitted_rows\": 0}", "is missing"},
                 {"\"fitted_rows\": 0, \"colour\": 1}", "is not known here"},
                 {"\"fitted_rows\": 0, \"mape_ratio\": 11}", "is 11"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[256];
        redco_json *document = NULL;
        redco_expert_constants read;
        redco_error err = {.status = REDCO_OK};
        const int length = snprintf(text, sizeof text, "%s%s", head, wrong[i].rest);
        assert_int_equal(redco_json_parse(text, (size_t)length, "x.json", &document, NULL), REDCO_OK);
        const redco_json_value root = redco_json_root(document);
        assert_int_equal(redco_expert_constants_from_json(&root, &read, &err), REDCO_EVALUE);
        if (strstr(err.text, wrong[i].text) == NULL) { fail_msg("%s", err.text); }
        redco_json_close(document);
    }
}

static void what_nobody_states_is_assumed(void **state)
{
    redco_engine engine = {.stated = 0};
    redco_assumption one;
    size_t count = 0;
    (void)state;
    while (redco_assumption_at(&engine, 1, count, &one)) { count++; }
    assert_true(redco_assumption_at(&engine, 18, count, &one)); /* a rack's links besides */
    assert_true(redco_assumption_at(&engine, 1, 0, &one));
    assert_string_equal(one.what, "dispatcher");
    engine.stated = 1U << REDCO_TRAIT_DISPATCHER;
    assert_true(redco_assumption_at(&engine, 1, 0, &one));
    assert_string_equal(one.what, "ep_overlap");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distinct_nodes_are_those_of_uniform_routing),
        cmocka_unit_test(exchanges_take_the_slower_of_links_and_nics),
        cmocka_unit_test(dispatchers_hold_buffers),
        cmocka_unit_test(a_rack_without_its_links_is_hosts),
        cmocka_unit_test(launches_are_near_a_trace),
        cmocka_unit_test(hosts_and_releases_have_their_factors),
        cmocka_unit_test(shipped_sets_say_what_they_were_fitted_on),
        cmocka_unit_test(wrong_files_are_told),
        cmocka_unit_test(what_nobody_states_is_assumed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
