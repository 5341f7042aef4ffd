/** @file arena.h  Offsets in one allocation for pieces of memory that are needed for a while: those whose times overlap
 *  get different bytes. The general problem is NP-hard (dynamic storage allocation: Garey and Johnson, SR2); several
 *  greedy orders are tried, the best of them is improved, and the most that is live at once bounds how much better
 *  any answer could be. Deterministic. */
#ifndef REDCO_SCHEDULE_ARENA_H
#define REDCO_SCHEDULE_ARENA_H

#include "topology/base/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Memory that is needed from one step to another, both included. */
typedef struct redco_interval {
    uint64_t size_bytes;
    uint32_t first, last;
} redco_interval;

typedef struct redco_arena {
    uint64_t bytes;      /**< bytes of the allocation */
    uint64_t live_bytes; /**< the most that is needed at once, rounded up to the alignment: no answer is below */
    uint32_t live_step;  /**< the first step at which it is */
} redco_arena;

/** @param alignment_bytes  of every offset; > 0
 *  @param offsets_out      count entries
 *  @return REDCO_EVALUE on an interval that ends before it begins or sizes that do not add up in 2^63 bytes */
redco_status redco_arena_plan(const redco_interval *intervals, uint32_t count, uint64_t alignment_bytes,
                              uint64_t *offsets_out, redco_arena *arena_out, redco_error *err);

/** The bytes that are needed at once, as in redco_arena, without placing anything. */
redco_status redco_arena_live(const redco_interval *intervals, uint32_t count, uint64_t alignment_bytes,
                              redco_arena *arena_out, redco_error *err);

/** Memory in which some pieces lie already. */
typedef struct redco_arena_room {
    uint64_t bytes;
    const redco_interval *fixed;
    const uint64_t *offsets; /**< one for each fixed piece */
    uint32_t fixed_count;
} redco_arena_room;

/** In place of an offset. */
#define REDCO_ARENA_NO_ROOM UINT64_MAX

/** Places in a room what it has gaps for while the fixed pieces are not needed: largest first, each in the smallest
 * gap.
 *  @param offsets_out  count entries: in the room, or REDCO_ARENA_NO_ROOM */
redco_status redco_arena_fill(const redco_arena_room *room, const redco_interval *intervals, uint32_t count,
                              uint64_t alignment_bytes, uint64_t *offsets_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
