/* Where ranks stand, against brute force: every grid of up to 64 ranks is written out by nested loops, the slowest
 * dimension outermost, and every group is found by comparing digits; then the groups that Megatron-LM's documentation
 * lists (megatron/core/parallel_state.py, docstrings of initialize_model_parallel and
 * generate_masked_orthogonal_rank_groups) and its conditions on the expert grid. */
#include "topology/ranks/parallel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 64, REACH_RANKS = 24, ALL_DIMS = 1 << REDCO_DIM_COUNT };
enum { TP = 1 << REDCO_DIM_TP, CP = 1 << REDCO_DIM_CP, DP = 1 << REDCO_DIM_DP, PP = 1 << REDCO_DIM_PP };

/* Slowest first. */
static const redco_rank_dim slowest[REDCO_RANKS_ORDERS][REDCO_DIM_COUNT] = {
    [REDCO_RANKS_TP_CP_DP_PP] = {REDCO_DIM_PP, REDCO_DIM_DP, REDCO_DIM_CP, REDCO_DIM_TP},
    [REDCO_RANKS_TP_CP_PP_DP] = {REDCO_DIM_DP, REDCO_DIM_PP, REDCO_DIM_CP, REDCO_DIM_TP}};

/* The digits of all ranks. */
struct written {
    uint32_t ranks;
    uint32_t at[RANKS][REDCO_DIM_COUNT];
};

static struct written write_out(const redco_rank_grid *grid)
{
    struct written w = {.ranks = 0};
    const redco_rank_dim *const d = slowest[grid->order];
    uint32_t at[REDCO_DIM_COUNT];
    for (at[d[0]] = 0; at[d[0]] < grid->degrees[d[0]]; at[d[0]]++) {
        for (at[d[1]] = 0; at[d[1]] < grid->degrees[d[1]]; at[d[1]]++) {
            for (at[d[2]] = 0; at[d[2]] < grid->degrees[d[2]]; at[d[2]]++) {
                for (at[d[3]] = 0; at[d[3]] < grid->degrees[d[3]]; at[d[3]]++) {
                    memcpy(w.at[w.ranks++], at, sizeof at);
                }
            }
        }
    }
    return w;
}

/* Ranks of the group of @p rank, ascending. */
static uint32_t group_of(const struct written *w, uint32_t dims, uint32_t rank, uint32_t members[RANKS])
{
    uint32_t count = 0;
    for (uint32_t r = 0; r < w->ranks; r++) {
        bool same = true;
        for (uint32_t d = 0; d < REDCO_DIM_COUNT; d++) {
            same = same && ((dims >> d & 1) != 0 || w->at[r][d] == w->at[rank][d]);
        }
        if (same) { members[count++] = r; }
    }
    return count;
}

static uint32_t even_stride(const uint32_t *members, uint32_t count)
{
    if (count == 1) { return 1; }
    for (uint32_t i = 2; i < count; i++) {
        if (members[i] - members[i - 1] != members[1] - members[0]) { return 0; }
    }
    return members[1] - members[0];
}

static void check_grid(const redco_rank_grid *grid)
{
    const struct written w = write_out(grid);
    uint32_t members[RANKS], others[RANKS];
    assert_int_equal(redco_grid_ranks(grid), w.ranks);
    for (uint32_t r = 0; r < w.ranks; r++) {
        const redco_rank_coords coords = redco_grid_coords(grid, r);
        assert_memory_equal(coords.at, w.at[r], sizeof coords.at);
        assert_int_equal(redco_grid_rank(grid, coords), r);
    }
    for (uint32_t dims = 0; dims < ALL_DIMS; dims++) {
        uint32_t first_members = 0;
        for (uint32_t r = 0; r < w.ranks; r++) {
            const uint32_t count = group_of(&w, dims, r, members);
            assert_int_equal(redco_grid_group_size(grid, dims), count);
            assert_int_equal(redco_grid_group_stride(grid, dims), even_stride(members, count));
            const uint32_t position = redco_grid_group_position(grid, dims, r);
            assert_true(position < count);
            assert_int_equal(members[position], r);
            first_members += position == 0;
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(redco_grid_group_member(grid, dims, r, i), members[i]);
            }
            /* it meets the group along the other dimensions in this rank alone */
            const uint32_t across = group_of(&w, ~dims, r, others);
            assert_int_equal(count * across, w.ranks);
            for (uint32_t i = 0; i < across; i++) {
                assert_true(others[i] == r || redco_grid_group_member(grid, dims, others[i], 0) != members[0]);
            }
        }
        assert_int_equal(first_members * redco_grid_group_size(grid, dims), w.ranks); /* each rank is in one group */
    }
    for (uint32_t d = 0; d < REDCO_DIM_COUNT; d++) {
        const uint32_t size = group_of(&w, 1U << d, 0, members);
        if (size > 1) { assert_int_equal(redco_grid_stride(grid, (redco_rank_dim)d), members[1]); }
    }
}

