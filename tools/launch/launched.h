/** @file launched.h  Ranks that a launcher starts one by one, on any hosts (netns-cluster, srun, a loop over ssh): who
 * each is stands in its environment. */
#ifndef REDCO_TOOLS_LAUNCHED_H
#define REDCO_TOOLS_LAUNCHED_H

#include "executor/comm/communicator.h"

enum { LAUNCHED_ADDRESS_SIZE = 320 };

/** Values that the options of a launched rank point to. */
struct launched_room {
    char address[LAUNCHED_ADDRESS_SIZE];
    unsigned char secret[REDCO_SECRET_MAX];
    size_t secret_bytes;
};

/** REDCO_RANK, REDCO_RANKS and REDCO_ADDRESS ("host:port" of rank 0); where they are not set, those of a step of
 * several tasks that srun started without MPI: SLURM_PROCID, SLURM_STEP_NUM_TASKS and, for the address, the first host
 * of SLURM_STEP_NODELIST, which has task 0 unless a file of hosts deals them, with a port below 32768 that job and step
 * choose. REDCO_ADDRESS goes before. REDCO_LISTEN is this rank's address for the others. The ranks' secret is
 * REDCO_SECRET, or what is in the file REDCO_SECRET_FILE, or in redco/secret of the user's configuration (~/.config),
 * which is made where there is none; only its owner may read it.
 *  @param options_out   a world of sockets; what it points to is the environment's or @p room. Left alone where nobody
 *                       launched; on failure it has the rank, as far as it is known
 *  @param launched_out  whether REDCO_RANK, or a step of Slurm's, is there
 *  @return REDCO_EVALUE if one of them is missing or makes no sense */
redco_status launched_world(redco_world_options *options_out, struct launched_room *room, bool *launched_out,
                            redco_error *err);
/** Says whether mpirun, or srun with PMIx, started this process, as which of how many ranks: MPI joins them. */
bool launched_by_mpi(uint64_t *rank_out, uint64_t *ranks_out);
/** Its last part. */
redco_status launched_secret(struct launched_room *room, redco_error *err);

#endif
