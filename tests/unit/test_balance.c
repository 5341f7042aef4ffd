/* Stages that balance embedding and head, against all splits; groups that hide transfers, against the recurrence. */
#include "cost_fixture.h"

#include <math.h>

/* Seconds of a layer of each kind: embedding, block, head. */
static void seconds_of(const struct fixture *b, const redco_parallelism *parallelism, double seconds[3])
{
    const redco_layer_config plain = {{{1, 1}, {1, 1}, {1, 1}}, REDCO_RECOMPUTE_NONE};
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(b->model, &classes);
    assert_int_equal(count, 3);
    for (uint32_t c = 0; c < count; c++) {
        const redco_layer_cost cost = redco_cost_layer_step(b->costs, parallelism, c, &plain);
        seconds[c] = cost.bare_forward_s + cost.bare_backward_s;
    }
}

/* The least of the longest stage over all ways to put so many blocks on the stages from @p stage on, of which each
 * holds at least one a chunk beside those of embedding and head. */
static double least_s(const double seconds[3], uint32_t stages, uint32_t chunks, uint32_t stage, uint32_t blocks)
{
    const bool last = stage + 1 == stages;
    const double edge_s = (stage == 0 ? seconds[0] : 0.0) + (last ? seconds[2] : 0.0);
    const uint32_t least = chunks - (stage == 0 ? 1 : 0) - (last ? 1 : 0);
    double best_s = (double)INFINITY;
    if (last) { return blocks < least ? best_s : edge_s + blocks * seconds[1]; }
    for (uint32_t here = least; here <= blocks; here++) {
        best_s =
            fmin(best_s, fmax(edge_s + here * seconds[1], least_s(seconds, stages, chunks, stage + 1, blocks - here)));
    }
    return best_s;
}

static void the_longest_stage_works_least(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint32_t tp, pp, chunks, blocks;
    } cases[] = {{"llama-3-8b", 1, 2, 1, 32}, {"llama-3-8b", 1, 4, 1, 32}, {"llama-3-8b", 2, 4, 4, 32},
                 {"llama-3-8b", 4, 3, 1, 32}, {"bloom-7b1", 1, 4, 1, 30},  {"bloom-7b1", 1, 5, 2, 30},
                 {"gemma-2b", 1, 4, 1, 18},   {"opt-125m", 1, 4, 1, 12},   {"opt-125m", 1, 2, 3, 12}};
    unsigned moved = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture b;
        uint32_t split[REDCO_SPLIT_POSITIONS_MAX] = {0}, sum = 0;
        double seconds[3] = {0.0}, longest_s = 0.0;
        const uint32_t pp = cases[i].pp, chunks = cases[i].chunks;
        fixture_open(&b, cases[i].model, a800_machine(pp), plain_workload(64));
        redco_parallelism parallelism = {.tp = cases[i].tp, .pp = pp, .cp = 1, .chunks = chunks, .micro_batch = 1};
        parallelism.dp = (redco_mesh){8 / cases[i].tp, 1};
        parallelism.micro_batches = 64 * cases[i].tp / 8;
        assert_true(redco_cost_balance(b.costs, &parallelism, 0.0, split));
        assert_int_equal(redco_split_check(split, pp * chunks, cases[i].blocks, NULL), REDCO_OK);
        seconds_of(&b, &parallelism, seconds);
        for (uint32_t stage = 0; stage < pp; stage++) {
            double stage_s = (stage == 0 ? seconds[0] : 0.0) + (stage + 1 == pp ? seconds[2] : 0.0);
            for (uint32_t chunk = 0; chunk < chunks; chunk++) { stage_s += split[chunk * pp + stage] * seconds[1]; }
            longest_s = fmax(longest_s, stage_s);
        }
        assert_true(fabs(longest_s / least_s(seconds, pp, chunks, 0, cases[i].blocks) - 1.0) < 1e-6);
        for (uint32_t p = 0; p < pp * chunks; p++) { sum += split[p]; }
        assert_int_equal(sum, cases[i].blocks);
        const redco_pipeline_kind kind = redco_pipeline_of_chunks(REDCO_PIPELINE_1F1B, chunks);
        moved += redco_split_is_equal(kind, split, pp * chunks, cases[i].blocks) ? 0 : 1;
        fixture_close(&b);
    }
    assert_true(moved >= 5);
}

