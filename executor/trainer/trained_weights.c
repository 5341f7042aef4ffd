/* First weights from files, and weights of all modules at once, between steps. */
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>

redco_status redcoi_weights_open(const redco_trainer_options *options, const redco_task *task, const redco_model *model,
                                 redco_weights **weights_out, redco_error *err)
{
    const char *const unknown = model != NULL && options->weights != NULL ? redco_model_unknown_keys(model) : NULL;
    if (unknown != NULL) {
        return redco_fail(
            err, REDCO_EVALUE, redco_model_name(model),
            "its config has keys that redco does not know, and weights may mean something else with them: "
            "%.400s; leave out of the config those that change nothing",
            unknown);
    }
    if (options->weights != NULL) { return redco_weights_open(options->weights, task, model, weights_out, err); }
    return options->weights_part_count > 0
               ? redco_weights_open_parts(options->weights_parts, options->weights_part_count, task, weights_out, err)
               : REDCO_OK;
}

const void *redcoi_weights_of(const redco_trainer *t, uint32_t module)
{
    return t->weights[module] != NULL ? t->weights[module] : redco_states_module(t->states, module);
}

redco_status redcoi_weights_read(const redco_trainer *t, uint32_t module, void *to, redco_error *err)
{
    const redco_backend_calls *const calls = t->backend->calls;
    const uint64_t bytes =
        redco_layout_module(redco_states_layout(t->states), module)->whole * redco_dtype_bytes(t->options.dtype);
    redco_device_stream *stream = NULL;
    redco_status st = calls->stream_create(t->backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, err);
    if (st != REDCO_OK) { return st; }
    st = calls->copy(t->backend, stream, to, redcoi_weights_of(t, module), bytes, err);
    if (st == REDCO_OK) { st = calls->stream_finish(t->backend, stream, err); }
    calls->stream_free(t->backend, stream);
    return st;
}

static redco_status take_memory(redco_trainer *t, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(t->states);
    const size_t element_bytes = redco_dtype_bytes(t->options.dtype);
    redco_status st = REDCO_OK;
    if (t->weights != NULL) { return REDCO_OK; }
    t->weights = calloc((size_t)t->modules.model.module_count + 1, sizeof *t->weights);
    if (t->weights == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory for all weights"); }
    for (uint32_t m = 0; m < t->modules.model.module_count && st == REDCO_OK; m++) {
        if (!redco_states_gathers(t->states, m)) { continue; }
        st = t->backend->calls->allocate(t->backend, REDCO_MEMORY_DEVICE,
                                         redco_layout_module(layout, m)->whole * element_bytes, &t->weights[m], err);
    }
    return st;
}

/* Where there is a second copy, backward reads that one; it has the same values, or the run shows it. */
redco_status redcoi_weights_gather(redco_trainer *t, redco_error *err)
{
    const bool second = t->plan->parallelism.secondary.gpus > 0;
    redco_status st = take_memory(t, err);
    if (st == REDCO_OK) { st = redco_schedule_settle(t->schedule, err); }
    for (uint32_t m = 0; m < t->modules.model.module_count && st == REDCO_OK; m++) {
        if (t->weights[m] == NULL) { continue; }
        st = redco_states_gather(t->states, t->worker, m, false, t->weights[m], err);
        if (st == REDCO_OK) { st = redco_states_keep_secondary(t->states, t->worker, m, t->weights[m], err); }
        if (st == REDCO_OK && second) { st = redco_states_gather(t->states, t->worker, m, true, t->weights[m], err); }
    }
    return st == REDCO_OK ? redco_states_worker_finish(t->worker, err) : st;
}
