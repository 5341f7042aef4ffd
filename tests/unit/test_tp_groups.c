/* Which GPUs of a node share a group: exact against every permutation, right on recorded machines, and priced by the
   links that the group has. */
#include "planner/search/search.h"
#include "topology/discovery/cluster.h"
#include "topology/discovery/gpu_order.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The order that gpu_order.h promises, from the innermost level out: the least rate, then the sum over pairs; then
 * nearness. */
struct score {
    uint64_t least[REDCO_ORDER_LEVELS];
    int64_t sum[REDCO_ORDER_LEVELS], near[REDCO_ORDER_LEVELS];
};

static struct score score_of(const redco_pairs *pairs, const uint32_t *sizes, uint32_t levels, const uint32_t *order)
{
    struct score score = {.least = {0}};
    for (uint32_t l = 0; l < levels; l++) {
        score.least[l] = UINT64_MAX;
        for (uint32_t i = 0; i < sizes[levels - 1]; i++) {
            for (uint32_t j = i + 1; j < sizes[levels - 1]; j++) {
                if (i / sizes[l] != j / sizes[l]) { continue; }
                const uint32_t rate = pairs->rate[order[i]][order[j]];
                score.least[l] = rate < score.least[l] ? rate : score.least[l];
                score.sum[l] += rate;
                score.near[l] -= pairs->distance[order[i]][order[j]];
            }
        }
    }
    return score;
}

static int compare_scores(const struct score *a, const struct score *b, uint32_t levels)
{
    for (uint32_t l = 0; l < levels; l++) {
        if (a->least[l] != b->least[l]) { return a->least[l] < b->least[l] ? -1 : 1; }
        if (a->sum[l] != b->sum[l]) { return a->sum[l] < b->sum[l] ? -1 : 1; }
    }
    for (uint32_t l = 0; l < levels; l++) {
        if (a->near[l] != b->near[l]) { return a->near[l] < b->near[l] ? -1 : 1; }
    }
    return 0;
}

/* Heap's algorithm. */
static void permute(const redco_pairs *pairs, const uint32_t *sizes, uint32_t levels, uint32_t *order, uint32_t count,
                    struct score *best)
{
    if (count <= 1) {
        const struct score score = score_of(pairs, sizes, levels, order);
        if (compare_scores(&score, best, levels) > 0) { *best = score; }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        permute(pairs, sizes, levels, order, count - 1, best);
        const uint32_t other = count % 2 == 0 ? i : 0;
        const uint32_t kept = order[other];
        order[other] = order[count - 1];
        order[count - 1] = kept;
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes */
    return *state >> 16;
}

static redco_pairs random_pairs(uint32_t gpus, uint32_t kinds, uint32_t *seed)
{
    redco_pairs pairs = {.gpus = gpus};
    for (uint32_t i = 0; i < gpus; i++) {
        for (uint32_t j = i + 1; j < gpus; j++) {
            pairs.rate[i][j] = pairs.rate[j][i] = 1000 * (next_random(seed) % kinds);
            pairs.distance[i][j] = pairs.distance[j][i] = (uint8_t)(1 + next_random(seed) % 3);
        }
    }
    return pairs;
}

static void orders_are_the_best_of_all_permutations(void **state)
{
    (void)state;
    static const struct {
        uint32_t gpus, levels, sizes[3];
    } cases[] = {{4, 1, {2}},       {4, 2, {2, 4}}, {5, 2, {2, 4}}, {6, 2, {2, 6}}, {6, 2, {3, 6}},   {6, 1, {4}},
                 {7, 3, {1, 2, 6}}, {8, 1, {8}},    {8, 2, {4, 8}}, {8, 2, {2, 4}}, {8, 3, {2, 4, 8}}};
    uint32_t seed = 20;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const uint32_t *sizes = cases[c].sizes;
        const uint32_t levels = cases[c].levels;
        for (uint32_t round = 0; round < (cases[c].gpus < 8 ? 30 : 6); round++) {
            const redco_pairs pairs = random_pairs(cases[c].gpus, 2 + round % 5 * 3, &seed);
            uint32_t order[REDCO_ORDER_GPUS];
            uint32_t all[REDCO_ORDER_GPUS];
            uint32_t seen = 0;
            struct score best = {.least = {0}};
            best.sum[0] = INT64_MIN;
            for (uint32_t i = 0; i < REDCO_ORDER_GPUS; i++) { all[i] = i; }
            assert_int_equal(redco_order_find(&pairs, sizes, levels, order, NULL), REDCO_OK);
            permute(&pairs, sizes, levels, all, cases[c].gpus, &best);
            const struct score found = score_of(&pairs, sizes, levels, order);
            if (compare_scores(&found, &best, levels) != 0) {
                fail_msg("case %zu, round %u: not the best order", c, round);
            }
            for (uint32_t i = 0; i < sizes[levels - 1]; i++) { seen |= 1u << order[i]; }
            assert_int_equal(__builtin_popcount(seen), sizes[levels - 1]);
        }
    }
}

