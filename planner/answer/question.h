/** @file question.h  A planning question: names of what is read, options of the search, and choices that are left to
 *  redco. redco-plan asks with these calls, so that a program gets the plan that the tool gives:
 *
 *      redco_question question = redco_question_default();
 *      question.names.cluster = "dgx-h100";
 *      question.gpus = 64;
 *      redco_question_read(&question, &inputs, &err);
 *      redco_question_settle(&question, &inputs, &err);
 *      redco_answer_find(&question, &inputs, 0, &answer, &err);    (answer.h)
 *
 *  Nothing here prints. */
#ifndef REDCO_QUESTION_H
#define REDCO_QUESTION_H

#include "planner/assemble/inputs.h"
#include "planner/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_MOST_SIZES = 64, REDCO_MOST_LACKS = 40, REDCO_MOST_RIVALS = 16 };

typedef struct redco_question {
    redco_input_names names;
    uint64_t gpus;                    /**< 0: all that the cluster has */
    uint64_t sizes[REDCO_MOST_SIZES]; /**< numbers of GPUs to compare, in place of @p gpus */
    uint32_t size_count;              /**< 0: one question */
    redco_search_options options;
    const char *split; /**< redco_split_read() of pp and chunks of the options; NULL: equal shares. Borrowed */
    uint32_t positions[REDCO_SPLIT_POSITIONS_MAX]; /**< filled by redco_question_read(), for the options */
    uint32_t usual_tokens;                         /**< tokens of a sequence whose length is not given; 0: 4096 */
    bool engine_chosen;                            /**< redco_question_settle() filled names.engine in */
    bool try_engines;                              /**< --engine auto: redco_question_settle() */
    bool is_variant;                               /**< another question says what is to be said of engines */
} redco_question;

/** 1024 sequences a step in bf16 on the default model and cluster; everything else is optimised. Sequences have 4096
 *  tokens, or where a model learns positions and has fewer, as many (seq_len 0 until redco_question_read()). */
redco_question redco_question_default(void);

/** Reads what @p question names; of several sizes, for the first that the cluster can have.
 *  @param question    its options take the tensor-parallel rules that were read, borrowed from @p inputs_out
 *  @param inputs_out  freed with redco_inputs_free(); warnings: redco_cluster_warning(), redco_model_warning(),
 *                     redco_comm_warning() */
redco_status redco_question_read(redco_question *question, redco_inputs *inputs_out, redco_error *err);
/** The same for another engine or number of GPUs, question->gpus, of what was read: redco_inputs_read_like(). */
redco_status redco_question_read_like(redco_question *question, const redco_inputs *like, redco_inputs *inputs_out,
                                      redco_error *err);

/** Settles whose steps are planned and puts that engine into the options. Where nobody named one (by --engine,
 *  --calibration or the cluster's file), the engine is taken whose plan is the fastest: among the GPU's default and
 * those that have an exporter and were measured on GPUs like this (redco_engine_measured_like()); of equal ones the
 * default; before all those that have what the question asks for. Where none of them has a plan that fits, and with
 * try_engines, also those without an exporter; with try_engines also where the cluster names one.
 *  @param inputs  of redco_question_read(); read again where another engine is taken, engine_reason says why */
redco_status redco_question_settle(redco_question *question, redco_inputs *inputs, redco_error *err);

/** Lists the engines that may take the default's place: measured on this GPU, or, where none was, on GPUs like it.
 *  @param any        those without an exporter, too
 *  @param names_out  static */
redco_status redco_engine_rivals(const redco_inputs *inputs, bool any, const char *names_out[REDCO_MOST_RIVALS],
                                 uint32_t *count_out, redco_error *err);

/** Answers a variant of a settled question as it would be asked: where nobody named an engine, it is chosen anew.
 *  @param inputs   the settled question's
 *  @param gpus     of the variant
 *  @param options    in: the variant; out: those of its answer
 *  @param lacks_out  NULL, or how many of its choices the engine that answers does not have */
redco_status redco_question_ask(const redco_question *question, const redco_inputs *inputs, uint64_t gpus,
                                redco_search_options *options, size_t *lacks_out, redco_search_result **result_out,
                                redco_error *err);

/** Names the engine of a variant's answer.
 *  @param options  of redco_question_ask(), after it
 *  @return NULL: the question's own; else it lives as long as @p options */
const char *redco_question_other_engine(const redco_inputs *inputs, const redco_search_options *options);

/** The dimensions in which a layout has more than one rank or chunk: REDCO_HAS_... bits. */
uint32_t redco_setting_dimensions(const redco_parallelism *parallelism);

/** Lists given dimensions that the engine does not have: "pipeline stages", ...: it is priced as if the engine had it.
 *  @param lacks_out  static texts. @return their number */
size_t redco_options_lack(const redco_search_options *options, const redco_inputs *inputs,
                          const char *lacks_out[REDCO_MOST_LACKS]);

/** Where redco-exec's steps are planned, what it does not run is no choice: whatever is given is checked.
 *  @return REDCO_EVALUE, place "engine": the first that it does not run, on the machine's processors or GPUs, and the
 *          nearest that it does */
redco_status redco_options_executable(const redco_search_options *options, const redco_inputs *inputs,
                                      redco_error *err);

/** Names the given kind of stages or of context parallelism that the engine lacks while its degree is free: the search
 *  left it out (redco_search_allows.own_kinds).
 *  @return a static text, or NULL */
const char *redco_options_left_out(const redco_search_options *options, const redco_inputs *inputs);

/** @return whether a dimension is given that the search would else choose: 1 is a choice, too */
bool redco_options_give(const redco_search_options *options, redco_dimension_id id);
/** True when a degree, policy or name was given that the search would else choose. */
bool redco_options_fixed(const redco_search_options *options);
/** The same question with all of that left to the search. */
redco_search_options redco_options_freed(const redco_search_options *options);

/** The name of what the options ask for: "optimum", "fixed" or a named strategy. */
const char *redco_question_name(const redco_search_options *options);

#ifdef __cplusplus
}
#endif
#endif
