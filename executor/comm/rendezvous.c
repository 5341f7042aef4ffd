#include "executor/comm/socket.h"
#include "topology/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

/* Ranks that were started one by one find one another: all but rank 0 call at its address and say who they are and
 * where they listen; when all have come, rank 0 tells everyone the doors of all. What it tells is proved as calls are.
 */

/* After a failure, how long those that come are told why; and how long a rank that cannot start tries to tell. */
static const double linger_s = 0.7;

/* A door on the wire. */
struct entry {
    uint8_t address[16]; /* IPv4: the first four */
    uint16_t family;     /* 4 or 6; 0: rank 0 where it was called */
    uint16_t port;
};

struct welcome {
    uint32_t status;  /* a redco_status; then there are no entries */
    uint32_t padding; /* 0 */
    unsigned char run[REDCOI_RUN_BYTES];
    char place[256], text[384]; /* place and text of an error */
};

void redco_rank_place(uint32_t rank, const char *place, char *text, size_t size)
{
    char host[65] = "";
    (void)gethostname(host, sizeof host - 1);
    (void)snprintf(text, size, "rank %u on %s%s%.380s", rank, host[0] != '\0' ? host : "?",
                   place[0] != '\0' ? ": " : "", place);
}

static redco_status trouble(const char *doing, int error, redco_error *err)
{
    return redco_fail(err, REDCO_ESYSTEM, doing, "%s", redcoi_socket_reason(error));
}

static struct entry entry_of(const struct sockaddr_storage *address, uint16_t port)
{
    struct entry entry = {.port = htons(port)};
    if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *const in6 = (const struct sockaddr_in6 *)address;
        memcpy(entry.address, &in6->sin6_addr, 16);
        entry.family = htons(6);
    } else {
        const struct sockaddr_in *const in = (const struct sockaddr_in *)address;
        memcpy(entry.address, &in->sin_addr, 4);
        entry.family = htons(4);
    }
    return entry;
}

static redcoi_door door_of(const struct entry *entry)
{
    redcoi_door door = {.length = sizeof(struct sockaddr_in)};
    if (ntohs(entry->family) == 6) {
        struct sockaddr_in6 *const in6 = (struct sockaddr_in6 *)&door.address;
        in6->sin6_family = AF_INET6;
        in6->sin6_port = entry->port;
        memcpy(&in6->sin6_addr, entry->address, 16);
        door.length = sizeof *in6;
    } else {
        struct sockaddr_in *const in = (struct sockaddr_in *)&door.address;
        in->sin_family = AF_INET;
        in->sin_port = entry->port;
        memcpy(&in->sin_addr, entry->address, 4);
    }
    return door;
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
    struct sockaddr_in in = {.sin_port = 0}; /* copied: the two families keep the port in places of their own */
    struct sockaddr_in6 in6 = {.sin6_port = 0};
    memcpy(&in, address, sizeof in);
    memcpy(&in6, address, sizeof in6);
    return ntohs(address->ss_family == AF_INET6 ? in6.sin6_port : in.sin_port);
}

/* @return the door with another port, 0: any */
static redcoi_door at_port(const redcoi_door *door, uint16_t port)
{
    struct entry entry = entry_of(&door->address, port);
    return door_of(&entry);
}

static bool is_any(const redcoi_door *door)
{
    static const uint8_t zeros[16];
    const struct entry entry = entry_of(&door->address, 0);
    return memcmp(entry.address, zeros, sizeof zeros) == 0;
}

static redco_status look_up(const char *host, const char *port, const char *place, redcoi_door *door_out,
                            redco_error *err)
{
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const int code = getaddrinfo(host, port, &hints, &found);
    if (code != 0) { return redco_fail(err, REDCO_EVALUE, place, "%s", gai_strerror(code)); }
    memset(door_out, 0, sizeof *door_out);
    memcpy(&door_out->address, found->ai_addr, found->ai_addrlen);
    door_out->length = found->ai_addrlen;
    freeaddrinfo(found);
    return REDCO_OK;
}

static redco_status resolve(const char *address, redcoi_door *door_out, redco_error *err)
{
    char host[256];
    const char *const colon = strrchr(address, ':');
    const size_t length = (size_t)(colon - address);
    const bool brackets = length >= 2 && address[0] == '[' && address[length - 1] == ']';
    if (length == 0 || length >= sizeof host) {
        return redco_fail(err, REDCO_EVALUE, address, "the address of rank 0 must be HOST:PORT");
    }
    memcpy(host, address + (brackets ? 1 : 0), length - (brackets ? 2 : 0));
    host[length - (brackets ? 2 : 0)] = '\0';
    return look_up(host, colon + 1, address, door_out, err);
}

