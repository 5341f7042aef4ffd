/** @file exec_report.h  The output of redco-exec, for people and as JSON. */
#ifndef REDCO_TOOLS_EXEC_REPORT_H
#define REDCO_TOOLS_EXEC_REPORT_H

#include "costmodel/closed_form/closed_form.h"
#include "executor/trainer/predict.h"
#include "executor/trainer/trainer.h"

#include <jansson.h>

/** Seconds from the program's start to the first step. */
struct exec_start {
    double began_s;                 /**< on the processor's clock */
    double plan_s;                  /**< plan, profile and the schedule of the step */
    double device_s, device_comm_s; /**< driver, kernels and libraries; communicators of GPUs */
    redco_trainer_start trainer;    /**< see there */
    double total_s;
};

/** An evaluation between steps, or after the last. */
struct exec_evaluation {
    uint64_t step;
    double epoch; /**< NaN: data have none */
    redco_evaluation evaluation;
    double metric; /**< NaN: there is none */
    double time_s;
    bool best; /**< so far */
};

/** The results of --evaluate and --predict. */
struct exec_use {
    struct exec_evaluation *list; /**< all evaluations, to be freed; the last one is here again: */
    uint64_t count;
    const char *evaluate, *predict; /**< their files, or NULL */
    redco_evaluation evaluation;
    bool by_token;         /**< its loss is that of tokens: there is a perplexity */
    redco_error pairs_err; /**< examples and predictions of an evaluation could not be written */
    double evaluation_s, prediction_s;
    double metric;              /**< the pipeline's; NaN: it has none */
    uint64_t predicted, tokens; /**< examples, and tokens generated */
    uint32_t graphs;
};

struct exec_run {
    struct exec_start start;
    const redco_plan *plan;
    redco_dtype dtype;
    const char *backend;
    const redco_trainer_step *steps;
    uint64_t count, first;                          /**< steps run; steps done before, by runs that this one resumed */
    redco_trainer_memory memory;                    /**< rank 0's */
    redco_trainer_memory *stages;                   /**< each stage's fullest rank's; NULL: there are none. Owned */
    const redco_prediction *predicted_stages;       /**< likewise, of memory alone */
    uint64_t reserve_bytes;                         /**< that a GPU's driver and libraries hold beside; 0: not known */
    uint64_t launches;                              /**< in the last step: calls that give a GPU work; 0: no GPU */
    uint32_t graphs;                                /**< that are launched instead of operators */
    double watts;                                   /**< rank 0's GPU, from the first step's end; 0: not known */
    char attention[512];                            /**< the library that ran it; "": none, or the processor */
    double model_flops_per_token, peak_flops_per_s; /**< peak of the plan's GPU */
    bool emulated;                                  /**< computation */
    bool replay;                                    /**< one rank alone: communication is emulated */
    uint32_t rank;                                  /**< rank of a replay */
    bool checked;
    redco_trainer_verdict verdict;
    const char *folder; /**< folder of checkpoints, or NULL */
    bool resumed;
    uint64_t written; /**< checkpoints */
    redco_checkpoint_best best;
    uint64_t epoch_examples; /**< 0: data never repeat */
    const char *log;         /**< folder of the log, or NULL */
    struct exec_use use;
    json_t *reported; /**< a pipeline's report behind the steps; NULL: nothing. Owned */
};

/** Time of the steps but the first, which warms up; NaN when out of memory or without steps. */
double exec_median_step_s(const struct exec_run *run);
void exec_print_head(const struct exec_run *run);
void exec_print_resumed(const char *path, uint64_t step, uint64_t steps);
void exec_print_step(const struct exec_run *run, uint64_t number, const redco_trainer_step *step);
void exec_print_evaluation(const struct exec_evaluation *evaluation);
void exec_print_tail(const struct exec_run *run);
/** @return NULL when out of memory */
json_t *exec_json(const struct exec_run *run);

#endif
