/** @file tokens.h  Training data: sequences of token ids, from a file or made from the seed. A sequence is a function
 * of its number in the run, so that every plan sees the same global batches, however they are cut. */
#ifndef REDCO_TOKENS_H
#define REDCO_TOKENS_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_tokens redco_tokens;

typedef struct redco_tokens_options {
    uint64_t seed;
    uint64_t vocabulary; /**< ids are below it */
    uint32_t seq_len;
    /** For encoder-decoder models: the targets of a sequence are the seq_len ids that follow all of it, in place of the
     *  one that follows each id. */
    bool continued;
    bool in_order; /**< windows of a file are taken in its order; else in another one every epoch */
} redco_tokens_options;

/** A file of ids (executor/data/ids_file.h). It is cut into windows of seq_len tokens (each with the one that follows
 *  it), or of 2 seq_len if they are continued; rows of an array are the windows, with what follows.
 *  @param id_bytes  2 or 4; 0: 2 if the vocabulary fits into 16 bits, else 4
 *  @return REDCO_EVALUE if the size is no multiple, or less than one window */
redco_status redco_tokens_open(const char *path, uint32_t id_bytes, const redco_tokens_options *options,
                               redco_tokens **tokens_out, redco_error *err);
/** The same from memory, borrowed until it is closed. */
redco_status redco_tokens_parse(const void *bytes, size_t size, const char *name, uint32_t id_bytes,
                                const redco_tokens_options *options, redco_tokens **tokens_out, redco_error *err);
/** Made from the seed: from one id to the next by one of four rules, so that there is something to learn and the loss
 *  can fall to log 4. */
redco_status redco_tokens_random(const redco_tokens_options *options, redco_tokens **tokens_out, redco_error *err);
void redco_tokens_close(redco_tokens *tokens); /**< NULL is accepted */

/** Sequences of an epoch; 0 if they never repeat. */
uint64_t redco_tokens_windows(const redco_tokens *tokens);

/** Sequence @p number of the run.
 *  @param tokens_out   seq_len ids
 *  @param targets_out  the ids that follow them, or it
 *  @return REDCO_EVALUE if an id of the file is not below the vocabulary */
redco_status redco_tokens_sequence(const redco_tokens *tokens, uint64_t number, int32_t *tokens_out,
                                   int32_t *targets_out, redco_error *err);

/** A permutation of 0 to @p count - 1 for every epoch, which the seed determines: what is taken as the @p index-th. */
uint64_t redco_tokens_order(uint64_t seed, uint64_t count, uint64_t epoch, uint64_t index);

/** Where a micro-batch lies in its step. */
typedef struct redco_batch_place {
    uint64_t step;        /**< from 0 */
    uint64_t micro_batch; /**< number on the rank, from 0 */
    uint32_t dp_rank, dp_ranks;
    uint64_t micro_batches; /**< micro-batches of a rank in a step */
    uint32_t sequences;     /**< sequences of a micro-batch */
} redco_batch_place;

/** Number in the run of the first sequence of a micro-batch; the others follow it. Micro-batch m of all ranks together
 *  are consecutive sequences, so that one rank alone with as many micro-batches adds up the same ones. */
uint64_t redco_batch_first(const redco_batch_place *place);
/** All sequences of a micro-batch: @p tokens_out and @p targets_out have sequences x seq_len ids. */
redco_status redco_tokens_batch(const redco_tokens *tokens, const redco_batch_place *place, int32_t *tokens_out,
                                int32_t *targets_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
