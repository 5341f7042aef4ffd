/* Tensor, pipeline and context degrees in the search, on preset models, cluster and calibration. */
#include "costmodel/simulator/simulate.h"
#include "planner/search/search.h"
#include "topology/discovery/cluster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct setup {
    redco_cluster *cluster;
    redco_model *model;
    redco_comm *comm;
    redco_machine machine;
    redco_calibration calibration;
    redco_search_options options;
};

static struct setup open_setup(const char *model, const char *cluster, uint64_t gpus, uint64_t global_batch)
{
    struct setup s = {.cluster = NULL};
    assert_int_equal(redco_cluster_read(cluster, NULL, NULL, NULL, &s.cluster, NULL), REDCO_OK);
    assert_int_equal(redco_cluster_machine(s.cluster, gpus, &s.machine, NULL), REDCO_OK);
    assert_int_equal(redco_model_read(model, &s.model, NULL), REDCO_OK);
    assert_int_equal(redco_calibration_read(NULL, &s.machine, &s.calibration, NULL), REDCO_OK);
    assert_int_equal(redco_comm_create(&s.machine, NULL, 0, &s.comm, NULL), REDCO_OK);
    s.options = (redco_search_options){.workload = {.seq_len = 4096,
                                                    .global_batch = global_batch,
                                                    .precision = REDCO_BF16,
                                                    .overlap = REDCO_OVERLAP_ALL,
                                                    .bucket_bytes = UINT64_C(1) << 30},
                                       .recompute = REDCO_RECOMPUTE_FREE,
                                       .top = 1,
                                       .pass.gap_ratio = 5e-4};
    return s;
}

static void close_setup(struct setup *s)
{
    redco_comm_free(s->comm);
    redco_model_free(s->model);
    redco_cluster_free(s->cluster);
}

