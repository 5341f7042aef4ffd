/** @file fuse_internal.h  Groups of operators that are to be fused. Internal to fuse*.c. */
#ifndef REDCOI_GRAPH_FUSE_INTERNAL_H
#define REDCOI_GRAPH_FUSE_INTERNAL_H

#include "costmodel/graph/fuse.h"
#include "costmodel/graph/pointwise_program.h"

#define REDCOI_NO_GROUP UINT32_MAX

/** Operators by number, ascending; those that are recomputed here belong to another group besides. */
typedef struct redcoi_group {
    uint32_t count;
    uint32_t op[REDCO_POINTWISE_STEPS_MAX];
    bool again[REDCO_POINTWISE_STEPS_MAX];
} redcoi_group;

/** The state of a graph while its operators are grouped. */
typedef struct redcoi_fuser {
    const redco_graph *graph;
    redco_fuse_options options;
    uint32_t op_count, value_count;
    bool *live;            /**< by operator */
    redco_value *root;     /**< by value: whose memory it is */
    uint32_t *reader_at;   /**< by root: first of its readers, op_count + 1 entries */
    uint32_t *reader;      /**< operators that are no views, ascending */
    bool *wanted;          /**< by root: an output of the graph */
    uint32_t *group_of;    /**< by operator; REDCOI_NO_GROUP: it cannot be fused */
    redcoi_group **groups; /**< by operator whose group it was first; NULL: merged into another, or none */
} redcoi_fuser;

/** A group as an operator. */
typedef struct redcoi_fusion {
    redco_pointwise program;
    redco_value inputs[REDCO_POINTWISE_INPUTS_MAX];
    redco_value outputs[REDCO_OUTPUTS_MAX];
} redcoi_fusion;

/** Through operators that only stop gradients: the same bytes under the same type. */
redco_value redcoi_fuse_direct(const redco_graph *graph, redco_value value);
/** @return whether the group makes @p value. */
bool redcoi_group_makes(const redcoi_fuser *f, const redcoi_group *group, redco_value value);
bool redcoi_group_has(const redcoi_group *group, uint32_t op);
/** Where it stands: its last operator that is not recomputed. */
uint32_t redcoi_group_last(const redcoi_group *group);
/** @return whether anybody but the group reads @p value, which it makes. */
bool redcoi_group_hands_out(const redcoi_fuser *f, const redcoi_group *group, redco_value value);

/** That the group moves: inputs, once each, and what it hands out. Constants do not count. */
uint64_t redcoi_group_bytes(const redcoi_fuser *f, const redcoi_group *group);
/** @return false if it is no program: too much of something, or types that differ, or that the device does not have */
bool redcoi_fusion_make(const redcoi_fuser *f, const redcoi_group *group, redcoi_fusion *fusion_out);

#endif
