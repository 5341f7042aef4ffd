/** @file predict.h  Evaluation and generation by the model that a trainer has, on its ranks: between steps, with the
 *  weights as they are. Every rank makes the same calls; examples are split over the data-parallel ranks, and what
 * comes back is the same on all.
 *
 *  Examples of about one length are run together, padded; of at most eight lengths. The memory of it is taken for the
 *  call, beside what training has. */
#ifndef REDCO_PREDICT_H
#define REDCO_PREDICT_H

#include "costmodel/models/language_model.h"
#include "executor/data/examples.h"
#include "executor/trainer/sampling.h"
#include "executor/trainer/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The language model that continues prompts: the plan's, or a pipeline's; NULL: there is none. Borrowed. */
const redco_language_model *redco_trainer_generator(const redco_trainer *trainer);

/** The form of examples for that model. @param prompts  to be continued by @p max_tokens */
redco_examples_options redco_trainer_examples(const redco_trainer *trainer, bool prompts, uint32_t max_tokens);

typedef struct redco_evaluation {
    double loss; /**< mean over all targets of all examples */
    uint64_t examples, targets;
} redco_evaluation;

/** The caller knows that the examples are for the trainer's model.
 *  @param batch  sequences that a rank runs together; 0: the plan's micro-batch
 *  @return REDCO_EINFEASIBLE if a loss is not finite */
redco_status redco_trainer_evaluate(redco_trainer *trainer, const redco_examples *examples, uint32_t batch,
                                    redco_evaluation *evaluation_out, redco_error *err);

/** A pipeline's results on records: the mean loss over all of them, and its predictions. */
typedef struct redco_judgement {
    double loss;   /**< NaN without */
    double weight; /**< all examples' together: their number, unless the pipeline weighs them */
    uint64_t examples;
    uint32_t values;     /**< numbers of an example's prediction; 0: it predicts nothing */
    double *predictions; /**< [example][values] */
} redco_judgement;

/** The same on all plans to rounding: batches do not depend on the ranks, and the last, shorter one is a graph of its
 * own.
 *  @param with_loss      records have what the loss asks for
 *  @param judgement_out  to be freed with redco_judgement_free()
 *  @return REDCO_EVALUE if predict() gives no value of [examples, ...]; REDCO_EINFEASIBLE if the loss is not finite */
redco_status redco_trainer_judge(redco_trainer *trainer, const redco_records *records, uint32_t batch, bool with_loss,
                                 redco_judgement *judgement_out, redco_error *err);
void redco_judgement_free(redco_judgement *judgement); /**< an all-zero one is accepted */

typedef struct redco_generation_options {
    uint32_t batch;      /**< as above */
    uint32_t max_tokens; /**< that are generated of a sequence, unless its end comes first; at least 1 */
    redco_sampling sampling;
    const int32_t *ends; /**< tokens that end a sequence: the config's "eos_token_id" */
    uint32_t end_count;
    /** Tokens that a config forces, where it does: the first of an encoder-decoder model, and the last where the room
     * of a sequence ends. */
    bool forces_first, forces_last;
    int32_t first, last;
} redco_generation_options;

/** The generated tokens, by example. */
typedef struct redco_predictions {
    int32_t *tokens;     /**< [example][max_tokens] */
    uint32_t *counts;    /**< tokens of each example, without the end */
    bool *ended;         /**< a token that ends it came */
    uint32_t max_tokens; /**< room of an example */
    uint64_t count;      /**< examples */
    uint32_t graphs;     /**< that were built: one for each padded length, and one for the tokens behind */
} redco_predictions;

/** Each token takes the time of one token, however many came before: keys and values are kept, on each tensor-parallel
 *  rank those of its heads.
 *  @param predictions_out  to be freed with redco_predictions_free()
 *  @return REDCO_EVALUE if the model has no room for prompt and max_tokens; REDCO_EINFEASIBLE if a logit is no number
 */
redco_status redco_trainer_generate(redco_trainer *trainer, const redco_examples *examples,
                                    const redco_generation_options *options, redco_predictions *predictions_out,
                                    redco_error *err);
void redco_predictions_free(redco_predictions *predictions); /**< an all-zero one is accepted */

#ifdef __cplusplus
}
#endif
#endif
