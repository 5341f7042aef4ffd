/** @file model_build.h  Internal to costmodel: what the readers of the model families share. A build carries its first
 *  error; after it every call is a no-op, so that a family reads as a list of its tensors. */
#ifndef REDCOI_MODEL_BUILD_H
#define REDCOI_MODEL_BUILD_H

#include "costmodel/models/model.h"

enum {
    REDCOI_MODEL_CLASSES = 4,
    REDCOI_MODEL_NAME_SIZE = 160,
    REDCOI_MODEL_KEYS = 48,
    REDCOI_MODEL_WARNINGS = 2,
    /* Beyond any model, small enough that products of two dimensions fit into 64 bits with room. */
    REDCOI_MAX_WIDTH = 1 << 20,
    REDCOI_MAX_FFN = 1 << 23,
    REDCOI_MAX_HEADS = 1 << 16,
    REDCOI_MAX_LAYERS = 10000,
    REDCOI_MAX_ROWS = 1 << 27
};

struct redco_model {
    char *name;
    const char *type; /**< static */
    redco_model_dims dims;
    redco_layer_class classes[REDCOI_MODEL_CLASSES];
    size_t class_count;
    redco_param *params;
    size_t param_count, param_capacity;
    uint64_t total_params;
    json_t *config;
    json_t *defaults;                      /**< sizes that the config leaves out: {"hidden_size": 4096, ...} */
    char *warnings[REDCOI_MODEL_WARNINGS]; /**< what is odd about the config; NULL behind the last */
};

typedef struct redcoi_build {
    redco_model *model;
    redco_json_value config;
    const char *prefix; /**< of the tensors of the current class, e.g. "model.layers.{}." */
    redco_status status;
    redco_error *err;
    /** Keys that the reader asked for, static texts, and which of them took their default. */
    const char *asked[REDCOI_MODEL_KEYS];
    bool absent[REDCOI_MODEL_KEYS];
    size_t asked_count;
} redcoi_build;

/** @return false after the first error */
bool redcoi_building(const redcoi_build *build);
/** Records an error at a key of the config. */
__attribute__((format(printf, 3, 4))) void redcoi_build_fail(redcoi_build *build, const char *key, const char *format,
                                                             ...);

/** A positive whole number, or @p fallback, the family's default, where the key is absent or null: the model's defaults
 *  then have it. @p alias is the common name that transformers maps to the key (PretrainedConfig.attribute_map); it
 * wins when both are there; may be NULL. */
uint32_t redcoi_config_u32(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max);
/** The same for a key whose @p fallback follows from other keys: no default of the model. */
uint32_t redcoi_config_derived(redcoi_build *build, const char *key, const char *alias, uint32_t fallback,
                               uint32_t max);
bool redcoi_config_bool(redcoi_build *build, const char *key, bool fallback);
/** A probability above 0. */
bool redcoi_config_dropout(redcoi_build *build, const char *key, double fallback);
/** Keeps a warning about a key that is unknown here and nearly that of an absent one.
 *  Configs carry many keys that are of no interest, so anything less alike is none. */
void redcoi_config_spelling(redcoi_build *build);
/** Keeps a warning that names the model's defaults. */
void redcoi_config_defaults(redcoi_build *build);
/** Fails unless @p divisor divides @p value; @p key is where the divisor stands. */
void redcoi_config_divides(redcoi_build *build, const char *key, uint32_t divisor, const char *value_name,
                           uint32_t value);

/** Starts a layer class; the calls below add to it. "{}" in @p prefix stands for the layer index. */
void redcoi_class(redcoi_build *build, const char *name, redco_class_kind kind, uint32_t layers, const char *prefix);
void redcoi_linear(redcoi_build *build, const char *name, uint64_t out, uint64_t in, bool bias);
/** The bias alone of a linear whose weight is tied. */
void redcoi_bias(redcoi_build *build, const char *name, uint64_t width);
/** GPT-2's Conv1D: weight [in, out], with bias. */
void redcoi_conv1d(redcoi_build *build, const char *name, uint64_t in, uint64_t out);
void redcoi_table(redcoi_build *build, const char *name, uint64_t rows, uint64_t columns);
void redcoi_rms_norm(redcoi_build *build, const char *name, uint64_t width);
void redcoi_layer_norm(redcoi_build *build, const char *name, uint64_t width, bool bias);

/** One reader for each group of alike families; model->type says which. */
void redcoi_build_llama(redcoi_build *build);
void redcoi_build_gpt2(redcoi_build *build);
void redcoi_build_gptj(redcoi_build *build);
void redcoi_build_gpt_neox(redcoi_build *build);
void redcoi_build_opt(redcoi_build *build);
void redcoi_build_bloom(redcoi_build *build);
void redcoi_build_mpt(redcoi_build *build);
void redcoi_build_t5(redcoi_build *build);
void redcoi_build_bart(redcoi_build *build);
void redcoi_build_generic(redcoi_build *build);

#endif
