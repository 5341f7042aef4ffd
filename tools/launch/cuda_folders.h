/** @file cuda_folders.h  Where CUDA's libraries may be beside where the loader looks, found in one way by all tools. */
#ifndef REDCO_TOOLS_CUDA_FOLDERS_H
#define REDCO_TOOLS_CUDA_FOLDERS_H

#include "tools/cli/cli.h"

/** REDCO_CUDA_FOLDERS, separated by colons, if that is set. Else the toolkit's (CUDA_HOME, CUDA_PATH, /usr/local/cuda),
 *  then those of Python's wheels, which PyTorch brings: of VIRTUAL_ENV, CONDA_PREFIX, the python3 on the PATH, the
 *  system and the user.
 *  @return NULL-terminated, to be freed with cuda_folders_free(); NULL when out of memory */
const char **cuda_folders(void);
void cuda_folders_free(const char **folders); /**< NULL is accepted */

/** Prints every one of CUDA's libraries that is found, the one that is used first: name, version, folder. */
int cuda_folders_print(const struct cli *cli);

#endif
