/** @file beside.h  Tools of redco that another one runs: the programs that lie beside it. */
#ifndef REDCO_CLI_BESIDE_H
#define REDCO_CLI_BESIDE_H

#include "tools/cli/cli.h"

#include <signal.h>

enum { BESIDE_PATH_BYTES = 512 };

/** Files that one tool writes for another, in a folder of their own. */
struct beside {
    char folder[BESIDE_PATH_BYTES]; /**< "": there is none */
    sigset_t before;                /**< signals that were blocked before */
};

/** Makes the folder, in TMPDIR or /tmp. Until beside_close(), signals that end this process wait. */
redco_status beside_open(struct beside *beside, redco_error *err);
/** Removes it with the files in it; it may be none. Signals that waited are delivered. */
void beside_close(struct beside *beside);
/** @return the path of a file in it, in @p path_out */
const char *beside_path(const struct beside *beside, const char *name, char path_out[BESIDE_PATH_BYTES]);

/** Runs a tool and waits for it. It has this one's standard error, where it says itself what is wrong; what it prints
 *  is not shown. A signal that ends this process ends the tool first, and this one by beside_close().
 *  @param words  its command line, from its name; NULL ends them
 *  @return its exit code, CLI_SYSTEM with a message of this tool where it cannot be run or was ended */
int beside_run(const struct cli *cli, const struct beside *beside, const char *const *words);

#endif
