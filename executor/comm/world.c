#include "executor/comm/transport.h"
#include "topology/base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double default_timeout_s = 60.0;

static bool is_port(const char *text)
{
    uint64_t port = 0;
    return redco_whole_parse(text, 1, 65535, &port);
}

static redco_status check(const redco_world_options *options, redco_error *err)
{
    const bool many = options->transport == REDCO_TRANSPORT_SOCKET;
    if (!(options->timeout_s >= 0.0 && options->timeout_s <= 86400.0)) {
        return redco_fail(err, REDCO_EVALUE, "time-out", "%g s is not between 0 and one day", options->timeout_s);
    }
    if (many && (options->size == 0 || options->size > REDCO_WORLD_MAX || options->rank >= options->size)) {
        return redco_fail(err, REDCO_EVALUE, "world", "rank %u of %u: ranks run from 0 to size - 1, sizes to %d",
                          options->rank, options->size, REDCO_WORLD_MAX);
    }
    if (!many || options->local != NULL) { return REDCO_OK; }
    if (options->address == NULL || strrchr(options->address, ':') == NULL) {
        return redco_fail(err, REDCO_EVALUE, "world", "the address of rank 0 must be HOST:PORT");
    }
    if (!is_port(strrchr(options->address, ':') + 1)) {
        return redco_fail(err, REDCO_EVALUE, options->address, "the port must be a number from 1 to 65535");
    }
    if (options->secret == NULL || options->secret_bytes < REDCO_SECRET_MIN ||
        options->secret_bytes > REDCO_SECRET_MAX) {
        return redco_fail(err, REDCO_EVALUE, "world", "ranks need a secret of %d to %d bytes", REDCO_SECRET_MIN,
                          REDCO_SECRET_MAX);
    }
    return REDCO_OK;
}

redco_status redco_world_open(const redco_world_options *options, redco_world **world_out, redco_error *err)
{
    const double timeout_s = options->timeout_s > 0.0 ? options->timeout_s : default_timeout_s;
    redcoi_transport transport = {.size = 1};
    redco_status st = check(options, err);
    if (st == REDCO_OK && options->transport == REDCO_TRANSPORT_SOCKET) {
        st = redcoi_socket_open(options, timeout_s, &transport, err);
    } else if (st == REDCO_OK && options->transport == REDCO_TRANSPORT_MPI) {
        st = redcoi_mpi_open(timeout_s, &transport, err);
    }
    return st == REDCO_OK ? redcoi_world_open_on(&transport, world_out, err) : st;
}

redco_status redcoi_world_open_on(const redcoi_transport *transport, redco_world **world_out, redco_error *err)
{
    redco_world *const world = calloc(1, sizeof *world);
    if (world == NULL) {
        if (transport->calls != NULL) { transport->calls->close(transport->state); }
        return redco_fail(err, REDCO_ENOMEM, "world", "out of memory");
    }
    world->transport = *transport;
    *world_out = world;
    return REDCO_OK;
}

void redco_world_close(redco_world *world)
{
    if (world == NULL) { return; }
    if (world->transport.calls != NULL) { world->transport.calls->close(world->transport.state); }
    free(world);
}

void redco_world_abort(redco_world *world)
{
    atomic_store(&world->aborted, true);
    if (world->transport.calls != NULL) { world->transport.calls->abort(world->transport.state); }
}

void redco_world_watch(redco_world *world, void (*watch)(void *context, const char *what), void *context)
{
    world->watch = watch;
    world->watch_context = context;
}

void redco_world_part(redco_world *world, redco_farewell *farewell_out)
{
    const redcoi_transport *const t = &world->transport;
    redco_farewell farewell = {atomic_load(&world->broken), true, true, REDCO_WORLD_MAX};
    if (t->calls != NULL && t->calls->part != NULL) { t->calls->part(t->state, &farewell); }
    *farewell_out = farewell;
}

void redco_world_give_up(redco_world *world, int code)
{
    const redcoi_transport *const t = &world->transport;
    if (t->calls != NULL && t->calls->give_up != NULL) { t->calls->give_up(t->state, code); }
}

uint32_t redco_world_rank(const redco_world *world)
{
    return world->transport.rank;
}

uint32_t redco_world_size(const redco_world *world)
{
    return world->transport.size;
}

/* The ranks of this rank's colour. @return their number */
static uint32_t members_of(const redco_world *world, const uint32_t *colours, uint32_t *ranks_out, uint32_t *own_out)
{
    const redcoi_transport *const t = &world->transport;
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < t->size; rank++) {
        if (colours[rank] != colours[t->rank]) { continue; }
        if (rank == t->rank) { *own_out = count; }
        ranks_out[count++] = rank;
    }
    return count;
}

redco_status redco_communicator_split(redco_world *world, const uint32_t *colours, const char *name,
                                      redco_communicator **communicator_out, redco_error *err)
{
    const redcoi_transport *const t = &world->transport;
    const size_t half = redco_communicator_scratch_bytes() / 2;
    redco_status st = REDCO_OK;
    uint32_t *const ranks = calloc(t->size, sizeof *ranks);
    redco_communicator *const c = calloc(1, sizeof *c);
    if (ranks == NULL || c == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
        goto out;
    }
    c->world = world;
    c->calls = t->calls;
    c->size = members_of(world, colours, ranks, &c->rank);
    (void)snprintf(c->name, sizeof c->name, "%s", name);
    if (c->size > 1) {
        c->scratch[0] = malloc(half);
        c->scratch[1] = malloc(half);
        if (c->scratch[0] == NULL || c->scratch[1] == NULL) {
            st = redco_fail(err, REDCO_ENOMEM, name, "out of memory");
            goto out;
        }
    }
    if (t->calls != NULL) { /* every rank takes part, whatever the size of its own group */
        const redcoi_members members = {ranks, c->size, c->rank};
        if (world->watch != NULL) { world->watch(world->watch_context, name); }
        st = t->calls->link(t->state, &members, world->splits, &c->link, err);
        if (st != REDCO_OK && !atomic_load(&world->aborted)) { atomic_store(&world->broken, true); }
    }
    world->splits++;
out:
    free(ranks);
    if (st != REDCO_OK) {
        redco_communicator_free(c);
        return st;
    }
    *communicator_out = c;
    return REDCO_OK;
}
