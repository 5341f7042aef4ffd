/* Pipelines of every schedule, laid out in time, against the closed form: random degrees, groups and micro-batches. */
#include "cost_fixture.h"
#include "costmodel/simulator/simulate.h"

#include <math.h>
#include <stdlib.h>

enum { RUNS = 800 };

struct gaps {
    double most, most_filled, most_kept;
    unsigned runs, kinds[REDCO_PIPELINE_COUNT];
};

static uint32_t drawn(uint32_t *state, uint32_t below)
{
    *state = *state * 1664525U + 1013904223U; /* Numerical Recipes */
    return (*state >> 8) % below;
}

static void compare(const struct fixture *b, const redco_parallelism *parallelism, redco_recompute recompute,
                    struct gaps *gaps)
{
    const redco_mesh one = {1, 1};
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(b->model, &classes);
    redco_assignment all[8];
    redco_simulation s;
    redco_error err = {.status = REDCO_OK};
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {{one, one, one}, recompute}};
    }
    check_ok(redco_simulate(b->costs, parallelism, all, count, NULL, &s, &err), &err);
    const redco_prediction p = redco_cost_step(b->costs, parallelism, all, count);
    const double gap = fabs(p.step_s / s.step_s - 1.0);
    const double kept = (double)s.peak.held_bytes[REDCO_CATEGORY_ACTIVATIONS];
    gaps->most = fmax(gaps->most, gap);
    if (parallelism->micro_batches >= 8 && parallelism->micro_batches >= 2 * (uint64_t)parallelism->pp) {
        gaps->most_filled = fmax(gaps->most_filled, gap);
    }
    /* recomputed values are beside them where gradients of weights come later */
    if (recompute == REDCO_RECOMPUTE_NONE && parallelism->micro_batches >= parallelism->pp) {
        gaps->most_kept = fmax(gaps->most_kept, fabs((double)p.activation_bytes / kept - 1.0));
    }
    gaps->runs++;
    gaps->kinds[redco_parallelism_pipeline(parallelism).kind]++;
}

static void simulated_is_closed(void **state)
{
    (void)state;
    uint32_t seed = 17;
    struct gaps gaps = {.runs = 0};
    while (gaps.runs < RUNS) {
        struct fixture b;
        redco_parallelism parallelism = {
            .tp = 1U << drawn(&seed, 4), .pp = 2 + drawn(&seed, 7), .cp = 1, .micro_batch = 1};
        const redco_pipeline_kind kind = (redco_pipeline_kind)drawn(&seed, REDCO_PIPELINE_COUNT);
        if (kind == REDCO_PIPELINE_INTERLEAVED) { parallelism.pp = 2U << drawn(&seed, 3); }
        const uint32_t m = 1 + drawn(&seed, 6 * parallelism.pp), v = 2U << drawn(&seed, 2);
        const uint32_t group = parallelism.pp + drawn(&seed, parallelism.pp);
        const uint32_t nodes = parallelism.pp;
        parallelism.schedule = kind;
        parallelism.chunks = kind == REDCO_PIPELINE_INTERLEAVED ? v : 1;
        parallelism.group = kind == REDCO_PIPELINE_INTERLEAVED && drawn(&seed, 2) == 0 ? group : 0;
        parallelism.dp = (redco_mesh){8 / parallelism.tp, 1};
        parallelism.micro_batches = m;
        parallelism.chunks = redco_pipeline_chunks(kind, parallelism.chunks);
        redco_workload workload = plain_workload((uint64_t)m * (8 / parallelism.tp));
        workload.seq_len = 2048;
        fixture_open(&b, "llama-7b", a800_machine(nodes), workload);
        if (redco_parallelism_check(b.costs, &parallelism, NULL) == REDCO_OK) {
            compare(&b, &parallelism, drawn(&seed, 3) == 0 ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_NONE, &gaps);
        }
        fixture_close(&b);
    }
    print_message(
        "%u parallelisms: %.2f %% of time, %.2f %% where stages are full long enough; %.2f %% of activations\n",
        gaps.runs, 100.0 * gaps.most, 100.0 * gaps.most_filled, 100.0 * gaps.most_kept);
    for (int k = 0; k < REDCO_PIPELINE_COUNT; k++) { assert_true(gaps.kinds[k] >= 5); }
    assert_true(gaps.most <= 0.04);
    assert_true(gaps.most_filled <= 0.02);
    assert_true(gaps.most_kept <= 0.025);
}

