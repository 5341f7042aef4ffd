#include "costmodel/collectives/collective.h"

#include "costmodel/collectives/collective_curve.h"
#include "costmodel/collectives/collective_nccl.h"
#include "topology/base/file.h"
#include "topology/discovery/gpu_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Graphs are kept for nodes up to this size; larger ones are searched at every call. */
enum { MAX_TABLE_GPUS = 128 };
/* NCCL's point-to-point kernel works on up to 8 peers at a time (NCCL_MAX_DEV_WORK_P2P_PER_BATCH). */
enum { PEERS_AT_ONCE = 8 };
/* As the Simple ring's. Since 1; source: NCCL 2.30.7, src/graph/tuning.cc. */
static const double point_to_point_base_s = 8.4e-6;

struct redco_comm {
    redco_machine machine;
    char sha256[REDCO_SHA256_HEX_SIZE];
    uint32_t gpus; /* GPUs of a node; 0 = no table */
    uint32_t ports;
    redco_nccl_graphs *table; /* [linked][gpus][ports], ports 0 = one node */
    double *links;            /* [order][gpus][stride] what the links of such groups carry; NULL where GPUs are alike */
    redcoi_curves curves;
    bool borrowed;                  /* the curves are another's */
    uint32_t algorithms, protocols; /* allowed; 0 = all */
};

static size_t slot_of(const redco_comm *comm, bool linked, uint32_t gpus, uint32_t ports)
{
    return ((linked ? comm->gpus : 0u) + gpus - 1) * ((size_t)comm->ports + 1) + ports;
}

static double *links_slot(const redco_comm *comm, size_t order, uint32_t gpus, uint32_t stride)
{
    return &comm->links[(order * (REDCO_ORDER_GPUS + 1) + gpus) * (REDCO_ORDER_GPUS + 1) + stride];
}

static redco_nccl_reach reach_of(const redco_comm *comm, redco_group where)
{
    redco_nccl_reach reach = redco_nccl_reach_of(&comm->machine, where);
    if (comm->links == NULL || where.mesh.gpus > REDCO_ORDER_GPUS || where.stride > REDCO_ORDER_GPUS) { return reach; }
    const redco_gpu_order *order = redco_machine_order(&comm->machine, where.tp);
    if (order == NULL) { return reach; }
    const double rate =
        *links_slot(comm, (size_t)(order - comm->machine.orders), where.mesh.gpus, where.stride > 0 ? where.stride : 1);
    if (rate >= 0.0) { redco_nccl_reach_links(&comm->machine, rate, &reach); }
    return reach;
}

static redco_nccl_graphs graphs_of(const redco_comm *comm, redco_mesh mesh, const redco_nccl_reach *reach)
{
    const uint32_t ports = mesh.nodes > 1 ? reach->ports : 0;
    if (comm->links == NULL && mesh.gpus <= comm->gpus && ports <= comm->ports) {
        const redco_nccl_graphs *kept = &comm->table[slot_of(comm, reach->linked, mesh.gpus, ports)];
        if (kept->ring.channels > 0.0) { return *kept; }
    }
    return redco_nccl_search(&comm->machine, mesh.gpus, mesh.nodes > 1, reach);
}

/* Searches every graph that groups with this machine's strides can have. */
static redco_status fill_table(redco_comm *comm, redco_error *err)
{
    const redco_machine *machine = &comm->machine;
    const uint32_t gpus =
        machine->node_gpus_physical > machine->gpus_per_node ? machine->node_gpus_physical : machine->gpus_per_node;
    if (gpus == 0 || gpus > MAX_TABLE_GPUS) { return REDCO_OK; }
    comm->gpus = gpus;
    comm->ports = gpus;
    comm->table = calloc((size_t)2 * gpus * (comm->ports + 1), sizeof *comm->table);
    if (comm->table == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t g = 1; g <= gpus; g++) {
        for (uint32_t stride = 1; stride * g <= gpus; stride++) {
            for (uint32_t nodes = 1; nodes <= 2; nodes++) {
                const redco_mesh mesh = {.gpus = g, .nodes = nodes};
                const redco_nccl_reach reach =
                    redco_nccl_reach_of(machine, (redco_group){.mesh = mesh, .stride = stride, .groups_per_node = 1});
                redco_nccl_graphs *kept = &comm->table[slot_of(comm, reach.linked, g, nodes > 1 ? reach.ports : 0)];
                if (kept->ring.channels == 0.0) { *kept = redco_nccl_search(machine, g, nodes > 1, &reach); }
            }
        }
    }
    return REDCO_OK;
}

