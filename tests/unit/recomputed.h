/** @file recomputed.h  Recomputation of dense layers: sets of modules, and all. */
#ifndef RECOMPUTED_H
#define RECOMPUTED_H

#include "topology/base/recomputation.h"

enum { RECOMPUTED = 6 };

static const redco_recompute recomputed[RECOMPUTED] = {REDCO_RECOMPUTE_NONE,
                                                       REDCO_RECOMPUTE_CORE_ATTN,
                                                       REDCO_RECOMPUTE_LAYERNORM,
                                                       REDCO_RECOMPUTE_MLP,
                                                       REDCO_RECOMPUTE_CORE_ATTN | REDCO_RECOMPUTE_LAYERNORM |
                                                           REDCO_RECOMPUTE_MLP,
                                                       REDCO_RECOMPUTE_FULL};

static const redco_recompute_list not_recomputed = {{REDCO_RECOMPUTE_NONE}, 1};

#endif