/* Closed form over simulated time of interleaved stages of one tensor-parallel node each. */
static double interleaved_ratio(const char *model, uint32_t seq_len, const redco_pipeline *p)
{
    struct fixture b;
    const redco_mesh one = {1, 1};
    const redco_parallelism parallelism = {.tp = 8,
                                           .pp = p->stages,
                                           .cp = 1,
                                           .chunks = p->chunks,
                                           .group = p->group,
                                           .micro_batch = 1,
                                           .micro_batches = p->micro_batches,
                                           .dp = one};
    const redco_layer_class *classes = NULL;
    redco_workload workload = plain_workload(p->micro_batches);
    redco_assignment all[8];
    redco_simulation s;
    redco_error err = {.status = REDCO_OK};
    workload.seq_len = seq_len;
    fixture_open(&b, model, a800_machine(p->stages), workload);
    check_ok(redco_parallelism_check(b.costs, &parallelism, &err), &err);
    const uint32_t count = (uint32_t)redco_model_classes(b.model, &classes);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {{one, one, one}, REDCO_RECOMPUTE_NONE}};
    }
    check_ok(redco_simulate(b.costs, &parallelism, all, count, NULL, &s, &err), &err);
    const double ratio = redco_cost_step(b.costs, &parallelism, all, count).step_s / s.step_s;
    fixture_close(&b);
    return ratio;
}

/* Groups of any size, one to four of them, and a last one that is not full: transfers hide behind what a group has more
 * than p micro-batches, and the embedding does not hide behind the head. */
static void groups_of_any_size_take_what_is_simulated(void **state)
{
    static const struct {
        const char *model;
        uint32_t blocks, seq_len;
    } cases[] = {{"llama-7b", 32, 512}, {"llama-7b", 32, 4096}, {"amsp-30b", 60, 512}, {"llama-65b", 80, 4096}};
    (void)state;
    double least = 1.0, most = 0.0;
    unsigned runs = 0, wide = 0;
    for (uint32_t i = 0; i < 15U * 7U * 8U; i++) {
        const uint32_t pp = 2 + i % 15, v = 2 + i / 15 % 7, m = pp + i / 105 * pp / 2;
        for (uint32_t group = pp; group <= m; group += 1 + pp / 2) {
            const uint32_t at = (i + group) % 4, rest = m % group;
            const redco_pipeline p = {
                .kind = REDCO_PIPELINE_INTERLEAVED, .stages = pp, .chunks = v, .group = group, .micro_batches = m};
            if (cases[at].blocks % (pp * v) != 0 || (rest > 0 && rest < pp)) { continue; }
            const double ratio = interleaved_ratio(cases[at].model, cases[at].seq_len, &p);
            least = fmin(least, ratio);
            most = fmax(most, ratio);
            runs++;
            wide += group > pp ? 1 : 0;
        }
    }
    print_message("%u interleaved pipelines, %u of wide groups: %.4f to %.4f\n", runs, wide, least, most);
    assert_true(runs >= 100 && wide >= 50);
    assert_true(least >= 0.99);
    assert_true(most <= 1.01);
}

/* Gradients sharded further than parameters are reduced after each of a stage's own micro-batches but the last. A form
 * that reduces during the pipeline's bubble as well takes up to 1.8 times as long. */
static void few_micro_batches_reduce_few_times(void **state)
{
    (void)state;
    double least = 1.0, most = 0.0;
    for (uint32_t pp = 2; pp <= 16; pp *= 2) {
        for (uint32_t m = 1; m <= 2 * pp; m *= 2) {
            struct fixture b;
            const redco_mesh one = {1, 1};
            const redco_parallelism parallelism = {
                .tp = 4, .pp = pp, .cp = 1, .chunks = 1, .micro_batch = 1, .micro_batches = m, .dp = {2, 4}};
            const redco_layer_class *classes = NULL;
            redco_workload workload = plain_workload((uint64_t)m * 8);
            redco_assignment all[8];
            redco_simulation s;
            redco_error err = {.status = REDCO_OK};
            workload.seq_len = 2048;
            fixture_open(&b, "llama-7b", a800_machine(4 * pp), workload);
            check_ok(redco_parallelism_check(b.costs, &parallelism, &err), &err);
            const uint32_t count = (uint32_t)redco_model_classes(b.model, &classes);
            for (uint32_t i = 0; i < count; i++) {
                all[i] = (redco_assignment){
                    i, classes[i].layers, {{one, parallelism.dp, parallelism.dp}, REDCO_RECOMPUTE_NONE}};
            }
            check_ok(redco_simulate(b.costs, &parallelism, all, count, NULL, &s, &err), &err);
            const double ratio = redco_cost_step(b.costs, &parallelism, all, count).step_s / s.step_s;
            print_message("pp %u, %u micro-batches: %.3f\n", pp, m, ratio);
            least = fmin(least, ratio);
            most = fmax(most, ratio);
            fixture_close(&b);
        }
    }
    assert_true(least >= 0.98);
    assert_true(most <= 1.02);
}

