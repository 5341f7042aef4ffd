/* Whole tensors in the program's memory from and to the parts that ranks hold: initial values, checkpoints. */
#include "executor/states/states_internal.h"

/* The owned values of a kind at a slice, or NULL if they are the parameters themselves. */
static unsigned char *owned_at(const redco_states *states, uint32_t layer, const redco_shard_slice *slice, int which)
{
    unsigned char *const block = states->owned[which + 1];
    const size_t element_bytes = redco_dtype_bytes(states->master);
    return block == NULL ? NULL : block + (size_t)(states->owned_at[layer] + slice->owned_at) * element_bytes;
}

/* Rounds on the device, so that all values are rounded in the same way. */
static redco_status set_rounded(redco_states *states, redco_states_worker *worker, uint32_t layer,
                                const redco_shard_slice *slice, const unsigned char *values, redco_error *err)
{
    const size_t element_bytes = redco_dtype_bytes(states->master);
    const uint64_t chunk = worker->upload_elements;
    redco_status st = REDCO_OK;
    for (uint64_t at = 0; at < slice->count && st == REDCO_OK; at += chunk) {
        const uint64_t count = slice->count - at < chunk ? slice->count - at : chunk;
        const void *const inputs[] = {worker->upload};
        void *const outputs[] = {redcoi_parameter(states, layer, slice->shard_at + at)};
        st = redcoi_copy(worker, worker->upload, values + (size_t)at * element_bytes, count * element_bytes, err);
        if (st != REDCO_OK) { break; }
        st = redcoi_program_run(&states->round, &worker->memory, inputs, outputs, count, "states", err);
        if (st == REDCO_OK) { st = redco_states_worker_finish(worker, err); }
    }
    return st;
}

/* The same backwards, of weights without master weights. */
static redco_status get_widened(redco_states *states, redco_states_worker *worker, uint32_t layer,
                                const redco_shard_slice *slice, unsigned char *values, redco_error *err)
{
    const size_t element_bytes = redco_dtype_bytes(states->master);
    const uint64_t chunk = worker->upload_elements;
    redco_status st = REDCO_OK;
    for (uint64_t at = 0; at < slice->count && st == REDCO_OK; at += chunk) {
        const uint64_t count = slice->count - at < chunk ? slice->count - at : chunk;
        const void *const inputs[] = {redcoi_parameter(states, layer, slice->shard_at + at)};
        void *const outputs[] = {worker->upload};
        st = redcoi_program_run(&states->widen, &worker->memory, inputs, outputs, count, "states", err);
        if (st == REDCO_OK) {
            st = redcoi_copy(worker, values + (size_t)at * element_bytes, worker->upload, count * element_bytes, err);
        }
        if (st == REDCO_OK) { st = redco_states_worker_finish(worker, err); }
    }
    return st;
}

static redco_status check(const redco_states *states, const redco_states_worker *worker, uint32_t tensor, int which,
                          redco_error *err)
{
    if (worker->upload == NULL) {
        return redco_fail(err, REDCO_EVALUE, "states", "values are set and read by a worker with a stream of its own");
    }
    const uint32_t tensors = redcoi_model(states)->tensor_count;
    const redco_state_tensor *const known = tensor < tensors ? &redcoi_model(states)->tensors[tensor] : NULL;
    const int kinds = known != NULL && (known->frozen || known->assigned) ? 0 : (int)states->state_count;
    if (tensor < tensors && which >= REDCO_STATES_WEIGHTS && which < kinds) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "states", "tensor %u of %u, state %d of %u", tensor, tensors, which,
                      states->state_count);
}

/* The part of a slice that lies in a range of its tensor. @return false: nothing */
static bool narrow(redco_shard_slice *slice, uint64_t begin, uint64_t end)
{
    const uint64_t from = slice->begin > begin ? slice->begin : begin;
    const uint64_t to = slice->begin + slice->count < end ? slice->begin + slice->count : end;
    if (from >= to) { return false; }
    const uint64_t skipped = from - slice->begin;
    slice->begin = from;
    slice->count = to - from;
    slice->shard_at += skipped;
    if (slice->owned_at != REDCO_NOWHERE) { slice->owned_at += skipped; }
    return true;
}

