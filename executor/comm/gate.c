#include "executor/comm/gate.h"

#include "executor/comm/socket.h"
#include "topology/base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static const char magic[8] = {'r', 'e', 'd', 'c', 'o', '-', 'c', '2'};

enum { MAGIC = sizeof magic, HELLO = MAGIC + REDCOI_NONCE_BYTES, CHALLENGE = HELLO + REDCOI_PROOF_BYTES };
enum { WISH = sizeof(redcoi_wish), ANSWER = WISH + REDCOI_PROOF_BYTES };
_Static_assert(WISH == 9 * 4 + REDCOI_RUN_BYTES + 124 + 256, "a wish has no padding");
_Static_assert(ANSWER <= sizeof((redcoi_stranger *)0)->buffer, "a stranger's message has room");
_Static_assert(CHALLENGE <= sizeof((redcoi_caller *)0)->buffer, "a gate's message has room");

/* The time that a stranger may take, and the time that it has for itself in a crowd: longer than a rank takes to
 * answer. */
static const double stranger_s = 10.0, crowded_s = 0.1;
/* Between two calls of a rank that was not let in. */
static const double again_s = 0.02;
/* Let in at once, so that those who are there already are heard, too. */
enum { AT_ONCE = 32 };

enum stage { WAITING, CONNECTING, CALLED, ANSWERED, DONE, FAILED };

void redcoi_prove(const redcoi_secret *secret, const char *word, const redcoi_nonces *nonces, const void *bytes,
                  size_t size, unsigned char proof_out[REDCOI_PROOF_BYTES])
{
    struct hmac_sha256_ctx hmac;
    hmac_sha256_set_key(&hmac, secret->size, secret->bytes);
    hmac_sha256_update(&hmac, strlen(word) + 1, (const uint8_t *)word);
    hmac_sha256_update(&hmac, sizeof *nonces, (const uint8_t *)nonces);
    if (size > 0) { hmac_sha256_update(&hmac, size, bytes); }
    hmac_sha256_digest(&hmac, REDCOI_PROOF_BYTES, proof_out);
}

/* The same both ways. */
static redcoi_wish turned(const redcoi_wish *w)
{
    redcoi_wish wire = *w;
    wire.kind = htonl(w->kind);
    wire.rank = htonl(w->rank);
    wire.size = htonl(w->size);
    wire.port = htonl(w->port);
    wire.family = htonl(w->family);
    wire.sequence = htonl(w->sequence);
    wire.to = htonl(w->to);
    wire.status = htonl(w->status);
    wire.place[sizeof wire.place - 1] = wire.text[sizeof wire.text - 1] = '\0';
    return wire;
}

static bool draw(unsigned char nonce[REDCOI_NONCE_BYTES])
{
    return getrandom(nonce, REDCOI_NONCE_BYTES, 0) == REDCOI_NONCE_BYTES;
}

/* These messages fit into any socket's buffer. */
static bool send_now(int fd, const void *data, size_t size)
{
    return send(fd, data, size, MSG_NOSIGNAL) == (ssize_t)size;
}

/* @return 1: all of it is there, 0: not yet, -1: the connection is gone (errno; 0: closed) */
static int take(int fd, unsigned char *buffer, size_t *got, size_t size)
{
    const ssize_t came = recv(fd, buffer + *got, size - *got, 0);
    if (came > 0) { *got += (size_t)came; }
    if (came == 0) { errno = 0; }
    if (came == 0 || (came < 0 && errno != EAGAIN && errno != EINTR)) { return -1; }
    return *got == size ? 1 : 0;
}

/* The gate */

void redcoi_gate_open(redcoi_gate *gate, int listener, redcoi_secret secret)
{
    gate->listener = listener;
    gate->secret = secret;
    gate->count = 0;
    gate->turned_away = 0;
}

void redcoi_gate_close(redcoi_gate *gate)
{
    for (uint32_t i = 0; i < gate->count; i++) { (void)close(gate->strangers[i].fd); }
    gate->count = 0;
    if (gate->listener >= 0) { (void)close(gate->listener); }
    gate->listener = -1;
}

/* @param close_it  else somebody else has the connection now */
static void forget(redcoi_gate *gate, uint32_t at, bool close_it)
{
    if (close_it) { (void)close(gate->strangers[at].fd); }
    gate->count--;
    memmove(&gate->strangers[at], &gate->strangers[at + 1], (gate->count - at) * sizeof gate->strangers[0]);
}

/* @return whether one more can come, now or after the oldest has left, which has had its time. */
static bool has_room(const redcoi_gate *gate, double now_s)
{
    return gate->count < REDCOI_STRANGERS_MAX || now_s - gate->strangers[0].since_s >= crowded_s;
}

