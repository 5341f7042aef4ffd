/* Problem 3 on counts: hand-made cases, exhaustive search for small random ones, GLPK against the exact method. */
#include "planner/hosts/placement_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_LEAVES = 64, MAX_SWITCHES = 128 };

/* A forest by parent numbers: switches 0 .. leaf_count - 1 are leaves. */
struct forest {
    uint32_t leaf_count, switch_count;
    uint32_t parent[MAX_SWITCHES]; /* REDCOI_PLACE_NONE for roots; parents have higher numbers */
    uint32_t nodes[MAX_LEAVES];
    uint32_t height[MAX_SWITCHES];
    uint32_t ancestors[MAX_LEAVES][REDCOI_PLACE_TIERS];
    uint32_t common[MAX_LEAVES][MAX_LEAVES]; /* height of the lowest common switch; NONE in different trees */
    redcoi_place_leaf leaves[MAX_LEAVES];
};

static uint32_t find_common(const struct forest *forest, uint32_t a, uint32_t b)
{
    for (uint32_t x = a; x != REDCOI_PLACE_NONE; x = forest->parent[x]) {
        for (uint32_t y = b; y != REDCOI_PLACE_NONE; y = forest->parent[y]) {
            if (x == y) { return forest->height[x]; }
        }
    }
    return REDCOI_PLACE_NONE;
}

static void finish_forest(struct forest *forest)
{
    memset(forest->height, 0, sizeof forest->height);
    for (uint32_t s = 0; s < forest->switch_count; s++) {
        const uint32_t up = forest->parent[s];
        if (up != REDCOI_PLACE_NONE && forest->height[up] < forest->height[s] + 1) {
            forest->height[up] = forest->height[s] + 1;
        }
    }
    for (uint32_t i = 0; i < forest->leaf_count; i++) {
        redcoi_place_leaf leaf = {.nodes = forest->nodes[i], .root = i, .ancestors = forest->ancestors[i]};
        for (uint32_t up = forest->parent[i]; up != REDCOI_PLACE_NONE; up = forest->parent[up]) {
            forest->ancestors[i][leaf.ancestor_count++] = up;
            leaf.root = up;
        }
        forest->leaves[i] = leaf;
    }
    for (uint32_t a = 0; a < forest->leaf_count; a++) {
        for (uint32_t b = 0; b < forest->leaf_count; b++) { forest->common[a][b] = find_common(forest, a, b); }
    }
}

/* Exhaustive search over all sequences of leaves. */
struct brute {
    const struct forest *forest;
    const redcoi_place_sizes *sizes;
    uint32_t order[64];
    uint32_t left[MAX_LEAVES];
    redcoi_crossing best;
    bool found;
};

static void add_group(const struct brute *brute, uint32_t end, uint32_t size, uint64_t bytes, redcoi_crossing *crossing)
{
    uint32_t height = 0;
    for (uint32_t i = end - size + 1; i < end; i++) {
        const uint32_t h = brute->forest->common[brute->order[end - size]][brute->order[i]];
        height = h > height ? h : height;
    }
    for (uint32_t t = 0; t < height; t++) { crossing->bytes[t] += bytes; }
}

static void search(struct brute *brute, uint32_t at, redcoi_crossing crossing)
{
    for (uint32_t j = 0; at > 0 && j < brute->sizes->count; j++) {
        if (at % brute->sizes->size[j] == 0) {
            add_group(brute, at, brute->sizes->size[j], brute->sizes->bytes[j], &crossing);
        }
    }
    if (at > 0) {
        const uint32_t height = brute->forest->common[brute->order[0]][brute->order[at - 1]];
        crossing.job_tiers = height > crossing.job_tiers ? height : crossing.job_tiers;
    }
    /* Bytes and distance only grow, so what is not better now never will be. */
    if (brute->found && redcoi_crossing_compare(&crossing, &brute->best) >= 0) { return; }
    if (at == brute->sizes->nodes) {
        brute->best = crossing;
        brute->found = true;
        return;
    }
    for (uint32_t leaf = 0; leaf < brute->forest->leaf_count; leaf++) {
        if (brute->left[leaf] == 0) { continue; }
        if (at > 0 && brute->forest->common[brute->order[0]][leaf] == REDCOI_PLACE_NONE) { continue; }
        brute->left[leaf]--;
        brute->order[at] = leaf;
        search(brute, at + 1, crossing);
        brute->left[leaf]++;
    }
}

