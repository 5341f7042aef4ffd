/** @file compare.h  A measured step against its prediction, both as traces (trace.h), and both read by the same rules.
 *
 *  Processes are ranks, threads are streams. Kinds of work (categories of spans) that are predicted on the stream
 *  "compute" compute, "launch" and "overhead" are time lost there, and all other kinds communicate. While nothing
 *  computes, a rank waits for the communication that runs, of several for the one that ends when computation goes on;
 *  for "pipeline" it is a bubble. Where nothing runs it is idle. A counter track "memory" has a series for each
 * category, in bytes.
 *
 *  Arguments of spans: "micro_batch", from 0, and "step", from 1. Without "step", a rank's step ends with its last
 *  operator called "step/...", "step/launch" aside, before the next "fwd/...". The first step of a run warms up and is
 *  left out, unless it is alone; so is a step with less than half of the operators of the largest. All times are of the
 *  median of the others, of an even number the mean of the middle two.
 *
 *  Spans of the kind "pipeline" called ".../receive" last as long as a stage waits for another. They bound a step, and
 *  count neither as operators nor as communication.
 *
 *  An operator is the n-th of its name, micro-batch, step and rank; predictions with one process stand for every rank.
 *  A file's note "rank" says whose it is where files of several ranks number their processes alike. Each rank has its
 *  own clock; only the stages of a pipeline (predictions with several processes) that are in one file are taken to
 *  share one, and a step of a pipeline is taken to begin at the same time in all files. */
#ifndef REDCO_COMPARE_H
#define REDCO_COMPARE_H

#include "traces/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where a step goes; all but communication_s and covered_s add up to step_s. */
typedef struct redco_compare_time {
    double step_s;
    double compute_s;       /**< something runs on the compute stream */
    double launch_s;        /**< host launches collectives */
    double overhead_s;      /**< once a step */
    double wait_s;          /**< for communication */
    double bubble_s;        /**< for other pipeline stages */
    double idle_s;          /**< nothing runs */
    double communication_s; /**< communication runs, on one stream or several */
    double covered_s;       /**< the part of it in which computation runs, too */
} redco_compare_time;

/** A predicted and a measured number of seconds. */
typedef struct redco_compare_pair {
    double predicted_s, measured_s;
} redco_compare_pair;

/** A kind of work (category), of a rank and step. */
typedef struct redco_compare_kind {
    const char *name;
    bool communicates;
    uint64_t predicted_count, measured_count; /**< operators; measured: of all ranks together, by their number */
    redco_compare_pair total;                 /**< operators, alone or overlapped with others */
    redco_compare_pair exposed;               /**< communication: what the compute stream waited for it */
    redco_compare_pair critical;              /**< on the critical path */
} redco_compare_kind;

/** Operators that differ by layer and number only: "fwd/block.*" "/qkv". */
typedef struct redco_compare_operator {
    const char *name;
    uint64_t predicted_count, measured_count; /**< as above */
    redco_compare_pair total;
    uint64_t missing_count; /**< predicted and not measured, by at least one rank or step */
    double missing_s;       /**< predicted of those */
    uint64_t extra_count;   /**< measured and not predicted */
    double extra_s;
} redco_compare_operator;

/** Bytes of a category when the rank holds most. */
typedef struct redco_compare_memory_category {
    const char *name;
    double predicted_bytes, measured_bytes; /**< NaN: not in that trace */
} redco_compare_memory_category;

typedef struct redco_compare_memory {
    bool known; /**< both traces tell */
    double predicted_bytes, measured_bytes;
    double common_predicted_bytes,
        common_measured_bytes; /**< peak of the categories that both tell of, a reserve of 0 not; 0: none */
    redco_compare_memory_category *categories;
    uint32_t category_count;
} redco_compare_memory;

/** One rank of the trace in one step. */
typedef struct redco_compare_rank {
    const char *name; /**< name of its process, or "" */
    uint32_t process;
    uint32_t file;     /**< which of the measured traces */
    double step_s;     /**< seconds of the median step */
    double peak_bytes; /**< NaN: not known */
} redco_compare_rank;

/** A pipeline stage, its ranks on average. Its step is that of the slowest stage. */
typedef struct redco_compare_stage {
    const char *name; /**< name of its process in the prediction, or "" */
    uint32_t rank_count;
    redco_compare_time predicted, measured;
    redco_compare_pair warm_up;   /**< from the beginning of the step to the first "bwd/..." that computes; NaN: none */
    redco_compare_pair transfers; /**< sent to other stages: kind "pipeline" */
    uint64_t predicted_count, measured_count; /**< transfers, each rank's in a step */
    uint32_t shown_file, shown_process;       /**< to draw: its first rank, in the step that is shown */
    double shown_from_s, shown_to_s;
} redco_compare_stage;

typedef struct redco_compare_step {
    uint64_t number;
    uint64_t operators;
    double step_s; /**< seconds of the slowest rank */
    bool counted;
} redco_compare_step;

typedef struct redco_comparison {
    redco_compare_time predicted, measured;
    redco_compare_kind *kinds; /**< in the order given, those without operators left out */
    uint32_t kind_count;
    redco_compare_operator *operators; /**< the largest difference of totals first */
    uint32_t operator_count;
    redco_compare_memory memory;
    redco_compare_rank *ranks;
    uint32_t rank_count;
    redco_compare_stage *stages; /**< predicted with several processes; else none */
    uint32_t stage_count;
    redco_compare_step *steps;
    uint32_t step_count, counted_steps;
    uint64_t matched, missing, extra; /**< operators: of all steps that count and all ranks */
    uint64_t other_stream;            /**< matched on another stream than predicted */
    char other_stream_first[160];
    redco_compare_pair critical_idle; /**< the part of the critical paths in which nothing runs */
    bool critical_known;
    /** To draw: process and time of the rank and step that are nearest to the median. */
    uint32_t shown_file, shown_process;
    uint32_t shown_stage; /**< process of the prediction that it is compared with, in their order */
    double shown_from_s, shown_to_s;
    redco_trace *texts; /**< owns the names */
} redco_comparison;

typedef struct redco_compare_source {
    const redco_trace *trace;
    const char *name; /**< for errors */
} redco_compare_source;

/** Operators that predicted ones wait for, besides the one before on their stream: inputs[first[i]] to inputs[first[i +
 * 1]] are indices of spans of the prediction. */
typedef struct redco_compare_graph {
    const uint32_t *first, *inputs;
} redco_compare_graph;

/** @param predicted  one step
 *  @param measured   files of one run; none has a rank that another has, too
 *  @param kinds      categories of operators, NULL-terminated; measured spans of others count if their name is
 * predicted
 *  @param graph      NULL: no critical path
 *  @return REDCO_EVALUE when a trace has no operators, when none of the measured ones is predicted, or when a rank is
 *          there twice */
redco_status redco_trace_compare(const redco_compare_source *predicted, const redco_compare_source *measured,
                                 uint32_t measured_count, const char *const *kinds, const redco_compare_graph *graph,
                                 redco_comparison **comparison_out, redco_error *err);
void redco_comparison_free(redco_comparison *comparison);

/** predicted / measured - 1; NaN where nothing was measured. */
double redco_compare_error(double predicted, double measured);

#ifdef __cplusplus
}
#endif
#endif
