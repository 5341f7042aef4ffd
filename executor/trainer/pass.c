/* One micro-batch on this rank: weights are gathered, the whole graph is run, gradients are handed over. */
#include "executor/trainer/trainer_internal.h"

const void *redcoi_pass_weights(const redco_trainer *t, uint32_t module)
{
    return t->weights[module] != NULL ? t->weights[module] : redco_states_module(t->states, module);
}

/* Where there is a second copy, backward reads that one; it has the same values, or the run shows it. */
redco_status redcoi_pass_gather(redco_trainer *t, bool keep, redco_error *err)
{
    const bool second = t->plan->secondary.gpus > 0;
    redco_status st = REDCO_OK;
    for (uint32_t m = 0; m < t->modules.model.module_count && st == REDCO_OK; m++) {
        if (t->weights[m] == NULL) { continue; }
        st = redco_states_gather(t->states, t->worker, m, false, t->weights[m], err);
        if (st == REDCO_OK && keep) { st = redco_states_keep_secondary(t->states, t->worker, m, t->weights[m], err); }
        if (st == REDCO_OK && second) { st = redco_states_gather(t->states, t->worker, m, true, t->weights[m], err); }
    }
    return st;
}

static unsigned char *at(const redco_trainer *t, const void *module, uint32_t tensor)
{
    const uint64_t first = redco_layout_tensor_at(redco_states_layout(t->states), tensor);
    return (unsigned char *)(uintptr_t)module + (size_t)first * redco_dtype_bytes(t->options.dtype);
}

static uint32_t bind(redco_trainer *t)
{
    static const int32_t no_key[2] = {0, 0}; /* language models draw no random numbers */
    const redco_layout *const layout = redco_states_layout(t->states);
    const void *const inputs[] = {t->ids, t->targets, no_key};
    const char *const names[] = {"tokens", "targets", "key"};
    uint32_t count = 0;
    for (size_t i = 0; i < t->task->parameter_count; i++) {
        const redco_value value = redco_graph_find_input(t->graph, t->task->parameters[i].name);
        if (value == REDCO_NO_VALUE) { continue; }
        const void *const module = redcoi_pass_weights(t, redco_layout_module_of(layout, (uint32_t)i));
        t->bindings[count++] = (redco_binding){value, at(t, module, (uint32_t)i)};
    }
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++) {
        const redco_value value = redco_graph_find_input(t->graph, names[i]);
        if (value != REDCO_NO_VALUE) { t->bindings[count++] = (redco_binding){value, inputs[i]}; }
    }
    return count;
}

static redco_status compute(redco_trainer *t, double *loss_out, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(t->states);
    const uint32_t bindings = bind(t), parameters = (uint32_t)t->task->parameter_count;
    union {
        double f64;
        float f32;
    } loss = {0.0};
    t->results[0] = (redco_result){t->outputs[0], &loss};
    for (uint32_t i = 0; i < parameters; i++) {
        t->results[i + 1] =
            (redco_result){t->outputs[i + 1], at(t, t->gradients[redco_layout_module_of(layout, i)], i)};
    }
    const redco_status st = redco_evaluate_rank(t->backend, &t->collectives, t->graph, t->bindings, bindings,
                                                t->results, parameters + 1, err);
    const bool wide = redco_value_type(t->graph, t->outputs[0])->dtype == REDCO_F64;
    *loss_out = wide ? loss.f64 : (double)loss.f32;
    return st;
}

redco_status redcoi_pass(redco_trainer *t, redco_micro_batch micro_batch, double *loss_out, redco_error *err)
{
    redco_status st = redcoi_pass_gather(t, micro_batch.index == 0, err);
    if (st == REDCO_OK) { st = compute(t, loss_out, err); }
    for (uint32_t m = t->modules.model.module_count; m-- > 0 && st == REDCO_OK;) {
        const uint32_t bucket = redco_states_bucket_after(t->states, m);
        st = redco_states_scatter(t->states, t->worker, m, t->gradients[m], t->shard, err);
        if (st == REDCO_OK) { st = redco_states_take(t->states, t->worker, m, micro_batch, t->shard, err); }
        if (st == REDCO_OK && bucket != REDCO_NO_BUCKET) {
            st = redco_states_reduce(t->states, t->worker, bucket, micro_batch, err);
        }
    }
    return st;
}