static redco_search_result *search(const struct setup *s)
{
    redco_search_result *result = NULL;
    redco_error err = {0};
    if (redco_search(&s->machine, s->model, &s->calibration, s->comm, &s->options, &result, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return result;
}

static redco_costs *open_costs(const struct setup *s)
{
    redco_costs *costs = NULL;
    assert_int_equal(
        redco_costs_create(&s->machine, s->model, &s->options.workload, &s->calibration, s->comm, &costs, NULL),
        REDCO_OK);
    return costs;
}

/* Consecutive groups of @p size ranks: none is in two nodes, unless it is whole nodes. */
static bool groups_fit(uint64_t size, uint64_t world, uint32_t gpus_per_node)
{
    for (uint64_t first = 0; first < world; first += size) {
        const uint64_t last = first + size - 1;
        const bool one_node = first / gpus_per_node == last / gpus_per_node;
        const bool whole = first % gpus_per_node == 0 && (last + 1) % gpus_per_node == 0;
        if (!one_node && !whole) { return false; }
    }
    return true;
}

/* Configurations with one parallelism: two ways to synchronise the update, and ZeRO++'s copy where a second node is,
   which has no update to synchronise, nor has a single rank. */
static uint64_t choices_of(redco_mesh dp)
{
    return redco_mesh_ranks(dp) == 1 ? 1 : dp.nodes > 1 ? 3 : 2;
}

/* Every degree, mesh and micro-batch there could be, asked of the cost model one by one. */
static void the_space_is_every_setting_that_is_possible(void **state)
{
    (void)state;
    const struct {
        uint64_t gpus, batch;
        uint32_t pp, cp; /* 0: free */
    } cases[] = {{16, 16, 0, 0}, {8, 12, 0, 0}, {24, 24, 0, 0}, {32, 16, 0, 1}, {32, 16, 4, 0}, {32, 16, 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct setup s = open_setup("llama-7b", "a800-hdr", cases[i].gpus, cases[i].batch);
        s.options.given.pp = cases[i].pp != 0 ? cases[i].pp : REDCO_DEGREE_AUTO;
        s.options.given.cp = cases[i].cp != 0 ? cases[i].cp : REDCO_DEGREE_AUTO;
        redco_costs *costs = open_costs(&s);
        uint64_t expected = 0;
        for (uint32_t tp = 1; tp <= 8; tp++) {
            for (uint32_t cp = 1; cp <= 16; cp++) {
                for (uint32_t pp = 1; pp <= 32; pp++) {
                    if ((cases[i].pp != 0 && pp != cases[i].pp) || (cases[i].cp != 0 && cp != cases[i].cp)) {
                        continue;
                    }
                    for (uint32_t gpus = 1; gpus <= 8; gpus++) {
                        for (uint32_t nodes = 1; nodes <= cases[i].gpus; nodes++) {
                            const redco_mesh dp = {gpus, nodes};
                            const uint64_t stage = (uint64_t)tp * cp * gpus * nodes;
                            if (stage * pp != cases[i].gpus || !groups_fit(stage, cases[i].gpus, 8) ||
                                !groups_fit((uint64_t)tp * cp, cases[i].gpus, 8)) {
                                continue;
                            }
                            for (uint32_t b = 1; b <= cases[i].batch; b++) {
                                redco_parallelism parallelism = {
                                    .tp = tp, .pp = pp, .cp = cp, .micro_batch = b, .dp = dp};
                                parallelism.micro_batches = cases[i].batch / (b * redco_mesh_ranks(dp));
                                const bool good = redco_parallelism_check(costs, &parallelism, NULL) == REDCO_OK;
                                expected += good ? choices_of(dp) : 0;
                            }
                        }
                    }
                }
            }
        }
        redco_search_result *result = search(&s);
        assert_true(expected > 0);
        assert_int_equal(result->configurations, expected);
        redco_search_result_free(result);
        redco_costs_free(costs);
        close_setup(&s);
    }
}

static double best_step_s(struct setup *s, uint32_t pp, uint32_t cp)
{
    s->options.given.pp = pp;
    s->options.given.cp = cp;
    s->options.verify = pp == REDCO_DEGREE_AUTO;
    redco_search_result *result = search(s);
    const double step_s = result->ranked_count > 0 ? result->ranked[0].prediction.step_s : (double)INFINITY;
    if (result->ranked_count > 0) {
        redco_costs *costs = open_costs(s);
        const redco_candidate *best = &result->ranked[0];
        assert_int_equal(redco_parallelism_check(costs, &best->parallelism, NULL), REDCO_OK);
        assert_string_equal(result->status, "optimal");
        assert_int_equal(result->verified, s->options.verify);
        assert_false(result->verify_failed);
        if (pp != REDCO_DEGREE_AUTO) { assert_int_equal(best->parallelism.pp, pp == 0 ? 1 : pp); }
        if (cp != REDCO_DEGREE_AUTO) { assert_int_equal(best->parallelism.cp, cp == 0 ? 1 : cp); }
        redco_costs_free(costs);
    }
    redco_search_result_free(result);
    return step_s;
}

/* A free choice is at least as good as any given one, up to the proven gap; given degrees are kept. 65B needs stages on
   few GPUs. */
static void free_degrees_are_never_worse(void **state)
{
    (void)state;
    const struct {
        const char *model, *cluster;
        uint64_t gpus, batch;
    } cases[] = {{"llama-7b", "a800-hdr", 16, 64},
                 {"llama-13b", "dgx-h100", 64, 256},
                 {"llama-65b", "a800-hdr", 32, 64},
                 {"bart-large", "a800-hdr", 16, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int layerwise = 0; layerwise < (i % 3 == 0 ? 2 : 1); layerwise++) {
            struct setup s = open_setup(cases[i].model, cases[i].cluster, cases[i].gpus, cases[i].batch);
            if (i == 3) { s.options.workload.seq_len = 512; }
            s.options.layerwise = layerwise == 1;
            const double all_s = best_step_s(&s, REDCO_DEGREE_AUTO, REDCO_DEGREE_AUTO) * (1.0 - 1e-3 - 5e-4);
            const double stages_s = best_step_s(&s, REDCO_DEGREE_AUTO, 1) * (1.0 - 1e-3 - 5e-4);
            assert_true(isfinite(all_s));
            for (uint32_t pp = 0; pp <= 8; pp = pp == 0 ? 1 : 2 * pp) {
                const double step_s = best_step_s(&s, pp, 0);
                assert_true(all_s <= step_s && stages_s <= step_s);
                assert_true(all_s <= best_step_s(&s, pp, 2));
            }
            close_setup(&s);
        }
    }
}

static void impossible_degrees_are_named(void **state)
{
    (void)state;
    const struct {
        uint32_t tp, pp, cp, seq_len;
        const char *place;
    } cases[] = {{0, 3, 0, 4096, "gpus"},         {0, 64, 0, 4096, "pp"},    {0, 0, 3, 4096, "gpus"},
                 {0, 0, 4, 4098, "cp"},           {8, 128, 2, 4096, "gpus"}, {1, 4294967293, 1, 4096, "gpus"},
                 {8, 1, 4294967293, 4096, "gpus"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct setup s = open_setup("llama-7b", "a800-hdr", 64, 1024);
        redco_search_result *result = NULL;
        redco_error err = {0};
        s.options.given.tp = cases[i].tp;
        s.options.given.pp = cases[i].pp;
        s.options.given.cp = cases[i].cp;
        s.options.workload.seq_len = cases[i].seq_len;
        assert_int_equal(redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &result, &err),
                         REDCO_EVALUE);
        assert_null(result);
        assert_string_equal(err.place, cases[i].place);
        close_setup(&s);
    }
    /* 24 GPUs in 4 stages are 6 each, which begin in one node of 8 and end in the next. */
    struct setup s = open_setup("llama-7b", "a800-hdr", 24, 24);
    redco_search_result *result = NULL;
    redco_error err = {0};
    s.options.given.tp = 1;
    s.options.given.pp = 4;
    assert_int_equal(redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &result, &err),
                     REDCO_EVALUE);
    assert_string_equal(err.place, "pp");
    close_setup(&s);
}

/* T_comm leaves the traffic of pipelines and of context parallelism out: free degrees are 1 then, given ones stay. */
static void comm_leaves_degrees_at_one(void **state)
{
    (void)state;
    struct setup s = open_setup("llama-7b", "a800-hdr", 32, 128);
    s.options.given.pp = REDCO_DEGREE_AUTO;
    s.options.given.cp = REDCO_DEGREE_AUTO;
    for (int amsp = 0; amsp < 2; amsp++) {
        s.options.objective = amsp ? REDCO_OBJECTIVE_STEP_TIME : REDCO_OBJECTIVE_COMM;
        s.options.strategy = amsp ? REDCO_STRATEGY_AMSP : REDCO_STRATEGY_ANY;
        redco_search_result *result = search(&s);
        assert_int_equal(result->ranked[0].parallelism.pp, 1);
        assert_int_equal(result->ranked[0].parallelism.cp, 1);
        redco_search_result_free(result);
    }
    s.options.given.pp = 4;
    redco_search_result *result = search(&s);
    assert_int_equal(result->ranked[0].parallelism.pp, 4);
    redco_search_result_free(result);
    close_setup(&s);
}

/* Recomputed layers of each stage; all stages alike. */
static void check_stages(const struct setup *s, const redco_candidate *c)
{
    const redco_layer_class *classes = NULL;
    (void)redco_model_classes(s->model, &classes);
    uint32_t counts[64][REDCO_RECOMPUTE_FULL + 1] = {{0}};
    uint32_t layer = 0;
    for (uint32_t i = 0; i < c->assignment_count; i++) {
        const redco_assignment *a = &c->assignments[i];
        if (classes[a->class_index].kind != REDCO_CLASS_BLOCK) { continue; }
        for (uint32_t n = 0; n < a->layers; n++, layer++) {
            const uint32_t stage = layer * c->parallelism.pp / classes[a->class_index].layers;
            assert_true(stage < 64);
            counts[stage][a->config.recompute]++;
        }
    }
    for (uint32_t stage = 1; stage < c->parallelism.pp; stage++) {
        assert_memory_equal(counts[stage], counts[0], sizeof counts[0]);
    }
}

/* The best of pipelines in the simulator: within 3 % of the closed form (0.75 % on average), also where stages
 * recompute some layers. */
static void the_simulator_agrees_on_stages(void **state)
{
    (void)state;
    static const char *const models[] = {"llama-7b", "llama-13b", "amsp-30b", "llama-65b"};
    double worst_ratio = 0.0;
    double sum_ratio = 0.0;
    uint32_t mixed = 0, count = 0;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        for (uint64_t gpus = 64; gpus <= 1024; gpus *= 16) {
            for (uint32_t at = 0; at < 12; at++) {
                struct setup s = open_setup(models[m], "a800-hdr", gpus, 1024);
                s.options.given.pp = 2U << at % 3;
                s.options.given.cp = 1U << at / 3 % 2;
                s.options.given.tp = at / 6 == 0 ? 2 : 8;
                redco_search_result *result = NULL;
                redco_error err = {0};
                const redco_status st =
                    redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &result, &err);
                redco_costs *costs = open_costs(&s);
                for (uint32_t i = 0; st == REDCO_OK && i < result->ranked_count; i++) {
                    const redco_candidate *c = &result->ranked[i];
                    redco_simulation simulation;
                    assert_int_equal(redco_simulate(costs, &c->parallelism, c->assignments, c->assignment_count, NULL,
                                                    &simulation, &err),
                                     REDCO_OK);
                    const double ratio = fabs(simulation.step_s / c->prediction.step_s - 1.0);
                    if (c->parallelism.pp <= 64 && c->assignment_count > 3) {
                        mixed++;
                        check_stages(&s, c);
                    }
                    worst_ratio = fmax(worst_ratio, ratio);
                    sum_ratio += ratio;
                    count++;
                }
                redco_costs_free(costs);
                redco_search_result_free(result);
                close_setup(&s);
            }
        }
    }
    print_message("%u pipelines, %u of them mixed: mean %.2f %%, worst %.2f %%\n", count, mixed,
                  1e2 * sum_ratio / count, 1e2 * worst_ratio);
    assert_true(count >= 80);
    assert_true(mixed >= 5);
    assert_true(sum_ratio / count <= 0.0075);
    assert_true(worst_ratio <= 0.03);
}

