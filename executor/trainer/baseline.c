/* A plan's training on one rank. */
#include "executor/backend/host/host.h"
#include "executor/data/initial.h"
#include "executor/trainer/trainer_internal.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Rounding of a gradient's element in units of that of the length of all gradients: sums of some hundred terms, whose
 * roundings add up like a random walk (executor/PARITY.md). */
static const double rounding_units = 16.0;

static redco_status no_memory(const char *place, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, place, "no memory to train it on one rank");
}

redco_status redcoi_subject_open(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                 redcoi_subject *subject, redco_error *err)
{
    const redco_json_value config = redco_json_wrap(plan->model_config, place);
    redco_status st = redco_model_from_json(&config, plan->model_name, &subject->model, err);
    if (st == REDCO_OK) {
        st = redco_language_model_create(subject->model, plan->micro_batch, plan->seq_len, &subject->lm, err);
    }
    if (st != REDCO_OK) { return st; }
    const redco_model_dims *const dims = redco_model_get_dims(subject->model);
    const redco_tokens_options tokens = {options->seed, dims->vocab, plan->seq_len, dims->encoder_layers > 0};
    return options->data != NULL ? redco_tokens_open(options->data, 0, &tokens, &subject->tokens, err)
                                 : redco_tokens_random(&tokens, &subject->tokens, err);
}

void redcoi_subject_close(redcoi_subject *subject)
{
    redco_tokens_close(subject->tokens);
    redco_language_model_free(subject->lm);
    redco_model_free(subject->model);
    *subject = (redcoi_subject){.model = NULL};
}

static redco_status start(redco_baseline *b, const redco_plan *plan, const char *place, uint64_t micro_batches,
                          redco_error *err)
{
    const redco_dtype dtype = b->options.dtype, master = dtype == REDCO_F64 ? REDCO_F64 : REDCO_F32;
    const redco_reference_options options = {dtype, dtype, master, (uint32_t)micro_batches, b->options.optimizer};
    redco_status st = redco_host_open(NULL, &b->backend, err);
    if (st == REDCO_OK) { st = redcoi_subject_open(plan, place, &b->options, &b->subject, err); }
    if (st != REDCO_OK) { return st; }
    const redco_task *const task = redco_language_model_task(b->subject.lm);
    redco_weights *weights = NULL;
    st = redco_reference_create(b->backend, task, &options, &b->reference, err);
    if (st == REDCO_OK && b->options.weights != NULL) {
        st = redco_weights_open(b->options.weights, task, b->subject.model, &weights, err);
    }
    for (size_t i = 0; i < task->parameter_count && st == REDCO_OK; i++) {
        void *const to = redco_reference_master(b->reference, i);
        st = weights != NULL
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

/* AdamW moves an element by rate × m / (sqrt(v) + epsilon). An error e of its gradient therefore moves it by some
 * rate × e / (sqrt(v) + epsilon), but never by more than 2 rates: from one sign to the other. */
static void add_drift(redco_baseline *b, uint64_t step, double norm)
{
    const redco_task *const task = redco_language_model_task(b->subject.lm);
    const redco_optimizer *const o = &b->options.optimizer;
    const double length = o->clip_norm > 0.0 ? fmin(norm, o->clip_norm) : norm;
    const double unit = b->options.dtype == REDCO_F64 ? DBL_EPSILON / 2.0 : (double)FLT_EPSILON / 2.0;
    const double error = rounding_units * unit * length, spread = 1.0 - pow(o->beta2, (double)step);
    for (size_t i = 0; i < task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], b->options.dtype);
        const void *const squares = redco_reference_state(b->reference, i, 1);
        const uint64_t count = redco_type_elements(&type);
        double *const drift = b->drift[i];
        assert(drift != NULL);
        for (uint64_t e = 0; e < count; e++) {
            const double size = sqrt(value_at(b->options.dtype, squares, e) / spread) + o->epsilon;
            drift[e] += b->options.learning_rate * fmin(2.0, error / size);
        }
    }
}

static redco_status take_drift(redco_baseline *b, const char *place, redco_error *err)
{
    const redco_task *const task = redco_language_model_task(b->subject.lm);
    if (b->options.dtype != REDCO_F64 && b->options.dtype != REDCO_F32) { return REDCO_OK; }
    if (b->options.optimizer.kind != REDCO_ADAMW) {
        return redco_fail(err, REDCO_EVALUE, "check", "the optimizer must be AdamW");
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

/* All micro-batches of all ranks, in the order of their sequences. */
static redco_status train(redco_baseline *b, const redco_plan *plan, const char *place, uint64_t micro_batches,
                          redco_error *err)
{
    const size_t ids = (size_t)plan->micro_batch * plan->seq_len;
    int32_t *const tokens = calloc(2 * ids * micro_batches, sizeof *tokens);
    const void **const inputs = calloc(2 * micro_batches, sizeof *inputs);
    redco_status st = tokens == NULL || inputs == NULL ? no_memory(place, err) : REDCO_OK;
    for (uint64_t s = 0; s < b->step_count && st == REDCO_OK; s++) {
        redco_reference_step step = {0};
        for (uint64_t m = 0; m < micro_batches && st == REDCO_OK; m++) {
            const redco_batch_place at = {.step = s,
                                          .micro_batch = m,
                                          .dp_ranks = 1,
                                          .micro_batches = micro_batches,
                                          .sequences = plan->micro_batch};
            int32_t *const first = tokens + 2 * ids * m;
            inputs[2 * m] = first;
            inputs[2 * m + 1] = first + ids;
            st = redco_tokens_batch(b->subject.tokens, &at, first, first + ids, err);
        }
        if (st == REDCO_OK) {
            st = redco_reference_train(b->reference, inputs, NULL, b->options.learning_rate, &step, err);
        }
        if (st == REDCO_OK && b->drift != NULL) { add_drift(b, s + 1, step.gradient_norm); }
        b->steps[s] = (redco_trainer_step){.loss = step.loss, .gradient_norm = step.gradient_norm};
    }
    free(tokens);
    free((void *)(uintptr_t)inputs);
    return st;
}

redco_status redco_baseline_train(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                  uint64_t step_count, redco_baseline **baseline_out, redco_error *err)
{
    const uint64_t micro_batches = plan->micro_batches * redco_mesh_ranks(plan->dp);
    if (micro_batches > UINT32_MAX) {
        return redco_fail(err, REDCO_EVALUE, place, "%llu micro-batches are too many for one rank",
                          (unsigned long long)micro_batches);
    }
    redco_baseline *const b = calloc(1, sizeof *b);
    if (b == NULL) { return no_memory(place, err); }
    b->options = *options;
    b->seq_len = plan->seq_len;
    b->sequences = micro_batches * plan->micro_batch;
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
    for (size_t i = 0; b->drift != NULL && i < redco_language_model_task(b->subject.lm)->parameter_count; i++) {
        free(b->drift[i]);
    }
    free(b->drift);
    redco_reference_free(b->reference);
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
