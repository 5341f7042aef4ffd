/** @file family.h  Internal to models: a family is one file, data in the main: its config keys with their defaults, its
 *  modules, its order of norms and residuals. One builder makes the graphs of all; REDCOI_FAMILIES lists them. */
#ifndef REDCOI_FAMILY_H
#define REDCOI_FAMILY_H

#include "costmodel/graph/build_calls.h"
#include "costmodel/models/language_model.h"
#include "costmodel/models/model.h"

/** The table of families, in the order in which messages list them: one row a model type. */
#define REDCOI_FAMILIES(ROW)                                                                                           \
    ROW(llama)                                                                                                         \
    ROW(mistral)                                                                                                       \
    ROW(qwen2)                                                                                                         \
    ROW(qwen3)                                                                                                         \
    ROW(phi3)                                                                                                          \
    ROW(internlm2)                                                                                                     \
    ROW(gemma)                                                                                                         \
    ROW(gemma2)                                                                                                        \
    ROW(gemma3_text)                                                                                                   \
    ROW(olmo)                                                                                                          \
    ROW(olmo2)                                                                                                         \
    ROW(olmo3)                                                                                                         \
    ROW(granite)                                                                                                       \
    ROW(smollm3)                                                                                                       \
    ROW(seed_oss)                                                                                                      \
    ROW(glm)                                                                                                           \
    ROW(glm4)                                                                                                          \
    ROW(exaone)                                                                                                        \
    ROW(exaone4)                                                                                                       \
    ROW(internlm3)                                                                                                     \
    ROW(baichuan)                                                                                                      \
    ROW(minicpm)                                                                                                       \
    ROW(qwen)                                                                                                          \
    ROW(starcoder2)                                                                                                    \
    ROW(falcon)                                                                                                        \
    ROW(cohere)                                                                                                        \
    ROW(cohere2)                                                                                                       \
    ROW(phi)                                                                                                           \
    ROW(stablelm)                                                                                                      \
    ROW(nemotron)                                                                                                      \
    ROW(gpt2)                                                                                                          \
    ROW(gpt_bigcode)                                                                                                   \
    ROW(gptj)                                                                                                          \
    ROW(gpt_neox)                                                                                                      \
    ROW(opt)                                                                                                           \
    ROW(bloom)                                                                                                         \
    ROW(mpt)                                                                                                           \
    ROW(t5)                                                                                                            \
    ROW(mt5)                                                                                                           \
    ROW(bart)                                                                                                          \
    ROW(mixtral)                                                                                                       \
    ROW(qwen2_moe)                                                                                                     \
    ROW(qwen3_moe)                                                                                                     \
    ROW(deepseek_v2)                                                                                                   \
    ROW(deepseek_v3)                                                                                                   \
    ROW(kimi_k2)                                                                                                       \
    ROW(glm4_moe)                                                                                                      \
    ROW(dots1)                                                                                                         \
    ROW(gpt_oss)                                                                                                       \
    ROW(llama4_text)                                                                                                   \
    ROW(olmoe)                                                                                                         \
    ROW(minimax_m2)                                                                                                    \
    ROW(dbrx)                                                                                                          \
    ROW(phimoe)                                                                                                        \
    ROW(granitemoe)                                                                                                    \
    ROW(grok_1)                                                                                                        \
    ROW(generic)                                                                                                       \
    ROW(pipeline)

enum {
    REDCOI_CLASS_KINDS = REDCO_CLASS_HEAD + 1,
    REDCOI_CLASS_PARAMS = 48,
    REDCOI_MODEL_NAME_SIZE = 200,
    REDCOI_MODEL_KEYS = 128,
    REDCOI_INNER_KEYS = 8,
    REDCOI_MODEL_WARNINGS = 4,
    /* Beyond any model, small enough that products of two dimensions fit into 64 bits with room. */
    REDCOI_MAX_WIDTH = 1 << 20,
    REDCOI_MAX_FFN = 1 << 23,
    REDCOI_MAX_HEADS = 1 << 16,
    REDCOI_MAX_EXPERTS = 1 << 16,
    REDCOI_MAX_PREDICTIONS = 1 << 10,
    REDCOI_MAX_LAYERS = 1000000,
    REDCOI_MAX_ROWS = 1 << 27
};

