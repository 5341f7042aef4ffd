/* Degrees on nodes: what is allowed, and where data-parallel ranks lie. */
#include "topology/ranks/parallel.h"

#include <stddef.h>

const char *const redco_cp_type_words[] = {
    [REDCO_CP_P2P] = "p2p",
    [REDCO_CP_ALL_GATHER] = "all-gather",
    [REDCO_CP_ALL_TO_ALL] = "all-to-all",
    [REDCO_CP_TYPES] = NULL,
};

redco_rank_grid redco_parallel_grid(const redco_parallel *p)
{
    return (redco_rank_grid){{p->tp, p->cp, (uint32_t)redco_mesh_ranks(p->dp), p->pp}, REDCO_RANKS_TP_CP_DP_PP};
}

const char *redco_parallel_order_text(const redco_parallel *p)
{
    return p->pp == 1 && p->cp == 1 ? "tp,dp-gpus,dp-nodes" : "tp,cp,dp-gpus,dp-nodes,pp";
}

static uint64_t inner_of(const redco_parallel *p)
{
    return (uint64_t)p->tp * p->cp;
}

uint32_t redco_dp_in_node(uint32_t gpus_per_node, uint64_t inner)
{
    return inner > 0 && inner < gpus_per_node ? (uint32_t)(gpus_per_node / inner) : 1;
}

static uint32_t smaller(uint64_t ranks, uint32_t room)
{
    return ranks < room ? (uint32_t)ranks : room;
}

redco_status redco_dp_mesh(uint32_t gpus_per_node, uint64_t inner, uint64_t ranks, redco_mesh *mesh_out,
                           redco_error *err)
{
    const uint32_t here = smaller(ranks, redco_dp_in_node(gpus_per_node, inner));
    if (here == 0 || ranks % here != 0) {
        return redco_fail(err, REDCO_EVALUE, "dp", "%llu data-parallel ranks do not fill nodes with %u each",
                          (unsigned long long)ranks, here);
    }
    *mesh_out = (redco_mesh){here, (uint32_t)(ranks / here)};
    return REDCO_OK;
}

/* GPUs that tp, cp and pp leave to data parallelism. */
static redco_status dp_ranks(const redco_parallel *p, uint64_t *ranks_out, redco_error *err)
{
    const uint64_t world = (uint64_t)p->nodes * p->gpus_per_node, inner = inner_of(p);
    /* one after the other: the product of all three may not fit 64 bits */
    if (inner == 0 || p->pp == 0 || world % inner != 0 || world / inner % p->pp != 0) {
        return redco_fail(err, REDCO_EVALUE, "gpus", "%llu GPU%s not a multiple of tp x cp x pp = %u x %u x %u",
                          (unsigned long long)world, world == 1 ? " is" : "s are", p->tp, p->cp, p->pp);
    }
    *ranks_out = world / inner / p->pp;
    return REDCO_OK;
}

redco_status redco_parallel_place(redco_parallel *p, redco_error *err)
{
    uint64_t ranks = 0;
    const redco_status st = dp_ranks(p, &ranks, err);
    return st == REDCO_OK ? redco_dp_mesh(p->gpus_per_node, inner_of(p), ranks, &p->dp, err) : st;
}

redco_node_fit redco_parallel_node_fit(const redco_parallel *p)
{
    const uint64_t node = p->gpus_per_node, inner = inner_of(p);
    if (inner > node) { return inner % node == 0 && p->dp.gpus == 1 ? REDCO_FITS_NODES : REDCO_SPLITS_CP; }
    if (node % inner != 0) { return REDCO_SPLITS_CP; }
    /* each factor is at most the node's GPUs where the first holds, so the product is exact */
    return p->dp.gpus <= node && node % (inner * p->dp.gpus) == 0 ? REDCO_FITS_NODES : REDCO_SPLITS_DP;
}

redco_status redco_parallel_check_nodes(const redco_parallel *p, redco_error *err)
{
    switch (redco_parallel_node_fit(p)) {
    case REDCO_SPLITS_CP:
        return redco_fail(err, REDCO_EVALUE, "cp",
                          "tp x cp = %u x %u GPUs are neither whole nodes of %u nor divide one", p->tp, p->cp,
                          p->gpus_per_node);
    case REDCO_SPLITS_DP:
        return redco_fail(err, REDCO_EVALUE, "pp",
                          "%u stages of %llu GPUs are neither whole nodes of %u nor divide one", p->pp,
                          (unsigned long long)(inner_of(p) * p->dp.gpus), p->gpus_per_node);
    case REDCO_FITS_NODES: break;
    }
    return REDCO_OK;
}

