/** @file gate.h  Connections of ranks are proved: both sides show that they know the run's secret, by HMAC-SHA256 of
 *  numbers that the other side has just drawn, so that nothing that was overheard can be used again. Internal to
 *  executor/comm.
 *
 *      caller   redcoi magic, its number
 *      gate     redcoi magic, its number, HMAC("gate", both numbers)
 *      caller   what it wants (redcoi_wish), HMAC("call", both numbers, the wish)
 *      gate     one byte: let in
 *
 *  Who has not proved itself is a stranger. A gate has so many of them at once, none for long, reads no byte more of
 *  one than these messages have, and never waits for one: ranks are let in beside them. A rank that is shown out in a
 *  crowd knocks again. */
#ifndef REDCO_COMM_GATE_H
#define REDCO_COMM_GATE_H

#include "executor/comm/transport.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

enum { REDCOI_NONCE_BYTES = 16, REDCOI_PROOF_BYTES = 32, REDCOI_RUN_BYTES = 16, REDCOI_STRANGERS_MAX = 256 };

/** Where a rank listens. */
typedef struct redcoi_door {
    struct sockaddr_storage address;
    socklen_t length;
} redcoi_door;

typedef struct redcoi_secret {
    const unsigned char *bytes;
    size_t size;
} redcoi_secret;

/** The two numbers of a connection. */
typedef struct redcoi_nonces {
    unsigned char caller[REDCOI_NONCE_BYTES], gate[REDCOI_NONCE_BYTES];
} redcoi_nonces;

enum { REDCOI_WISH_JOIN = 1, REDCOI_WISH_LINK = 2 };

/** A caller's request; numbers in network byte order on the wire, but for order. */
typedef struct redcoi_wish {
    uint32_t kind, rank;
    uint32_t size, port;                   /**< JOIN: ranks of the run; where it listens */
    uint32_t family;                       /**< JOIN: 4 or 6, or 0: on the address that it calls from */
    uint32_t order;                        /**< JOIN: 1, as the caller's processor has it */
    uint32_t sequence, to;                 /**< LINK */
    unsigned char bytes[REDCOI_RUN_BYTES]; /**< JOIN: its address; LINK: the run */
    uint32_t status;                       /**< JOIN: a redco_status: why it cannot start */
    char place[124], text[256];            /**< place and text of the error */
} redcoi_wish;

/** HMAC-SHA256 of a word, the nonces and some bytes. */
void redcoi_prove(const redcoi_secret *secret, const char *word, const redcoi_nonces *nonces, const void *bytes,
                  size_t size, unsigned char proof_out[REDCOI_PROOF_BYTES]);

typedef struct redcoi_stranger {
    int fd;
    bool challenged;
    double since_s;
    size_t got;
    unsigned char buffer[480];
    redcoi_nonces nonces;
} redcoi_stranger;

/** A rank that was let in. */
typedef struct redcoi_guest {
    int fd; /**< owned by who is told */
    redcoi_nonces nonces;
    redcoi_wish wish;
} redcoi_guest;

typedef struct redcoi_gate {
    int listener; /**< owned; -1: nobody is let in */
    redcoi_secret secret;
    redcoi_stranger strangers[REDCOI_STRANGERS_MAX]; /**< oldest first */
    uint32_t count;
    uint64_t turned_away; /**< that spoke as ranks do, with another secret */
} redcoi_gate;

/** A call of this rank at another's gate. */
typedef struct redcoi_caller {
    redcoi_door door;
    redcoi_secret secret;
    redcoi_wish wish; /**< in host order */
    bool patient;     /**< nobody may listen there yet */
    int stage, fd;
    double again_s; /**< when it calls again */
    size_t got;
    unsigned char buffer[64];
    redcoi_nonces nonces;
    bool other_secret; /**< the listener there has another secret */
    int error;         /**< errno of the last failure */
} redcoi_caller;

void redcoi_gate_open(redcoi_gate *gate, int listener, redcoi_secret secret);
void redcoi_gate_close(redcoi_gate *gate);

void redcoi_caller_open(redcoi_caller *caller, const redcoi_door *door, redcoi_secret secret, const redcoi_wish *wish,
                        bool patient);
bool redcoi_caller_done(const redcoi_caller *caller);   /**< let in: its fd is the connection */
bool redcoi_caller_failed(const redcoi_caller *caller); /**< nobody listens there, and it is not patient */
/** Closes what was not handed over. */
void redcoi_caller_close(redcoi_caller *caller);

/** Waits until something happens, or the time is over, and deals with it.
 *  @param gate       NULL: none
 *  @param caller     NULL: none
 *  @param let_in     called for each that is; it takes the connection
 *  @return 1, 0: the time is over, -1: failed (errno) */
int redcoi_gate_turn(redcoi_gate *gate, redcoi_caller *caller, double deadline_s,
                     void (*let_in)(void *context, const redcoi_guest *guest), void *context);

#endif
