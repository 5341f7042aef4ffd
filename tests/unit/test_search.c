/* redco_search() on a mock library cost model (synthetic_costs.c), against trying every strategy through
   redco_cost_step(). */
#include "planner/search/search_space.h"
#include "planner/search/strategy.h"
#include "synthetic_costs.h"
#include "tests/unit/recomputed.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static redco_search_options defaults(const synthetic *s)
{
    return (redco_search_options){
        .workload = s->workload, .recompute = REDCO_RECOMPUTE_FREE, .top = 1, .pass.gap_ratio = 5e-4};
}

static redco_search_result *search(const synthetic *s, const redco_search_options *options)
{
    redco_search_result *result = NULL;
    redco_error err = {0};
    const redco_status st = redco_search(&s->machine, s->model, &s->calibration, NULL, options, &result, &err);
    if (st != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return result;
}

static redco_status refused(const synthetic *s, const redco_search_options *options, redco_error *err)
{
    redco_search_result *result = NULL;
    const redco_status st = redco_search(&s->machine, s->model, &s->calibration, NULL, options, &result, err);
    assert_null(result);
    return st;
}

/** Least objective of one policy for all blocks, over the paper's space of one parallelism; INFINITY: nothing fits. */
static double brute_force(const synthetic *s, const redco_parallelism *parallelism, bool comm, int *looked_at)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(s->model, &classes);
    redco_costs *costs = NULL;
    assert_int_equal(redco_costs_create(&s->machine, s->model, &s->workload, &s->calibration, NULL, &costs, NULL),
                     REDCO_OK);
    redco_shards *triples = NULL;
    size_t count = 0;
    const redco_shards none = {{0, 0}, {0, 0}, {0, 0}};
    assert_int_equal(redco_strategy_triples(parallelism->dp, REDCO_STRATEGY_ANY, &none, &triples, &count, NULL),
                     REDCO_OK);
    double best_s = (double)INFINITY;
    for (size_t t = 0; t < count; t++) {
        for (int r = 0; r < RECOMPUTED; r++) {
            if (!redco_recompute_mixes(recomputed[r])) { continue; } /* searched for engines that offer it */
            redco_assignment list[4];
            for (uint32_t c = 0; c < class_count; c++) {
                const bool block = classes[c].kind == REDCO_CLASS_BLOCK || classes[c].kind == REDCO_CLASS_CROSS;
                list[c] = (redco_assignment){
                    c, classes[c].layers, {triples[t], block ? recomputed[r] : REDCO_RECOMPUTE_NONE}};
            }
            const redco_prediction p = redco_cost_step(costs, parallelism, list, (uint32_t)class_count);
            (*looked_at)++;
            if (p.total_bytes > p.capacity_bytes) { continue; }
            best_s = fmin(best_s, comm ? p.amsp_total_s : p.step_s);
        }
    }
    free(triples);
    redco_costs_free(costs);
    return best_s;
}

/* Over all configurations with tp in {1, 2, 4, 8} (or 1), all divisors as micro-batch, both schemes. */
static double brute_force_all(const synthetic *s, bool comm, int *looked_at)
{
    double best_s = (double)INFINITY;
    for (uint32_t tp = 1; tp <= (comm ? 1 : s->machine.gpus_per_node); tp++) {
        if (s->machine.gpus_per_node % tp != 0 || 32 % tp != 0) { continue; }
        const redco_mesh dp = {s->machine.gpus_per_node / tp, s->machine.nodes};
        const uint64_t batch = s->workload.global_batch / redco_mesh_ranks(dp);
        if (s->workload.global_batch % redco_mesh_ranks(dp) != 0) { continue; }
        for (uint64_t b = 1; b <= batch; b++) {
            if (batch % b != 0) { continue; }
            for (int scheme = 0; scheme < 2; scheme++) {
                const redco_parallelism parallelism = {.tp = tp,
                                                       .pp = 1,
                                                       .cp = 1,
                                                       .micro_batch = (uint32_t)b,
                                                       .micro_batches = batch / b,
                                                       .dp = dp,
                                                       .scheme = (redco_scheme)scheme};
                best_s = fmin(best_s, brute_force(s, &parallelism, comm, looked_at));
            }
        }
    }
    return best_s;
}