/* Blocks of several classes in the model's order, and what stands beside them. */
struct mixture {
    double block_s[128], edge_s[2]; /* first and last position */
    uint32_t blocks, pp, positions;
    double stage_s[8];
};

static void mixture_of(const struct fixture *b, const redco_parallelism *parallelism, struct mixture *m)
{
    const redco_layer_config plain = {{{1, 1}, {1, 1}, {1, 1}}, REDCO_RECOMPUTE_NONE};
    const redco_layer_class *classes = NULL;
    const redco_layer_run *runs = NULL;
    const size_t count = redco_model_order(b->model, &runs);
    (void)redco_model_classes(b->model, &classes);
    *m = (struct mixture){.pp = parallelism->pp, .positions = parallelism->pp * parallelism->chunks};
    for (size_t r = 0; r < count; r++) {
        const redco_layer_cost cost = redco_cost_layer_step(b->costs, parallelism, runs[r].class_index, &plain);
        const double s = cost.bare_forward_s + cost.bare_backward_s;
        const redco_class_kind kind = classes[runs[r].class_index].kind;
        for (uint32_t i = 0; i < runs[r].layers; i++) {
            if (redco_class_is_block(kind)) {
                m->block_s[m->blocks++] = s;
            } else {
                m->edge_s[kind == REDCO_CLASS_HEAD ? 1 : 0] += s;
            }
        }
    }
}

/* Puts the blocks from @p from on a position, so many of them. */
static void put(struct mixture *m, uint32_t position, uint32_t from, uint32_t blocks, double sign)
{
    double *const s = &m->stage_s[position % m->pp];
    for (uint32_t i = from; i < from + blocks; i++) { *s += sign * m->block_s[i]; }
    if (position == 0) { *s += sign * m->edge_s[0]; }
    if (position + 1 == m->positions) { *s += sign * m->edge_s[1]; }
}

static double longest_of(const struct mixture *m)
{
    double longest_s = 0.0;
    for (uint32_t i = 0; i < m->pp; i++) { longest_s = fmax(longest_s, m->stage_s[i]); }
    return longest_s;
}

/* The least of the longest stage over all ways to put the blocks from @p from on the positions from @p position on. */
static double least_of_all_s(struct mixture *m, uint32_t position, uint32_t from)
{
    const uint32_t left = m->blocks - from, last = m->positions - 1;
    const uint32_t least = position > 0 && position < last ? 1 : 0;
    double best_s = (double)INFINITY;
    for (uint32_t here = position == last ? left : least; here <= left; here++) {
        put(m, position, from, here, 1.0);
        best_s = fmin(best_s, position == last ? longest_of(m) : least_of_all_s(m, position + 1, from + here));
        put(m, position, from, here, -1.0);
    }
    return best_s;
}

