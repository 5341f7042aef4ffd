/** @file costs_internal.h  Shared by costs.c (settings, steps), layer.c (one layer's cost) and cache.c (times that many
 *  layers share). */
#ifndef REDCO_COSTS_INTERNAL_H
#define REDCO_COSTS_INTERNAL_H

#include "costmodel/compute.h"
#include "costmodel/costs.h"
#include "costmodel/memory.h"

enum { REDCOI_CLASSES_MAX = 8, REDCOI_TIMES_CACHED = 32, REDCOI_OWNERS_CACHED = 64, REDCOI_PRICES_CACHED = 1024 };

/** One member of a class, one micro-batch, one rank; nothing that depends on data-parallel meshes. */
typedef struct redcoi_times {
    double forward_s, backward_s; /**< with exposed tensor- and context-parallel traffic and the host's floor */
    double recompute_s[REDCO_RECOMPUTE_COUNT];
    double tp_forward_s, tp_backward_s; /**< tensor-parallel traffic, whole */
    uint64_t params;                    /**< of one rank */
    uint64_t gather_params;             /**< params, and the shared table where a tied head needs it */
    uint64_t activation_bytes[REDCO_RECOMPUTE_COUNT];
    uint64_t recompute_bytes[REDCO_RECOMPUTE_COUNT];
} redcoi_times;

/** The times of all classes under one (tp, cp, micro-batch). */
typedef struct redcoi_rank {
    uint32_t tp, cp, micro_batch; /**< tp 0: empty */
    uint64_t params;              /**< all layers */
    uint64_t block_params;        /**< of the largest block */
    uint64_t logits_bytes;
    redcoi_times classes[REDCOI_CLASSES_MAX];
} redcoi_rank;

typedef struct redcoi_owners {
    uint32_t tp; /**< 0: empty */
    uint64_t owners, params;
} redcoi_owners;

typedef struct redcoi_price {
    double size_bytes; /**< 0: empty */
    redco_collective op;
    redco_group group;
    redco_comm_time time;
} redcoi_price;

struct redco_costs {
    redco_machine machine;
    const redco_model *model;
    const redco_model_dims *dims;
    const redco_layer_class *classes;
    uint32_t class_count;
    uint32_t blocks; /**< members of all block classes */
    redco_workload workload;
    redco_calibration calibration;
    const redco_comm *comm;
    redco_compute compute;
    redco_state_bytes state_bytes;
    uint32_t newest, next_rank, next_owners;
    redcoi_rank ranks[REDCOI_TIMES_CACHED];
    redcoi_owners owners[REDCOI_OWNERS_CACHED];
    redcoi_price prices[REDCOI_PRICES_CACHED];
};

/** How a step repeats a layer: pipeline stages hold shares of the layers. */
typedef struct redcoi_stage {
    double repeat;      /**< micro-batches, pipeline bubble included */
    double once;        /**< share of the layer on the fullest stage */
    uint64_t held, of;  /**< the same as a fraction held / of */
    uint64_t in_flight; /**< micro-batches whose activations are kept */
} redcoi_stage;

const redcoi_rank *redcoi_rank_find(redco_costs *costs, const redco_setting *setting);
uint64_t redcoi_fullest_owner(redco_costs *costs, uint32_t tp, uint64_t owners);
redco_comm_time redcoi_price_find(redco_costs *costs, redco_collective op, double size_bytes, redco_group group);
/** What of a class the first or the last stage of a pipeline holds in memory. */
redcoi_stage redcoi_edge_stage(const redco_costs *costs, const redco_setting *setting, uint32_t class_index, bool last);
/** The memory fields of a layer's cost, for a stage that holds logits of that size at another time. */
void redcoi_layer_memory(redco_costs *costs, const redco_setting *setting, uint32_t class_index,
                         const redco_layer_config *config, redcoi_stage stage, uint64_t logits_bytes,
                         redco_layer_cost *cost_out);
redcoi_stage redcoi_stage_of(const redco_costs *costs, const redcoi_rank *rank, const redco_setting *setting,
                             uint32_t class_index);
/** Parameters of the fullest stage, before data-parallel sharding. */
double redcoi_stage_params(const redco_costs *costs, const redcoi_rank *rank, const redco_setting *setting);
redco_shape redcoi_shape_of(const redco_costs *costs, uint32_t tp, uint32_t cp, uint32_t micro_batch);

/** Seconds of a collective inside a training step: the modelled or measured time scaled by the calibration. */
double redcoi_comm_s(redco_costs *costs, redco_collective op, double size_bytes, redco_group group, bool *network_out);
/** Seconds on the wire of a message from one rank to another, all ranks of a node sending at once. */
double redcoi_transfer_s(const redco_costs *costs, double size_bytes, redco_group pair);

#endif
