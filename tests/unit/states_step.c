#include "tests/unit/states_step.h"

#include "executor/states/states_internal.h"

#include <math.h>

struct step {
    redco_states *states;
    redco_states_worker *worker;
    const gradient_source *source;
    unsigned char *weights, *gradient; /* a module's */
};

static redco_status gather(const struct step *s, uint32_t module, bool backward, const void **weights_out,
                           redco_error *err)
{
    *weights_out = s->weights;
    if (redco_states_gathers(s->states, module)) {
        return redco_states_gather(s->states, s->worker, module, backward, s->weights, err);
    }
    *weights_out = redco_states_module(s->states, module);
    return REDCO_OK;
}

static redco_status forward(const struct step *s, bool keep, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t m = 0; m < redcoi_model(s->states)->module_count && st == REDCO_OK; m++) {
        const void *weights = NULL;
        st = gather(s, m, false, &weights, err);
        if (st == REDCO_OK && keep) { st = redco_states_keep_secondary(s->states, s->worker, m, weights, err); }
    }
    return st;
}

/* The bucket that is full when the gradients of a module, and of all behind it, were taken. */
static uint32_t bucket_after(const redco_states *states, uint32_t module)
{
    const uint32_t bucket = redco_states_bucket_of(states, module);
    for (uint32_t m = 0; m < module; m++) {
        if (redco_states_bucket_of(states, m) == bucket) { return REDCO_NO_BUCKET; }
    }
    return bucket;
}

/* Gradients land where the next call reads them: the scattered part of a module is its shard. */
static redco_status backward(const struct step *s, redco_micro_batch micro_batch, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t m = redcoi_model(s->states)->module_count; m-- > 0 && st == REDCO_OK;) {
        const uint32_t bucket = bucket_after(s->states, m);
        const void *weights = NULL;
        st = gather(s, m, true, &weights, err);
        if (st == REDCO_OK) { st = redco_states_worker_finish(s->worker, err); }
        if (st == REDCO_OK) { st = s->source->gradient(s->source->context, micro_batch, m, weights, s->gradient, err); }
        if (st == REDCO_OK) { st = redco_states_scatter(s->states, s->worker, m, s->gradient, s->weights, err); }
        if (st == REDCO_OK) { st = redco_states_take(s->states, s->worker, m, micro_batch, s->weights, err); }
        if (st == REDCO_OK && bucket != REDCO_NO_BUCKET) {
            st = redco_states_reduce(s->states, s->worker, bucket, micro_batch, err);
        }
    }
    return st;
}

static redco_status finish(const struct step *s, const step_options *options, double *norm_out, redco_error *err)
{
    const uint32_t layers = redcoi_model(s->states)->layer_count;
    redco_update update = {options->learning_rate, options->step, options->gradient_scale, options->gradient_scale};
    double squares = 0.0;
    redco_status st = redco_states_squares(s->states, s->worker, err);
    if (st == REDCO_OK) { st = redco_states_worker_finish(s->worker, err); }
    if (st == REDCO_OK) { squares = redco_states_squares_sum(s->states); }
    if (st == REDCO_OK) { st = redco_states_sum(s->states, &squares, 1, err); }
    if (st != REDCO_OK) { return st; }
    *norm_out = fabs(options->gradient_scale) * sqrt(squares);
    if (!isfinite(*norm_out)) {
        return redco_fail(err, REDCO_EVALUE, "step/grad_norm", "the norm of the gradients of step %llu is %g",
                          (unsigned long long)options->step, *norm_out);
    }
    update.gradient_factor *= redco_states_clip_factor(s->states, *norm_out);
    st = redco_states_begin_update(s->states, s->worker, &update, err);
    for (uint32_t l = 0; l < layers && st == REDCO_OK; l++) { st = redco_states_update(s->states, s->worker, l, err); }
    for (uint32_t l = 0; l < layers && st == REDCO_OK; l++) { st = redco_states_sync(s->states, s->worker, l, err); }
    return st;
}

redco_status states_step(redco_states *states, redco_states_worker *worker, const gradient_source *source,
                         const step_options *options, double *norm_out, redco_error *err)
{
    redco_backend *const backend = worker->memory.backend;
    if (options->micro_batches == 0 || options->step == 0) {
        return redco_fail(err, REDCO_EVALUE, "step", "step %llu of %u micro-batches; both count from 1",
                          (unsigned long long)options->step, options->micro_batches);
    }
    const uint64_t bytes = redcoi_bytes(states, redco_layout_sizes(states->layout).whole);
    void *weights = NULL, *gradient = NULL;
    redco_status st = backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, bytes, &weights, err);
    if (st == REDCO_OK) { st = backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, bytes, &gradient, err); }
    if (st == REDCO_OK) { st = backend->calls->fill_zero(backend, worker->memory.stream, gradient, bytes, err); }
    const struct step step = {states, worker, source, weights, gradient};
    for (uint32_t i = 0; i < options->micro_batches && st == REDCO_OK; i++) {
        st = forward(&step, i == 0, err);
        if (st == REDCO_OK) { st = backward(&step, (redco_micro_batch){i, options->micro_batches}, err); }
    }
    if (st == REDCO_OK) { st = finish(&step, options, norm_out, err); }
    /* Also after a failure: what is queued may still use the memory. */
    const redco_status end = redco_states_worker_finish(worker, st == REDCO_OK ? err : NULL);
    if (st == REDCO_OK) { st = end; }
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, weights);
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, gradient);
    return st;
}
