#include "costmodel/graph/graph_arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

struct redcoi_arena_chunk {
    redcoi_arena_chunk *before;
    alignas(max_align_t) unsigned char memory[];
};

void *redcoi_arena_take(redcoi_arena *arena, size_t bytes)
{
    const size_t chunk_bytes = 1 << 16, unit = alignof(max_align_t);
    if (bytes > SIZE_MAX / 2) { return NULL; }
    bytes = (bytes + unit - 1) / unit * unit;
    if (arena->last == NULL || bytes > arena->size_bytes - arena->used_bytes) {
        const size_t size = bytes > chunk_bytes ? bytes : chunk_bytes;
        redcoi_arena_chunk *chunk = calloc(1, sizeof *chunk + size);
        if (chunk == NULL) { return NULL; }
        chunk->before = arena->last;
        arena->last = chunk;
        arena->size_bytes = size;
        arena->used_bytes = 0;
    }
    void *block = arena->last->memory + arena->used_bytes;
    arena->used_bytes += bytes;
    return block;
}

void redcoi_arena_free(redcoi_arena *arena)
{
    while (arena->last != NULL) {
        redcoi_arena_chunk *before = arena->last->before;
        free(arena->last);
        arena->last = before;
    }
    arena->used_bytes = arena->size_bytes = 0;
}
