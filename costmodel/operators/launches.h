/** @file launches.h  Kernels that a layer of a mixture of experts launches: the work of its host (OPERATORS.md). */
#ifndef REDCO_LAUNCHES_H
#define REDCO_LAUNCHES_H

#include "costmodel/operators/compute.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Those of one pass that no graph launches. */
double redco_layer_launches(const redco_rank_layer *layer, bool backward);
/** All launches of a layer over those that it has without adapters. */
double redco_adapted_launch_ratio(const redco_rank_layer *layer, bool backward);

#ifdef __cplusplus
}
#endif
#endif
