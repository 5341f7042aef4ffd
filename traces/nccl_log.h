/** @file nccl_log.h  Reader of the tables that nccl-tests and rccl-tests print, in every layout since 2.0:
 *  - 13 fields (size count type redop root, time algbw busbw #wrong twice), or 11 to 12 where older versions leave out
 *    redop or root; 19 to 21 with per-iteration columns; an optional time stamp at the end of a row; "-" for an absent
 * field
 *  - prefixes of srun --label, mpirun --tag-output, mpiexec -prepend-rank, pdsh and container logs; interleaved NCCL
 * INFO lines, also in the middle of a row; headers without "#", or no header at all; several runs in one file; a cut
 * end
 *  - comment lines "# collective:", "# hardware:", "# nodes: N gpus_per_node: M ranks: R", "# network:", "# tool:"
 *  Ranks come from the header, else from busbw/algbw or size/count; if both are there they must agree. */
#ifndef REDCO_NCCL_LOG_H
#define REDCO_NCCL_LOG_H

#include "traces/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/** As redco_profile_parse(), for this format only. */
redco_status redco_nccl_log_parse(const char *text, size_t size, const char *name, redco_profile **profile_out,
                                  redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
