/** @file build_internal.h  Shared by build.c (blocks) and build_edges.c (embedding and head). */
#ifndef REDCO_TP_BUILD_INTERNAL_H
#define REDCO_TP_BUILD_INTERNAL_H

#include "planner/tensor_parallel/layer_build.h"

enum { REDCOI_TP_OPS_SPLIT, REDCOI_TP_OPS_WHOLE, REDCOI_TP_OPS_ROWS, REDCOI_TP_OPS_SIZES };

struct redcoi_tp_builder {
    const redcoi_tp_base *base;
    redcoi_tp_layer *layer;
    redcoi_tp_graph *graph;
    const redco_model_dims *dims;
    uint32_t ranks;
    uint32_t slot;   /**< class whose nodes are being added */
    uint64_t tokens; /**< T */
    double element_bytes;
    bool rows;           /**< sequence parallelism */
    redcoi_tp_form edge; /**< of activations between layers */
    uint32_t op_count;
    redco_operator ops[REDCOI_TP_OPS_SIZES][REDCO_OPERATORS_MAX];
};

struct redcoi_tp_seconds {
    double forward_s, backward_s;
};

struct redcoi_tp_linear {
    uint64_t out, out_rank, in,
        in_rank;           /**< *_rank: of the fullest rank, heads whole, padded where it does not divide */
    bool column_reference; /**< else the reference splits its rows */
    bool out_aligned;      /**< an even cut of the outputs leaves heads whole and parts in place */
};

void redcoi_tp_open(struct redcoi_tp_builder *b, const redcoi_tp_base *base, redcoi_tp_layer *layer);
void redcoi_tp_operators(struct redcoi_tp_builder *b, uint32_t class_index);
struct redcoi_tp_seconds redcoi_tp_op_seconds(const struct redcoi_tp_builder *b, int size, redco_op_role role);
uint32_t redcoi_tp_add_node(struct redcoi_tp_builder *b, const char *name, double width, uint32_t input_count,
                            const uint32_t inputs[]);
redcoi_tp_option *redcoi_tp_add_option(struct redcoi_tp_builder *b, uint32_t node, redcoi_tp_form input,
                                       redcoi_tp_form output, struct redcoi_tp_seconds seconds);
void redcoi_tp_sum_gradient(const struct redcoi_tp_builder *b, uint64_t params, redcoi_tp_option *option);
uint32_t redcoi_tp_add_linear(struct redcoi_tp_builder *b, redcoi_tp_role role, redco_op_role op,
                              const struct redcoi_tp_linear *w, uint32_t input);
uint32_t redcoi_tp_add_source(struct redcoi_tp_builder *b, redco_op_role role, double width);
void redcoi_tp_add_residual(struct redcoi_tp_builder *b, uint32_t input);
uint32_t redcoi_tp_add_sum(struct redcoi_tp_builder *b, const char *name, double width, uint32_t count,
                           const uint32_t inputs[]);
redco_status redcoi_tp_check_weights(const struct redcoi_tp_builder *b, const redcoi_tp_role *needed, size_t count,
                                     redco_error *err);

#endif
