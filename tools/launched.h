/** @file launched.h  Ranks that a launcher starts one by one, on any hosts (netns-cluster, a loop over ssh): who each
 * is stands in its environment. */
#ifndef REDCO_TOOLS_LAUNCHED_H
#define REDCO_TOOLS_LAUNCHED_H

#include "executor/comm/communicator.h"

/** REDCO_RANK, REDCO_RANKS and REDCO_ADDRESS ("host:port" of rank 0).
 *  @param options_out   a world of sockets; its address is the environment's. Left alone where nobody launched
 *  @param launched_out  whether REDCO_RANK is set
 *  @return REDCO_EVALUE if one of them is missing or makes no sense */
redco_status launched_world(redco_world_options *options_out, bool *launched_out, redco_error *err);

#endif
