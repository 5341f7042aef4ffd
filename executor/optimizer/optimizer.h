/** @file optimizer.h  AdamW, SGD and clipping as operators of a graph: one text for the one-rank reference, for shards
 * of any cut (every update is elementwise) and for any backend. Formulas and their order are PyTorch's
 * (torch.optim.AdamW, torch.optim.SGD, torch.nn.utils.clip_grad_norm_, release 1.13; AdamW: Loshchilov and Hutter,
 * arXiv 1711.05101). Adafactor is executor/states/adafactor.c's: it needs sums over whole rows and columns.
 *
 *  What changes from step to step enters as inputs of rank 0, computed by the host in double, so that one graph serves
 *  all steps. */
#ifndef REDCO_OPTIMIZER_H
#define REDCO_OPTIMIZER_H

#include "costmodel/graph/build_calls.h"
#include "costmodel/models/task.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_optimizer_kind { REDCO_ADAMW, REDCO_SGD, REDCO_ADAFACTOR } redco_optimizer_kind;

enum { REDCO_OPTIMIZER_STATES_MAX = 2, REDCO_OPTIMIZER_FACTORS = 3 };

typedef struct redco_optimizer {
    redco_optimizer_kind kind;
    double beta1, beta2, epsilon; /**< AdamW; Adafactor has the first (0 keeps no state) and the last */
    double momentum;              /**< SGD; 0 keeps no state */
    double weight_decay;          /**< AdamW and Adafactor: decoupled; SGD: added to the gradient. 0 = none */
    double clip_norm;             /**< gradients longer than this together are shortened to it; 0 = never */
    /* Adafactor's */
    double decay_power; /**< c: the mean of squares of step t weighs 1 - t^-c; 0 to 1 */
    double update_clip; /**< updates of a tensor whose root mean square is above it are shortened to it */
    double
        scale_epsilon;  /**< rates are multiplied by the tensor's root mean square, or this if that is less; 0: by 1 */
    bool relative_rate; /**< min(0.01, 1 / sqrt(t)) instead of the learning rate */
} redco_optimizer;

/** AdamW as people train language models: 0.9, 0.95, 1e-8, decay 0.1, clipped at 1. */
redco_optimizer redco_optimizer_default(void);
/** Adafactor as transformers has it: 1e-30, power 0.8, updates clipped at 1, scaled by at least 1e-3, no momentum, no
 *  decay, the learning rate that is given. */
redco_optimizer redco_optimizer_adafactor(void);
/** @return REDCO_EVALUE if a number is out of range; the text names it */
redco_status redco_optimizer_check(const redco_optimizer *optimizer, redco_error *err);

/** The optimizer of one parameter. @param rate_factor_out  multiplies its learning rate; NULL is accepted
 *  @param decayed  whether weight decay applies to it */
redco_optimizer redco_optimizer_of(const redco_optimizer *all, const redco_own_settings *own, bool decayed,
                                   double *rate_factor_out);

/** Tensors of state for each parameter, of its dimensions, in the master type, zero before the first step. */
uint32_t redco_optimizer_states(const redco_optimizer *optimizer);
/** "exp_avg", "exp_avg_sq", "momentum_buffer": torch's names, for checkpoints. Static. */
const char *redco_optimizer_state_name(const redco_optimizer *optimizer, uint32_t state);

/** Names of the inputs that redco_optimizer_inputs() makes. Static. */
const char *redco_optimizer_factor_name(uint32_t factor);
/** Their values for a step: {rate, 1 - beta1^step, 1 - beta2^step}; SGD uses the first alone.
 *  @param step  counted from 1 */
void redco_optimizer_factors(const redco_optimizer *optimizer, double learning_rate, uint64_t step,
                             double factors_out[REDCO_OPTIMIZER_FACTORS]);
/** The rate of a step's updates, before what a tensor's size makes of it: the schedule's, or Adafactor's relative one.
 */
double redco_optimizer_rate(const redco_optimizer *optimizer, double learning_rate, uint64_t step);
/** AdamW's numbers of a step, for who gives them to its operator as one input (redco_adamw()) instead of as factors.
 *  @param gradient_factor  by which gradients are multiplied: mean and clipping */
void redco_optimizer_numbers(const redco_optimizer *optimizer, double learning_rate, uint64_t step,
                             double gradient_factor, double numbers_out[REDCO_ADAMW_COUNT]);
/** Adds the inputs, rank 0. @param dtype of master weights and states: F32 or F64 */
void redco_optimizer_inputs(redco_graph *graph, redco_dtype dtype, redco_value factors_out[REDCO_OPTIMIZER_FACTORS]);

/** The sum of squares of gradients or of shards of them, as F64 for F64, else F32; rank 0. Sums of several ranks are
 *  added before the root is taken; who holds a copy of another's gradient leaves it out. */
redco_value redco_sum_of_squares(redco_graph *graph, const redco_value *gradients, uint32_t count);
/** min(1, clip_norm / (sqrt(@p squares) + 1e-6)), by which all gradients are multiplied. */
redco_value redco_clip_factor(redco_graph *graph, redco_value squares, double clip_norm);

/** One parameter, or any part of it.
 *  @param parameter   master weights, F32 or F64
 *  @param gradient    any floating type; the mean over tokens and micro-batches, not yet clipped
 *  @param clip        redco_clip_factor(), or REDCO_NO_VALUE
 *  @param states      redco_optimizer_states() values
 *  @param states_out  likewise
 *  @return the new master weights */
redco_value redco_optimizer_update(redco_graph *graph, const redco_optimizer *optimizer,
                                   const redco_value factors[REDCO_OPTIMIZER_FACTORS], redco_value parameter,
                                   redco_value gradient, redco_value clip, const redco_value *states,
                                   redco_value *states_out);

#ifdef __cplusplus
}
#endif
#endif