typedef struct redcoi_family redcoi_family;

enum { REDCOI_MOMENT_KINDS = 36 };

struct redco_model {
    char *name;
    const redcoi_family *family;
    redco_model_dims dims;
    redco_layer_class *classes;
    redco_layer_work *works; /**< one of each class */
    size_t class_count;
    redco_layer_run *runs; /**< the order of the layers */
    size_t run_count;
    redco_param *params;
    size_t param_count, param_capacity;
    uint64_t total_params;
    uint64_t axis_sizes[REDCO_AXIS_COUNT]; /**< but for batch and sequence */
    redco_graph_work *work;                /**< a pipeline's; else NULL */
    struct redco_layer_moments **moments;  /**< REDCOI_MOMENT_KINDS for each class; NULL: not asked for yet */
    uint64_t rotary_size;                  /**< redco_model_rotary_size() */
    uint32_t optimizer_states;             /**< redco_model_moments() */
    json_t *config;
    json_t *defaults;                      /**< sizes that the config leaves out: {"hidden_size": 4096, ...} */
    char *warnings[REDCOI_MODEL_WARNINGS]; /**< about the config; NULL behind the last */
    char *unknown;                         /**< keys of the config that nobody reads, as text; NULL: none */
};

/** A config that is being read, and the model that is made of it. It carries the first error; after it every call is a
 *  no-op, so that a family reads as a list of its keys. */
typedef struct redcoi_build {
    redco_model *model; /**< NULL where only settings are read */
    redco_json_value config;
    redco_status status;
    redco_error *err;
    uint64_t biases;       /**< uses of tensors that have a bias beside them, a bit each */
    bool plain_norms;      /**< norms have neither gain nor bias */
    bool no_queries_norms; /**< queries and keys have no norms of all their heads */
    bool one_norm;         /**< parts that stand beside each other read one norm, the attention's */
    uint64_t adapted;      /**< uses of matrices that have an adapter beside them, likewise */
    uint64_t encoder_ffn;  /**< width of the encoder's FFN where it is not the decoder's; 0: it is */
    uint64_t window;       /**< keys that queries of some decoder layers see; 0: all see all */
    bool *windowed;        /**< for each decoder layer whether it has the window; NULL: all have it. Owned */
    bool *unrotated;       /**< for each whether its queries and keys are left as they are; NULL: none's are. Owned */
    bool *dense; /**< in a mixture, for each layer: it has an FFN in place of experts; NULL: none has. Owned */
    /** Keys that the reader asked for, static texts; absent marks those that took their default. */
    const char *asked[REDCOI_MODEL_KEYS];
    bool absent[REDCOI_MODEL_KEYS];
    size_t asked_count;
    struct {
        const char *outer, *key; /**< the path of an inner object, and a key in it that nobody reads; borrowed */
        const json_t *value;
    } inner[REDCOI_INNER_KEYS];
    size_t inner_count;
} redcoi_build;

typedef enum redcoi_activation {
    REDCOI_ACTIVATION_SILU,
    REDCOI_ACTIVATION_GELU,
    REDCOI_ACTIVATION_GELU_TANH,
    REDCOI_ACTIVATION_RELU,
    REDCOI_ACTIVATION_RELU_SQUARED /**< priced as RELU */
} redcoi_activation;

typedef enum redcoi_rope_kind {
    REDCOI_ROPE_PLAIN,
    REDCOI_ROPE_LINEAR,
    REDCOI_ROPE_LLAMA3,
    REDCOI_ROPE_YARN,
    REDCOI_ROPE_DYNAMIC /**< plain up to old_positions */
} redcoi_rope_kind;

/** Rotary positions: angles position x theta^(-2i/size), scaled. */
typedef struct redcoi_rope {
    uint64_t size; /**< rotated elements of a head; 0: the model has none */
    double theta;
    bool interleaved;
    redcoi_rope_kind kind;
    double factor;        /**< LINEAR, LLAMA3, YARN */
    double low, high;     /**< LLAMA3: frequencies; YARN: pairs between which the factor comes in */
    double old_positions; /**< LLAMA3, YARN, DYNAMIC */
    double amplitude;     /**< YARN: factor on cosines and sines */
} redcoi_rope;

