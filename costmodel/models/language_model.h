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
const redco_model *redco_language_model_of(const redco_language_model *lm);

enum { REDCO_PREFIX_MAX = 64 };
/** Puts @p prefix before all names of its parameters, so that a graph can have several models.
 *  @param prefix  at most REDCO_PREFIX_MAX bytes */
redco_status redco_language_model_rename(redco_language_model *lm, const char *prefix, redco_error *err);

/** Logits [sequences, length, vocabulary] of tokens, in the compute type, for predictions and losses of one's own; of
 *  decoder-only models. The parameters must be declared, as redco_task_build() does. */
redco_value redco_language_model_logits(redco_scope *scope, const redco_language_model *lm, redco_value tokens);

/* Generation: a graph for prompts of one length, and one for the token behind what there is of each sequence. */

/** Tensors that stay from one token to the next: keys and values [batch, keys, heads, size] of a layer. */
typedef struct redco_generation_cache {
    char name[40];  /**< the input's: "keys.3", "values.3", "source_keys.3" */
    uint32_t place; /**< the same in both graphs: below REDCO_GENERATION_CACHES times the layers */
    redco_tensor_type type;
    redco_value input;  /**< kept so far; of no meaning before the prompt */
    redco_value output; /**< kept from here on; REDCO_NO_VALUE: the same */
} redco_generation_cache;

/** All the tensors of a batch of sequences lie at their first places: what is behind the end of a prompt is padding,
 *  which nothing sees. */
typedef struct redco_generation_shape {
    uint64_t batch;
    uint64_t prompt; /**< padded length; of encoder-decoder models of the source */
    uint64_t keys; /**< room for the tokens of a sequence: prompt and generated; of encoder-decoder models generated */
    uint64_t source_keys; /**< encoder-decoder models: room for the source */
} redco_generation_shape;

enum { REDCO_GENERATION_CACHES = 4 };

typedef struct redco_generation_graph {
    redco_graph *graph;
    redco_value logits; /**< [batch, 1, vocabulary] of the next token; REDCO_NO_VALUE of a source */
    redco_generation_cache *caches;
    uint32_t cache_count;
} redco_generation_graph;

/** Inputs of the first graph: "tokens" i32 [batch, prompt]; "last" i32 [batch], i × prompt + length - 1 of sequence i,
 * or, of encoder-decoder models, "lengths" i32 [batch]. Of the second: "tokens" i32 [batch, 1], "positions" i32
 * [batch, 1], and "lengths". The decoder of an encoder-decoder model begins with its start token at position 0.
 *  @param decoding  the second
 *  @param storage, compute  of parameters, and of products and caches
 *  @param out       to be freed with redco_generation_graph_free()
 *  @return REDCO_EVALUE if the model has fewer positions than @p shape */
redco_status redco_language_model_generation(const redco_language_model *lm, const redco_generation_shape *shape,
                                             bool decoding, redco_dtype storage, redco_dtype compute,
                                             redco_generation_graph *out, redco_error *err);
void redco_generation_graph_free(redco_generation_graph *graph); /**< an all-zero one is accepted */
/** The token with which the decoder of an encoder-decoder model begins. */
int32_t redco_language_model_start_token(const redco_language_model *lm);

#ifdef __cplusplus
}
#endif
#endif
