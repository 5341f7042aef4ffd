/** @file measure_internal.h  A graph laid out in memory, and the two ways to time it. Internal to executor/measure. */
#ifndef REDCO_MEASURE_INTERNAL_H
#define REDCO_MEASURE_INTERNAL_H

#include "executor/measure/measure.h"
#include "executor/measure/suite.h"
#include "executor/measure/sustained.h"

enum { REDCOI_PATTERN_BYTES = 1 << 20 };

struct redco_measurer {
    redco_backend *backend;
    redco_measure_options options;
    redco_device_stream *stream;
    redco_event **events; /* two at least; queued: one more than operators */
    uint32_t event_count;
    void *arena, *staging;     /* device memory, host memory of REDCOI_PATTERN_BYTES */
    redco_dtype pattern_dtype; /* type of the numbers in staging memory; REDCO_DTYPE_COUNT: nothing yet */
    uint64_t pattern_bound;
    redco_measure_numbers numbers, pattern_numbers; /* wanted; what staging memory holds */
    const redco_measure_load *load;                 /* NULL: times of bursts */
    redco_measure_sustained *sustained;             /* with a load */
    uint64_t arena_bytes, workspace_bytes;
    double spread, wall_s;              /* the last graph's */
    double all_wall_s, all_processor_s; /* time of timed work */
    /* queued */
    void *heat; /* three matrices; NULL: the stream waits */
    double heat_s;
    double stream_s; /* that an operator takes to be queued, about */
    redco_measure_launches launches;
};

/* A graph laid out in memory, several times where operands are to be cold. */
typedef struct redcoi_layout {
    redco_measurer *m;
    const redco_graph *graph;
    bool *live;       /* by operator */
    uint64_t *offset; /* by value; in a copy */
    uint64_t workspace, copy_bytes, bytes;
    uint32_t copies;
    uint32_t *repeats; /* by operator: runs in one sample */
    redco_error *err;
} redcoi_layout;

bool redcoi_measure_is_run(const redcoi_layout *l, const redco_op *op);
/** Tensors of an operator in a copy; without data until the arena exists. */
redco_launch redcoi_measure_launch(const redcoi_layout *l, const redco_op *op, uint32_t copy, redco_tensor inputs[],
                                   redco_tensor outputs[]);
/** Numbers in [-0.5, 0.5), or indices below the bound. */
redco_status redcoi_measure_fill(redco_measurer *m, void *to, uint64_t bytes, redco_dtype dtype, uint64_t index_bound,
                                 redco_error *err);
/** Makes sure that there are so many events. */
redco_status redcoi_measure_events(redco_measurer *m, uint32_t count, redco_error *err);
/** A low quantile: other programs can only make a sample longer, and now and then one is short by chance. Sorts them.
 */
double redcoi_measure_undisturbed_s(double *samples_s, uint32_t count);
/** Memory of so many bytes at least, of which every page was touched. */
redco_status redcoi_measure_arena(redco_measurer *m, uint64_t bytes, redco_error *err);

/** graph_passes.c: one round. */
redco_status redcoi_graph_pass_run(redco_measurer *m, redcoi_graph_pass *pass, redco_error *err);
/** Seconds of an operator in the last round. */
double redcoi_graph_pass_s(const redcoi_graph_pass *pass, uint32_t part);

/** Fuses products, then what is left between them, as the executor does for a device. @p results become those of the
 *  new graph, which takes the place of the old one; on failure all stays as it was. */
redco_status redcoi_measure_fuse(redco_fuse_choice choice, redco_graph **graph_io, redco_value *results, uint32_t count,
                                 redco_error *err);

/** queued.c: all runs of a graph; times into @p op_s, lowered where they were higher. */
redco_status redcoi_measure_queued(const redcoi_layout *l, double *op_s);
/** sustained.c: the operators of a pass without pause. */
redco_status redcoi_measure_sustained(const redcoi_layout *l, const redco_measure_load *load,
                                      redco_measure_sustained *out);
redco_status redcoi_measure_heat_create(redco_measurer *m, redco_error *err);
void redcoi_measure_heat_free(redco_measurer *m);

#endif