/* The answer's own order, priced by the test. */
static redcoi_crossing price(const struct forest *forest, const redcoi_place_sizes *sizes, const uint32_t *order)
{
    redcoi_crossing crossing = {{0}, 0};
    uint32_t used[MAX_LEAVES] = {0};
    for (uint32_t i = 0; i < sizes->nodes; i++) {
        const uint32_t height = forest->common[order[0]][order[i]];
        crossing.job_tiers = height > crossing.job_tiers ? height : crossing.job_tiers;
        assert_true(order[i] < forest->leaf_count);
        assert_true(++used[order[i]] <= forest->nodes[order[i]]);
        assert_true(forest->common[order[0]][order[i]] != REDCOI_PLACE_NONE);
    }
    for (uint32_t j = 0; j < sizes->count; j++) {
        for (uint32_t first = 0; first < sizes->nodes; first += sizes->size[j]) {
            uint32_t height = 0;
            for (uint32_t i = 1; i < sizes->size[j]; i++) {
                const uint32_t h = forest->common[order[first]][order[first + i]];
                height = h > height ? h : height;
            }
            for (uint32_t t = 0; t < height; t++) { crossing.bytes[t] += sizes->bytes[j]; }
        }
    }
    return crossing;
}

static redcoi_place_answer place(const struct forest *forest, const redcoi_place_sizes *sizes)
{
    redcoi_place_answer answer = {0};
    redco_error err = {0};
    if (redcoi_place(forest->leaves, forest->leaf_count, sizes, &answer, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    const redcoi_crossing priced = price(forest, sizes, answer.leaf_of_node);
    assert_int_equal(redcoi_crossing_compare(&priced, &answer.crossing), 0);
    assert_true(redcoi_crossing_compare(&answer.crossing, &answer.file_order) <= 0);
    return answer;
}

static redcoi_place_sizes sizes_of(uint32_t nodes, const redco_placement_level *levels, uint32_t count)
{
    redcoi_place_sizes sizes;
    assert_int_equal(redcoi_place_sizes_make(nodes, levels, count, &sizes, NULL), REDCO_OK);
    return sizes;
}

/* Leaves of 3, 8, 4 nodes under one spine, 8 to use in groups of 4 (10 bytes) and the whole job (1 byte). File order
 * would take 3 + 5: groups {3+1, 4}; the leaf of 8 holds everything. */
static void one_leaf_holds_all(void **state)
{
    struct forest forest = {
        .leaf_count = 3, .switch_count = 4, .parent = {3, 3, 3, REDCOI_PLACE_NONE}, .nodes = {3, 8, 4}};
    const redco_placement_level levels[] = {{4, 10}, {8, 1}, {1, 1000}};
    (void)state;
    finish_forest(&forest);
    const redcoi_place_sizes sizes = sizes_of(8, levels, 3);
    assert_int_equal(sizes.count, 2);
    redcoi_place_answer answer = place(&forest, &sizes);
    for (int i = 0; i < 8; i++) { assert_int_equal(answer.leaf_of_node[i], 1); }
    assert_int_equal(answer.crossing.bytes[0], 0);
    assert_int_equal(answer.file_order.bytes[0], 11);
    assert_true(answer.proven_by_glpk);
    assert_true(answer.exact);
    free(answer.leaf_of_node);
}

/* Leaves of 6, 6, 4: 12 nodes in groups of 4 and 2. File order (6, 6) cuts one group of 4 in half; 4 of each leaf cuts
 * none. Of equal answers the one that fills earlier leaves: 4, 4, 4. */
static void spare_nodes_avoid_a_cut(void **state)
{
    struct forest forest = {
        .leaf_count = 3, .switch_count = 4, .parent = {3, 3, 3, REDCOI_PLACE_NONE}, .nodes = {6, 6, 4}};
    const redco_placement_level levels[] = {{4, 10}, {2, 7}};
    static const uint32_t want[] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2};
    (void)state;
    finish_forest(&forest);
    const redcoi_place_sizes sizes = sizes_of(12, levels, 2);
    redcoi_place_answer answer = place(&forest, &sizes);
    assert_memory_equal(answer.leaf_of_node, want, sizeof want);
    assert_int_equal(answer.crossing.bytes[0], 0);
    assert_int_equal(answer.file_order.bytes[0], 10);
    free(answer.leaf_of_node);
}

/* Three tiers. Group A: leaves of 1, 1, 1, 1; groups B and C: one leaf of 2 each. 4 nodes, pairs of 2 bytes, the whole
 * of 3. B + C keep both pairs in leaves but the job crosses the core: 3 beyond leaves, 3 beyond groups. A: 7 beyond
 * leaves, 0 beyond groups. Leaves count first. With A's leaves of 2, A has both. */
static void leaves_before_upper_tiers(void **state)
{
    struct forest forest = {.leaf_count = 6,
                            .switch_count = 10,
                            .parent = {6, 6, 6, 6, 7, 8, 9, 9, 9, REDCOI_PLACE_NONE},
                            .nodes = {1, 1, 1, 1, 2, 2}};
    const redco_placement_level levels[] = {{2, 2}, {4, 3}};
    (void)state;
    finish_forest(&forest);
    const redcoi_place_sizes sizes = sizes_of(4, levels, 2);
    redcoi_place_answer answer = place(&forest, &sizes);
    assert_int_equal(answer.crossing.bytes[0], 3);
    assert_int_equal(answer.crossing.bytes[1], 3);
    assert_true(answer.proven_by_glpk);
    free(answer.leaf_of_node);
    forest.nodes[1] = forest.nodes[3] = 2;
    finish_forest(&forest);
    answer = place(&forest, &sizes);
    assert_int_equal(answer.crossing.bytes[0], 3);
    assert_int_equal(answer.crossing.bytes[1], 0);
    assert_int_equal(answer.leaf_of_node[0], 1);
    assert_int_equal(answer.leaf_of_node[2], 3);
    free(answer.leaf_of_node);
}

/* Trees of 3 + 3 and 2 + 4 nodes, 6 to use in groups of 2: the first tree cuts one, the second none. 7 fit nowhere. */
static void a_job_stays_in_one_tree(void **state)
{
    struct forest forest = {.leaf_count = 4,
                            .switch_count = 6,
                            .parent = {4, 4, 5, 5, REDCOI_PLACE_NONE, REDCOI_PLACE_NONE},
                            .nodes = {3, 3, 2, 4}};
    const redco_placement_level levels[] = {{2, 5}};
    redco_error err = {0};
    (void)state;
    finish_forest(&forest);
    redcoi_place_sizes sizes = sizes_of(6, levels, 1);
    redcoi_place_answer answer = place(&forest, &sizes);
    assert_int_equal(answer.crossing.bytes[0], 0);
    assert_int_equal(answer.leaf_of_node[0], 2);
    free(answer.leaf_of_node);
    sizes = sizes_of(8, levels, 1);
    assert_int_equal(redcoi_place(forest.leaves, forest.leaf_count, &sizes, &answer, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "8 nodes do not fit: the largest network has 6 free"));
}

/* Nothing crosses, yet 8 nodes go under the one leaf that holds them rather than 3 + 5 in file order. */
static void a_job_without_subgroups_stays_together(void **state)
{
    struct forest forest = {
        .leaf_count = 3, .switch_count = 4, .parent = {3, 3, 3, REDCOI_PLACE_NONE}, .nodes = {3, 8, 4}};
    (void)state;
    finish_forest(&forest);
    redcoi_place_sizes sizes = sizes_of(8, NULL, 0);
    redcoi_place_answer answer = place(&forest, &sizes);
    for (int i = 0; i < 8; i++) { assert_int_equal(answer.leaf_of_node[i], 1); }
    assert_int_equal(answer.crossing.job_tiers, 0);
    assert_int_equal(answer.file_order.job_tiers, 1);
    free(answer.leaf_of_node);
    sizes = sizes_of(1, NULL, 0);
    answer = place(&forest, &sizes);
    assert_int_equal(answer.leaf_of_node[0], 0);
    free(answer.leaf_of_node);
}

static void bad_levels_are_refused(void **state)
{
    const redco_placement_level uneven[] = {{3, 1}};
    const redco_placement_level zero[] = {{0, 1}};
    const redco_placement_level huge[] = {{2, UINT64_MAX}};
    redcoi_place_sizes sizes;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redcoi_place_sizes_make(8, uneven, 1, &sizes, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "subgroups of 3 nodes do not divide the job's 8 nodes");
    assert_int_equal(redcoi_place_sizes_make(8, zero, 1, &sizes, NULL), REDCO_EVALUE);
    redco_error_clear(&err);
    assert_int_equal(redcoi_place_sizes_make(8, huge, 1, &sizes, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "out of range"));
}

/* Sizes 4 and 6 of 12 do not nest: the heavier is optimised, both are counted, file order is never beaten by less. */
static void sizes_that_do_not_nest(void **state)
{
    struct forest forest = {
        .leaf_count = 3, .switch_count = 4, .parent = {3, 3, 3, REDCOI_PLACE_NONE}, .nodes = {5, 6, 6}};
    const redco_placement_level levels[] = {{4, 1}, {6, 10}};
    (void)state;
    finish_forest(&forest);
    const redcoi_place_sizes sizes = sizes_of(12, levels, 2);
    assert_int_equal(sizes.chain_traffic, 1);
    assert_int_equal(sizes.chain_size[0], 6);
    redcoi_place_answer answer = place(&forest, &sizes);
    assert_int_equal(answer.spanning[1], 0);
    assert_int_equal(answer.spanning[0], 1); /* nodes 4 to 7 lie across the two leaves of 6 */
    free(answer.leaf_of_node);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* One to three trees of leaves, with up to two tiers of uneven depth above them. */
static void random_forest(struct forest *forest, uint32_t leaves, uint32_t most_nodes, uint32_t *seed)
{
    const uint32_t middles = next_random(seed) % 4; /* switches between leaves and roots */
    const uint32_t roots = 1u + (next_random(seed) % 6 == 0 ? 1u : 0u) + (next_random(seed) % 9 == 0 ? 1u : 0u);
    *forest = (struct forest){.leaf_count = leaves, .switch_count = leaves + middles + roots};
    for (uint32_t s = 0; s < forest->switch_count; s++) {
        const uint32_t root = leaves + middles + next_random(seed) % roots;
        const bool direct = middles == 0 || next_random(seed) % 5 == 0;
        forest->parent[s] = s >= leaves + middles   ? REDCOI_PLACE_NONE
                            : s >= leaves || direct ? root
                                                    : leaves + next_random(seed) % middles;
        if (s < leaves) { forest->nodes[s] = next_random(seed) % (most_nodes + 1); }
    }
    finish_forest(forest);
}

/* A divisor chain of nodes with random bytes; the whole job is one of its sizes half of the time. */
static redcoi_place_sizes random_sizes(uint32_t nodes, uint32_t *seed)
{
    redco_placement_level levels[8];
    uint32_t count = 0;
    uint32_t size = nodes;
    if (next_random(seed) % 2 == 0) { levels[count++] = (redco_placement_level){nodes, 1 + next_random(seed) % 20}; }
    while (size > 1 && count < 8) {
        uint32_t divisor = 2 + next_random(seed) % 3;
        while (divisor < size && size % divisor != 0) { divisor++; }
        if (divisor > size) { divisor = size; }
        size /= divisor;
        if (next_random(seed) % 4 != 0) { levels[count++] = (redco_placement_level){size, next_random(seed) % 20}; }
    }
    return sizes_of(nodes, levels, count);
}

static uint32_t largest_tree(const struct forest *forest)
{
    uint32_t nodes[MAX_SWITCHES] = {0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < forest->leaf_count; i++) {
        nodes[forest->leaves[i].root] += forest->nodes[i];
        if (nodes[forest->leaves[i].root] > most) { most = nodes[forest->leaves[i].root]; }
    }
    return most;
}

/* Uneven leaves, drained ones (0 nodes), spare nodes, forests and uneven depth: equal to exhaustive search up to 12
 * nodes, and GLPK proves it. */
static void equal_to_exhaustive_search(void **state)
{
    uint32_t seed = 2024;
    uint32_t solved = 0;
    uint32_t better_than_file_order = 0;
    (void)state;
    while (solved < 400) {
        struct forest forest;
        random_forest(&forest, 2 + next_random(&seed) % 4, 5, &seed);
        const uint32_t most = largest_tree(&forest);
        const uint32_t nodes = 2 + next_random(&seed) % 11;
        /* Five leaves to the power of 12 nodes would take the sanitizers minutes. */
        if (nodes > most || nodes * forest.leaf_count > 48) { continue; }
        const redcoi_place_sizes sizes = random_sizes(nodes, &seed);
        redcoi_place_answer answer = place(&forest, &sizes);
        struct brute brute = {.forest = &forest, .sizes = &sizes};
        memcpy(brute.left, forest.nodes, sizeof brute.left);
        search(&brute, 0, (redcoi_crossing){{0}, 0});
        if (redcoi_crossing_compare(&answer.crossing, &brute.best) != 0) {
            fail_msg("instance %u: %llu, exhaustive %llu", solved, (unsigned long long)answer.crossing.bytes[0],
                     (unsigned long long)brute.best.bytes[0]);
        }
        assert_true(answer.proven_by_glpk);
        better_than_file_order += redcoi_crossing_compare(&answer.crossing, &answer.file_order) < 0;
        free(answer.leaf_of_node);
        solved++;
    }
    assert_true(better_than_file_order > 50); /* the instances are not all trivial */
}

/* Larger instances: GLPK's bound and the exact method meet. */
static void exact_method_meets_glpk(void **state)
{
    uint32_t seed = 77;
    uint32_t solved = 0;
    uint32_t proven = 0;
    (void)state;
    while (solved < 60) {
        struct forest forest;
        random_forest(&forest, 4 + next_random(&seed) % 40, 24, &seed);
        const uint32_t most = largest_tree(&forest);
        const uint32_t nodes = 8 * (1 + next_random(&seed) % 30);
        if (nodes > most) { continue; }
        const redcoi_place_sizes sizes = random_sizes(nodes, &seed);
        redcoi_place_answer answer = place(&forest, &sizes);
        assert_true(answer.exact);
        proven += answer.proven_by_glpk;
        free(answer.leaf_of_node);
        solved++;
    }
    print_message("GLPK proved %u of %u\n", proven, solved);
    assert_true(proven >= solved * 9 / 10);
}

/* A choice among 600,000 nodes under two halls: too much for the exact method, which must say so and stay quick. GLPK
 * still proves it, since pairs fit anywhere. */
static void huge_trees_with_spares_do_not_hang(void **state)
{
    struct forest forest = {
        .leaf_count = 2, .switch_count = 5, .parent = {2, 3, 4, 4, REDCOI_PLACE_NONE}, .nodes = {300001, 300000}};
    const redco_placement_level levels[] = {{2, 5}, {400000, 1}};
    (void)state;
    finish_forest(&forest);
    const redcoi_place_sizes sizes = sizes_of(400000, levels, 2);
    redcoi_place_answer answer = place(&forest, &sizes);
    assert_int_equal(answer.crossing.bytes[0], 1); /* the whole job; file order cuts a pair, too: 5 + 1 */
    assert_int_equal(answer.file_order.bytes[0], 6);
    assert_true(answer.proven_by_glpk);
    free(answer.leaf_of_node);
}

static redco_placement *solve(const redco_cluster *cluster, uint64_t gpus, const redco_placement_level *levels,
                              uint32_t count)
{
    redco_machine machine;
    redco_placement *placement = NULL;
    redco_error err = {0};
    redco_status st = redco_cluster_machine(cluster, gpus, &machine, &err);
    if (st == REDCO_OK) { st = redco_placement_solve(cluster, &machine, levels, count, &placement, &err); }
    if (st != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return placement;
}

/* combined.json: leaves of 6, 5, 4 (hall 1), 8, 3 (hall 2), 4. 16 nodes in groups of 4: a1 4, a2 4, a3 4 and four of
 * another leaf keep all groups whole; the whole job spans. In file order (6, 5, 4, 1) groups 2 (n05-n08) and 3
 * (n09-n12) and 4 (n13-n15, m1) are cut. */
static void hosts_come_in_rank_order(void **state)
{
    const redco_placement_level levels[] = {{4, 100}, {16, 1}};
    redco_cluster *cluster = NULL;
    (void)state;
    assert_int_equal(redco_cluster_read(REDCO_TEST_DATA "/topology/combined.json", NULL, NULL, NULL, &cluster, NULL),
                     REDCO_OK);
    redco_placement *placement = solve(cluster, 4 * 16, levels, 2);
    assert_string_equal(placement->solver, "GLPK 5.0");
    assert_string_equal(placement->status, "optimal");
    assert_int_equal(placement->host_count, 16);
    assert_int_equal(placement->spanning_groups, 1);
    assert_int_equal(placement->spanning_bytes, 1);
    assert_int_equal(placement->file_order_bytes, 301);
    assert_int_equal(placement->level_count, 2);
    assert_int_equal(placement->levels[1].groups, 1);
    assert_int_equal(placement->levels[1].spanning_groups, 1);
    assert_string_equal(placement->hosts[0], "n01");
    assert_string_equal(placement->hosts[4], "n07");
    assert_string_equal(placement->hosts[8], "n12");
    /* Beyond the halls only the whole job: nothing is better than three groups here and one there. */
    assert_string_equal(placement->hosts[12], "m1-ib");
    redco_placement_free(placement);
    redco_cluster_free(cluster);
}

/* Racks of 3 hosts, of which two are used each: the rack that lacks a host still serves. */
static void racks_give_whole_hosts(void **state)
{
    static const char text[] =
        "{\"format\":\"redco-cluster\",\"version\":1,\"name\":\"racks\",\"node\":{\"gpu\":\"T4\","
        "\"gpus\":6,\"hosts\":3,\"fabric\":\"pcie\",\"nics\":3,\"nic_rate\":\"25 Gb/s\"},\"network\":{"
        "\"leaves\":{\"r1\":[\"a[1,3]\"],\"r2\":\"b[1-3]\"},\"switches\":{\"s\":\"r[1-2]\"}}}";
    static const char *const want[] = {"a1", "a3", "b1", "b2"};
    const redco_placement_level levels[] = {{2, 1}};
    redco_json *document = NULL;
    redco_cluster *cluster = NULL;
    (void)state;
    assert_int_equal(redco_json_parse(text, strlen(text), "racks", &document, NULL), REDCO_OK);
    const redco_json_value root = redco_json_root(document);
    assert_int_equal(redco_cluster_from_json(&root, &cluster, NULL), REDCO_OK);
    redco_placement *placement = solve(cluster, 8, levels, 1);
    assert_int_equal(placement->host_count, 4);
    for (int i = 0; i < 4; i++) { assert_string_equal(placement->hosts[i], want[i]); }
    redco_placement_free(placement);
    redco_cluster_free(cluster);
    redco_json_close(document);
}

/* Leaves of 20 without names: a group of 16 needs a leaf of its own, so 820 leaves hold 820 of 1024 such groups whole.
 */
static void endless_clusters_count_only(void **state)
{
    const redco_placement_level levels[] = {{4, 10}, {16, 20}, {16384, 1}};
    redco_cluster *cluster = NULL;
    (void)state;
    assert_int_equal(redco_cluster_read("a800-hdr", NULL, NULL, NULL, &cluster, NULL), REDCO_OK);
    redco_placement *placement = solve(cluster, 131072, levels, 3);
    assert_null(placement->hosts);
    assert_int_equal(placement->leaves_used, 820);
    assert_int_equal(placement->levels[0].spanning_groups, 0);
    assert_int_equal(placement->levels[1].spanning_groups, 204);
    assert_int_equal(placement->spanning_bytes, 204 * 20 + 1);
    assert_string_equal(placement->status, "optimal");
    redco_placement_free(placement);
    placement = solve(cluster, 8 * 20, NULL, 0);
    assert_int_equal(placement->leaves_used, 1);
    assert_int_equal(placement->spanning_bytes, 0);
    redco_placement_free(placement);
    redco_cluster_free(cluster);
}

/* 10000 hosts, 1300 drained by a fixed pattern, four tiers. No size can keep more whole than its leaves allow:
 * groups of 4 whole <= sum of floor(free / 4). */
static void large_topology_with_drained_hosts(void **state)
{
    static const char slurm[] = REDCO_SHARED_DIR "/topology/slurm/tree_4level_10000nodes.conf";
    const redco_placement_level levels[] = {{4, 10}, {16, 3}, {64, 2}, {8192, 1}};
    const redco_leaf *leaves = NULL;
    redco_cluster *cluster = NULL;
    char *hosts = NULL;
    size_t size = 0;
    uint32_t fit = 0;
    (void)state;
    if (access(slurm, R_OK) != 0) {
        print_message("skipped: no %s\n", slurm);
        skip();
    }
    FILE *stream = open_memstream(&hosts, &size);
    (void)fprintf(stream, "peta[10000");
    for (uint32_t i = 1; i < 10000; i++) {
        if (i * 7919 % 100 >= 13) { (void)fprintf(stream, ",%u", 10000 + i); }
    }
    (void)fprintf(stream, "]");
    (void)fclose(stream);
    assert_int_equal(redco_cluster_read("a800-hdr", NULL, slurm, hosts, &cluster, NULL), REDCO_OK);
    const size_t count = redco_cluster_leaves(cluster, &leaves);
    for (size_t i = 0; i < count; i++) { fit += leaves[i].node_count / 4; }
    redco_placement *placement = solve(cluster, 65536, levels, 4);
    assert_int_equal(placement->levels[0].spanning_groups, fit < 2048 ? 2048 - fit : 0);
    assert_true(placement->spanning_bytes < placement->file_order_bytes);
    assert_string_equal(placement->status, "optimal");
    redco_placement_free(placement);
    redco_cluster_free(cluster);
    free(hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_leaf_holds_all),
        cmocka_unit_test(spare_nodes_avoid_a_cut),
        cmocka_unit_test(leaves_before_upper_tiers),
        cmocka_unit_test(a_job_stays_in_one_tree),
        cmocka_unit_test(a_job_without_subgroups_stays_together),
        cmocka_unit_test(bad_levels_are_refused),
        cmocka_unit_test(sizes_that_do_not_nest),
        cmocka_unit_test(equal_to_exhaustive_search),
        cmocka_unit_test(exact_method_meets_glpk),
        cmocka_unit_test(huge_trees_with_spares_do_not_hang),
        cmocka_unit_test(hosts_come_in_rank_order),
        cmocka_unit_test(racks_give_whole_hosts),
        cmocka_unit_test(endless_clusters_count_only),
        cmocka_unit_test(large_topology_with_drained_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