/* The link, the nodes and the fullest node, from the members' ranks. */
static void check_reach(const redco_rank_grid *grid, uint32_t dims, uint32_t node, uint32_t linked)
{
    const struct written w = write_out(grid);
    uint32_t members[RANKS];
    for (uint32_t r = 0; r < w.ranks; r++) {
        const uint32_t count = group_of(&w, dims, r, members);
        uint32_t in_node[RANKS] = {0}, nodes = 0, most = 0;
        bool links = true;
        for (uint32_t i = 0; i < count; i++) {
            nodes += in_node[members[i] / node]++ == 0;
            most = in_node[members[i] / node] > most ? in_node[members[i] / node] : most;
            links = links && members[i] / linked == members[0] / linked; /* linked divides the node */
        }
        const redco_group_reach reach = redco_grid_group_reach(grid, dims, r, node, linked);
        assert_int_equal(reach.nodes, nodes);
        assert_int_equal(reach.in_node, most);
        assert_int_equal(reach.link, count == 1  ? REDCO_GROUP_ALONE
                                     : nodes > 1 ? REDCO_GROUP_OVER_NODES
                                     : links     ? REDCO_GROUP_LINKED
                                                 : REDCO_GROUP_IN_NODE);
    }
}

typedef void (*grid_visitor)(const redco_rank_grid *grid, void *context);

/* All ways to write a number of ranks as four degrees. */
static uint32_t for_all(uint32_t most, grid_visitor visit, void *context)
{
    uint32_t count = 0;
    for (uint32_t n = 1; n <= most; n++) {
        for (uint32_t tp = 1; tp <= n; tp++) {
            for (uint32_t cp = 1; cp <= n / tp; cp++) {
                for (uint32_t dp = 1; dp <= n / tp / cp; dp++) {
                    if (n % (tp * cp * dp) != 0) { continue; }
                    const redco_rank_grid grid = {{tp, cp, dp, n / (tp * cp * dp)}, REDCO_RANKS_TP_CP_DP_PP};
                    visit(&grid, context);
                    count++;
                }
            }
        }
    }
    return count;
}

static void visit_grid(const redco_rank_grid *grid, void *context)
{
    (void)context;
    for (int order = 0; order < REDCO_RANKS_ORDERS; order++) {
        redco_rank_grid ordered = *grid;
        ordered.order = (redco_rank_order)order;
        check_grid(&ordered);
    }
}

static void every_grid_is_what_loops_write(void **state)
{
    (void)state;
    print_message("%u grids, two orders each\n", for_all(RANKS, visit_grid, NULL));
    const redco_rank_grid large = {{UINT32_MAX, UINT32_MAX, UINT32_MAX, 1}, REDCO_RANKS_TP_CP_DP_PP};
    assert_true(redco_grid_ranks(&large) == UINT64_MAX);
}

static void visit_reach(const redco_rank_grid *grid, void *context)
{
    (void)context;
    static const uint32_t nodes[][2] = {{8, 8}, {8, 2}, {4, 1}, {6, 3}, {3, 3}};
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        for (uint32_t dims = 0; dims < ALL_DIMS; dims++) { check_reach(grid, dims, nodes[i][0], nodes[i][1]); }
    }
}

static void groups_cross_the_links_of_their_members(void **state)
{
    (void)state;
    (void)for_all(REACH_RANKS, visit_reach, NULL);
}

struct group {
    uint32_t dims, count, members[8];
};

static void check_groups(const redco_rank_grid *grid, const struct group *groups, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct group *const g = &groups[i];
        assert_int_equal(redco_grid_group_size(grid, g->dims), g->count);
        for (uint32_t m = 0; m < g->count; m++) {
            assert_int_equal(redco_grid_group_member(grid, g->dims, g->members[0], m), g->members[m]);
        }
    }
}