static void check_answer(const synthetic *s, const redco_candidate *c, double gap_ratio, const redco_search_result *r)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(s->model, &classes);
    uint32_t layers[8] = {0};
    for (uint32_t i = 0; i < c->assignment_count; i++) {
        const redco_assignment *a = &c->assignments[i];
        layers[a->class_index] += a->layers;
        assert_true(redco_mesh_nests(a->config.shards.parameters, a->config.shards.gradients));
        assert_true(redco_mesh_nests(a->config.shards.gradients, a->config.shards.optimizer));
        assert_true(redco_mesh_nests(a->config.shards.optimizer, c->parallelism.dp));
        if (i > 0) { assert_true(c->assignments[i - 1].class_index <= a->class_index); }
    }
    for (size_t k = 0; k < class_count; k++) { assert_int_equal(layers[k], classes[k].layers); }
    assert_true(c->prediction.total_bytes <= c->prediction.capacity_bytes);
    assert_int_equal(c->parallelism.micro_batch * c->parallelism.micro_batches * redco_mesh_ranks(c->parallelism.dp),
                     s->workload.global_batch);
    assert_string_equal(r->status, "optimal");
    assert_true(r->gap_ratio >= 0.0 && r->gap_ratio <= gap_ratio * (1.0 + 1e-9));
}

static const struct size {
    uint32_t nodes, gpus, layers, encoder;
    uint64_t params, batch;
} sizes[] = {
    {1, 1, 1, 0, 1000000, 4},         {1, 1, 12, 0, 7000000, 16},    {1, 8, 24, 0, 50000000, 64},
    {2, 8, 32, 0, 200000000, 128},    {4, 8, 40, 0, 300000000, 64},  {16, 8, 60, 0, 450000000, 512},
    {128, 8, 32, 0, 200000000, 1024}, {3, 4, 12, 12, 200000000, 48}, {12, 6, 16, 4, 250000000, 144},
    {128, 8, 60, 0, 450000000, 1024},
};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static synthetic instance(uint32_t i)
{
    const struct size z = sizes[i % SIZES];
    synthetic s = synthetic_create(z.nodes, z.gpus, z.layers, z.encoder, z.params, z.batch, i);
    if (i / SIZES % 3 == 1) { s.workload.overlap = REDCO_OVERLAP_AG_RS; }
    if (i / SIZES % 3 == 2) { s.machine.gpu.memory_bytes /= 2; }
    return s;
}

static void uniform_beats_one_policy_and_is_verified(void **state)
{
    (void)state;
    uint64_t verified = 0;
    int infeasible = 0;
    for (uint32_t i = 0; i < 30; i++) {
        synthetic s = instance(i);
        redco_search_options o = defaults(&s);
        o.verify = true;
        redco_search_result *r = search(&s, &o);
        int looked_at = 0;
        const double wanted_s = brute_force_all(&s, false, &looked_at);
        if (r->ranked_count == 0) {
            infeasible++;
            assert_true(isinf(wanted_s));
        } else {
            check_answer(&s, &r->ranked[0], o.pass.gap_ratio, r);
            assert_true(r->verified);
            assert_false(r->verify_failed);
            verified += r->verify_count;
            const double got_s = r->ranked[0].prediction.step_s;
            /* Mixed recomputation contains one policy for all. */
            assert_true(got_s <= wanted_s * (1.0 + o.pass.gap_ratio));
            assert_true(got_s <= r->verify_objective / (1.0 - o.pass.gap_ratio) * (1.0 + 1e-9));
            assert_true(got_s >= r->verify_objective * (1.0 - 1e-9));
            /* Every (P = OS) triple is listed under one scheme only. */
            assert_true(r->candidates <= (uint64_t)looked_at);
            assert_true(2 * r->candidates >= (uint64_t)looked_at);
        }
        redco_search_result_free(r);
        synthetic_free(&s);
    }
    assert_true(verified > 100000);
    assert_true(infeasible < 15);
}

