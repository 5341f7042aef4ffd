/** @file trainer.h  Trains the model of a plan on the ranks of a world: tensor parallelism by the plan's rules, states
 * by its meshes, micro-batches of its size. It executes the step that the simulator makes of the plan
 * (executor/schedule/schedule.h): communication that the plan overlaps runs on streams beside computation, and what
 * the plan recomputes is not kept. Neither changes a number.
 *
 *  Every rank makes the same calls. What is wrong with plan or options (REDCO_EVALUE when the trainer is made) and
 * losses that are no numbers (REDCO_EINFEASIBLE) come back on all ranks alike, other failures on those who meet them.
 */
#ifndef REDCO_TRAINER_H
#define REDCO_TRAINER_H

#include "costmodel/simulator/simulate.h"
#include "executor/backend/backend.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/comm/device_comm.h"
#include "executor/data/examples.h"
#include "executor/data/weights.h"
#include "executor/optimizer/optimizer.h"
#include "executor/optimizer/rate.h"
#include "executor/pipeline/records.h"
#include "planner/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_trainer redco_trainer;

/** One weight changed on one rank, so that it can be seen that a comparison notices. It takes effect on weights as they
 *  lie in memory after the step; what another rank updates and sends again hides it. */
typedef struct redco_trainer_fault {
    const char *tensor; /**< its first element that the rank holds is changed */
    uint32_t rank;
    uint64_t step;   /**< after this one, from 1 */
    double addition; /**< to the element */
} redco_trainer_fault;

/** Operators of the graph that stand together as one: products with what follows them (costmodel/graph/fuse_matmul.h),
 * which changes roundings, and elementwise operators (costmodel/graph/fuse.h), which changes no number. */
typedef enum redco_trainer_fusing {
    REDCO_TRAINER_FUSE_AUTO, /**< where it saves time: on devices other than the host */
    REDCO_TRAINER_FUSE_ON,
    REDCO_TRAINER_FUSE_OFF
} redco_trainer_fusing;

typedef struct redco_trainer_options {
    redco_backend
        *backend; /**< the device that computes; borrowed until the trainer is freed. NULL: this machine's processors */
    /** Joins the devices of all ranks; borrowed likewise. NULL: rings among processes, on memory that the
     *  processor follows. One of a larger world than the trainer's, which is of one rank then, is a replay
     *  (executor/comm/replay.h): times and memory are the rank's, but nothing is learned, losses and norms are 0, and
     *  there are no comparisons, checkpoints and faults. */
    redco_device_comm *device_comm;
    redco_dtype dtype; /**< type of weights, gradients and activations: F64, F32, BF16 or F16 */
    redco_optimizer optimizer;
    double learning_rate;
    redco_rate_schedule schedule; /**< all zero: the same rate in every step */
    bool decay_matrices;          /**< weight decay is for parameters of two dimensions and more: no biases, no norms */
    uint64_t seed;                /**< seed of first weights and tokens */
    const char *data;             /**< a file of token ids (executor/data/tokens.h); NULL: made from the seed */
    const char *data_sha256;      /**< digest of the data, for checkpoints; borrowed likewise. NULL: not known */
    /** Examples that a language model is trained on, in place of data; borrowed until the trainer is freed. Targets
     * that are not asked for count nowhere: a step's loss is the mean over those of its global batch that are. */
    const redco_examples *examples;
    bool in_order; /**< data are taken in the order of the file, in every epoch the same */
    /** A pipeline trained in place of the plan's language model, which is then this pipeline's, and its records, in
     * place of data; both borrowed until the trainer is freed. NULL: a language model. */
    const redco_user_pipeline_file *pipeline;
    const redco_records *records;
    const char *weights; /**< first weights: a file, index or folder (executor/data/weights.h); NULL: drawn */
    const redco_weights_part *weights_parts; /**< instead: first weights of some parameters; borrowed */
    size_t weights_part_count;
    const redco_step *steps; /**< the simulator's step of the plan: all micro-batches; borrowed */
    bool emulate;            /**< computation is timed waits, weights are zeros: redco_schedule_options */
    redco_trainer_fusing fuse;
    bool launch_each; /**< operators are queued one by one in every step, and not recorded and played (schedule.h) */
    const redco_trainer_fault *fault; /**< NULL: none; borrowed until the trainer is freed */
} redco_trainer_options;

