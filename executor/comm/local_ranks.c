/* Ranks of one machine: the process that starts them makes the socket that each listens on, on the loopback device, and
 * a secret. So they know one another when they start, and nobody can take a rank's place. */
#include "executor/comm/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { SECRET_BYTES = 32 };

struct redco_local_ranks {
    uint32_t size;
    int *listeners;
    redcoi_door *doors;
    unsigned char secret[SECRET_BYTES], run[REDCOI_RUN_BYTES];
};

static bool make_door(redcoi_door *door, int *listener)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    door->length = sizeof in;
    memcpy(&door->address, &in, sizeof in);
    *listener = redcoi_socket_listen(door);
    return *listener >= 0 && getsockname(*listener, (struct sockaddr *)&door->address, &door->length) == 0;
}

redco_status redco_local_ranks_make(uint32_t size, redco_local_ranks **local_out, redco_error *err)
{
    redco_local_ranks *const local = calloc(1, sizeof *local);
    if (local == NULL) { return redco_fail(err, REDCO_ENOMEM, "ranks", "out of memory"); }
    local->listeners = malloc((size + (size_t)1) * sizeof *local->listeners);
    local->doors = calloc(size + (size_t)1, sizeof *local->doors);
    if (local->listeners == NULL || local->doors == NULL) {
        redco_local_ranks_free(local);
        return redco_fail(err, REDCO_ENOMEM, "ranks", "out of memory");
    }
    bool made = getrandom(local->secret, sizeof local->secret, 0) == (ssize_t)sizeof local->secret &&
                getrandom(local->run, sizeof local->run, 0) == (ssize_t)sizeof local->run;
    while (made && local->size < size) {
        made = make_door(&local->doors[local->size], &local->listeners[local->size]);
        local->size++; /* a socket that has no address is closed, too */
    }
    if (!made) {
        const int why = errno;
        redco_local_ranks_free(local);
        return redco_fail(err, REDCO_ESYSTEM, "127.0.0.1", "no sockets for %u ranks: %s", size, strerror(why));
    }
    *local_out = local;
    return REDCO_OK;
}

void redco_local_ranks_free(redco_local_ranks *local)
{
    if (local == NULL) { return; }
    for (uint32_t rank = 0; rank < local->size; rank++) {
        if (local->listeners[rank] >= 0) { (void)close(local->listeners[rank]); }
    }
    free(local->listeners);
    free(local->doors);
    free(local);
}

redco_status redcoi_local_take(redco_local_ranks *local, redcoi_sockets *world, redco_error *err)
{
    world->secret = malloc(sizeof local->secret);
    if (world->secret == NULL) { return redco_fail(err, REDCO_ENOMEM, "world", "out of memory"); }
    memcpy(world->secret, local->secret, sizeof local->secret);
    world->secret_bytes = sizeof local->secret;
    memcpy(world->run, local->run, sizeof world->run);
    memcpy(world->doors, local->doors, world->size * sizeof *world->doors);
    for (uint32_t rank = 0; rank < local->size; rank++) {
        if (rank != world->rank) { (void)close(local->listeners[rank]); }
        if (rank == world->rank) { redcoi_gate_open(&world->gate, local->listeners[rank], redcoi_secret_of(world)); }
        local->listeners[rank] = -1;
    }
    return REDCO_OK;
}
