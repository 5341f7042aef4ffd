/* Shared by the sources of user_pipeline_file.h. */
#ifndef REDCO_USER_PIPELINE_INTERNAL_H
#define REDCO_USER_PIPELINE_INTERNAL_H

#include "executor/pipeline/pipeline_models.h"
#include "executor/pipeline/user_pipeline_calls.h"

enum { REDCOI_TARGETS_MAX = 64 };

/* Graphs that functions built: the same from the same. */
typedef struct redcoi_built {
    uint64_t from, made; /* digests */
} redcoi_built;

typedef struct redcoi_calls {
    redco_user_pipeline_call *call; /* NULL: nobody watches */
    redcoi_built *built;
    size_t built_count, built_room;
} redcoi_calls;

struct redco_user_pipeline_file {
    char *path;
    void *library; /* or NULL */
    const redco_user_pipeline *table;
    redco_task_parameter *parameters;
    size_t parameter_count, parameter_room;
    redco_task_input *inputs; /* dim[0] is 0 until there is a batch */
    size_t input_count;
    char *targets[REDCOI_TARGETS_MAX];
    size_t target_count;
    redcoi_pipeline_models models;
    redcoi_calls *calls;
};

/* @return the function that the process was in before, for redcoi_leave() */
const char *redcoi_enter(const redcoi_calls *calls, const char *function);
void redcoi_leave(const redcoi_calls *calls, const char *before);

/* Functions of a task, whose context is the file. */
redco_value redcoi_pipeline_loss(redco_scope *scope, const void *context);
redco_value redcoi_pipeline_step(redco_scope *scope, const void *context);

/* All of a pipeline is one layer: the model's (costmodel/models/user_pipeline.c). */
#define REDCOI_PIPELINE_LAYER "block.0"

#endif
