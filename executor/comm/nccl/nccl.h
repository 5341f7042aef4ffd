/** @file nccl.h  The device communicator of NVIDIA GPUs: collectives by NCCL, queued on streams.
 *
 *  NCCL is loaded when a device communicator of several ranks is opened; one rank alone needs none. Ranks find each
 * other through their world (sockets, MPI, Slurm), whatever NCCL then uses between the devices. There is one NCCL
 * communicator for each process group, split from that of the world; a rank has one device, and a device one rank.
 *
 *  Communicators are non-blocking: a rank that dies while others make a communicator, queue work or wait for it ends
 *  all of them within seconds. Every device communicator has a thread that asks NCCL for errors, hears from the other
 * ranks over a communicator of the processor, and gives NCCL's communicators up (ncclCommAbort) when something is
 * wrong: streams then go on with results that mean nothing, and redco_device_comm_check() says what happened.
 *
 *  What calls become, with n ranks and S the larger buffer (NCCL chooses algorithm and protocol itself):
 *
 *      all-reduce, reduce-scatter, all-gather   the call of that name
 *      reduce-scatter of unequal parts          a group of one reduce for each owner. Each link of a ring then carries
 *                                               S (n - 1) / n as for a reduce-scatter, while one of padded parts would
 *                                               carry n times the largest part: where tensors go to owners whole, a
 *                                               bucket of a few tensors belongs to a few owners. Equal parts:
 * reduce-scatter shards in another order than ranks       a communicator whose ranks are in the order of the shards,
 * split from the process group's at the first such call, which waits for its stream once broadcasts of a layer a group
 * of one broadcast for each part */
#ifndef REDCO_NCCL_H
#define REDCO_NCCL_H

#include "executor/comm/device_comm.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_nccl_options {
    /** Multiprocessors that a process group's kernels may take (NCCL: maxCTAs); 0 = 32 for TENSOR and OTHER, which
     * nothing hides and which want the least time, else 16: beside computation. One CTA drives a channel; NCCL's rings
     * on a node have 12 channels of 20 to 30 GB/s (A100, H100: 240 and 360 GB/s in all) and 8 to 16 between nodes, so
     * that 16 reach the wires' speed and leave 116 of an H200's 132 multiprocessors. Together 96, so that kernels of
     * all process groups fit on an A100 (108) at once: otherwise ranks could wait for each other in circles. */
    uint32_t most_ctas[REDCO_TRAFFIC_COUNT];
    double timeout_s; /**< for communicators to be made, and for a rank that left; 0 = 60 */
    /** Communicators whose calls return when work is queued, without a thread of NCCL's for each group of calls: NCCL
     *  2.28 starts one for non-blocking communicators. Calls cost the processor less, but a rank may hang in them when
     *  another one dies, until its launcher ends it. */
    bool blocking;
    /** Ranks may have the same GPU: for tests. NCCL 2.30 or newer, and NCCL_MULTI_RANK_GPU_ENABLE=1 in the environment
     *  when it is loaded. */
    bool share;
} redco_nccl_options;

/** Every rank of the world calls it. Scalars of the device communicator's own go over the world.
 *  @param world    must outlive the device communicator
 *  @param backend  a CUDA device (executor/backend/cuda/cuda.h); must outlive the device communicator
 *  @param options  NULL for all zero
 *  @return REDCO_ESYSTEM if NCCL is missing, too old or fails (also where ranks share a device unasked), or redco was
 * built without CUDA
 */
redco_status redco_nccl_open(redco_world *world, redco_backend *backend, const redco_nccl_options *options,
                             redco_device_comm **device_comm_out, redco_error *err);

/** The oldest that is used: its communicators are those that this was written for (2.28). */
enum { REDCO_NCCL_OLDEST = 22800, REDCO_NCCL_OLDEST_SHARING = 23000 /* one GPU for several ranks */ };

/** NCCL's version as ncclGetVersion() has it (22809 is 2.28.9), 0 where it cannot be loaded. */
uint32_t redco_nccl_version(void);

#ifdef __cplusplus
}
#endif
#endif
