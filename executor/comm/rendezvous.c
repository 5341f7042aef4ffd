#include "executor/comm/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

/* How ranks find one another: all but rank 0 connect to its address and say who they are and which port they listen on;
 * when all have come, rank 0 tells everyone the doors of all. */

static const uint32_t magic = 0x52644331; /* "RdC1" */

struct hello {
    uint32_t magic, rank, size, port;
};

/* A door on the wire. */
struct entry {
    uint8_t address[16]; /* IPv4: the first four */
    uint16_t family;     /* 4 or 6 */
    uint16_t port;
};

struct welcome {
    uint32_t magic;
    uint32_t padding; /* 0 */
    uint64_t token;
};

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

/* Listens on any port of all addresses, or on the address given. @return the socket, -1 on failure */
static int listen_on(const redcoi_door *door)
{
    const int on = 1;
    const int fd = socket(door->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) { return -1; }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)&door->address, door->length) == 0 && listen(fd, 4096) == 0) {
        return fd;
    }
    const int error = errno;
    (void)close(fd);
    errno = error;
    return -1;
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
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const int code = getaddrinfo(host, colon + 1, &hints, &found);
    if (code != 0) { return redco_fail(err, REDCO_EVALUE, address, "%s", gai_strerror(code)); }
    memset(door_out, 0, sizeof *door_out);
    memcpy(&door_out->address, found->ai_addr, found->ai_addrlen);
    door_out->length = found->ai_addrlen;
    freeaddrinfo(found);
    return REDCO_OK;
}

/* Rank 0: one of the others introduces itself. */
static redco_status greet(redcoi_sockets *world, int fd, int *fds, struct entry *entries, double deadline_s,
                          redco_error *err)
{
    struct hello hello;
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC}, own = {.ss_family = AF_UNSPEC};
    socklen_t peer_size = sizeof peer, own_size = sizeof own;
    if (!redcoi_socket_prepare(fd) ||
        !redcoi_socket_read(fd, &hello, sizeof hello, redcoi_greeting_deadline_s(deadline_s)) ||
        ntohl(hello.magic) != magic || getpeername(fd, (struct sockaddr *)&peer, &peer_size) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &own_size) != 0) {
        (void)close(fd); /* a stranger */
        return REDCO_OK;
    }
    const uint32_t rank = ntohl(hello.rank), size = ntohl(hello.size);
    if (size != world->size || rank == 0 || rank >= size || fds[rank] >= 0) {
        (void)close(fd);
        return redco_fail(err, REDCO_EVALUE, "world", "rank %u of %u came to a run of %u ranks%s", rank, size,
                          world->size, size == world->size ? ", one of that number is there already" : "");
    }
    fds[rank] = fd;
    entries[rank] = entry_of(&peer, (uint16_t)ntohl(hello.port));
    entries[0] = entry_of(&own, 0);
    return REDCO_OK;
}

/* The ranks that have not come, for the message. */
static redco_status missing(const redcoi_sockets *world, const int *fds, redco_error *err)
{
    uint32_t count = 0, first = 0;
    for (uint32_t rank = world->size; rank-- > 1;) {
        if (fds[rank] >= 0) { continue; }
        count++;
        first = rank;
    }
    return redco_fail(err, REDCO_ESYSTEM, "world", "%u of %u ranks did not come within %g s, rank %u the first of them",
                      count, world->size, world->timeout_s, first);
}

static redco_status gather_doors(redcoi_sockets *world, const redcoi_door *door, int *fds, struct entry *entries,
                                 redco_error *err)
{
    const double deadline_s = redcoi_clock_s() + world->timeout_s;
    redco_status st = REDCO_OK;
    uint32_t come = 1;
    const int listener = listen_on(door);
    if (listener < 0) { return trouble("listening for the other ranks", errno, err); }
    while (come < world->size && st == REDCO_OK) {
        const int ready = redcoi_socket_wait(listener, POLLIN, deadline_s);
        if (ready <= 0) {
            st = ready == 0 ? missing(world, fds, err) : trouble("waiting for the other ranks", errno, err);
            break;
        }
        const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) { continue; }
        st = greet(world, fd, fds, entries, deadline_s, err);
        come = 1;
        for (uint32_t rank = 1; rank < world->size; rank++) { come += fds[rank] >= 0 ? 1 : 0; }
    }
    (void)close(listener);
    return st;
}