/* AMSP recomputes no more than it takes for anything to fit. */
static void check_least_policy(const synthetic *s, const redco_search_result *amsp)
{
    if (amsp->ranked_count == 0) { return; }
    redco_recompute policy = 0;
    for (uint32_t i = 0; i < amsp->ranked[0].assignment_count; i++) {
        const redco_recompute r = amsp->ranked[0].assignments[i].config.recompute;
        policy = r > policy ? r : policy;
    }
    if (policy == 0) { return; }
    const bool full = policy == REDCO_RECOMPUTE_FULL; /* the FFN alone is not offered here */
    redco_search_options o = defaults(s);
    o.strategy = REDCO_STRATEGY_AMSP;
    o.recompute = full ? REDCO_RECOMPUTE_CORE_ATTN : REDCO_RECOMPUTE_NONE;
    redco_search_result *less = search(s, &o);
    assert_int_equal(less->ranked_count, 0);
    redco_search_result_free(less);
}

/* "With --objective comm its optimum must equal brute force over the paper's space." */
static void comm_equals_brute_force(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 30; i++) {
        synthetic s = instance(i);
        redco_search_options o = defaults(&s);
        o.objective = REDCO_OBJECTIVE_COMM;
        o.verify = true;
        redco_search_result *r = search(&s, &o);
        int looked_at = 0;
        const double wanted_s = brute_force_all(&s, true, &looked_at);
        assert_int_equal(r->ranked_count == 0, isinf(wanted_s));
        if (r->ranked_count > 0) {
            assert_true(fabs(r->ranked[0].objective - wanted_s) <= 1e-8 * wanted_s);
            assert_false(r->verify_failed);
            assert_int_equal(r->ranked[0].parallelism.tp, 1);
        }
        redco_search_result_free(r);
        o.strategy = REDCO_STRATEGY_AMSP;
        o.stated &= ~REDCO_STATES(REDCO_OF_SCHEME);
        r = search(&s, &o);
        for (uint32_t a = 1; r->ranked_count > 0 && a < r->ranked[0].assignment_count; a++) {
            const redco_assignment *list = r->ranked[0].assignments;
            assert_true(redco_shards_equal(list[a].config.shards, list[0].config.shards));
            assert_int_not_equal(list[a].class_index, list[a - 1].class_index); /* one policy */
        }
        check_least_policy(&s, r);
        redco_search_result_free(r);
        synthetic_free(&s);
    }
}

static void layerwise_is_never_worse(void **state)
{
    (void)state;
    int better = 0;
    for (uint32_t i = 0; i < 30; i++) {
        synthetic s = instance(i);
        redco_search_options o = defaults(&s);
        redco_search_result *u = search(&s, &o);
        o.layerwise = true;
        o.verify = i < 12;
        redco_search_result *l = search(&s, &o);
        assert_true(l->ranked_count >= u->ranked_count);
        if (u->ranked_count > 0) {
            check_answer(&s, &l->ranked[0], o.pass.gap_ratio, l);
            assert_true(l->ranked[0].prediction.step_s <= u->ranked[0].prediction.step_s * (1.0 + 1e-12));
            better += l->ranked[0].prediction.step_s < u->ranked[0].prediction.step_s * 0.999 ? 1 : 0;
            assert_false(l->verify_failed);
        }
        redco_search_result_free(u);
        redco_search_result_free(l);
        synthetic_free(&s);
    }
    assert_true(better > 0);
}

static void named_strategies_are_inside_and_not_better(void **state)
{
    (void)state;
    for (uint32_t i = 2; i < SIZES; i++) {
        synthetic s = instance(i);
        redco_search_options o = defaults(&s);
        redco_search_result *best = search(&s, &o);
        for (int name = REDCO_STRATEGY_DDP; name < REDCO_STRATEGY_COUNT; name++) {
            o.strategy = (redco_strategy)name;
            redco_search_result *r = search(&s, &o);
            if (r->ranked_count > 0 && name != REDCO_STRATEGY_AMSP) {
                const redco_candidate *c = &r->ranked[0];
                const redco_shards shards = c->assignments[0].config.shards;
                const redco_strategy of = redco_strategy_of(c->parallelism.dp, c->parallelism.secondary, &shards);
                const bool alias = name == REDCO_STRATEGY_HSDP || name == REDCO_STRATEGY_MICS ||
                                   name == REDCO_STRATEGY_ZEROPP; /* k = one node, or the whole mesh of one node */
                if (!alias) { assert_int_equal(of, name); }
                if (name == REDCO_STRATEGY_ZEROPP && c->parallelism.dp.nodes > 1) {
                    assert_int_equal(of, name);
                    assert_int_equal(c->parallelism.secondary.nodes, 1);
                }
            }
            if (r->ranked_count > 0 && name != REDCO_STRATEGY_ZEROPP) {
                assert_true(best->ranked_count > 0);
                assert_true(best->ranked[0].prediction.step_s <=
                            r->ranked[0].prediction.step_s * (1.0 + o.pass.gap_ratio));
            }
            redco_search_result_free(r);
        }
        redco_search_result_free(best);
        synthetic_free(&s);
    }
}

