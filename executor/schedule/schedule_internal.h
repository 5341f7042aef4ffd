/** @file schedule_internal.h  Internal to executor/schedule. */
#ifndef REDCO_SCHEDULE_INTERNAL_H
#define REDCO_SCHEDULE_INTERNAL_H

#include "executor/memory_plan/lifetimes.h"
#include "executor/schedule/schedule.h"

#include <pthread.h>

/** Values that leave a stage in one direction, at most. */
enum { REDCOI_OP_NAME_BYTES = 200, REDCOI_LEAVING_MAX = 256 };

/** Streams, one thread each; the first is the caller's. */
typedef enum redcoi_stream_kind {
    REDCOI_STREAM_COMPUTE,
    REDCOI_STREAM_PARAMETERS,
    REDCOI_STREAM_SECONDARY,
    REDCOI_STREAM_GRADIENTS,
    REDCOI_STREAM_UPDATE,
    REDCOI_STREAM_RECEIVE, /**< from the stage before and, next, gradients from the one behind */
    REDCOI_STREAM_RECEIVE_GRADIENTS,
    REDCOI_STREAM_SEND,
    REDCOI_STREAM_SEND_GRADIENTS,
    REDCOI_STREAMS
} redcoi_stream_kind;

typedef enum redcoi_action {
    REDCOI_NOTHING, /**< costs of the simulator's that an engine has or has not: launches, overhead */
    REDCOI_COMPUTE, /**< operators of the graph, tensor-parallel collectives among them */
    REDCOI_GATHER,
    REDCOI_SCATTER,
    REDCOI_REDUCE,
    REDCOI_SYNC,
    REDCOI_NORM,
    REDCOI_NORM_REDUCE,
    REDCOI_OPTIMIZER,
    REDCOI_SEND, /**< what: 0 forward, 1 backward, and twice the position */
    REDCOI_RECEIVE
} redcoi_action;

/** The work for one operator of the step; numbered as those. */
typedef struct redcoi_task {
    uint8_t action, stream_kind;
    bool backward;        /**< gather: for backward */
    uint32_t micro_batch; /**< or REDCO_STEP_NONE */
    uint32_t what;        /**< compute task, module, bucket or layer, as the action says */
    uint32_t layer;
    uint32_t ordinal; /**< in its stream */
    uint32_t first_wait, wait_count;
} redcoi_task;

/** A dependency: a task of another stream. */
typedef struct redcoi_wait_for {
    uint32_t task;
} redcoi_wait_for;

/** A range of an array. */
typedef struct redcoi_range_of {
    uint32_t first, count;
} redcoi_range_of;

/** The work of one compute operator, the same in all micro-batches. */
typedef struct redcoi_compute_task {
    uint32_t step_op; /**< in the first micro-batch */
    uint32_t layer;
    redcoi_range_of ops;    /**< in bind->order */
    redcoi_range_of takes;  /**< in bind->takes: modules whose gradients are there and need no scatter */
    redcoi_range_of needs;  /**< in bind->needs: modules whose gathered weights are read */
    redcoi_range_of copies; /**< in memory->copies */
    int64_t value_bytes[2], weight_bytes, gradient_bytes[2]; /**< taken when it starts, given back when it ends */
    uint32_t after, after_before;                            /**< as of the gradients that it is the first to write */
} redcoi_compute_task;

/** Which operators of the graph belong to which compute operator of the step. */
typedef struct redcoi_bind {
    redcoi_compute_task *compute_tasks;
    uint32_t compute_task_count;
    uint32_t *compute_task_of; /**< by operator of the graph; REDCO_STEP_NONE: not run */
    uint32_t *order;           /**< operators by compute task */
    uint32_t *takes, *needs;
    uint32_t need_count;
    uint32_t *first_of, *ready_of; /**< by module: first and last compute task that makes its gradients */
    bool *live;                    /**< by operator of the graph */
    redco_value *root_of;          /**< by value: of views, the value whose memory they are */
    uint32_t *tensor_of;           /**< by value: the parameter it is, or a view of it; REDCO_STEP_NONE */
} redcoi_bind;

/** Memory of micro-batches that are under way at once, in the block: that of micro-batch i is at i modulo count. */
typedef struct redcoi_ring {
    unsigned char *memory; /**< the first; NULL before it is taken */
    uint64_t bytes;        /**< for one micro-batch */
    uint32_t count;        /**< 0: there is none */
    uint32_t until;        /**< the pass that reads last what comes */
} redcoi_ring;

