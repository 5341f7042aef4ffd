/** @file layer_groups_internal.h  Internal to models: tables of priced groups. */
#ifndef REDCOI_LAYER_GROUPS_INTERNAL_H
#define REDCOI_LAYER_GROUPS_INTERNAL_H

#include "costmodel/models/family.h"
#include "costmodel/models/layer_groups.h"

/** factor x each of the axes in the set @p axes (1 << axis). */
redco_extent redcoi_extent(uint32_t factor, unsigned axes);
/** Makes the tables of all classes: derived or listed. */
redco_status redcoi_layer_groups_make(redco_model *model, redco_error *err);

#endif
