/** @file family.h  Internal to models: what the families share. A family is one file: its config keys with their
 *  defaults, its parameter tensors and, where redco-exec trains it, its graph; REDCOI_FAMILIES lists them all. */
#ifndef REDCOI_FAMILY_H
#define REDCOI_FAMILY_H

#include "costmodel/graph/build_calls.h"
#include "costmodel/models/language_model.h"
#include "costmodel/models/layer_nodes.h"
#include "costmodel/models/model.h"

/** The table of families, in the order in which messages list them: one row a model type. */
#define REDCOI_FAMILIES(ROW)                                                                                           \
    ROW(llama)                                                                                                         \
    ROW(mistral)                                                                                                       \
    ROW(qwen2)                                                                                                         \
    ROW(qwen3)                                                                                                         \
    ROW(internlm2)                                                                                                     \
    ROW(gemma)                                                                                                         \
    ROW(gpt2)                                                                                                          \
    ROW(gptj)                                                                                                          \
    ROW(gpt_neox)                                                                                                      \
    ROW(opt)                                                                                                           \
    ROW(bloom)                                                                                                         \
    ROW(mpt)                                                                                                           \
    ROW(t5)                                                                                                            \
    ROW(mt5)                                                                                                           \
    ROW(bart)                                                                                                          \
    ROW(generic)                                                                                                       \
    ROW(pipeline)

enum {
    REDCOI_MODEL_CLASSES = 4,
    REDCOI_CLASS_PARAMS = 40,
    REDCOI_MODEL_NAME_SIZE = 200,
    REDCOI_MODEL_KEYS = 48,
    REDCOI_MODEL_WARNINGS = 2,
    /* Beyond any model, small enough that products of two dimensions fit into 64 bits with room. */
    REDCOI_MAX_WIDTH = 1 << 20,
    REDCOI_MAX_FFN = 1 << 23,
    REDCOI_MAX_HEADS = 1 << 16,
    REDCOI_MAX_LAYERS = 1000000,
    REDCOI_MAX_ROWS = 1 << 27
};

typedef struct redcoi_family redcoi_family;

struct redco_model {
    char *name;
    const redcoi_family *family;
    redco_model_dims dims;
    redco_layer_class classes[REDCOI_MODEL_CLASSES];
    size_t class_count;
    redco_param *params;
    size_t param_count, param_capacity;
    uint64_t total_params;
    uint64_t axis_sizes[REDCO_AXIS_COUNT]; /**< but for batch and sequence */
    redco_layer_group groups[REDCOI_MODEL_CLASSES][REDCO_GROUPS_MAX];
    uint32_t group_counts[REDCOI_MODEL_CLASSES];
    redco_layer_node nodes[REDCOI_MODEL_CLASSES][REDCO_NODES_MAX];
    uint32_t node_counts[REDCOI_MODEL_CLASSES];
    redco_graph_work *work; /**< a pipeline's; else NULL */
    json_t *config;
    json_t *defaults;                      /**< sizes that the config leaves out: {"hidden_size": 4096, ...} */
    char *warnings[REDCOI_MODEL_WARNINGS]; /**< what is odd about the config; NULL behind the last */
};

/** A config that is being read, and the model that is made of it. It carries the first error; after it every call is a
 *  no-op, so that a family reads as a list of its keys and tensors. */
typedef struct redcoi_build {
    redco_model *model; /**< NULL where only settings are read */
    redco_json_value config;
    const char *prefix; /**< of the tensors of the current class, e.g. "model.layers.{}." */
    redco_status status;
    redco_error *err;
    /** Keys that the reader asked for, static texts, and which of them took their default. */
    const char *asked[REDCOI_MODEL_KEYS];
    bool absent[REDCOI_MODEL_KEYS];
    size_t asked_count;
} redcoi_build;

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