/* 72 heads, which NVL72's domain divides in every way. */
static redco_model *heads_72(void)
{
    static const char text[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 32000, \"hidden_size\": 9216, \"intermediate_size\": 24576,"
        " \"num_hidden_layers\": 72, \"num_attention_heads\": 72, \"num_key_value_heads\": 72,"
        " \"max_position_embeddings\": 8192, \"tie_word_embeddings\": false}";
    redco_json *document = NULL;
    redco_model *model = NULL;
    assert_int_equal(redco_json_parse(text, sizeof text - 1, "heads-72", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    assert_int_equal(redco_model_from_json(&root, "heads-72", &model, NULL), REDCO_OK);
    redco_json_close(document);
    return model;
}

/* Degrees that the search weighs by itself: divisors of the heads that links join; with fewer KV heads than ranks those
 * are replicated. A single degree has the rest of the space, so that those of all add up to the free one's. */
static void free_tensor_parallelism_stays_inside_links(void **state)
{
    (void)state;
    const struct {
        const char *cluster, *model;
        uint64_t gpus;
        uint32_t batch, degrees[13];
    } cases[] = {{"nc96ads-a100-v4", "llama-7b", 4, 16, {1, 2}},
                 {"a100-pcie-8x", "llama-7b", 16, 16, {1, 2}},
                 {"box-4x3090", "llama-7b", 2, 16, {1, 2}},
                 {"box-4090", "llama-7b", 8, 16, {1, 2, 4, 8}}, /* no links to stay inside */
                 {"p3dn", "llama-7b", 8, 16, {1, 2, 4, 8}},
                 {"dgx-a100", "llama-7b", 16, 16, {1, 2, 4, 8}},
                 {"dgx-a100", "gpt2-xl", 8, 16, {1}},          /* 25 heads */
                 {"dgx-a100", "gpt2-large", 8, 16, {1, 2, 4}}, /* 20 heads */
                 {"gb200-nvl72", "llama-3.1-405b", 72, 72, {1, 2, 4, 8}},
                 {"gb200-nvl72", "llama-3.1-405b", 64, 64, {1, 2, 4, 8, 16, 32, 64}},
                 {"gb200-nvl72", "llama-7b", 64, 64, {1, 2, 4, 8, 16, 32}},
                 {"gb200-nvl72", NULL, 72, 72, {1, 2, 3, 4, 6, 8, 9, 12, 18, 24, 36, 72}}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *name = cases[i].model != NULL ? cases[i].model : "llama-7b";
        struct setup s = open_setup(name, cases[i].cluster, cases[i].gpus, cases[i].batch);
        s.options.workload.seq_len = 1024;
        s.options.workload.precision = REDCO_FP16;
        if (cases[i].model == NULL) {
            redco_model_free(s.model);
            s.model = heads_72();
        }
        redco_search_result *result = search(&s);
        uint64_t sum = 0;
        const uint64_t all = result->configurations;
        redco_search_result_free(result);
        for (uint32_t d = 0; cases[i].degrees[d] != 0; d++) {
            s.options.given.tp = cases[i].degrees[d];
            result = search(&s);
            sum += result->configurations;
            redco_search_result_free(result);
        }
        if (sum != all) {
            fail_msg("case %zu: %llu configurations, not %llu", i, (unsigned long long)all, (unsigned long long)sum);
        }
        close_setup(&s);
    }
}

static double fixed_tp_s(struct setup *s, uint32_t tp)
{
    s->options.given.tp = tp;
    redco_search_result *result = search(s);
    assert_true(result->ranked_count > 0);
    const double step_s = result->ranked[0].prediction.step_s;
    redco_search_result_free(result);
    return step_s;
}

/* A given degree may leave the bridges, through PCIe at a price; where nothing else fits, the advice names it. */
static void given_tensor_parallelism_may_leave_links(void **state)
{
    (void)state;
    struct setup s = open_setup("llama-7b", "nc96ads-a100-v4", 4, 64);
    s.options.workload.seq_len = 2048;
    const double free_s = fixed_tp_s(&s, 0);
    const double pair_s = fixed_tp_s(&s, 2);
    const double quad_s = fixed_tp_s(&s, 4);
    assert_true(free_s <= pair_s * (1.0 + 1e-3));
    assert_true(quad_s > 1.3 * pair_s);
    close_setup(&s);
    /* 16 bytes a parameter of 2.5 billion: half of them is too much for 24 GB, a quarter is not */
    s = open_setup("gemma-2b", "box-4x3090", 4, 4);
    s.options.workload.seq_len = 2048;
    s.options.strategy = REDCO_STRATEGY_DDP;
    redco_search_result *result = search(&s);
    assert_int_equal(result->ranked_count, 0);
    assert_int_equal(result->shortfall.leanest.parallelism.tp, 2);
    assert_string_equal(result->shortfall.cheapest_change, "other sharding would fit");
    char text[200];
    assert_true(result->shortfall.remedy_count > 1);
    assert_string_equal(redco_remedy_text(&result->shortfall.remedies[1], NULL, true, text, sizeof text),
                        "tensor parallelism of 4 instead of 2, beyond the GPUs that links join, would fit");
    redco_search_result_free(result);
    close_setup(&s);
}

/* One sequence a step leaves data parallelism nothing to do: a rack's wide domain is used beyond 8. */
static void wide_domains_are_used_where_they_pay(void **state)
{
    (void)state;
    struct setup s = open_setup("llama-3.1-405b", "gb200-nvl72", 64, 4);
    s.options.workload.seq_len = 8192;
    redco_search_result *result = search(&s);
    assert_int_equal(result->ranked[0].parallelism.tp, 16);
    redco_search_result_free(result);
    close_setup(&s);
}

/* 1920 sequences divide over none of 2240, 1120, 560 and 280 ranks, which tp leaves: stages or context parallelism do.
 * Where both are given as 1, the nearest multiples of one of these are 6 and 7 times 280. */
static void a_batch_finds_the_layouts_that_divide_it(void **state)
{
    (void)state;
    struct setup s = open_setup("llama-13b", "dgx-a100", 2240, 1920);
    redco_search_result *result = search(&s);
    const redco_parallelism *const best = &result->ranked[0].parallelism;
    assert_true(best->pp * best->cp > 1);
    assert_int_equal(redco_mesh_ranks(best->dp) * best->micro_batch * best->micro_batches, 1920);
    redco_search_result_free(result);
    redco_error err = {0};
    s.options.given.pp = s.options.given.cp = 1;
    result = NULL;
    assert_int_equal(redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &result, &err),
                     REDCO_EVALUE);
    assert_string_equal(err.place, "global batch");
    assert_string_equal(err.text, "1920 sequences do not divide over 2240 data-parallel ranks (tp = 1), nor over those "
                                  "of 3 other layouts; 1680 and 1960 would");
    /* An engine without either has nothing else to try. */
    s.options.given.pp = s.options.given.cp = 0;
    s.options.allows.dimensions = REDCO_HAS_TP;
    redco_error_clear(&err);
    assert_int_equal(redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &result, &err),
                     REDCO_EVALUE);
    close_setup(&s);
}

/* 3,000 layers and two for embedding and head on 9 stages: no number of chunks divides them. A layer less in the
 * largest chunk saves 8 x 9 / (128 x 3002) of a step, so that half a per cent are 27 layers; the largest chunks have
 * 334, 167, 112, 84, 67, 56, 48, 42, 38, 34, 31, 28 and, of 24 chunks, 14 layers. */
static void chunks_that_gain_nothing_are_left_out(void **state)
{
    (void)state;
    static const uint32_t wanted[] = {1, 2, 3, 4, 6, 12};
    static const char path[] = "llama-3000-layers.json";
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("{\"model_type\": \"llama\", \"num_hidden_layers\": 3000, \"hidden_size\": 1024, "
                      "\"intermediate_size\": 4096, \"num_attention_heads\": 16, \"vocab_size\": 32000}",
                      file) >= 0);
    assert_int_equal(fclose(file), 0);
    struct setup s = open_setup(path, "hgx-h200", 72, 1024);
    bool seen[25] = {false};
    s.options.given = (redco_parallelism){.tp = 1, .pp = 9, .cp = 1, .micro_batch = 1, .chunks = REDCO_DEGREE_AUTO};
    s.options.recompute = REDCO_RECOMPUTE_FULL;
    s.options.strategy = REDCO_STRATEGY_ZERO1;
    s.options.allows.unequal_stages = true;
    s.options.top = REDCO_RANKED_MAX;
    redco_search_result *const result = search(&s);
    for (uint32_t i = 0; i < result->ranked_count; i++) {
        const redco_parallelism *const p = &result->ranked[i].parallelism;
        assert_int_equal(p->micro_batches, 128);
        seen[redco_parallelism_chunks(p)] = true;
    }
    for (uint32_t chunks = 1, k = 0; chunks <= 24; chunks++) {
        const bool is_wanted = k < sizeof wanted / sizeof wanted[0] && wanted[k] == chunks;
        k += is_wanted ? 1 : 0;
        if (seen[chunks] != is_wanted) { fail_msg("%u chunks: %s", chunks, is_wanted ? "left out" : "listed"); }
    }
    redco_search_result_free(result);
    close_setup(&s);
    assert_int_equal(remove(path), 0);
}

