/** @file initial.h  First values of parameters, from a seed. Each element is a function of seed, name of the parameter
 *  and place in it, so that any part can be made without the rest, and every plan begins with the same weights. */
#ifndef REDCO_INITIAL_H
#define REDCO_INITIAL_H

#include "costmodel/models/task.h"
#include "executor/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A part of a tensor: from begin on, size elements along each dimension. */
typedef struct redco_box {
    uint64_t begin[REDCO_RANK_MAX], size[REDCO_RANK_MAX];
} redco_box;

/** Into the program's memory. Numbers are drawn in double and rounded to f32 first, so that storage and check types
 * begin alike.
 *  @param box  in the executor's storage; NULL: all of it
 *  @param out  dense */
redco_status redco_initial_fill(redco_backend *backend, const redco_task_parameter *parameter, const redco_box *box,
                                uint64_t seed, redco_dtype dtype, void *out, redco_error *err);

/** Draws into device memory, for who begins a training: nothing goes through the program's memory. */
typedef struct redco_drawer redco_drawer;

/** A rank's part of a tensor, in the executor's storage: of each of @p rows equal runs of elements, one of @p parts
 * equal parts. {1, 1, 0}: all of it. */
typedef struct redco_drawn_part {
    uint64_t rows;
    uint32_t parts, part;
} redco_drawn_part;

/** @param backend  borrowed, as is @p stream, where all of it is queued
 *  @param dtype    of what is drawn
 *  @return REDCO_ENOMEM */
redco_status redco_drawer_open(redco_backend *backend, redco_device_stream *stream, uint64_t seed, redco_dtype dtype,
                               redco_drawer **drawer_out, redco_error *err);
/** Waits for the stream. NULL is accepted. */
void redco_drawer_close(redco_drawer *drawer);
/** Queues that elements @p begin to @p begin + @p count of the part are drawn: the same numbers as
 * redco_initial_fill()'s.
 *  @param out  device memory, aligned as elements are */
redco_status redco_drawer_draw(redco_drawer *drawer, const redco_task_parameter *parameter,
                               const redco_drawn_part *part, uint64_t begin, uint64_t count, void *out,
                               redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
