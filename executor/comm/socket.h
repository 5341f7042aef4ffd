/** @file socket.h  TCP connections between ranks. Internal to executor/comm. */
#ifndef REDCO_COMM_SOCKET_H
#define REDCO_COMM_SOCKET_H

#include "executor/comm/gate.h"

/** A connection that came before this rank asked for it. */
typedef struct redcoi_visitor {
    int fd;
    uint32_t sequence, from;
} redcoi_visitor;

typedef struct redcoi_sockets {
    uint32_t rank, size;
    double timeout_s;
    double look_s;         /**< for so long it looks again and again before it sleeps */
    unsigned char *secret; /**< owned */
    size_t secret_bytes;
    unsigned char run[REDCOI_RUN_BYTES]; /**< identifies this run: ranks of another one may have the same secret */
    redcoi_gate gate;
    int aborted;        /**< an event: readable once the rank has given up */
    redcoi_door *doors; /**< by rank */
    redcoi_visitor *visitors;
    size_t visitors_count, visitors_capacity;
} redcoi_sockets;

/** Waits until @p fd can be read (written) or the time is over. @return 1 ready, 0 time over, -1 failed (errno) */
int redcoi_socket_wait(int fd, short events, double deadline_s);
/** Whole messages over a non-blocking socket. @return false on failure: errno, 0 when the peer closed */
bool redcoi_socket_write(int fd, const void *data, size_t size, double deadline_s);
bool redcoi_socket_read(int fd, void *data, size_t size, double deadline_s);
/** "time-out", "closed the connection" or the system's text, for errno as left by the two above. */
const char *redcoi_socket_reason(int error);

/** Non-blocking, without delay. */
bool redcoi_socket_prepare(int fd);
/** Listens on an address. @return the socket, non-blocking, or -1 (errno) */
int redcoi_socket_listen(const redcoi_door *door);

redcoi_secret redcoi_secret_of(const redcoi_sockets *world);

/** The sockets that the parent of all ranks made, for this one; those of the others are closed. */
redco_status redcoi_local_take(redco_local_ranks *local, redcoi_sockets *world, redco_error *err);
/** Ranks that were started one by one find one another. @param world  all but the gate's listener, doors and run */
redco_status redcoi_rendezvous(redcoi_sockets *world, const redco_world_options *options, redco_error *err);

extern const redcoi_transport_calls redcoi_socket_calls; /**< socket_link.c; a transport's state is a redcoi_sockets */

#endif
