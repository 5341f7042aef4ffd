/** @file model.h  A language model: its dimensions, parameter tensors and layer classes. Read from a HuggingFace
 *  config.json (or preset, which is one) and checked against a safetensors header. */
#ifndef REDCO_MODEL_H
#define REDCO_MODEL_H

#include "costmodel/record/graph_work.h"
#include "costmodel/record/layer_work.h"
#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_model redco_model;

typedef enum redco_class_kind {
    REDCO_CLASS_EMBEDDING, /**< token, position and type tables, embedding norm */
    REDCO_CLASS_BLOCK,     /**< decoder-only block; also the encoder block of T5 and BART */
    REDCO_CLASS_CROSS,     /**< decoder block with cross attention */
    REDCO_CLASS_HEAD       /**< final norm, output projection (no parameters when tied), loss */
} redco_class_kind;

/** @return whether its layers are transformer blocks: what pipelines cut and recomputation is chosen for. */
static inline bool redco_class_is_block(redco_class_kind kind)
{
    return kind == REDCO_CLASS_BLOCK || kind == REDCO_CLASS_CROSS;
}

/** A set of identical layers, numbered from 0 in the model's order. */
typedef struct redco_layer_class {
    char name[24]; /**< "embedding", "block", "encoder", "decoder", "head", ...: as in plan files */
    redco_class_kind kind;
    uint32_t layers;        /**< members, >= 1 */
    uint64_t window;        /**< keys that a query sees of those before it; 0: all */
    bool unrotated;         /**< rotary positions leave its queries and keys as they are */
    uint64_t params;        /**< in one member; a tied table counts in the embedding only */
    uint64_t active_params; /**< that a token meets: of experts those that it chooses */
    uint64_t frozen_params; /**< part of them: no gradient, no optimizer state */
    uint32_t tensors;       /**< in one member */
    uint32_t modules;       /**< linear, norm, embedding modules with parameters in one member: AMSP's K */
    uint64_t largest_tensor_params;
} redco_layer_class;

/** Layers of one class that follow one another. All runs together are the model's order: each layer once. */
typedef struct redco_layer_run {
    uint32_t class_index;
    uint32_t first;  /**< number of the first of them in its class */
    uint32_t layers; /**< >= 1 */
    uint32_t index;  /**< number of the first of them in its stack, encoder or decoder: part of its tensors' names */
} redco_layer_run;

/** The role of a tensor in its module; it decides name and layout in other frameworks. */
typedef enum redco_param_role {
    REDCO_PARAM_LINEAR,     /**< [out, in] */
    REDCO_PARAM_CONV1D,     /**< [in, out]: GPT-2's linears */
    REDCO_PARAM_TABLE,      /**< [rows, width]: embedding, positions, relative attention bias */
    REDCO_PARAM_LAYER_NORM, /**< gain of a norm with mean */
    REDCO_PARAM_RMS_NORM,   /**< gain of a norm without mean */
    REDCO_PARAM_BIAS,       /**< a linear's or a layer norm's */
    REDCO_PARAM_KERNEL      /**< a pipeline's matrix: [..., in, out], as Flax has kernels */
} redco_param_role;

/** The purpose for which a layer uses a tensor; a bias has the use of its weight, from which its role tells it apart.
 * Within a class no two tensors have the same use and the same of these. */
