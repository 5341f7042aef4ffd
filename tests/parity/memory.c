/* Ranks of one machine exchange through memory that they share: several times as fast as sockets where a message is a
 * few bytes and ranks outnumber processors. A group has one channel for each member, written by the one before it. */
#include "tests/parity/memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CHANNEL_BYTES = 1 << 14, GROUPS = 256 /* that exist at once, and then some */ };

/* Rung whenever its owner may be able to go on. */
struct bell {
    _Atomic uint32_t count, sleeps;
};

/* Bytes on their way to one member of one group. */
struct channel {
    struct bell bell;            /* rung for the member that reads */
    _Atomic uint32_t head, tail; /* bytes written and read so far, modulo 2^32 */
    _Atomic uint32_t full;       /* the writer waits for room */
    unsigned char data[CHANNEL_BYTES];
};

struct memory {
    uint32_t ranks;
    _Atomic uint32_t aborted;  /* a rank has given up: all fail, as they do when a connection is closed */
    struct channel channels[]; /* [group][rank] */
};

struct side {
    struct memory *memory;
    uint32_t rank;
};

struct link {
    struct memory *memory;
    struct channel *in, *out;
    struct bell *before; /* the last one of the member that writes to us */
};

static const time_t patience_s = 120;

static size_t size_of(uint32_t ranks)
{
    return sizeof(struct memory) + (size_t)GROUPS * ranks * sizeof(struct channel);
}

struct memory *memory_create(uint32_t ranks)
{
    struct memory *const m =
        mmap(NULL, size_of(ranks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (m == MAP_FAILED) { return NULL; }
    m->ranks = ranks;
    return m;
}

void memory_free(struct memory *m)
{
    if (m != NULL) { (void)munmap(m, size_of(m->ranks)); }
}

static void ring(struct bell *bell)
{
    (void)atomic_fetch_add(&bell->count, 1);
    if (atomic_load(&bell->sleeps) != 0) { (void)syscall(SYS_futex, &bell->count, FUTEX_WAKE, 1, NULL, NULL, 0); }
}

/* Until it is rung again after it had been rung @p seen times. @return false when patience is at its end */
static bool sleep_until_rung(struct bell *bell, uint32_t seen)
{
    const struct timespec patience = {.tv_sec = patience_s};
    atomic_store(&bell->sleeps, 1);
    const long result = syscall(SYS_futex, &bell->count, FUTEX_WAIT, seen, &patience, NULL, 0);
    const bool late = result != 0 && errno == ETIMEDOUT;
    atomic_store(&bell->sleeps, 0);
    return !late;
}

static size_t smallest(size_t a, size_t b, size_t c)
{
    const size_t least = a < b ? a : b;
    return least < c ? least : c;
}

static size_t room_of(struct channel *c)
{
    return CHANNEL_BYTES - (uint32_t)(atomic_load(&c->head) - atomic_load(&c->tail));
}

static size_t put(struct channel *c, const unsigned char *data, size_t size)
{
    const uint32_t head = atomic_load(&c->head), at = head % CHANNEL_BYTES;
    const size_t count = smallest(size, room_of(c), CHANNEL_BYTES - at);
    memcpy(c->data + at, data, count);
    atomic_store(&c->head, head + (uint32_t)count);
    return count;
}

static size_t get(struct channel *c, unsigned char *data, size_t size)
{
    const uint32_t tail = atomic_load(&c->tail), at = tail % CHANNEL_BYTES;
    const size_t count = smallest(size, (uint32_t)(atomic_load(&c->head) - tail), CHANNEL_BYTES - at);
    memcpy(data, c->data + at, count);
    atomic_store(&c->tail, tail + (uint32_t)count);
    return count;
}

static redco_status memory_exchange(void *link, const redcoi_exchange *x, redco_error *err)
{
    const struct link *const l = link;
    size_t sent = 0, received = 0;
    while (sent < x->send_bytes || received < x->receive_bytes) {
        const uint32_t seen = atomic_load(&l->in->bell.count);
        if (atomic_load(&l->memory->aborted) != 0) {
            return redco_fail(err, REDCO_ESYSTEM, x->what, "a rank has given up");
        }
        size_t put_bytes = 0, got_bytes = 0;
        if (sent < x->send_bytes) {
            put_bytes = put(l->out, (const unsigned char *)x->send + sent, x->send_bytes - sent);
            sent += put_bytes;
            if (put_bytes > 0) { ring(&l->out->bell); }
        }
        if (received < x->receive_bytes) {
            got_bytes = get(l->in, (unsigned char *)x->receive + received, x->receive_bytes - received);
            received += got_bytes;
            if (got_bytes > 0 && atomic_exchange(&l->in->full, 0) != 0) { ring(l->before); }
        }
        if (put_bytes + got_bytes > 0 || (sent == x->send_bytes && received == x->receive_bytes)) { continue; }
        if (sent < x->send_bytes) {
            atomic_store(&l->out->full, 1);
            if (room_of(l->out) > 0) { continue; }
        }
        if (!sleep_until_rung(&l->in->bell, seen)) {
            return redco_fail(err, REDCO_ESYSTEM, x->what, "nobody was heard of for %d s", (int)patience_s);
        }
    }
    return REDCO_OK;
}

static redco_status memory_link(void *transport, const redcoi_members *members, uint32_t sequence, void **link_out,
                                redco_error *err)
{
    const struct side *const side = transport;
    struct channel *const group = side->memory->channels + (size_t)(sequence % GROUPS) * side->memory->ranks;
    const uint32_t size = members->size;
    if (size == 1) { return REDCO_OK; }
    struct link *const l = malloc(sizeof *l);
    if (l == NULL) { return redco_fail(err, REDCO_ENOMEM, "memory", "out of memory"); }
    l->memory = side->memory;
    l->in = &group[side->rank];
    l->out = &group[members->ranks[(members->own + 1) % size]];
    l->before = &group[members->ranks[(members->own + size - 1) % size]].bell;
    *link_out = l;
    return REDCO_OK;
}

static void memory_abort(void *transport)
{
    const struct side *const side = transport;
    atomic_store(&side->memory->aborted, 1);
    for (size_t i = 0; i < (size_t)GROUPS * side->memory->ranks; i++) { ring(&side->memory->channels[i].bell); }
}

static void memory_unlink(void *link)
{
    free(link);
}

static void memory_close(void *transport)
{
    free(transport);
}

redco_status memory_open(struct memory *memory, uint32_t rank, redco_world **world_out, redco_error *err)
{
    static const redcoi_transport_calls calls = {.link = memory_link,
                                                 .exchange = memory_exchange,
                                                 .abort = memory_abort,
                                                 .unlink = memory_unlink,
                                                 .close = memory_close};
    struct side *const side = malloc(sizeof *side);
    if (side == NULL) { return redco_fail(err, REDCO_ENOMEM, "memory", "out of memory"); }
    *side = (struct side){memory, rank};
    const redcoi_transport transport = {&calls, side, rank, memory->ranks};
    return redcoi_world_open_on(&transport, world_out, err);
}
