/** @file task.h  A task is trained: parameters, the inputs of one micro-batch, and a loss function that builds a graph
 * of them. The built-in model families (language_model.h) are tasks, and so is what a user's pipeline gives: the
 * executor knows no other way in.
 *
 *  The graph is that of one rank that holds everything ("global"); layouts are applied to it afterwards. */
#ifndef REDCO_TASK_H
#define REDCO_TASK_H

#include "costmodel/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_initial_kind { REDCO_INITIAL_ZERO, REDCO_INITIAL_ONE, REDCO_INITIAL_NORMAL } redco_initial_kind;

/** Initial values of a parameter that no file gives. */
typedef struct redco_initial {
    redco_initial_kind kind;
    double deviation; /**< the normal distribution's, whose mean is 0 */
} redco_initial;

/** The way in which a step changes a parameter. */
typedef enum redco_training {
    REDCO_TRAINED,  /**< by the optimizer, from its gradient */
    REDCO_FROZEN,   /**< not at all: no gradient, no optimizer state */
    REDCO_ASSIGNED, /**< to the value that the task's step gives it (redco_scope_assign()) */
} redco_training;

/** Settings of the optimizer that a parameter has of its own, in place of those for all. */
typedef struct redco_own_settings {
    double rate_factor; /**< by which the learning rate is multiplied, >= 0; where it is 1 it may be left 0 */
    bool has_betas, has_epsilon, has_decay;
    double beta1, beta2, epsilon, weight_decay; /**< where it has them; AdamW's betas and epsilon */
} redco_own_settings;

typedef struct redco_task_parameter {
    const char *name; /**< "model.layers.3.mlp.up_proj.weight": as in costmodel/models/model.h, rules and checkpoints */
    const char *layer; /**< "block.3": where it is used first; costmodel/simulator/step.h */
    uint32_t rank;
    uint64_t dim[REDCO_RANK_MAX]; /**< as the executor stores it: matrices [in, out], tables [rows, width] */
    bool transposed;              /**< files hold the matrix as [out, in] */
    uint32_t blocks; /**< matrices beside each other in the last dimension, each of which a split cuts: 3 for
                        GPT-2's queries, keys and values; 0 is 1 */
    redco_initial initial;
    redco_training training;
    redco_own_settings own;
} redco_task_parameter;

typedef struct redco_task_input {
    const char *name; /**< "tokens" */
    redco_tensor_type type;
} redco_task_input;

typedef struct redco_scope_step redco_scope_step;

/** The things that a loss function is given. */
typedef struct redco_scope {
    redco_graph *graph;
    redco_dtype compute;          /**< activations and products; parameters may be stored in another type */
    bool training;                /**< false: for evaluation, without dropout and the like */
    redco_value key;              /**< i32[2], another one in every micro-batch: for redco_uniform() and its kin */
    redco_error error;            /**< from redco_scope_...(); reported by redco_task_build() */
    uint32_t micro_batches;       /**< in a step, those of all replicas: their gradients are averaged */
    const redco_scope_step *step; /**< internal; NULL unless a step is built */
    const void *owner;            /**< passed on by the task to its own functions; NULL: none */
} redco_scope;

/** Builds the mean loss of a micro-batch. Errors are kept by scope and graph and asked for once, by the caller.
 *  @param context  of the task
 *  @return a scalar of rank 0, F32 or F64 */
typedef redco_value (*redco_loss_function)(redco_scope *scope, const void *context);

/** Borrowed by all who use it; whoever made it frees what it points to. */
typedef struct redco_task {
    const char *name;
    const redco_task_parameter *parameters;
    size_t parameter_count;
    const redco_task_input *inputs;
    size_t input_count;
    redco_loss_function loss; /**< NULL: there is a step alone, which cannot be evaluated */
    /** In place of the gradient of the loss: gives every trained parameter a gradient and every assigned one its value
     *  (redco_scope_minimize() and its kin), and returns the loss that is reported. NULL: the loss is minimized. */
    redco_loss_function step;
    const void *context;
} redco_task;

/** A parameter as it is stored, or an input of the micro-batch. @return REDCO_NO_VALUE after an error */
redco_value redco_scope_value(redco_scope *scope, const char *name);
/** A parameter in the compute type. */
redco_value redco_scope_weight(redco_scope *scope, const char *name);
/** x NAME.weight + NAME.bias of a linear layer, in the compute type; without a parameter of that name no bias.
 *  @param x  [..., in] */
redco_value redco_scope_linear(redco_scope *scope, redco_value x, const char *name);
/** @return whether there is a parameter or input of that name */
bool redco_scope_has(const redco_scope *scope, const char *name);

/** Says whether the task's step is to build gradients; else its loss alone is wanted, which it returns. */
bool redco_scope_takes_gradients(const redco_scope *scope);

/* Inside of a task's step: gradients of a micro-batch, which redco averages over those of the step. Several of one
 * parameter are added. */

/** Gradients of a loss, a scalar, for all trained parameters whose names begin with @p prefix ("": all). Others are
 *  constants to it: a critic's parameters in an actor's loss. */
void redco_scope_minimize(redco_scope *scope, redco_value loss, const char *prefix);
/** @param gradient  of the parameter's dimensions and a floating type */
void redco_scope_set_gradient(redco_scope *scope, const char *name, redco_value gradient);
/** The new value of an assigned parameter, from the values before the step: the mean over micro-batches is taken. */
void redco_scope_assign(redco_scope *scope, const char *name, redco_value value);

typedef struct redco_task_options {
    redco_dtype parameter; /**< storage of parameters; gradients have the same type */
    redco_dtype compute;
    bool training;
    bool gradients;
    uint32_t micro_batches; /**< redco_scope.micro_batches; 0 is 1 */
} redco_task_options;

/** A task's graph. The graph owns the values; inputs that the loss does not use need not be bound. */
typedef struct redco_task_graph {
    redco_graph *graph;
    redco_value loss;
    redco_value key;         /**< input "key" */
    redco_value *inputs;     /**< task->input_count */
    redco_value *parameters; /**< task->parameter_count */
    /** Likewise; NULL without gradients. REDCO_NO_VALUE of frozen parameters; of assigned ones what is subtracted from
     *  them. */
    redco_value *gradients;
} redco_task_graph;

/** @param graph_out  to be freed with redco_task_graph_free() */
redco_status redco_task_build(const redco_task *task, const redco_task_options *options, redco_task_graph *graph_out,
                              redco_error *err);
void redco_task_graph_free(redco_task_graph *graph); /**< an all-zero one is accepted */

/** Builds other values of a task than its loss, predictions for one, and keeps them in its context. */
typedef void (*redco_values_function)(redco_scope *scope, void *context);

/** A graph of the task's parameters and the inputs given, for what @p build adds; loss and gradients are none.
 *  @param inputs  in place of the task's */
redco_status redco_task_build_values(const redco_task *task, const redco_task_options *options,
                                     const redco_task_input *inputs, size_t input_count, redco_values_function build,
                                     void *context, redco_task_graph *graph_out, redco_error *err);

/** Adds the loss that a task is evaluated by: its loss, or what its step returns. */
redco_value redco_task_loss(const redco_task *task, redco_scope *scope);

/** Type of a parameter in storage of @p dtype. */
redco_tensor_type redco_task_parameter_type(const redco_task_parameter *parameter, redco_dtype dtype);
/** @return NULL if there is none of that name */
const redco_task_parameter *redco_task_find(const redco_task *task, const char *name);

#ifdef __cplusplus
}
#endif
#endif
