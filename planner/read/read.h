/** @file read.h  The file that a trainer is started with, read as a question to redco-plan: each key becomes an option
 * by the table of its trainer (trainers.h), so that the command line's checks are the file's, too. Nothing is run. What
 * was understood, what changes nothing, what was not understood and what was assumed is listed. */
#ifndef REDCO_READ_H
#define REDCO_READ_H

#include "topology/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_READ_FILES = 8, REDCO_READ_VERSION = 1 };

typedef struct redco_reading redco_reading;

typedef struct redco_read_question {
    const char *paths[REDCO_READ_FILES];
    uint32_t count;
    const char *as;                   /**< --read-as: a word of redco_read_kinds(); NULL: by content */
    uint64_t gpus;                    /**< those of the command line; 0: not given */
    uint32_t tp, pp, cp, micro_batch; /**< likewise */
    const char *model;                /**< likewise; NULL: not given */
    /** Says whether the command line gives an option, without dashes, which then goes before the files. */
    bool (*given)(const void *context, const char *option);
    const void *context;
    /** NULL, or one of the files, as redco_read() named it, and a text that is read in its place. */
    const char *changed, *changed_text;
    size_t changed_size;
} redco_read_question;

/** An option of redco-plan that the files set, in the order in which they are applied. */
typedef struct redco_read_option {
    const char *option, *value; /**< "tp", "8" */
    const char *place;          /**< "train.sh:12"; NULL: from several keys, or a default of the trainer */
    const char *key, *text;     /**< as they stand there: "--tensor-model-parallel-size", "8"; NULL with place */
} redco_read_option;

/** Lists of a reading. */
typedef enum redco_read_list {
    REDCO_READ_UNDERSTOOD,     /**< key, value, place; what: "tp 8" */
    REDCO_READ_HARMLESS,       /**< key, place */
    REDCO_READ_NOT_UNDERSTOOD, /**< key, value, place; what: why, or "" */
    REDCO_READ_ASSUMED,        /**< a text alone, in "what" */
    REDCO_READ_LISTS
} redco_read_list;

typedef struct redco_read_item {
    char *key, *value, *place, *what; /**< "" where the list has none */
} redco_read_item;

/** @return REDCO_EVALUE for a file that is malformed, contradictory or of no trainer that is known, and where a value
 * is needed that only a run knows: the option that gives it is named
 *  @param reading_out  freed with redco_reading_free() */
redco_status redco_read(const redco_read_question *question, redco_reading **reading_out, redco_error *err);
void redco_reading_free(redco_reading *reading);

size_t redco_reading_options(const redco_reading *reading, const redco_read_option **options_out);
size_t redco_reading_list(const redco_reading *reading, redco_read_list list, const redco_read_item **items_out);
/** The model's config.json where the files state its dimensions; NULL: they name it, or say nothing. Borrowed. */
const json_t *redco_reading_model(const redco_reading *reading);
/** "Megatron-LM", or of several files "accelerate, DeepSpeed". */
const char *redco_reading_title(const redco_reading *reading);
/** New reference, NULL when out of memory: planner/read/read.schema.json. */
json_t *redco_reading_json(const redco_reading *reading);

enum { REDCO_READ_WORDS = 100 };

/** A key, its value and another, as a file writes them. */
typedef struct redco_words {
    char key[REDCO_READ_WORDS], from[REDCO_READ_WORDS], to[REDCO_READ_WORDS]; /**< from: "" where it is not there */
} redco_words;

/** The words in which the files say a value of an option, or of a fact of the tables: "--tensor-model-parallel-size",
 * "8", "4". @return false: the trainer has no key for it */
bool redco_reading_words(const redco_reading *reading, const char *target, const char *value, redco_words *words_out);
/** @return NULL: the files do not set the option */
const redco_read_option *redco_reading_option(const redco_reading *reading, const char *option);

/** @return whether the files say a target of the tables themselves */
bool redco_reading_said(const redco_reading *reading, const char *target);
/** @return whether a key as a file writes it ("--tp-size", "a.b.tp_size") is the one of a table */
bool redco_key_same(const char *written, const char *key);

/** Words of --read-as, NULL-terminated. */
const char *const *redco_read_kinds(void);

#ifdef __cplusplus
}
#endif
#endif