redco_status redco_states_set_range(redco_states *states, redco_states_worker *worker, uint32_t tensor, int which,
                                    uint64_t begin, uint64_t length, const void *values, redco_error *err)
{
    const size_t element_bytes = redco_dtype_bytes(states->master);
    uint32_t count = 0;
    redco_status st = check(states, worker, tensor, which, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t layer = redco_layout_layer_of(states->layout, redco_layout_module_of(states->layout, tensor));
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, layer, &count);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_shard_slice slice = slices[i];
        if (slice.tensor != tensor || !narrow(&slice, begin, begin + length)) { continue; }
        const unsigned char *const from = (const unsigned char *)values + (size_t)(slice.begin - begin) * element_bytes;
        unsigned char *const to = slice.owned_at == REDCO_NOWHERE ? NULL : owned_at(states, layer, &slice, which);
        if (to != NULL) { st = redcoi_copy(worker, to, from, slice.count * element_bytes, err); }
        if (st != REDCO_OK || which != REDCO_STATES_WEIGHTS) { continue; }
        st = states->has_master ? set_rounded(states, worker, layer, &slice, from, err)
                                : redcoi_copy(worker, redcoi_parameter(states, layer, slice.shard_at), from,
                                              slice.count * element_bytes, err);
    }
    return st == REDCO_OK ? redco_states_worker_finish(worker, err) : st;
}

redco_status redco_states_get_range(redco_states *states, redco_states_worker *worker, uint32_t tensor, int which,
                                    uint64_t begin, uint64_t length, void *values, redco_error *err)
{
    const size_t element_bytes = redco_dtype_bytes(states->master);
    uint32_t count = 0;
    redco_status st = check(states, worker, tensor, which, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t layer = redco_layout_layer_of(states->layout, redco_layout_module_of(states->layout, tensor));
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, layer, &count);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_shard_slice slice = slices[i];
        const bool frozen = redcoi_model(states)->tensors[tensor].frozen;
        if (slice.tensor != tensor || (slice.owned_at == REDCO_NOWHERE && !frozen) ||
            !narrow(&slice, begin, begin + length)) {
            continue;
        }
        if (frozen && states->has_master) {
            st = get_widened(states, worker, layer, &slice,
                             (unsigned char *)values + (size_t)(slice.begin - begin) * element_bytes, err);
            continue;
        }
        const unsigned char *from = frozen ? NULL : owned_at(states, layer, &slice, which);
        if (from == NULL) { from = redcoi_parameter(states, layer, slice.shard_at); }
        st = redcoi_copy(worker, (unsigned char *)values + (size_t)(slice.begin - begin) * element_bytes, from,
                         slice.count * element_bytes, err);
    }
    return st == REDCO_OK ? redco_states_worker_finish(worker, err) : st;
}

redco_device_stream *redco_states_worker_stream(const redco_states_worker *worker)
{
    return worker->memory.stream;
}

/* Rounded on the device from where the master weights are, or, where another rank has them, from what is made on the
 * way: streams are in order, so that one place is enough. */
static redco_status make_slice(redco_states *states, redco_states_worker *worker, uint32_t layer,
                               const redco_shard_slice *slice, const redco_states_maker *maker, redco_error *err)
{
    unsigned char *const parameter = redcoi_parameter(states, layer, slice->shard_at);
    if (!states->has_master) { return maker->make(maker->context, slice->begin, slice->count, parameter, err); }
    unsigned char *const owned =
        slice->owned_at == REDCO_NOWHERE ? NULL : owned_at(states, layer, slice, REDCO_STATES_WEIGHTS);
    const uint64_t chunk = owned != NULL ? slice->count : worker->upload_elements;
    redco_status st = REDCO_OK;
    for (uint64_t at = 0; at < slice->count && st == REDCO_OK; at += chunk) {
        const uint64_t count = slice->count - at < chunk ? slice->count - at : chunk;
        void *const to = owned != NULL ? owned : worker->upload;
        const void *const inputs[] = {to};
        void *const outputs[] = {redcoi_parameter(states, layer, slice->shard_at + at)};
        st = maker->make(maker->context, slice->begin + at, count, to, err);
        if (st == REDCO_OK) {
            st = redcoi_program_run(&states->round, &worker->memory, inputs, outputs, count, "states", err);
        }
    }
    return st;
}

redco_status redco_states_make(redco_states *states, redco_states_worker *worker, uint32_t tensor,
                               const redco_states_maker *maker, redco_error *err)
{
    uint32_t count = 0;
    redco_status st = check(states, worker, tensor, REDCO_STATES_WEIGHTS, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t layer = redco_layout_layer_of(states->layout, redco_layout_module_of(states->layout, tensor));
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, layer, &count);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        if (slices[i].tensor == tensor) { st = make_slice(states, worker, layer, &slices[i], maker, err); }
    }
    return st;
}
