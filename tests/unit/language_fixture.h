/** @file language_fixture.h  Graphs of language models with gradients, of one rank of several, and data for them. */
#ifndef REDCO_TEST_LANGUAGE_FIXTURE_H
#define REDCO_TEST_LANGUAGE_FIXTURE_H

#include "costmodel/layouts/partition.h"
#include "costmodel/models/language_model.h"
#include "costmodel/models/model.h"
#include "executor/backend/evaluate.h"
#include "topology/base/sharding.h"

/** Column and row pairs by the names of their modules where sizes divide, the rest whole. */
redco_tp_layout language_layout(const redco_task_parameter *parameter, const redco_tensor_type *type, uint32_t ranks);

enum { LANGUAGE_PARAMETERS_MAX = 1024 };

typedef struct language_shape {
    redco_dtype dtype;
    uint32_t sequences, length;
    uint32_t ranks, rank;
    bool sequence_parallel;
    /** The layout of parameter @p index among ranks; NULL: language_layout(). */
    redco_tp_layout (*layout)(void *context, const redco_task *task, size_t index, const redco_tensor_type *type,
                              uint32_t ranks);
    void *context;
} language_shape;

typedef struct language {
    redco_model *model;
    redco_language_model *lm;
    const redco_task *task;
    redco_graph *graph;                               /**< the rank's; its group has number 0 */
    redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1]; /**< the loss, then gradients of parameters */
    uint32_t output_count;
    redco_binding bindings[LANGUAGE_PARAMETERS_MAX + 3]; /**< after language_data() */
    uint32_t binding_count;
} language;

/** @p path of a config; fails the test otherwise. */
void language_open(language *l, const char *path, const language_shape *shape);
/** Small random weights, the same for every rank that holds them whole, and tokens. */
void language_data(language *l);
/** The same data for a graph that was made of l->graph. @return how many inputs it has */
uint32_t language_rebind(const language *l, const redco_graph *graph, redco_binding *bindings_out);
void language_close(language *l);

/* The policies that redco-exec runs: none, selective, full. */
static inline redco_recompute executed_policy(uint32_t number)
{
    static const redco_recompute policies[] = {REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_FULL};
    return policies[number % (sizeof policies / sizeof policies[0])];
}

#endif