/** The purpose of the plan. */
redco_dtype redco_trainer_dtype(redco_precision precision);
/** Checks whether the plan can be run on a world of this size, before there is one.
 *  @param place  of the plan, for errors
 *  @return REDCO_EVALUE if not: redco_plan_check_executable(), or another number of ranks */
redco_status redco_trainer_check_plan(const redco_plan *plan, const char *place, redco_executor executor,
                                      uint64_t ranks, redco_error *err);

/** @param plan    borrowed until the trainer is freed
 *  @param place   of the plan, for errors; borrowed likewise
 *  @param world   of the plan's size; must outlive the trainer */
redco_status redco_trainer_create(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                  redco_world *world, redco_trainer **trainer_out, redco_error *err);
void redco_trainer_free(redco_trainer *trainer); /**< NULL is accepted */

typedef struct redco_trainer_step {
    double loss;           /**< mean over the global batch */
    double gradient_norm;  /**< before clipping */
    double clip_factor;    /**< by which gradients were multiplied to clip them; 1: not at all */
    double learning_rate;  /**< that was applied */
    double time_s;         /**< this rank's, from first token to last weight */
    double exposed_comm_s; /**< part of it, waiting for communication instead of computing */
    double processor_s;    /**< this process's, all threads: less than time_s where others use the processors, too */
} redco_trainer_step;

/** @return REDCO_EINFEASIBLE if loss or gradients are not finite: nothing was updated then */
redco_status redco_trainer_run(redco_trainer *trainer, redco_trainer_step *step_out, redco_error *err);

/** The pipeline's report() of the steps so far, on this rank. @return a new reference; NULL: nothing */
json_t *redco_trainer_report(redco_trainer *trainer);

/** Sets whether the steps from here on are timed operator by operator: they are unless this says no. Times of steps
 * that are not come without what timing takes. @param later  some will be */
void redco_trainer_time(redco_trainer *trainer, bool now, bool later);
/** When each operator of the last step, which was timed, ran, in the simulator's names. To be freed with
 * redco_timeline_free(). */
redco_status redco_trainer_timeline(const redco_trainer *trainer, redco_timeline **timeline_out, redco_error *err);

/** Seconds that making the trainer took. */
typedef struct redco_trainer_start {
    double model_s;    /**< task, states' layout and memory, the rank's graph */
    double weights_s;  /**< first weights are drawn or read */
    double schedule_s; /**< memory is planned and taken; libraries choose what they run */
} redco_trainer_start;
redco_trainer_start redco_trainer_start_of(const redco_trainer *trainer);

/** The recorded part of a step: executor/schedule/schedule.h. */
typedef struct redco_trainer_recorded {
    uint32_t recordings, operators;
    char why_not[400]; /**< operators that could not be recorded, and is queued one by one; "" */
} redco_trainer_recorded;
redco_trainer_recorded redco_trainer_what_is_recorded(const redco_trainer *trainer);

/** Memory that the device's driver and libraries hold beside: timelines have it from then on as reserve. */
void redco_trainer_hold_reserve(redco_trainer *trainer, uint64_t bytes);

/** Memory of this rank, all of it taken before the first step. */
typedef struct redco_trainer_memory {
    uint64_t parameter_bytes, gradient_bytes, optimizer_bytes;
    uint64_t activation_bytes, logits_bytes, recomputed_bytes; /**< when there are most */
    uint64_t working_bytes; /**< values that operators hand on at once, and workspaces */
    uint64_t slot_bytes;    /**< gathered weights and whole gradients */
    uint64_t bucket_bytes;
    uint64_t total_bytes;
    uint64_t allocated_bytes; /**< memory that the devices gave until now, working memory of the update included */
    uint64_t live_bytes;      /**< part of it that they have not got back */
} redco_trainer_memory;
redco_trainer_memory redco_trainer_memory_of(const redco_trainer *trainer);
/** The same of each stage's fullest rank, told to all ranks, which all call it. No replay.
 *  @param stages_out  as many as the plan has stages */
