/** @file model.h  A language model: its dimensions, parameter tensors and layer classes. Read from a HuggingFace
 *  config.json (or preset, which is one) and checked against a safetensors header. */
#ifndef REDCO_MODEL_H
#define REDCO_MODEL_H

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

/** A set of identical layers. */
typedef struct redco_layer_class {
    char name[24]; /**< "embedding", "block", "encoder", "decoder", "head": as in plan files */
    redco_class_kind kind;
    uint32_t layers;      /**< members, >= 1 */
    uint32_t first_layer; /**< index of the first member: layers are numbered from 0 within their class */
    uint64_t params;      /**< of one member; a tied table counts in the embedding only */
    uint32_t tensors;     /**< of one member */
    uint32_t modules;     /**< linear, norm, embedding modules with parameters in one member: AMSP's K */
    uint64_t largest_tensor_params;
} redco_layer_class;

/** What a tensor is in its module; decides its name and layout in other frameworks. */
typedef enum redco_param_role {
    REDCO_PARAM_LINEAR,     /**< [out, in] */
    REDCO_PARAM_CONV1D,     /**< [in, out]: GPT-2's linears */
    REDCO_PARAM_TABLE,      /**< [rows, width]: embedding, positions, relative attention bias */
    REDCO_PARAM_LAYER_NORM, /**< gain of a norm with mean */
    REDCO_PARAM_RMS_NORM,   /**< gain of a norm without mean */
    REDCO_PARAM_BIAS        /**< of a linear or a layer norm */
} redco_param_role;

/** One parameter tensor in the HuggingFace (torch) layout: linears are [out, in]. */
typedef struct redco_param {
    const char *name; /**< "model.layers.{}.self_attn.q_proj.weight": {} stands for the layer index */
    redco_param_role role;
    uint32_t rank; /**< 1 to 4 */
    uint64_t shape[4];
    uint32_t class_index;
    uint32_t count; /**< members of its class */
} redco_param;

typedef struct redco_model_dims {
    uint32_t hidden;
    uint32_t ffn;            /**< width of one FFN matrix; of encoder and decoder the larger */
    uint32_t layers;         /**< decoder(-only) blocks */
    uint32_t encoder_layers; /**< 0 for decoder-only */
    uint32_t heads;          /**< query heads */
    uint32_t kv_heads;
    uint32_t head_dim;
    uint64_t vocab;
    uint32_t max_positions; /**< rows of a learned position table; 0 = no such table, hence no limit */
    bool gated;             /**< three FFN matrices */
    bool tied;              /**< input and output embeddings share one table */
    bool learned_positions;
    bool parallel_block; /**< attention and FFN both read the block's input (GPT-J, GPT-NeoX) */
    bool post_norm;      /**< norms stand behind the residual sums (OPT-350M) */
    bool no_final_norm;  /**< the head reads the last block's output */
    bool dropout;        /**< classic GPT training with dropout masks */
} redco_model_dims;

/** @param name_or_path  preset or config.json; an unknown model_type names the known ones. The name shown to people is
 *  the config's "_name", else its "_name_or_path", else @p name_or_path. */
redco_status redco_model_read(const char *name_or_path, redco_model **model_out, redco_error *err);
/** From a config that is part of another document, such as a plan file.
 *  @param name  as shown to people; NULL: from the config, as above */
redco_status redco_model_from_json(const redco_json_value *config, const char *name, redco_model **model_out,
                                   redco_error *err);
/** A decoder of plain blocks without biases or learned positions, known by its dimensions alone: what tables of
 *  measured runs say of a model. The same as the config {"model_type": "generic", "_name": NAME, "hidden_size": ...}
 * with the keys of LLaMA's and "gated"; redco_model_config() is that config. Reads hidden, ffn, layers, heads,
 * kv_heads, head_dim, vocab, gated and tied. @return REDCO_EVALUE if a dimension is out of range, named by its key */
redco_status redco_model_from_dims(const redco_model_dims *dims, const char *name, redco_model **model_out,
                                   redco_error *err);
/** Compares every tensor's name and shape with a .safetensors file or model.safetensors.index.json (shapes where its
 *  shards lie beside it, else names and total_size); the first difference is the error. Prefixes ("model.",
 *  "transformer.", "gpt_neox.") may be absent; copies of a tied table and buffers of older versions of transformers may
 *  be present. */
redco_status redco_model_check_safetensors(const redco_model *model, const char *path, redco_error *err);
void redco_model_free(redco_model *model);

const char *redco_model_name(const redco_model *model); /**< "LLaMA-7B" or the config's name */
const char *redco_model_type(const redco_model *model); /**< "llama", ... */
const redco_model_dims *redco_model_get_dims(const redco_model *model);
uint64_t redco_model_params(const redco_model *model); /**< exact, tied tables once */
size_t redco_model_classes(const redco_model *model, const redco_layer_class **classes_out);
size_t redco_model_tensors(const redco_model *model, const redco_param **params_out);
/** What is odd about the config: a key that seems misspelt, sizes that it leaves out.
 *  @return the @p index-th, or NULL past the last */
const char *redco_model_warning(const redco_model *model, size_t index);
/** Sizes that the config leaves out and that do not follow from others, with the values of the family that were taken:
 *  {"hidden_size": 4096}, by the family's own names. Borrowed; empty where it leaves out none, as of all presets. */
const json_t *redco_model_defaults(const redco_model *model);
/** The config as read, of a model from dimensions the one that says them: borrowed. */
const json_t *redco_model_config(const redco_model *model);

#ifdef __cplusplus
}
#endif
#endif
