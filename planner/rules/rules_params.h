/** @file rules_params.h  The parameter trees that RedCoast's rules decide on: from a model, a JSON list, or the names
 * and shapes of a safetensors file, in Flax names and order. A torch name "a.b.weight" becomes "a/b/kernel" (a linear,
 *  transposed to [in, out]), "a/b/embedding" (a table), "a/b/scale" (a layer norm) or "a/b/weight" (another norm). */
#ifndef REDCO_RULES_PARAMS_H
#define REDCO_RULES_PARAMS_H

#include "costmodel/models/model.h"
#include "costmodel/models/safetensors.h"
#include "planner/rules/rules.h"
#include "topology/base/json.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define REDCO_RULES_NO_TENSOR SIZE_MAX

typedef struct redco_rules_tree redco_rules_tree;

/** Names as in the Flax modules of transformers (families without one: the torch names in Flax order).
 *  @param every_layer  true: all layers, in the model's order; false: the first of each class, which decides the same
 * rules */
redco_status redco_rules_tree_from_model(const redco_model *model, bool every_layer, redco_rules_tree **tree_out,
                                         redco_error *err);
enum { REDCO_RULES_PATH_BYTES = 1000 };

/** The path of a pipeline's parameter: "encoder.q.weight" is "encoder/q/kernel", the table "letters" is
 *  "letters/embedding"; vectors keep their names.
 *  @param path  REDCO_RULES_PATH_BYTES. @return @p path */
const char *redco_rules_pipeline_path(const char *name, redco_param_role role, char *path);
/** {"params":[{"path":"a/b/kernel","shape":[in,out]}]}; other members are ignored. */
redco_status redco_rules_tree_from_json(const redco_json_value *root, redco_rules_tree **tree_out, redco_error *err);
/** @param name  of the file, for errors */
redco_status redco_rules_tree_from_safetensors(const redco_safetensors *tensors, const char *name,
                                               redco_rules_tree **tree_out, redco_error *err);
/** Any of these files: parameter list, HuggingFace config.json, .safetensors, model.safetensors.index.json.
 *  @param model_out  of a config.json its model, to be freed; else NULL */
redco_status redco_rules_tree_read(const char *path, redco_rules_tree **tree_out, redco_model **model_out,
                                   redco_error *err);
void redco_rules_tree_free(redco_rules_tree *tree);

/** Parameters in the order of their source; paths are unique. */
size_t redco_rules_tree_params(const redco_rules_tree *tree, const redco_rules_param **params_out);
/** The index of the @p index-th parameter's tensor among redco_model_tensors(), for a tree made from a model.
 *  @return REDCO_RULES_NO_TENSOR for a parameter that only the Flax class has (BART's final_logits_bias) and for every
 *  parameter of other trees */
size_t redco_rules_tree_tensor(const redco_rules_tree *tree, size_t index);
/** The name of that tensor in the model, by which checkpoints and the executor know it.
 *  @param name  REDCO_RULES_PATH_BYTES. @return @p name, or NULL where redco_rules_tree_tensor() has none */
const char *redco_rules_tree_name(const redco_rules_tree *tree, const redco_model *model, size_t index, char *name);
/** The dimensions of the model that a tree was made from. @return NULL for other trees */
const redco_model_dims *redco_rules_tree_dims(const redco_rules_tree *tree);

#ifdef __cplusplus
}
#endif
#endif