/* 16 GPUs, tp 2, pp 4: the groups of initialize_model_parallel's docstring, all of them. */
static void groups_are_megatrons(void **state)
{
    (void)state;
    static const struct group first[] = {
        {DP, 2, {0, 2}},        {DP, 2, {1, 3}},        {DP, 2, {4, 6}},         {DP, 2, {5, 7}},
        {DP, 2, {8, 10}},       {DP, 2, {9, 11}},       {DP, 2, {12, 14}},       {DP, 2, {13, 15}},
        {TP, 2, {0, 1}},        {TP, 2, {2, 3}},        {TP, 2, {4, 5}},         {TP, 2, {6, 7}},
        {TP, 2, {8, 9}},        {TP, 2, {10, 11}},      {TP, 2, {12, 13}},       {TP, 2, {14, 15}},
        {PP, 4, {0, 4, 8, 12}}, {PP, 4, {1, 5, 9, 13}}, {PP, 4, {2, 6, 10, 14}}, {PP, 4, {3, 7, 11, 15}}};
    check_groups(&(redco_rank_grid){{2, 1, 2, 4}, REDCO_RANKS_TP_CP_DP_PP}, first, sizeof first / sizeof first[0]);
    /* tp-pp-dp of 2-2-2 */
    static const struct group second[] = {{DP, 2, {0, 4}}, {DP, 2, {1, 5}}, {DP, 2, {2, 6}}, {DP, 2, {3, 7}}};
    check_groups(&(redco_rank_grid){{2, 1, 2, 2}, REDCO_RANKS_TP_CP_PP_DP}, second, sizeof second / sizeof second[0]);
    /* tp-dp-pp of 2-3-4 */
    static const struct group third[] = {{DP, 3, {0, 2, 4}}, {DP, 3, {1, 3, 5}}, {DP, 3, {19, 21, 23}}};
    check_groups(&(redco_rank_grid){{2, 1, 3, 4}, REDCO_RANKS_TP_CP_DP_PP}, third, sizeof third / sizeof third[0]);
}

/* etp 1: an expert group is ep consecutive GPUs, so that ep 8 fills a node with tp 2 x dp 4; etp = tp, ep inside of dp
 * is the grid without folding. */
static void experts_lie_over_the_same_ranks(void **state)
{
    (void)state;
    const redco_rank_grid dense = {{2, 1, 8, 2}, REDCO_RANKS_TP_CP_DP_PP};
    redco_rank_grid grid;
    assert_int_equal(redco_grid_of_experts(&dense, 1, 8, 64, &grid, NULL), REDCO_OK);
    static const struct group folded[] = {{1 << REDCO_DIM_EP, 8, {0, 1, 2, 3, 4, 5, 6, 7}},
                                          {1 << REDCO_DIM_EP, 8, {24, 25, 26, 27, 28, 29, 30, 31}},
                                          {1 << REDCO_DIM_EDP, 2, {3, 11}},
                                          {PP, 2, {5, 21}}};
    check_groups(&grid, folded, sizeof folded / sizeof folded[0]);
    assert_int_equal(redco_grid_group_reach(&grid, 1 << REDCO_DIM_EP, 9, 8, 8).link, REDCO_GROUP_LINKED);
    assert_int_equal(redco_grid_of_experts(&dense, 2, 4, 0, &grid, NULL), REDCO_OK);
    static const struct group unfolded[] = {
        {1 << REDCO_DIM_ETP, 2, {6, 7}}, {1 << REDCO_DIM_EP, 4, {1, 3, 5, 7}}, {1 << REDCO_DIM_EDP, 2, {1, 9}}};
    check_groups(&grid, unfolded, sizeof unfolded / sizeof unfolded[0]);
    /* DeepSeek-V3's own run: 2,048 GPUs, pp 16, ep 64 over 8 nodes (arXiv 2412.19437, section 3.2) */
    const redco_rank_grid deepseek = {{1, 1, 128, 16}, REDCO_RANKS_TP_CP_DP_PP};
    assert_int_equal(redco_grid_of_experts(&deepseek, 1, 64, 256, &grid, NULL), REDCO_OK);
    const redco_group_reach reach = redco_grid_group_reach(&grid, 1 << REDCO_DIM_EP, 200, 8, 8);
    assert_int_equal(reach.nodes, 8);
    assert_int_equal(reach.in_node, 8);
    assert_int_equal(redco_grid_group_size(&grid, 1 << REDCO_DIM_EDP), 2);
}

