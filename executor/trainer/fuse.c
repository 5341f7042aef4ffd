/* What a device does at once: the last change to a rank's graph. */
#include "executor/graph/fuse.h"
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_wanted(const redco_trainer *t)
{
    if (t->options.emulate) { return false; } /* nothing of it is run */
    if (t->options.fuse != REDCO_TRAINER_FUSE_AUTO) { return t->options.fuse == REDCO_TRAINER_FUSE_ON; }
    /* A processor computes its functions more slowly than it moves their values: executor/README.md. */
    return strcmp(t->backend->calls->name, "host") != 0;
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

redco_status redcoi_trainer_fuse(redco_trainer *t, redco_error *err)
{
    const uint32_t count = (uint32_t)t->task->parameter_count + 1;
    const redco_fuse_options options = {.choice = {has_fused, t->backend}};
    redco_graph *graph = NULL;
    if (!is_wanted(t)) { return REDCO_OK; }
    redco_value *const outputs = calloc(count, sizeof *outputs);
    if (outputs == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to fuse its operators"); }
    const redco_status st = redco_graph_fuse(t->graph, t->outputs, count, &options, &graph, outputs, err);
    if (st != REDCO_OK) {
        free(outputs);
        return st;
    }
    redco_graph_free(t->graph);
    free(t->outputs);
    t->graph = graph;
    t->outputs = outputs;
    return REDCO_OK;
}