/* Lays a step out whole and folded. */
static void check_memory(const struct fixture *b, const redco_parallelism *parallelism, redco_mesh shards,
                         redco_recompute recompute)
{
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(b->model, &classes);
    redco_assignment all[8];
    redco_step *step = NULL;
    redco_timeline *timeline = NULL;
    redco_simulation folded;
    redco_error err = {.status = REDCO_OK};
    uint64_t most = 0;
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {{shards, shards, shards}, recompute}};
    }
    check_ok(redco_step_build(b->costs, parallelism, all, count, NULL, &step, &err), &err);
    check_ok(redco_timeline_create(step, &timeline, &err), &err);
    for (uint32_t rank = 0; rank < parallelism->pp; rank++) {
        const uint64_t *const resident = redco_step_resident_bytes(step, rank);
        redco_memory_point *points = NULL;
        uint32_t point_count = 0;
        check_ok(redco_timeline_memory(timeline, rank, &points, &point_count, &err), &err);
        for (uint32_t i = 0; i < point_count; i++) {
            uint64_t all_bytes = 0;
            for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) {
                assert_true(points[i].held_bytes[h] < UINT64_C(1) << 60); /* nothing is given back that was not taken */
                all_bytes += points[i].held_bytes[h];
            }
            if (all_bytes > most) { most = all_bytes; }
        }
        assert_true(point_count > 0);
        for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) {
            assert_int_equal(points[point_count - 1].held_bytes[h], resident[h]);
        }
        free(points);
    }
    check_ok(redco_simulate(b->costs, parallelism, all, count, NULL, &folded, &err), &err);
    assert_int_equal(folded.peak.bytes, most);
    redco_timeline_free(timeline);
    redco_step_free(step);
}

/* Every order of passes, with parameters sharded by layers and by modules, recomputed or not, gathers overlapped or
 * not. So many micro-batches are all laid out, and what a pass gives back too often makes up for all that a rank holds.
 */
static void memory_taken_is_given_back(void **state)
{
    (void)state;
    for (int each = 0; each < REDCO_PIPELINE_COUNT; each++) {
        const redco_pipeline_kind kind = (redco_pipeline_kind)each;
        for (int i = 0; i < 16; i++) {
            struct fixture b;
            redco_parallelism parallelism = {
                .tp = 1,
                .pp = 4,
                .cp = 1,
                .schedule = kind,
                .chunks = redco_pipeline_chunks(kind, kind == REDCO_PIPELINE_INTERLEAVED ? 2 : 1),
                .micro_batch = 1,
                .micro_batches = 80,
                .dp = {8, 1}};
            redco_workload workload = plain_workload(640);
            workload.seq_len = 1024;
            workload.engine.layer_units = (i & 1) != 0;
            workload.overlap = (i & 8) != 0 ? REDCO_OVERLAP_NONE : REDCO_OVERLAP_ALL;
            fixture_open(&b, "llama-7b", a800_machine(4), workload);
            check_ok(redco_parallelism_check(b.costs, &parallelism, NULL), NULL);
            check_memory(&b, &parallelism, (i & 2) != 0 ? parallelism.dp : (redco_mesh){1, 1},
                         (i & 4) != 0 ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_NONE);
            fixture_close(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulated_is_closed), cmocka_unit_test(groups_of_any_size_take_what_is_simulated),
        cmocka_unit_test(few_micro_batches_reduce_few_times), cmocka_unit_test(memory_taken_is_given_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
