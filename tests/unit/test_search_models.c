/* The search on preset models, cluster and calibration: what the second methods say, and AMSP's own choices. */
#include "planner/search/exact.h"
#include "planner/search/search_space.h"
#include "tests/unit/recomputed.h"
#include "topology/discovery/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct setup {
    redco_cluster *cluster;
    redco_model *model;
    redco_comm *comm;
    redco_machine machine;
    redco_calibration calibration;
};

static struct setup open_setup(const char *model, uint64_t gpus)
{
    struct setup s = {.cluster = NULL};
    assert_int_equal(redco_cluster_read("a800-hdr", NULL, NULL, NULL, &s.cluster, NULL), REDCO_OK);
    assert_int_equal(redco_cluster_machine(s.cluster, gpus, &s.machine, NULL), REDCO_OK);
    assert_int_equal(redco_model_read(model, &s.model, NULL), REDCO_OK);
    assert_int_equal(redco_calibration_read(NULL, &s.machine, &s.calibration, NULL), REDCO_OK);
    assert_int_equal(redco_comm_create(&s.machine, NULL, 0, &s.comm, NULL), REDCO_OK);
    return s;
}

static void close_setup(struct setup *s)
{
    redco_comm_free(s->comm);
    redco_model_free(s->model);
    redco_cluster_free(s->cluster);
}

static redco_search_options defaults(void)
{
    const redco_workload workload = {.seq_len = 4096,
                                     .global_batch = 1024,
                                     .precision = REDCO_BF16,
                                     .overlap = REDCO_OVERLAP_ALL,
                                     .bucket_bytes = UINT64_C(1) << 30};
    return (redco_search_options){
        .workload = workload, .recompute = REDCO_RECOMPUTE_FREE, .top = 1, .pass.gap_ratio = 5e-4};
}