static void alike_gpus_keep_their_order(void **state)
{
    (void)state;
    const uint32_t sizes[] = {2, 4, 8, 16};
    uint32_t order[REDCO_ORDER_GPUS];
    redco_pairs pairs = {.gpus = 16};
    assert_true(redco_pairs_alike(&pairs));
    assert_int_equal(redco_order_find(&pairs, sizes, 4, order, NULL), REDCO_OK);
    for (uint32_t i = 0; i < 16; i++) { assert_int_equal(order[i], i); }
    pairs.rate[3][9] = pairs.rate[9][3] = 5; /* the only link: its GPUs come together, all others as they were */
    assert_false(redco_pairs_alike(&pairs));
    assert_int_equal(redco_order_find(&pairs, sizes, 4, order, NULL), REDCO_OK);
    const uint32_t wanted[16] = {0, 1, 2, 4, 3, 9, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15};
    assert_memory_equal(order, wanted, sizeof wanted);
}

static void impossible_groups_are_refused(void **state)
{
    (void)state;
    redco_error err = {0};
    uint32_t order[REDCO_ORDER_GPUS];
    const redco_pairs pairs = {.gpus = 8};
    const uint32_t uneven[] = {2, 3};
    const uint32_t many[] = {16};
    const uint32_t none[] = {0, 4};
    assert_int_equal(redco_order_find(&pairs, uneven, 2, order, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "groups of 2 GPUs do not divide groups of 3 of 8 GPUs");
    assert_int_equal(redco_order_find(&pairs, many, 1, order, NULL), REDCO_EVALUE);
    assert_int_equal(redco_order_find(&pairs, none, 2, order, NULL), REDCO_EVALUE);
    assert_int_equal(redco_order_find(&pairs, many, 0, order, NULL), REDCO_EVALUE);
    assert_int_equal(redco_order_find(&(redco_pairs){.gpus = 17}, many, 1, order, NULL), REDCO_EVALUE);
}

static void levels_pass_through_the_linked_gpus(void **state)
{
    (void)state;
    static const struct {
        uint32_t tp, linked, gpus, count, sizes[REDCO_ORDER_LEVELS];
    } rows[] = {{1, 8, 8, 3, {2, 4, 8}}, {2, 8, 8, 3, {2, 4, 8}}, {4, 2, 8, 2, {4, 8}},
                {8, 8, 8, 1, {8}},       {1, 3, 6, 2, {3, 6}},    {2, 3, 6, 2, {2, 6}},
                {1, 2, 6, 2, {2, 6}},    {1, 1, 1, 1, {1}},       {1, 16, 16, 4, {2, 4, 8, 16}}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t sizes[REDCO_ORDER_LEVELS];
        const uint32_t count = redco_order_sizes(rows[i].tp, rows[i].linked, rows[i].gpus, sizes);
        assert_int_equal(count, rows[i].count);
        assert_memory_equal(sizes, rows[i].sizes, count * sizeof *sizes);
    }
}

static struct score meeting_score(const redco_pairs *pairs, const uint32_t *a, const uint32_t *b, uint32_t count)
{
    struct score score = {.least = {UINT64_MAX}};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rate = pairs->rate[a[i]][b[i]];
        score.least[0] = rate < score.least[0] ? rate : score.least[0];
        score.sum[0] += rate;
        score.near[0] -= pairs->distance[a[i]][b[i]];
    }
    return score;
}

