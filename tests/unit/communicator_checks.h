/** @file communicator_checks.h  Checks that every transport must pass, as the body of one rank. Each returns 0, or the
 * line of the check that failed. */
#ifndef REDCO_COMMUNICATOR_CHECKS_H
#define REDCO_COMMUNICATOR_CHECKS_H

#include "executor/comm/device_comm.h"

/** Where process groups move data; NULL in calls: communicators, on the program's memory. */
typedef struct check_device {
    redco_backend *backend;
    redco_device_comm *device_comm;
} check_device;

int check_collectives(redco_world *world, const check_device *device); /**< all types, sizes and roots, all ranks */
int check_meshes(redco_world *world, const check_device *device); /**< for 8 ranks: rows, columns and planes of 2 × 4 */
int check_two_streams(redco_world *world, const check_device *device); /**< two groups in two threads at once */

#endif