static void stages_of_a_mixture_are_even(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint32_t tp, ep, pp, chunks;
    } cases[] = {{"deepseek-v2-lite", 1, 8, 2, 1}, {"deepseek-v2-lite", 2, 4, 3, 1}, {"deepseek-v2-lite", 1, 8, 4, 1},
                 {"deepseek-v2-lite", 1, 8, 2, 2}, {"deepseek-v2-lite", 2, 2, 3, 2}, {"deepseek-v3", 8, 8, 4, 1},
                 {"deepseek-v3", 4, 8, 2, 2},      {"llama-4-maverick", 4, 8, 4, 1}, {"llama-4-maverick", 4, 8, 2, 2},
                 {"gemma-2-2b", 1, 1, 4, 1},       {"gemma-2-2b", 1, 1, 2, 3},       {"gpt-oss-20b", 1, 8, 3, 1},
                 {"gpt-oss-20b", 1, 8, 3, 2},      {"glm-4.5", 4, 8, 4, 1},          {"glm-4.5-air", 4, 8, 2, 2}};
    unsigned moved = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture b;
        struct mixture m;
        uint32_t split[REDCO_SPLIT_POSITIONS_MAX] = {0}, from = 0;
        const uint32_t pp = cases[i].pp, chunks = cases[i].chunks;
        fixture_open(&b, cases[i].model, a800_machine(pp), plain_workload(64));
        redco_parallelism parallelism = {.tp = cases[i].tp, .pp = pp, .cp = 1, .chunks = chunks, .micro_batch = 1};
        parallelism.ep = cases[i].ep;
        parallelism.etp = 1;
        parallelism.dp = (redco_mesh){8 / cases[i].tp, 1};
        parallelism.micro_batches = 64 * cases[i].tp / 8;
        assert_true(redco_cost_balance(b.costs, &parallelism, 0.0, split));
        mixture_of(&b, &parallelism, &m);
        assert_int_equal(redco_split_check(split, m.positions, m.blocks, NULL), REDCO_OK);
        const double least_s = least_of_all_s(&m, 0, 0);
        for (uint32_t p = 0; p < m.positions; from += split[p++]) { put(&m, p, from, split[p], 1.0); }
        /* Chunks of a stage hold blocks that do not follow one another: moving one after the other finds it nearly. */
        assert_true(longest_of(&m) < least_s * (chunks == 1 ? 1.0 + 1e-6 : 1.015));
        moved +=
            redco_split_is_equal(redco_pipeline_of_chunks(REDCO_PIPELINE_1F1B, chunks), split, m.positions, m.blocks)
                ? 0
                : 1;
        const double even_s = redco_cost_balance_bound(b.costs, &parallelism);
        parallelism.split = split; /* no split is below the bound, and this one is near it */
        assert_true(even_s <= redco_cost_bound(b.costs, &parallelism) * (1.0 + 1e-9));
        assert_true(even_s > redco_cost_bound(b.costs, &parallelism) * 0.5);
        fixture_close(&b);
    }
    assert_true(moved >= 10);
}

/* The longest stage and the longest chunk of a split. */
static void lengths_of(struct mixture *m, const uint32_t *split, double lengths_s[2])
{
    lengths_s[1] = 0.0;
    memset(m->stage_s, 0, sizeof m->stage_s);
    for (uint32_t p = 0, from = 0; p < m->positions; from += split[p++]) {
        double *const s = &m->stage_s[p % m->pp];
        const double before_s = *s;
        put(m, p, from, split[p], 1.0);
        lengths_s[1] = fmax(lengths_s[1], *s - before_s);
    }
    lengths_s[0] = longest_of(m);
}

/* Stages that take turns wait for the longest chunk: no block that changes to another chunk of its stage makes it
 * shorter without a longer stage. */
static void chunks_of_a_mixture_are_even(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        uint32_t tp, pp, chunks;
    } cases[] = {{"deepseek-v3", 1, 4, 4}, {"deepseek-v3", 4, 4, 4}, {"deepseek-v3", 8, 4, 2},
                 {"glm-4.5", 4, 4, 4},     {"glm-4.5", 1, 4, 8},     {"glm-4.5-air", 4, 4, 4},
                 {"glm-4.5-air", 8, 4, 3}, {"gpt-oss-20b", 1, 4, 4}, {"deepseek-v2-lite", 1, 4, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture b;
        struct mixture m;
        uint32_t split[REDCO_SPLIT_POSITIONS_MAX] = {0};
        double even_s[2], moved_s[2];
        fixture_open(&b, cases[i].model, a800_machine(4), plain_workload(64));
        redco_parallelism parallelism = {.tp = cases[i].tp, .pp = 4, .cp = 1, .chunks = cases[i].chunks};
        parallelism.ep = parallelism.etp = parallelism.micro_batch = 1;
        parallelism.dp = (redco_mesh){8 / cases[i].tp, 1};
        parallelism.micro_batches = 64 * cases[i].tp / 8;
        assert_true(redco_cost_balance(b.costs, &parallelism, 0.0, split));
        mixture_of(&b, &parallelism, &m);
        lengths_of(&m, split, even_s);
        for (uint32_t from = 0; from < m.positions; from++) {
            for (uint32_t to = from % 4; to < m.positions; to += 4) {
                if (to == from || split[from] <= 1) { continue; }
                split[from]--;
                split[to]++;
                lengths_of(&m, split, moved_s);
                assert_false(moved_s[1] < even_s[1] * (1.0 - 1e-6) && moved_s[0] < even_s[0] * (1.0 + 1e-10));
                split[from]++;
                split[to]--;
            }
        }
        fixture_close(&b);
    }
}

