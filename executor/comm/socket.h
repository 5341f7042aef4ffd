/** @file socket.h  TCP connections between ranks. Internal to executor/comm. */
#ifndef REDCO_COMM_SOCKET_H
#define REDCO_COMM_SOCKET_H

#include "executor/comm/transport.h"

#include <netinet/in.h>
#include <sys/socket.h>

/** A rank's door: where the others connect to. */
typedef struct redcoi_door {
    struct sockaddr_storage address;
    socklen_t length;
} redcoi_door;

/** A connection that came before this rank asked for it. */
typedef struct redcoi_visitor {
    int fd;
    uint32_t sequence, from;
} redcoi_visitor;

typedef struct redcoi_sockets {
    uint32_t rank, size;
    double timeout_s;
    uint64_t token; /**< of this run: strangers do not know it */
    int listener;
    int aborted;        /**< an event: readable once the rank has given up */
    redcoi_door *doors; /**< by rank */
    redcoi_visitor *visitors;
    size_t visitors_count, visitors_capacity;
} redcoi_sockets;

/** Seconds of a clock that only goes forward. */
double redcoi_clock_s(void);

/** The same or sooner: who connects and says nothing may not hold up those who have something to say. */
double redcoi_greeting_deadline_s(double deadline_s);

/** Waits until @p fd can be read (written) or the time is over. @return 1 ready, 0 time over, -1 failed (errno) */
int redcoi_socket_wait(int fd, short events, double deadline_s);
/** Whole messages over a non-blocking socket. @return false on failure: errno, 0 when the peer closed */
bool redcoi_socket_write(int fd, const void *data, size_t size, double deadline_s);
bool redcoi_socket_read(int fd, void *data, size_t size, double deadline_s);
/** "time-out", "closed the connection" or the system's text, for errno as left by the two above. */
const char *redcoi_socket_reason(int error);

/** Non-blocking, without delay. @return -1 and errno on failure */
int redcoi_socket_connect(const redcoi_door *door, double deadline_s);
bool redcoi_socket_prepare(int fd);

extern const redcoi_transport_calls redcoi_socket_calls; /**< socket_link.c; a transport's state is a redcoi_sockets */

#endif
