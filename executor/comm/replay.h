/** @file replay.h  A device communicator for one rank of a world whose other ranks are not there: its collectives are
 * work of the device that takes as long as somebody says (backend.h, occupy), and leave values that are finite if they
 * were before: a gather has this rank's part in all places, a sum is this rank's summand. Nobody is waited for. */
#ifndef REDCO_COMM_REPLAY_H
#define REDCO_COMM_REPLAY_H

#include "executor/comm/device_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @param rank  below @p size: whose part is played */
redco_status redco_replay_open(uint32_t rank, uint32_t size, redco_device_comm **device_comm_out, redco_error *err);

enum { REDCO_REPLAY_STREAMS = 16 };

/** Before any call on it; at most REDCO_REPLAY_STREAMS.
 *  @return REDCO_EVALUE beyond that */
redco_status redco_replay_add_stream(redco_device_comm *device_comm, const redco_device_stream *stream,
                                     redco_error *err);
/** From here on calls on a stream share these seconds by their elements (redco_process_group_call_elements()). From the
 * thread that makes the calls. Before the first time, calls take none.
 *  @param elements  of all calls together; 0: there will be one */
void redco_replay_expect(redco_device_comm *device_comm, const redco_device_stream *stream, double seconds,
                         uint64_t elements);

#ifdef __cplusplus
}
#endif
#endif
