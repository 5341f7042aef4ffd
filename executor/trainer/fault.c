/* A weight that is changed so that a check can be seen to notice. */
#include "executor/trainer/trainer_internal.h"

#include <string.h>

/* The first element of the tensor in the part of its module that a rank holds. @return false: it holds none */
static bool find_element(const redco_trainer *t, uint32_t tensor, uint32_t rank, uint64_t *at_out)
{
    const redco_layout *const layout = redco_states_layout(t->states);
    const uint32_t module = redco_layout_module_of(layout, tensor);
    const redco_state_layer *const layer = &t->modules.layers[redco_layout_layer_of(layout, module)];
    const uint64_t shard = redco_layout_module(layout, module)->shard;
    const uint64_t begin = shard * redco_mesh_position(layer->shards.parameters, redco_place_of(t->mesh, rank));
    const uint64_t first = redco_layout_tensor_at(layout, tensor);
    const uint64_t at = first > begin ? first : begin;
    *at_out = at - begin;
    return at < begin + shard && at < first + t->modules.tensors[tensor].elements;
}

static uint32_t find_tensor(const redco_trainer *t, const char *name)
{
    const redco_task_parameter *const parameter = redco_task_find(t->task, name);
    return parameter != NULL ? (uint32_t)(parameter - t->task->parameters) : (uint32_t)t->task->parameter_count;
}

redco_status redcoi_check_fault(const redco_trainer *t, redco_error *err)
{
    const redco_trainer_fault *const fault = t->options.fault;
    uint64_t at = 0;
    if (fault == NULL) { return REDCO_OK; }
    if (t->replay) { return redcoi_trainer_real(t, "a fault", err); }
    const uint32_t tensor = find_tensor(t, fault->tensor);
    if (t->options.dtype != REDCO_F64 && t->options.dtype != REDCO_F32) {
        return redco_fail(err, REDCO_EVALUE, "fault", "weights must be f32 or f64, not %s",
                          redco_dtype_name(t->options.dtype));
    }
    if (tensor == t->task->parameter_count) {
        return redco_fail(err, REDCO_EVALUE, "fault", "%s has no tensor %s; the first is %s", t->task->name,
                          fault->tensor, t->task->parameters[0].name);
    }
    if (fault->rank >= redco_world_size(t->world) || fault->step == 0) {
        return redco_fail(err, REDCO_EVALUE, "fault", "rank %u of %u after step %llu: ranks count from 0, steps from 1",
                          fault->rank, redco_world_size(t->world), (unsigned long long)fault->step);
    }
    if (find_element(t, tensor, fault->rank, &at)) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "fault", "rank %u holds nothing of %s", fault->rank, fault->tensor);
}

redco_status redcoi_fault_inject(redco_trainer *t, redco_error *err)
{
    const redco_trainer_fault *const fault = t->options.fault;
    const redco_backend_calls *const calls = t->backend->calls;
    const size_t element_bytes = redco_dtype_bytes(t->options.dtype);
    union {
        double f64;
        float f32;
    } value = {0.0};
    redco_device_stream *stream = NULL;
    uint64_t at = 0;
    if (fault == NULL || fault->step != t->step) { return REDCO_OK; }
    redco_status st = redco_schedule_settle(t->schedule, err); /* or a synchronisation that still runs would hide it */
    if (st != REDCO_OK || fault->rank != redco_world_rank(t->world)) { return st; }
    const uint32_t tensor = find_tensor(t, fault->tensor);
    (void)find_element(t, tensor, fault->rank, &at);
    const uint32_t module = redco_layout_module_of(redco_states_layout(t->states), tensor);
    unsigned char *const element = (unsigned char *)redco_states_module(t->states, module) + at * element_bytes;
    st = calls->stream_create(t->backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, err);
    if (st == REDCO_OK) { st = calls->copy(t->backend, stream, &value, element, element_bytes, err); }
    if (st == REDCO_OK) { st = calls->stream_finish(t->backend, stream, err); }
    if (t->options.dtype == REDCO_F64) {
        value.f64 += fault->addition;
    } else {
        value.f32 += (float)fault->addition;
    }
    if (st == REDCO_OK) { st = calls->copy(t->backend, stream, element, &value, element_bytes, err); }
    if (st == REDCO_OK) { st = calls->stream_finish(t->backend, stream, err); }
    if (stream != NULL) { calls->stream_free(t->backend, stream); }
    return st;
}
