/** @file trainers.h  One table for each trainer: which of its keys sets which option of redco-plan, which key of a
 * model's config.json, which trait of its engine, and which changes nothing of a step. Reading looks keys up in it, and
 * exports look up how a trainer says what a plan says: both have this table alone. */
#ifndef REDCO_READ_TRAINERS_H
#define REDCO_READ_TRAINERS_H

#include "planner/read/forms/read_settings.h"

typedef enum redcoi_means {
    REDCOI_MEANS_OPTION,   /**< target: an option of redco-plan, or with a "." in front a fact that options follow from
                              (settle.c) */
    REDCOI_MEANS_MODEL,    /**< target: a key of config.json, or "." as above */
    REDCOI_MEANS_TRAIT,    /**< target: a trait of the engine */
    REDCOI_MEANS_ENGINE,   /**< the engine is priced as it was measured, whatever the key says; target: what it is */
    REDCOI_MEANS_LIMIT,    /**< changes the step, and no option says so; target: what it changes */
    REDCOI_MEANS_HARMLESS, /**< changes nothing of a step: data, logs, learning rates, checkpoints; key may end with "*"
                            */
    REDCOI_MEANINGS
} redcoi_means;

typedef struct redcoi_trainer_key {
    const char *key; /**< without dashes in front; "-" and "_" are the same */
    redcoi_means means;
    const char *target;
    const char *values; /**< "theirs=ours ...": "true" is any word for yes, "*" any other value; nothing behind "=": the
                           default stays. NULL: as it is */
} redcoi_trainer_key;

/** A trainer. Tables end with a key of NULL. */
typedef struct redcoi_trainer {
    const char *word;   /**< a word of --read-as */
    const char *title;  /**< for people */
    const char *engine; /**< its steps are priced; NULL: follows from the facts */
    const redcoi_trainer_key *keys;
    const char *const *prefixes; /**< sections whose keys stand in the table without them; NULL-terminated or NULL */
    const char *const
        *defaults;  /**< "target", "value" in pairs of what holds where the file is silent; NULL-terminated */
    bool variables; /**< a script's variables are its keys */
    const struct redcoi_trainer *core; /**< its keys are read, too, behind core_section: "model."; NULL: none */
    const char *core_section;
} redcoi_trainer;

extern const redcoi_trainer redcoi_megatron_keys, redcoi_megatron_bridge_keys, redcoi_swift_keys, redcoi_mlperf_keys,
    redcoi_fsdp_keys, redcoi_deepspeed_keys, redcoi_accelerate_keys, redcoi_transformers_keys, redcoi_torchtitan_keys,
    redcoi_nemo_keys, redcoi_neox_keys, redcoi_foundry_keys, redcoi_maxtext_keys, redcoi_axolotl_keys,
    redcoi_internevo_keys, redcoi_litgpt_keys, redcoi_llamafactory_keys;

enum { REDCOI_TRAINERS_MOST = 24, REDCOI_MOST_KEY_NAME = 120 };
/** NULL-terminated; the order decides where a file could be of two. */
extern const redcoi_trainer *const redcoi_trainers[];
/** Arguments of torchrun, accelerate launch, deepspeed, srun and sbatch. */
extern const redcoi_trainer redcoi_launcher;

/** The row of a key, of the trainer or of its core; of several that end with "*" the longest.
 *  @return NULL: no table has it */
const redcoi_trainer_key *redcoi_key_of(const redcoi_trainer *trainer, const char *key);
/** The option's value for one of the file. @return false: no value of the row's list */
bool redcoi_key_value(const redcoi_trainer_key *row, const char *value, char *out, size_t size);
/** The first key of a trainer that can set a target to a value of redco's ("": its default), with what it writes
 *  there. @return NULL: none can */
const redcoi_trainer_key *redcoi_key_for(const redcoi_trainer *trainer, const char *target, const char *value,
                                         char *text_out, size_t size);
/** Writes a value of redco's as a row says it. @return false: it cannot */
bool redcoi_key_text(const redcoi_trainer_key *row, const char *value, char *out, size_t size);
/** A row's key as the trainer writes it: those of its core stand in core_section. @return @p buffer */
const char *redcoi_key_name(const redcoi_trainer *trainer, const redcoi_trainer_key *row, char *buffer, size_t size);
/** The trainer that knows most keys of a file. @return NULL: none knows any */
const redcoi_trainer *redcoi_trainer_of(const redcoi_file_settings *settings, size_t first, size_t count);

#endif
