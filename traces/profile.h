/** @file profile.h  Measured times of collectives and operators: nccl-tests and rccl-tests logs, tables of other
 * projects and redco's own files, all read into one form. A profile is a list of runs; a run is one collective on one
 * group of ranks at growing sizes. What redco-profile writes also holds matrix products, attention and other operators
 * of one device.
 *
 *  Which format a file has is found from its content:
 *  - nccl-tests / rccl-tests text output and tables made of such rows (nccl_log.h), and nccl-tests -J JSON
 *  - redco-profile JSON (traces/profile.schema.json) and redco's CSV, header
 *    `op,gpus_per_node,nodes,size_bytes,in_place,time_s`
 *  - CSV tables of Galvatron, vTrain, Vidur and the ML Engineering book, known by their header line
 *  Tables that hold no times (SimAI's efficiencies, model vectors) are refused and named. */
#ifndef REDCO_PROFILE_H
#define REDCO_PROFILE_H

#include "topology/base/collective_op.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_OUT_OF_PLACE = 0, REDCO_IN_PLACE = 1, REDCO_PLACEMENTS = 2 };

/** One measured size; at least one time is known. */
typedef struct redco_profile_row {
    uint64_t size_bytes;             /**< S as nccl-tests prints it; ascending in a run, may repeat, may be 0 */
    double time_s[REDCO_PLACEMENTS]; /**< per operation; 0 = not measured (or, at size 0, too short to show) */
    uint32_t line;                   /**< in the file, from 1; 0 where the format has no lines */
} redco_profile_row;

typedef struct redco_profile_run {
    redco_collective op;
    uint32_t ranks;           /**< >= 2 */
    uint32_t nodes;           /**< hosts; 0 = the file does not say */
    uint32_t stride;          /**< rank distance inside a node; 1 = adjacent GPUs */
    uint32_t groups_per_node; /**< equal groups that ran at the same time */
    bool one_process;         /**< one process drove several GPUs: its launches cost more */
    bool bandwidth_only;      /**< the table gives a bandwidth at an unstated large size */
    char hardware[160];       /**< as the file words it; "" = not stated (likewise below) */
    char network[160];
    char tool[200];
    const redco_profile_row *rows;
    size_t row_count;
} redco_profile_run;

/** Seconds of C [m][n] = A [m][k] B [k][n]. */
typedef struct redco_profile_gemm {
    uint32_t m, n, k;
    bool transpose_a, transpose_b; /**< that operand lies in memory with its dimensions exchanged */
    char type[16];                 /**< "bf16", "fp16", "fp32", "fp64", "fp8" */
    double time_s;
} redco_profile_gemm;

/** Seconds of an attention core, scores not kept. */
typedef struct redco_profile_attention {
    uint32_t batch, heads, kv_heads, sequence, head_dim;
    bool causal;
    char type[16];
    double forward_s, backward_s;
} redco_profile_attention;

/** Seconds of an operator that is no product, by the number of elements of its result (of its table, of its states). */
typedef struct redco_profile_operator {
    char name[32]; /**< OPERATORS.md: "rms_norm", "gated_activation", "loss", "optimizer", "copy", ...
                    */
    char type[16];
    uint64_t elements;
    uint32_t columns;             /**< norms: elements of a row; 0 = not known */
    double forward_s, backward_s; /**< backward 0: it has none */
} redco_profile_operator;

/** Joules of an operator that ran without pause for so long that the device's clock settled
 * (costmodel/operators/power.h). */
typedef struct redco_profile_power {
    char name[32];          /**< "gemm", "attention", or as redco_profile_operator has it */
    char type[16];          /**< type of its numbers */
    char numbers[16];       /**< "normal" or "zeros": matrix units draw less for the latter */
    bool backward;          /**< else forward */
    uint32_t m, n, k;       /**< gemm, operands as they are; else 0 */
    uint64_t elements;      /**< elements of the result; gemm: 0 */
    double flops;           /**< FLOPs of products and attention; else 0 */
    double time_s;          /**< seconds of one operator, meanwhile */
    double energy_j;        /**< energy of one operator, idle watts included */
    double watts;           /**< average of the window */
    double clock_hz;        /**< clock of the multiprocessors, average of the window */
    double memory_clock_hz; /**< likewise */
    double settle_s;        /**< until the clock stayed within 2 % of that; 0: at once */
    double window_s;        /**< that was looked at */
    bool sampled;           /**< watts were sampled, not counted as joules by the device */
} redco_profile_power;

