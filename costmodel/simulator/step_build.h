/** @file step_build.h  From a strategy to the graph of its step: what a layer consists of (step_parts.c), its passes
 *  (step_pass.c), what happens to gradients and parameters around them (step_gradients.c), and the order of micro-
 *  batches and stages (step_schedule.c). */
#ifndef REDCO_STEP_BUILD_H
#define REDCO_STEP_BUILD_H

#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/simulator/step_internal.h"

enum { REDCOI_GROUPS_MAX = 8, REDCOI_WAITS_MAX = REDCO_PIPELINE_STAGES_MAX, REDCOI_PASS_WAITS_MAX = 8 };

/** Seconds of a pass's collective around an operator; 0: none. */
typedef struct redcoi_around {
    double before_s, after_s;
} redcoi_around;

typedef struct redcoi_part_op {
    redco_op_role role;
    uint32_t label;
    double forward_s, input_s, weight_s; /**< weight_s > 0: a matrix */
    double again_s;                      /**< recomputed; 0: not repeated */
    double logits_s;                     /**< logits of other ranks, each way */
    redcoi_around forward_tp, backward_tp;
    redcoi_around forward_cp, backward_cp; /**< keys and values of other ranks, or heads for tokens */
    bool attention, logits, matrix;
    bool unread;                      /**< full recomputation leaves it out */
    uint32_t again_first, again_last; /**< [first, last): operators that run again before its backward; none: 0, 0 */
    bool again_ends;                  /**< behind its backward nothing reads what ran again */
} redcoi_part_op;

/** A module with parameters: what is gathered and scattered at once. */
typedef struct redcoi_part_module {
    uint32_t label;
    uint16_t number;                     /**< in its layer, from 1; 0: all of a layer, or of another one */
    uint32_t op;                         /**< that uses it */
    double gather_s, again_s, scatter_s; /**< forward, backward; 0: nothing to do */
    uint32_t gather, again, scatter;     /**< traffic */
    uint8_t gather_link, again_link, scatter_link;
    int64_t weight_bytes, gradient_bytes; /**< whole, while gathered or not yet scattered */
    double reduced_bytes;                 /**< gradient of one rank of the parameters' shards */
    redco_param_part part;
    double call_s, again_call_s; /**< that nothing hides, of its gather or scatter; of its gather in backward */
} redcoi_part_module;

/** A matrix and what comes before it: weights are fetched ahead by groups in backward. */
typedef struct redcoi_part_group {
    uint32_t first_op, last_op, first_module, last_module; /**< [first, last) */
} redcoi_part_group;

/** Gradients that are reduced over one group of ranks, gathered up in buckets. */
typedef struct redcoi_bucket_group {
    redco_group group;
    redco_collective op;
    double limit_bytes; /**< bytes of a bucket */
    uint32_t calls;     /**< buckets that fill side by side: one per owner */
    bool in_place;      /**< no copy: gradients are reduced where they lie */
    bool once;          /**< a step, else in every micro-batch but the last */
} redcoi_bucket_group;

/** The synchronisation of updated parameters of one part of a layer. */
typedef struct redcoi_part_update {
    double seconds; /**< 0: there is none */
    double share;   /**< its part of all parameters, and of their collectives */
    uint32_t traffic;
    uint8_t link;
} redcoi_part_update;

/** A layer of one class under one configuration. */
typedef struct redcoi_parts {
    redcoi_part_op ops[REDCO_OPERATORS_MAX];
    redcoi_part_module *modules; /**< [builder->most_modules], the builder's */
    redcoi_part_group groups[REDCOI_GROUPS_MAX];
    uint32_t op_count, module_count, group_count;
    bool sharded, gathered_again, recompute_full;
    bool planned;  /* a block of which redcoi_works_in_backward(): recompute_bytes are taken in every backward */
    bool by_layer; /**< sharded, and one module stands for all parameters */
    bool partial;  /**< the forward that is recomputed has no tensor-parallel traffic */
    bool transient_gradient; /**< whole gradients live until they are reduced */
    redcoi_part_update updates[REDCO_PARTS];
    double params; /**< a rank's, before sharding */
    uint8_t again_stream, cp_link;
    int64_t activation_bytes, recompute_bytes, logits_bytes;
    uint64_t nccl_bytes; /**< for the layer's data-parallel communicators */
    uint64_t slot_bytes; /**< a place where gradients are made before they are taken to where they are kept */
    redcoi_states states;
    uint32_t once_bucket_group[REDCO_PARTS], shard_bucket_group[REDCO_PARTS]; /**< or REDCO_STEP_NONE */
} redcoi_parts;

/** A layer of the model in its stage. */
typedef struct redcoi_layer {
    uint32_t parts;
    uint32_t update;      /**< operator that brings its updated parameters in this step, or NONE */
    uint32_t scattered;   /**< last scatter of its gradients, or NONE */
    uint32_t first_ready; /**< index into builder->ready: per module, the gather that fetched it */
    bool fetched;         /**< all of it is under way or there */
    uint32_t late;        /**< operator count when backward came to wait for scatters of the micro-batch before */
    uint32_t left;        /**< part of the repeated pass that is its last scatter and may outlast that, or NONE */
} redcoi_layer;

typedef struct redcoi_bucket_group_state {
    double filled_bytes;
    int64_t held_bytes; /**< by buckets, where the gradients themselves are not kept */
    uint32_t ready;     /**< the operator behind which all that fills it is there */
    uint32_t serial;
} redcoi_bucket_group_state;

