#include "executor/backend/backend.h"

void redco_backend_close(redco_backend *backend)
{
    if (backend != NULL) { backend->calls->close(backend); }
}

redco_index_range redco_launch_indices(const redco_launch *launch, uint64_t rows)
{
    const redco_attributes *const a = launch->attributes;
    if ((a->flags & REDCO_FLAG_MASKED) == 0) { return (redco_index_range){a->offset, a->offset + (int64_t)rows}; }
    return a->first < a->end ? (redco_index_range){a->first, a->end} : (redco_index_range){INT64_MIN, INT64_MAX};
}

redco_status redco_index_refuse(redco_op_kind kind, const char *place, int32_t index, redco_index_range range,
                                redco_error *err)
{
    const char *const name = redco_op_kind_name(kind);
    if (range.first <= INT32_MIN) {
        return redco_fail(err, REDCO_EVALUE, place,
                          "%s: index %d is neither below 0, which is masked, nor in [0, %lld)", name, index,
                          (long long)range.end);
    }
    return redco_fail(err, REDCO_EVALUE, place, "%s: index %d is outside of [%lld, %lld)", name, index,
                      (long long)range.first, (long long)range.end);
}

static bool has_fused(void *context, const redco_op *op, const redco_tensor_type *inputs,
                      const redco_tensor_type *outputs)
{
    const redco_backend *const backend = context;
    redco_tensor in[REDCO_INPUTS_MAX], out[REDCO_OUTPUTS_MAX];
    for (uint32_t i = 0; i < op->input_count; i++) { in[i] = (redco_tensor){inputs[i], NULL}; }
    for (uint32_t i = 0; i < op->output_count; i++) { out[i] = (redco_tensor){outputs[i], NULL}; }
    const redco_launch launch = {.kind = op->kind,
                                 .attributes = &op->attributes,
                                 .input_count = op->input_count,
                                 .output_count = op->output_count,
                                 .inputs = in,
                                 .outputs = out,
                                 .name = ""};
    return backend->calls->supports(backend, &launch);
}

redco_fuse_choice redco_backend_fuse_choice(redco_backend *backend)
{
    return (redco_fuse_choice){has_fused, backend};
}
