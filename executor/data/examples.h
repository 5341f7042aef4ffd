/** @file examples.h  Examples of a language model to train on, to evaluate or to continue, in the order of the file. */
#ifndef REDCO_EXAMPLES_H
#define REDCO_EXAMPLES_H

#include "topology/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_examples redco_examples;

typedef struct redco_examples_options {
    uint64_t vocabulary;  /**< ids are below it */
    uint32_t seq_len;     /**< most tokens of an example, and of its targets */
    bool encoder_decoder; /**< targets are a text of their own */
    bool prompts;         /**< to be continued: no targets are asked for, and none are read */
    bool skip_bad;        /**< records that are not so are left out and counted, unless all are */
    bool bytes;           /**< texts are bytes for any vocabulary: else for one of few more ids than that alone */
} redco_examples_options;

/** Says whether a path is one of records, JSON lines or a folder of arrays, and not one of ids. */
bool redco_examples_are_records(const char *path);
/** Two kinds of files. "*.jsonl", JSON lines: an object with "tokens", ids, or "text", whose bytes are the ids (of a
 *  larger vocabulary, whose words are a tokenizer's, only if the options say so); and
 *  "targets", as many ids as there are tokens, with -100 where nothing is asked for. Without targets they are the
 * tokens that follow. Those of an encoder-decoder model are a text of their own ("target_text" is its bytes) and must
 * be there. Other keys are left alone. A folder has the same in arrays, "tokens.npy"
 *  for one (executor/data/record_file.h). Any other file: ids (executor/data/ids_file.h), cut into windows of seq_len
 *  tokens as for training (executor/data/tokens.h), the last of which may be shorter; no prompts.
 *  @return REDCO_EVALUE for a file that is not so, by line, or has no example; REDCO_EIO if it cannot be read */
redco_status redco_examples_open(const char *path, const redco_examples_options *options, redco_examples **examples_out,
                                 redco_error *err);
void redco_examples_close(redco_examples *examples); /**< NULL is accepted */
/** Those at the beginning, at most @p count of them; @p examples must outlive them. */
redco_status redco_examples_begin(const redco_examples *examples, uint64_t count, redco_examples **examples_out,
                                  redco_error *err);

typedef struct redco_example {
    const int32_t *tokens, *targets;
    uint32_t token_count, target_count; /**< alike, unless of an encoder-decoder model; no targets of prompts */
    uint32_t asked;                     /**< targets that are asked for */
    bool text;                          /**< its ids are bytes */
    const json_t *line;                 /**< a prompt's, as it was given; else NULL */
} redco_example;

uint64_t redco_examples_count(const redco_examples *examples);   /**< at least 1 */
uint64_t redco_examples_skipped(const redco_examples *examples); /**< records left out */
/** Borrowed until it is closed. @param index  below the count */
redco_example redco_examples_get(const redco_examples *examples, uint64_t index);

#ifdef __cplusplus
}
#endif
#endif
