#include "executor/comm/transport.h"

#include <stdlib.h>
#include <string.h>

/* The size of a message: long enough that a message's latency does not show, short enough that scratch memory is small.
 * A multiple of every element's size. */
static const size_t slice_bytes = (size_t)1 << 20;
/* A chain takes as long as its first slice takes to reach the last rank, beside the message itself: so its slices are
 * shorter, such that this is a sixteenth at most, but for short messages. Links of any speed agree on that. */
static const size_t chain_slice_bytes = (size_t)1 << 14;
enum { CHAIN_SLICES = 16 };

size_t redco_communicator_scratch_bytes(void)
{
    return 2 * slice_bytes;
}

uint32_t redco_communicator_rank(const redco_communicator *communicator)
{
    return communicator->rank;
}

uint32_t redco_communicator_size(const redco_communicator *communicator)
{
    return communicator->size;
}

void redco_communicator_free(redco_communicator *communicator)
{
    if (communicator == NULL) { return; }
    if (communicator->link != NULL) { communicator->calls->unlink(communicator->link); }
    free(communicator->scratch[0]);
    free(communicator->scratch[1]);
    free(communicator);
}

void redcoi_communicator_hush(redco_communicator *communicator)
{
    communicator->hushed = true;
}

static redco_status exchange(const redco_communicator *c, const void *send, size_t send_bytes, void *receive,
                             size_t receive_bytes, const char *what, redco_error *err)
{
    const redcoi_exchange exchange = {send, send_bytes, receive, receive_bytes, what};
    const redco_status st = c->calls->exchange(c->link, &exchange, err);
    if (st != REDCO_OK && !atomic_load(&c->world->aborted)) { atomic_store(&c->world->broken, true); }
    return st;
}

static void notice(const redco_communicator *c, const char *what)
{
    if (!c->hushed && c->world->watch != NULL) { c->world->watch(c->world->watch_context, what); }
}

