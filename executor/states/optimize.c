/* The norm of all gradients, and the optimizer on what a rank owns. */
#include "executor/states/states_internal.h"

#include <math.h>

/* Added by torch.nn.utils.clip_grad_norm_, so that a norm of zero can be divided by. */
static const double clip_epsilon = 1e-6;

/* Several blocks of ranks may own the same states, and tensor-parallel ranks the same tensors: the first counts. */
static bool counts(const redco_states *states, uint32_t layer, const redco_piece *piece)
{
    const redco_place place = redco_layout_place(states->layout);
    const redco_mesh owners = redcoi_shards(states, layer)->optimizer;
    if (piece->owned_at == REDCO_NOWHERE || place.gpu >= owners.gpus || place.node >= owners.nodes) { return false; }
    return place.tp == 0 || !redcoi_model(states)->tensors[piece->tensor].replicated;
}

static redco_status add_squares(redco_states *states, redco_states_worker *worker, const unsigned char *gradient,
                                uint64_t count, double *sum, redco_error *err)
{
    static const char *const name = "step/grad_norm";
    const uint64_t chunk = states->options.chunk_elements;
    redco_status st = REDCO_OK;
    for (uint64_t at = 0; at < count && st == REDCO_OK; at += chunk) {
        const uint64_t some = count - at < chunk ? count - at : chunk;
        const void *const inputs[] = {gradient + redcoi_bytes(states, at)};
        void *const outputs[] = {worker->scalars};
        double wide = 0.0;
        float narrow = 0.0F;
        void *const to = states->master == REDCO_F64 ? (void *)&wide : (void *)&narrow;
        st = redcoi_program_run(&states->squares, &worker->memory, inputs, outputs, some, name, err);
        if (st == REDCO_OK) { st = redcoi_copy(worker, to, worker->scalars, redco_dtype_bytes(states->master), err); }
        if (st == REDCO_OK) { st = redcoi_settle(worker, err); }
        *sum += states->master == REDCO_F64 ? wide : (double)narrow;
    }
    return st;
}

redco_status redco_states_squares(redco_states *states, redco_states_worker *worker, double *squares_out,
                                  redco_error *err)
{
    redco_status st = REDCO_OK;
    double sum = 0.0;
    for (uint32_t l = 0; l < redcoi_model(states)->layer_count && st == REDCO_OK; l++) {
        uint32_t count = 0;
        const redco_piece *const pieces = redco_layout_pieces(states->layout, l, &count);
        for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
            if (!counts(states, l, &pieces[i])) { continue; }
            st = add_squares(states, worker, redcoi_gradient(states, l, pieces[i].gradient_at), pieces[i].count, &sum,
                             err);
        }
    }
    *squares_out = sum;
    return st;
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

/* To where programs read them: factors of the step and that of gradients, in the master type. */
static redco_status set_scalars(redco_states *states, redco_states_worker *worker, const redco_update *update,
                                redco_error *err)
{
    double values[REDCOI_SCALARS];
    redco_status st = REDCO_OK;
    redco_optimizer_factors(&states->options.optimizer, update->learning_rate, update->step, values);
    values[REDCO_OPTIMIZER_FACTORS] = update->gradient_factor;
    for (uint32_t i = 0; i < REDCOI_SCALARS && st == REDCO_OK; i++) {
        const float narrow = (float)values[i];
        const void *const from = states->master == REDCO_F64 ? (const void *)&values[i] : (const void *)&narrow;
        st = redcoi_copy(worker, worker->scalars + (size_t)i * REDCO_ALIGNMENT_BYTES, from,
                         redco_dtype_bytes(states->master), err);
        if (st == REDCO_OK) { st = redcoi_settle(worker, err); }
    }
    return st;
}

static redco_status update_piece(redco_states *states, redco_states_worker *worker, uint32_t layer,
                                 const redco_piece *piece, redco_error *err)
{
    static const char *const name = "step/optimizer";
    const bool decayed = redcoi_model(states)->tensors[piece->tensor].decayed;
    const size_t at = (size_t)(states->owned_at[layer] + piece->owned_at) * redco_dtype_bytes(states->master);
    unsigned char *const parameter = redcoi_parameter(states, layer, piece->shard_at);
    const void *inputs[REDCOI_PROGRAM_INPUTS];
    void *outputs[REDCOI_PROGRAM_OUTPUTS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < REDCOI_SCALARS; i++) {
        inputs[count++] = worker->scalars + (size_t)i * REDCO_ALIGNMENT_BYTES;
    }
    outputs[0] = states->has_master ? states->owned[0] + at : parameter;
    inputs[count++] = outputs[0];
    inputs[count++] = redcoi_gradient(states, layer, piece->gradient_at);
    for (uint32_t i = 0; i < states->state_count; i++) {
        outputs[1 + i] = states->owned[1 + i] + at;
        inputs[count++] = outputs[1 + i];
    }
    redco_status st =
        redcoi_program_run(&states->update[decayed ? 1 : 0], &worker->memory, inputs, outputs, piece->count, name, err);
    if (st == REDCO_OK && states->has_master) {
        const void *const master[] = {outputs[0]};
        void *const rounded[] = {parameter};
        st = redcoi_program_run(&states->round, &worker->memory, master, rounded, piece->count, name, err);
    }
    return st;
}

redco_status redco_states_update(redco_states *states, redco_states_worker *worker, uint32_t layer,
                                 const redco_update *update, redco_error *err)
{
    uint32_t count = 0;
    const redco_piece *const pieces = redco_layout_pieces(states->layout, layer, &count);
    redco_status st = set_scalars(states, worker, update, err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        if (pieces[i].owned_at == REDCO_NOWHERE) { continue; }
        st = update_piece(states, worker, layer, &pieces[i], err);
    }
    return st == REDCO_OK ? redcoi_settle(worker, err) : st;
}