/** The numbers of a config that only the graph needs. */
typedef struct redcoi_settings {
    double norm_epsilon, deviation;
    redcoi_activation activation;
    redcoi_rope rope;
    uint64_t window;                              /**< keys that a query sees; 0 = all before it */
    uint32_t first_window;                        /**< first layer with a window */
    double score_scale;                           /**< 0: 1 / sqrt(head size) */
    bool scale_by_layer;                          /**< scores of layer i also over i + 1 */
    double embedding_scale;                       /**< of the rows of the tokens; 0: 1 */
    uint64_t relative_buckets, relative_distance; /**< T5: of relative positions, and from where the last one is */
    int32_t start_token, pad_token; /**< encoder-decoder: first input of the decoder, and where nothing is asked for */
    bool residual_from_norm;        /**< BLOOM: sums begin with the output of the norm, not with its input */
} redcoi_settings;

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
    uint32_t class_index; /**< of the layer: its tensors come before those of other classes */
    uint32_t layer;
    redco_value encoded;          /**< output of the encoder */
    redco_value cosines, sines;   /**< of the rotary positions */
    redco_value bias;             /**< of the scores: ALiBi, relative positions; REDCO_NO_VALUE without */
    redco_value positions;        /**< of the tokens, i32 [batch, length]; REDCO_NO_VALUE: 0, 1, ... */
    redco_value source_lengths;   /**< i32 [batch], behind which the source is padding; REDCO_NO_VALUE: it has none */
    struct redcoi_caches *caches; /**< of a pass that generates; NULL in training */
} redcoi_pass;

/** Keys and values that generation keeps: generation_graph.c. */
typedef struct redcoi_caches {
    bool decoding; /**< one token behind what is kept; else the prompt, which begins it */
    uint64_t keys; /**< that a sequence has room for */
    uint64_t source_keys;
    redco_generation_cache *list;
    uint32_t count;
} redcoi_caches;

/** The graph of a family. */
typedef struct redcoi_family_graph {
    /** NULL of a family that redco-exec does not train. */
    void (*read)(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *settings_out);
    redco_value (*embed)(redcoi_pass *p, redco_value tokens); /**< to [batch, length, hidden] */
    redco_value (*block)(redcoi_pass *p, redco_value x);
    redco_value (*head)(redcoi_pass *p, redco_value x); /**< to logits */
    bool qkv_in_thirds; /**< the columns of its one matrix are all queries, then all keys, then all values */
    /* The encoder of an encoder-decoder model; NULL without. The blocks above are then the decoder's, which read what
     * the encoder makes as p->encoded. */
    redco_value (*embed_source)(redcoi_pass *p, redco_value tokens);
    redco_value (*encoder_block)(redcoi_pass *p, redco_value x);
    redco_value (*encoder_end)(redcoi_pass *p, redco_value x); /**< behind the last block; NULL: nothing */
    double (*deviation)(const redco_language_model *lm,
                        redco_param_use use); /**< of initial values; NULL: one for all */
    bool gain_is_added;                       /**< norms multiply by 1 + gain, which begins at 0 */
} redcoi_family_graph;

struct redcoi_family {
    const char *type; /**< "model_type" of a config */
    redco_norm_kind norm;
    redco_position_kind positions;
    redco_activation_kind activation; /**< of FFNs without a gate */
    void (*build)(redcoi_build *build);
    redcoi_family_graph graph; /**< all NULL: there is none */
    /** The priced groups of a family without a class graph; NULL: they are derived from the graph. */
    redco_status (*price)(redco_model *model, redco_error *err);
    bool unlisted; /**< its configs are written by programs */
};

#define REDCOI_FAMILY_DECLARE(type) extern const redcoi_family redcoi_family_##type;
REDCOI_FAMILIES(REDCOI_FAMILY_DECLARE)

/* families.c */

/** @return NULL if there is none of that type */
const redcoi_family *redcoi_family_find(const char *type);
enum { REDCOI_FAMILY_NAMES_SIZE = 256 };
/** "llama, mistral, ...": all, or those that redco-exec trains. @return @p buffer */
const char *redcoi_family_names(bool to_train, char buffer[REDCOI_FAMILY_NAMES_SIZE]);

