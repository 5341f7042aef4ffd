/** @file layout_internal.h  Shared by shard_layout.c and assign_owners.c. */
#ifndef REDCO_LAYOUT_INTERNAL_H
#define REDCO_LAYOUT_INTERNAL_H

#include "executor/states/shard_layout.h"

struct redco_layout {
    const redco_state_model *model;
    redco_layout_options options; /* granules filled in */
    redco_place place;
    redco_layer_layout *layers;
    redco_module_layout *modules;
    uint64_t *tensor_at;
    uint32_t *module_of; /* by tensor */
    uint32_t *layer_of;  /* by module */
    uint32_t *owner;     /* by tensor: owner of its slice in this rank's group, inter-tensor scheme */
    redco_shard_slice *slices;
    uint32_t slice_count, slice_room;
};

/** The slice of a tensor in the part at @p position of its module: first element in the module, and how many. */
uint64_t redcoi_part_of(const redco_layout *layout, uint32_t tensor, uint32_t position, uint64_t *begin_out);

/** Inter-tensor scheme: fills layout->owner. */
redco_status redcoi_assign_owners(redco_layout *layout, redco_error *err);

#endif