static void best_meeting(const redco_pairs *pairs, const uint32_t *a, uint32_t *b, uint32_t size, uint32_t count,
                         struct score *best)
{
    if (count <= 1) {
        const struct score score = meeting_score(pairs, a, b, size);
        if (compare_scores(&score, best, 1) > 0) { *best = score; }
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        best_meeting(pairs, a, b, size, count - 1, best);
        const uint32_t other = count % 2 == 0 ? i : 0;
        const uint32_t kept = b[other];
        b[other] = b[count - 1];
        b[count - 1] = kept;
    }
}

/* Two groups: the best of all ways to put the second beside the first. Links 0-3 and 1-2: 0 meets 3. */
static void members_meet_as_well_as_they_can(void **state)
{
    (void)state;
    const uint32_t sizes[2] = {2, 4};
    uint32_t order[8] = {0, 1, 2, 3};
    redco_pairs ring = {.gpus = 4};
    ring.rate[0][3] = ring.rate[3][0] = ring.rate[1][2] = ring.rate[2][1] = 20;
    redco_order_align(&ring, sizes, 2, order);
    const uint32_t wanted[4] = {0, 1, 3, 2};
    assert_memory_equal(order, wanted, sizeof wanted);
    redco_order_align(&(redco_pairs){.gpus = 4}, sizes, 2, order); /* nothing to gain: as it was */
    assert_memory_equal(order, wanted, sizeof wanted);
    uint32_t seed = 7;
    for (uint32_t round = 0; round < 40; round++) {
        const uint32_t four[2] = {4, 8};
        const redco_pairs pairs = random_pairs(8, 2 + round % 6, &seed);
        uint32_t other[4] = {4, 5, 6, 7};
        struct score best = {.least = {0}};
        best.sum[0] = INT64_MIN;
        for (uint32_t i = 0; i < 8; i++) { order[i] = i; }
        redco_order_align(&pairs, four, 2, order);
        best_meeting(&pairs, order, other, 4, 4, &best);
        const struct score found = meeting_score(&pairs, order, order + 4, 4);
        assert_int_equal(compare_scores(&found, &best, 1), 0);
    }
}

