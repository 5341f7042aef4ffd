/** @file collectives.h  Collective operators of a graph through communicators, for backends whose memory the processor
 *  can follow (the host backend). */
#ifndef REDCO_COMM_COLLECTIVES_H
#define REDCO_COMM_COLLECTIVES_H

#include "executor/backend/collectives.h"
#include "executor/comm/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Which communicator a group of the graph is. */
typedef struct redco_group_binding {
    uint32_t group; /**< attributes->group: as the layouts number them */
    redco_communicator *communicator;
} redco_group_binding;

typedef struct redco_host_collectives {
    const redco_group_binding *groups; /**< borrowed as long as it is used */
    uint32_t count;
} redco_host_collectives;

/** @param host  borrowed as long as the result is used */
redco_collectives redco_host_collectives_calls(redco_host_collectives *host);

#ifdef __cplusplus
}
#endif
#endif
