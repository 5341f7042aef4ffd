/** @file layer_sites.h  The tensors of a layer that training software may keep for backward, each with the operator
 *  that makes or reads it: which of them are kept, and in how many bytes, is a rule of the software
 *  (costmodel/saving). One list per model and layer class, derived from the family's graph when the model is read. */
#ifndef REDCO_LAYER_SITES_H
#define REDCO_LAYER_SITES_H

#include "costmodel/models/layer_groups.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_site {
    REDCO_SITE_LAYER_INPUT,
    REDCO_SITE_NORM_INPUT,          /**< once where several norms read it */
    REDCO_SITE_NORM_CONVERTED,      /**< its copy in 32 bits, one for each norm */
    REDCO_SITE_NORM_NORMED,         /**< before the weight is applied */
    REDCO_SITE_NORM_STATISTIC,      /**< a number of each row: of its deviation */
    REDCO_SITE_NORM_MEAN,           /**< likewise; of layer norms */
    REDCO_SITE_NORM_OUTPUT,         /**< operand of products, that of the layer before included */
    REDCO_SITE_ATTENTION_QUERIES,   /**< as the attention core reads them */
    REDCO_SITE_ATTENTION_KEYS,      /**< likewise */
    REDCO_SITE_ATTENTION_VALUES,    /**< likewise */
    REDCO_SITE_ATTENTION_REPEATED,  /**< keys and values, one for each head of queries: as large as two of these */
    REDCO_SITE_ATTENTION_OUTPUT,    /**< operand of the projection behind */
    REDCO_SITE_ATTENTION_STATISTIC, /**< log-sum-exp of each row of scores */
    REDCO_SITE_ATTENTION_SCORES,    /**< elements of one key: to be multiplied by the length of the sequence */
    REDCO_SITE_ACTIVATION_INPUT,    /**< an activation that no gate multiplies reads it */
    REDCO_SITE_ACTIVATION_GATE,     /**< a gate's activation reads it */
    REDCO_SITE_ACTIVATION_FACTOR,   /**< the activated gate multiplies it */
    REDCO_SITE_ACTIVATION_GATED,    /**< the activated gate */
    REDCO_SITE_ACTIVATION_OUTPUT,   /**< operand of the FFN's last product */
    REDCO_SITE_PRODUCT_OPERAND,     /**< operands that no norm, attention core or activation made */
    REDCO_SITE_PRODUCT_OUTPUT,      /**< results of the last product of an FFN */
    REDCO_SITE_DROPOUT_MASK,        /**< a byte for each element that a part of a block adds to the values handed on */
    REDCO_SITE_COUNT
} redco_site;

/** "norm.input": words of rule files; NULL-terminated, indexed by the enum. */
extern const char *const redco_site_words[];

enum { REDCO_SITES_MAX = 40 };

typedef struct redco_layer_site {
    redco_site site;
    redco_extent elements;
    redco_op_role role; /**< the role of the operator that made the tensor */
    bool ffn;           /**< norm.output: read by products of an FFN alone */
} redco_layer_site;

/** In forward order; of heads and embeddings the sites of their norms and products. @return their number */
uint32_t redco_model_sites(const redco_model *model, uint32_t class_index, const redco_layer_site **sites_out);

#ifdef __cplusplus
}
#endif
#endif
