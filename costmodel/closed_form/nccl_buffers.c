#include "costmodel/closed_form/nccl_buffers.h"

#include "costmodel/collectives/collective_nccl.h"

#include <string.h>

/* NCCL 2.30.7: src/init.cc, DEFAULT_LL_BUFFSIZE 8 lines x 512 threads x 8 steps x 16 bytes, DEFAULT_LL128_BUFFSIZE
 * 120 x 640 x 8 x 8 bytes, DEFAULT_BUFFSIZE. */
static const uint64_t ll_bytes = 524288, ll128_bytes = 4915200, simple_bytes = 4194304;
/* Allocations are multiples of it (src/include/p2p.h, CUDA_IPC_MIN; granularity of cuMemCreate). */
static const uint64_t granule_bytes = 2097152;
/* src/transport/nvls.cc: NCCL_NVLS_CHUNKSIZE x 8 steps, for each of reducing and spreading. */
static const uint64_t nvls_step_bytes = 2 * 8 * 131072;
/* src/transport/net.cc: sends and receives over the network share 16 steps of NCCL_P2P_NET_CHUNKSIZE for each channel
 * and direction. */
static const uint64_t shared_step_bytes = 16 * 131072;

/* src/include/device.h, MAXCHANNELS; executor/comm/nccl/nccl.h, most_ctas. */
enum { MOST_CHANNELS = 64, EXEC_TENSOR_CHANNELS = 32, EXEC_OTHER_CHANNELS = 16 };
enum { NVLS_CHANNELS_HOPPER = 16, NVLS_CHANNELS_NODE = 24, NVLS_CHANNELS_NODES = 32 };

/* A call of a layer, whose parameters, gradients and activations have tens of MiB; a norm is a number. Since 2; source:
 * assumed (COLLECTIVES.md, "Buffers"). */
static const double call_bytes = 64.0 * 0x1p20, norm_bytes = 4.0;

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + granule_bytes - 1) / granule_bytes * granule_bytes;
}

/* Both ends of a connection inside a node: the receiver holds the buffers of all protocols; the sender only flags. GPUs
 * of compute capability 8.0 read instead, and the sender holds those of Simple: 6 + 6 MiB, not 2 + 10. */
static uint64_t inside_bytes(void)
{
    return granule_bytes + aligned(ll_bytes + ll128_bytes + simple_bytes);
}

/* Over NICs that read the GPU's memory, the sender has buffers of its own, but for LL. */
static uint64_t network_bytes(void)
{
    return aligned(ll128_bytes + simple_bytes) + aligned(ll_bytes + ll128_bytes + simple_bytes);
}

