/* A plan's training on one rank. */
#include "executor/backend/host/host.h"
#include "executor/data/initial.h"
#include "executor/trainer/collect.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rounding of a gradient's element in units of that of the length of all gradients: sums of some hundred terms, whose
 * roundings add up like a random walk (executor/PARITY.md). */
static const double rounding_units = 16.0;

static redco_status no_memory(const char *place, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, place, "no memory to train it on one rank");
}

static redco_status start(redco_baseline *b, const redco_plan *plan, const char *place, uint64_t micro_batches,
                          redco_error *err)
{
    const redco_dtype dtype = b->options.dtype, master = dtype == REDCO_F64 ? REDCO_F64 : REDCO_F32;
    const redco_reference_options options = {
        dtype, dtype, master, (uint32_t)micro_batches, b->options.optimizer, b->options.decay_matrices};
    redco_status st = redco_host_open(NULL, &b->backend, err);
    if (st == REDCO_OK) { st = redcoi_subject_open(plan, place, &b->options, &b->subject, err); }
    if (st != REDCO_OK) { return st; }
    const redco_task *const task = b->subject.task;
    redco_weights *weights = NULL;
    st = redco_reference_create(b->backend, task, &options, &b->reference, err);
    if (st == REDCO_OK) {
        st = redcoi_weights_open(&b->options, task, b->subject.lm != NULL ? b->subject.model : NULL, &weights, err);
    }
    for (size_t i = 0; i < task->parameter_count && st == REDCO_OK; i++) {
        void *const to = redco_reference_master(b->reference, i);
        st = redco_weights_has(weights, i)
                 ? redco_weights_read(weights, i, NULL, master, to, err)
                 : redco_initial_fill(b->backend, &task->parameters[i], NULL, b->options.seed, master, to, err);
    }
    redco_weights_close(weights);
    return st;
}

static double value_at(redco_dtype dtype, const void *data, uint64_t i)
{
    return dtype == REDCO_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* SGD moves an element by the rate times its gradient, momentum by 1 / (1 - momentum) of that in the end; an assigned
 * one by what it is assigned. */
static void add_drift_of_sgd(redco_baseline *b, double rate, double error)
{
    const redco_task *const task = b->subject.task;
    for (size_t i = 0; i < task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], b->options.dtype);
        const uint64_t count = redco_type_elements(&type);
        double factor = 1.0;
        (void)redco_optimizer_of(&b->options.optimizer, &task->parameters[i].own, true, &factor);
        const double moved = rate * factor * error;
        for (uint64_t e = 0; e < count && task->parameters[i].training == REDCO_TRAINED; e++) {
            b->drift[i][e] += moved / (1.0 - b->options.optimizer.momentum);
        }
    }
}

/* AdamW moves an element by rate × m / (sqrt(v) + epsilon). An error e of its gradient therefore moves it by some
 * rate × e / (sqrt(v) + epsilon), but never by more than 2 rates: from one sign to the other. */
static void add_drift(redco_baseline *b, uint64_t step, double rate, double norm)
{
    const redco_task *const task = b->subject.task;
    const redco_optimizer *const all = &b->options.optimizer;
    const double length = all->clip_norm > 0.0 ? fmin(norm, all->clip_norm) : norm;
    const double unit = b->options.dtype == REDCO_F64 ? DBL_EPSILON / 2.0 : (double)FLT_EPSILON / 2.0;
    const double error = rounding_units * unit * length;
    if (all->kind == REDCO_SGD) {
        add_drift_of_sgd(b, rate, error);
        return;
    }
    for (size_t i = 0; i < task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], b->options.dtype);
        const void *const squares = redco_reference_state(b->reference, i, 1);
        const uint64_t count = redco_type_elements(&type);
        double *const drift = b->drift[i];
        if (task->parameters[i].training != REDCO_TRAINED) { continue; }
        assert(drift != NULL);
        double factor = 1.0;
        const redco_optimizer o = redco_optimizer_of(all, &task->parameters[i].own, true, &factor);
        const double spread = 1.0 - pow(o.beta2, (double)step);
        for (uint64_t e = 0; e < count; e++) {
            const double size = sqrt(value_at(b->options.dtype, squares, e) / spread) + o.epsilon;
            drift[e] += factor * rate * fmin(2.0, error / size);
        }
    }
}

static redco_status take_drift(redco_baseline *b, const char *place, redco_error *err)
{
    const redco_task *const task = b->subject.task;
    if (b->options.dtype != REDCO_F64 && b->options.dtype != REDCO_F32) { return REDCO_OK; }
    if (b->options.optimizer.kind == REDCO_ADAFACTOR) {
        return redco_fail(err, REDCO_EVALUE, "check", "the optimizer must be AdamW or SGD");
    }
    b->drift = calloc(task->parameter_count + 1, sizeof *b->drift);
    if (b->drift == NULL) { return no_memory(place, err); }
    for (size_t i = 0; i < task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], b->options.dtype);
        b->drift[i] = calloc(redco_type_elements(&type), sizeof *b->drift[i]);
        if (b->drift[i] == NULL) { return no_memory(place, err); }
    }
    return REDCO_OK;
}

