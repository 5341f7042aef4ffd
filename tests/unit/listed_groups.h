/** @file listed_groups.h  Priced groups of a layer as a list by dimensions, written by hand from the papers of the
 *  families: what tables that are derived from graphs are compared with. */
#ifndef REDCO_LISTED_GROUPS_H
#define REDCO_LISTED_GROUPS_H

#include "costmodel/models/model.h"

/** @return the number of groups */
uint32_t listed_groups(const redco_model *model, uint32_t class_index, redco_layer_group groups_out[REDCO_GROUPS_MAX]);

#endif
