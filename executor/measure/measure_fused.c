/* Transforms a device's graph as the executor does (trainer/fuse_parts.c), before it is measured. */
#include "costmodel/graph/fuse.h"
#include "costmodel/graph/fuse_matmul.h"
#include "executor/measure/measure_internal.h"

#include <stdlib.h>
#include <string.h>

redco_status redcoi_measure_fuse(redco_fuse_choice choice, redco_graph **graph_io, redco_value *results, uint32_t count,
                                 redco_error *err)
{
    const redco_fuse_options options = {.choice = choice};
    redco_graph *products = NULL, *fused = NULL;
    redco_value *const between = calloc(2 * ((size_t)count + 1), sizeof *between), *const last = between + count;
    if (between == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    redco_status st = redco_graph_fuse_matmul(*graph_io, results, count, &choice, &products, between, err);
    if (st == REDCO_OK) { st = redco_graph_fuse(products, between, count, &options, &fused, last, err); }
    if (st == REDCO_OK) {
        redco_graph_free(*graph_io);
        *graph_io = fused;
        memcpy(results, last, count * sizeof *last);
    }
    redco_graph_free(products);
    free(between);
    return st;
}