/* Stages hold the same ranks in both grids, and what Megatron-LM asserts is what is refused. */
static void visit_experts(const redco_rank_grid *dense, void *context)
{
    uint32_t *const made = context;
    const uint32_t stage = dense->degrees[0] * dense->degrees[1] * dense->degrees[2];
    for (int order = 0; order < REDCO_RANKS_ORDERS; order++) {
        redco_rank_grid ordered = *dense, grid;
        ordered.order = (redco_rank_order)order;
        for (uint32_t etp = 1; etp <= stage + 1; etp++) {
            for (uint32_t ep = 1; ep <= stage + 1; ep++) {
                const bool whole = stage % (etp * ep) == 0;
                const bool pp_last = order == REDCO_RANKS_TP_CP_DP_PP || dense->degrees[REDCO_DIM_PP] == 1;
                const bool good = whole && (pp_last || stage / (etp * ep) == dense->degrees[REDCO_DIM_DP]);
                const redco_status st = redco_grid_of_experts(&ordered, etp, ep, 0, &grid, NULL);
                assert_int_equal(st, good ? REDCO_OK : REDCO_EVALUE);
                if (st != REDCO_OK) { continue; }
                assert_int_equal(redco_grid_ranks(&grid), redco_grid_ranks(&ordered));
                for (uint32_t r = 0; r < redco_grid_ranks(&grid); r++) {
                    assert_int_equal(redco_grid_coords(&grid, r).at[REDCO_DIM_PP],
                                     redco_grid_coords(&ordered, r).at[REDCO_DIM_PP]);
                }
                ++*made;
            }
        }
    }
}

