/** @file graph_internal.h  Shared by the files of costmodel/graph. */
#ifndef REDCO_GRAPH_INTERNAL_H
#define REDCO_GRAPH_INTERNAL_H

#include "costmodel/graph/graph.h"
#include "costmodel/graph/graph_arena.h"
#include "costmodel/graph/names.h"

/** The labels of operators that are added next. */
typedef struct redcoi_graph_label {
    uint32_t layer, name, absorbed; /**< numbers of the graph's names; 0 is "" */
    uint32_t builder;               /**< likewise */
    redco_op_role role;
    uint32_t order, copy, origin, toward;
    bool opaque; /**< simplification does not look at how an input was made */
    bool held;   /**< layer, name and role stay */
    bool carries;
} redcoi_graph_label;

typedef struct redcoi_value_entry {
    redco_tensor_type type;
    uint32_t op;
    const char *name;
} redcoi_value_entry;

struct redco_graph {
    redcoi_arena arena;
    redco_op **ops; /**< the array is malloc'd, operators are in the arena */
    uint32_t op_count, op_capacity;
    redcoi_value_entry **values; /**< likewise */
    uint32_t value_count, value_capacity;
    uint32_t *table; /**< open addressing by hash of an operator; REDCO_NO_OP is empty */
    uint32_t table_size;
    redco_names names;       /**< names of layers and operators */
    redco_names input_names; /**< names of inputs, in the order of input_values */
    redco_value *input_values;
    uint32_t input_capacity;
    redcoi_graph_label label;
    redco_error error;
};

/** An operator about to be added. */
typedef struct redcoi_signature {
    redco_op_kind kind;
    uint32_t input_count;
    const redco_graph *graph; /**< that has the inputs; NULL: they have no names for errors */
    const redco_value *inputs;
    const redco_tensor_type *in; /**< types of the inputs */
    const redco_attributes *attributes;
    redco_tensor_type out[REDCO_OUTPUTS_MAX];
    const char *place;
    redco_error *err;
} redcoi_signature;

/** One operator being differentiated: the rule writes the gradient of each needed input. */
typedef struct redcoi_vjp {
    redco_graph *graph;
    const redco_op *op;
    const redco_value *in;
    redco_value out[REDCO_OUTPUTS_MAX];
    redco_value cotangent[REDCO_OUTPUTS_MAX]; /**< REDCO_NO_VALUE where nothing depends on the output */
    bool needed[REDCO_INPUTS_MAX];
    redco_value gradient[REDCO_INPUTS_MAX]; /**< REDCO_NO_VALUE = none (zero) */
} redcoi_vjp;

typedef redco_status (*redcoi_infer_rule)(redcoi_signature *signature);
/** @return false if the rule does not cover this case: the operator's decomposition is differentiated instead */
typedef bool (*redcoi_vjp_rule)(redcoi_vjp *vjp);
/** Builds the operator's outputs from simpler operators. */
typedef void (*redcoi_decompose_rule)(redco_graph *graph, const redco_attributes *attributes, const redco_value *in,
                                      uint32_t input_count, redco_value *out);

/** A row of operators.h. */
typedef struct redcoi_operator {
    const char *name;
    redco_op_class class;
    uint32_t inputs_min, inputs_max, outputs;
} redcoi_operator;
extern const redcoi_operator redcoi_operators[REDCO_OP_COUNT];

extern const redcoi_infer_rule redcoi_infer_rules[REDCO_OP_COUNT];

typedef struct redcoi_gradient_rule {
    redcoi_vjp_rule vjp;             /**< NULL: no gradient passes, or only by decomposition */
    redcoi_decompose_rule decompose; /**< NULL: a basic operator */
} redcoi_gradient_rule;
extern const redcoi_gradient_rule redcoi_gradient_rules[REDCO_OP_COUNT];

/** "bf16[2,3] and bf16[4]: what" as the graph's error. */
__attribute__((format(printf, 2, 3))) redco_status redcoi_mismatch(redcoi_signature *signature, const char *what, ...);
/** Fails the graph. @return REDCO_NO_VALUE */
__attribute__((format(printf, 2, 3))) redco_value redcoi_graph_fail(redco_graph *graph, const char *what, ...);
bool redcoi_graph_failed(const redco_graph *graph);
/** Where an error is: "block.3/qkv". @return @p buffer */
const char *redcoi_graph_place(const redco_graph *graph, char *buffer, size_t size);
redco_value redcoi_graph_input(redco_graph *graph, const char *name, const redco_tensor_type *type, uint32_t flags);

/** Identities and constants. @return true with *outputs_out if no new operator is needed */
bool redcoi_simplify(redco_graph *graph, const redcoi_signature *signature, const redco_value *inputs,
                     redco_value *value_out);
/** @return whether @p value is a constant. @param scalar_out of its elements */
bool redcoi_is_constant(const redco_graph *graph, redco_value value, double *scalar_out);

/** One input, no attributes, one output; likewise two and three. */
redco_value redcoi_unary(redco_graph *graph, redco_op_kind kind, redco_value a);
redco_value redcoi_binary(redco_graph *graph, redco_op_kind kind, redco_value a, redco_value b);
redco_value redcoi_ternary(redco_graph *graph, redco_op_kind kind, redco_value a, redco_value b, redco_value c);
/** A constant of @p like's element type and rank whose dimensions are all 1. */
redco_value redcoi_constant_like(redco_graph *graph, redco_value like, double scalar);
/** Sums @p value over the dimensions that @p type has as 1: the gradient of repeating them. */
redco_value redcoi_sum_to(redco_graph *graph, redco_value value, const redco_tensor_type *type);

#endif