/** On what, when and how well a profile was measured; empty texts and zeros where that is not known. */
typedef struct redco_profile_measured {
    char device[48];     /**< name of the GPU type that operators ran on, as cluster files give it */
    char part[96];       /**< the same as its driver calls it: "NVIDIA H200" */
    char backend[16];    /**< "host", "cuda" */
    char kernels[64];    /**< kernels of the mathematical library: "OpenBLAS Haswell" */
    char attention[256]; /**< library that ran it: "cuDNN 9.19.0 (PATH)", "own kernels: why" */
    char cpu[96];
    char system[96];          /**< operating system and release */
    char date[32];            /**< UTC, ISO 8601 */
    double clock_hz;          /**< clock of the device */
    double clock_after_hz;    /**< the same when all was measured */
    double memory_clock_hz;   /**< clock of the device's memory */
    char capability[16];      /**< compute capability of the device: "9.0" */
    char driver[64];          /**< "CUDA 13.0, NCCL 2.28.9" */
    uint32_t multiprocessors; /**< multiprocessors of the device */
    uint64_t memory_bytes;    /**< memory of the device */
    uint32_t processors;      /**< processors of the machine */
    uint32_t ranks;           /**< that measured at the same time */
    uint32_t rounds;          /**< every time is the best of so many rounds, the slowest rank's */
    double load;              /**< processes that wanted to run, before it began */
    double processor_ratio;   /**< share of a processor that a computing rank got; 1 = alone */
    double spread_ratio;      /**< mean excess of a run over the best one, median of all operators */
    double contention_ratio;  /**< seconds of computation that a second of collectives beside it costs */
    double overlap_ratio;    /**< speed that collectives keep beside computation over what computation keeps; 0: neither
                                was measured */
    double budget_s, took_s; /**< seconds that measuring was given, and took */
    uint32_t left_out;       /**< operators that there was no time or no memory for */
    double launch_s;         /**< seconds of the program for launching one operator */
    double host_forward_s;   /**< seconds of the program for launching a block of layers forward, one by one */
    double host_backward_s;  /**< and backward */
    double graph_launch_s;  /**< seconds of the program for launching as many operators as one graph; 0: not measured */
    double hot_ratio;       /**< time of a large product when all was measured, over that when it began */
    uint64_t reserve_bytes; /**< device memory that driver, context and libraries hold */
    uint64_t workspace_bytes; /**< the most that a product works with beside its operands */
    /* Watts (costmodel/operators/power.h). */
    double power_limit_w;      /**< limit of the device */
    double idle_w;             /**< watts of the device with a context, at full clock */
    double product_j_per_flop; /**< above idle, of bf16 products at full clock */
    double memory_w;           /**< above idle, while a memory-bound operator runs */
    double burst_clock_ratio;  /**< clock at which products were timed, of the full one */
    char power_basis[320];     /**< source of these */
} redco_profile_measured;

typedef struct redco_profile redco_profile;

/** Size at which tables of bare bandwidths are entered. */
#define REDCO_PROFILE_NOMINAL_BYTES ((uint64_t)1 << 30)

/** Reads a file of at most 64 MiB. @return REDCO_EIO, or REDCO_EVALUE with file:line or file:/json/pointer */
redco_status redco_profile_read(const char *path, redco_profile **profile_out, redco_error *err);
/** The same from memory.
 *  @param name  stands for the path in errors; its last part may tell all-gather from all-to-all, which look alike in
 *               nccl-tests' tables */
redco_status redco_profile_parse(const char *text, size_t size, const char *name, redco_profile **profile_out,
                                 redco_error *err);
void redco_profile_free(redco_profile *profile);

size_t redco_profile_runs(const redco_profile *profile, const redco_profile_run **runs_out);
size_t redco_profile_gemms(const redco_profile *profile, const redco_profile_gemm **gemms_out);
size_t redco_profile_attentions(const redco_profile *profile, const redco_profile_attention **attentions_out);
size_t redco_profile_operators(const redco_profile *profile, const redco_profile_operator **operators_out);
size_t redco_profile_powers(const redco_profile *profile, const redco_profile_power **powers_out);
/** Never NULL. */
const redco_profile_measured *redco_profile_how(const redco_profile *profile);
/** Rows of all runs together. */
size_t redco_profile_row_count(const redco_profile *profile);
/** Rows that were left out because their printed precision is too low to give a time, or because the log was cut there.
 */
size_t redco_profile_skipped(const redco_profile *profile);

/** Content of the file: all borrowed for the call. */
typedef struct redco_profile_content {
    const char *hardware, *network, *tool;
    const redco_profile_measured *measured;
    const redco_profile_run *runs; /**< hardware, network and tool are those above; nodes must be known */
    size_t run_count;
    const redco_profile_gemm *gemms;
    size_t gemm_count;
    const redco_profile_attention *attentions;
    size_t attention_count;
    const redco_profile_operator *operators;
    size_t operator_count;
    const redco_profile_power *powers;
    size_t power_count;
} redco_profile_content;

/** A document of the newest version: a new reference, or NULL when out of memory. */
json_t *redco_profile_describe(const redco_profile_content *content);

#ifdef __cplusplus
}
#endif
#endif
