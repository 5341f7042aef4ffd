#include "executor/optimizer/optimizer.h"

#include "costmodel/graph/build_calls.h"

#include <math.h>

enum { RATE, CORRECTION1, CORRECTION2 };

/* Added to the norm by torch.nn.utils.clip_grad_norm_, so that a norm of zero can be divided by. */
static const double clip_epsilon = 1e-6;

redco_optimizer redco_optimizer_default(void)
{
    redco_optimizer o = redco_optimizer_adafactor();
    o.kind = REDCO_ADAMW;
    o.beta1 = 0.9;
    o.beta2 = 0.95;
    o.epsilon = 1e-8;
    o.weight_decay = 0.1;
    return o;
}

redco_optimizer redco_optimizer_adafactor(void)
{
    return (redco_optimizer){.kind = REDCO_ADAFACTOR,
                             .epsilon = 1e-30,
                             .decay_power = 0.8,
                             .update_clip = 1.0,
                             .scale_epsilon = 1e-3,
                             .clip_norm = 1.0};
}

static redco_status in_range(const char *name, double value, double low, double high, redco_error *err)
{
    if (value >= low && value < high) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "optimizer", "%s = %g must be at least %g and below %g", name, value, low,
                      high);
}

redco_status redco_optimizer_check(const redco_optimizer *o, redco_error *err)
{
    static const double large = 1e6;
    redco_status st = in_range("weight decay", o->weight_decay, 0.0, large, err);
    if (st == REDCO_OK) { st = in_range("clip norm", o->clip_norm, 0.0, 1e30, err); }
    if (o->kind == REDCO_SGD) { return st == REDCO_OK ? in_range("momentum", o->momentum, 0.0, 1.0, err) : st; }
    if (st == REDCO_OK) { st = in_range("beta1", o->beta1, 0.0, 1.0, err); }
    if (o->kind == REDCO_ADAFACTOR) {
        if (st == REDCO_OK) { st = in_range("epsilon", o->epsilon, 1e-300, 1.0, err); }
        if (st == REDCO_OK) { st = in_range("decay power", o->decay_power, 1e-9, 1.0 + 1e-9, err); }
        if (st == REDCO_OK) { st = in_range("update clip", o->update_clip, 1e-30, 1e30, err); }
        return st == REDCO_OK ? in_range("scale epsilon", o->scale_epsilon, 0.0, large, err) : st;
    }
    if (st == REDCO_OK) { st = in_range("beta2", o->beta2, 0.0, 1.0, err); }
    if (st == REDCO_OK) { st = in_range("epsilon", o->epsilon, 0.0, 1.0, err); }
    return st;
}

redco_optimizer redco_optimizer_of(const redco_optimizer *all, const redco_own_settings *own, bool decayed,
                                   double *rate_factor_out)
{
    redco_optimizer o = *all;
    if (own->has_betas && o.kind == REDCO_ADAMW) {
        o.beta1 = own->beta1;
        o.beta2 = own->beta2;
    }
    if (own->has_epsilon && o.kind == REDCO_ADAMW) { o.epsilon = own->epsilon; }
    if (own->has_decay) { o.weight_decay = own->weight_decay; }
    if (!decayed) { o.weight_decay = 0.0; }
    if (rate_factor_out != NULL) { *rate_factor_out = own->rate_factor > 0.0 ? own->rate_factor : 1.0; }
    return o;
}

uint32_t redco_optimizer_states(const redco_optimizer *o)
{
    return o->kind == REDCO_ADAMW ? 2 : (o->kind == REDCO_SGD ? o->momentum : o->beta1) > 0.0 ? 1 : 0;
}

const char *redco_optimizer_state_name(const redco_optimizer *o, uint32_t state)
{
    return o->kind == REDCO_SGD ? "momentum_buffer" : state == 0 ? "exp_avg" : "exp_avg_sq";
}

const char *redco_optimizer_factor_name(uint32_t factor)
{
    static const char *const names[REDCO_OPTIMIZER_FACTORS] = {"optimizer.rate", "optimizer.correction1",
                                                               "optimizer.correction2"};
    return names[factor];
}

double redco_optimizer_rate(const redco_optimizer *o, double learning_rate, uint64_t step)
{
    return o->kind == REDCO_ADAFACTOR && o->relative_rate ? fmin(0.01, 1.0 / sqrt((double)step)) : learning_rate;
}

void redco_optimizer_factors(const redco_optimizer *o, double learning_rate, uint64_t step,
                             double factors_out[REDCO_OPTIMIZER_FACTORS])
{
    const bool adamw = o->kind == REDCO_ADAMW;
    factors_out[RATE] = learning_rate;
    factors_out[CORRECTION1] = adamw ? 1.0 - pow(o->beta1, (double)step) : 1.0;
    factors_out[CORRECTION2] = adamw ? 1.0 - pow(o->beta2, (double)step) : 1.0;
}

void redco_optimizer_numbers(const redco_optimizer *o, double learning_rate, uint64_t step, double gradient_factor,
                             double numbers_out[REDCO_ADAMW_COUNT])
{
    double factors[REDCO_OPTIMIZER_FACTORS];
    redco_optimizer_factors(o, learning_rate, step, factors);
    numbers_out[REDCO_ADAMW_RATE] = factors[RATE];
    numbers_out[REDCO_ADAMW_GRADIENT_SCALE] = gradient_factor;
    numbers_out[REDCO_ADAMW_BETA1] = o->beta1;
    numbers_out[REDCO_ADAMW_BETA2] = o->beta2;
    numbers_out[REDCO_ADAMW_EPSILON] = o->epsilon;
    numbers_out[REDCO_ADAMW_DECAY] = o->weight_decay;
    numbers_out[REDCO_ADAMW_CORRECTION1] = factors[CORRECTION1];
    numbers_out[REDCO_ADAMW_CORRECTION2] = factors[CORRECTION2];
    numbers_out[REDCO_ADAMW_REST1] = 1.0 - o->beta1;
    numbers_out[REDCO_ADAMW_REST2] = 1.0 - o->beta2;
}

