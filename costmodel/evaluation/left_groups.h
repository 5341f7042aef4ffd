/** @file left_groups.h  Measured runs in groups of which one is left out at a time. */
#ifndef REDCO_LEFT_GROUPS_H
#define REDCO_LEFT_GROUPS_H

#include "costmodel/evaluation/measured_runs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Runs that are unknown together: those of one source (of NVIDIA's tables, which have runs in common, those of one
 *  model on one GPU), one GPU, one engine, one model, one class of GPU and software,
 *  one architecture of GPUs. */
typedef enum redco_leave {
    REDCO_LEAVE_SOURCE,
    REDCO_LEAVE_GPU,
    REDCO_LEAVE_ENGINE,
    REDCO_LEAVE_MODEL,
    REDCO_LEAVE_CLASS,
    REDCO_LEAVE_ARCHITECTURE,
    REDCO_LEAVE_SIZE, /**< in each class the runs on more GPUs than most */
    REDCO_LEAVE_KINDS
} redco_leave;

/** "source", "gpu", ...; NULL behind the last. */
extern const char *const redco_leave_words[REDCO_LEAVE_KINDS + 1];

typedef struct redco_left_groups {
    redco_leave kind;
    size_t count, groups;
    size_t *group;     /**< one for each run */
    char (*names)[64]; /**< one for each group */
    double *weight;    /**< one for each run: equal configurations of a group count once, 0: it does not count */
    const redco_measured_run *const *runs; /**< borrowed */
} redco_left_groups;

/** @param usable  of each run: it has a throughput and may be fitted to
 *  @param groups_out  freed with redco_left_groups_free() */
redco_status redco_left_groups_create(const redco_evaluations *evaluations, const redco_measured_run *const *runs,
                                      size_t count, const bool *usable, redco_leave kind, redco_left_groups *groups_out,
                                      redco_error *err);
void redco_left_groups_free(redco_left_groups *groups);

/** "H100" of "H100-SXM5-80GB": sizes of memory and forms of one chip are no GPUs of their own. */
bool redco_same_chip(const char *gpu, const char *other);

/** Adds to @p out the runs of a group. */
void redco_left_groups_mark(const redco_left_groups *groups, size_t group, bool *out);

#ifdef __cplusplus
}
#endif
#endif