/* Only point-to-point links differ from group to group. */
static redco_status fill_links(redco_comm *comm, redco_error *err)
{
    const redco_machine *machine = &comm->machine;
    if (machine->order_count == 0 || machine->fabric != REDCO_FABRIC_DIRECT) { return REDCO_OK; }
    const size_t each = (size_t)(REDCO_ORDER_GPUS + 1) * (REDCO_ORDER_GPUS + 1);
    comm->links = malloc(machine->order_count * each * sizeof *comm->links);
    if (comm->links == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t order = 0; order < machine->order_count; order++) {
        for (uint32_t gpus = 0; gpus <= REDCO_ORDER_GPUS; gpus++) {
            for (uint32_t stride = 0; stride <= REDCO_ORDER_GPUS; stride++) {
                *links_slot(comm, order, gpus, stride) =
                    redco_machine_group_rate(machine, machine->orders[order].tp, gpus, stride);
            }
        }
    }
    return REDCO_OK;
}

static double network_rate(const redco_nccl_reach *reach)
{
    return reach->ports * reach->port_payload_bytes_per_s * reach->share_ratio;
}

/* Every rank sends S/n to each other one. Inside the node g-1 of the shares go over the GPU's links; the g ranks of a
 * node send (N-1) g shares each through the ports they reach. Both happen at once. Peers are served 8 at a time. */
static redcoi_model_time all_to_all(const redco_nccl_group *group, const redco_nccl_reach *reach, redco_mesh mesh,
                                    double size_bytes)
{
    const double share = size_bytes / group->ranks;
    const double gpus = mesh.gpus;
    const double inside_s = mesh.gpus > 1 ? share * (gpus - 1.0) / reach->link_bytes_per_s : 0.0;
    const double network_s = mesh.nodes > 1 ? share * gpus * gpus * (mesh.nodes - 1.0) / network_rate(reach) : 0.0;
    const double rounds = ceil((group->ranks - 1.0) / PEERS_AT_ONCE);
    return (redcoi_model_time){
        .latency_s = point_to_point_base_s + rounds * redco_nccl_hop_s(group, mesh.nodes > 1),
        .wire_s = fmax(inside_s, network_s),
    };
}

/* Every rank sends S to the next one, as pipeline stages do: one hop. With several ranks in a node only one of them
 * leaves it. */
static redcoi_model_time send_recv(const redco_comm *comm, const redco_nccl_group *group, redco_group where,
                                   double size_bytes)
{
    double rate = INFINITY;
    if (where.mesh.gpus > 1) {
        const redco_nccl_reach pair =
            reach_of(comm, (redco_group){.mesh = {2, 1}, .stride = where.stride, .groups_per_node = 1, .tp = where.tp});
        rate = pair.link_bytes_per_s;
    }
    if (where.mesh.nodes > 1) {
        const redco_nccl_reach one =
            redco_nccl_reach_of(&comm->machine, (redco_group){.mesh = {.gpus = 1, .nodes = where.mesh.nodes},
                                                              .groups_per_node = where.groups_per_node,
                                                              .node_stride = where.node_stride});
        rate = fmin(rate, network_rate(&one));
    }
    return (redcoi_model_time){
        .latency_s = point_to_point_base_s + redco_nccl_hop_s(group, where.mesh.nodes > 1),
        .wire_s = size_bytes / rate,
    };
}

static redcoi_model_time model_time(const redco_comm *comm, redco_collective op, double size_bytes, redco_group where)
{
    const redco_nccl_reach reach = reach_of(comm, where);
    redco_nccl_group group = redco_nccl_group_of(&comm->machine, where.mesh, reach.linked);
    redco_nccl_time time = {0};
    if (op == REDCO_ALL_TO_ALL) { return all_to_all(&group, &reach, where.mesh, size_bytes); }
    if (op == REDCO_SEND_RECV) { return send_recv(comm, &group, where, size_bytes); }
    const redco_nccl_graphs graphs = graphs_of(comm, where.mesh, &reach);
    redco_nccl_set_graphs(&group, &graphs, reach.share_ratio);
    group.algorithms = comm->algorithms;
    group.protocols = comm->protocols;
    if (!redco_nccl_fastest(&group, op, size_bytes, &time)) {
        return (redcoi_model_time){.latency_s = 0.0, .wire_s = INFINITY}; /* no rate at all */
    }
    return (redcoi_model_time){
        .latency_s = time.latency_s + redco_nccl_chain_s(&group, op, time.protocol),
        .wire_s = size_bytes / time.bytes_per_s,
    };
}