/* 28 layers on 4 stages: of 2, 3 and 4 chunks none are equal, of 7 they are, as 7 x 4 = 28. A number that is given is
 * had with an engine whose stages may be unequal, and no slower where the number is free. */
static void chunks_that_no_number_divides_are_unequal(void **state)
{
    (void)state;
    struct setup s = open_setup("qwen2.5-7b", "dgx-h100", 64, 256);
    redco_search_result *result = NULL;
    redco_error err = {0};
    s.options.given = (redco_parallelism){.tp = 2, .pp = 4, .cp = 1, .micro_batch = 1, .chunks = 2};
    assert_int_equal(redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &result, &err),
                     REDCO_EVALUE);
    assert_non_null(strstr(err.text, "do not divide the 28 layers"));
    redco_error_clear(&err);
    s.options.allows.unequal_stages = true;
    s.options.given.chunks = REDCO_DEGREE_AUTO;
    redco_search_result *const free_result = search(&s);
    for (s.options.given.chunks = 2; s.options.given.chunks <= 7; s.options.given.chunks++) {
        result = search(&s);
        const redco_candidate *const best = &result->ranked[0];
        const uint32_t chunks = s.options.given.chunks;
        assert_int_equal(redco_parallelism_chunks(&best->parallelism), chunks);
        assert_true(chunks == 7 || best->parallelism.split != NULL);
        uint32_t layers = 0;
        for (uint32_t i = 0; best->parallelism.split != NULL && i < 4 * chunks; i++) {
            layers += best->parallelism.split[i];
        }
        assert_int_equal(best->parallelism.split != NULL ? layers : 28, 28);
        assert_true(free_result->ranked[0].objective <=
                    best->objective * 1.005); /* half a per cent is worth a layout */
        redco_search_result_free(result);
    }
    redco_search_result_free(free_result);
    close_setup(&s);
}