/** An address that may depend on the micro-batch. */
typedef struct redcoi_address {
    unsigned char *first;    /**< for micro-batch 0 */
    const redcoi_ring *ring; /**< NULL: the same for all */
} redcoi_address;

/** An operand of a launch that lies in a ring, or its workspace. */
typedef struct redcoi_moving {
    uint32_t tensor; /**< in memory->tensors; REDCO_STEP_NONE: the workspace */
    redcoi_address at;
} redcoi_moving;

/** A value that leaves the stage is copied to where it is sent from, once its operator is done. */
typedef struct redcoi_handover {
    uint32_t behind; /**< entry of bind->order */
    redcoi_address from, to;
    uint64_t bytes;
} redcoi_handover;

/** Memory in the block of slots, from one place in the micro-batch to another. */
typedef struct redcoi_slot {
    uint32_t layer, module;
    bool gradient, backward;
    uint32_t step_op;  /**< the gather or scatter in the first micro-batch, REDCO_STEP_NONE: gradients taken at once */
    uint32_t producer; /**< gradient: first compute task that writes it */
    uint32_t born, dies; /**< places: 2 (compute task + 1), odd ones between compute tasks */
    uint64_t bytes, at;
    const struct redcoi_ring
        *ring;        /**< gradient taken at once: it lies in the micro-batch's place; NULL: in the block */
    uint32_t scatter; /**< gradient: its number among the scatters of a micro-batch */
    /** The scatter that must be through before it is written: of the same micro-batch or of the one before. */
    uint32_t after, after_before;
} redcoi_slot;

typedef struct redcoi_copy_of {
    uint32_t compute_task;
    redcoi_address from, to;
    uint64_t bytes;
} redcoi_copy_of;

typedef struct redcoi_memory {
    redcoi_slot *slots;
    uint32_t slot_count, scatter_count;
    uint32_t *need_slot;       /**< by entry of bind->needs */
    uint32_t *gradient_slot;   /**< by module */
    unsigned char *block;      /**< the arena, behind it inputs */
    redco_lifetimes lifetimes; /**< lifetimes of the graph's values */
    uint64_t *offsets;         /**< offsets of its intervals in the arena */
    uint64_t emulated_at;      /**< memory of emulated collectives, in the block */
    redco_arena arena;         /**< arena for values and slots */
    /** Where a stage has several micro-batches under way: values from forward to backward, the micro-batch's inputs,
     *  and what comes and goes, forward and backward. */
    redcoi_ring *kept; /**< by pass in which values are made and by that which reads them last */
    redcoi_ring inputs;
    redcoi_ring *in[2], *out[2]; /**< by chunk */
    const redcoi_ring **ring_of; /**< by interval: NULL: it is in the arena */
    bool *elsewhere;             /**< likewise: it is not */
    redco_turn *turns;           /**< the stage's table */
    uint32_t turn_count;
    uint64_t *in_at[2], *out_at[2]; /**< by value that comes or goes: in its ring's memory */
    redcoi_moving *moving;
    redcoi_range_of *moves;     /**< by entry of bind->order: in moving */
    redcoi_handover *handovers; /**< by behind */
    uint32_t handover_count;
    redcoi_address loss;
    void **input_data;      /**< one for each of options.inputs */
    redco_launch *launches; /**< by entry of bind->order */
    redco_tensor *tensors;  /**< operands of launches */
    char (*names)[REDCOI_OP_NAME_BYTES];
    redcoi_copy_of *copies;
    uint32_t copy_count;
    redco_schedule_size size;
} redcoi_memory;

/** Staging buffers of the program, which a device copies from and to asynchronously. */
typedef struct redcoi_exchange_memory {
    unsigned char *inputs[2]; /**< for the micro-batch under way and the next one */
    redco_event *fed[2];      /**< the device has them */
    bool used[2];             /**< in this step */
    unsigned char *losses;    /**< one of each micro-batch */
} redcoi_exchange_memory;

