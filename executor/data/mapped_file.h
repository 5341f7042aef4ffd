/** @file mapped_file.h  A file's bytes as memory, which the system reads as they are looked at and ranks of a host
 * share. A read behind the end of a file that was cut meanwhile ends the process (SIGBUS): ask before. */
#ifndef REDCO_MAPPED_FILE_H
#define REDCO_MAPPED_FILE_H

#include "topology/base/status.h"

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_mapped_file {
    const unsigned char *bytes; /**< NULL of an empty file */
    size_t size;
    int descriptor; /**< the file's, where there are bytes */
} redco_mapped_file;

/** @return REDCO_EIO if it cannot be opened, or is no regular file */
redco_status redco_mapped_file_open(const char *path, redco_mapped_file *file_out, redco_error *err);
/** Asked before each record is read. An all-zero file is whole.
 *  @param path  for the error
 *  @return REDCO_EIO if the file has fewer bytes than it had */
redco_status redco_mapped_file_whole(const redco_mapped_file *file, const char *path, redco_error *err);
void redco_mapped_file_close(redco_mapped_file *file); /**< an all-zero one is accepted */

#ifdef __cplusplus
}
#endif
#endif
