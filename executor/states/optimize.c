/* The norm of all gradients, and the optimizer on what a rank owns. */
#include "executor/states/adafactor.h"

#include <math.h>
#include <string.h>

/* Added by torch.nn.utils.clip_grad_norm_, so that a norm of zero can be divided by. */
static const double clip_epsilon = 1e-6;

/* Below, chunks are cut to fit a cache; above, to launch seldom. */
static const uint64_t joined_elements_min = (uint64_t)1 << 20;

/* Several blocks of ranks may own the same states, and tensor-parallel ranks the same tensors: the first counts. What
 * is assigned has no gradient. */
bool redcoi_counts(const redco_states *states, uint32_t layer, const redco_shard_slice *slice)
{
    const redco_place place = redco_layout_place(states->layout);
    const redco_mesh owners = redcoi_shards(states, layer)->optimizer;
    if (redcoi_model(states)->tensors[slice->tensor].assigned) { return false; }
    if (slice->owned_at == REDCO_NOWHERE || place.gpu >= owners.gpus || place.node >= owners.nodes) { return false; }
    return place.tp == 0 || !redcoi_model(states)->tensors[slice->tensor].replicated;
}

/* Slices that are contiguous in all that an update touches are one, where launches count. */
static bool continues(const redco_states *states, const redco_shard_slice *run, const redco_shard_slice *next)
{
    const redco_state_tensor *const tensors = redcoi_model(states)->tensors;
    return next->owned_at == run->owned_at + run->count && next->gradient_at == run->gradient_at + run->count &&
           next->shard_at == run->shard_at + run->count &&
           tensors[next->tensor].assigned == tensors[run->tensor].assigned &&
           states->setting_of[next->tensor] == states->setting_of[run->tensor] &&
           tensors[next->tensor].replicated == tensors[run->tensor].replicated;
}

/* Walks over what this rank owns of a layer. @return false at the end */
static bool next_run(const redco_states *states, const redco_shard_slice *slices, uint32_t count, uint32_t *at,
                     redco_shard_slice *run_out)
{
    const bool joined = states->options.chunk_elements >= joined_elements_min;
    while (*at < count && slices[*at].owned_at == REDCO_NOWHERE) { (*at)++; }
    if (*at == count) { return false; }
    *run_out = slices[(*at)++];
    while (joined && *at < count && slices[*at].owned_at != REDCO_NOWHERE && continues(states, run_out, &slices[*at])) {
        run_out->count += slices[(*at)++].count;
    }
    return true;
}

static uint64_t chunks_of(const redco_states *states, uint64_t count)
{
    const uint64_t chunk = states->squares.chunk;
    return count / chunk + (count % chunk > 0 ? 1 : 0);
}

uint32_t redcoi_sums_count(const redco_states *states)
{
    uint64_t sums = 0;
    for (uint32_t l = 0; l < redcoi_model(states)->layer_count; l++) {
        uint32_t count = 0, at = 0;
        const redco_shard_slice *const slices = redco_layout_slices(states->layout, l, &count);
        for (redco_shard_slice run; next_run(states, slices, count, &at, &run);) {
            if (redcoi_counts(states, l, &run)) { sums += chunks_of(states, run.count); }
        }
    }
    return (uint32_t)sums; /* slices are numbered in 32 bits, and a chunk has 16 elements or more of 2^40 at most */
}

static redco_status add_squares(redco_states *states, redco_states_worker *worker, const unsigned char *gradient,
                                uint64_t count, uint32_t *sum, redco_error *err)
{
    static const char *const name = "step/grad_norm";
    const uint64_t chunk = states->squares.chunk;
    redco_status st = REDCO_OK;
    for (uint64_t at = 0; at < count && st == REDCO_OK; at += chunk) {
        const uint64_t some = count - at < chunk ? count - at : chunk;
        const void *const inputs[] = {gradient + redcoi_bytes(states, at)};
        void *const outputs[] = {states->sums + (size_t)(*sum)++ * REDCOI_SUM_STRIDE_BYTES};
        st = redcoi_program_run(&states->squares, &worker->memory, inputs, outputs, some, name, err);
    }
    return st;
}

redco_status redco_states_squares(redco_states *states, redco_states_worker *worker, redco_error *err)
{
    redco_status st = REDCO_OK;
    uint32_t sum = 0;
    for (uint32_t l = 0; l < redcoi_model(states)->layer_count && st == REDCO_OK; l++) {
        uint32_t count = 0, at = 0;
        const redco_shard_slice *const slices = redco_layout_slices(states->layout, l, &count);
        for (redco_shard_slice run; st == REDCO_OK && next_run(states, slices, count, &at, &run);) {
            if (!redcoi_counts(states, l, &run)) { continue; }
            st = add_squares(states, worker, redcoi_gradient(states, l, run.gradient_at), run.count, &sum, err);
        }
    }
    if (st != REDCO_OK) { return st; }
    return redcoi_copy(worker, states->sums_there, states->sums, (size_t)sum * REDCOI_SUM_STRIDE_BYTES, err);
}

double redco_states_squares_sum(const redco_states *states)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < states->sum_count; i++) {
        const unsigned char *const at = states->sums_there + (size_t)i * REDCOI_SUM_STRIDE_BYTES;
        double wide = 0.0;
        float narrow = 0.0F;
        if (states->master == REDCO_F64) {
            memcpy(&wide, at, sizeof wide);
        } else {
            memcpy(&narrow, at, sizeof narrow);
        }
        sum += states->master == REDCO_F64 ? wide : (double)narrow;
    }
    return sum;
}

redco_status redco_states_sum(redco_states *states, double *values, uint32_t count, redco_error *err)
{
    return redco_all_reduce(states->all, REDCO_F64, REDCO_REDUCE_SUM, values, count, "step/grad_norm/reduce", err);
}

double redco_states_clip_factor(const redco_states *states, double norm)
{
    const double most = states->options.optimizer.clip_norm;
    return most > 0.0 ? fmin(1.0, most / (norm + clip_epsilon)) : 1.0;
}

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
    for (redco_shard_slice run; st == REDCO_OK && next_run(states, slices, count, &at, &run);) {
        st = update_run(states, worker, layer, &run, err);
    }
    return st;
}
