/** @file communicator_checks.h  What every transport must do, as the body of one rank. Each returns 0, or the line of
 * the check that failed. */
#ifndef REDCO_COMMUNICATOR_CHECKS_H
#define REDCO_COMMUNICATOR_CHECKS_H

#include "executor/comm/communicator.h"

int check_collectives(redco_world *world); /**< all types, sizes and roots over the whole world */
int check_meshes(redco_world *world);      /**< of 8: rows, columns and planes of 2 × 4, one after another */
int check_two_streams(redco_world *world); /**< two communicators in two threads at once */

#endif
