/** @file schedule.h  A training step of one rank as a static schedule: the simulator's graph of operators on streams
 *  (costmodel/simulator/step.h), each bound to its work on the rank's tensor graph and its sharded states. Names,
 * streams, order and dependencies are the simulator's by construction.
 *
 *  Order and memory are fixed when the schedule is made: activations, gathered weights and whole gradients lie in one
 * arena at offsets planned from their lifetimes. Each stream that the step uses has a thread with a stream and
 * communicators of its own; tensor-parallel collectives, which computation waits for, are called by the thread that
 * computes. A thread waits only for operators of others that the step says its next one needs.
 *
 *  Reductions of gradients are those of the states' own buckets (whole modules), each where it becomes full; the
 * simulator cuts buckets anywhere. Where both have one bucket they are the same operator. */
#ifndef REDCO_SCHEDULE_H
#define REDCO_SCHEDULE_H

#include "costmodel/simulator/simulate.h"
#include "executor/backend/collectives.h"
#include "executor/memory_plan/memory_categories.h"
#include "executor/states/states.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_schedule redco_schedule;

/** Inputs of a micro-batch, in the program's memory, in the order of redco_schedule_options.inputs. */
typedef struct redco_feed {
    redco_status (*next)(void *context, uint32_t micro_batch, const void **data_out, redco_error *err);
    void *context;
} redco_feed;

/** A value that comes into one of a stage's positions, or leaves it. */
typedef struct redco_crossing {
    redco_value value; /**< one that comes: an input of the graph; REDCO_NO_VALUE: nobody reads it here */
    uint32_t position; /**< in the pipeline, of this stage */
    redco_tensor_type type;
} redco_crossing;

/** A pipeline stage and its neighbours. Values come and go forward [0] and backward [1]. */
typedef struct redco_stage_links {
    redco_pipeline pipeline;
    uint32_t stage;
    const uint32_t *position_of;          /**< by layer of the step */
    const redco_crossing *in[2], *out[2]; /**< by position, in the order in which they are sent */
    uint32_t in_count[2], out_count[2];
    redco_process_group *from[2], *to[2]; /**< two ranks each, the sender and the receiver; NULL: nothing goes there */
} redco_stage_links;

typedef struct redco_schedule_options {
    /** One rank, one step, not folded; layers are the states'. Seconds matter only where computation is emulated. */
    const redco_step *step;
    bool overlap_reduce; /**< computation goes on while a bucket is reduced */
    const redco_graph *graph;
    redco_value loss;             /**< REDCO_NO_VALUE: the last stage has it */
    const redco_value *gradients; /**< one for each of the states' tensors; REDCO_NO_VALUE of frozen ones */
    const redco_value *inputs;    /**< inputs of a micro-batch; REDCO_NO_VALUE: the graph does not read it */
    uint32_t input_count;
    const redco_stage_links *links; /**< NULL: one stage */
    redco_feed feed;
    redco_world *world; /**< the states' world: it is aborted when a stream fails, so that the others end */
    redco_device_comm
        *device_comm; /**< the states' device communicator, which may have failed in what was queued; NULL: it cannot */
    redco_states *states; /**< with two bucket buffers or more, reductions overlap */
    /** Another handle to the states' device, for one thread. Closed by the schedule. */
    redco_status (*open)(void *context, redco_backend **backend_out, redco_error *err);
    void *open_context;
    const redco_collectives *collectives; /**< for the graph's groups; NULL without tensor parallelism */
    /** Computation, norm and optimizer are timed waits of the seconds in the step, their memory is not taken, and
     * losses are 0; communication is real. */
    bool emulate;
    /** The device communicator is a replay (executor/comm/replay.h), and the graph's collectives run on it: operators
     * that communicate take the seconds of the step. */
    bool replay;
    /** The graph is one whose operators the step knows only in sum: operators of the step that it has none for take no
     *  time. */
    bool loose;
    /** The work that the computing stream does without waiting for others is recorded in the second step, where the
     * device can, and played from then on. */
    bool record;
} redco_schedule_options;

/** All is borrowed until redco_schedule_free().
 *  @return REDCO_EVALUE if an operator of the step has no counterpart: the error names it */
redco_status redco_schedule_create(const redco_schedule_options *options, redco_schedule **schedule_out,
                                   redco_error *err);
void redco_schedule_free(redco_schedule *schedule); /**< NULL is accepted */

/** Memory in addition to the states', all allocated before the first step. */
typedef struct redco_schedule_size {
    uint64_t arena_bytes; /**< values of the graph, what operators work with, gathered weights, whole gradients */
    uint64_t held_bytes[REDCO_ARENA_CATEGORIES],
        slot_bytes; /**< bytes of the arena when it is fullest; the latter: weights, gradients */
    uint64_t input_bytes;
    uint64_t worker_bytes; /**< for all threads: compute tasks of vectors that an update works with */
} redco_schedule_size;
redco_schedule_size redco_schedule_sizes(const redco_schedule *schedule);

typedef struct redco_schedule_step {
    double loss;          /**< mean over micro-batches and ranks */
    double gradient_norm; /**< before clipping */
} redco_schedule_step;

/** One step. It begins by synchronising the weights that the step before has updated.
 *  @param number          of the step, from 1
 *  @param gradient_scale  1 / (micro-batches × data-parallel ranks)
 *  @return REDCO_EINFEASIBLE on all ranks alike if loss or gradients are not finite: nothing was updated then. After
 * any other failure, the first of any stream, the schedule is of no more use */
redco_status redco_schedule_run(redco_schedule *schedule, uint64_t number, double learning_rate, double gradient_scale,
                                redco_schedule_step *step_out, redco_error *err);
/** Synchronises updated weights now: before the caller reads them between steps. */
redco_status redco_schedule_settle(redco_schedule *schedule, redco_error *err);

/** Memory that a device's driver and libraries hold beside the plan: timelines have it from then on as reserve. */
void redco_schedule_hold_reserve(redco_schedule *schedule, uint64_t bytes);

/** Sets whether the steps from here on are timed, operator by operator, as redco_schedule_timeline() needs: events
 * inside of recordings take the device some time. They are unless this says no.
 *  @param later  some will be: recordings are made for both at once */
void redco_schedule_time(redco_schedule *schedule, bool now, bool later);

/** The recordings (redco_schedule_options.record). */
typedef struct redco_schedule_recorded {
    uint32_t recordings, operators; /**< operators of the step that they replace */
    char why_not[400]; /**< the first that failed, and was queued compute task by compute task from then on; "" */
} redco_schedule_recorded;
redco_schedule_recorded redco_schedule_what_is_recorded(const redco_schedule *schedule);

/** When each operator of the step that runs started and ended in the last step, which was timed, in seconds from its
 * beginning. The timeline is freed with redco_timeline_free(). */
redco_status redco_schedule_timeline(const redco_schedule *schedule, redco_timeline **timeline_out, redco_error *err);
/** In the last step: seconds in which the stream that computes waited for communication, tensor-parallel collectives
 *  included. */
redco_status redco_schedule_exposed(const redco_schedule *schedule, double *seconds_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
