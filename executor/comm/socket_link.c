#include "executor/comm/socket.h"
#include "topology/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ring {
    const redcoi_sockets *world;
    uint32_t next, previous; /* world ranks, for messages */
    int out, in;
};

static redco_status lost(const redcoi_sockets *world, uint32_t peer, int error, const char *what, redco_error *err)
{
    return redco_fail(err, REDCO_ESYSTEM, what, "rank %u: rank %u %s", world->rank, peer, redcoi_socket_reason(error));
}

/* One look at a direction that poll() found ready. @return false: the connection is gone (errno) */
static bool some(int fd, char *data, size_t size, size_t *at, bool sending)
{
    const ssize_t moved =
        sending ? send(fd, data + *at, size - *at, MSG_NOSIGNAL) : recv(fd, data + *at, size - *at, 0);
    if (moved > 0) {
        *at += (size_t)moved;
        return true;
    }
    if (moved == 0) { errno = 0; }
    return moved < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Moves what can be moved, and looks for more for a while. @return false: a connection is gone, of @p peer_out (errno)
 */
static bool move_some(const struct ring *ring, const redcoi_exchange *x, size_t *sent, size_t *received,
                      uint32_t *peer_out)
{
    double until_s = 0.0;
    while (*sent < x->send_bytes || *received < x->receive_bytes) {
        const size_t before = *sent + *received;
        *peer_out = ring->previous;
        if (*received < x->receive_bytes && !some(ring->in, x->receive, x->receive_bytes, received, false)) {
            return false;
        }
        *peer_out = ring->next;
        if (*sent < x->send_bytes && !some(ring->out, (char *)(uintptr_t)x->send, x->send_bytes, sent, true)) {
            return false;
        }
        if (*sent + *received > before) {
            until_s = 0.0;
            continue;
        }
        const double now_s = redco_now_s();
        if (until_s == 0.0) { until_s = now_s + ring->world->look_s; }
        if (now_s >= until_s) { return true; }
    }
    return true;
}

/* Waits in short pieces: a run that was suspended as a whole has not waited meanwhile. */
static const double piece_s = 0.25;

static redco_status socket_exchange(void *link, const redcoi_exchange *x, redco_error *err)
{
    const struct ring *const ring = link;
    size_t sent = 0, received = 0;
    uint32_t peer = 0;
    double waited_s = 0.0;
    while (sent < x->send_bytes || received < x->receive_bytes) {
        const size_t before = sent + received;
        if (!move_some(ring, x, &sent, &received, &peer)) { return lost(ring->world, peer, errno, x->what, err); }
        if (sent + received > before) {
            waited_s = 0.0;
            continue;
        }
        struct pollfd fds[3] = {{.fd = sent < x->send_bytes ? ring->out : -1, .events = POLLOUT},
                                {.fd = received < x->receive_bytes ? ring->in : -1, .events = POLLIN},
                                {.fd = ring->world->aborted, .events = POLLIN}};
        const double left_s = ring->world->timeout_s - waited_s, wait_s = left_s < piece_s ? left_s : piece_s;
        const int ready = poll(fds, 3, wait_s > 0.0 ? (int)(wait_s * 1e3) + 1 : 0);
        if (ready < 0 && errno == EINTR) { continue; }
        if (ready < 0) { return redco_fail(err, REDCO_ESYSTEM, x->what, "poll: %s", redcoi_socket_reason(errno)); }
        if (fds[2].revents != 0) {
            return redco_fail(err, REDCO_ESYSTEM, x->what, "rank %u has given up", ring->world->rank);
        }
        if (ready == 0 && wait_s > 0.0) {
            waited_s += wait_s;
            continue;
        }
        if (ready == 0) {
            return redco_fail(err, REDCO_ESYSTEM, x->what, "rank %u: rank %u %s (%g s)", ring->world->rank,
                              fds[1].fd >= 0 ? ring->previous : ring->next,
                              fds[1].fd >= 0 ? "was not heard of" : "did not take what was sent",
                              ring->world->timeout_s);
        }
    }
    return REDCO_OK;
}

static void socket_abort(void *transport)
{
    const redcoi_sockets *const world = transport;
    const uint64_t one = 1;
    const ssize_t written = write(world->aborted, &one, sizeof one);
    (void)written; /* fails only if it is set already */
}

static void socket_unlink(void *link)
{
    struct ring *const ring = link;
    if (ring->out >= 0) { (void)close(ring->out); }
    if (ring->in >= 0) { (void)close(ring->in); }
    free(ring);
}

/* A visitor that came early. @return its connection, or -1 */
static int take_visitor(redcoi_sockets *world, uint32_t sequence, uint32_t from)
{
    for (size_t i = 0; i < world->visitors_count; i++) {
        const redcoi_visitor visitor = world->visitors[i];
        if (visitor.sequence != sequence || visitor.from != from) { continue; }
        world->visitors[i] = world->visitors[--world->visitors_count];
        return visitor.fd;
    }
    return -1;
}

static bool keep_visitor(redcoi_sockets *world, redcoi_visitor visitor)
{
    if (world->visitors_count == world->visitors_capacity) {
        const size_t capacity = 2 * world->visitors_capacity + 8;
        redcoi_visitor *const more = realloc(world->visitors, capacity * sizeof *more);
        if (more == NULL) { return false; }
        world->visitors = more;
        world->visitors_capacity = capacity;
    }
    world->visitors[world->visitors_count++] = visitor;
    return true;
}

/* A rank of this run that was let in. */
static void receive(void *context, const redcoi_guest *guest)
{
    redcoi_sockets *const world = context;
    const redcoi_wish *const wish = &guest->wish;
    const redcoi_visitor visitor = {guest->fd, wish->sequence, wish->rank};
    if (wish->kind != REDCOI_WISH_LINK || wish->to != world->rank ||
        memcmp(wish->bytes, world->run, sizeof world->run) != 0 || !keep_visitor(world, visitor)) {
        (void)close(guest->fd);
    }
}

/* Calls the next and lets in the previous, whichever comes first. */
static redco_status meet(redcoi_sockets *world, struct ring *ring, uint32_t sequence, redco_error *err)
{
    const double deadline_s = redco_now_s() + world->timeout_s;
    redcoi_wish wish = {.kind = REDCOI_WISH_LINK, .rank = world->rank, .sequence = sequence, .to = ring->next};
    redcoi_caller caller;
    redco_status st = REDCO_OK;
    memcpy(wish.bytes, world->run, sizeof wish.bytes);
    redcoi_caller_open(&caller, &world->doors[ring->next], redcoi_secret_of(world), &wish, false);
    while (st == REDCO_OK) {
        const bool called = redcoi_caller_done(&caller);
        if (ring->in < 0) { ring->in = take_visitor(world, sequence, ring->previous); }
        if (called && ring->in >= 0) { break; }
        if (redcoi_caller_failed(&caller)) {
            st = lost(world, ring->next, caller.error, "connecting", err);
            break;
        }
        const int turn = redcoi_gate_turn(&world->gate, called ? NULL : &caller, deadline_s, receive, world);
        if (turn > 0) { continue; }
        if (turn == 0) { errno = ETIMEDOUT; }
        st = called ? lost(world, ring->previous, errno, "waiting to be connected", err)
                    : lost(world, ring->next, errno, "connecting", err);
    }
    if (st != REDCO_OK) { redcoi_caller_close(&caller); }
    ring->out = caller.fd;
    return st;
}

static redco_status socket_link(void *transport, const redcoi_members *members, uint32_t sequence, void **link_out,
                                redco_error *err)
{
    redcoi_sockets *const world = transport;
    if (members->size == 1) { return REDCO_OK; }
    struct ring *const ring = calloc(1, sizeof *ring);
    if (ring == NULL) { return redco_fail(err, REDCO_ENOMEM, "sockets", "out of memory"); }
    *ring = (struct ring){.world = world,
                          .next = members->ranks[(members->own + 1) % members->size],
                          .previous = members->ranks[(members->own + members->size - 1) % members->size],
                          .out = -1,
                          .in = -1};
    const redco_status st = meet(world, ring, sequence, err);
    if (st != REDCO_OK) {
        socket_unlink(ring);
        return st;
    }
    *link_out = ring;
    return REDCO_OK;
}

static void socket_close(void *transport)
{
    redcoi_sockets *const world = transport;
    for (size_t i = 0; i < world->visitors_count; i++) { (void)close(world->visitors[i].fd); }
    redcoi_gate_close(&world->gate);
    if (world->aborted >= 0) { (void)close(world->aborted); }
    free(world->visitors);
    if (world->secret != NULL) { explicit_bzero(world->secret, world->secret_bytes); }
    free(world->secret);
    free(world->doors);
    free(world);
}

const redcoi_transport_calls redcoi_socket_calls = {socket_link, socket_exchange, socket_abort, socket_unlink, NULL,
                                                    NULL,        socket_close};
