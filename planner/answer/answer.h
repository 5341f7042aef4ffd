/** @file answer.h  The answer to a question: the best plan, what its tensor-parallel layouts gain, what would help,
 * what its neighbours cost. Nothing here prints. */
#ifndef REDCO_ANSWER_H
#define REDCO_ANSWER_H

#include "planner/answer/explain.h"
#include "planner/answer/question.h"
#include "planner/answer/weigh.h"
#include "planner/assemble/assemble.h"
#include "planner/tensor_parallel/tp_placement.h"
#include "traces/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The answers beside the plan; each costs searches of its own. */
enum {
    REDCO_ANSWER_LAYOUTS = 1,   /**< redco_answer.layouts */
    REDCO_ANSWER_HELP = 2,      /**< redco_answer.help, where the objective is the step time */
    REDCO_ANSWER_NEIGHBOURS = 4 /**< redco_answer.neighbours */
};

/** The tensor-parallel layouts of a strategy: RedCoast's rules (or the user's) against GLPK's program. */
typedef struct redco_layout_gain {
    bool known; /**< false: nothing is split, or the model has matrices of unknown use */
    bool sequence_parallel;
    redco_tp_report layers;
    double rules_step_s, milp_step_s; /**< times of the same strategy */
} redco_layout_gain;

typedef struct redco_answer {
    const redco_inputs *inputs;   /**< borrowed */
    redco_search_options options; /**< the question's, and what was chosen of them: sequence parallelism, placement */
    redco_search_result *result;  /**< ranked_count 0: nothing fits, and only this is filled */
    redco_search_result *free_result;    /**< with nothing fixed; NULL when nothing was, or no degree divides then */
    char free_engine[REDCO_ENGINE_NAME]; /**< its engine, where another than this one's */
    const char *free_leaves_out;         /**< why that search leaves the best out: static; NULL: it does not */
    redco_weighed weighed;
    redco_assembler *assembler; /**< made by redco_answer_plan() */
    redco_plan *plan;           /**< the best one's plan */
    bool rules_taken;           /**< the rules' plan is faster than the one of GLPK's layouts */
    redco_layout_gain layouts;
    bool helped; /**< help is filled */
    redco_help help[REDCO_HELP_COUNT];
    redco_neighbour neighbours[REDCO_MOST_NEIGHBOURS];
    size_t neighbour_count;
} redco_answer;

/** Searches and assembles the best plan.
 *  - Where sequence parallelism is to be tried, the plan with it is taken if it is faster by more than 0.05 %.
 *  - GLPK places tensors layer by layer; where the rules give the faster plan, or the only one that fits, it is taken.
 *  - Where something is fixed, the free optimum is searched, too.
 *  @param question    settled: redco_question_settle()
 *  @param wants       REDCO_ANSWER_... bits
 *  @param answer_out  freed with redco_answer_free(), also on failure; it stays where it is, and @p inputs with it
 *  @return REDCO_OK also when nothing fits */
redco_status redco_answer_find(const redco_question *question, const redco_inputs *inputs, uint32_t wants,
                               redco_answer *answer_out, redco_error *err);
void redco_answer_free(redco_answer *answer);

/** The plan of another ranked candidate, index < result->ranked_count. @param plan_out  freed with redco_plan_free() */
redco_status redco_answer_plan(const redco_answer *answer, uint32_t index, redco_plan **plan_out, redco_error *err);

/** The best plan's simulated step. @param trace_out  freed with redco_trace_free() */
redco_status redco_answer_trace(const redco_answer *answer, const redco_inputs *inputs, redco_trace **trace_out,
                                redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
