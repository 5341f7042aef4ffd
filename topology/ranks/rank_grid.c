/* Grids: digits of ranks, and the groups that share some of them. */
#include "topology/base/units.h"
#include "topology/ranks/parallel.h"

enum { DIMS = REDCO_DIM_COUNT };

static const struct {
    const char *text;
    redco_rank_dim dims[DIMS]; /* fastest first */
} orders[REDCO_RANKS_ORDERS] = {
    [REDCO_RANKS_TP_CP_DP_PP] = {"tp-cp-dp-pp", {REDCO_DIM_TP, REDCO_DIM_CP, REDCO_DIM_DP, REDCO_DIM_PP}},
    [REDCO_RANKS_TP_CP_PP_DP] = {"tp-cp-pp-dp", {REDCO_DIM_TP, REDCO_DIM_CP, REDCO_DIM_PP, REDCO_DIM_DP}},
};

uint64_t redco_grid_ranks(const redco_rank_grid *grid)
{
    uint64_t ranks = 1;
    for (int i = 0; i < DIMS; i++) {
        if (!redco_mul_u64(ranks, grid->degrees[i], &ranks)) { return UINT64_MAX; }
    }
    return ranks;
}

redco_status redco_grid_of_experts(const redco_rank_grid *dense, uint32_t etp, uint32_t ep, uint32_t experts,
                                   redco_rank_grid *grid_out, redco_error *err)
{
    const uint32_t *const d = dense->degrees;
    const uint64_t stage = redco_grid_ranks(dense) / d[REDCO_DIM_PP], inner = (uint64_t)etp * ep;
    if (inner == 0 || stage % inner != 0) {
        return redco_fail(err, REDCO_EVALUE, "ep", "etp x ep = %u x %u does not divide tp x cp x dp = %u x %u x %u",
                          etp, ep, d[REDCO_DIM_TP], d[REDCO_DIM_CP], d[REDCO_DIM_DP]);
    }
    if (experts % ep != 0) {
        return redco_fail(err, REDCO_EVALUE, "ep", "%u does not divide the %u experts of a layer", ep, experts);
    }
    if (orders[dense->order].dims[DIMS - 1] != REDCO_DIM_PP && d[REDCO_DIM_PP] > 1 &&
        stage / inner != d[REDCO_DIM_DP]) {
        return redco_fail(err, REDCO_EVALUE, "ep",
                          "etp x ep = %u x %u leaves edp = %llu, which must be dp = %u where ranks are ordered %s", etp,
                          ep, (unsigned long long)(stage / inner), d[REDCO_DIM_DP], orders[dense->order].text);
    }
    *grid_out = *dense;
    grid_out->degrees[REDCO_DIM_ETP] = etp;
    grid_out->degrees[REDCO_DIM_EP] = ep;
    grid_out->degrees[REDCO_DIM_EDP] = (uint32_t)(stage / inner);
    return REDCO_OK;
}

redco_rank_coords redco_grid_coords(const redco_rank_grid *grid, uint32_t rank)
{
    redco_rank_coords coords = {{0}};
    for (int i = 0; i < DIMS; i++) {
        const redco_rank_dim dim = orders[grid->order].dims[i];
        coords.at[dim] = rank % grid->degrees[dim];
        rank /= grid->degrees[dim];
    }
    return coords;
}

uint32_t redco_grid_rank(const redco_rank_grid *grid, redco_rank_coords coords)
{
    uint32_t rank = 0;
    for (int i = DIMS; i-- > 0;) {
        const redco_rank_dim dim = orders[grid->order].dims[i];
        rank = rank * grid->degrees[dim] + coords.at[dim];
    }
    return rank;
}

uint32_t redco_grid_stride(const redco_rank_grid *grid, redco_rank_dim dim)
{
    uint32_t stride = 1;
    for (int i = 0; orders[grid->order].dims[i] != dim; i++) { stride *= grid->degrees[orders[grid->order].dims[i]]; }
    return stride;
}

static bool has(uint32_t dims, redco_rank_dim dim)
{
    return (dims >> dim & 1) != 0;
}

uint32_t redco_grid_group_size(const redco_rank_grid *grid, uint32_t dims)
{
    uint32_t size = 1;
    for (int i = 0; i < DIMS; i++) { size *= has(dims, (redco_rank_dim)i) ? grid->degrees[i] : 1; }
    return size;
}

uint32_t redco_grid_group_position(const redco_rank_grid *grid, uint32_t dims, uint32_t rank)
{
    const redco_rank_coords coords = redco_grid_coords(grid, rank);
    uint32_t position = 0;
    for (int i = DIMS; i-- > 0;) {
        const redco_rank_dim dim = orders[grid->order].dims[i];
        if (has(dims, dim)) { position = position * grid->degrees[dim] + coords.at[dim]; }
    }
    return position;
}

uint32_t redco_grid_group_member(const redco_rank_grid *grid, uint32_t dims, uint32_t rank, uint32_t position)
{
    redco_rank_coords coords = redco_grid_coords(grid, rank);
    for (int i = 0; i < DIMS; i++) {
        const redco_rank_dim dim = orders[grid->order].dims[i];
        if (!has(dims, dim)) { continue; }
        coords.at[dim] = position % grid->degrees[dim];
        position /= grid->degrees[dim];
    }
    return redco_grid_rank(grid, coords);
}

/* Neighbours of a second dimension are as far apart as those of the first where all of the first lies between. */
uint32_t redco_grid_group_stride(const redco_rank_grid *grid, uint32_t dims)
{
    uint32_t first = 0, members = 1;
    for (int i = 0; i < DIMS; i++) {
        const redco_rank_dim dim = orders[grid->order].dims[i];
        if (!has(dims, dim) || grid->degrees[dim] == 1) { continue; }
        const uint32_t stride = redco_grid_stride(grid, dim);
        if (first != 0 && stride != first * members) { return 0; }
        first = first != 0 ? first : stride;
        members *= grid->degrees[dim];
    }
    return first != 0 ? first : 1;
}

redco_group_reach redco_grid_group_reach(const redco_rank_grid *grid, uint32_t dims, uint32_t rank,
                                         uint32_t gpus_per_node, uint32_t linked_gpus)
{
    const uint32_t size = redco_grid_group_size(grid, dims);
    const uint32_t first = redco_grid_group_member(grid, dims, rank, 0);
    const uint32_t last = redco_grid_group_member(grid, dims, rank, size - 1);
    redco_group_reach reach = {.link = REDCO_GROUP_OVER_NODES};
    uint32_t here = 0, node = 0;
    for (uint32_t i = 0; i < size; i++) { /* ranks ascend, so nodes do */
        const uint32_t at = redco_grid_group_member(grid, dims, rank, i) / gpus_per_node;
        here = i > 0 && at == node ? here + 1 : 1;
        reach.nodes += here == 1 ? 1 : 0;
        reach.in_node = here > reach.in_node ? here : reach.in_node;
        node = at;
    }
    if (reach.nodes == 1) {
        const bool linked = first % gpus_per_node / linked_gpus == last % gpus_per_node / linked_gpus;
        reach.link = size == 1 ? REDCO_GROUP_ALONE : linked ? REDCO_GROUP_LINKED : REDCO_GROUP_IN_NODE;
    }
    return reach;
}