/* Examples that the pipeline makes, with the weights of here. */
static redco_status collect(redco_baseline *b, uint64_t step, redco_error *err)
{
    redco_user_collector *const collector = b->subject.collector;
    const redco_task *const task = b->subject.task;
    redco_status st = REDCO_OK;
    if (collector == NULL || !redco_collector_due(collector, step)) { return REDCO_OK; }
    if (b->policy == NULL && redco_user_pipeline_of(b->options.pipeline)->predict != NULL) {
        st = redcoi_policy_create(b->options.pipeline, task, b->options.dtype, &b->policy, err);
    }
    for (size_t i = 0; b->policy != NULL && i < task->parameter_count && st == REDCO_OK; i++) {
        const redco_tensor_type type =
            redco_task_parameter_type(&task->parameters[i], redco_dtype_statistic(b->options.dtype));
        memcpy(redcoi_policy_weights(b->policy, i), redco_reference_master(b->reference, i), redco_type_bytes(&type));
    }
    return st == REDCO_OK ? redco_collector_collect(collector, step, redcoi_policy_predict, b->policy, err) : st;
}

/* All micro-batches of all ranks, in the order of their sequences. */
static redco_status train(redco_baseline *b, const redco_plan *plan, const char *place, uint64_t micro_batches,
                          redco_error *err)
{
    const size_t inputs = b->subject.task->input_count;
    void **const data = calloc(inputs * micro_batches + 1, sizeof(void *));
    int32_t(*const keys)[2] = calloc(micro_batches + 1, sizeof *keys);
    redco_status st = data == NULL || keys == NULL ? no_memory(place, err) : REDCO_OK;
    for (uint64_t m = 0; m < micro_batches && st == REDCO_OK; m++) {
        if (!redcoi_subject_take_inputs(&b->subject, data + m * inputs)) { st = no_memory(place, err); }
    }
    for (uint64_t s = 0; s < b->step_count && st == REDCO_OK; s++) {
        redco_reference_step step = {0};
        if ((st = collect(b, s, err)) != REDCO_OK) { break; }
        const double rate = redco_rate_at(&b->options.schedule, b->options.learning_rate, s + 1);
        for (uint64_t m = 0; m < micro_batches && st == REDCO_OK; m++) {
            const redco_batch_place at = {.step = s,
                                          .micro_batch = m,
                                          .dp_ranks = 1,
                                          .micro_batches = micro_batches,
                                          .sequences = plan->parallelism.micro_batch};
            st = redcoi_subject_batch(&b->subject, &at, data + m * inputs, keys[m], err);
        }
        if (st == REDCO_OK) {
            st = redco_reference_train(b->reference, (const void *const *)data, (const int32_t(*)[2])keys, rate, &step,
                                       err);
        }
        if (st == REDCO_OK && b->drift != NULL) { add_drift(b, s + 1, rate, step.gradient_norm); }
        b->steps[s] = (redco_trainer_step){.loss = step.loss, .gradient_norm = step.gradient_norm};
    }
    for (uint64_t i = 0; data != NULL && i < inputs * micro_batches; i++) { free(data[i]); }
    free((void *)data);
    free(keys);
    return st;
}

redco_status redco_baseline_train(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                  uint64_t step_count, redco_baseline **baseline_out, redco_error *err)
{
    const uint64_t micro_batches = plan->parallelism.micro_batches * redco_mesh_ranks(plan->parallelism.dp);
    if (micro_batches > UINT32_MAX) {
        return redco_fail(err, REDCO_EVALUE, place, "%llu micro-batches are too many for one rank",
                          (unsigned long long)micro_batches);
    }
    redco_baseline *const b = calloc(1, sizeof *b);
    if (b == NULL) { return no_memory(place, err); }
    b->options = *options;
    b->seq_len = plan->seq_len;
    b->sequences = micro_batches * plan->parallelism.micro_batch;
    b->step_count = step_count;
    b->steps = calloc(step_count + 1, sizeof *b->steps);
    redco_status st = b->steps == NULL ? no_memory(place, err) : start(b, plan, place, micro_batches, err);
    if (st == REDCO_OK) { st = take_drift(b, place, err); }
    if (st == REDCO_OK) { st = train(b, plan, place, micro_batches, err); }
    if (st != REDCO_OK) {
        redco_baseline_free(b);
        return st;
    }
    *baseline_out = b;
    return REDCO_OK;
}

void redco_baseline_free(redco_baseline *b)
{
    if (b == NULL) { return; }
    for (size_t i = 0; b->drift != NULL && i < b->subject.task->parameter_count; i++) { free(b->drift[i]); }
    free(b->drift);
    redco_reference_free(b->reference);
    redcoi_policy_free(b->policy);
    redcoi_subject_close(&b->subject);
    redco_backend_close(b->backend);
    free(b->steps);
    free(b);
}

const redco_trainer_step *redco_baseline_steps(const redco_baseline *baseline, uint64_t *count_out)
{
    *count_out = baseline->step_count;
    return baseline->steps;
}