typedef enum redco_param_use {
    REDCO_USE_TABLE, /**< tokens'; both stacks of an encoder-decoder model have the same */
    REDCO_USE_POSITIONS,
    REDCO_USE_RELATIVE_BIAS, /**< T5: [buckets, heads] */
    REDCO_USE_EMBEDDING_NORM,
    REDCO_USE_ENCODER_POSITIONS,
    REDCO_USE_ENCODER_RELATIVE_BIAS,
    REDCO_USE_ENCODER_EMBEDDING_NORM,
    REDCO_USE_PROJECT_IN, /**< from a table narrower than the model (OPT-350M) */
    REDCO_USE_ATTENTION_NORM,
    REDCO_USE_QUERY,
    REDCO_USE_KEY,
    REDCO_USE_VALUE,
    REDCO_USE_QKV,        /**< one matrix for the three */
    REDCO_USE_QUERY_NORM, /**< for each head, before it is rotated */
    REDCO_USE_KEY_NORM,
    REDCO_USE_QUERIES_NORM, /**< all heads together (OLMoE) */
    REDCO_USE_KEYS_NORM,
    REDCO_USE_QUERY_DOWN, /**< latent attention: into the latent space and, behind a norm, out of it */
    REDCO_USE_QUERY_LATENT_NORM,
    REDCO_USE_QUERY_UP,
    REDCO_USE_KV_DOWN, /**< and the rotated key that all heads share */
    REDCO_USE_KV_LATENT_NORM,
    REDCO_USE_KV_UP,
    REDCO_USE_SINKS, /**< a score for each head that is no key's */
    REDCO_USE_OUTPUT,
    REDCO_USE_LATENT_OUTPUT,      /**< from heads of values that are not as wide as keys */
    REDCO_USE_ATTENTION_END_NORM, /**< behind attention, before the residual sum (Grok-1) */
    REDCO_USE_CROSS_NORM,
    REDCO_USE_CROSS_QUERY,
    REDCO_USE_CROSS_KEY,
    REDCO_USE_CROSS_VALUE,
    REDCO_USE_CROSS_OUTPUT,
    REDCO_USE_FFN_NORM,
    REDCO_USE_GATE, /**< goes through the activation and multiplies UP; without a gate UP goes through it */
    REDCO_USE_UP,
    REDCO_USE_GATE_UP, /**< one matrix for both, the gate first */
    REDCO_USE_DOWN,
    REDCO_USE_ROUTER, /**< a mixture of experts has these in place of GATE to DOWN */
    REDCO_USE_EXPERT_GATE,
    REDCO_USE_EXPERT_UP,
    REDCO_USE_EXPERT_GATE_UP,
    REDCO_USE_EXPERT_DOWN,
    REDCO_USE_SHARED_GATE,
    REDCO_USE_SHARED_UP,
    REDCO_USE_SHARED_DOWN,
    REDCO_USE_SHARED_SCALE, /**< [1, hidden]: how much of the shared experts a token gets (Qwen2-MoE) */
    REDCO_USE_FFN_END_NORM, /**< as that of attention */
    REDCO_USE_MTP_TABLE,    /**< a module of multi-token prediction: its copies of table and head, */
    REDCO_USE_MTP_TOKEN_NORM,
    REDCO_USE_MTP_HIDDEN_NORM,
    REDCO_USE_MTP_PROJECT, /**< from a token's row and what the layers made, [hidden, 2 hidden] */
    REDCO_USE_MTP_FINAL_NORM,
    REDCO_USE_MTP_HEAD,
    REDCO_USE_ENCODER_FINAL_NORM,
    REDCO_USE_FINAL_NORM,
    REDCO_USE_PROJECT_OUT, /**< back to a narrow table's width */
    REDCO_USE_HEAD,
    REDCO_USES
} redco_param_use;

#define REDCO_NO_PARAM UINT32_MAX

/** Parameters that lie on the same grid of ranks (parallel.h): experts have one of their own. */
/** Experts' tensors are [experts, out, in]: their names have a second "{}", for the expert. */
typedef enum redco_param_part { REDCO_PART_DENSE, REDCO_PART_EXPERTS, REDCO_PARTS } redco_param_part;

/** The matrices of a low-rank adapter B A beside a frozen W: W x + B (A x). */
typedef enum redco_adapter {
    REDCO_ADAPTER_NONE,
    REDCO_ADAPTER_DOWN /**< A */,
    REDCO_ADAPTER_UP /**< B */
} redco_adapter;

/** One parameter tensor in the HuggingFace (torch) layout: linears are [out, in]. Its id is its index among
 *  redco_model_tensors(). */
typedef struct redco_param {
    const char *name; /**< "model.layers.{}.self_attn.q_proj.weight": {} stands for the layer index */
    redco_param_role role;
    redco_param_use use;
    redco_param_part part;
    uint32_t rank; /**< 1 to 4 */
    uint64_t shape[4];
    uint32_t class_index;
    uint32_t count; /**< members of its class */
    bool joined;    /**< it is gathered with the tensor before it: biases, and what a pipeline's module has more */
    bool frozen;    /**< it is not trained: no gradient, no optimizer state */
    redco_adapter adapter; /**< which matrix of a low-rank adapter it is; its use is that of the frozen one beside it */
    bool assigned;         /**< a pipeline's step gives its value: what takes the place of a gradient, no moments */
    uint8_t gradient_in;   /**< redco_passes that make its gradient or read that */
    /** Where tensor parallelism of 2^i ranks does otherwise than cut matrices and leave vectors whole, bit i. */
    uint32_t odd_degrees;
} redco_param;

/** @return whether tensor parallelism of @p tp ranks cuts the tensor. */
bool redco_param_is_cut(const redco_param *param, uint32_t tp);

typedef enum redco_norm_kind {
    REDCO_NORM_LAYER, /**< subtracts the mean */
    REDCO_NORM_RMS
} redco_norm_kind;

