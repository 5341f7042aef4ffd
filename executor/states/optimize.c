/* The optimizer on what a rank owns. */
#include "executor/states/adafactor.h"

#include <string.h>

static void put_numbers(const redco_states *states, const double *numbers, unsigned char *to)
{
    for (uint32_t i = 0; i < REDCO_ADAMW_COUNT; i++) {
        const float narrow = (float)numbers[i];
        if (states->master == REDCO_F64) {
            memcpy(to + i * sizeof numbers[i], &numbers[i], sizeof numbers[i]);
        } else {
            memcpy(to + i * sizeof narrow, &narrow, sizeof narrow);
        }
    }
}

/* Numbers in double, rounded to the master type, to where programs read them. */
redco_status redco_states_begin_update(redco_states *states, redco_states_worker *worker, const redco_update *update,
                                       redco_error *err)
{
    double numbers[REDCO_ADAMW_COUNT] = {0.0};
    const redco_status st = states->adafactor != NULL ? redcoi_adafactor_begin(states, update, err) : REDCO_OK;
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < states->setting_count; i++) {
        const redcoi_setting *const setting = &states->settings[i];
        redco_optimizer_numbers(&setting->optimizer, update->learning_rate * setting->rate_factor, update->step,
                                update->gradient_factor, numbers);
        put_numbers(states, numbers, worker->staging + redcoi_numbers_at(i));
    }
    numbers[REDCO_ADAMW_GRADIENT_SCALE] = update->mean_factor;
    if (states->has_assigned) {
        put_numbers(states, numbers, worker->staging + redcoi_numbers_at(states->setting_count));
    }
    return redcoi_copy(worker, worker->numbers, worker->staging, redcoi_numbers_bytes(states), err);
}

static redco_status update_run(redco_states *states, redco_states_worker *worker, uint32_t layer,
                               const redco_shard_slice *run, redco_error *err)
{
    static const char *const name = "step/optimizer";
    const bool assigned = redcoi_model(states)->tensors[run->tensor].assigned;
    const redco_optimizer *const optimizer = &states->settings[states->setting_of[run->tensor]].optimizer;
    const redcoi_program *const program = assigned ? &states->assign
                                          : optimizer->kind == REDCO_SGD && !(optimizer->weight_decay > 0.0)
                                              ? &states->update_undecayed
                                              : &states->update;
    const uint32_t setting = assigned ? states->setting_count : states->setting_of[run->tensor];
    const size_t at = (size_t)(states->owned_at[layer] + run->owned_at) * redco_dtype_bytes(states->master);
    unsigned char *const parameter = redcoi_parameter(states, layer, run->shard_at);
    const void *inputs[REDCOI_PROGRAM_INPUTS];
    void *outputs[REDCOI_PROGRAM_OUTPUTS];
    uint32_t in = 0, out = 0;
    outputs[out++] = states->has_master ? states->owned[0] + at : parameter;
    inputs[in++] = worker->numbers + redcoi_numbers_at(setting);
    inputs[in++] = outputs[0];
    inputs[in++] = redcoi_gradient(states, layer, run->gradient_at);
    for (uint32_t i = 0; i < states->state_count && !assigned; i++) {
        outputs[out++] = states->owned[1 + i] + at;
        inputs[in++] = outputs[1 + i];
    }
    if (states->has_master) { outputs[out++] = parameter; }
    return redcoi_program_run(program, &worker->memory, inputs, outputs, run->count, name, err);
}

redco_status redco_states_update(redco_states *states, redco_states_worker *worker, uint32_t layer, redco_error *err)
{
    uint32_t count = 0, at = 0;
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, layer, &count);
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && states->adafactor != NULL && st == REDCO_OK; i++) {
        if (slices[i].owned_at == REDCO_NOWHERE) { continue; }
        if (redcoi_model(states)->tensors[slices[i].tensor].assigned) {
            st = update_run(states, worker, layer, &slices[i], err);
        } else {
            redcoi_adafactor_run(states, layer, &slices[i]);
        }
    }
    if (states->adafactor != NULL) { return st; }
    for (redco_shard_slice run; st == REDCO_OK && redcoi_next_run(states, slices, count, &at, &run);) {
        st = update_run(states, worker, layer, &run, err);
    }
    return st;
}