/** Numbers of a config that only the graph needs. */
typedef struct redcoi_settings {
    double norm_epsilon, deviation;
    redcoi_activation activation;
    redcoi_rope rope;
    redcoi_rope window_rope;                      /**< layers with a window have it; size 0: they have the others' */
    bool scaled_head;                             /**< logits are those of the input over the root of its width */
    bool unit_head;                               /**< rows of the head have length 1 (Baichuan 2) */
    double logit_scale;                           /**< 0: 1 */
    double logit_cap, score_cap;                  /**< c: x becomes c tanh(x / c); 0: it stays */
    double residual_scale;                        /**< factor on what a part adds to its block; 0: 1 */
    double score_scale;                           /**< 0: 1 / sqrt(head size) */
    bool scale_by_layer;                          /**< scores of layer i also over i + 1 */
    double embedding_scale;                       /**< factor on the rows of the tokens; 0: 1 */
    uint64_t relative_buckets, relative_distance; /**< T5: of relative positions, and from where the last one is */
    int32_t start_token, pad_token; /**< encoder-decoder: first input of the decoder, and where nothing is asked for */
    bool residual_from_norm;        /**< BLOOM: sums begin with the output of the norm, not with its input */
} redcoi_settings;

/** The order of one matrix for queries, keys and values. */
typedef enum redcoi_qkv_order {
    REDCOI_QKV_BY_GROUP, /**< for each group of heads its queries, its key, its value */
    REDCOI_QKV_BY_HEAD,  /**< for each head its query, its key, its value */
    REDCOI_QKV_BY_KIND   /**< all queries, all keys, all values */
} redcoi_qkv_order;

struct redco_language_model {
    const redco_model *model;
    const redco_model_dims *dims;
    const redcoi_family *family;
    redcoi_settings set;
    redco_task task;
    redco_task_parameter *parameters; /**< owns names and layers */
    redco_task_input inputs[2];
    redcoi_qkv_order qkv; /**< the family's; at probe sizes as frameworks store it */
    char *prefix;         /**< before all names of parameters; NULL: nothing */
};

/** One forward pass that is being built. */
typedef struct redcoi_pass {
    redco_scope *scope;
    redco_graph *g;
    const redco_language_model *lm;
    const redcoi_settings *set;
    const redco_model_dims *dims;
    uint64_t batch, length;
    uint32_t class_index;                     /**< the layer's, whose tensors come before those of other classes */
    uint32_t layer;                           /**< its number in its stack */
    redco_value encoded;                      /**< output of the encoder */
    redco_value tokens;                       /**< the graph's: multi-token prediction looks them up */
    redco_value cosines, sines;               /**< rotary positions */
    redco_value window_cosines, window_sines; /**< likewise, of layers with a window */
    redco_value bias;                         /**< added to scores: ALiBi, relative positions; REDCO_NO_VALUE without */
    redco_value positions;                    /**< the tokens', i32 [batch, length]; REDCO_NO_VALUE: 0, 1, ... */
    redco_value source_lengths;   /**< i32 [batch], behind which the source is padding; REDCO_NO_VALUE: it has none */
    struct redcoi_caches *caches; /**< in a pass that generates; NULL in training */
} redcoi_pass;

/** Keys and values that generation keeps: generation_graph.c. */
typedef struct redcoi_caches {
    bool decoding; /**< one token behind what is kept; else the prompt, which begins it */
    uint64_t keys; /**< that a sequence has room for */
    uint64_t source_keys;
    redco_generation_cache *list;
    uint32_t count;
} redcoi_caches;

/** Sizes that a config gives. */
typedef enum redcoi_size {
    REDCOI_SIZE_VOCAB,
    REDCOI_SIZE_HIDDEN,
    REDCOI_SIZE_FFN, /**< without a default: 4 x hidden */
    REDCOI_SIZE_ENCODER_LAYERS,
    REDCOI_SIZE_LAYERS,   /**< as many as the encoder has */
    REDCOI_SIZE_HEADS,    /**< the decoder's, as all that follows */
    REDCOI_SIZE_KV_HEADS, /**< as many as heads */
    REDCOI_SIZE_HEAD_DIM, /**< hidden / heads, which has to be whole */
    REDCOI_SIZE_POSITIONS,
    REDCOI_SIZES
} redcoi_size;