static void welcome_strangers(redcoi_gate *gate, double now_s)
{
    for (int i = 0; i < AT_ONCE && has_room(gate, now_s); i++) {
        const int fd = accept4(gate->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            const bool full = errno == EMFILE || errno == ENFILE;
            if (!full || gate->count == 0) { return; }
            forget(gate, 0, true);
            continue;
        }
        if (!redcoi_socket_prepare(fd)) {
            (void)close(fd);
            continue;
        }
        if (gate->count == REDCOI_STRANGERS_MAX) { forget(gate, 0, true); }
        gate->strangers[gate->count++] = (redcoi_stranger){.fd = fd, .since_s = now_s};
    }
}

/* It has said its number. @return false: it does not speak as ranks do */
static bool challenge(const redcoi_gate *gate, redcoi_stranger *s)
{
    unsigned char message[CHALLENGE];
    if (memcmp(s->buffer, magic, MAGIC) != 0 || !draw(s->nonces.gate)) { return false; }
    memcpy(s->nonces.caller, s->buffer + MAGIC, REDCOI_NONCE_BYTES);
    memcpy(message, magic, MAGIC);
    memcpy(message + MAGIC, s->nonces.gate, REDCOI_NONCE_BYTES);
    redcoi_prove(&gate->secret, "gate", &s->nonces, NULL, 0, message + HELLO);
    s->challenged = true;
    s->got = 0;
    return send_now(s->fd, message, sizeof message);
}

static bool is_proved(redcoi_gate *gate, const redcoi_stranger *s)
{
    unsigned char proof[REDCOI_PROOF_BYTES];
    redcoi_prove(&gate->secret, "call", &s->nonces, s->buffer, WISH, proof);
    const bool proved = memeql_sec(proof, s->buffer + WISH, sizeof proof) == 1;
    if (!proved) { gate->turned_away++; }
    return proved;
}

/* @return whether it is no stranger any more, or has gone */
static bool hear(redcoi_gate *gate, redcoi_stranger *s, bool *let_in_out)
{
    const int all = take(s->fd, s->buffer, &s->got, s->challenged ? ANSWER : HELLO);
    *let_in_out = false;
    if (all == 0) { return false; }
    if (all < 0) {
        /* A rank with another secret leaves when it sees the gate's proof. */
        if (s->challenged && errno == 0) { gate->turned_away++; }
        return true;
    }
    if (!s->challenged) { return !challenge(gate, s); }
    *let_in_out = is_proved(gate, s) && send_now(s->fd, "!", 1);
    return true;
}

/* @param polled  how many of them were looked at */
static void hear_strangers(redcoi_gate *gate, const struct pollfd *fds, uint32_t polled, double now_s,
                           void (*let_in)(void *context, const redcoi_guest *guest), void *context)
{
    for (uint32_t i = polled; i-- > 0;) {
        redcoi_stranger *const s = &gate->strangers[i];
        bool comes_in = false;
        const bool over = fds[i].revents != 0 ? hear(gate, s, &comes_in) : now_s - s->since_s > stranger_s;
        if (!over) { continue; }
        redcoi_guest guest = {.fd = s->fd, .nonces = s->nonces};
        memcpy(&guest.wish, s->buffer, WISH);
        guest.wish = turned(&guest.wish);
        forget(gate, i, !comes_in);
        if (comes_in) { let_in(context, &guest); }
    }
}

/* The caller */

void redcoi_caller_open(redcoi_caller *caller, const redcoi_door *door, redcoi_secret secret, const redcoi_wish *wish,
                        bool patient)
{
    *caller =
        (redcoi_caller){.door = *door, .secret = secret, .wish = *wish, .patient = patient, .stage = WAITING, .fd = -1};
}

bool redcoi_caller_done(const redcoi_caller *caller)
{
    return caller->stage == DONE;
}

bool redcoi_caller_failed(const redcoi_caller *caller)
{
    return caller->stage == FAILED;
}

void redcoi_caller_close(redcoi_caller *caller)
{
    if (caller->fd >= 0) { (void)close(caller->fd); }
    caller->fd = -1;
}

/* Nobody listens there: a rank that did has ended. Anything else may be another time. */
static void fail(redcoi_caller *c, int error, double now_s)
{
    redcoi_caller_close(c);
    c->error = error;
    c->again_s = now_s + again_s;
    c->stage = error == ECONNREFUSED && !c->patient ? FAILED : WAITING;
}