static redco_machine machine_of(const char *cluster_name, const char *node_path, uint64_t gpus)
{
    redco_cluster *cluster = NULL;
    redco_machine machine = {.nodes = 0};
    redco_error err = {0};
    if (redco_cluster_read(cluster_name, node_path, NULL, NULL, &cluster, &err) != REDCO_OK ||
        redco_cluster_machine(cluster, gpus, &machine, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    redco_cluster_free(cluster);
    return machine;
}

static void assert_order(const redco_machine *machine, uint32_t tp, const uint32_t *wanted)
{
    const redco_gpu_order *order = redco_machine_order(machine, tp);
    assert_non_null(order);
    for (uint32_t i = 0; i < machine->gpus_per_node; i++) {
        if (order->gpus[i] != wanted[i]) {
            fail_msg("%s, tp %u: place %u has GPU %u, not %u", machine->name, tp, i, order->gpus[i], wanted[i]);
        }
    }
}

/* The cube mesh: 0-3, 0-4, 1-2, 1-5, 2-3, 4-7, 5-6, 6-7 share two links of 25 GB/s, 0-1, 0-2, 1-3, 2-6, 3-7, 4-5, 4-6,
 * 5-7 one. The pairs of two links form one ring, so there are two ways to pair off; only {0 3, 1 2, 4 7, 5 6} makes two
 * quads that links join throughout. A quad's GPU has 4 or 5 links to the other three: its least cut is 4 x 25. */
static void cube_mesh_pairs_share_two_links(void **state)
{
    (void)state;
    const redco_machine all = machine_of("p3dn", NULL, 8);
    const redco_machine four = machine_of("p3dn", NULL, 4);
    const redco_machine two = machine_of("p3dn", NULL, 2);
    const uint32_t pairs[] = {0, 3, 1, 2, 4, 7, 5, 6};
    const uint32_t quads[] = {0, 1, 2, 3, 4, 5, 6, 7};
    assert_order(&all, 1, pairs);
    assert_order(&all, 2, pairs);
    assert_order(&all, 4, quads);
    assert_order(&all, 8, quads);
    assert_order(&four, 2, pairs);
    const uint32_t neighbours[] = {2, 3};
    assert_order(&two, 2, neighbours); /* the first of the pairs with two links that is under one PCIe switch */
    static const struct {
        uint32_t tp, gpus, stride;
        double gigabytes_per_s;
    } rows[] = {{2, 2, 1, 50},  {4, 4, 1, 100}, {8, 8, 1, 150},
                {1, 4, 1, 100}, {1, 8, 1, 150}, {4, 2, 4, 25}, /* 2-6 and 3-7 */
                {2, 2, 2, 25},                                 /* 0-1 */
                {2, 4, 2, 50},                                 /* 0 and 4 have a link each to 1 and 5 */
                {8, 2, 1, 25}};                                /* 0-1, though nobody asks */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double rate = redco_machine_group_rate(&all, rows[i].tp, rows[i].gpus, rows[i].stride);
        if (fabs(rate - 1e9 * rows[i].gigabytes_per_s) > 1.0) { fail_msg("row %zu: %g GB/s", i, rate / 1e9); }
    }
    assert_true(redco_machine_group_rate(&all, 3, 2, 1) < 0.0); /* no such order */
    assert_true(redco_machine_group_rate(&all, 2, 4, 4) < 0.0); /* 16 GPUs */
    assert_true(redco_machine_group_rate(&all, 2, 1, 1) < 0.0); /* no pair */
    assert_true(redco_machine_group_rate(&all, 2, 2, 0) < 0.0);
}

/* The time of tensor-parallel traffic of one degree, without other traffic in the node. */
static double all_reduce_s(const redco_machine *machine, uint32_t tp, uint32_t gpus, uint32_t stride)
{
    redco_comm *comm = NULL;
    const redco_group group = {.mesh = {gpus, 1}, .stride = stride, .groups_per_node = 1, .tp = tp};
    assert_int_equal(redco_comm_create(machine, NULL, 0, &comm, NULL), REDCO_OK);
    const redco_comm_time time = redco_comm_price(comm, REDCO_ALL_REDUCE, 64e6, group);
    redco_comm_free(comm);
    return time.latency_s + time.wire_s;
}

/* Bridges of 300 GB/s join pairs; PCIe carries 31.5 GB/s at most, 24 as NCCL rates it. */
static void bridged_pairs_are_fast_and_quads_go_through_pcie(void **state)
{
    (void)state;
    const redco_machine box = machine_of("nc96ads-a100-v4", NULL, 4);
    assert_int_equal(redco_machine_domain(&box), 2);
    assert_true(redco_machine_group_rate(&box, 2, 2, 1) == 300e9);
    assert_true(redco_machine_group_rate(&box, 4, 4, 1) == 0.0);
    assert_true(redco_machine_group_rate(&box, 2, 2, 2) == 0.0);
    const double pair_s = all_reduce_s(&box, 2, 2, 1);
    const double quad_s = all_reduce_s(&box, 4, 4, 1);
    /* A ring moves S of a pair and 1.5 S of a quad over the slowest link. */
    assert_true(pair_s < 64e6 / 200e9 + 100e-6);
    assert_true(quad_s > 1.5 * 64e6 / 24e9);
}

static void recorded_machine(const char *file, uint64_t gpus, uint32_t tp, const uint32_t *order,
                             double gigabytes_per_s)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/topology/%s", REDCO_SHARED_DIR, file);
    const redco_machine machine = machine_of(NULL, path, gpus);
    if (order == NULL) {
        assert_int_equal(machine.order_count, 0);
        return;
    }
    assert_order(&machine, tp, order);
    if (gigabytes_per_s >= 0.0) {
        const double rate = redco_machine_group_rate(&machine, tp, tp, 1);
        if (fabs(rate - 1e9 * gigabytes_per_s) > 1.0) { fail_msg("%s: %g GB/s", file, rate / 1e9); }
    }
}

static bool have_recordings(void)
{
    if (access(REDCO_SHARED_DIR "/topology", R_OK) == 0) { return true; }
    print_message("skipped: no recorded machines at %s\n", REDCO_SHARED_DIR "/topology");
    return false;
}

