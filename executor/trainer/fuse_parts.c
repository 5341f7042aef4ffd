/* Fuses operators that a device does at once: the last changes to a rank's graph. */
#include "costmodel/graph/fuse.h"
#include "costmodel/graph/fuse_matmul.h"
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>
#include <string.h>

static bool is_wanted(const redco_trainer *t)
{
    if (t->options.emulate) { return false; } /* nothing of it is run */
    if (t->options.fuse != REDCO_TRAINER_FUSE_AUTO) { return t->options.fuse == REDCO_TRAINER_FUSE_ON; }
    /* A step of the host takes as long with it: costmodel/graph/README.md. */
    return t->backend->calls->fuses;
}

/* Products with what follows them, then what is left between products. */
static redco_status fuse(const redco_trainer *t, redco_value *outputs, redco_graph **graph_out, redco_error *err)
{
    const uint32_t count = t->output_count;
    const redco_fuse_options options = {.choice = redco_backend_fuse_choice(t->backend)};
    redco_graph *products = NULL;
    redco_value *const between = calloc(count, sizeof *between);
    if (between == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to fuse its operators"); }
    redco_status st = redco_graph_fuse_matmul(t->graph, t->outputs, count, &options.choice, &products, between, err);
    if (st == REDCO_OK) { st = redco_graph_fuse(products, between, count, &options, graph_out, outputs, err); }
    redco_graph_free(products);
    free(between);
    return st;
}

redco_status redcoi_trainer_fuse(redco_trainer *t, redco_error *err)
{
    redco_graph *graph = NULL;
    if (!is_wanted(t)) { return REDCO_OK; }
    redco_value *const outputs = calloc((size_t)t->output_count + 1, sizeof *outputs);
    if (outputs == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to fuse its operators"); }
    const redco_status st = fuse(t, outputs, &graph, err);
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