static redco_search_result *search(const struct setup *s, const redco_search_options *o)
{
    redco_search_result *result = NULL;
    redco_error err = {0};
    if (redco_search(&s->machine, s->model, &s->calibration, s->comm, o, &result, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return result;
}

/* The sums inside the optimisation problem and those of redco_cost_step() must be the same numbers. */
static void second_methods_agree(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-7b", "amsp-30b", "llama-65b", "t5-11b"};
    static const uint64_t sizes[] = {8, 64, 1024};
    int infeasible = 0;
    for (int m = 0; m < 4; m++) {
        for (int g = 0; g < 3; g++) {
            struct setup s = open_setup(models[m], sizes[g]);
            redco_search_options o = defaults();
            if (m == 3) { o.workload.seq_len = 512; }
            o.verify = true;
            redco_search_result *u = search(&s, &o);
            o.layerwise = true;
            redco_search_result *l = search(&s, &o);
            assert_int_equal(u->ranked_count > 0, l->ranked_count > 0);
            infeasible += u->ranked_count == 0 ? 1 : 0;
            for (int i = 0; i < 2 && u->ranked_count > 0; i++) {
                const redco_search_result *r = i == 0 ? u : l;
                const redco_prediction *p = &r->ranked[0].prediction;
                assert_string_equal(r->status, "optimal");
                assert_true(r->verified);
                assert_false(r->verify_failed);
                assert_true(r->gap_ratio <= o.pass.gap_ratio);
                assert_true(p->total_bytes <= p->capacity_bytes);
                assert_true(p->step_s >= r->verify_objective * (1.0 - 1e-9));
                assert_true(p->step_s <= r->verify_objective / (1.0 - o.pass.gap_ratio) * (1.0 + 1e-9));
            }
            if (u->ranked_count > 0) {
                assert_true(l->ranked[0].prediction.step_s <= u->ranked[0].prediction.step_s * (1.0 + 1e-12));
            }
            redco_search_result_free(u);
            redco_search_result_free(l);
            close_setup(&s);
        }
    }
    assert_int_equal(infeasible, 1); /* 65B on 8 GPUs: 16 bytes x 65e9 / 8 are 130 GB of states each */
}

/* AMSP, arXiv 2311.00257, Table IV (models, s0 x s1 of parameters, gradients, optimizer states) and its parallelisms of
   section VI-A: tp 1, micro-batch 1, whole-tensor sharding; recomputation for 30B, left free here. */
static void the_papers_choices_fit_and_are_not_faster(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        redco_shards shards;
    } table[] = {{"llama-7b", {{1, 1}, {1, 1}, {8, 1}}},
                 {"llama-13b", {{4, 1}, {4, 1}, {8, 1}}},
                 {"amsp-30b", {{8, 1}, {8, 1}, {8, 4}}}};
    static const uint64_t sizes[] = {32, 128, 512, 1024};
    for (int m = 0; m < 3; m++) {
        for (int g = 0; g < 4; g++) {
            struct setup s = open_setup(table[m].model, sizes[g]);
            redco_search_options o = defaults();
            o.given.tp = 1;
            o.given.micro_batch = 1;
            redco_search_result *best = search(&s, &o);
            o.fix = table[m].shards;
            o.stated |= REDCO_STATES(REDCO_OF_SCHEME);
            o.given.scheme = REDCO_INTER_TENSOR;
            redco_search_result *paper = search(&s, &o);
            assert_int_equal(paper->ranked_count, 1);
            assert_int_equal(best->ranked_count, 1);
            assert_true(best->ranked[0].prediction.step_s <= paper->ranked[0].prediction.step_s);
            /* The paper's planner minimises T_comm over the same space, so it is never above its own table. */
            o = defaults();
            o.given.micro_batch = 1;
            o.strategy = REDCO_STRATEGY_AMSP;
            o.recompute = m == 2 ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_FREE;
            redco_search_result *amsp = search(&s, &o);
            assert_int_equal(amsp->ranked_count, 1);
            assert_true(amsp->ranked[0].prediction.amsp_total_s <=
                        paper->ranked[0].prediction.amsp_total_s * (1.0 + 1e-9));
            redco_search_result_free(best);
            redco_search_result_free(paper);
            redco_search_result_free(amsp);
            close_setup(&s);
        }
    }
}

/* The bound that rules out a configuration before it is priced must not exceed its price. */
static void bounds_of_memory_hold(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-13b", "t5-11b", "llama-3-8b"};
    for (int m = 0; m < 3; m++) {
        struct setup s = open_setup(models[m], 48);
        redco_search_counts counts = {0};
        const redcoi_inputs inputs = {&s.machine, s.model, &s.calibration, s.comm, &counts};
        redco_search_options o = defaults();
        redcoi_space *space = NULL;
        uint32_t tight = 0;
        o.workload.global_batch = 96;
        o.workload.seq_len = m == 1 ? 512 : 2048;
        o.given.pp = REDCO_DEGREE_AUTO;
        o.given.cp = REDCO_DEGREE_MEASURED;
        o.given.chunks = REDCO_DEGREE_AUTO;
        o.sequence_parallel = REDCO_EITHER;
        assert_int_equal(redcoi_space_create(&inputs, &o, &space, NULL), REDCO_OK);
        for (uint32_t i = 0; i < space->configuration_count; i++) {
            redcoi_configuration *configuration = &space->configurations[i];
            redcoi_answer answer;
            assert_int_equal(redcoi_space_price(space, configuration, NULL, NULL), REDCO_OK);
            redcoi_problem endless = *configuration->steps;
            endless.budget_bytes = UINT64_MAX / 2;
            uint64_t least = UINT64_MAX;
            for (uint32_t g = 0; g < configuration->group_count; g++) {
                assert_true(redcoi_exact_group(&endless, g, REDCOI_LEAST_MEMORY, 1e300, &answer, NULL));
                if (answer.bytes + configuration->fixed_bytes < least) {
                    least = answer.bytes + configuration->fixed_bytes;
                }
            }
            assert_true(configuration->least_bytes <= least);
            tight += (double)least < 1.5 * (double)configuration->least_bytes ? 1 : 0;
        }
        assert_true(tight > space->configuration_count / 2);
        redcoi_space_free(space);
        close_setup(&s);
    }
}

/* A layer's time with its gradient window hidden or exposed to that degree, the other window left out. */
static double seconds(const redco_fixed_cost *fixed, const redco_layer_cost *cost, bool overlapped, double exposed)
{
    const double hidden = overlapped ? fixed->window_hidden_factor * cost->grad_comm_s : cost->grad_comm_s;
    const double rest = overlapped ? cost->grad_comm_s - hidden - fixed->window_use * cost->grad_window_s : 0.0;
    return cost->compute_s + cost->exposed_s + cost->optimizer_s + hidden + exposed * rest;
}

static uint64_t resident(const redco_layer_cost *cost)
{
    return cost->parameter_bytes + cost->gradient_bytes + cost->optimizer_bytes + cost->activation_bytes;
}

/* The bound by the parameters' mesh is no more than any configuration with it, whatever share of the window is priced.
 */
static void bounds_of_meshes_hold(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-13b", "t5-11b", "llama-3-8b", "mixtral-8x7b"};
    static const uint32_t overlaps[] = {REDCO_OVERLAP_ALL, REDCO_OVERLAP_AR, REDCO_OVERLAP_AG_RS};
    uint64_t compared = 0, near = 0;
    for (int m = 0; m < 10; m++) {
        const char *const model = models[m < 9 ? m % 3 : 3];
        struct setup s = open_setup(model, 48);
        redco_search_counts counts = {0};
        const redcoi_inputs inputs = {&s.machine, s.model, &s.calibration, s.comm, &counts};
        redco_search_options o = defaults();
        redcoi_space *space = NULL;
        const bool overlapped = (overlaps[m / 3 % 3] & REDCO_OVERLAP_AR) != 0;
        o.workload.global_batch = 96;
        o.workload.seq_len = m % 3 == 1 ? 512 : 2048;
        o.workload.overlap = overlaps[m / 3 % 3];
        if (m == 9) { o.tp_placement = REDCO_TP_PAIRED; }
        o.workload.engine.planned_memory = m >= 6 && m < 9;
        o.workload.engine.layer_units = m >= 3 && m < 6;
        o.given.pp = REDCO_DEGREE_MEASURED;
        o.given.cp = REDCO_DEGREE_MEASURED;
        o.given.chunks = REDCO_DEGREE_AUTO;
        o.sequence_parallel = REDCO_EITHER;
        assert_int_equal(redcoi_space_create(&inputs, &o, &space, NULL), REDCO_OK);
        for (uint32_t i = 0; i < space->configuration_count; i += 17) {
            const redcoi_configuration *configuration = &space->configurations[i];
            const redco_fixed_cost fixed = redco_cost_fixed(space->costs, &configuration->parallelism);
            for (uint32_t k = 0; k < configuration->group_count * space->class_count; k++) {
                const redco_recompute r = recomputed[k % RECOMPUTED];
                const redco_layer_config config = {configuration->groups[k / space->class_count], r};
                const uint32_t c = k % space->class_count;
                const redco_layer_cost all = redco_cost_layer(space->costs, &configuration->parallelism, c, &config);
                /* Behind the longest of all sets where nothing is gathered, or behind its own. */
                const redco_recompute_list offered = redcoi_space_sets(space, configuration, REDCOI_ANY_GROUP, c);
                const redco_recompute_list alone = {{r}, 1};
                const bool among =
                    i % 2 == 0 && redco_mesh_ranks(config.shards.parameters) == 1 && redco_recompute_has(&offered, r);
                redco_layer_cost least = redco_cost_layer_least(space->costs, &configuration->parallelism, c,
                                                                config.shards.parameters, among ? &offered : &alone);
                const redco_recomputed more = redco_cost_recomputed(space->costs, &configuration->parallelism, c, r);
                assert_true(more.passes_s + more.recompute_s <= all.compute_s * (1.0 + 1e-12));
                assert_true(redco_cost_least_bytes(space->costs, &configuration->parallelism, c) <= resident(&least));
                least.compute_s += more.recompute_s;
                least.activation_bytes = more.activation_bytes;
                assert_true(resident(&least) <= resident(&all));
                for (double exposed = 0.0; exposed <= 1.0; exposed += 0.25) {
                    const double all_s = seconds(&fixed, &all, overlapped, exposed);
                    const double least_s = seconds(&fixed, &least, overlapped, exposed);
                    if (least_s > all_s * (1.0 + 1e-12)) {
                        fail_msg("%s, configuration %u, group %u, class %u: bound %g s, layer %g s", model, i,
                                 k / space->class_count, c, least_s, all_s);
                    }
                    compared++;
                    near += least_s > 0.9 * all_s ? 1 : 0;
                }
            }
        }
        redcoi_space_free(space);
        close_setup(&s);
    }
    assert_true(compared > 30000 && near > compared / 2);
}

/* 100,000 layers of equal shape: as many prices and compositions as 100 of them take, not a thousand times. */
static void work_grows_with_classes_of_layers(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t gpus;
        bool fits;
    } cases[] = {
        {"{\"model_type\":\"llama\",\"hidden_size\":16384,\"intermediate_size\":53248,\"num_attention_heads\":128,"
         "\"num_hidden_layers\":100000,\"vocab_size\":128256}",
         8, false},
        {"{\"model_type\":\"llama\",\"hidden_size\":1024,\"intermediate_size\":2816,\"num_attention_heads\":16,"
         "\"num_hidden_layers\":100000,\"vocab_size\":32000}",
         1024, false},
        {"{\"model_type\":\"t5\",\"d_model\":512,\"d_ff\":2048,\"d_kv\":64,\"num_heads\":8,\"num_layers\":50000,"
         "\"num_decoder_layers\":50000,\"vocab_size\":32128}",
         512, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char path[] = "layers.json";
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_true(fputs(cases[i].json, file) >= 0 && fclose(file) == 0);
        struct setup s = open_setup(path, cases[i].gpus);
        redco_search_options o = defaults();
        o.workload.seq_len = cases[i].fits ? 64 : 4096;
        o.sequence_parallel = REDCO_EITHER;
        o.given.chunks = REDCO_DEGREE_AUTO;
        redco_search_result *r = search(&s, &o);
        const redco_search_counts *c = &r->counts;
        assert_int_equal(r->ranked_count > 0, cases[i].fits);
        if (cases[i].fits) { assert_string_equal(r->status, "optimal"); }
        assert_int_equal(c->listed, c->bounded + c->priced);
        /* A few configurations are priced from the spaces of all changes that could make it fit. */
        if (c->priced > 100 || c->compositions > 100000) {
            fail_msg("case %zu: %llu of %llu configurations priced, %llu compositions", i,
                     (unsigned long long)c->priced, (unsigned long long)c->listed, (unsigned long long)c->compositions);
        }
        redco_search_result_free(r);
        close_setup(&s);
        assert_int_equal(remove(path), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_methods_agree),
        cmocka_unit_test(the_papers_choices_fit_and_are_not_faster),
        cmocka_unit_test(bounds_of_memory_hold),
        cmocka_unit_test(bounds_of_meshes_hold),
        cmocka_unit_test(work_grows_with_classes_of_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
