/** @file arena_moments.h  Internal to costmodel: the arena of an engine that plans its memory (engine.h) when it is
 *  fullest: values of a class's graph, gathered weights and whole gradients, which share it
 * (executor/schedule/slots.c). Formulas: MEMORY_FORMULAS.md. */
#ifndef REDCOI_ARENA_MOMENTS_H
#define REDCOI_ARENA_MOMENTS_H

#include "costmodel/closed_form/closed_form_internal.h"

/** Bytes of a class on one rank, one micro-batch, at its fullest moment of backward, of a head of both passes. */
typedef struct redcoi_arena_peak {
    uint64_t values;  /**< values alone, beyond what the class keeps */
    uint64_t whole;   /**< beyond that, with gradients that are taken to where they are kept once they are made */
    uint64_t apart;   /**< the largest such gradient for which what the class keeps has left no gap then */
    uint64_t sharded; /**< beyond values, with weights that are gathered and gradients that are scattered */
} redcoi_arena_peak;

/** redco_layer_bytes_of(), with the values of an engine's moments that plans its memory.
 *  @param peaks_io  by redco_costs.recompute; of an engine that does not, and of an embedding, as they are */
redco_layer_bytes redcoi_arena_layer_bytes(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                                           redcoi_arena_peak peaks_io[REDCO_RECOMPUTE_SETS]);
/** Whole gradients that an engine that plans its memory makes at once, where they are not scattered; else 0. */
uint64_t redcoi_arena_slot_bytes(const redcoi_job *job);
/** The whole gradient of the table of an embedding on a stage of a pipeline, and the copy in 32 bits in which it is
 * made, unless they lie where its micro-batch's activations were.
 *  @param place_bytes  of these */
uint64_t redcoi_arena_table_bytes(const redcoi_job *job, uint64_t place_bytes);
/** Bytes of a layer that wait for the second half of backward, under schedules that cut it in two: inputs of products
 * and gradients of their outputs. */
uint64_t redcoi_arena_late_bytes(const redcoi_job *job);
/** Logits that wait for the backward pass. */
uint64_t redcoi_arena_logits_bytes(const redco_costs *costs, const redco_parallelism *parallelism);
/** The transient fields of a layer's cost: gathered weights, whole gradients, buckets, what backward works with. */
void redcoi_arena_transients(const redcoi_job *job, redco_layer_cost *cost);

#endif
