/** @file collective.h  Seconds of a collective on a group mesh: from a measured profile where there is one, else NCCL's
 *  own latency-bandwidth model (NCCL 2.30 graph tuning; reference in collective_nccl.h). */
#ifndef REDCO_COLLECTIVE_H
#define REDCO_COLLECTIVE_H

#include "topology/base/collective_op.h" /* redco_collective */
#include "topology/discovery/topology.h"
#include "topology/ranks/parallel.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Prices collectives of one machine; immutable after creation, callable from any thread. Opaque: profile tables and
 *  NCCL parameters live inside. */
typedef struct redco_comm redco_comm;

/** @param profiles  paths of nccl-tests logs, CSVs or redco-profile files, borrowed; may be NULL when count is 0
 *  @param machine   copied */
redco_status redco_comm_create(const redco_machine *machine, const char *const *profiles, uint32_t profile_count,
                               redco_comm **comm_out, redco_error *err);
/** The same collectives on a machine of other rates: what was measured is as far from the model there as here.
 *  @param comm  borrowed until redco_comm_free() of the new one */
redco_status redco_comm_at_rates(const redco_comm *comm, const redco_machine *machine, redco_comm **comm_out,
                                 redco_error *err);
void redco_comm_free(redco_comm *comm);

/** The parts of one collective's time: latency_s + wire_s, so that callers may scale each (calibration). From a
 *  profile, latency_s is the time of the smallest measured size and wire_s the rest. */
typedef struct redco_comm_time {
    double latency_s;
    double wire_s;
    bool measured; /**< from a profile */
    bool network;  /**< crosses nodes: occupies NICs; else NVLink or PCIe only */
} redco_comm_time;

/** @param size_bytes  S as nccl-tests counts it: the full buffer for all-reduce and broadcast, the whole gathered
 *                     (scattered) buffer for all-gather (reduce-scatter). One rank, or 0 bytes, takes 0 s.
 *  Cheap (no allocation): the planner calls it some 10^5 times a run. */
redco_comm_time redco_comm_price(const redco_comm *comm, redco_collective op, double size_bytes, redco_group group);

/** Restricts the model (not profiles) as NCCL_ALGO and NCCL_PROTO do; call before the first price.
 *  @param algorithms  bits 1 << redco_nccl_algorithm of collective_nccl.h, 0 = all
 *  @param protocols   bits 1 << redco_nccl_protocol, 0 = all
 *  A collective for which none of them works is priced as infinitely slow. */
void redco_comm_restrict(redco_comm *comm, uint32_t algorithms, uint32_t protocols);

/** A warning about the profiles, such as that they were measured on other GPUs; NULL when nothing is. */
const char *redco_comm_warning(const redco_comm *comm);

/** The operators that the profiles measured on this machine's GPU; NULL: none. */
const struct redco_compute_profile *redco_comm_compute(const redco_comm *comm);

/** SHA-256 over the profile files in order, "" without profiles. */
const char *redco_comm_profile_sha256(const redco_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
