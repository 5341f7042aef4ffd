/** @file profile_tool.h  The parts of redco-profile: measuring on all ranks, writing it down, checking what it
 * predicts. */
#ifndef REDCO_TOOLS_PROFILE_TOOL_H
#define REDCO_TOOLS_PROFILE_TOOL_H

#include "executor/measure/graph_passes.h"
#include "executor/measure/measure_collectives.h"
#include "executor/measure/suite.h"
#include "tools/cli/cli.h"
#include "traces/profile.h"

#include <jansson.h>

struct profile_job {
    uint32_t ranks, nodes;
    bool mpi;                            /**< ranks are mpirun's */
    const redco_world_options *launched; /**< NULL, or this process is one rank of a launcher's */
    bool cuda;                           /**< a GPU for each rank, else the processor */
    redco_measure_shapes shapes;         /**< cuda */
    bool quick;                          /**< few and small sizes */
    bool collectives;                    /**< nothing else */
    uint64_t largest_bytes;              /**< largest size of collectives; 0: REDCO_MEASURE_MOST_BYTES */
    double seconds;
    const redco_measure_ops *ops; /**< operators of pipelines, beside the usual ones; borrowed */
    bool progress;                /**< a line on standard error that is written over */
    /** Prints the error and ends this process, from any thread: a rank that it started has ended. */
    void (*give_up)(void *context, const redco_error *err);
    void *context; /**< for give_up() */
};

enum { PROFILE_POWERS = 12 };

/** On the first rank; freed with profile_result_free(). */
struct profile_result {
    uint32_t ranks, nodes;
    bool mpi;
    redco_measure_case *cases;
    size_t case_count;
    redco_measure_curve *curves;
    size_t curve_count;
    redco_profile_power powers[PROFILE_POWERS];
    size_t power_count;
    char power_why[256]; /**< why they were not measured; "" */
    redco_profile_measured how;
};

/** Starts the other ranks, measures and brings all times together.
 *  @param leader_out  whether this process is the first rank: the others have nothing to write */
redco_status profile_run(const struct profile_job *job, struct profile_result *result_out, bool *leader_out,
                         redco_error *err);
void profile_result_free(struct profile_result *result);

/** Facts about the machine that a profile states: processor, system, date, load. Ratios and counts are left alone. */
void profile_machine(redco_profile_measured *how);
/** Says whether OpenBLAS chose narrower kernels than this processor could run. */
bool profile_slow_kernels(const redco_profile_measured *how);
/** Bytes of memory that this machine, or the container, has. */
uint64_t profile_memory_bytes(void);

/** The profile document, and the machine as a cluster file; new references. */
redco_status profile_document(const struct profile_result *result, json_t **profile_out, redco_error *err);
redco_status profile_cluster(const struct profile_result *result, json_t **cluster_out, redco_error *err);
/** Peaks, for people. */
void profile_print(const struct profile_result *result);

#endif
