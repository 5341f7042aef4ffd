/** @file decoder.h  Internal to models: what the families share. A family reads like its paper: each call names the
 *  simulator's operator (costmodel/README.md, section 2) and the module whose parameters it uses. */
#ifndef REDCOI_DECODER_H
#define REDCOI_DECODER_H

#include "costmodel/graph/build_calls.h"
#include "costmodel/models/language_model.h"

typedef enum redcoi_activation {
    REDCOI_ACTIVATION_SILU,
    REDCOI_ACTIVATION_GELU,
    REDCOI_ACTIVATION_GELU_TANH,
    REDCOI_ACTIVATION_RELU
} redcoi_activation;

typedef enum redcoi_rope_kind { REDCOI_ROPE_PLAIN, REDCOI_ROPE_LINEAR, REDCOI_ROPE_LLAMA3 } redcoi_rope_kind;

/** Rotary positions: angles position x theta^(-2i/size), scaled. */
typedef struct redcoi_rope {
    uint64_t size; /**< rotated elements of a head; 0: the model has none */
    double theta;
    bool interleaved;
    redcoi_rope_kind kind;
    double factor;                   /**< LINEAR, LLAMA3 */
    double low, high, old_positions; /**< LLAMA3 */
} redcoi_rope;

/** What a family's file reads from the config beside the dimensions. */
typedef struct redcoi_settings {
    double norm_epsilon, deviation;
    redcoi_activation activation;
    redcoi_rope rope;
    uint64_t window;       /**< keys that a query sees; 0 = all before it */
    uint32_t first_window; /**< first layer with a window */
    double score_scale;    /**< 0: 1 / sqrt(head size) */
    bool scale_by_layer;   /**< scores of layer i also over i + 1 */
    bool post_norm;        /**< OPT-350M: norms behind the residual sums */
    bool no_final_norm;    /**< likewise */
    bool sequential;       /**< GPT-NeoX: FFN after attention */
} redcoi_settings;

typedef struct redcoi_family redcoi_family;

struct redco_language_model {
    const redco_model *model;
    const redco_model_dims *dims;
    const redcoi_family *family;
    redcoi_settings set;
    redco_task task;
    redco_task_parameter *parameters; /**< owns names and layers */
    redco_task_input inputs[2];
};

/** One forward pass that is being built. */
typedef struct redcoi_pass {
    redco_scope *scope;
    redco_graph *g;
    const redco_language_model *lm;
    const redcoi_settings *set;
    const redco_model_dims *dims;
    uint64_t batch, length;
    uint32_t layer;
    char prefix[64];            /**< of the parameters of the layer: "model.layers.3." */
    redco_value cosines, sines; /**< of the rotary positions */
} redcoi_pass;

/** Reads the config, whose first error is kept, as a list of settings. */
typedef struct redcoi_reader {
    redco_json_value config;
    redco_status status;
    redco_error *err;
} redcoi_reader;

struct redcoi_family {
    const char *type;
    const char *prefix; /**< of a layer's parameters: "model.layers." */
    const char *fused;  /**< module whose columns are queries, then keys, then values; NULL: none */
    void (*read)(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *settings_out);
    redco_value (*embed)(redcoi_pass *p, redco_value tokens); /**< to [batch, length, hidden] */
    redco_value (*block)(redcoi_pass *p, redco_value x);
    redco_value (*head)(redcoi_pass *p, redco_value x); /**< to logits */
};

extern const redcoi_family redcoi_family_llama, redcoi_family_mistral, redcoi_family_qwen2, redcoi_family_gpt2,
    redcoi_family_gptj, redcoi_family_gpt_neox, redcoi_family_opt;

/* LLaMA's parts, which Mistral and Qwen2 have too. */
void redcoi_llama_read(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *settings_out);
redco_value redcoi_llama_embed(redcoi_pass *p, redco_value tokens);
redco_value redcoi_llama_block(redcoi_pass *p, redco_value x);
redco_value redcoi_llama_head(redcoi_pass *p, redco_value x);

/* settings.c */

double redcoi_read_number(redcoi_reader *r, const char *key, double fallback, double min, double max);
bool redcoi_read_bool(redcoi_reader *r, const char *key, bool fallback);
uint64_t redcoi_read_count(redcoi_reader *r, const char *key, uint64_t fallback, uint64_t max);
redcoi_activation redcoi_read_activation(redcoi_reader *r, const char *key, redcoi_activation fallback);
/** "rope_scaling": default, linear, llama3; others are refused. */
void redcoi_read_rope_scaling(redcoi_reader *r, redcoi_rope *rope);
void redcoi_read_fail(redcoi_reader *r, const char *key, const char *text);

/* decoder.c: operators. Modules are named without the layer's prefix, or whole if they begin with "/". */

redco_value redcoi_lm_weight(redcoi_pass *p, const char *module, const char *leaf);
/** x W, + b if the module has a bias. */
redco_value redcoi_lm_product(redcoi_pass *p, const char *operator_name, const char *module, redco_value x);
redco_value redcoi_lm_rms_norm(redcoi_pass *p, const char *operator_name, const char *module, redco_value x);
/** Gain and shift are 1 and 0 if the module has no parameters. */
redco_value redcoi_lm_layer_norm(redcoi_pass *p, const char *operator_name, const char *module, redco_value x);
/** Rows of a table in the compute type. */
redco_value redcoi_lm_rows(redcoi_pass *p, const char *module, redco_value index);
/** Positions 0, 1, ... plus @p offset, i32 [length]. */
redco_value redcoi_lm_positions(redcoi_pass *p, int32_t offset);
/** [batch, length, heads x size] to [batch, length, heads, size]: no work. */
redco_value redcoi_lm_heads(redcoi_pass *p, redco_value x, uint64_t heads);
/** q and k turned by their positions, under "rotary". */
void redcoi_lm_rotate(redcoi_pass *p, redco_value *q, redco_value *k);
/** Causal attention, to [batch, length, heads x size]. */
redco_value redcoi_lm_attention(redcoi_pass *p, redco_value q, redco_value k, redco_value v);
redco_value redcoi_lm_activate(redcoi_pass *p, redco_value x);
/** Logits by a matrix of its own, or by the table. */
redco_value redcoi_lm_logits(redcoi_pass *p, const char *module, const char *table, redco_value x);

/* rope.c */

/** Tables of the pass, if the model has rotary positions. */
void redcoi_lm_rotary_tables(redcoi_pass *p);

#endif