typedef enum redco_position_kind {
    REDCO_POSITIONS_NONE,
    REDCO_POSITIONS_LEARNED, /**< a table, added to the tokens' rows */
    REDCO_POSITIONS_ROTARY,
    REDCO_POSITIONS_ALIBI,
    REDCO_POSITIONS_RELATIVE /**< T5's buckets */
} redco_position_kind;

/** By what an activation costs: profiles measure these three. */
typedef enum redco_activation_kind {
    REDCO_ACTIVATION_GELU, /**< and what is priced as it is */
    REDCO_ACTIVATION_RELU,
    REDCO_ACTIVATION_GATED /**< on the gate, times the other matrix's product */
} redco_activation_kind;

typedef struct redco_model_dims {
    uint32_t hidden;
    uint32_t ffn;            /**< width of one FFN matrix; of encoder and decoder the larger */
    uint32_t layers;         /**< decoder(-only) blocks */
    uint32_t encoder_layers; /**< 0 for decoder-only */
    uint32_t heads;          /**< query heads */
    uint32_t kv_heads;
    uint32_t head_dim;
    uint64_t vocab;
    uint32_t table_width;   /**< the table of tokens': hidden, or less (OPT-350M) */
    uint32_t max_positions; /**< rows of a learned position table; 0 = no such table, hence no limit */
    uint32_t buckets;       /**< rows of a table of relative positions (T5) */
    uint32_t experts;       /**< routed ones of a layer that has some; 0: no mixture */
    uint32_t choices;       /**< experts of a token */
    uint32_t expert_ffn;    /**< width of one */
    uint32_t shared_ffn;    /**< all shared experts together; 0: there are none */
    uint32_t query_latent;  /**< latent attention; 0: queries are made directly */
    uint32_t key_latent;    /**< the one for keys and values; 0: no latent attention */
    uint32_t rotary_dim;    /**< with it: elements of head_dim that are rotated, the last ones */
    uint32_t value_dim;     /**< with it: of values' heads; else 0: head_dim */
    uint32_t dense_first;   /**< first layers without experts */
    uint32_t predictions;   /**< modules of multi-token prediction */
    uint32_t adapter_rank;  /**< that of low-rank adapters, beside which all else is frozen; 0: all is trained */
    bool quantised;         /**< then: frozen matrices of blocks are kept in 4 bits */
    bool gated;             /**< three FFN matrices */
    bool tied;              /**< input and output embeddings share one table */
    redco_norm_kind norm;
    redco_position_kind positions;
    redco_activation_kind activation;
    bool head_norms;     /**< for each head of queries and keys, before they are rotated (Qwen3) */
    bool parallel_block; /**< attention and FFN both read the block's input (GPT-J, GPT-NeoX) */
    bool post_norm;      /**< norms stand behind the residual sums (OPT-350M) */
    bool no_final_norm;  /**< the head reads the last block's output */
    bool dropout;        /**< classic GPT training with dropout masks */
    bool dropout_open;   /**< nothing says whether there are any: the training software's default holds */
} redco_model_dims;

/** Elements of a head of values. */
static inline uint32_t redco_value_dim(const redco_model_dims *dims)
{
    return dims->value_dim > 0 ? dims->value_dim : dims->head_dim;
}

/** @param name_or_path  preset or config.json; an unknown model_type names the known ones. The name shown to people is
 *  the config's "_name", else its "_name_or_path", else @p name_or_path. */
redco_status redco_model_read(const char *name_or_path, redco_model **model_out, redco_error *err);
/** The same, trained in part. Its config says so by the key "_trainable".
 *  @param trainable  as redco_trainable_read() reads it; NULL: as the config says */
redco_status redco_model_read_trained(const char *name_or_path, const char *trainable, redco_model **model_out,
                                      redco_error *err);
/** From a config that is part of another document, such as a plan file.
 *  @param name  as shown to people; NULL: from the config, as above */
redco_status redco_model_from_json(const redco_json_value *config, const char *name, redco_model **model_out,
                                   redco_error *err);
/** A decoder of plain blocks without biases or learned positions, known by its dimensions alone: what tables of
 *  measured runs say of a model. The same as the config {"model_type": "generic", "_name": NAME, "hidden_size": ...}
 * with the keys of LLaMA's and "gated"; redco_model_config() is that config. Reads hidden, ffn, layers, heads,
 * kv_heads, head_dim, vocab, gated, tied, and of mixtures experts to shared_ffn, dense_first and predictions. @return
 * REDCO_EVALUE if a dimension is out of range, named by its key */
redco_status redco_model_from_dims(const redco_model_dims *dims, const char *name, redco_model **model_out,
                                   redco_error *err);
/** Names that files may have instead of the table's where several share it, or beside it: "lm_head.weight" of a tied
 *  head, "encoder.embed_tokens.weight". @return NULL behind the last */