void redco_optimizer_inputs(redco_graph *graph, redco_dtype dtype, redco_value factors_out[REDCO_OPTIMIZER_FACTORS])
{
    const redco_tensor_type scalar = redco_type(dtype, 0, NULL);
    for (uint32_t i = 0; i < REDCO_OPTIMIZER_FACTORS; i++) {
        factors_out[i] = redco_input(graph, redco_optimizer_factor_name(i), &scalar);
    }
}

redco_value redco_sum_of_squares(redco_graph *graph, const redco_value *gradients, uint32_t count)
{
    redco_value sum = REDCO_NO_VALUE;
    for (uint32_t i = 0; i < count; i++) {
        if (gradients[i] == REDCO_NO_VALUE) { return REDCO_NO_VALUE; }
        const redco_value squares = redco_sum_squares(graph, gradients[i]);
        sum = i == 0 ? squares : redco_add(graph, sum, squares);
    }
    return sum;
}

redco_value redco_clip_factor(redco_graph *graph, redco_value squares, double clip_norm)
{
    if (squares == REDCO_NO_VALUE) { return REDCO_NO_VALUE; }
    const redco_dtype dtype = redco_value_type(graph, squares)->dtype;
    const redco_value norm = redco_shift(graph, redco_sqrt(graph, squares), clip_epsilon);
    const redco_value ratio = redco_div(graph, redco_scalar(graph, dtype, clip_norm), norm);
    return redco_min(graph, ratio, redco_scalar(graph, dtype, 1.0));
}

/* The operator takes its numbers as one tensor; equal ones of all parameters are one. */
static redco_value adamw_numbers(redco_graph *g, const redco_optimizer *o, const redco_value *factors,
                                 redco_dtype dtype, redco_value clip)
{
    const redco_value scale = clip != REDCO_NO_VALUE ? redco_cast(g, clip, dtype) : redco_scalar(g, dtype, 1.0);
    redco_value numbers[REDCO_ADAMW_COUNT];
    numbers[REDCO_ADAMW_RATE] = factors[RATE];
    numbers[REDCO_ADAMW_GRADIENT_SCALE] = scale;
    numbers[REDCO_ADAMW_BETA1] = redco_scalar(g, dtype, o->beta1);
    numbers[REDCO_ADAMW_BETA2] = redco_scalar(g, dtype, o->beta2);
    numbers[REDCO_ADAMW_EPSILON] = redco_scalar(g, dtype, o->epsilon);
    numbers[REDCO_ADAMW_DECAY] = redco_scalar(g, dtype, o->weight_decay);
    numbers[REDCO_ADAMW_CORRECTION1] = factors[CORRECTION1];
    numbers[REDCO_ADAMW_CORRECTION2] = factors[CORRECTION2];
    numbers[REDCO_ADAMW_REST1] = redco_scalar(g, dtype, 1.0 - o->beta1);
    numbers[REDCO_ADAMW_REST2] = redco_scalar(g, dtype, 1.0 - o->beta2);
    for (uint32_t i = 0; i < REDCO_ADAMW_COUNT; i++) { numbers[i] = redco_reshape(g, numbers[i], 1, &(uint64_t){1}); }
    return redco_concat(g, numbers, REDCO_ADAMW_COUNT, 0);
}

static redco_value adamw(redco_graph *g, const redco_optimizer *o, const redco_value *factors, redco_value parameter,
                         redco_value gradient, redco_value clip, const redco_value *states, redco_value *states_out)
{
    const redco_dtype dtype = redco_value_type(g, parameter)->dtype;
    redco_value outputs[3];
    redco_adamw(g, parameter, states[0], states[1], gradient, adamw_numbers(g, o, factors, dtype, clip), outputs);
    states_out[0] = outputs[1];
    states_out[1] = outputs[2];
    return outputs[0];
}

static redco_value sgd(redco_graph *g, const redco_optimizer *o, const redco_value *factors, redco_value parameter,
                       redco_value gradient, redco_value clip, const redco_value *states, redco_value *states_out)
{
    const redco_dtype dtype = redco_value_type(g, parameter)->dtype;
    redco_value direction = redco_cast(g, gradient, dtype);
    if (clip != REDCO_NO_VALUE) { direction = redco_mul(g, direction, redco_cast(g, clip, dtype)); }
    if (o->weight_decay > 0.0) { direction = redco_add(g, direction, redco_scale(g, parameter, o->weight_decay)); }
    if (o->momentum > 0.0) {
        direction = redco_add(g, redco_scale(g, states[0], o->momentum), direction);
        states_out[0] = direction;
    }
    return redco_sub(g, parameter, redco_mul(g, direction, factors[RATE]));
}

redco_value redco_optimizer_update(redco_graph *graph, const redco_optimizer *optimizer,
                                   const redco_value factors[REDCO_OPTIMIZER_FACTORS], redco_value parameter,
                                   redco_value gradient, redco_value clip, const redco_value *states,
                                   redco_value *states_out)
{
    for (uint32_t i = 0; i < redco_optimizer_states(optimizer); i++) { states_out[i] = REDCO_NO_VALUE; }
    if (parameter == REDCO_NO_VALUE || gradient == REDCO_NO_VALUE) { return REDCO_NO_VALUE; }
    return optimizer->kind == REDCO_ADAMW
               ? adamw(graph, optimizer, factors, parameter, gradient, clip, states, states_out)
               : sgd(graph, optimizer, factors, parameter, gradient, clip, states, states_out);
}