redco_status redco_trainer_stage_memory(const redco_trainer *trainer, redco_trainer_memory *stages_out,
                                        redco_error *err);

/** The same training on one rank, without schedule, layouts or shards: what plans of the same model, batch and options
 *  are compared with, however they cut the batch. */
typedef struct redco_baseline redco_baseline;

/** Trains it, here and now. @param plan, place, options  not kept */
redco_status redco_baseline_train(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                  uint64_t step_count, redco_baseline **baseline_out, redco_error *err);
void redco_baseline_free(redco_baseline *baseline); /**< NULL is accepted */
/** All steps, from the first. */
const redco_trainer_step *redco_baseline_steps(const redco_baseline *baseline, uint64_t *count_out);

/** A comparison of a run with the same one on one rank. Errors and why they have these bounds: executor/PARITY.md. */
/** Steps done, those of a run that was resumed included. */
uint64_t redco_trainer_steps(const redco_trainer *trainer);
/** Writes a checkpoint of the last step. */
redco_status redco_trainer_save(redco_trainer *trainer, redco_checkpoints *checkpoints, redco_error *err);
/** Goes on from there, whatever plan and ranks wrote it. The trainer must have been made with its seed.
 *  @return REDCO_EVALUE if it is of another model, other data, another batch or another type */
redco_status redco_trainer_load(redco_trainer *trainer, redco_checkpoints *checkpoints,
                                const redco_checkpoint *checkpoint, redco_error *err);
/** Says which settings of the optimizer are others than those of a checkpoint: executor/checkpoint/training_settings.h.
 *  @return the number of differences */
size_t redco_trainer_changes(const redco_trainer *trainer, const redco_checkpoint *checkpoint, char *text, size_t size);

/** Writes all weights as other programs read them (executor/checkpoint/exchange_weights.h). @param dtype  BF16 or F32,
 *  F64 if weights are */
redco_status redco_trainer_export(redco_trainer *trainer, const char *folder, redco_dtype dtype, redco_error *err);

/** Compares the run with the same one on one rank. */
typedef struct redco_trainer_verdict {
    bool same;
    double bound;          /**< on all three errors; of 16-bit weights on losses */
    double loss_error;     /**< a step's, relative */
    double norm_error;     /**< error of a step's gradient norm, relative */
    double weight_error;   /**< an element's, relative to the largest of its tensor and to what rounding of its
                               gradients explains; 16-bit weights have none */
    uint64_t differs_step; /**< first step whose loss or norm differs, from 1; 0: none */
    char tensor[200];      /**< first tensor that differs; "" */
    uint32_t rank;         /**< first rank on which it does */
    uint64_t compared;     /**< elements of weights */
    uint64_t loose;        /**< elements for which rounding of gradients explains more than the bound */
} redco_trainer_verdict;

/** Trains all steps on rank 0 alone from the same beginnings, those before a run was resumed too, and compares losses,
 *  norms and final weights, those of every rank.
 *  Only rank 0 gets a verdict; the others may leave the world.
 *
 *  Of 16-bit weights only losses are judged, as rounding hides the rest.
 *  An optimizer that divides by the gradient's size turns the rounding of a gradient that is nearly 0 into steps of any
 *  sign (always of keys' biases, which softmax does not see): such elements may differ by as much.
 *  @param baseline  trained before, of as many steps; NULL: it is trained now. Ranks other than 0 do not look at it
 *  @param steps     all that were run here, the last ones of the run
 *  @return REDCO_EVALUE for Adafactor, and if the baseline is of another model, batch, length, type, seed or count of
 *          steps */
redco_status redco_trainer_compare(redco_trainer *trainer, const redco_baseline *baseline,
                                   const redco_trainer_step *steps, uint64_t step_count,
                                   redco_trainer_verdict *verdict_out, redco_error *err);
#ifdef __cplusplus
}
#endif
#endif