const char *redco_model_table_copy(const redco_model *model, size_t index);
/** Compares every tensor's name and shape with a .safetensors file or model.safetensors.index.json (shapes where its
 *  shards lie beside it, else names and total_size); the first difference is the error. Prefixes of wrappers may be
 *  absent; copies of a tied table and buffers of older versions of transformers may
 *  be present. */
redco_status redco_model_check_safetensors(const redco_model *model, const char *path, redco_error *err);
void redco_model_free(redco_model *model);

const char *redco_model_name(const redco_model *model); /**< "LLaMA-7B" or the config's name */
const char *redco_model_type(const redco_model *model); /**< "llama", ... */
const redco_model_dims *redco_model_get_dims(const redco_model *model);
uint64_t redco_model_params(const redco_model *model); /**< exact, tied tables once */
/** Those with gradients and optimizer states. */
uint64_t redco_model_trained_params(const redco_model *model);
/** Those that a token meets: of a mixture the experts that it chooses, else all. */
uint64_t redco_model_active_params(const redco_model *model);
size_t redco_model_classes(const redco_model *model, const redco_layer_class **classes_out);
/** The order of the layers: embedding first, head last. @return the number of runs */
size_t redco_model_order(const redco_model *model, const redco_layer_run **runs_out);
/** The record of a class. */
const redco_layer_work *redco_model_work(const redco_model *model, uint32_t class_index);
size_t redco_model_tensors(const redco_model *model, const redco_param **params_out);
/** @return whether layers of a class have routed experts */
bool redco_model_has_experts(const redco_model *model, uint32_t class_index);
/** The id of the tensor of a class that is used so: the weight, gain or table, or with @p bias its bias.
 *  @return REDCO_NO_PARAM if there is none */
uint32_t redco_model_find(const redco_model *model, uint32_t class_index, redco_param_use use, bool bias);
/** The role of the operator that uses a tensor in this model. */
redco_op_role redco_model_use_role(const redco_model *model, redco_param_use use);
/** @return whether tensor parallelism cuts it in pairs of columns and rows, and no other layout is known: mixtures of
 *  experts, latent attention, adapters */
bool redco_model_is_paired(const redco_model *model);
/** @return whether layouts of its tensors other than those in its records are known (redco_layer_work.nodes) */
bool redco_model_lays_out(const redco_model *model);
/** A warning about the config: a key that seems misspelt, sizes that it leaves out.
 *  @return the @p index-th, or NULL past the last */
const char *redco_model_warning(const redco_model *model, size_t index);
/** Keys of the config that redco does not know and that may change what the model computes, with their values: a text;
 *  NULL: none. There is a warning of them, too. */
const char *redco_model_unknown_keys(const redco_model *model);
/** Writes the dropouts that the config asks for, which redco-exec does not apply. @return their number */
size_t redco_model_dropouts(const redco_model *model, char *text, size_t size);
/** Sizes that the config leaves out and that do not follow from others, with the values of the family that were taken:
 *  {"hidden_size": 4096}, by the family's own names. Borrowed; empty where it leaves out none, as of all presets. */
const json_t *redco_model_defaults(const redco_model *model);
/** @return REDCO_EVALUE where a rank of tensor parallelism cannot have the model so */
redco_status redco_model_check_rank(const redco_model *model, uint32_t tp, uint32_t micro_batch, bool sequence_parallel,
                                    redco_error *err);
/** Tensors of 32 bits that the optimizer keeps beside each trained one: AdamW's moments are 2. */
uint32_t redco_model_moments(const redco_model *model);
/** Elements of a head that positions rotate; 0: none. */
uint64_t redco_model_rotary_size(const redco_model *model);
/** The work of a pipeline's graph; NULL of a family, whose layers have groups (layer_work.h). */
const redco_graph_work *redco_model_graph_work(const redco_model *model);
/** Sizes of the model's axes for a whole sequence each of @p batch and @p length, uncut. */
void redco_model_axis_sizes(const redco_model *model, uint64_t batch, uint64_t length,
                            uint64_t sizes_out[REDCO_AXIS_COUNT]);
/** The spaces that a tensor maps to and from, in symbols: a linear's outputs and inputs, a table's rows and width. */
void redco_param_maps(const redco_param *param, redco_extent *out_out, redco_extent *in_out);
enum { REDCO_PARAM_EXTENTS = 3 };
/** A tensor's dimensions, as many as its rank, in the order of its shape, in symbols. */
void redco_param_extents(const redco_param *param, redco_extent extents_out[REDCO_PARAM_EXTENTS]);
/** The config as read, of a model from dimensions the one that says them: borrowed. */
const json_t *redco_model_config(const redco_model *model);

#ifdef __cplusplus
}
#endif
#endif