/* torch.distributed.pipelining makes max(1, m / p) rounds of m micro-batches on p stages, rounded down, and takes no m
 * that these do not divide; an engine without groups takes multiples of p. On 4 stages of 2 chunks: */
static void engines_interleave_in_groups_that_they_have(void **state)
{
    (void)state;
    static const struct {
        uint32_t micro_batches;
        bool plain, rounds;
    } cases[] = {{4, true, true},   {6, false, true},  {7, false, true},   {8, true, true},
                 {9, false, false}, {10, false, true}, {11, false, false}, {15, false, true}};
    static const uint32_t has = REDCO_HAS_TP | REDCO_HAS_PP | REDCO_HAS_CHUNKS;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int rounds = 0; rounds < 2; rounds++) {
            struct setup s = open_setup("llama-7b", "dgx-h100", 8, UINT64_C(2) * cases[i].micro_batches);
            redco_search_result *result = NULL;
            s.options.given = (redco_parallelism){.tp = 1, .pp = 4, .cp = 1, .chunks = 2};
            s.options.allows.dimensions = has | (rounds == 1 ? REDCO_HAS_ROUNDS : 0);
            s.options.top = REDCO_RANKED_MAX;
            s.options.recompute = REDCO_RECOMPUTE_FULL;
            const redco_status st =
                redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &result, NULL);
            bool listed = false;
            for (uint32_t k = 0; st == REDCO_OK && k < result->ranked_count; k++) {
                listed = listed || result->ranked[k].parallelism.micro_batches == cases[i].micro_batches;
            }
            if (listed != (rounds == 1 ? cases[i].rounds : cases[i].plain)) {
                fail_msg("%u micro-batches, rounds %d: %s", cases[i].micro_batches, rounds, listed ? "taken" : "not");
            }
            redco_search_result_free(result);
            close_setup(&s);
        }
    }
}