#define REDCOI_SIZE_REQUIRED UINT32_MAX /**< in place of a default */
/** Defaults of families without any. */
#define REDCOI_REQUIRED_SIZES                                                                                          \
    {                                                                                                                  \
        [REDCOI_SIZE_VOCAB] = REDCOI_SIZE_REQUIRED, [REDCOI_SIZE_HIDDEN] = REDCOI_SIZE_REQUIRED,                       \
        [REDCOI_SIZE_FFN] = REDCOI_SIZE_REQUIRED, [REDCOI_SIZE_LAYERS] = REDCOI_SIZE_REQUIRED,                         \
        [REDCOI_SIZE_HEADS] = REDCOI_SIZE_REQUIRED                                                                     \
    }

/** A key, and the common name that transformers maps to it (PretrainedConfig.attribute_map) or NULL. */
typedef struct redcoi_key {
    const char *key, *alias;
} redcoi_key;

/** A number of a config; without a key the family has no other. */
typedef struct redcoi_number {
    const char *key;
    double fallback;
} redcoi_number;

/** A condition of a module whose name depends on the FFN; or the spelling and order of its tensors. */
typedef enum redcoi_when {
    REDCOI_ALWAYS, /**< "NAME.weight", "NAME.bias" */
    REDCOI_GATED,
    REDCOI_UNGATED,
    REDCOI_TWO_NORMS, /**< parts beside each other with a norm each */
    REDCOI_OTHER_NORMS,
    REDCOI_TENSOR, /**< always; "NAME", "NAME_bias" */
    REDCOI_TURNED  /**< likewise, and [in, out] */
} redcoi_when;

/** A module of a layer. Its use tells its shape, and whether a model has it. A second "{}" in a name stands for the
 *  expert. */
typedef struct redcoi_module {
    redco_param_use use;
    const char *name;
    redcoi_when when;
} redcoi_module;

/** The modules of a layer class in the order of their tensors; the last has no name. "{}" in the prefix of their names
 *  stands for the layer index. */
typedef struct redcoi_layer_modules {
    const char *prefix;
    const redcoi_module *modules; /**< NULL: the family has no such class */
} redcoi_layer_modules;

/** Keys of a mixture of experts. All that are named have to be there. */
typedef struct redcoi_expert_keys {
    const char *outer;      /**< the object in which all are; NULL: the config itself */
    const char *experts;    /**< routed ones of a layer */
    const char *choices;    /**< those of a token */
    const char *width;      /**< an expert's; NULL: as the FFN's */
    const char *shared;     /**< number of shared experts, each as wide as a routed one; NULL: there are none */
    const char *all_shared; /**< width of all shared experts together, likewise */
    bool optional;          /**< a config without the first key has no mixture */
} redcoi_expert_keys;

/** A key that switches the biases of some uses on or off. */
typedef struct redcoi_bias_key {
    const char *key;
    bool fallback;
    uint64_t uses;
} redcoi_bias_key;

#define REDCOI_BIT(use) (UINT64_C(1) << REDCO_USE_##use)
#define REDCOI_QKV_BIASES (REDCOI_BIT(QUERY) | REDCOI_BIT(KEY) | REDCOI_BIT(VALUE) | REDCOI_BIT(QKV))
#define REDCOI_ATTENTION_BIASES (REDCOI_QKV_BIASES | REDCOI_BIT(OUTPUT))
#define REDCOI_FFN_BIASES (REDCOI_BIT(GATE) | REDCOI_BIT(UP) | REDCOI_BIT(DOWN))
/** Norms and linears, but for the head. */
#define REDCOI_ALL_BIASES (~REDCOI_BIT(HEAD))
#define REDCOI_NORM_BIASES (REDCOI_ALL_BIASES & ~(REDCOI_ATTENTION_BIASES | REDCOI_FFN_BIASES))

