/** @file graph_arena.h  Memory that is freed as a whole; blocks do not move. */
#ifndef REDCO_GRAPH_ARENA_H
#define REDCO_GRAPH_ARENA_H

#include <stddef.h>

typedef struct redcoi_arena_chunk redcoi_arena_chunk;
typedef struct redcoi_arena {
    redcoi_arena_chunk *last;
    size_t used_bytes, size_bytes; /**< in the last chunk */
} redcoi_arena;                    /**< all zero: empty */

/** @return zeroed memory for any type, or NULL if memory is short */
void *redcoi_arena_take(redcoi_arena *arena, size_t bytes);
void redcoi_arena_free(redcoi_arena *arena);

#endif
