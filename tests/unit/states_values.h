/** @file states_values.h  All values of a tensor at once, of states whose range calls are redco_states_get_range() and
 *  redco_states_set_range(). */
#ifndef REDCO_TESTS_STATES_VALUES_H
#define REDCO_TESTS_STATES_VALUES_H

#include "executor/states/states.h"

static inline uint64_t states_elements(const redco_states *states, uint32_t tensor)
{
    return redco_layout_model(redco_states_layout(states))->tensors[tensor].elements;
}

static inline redco_status states_get(redco_states *states, redco_states_worker *worker, uint32_t tensor, int which,
                                      void *values, redco_error *err)
{
    return redco_states_get_range(states, worker, tensor, which, 0, states_elements(states, tensor), values, err);
}

static inline redco_status states_set(redco_states *states, redco_states_worker *worker, uint32_t tensor, int which,
                                      const void *values, redco_error *err)
{
    return redco_states_set_range(states, worker, tensor, which, 0, states_elements(states, tensor), values, err);
}

#endif