/** The resources of one stream. */
typedef struct redcoi_thread {
    redco_schedule *schedule;
    redcoi_stream_kind stream_kind;
    redco_backend *backend;
    redco_device_stream *stream;
    redco_states_worker *worker;
    uint32_t *tasks; /**< in order */
    uint32_t task_count;
    pthread_t thread;
    bool started;
    /* Under the schedule's lock. */
    pthread_cond_t wake;
    bool asleep, busy; /**< busy: a task of the stream is being done */
    uint32_t done;     /**< tasks of this step */
    double emulated_s; /**< until when the emulated operators so far last */
} redcoi_thread;

/** Consecutive tasks of the compute stream without dependencies in between, in either direction: one recording queues
 * them. By the first task's number in its stream. */
typedef struct redcoi_segment {
    uint32_t count; /**< tasks; 0: another one has this task, or it is not recorded */
    bool failed;
    redco_recording
        *recordings[2]; /**< for steps that are not timed, and for timed ones; NULL before the second step */
} redcoi_segment;

struct redco_schedule {
    redco_schedule_options options;
    redco_step *step;
    redcoi_bind bind;
    redcoi_memory memory;
    redcoi_task *tasks;
    uint32_t task_count;
    redcoi_wait_for *waits;
    uint32_t wait_count;
    redcoi_thread threads[REDCOI_STREAMS];
    /** By task; one that begins where another of its stream ends has no event of its own for that. */
    redco_event **begin, **end, *base, **events;
    uint32_t event_count;
    double *ended_s;          /**< by task, on the processor's clock */
    bool *synced;             /**< by layer of the step: an operator synchronises its updated weights */
    uint64_t *replayed;       /**< by task: elements that its collectives move together; 0: there is one at most */
    redcoi_segment *segments; /**< the computing stream's, by number in the stream; NULL: nothing is recorded */
    redco_schedule_recorded recorded;
    bool untimed, timed_later; /**< redco_schedule_time() */
    bool marking;              /**< tasks inside of a segment set their events */
    uint32_t micro_batches, loss_compute_task;
    redcoi_exchange_memory exchange;
    /* Shared by threads; under the lock. */
    pthread_mutex_t lock;
    bool helps; /**< the thread that computes does what it would wait for, where nobody has begun it */
    uint64_t round;
    bool stop;
    uint32_t idle; /**< threads that have finished the round; with help nobody asks */
    redco_status status;
    redco_error error;
    /* State of the step under way; written by the stream that computes, or before another waits for it. */
    uint64_t number;
    double learning_rate, gradient_scale, sums[2], loss, norm;
    bool summed; /**< sums are of all ranks */
};

/** @return whether the schedule computes and moves no values. */
static inline const redco_state_model *redcoi_schedule_model(const redco_schedule *s)
{
    return redco_layout_model(redco_states_layout(s->options.states));
}

static inline uint32_t redcoi_stage_of(const redco_schedule *s)
{
    return s->options.links != NULL ? s->options.links->stage : 0;
}

/** The layer of the step that a module is in. */
static inline uint32_t redcoi_layer_of(const redco_schedule *s, uint32_t module)
{
    return redco_step_layer_of(redcoi_schedule_model(s),
                               redco_layout_layer_of(redco_states_layout(s->options.states), module));
}

static inline redco_status redcoi_schedule_memory_short(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "schedule", "no memory for the schedule of a step");
}

/** The module that a label of the step names in a layer. @return false if there is none */
bool redcoi_module_of(const redco_schedule *s, const redco_step_op *op, uint32_t *module_out);

/** Assigns the graph's operators to the compute operators of a micro-batch. */
bool redcoi_is_compute_task(const redco_step_op *op);
redco_status redcoi_bind_make(redco_schedule *s, redco_error *err);
void redcoi_bind_free(redcoi_bind *bind);
/** Lifetimes of the graph's values. */
redco_status redcoi_values_plan(redco_schedule *s, redco_error *err);
/** Memory of micro-batches that are under way at once (rings.c), behind the values' lifetimes. */
redco_status redcoi_rings_plan(redco_schedule *s, redco_error *err);
uint64_t redcoi_rings_place(redco_schedule *s, unsigned char *from, uint64_t *stays_out);
unsigned char *redcoi_address_at(redcoi_address address, uint32_t micro_batch);
redcoi_address redcoi_slot_at(const redco_schedule *s, const redcoi_slot *slot);
bool redcoi_received_at(const redco_schedule *s, redco_value value, redcoi_address *at_out);
redco_status redcoi_handovers_list(redco_schedule *s,
                                   redcoi_address (*address_of)(const redco_schedule *s, redco_value value),
                                   redco_error *err);
