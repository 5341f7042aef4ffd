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
    uint32_t first_layer; /**< index of the first member among all members of all classes of its stack; 0 for embedding,
                             head */
    uint64_t params;      /**< of one member; a tied table counts in the embedding only */
    uint32_t tensors;     /**< of one member */
    uint32_t modules;     /**< linear, norm, embedding modules of one member: AMSP's K */
    uint64_t largest_tensor_params;
} redco_layer_class;

/** One parameter tensor in the HuggingFace (torch) layout: linears are [out, in]. */
typedef struct redco_param {
    const char *name; /**< "model.layers.{}.self_attn.q_proj.weight": {} stands for the layer index */
    uint32_t rank;    /**< 1 to 4 */
    uint64_t shape[4];
    uint32_t class_index;
    uint32_t count; /**< members of its class */
} redco_param;

typedef struct redco_model_dims {
    uint32_t hidden;
    uint32_t ffn;            /**< width of one FFN matrix */
    uint32_t layers;         /**< decoder(-only) blocks */
    uint32_t encoder_layers; /**< 0 for decoder-only */
    uint32_t heads;          /**< query heads */
    uint32_t kv_heads;
    uint32_t head_dim;
    uint64_t vocab;
    uint32_t max_positions; /**< 0 = unlimited (relative, rotary beyond config) */
    bool gated;             /**< three FFN matrices */
    bool tied;              /**< input and output embeddings share one table */
    bool learned_positions;
    bool parallel_block; /**< attention and FFN read the same norm (GPT-J, GPT-NeoX) */
    bool dropout;        /**< classic GPT training with dropout masks */
} redco_model_dims;

/** @param name_or_path  preset or config.json; an unknown model_type names the known ones */
redco_status redco_model_read(const char *name_or_path, redco_model **model_out, redco_error *err);
/** From the "config" member of a plan file. @param name  as shown to people */
redco_status redco_model_from_json(const redco_json_value *config, const char *name, redco_model **model_out,
                                   redco_error *err);
/** Compares every tensor's name and shape with a .safetensors file or model.safetensors.index.json (names only, plus
 *  total_size); the first difference is the error. Prefixes ("model.", "transformer.") may be absent. */
redco_status redco_model_check_safetensors(const redco_model *model, const char *path, redco_error *err);
void redco_model_free(redco_model *model);

const char *redco_model_name(const redco_model *model); /**< "LLaMA-7B" or the config's name */
const char *redco_model_type(const redco_model *model); /**< "llama", ... */
const redco_model_dims *redco_model_get_dims(const redco_model *model);
uint64_t redco_model_params(const redco_model *model); /**< exact, tied tables once */
size_t redco_model_classes(const redco_model *model, const redco_layer_class **classes_out);
size_t redco_model_tensors(const redco_model *model, const redco_param **params_out);
/** The config as read: borrowed. */
const json_t *redco_model_config(const redco_model *model);

#ifdef __cplusplus
}
#endif
#endif
