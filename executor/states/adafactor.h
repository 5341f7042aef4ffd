/** @file adafactor.h  Adafactor on sharded states. Internal to executor/states.
 *
 *  With g the gradient of step t, n x m a matrix (vectors: the whole v, no r and c), e1 = epsilon, e2 = scale_epsilon:
 *
 *      b = 1 - t^-decay_power                 r_i = b r_i + (1 - b) (mean_j g_ij^2 + e1),  c_j likewise over i
 *      v_ij = r_i c_j / mean(r)               u = g / sqrt(v),   u = u / max(1, rms(u) / update_clip)
 *      rate = max(e2, rms(w)) learning rate   w = w - rate weight_decay w - rate u  (momentum: the mean of rate u)
 *
 *  Sources: Shazeer and Stern, arXiv 1804.04235; transformers 4.57, optimization.py (Adafactor).
 *
 *  Rows and columns are sums over all ranks that have a part of the tensor; every rank keeps all r and c, which are
 *  few. Two all-reduces a step. On the host backend alone: it reads device memory. */
#ifndef REDCOI_ADAFACTOR_H
#define REDCOI_ADAFACTOR_H

#include "executor/states/states_internal.h"

/** @return REDCO_EVALUE without redco_states_options.matrices */
redco_status redcoi_adafactor_create(redco_states *states, redco_error *err);
void redcoi_adafactor_free(redco_states *states);
/** Statistics of this step's gradients; every rank calls it. */
redco_status redcoi_adafactor_begin(redco_states *states, const redco_update *update, redco_error *err);
/** Updates a run of elements of one tensor. */
void redcoi_adafactor_run(redco_states *states, uint32_t layer, const redco_shard_slice *run);

#endif