static redco_status lead(redcoi_sockets *world, const redcoi_door *door, uint16_t port, struct entry *entries,
                         redco_error *err)
{
    const struct welcome welcome = {htonl(magic), 0, world->token};
    int *const fds = malloc(world->size * sizeof *fds);
    if (fds == NULL) { return redco_fail(err, REDCO_ENOMEM, "world", "out of memory"); }
    for (uint32_t rank = 0; rank < world->size; rank++) { fds[rank] = -1; }
    redco_status st = gather_doors(world, door, fds, entries, err);
    entries[0].port = htons(port);
    const double deadline_s = redcoi_clock_s() + world->timeout_s;
    for (uint32_t rank = 1; rank < world->size; rank++) {
        if (st == REDCO_OK && (!redcoi_socket_write(fds[rank], &welcome, sizeof welcome, deadline_s) ||
                               !redcoi_socket_write(fds[rank], entries, world->size * sizeof *entries, deadline_s))) {
            st = redco_fail(err, REDCO_ESYSTEM, "world", "rank %u %s", rank, redcoi_socket_reason(errno));
        }
        if (fds[rank] >= 0) { (void)close(fds[rank]); }
    }
    free(fds);
    return st;
}

static redco_status follow(redcoi_sockets *world, const redcoi_door *door, uint16_t port, struct entry *entries,
                           redco_error *err)
{
    const double deadline_s = redcoi_clock_s() + world->timeout_s;
    const struct timespec nap = {.tv_nsec = 50 * 1000 * 1000};
    const struct hello hello = {htonl(magic), htonl(world->rank), htonl(world->size), htonl(port)};
    struct welcome welcome;
    int fd = redcoi_socket_connect(door, deadline_s);
    while (fd < 0 && redcoi_clock_s() < deadline_s) { /* rank 0 may start later */
        (void)nanosleep(&nap, NULL);
        fd = redcoi_socket_connect(door, deadline_s);
    }
    if (fd < 0) { return trouble("looking for rank 0", errno, err); }
    const bool ok = redcoi_socket_write(fd, &hello, sizeof hello, deadline_s) &&
                    redcoi_socket_read(fd, &welcome, sizeof welcome, deadline_s) && ntohl(welcome.magic) == magic &&
                    redcoi_socket_read(fd, entries, world->size * sizeof *entries, deadline_s);
    const int error = errno;
    (void)close(fd);
    if (!ok) { return redco_fail(err, REDCO_ESYSTEM, "world", "rank 0 %s", redcoi_socket_reason(error)); }
    world->token = welcome.token;
    return REDCO_OK;
}

redco_status redcoi_socket_open(const redco_world_options *options, double timeout_s, redcoi_transport *transport_out,
                                redco_error *err)
{
    redcoi_door door = {.length = 0}, any = {.length = 0};
    struct entry *entries = NULL;
    redcoi_sockets *const world = calloc(1, sizeof *world);
    redco_status st = REDCO_OK;
    if (world == NULL) { return redco_fail(err, REDCO_ENOMEM, "world", "out of memory"); }
    *world = (redcoi_sockets){
        .rank = options->rank, .size = options->size, .timeout_s = timeout_s, .listener = -1, .aborted = -1};
    *transport_out = (redcoi_transport){&redcoi_socket_calls, world, options->rank, options->size};
    entries = calloc(world->size, sizeof *entries);
    world->doors = calloc(world->size, sizeof *world->doors);
    if (entries == NULL || world->doors == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "world", "out of memory");
        goto out;
    }
    world->aborted = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (world->aborted < 0) {
        st = trouble("an event", errno, err);
        goto out;
    }
    if ((st = resolve(options->address, &door, err)) != REDCO_OK) { goto out; }
    any.address.ss_family = door.address.ss_family; /* all zeros: any address, any port */
    any.length = door.length;
    world->listener = listen_on(&any);
    struct sockaddr_storage bound = {.ss_family = AF_UNSPEC};
    socklen_t bound_size = sizeof bound;
    if (world->listener < 0 || getsockname(world->listener, (struct sockaddr *)&bound, &bound_size) != 0 ||
        getrandom(&world->token, sizeof world->token, 0) != (ssize_t)sizeof world->token) {
        st = trouble("listening for the other ranks", errno, err);
        goto out;
    }
    if (world->size > 1) {
        st = world->rank == 0 ? lead(world, &door, port_of(&bound), entries, err)
                              : follow(world, &door, port_of(&bound), entries, err);
    }
    for (uint32_t rank = 0; rank < world->size; rank++) { world->doors[rank] = door_of(&entries[rank]); }
out:
    free(entries);
    if (st != REDCO_OK) { redcoi_socket_calls.close(world); }
    return st;
}
