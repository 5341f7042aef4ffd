/** @file several.h  One question asked several times: to the named strategies, to several numbers of GPUs, to the
 * engines that were measured on the GPU, on several clusters. Nothing here prints. */
#ifndef REDCO_SEVERAL_H
#define REDCO_SEVERAL_H

#include "planner/answer/evidence.h"
#include "planner/answer/question.h"
#include "planner/assemble/assemble.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_ROW_NAME = 256 };

typedef struct redco_answer_row {
    char name[REDCO_ROW_NAME]; /**< name of strategy, engine or cluster */
    uint64_t gpus;
    redco_inputs *inputs;         /**< an engine's, a size's or a cluster's own; NULL: those that were given, or bad */
    redco_search_options options; /**< that were asked */
    redco_search_result *result;  /**< NULL: bad says why */
    const redco_candidate *best;  /**< NULL: does not fit, or bad */
    redco_error bad;              /**< a case that machine or model rule out is a row, not the end of the list */
    redco_plan *plan;             /**< where plans were asked for and one fits */
    char beyond[REDCO_EVIDENCE_TEXT]; /**< where best lies outside of what was measured; "" = inside, or not known */
} redco_answer_row;

typedef struct redco_answer_list {
    redco_answer_row *rows;
    uint32_t count;
    bool any_fits;
    bool all_bad; /**< every row contradicts machine or model: bad input, not "no" */
} redco_answer_list;

/** The optimum, then every named strategy. The engine need not have them: redco_strategies_lacked().
 *  @param question  settled; verified, if asked for, is the optimum alone
 *  @param plans     whether rows have plans
 *  @param list_out  freed with redco_answer_list_free() */
redco_status redco_answer_strategies(const redco_question *question, const redco_inputs *inputs, bool plans,
                                     redco_answer_list **list_out, redco_error *err);

/** A row for each of question->sizes: the answer that the size alone is given, with inputs and engine of its own.
 *  @param question  not settled
 *  @param inputs    that were read for it; freed after the list */
redco_status redco_answer_sizes(const redco_question *question, const redco_inputs *inputs, bool plans,
                                redco_answer_list **list_out, redco_error *err);

/** The engine that is asked for first, its traits as they are stated, else the default; then those that were measured
 *  on this GPU. @param question  read, but not settled: each engine takes the options as they were given */
redco_status redco_answer_engines(const redco_question *question, const redco_inputs *inputs, bool plans,
                                  redco_answer_list **list_out, redco_error *err);

/** A row for each cluster: the answer that it alone is given, with inputs and engine of its own.
 *  @param question  not read. @param clusters  presets or files, @p count of them; one that cannot be read is an error
 */
redco_status redco_answer_clusters(const redco_question *question, const char *const *clusters, uint32_t count,
                                   bool plans, redco_answer_list **list_out, redco_error *err);

/** Sorts rows, most tokens/s/GPU first, then by name. */
void redco_answer_list_sort(redco_answer_list *list);
void redco_answer_list_free(redco_answer_list *list);

/** Tokens/s/GPU of a row's plan; 0 without one. */
double redco_answer_tokens(const redco_answer_row *row);

/** Named strategies that the engine does not have. @return their number */
uint32_t redco_strategies_lacked(const redco_search_options *options, redco_strategy lacked_out[REDCO_STRATEGY_COUNT]);

#ifdef __cplusplus
}
#endif
#endif