/* Measured degrees against every parallelism given one by one within what rows hold: 4096 tokens a rank beside context
 * parallelism, 2048 where a batch has fewer sequences than there are GPUs, groups of at most two nodes below 8192, 64
 * stages. What is dominated is listed here, too. */
static void measured_degrees_are_the_best_within_rows(void **state)
{
    (void)state;
    const struct {
        const char *model, *cluster;
        uint64_t gpus, batch;
        uint32_t seq_len;
    } cases[] = {{"llama-7b", "a800-hdr", 32, 32, 16384},
                 {"llama-7b", "dgx-h100", 64, 16, 32768},
                 {"llama-13b", "dgx-a100", 32, 64, 8192},
                 {"llama-30b", "dgx-h100", 64, 48, 8192},
                 {"llama-65b", "a800-hdr", 64, 32, 4096}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct setup s = open_setup(cases[i].model, cases[i].cluster, cases[i].gpus, cases[i].batch);
        double best_s = (double)INFINITY;
        const uint64_t fewest = cases[i].batch < cases[i].gpus ? 2048 : 4096;
        s.options.workload.seq_len = cases[i].seq_len;
        s.options.given.chunks = REDCO_DEGREE_AUTO;
        s.options.sequence_parallel = REDCO_EITHER;
        for (uint32_t pp = 1; pp <= 64; pp++) {
            for (uint32_t cp = 1; cp <= 16; cp++) {
                for (uint32_t tp = 1; tp <= (cp > 1 ? 8 : 1); tp *= 2) {
                    for (uint32_t b = 1; b <= (cp > 1 ? cases[i].batch : 1); b++) {
                        const uint64_t tokens = (uint64_t)b * cases[i].seq_len / cp;
                        const bool held = cp == 1 || (tokens >= fewest && (tokens >= 8192 || tp * cp <= 16));
                        redco_search_result *one = NULL;
                        s.options.given.pp = pp;
                        s.options.given.cp = cp;
                        s.options.given.tp = cp > 1 ? tp : 0;
                        s.options.given.micro_batch = cp > 1 ? b : 0;
                        if (!held || cases[i].gpus % pp != 0 ||
                            redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &one, NULL) !=
                                REDCO_OK) {
                            continue;
                        }
                        if (one->ranked_count > 0) { best_s = fmin(best_s, one->ranked[0].prediction.step_s); }
                        redco_search_result_free(one);
                    }
                }
            }
        }
        s.options.given.pp = s.options.given.cp = REDCO_DEGREE_MEASURED;
        s.options.given.tp = s.options.given.micro_batch = 0;
        s.options.verify = true;
        redco_search_result *all = search(&s);
        assert_true(all->ranked_count > 0 && !all->verify_failed);
        const redco_parallelism *const c = &all->ranked[0].parallelism;
        if (fabs(all->ranked[0].prediction.step_s - best_s) > 2e-3 * best_s) {
            fail_msg("case %zu: %g s with tp %u pp %u cp %u, not %g s", i, all->ranked[0].prediction.step_s, c->tp,
                     c->pp, c->cp, best_s);
        }
        const uint64_t tokens = (uint64_t)c->micro_batch * cases[i].seq_len / c->cp;
        assert_true(c->cp == 1 || (tokens >= fewest && (tokens >= 8192 || c->tp * c->cp <= 16)));
        redco_search_result_free(all);
        close_setup(&s);
    }
}

