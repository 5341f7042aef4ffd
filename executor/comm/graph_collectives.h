/** @file graph_collectives.h  Collective operators of a graph through the teams of a carrier, on any backend. */
#ifndef REDCO_COMM_COLLECTIVES_H
#define REDCO_COMM_COLLECTIVES_H

#include "executor/backend/collectives.h"
#include "executor/comm/device_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which team a group of the graph is. */
typedef struct redco_group_binding {
    uint32_t group; /**< attributes->group: as the layouts number them */
    redco_team *team;
} redco_group_binding;

typedef struct redco_team_collectives {
    const redco_group_binding *groups; /**< borrowed as long as it is used */
    uint32_t count;
} redco_team_collectives;

/** @param teams  borrowed as long as the result is used */
redco_collectives redco_team_collectives_calls(redco_team_collectives *teams);

#ifdef __cplusplus
}
#endif
#endif