static void call(redcoi_caller *c, double now_s)
{
    unsigned char hello[HELLO];
    memcpy(hello, magic, MAGIC);
    if (!draw(c->nonces.caller)) {
        fail(c, errno, now_s);
        return;
    }
    memcpy(hello + MAGIC, c->nonces.caller, REDCOI_NONCE_BYTES);
    c->got = 0;
    c->stage = CALLED;
    if (!send_now(c->fd, hello, sizeof hello)) { fail(c, errno, now_s); }
}

static void begin(redcoi_caller *c, double now_s)
{
    c->fd = socket(c->door.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool open = c->fd >= 0 && redcoi_socket_prepare(c->fd);
    if (open && connect(c->fd, (const struct sockaddr *)&c->door.address, c->door.length) == 0) {
        call(c, now_s);
    } else if (open && errno == EINPROGRESS) {
        c->stage = CONNECTING;
    } else {
        fail(c, errno, now_s);
    }
}

static void connected(redcoi_caller *c, double now_s)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) { error = errno; }
    if (error != 0) {
        fail(c, error, now_s);
    } else {
        call(c, now_s);
    }
}

static void answer(redcoi_caller *c, double now_s)
{
    unsigned char proof[REDCOI_PROOF_BYTES], message[ANSWER];
    const redcoi_wish wire = turned(&c->wish);
    memcpy(c->nonces.gate, c->buffer + MAGIC, REDCOI_NONCE_BYTES);
    redcoi_prove(&c->secret, "gate", &c->nonces, NULL, 0, proof);
    if (memcmp(c->buffer, magic, MAGIC) != 0 || memeql_sec(proof, c->buffer + HELLO, sizeof proof) != 1) {
        c->other_secret = true;
        fail(c, EACCES, now_s);
        return;
    }
    c->other_secret = false;
    memcpy(message, &wire, WISH);
    redcoi_prove(&c->secret, "call", &c->nonces, &wire, WISH, message + WISH);
    c->got = 0;
    c->stage = ANSWERED;
    if (!send_now(c->fd, message, sizeof message)) { fail(c, errno, now_s); }
}

static void listen_to_gate(redcoi_caller *c, double now_s)
{
    const int all = take(c->fd, c->buffer, &c->got, c->stage == CALLED ? CHALLENGE : 1);
    if (all < 0) {
        fail(c, errno, now_s);
    } else if (all == 1 && c->stage == CALLED) {
        answer(c, now_s);
    } else if (all == 1) {
        c->stage = DONE;
    }
}

/* Both */

static double earlier(double a, double b)
{
    return a < b ? a : b;
}

int redcoi_gate_turn(redcoi_gate *gate, redcoi_caller *caller, double deadline_s,
                     void (*let_in)(void *context, const redcoi_guest *guest), void *context)
{
    struct pollfd fds[REDCOI_STRANGERS_MAX + 2];
    const uint32_t strangers = gate != NULL ? gate->count : 0;
    double now_s = redco_now_s(), until_s = earlier(deadline_s, now_s + 1.0); /* old strangers leave */
    if (now_s >= deadline_s) { return 0; }
    if (caller != NULL && caller->stage == WAITING && now_s >= caller->again_s) { begin(caller, now_s); }
    if (caller != NULL && (caller->stage == DONE || caller->stage == FAILED)) { return 1; }
    if (caller != NULL && caller->stage == WAITING) { until_s = earlier(until_s, caller->again_s); }
    const bool room = gate != NULL && gate->listener >= 0 && has_room(gate, now_s);
    if (gate != NULL && !room && strangers > 0) { until_s = earlier(until_s, gate->strangers[0].since_s + crowded_s); }
    for (uint32_t i = 0; i < strangers; i++) {
        fds[i] = (struct pollfd){.fd = gate->strangers[i].fd, .events = POLLIN};
    }
    fds[strangers] = (struct pollfd){.fd = room ? gate->listener : -1, .events = POLLIN};
    fds[strangers + 1] =
        (struct pollfd){.fd = caller != NULL && caller->fd >= 0 && caller->stage < DONE ? caller->fd : -1,
                        .events = caller != NULL && caller->stage == CONNECTING ? POLLOUT : POLLIN};
    const int ready = poll(fds, strangers + 2, until_s > now_s ? (int)((until_s - now_s) * 1e3) + 1 : 0);
    if (ready < 0) { return errno == EINTR ? 1 : -1; }
    now_s = redco_now_s();
    if (caller != NULL && fds[strangers + 1].revents != 0) {
        if (caller->stage == CONNECTING) {
            connected(caller, now_s);
        } else {
            listen_to_gate(caller, now_s);
        }
    }
    if (gate != NULL) {
        hear_strangers(gate, fds, strangers, now_s, let_in, context);
        if (fds[strangers].revents != 0) { welcome_strangers(gate, now_s); }
    }
    return 1;
}
