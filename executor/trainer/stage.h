/** @file stage.h  The part of a model that one pipeline stage trains. The step says which layers a stage computes; the
 *  graph of the whole model is cut between layers: what an operator of one stage reads of another's becomes an input,
 *  and an output there. Values that no parameter enters (positions, masks) are made on every stage that reads them.
 *
 *  Values go from stage to neighbouring stage, forward what forward makes, backward gradients; one that is read further
 *  on passes the stages between. */
#ifndef REDCOI_TRAINER_STAGE_H
#define REDCOI_TRAINER_STAGE_H

#include "costmodel/models/task.h"
#include "costmodel/simulator/step.h"
#include "executor/schedule/schedule.h"
#include "planner/plan/plan.h"

/** Places of a plan's layers. */
typedef struct redcoi_stage {
    uint32_t count;     /**< stages; 1: there are none, and nothing else is filled */
    uint32_t own;       /**< this rank's */
    uint32_t positions; /**< places in the pipeline: stage i has i, i + count, ... */
    uint32_t layer_count;
    char (*layers)[48];    /**< by layer of the step: its name */
    uint32_t *position_of; /**< likewise: its position */
    uint32_t *first_use;   /**< by parameter of the task: first and last position that read it */
    uint32_t *last_use;
    uint32_t *home; /**< likewise: the position of its layer */
} redcoi_stage;

/** The stage that has a position. */
static inline uint32_t redcoi_stage_at(const redcoi_stage *stage, uint32_t position)
{
    return position == UINT32_MAX || stage->count == 0 ? UINT32_MAX : position % stage->count;
}

/** @param stage  all zero; to be freed with redcoi_stage_free(), also after a failure */
redco_status redcoi_stage_open(const redco_plan *plan, const redco_step *step, uint32_t own, redcoi_stage *stage,
                               redco_error *err);
void redcoi_stage_free(redcoi_stage *stage);

/** Fills first_use, last_use and home from the graph of the whole task. */
redco_status redcoi_stage_find_uses(redcoi_stage *stage, const redco_task *task, const redco_graph *graph,
                                    redco_error *err);
/** @return whether this stage holds a parameter */
bool redcoi_stage_has(const redcoi_stage *stage, size_t parameter);
/** @return whether several stages do: a table that the head shares with the embedding */
static inline bool redcoi_stage_shares(const redcoi_stage *stage, size_t parameter)
{
    return redcoi_stage_at(stage, stage->first_use[parameter]) != redcoi_stage_at(stage, stage->last_use[parameter]);
}

/** The summand of a parameter's gradient that a stage makes: the gradient of a shared table is a sum of those of the
 *  stages that read it, which add them up among them.
 *  @return REDCO_NO_VALUE if none is its own */
redco_status redcoi_stage_summand(const redcoi_stage *stage, redco_graph *graph, redco_value gradient, uint32_t of,
                                  redco_value *summand_out, redco_error *err);

enum { REDCOI_CROSSING_MAX = 256, REDCOI_CROSSING_NAME = 40 };

/** The name of an input in whose place the whole graph has a value of another stage. @return @p name */
const char *redcoi_crossing_name(int direction, uint32_t index, char name[REDCOI_CROSSING_NAME]);

/** Values that cross into a stage or out of it: [0] forward, [1] backward. */
typedef struct redcoi_crossings {
    struct redcoi_crossing_list {
        redco_crossing of[REDCOI_CROSSING_MAX];
        uint32_t count;
    } in[2], out[2];
} redcoi_crossings;

/** Values of a graph that are wanted, and the stage of each that wants it. */
typedef struct redcoi_stage_outputs {
    redco_value *values;
    uint32_t *stages;
    uint32_t count;
} redcoi_stage_outputs;

/** The part of a rank's graph that its stage computes.
 *  @param wanted         of all stages
 *  @param crossings_out  values of @p part_out; those that leave must be kept as outputs
 *  @param outputs_out    values of @p part_out: those of this stage's wanted ones, in their order */
redco_status redcoi_stage_cut(const redcoi_stage *stage, const redco_graph *graph, const redcoi_stage_outputs *wanted,
                              redco_graph **part_out, redco_value *outputs_out, redcoi_crossings *crossings_out,
                              redco_error *err);

#endif
