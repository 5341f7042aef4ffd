/** @file exec_start.h  Facts that ranks started one by one compare before they begin, and how they part if they
 *  cannot. */
#ifndef REDCO_TOOLS_EXEC_START_H
#define REDCO_TOOLS_EXEC_START_H

#include "executor/comm/communicator.h"
#include "planner/plan/plan.h"
#include "tools/cli/cli.h"

struct exec_facts {
    redco_fact facts[REDCO_FACTS_MAX];
    uint32_t count;
};

/** Adds one; names are those of options where they have one. A value that has no room is cut, with its digest. */
__attribute__((format(printf, 3, 4))) void exec_fact(struct exec_facts *facts, const char *name, const char *format,
                                                     ...);
/** A plan in the words that a user would use, then its digest. */
redco_status exec_facts_of_plan(struct exec_facts *facts, const char *path, const redco_plan *plan, redco_error *err);
/** A file's size and digest: of 16 MiB all, of more 256 parts. @param path  NULL: there is none */
redco_status exec_fact_of_file(struct exec_facts *facts, const char *name, const char *path, redco_error *err);
/** A digest of data that are trained on: of 1 GiB all, of more 4,096 parts. "" where they are no regular file. */
redco_status exec_digest_data(const char *path, char sha256_out[65], redco_error *err);

/** Versions of libraries whose numbers a run depends on. */
void exec_facts_of_libraries(struct exec_facts *facts);

/** Tells the other ranks that this one cannot start, where they are met over sockets; prints nothing. */
void exec_tell_others(const redco_world_options *options, const redco_error *err);
/** No world came about: this rank says why, unless rank 0 has said it. @return the exit code */
int exec_no_world(const struct cli *cli, const redco_world_options *world, const redco_error *err);
/** A rank that cannot start says so, and tells the others where it can.
 *  @param options  as the launcher says, of sockets or MPI. @return the exit code */
int exec_cannot_start(const struct cli *cli, const redco_world_options *options, const redco_error *err);
/** @param apart  ranks may print to different places: the one whose fault it is speaks as well as rank 0
 *  @return CLI_DONE if all ranks can begin and would do the same, else the exit code */
int exec_agree(const struct cli *cli, redco_world *world, bool apart, const struct exec_facts *facts,
               const redco_error *failure);

#endif
