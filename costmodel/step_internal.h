/** @file step_internal.h  The graph of a step as built (step.c), read by the event engine (simulate.c). */
#ifndef REDCO_STEP_INTERNAL_H
#define REDCO_STEP_INTERNAL_H

#include "costmodel/step.h"

enum { REDCOI_LABEL_BYTES = 48, REDCOI_STEP_OPS_MAX = 16000000, REDCOI_STEP_RANKS_MAX = 4096, REDCOI_STAGES_MAX = 256 };

typedef struct redcoi_label {
    char text[REDCOI_LABEL_BYTES];
} redcoi_label;

typedef struct redcoi_step_layer {
    char class_name[24];
    uint32_t index; /**< within its class, as in plan files */
} redcoi_step_layer;

/** First and last operator of a stream of a rank; REDCO_STEP_NONE where it has none. */
typedef struct redcoi_lane {
    uint32_t first, last;
} redcoi_lane;

/** Operators [first, last) of a pass, which another operator stands for. */
typedef struct redcoi_fold {
    uint32_t first, last;
    double seconds, work_s[REDCO_WORK_COUNT];
    int64_t net_bytes[REDCO_HOLDER_COUNT]; /**< taken less given back */
    /** When they hold most: since the first began; by holder, in all, and the operator whose start that is, or NONE. */
    double peak_after_s;
    int64_t peak_bytes[REDCO_HOLDER_COUNT], peak_total_bytes;
    uint32_t peak_op;
} redcoi_fold;

struct redco_step {
    redco_step_op *ops;
    uint32_t *next;         /**< of the same stream */
    uint32_t *first_input;  /**< per operator; its inputs end where those of the next begin */
    uint32_t *first_memory; /**< likewise */
    uint32_t op_count, op_capacity;
    uint32_t *inputs;
    uint32_t input_count, input_capacity;
    redco_step_memory *memories;
    uint32_t memory_count, memory_capacity;
    redco_step_traffic *traffic;
    uint32_t traffic_count, traffic_capacity;
    redcoi_label *labels;
    uint32_t label_count, label_capacity;
    redcoi_step_layer *layers;
    uint32_t layer_count;
    redcoi_fold *folds; /**< redco_step_op.fold counts from 1 */
    uint32_t fold_count;
    redcoi_lane *lanes; /**< [rank][stream] */
    uint64_t *resident; /**< [rank][holder] */
    uint32_t ranks;
    uint64_t micro_batches;
    double overlap_ratio;
    redco_status status; /**< of the first failure */
};

/** Whether embedding and head take a block's place each, so that all of so many stages hold as much. */
bool redcoi_edges_count(uint32_t blocks, uint64_t stages);
/** Model chunks of a stage: as asked for, or as the engine has them. */
uint32_t redcoi_step_chunks(const redco_costs *costs, const redco_setting *setting, const redco_step_options *options);

#endif