static uint64_t share_up(uint64_t count, uint32_t of)
{
    return (count + of - 1) / of;
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

uint64_t redcoi_nccl_connected_bytes(redco_mesh mesh, const redcoi_nccl_connections *connections)
{
    const uint32_t channels = connections->channels, nvls_channels = connections->nvls_channels;
    const uint32_t uses = connections->uses;
    const uint64_t inside = inside_bytes(), network = network_bytes();
    /* Nodes of a binary tree: a leaf has one link, an inner one three; each is inner in one of the two trees. */
    const uint64_t tree_links = least(mesh.nodes - 1, 2);
    uint64_t bytes = 0;
    if (redco_mesh_ranks(mesh) <= 1) { return 0; }
    /* Each GPU of a node is the one that sends, and the one that receives, over the network in its share of rings. */
    const uint64_t out = mesh.nodes > 1 ? share_up(channels, mesh.gpus) : 0;
    if ((uses & REDCOI_NCCL_RING) != 0) { bytes += (channels - out) * inside + out * network; }
    if ((uses & REDCOI_NCCL_TREE) != 0) {
        /* A chain inside the node, both ways; a ring, where there is one, has one way of it. Of two ranks that is all.
         */
        const uint32_t ways = (uses & REDCOI_NCCL_RING) != 0 ? 1 : 2;
        const bool chain = mesh.gpus > 2 || (mesh.gpus == 2 && (mesh.nodes > 1 || ways == 2));
        bytes += chain ? (mesh.gpus > 2 ? ways : 1) * channels * inside : 0;
        bytes += out * tree_links * network;
    }
    if ((uses & REDCOI_NCCL_NVLS) != 0) { bytes += (uint64_t)nvls_channels * connections->heads * nvls_step_bytes; }
    if ((uses & REDCOI_NCCL_NVLS_TREE) != 0) { bytes += nvls_channels * tree_links * network; }
    if ((uses & REDCOI_NCCL_SEND_RECV) != 0) {
        const uint32_t neighbours = least((uint32_t)redco_mesh_ranks(mesh) - 1, 2);
        bytes += mesh.nodes > 1 ? 2 * channels * shared_step_bytes : (uint64_t)neighbours * channels * inside;
    }
    return bytes;
}

static uint32_t power_of_two_up(uint32_t count)
{
    uint32_t power = 1;
    while (power < count) { power *= 2; }
    return power;
}

/* src/graph/connect.cc, ncclTopoPostset(): twice what the search found, and twice that on Hopper and newer between
 * nodes with few wide channels. */
static uint32_t channels_of(const redco_nccl_group *group, uint32_t most)
{
    const uint32_t searched = (uint32_t)group->ring.channels;
    uint32_t channels = least(2 * searched, MOST_CHANNELS);
    if (group->compute_capability >= 90 && group->nodes > 1 && group->ring.intra_bytes_per_s > 45e9 && channels < 16) {
        channels *= 2;
    }
    return least(channels, most);
}

static redco_nccl_group group_of(const redco_machine *machine, redco_group where)
{
    const redco_nccl_reach reach = redco_nccl_reach_of(machine, where);
    const redco_nccl_graphs graphs = redco_nccl_search(machine, where.mesh.gpus, where.mesh.nodes > 1, &reach);
    redco_nccl_group group = redco_nccl_group_of(machine, where.mesh, reach.linked);
    redco_nccl_set_graphs(&group, &graphs, reach.share_ratio);
    return group;
}

static uint32_t nvls_channels_of(const redco_nccl_group *group, uint32_t most)
{
    const uint32_t channels = group->compute_capability < 100 ? NVLS_CHANNELS_HOPPER
                              : group->nodes > 1              ? NVLS_CHANNELS_NODES
                                                              : NVLS_CHANNELS_NODE;
    return least(channels, most);
}

static uint32_t use_of(const redco_nccl_group *group, redco_collective op, double size_bytes)
{
    redco_nccl_time time;
    if (op == REDCO_SEND_RECV) { return REDCOI_NCCL_SEND_RECV; }
    if (!redco_nccl_fastest(group, op, size_bytes, &time)) { return REDCOI_NCCL_RING; }
    switch (time.algorithm) {
    case REDCO_NCCL_TREE: return REDCOI_NCCL_TREE;
    case REDCO_NCCL_NVLS: return REDCOI_NCCL_NVLS;
    case REDCO_NCCL_NVLS_TREE: return REDCOI_NCCL_NVLS | REDCOI_NCCL_NVLS_TREE;
    default: return REDCOI_NCCL_RING;
    }
}

static uint32_t uses_of(const redco_nccl_group *group, const redcoi_nccl_communicator *communicator)
{
    uint32_t uses = communicator->norm ? use_of(group, REDCO_ALL_REDUCE, norm_bytes) : 0;
    for (int op = 0; op < REDCO_COLLECTIVE_COUNT; op++) {
        if ((communicator->calls & (1u << op)) != 0) { uses |= use_of(group, (redco_collective)op, call_bytes); }
    }
    return uses;
}

redcoi_nccl_connections redcoi_nccl_connect(const redco_machine *machine, const redcoi_nccl_communicator *communicator)
{
    const redco_nccl_group group = group_of(machine, communicator->group);
    const uint32_t uses = uses_of(&group, communicator), most = communicator->most_channels;
    uint32_t channels = channels_of(&group, most);
    /* Sends inside a node use as many channels as a power of two allows (src/graph/paths.cc), over PCIe two. */
    if (uses == REDCOI_NCCL_SEND_RECV) { channels = group.nodes == 1 && !group.linked ? 2 : power_of_two_up(channels); }
    return (redcoi_nccl_connections){channels, nvls_channels_of(&group, most), (uint32_t)group.nvls.channels, uses};
}

static bool same_group(const redco_group *a, const redco_group *b)
{
    return redco_mesh_equal(a->mesh, b->mesh) && a->stride == b->stride && a->node_stride == b->node_stride;
}

struct list {
    redcoi_nccl_communicator *at;
    uint32_t count;
    bool exec; /* redco-exec: executor/states/groups.c, executor/trainer/trainer.c */
};

static void add(struct list *list, redco_group group, redco_collective op, uint32_t most_channels)
{
    const uint32_t call = 1u << op;
    if (redco_mesh_ranks(group.mesh) <= 1) { return; }
    for (uint32_t i = 0; i < list->count && !list->exec; i++) {
        if (same_group(&list->at[i].group, &group)) {
            list->at[i].calls |= call;
            return;
        }
    }
    list->at[list->count++] =
        (redcoi_nccl_communicator){group, call, false, list->exec ? most_channels : MOST_CHANNELS};
}

uint32_t redcoi_nccl_outer(const redco_costs *costs, const redco_parallelism *parallelism,
                           redcoi_nccl_communicator out[REDCOI_NCCL_COMMUNICATORS_MAX])
{
    struct list list = {out, 0, costs->workload.engine.planned_memory};
    const uint32_t gpus = costs->machine.gpus_per_node;
    const redco_group tp = {
        .mesh = {parallelism->tp, 1}, .stride = 1, .groups_per_node = gpus / parallelism->tp, .tp = parallelism->tp};
    if (parallelism->sequence_parallel) {
        add(&list, tp, REDCO_ALL_GATHER, EXEC_TENSOR_CHANNELS);
        if (list.count > 0) { out[0].calls |= 1u << REDCO_REDUCE_SCATTER; }
    } else {
        add(&list, tp, REDCO_ALL_REDUCE, EXEC_TENSOR_CHANNELS);
    }
    if (list.count > 0) { out[0].norm = !list.exec; }
    if (parallelism->cp > 1) {
        add(&list, redcoi_cp_group(costs, parallelism->tp, parallelism->cp), REDCO_ALL_GATHER, EXEC_OTHER_CHANNELS);
    }
    if (parallelism->pp > 1) {
        redco_group stages = redcoi_stage_pair(costs, parallelism);
        if (stages.mesh.nodes > 1) {
            stages.mesh.nodes = parallelism->pp;
        } else {
            stages.mesh.gpus = parallelism->pp;
        }
        add(&list, stages, REDCO_SEND_RECV, EXEC_OTHER_CHANNELS);
    }
    return list.count;
}

uint32_t redcoi_nccl_sharded(const redcoi_job *job, redcoi_nccl_communicator out[REDCOI_NCCL_COMMUNICATORS_MAX])
{
    static const redco_mesh one = {1, 1};
    const redco_shards *const s = &job->shards;
    struct list list = {out, 0, job->costs->workload.engine.planned_memory};
    const redco_group gather = redcoi_group_of(job, s->parameters, one);
    add(&list, gather, REDCO_ALL_GATHER, EXEC_OTHER_CHANNELS);
    if (list.count > 0) { out[0].calls |= 1u << REDCO_REDUCE_SCATTER; }
    if (redcoi_has_secondary(job)) {
        add(&list, redcoi_group_of(job, redcoi_backward_mesh(job), one), REDCO_ALL_GATHER, EXEC_OTHER_CHANNELS);
    }
    const bool whole = redco_mesh_equal(s->optimizer, job->grid),
               inter = job->parallelism->scheme == REDCO_INTER_TENSOR;
    add(&list, redcoi_replicas_of(job, s->parameters), whole ? REDCO_REDUCE_SCATTER : REDCO_ALL_REDUCE,
        EXEC_OTHER_CHANNELS);
    if (!redco_mesh_equal(s->gradients, job->grid)) {
        add(&list, redcoi_group_of(job, s->gradients, s->parameters), inter ? REDCO_ALL_REDUCE : REDCO_REDUCE_SCATTER,
            EXEC_OTHER_CHANNELS);
    }
    add(&list, redcoi_group_of(job, s->optimizer, s->parameters), inter ? REDCO_BROADCAST : REDCO_ALL_GATHER,
        EXEC_OTHER_CHANNELS);
    if (list.count > 0) { out[0].norm = !list.exec; }
    return list.count;
}

static uint64_t find(redco_costs *costs, const redcoi_nccl_communicator *c)
{
    const uint64_t key = ((uint64_t)c->group.mesh.gpus << 40) ^ ((uint64_t)c->group.mesh.nodes << 16) ^
                         ((uint64_t)c->group.stride << 8) ^ ((uint64_t)c->calls << 32) ^ ((uint64_t)c->norm << 7) ^
                         c->most_channels;
    redcoi_nccl_room *const slot = &costs->rooms[(key * UINT64_C(0x9e3779b97f4a7c15)) >> 55]; /* Fibonacci hashing */
    const bool kept = same_group(&slot->group, &c->group) && slot->calls == c->calls && slot->norm == c->norm &&
                      slot->most_channels == c->most_channels;
    if (!kept) {
        const redcoi_nccl_connections connections = redcoi_nccl_connect(&costs->machine, c);
        *slot = (redcoi_nccl_room){c->group, c->calls, c->norm, c->most_channels,
                                   redcoi_nccl_connected_bytes(c->group.mesh, &connections)};
    }
    return slot->bytes;
}
_Static_assert(REDCOI_ROOMS_CACHED == 512, "the hash keeps 9 bits");

/* redco-exec on processors exchanges through memory or sockets, also where it stands in for a cluster of GPUs. */
static bool uses_nccl(const redco_costs *costs)
{
    const redco_calibration *const c = &costs->calibration;
    return !redco_gpu_is_host(&costs->machine.gpu) && !(c->planned_memory && c->processors);
}

static uint64_t sum(redco_costs *costs, const redcoi_nccl_communicator *communicators, uint32_t count)
{
    uint64_t bytes = 0;
    if (!uses_nccl(costs)) { return 0; }
    for (uint32_t i = 0; i < count; i++) { bytes += find(costs, &communicators[i]); }
    return bytes;
}

uint64_t redcoi_nccl_outer_bytes(redco_costs *costs, const redco_parallelism *parallelism)
{
    redcoi_nccl_communicator all[REDCOI_NCCL_COMMUNICATORS_MAX];
    const redco_shape shape = redcoi_shape_of(costs, parallelism);
    const bool shared = shape.ep > 1 && uses_nccl(costs);
    const redco_exchange exchange = redcoi_exchange_of(costs, &shape);
    return sum(costs, all, redcoi_nccl_outer(costs, parallelism, all)) +
           (shared ? redco_exchange_buffer_bytes(&exchange) : 0);
}

uint64_t redcoi_nccl_sharded_bytes(const redcoi_job *job)
{
    redcoi_nccl_communicator all[REDCOI_NCCL_COMMUNICATORS_MAX];
    return sum(job->costs, all, redcoi_nccl_sharded(job, all));
}