redco_status redco_comm_create(const redco_machine *machine, const char *const *profiles, uint32_t profile_count,
                               redco_comm **comm_out, redco_error *err)
{
    redco_comm *comm = calloc(1, sizeof *comm);
    redco_status st = REDCO_OK;
    if (comm == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    comm->machine = *machine;
    if (redco_gpu_is_host(&machine->gpu)) { /* redco's own rings (executor/comm), not NCCL */
        redco_comm_restrict(comm, 1U << REDCO_NCCL_RING, 1U << REDCO_NCCL_SIMPLE);
    }
    st = fill_table(comm, err);
    if (st == REDCO_OK) { st = fill_links(comm, err); }
    if (st == REDCO_OK && profile_count > 0) {
        st = redcoi_curves_read(machine, profiles, profile_count, &comm->curves, comm->sha256, err);
    }
    if (st != REDCO_OK) { goto out; }
    redcoi_curves_compare(&comm->curves, comm, model_time);
    *comm_out = comm;
    comm = NULL;
out:
    redco_comm_free(comm);
    return st;
}

redco_status redco_comm_at_rates(const redco_comm *comm, const redco_machine *machine, redco_comm **comm_out,
                                 redco_error *err)
{
    redco_comm *there = NULL;
    const redco_status st = redco_comm_create(machine, NULL, 0, &there, err);
    if (st != REDCO_OK) { return st; }
    there->curves = comm->curves;
    there->borrowed = true;
    memcpy(there->sha256, comm->sha256, sizeof there->sha256);
    redco_comm_restrict(there, comm->algorithms, comm->protocols);
    *comm_out = there;
    return REDCO_OK;
}

void redco_comm_free(redco_comm *comm)
{
    if (comm == NULL) { return; }
    if (!comm->borrowed) { redcoi_curves_free(&comm->curves); }
    free(comm->table);
    free(comm->links);
    free(comm);
}

void redco_comm_restrict(redco_comm *comm, uint32_t algorithms, uint32_t protocols)
{
    comm->algorithms = algorithms;
    comm->protocols = protocols;
}

const char *redco_comm_warning(const redco_comm *comm)
{
    return comm->curves.warning[0] != '\0' ? comm->curves.warning : NULL;
}

const struct redco_compute_profile *redco_comm_compute(const redco_comm *comm)
{
    return comm->curves.compute;
}

const char *redco_comm_profile_sha256(const redco_comm *comm)
{
    return comm->sha256;
}

/* Time on exactly the measured group. Below its smallest size a curve that begins with latency stays there; one that
 * begins with large messages is followed down by the model, scaled to meet it. */
static redcoi_model_time measured_time(const redco_comm *comm, const redcoi_curve *curve, redco_collective op,
                                       double size_bytes, redco_group where)
{
    const double smallest_s = redcoi_curve_smallest_s(&comm->curves, curve);
    const double smallest = redcoi_curve_smallest_bytes(&comm->curves, curve);
    const double time_s = redcoi_curve_time(&comm->curves, curve, size_bytes);
    if (smallest <= REDCOI_LATENCY_BYTES) {
        const double latency_s = fmin(smallest_s, time_s);
        return (redcoi_model_time){.latency_s = latency_s, .wire_s = time_s - latency_s};
    }
    const redcoi_model_time model = model_time(comm, op, size_bytes, where);
    if (size_bytes < smallest) {
        const double ratio = redcoi_curve_ratio(&comm->curves, curve, smallest);
        const double total_s = fmin(smallest_s, ratio * (model.latency_s + model.wire_s));
        const double latency_s = fmin(total_s, ratio * model.latency_s);
        return (redcoi_model_time){.latency_s = latency_s, .wire_s = total_s - latency_s};
    }
    const double latency_s = fmin(model.latency_s, time_s);
    return (redcoi_model_time){.latency_s = latency_s, .wire_s = time_s - latency_s};
}

redco_comm_time redco_comm_price(const redco_comm *comm, redco_collective op, double size_bytes, redco_group group)
{
    redco_comm_time price = {.network = group.mesh.nodes > 1};
    bool exact = false;
    if (redco_mesh_ranks(group.mesh) < 2 || !(size_bytes > 0.0) || op >= REDCO_COLLECTIVE_COUNT) {
        price.network = false;
        return price;
    }
    const redco_group where = redcoi_group_normal(&comm->machine, group);
    const redcoi_curve *curve = comm->curves.count > 0 ? redcoi_curves_find(&comm->curves, op, where, &exact) : NULL;
    redcoi_model_time time;
    if (exact) {
        time = measured_time(comm, curve, op, size_bytes, where);
    } else {
        time = model_time(comm, op, size_bytes, where);
        if (curve != NULL) {
            const double ratio =
                curve->bandwidth_only ? curve->wire_ratio : redcoi_curve_ratio(&comm->curves, curve, size_bytes);
            time.wire_s *= ratio;
            if (!curve->bandwidth_only) { time.latency_s *= ratio; }
        }
    }
    price.latency_s = time.latency_s;
    price.wire_s = time.wire_s;
    price.measured = curve != NULL;
    return price;
}
