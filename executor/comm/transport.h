/** @file transport.h  The calls of a network that the rings of ring.c need: a link to the next and from the previous
 * member of a group. Internal to executor/comm. */
#ifndef REDCO_TRANSPORT_H
#define REDCO_TRANSPORT_H

#include "executor/comm/communicator.h"

#include <stdatomic.h>

/** The members of a group as world ranks, in order; own is the position of this rank. */
typedef struct redcoi_members {
    const uint32_t *ranks;
    uint32_t size, own;
} redcoi_members;

/** An exchange, and the ranks that errors name. */
typedef struct redcoi_exchange {
    const void *send;
    size_t send_bytes;
    void *receive;
    size_t receive_bytes;
    const char *what;
} redcoi_exchange;

typedef struct redcoi_transport_calls {
    /** Collective over the world: makes this rank's ring. @param sequence  how many splits came before */
    redco_status (*link)(void *transport, const redcoi_members *members, uint32_t sequence, void **link_out,
                         redco_error *err);
    /** Sends to the next while receiving from the previous member; returns when both are done. */
    redco_status (*exchange)(void *link, const redcoi_exchange *exchange, redco_error *err);
    /** All exchanges of this rank fail from now on, those under way too. */
    void (*abort)(void *transport);
    void (*unlink)(void *link);
    /** See communicator.h; NULL where each rank speaks for itself. @param farewell  broken is given */
    void (*part)(void *transport, redco_farewell *farewell);
    void (*give_up)(void *transport, int code); /**< NULL: closing is enough */
    void (*close)(void *transport);
} redcoi_transport_calls;

/** An opened transport. */
typedef struct redcoi_transport {
    const redcoi_transport_calls *calls;
    void *state; /**< owned; freed by calls->close */
    uint32_t rank, size;
} redcoi_transport;

redco_status redcoi_socket_open(const redco_world_options *options, double timeout_s, redcoi_transport *transport_out,
                                redco_error *err);
redco_status redcoi_mpi_open(double timeout_s, redcoi_transport *transport_out, redco_error *err);
/** A world on a transport of one's own, which it takes over, also on failure. */
redco_status redcoi_world_open_on(const redcoi_transport *transport, redco_world **world_out, redco_error *err);

struct redco_world {
    redcoi_transport transport;
    uint32_t splits; /* so far */
    void (*watch)(void *context, const char *what);
    void *watch_context;
    atomic_bool broken;  /* an operation failed that this rank had not given up */
    atomic_bool aborted; /* it has */
};

/** A group of a world. */
struct redco_communicator {
    redco_world *world;
    const redcoi_transport_calls *calls;
    void *link; /* NULL in a group of one */
    uint32_t rank, size;
    unsigned char *scratch[2];
    bool hushed; /* its operations are not told to the world's watch */
    char name[64];
};

/** For what is no step of the program. */
void redcoi_communicator_hush(redco_communicator *communicator);

/** target = target (reduction) other, element by element. @return false on a type that has no sum here */
bool redcoi_reduce(redco_dtype dtype, redco_reduction reduction, void *target, const void *other, uint64_t count);
/** @return whether it does */
bool redcoi_has_sum(redco_dtype dtype);
/** The error for one that does not. */
redco_status redcoi_no_sum(redco_dtype dtype, const char *what, redco_error *err);

#endif