/** A family: data that readers of configs and the one builder of graphs understand, and functions for the rest. */
struct redcoi_family {
    const char *type;       /**< "model_type" of a config */
    redco_model_dims dims;  /**< common to all its models; tied and dropout: unless a config says otherwise; activation:
                               of FFNs  without a gate */
    const redcoi_key *keys; /**< [REDCOI_SIZES] */
    uint32_t defaults[REDCOI_SIZES];
    const char *dropout_key;
    const redcoi_layer_modules *layers; /**< [REDCOI_CLASS_KINDS], by redco_class_kind */
    const redcoi_expert_keys *experts;  /**< NULL: no mixture of experts */
    const redcoi_module *predictions;   /**< modules that stand around a layer of multi-token prediction; NULL: none */
    bool sigmoid_router;                /**< scores of experts are sigmoids; else softmax of all */
    uint64_t biases;
    redcoi_bias_key bias_keys[3];
    uint32_t unused_positions; /**< rows of tables of positions before that of position 0 */
    redcoi_qkv_order qkv;
    bool conv1d;                             /**< matrices are GPT-2's Conv1D: [in, out] */
    bool gain_is_added;                      /**< norms multiply by 1 + gain, which begins at 0 */
    bool untrained;                          /**< redco-exec does not train it */
    bool unlisted;                           /**< its configs are written by programs */
    redcoi_number epsilon, deviation, theta; /**< theta: of rotary positions */
    struct {
        const char *key;
        redcoi_activation fallback;
    } active;
    /** Functions for the rest; any may be NULL. */
    void (*read)(redcoi_build *build);  /**< dimensions and biases, once those above are read */
    void (*build)(redcoi_build *build); /**< dimensions and tensors in place of all above */
    void (*read_settings)(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *settings);
    double (*deviation_of)(const redco_language_model *lm, redco_param_use use); /**< that initial values have */
    /** The priced groups of a family without a class graph; NULL: they are derived from the graph. */
    redco_status (*price)(redco_model *model, redco_error *err);
    /** redco_model_check_rank(); NULL: whatever the rank has is possible */
    redco_status (*check_rank)(const redco_model *model, uint32_t tp, uint32_t micro_batch, bool sequence_parallel,
                               redco_error *err);
};

#define REDCOI_FAMILY_DECLARE(type) extern const redcoi_family redcoi_family_##type;
REDCOI_FAMILIES(REDCOI_FAMILY_DECLARE)

/* families.c */

/** @return NULL if there is none of that type */
const redcoi_family *redcoi_family_find(const char *type);
enum { REDCOI_FAMILY_NAMES_SIZE = 768 };
/** "llama, mistral, ...": all, or those that redco-exec trains. @return @p buffer */
const char *redcoi_family_names(bool to_train, char buffer[REDCOI_FAMILY_NAMES_SIZE]);

/* param_uses.c */

/** LINEAR, TABLE or LAYER_NORM: the kind of module that has a tensor of this use. */
redco_param_role redcoi_use_kind(redco_param_use use);
/** Equal parts of a weight's outputs, each of which tensor parallelism cuts: 3 of all queries, all keys and all values,
 * 2 of gate and up in one matrix; else 1. Queries that are more than keys make unequal parts: 1. */
uint32_t redcoi_use_blocks(const redco_model *model, redco_param_use use);

/** DENSE, or EXPERTS: one for each expert. */
redco_param_part redcoi_use_part(redco_param_use use);
/** @return whether tensor parallelism leaves it whole although it is a matrix */
bool redcoi_use_is_whole(redco_param_use use);

/* family_parameters.c: sizes and tensors */

/** Reads sizes and biases and adds all tensors. */
void redcoi_family_build(redcoi_build *build);
/** Starts a layer class; tensors that are added belong to it. "{}" in the prefix of names stands for the number of the
 * layer in its stack. */
void redcoi_class(redcoi_build *build, const char *name, redco_class_kind kind, uint32_t layers);
/** The order of a model that has one layer. */
void redcoi_order_alone(redcoi_build *build);
/** The name of a tensor in a layer: "{}" replaced, that of an expert stays. @return @p name */
const char *redcoi_param_name(const redco_param *param, uint32_t layer, char name[REDCOI_MODEL_NAME_SIZE]);

