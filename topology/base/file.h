/** @file file.h  Whole files in, whole files out, and their digests. */
#ifndef REDCO_BASE_FILE_H
#define REDCO_BASE_FILE_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_SHA256_HEX_SIZE = 65 };

/** Reads a whole file (or "-" for standard input); a 0 byte is appended but not counted.
 *  @param max_bytes     larger files are refused; of pipes and devices at most 64 MiB are read
 *  @param contents_out  to be freed with free() */
redco_status redco_file_read(const char *path, size_t max_bytes, char **contents_out, size_t *size_out,
                             redco_error *err);

/** Writes the file whole or not at all: a file without a name in the same folder, or with a temporary one, fsync,
 * rename; signals leave nothing behind. A symbolic link stays one: the file that it leads to is written. A device, a
 * pipe and what is open already ("/dev/stdout") are written directly. A file that is read-only stays as it is.
 *  @return REDCO_ESYSTEM where the disk is full or fails, REDCO_EIO where the path is none to write to */
redco_status redco_file_write(const char *path, const char *contents, size_t size, redco_error *err);

/** Says whether it is a file that must not be written: its mode forbids it, to its owner as well. */
bool redco_file_is_kept(const char *path);

/** The number of the open file that @p path names ("/dev/stdout", "/dev/stderr", "/dev/fd/N"), or -1. */
int redco_file_descriptor(const char *path);

/** The file that symbolic links at @p path lead to, which need not exist; @p path itself where it is no link.
 *  @return to be freed with free(), or NULL with errno set */
char *redco_file_behind_links(const char *path);

/** SHA-256 of @p size bytes as 64 hexadecimal digits. */
void redco_sha256_hex(const void *bytes, size_t size, char hex_out[REDCO_SHA256_HEX_SIZE]);

#ifdef __cplusplus
}
#endif
#endif
