/* Meshes of states: blocks of the data-parallel ranks, and the groups between them. */
#include "topology/ranks/parallel.h"

enum { RANKS_MAX = 65536 };

uint64_t redco_rank_count(redco_rank_mesh mesh)
{
    return mesh.tp * redco_mesh_ranks(mesh.dp);
}

redco_place redco_place_of(redco_rank_mesh mesh, uint32_t rank)
{
    const uint32_t replica = rank / mesh.tp;
    return (redco_place){rank % mesh.tp, replica % mesh.dp.gpus, replica / mesh.dp.gpus};
}

uint32_t redco_rank_at(redco_rank_mesh mesh, redco_place place)
{
    return redco_replica_at(mesh, place) * mesh.tp + place.tp;
}

uint32_t redco_replica_at(redco_rank_mesh mesh, redco_place place)
{
    return place.node * mesh.dp.gpus + place.gpu;
}

bool redco_mesh_consecutive(redco_mesh mesh, redco_mesh whole)
{
    return mesh.nodes == 1 || mesh.gpus == whole.gpus;
}

bool redco_mesh_of_ranks(redco_mesh whole, uint64_t ranks, redco_mesh *mesh_out)
{
    const bool wide = ranks >= whole.gpus; /* a whole node or more */
    if (ranks == 0 || whole.gpus == 0 || (wide ? ranks % whole.gpus : whole.gpus % ranks) != 0) { return false; }
    const uint64_t nodes = wide ? ranks / whole.gpus : 1;
    if (whole.nodes % nodes != 0) { return false; }
    *mesh_out = (redco_mesh){wide ? whole.gpus : (uint32_t)ranks, (uint32_t)nodes};
    return true;
}

redco_status redco_rank_mesh_check(redco_rank_mesh mesh, const char *place, redco_error *err)
{
    const bool small = mesh.tp <= RANKS_MAX && redco_mesh_ranks(mesh.dp) <= RANKS_MAX;
    if (small && mesh.tp > 0 && redco_mesh_ranks(mesh.dp) > 0 && redco_rank_count(mesh) <= RANKS_MAX) {
        return REDCO_OK;
    }
    return redco_fail(err, REDCO_EVALUE, place, "a mesh of tp %u x dp %ux%u must have 1 to %u ranks", mesh.tp,
                      mesh.dp.gpus, mesh.dp.nodes, (unsigned)RANKS_MAX);
}

redco_status redco_shards_check(redco_rank_mesh mesh, const redco_shards *shards, const char *place, redco_error *err)
{
    static const char *const names[] = {"parameters", "gradients", "optimizer", "dp"};
    const redco_mesh chain[] = {shards->parameters, shards->gradients, shards->optimizer, mesh.dp};
    for (int i = 0; i < 3; i++) {
        if (redco_mesh_nests(chain[i], chain[i + 1])) { continue; }
        return redco_fail(err, REDCO_EVALUE, place, "%s %ux%u must divide %s %ux%u", names[i], chain[i].gpus,
                          chain[i].nodes, names[i + 1], chain[i + 1].gpus, chain[i + 1].nodes);
    }
    return REDCO_OK;
}

uint32_t redco_mesh_position(redco_mesh mesh, redco_place place)
{
    return place.gpu % mesh.gpus + mesh.gpus * (place.node % mesh.nodes);
}

static redco_mesh quotient(redco_between b)
{
    return (redco_mesh){b.outer.gpus / b.inner.gpus, b.outer.nodes / b.inner.nodes};
}

uint32_t redco_between_size(redco_between between)
{
    return (uint32_t)redco_mesh_ranks(quotient(between));
}

uint32_t redco_between_position(redco_between between, redco_place place)
{
    const redco_mesh steps = quotient(between);
    return place.gpu / between.inner.gpus % steps.gpus + steps.gpus * (place.node / between.inner.nodes % steps.nodes);
}

redco_place redco_between_member(redco_between between, redco_place place, uint32_t position)
{
    const redco_mesh inner = between.inner, outer = between.outer, steps = quotient(between);
    place.gpu = place.gpu / outer.gpus * outer.gpus + position % steps.gpus * inner.gpus + place.gpu % inner.gpus;
    place.node =
        place.node / outer.nodes * outer.nodes + position / steps.gpus * inner.nodes + place.node % inner.nodes;
    return place;
}

uint32_t redco_between_colour(redco_rank_mesh mesh, redco_between between, uint32_t rank)
{
    return redco_rank_at(mesh, redco_between_member(between, redco_place_of(mesh, rank), 0));
}

uint32_t redco_tp_colour(redco_rank_mesh mesh, uint32_t rank)
{
    return rank / mesh.tp;
}