/** Facts that a program tells about a tensor. */
typedef struct redcoi_tensor_kind {
    bool table;          /**< rows of it are looked up */
    bool frozen;         /**< it is not trained */
    bool assigned;       /**< redco_param's */
    uint8_t gradient_in; /**< redco_param's */
} redcoi_tensor_kind;

/** A tensor of any shape and name, which the model's layers are known to use in no particular way. */
void redcoi_tensor(redcoi_build *build, const char *name, uint32_t rank, const uint64_t *shape,
                   redcoi_tensor_kind kind);

/** @return whether some class uses a tensor so */
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
/** Keys that a query sees, by "sliding_window": @p fallback where it is absent, all (0) where it is null. */
uint64_t redcoi_config_window(redcoi_build *build, uint64_t fallback);
redcoi_activation redcoi_config_activation(redcoi_build *build, const char *key, redcoi_activation fallback);
/** The activation of a name that the value of a key has or holds. */
redcoi_activation redcoi_activation_of(redcoi_build *build, const char *key, const char *name,
                                       redcoi_activation fallback);
/** Encoder-decoder models: "pad_token_id" and "decoder_start_token_id", with their defaults. */
void redcoi_config_decoder_tokens(redcoi_build *build, redcoi_settings *settings, int32_t pad, int32_t start);
/** Keeps a warning about a key that is unknown here and nearly that of an absent one.
 *  Configs carry many keys that are of no interest, so anything less alike is none. */
void redcoi_config_spelling(redcoi_build *build);
/** Keeps a warning that names the keys of the config that no reader asked for and that are not known to change no
 * number. To be called when all readers have asked. */
void redcoi_config_unknown(redcoi_build *build);
/** @return whether the key changes no number of the family's. */
bool redcoi_key_is_harmless(const char *family, bool mixture, const char *key, const json_t *value);
/** Notes the keys of an inner object that are in neither list; NULL ends each.
 *  @param place  the object's path, static */
void redcoi_config_inner(redcoi_build *build, const char *place, const json_t *object, const char *const *known,
                         const char *const *also);
/** Keeps a warning. Takes the text; NULL is a want of memory. */
void redcoi_config_warn(redcoi_build *build, char *text);
/** Notes the key. @return whether there is something to read */
bool redcoi_config_asks(redcoi_build *build, const char *key);
/** A text; NULL where the key is absent or null. Borrowed. */
const char *redcoi_config_string(redcoi_build *build, const char *key);
/** Sizes of the family's mixture. */
void redcoi_config_experts(redcoi_build *build);
/** A mixture's dense layers: the first ones, as many as @p key says, and of the others all but every so many as @p
 * every says (NULL: none) have an FFN. */
void redcoi_config_dense_first(redcoi_build *build, const char *key, const char *every);
/** A mixture's layers that have experts: every @p every-th, but not those that @p except lists. */
void redcoi_config_sparse_step(redcoi_build *build, uint64_t every, const char *except);
/** Sizes of latent attention: "q_lora_rank" (null: queries are made directly), "kv_lora_rank", ... */
void redcoi_config_latents(redcoi_build *build);
/** The decoder layers that have the window: those that "layer_types" names where the config has it, else those from
 * @p first on. */
void redcoi_config_windows(redcoi_build *build, uint64_t window, uint32_t first);
/** Likewise, else all but each @p every-th layer. */
void redcoi_config_window_every(redcoi_build *build, uint64_t window, uint32_t every);
/** Layers without a window are not rotated. */
void redcoi_config_full_unrotated(redcoi_build *build);
/** Layers that are not rotated: those for which the list @p key has 0, else each @p every-th. */
void redcoi_config_unrotated(redcoi_build *build, const char *key, uint32_t every);
/** Rotates a part of each head, by redcoi_config_rotary_share(). */
void redcoi_config_rotary_part(redcoi_build *config, const char *key, double fallback, const redco_model_dims *dims,
                               redcoi_settings *settings);
