/** @file exec_blas.h  OpenBLAS starts threads when it is loaded, before main(), and joins them when a process forks. A
 *  thread that finds no memory asks for ever, so that a fork where memory is limited never ends. Ranks use one thread
 *  each and need none of these. */
#ifndef REDCO_TOOLS_EXEC_BLAS_H
#define REDCO_TOOLS_EXEC_BLAS_H

#include <stdbool.h>

/** Where memory is limited, starts this program anew with OpenBLAS told to start no thread. To be called first of all.
 */
void exec_without_blas_threads(char **argv);

#endif