/** One rank while its operators are issued. */
typedef struct redcoi_unit {
    uint32_t rank;
    uint32_t last;                    /**< computation issued last, or NONE: collectives issued now start behind it */
    uint32_t waits[REDCOI_WAITS_MAX]; /**< waits of the next computation */
    uint32_t wait_count;
    redcoi_bucket_group_state *bucket_groups;
} redcoi_unit;

/** Layers [first, end) of a model chunk. */
typedef struct redcoi_span {
    uint32_t first, end;
} redcoi_span;

/** A pass of a model chunk that others repeat. */
typedef struct redcoi_template {
    bool known;
    uint32_t pass;                         /**< number in the step; NONE: it cannot be folded */
    uint32_t waits[REDCOI_PASS_WAITS_MAX]; /**< parts that the next computation waits for */
    uint32_t wait_count;
} redcoi_template;

/** The key of parts: an assignment, and one of the layouts that layers of its class have. */
typedef struct redcoi_part_source {
    uint32_t assignment, layout;
} redcoi_part_source;

typedef struct redcoi_builder {
    redco_costs *costs;
    const redco_parallelism *parallelism;
    redco_step *step;
    double scale; /**< scale of all durations */
    bool overlap_gather, overlap_reduce, overlap_update, buckets_per_owner;
    uint32_t chunks, copies; /**< model chunks of a stage; copies of the model among them */
    uint64_t micro_batches;
    uint32_t steps;
    redcoi_parts *parts;
    redcoi_part_source *sources; /**< sources of parts, one for each layout of an assignment's class */
    uint32_t parts_count;
    redcoi_part_module *modules; /**< [parts and one to sort in][most_modules] */
    uint32_t most_modules;       /**< the most of any class, and a table that another layer shares */
    redcoi_layer *layers;
    uint32_t layer_count;
    uint32_t *ready;
    bool fold;
    redcoi_template *templates;                       /**< [chunk][stage][redco_turn_kind] */
    redcoi_bucket_group_state *template_bucket_group; /**< [template][bucket_group], after the pass; ready is a part */
    uint32_t *places;                                 /**< for a pass that is repeated: operators of the repetition */
    uint32_t place_count;
    redcoi_span *spans;      /**< [chunk][stage]: layers of a model chunk */
    redco_pipeline schedule; /**< with the micro-batches that are built */
    redcoi_bucket_group *bucket_groups;
    uint32_t bucket_group_count;
    redcoi_unit *units;
    uint32_t label_launch, label_step_launch, label_update, label_bucket, label_shards, label_send;
    uint32_t send_traffic;
    double send_s;
    uint8_t send_link;
} redcoi_builder;

/** Fills b->parts[index] from b->sources[index]. @param assignment  that source's */
void redcoi_parts_fill(redcoi_builder *b, uint32_t index, const redco_assignment *assignment, double stage_params);
uint8_t redcoi_link_of(bool network);

/** One computation; takes the waits that have gathered. @return its index */
uint32_t redcoi_compute(redcoi_builder *b, redcoi_unit *unit, redco_step_op op);
/** One collective, behind the computation issued so far and @p input (or NONE). */
uint32_t redcoi_collective(redcoi_builder *b, redcoi_unit *unit, redco_step_op op, uint32_t input);
/** One collective in the place of a computation: behind all that the next one waits for. */
uint32_t redcoi_behind_waits(redcoi_builder *b, const redcoi_unit *unit, redco_step_op op);
void redcoi_wait(redcoi_unit *unit, uint32_t op); /**< the next computation waits for @p op; NONE is ignored */
/** The host launches collectives, which takes @p seconds before scaling. */
void redcoi_launch(redcoi_builder *b, redcoi_unit *unit, uint32_t label, redco_step_pass pass, uint32_t layer,
                   uint32_t micro_batch, double seconds);
/** @return whether no later micro-batch goes through its model chunks. */
bool redcoi_is_last(const redcoi_builder *b, uint32_t micro_batch);

/** Layers [first, last) of one micro-batch. */
void redcoi_forward_pass(redcoi_builder *b, redcoi_unit *unit, uint32_t first, uint32_t last, uint32_t micro_batch);
/** @param kind  all of backward, or one of its halves */
void redcoi_backward_pass(redcoi_builder *b, redcoi_unit *unit, redco_turn_kind kind, uint32_t first, uint32_t last,
                          uint32_t micro_batch);

/** Updated parameters of all layers of a unit, at the beginning of a step. */
void redcoi_sync_parameters(redcoi_builder *b, redcoi_unit *unit);
/** A group of modules has its gradients; @p ready is the operator behind which they are there. */
void redcoi_gradients(redcoi_builder *b, redcoi_unit *unit, const redcoi_parts *parts, const redcoi_part_group *group,
                      uint32_t micro_batch, uint32_t ready);
/** Reduces what is left in the bucket_groups: in every micro-batch (@p once false), or at the end of the step. */
void redcoi_flush(redcoi_builder *b, redcoi_unit *unit, bool once, uint32_t micro_batch);
/** Norm, optimizer and overhead of all ranks. */
void redcoi_finish_step(redcoi_builder *b);

/** @return whether a pass is like any other of its model chunk and kind. */
bool redcoi_fold_ready(const redcoi_builder *b, const redcoi_unit *unit, const redco_turn *turn);
/** The pass issued last, from operator @p first on, is what later ones repeat, if they can. */
void redcoi_fold_learn(redcoi_builder *b, const redcoi_unit *unit, const redco_turn *turn, uint32_t first);
/** Issues a pass as the repetition of one before. @return false if there is none */
bool redcoi_fold_repeat(redcoi_builder *b, redcoi_unit *unit, const redco_turn *turn);

/** All passes of all micro-batches. */
redco_status redcoi_schedule(redcoi_builder *b, redco_error *err);

#endif
