/** @file question.h  A planning question: names of what is read, options of the search, and choices that are left to
 *  redco. redco-plan asks with these calls, so that a program gets the plan that the tool gives:
 *
 *      redco_question question = redco_question_default();
 *      question.names.cluster = "dgx-h100";
 *      question.gpus = 64;
 *      redco_question_read(&question, &inputs, &err);
 *      redco_question_settle(&question, &inputs, &pick, &err);
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

enum { REDCO_MOST_SIZES = 64, REDCO_MOST_LACKS = 20 };

typedef struct redco_question {
    redco_input_names names;
    uint64_t gpus;                    /**< 0: all that the cluster has */
    uint64_t sizes[REDCO_MOST_SIZES]; /**< numbers of GPUs to compare, in place of @p gpus */
    uint32_t size_count;              /**< 0: one question */
    redco_search_options options;
    const char *split; /**< redco_split_read() of pp and chunks of the options; NULL: equal shares. Borrowed */
    uint32_t positions[REDCO_SPLIT_POSITIONS_MAX]; /**< filled by redco_question_read(), for the options */
    bool try_engines; /**< takes the measured engine that is clearly faster: redco_question_settle() */
} redco_question;

/** 1024 sequences of 4096 tokens a step in bf16 on the default model and cluster; everything else is optimised. */
redco_question redco_question_default(void);

/** Reads what @p question names; of several sizes, for the first that the cluster can have.
 *  @param question    its options take the tensor-parallel rules that were read, borrowed from @p inputs_out
 *  @param inputs_out  freed with redco_inputs_free(); warnings: redco_cluster_warning(), redco_model_warning(),
 *                     redco_comm_warning() */
redco_status redco_question_read(redco_question *question, redco_inputs *inputs_out, redco_error *err);

/** The result of trying the engines. */
typedef struct redco_engine_pick {
    bool tried;
    uint32_t others;               /**< measured on this GPU, beside the default */
    bool another;                  /**< than the default was taken */
    bool replaced;                 /**< the default lacks what the best layout has: one that has it was taken */
    char usual[REDCO_ENGINE_NAME]; /**< the default */
    bool usual_fits;               /**< the default has a plan */
    double gain_ratio;             /**< then tokens/s against the default's - 1 */
    redco_error usual_bad;         /**< else what machine or model rules out, or */
    uint64_t usual_short_bytes;    /**< bytes that a GPU lacks, and */
    const char *usual_largest;     /**< the part that needs most: static */
} redco_engine_pick;

/** Settles whose steps are planned and puts that engine into the options. With try_engines every engine that was
 *  measured on the GPU is asked; the default stays unless another one's band lies above its: bands overlap where the
 *  calibrations cannot tell. Without it, a default that nobody named and that lacks a dimension of the best layout
 *  (pipeline stages, say) is replaced by an engine that has it, was measured on this GPU and has an exporter, if there
 *  is one; of several sizes the first that the cluster has decides.
 *  @param inputs    of redco_question_read(); read again where another engine is taken */
redco_status redco_question_settle(redco_question *question, redco_inputs *inputs, redco_engine_pick *pick_out,
                                   redco_error *err);

/** The dimensions in which a layout has more than one rank or chunk: REDCO_HAS_... bits. */
uint32_t redco_setting_dimensions(const redco_parallelism *parallelism);

/** Lists given dimensions that the engine does not have: "pipeline stages", ...: it is priced as if the engine had it.
 *  @param lacks_out  static texts. @return their number */
size_t redco_options_lack(const redco_search_options *options, const redco_inputs *inputs,
                          const char *lacks_out[REDCO_MOST_LACKS]);

/** The name of what the options ask for: "optimum", "fixed" or a named strategy. */
const char *redco_question_name(const redco_search_options *options);

#ifdef __cplusplus
}
#endif
#endif
