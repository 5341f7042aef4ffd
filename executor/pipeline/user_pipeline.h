/** @file user_pipeline.h  A pipeline: the functions that make a training of one's own. It is a C file, compiled to a
 * shared library, that has one table:
 *
 *      const redco_user_pipeline redco_user_pipeline_table = {
 *          .abi = REDCO_USER_PIPELINE_ABI, .name = "digits", .describe = describe, .collate = collate, .loss = loss};
 *
 *  redco-exec --new-pipeline NAME writes one to begin with. The library is linked with nothing of redco's: the program
 *  that opens it has the functions of these headers. README.md beside this file has a walk through an example.
 *
 *  Nothing here knows of ranks: graphs are those of one micro-batch on one rank that holds everything. */
#ifndef REDCO_USER_PIPELINE_H
#define REDCO_USER_PIPELINE_H

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"
#include "costmodel/models/task.h"

#include <jansson.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Changes whenever the table or what it means does. */
enum { REDCO_USER_PIPELINE_ABI = 2 };

/** The description that describe() fills. */
typedef struct redco_user_pipeline_shape redco_user_pipeline_shape;

/** A parameter, stored as a matrix [in, out] or whatever the graph wants; names are those in files of weights.
 * Parameters whose names differ only behind the last dot are a module, whose parts are gathered together.
 *  @param rank  1 to 4 */
void redco_user_pipeline_parameter(redco_user_pipeline_shape *shape, const char *name, uint32_t rank,
                                   const uint64_t *dim, redco_initial initial);
/** The parameters of a linear layer, which redco_scope_linear() applies: NAME.weight [in, out], normal, and NAME.bias
 * [out], zeros.
 *  @param deviation  of the weights; 0: 1 / sqrt(in) */
void redco_user_pipeline_linear(redco_user_pipeline_shape *shape, const char *name, uint64_t in, uint64_t out,
                                double deviation);
/** All parameters of a language model of redco's families, with the shapes, first values and names that transformers
 *  has for it, behind @p prefix: "" of one that is trained as it is, "teacher." of another. --weights-of PREFIX=DIR
 * reads what transformers saved.
 *  @param config  JSON as of HuggingFace's config.json: {"model_type": "gpt2", "n_embd": 64, ...} */
void redco_user_pipeline_language_model(redco_user_pipeline_shape *shape, const char *prefix, const char *config);
/** Logits [sequences, length, vocabulary] of tokens, I32 [sequences, length], by the described model of that prefix, in
 *  the compute type; of decoder-only models. */
redco_value redco_user_pipeline_logits(redco_scope *scope, const char *prefix, redco_value tokens);
/** Says how steps change the parameters described so far whose names begin with @p prefix: REDCO_TRAINED, as they are
 * without this; REDCO_FROZEN, never: they take no memory for gradients and optimizer states; or REDCO_ASSIGNED, to what
 * step() gives them. Parameters of one module are frozen together. */
void redco_user_pipeline_training(redco_user_pipeline_shape *shape, const char *prefix, redco_training training);

/* Settings of the optimizer for some parameters, likewise, in place of those of the command line: an actor and a
 * critic, a generator and a discriminator. The last call for a parameter counts. */

/** Multiplies their learning rate, by at least 1e-9: an actor learns more slowly than a critic. */
void redco_user_pipeline_rate(redco_user_pipeline_shape *shape, const char *prefix, double factor);
/** AdamW's betas, 0 to below 1; other optimizers have none. */
void redco_user_pipeline_betas(redco_user_pipeline_shape *shape, const char *prefix, double beta1, double beta2);
/** AdamW's epsilon, 0 to below 1. */
void redco_user_pipeline_epsilon(redco_user_pipeline_shape *shape, const char *prefix, double epsilon);
/** Weight decay of any optimizer, at least 0; --decay matrices leaves vectors out all the same. */
void redco_user_pipeline_decay(redco_user_pipeline_shape *shape, const char *prefix, double weight_decay);
/** Keeps weight decay from them: redco_user_pipeline_decay() of 0. */
void redco_user_pipeline_no_decay(redco_user_pipeline_shape *shape, const char *prefix);
/** An input of the graph: @p dim is what one example has; the batch comes before it.
 *  @param dtype  I32, or F32, which the loss casts with redco_scope_weight() to what it computes in
 *  @param rank   0 to 3 */
void redco_user_pipeline_input(redco_user_pipeline_shape *shape, const char *name, redco_dtype dtype, uint32_t rank,
                               const uint64_t *dim);
/** A key of examples that is what is learned, "digit": lines of --data and --evaluate without it are bad ones, told
 * with file and line before the first step; those of --predict need not have it. Without this, a collate() that does
 * without a target takes a line that lacks it for one whose target is 0. */
void redco_user_pipeline_target(redco_user_pipeline_shape *shape, const char *key);

/** A training up to now. */
typedef struct redco_user_run {
    uint64_t steps;        /**< done */
    uint64_t global_batch; /**< examples of a step */
    void *state;           /**< redco_user_pipeline.state_bytes of one's own; NULL without */
} redco_user_run;

