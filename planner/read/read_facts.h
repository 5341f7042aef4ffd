/** @file read_facts.h  Inside planner/read: what the keys of all files say, by the targets of the tables, and the
 * options that follow. */
#ifndef REDCO_READ_FACTS_H
#define REDCO_READ_FACTS_H

#include "planner/read/read.h"
#include "planner/read/trainers.h"

enum { REDCOI_FACT_TEXT = 200, REDCOI_MOST_FACTS = 1024, REDCOI_MOST_UNITS = 128 };

typedef struct redcoi_fact {
    const char *target;
    char value[REDCOI_FACT_TEXT];
    size_t setting; /**< its index */
    const redcoi_trainer_key *row;
    const redcoi_trainer *trainer;
    uint32_t group; /**< the file that was given, with what it sources */
} redcoi_fact;

struct redco_reading {
    const redco_read_question *question; /**< until redco_read() returns */
    redcoi_file_settings settings;
    redcoi_fact facts[REDCOI_MOST_FACTS];
    size_t fact_count;
    const redcoi_trainer *trainers[REDCO_READ_FILES]; /**< one for each file that was given */
    bool arguments[REDCO_READ_FILES];                 /**< its keys are arguments */
    uint32_t group_count;
    redco_read_option *options;
    size_t option_count;
    redco_read_item *lists[REDCO_READ_LISTS];
    size_t list_counts[REDCO_READ_LISTS];
    json_t *model;
    char title[200], engine[400];
    redco_status status; /**< the first failure; every call is a no-op after it */
    redco_error *err;
};

/** The value of a target, the trainers' default where the files are silent, or NULL. An empty value is none. */
const char *redcoi_value(redco_reading *reading, const char *target);
/** The same of what the files say and a run need not: NULL also where a variable is not set. */
const char *redcoi_known(const redco_reading *reading, const char *target);
/** The text that stands in the file, which may be longer than a fact's. NULL: none, or null. */
const char *redcoi_whole_text(const redco_reading *reading, const char *target);
/** The same of what the files say alone. */
const redcoi_fact *redcoi_said(const redco_reading *reading, const char *target);
/** A whole number from 1; @p other where none is said. Fails at another text. */
uint64_t redcoi_fact_number(redco_reading *reading, const char *target, uint64_t other);
bool redcoi_is(redco_reading *reading, const char *target, const char *value);
/** The command line gives an option. */
bool redcoi_given(const redco_reading *reading, const char *option);
redco_status redcoi_fact_fail(redco_reading *reading, const redcoi_fact *fact, const char *what);

/** "--tp" of an argument, the key itself elsewhere. */
void redcoi_written_key(const redcoi_setting *setting, char *out, size_t size);
/** Adds an option. @param target  the fact that it is, for its place; NULL: it follows from several */
void redcoi_set_option(redco_reading *reading, const char *option, const char *value, const char *target);
void redcoi_set_number(redco_reading *reading, const char *option, uint64_t value, const char *target);
__attribute__((format(printf, 2, 3))) void redcoi_assume(redco_reading *reading, const char *format, ...);
/** Adds to a list; the texts are copied. */
void redcoi_list_add(redco_reading *reading, redco_read_list list, const char *key, const char *value,
                     const char *place, const char *what);

/** Degrees that all the rest follows from. */
typedef struct redcoi_layout {
    uint64_t gpus, tp, pp, cp, dp;
    bool known; /**< tp x pp x cp divides the GPUs */
} redcoi_layout;

/** Facts that follow from several keys of an FSDP JSON: degrees from its device mesh, layers of stages. */
void redcoi_follow_mesh(redco_reading *reading);

/** Options from facts: settle.c, settle_shards.c, settle_engine.c, settle_model.c, settle_adapters.c. */
void redcoi_settle(redco_reading *reading);
void redcoi_settle_shards(redco_reading *reading, const redcoi_layout *l);
void redcoi_settle_engine(redco_reading *reading);
void redcoi_settle_model(redco_reading *reading);
void redcoi_settle_adapters(redco_reading *reading);
/** A word of a trainer among those of the files. */
bool redcoi_has_trainer(const redco_reading *reading, const char *word);

#endif