/* Position @p steps before this rank in its ring. */
static uint32_t before(const redco_communicator *c, uint32_t steps)
{
    return (c->rank + c->size - steps % c->size) % c->size;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Consecutive parts of a buffer, one per rank: of equal size, or the first few one element longer, or as begin says. */
struct parts {
    uint64_t base, longer;
    size_t element_bytes;
    const uint64_t *begin; /* NULL, or the first element of each part, and the last part's end */
    const uint32_t *order; /* NULL, or where among the others a rank's part lies; parts are equal then */
};

static size_t part_at(const struct parts *p, uint32_t part)
{
    const uint64_t extra = part < p->longer ? part : p->longer;
    if (p->begin != NULL) { return (size_t)p->begin[part] * p->element_bytes; }
    if (p->order != NULL) { return (size_t)(p->base * p->order[part]) * p->element_bytes; }
    return (size_t)(p->base * part + extra) * p->element_bytes;
}

static size_t part_bytes(const struct parts *p, uint32_t part)
{
    if (p->begin != NULL) { return (size_t)(p->begin[part + 1] - p->begin[part]) * p->element_bytes; }
    return (size_t)(p->base + (part < p->longer ? 1 : 0)) * p->element_bytes;
}

/* Slices of parts, of which the sent and the received one may differ in length. */
static size_t slice_of(size_t bytes, size_t at)
{
    return at < bytes ? smaller(slice_bytes, bytes - at) : 0;
}

/* All parts but the own one pass through the ring, each growing by a summand at each rank, until it arrives where it
 * belongs. Part p starts at the rank behind p. */
static redco_status reduce_in_place(redco_communicator *c, redco_dtype dtype, redco_reduction reduction,
                                    unsigned char *data, const struct parts *parts, const char *what, redco_error *err)
{
    for (uint32_t step = 0; step + 1 < c->size; step++) {
        const uint32_t sent = before(c, step + 1), received = before(c, step + 2);
        const size_t sent_bytes = part_bytes(parts, sent), received_bytes = part_bytes(parts, received);
        unsigned char *const from = data + part_at(parts, sent), *const to = data + part_at(parts, received);
        for (size_t at = 0; at < sent_bytes || at < received_bytes; at += slice_bytes) {
            const size_t in_bytes = slice_of(received_bytes, at);
            const redco_status st = exchange(c, at < sent_bytes ? from + at : NULL, slice_of(sent_bytes, at),
                                             c->scratch[0], in_bytes, what, err);
            if (st != REDCO_OK) { return st; }
            if (in_bytes > 0) {
                (void)redcoi_reduce(dtype, reduction, to + at, c->scratch[0], in_bytes / parts->element_bytes);
            }
        }
    }
    return REDCO_OK;
}

/* Each rank's part goes round. */
static redco_status gather_in_place(redco_communicator *c, unsigned char *data, const struct parts *parts,
                                    const char *what, redco_error *err)
{
    for (uint32_t step = 0; step + 1 < c->size; step++) {
        const uint32_t sent = before(c, step), received = before(c, step + 1);
        const redco_status st = exchange(c, data + part_at(parts, sent), part_bytes(parts, sent),
                                         data + part_at(parts, received), part_bytes(parts, received), what, err);
        if (st != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

redco_status redco_all_reduce(redco_communicator *c, redco_dtype dtype, redco_reduction reduction, void *data,
                              uint64_t count, const char *what, redco_error *err)
{
    const struct parts parts = {count / c->size, count % c->size, redco_dtype_bytes(dtype), NULL, NULL};
    if (!redcoi_has_sum(dtype)) { return redcoi_no_sum(dtype, what, err); }
    if (c->size == 1 || count == 0) { return REDCO_OK; }
    notice(c, what);
    const redco_status st = reduce_in_place(c, dtype, reduction, data, &parts, what, err);
    return st != REDCO_OK ? st : gather_in_place(c, data, &parts, what, err);
}

redco_status redco_reduce_scatter_parts(redco_communicator *c, redco_dtype dtype, redco_reduction reduction, void *data,
                                        const uint64_t *begin, const char *what, redco_error *err)
{
    const struct parts parts = {0, 0, redco_dtype_bytes(dtype), begin, NULL};
    if (!redcoi_has_sum(dtype)) { return redcoi_no_sum(dtype, what, err); }
    if (c->size == 1) { return REDCO_OK; }
    notice(c, what);
    return reduce_in_place(c, dtype, reduction, data, &parts, what, err);
}

redco_status redco_reduce_scatter_ordered(redco_communicator *c, redco_dtype dtype, redco_reduction reduction,
                                          void *data, const uint32_t *order, uint64_t count, const char *what,
                                          redco_error *err)
{
    const struct parts parts = {count, 0, redco_dtype_bytes(dtype), NULL, order};
    if (!redcoi_has_sum(dtype)) { return redcoi_no_sum(dtype, what, err); }
    if (c->size == 1 || count == 0) { return REDCO_OK; }
    notice(c, what);
    return reduce_in_place(c, dtype, reduction, data, &parts, what, err);
}

/* As reduce_in_place(), but the input is only read: what arrives is summed in scratch memory and sent from there, slice
 * by slice, the last one into the output. */
static redco_status reduce_slice(redco_communicator *c, redco_dtype dtype, redco_reduction reduction,
                                 const unsigned char *in, size_t shard_bytes, size_t at, unsigned char *out,
                                 const char *what, redco_error *err)
{
    const size_t bytes = slice_of(shard_bytes, at);
    const unsigned char *from = in + before(c, 1) * shard_bytes + at;
    for (uint32_t step = 0; step + 1 < c->size; step++) {
        unsigned char *const to = c->scratch[step % 2];
        const redco_status st = exchange(c, from, bytes, to, bytes, what, err);
        if (st != REDCO_OK) { return st; }
        (void)redcoi_reduce(dtype, reduction, to, in + before(c, step + 2) * shard_bytes + at,
                            bytes / redco_dtype_bytes(dtype));
        from = to;
    }
    memcpy(out + at, from, bytes);
    return REDCO_OK;
}

redco_status redco_reduce_scatter(redco_communicator *c, redco_dtype dtype, redco_reduction reduction, const void *in,
                                  void *out, uint64_t count, const char *what, redco_error *err)
{
    const size_t shard_bytes = (size_t)count * redco_dtype_bytes(dtype);
    if (!redcoi_has_sum(dtype)) { return redcoi_no_sum(dtype, what, err); }
    if (c->size == 1) {
        if (in != out) { memcpy(out, in, shard_bytes); }
        return REDCO_OK;
    }
    redco_status st = REDCO_OK;
    notice(c, what);
    for (size_t at = 0; at < shard_bytes && st == REDCO_OK; at += slice_bytes) {
        st = reduce_slice(c, dtype, reduction, in, shard_bytes, at, out, what, err);
    }
    return st;
}

redco_status redco_all_gather(redco_communicator *c, redco_dtype dtype, const void *in, void *out, uint64_t count,
                              const char *what, redco_error *err)
{
    const struct parts parts = {count, 0, redco_dtype_bytes(dtype), NULL, NULL};
    unsigned char *const own = (unsigned char *)out + part_at(&parts, c->rank);
    if (in != own) { memcpy(own, in, part_bytes(&parts, c->rank)); }
    if (c->size == 1 || count == 0) { return REDCO_OK; }
    notice(c, what);
    return gather_in_place(c, out, &parts, what, err);
}

redco_status redco_all_gather_ordered(redco_communicator *c, redco_dtype dtype, void *data, const uint32_t *order,
                                      uint64_t count, const char *what, redco_error *err)
{
    const struct parts parts = {count, 0, redco_dtype_bytes(dtype), NULL, order};
    if (c->size == 1 || count == 0) { return REDCO_OK; }
    notice(c, what);
    return gather_in_place(c, data, &parts, what, err);
}

static size_t chain_slice(const redco_communicator *c, size_t bytes)
{
    const size_t wanted = bytes / ((size_t)CHAIN_SLICES * (c->size - 1)) / chain_slice_bytes * chain_slice_bytes;
    return c->size == 2 ? slice_bytes : smaller(wanted > chain_slice_bytes ? wanted : chain_slice_bytes, slice_bytes);
}

redco_status redco_broadcast(redco_communicator *c, redco_dtype dtype, void *data, uint64_t count, uint32_t root,
                             const char *what, redco_error *err)
{
    unsigned char *const bytes = data;
    const size_t size = (size_t)count * redco_dtype_bytes(dtype);
    if (root >= c->size) {
        return redco_fail(err, REDCO_EVALUE, what, "broadcast from rank %u of a group of %u", root, c->size);
    }
    const uint32_t position = before(c, root);
    const bool first = position == 0, last = position + 1 == c->size;
    if (c->size == 1) { return REDCO_OK; }
    notice(c, what);
    /* A rank in the middle is one slice behind: it passes on what came before while the next arrives. */
    const size_t slice = chain_slice(c, size), lag = first ? 0 : slice;
    redco_status st = REDCO_OK;
    for (size_t at = 0; at < size + lag && st == REDCO_OK; at += slice) {
        const size_t send_bytes = !last && at >= lag && at - lag < size ? smaller(slice, size - (at - lag)) : 0;
        const size_t receive_bytes = first || at >= size ? 0 : smaller(slice, size - at);
        if (send_bytes + receive_bytes == 0) { continue; }
        st = exchange(c, send_bytes > 0 ? bytes + (at - lag) : NULL, send_bytes, receive_bytes > 0 ? bytes + at : NULL,
                      receive_bytes, what, err);
    }
    return st;
}

redco_status redco_barrier(redco_communicator *c, const char *what, redco_error *err)
{
    int32_t here = 1; /* nobody has the sum before everybody came */
    return redco_all_reduce(c, REDCO_I32, REDCO_REDUCE_SUM, &here, 1, what, err);
}
