/** @file collector_internal.h  Internal: the state of a collect(). Its calls (collector_calls.c) are those of any
 * program that loads a pipeline; examples are collected where it is trained (collector.c), which evaluates their
 * indices. */
#ifndef REDCOI_COLLECTOR_INTERNAL_H
#define REDCOI_COLLECTOR_INTERNAL_H

#include "executor/pipeline/collector.h"
#include "executor/pipeline/index_checks.h"

struct redco_user_collector {
    const redco_user_pipeline_file *file;
    const char *name;
    redcoi_index_checks *checks;
    redco_user_run run;
    json_t **examples;
    uint64_t count, room;
    uint64_t seed, first_step, period; /* the examples are those of steps first_step to first_step + period */
    uint64_t drawn;                    /* random numbers in this collect() */
    uint64_t predicted;                /* calls of predict in this collect() */
    redco_collector_predict predict;   /* in a collect() */
    void *context;
    redco_error error; /* the first, in a collect() */
};

#endif