static void stages_are_the_same_for_experts(void **state)
{
    (void)state;
    uint32_t made = 0;
    (void)for_all(16, visit_experts, &made);
    print_message("%u expert grids\n", made);
    const redco_rank_grid dense = {{2, 2, 4, 2}, REDCO_RANKS_TP_CP_DP_PP};
    redco_rank_grid grid;
    redco_error err = {.status = REDCO_OK};
    assert_int_equal(redco_grid_of_experts(&dense, 3, 2, 0, &grid, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "ep");
    assert_string_equal(err.text, "etp x ep = 3 x 2 does not divide tp x cp x dp = 2 x 2 x 4");
    err = (redco_error){.status = REDCO_OK};
    assert_int_equal(redco_grid_of_experts(&dense, 1, 8, 12, &grid, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "8 does not divide the 12 experts of a layer");
    err = (redco_error){.status = REDCO_OK};
    const redco_rank_grid other = {{2, 2, 4, 2}, REDCO_RANKS_TP_CP_PP_DP};
    assert_int_equal(redco_grid_of_experts(&other, 1, 8, 0, &grid, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "etp x ep = 1 x 8 leaves edp = 2, which must be dp = 4 where ranks are ordered "
                                  "tp-cp-pp-dp");
    assert_int_equal(redco_grid_of_experts(&dense, 0, 8, 0, &grid, NULL), REDCO_EVALUE);
}

static bool straddles(uint32_t world, uint64_t block, uint32_t node)
{
    for (uint64_t first = 0; first + block <= world; first += block) {
        const bool inside = first / node == (first + block - 1) / node;
        if (block <= node ? !inside : first % node != 0 || block % node != 0) { return true; }
    }
    return false;
}

/* The data-parallel mesh and the groups that are priced, against the members of the grid. */
static void check_placed(const redco_parallel *p)
{
    const redco_rank_grid grid = redco_parallel_grid(p);
    const uint32_t node = p->gpus_per_node;
    const redco_group_reach dp = redco_grid_group_reach(&grid, DP, 0, node, node);
    assert_int_equal(p->dp.gpus, dp.in_node);
    assert_int_equal(p->dp.nodes, dp.nodes);
    const redco_group_reach cp = redco_grid_group_reach(&grid, CP, 0, node, node);
    const redco_group cp_group = redco_parallel_cp_group(p);
    const bool tp_inside = node % p->tp == 0;
    if (tp_inside) {
        assert_int_equal(cp_group.mesh.gpus, cp.in_node);
        assert_int_equal(cp_group.mesh.nodes, cp.nodes);
        assert_int_equal(cp_group.groups_per_node, node / cp.in_node);
        const redco_group tp_group = redco_parallel_tp_group(p);
        const redco_group_reach tp = redco_grid_group_reach(&grid, TP, 0, node, node);
        assert_int_equal(tp_group.mesh.gpus, tp.in_node);
        assert_int_equal(tp_group.mesh.nodes, tp.nodes);
        assert_int_equal(redco_group_crosses(tp_group, node), tp.link);
        assert_int_equal(redco_group_crosses(cp_group, node), cp.link);
        if (cp.in_node > 1) { assert_int_equal(cp_group.stride, redco_grid_stride(&grid, REDCO_DIM_CP)); }
    }
    for (int over_cp = 0; over_cp < 2 && tp_inside; over_cp++) {
        redco_parallel q = *p;
        q.states_over_cp = over_cp != 0;
        const uint32_t dims = over_cp != 0 ? DP | CP : DP;
        const redco_mesh all = redco_parallel_state_grid(&q);
        const redco_group_reach reach = redco_grid_group_reach(&grid, dims, 0, node, node);
        assert_int_equal(redco_mesh_ranks(all), redco_grid_group_size(&grid, dims));
        assert_int_equal(all.gpus, reach.in_node);
        assert_int_equal(all.nodes, reach.nodes);
        const redco_group group = redco_parallel_state_group(&q, (redco_between){{1, 1}, all});
        assert_true(redco_mesh_equal(group.mesh, all));
        if (all.gpus > 1) { assert_int_equal(group.stride, redco_grid_group_member(&grid, dims, 0, 1)); }
        if (all.nodes > 1) { /* the first member in the next node of the mesh */
            const uint32_t next = redco_grid_group_member(&grid, dims, 0, all.gpus) / node;
            assert_int_equal(redco_parallel_nodes_each(&q, q.states_over_cp), next);
        }
        /* gradients of parameters that nothing cuts are reduced over all data- and context-parallel ranks */
        const redco_group replicas = redco_parallel_replicas(&q, (redco_mesh){1, 1});
        assert_int_equal(redco_mesh_ranks(replicas.mesh), redco_grid_group_size(&grid, DP | CP));
    }
}

static void visit_nodes(const redco_rank_grid *grid, void *context)
{
    uint32_t *const fits = context;
    const uint32_t world = (uint32_t)redco_grid_ranks(grid), *const d = grid->degrees;
    for (uint32_t node = 1; node <= world; node++) {
        if (world % node != 0) { continue; }
        redco_parallel p = {.nodes = world / node,
                            .gpus_per_node = node,
                            .tp = d[REDCO_DIM_TP],
                            .cp = d[REDCO_DIM_CP],
                            .pp = d[REDCO_DIM_PP]};
        const uint64_t inner = (uint64_t)p.tp * p.cp;
        const uint32_t room = inner >= node ? 1 : (uint32_t)(node / inner), dp = d[REDCO_DIM_DP];
        const uint32_t here = dp < room ? dp : room;
        const redco_status st = redco_parallel_place(&p, NULL);
        assert_int_equal(st, dp % here == 0 ? REDCO_OK : REDCO_EVALUE);
        if (st != REDCO_OK) { continue; }
        assert_int_equal(p.dp.gpus, here);
        assert_int_equal(redco_mesh_ranks(p.dp), dp);
        const redco_node_fit fit = redco_parallel_node_fit(&p);
        const redco_node_fit wanted = straddles(world, inner, node)                           ? REDCO_SPLITS_CP
                                      : inner <= node && straddles(world, inner * here, node) ? REDCO_SPLITS_DP
                                                                                              : REDCO_FITS_NODES;
        assert_int_equal(fit, wanted);
        assert_int_equal(redco_parallel_check_nodes(&p, NULL), fit == REDCO_FITS_NODES ? REDCO_OK : REDCO_EVALUE);
        if (fit != REDCO_FITS_NODES) { continue; }
        check_placed(&p);
        ++*fits;
    }
}

static void degrees_lie_on_nodes(void **state)
{
    (void)state;
    uint32_t fits = 0;
    (void)for_all(RANKS, visit_nodes, &fits);
    print_message("%u layouts on nodes\n", fits);
    /* a plan file may put two data-parallel ranks into a node that one of them fills */
    const redco_parallel crowded = {.nodes = 4, .gpus_per_node = 8, .tp = 8, .cp = 2, .pp = 1, .dp = {2, 1}};
    assert_int_equal(redco_parallel_node_fit(&crowded), REDCO_SPLITS_CP);
    /* 3 context-parallel ranks of 4 GPUs each, two in the first node and one in the next */
    const redco_parallel three = {.nodes = 3, .gpus_per_node = 8, .tp = 4, .cp = 3, .pp = 1, .dp = {1, 2}};
    assert_true(redco_mesh_equal(redco_parallel_cp_group(&three).mesh, (redco_mesh){2, 2}));
    assert_string_equal(redco_parallel_order_text(&three), "tp,cp,dp-gpus,dp-nodes,pp");
    assert_string_equal(redco_parallel_order_text(&(redco_parallel){.tp = 8, .cp = 1, .pp = 1}), "tp,dp-gpus,dp-nodes");
}

/* Neighbouring stages are priced over the network where a stage is a node or more. */
static void stages_talk_to_their_neighbours(void **state)
{
    (void)state;
    redco_parallel p = {.nodes = 4, .gpus_per_node = 8, .tp = 2, .cp = 1, .pp = 4, .dp = {4, 1}};
    assert_true(redco_mesh_equal(redco_parallel_stage_pair(&p).mesh, (redco_mesh){1, 2}));
    assert_int_equal(redco_parallel_stage_pair(&p).groups_per_node, 8);
    p.pp = 8;
    p.dp = (redco_mesh){2, 1};
    assert_true(redco_mesh_equal(redco_parallel_stage_pair(&p).mesh, (redco_mesh){2, 1}));
    assert_true(redco_mesh_equal(redco_parallel_world(&p).mesh, (redco_mesh){8, 4}));
    /* as far apart as the grid's digit of stages */
    const redco_rank_grid grid = redco_parallel_grid(&p);
    assert_int_equal(redco_parallel_stage_pair(&p).stride, redco_grid_stride(&grid, REDCO_DIM_PP));
    const redco_parallel wide = {.nodes = 8, .gpus_per_node = 8, .tp = 8, .cp = 2, .pp = 4, .dp = {1, 1}};
    const redco_rank_grid wide_grid = redco_parallel_grid(&wide);
    assert_int_equal(8 * redco_parallel_stage_pair(&wide).node_stride, redco_grid_stride(&wide_grid, REDCO_DIM_PP));
    const redco_group pair = {.mesh = {2, 1}, .stride = 4};
    assert_int_equal(redco_group_crosses(pair, 4), REDCO_GROUP_IN_NODE);
    assert_int_equal(redco_group_crosses(pair, 5), REDCO_GROUP_LINKED);
    assert_int_equal(redco_group_crosses((redco_group){.mesh = {1, 1}}, 8), REDCO_GROUP_ALONE);
}

/* The shape of a set of ranks of a mesh, digit by digit. */
static void check_between(redco_mesh dp, redco_between b)
{
    const redco_rank_mesh mesh = {2, dp};
    const uint32_t ranks = 2 * dp.gpus * dp.nodes;
    assert_int_equal(redco_rank_count(mesh), ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        const redco_place at = {r % 2, r / 2 % dp.gpus, r / 2 / dp.gpus}, place = redco_place_of(mesh, r);
        assert_memory_equal(&place, &at, sizeof at);
        assert_int_equal(redco_rank_at(mesh, place), r);
        assert_int_equal(redco_replica_at(mesh, place), r / 2);
        assert_int_equal(redco_tp_colour(mesh, r), r / 2);
        uint32_t position = 0, size = 0;
        for (uint32_t o = 0; o < ranks; o++) {
            const redco_place p = {o % 2, o / 2 % dp.gpus, o / 2 / dp.gpus};
            const bool same = p.tp == at.tp && p.gpu / b.outer.gpus == at.gpu / b.outer.gpus &&
                              p.node / b.outer.nodes == at.node / b.outer.nodes &&
                              p.gpu % b.inner.gpus == at.gpu % b.inner.gpus &&
                              p.node % b.inner.nodes == at.node % b.inner.nodes;
            assert_int_equal(redco_between_colour(mesh, b, o) == redco_between_colour(mesh, b, r), same);
            if (!same) { continue; }
            assert_int_equal(redco_rank_at(mesh, redco_between_member(b, at, size)), o);
            position += o < r ? 1 : 0;
            size++;
        }
        assert_int_equal(redco_between_size(b), size);
        assert_int_equal(redco_between_position(b, at), position);
        const redco_mesh in = b.inner;
        assert_int_equal(redco_mesh_position(in, at), at.gpu % in.gpus + in.gpus * (at.node % in.nodes));
    }
}

/* Blocks of a mesh follow one another: the ranks of the first block are 0, 1, 2, ... */
static bool follows(redco_mesh mesh, redco_mesh whole)
{
    uint32_t last = 0;
    for (uint32_t node = 0; node < mesh.nodes; node++) {
        for (uint32_t gpu = 0; gpu < mesh.gpus; gpu++) { last = node * whole.gpus + gpu; }
    }
    return last + 1 == mesh.gpus * mesh.nodes;
}

static void meshes_fall_into_blocks(void **state)
{
    (void)state;
    uint32_t pairs = 0;
    for (uint32_t at = 0; at < 6U * 6 * 36; at++) {
        const redco_mesh whole = {1 + at % 6, 1 + at / 6 % 6}, mesh = {1 + at / 36 % 6, 1 + at / 216};
        const bool nests =
            whole.gpus / mesh.gpus * mesh.gpus == whole.gpus && whole.nodes / mesh.nodes * mesh.nodes == whole.nodes;
        assert_int_equal(redco_mesh_nests(mesh, whole), nests);
        if (!nests) { continue; }
        assert_int_equal(redco_mesh_consecutive(mesh, whole), follows(mesh, whole));
        check_between(whole, (redco_between){mesh, whole});
        check_between(whole, (redco_between){{1, 1}, mesh});
        pairs++;
    }
    assert_int_equal(pairs, 14 * 14); /* numbers up to 6 have 14 divisors in all */
    for (uint32_t at = 0; at < 6U * 6 * 40; at++) {
        const redco_mesh whole = {1 + at % 6, 1 + at / 6 % 6};
        const uint32_t ranks = at / 36;
        redco_mesh mesh = {0, 0}, wanted = {0, 0};
        for (uint32_t gpus = 1; gpus <= whole.gpus; gpus++) {
            for (uint32_t nodes = 1; nodes <= whole.nodes; nodes++) {
                const redco_mesh m = {gpus, nodes};
                if (gpus * nodes == ranks && whole.gpus % gpus == 0 && whole.nodes % nodes == 0 && follows(m, whole)) {
                    wanted = m;
                }
            }
        }
        assert_int_equal(redco_mesh_of_ranks(whole, ranks, &mesh), wanted.gpus > 0);
        assert_true(redco_mesh_equal(mesh, wanted));
    }
    assert_false(redco_mesh_nests((redco_mesh){0, 1}, (redco_mesh){2, 2}));
    assert_false(redco_mesh_nests((redco_mesh){1, 1}, (redco_mesh){0, 2}));
}

static void refusals_name_quantities(void **state)
{
    (void)state;
    const redco_parallel_limits limits = {
        .model = "M", .cluster = "C", .heads = 64, .kv_heads = 8, .layers = 80, .seq_len = 4096};
    const redco_parallel_limits split = {.model = "M",
                                         .cluster = "C",
                                         .heads = 64,
                                         .kv_heads = 8,
                                         .layers = 80,
                                         .seq_len = 4100,
                                         .sequence_parallel = true};
    const redco_parallel_limits halves = {
        .model = "M", .cluster = "C", .heads = 64, .kv_heads = 8, .layers = 80, .seq_len = 4098, .zigzag = true};
    const struct {
        redco_parallel p;
        const redco_parallel_limits *limits;
        const char *place, *text;
    } rows[] = {
        {{4, 8, 3, 1, 1, {2, 4}, false, REDCO_CP_P2P}, &limits, "tp", "3 does not divide the 64 attention heads of M"},
        {{4, 8, 16, 1, 1, {1, 2}, false, REDCO_CP_P2P}, &limits, "tp", "16 does not divide the 8 GPUs of a node of C"},
        {{4, 8, 1, 3, 1, {2, 4}, false, REDCO_CP_P2P}, &limits, "cp", "3 does not divide the sequence of 4096 tokens"},
        {{4, 8, 8, 1, 1, {1, 4}, false, REDCO_CP_P2P},
         &split,
         "tp",
         "8 does not divide the 4100 tokens that sequence parallelism splits"},
        {{4, 8, 2, 2, 1, {2, 4}, false, REDCO_CP_ALL_GATHER},
         &halves,
         "cp",
         "2 ranks have a piece of each half of the sequence: 2 x 2 does not divide 4098 tokens"},
        {{4, 8, 4, 4, 1, {1, 2}, false, REDCO_CP_ALL_TO_ALL},
         &limits,
         "cp",
         "4 does not divide the 2 key-value heads of a tensor-parallel rank of M, which all-to-all exchanges"},
        {{4, 8, 8, 2, 1, {1, 2}, false, REDCO_CP_ALL_TO_ALL},
         &limits,
         "cp",
         "2 does not divide the 1 key-value head of a tensor-parallel rank of M, which all-to-all exchanges"},
        {{4, 8, 8, 2, 3, {1, 1}, false, REDCO_CP_P2P},
         &limits,
         "gpus",
         "32 GPUs are not a multiple of tp x cp x pp = 8 x 2 x 3"},
        {{1, 1, 1, 1, 2, {1, 1}, false, REDCO_CP_P2P},
         &limits,
         "gpus",
         "1 GPU is not a multiple of tp x cp x pp = 1 x 1 x 2"},
        {{4, 8, 8, 1, 1, {1, 2}, false, REDCO_CP_P2P}, &limits, "dp", "1x2 is 2 ranks; 32 GPUs leave 4"},
        {{4, 8, 2, 1, 1, {2, 8}, false, REDCO_CP_P2P},
         &limits,
         "dp",
         "2 ranks in a node; 4 fit beside tp x cp = 2 in 8 GPUs"},
        {{32, 8, 1, 1, 128, {2, 1}, false, REDCO_CP_P2P}, &limits, "pp", "128 stages are more than the 80 layers of M"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redco_parallel_check(&rows[i].p, rows[i].limits, &err), REDCO_EVALUE);
        assert_string_equal(err.place, rows[i].place);
        assert_string_equal(err.text, rows[i].text);
    }
    const redco_parallel good = {4, 8, 8, 2, 2, {1, 1}, false, REDCO_CP_P2P};
    assert_int_equal(redco_parallel_check(&good, &limits, NULL), REDCO_OK);
    const redco_parallel exchanged = {4, 8, 2, 4, 1, {1, 4}, false, REDCO_CP_ALL_TO_ALL};
    assert_int_equal(redco_parallel_check(&exchanged, &limits, NULL), REDCO_OK);
    /* three degrees whose product does not fit 64 bits */
    redco_parallel huge = {.nodes = 1U << 20, .gpus_per_node = 4, .tp = 1U << 22, .cp = 1U << 22, .pp = 1U << 22};
    redco_error err = {.status = REDCO_OK};
    assert_int_equal(redco_parallel_place(&huge, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "gpus");
    redco_parallel uneven = {.nodes = 3, .gpus_per_node = 8, .tp = 1, .cp = 1, .pp = 2};
    err = (redco_error){.status = REDCO_OK};
    assert_int_equal(redco_parallel_place(&uneven, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "dp");
    assert_string_equal(err.text, "12 data-parallel ranks do not fill nodes with 8 each");
    uneven.pp = 4;
    assert_int_equal(redco_parallel_place(&uneven, NULL), REDCO_OK);
    err = (redco_error){.status = REDCO_OK};
    assert_int_equal(redco_parallel_check_nodes(&uneven, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "pp");
    assert_string_equal(err.text, "4 stages of 6 GPUs are neither whole nodes of 8 nor divide one");
    redco_parallel crooked = {.nodes = 3, .gpus_per_node = 8, .tp = 2, .cp = 6, .pp = 1};
    assert_int_equal(redco_parallel_place(&crooked, NULL), REDCO_OK);
    err = (redco_error){.status = REDCO_OK};
    assert_int_equal(redco_parallel_check_nodes(&crooked, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "cp");
    assert_string_equal(err.text, "tp x cp = 2 x 6 GPUs are neither whole nodes of 8 nor divide one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_grid_is_what_loops_write),
        cmocka_unit_test(groups_cross_the_links_of_their_members),
        cmocka_unit_test(groups_are_megatrons),
        cmocka_unit_test(experts_lie_over_the_same_ranks),
        cmocka_unit_test(stages_are_the_same_for_experts),
        cmocka_unit_test(degrees_lie_on_nodes),
        cmocka_unit_test(stages_talk_to_their_neighbours),
        cmocka_unit_test(meshes_fall_into_blocks),
        cmocka_unit_test(refusals_name_quantities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