void redcoi_rings_free(redcoi_memory *memory);
/** Values that leave the stage, in both directions. @param values_out  2 REDCOI_LEAVING_MAX. @return their number */
uint32_t redcoi_leaving_list(const redco_schedule *s, redco_value *values_out);
/** Values from one pass to another lie behind one another: all are there at once. Where backward is cut in two, what it
 *  reads of forward's stays to its end, and what its first half makes for the second lies where that was.
 *  @param forward  only what forward makes */
void redcoi_rings_lay(redco_schedule *s, bool forward);
/** Places in rings' gaps (ring_gaps.c); then rings for what is left. @param slots  intervals of the slots */
redco_status redcoi_rings_fill(redco_schedule *s, const redco_interval *slots, redco_error *err);
/** Kinds of passes of a micro-batch on this stage: of each of its chunks forward, backward and, where backward is cut
 * in two, that for weights. */
enum { REDCOI_PASSES = 3 };
/** Their number, and that of a compute task or of a step of the lifetimes. */
uint32_t redcoi_pass_count(const redco_schedule *s);
uint32_t redcoi_pass_of(const redco_schedule *s, uint32_t compute_task);
uint32_t redcoi_pass_of_step(const redco_schedule *s, uint32_t step);
/** The pass forward (0) or backward (1) of a position. */
uint32_t redcoi_pass_at(const redco_schedule *s, uint32_t direction, uint32_t position);
const redcoi_ring *redcoi_crossing_ring(const redco_schedule *s, bool comes, uint32_t direction, uint32_t position);
/** Sends or receives. */
redco_status redcoi_cross(redcoi_thread *thread, const redcoi_task *task, redco_error *err);
/** Lifetimes of gathered weights and whole gradients. */
redco_status redcoi_slots_plan(redco_schedule *s, redco_error *err);
/** Offsets of both, and waits where memory is reused. */
redco_status redcoi_places_plan(redco_schedule *s, redco_error *err);
/** Tasks and their dependencies. */
redco_status redcoi_tasks_make(redco_schedule *s, redco_error *err);
/** Allocates memory and prepares the launches. */
redco_status redcoi_memory_take(redco_schedule *s, redco_error *err);
void redcoi_memory_free(redco_schedule *s);
/** Events of tasks, and staging buffers. */
redco_status redcoi_events_make(redco_schedule *s, redco_error *err);
void redcoi_events_free(redco_schedule *s);
redco_status redcoi_exchange_take(redco_schedule *s, redco_error *err);
void redcoi_exchange_free(redco_schedule *s);
/** Queues the inputs of a micro-batch. */
redco_status redcoi_feed(redcoi_thread *thread, uint32_t micro_batch, redco_error *err);
/** Queues the copy of the loss to the program's memory. */
redco_status redcoi_send_loss(redcoi_thread *thread, uint32_t micro_batch, redco_error *err);
double redcoi_losses_sum(const redco_schedule *s); /**< when the device is through with them */
/** Replay: counts the elements that the collectives of each task move. */
redco_status redcoi_replay_make(redco_schedule *s, redco_error *err);
/** The time of the task's collectives from here on; queues those that nothing here runs. */
redco_status redcoi_replay_expect(redcoi_thread *thread, uint32_t index, redco_error *err);
/** Which tasks are recorded together. */
redco_status redcoi_segments_make(redco_schedule *s, redco_error *err);
void redcoi_segments_free(redco_schedule *s);
/** Queues the work of @p body: directly in the first step, recorded in the second, played from then on. Work that
 * cannot be recorded is queued directly. */
redco_status redcoi_segment_run(redcoi_thread *thread, redcoi_segment *segment,
                                redco_status (*body)(redcoi_thread *thread, uint32_t first, redco_error *err),
                                uint32_t first, redco_error *err);
/** All layers' updates: the optimizer's part that is recorded. @param first  not looked at */
redco_status redcoi_update(redcoi_thread *thread, uint32_t first, redco_error *err);
/** Runs a task. */
redco_status redcoi_act(redcoi_thread *thread, uint32_t index, redco_error *err);

#endif
