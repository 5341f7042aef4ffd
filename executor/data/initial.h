/** @file initial.h  First values of parameters, from a seed. Each element is a function of seed, name of the parameter
 *  and place in it, so that any part can be made without the rest, and every plan begins with the same weights. */
#ifndef REDCO_INITIAL_H
#define REDCO_INITIAL_H

#include "executor/backend/backend.h"
#include "executor/models/task.h"

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

#ifdef __cplusplus
}
#endif
#endif