/* family_parameters.c: tensors */

/** Starts a layer class; the calls below add to it. "{}" in @p prefix stands for the layer index. */
void redcoi_class(redcoi_build *build, const char *name, redco_class_kind kind, uint32_t layers, const char *prefix);
void redcoi_linear(redcoi_build *build, redco_param_use use, const char *name, uint64_t out, uint64_t in, bool bias);
/** The bias alone of a linear whose weight is tied. */
void redcoi_bias(redcoi_build *build, redco_param_use use, const char *name, uint64_t width);
/** GPT-2's Conv1D: weight [in, out], with bias. */
void redcoi_conv1d(redcoi_build *build, redco_param_use use, const char *name, uint64_t in, uint64_t out);
void redcoi_table(redcoi_build *build, redco_param_use use, const char *name, uint64_t rows, uint64_t columns);
/** The gain of a norm of the family's kind, and the bias of one with mean. */
void redcoi_norm(redcoi_build *build, redco_param_use use, const char *name, uint64_t width, bool bias);
/** A head of its own, unless it is tied to the table. */
void redcoi_untied_head(redcoi_build *build, const char *name);
/** The name of a tensor in a layer: "{}" replaced. @return @p name */
const char *redcoi_param_name(const redco_param *param, uint32_t layer, char name[REDCOI_MODEL_NAME_SIZE]);

/** What a program says of a tensor. */
typedef struct redcoi_tensor_kind {
    bool table;  /**< rows of it are looked up */
    bool frozen; /**< it is not trained */
} redcoi_tensor_kind;

/** A tensor of any shape and name, which the model's layers are known to use in no particular way. */
void redcoi_tensor(redcoi_build *build, const char *name, uint32_t rank, const uint64_t *shape,
                   redcoi_tensor_kind kind);

/** Whether some class uses a tensor so. */
bool redcoi_model_has(const redco_model *model, redco_param_use use);

/* settings.c: keys of the config */

/** @return false after the first error */
bool redcoi_building(const redcoi_build *build);
/** Records an error at a key of the config. */
__attribute__((format(printf, 3, 4))) void redcoi_build_fail(redcoi_build *build, const char *key, const char *format,
                                                             ...);
/** A positive whole number, or @p fallback, the family's default, where the key is absent or null: the model's defaults
 *  then have it. @p alias is the common name that transformers maps to the key (PretrainedConfig.attribute_map); it
 * wins when both are there; may be NULL. */
uint32_t redcoi_config_u32(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max);
/** The same for a key whose @p fallback follows from other keys, and for settings, which are read without a model: no
 *  default of the model. */
uint32_t redcoi_config_derived(redcoi_build *build, const char *key, const char *alias, uint32_t fallback,
                               uint32_t max);
/** A whole number that may be 0. */
uint64_t redcoi_config_count(redcoi_build *build, const char *key, uint64_t fallback, uint64_t max);
double redcoi_config_number(redcoi_build *build, const char *key, double fallback, double min, double max);
bool redcoi_config_bool(redcoi_build *build, const char *key, bool fallback);
/** A probability above 0. */
bool redcoi_config_dropout(redcoi_build *build, const char *key, double fallback);
/** Keys that a query sees: @p fallback where the key is absent, all (0) where it is null. */
uint64_t redcoi_config_window(redcoi_build *build, const char *key, uint64_t fallback);
redcoi_activation redcoi_config_activation(redcoi_build *build, const char *key, redcoi_activation fallback);
/** The activation of a name that the value of a key has or holds. */
redcoi_activation redcoi_activation_of(redcoi_build *build, const char *key, const char *name,
                                       redcoi_activation fallback);
/** Encoder-decoder models: "pad_token_id" and "decoder_start_token_id", with their defaults. */
void redcoi_config_decoder_tokens(redcoi_build *build, redcoi_settings *settings, int32_t pad, int32_t start);
/** "rope_scaling": default, linear, llama3; others are refused. */
void redcoi_config_rope_scaling(redcoi_build *build, redcoi_rope *rope);
/** Keeps a warning about a key that is unknown here and nearly that of an absent one.
 *  Configs carry many keys that are of no interest, so anything less alike is none. */