/* No stages, both directions at once, and what gains less than is asked for. */
static void nothing_to_balance(void **state)
{
    (void)state;
    struct fixture b;
    uint32_t split[REDCO_SPLIT_POSITIONS_MAX];
    fixture_open(&b, "llama-3-8b", a800_machine(4), plain_workload(64));
    redco_parallelism parallelism = {.tp = 1, .pp = 1, .cp = 1, .micro_batch = 1, .micro_batches = 8, .dp = {8, 1}};
    assert_false(redco_cost_balance(b.costs, &parallelism, 0.0, split));
    parallelism.pp = 4;
    assert_true(redco_cost_balance(b.costs, &parallelism, 0.05, split));
    assert_false(redco_cost_balance(b.costs, &parallelism, 0.5, split));
    parallelism.schedule = REDCO_PIPELINE_DUALPIPE;
    assert_false(redco_cost_balance(b.costs, &parallelism, 0.0, split));
    fixture_close(&b);
}

/* Forward passes of N - p micro-batches hide p transfers: from that group on the step is no shorter. What is saved is
 * what the smallest group waits for transfers. */
static void larger_groups_save_nothing_more(void **state)
{
    (void)state;
    struct fixture b;
    const redco_mesh one = {1, 1};
    const redco_layer_class *classes = NULL;
    redco_machine machine = a800_machine(4);
    redco_assignment all[8];
    double saved_s = 0.0, step_s[3];
    machine.nic_bytes_per_s /= 20.0;
    machine.node_network_bytes_per_s /= 20.0;
    fixture_open(&b, "llama-7b", machine, plain_workload(128));
    redco_parallelism parallelism = {.tp = 8, .pp = 4, .cp = 1, .chunks = 8, .micro_batch = 1, .micro_batches = 128};
    parallelism.dp = one;
    const uint32_t count = (uint32_t)redco_model_classes(b.model, &classes);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {{one, one, one}, REDCO_RECOMPUTE_NONE}};
    }
    uint32_t hiding = redco_cost_hiding_group(b.costs, &parallelism, &saved_s);
    assert_true(hiding > 4 && hiding <= 32);
    while (128 % hiding != 0) { hiding++; } /* full groups */
    const uint32_t groups[3] = {4, hiding, 2 * hiding};
    for (int i = 0; i < 3; i++) {
        parallelism.group = groups[i];
        step_s[i] = redco_cost_step(b.costs, &parallelism, all, count).step_s;
    }
    assert_true(saved_s > 0.02 * step_s[0]);
    assert_true(fabs((step_s[0] - step_s[1]) / saved_s - 1.0) < 0.1);
    assert_true(step_s[2] > step_s[1] * (1.0 - 1e-9));
    fixture_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_stage_works_least), cmocka_unit_test(stages_of_a_mixture_are_even),
        cmocka_unit_test(chunks_of_a_mixture_are_even), cmocka_unit_test(nothing_to_balance),
        cmocka_unit_test(larger_groups_save_nothing_more)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
