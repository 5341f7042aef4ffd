/** @file graph_collectives.h  Collective operators of a graph through the process groups of a device communicator, on
 * any backend. */
#ifndef REDCO_COMM_COLLECTIVES_H
#define REDCO_COMM_COLLECTIVES_H

#include "executor/backend/collectives.h"
#include "executor/comm/device_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which process group a group of the graph is. */
typedef struct redco_group_binding {
    uint32_t group; /**< attributes->group: as the layouts number them */
    redco_process_group *process_group;
} redco_group_binding;

typedef struct redco_process_group_collectives {
    const redco_group_binding *groups; /**< borrowed as long as it is used */
    uint32_t count;
} redco_process_group_collectives;

/** @param process groups  borrowed as long as the result is used */
redco_collectives redco_process_group_collectives_calls(redco_process_group_collectives *process_groups);

#ifdef __cplusplus
}
#endif
#endif