/** The share of a head's elements that is rotated: by @p key, or inside of "rope_parameters". */
double redcoi_config_rotary_share(redcoi_build *build, const char *key, double fallback);
/** Keeps a warning that names the model's defaults. */
void redcoi_config_defaults(redcoi_build *build);
/** Fails unless @p divisor divides @p value; @p key is where the divisor stands. */
void redcoi_config_divides(redcoi_build *build, const char *key, uint32_t divisor, const char *value_name,
                           uint32_t value);
/** The numbers that graphs need. */
void redcoi_settings_read(redcoi_build *config, const redcoi_family *family, const redco_model_dims *dims,
                          redcoi_settings *settings);

/* family_graph.c: the graph of all families. The use of a weight also gives the simulator's name of the operator
 * (OPERATORS.md). */

/** Rows of the tokens, with what the model adds to them and makes of them before its first layer: [batch, length,
 *  hidden].
 *  @param source  of the encoder */
redco_value redcoi_lm_embed(redcoi_pass *p, redco_value tokens, bool source);
/** The layer of the pass's class. */
redco_value redcoi_lm_block(redcoi_pass *p, redco_value x);
/** The final norm and the logits. */
redco_value redcoi_lm_head(redcoi_pass *p, redco_value x);
/** x W, + b if there is a bias. */
redco_value redcoi_lm_product(redcoi_pass *p, redco_param_use use, redco_value x);
/** Gain and shift are 1 and 0 if the model has no such parameters. */
redco_value redcoi_lm_norm(redcoi_pass *p, redco_param_use use, redco_value x);
/** Rows of a table in the compute type. */
redco_value redcoi_lm_rows(redcoi_pass *p, redco_param_use use, redco_value index);
/** Positions 0, 1, ... plus @p offset, i32 [length]. */
redco_value redcoi_lm_positions(redcoi_pass *p, uint32_t offset);
/** [batch, length, heads x size] to [batch, length, heads, size]: no work. */
redco_value redcoi_lm_heads(redcoi_pass *p, redco_value x, uint64_t heads, uint64_t size);
/** @return whether the layer's class itself uses a tensor so */
bool redcoi_lm_owns(const redcoi_pass *p, redco_param_use use);
/** A tensor in the compute type; REDCO_NO_VALUE if there is none. */
redco_value redcoi_lm_weight(redcoi_pass *p, redco_param_use use, bool bias);
redco_value redcoi_lm_activate(redcoi_pass *p, redco_op_role role, redco_value x);
/** Three matrices, gate, up, whose use is the next, and down; or two.
 *  @param role  of the activation */
redco_value redcoi_lm_gated(redcoi_pass *p, redco_param_use gate, redco_param_use down, redco_op_role role,
                            redco_value y);

/* adapters.c */

/** Reads "_trainable": which matrices have adapters. */
void redcoi_config_trainable(redcoi_build *build);
/** @return whether backward reads the operand of a product with a weight: it or an adapter beside it is trained. */
bool redcoi_operand_is_read(const redco_model *model, const redco_param *weight);
/** Adds the products of adapters to the record of a class behind those of the frozen matrices, and marks these. */
void redcoi_adapters_add(const redco_model *model, uint32_t class_index, redco_layer_work *work);

/* expert_graph.c */

/** The mixture of a layer: router, routed experts, shared ones. */
redco_value redcoi_lm_experts(redcoi_pass *p, redco_value y);
/** Heads of queries, keys and values of latent attention, rotated. */
void redcoi_lm_latents(redcoi_pass *p, redco_value y, redco_value qkv[3]);
/** The input of a layer of multi-token prediction: rows of the tokens and what the layers made. */
redco_value redcoi_lm_predict_in(redcoi_pass *p, redco_value x);
/** Its loss, beside what it makes. */
void redcoi_lm_predict_out(redcoi_pass *p, redco_value x);

/* position_graph.c */

/** Makes the bias of the scores that says positions: ALiBi's, the slope of each head times the key's position, or that
 *  of relative positions. */
void redcoi_lm_score_bias(redcoi_pass *p, bool source);
/** Tables of the pass, if the model has rotary positions. */
void redcoi_lm_rotary_tables(redcoi_pass *p);

/* generation_cache.c */

