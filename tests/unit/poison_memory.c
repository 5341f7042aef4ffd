#include "poison_memory.h"

#include <stdlib.h>
#include <string.h>

static redco_status fill(const redco_memory_map *map, redco_backend *backend, redco_device_stream *stream,
                         uint64_t from, uint64_t bytes, redco_error *err)
{
    enum { CHUNK_BYTES = 1 << 16 };
    redco_status st = REDCO_OK;
    unsigned char *const chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL) { return redco_fail(err, REDCO_ENOMEM, "arena", "no memory to fill it"); }
    memset(chunk, 0xff, CHUNK_BYTES);
    for (uint64_t at = 0; at < bytes && st == REDCO_OK; at += CHUNK_BYTES) {
        const uint64_t rest = bytes - at;
        st = backend->calls->copy(backend, stream, (unsigned char *)map->arena + from + at, chunk,
                                  rest < CHUNK_BYTES ? rest : CHUNK_BYTES, err);
    }
    if (st == REDCO_OK) { st = backend->calls->stream_finish(backend, stream, err); }
    free(chunk);
    return st;
}

redco_status poison_memory(const redco_memory_map *map, redco_backend *backend, redco_device_stream *stream,
                           uint32_t step, redco_error *err)
{
    const redco_lifetimes *const l = &map->plan->lifetimes;
    redco_status st = REDCO_OK;
    if (step == REDCO_NO_OP) { return fill(map, backend, stream, 0, map->plan->arena.bytes, err); }
    for (uint32_t i = 0; i < l->interval_count && st == REDCO_OK; i++) {
        if (l->intervals[i].last != step || step + 1 == l->step_count) { continue; }
        st = fill(map, backend, stream, map->plan->offsets[i], l->intervals[i].size_bytes, err);
    }
    return st;
}