/** Makes examples with the weights as they are: what collect() is given. Errors of these calls are kept. */
typedef struct redco_user_collector redco_user_collector;

const redco_user_run *redco_user_collector_run(const redco_user_collector *collector);
/** Numbers in [0, 1), and standard normal ones: from the seed of the run, the same on all ranks and plans. */
double redco_user_collector_uniform(redco_user_collector *collector);
double redco_user_collector_normal(redco_user_collector *collector);
/** The predictions of examples, as collate() reads and predict() makes them.
 *  @param values_out  [count][values], all 0 after an error
 *  @param values      numbers of a prediction
 *  @return false after an error: collect() should end */
bool redco_user_collector_predict(redco_user_collector *collector, json_t *const *examples, uint32_t count,
                                  double *values_out, uint32_t values);
/** Adds an example for collate(). @param example  its reference is taken; NULL: out of memory */
void redco_user_collector_add(redco_user_collector *collector, json_t *example);

typedef struct redco_user_pipeline {
    uint32_t abi; /**< REDCO_USER_PIPELINE_ABI */
    const char *name;
    /** Parameters and inputs, the same whenever it is called. Errors of the two calls above are kept. */
    void (*describe)(redco_user_pipeline_shape *shape);
    /** Examples to arrays: data[i] is the i-th input, of all examples behind one another, and zero before.
     *  @return REDCO_EVALUE with @p err for an example that is not as it should be. Its place is the key, or "" where
     *          the text has it: redco_fail(err, REDCO_EVALUE, "x", "is no number"). File and line are added */
    redco_status (*collate)(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err);
    /** The mean loss of a micro-batch, a scalar of F32 or F64: costmodel/models/task.h. NULL: step() returns it.
     *  @param context  NULL */
    redco_value (*loss)(redco_scope *scope, const void *context);
    /** A train step of one's own, in place of the loss's gradient; NULL: that. It builds the gradient of every trained
     *  parameter and the new value of every assigned one, all from the values before the step:
     *
     *      redco_scope_minimize(scope, loss, "critic.")         a loss's gradients for some parameters
     *      redco_scope_set_gradient(scope, "w", gradient)       one that is built: clipped, noisy, of local steps
     *      redco_scope_assign(scope, "target.w", value)         a formula: a target that follows
     *
     *  What it says is of one micro-batch; the mean over those of a step (scope->micro_batches of them) is taken, so
     *  that a plan's ranks change nothing. @return the loss that is reported, a scalar */
    redco_value (*step)(redco_scope *scope, const void *context);
    /** Builds the prediction, [examples, ...] of a floating type or I32; NULL: nothing is. Inputs that an example to
     * predict does not have are still collated: collate() must do without them. */
    redco_value (*predict)(redco_scope *scope);
    /** The prefix of a language model by which --predict continues prompts, as it does of redco's own models: with
     * those options, caches, and {"tokens": [...]} or {"text": "..."} as examples. predict() then serves metric()
     * alone. NULL: --predict tells what predict() builds. */
    const char *generates;
    /** Makes the text that --predict writes for an example; NULL: the numbers, one alone as a number, more as a list. A
     * new reference.
     */
    json_t *(*output)(const json_t *example, const double *values, uint32_t count);
    /** Judges a prediction, for instance 1 or 0; --evaluate reports the mean. NULL: only the loss is.
     *  @param prediction  as output() made it */
    double (*metric)(const json_t *example, const json_t *prediction);
    /** The weight of an example where the loss is a mean over something else than examples: targets that are asked
     *  for, say. Losses of micro-batches and of batches of an evaluation then weigh as much as their examples together,
     *  so that they are means over all targets. NULL: examples count alike. */
    double (*weight)(const json_t *example);
    /** Makes the examples to train on in place of --data (reinforcement learning): before the first step, and whenever
     * those that it made before are used up. Every rank calls it, and all must make the same; what it remembers must be
     * in the run's state, which checkpoints have. NULL: examples are read.
     *  @return REDCO_EVALUE with @p err */
    redco_status (*collect)(redco_user_collector *collector, redco_error *err);
    uint32_t collect_epochs; /**< passes over the examples of a collect(), each in another order; 0 is 1 */
    uint64_t state_bytes;    /**< bytes of redco_user_run.state, all 0 at first */
    /** Tells, when the steps are done, an object: privacy that was spent, the last returns. A new
     * reference. NULL: nothing. */
    json_t *(*report)(const redco_user_run *run);
    /** Options of redco-exec for the optimizer and its rate, in place of their defaults: "--optimizer sgd
     * --learning-rate 0.1 --momentum 0.9". The command line's come behind them and count; where
     * it names another optimizer, settings of this one are left out. NULL: none. */
    const char *options;
} redco_user_pipeline;

/** The one symbol that the library must have. */
extern const redco_user_pipeline redco_user_pipeline_table;

#ifdef __cplusplus
}
#endif
#endif
