/** @file language_model.h  Language models as tasks: all families of redco-plan but "generic", each in one file
 *  (family.h). A model is described by its HuggingFace config, as in plan files; architectures are those of
 * transformers 4.48 (Qwen3: 4.51), without dropout and padding.
 *
 *  Inputs of a micro-batch: "tokens", i32 [sequences, length], and "targets", likewise, the tokens that follow; -100
 *  where none is asked for. An encoder-decoder model (t5, mt5, bart) encodes "tokens" and decodes "targets": its
 * decoder reads the start token and then each target but the last, padding in place of those below 0. The loss is the
 * mean cross-entropy of the targets of the micro-batch. */
#ifndef REDCO_LANGUAGE_MODEL_H
#define REDCO_LANGUAGE_MODEL_H

#include "costmodel/models/model.h"
#include "costmodel/models/task.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_language_model redco_language_model;

/** @param model        borrowed until the language model is freed
 *  @param micro_batch  sequences
 *  @return REDCO_EVALUE if the family is not one of those above, or the config asks for what is not built: the text
 *          names key and value */
redco_status redco_language_model_create(const redco_model *model, uint32_t micro_batch, uint32_t seq_len,
                                         redco_language_model **language_model_out, redco_error *err);
void redco_language_model_free(redco_language_model *lm); /**< NULL is accepted */

const redco_task *redco_language_model_task(const redco_language_model *lm);
/** Logits [sequences, length, vocabulary] of tokens, in the compute type, for predictions and losses of one's own; of
 *  decoder-only models.  *  The parameters must be declared, as redco_task_build() does. */
redco_value redco_language_model_logits(redco_scope *scope, const redco_language_model *lm, redco_value tokens);

#ifdef __cplusplus
}
#endif
#endif