static void recorded_machines_are_grouped(void **state)
{
    (void)state;
    const uint32_t pairs[] = {0, 1, 2, 3};
    const uint32_t dies[] = {0, 1, 2, 3, 4, 5, 6, 7};
    if (!have_recordings()) { skip(); }
    recorded_machine("hwloc-xml/power8_4p100_nvlink_cpu.xml", 4, 2, pairs, 40);
    recorded_machine("hwloc-xml/power8_4p100_nvlink_cpu.xml", 4, 4, pairs, 0);
    recorded_machine("hwloc-xml/power9_lassen_4v100_4ib.xml", 4, 2, pairs, 75);
    recorded_machine("nccl-xml/azure-ncv4-topo.xml", 4, 2, pairs, 300);
    recorded_machine("hwloc-xml/dgx2_16v100_nvswitch_v2.xml", 16, 8, NULL, 0); /* any pair as good as another */
    /* the driver gives all dies one rate; those of a module share a NUMA node: 0 and 1, 2 and 3, ... */
    recorded_machine("hwloc-xml/epyc_tioga_mi250x_8gcd_xgmi.xml", 8, 2, dies, 350.0 / 7.0);
    recorded_machine("hwloc-xml/constructed_dgx_a100_8gpu_8ib_nvml.xml", 8, 4, NULL, 0);
}

/* The same machines with GPUs that were found in another order: groups follow the links, and cost the same. */
static void renumbered_machines_are_grouped_alike(void **state)
{
    (void)state;
    const uint32_t numbers[8] = {5, 2, 7, 0, 3, 6, 1, 4};
    static const char *const names[] = {"p3dn", "a100-pcie-8x"};
    for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
        redco_cluster *cluster = NULL;
        redco_pairs pairs;
        redco_pairs mixed = {.gpus = 8};
        assert_int_equal(redco_cluster_read(names[n], NULL, NULL, NULL, &cluster, NULL), REDCO_OK);
        assert_true(redco_pairs_of(redco_cluster_node(cluster), &pairs));
        redco_machine machine;
        assert_int_equal(redco_cluster_machine(cluster, 8, &machine, NULL), REDCO_OK);
        redco_machine renumbered = machine;
        for (uint32_t i = 0; i < 8; i++) {
            for (uint32_t j = 0; j < 8; j++) {
                mixed.rate[numbers[i]][numbers[j]] = pairs.rate[i][j];
                mixed.distance[numbers[i]][numbers[j]] = pairs.distance[i][j];
                renumbered.links_bytes_per_s[numbers[i]][numbers[j]] = machine.links_bytes_per_s[i][j];
            }
        }
        for (uint32_t o = 0; o < machine.order_count; o++) {
            uint32_t sizes[REDCO_ORDER_LEVELS];
            const uint32_t tp = machine.orders[o].tp;
            const uint32_t levels = redco_order_sizes(tp, machine.link_group_gpus, 8, sizes);
            assert_int_equal(redco_order_find(&mixed, sizes, levels, renumbered.orders[o].gpus, NULL), REDCO_OK);
            const struct score ours = score_of(&pairs, sizes, levels, machine.orders[o].gpus);
            const struct score theirs = score_of(&mixed, sizes, levels, renumbered.orders[o].gpus);
            assert_int_equal(compare_scores(&ours, &theirs, levels), 0);
            if (tp > 1) { assert_true(all_reduce_s(&machine, tp, tp, 1) == all_reduce_s(&renumbered, tp, tp, 1)); }
        }
        redco_cluster_free(cluster);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_are_the_best_of_all_permutations),
        cmocka_unit_test(alike_gpus_keep_their_order),
        cmocka_unit_test(impossible_groups_are_refused),
        cmocka_unit_test(levels_pass_through_the_linked_gpus),
        cmocka_unit_test(members_meet_as_well_as_they_can),
        cmocka_unit_test(cube_mesh_pairs_share_two_links),
        cmocka_unit_test(bridged_pairs_are_fast_and_quads_go_through_pcie),
        cmocka_unit_test(recorded_machines_are_grouped),
        cmocka_unit_test(renumbered_machines_are_grouped_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
