/** @file step_internal.h  The graph of a step as built (step.c), read by the event engine (simulate.c). */
#ifndef REDCO_STEP_INTERNAL_H
#define REDCO_STEP_INTERNAL_H

#include "costmodel/graph/names.h"
#include "costmodel/simulator/step.h"

enum { REDCOI_LABEL_BYTES = 64, REDCOI_STEP_OPS_MAX = 16000000, REDCOI_STEP_RANKS_MAX = 4096 };

typedef struct redcoi_step_layer {
    char class_name[24];
    uint32_t index; /**< within its class, as in plan files */
} redcoi_step_layer;

/** First and last operator of a stream of a rank; REDCO_STEP_NONE where it has none. */
typedef struct redcoi_stream_end {
    uint32_t first, last;
} redcoi_stream_end;

/** Operators [first, end) of a pass that others repeat; parts are counted from the first. */
typedef struct redcoi_pass {
    uint32_t first, end;
    uint32_t last;                           /**< its last computation */
    uint32_t kind;                           /**< the first pass that is the same but for names */
    uint32_t first_trailing, trailing_count; /**< parts that no computation waits for: they may outlast the pass */
    uint32_t first_late, late_count; /**< parts that wait for gradients of the micro-batch before, in any order */
} redcoi_pass;

/** A repetition: one operator in the place of the computations and all that they wait for, and behind it in the array
 *  those that may outlast it. */
typedef struct redcoi_fold {
    uint32_t pass, op;
    uint32_t first_late; /**< the operator that the late parts wait for, or NONE */
} redcoi_fold;

/** Contiguous numbers. */
typedef struct redcoi_numbers {
    uint32_t *at;
    uint32_t count, capacity;
} redcoi_numbers;

struct redco_step {
    redco_step_op *ops;
    uint32_t *next;         /**< next operator of the same stream */
    uint32_t *first_input;  /**< per operator; its inputs end where those of the next begin */
    uint32_t *first_memory; /**< likewise */
    uint32_t op_count, op_capacity;
    uint32_t *inputs;
    uint32_t input_count, input_capacity;
    redco_step_memory *memories;
    uint32_t memory_count, memory_capacity;
    redco_step_traffic *traffic;
    uint32_t traffic_count, traffic_capacity;
    redco_names labels;
    redcoi_step_layer *layers;
    uint32_t layer_count;
    redcoi_pass *passes;
    uint32_t pass_count, pass_capacity;
    redcoi_fold *folds; /**< redco_step_op.fold counts from 1 */
    uint32_t fold_count, fold_capacity;
    redcoi_numbers trailing, late;  /**< parts of passes */
    redcoi_numbers late_ops;        /**< late operators of folds */
    redcoi_stream_end *stream_ends; /**< [rank][stream] */
    uint64_t *resident;             /**< [rank][category] */
    uint32_t ranks;
    uint64_t micro_batches;
    double overlap_ratio;
    redco_status status; /**< status of the first failure */
};

/** Makes room. @return false, and the step is spoiled, when out of memory */
bool redcoi_step_grow(redco_step *step, void **array, uint32_t *capacity, size_t element_bytes, uint32_t least);
/** Room for about so many operators: arrays that grow are copied. */
void redcoi_step_reserve(redco_step *step, uint64_t operators);
/** @return false when out of memory */
bool redcoi_numbers_add(redcoi_numbers *numbers, const uint32_t *more, uint32_t count);
/** @return whether an operator stands for a pass. */
static inline bool redcoi_is_pass(const redco_step_op *op)
{
    return op->fold != 0 && op->stream == REDCO_STREAM_COMPUTE;
}

#endif