static void what_is_given_is_kept(void **state)
{
    (void)state;
    synthetic s = instance(6);
    redco_search_options o = defaults(&s);
    o.given.tp = 2;
    o.given.micro_batch = 2;
    o.recompute = REDCO_RECOMPUTE_FULL;
    o.stated |= REDCO_STATES(REDCO_OF_SCHEME);
    o.given.scheme = REDCO_INTRA_TENSOR;
    o.fix.optimizer = (redco_mesh){2, 4};
    redco_search_result *r = search(&s, &o);
    assert_int_equal(r->ranked_count, 1);
    const redco_candidate *c = &r->ranked[0];
    assert_int_equal(c->parallelism.tp, 2);
    assert_int_equal(c->parallelism.micro_batch, 2);
    assert_int_equal(c->parallelism.scheme, REDCO_INTRA_TENSOR);
    for (uint32_t i = 0; i < c->assignment_count; i++) {
        assert_true(redco_mesh_equal(c->assignments[i].config.shards.optimizer, o.fix.optimizer));
        if (c->assignments[i].class_index == 1) { assert_int_equal(c->assignments[i].config.recompute, o.recompute); }
    }
    redco_search_result_free(r);
    synthetic_free(&s);
}

static void impossible_options_are_named(void **state)
{
    (void)state;
    synthetic s = instance(3);
    const struct {
        uint32_t tp, micro_batch;
        uint64_t batch;
        redco_shards fix;
        double gap_ratio;
        const char *place;
    } cases[] = {{3, 0, 128, {{0, 0}, {0, 0}, {0, 0}}, 5e-4, "gpus"},
                 {64, 0, 128, {{0, 0}, {0, 0}, {0, 0}}, 5e-4, "gpus"},
                 {0, 3, 128, {{0, 0}, {0, 0}, {0, 0}}, 5e-4, "micro-batch"},
                 {0, 0, 127, {{0, 0}, {0, 0}, {0, 0}}, 5e-4, "global batch"},
                 {0, 0, 128, {{5, 1}, {0, 0}, {0, 0}}, 5e-4, "shards"},
                 {0, 0, 128, {{0, 0}, {0, 0}, {0, 0}}, (double)NAN, "gap"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_search_options o = defaults(&s);
        o.given.tp = cases[i].tp;
        o.given.pp = o.given.cp = 1;
        o.given.micro_batch = cases[i].micro_batch;
        o.workload.global_batch = cases[i].batch;
        o.fix = cases[i].fix;
        o.pass.gap_ratio = cases[i].gap_ratio;
        redco_error err = {0};
        assert_int_equal(refused(&s, &o, &err), REDCO_EVALUE);
        assert_string_equal(err.place, cases[i].place);
    }
    redco_search_options o = defaults(&s);
    s.calibration.memory_traffic_factor = (double)NAN;
    redco_error err = {0};
    assert_int_equal(refused(&s, &o, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "cost model");
    synthetic_free(&s);
}

static void top_k_is_sorted_and_distinct(void **state)
{
    (void)state;
    synthetic s = instance(4);
    redco_search_options o = defaults(&s);
    redco_search_result *first = search(&s, &o);
    o.top = 10;
    redco_search_result *r = search(&s, &o);
    assert_int_equal(r->ranked_count, 10);
    assert_true(fabs(r->ranked[0].prediction.step_s - first->ranked[0].prediction.step_s) < 1e-12);
    assert_int_equal(r->candidates, first->candidates);
    for (uint32_t i = 1; i < r->ranked_count; i++) {
        const redco_candidate *a = &r->ranked[i - 1];
        const redco_candidate *b = &r->ranked[i];
        /* Only the first may have been preferred within a tie. */
        assert_true(a->prediction.step_s <= b->prediction.step_s * (i == 1 ? 1.001 : 1.0 + 1e-9));
        const bool same = a->parallelism.tp == b->parallelism.tp &&
                          a->parallelism.micro_batch == b->parallelism.micro_batch &&
                          a->parallelism.scheme == b->parallelism.scheme &&
                          redco_mesh_equal(a->parallelism.secondary, b->parallelism.secondary) &&
                          redco_shards_equal(a->assignments[0].config.shards, b->assignments[0].config.shards);
        assert_false(same);
    }
    redco_search_result_free(first);
    redco_search_result_free(r);
    synthetic_free(&s);
}

/* A tie may go up to bound / (1 - gap); the bound is within a quarter of the gap. */
static void near_ties_go_to_the_leanest(void **state)
{
    (void)state;
    int ties = 0;
    for (uint32_t i = 2; i < 40; i++) {
        synthetic s = instance(i);
        redco_search_options o = defaults(&s);
        o.top = 30;
        redco_search_result *r = search(&s, &o);
        double best_s = (double)INFINITY;
        for (uint32_t k = 0; k < r->ranked_count; k++) { best_s = fmin(best_s, r->ranked[k].prediction.step_s); }
        for (uint32_t k = 1; k < r->ranked_count; k++) {
            if (r->ranked[k].prediction.step_s > best_s * (1.0 + 0.7 * o.pass.gap_ratio)) { continue; }
            ties++;
            assert_true(r->ranked[0].prediction.total_bytes <= r->ranked[k].prediction.total_bytes);
        }
        redco_search_result_free(r);
        synthetic_free(&s);
    }
    assert_true(ties > 0);
}

static void same_inputs_same_answer(void **state)
{
    (void)state;
    for (uint32_t i = 4; i < SIZES; i++) {
        synthetic s = instance(i);
        redco_search_options o = defaults(&s);
        o.layerwise = i % 2 == 0;
        redco_search_result *a = search(&s, &o);
        redco_search_result *b = search(&s, &o);
        assert_int_equal(a->ranked_count, b->ranked_count);
        if (a->ranked_count > 0) {
            assert_int_equal(a->ranked[0].assignment_count, b->ranked[0].assignment_count);
            for (uint32_t k = 0; k < a->ranked[0].assignment_count; k++) {
                const redco_assignment *x = &a->ranked[0].assignments[k];
                const redco_assignment *y = &b->ranked[0].assignments[k];
                assert_int_equal(x->layers, y->layers);
                assert_int_equal(x->config.recompute, y->config.recompute);
                assert_true(redco_shards_equal(x->config.shards, y->config.shards));
            }
            assert_true(a->gap_ratio <= b->gap_ratio && a->gap_ratio >= b->gap_ratio);
        }
        redco_search_result_free(a);
        redco_search_result_free(b);
        synthetic_free(&s);
    }
}

static void shortfall_names_what_would_fit(void **state)
{
    (void)state;
    /* 8 GPUs of 80 GiB hold 16 bytes for each of 13 B parameters, but not replicated. */
    synthetic s = synthetic_create(1, 8, 40, 0, 315000000, 128, 5);
    redco_search_options o = defaults(&s);
    o.strategy = REDCO_STRATEGY_DDP;
    o.given.tp = 1;
    redco_search_result *r = search(&s, &o);
    assert_int_equal(r->ranked_count, 0);
    assert_string_equal(r->status, "infeasible");
    const redco_shortfall *f = &r->shortfall;
    assert_int_equal(f->leanest.prediction.total_bytes - f->leanest.prediction.capacity_bytes, f->short_bytes);
    assert_string_equal(f->largest, "optimizer");
    /* Other sharding and tensor parallelism would; in the order of trial, where no step is known. */
    assert_int_equal(f->remedies[0].part_count, 1);
    assert_string_equal(f->remedies[0].parts[0].quantity, "strategy");
    uint32_t by = 0;
    while (strcmp(f->remedies[by].parts[0].quantity, "tp") != 0) { assert_true(++by < f->remedy_count); }
    const uint32_t named = (uint32_t)strtoul(f->remedies[by].parts[0].value, NULL, 10);
    redco_search_result_free(r);
    /* The sentence is true: what it names fits, and the next smaller does not. */
    for (o.given.tp = named; o.given.tp >= named / 2; o.given.tp /= 2) {
        r = search(&s, &o);
        assert_int_equal(r->ranked_count, o.given.tp == named);
        redco_search_result_free(r);
    }
    /* With everything free only nodes are left to add. */
    synthetic_free(&s);
    s = synthetic_create(1, 8, 80, 0, 900000000, 512, 5);
    o = defaults(&s);
    r = search(&s, &o);
    assert_int_equal(r->ranked_count, 0);
    uint64_t gpus = 0;
    char unit[5] = {0};
    assert_int_equal(sscanf(r->shortfall.cheapest_change, "%lu %4s", &gpus, unit), 2);
    assert_string_equal(unit, "GPUs");
    redco_search_result_free(r);
    s.machine.nodes = (uint32_t)(gpus / 8);
    r = search(&s, &o);
    assert_int_equal(r->ranked_count, 1);
    redco_search_result_free(r);
    s.machine.nodes /= 2;
    r = search(&s, &o);
    assert_int_equal(r->ranked_count, 0);
    redco_search_result_free(r);
    synthetic_free(&s);
    /* No recomputation and too much activation memory: recomputation comes first. */
    s = synthetic_create(1, 8, 32, 0, 200000000, 128, 5);
    o = defaults(&s);
    o.given.tp = 1;
    o.given.micro_batch = 16;
    o.recompute = REDCO_RECOMPUTE_NONE;
    r = search(&s, &o);
    assert_int_equal(r->ranked_count, 0);
    bool recomputes = false;
    for (uint32_t i = 0; i < r->shortfall.remedy_count; i++) {
        recomputes |= strstr(r->shortfall.remedies[i].parts[0].what, "full recomputation") != NULL;
    }
    assert_true(recomputes);
    assert_string_equal(r->shortfall.largest, "activations");
    redco_search_result_free(r);
    synthetic_free(&s);
}

static void a_planted_answer_is_caught(void **state)
{
    (void)state;
    for (int layerwise = 0; layerwise < 2; layerwise++) {
        synthetic s = instance(4);
        redco_search_options o = defaults(&s);
        o.layerwise = layerwise != 0;
        redco_search_result *r = search(&s, &o);
        const double right_s = r->ranked[0].prediction.step_s;
        redcoi_space *space = NULL;
        redco_search_counts counts = {0};
        const redcoi_inputs inputs = {&s.machine, s.model, &s.calibration, NULL, &counts};
        assert_int_equal(redcoi_space_create(&inputs, &o, &space, NULL), REDCO_OK);
        redco_search_result check = {.verified = false};
        assert_int_equal(redcoi_space_verify(space, right_s, &check, NULL), REDCO_OK);
        assert_true(check.verified);
        assert_false(check.verify_failed);
        check = (redco_search_result){.verified = false};
        assert_int_equal(redcoi_space_verify(space, right_s * 1.002, &check, NULL), REDCO_OK);
        assert_true(check.verify_failed);
        assert_true(check.verify_objective <= right_s * (1.0 + 1e-9));
        if (layerwise == 0) { /* an answer that nothing attains */
            check = (redco_search_result){.verified = false};
            assert_int_equal(redcoi_space_verify(space, right_s * 0.99, &check, NULL), REDCO_OK);
            assert_true(check.verify_failed);
        }
        redcoi_space_free(space);
        redco_search_result_free(r);
        synthetic_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_is_kept),
        cmocka_unit_test(impossible_options_are_named),
        cmocka_unit_test(top_k_is_sorted_and_distinct),
        cmocka_unit_test(same_inputs_same_answer),
        cmocka_unit_test(near_ties_go_to_the_leanest),
        cmocka_unit_test(shortfall_names_what_would_fit),
        cmocka_unit_test(a_planted_answer_is_caught),
        cmocka_unit_test(uniform_beats_one_policy_and_is_verified),
        cmocka_unit_test(comm_equals_brute_force),
        cmocka_unit_test(layerwise_is_never_worse),
        cmocka_unit_test(named_strategies_are_inside_and_not_better),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