/* The address from which this machine reaches a door. Connecting a datagram socket sends nothing. */
static bool near_side(const redcoi_door *door, redcoi_door *near_out)
{
    const int fd = socket(door->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memset(near_out, 0, sizeof *near_out);
    near_out->length = sizeof near_out->address;
    const bool found = fd >= 0 && connect(fd, (const struct sockaddr *)&door->address, door->length) == 0 &&
                       getsockname(fd, (struct sockaddr *)&near_out->address, &near_out->length) == 0;
    const int error = errno;
    if (fd >= 0) { (void)close(fd); }
    errno = error;
    return found;
}

/* Opens this rank's gate. @param own_out  where the others find it */
static redco_status open_gate(redcoi_sockets *world, const redcoi_door *door, const char *on, struct entry *own_out,
                              redco_error *err)
{
    redcoi_door near = *door;
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t bound_size = sizeof bound;
    if (on != NULL) {
        const redco_status st = look_up(on, NULL, "--listen", &near, err);
        if (st != REDCO_OK) { return st; }
    } else if (world->rank != 0 && !near_side(door, &near)) {
        return trouble("an address that reaches rank 0", errno, err);
    }
    near = at_port(&near, 0);
    const int listener = redcoi_socket_listen(&near);
    if (listener < 0 || getsockname(listener, (struct sockaddr *)&bound, &bound_size) != 0) {
        const redco_status st = trouble("listening for the other ranks", errno, err);
        if (listener >= 0) { (void)close(listener); }
        return st;
    }
    *own_out = entry_of(&bound, port_of(&bound));
    if (is_any(&near)) { own_out->family = 0; }
    redcoi_gate_open(&world->gate, listener, redcoi_secret_of(world));
    return REDCO_OK;
}

/* Rank 0's, while the others come. */
struct hall {
    const redcoi_sockets *world;
    redcoi_gate gate;
    redcoi_guest *guests; /* by rank; fd -1: has not come */
    struct entry *entries;
    uint32_t come, told; /* told: of a failure */
    redco_error wrong;   /* the error that ends the run */
};

static bool has_left(int fd)
{
    char byte = 0;
    const ssize_t got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

/* @param entries  NULL: of a failure */
static bool send_welcome(const struct hall *hall, const redcoi_guest *guest, const struct entry *entries,
                         double deadline_s)
{
    const size_t size = sizeof(struct welcome) + (entries != NULL ? hall->world->size * sizeof *entries : 0);
    unsigned char proof[REDCOI_PROOF_BYTES];
    struct welcome *const welcome = calloc(1, size);
    const redcoi_secret secret = redcoi_secret_of(hall->world);
    if (welcome == NULL) {
        errno = ENOMEM;
        return false;
    }
    welcome->status = htonl((uint32_t)hall->wrong.status);
    memcpy(welcome->run, hall->world->run, sizeof welcome->run);
    (void)snprintf(welcome->place, sizeof welcome->place, "%.255s", hall->wrong.place);
    (void)snprintf(welcome->text, sizeof welcome->text, "%.383s", hall->wrong.text);
    if (entries != NULL) { memcpy(welcome + 1, entries, hall->world->size * sizeof *entries); }
    redcoi_prove(&secret, "welcome", &guest->nonces, welcome, size, proof);
    const bool sent = redcoi_socket_write(guest->fd, welcome, size, deadline_s) &&
                      redcoi_socket_write(guest->fd, proof, sizeof proof, deadline_s);
    const int error = errno;
    free(welcome);
    errno = error;
    return sent;
}

static redco_status judge(struct hall *hall, const redcoi_wish *wish)
{
    const redcoi_sockets *const world = hall->world;
    redco_error *const wrong = &hall->wrong;
    if (wish->status != 0) {
        return redco_fail(wrong, wish->status <= REDCO_ESYSTEM ? (redco_status)wish->status : REDCO_ESYSTEM,
                          wish->place, "%s", wish->text);
    }
    if (wish->order != 1) {
        return redco_fail(wrong, REDCO_EVALUE, "world", "the processor of rank %u has another byte order than rank 0's",
                          wish->rank);
    }
    if (wish->size != world->size || wish->rank == 0 || wish->rank >= wish->size) {
        return redco_fail(wrong, REDCO_EVALUE, "world", "rank %u of %u came to a run of %u ranks", wish->rank,
                          wish->size, world->size);
    }
    const int before = hall->guests[wish->rank].fd;
    if (before >= 0 && !has_left(before)) {
        return redco_fail(wrong, REDCO_EVALUE, "world",
                          "rank %u of %u came to a run of %u ranks, one of that number is there already", wish->rank,
                          wish->size, world->size);
    }
    return REDCO_OK;
}

static void take_in(void *context, const redcoi_guest *guest)
{
    struct hall *const hall = context;
    const redcoi_wish *const wish = &guest->wish;
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t peer_size = sizeof peer;
    if (wish->kind != REDCOI_WISH_JOIN || getpeername(guest->fd, (struct sockaddr *)&peer, &peer_size) != 0) {
        (void)close(guest->fd);
        return;
    }
    if (hall->wrong.status != REDCO_OK || judge(hall, wish) != REDCO_OK) {
        (void)send_welcome(hall, guest, NULL, redco_now_s() + linger_s);
        (void)close(guest->fd);
        hall->told++;
        return;
    }
    redcoi_guest *const place = &hall->guests[wish->rank];
    if (place->fd >= 0) {
        (void)close(place->fd);
        hall->come--;
    }
    *place = *guest;
    hall->come++;
    struct entry *const entry = &hall->entries[wish->rank];
    *entry = (struct entry){.family = htons((uint16_t)wish->family), .port = htons((uint16_t)wish->port)};
    memcpy(entry->address, wish->bytes, sizeof entry->address);
    if (wish->family == 0) { *entry = entry_of(&peer, (uint16_t)wish->port); }
}

/* The ranks that have not come, for the message. */
static redco_status missing(struct hall *hall)
{
    const redcoi_sockets *const world = hall->world;
    char others[120] = "";
    uint32_t count = 0, first = 0;
    for (uint32_t rank = world->size; rank-- > 1;) {
        if (hall->guests[rank].fd >= 0) { continue; }
        count++;
        first = rank;
    }
    if (hall->gate.turned_away > 0) {
        (void)snprintf(others, sizeof others, "; %llu callers had another secret (REDCO_SECRET)",
                       (unsigned long long)hall->gate.turned_away);
    }
    return redco_fail(&hall->wrong, REDCO_ESYSTEM, "world",
                      "%u of %u ranks did not come within %g s, rank %u the first of them%s", count, world->size,
                      world->timeout_s, first, others);
}

static void gather(struct hall *hall)
{
    const double deadline_s = redco_now_s() + hall->world->timeout_s;
    while (hall->come + 1 < hall->world->size && hall->wrong.status == REDCO_OK) {
        const int turn = redcoi_gate_turn(&hall->gate, NULL, deadline_s, take_in, hall);
        if (turn == 0 && hall->wrong.status == REDCO_OK) { (void)missing(hall); }
        if (turn < 0) { (void)trouble("waiting for the other ranks", errno, &hall->wrong); }
    }
}

static void tell_all(struct hall *hall, const struct entry *entries)
{
    const double deadline_s = redco_now_s() + (entries != NULL ? hall->world->timeout_s : linger_s);
    for (uint32_t rank = 1; rank < hall->world->size; rank++) {
        if (hall->guests[rank].fd < 0) { continue; }
        if (!send_welcome(hall, &hall->guests[rank], entries, deadline_s) && entries != NULL) {
            const char *const reason = redcoi_socket_reason(errno);
            (void)redco_fail(&hall->wrong, REDCO_ESYSTEM, "world", "rank %u %s", rank, reason);
            return;
        }
        hall->told++;
    }
}

/* All others learn why there is no run, also those that come a moment later. */
static void turn_down(struct hall *hall)
{
    const double deadline_s = redco_now_s() + linger_s;
    tell_all(hall, NULL);
    while (hall->told + 1 < hall->world->size && redcoi_gate_turn(&hall->gate, NULL, deadline_s, take_in, hall) > 0) {}
}

static redco_status lead(redcoi_sockets *world, const redcoi_door *door, const redco_world_options *options,
                         struct entry *entries, redco_error *err)
{
    const char *const on = options->listen;
    struct hall *const hall = calloc(1, sizeof *hall);
    redcoi_door at = *door;
    redco_status st = REDCO_OK;
    if (hall == NULL) { return redco_fail(err, REDCO_ENOMEM, "world", "out of memory"); }
    hall->world = world;
    hall->entries = entries;
    hall->gate.listener = -1;
    hall->guests = malloc(world->size * sizeof *hall->guests);
    if (hall->guests == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "world", "out of memory");
        goto out;
    }
    for (uint32_t rank = 0; rank < world->size; rank++) { hall->guests[rank].fd = -1; }
    if (on != NULL) {
        if ((st = look_up(on, NULL, "--listen", &at, err)) != REDCO_OK) { goto out; }
        at = at_port(&at, port_of(&door->address));
    }
    const int listener = redcoi_socket_listen(&at);
    if (listener < 0) {
        st = trouble("listening for the other ranks", errno, err);
        goto out;
    }
    redcoi_gate_open(&hall->gate, listener, redcoi_secret_of(world));
    if (options->failure != NULL) {
        char place[sizeof hall->wrong.place];
        redco_rank_place(0, options->failure->place, place, sizeof place);
        (void)redco_fail(&hall->wrong, options->failure->status, place, "%s", options->failure->text);
    }
    gather(hall);
    if (hall->wrong.status == REDCO_OK) { tell_all(hall, entries); }
    if (hall->wrong.status != REDCO_OK) {
        turn_down(hall);
        st = redco_fail(err, hall->wrong.status, hall->wrong.place, "%s", hall->wrong.text);
    }
out:
    redcoi_gate_close(&hall->gate);
    for (uint32_t rank = 0; rank < world->size && hall->guests != NULL; rank++) {
        if (hall->guests[rank].fd >= 0) { (void)close(hall->guests[rank].fd); }
    }
    free(hall->guests);
    free(hall);
    return st;
}

/* Rank 0's message once all have come. */
static redco_status read_welcome(redcoi_sockets *world, const redcoi_caller *caller, struct entry *entries,
                                 double deadline_s, redco_error *err)
{
    const redcoi_secret secret = redcoi_secret_of(world);
    const size_t entries_size = world->size * sizeof *entries;
    unsigned char proof[REDCOI_PROOF_BYTES], said[REDCOI_PROOF_BYTES];
    struct welcome *const welcome = calloc(1, sizeof *welcome + entries_size);
    if (welcome == NULL) { return redco_fail(err, REDCO_ENOMEM, "world", "out of memory"); }
    bool heard = redcoi_socket_read(caller->fd, welcome, sizeof *welcome, deadline_s);
    const bool good = heard && welcome->status == 0;
    if (good) { heard = redcoi_socket_read(caller->fd, welcome + 1, entries_size, deadline_s); }
    heard = heard && redcoi_socket_read(caller->fd, said, sizeof said, deadline_s);
    const int error = errno;
    redco_status st = REDCO_OK;
    if (heard) {
        redcoi_prove(&secret, "welcome", &caller->nonces, welcome, sizeof *welcome + (good ? entries_size : 0), proof);
    }
    if (!heard) {
        st = redco_fail(err, REDCO_ESYSTEM, "world", "rank 0 %s", redcoi_socket_reason(error));
    } else if (memeql_sec(proof, said, sizeof proof) != 1) {
        st = redco_fail(err, REDCO_ESYSTEM, "world", "what rank 0 said was changed on its way");
    } else if (!good) {
        welcome->place[sizeof welcome->place - 1] = welcome->text[sizeof welcome->text - 1] = '\0';
        st = redco_fail(err, (redco_status)ntohl(welcome->status), welcome->place, "%s", welcome->text);
    } else {
        memcpy(world->run, welcome->run, sizeof world->run);
        memcpy(entries, welcome + 1, entries_size);
    }
    free(welcome);
    return st;
}

static redco_status follow(redcoi_sockets *world, const redcoi_door *door, const struct entry *own,
                           const redco_error *failure, struct entry *entries, redco_error *err)
{
    const double deadline_s = redco_now_s() + (failure == NULL ? world->timeout_s : linger_s);
    redcoi_wish wish = {.kind = REDCOI_WISH_JOIN,
                        .rank = world->rank,
                        .size = world->size,
                        .port = ntohs(own->port),
                        .family = ntohs(own->family),
                        .order = 1};
    redcoi_caller caller;
    redco_status st = REDCO_OK;
    int turn = 1;
    memcpy(wish.bytes, own->address, sizeof wish.bytes);
    if (failure != NULL) {
        redco_error named = {.status = REDCO_OK};
        redco_rank_place(world->rank, failure->place, named.place, sizeof named.place);
        wish.status = (uint32_t)failure->status;
        (void)snprintf(wish.place, sizeof wish.place, "%.123s", named.place);
        (void)snprintf(wish.text, sizeof wish.text, "%.255s", failure->text);
    }
    redcoi_caller_open(&caller, door, redcoi_secret_of(world), &wish, true); /* rank 0 may start later */
    while (!redcoi_caller_done(&caller) && turn > 0) { turn = redcoi_gate_turn(NULL, &caller, deadline_s, NULL, NULL); }
    if (redcoi_caller_done(&caller)) {
        st = read_welcome(world, &caller, entries, deadline_s, err);
    } else if (caller.other_secret) {
        st = redco_fail(err, REDCO_EVALUE, "REDCO_SECRET",
                        "who listens at rank 0's address has another secret; all ranks need the same");
    } else {
        st = trouble("looking for rank 0", turn < 0 ? errno : caller.error != 0 ? caller.error : ETIMEDOUT, err);
    }
    redcoi_caller_close(&caller);
    return st;
}

redco_status redcoi_rendezvous(redcoi_sockets *world, const redco_world_options *options, redco_error *err)
{
    redcoi_door door = {.length = 0};
    struct entry own = {.family = 0};
    redco_status st = resolve(options->address, &door, err);
    if (st != REDCO_OK || (st = open_gate(world, &door, options->listen, &own, err)) != REDCO_OK) { return st; }
    struct entry *const entries = calloc(world->size, sizeof *entries);
    if (entries == NULL) { return redco_fail(err, REDCO_ENOMEM, "world", "out of memory"); }
    if (world->rank == 0) {
        entries[0] = own;
        st = getrandom(world->run, sizeof world->run, 0) == (ssize_t)sizeof world->run
                 ? lead(world, &door, options, entries, err)
                 : trouble("a random number", errno, err);
    } else {
        st = follow(world, &door, &own, options->failure, entries, err);
    }
    if (st == REDCO_OK && entries[0].family == 0) {
        const uint16_t port = ntohs(entries[0].port);
        entries[0] = entry_of(&door.address, port);
    }
    for (uint32_t rank = 0; rank < world->size && st == REDCO_OK; rank++) {
        world->doors[rank] = door_of(&entries[rank]);
    }
    free(entries);
    return st;
}

/* Small messages come sooner than a sleeper wakes up, and ranks that compute alike meet within that time. Where ranks
 * are more than processors, one that looks keeps the others from sending. */
static double look_s(uint32_t ranks)
{
    return (long)ranks <= sysconf(_SC_NPROCESSORS_ONLN) ? 50e-6 : 0.0;
}

redco_status redcoi_socket_open(const redco_world_options *options, double timeout_s, redcoi_transport *transport_out,
                                redco_error *err)
{
    redcoi_sockets *const world = calloc(1, sizeof *world);
    redco_status st = REDCO_OK;
    if (world == NULL) { return redco_fail(err, REDCO_ENOMEM, "world", "out of memory"); }
    *world = (redcoi_sockets){.rank = options->rank, .size = options->size, .timeout_s = timeout_s, .aborted = -1};
    world->look_s = look_s(world->size);
    world->gate.listener = -1;
    *transport_out = (redcoi_transport){&redcoi_socket_calls, world, options->rank, options->size};
    world->doors = calloc(world->size, sizeof *world->doors);
    if (world->doors == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "world", "out of memory");
        goto out;
    }
    world->aborted = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (world->aborted < 0) {
        st = trouble("an event", errno, err);
        goto out;
    }
    if (options->local != NULL) {
        st = redcoi_local_take(options->local, world, err);
        goto out;
    }
    world->secret = malloc(options->secret_bytes);
    if (world->secret == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "world", "out of memory");
        goto out;
    }
    memcpy(world->secret, options->secret, options->secret_bytes);
    world->secret_bytes = options->secret_bytes;
    if (world->size > 1) { st = redcoi_rendezvous(world, options, err); }
    if (options->failure != NULL && st == REDCO_OK) { /* nobody else */
        st = redco_fail(err, options->failure->status, options->failure->place, "%s", options->failure->text);
    }
out:
    if (st != REDCO_OK) { redcoi_socket_calls.close(world); }
    return st;
}
