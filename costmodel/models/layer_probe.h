/** @file layer_probe.h  Internal to models: the graph of one layer at probe sizes, from which the layer's tables are
 *  derived. Each axis has a prime of its own, so that the factors of a dimension tell its axes. */
#ifndef REDCOI_LAYER_PROBE_H
#define REDCOI_LAYER_PROBE_H

#include "costmodel/layouts/partition.h"
#include "costmodel/models/family.h"

/* Ranks divides what tensor and sequence parallelism cut. Beyond the factors that graphs have of their own (2, 3).
 * Heads are KV heads x group where there are fewer of these; group and group + 2 are both prime, so that heads + 2 KV
 * heads, of one matrix for the three, is known by its factors, too. */
enum { REDCOI_PROBE_RANKS = 5, REDCOI_PROBE_BATCH = 11, REDCOI_PROBE_LENGTH = 13 * REDCOI_PROBE_RANKS };

/** A model of the same structure at probe sizes, and the graph of one of its layers. */
typedef struct redcoi_probe {
    redco_model model;
    redco_language_model lm;
    uint64_t sizes[REDCO_AXIS_COUNT];
    redco_graph *g;
    redcoi_class_values values;
    uint32_t class_index;
    bool grouped;         /**< fewer KV heads than heads */
    uint64_t rotary_size; /**< redco_model_rotary_size() */
} redcoi_probe;

/* param_uses.c */

/** Sets the sizes of the model itself. */
void redcoi_axis_sizes_make(redco_model *model);
redco_status redcoi_probe_create(const redco_model *model, redcoi_probe *probe, redco_error *err);
/** Replaces the graph by that of a class. */
redco_status redcoi_probe_class(redcoi_probe *probe, uint32_t class_index, redco_error *err);
void redcoi_probe_free(redcoi_probe *probe);

/** A number's factors: the primes of the axes, and what remains. */
redco_extent redcoi_probe_extent(const redcoi_probe *probe, uint64_t count);
redco_extent redcoi_probe_elements(const redcoi_probe *probe, redco_value value);
/** The last dimension alone. */
redco_extent redcoi_probe_columns(const redcoi_probe *probe, redco_value value);
/** @return whether an operator is of the layer's forward pass */
bool redcoi_probe_forward(const redcoi_probe *probe, const redco_op *op);
/** The tensor that a value is, a cast of it included; REDCO_NO_PARAM if it is none. */
uint32_t redcoi_probe_param(const redcoi_probe *probe, redco_value value);

/* layer_traffic.c */

/** Things that tensor-parallel ranks share out, or do not, besides matrices in pairs. */
typedef struct redcoi_probe_cut {
    bool rows;          /**< the sequence */
    bool whole_experts; /**< no experts */
} redcoi_probe_cut;

/** The graph of one of REDCOI_PROBE_RANKS ranks. */
redco_status redcoi_probe_partition(const redcoi_probe *probe, redcoi_probe_cut cut,
                                    const redco_partition_output *outputs, uint32_t output_count,
                                    redco_graph **local_out, redco_value *values_out, redco_error *err);
/** The collectives of paired tensor parallelism: adds them to the groups next to which they stand. */
redco_status redcoi_layer_traffic_make(const redcoi_probe *probe, redco_layer_group *groups, uint32_t count,
                                       redco_error *err);

/* layer_sites.c */

/** The role of all products that read a value. @return REDCO_OP_ROLE_NONE where they have several, or there is none
 *  @param count_out  of these products */
redco_op_role redcoi_norm_reader(const redcoi_probe *probe, redco_value value, uint32_t *count_out);
void redcoi_layer_sites_make(const redcoi_probe *probe, redco_layer_work *work);

/* layer_nodes.c */

redco_status redcoi_layer_nodes_make(const redcoi_probe *probe, redco_layer_work *work, redco_error *err);

#endif