static redco_status check_tensor(const redco_parallel *p, const redco_parallel_limits *limits, redco_error *err)
{
    if (limits->heads % p->tp != 0) {
        return redco_fail(err, REDCO_EVALUE, "tp", "%u does not divide the %u attention heads of %s", p->tp,
                          limits->heads, limits->model);
    }
    if (limits->kv_heads % p->tp != 0 && p->tp % limits->kv_heads != 0) {
        return redco_fail(err, REDCO_EVALUE, "tp", "%u neither divides the %u key-value heads of %s nor is a multiple",
                          p->tp, limits->kv_heads, limits->model);
    }
    /* A group beyond the links of its node is possible and slow: it is priced through PCIe. */
    if (p->tp > p->gpus_per_node || p->gpus_per_node % p->tp != 0) {
        return redco_fail(err, REDCO_EVALUE, "tp", "%u does not divide the %u GPUs of a node of %s", p->tp,
                          p->gpus_per_node, limits->cluster);
    }
    return REDCO_OK;
}

static redco_status check_sequence(const redco_parallel *p, const redco_parallel_limits *limits, redco_error *err)
{
    const uint32_t seq_len = limits->seq_len;
    if (seq_len % p->cp != 0) {
        return redco_fail(err, REDCO_EVALUE, "cp", "%u does not divide the sequence of %u tokens", p->cp, seq_len);
    }
    if (p->cp > 1 && limits->zigzag && seq_len / p->cp % 2 != 0) {
        return redco_fail(err, REDCO_EVALUE, "cp",
                          "%u ranks have a piece of each half of the sequence: 2 x %u does not divide %u tokens", p->cp,
                          p->cp, seq_len);
    }
    if (limits->sequence_parallel && seq_len / p->cp % p->tp != 0) {
        return redco_fail(err, REDCO_EVALUE, "tp", "%u does not divide the %u tokens that sequence parallelism splits",
                          p->tp, seq_len / p->cp);
    }
    return REDCO_OK;
}

/* Ranks take heads whole, and with a key-value head those that read it; one that tensor-parallel ranks share is one on
 * each. */
redco_status redco_parallel_check_exchange(const redco_parallel *p, const redco_parallel_limits *limits,
                                           redco_error *err)
{
    const uint32_t heads = limits->kv_heads > p->tp ? limits->kv_heads / p->tp : 1;
    if (p->cp_type != REDCO_CP_ALL_TO_ALL || heads % p->cp == 0) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "cp",
                      "%u does not divide the %u key-value head%s of a tensor-parallel rank of %s, which all-to-all "
                      "exchanges",
                      p->cp, heads, heads == 1 ? "" : "s", limits->model);
}

static redco_status check_ranks(const redco_parallel *p, const redco_parallel_limits *limits, redco_error *err)
{
    const uint64_t given = redco_mesh_ranks(p->dp), inner = inner_of(p);
    uint64_t left = 0;
    const redco_status st = dp_ranks(p, &left, err);
    if (st != REDCO_OK) { return st; }
    if (given != left) {
        return redco_fail(err, REDCO_EVALUE, "dp", "%ux%u is %llu ranks; %llu GPUs leave %llu", p->dp.gpus, p->dp.nodes,
                          (unsigned long long)given, (unsigned long long)p->nodes * p->gpus_per_node,
                          (unsigned long long)left);
    }
    const uint32_t here = smaller(given, redco_dp_in_node(p->gpus_per_node, inner));
    if (p->dp.gpus != here) {
        return redco_fail(err, REDCO_EVALUE, "dp", "%u ranks in a node; %u fit beside tp x cp = %llu in %u GPUs",
                          p->dp.gpus, here, (unsigned long long)inner, p->gpus_per_node);
    }
    if (p->pp > limits->layers) {
        return redco_fail(err, REDCO_EVALUE, "pp", "%u stages are more than the %u layers of %s", p->pp, limits->layers,
                          limits->model);
    }
    return REDCO_OK;
}

redco_status redco_parallel_check(const redco_parallel *p, const redco_parallel_limits *limits, redco_error *err)
{
    redco_status st = check_tensor(p, limits, err);
    if (st == REDCO_OK) { st = check_sequence(p, limits, err); }
    if (st == REDCO_OK) { st = redco_parallel_check_exchange(p, limits, err); }
    return st == REDCO_OK ? check_ranks(p, limits, err) : st;
}

redco_mesh redco_parallel_dp_cp(const redco_parallel *p)
{
    const uint64_t inner = (uint64_t)p->tp * p->dp.gpus;
    const uint32_t room = inner > 0 && inner <= p->gpus_per_node ? (uint32_t)(p->gpus_per_node / inner) : 1;
    const uint32_t here = p->cp < room ? p->cp : room;
    return (redco_mesh){p->dp.gpus * here, p->dp.nodes * ((p->cp + here - 1) / here)};
}

redco_mesh redco_parallel_state_grid(const redco_parallel *p)
{
    return p->states_over_cp && p->cp > 1 ? redco_parallel_dp_cp(p) : p->dp;
}

uint32_t redco_parallel_nodes_each(const redco_parallel *p, bool over_cp)
{
    const uint64_t inner = over_cp ? p->tp : inner_of(p);
    return inner > p->gpus_per_node ? (uint32_t)(inner / p->gpus_per_node) : 1;
}
