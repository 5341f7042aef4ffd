/** @file simulate_internal.h  The event engine (simulate.c), and passes that stand for their operators
 *  (simulate_pass.c). */
#ifndef REDCO_SIMULATE_INTERNAL_H
#define REDCO_SIMULATE_INTERNAL_H

#include "costmodel/simulator/simulate.h"
#include "costmodel/simulator/step_internal.h"

/** A stream of a rank. */
typedef struct redcoi_queue {
    uint32_t head;   /**< not yet started */
    uint32_t active; /**< running, or NONE */
    uint32_t input;  /**< input of the head: those before are there */
    uint32_t waiter; /**< next stream that waits for the same operator, or NONE */
    bool waiting;    /**< is in such a list */
    double remaining_s, rate;
} redcoi_queue;

typedef struct redcoi_rank_state {
    redcoi_queue queues[REDCO_STREAM_COUNT];
    double now_s, next_s;
    uint32_t running; /**< bit per stream; of a rank in a pass none */
    uint32_t next_stream;
    uint32_t heap_at;
    uint32_t pass; /**< fold whose pass the rank is in, from 1; 0: none */
    uint64_t held[REDCO_CATEGORY_COUNT], total;
} redcoi_rank_state;

typedef struct redcoi_engine {
    const redco_step *step;
    redco_timeline *timeline;
    redcoi_rank_state *ranks;
    uint32_t *heap;    /**< heap of ranks by next_s */
    uint32_t *waiters; /**< per operator: first stream that waits for its end */
    bool *ended;
    redco_status status;
} redcoi_engine;

/** @return REDCO_ENOMEM, with everything to be given to redcoi_engine_close() */
redco_status redcoi_engine_open(redcoi_engine *e, const redco_step *step);
void redcoi_engine_close(redcoi_engine *e);
/** Until operator @p stop has ended (NONE: all have), or nothing more can happen. */
void redcoi_engine_run(redcoi_engine *e, uint32_t stop);
/** Starts the head of a stream if all its inputs are there; else the stream waits for the first that is not.
 * The rank must be up to date and be reckoned afterwards. @return whether it started */
bool redcoi_engine_start(redcoi_engine *e, uint32_t index, uint32_t stream, uint32_t cause);
/** An operator of rank @p index has ended: streams that waited for it may start. */
void redcoi_engine_wake(redcoi_engine *e, uint32_t index, uint32_t op);

/** Something that is under way, or issued and not begun, when a pass begins. */
typedef struct redcoi_before {
    uint32_t waits[2]; /**< those among them that it waits for, or NONE */
    uint8_t stream, work, link;
    bool contends, active;
    double contention_ratio, seconds; /**< still to do */
    int64_t taken_bytes, given_bytes; /**< memory changes still to come; given back: < 0 */
    redco_memory_category category;
} redcoi_before;

/** A pass that began with so much under way. Operators: those, then its parts; times since it began. */
typedef struct redcoi_record {
    uint32_t before_count, late_count, count;
    uint32_t number; /**< records of its kind that were there before it */
    redcoi_before *before;
    uint32_t *late;     /**< operators that the late parts wait for, or NONE */
    redco_timeline run; /**< ends are infinite for what outlasts the pass, starts for what begins later */
    redco_memory_peak peak;
    double *remaining_s; /**< left to operators that outlast it */
    double seconds;      /**< until the last computation has ended */
    double work_s[REDCO_WORK_COUNT], waiting_s[REDCO_WORK_COUNT], contention_s; /**< without what may outlast it */
    int64_t net_bytes[REDCO_CATEGORY_COUNT];                                    /**< taken less given back */
} redcoi_record;

/** The course of a fold. */
typedef struct redcoi_replay {
    const redcoi_record *record; /**< NULL before it began */
    uint32_t first_before;       /**< in redcoi_replays.before: what was under way */
} redcoi_replay;

/** Records of one kind of pass. */
typedef struct redcoi_records {
    double *under_way_s; /**< all that is still to do when the pass begins, ascending */
    redcoi_record **records;
    uint32_t count, capacity;
} redcoi_records;

struct redcoi_replays {
    redcoi_records *kinds; /**< by kind of pass */
    uint32_t kind_count;
    redcoi_replay *folds;
    redcoi_numbers before;
};

struct redcoi_replays *redcoi_replays_new(const redco_step *step);
void redcoi_replays_free(struct redcoi_replays *replays);

/** All inputs of a pass are there, and it is the head of its stream. */
void redcoi_pass_begin(redcoi_engine *e, uint32_t index, uint32_t op);
/** When next something of a pass ends that others see. */
void redcoi_pass_reckon(redcoi_rank_state *rank, const redcoi_engine *e);
/** That has ended: a transfer to another stage, or the pass. */
void redcoi_pass_event(redcoi_engine *e, uint32_t index);

/** Micro-batches of a pipeline that repeat the ones before, in its middle; 0: none do. */
uint32_t redcoi_repeated_batches(const redco_parallelism *parallelism);

/** An operator, or a part of one that stands for a pass. */
typedef struct redcoi_spot {
    uint32_t op, part; /**< part: index in the record, or NONE; op NONE: the beginning of the step */
} redcoi_spot;

double redcoi_spot_start_s(const redco_timeline *t, redcoi_spot spot);
double redcoi_spot_end_s(const redco_timeline *t, redcoi_spot spot);
uint8_t redcoi_spot_work(const redco_timeline *t, redcoi_spot spot);
/** The last of a pass; else the operator itself. */
redcoi_spot redcoi_spot_of(const redco_timeline *t, uint32_t op);
/** At whose end it could start. */
redcoi_spot redcoi_spot_cause(const redco_timeline *t, redcoi_spot spot);

#endif
