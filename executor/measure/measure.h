/** @file measure.h  Seconds of operators on a backend, through its table of calls: so any backend can be measured.
 *
 *  A graph's operators are run one by one in their order, all values in memory of their own that is taken once (as in
 * an arena), each often enough for the clock, and timed. On processors what counts is the least time of several runs:
 * other programs can only make a run longer. On devices with streams (redco_measure_options.queued) it is the median:
 * nobody else uses them, and what varies is their clock, which varies in training, too. */
#ifndef REDCO_MEASURE_H
#define REDCO_MEASURE_H

#include "executor/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_measurer redco_measurer;

typedef struct redco_measure_options {
    /** The calling thread does all the work (host backend with one thread): its processor time is the time that an
     *  operator takes where nobody else uses the processor. Else times are between events on the device's clock. */
    bool processor_time;
    double sample_s; /**< an operator is repeated until a sample is that long; 0 = 50 us */
    double case_s;   /**< a graph is run again until so much time is spent on it; 0 = 5 ms */
    uint32_t runs;   /**< but at least so often, after one that warms caches; 0 = 3 */
    /** The device works through streams by itself: a run's operators, each repeated, are queued as a whole with events
     *  between them, behind work that lasts until all of them are queued, and waited for once. So the time between two
     *  events is the device's, gaps between kernels included, however long the program takes to queue them. */
    bool queued;
    bool fused;          /**< operators are those of graphs that the executor fused for a device (graph/fuse.h) */
    uint64_t cold_bytes; /**< repeats take turns on copies of the operands that fill so much memory, as a step's
                              operands come from beyond the caches; 0 = one copy (queued) */
    uint64_t most_bytes; /**< limit of device memory; a graph that needs more is REDCO_ENOMEM; 0 = whatever there is */
    double heat_s;       /**< at least so long does the device work before each run; 0 = 2 ms (queued) */
    uint32_t heat_side;  /**< that work is products of bf16 matrices of that side, so that clock and power are those of
                              training; 0 = it waits (queued) */
} redco_measure_options;

/** The program's work to queue an operator: redco_measure_queueing(). */
typedef struct redco_measure_launches {
    uint64_t count; /**< operators queued while the device was busy with others */
    double host_s;  /**< that the program took to queue them */
} redco_measure_launches;

/** @param backend  borrowed until redco_measurer_free() */
redco_status redco_measurer_create(redco_backend *backend, const redco_measure_options *options,
                                   redco_measurer **measurer_out, redco_error *err);
void redco_measurer_free(redco_measurer *measurer); /**< NULL is accepted */
/** From here on every graph is run as seldom as makes sense: time is short. */
void redco_measurer_hurry(redco_measurer *measurer);

/** Runs what @p results depend on. Floating-point inputs hold numbers in [-0.5, 0.5), i32 ones in [0, index_bound).
 *  @param op_s   one entry per operator of the graph: the least seconds seen, lowered where this was faster; start with
 *                infinity. Inputs, reshapes and operators that nobody needs stay as they are
 *  @return REDCO_EVALUE where the backend lacks an operator */
redco_status redco_measure_graph(redco_measurer *measurer, const redco_graph *graph, const redco_value *results,
                                 uint32_t result_count, uint64_t index_bound, double *op_s, redco_error *err);

/** Sums over all graphs since creation; all zero where runs are not queued. */
redco_measure_launches redco_measure_queueing(const redco_measurer *measurer);
/** Seconds of the program to queue a recording of @p operators operators while the device is busy; 0 where there are no
 *  recordings, or nothing heats. */
redco_status redco_measure_recording_launch(redco_measurer *measurer, uint32_t operators, double *seconds_out,
                                            redco_error *err);
/** The time of the heating product now over its time at first; 1 where there is none. */
redco_status redco_measure_hot_ratio(redco_measurer *measurer, double *ratio_out, redco_error *err);
/** The largest workspace that an operator of the last graph asked for. */
uint64_t redco_measure_workspace_bytes(const redco_measurer *measurer);

/** The average run of the last graph over its best, whole graphs, on the clock that counts; and the
 *  wall time of its best whole run. */
double redco_measure_spread(const redco_measurer *measurer);
double redco_measure_wall_s(const redco_measurer *measurer);
/** Share of a processor that this thread got while it measured, since creation; 1 where it is not known. */
double redco_measure_processor_ratio(const redco_measurer *measurer);

#ifdef __cplusplus
}
#endif
#endif
