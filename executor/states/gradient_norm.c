/* The norm of all gradients: sums of squares of what this rank counts, then over ranks. */
#include "executor/states/states_internal.h"

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
    const bool again =
        redcoi_model(states)->layers[layer].shared && redcoi_own_stage(states) != states->options.shared_by[0];
    if (redcoi_model(states)->tensors[slice->tensor].assigned || again) { return false; }
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

bool redcoi_next_run(const redco_states *states, const redco_shard_slice *slices, uint32_t count, uint32_t *at,
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
        for (redco_shard_slice run; redcoi_next_run(states, slices, count, &at, &run);) {
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

redco_status redco_states_add_shared(redco_states *states, redco_states_worker *worker, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t l = 0; l < redcoi_model(states)->layer_count && st == REDCO_OK; l++) {
        if (!redcoi_model(states)->layers[l].shared) { continue; }
        st = redco_process_group_all_reduce(states->shared, redcoi_worker_stream(worker), states->options.dtype,
                                            REDCO_REDUCE_SUM, redcoi_gradient(states, l, 0),
                                            redcoi_layer_layout(states, l)->gradients, "step/shared_table", err);
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
        for (redco_shard_slice run; st == REDCO_OK && redcoi_next_run(states, slices, count, &at, &run);) {
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