/* The best of a free schedule and free norms, against every one that can be given: 32 blocks hold 1, 2, 4 or 8 chunks
 * on each of 4 stages where micro-batches come in multiples of 4. */
static void free_schedules_are_the_best_of_those_given(void **state)
{
    (void)state;
    const struct {
        const char *model, *cluster;
        uint64_t gpus, batch;
        uint32_t pp;
    } cases[] = {{"llama-7b", "a800-hdr", 16, 64, 4},
                 {"llama-7b", "dgx-h100", 32, 64, 8},
                 {"llama-30b", "dgx-h100", 64, 128, 4},
                 {"llama-65b", "dgx-a100", 64, 64, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct setup s = open_setup(cases[i].model, cases[i].cluster, cases[i].gpus, cases[i].batch);
        double best_s = (double)INFINITY;
        uint64_t configurations = 0;
        s.options.given.pp = cases[i].pp;
        for (uint32_t tp = 1; tp <= 8; tp *= 2) {
            for (uint32_t chunks = 1; chunks <= 64; chunks++) {
                for (int rows = 0; rows <= (tp > 1 ? 1 : 0); rows++) {
                    redco_search_result *one = NULL;
                    s.options.given.tp = tp;
                    s.options.given.chunks = chunks;
                    s.options.sequence_parallel = rows == 1 ? REDCO_ON : REDCO_OFF;
                    if (redco_search(&s.machine, s.model, &s.calibration, s.comm, &s.options, &one, NULL) != REDCO_OK) {
                        continue;
                    }
                    configurations += one->configurations;
                    if (one->ranked_count > 0) { best_s = fmin(best_s, one->ranked[0].prediction.step_s); }
                    redco_search_result_free(one);
                }
            }
        }
        s.options.given.tp = 0;
        s.options.given.chunks = REDCO_DEGREE_AUTO;
        s.options.sequence_parallel = REDCO_EITHER;
        s.options.verify = true;
        redco_search_result *all = search(&s);
        assert_true(all->ranked_count > 0 && !all->verify_failed);
        assert_int_equal(all->configurations, configurations);
        assert_true(fabs(all->ranked[0].prediction.step_s - best_s) <= 2e-3 * best_s);
        redco_search_result_free(all);
        /* The search does not choose what the engine lacks. */
        s.options.allows.dimensions = REDCO_HAS_TP | REDCO_HAS_PP;
        all = search(&s);
        assert_int_equal(redco_parallelism_chunks(&all->ranked[0].parallelism), 1);
        assert_false(all->ranked[0].parallelism.sequence_parallel);
        redco_search_result_free(all);
        close_setup(&s);
    }
}

/* Megatron recomputes the FFN in all layers or in none: the free answer is the better of both searches, and where all
 * that fits without is slower, all blocks have it. */
static void the_ffn_is_recomputed_everywhere_or_nowhere(void **state)
{
    static const redco_recompute_list only_full = {{REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_FULL}, 2};
    static const redco_recompute_list both = {{REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_MLP, REDCO_RECOMPUTE_FULL}, 3};
    uint32_t taken = 0, left = 0;
    (void)state;
    for (uint64_t margin_gb = 0; margin_gb <= 48; margin_gb += 4) {
        struct setup s = open_setup("llama-13b", "a800-hdr", 8, 64);
        s.options.workload.seq_len = 32768; /* attention, which full recomputation repeats, is half of the work */
        s.options.given.tp = 8;
        s.options.sequence_parallel = REDCO_ON;
        s.options.given.micro_batch = 1;
        s.options.pass.margin_bytes = margin_gb * UINT64_C(1000000000);
        s.options.allows.recompute = both;
        redco_search_result *const free_result = search(&s);
        s.options.allows.recompute = only_full;
        redco_search_result *const without = search(&s);
        s.options.recompute = REDCO_RECOMPUTE_MLP;
        redco_search_result *const all = search(&s);
        double best_s = (double)INFINITY;
        if (without->ranked_count > 0) { best_s = without->ranked[0].closed_form.step_s; }
        if (all->ranked_count > 0) { best_s = fmin(best_s, all->ranked[0].closed_form.step_s); }
        if (free_result->ranked_count == 0) { /* too little room for any */
            assert_true(isinf(best_s));
            redco_search_result_free(free_result);
            redco_search_result_free(without);
            redco_search_result_free(all);
            close_setup(&s);
            continue;
        }
        const redco_candidate *const c = &free_result->ranked[0];
        assert_true(fabs(c->closed_form.step_s - best_s) <= 1e-3 * best_s); /* near ties take less memory */
        uint32_t blocks = 0, recomputed = 0;
        const redco_layer_class *classes = NULL;
        (void)redco_model_classes(s.model, &classes);
        for (uint32_t i = 0; i < c->assignment_count; i++) {
            if (classes[c->assignments[i].class_index].kind != REDCO_CLASS_BLOCK) { continue; }
            blocks += c->assignments[i].layers;
            if (c->assignments[i].config.recompute == REDCO_RECOMPUTE_MLP) { recomputed += c->assignments[i].layers; }
        }
        assert_int_equal(blocks, 40);
        assert_true(recomputed == 0 || recomputed == blocks);
        *(recomputed > 0 ? &taken : &left) += 1;
        redco_search_result_free(free_result);
        redco_search_result_free(without);
        redco_search_result_free(all);
        close_setup(&s);
    }
    assert_true(taken > 0 && left > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_space_is_every_setting_that_is_possible),
        cmocka_unit_test(free_degrees_are_never_worse),
        cmocka_unit_test(impossible_degrees_are_named),
        cmocka_unit_test(comm_leaves_degrees_at_one),
        cmocka_unit_test(the_simulator_agrees_on_stages),
        cmocka_unit_test(free_tensor_parallelism_stays_inside_links),
        cmocka_unit_test(given_tensor_parallelism_may_leave_links),
        cmocka_unit_test(wide_domains_are_used_where_they_pay),
        cmocka_unit_test(a_batch_finds_the_layouts_that_divide_it),
        cmocka_unit_test(chunks_that_gain_nothing_are_left_out),
        cmocka_unit_test(chunks_that_no_number_divides_are_unequal),
        cmocka_unit_test(engines_interleave_in_groups_that_they_have),
        cmocka_unit_test(measured_degrees_are_the_best_within_rows),
        cmocka_unit_test(free_schedules_are_the_best_of_those_given),
        cmocka_unit_test(the_ffn_is_recomputed_everywhere_or_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
