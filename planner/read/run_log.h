/** @file run_log.h  A trainer's log as it is: seconds of steps, tokens/s, memory, timers, and PyTorch's out-of-memory
 *  message. Lines of Megatron-LM, NeMo, torchtitan, transformers' Trainer (and tqdm's bars), DeepSpeed, MaxText,
 * Composer and torch.cuda.memory_summary() are known by their words. What a prediction is of beside it. No printing. */
#ifndef REDCO_RUN_LOG_H
#define REDCO_RUN_LOG_H

#include "costmodel/closed_form/closed_form.h"

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Timers of Megatron-LM (--timing-log-level), by their names there. */
typedef enum redco_log_timer {
    REDCO_LOG_FORWARD_BACKWARD,
    REDCO_LOG_GRADIENTS, /**< all-grads-sync */
    REDCO_LOG_OPTIMIZER,
    REDCO_LOG_TIMERS
} redco_log_timer;

/** A number that a log does not say is 0. */
typedef struct redco_run_log {
    const char *trainer;                    /**< writes such lines; for people */
    uint64_t steps;                         /**< that state a time, or tokens/s */
    double step_s, step_low_s, step_high_s; /**< median; nine in ten steps lie between low and high */
    double tokens_per_s_per_gpu;            /**< median */
    double samples_per_s;                   /**< sequences of all GPUs, median */
    double timers_s[REDCO_LOG_TIMERS];      /**< medians of the slowest rank */
    double allocated_bytes, reserved_bytes; /**< peaks of the fullest GPU that the log tells of */
    bool out_of_memory;
    double asked_bytes, held_bytes, capacity_bytes; /**< its message says them; PyTorch's tensors hold held_bytes */
} redco_run_log;

/** @return REDCO_EVALUE where no line says anything of these */
redco_status redco_run_log_read(const char *path, redco_run_log *log_out, redco_error *err);
/** The same of a text. @param name  for errors */
redco_status redco_run_log_parse(const char *text, size_t size, const char *name, redco_run_log *log_out,
                                 redco_error *err);

/** A term of a prediction against what would explain the whole difference. */
typedef struct redco_log_term {
    const char *what;  /**< "compute", "layer communication", ... */
    double measured_s; /**< a timer's, or the term with the whole difference in it */
    double predicted_s;
    bool timed; /**< a timer says it */
} redco_log_term;

enum { REDCO_LOG_TERMS = 8 };

typedef struct redco_log_difference {
    double step_s; /**< measured; 0: the log does not say it */
    double ratio;  /**< measured over predicted */
    redco_log_term
        terms[REDCO_LOG_TERMS]; /**< those of timers, else the terms that could explain it, likeliest first */
    size_t term_count;
    double states_bytes; /**< predicted parameters, gradients and optimizer, which are counts */
    double rest_ratio;   /**< measured over predicted of the rest of what is allocated; 0: not known, or below the
                            states */
} redco_log_difference;

/** @param tokens    of a step
 *  @param global_batch  its sequences */
redco_log_difference redco_run_log_compare(const redco_run_log *log, const redco_prediction *predicted, double tokens,
                                           double global_batch, double gpus);
/** "measured" of a JSON document: planner/read/run-log.schema.json. New reference; NULL when out of memory */
json_t *redco_run_log_json(const redco_run_log *log, const redco_log_difference *difference,
                           const redco_prediction *predicted);

#ifdef __cplusplus
}
#endif
#endif