void redcoi_config_spelling(redcoi_build *build);
/** Keeps a warning that names the model's defaults. */
void redcoi_config_defaults(redcoi_build *build);
/** Fails unless @p divisor divides @p value; @p key is where the divisor stands. */
void redcoi_config_divides(redcoi_build *build, const char *key, uint32_t divisor, const char *value_name,
                           uint32_t value);
/** As many KV heads as heads, of hidden / heads elements; @p key is where the heads stand. */
void redcoi_plain_heads(redcoi_build *build, const char *key, const char *hidden_key);

/* family_graph.c: operators of the graph. The use of a weight also gives the simulator's name of the operator
 * (costmodel/README.md, section 2). */

/** x W, + b if there is a bias. */
redco_value redcoi_lm_product(redcoi_pass *p, redco_param_use use, redco_value x);
/** Gain and shift are 1 and 0 if the model has no such parameters. */
redco_value redcoi_lm_norm(redcoi_pass *p, redco_param_use use, redco_value x);
/** Rows of a table in the compute type. */
redco_value redcoi_lm_rows(redcoi_pass *p, redco_param_use use, redco_value index);
/** Rows of the tokens, under "embedding". */
redco_value redcoi_lm_tokens(redcoi_pass *p, redco_value tokens);
/** Positions 0, 1, ... plus @p offset, i32 [length]. */
redco_value redcoi_lm_positions(redcoi_pass *p, int32_t offset);
bool redcoi_lm_has(const redcoi_pass *p, redco_param_use use);
/** [batch, length, heads x size] to [batch, length, heads, size]: no work. */
redco_value redcoi_lm_heads(redcoi_pass *p, redco_value x, uint64_t heads);
/** q and k turned by their positions, under "rotary". */
void redcoi_lm_rotate(redcoi_pass *p, redco_value *q, redco_value *k);
/** An attention of a block, as its operators are called and built. */
typedef struct redcoi_lm_attention_kind {
    redco_op_role role;     /**< attention or cross-attention */
    redco_param_use output; /**< the weight behind it */
    bool causal;
    redco_value bias; /**< of the scores, or REDCO_NO_VALUE */
} redcoi_lm_attention_kind;

/** Attention and its output product. */
redco_value redcoi_lm_attend(redcoi_pass *p, const redcoi_lm_attention_kind *kind, redco_value q, redco_value k,
                             redco_value v);
/** Attention of @p y to @p keys, by three matrices from @p query on (query, key, value): [batch, length, hidden]. */
redco_value redcoi_lm_attend_by_three(redcoi_pass *p, const redcoi_lm_attention_kind *kind, redco_param_use query,
                                      redco_value y, redco_value keys);
/** Causal attention and its output product. */
redco_value redcoi_lm_attention(redcoi_pass *p, redco_value q, redco_value k, redco_value v);
/** Attention of queries, keys and values from three matrices, queries and keys rotated, with its output product. */
redco_value redcoi_lm_rotary_attention(redcoi_pass *p, redco_value y);
/** The FFN, gated or not. */
redco_value redcoi_lm_ffn(redcoi_pass *p, redco_value y);
/** A block whose attention and FFN read normed input and are added to it, one behind the other. */
redco_value redcoi_lm_block(redcoi_pass *p, redco_value x, redco_value (*attend)(redcoi_pass *p, redco_value y));
/** Logits by a matrix of its own, or by the table. */
redco_value redcoi_lm_logits(redcoi_pass *p, redco_value x);
/** The final norm and the logits: of all families but OPT. */
redco_value redcoi_lm_head(redcoi_pass *p, redco_value x);
/** Queries, keys and values [batch, length, heads, size] from the product with one matrix, which has of each head its
 *  query, its key and its value next to each other. */