/** The caches of a layer. */
typedef enum redcoi_cache {
    REDCOI_CACHE_KEYS,
    REDCOI_CACHE_VALUES,
    REDCOI_CACHE_SOURCE_KEYS,
    REDCOI_CACHE_SOURCE_VALUES
} redcoi_cache;
/** Adds one of @p heads of @p size for so many keys. */
redco_generation_cache *redcoi_cache_add(redcoi_pass *p, redcoi_cache which, uint64_t keys, uint64_t heads,
                                         uint64_t size);
/** Puts the prompt's keys or values into the cache. */
redco_value redcoi_cache_begin(redcoi_pass *p, const redco_generation_cache *c, redco_value x);
/** Puts keys and values of this pass into the layer's cache and, when decoding, gives all that are kept and a mask or
 *  bias of what is seen of them in their place. */
void redcoi_cache_extend(redcoi_pass *p, redco_attention_options *options, redco_value *k, redco_value *v,
                         redco_value *bias);
/** Keys and values of the source that the layer keeps. */
void redcoi_cache_source(redcoi_pass *p, redco_value *k, redco_value *v);
/** @p bias, or none, with what is padding of a source of @p keys left out. */
redco_value redcoi_mask_source(redcoi_pass *p, redco_value bias, uint64_t keys);

/* layer_groups.c */

/** Makes the records of all classes. */
redco_status redcoi_layer_works_make(redco_model *model, redco_error *err);

/* language_model.c */

redcoi_pass redcoi_lm_pass_begin(redco_scope *scope, const redco_language_model *lm, uint64_t batch, uint64_t length);
/** All layers of a class. */
redco_value redcoi_lm_stack(redcoi_pass *p, redco_class_kind kind, redco_value (*block)(redcoi_pass *p, redco_value x),
                            redco_value x);
/** The output of the encoder for a source. */
redco_value redcoi_lm_encode(redcoi_pass *p, redco_value source);
/** The input of the head: embedding and all blocks, of an encoder-decoder model those of the decoder. */
redco_value redcoi_lm_decode(redcoi_pass *p, redco_value tokens);

/** Values of the graph of one layer of a class. */
typedef struct redcoi_class_values {
    redco_value *params; /**< tensors of the model, by their ids */
    redco_value input, encoded, result;
    uint32_t first_op; /**< the layer's first; those before make rotary tables and biases of scores */
    uint32_t end_op;   /**< behind the last: those from it on are gradients */
    /** Input and tensors, and the gradient of each, from an input "gradient", that of the result. */
    redco_value wanted[REDCOI_CLASS_PARAMS], gradients[REDCOI_CLASS_PARAMS];
    uint32_t wanted_count;
} redcoi_class_values;

/** The graph of one layer of a class and its gradients; the head ends with the loss of each token.
 *  @param values  its params have room for all tensors of the model; the rest is written */
redco_status redcoi_class_graph(const redco_language_model *lm, uint32_t class_index, uint64_t batch, uint64_t length,
                                redcoi_class_values *values, redco_graph *graph, redco_error *err);

/* Lists that families share. */
extern const redcoi_key redcoi_llama_keys[REDCOI_SIZES], redcoi_gpt_keys[REDCOI_SIZES];
extern const redcoi_key redcoi_latent_keys[REDCOI_SIZES]; /**< LLaMA's less its key heads and head size */
extern const redcoi_module redcoi_llama_embedding[], redcoi_llama_head[];
extern const redcoi_module redcoi_predictions[]; /**< multi-token prediction */
extern const redcoi_layer_modules redcoi_llama_layers[REDCOI_CLASS_KINDS];
extern const redcoi_layer_modules redcoi_gpt_layers[REDCOI_CLASS_KINDS];
extern const redcoi_layer_modules redcoi_gemma2_layers[REDCOI_CLASS_KINDS]; /**< norms before and behind each part */
extern const redcoi_layer_modules redcoi_olmo2_layers[REDCOI_CLASS_KINDS];  /**< norms behind each part */
void redcoi_gemma2_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s);
/** Reads the sliding window of the upper layers that Qwen2 and Qwen3 have. */
void redcoi_qwen2_windows(redcoi_build *build);
/** The same, and which layers have experts. */
void redcoi_qwen_moe_layers(redcoi_build *build);

#endif