void redcoi_lm_split_by_head(redcoi_pass *p, redco_value qkv, redco_value qkv_out[3]);
/** The same of a matrix of all queries, then all keys, then all values. */
void redcoi_lm_split_in_thirds(redcoi_pass *p, redco_value qkv, redco_value qkv_out[3]);
/** Sets the bias of the scores to ALiBi's, the slope of each head times the key's position. */
void redcoi_lm_alibi(redcoi_pass *p);
/** Tables of the pass, if the model has rotary positions. */
void redcoi_lm_rotary_tables(redcoi_pass *p);

/* generation_graph.c */

/** Puts keys and values of this pass into the layer's cache and, when decoding, gives all that are kept and a mask or
 *  bias of what is seen of them in their place. */
void redcoi_cache_extend(redcoi_pass *p, redco_attention_options *options, redco_value *k, redco_value *v,
                         redco_value *bias);
/** Keys and values of the source that the layer keeps. */
void redcoi_cache_source(redcoi_pass *p, redco_value *k, redco_value *v);
/** @p bias, or none, with what is padding of a source of @p keys left out. */
redco_value redcoi_mask_source(redcoi_pass *p, redco_value bias, uint64_t keys);

/* layer_groups.c */

/** Makes the tables of priced groups of all classes. */
redco_status redcoi_layer_groups_make(redco_model *model, redco_error *err);

/* language_model.c */

redcoi_pass redcoi_lm_pass_begin(redco_scope *scope, const redco_language_model *lm, uint64_t batch, uint64_t length);
/** All layers of a class. */
redco_value redcoi_lm_stack(redcoi_pass *p, redco_class_kind kind, redco_value (*block)(redcoi_pass *p, redco_value x),
                            redco_value x);
/** What the encoder makes of a source. */
redco_value redcoi_lm_encode(redcoi_pass *p, redco_value source);

/** Of the graph of one layer of a class. */
typedef struct redcoi_class_values {
    redco_value *params; /**< tensors of the model, by their ids */
    redco_value input, encoded, result;
    uint32_t first_op; /**< of the layer: those before make rotary tables and biases of scores */
    uint32_t end_op;   /**< behind the last: those from it on are gradients */
    /** Input and tensors, and the gradient of each, from an input "gradient", that of the result. */
    redco_value wanted[REDCOI_CLASS_PARAMS], gradients[REDCOI_CLASS_PARAMS];
    uint32_t wanted_count;
} redcoi_class_values;

/** The graph of one layer of a class and its gradients; the head ends with the loss of each token.
 *  @param values  its params have room for all tensors of the model; the rest is written */
redco_status redcoi_class_graph(const redco_language_model *lm, uint32_t class_index, uint64_t batch, uint64_t length,
                                redcoi_class_values *values, redco_graph *graph, redco_error *err);

/** Dimensions as GPT-2 and GPT-J name them, with their defaults: gpt2.c. */
void redcoi_gpt_dims(redcoi_build *build, uint32_t vocab, uint32_t hidden, uint32_t layers, uint32_t heads);

/* llama.c: LLaMA's parts, which others have too */

/** Defaults of a configuration class, used where a config.json leaves a key out. */
typedef struct redcoi_llama_defaults {
    uint32_t vocab, hidden, ffn, layers, heads;
    uint32_t kv_heads; /**< 0: as many as heads */
    uint32_t head_dim; /**< 0: hidden / heads */
    bool tied;
} redcoi_llama_defaults;

void redcoi_llama_dims(redcoi_build *build, const redcoi_llama_defaults *defaults);

typedef struct redcoi_llama_biases {
    bool qkv, out, ffn;
} redcoi_llama_biases;

/** All tensors, from the dimensions. */
void redcoi_llama_tensors(redcoi_build *build, redcoi_llama_biases biases);
void redcoi_llama_read(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *settings_out);
/* qwen2.c: with the sliding window of the upper layers, as Qwen3 has it */
void redcoi_qwen2_read(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *settings_out);
redco_value redcoi_llama_block(redcoi_pass *p, redco_value x);

#endif
