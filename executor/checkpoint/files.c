#include "executor/checkpoint/checkpoint_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void redcoi_store_name(const char *folder, const char *prefix, uint64_t step, char path[REDCOI_PATH_SIZE])
{
    (void)snprintf(path, REDCOI_PATH_SIZE, "%.4000s/%s%010" PRIu64, folder, prefix, step);
}

void redcoi_store_path(const char *folder, uint64_t step, bool finished, char path[REDCOI_PATH_SIZE])
{
    redcoi_store_name(folder, finished ? REDCOI_STEP_PREFIX : REDCOI_UNFINISHED_PREFIX, step, path);
}

static redco_status file_fail(redco_status status, const char *path, const redcoi_file *file, const char *what,
                              redco_error *err)
{
    char place[512];
    (void)snprintf(place, sizeof place, "%.400s/%s", path, file->name);
    return redco_fail(err, status, place, "%s", what);
}

/* A failed write is REDCO_ESYSTEM, a failed read the file's error. */
static redco_status system_fail(redco_status status, const char *path, const redcoi_file *file, const char *doing,
                                redco_error *err)
{
    char what[200];
    (void)snprintf(what, sizeof what, "cannot %s: %s", doing, strerror(errno));
    return file_fail(status, path, file, what, err);
}

redco_status redcoi_files_open(const redco_checkpoint *checkpoint, const char *folder, bool write,
                               int **descriptors_out, redco_error *err)
{
    redco_status st = REDCO_OK;
    int *const descriptors = calloc((size_t)checkpoint->file_count + 1, sizeof *descriptors);
    if (descriptors == NULL) { return redco_fail(err, REDCO_ENOMEM, folder, "out of memory"); }
    for (uint32_t i = 0; i < checkpoint->file_count; i++) { descriptors[i] = -1; }
    for (uint32_t i = 0; i < checkpoint->file_count && st == REDCO_OK; i++) {
        const redcoi_file *const file = &checkpoint->files[i];
        char path[REDCOI_PATH_SIZE];
        const int length = snprintf(path, sizeof path, "%s/%s", folder, file->name);
        if (length < 0 || (size_t)length >= sizeof path) {
            st = redco_fail(err, REDCO_EVALUE, folder, "is too long a name");
            break;
        }
        descriptors[i] = open(path, (write ? O_WRONLY : O_RDONLY) | O_NONBLOCK | O_CLOEXEC); /* a pipe would block */
        if (descriptors[i] < 0) { st = system_fail(write ? REDCO_ESYSTEM : REDCO_EIO, folder, file, "open it", err); }
    }
    if (st == REDCO_OK) {
        *descriptors_out = descriptors;
    } else {
        redcoi_files_close(checkpoint, descriptors);
    }
    return st;
}

void redcoi_files_close(const redco_checkpoint *checkpoint, int *descriptors)
{
    if (descriptors == NULL) { return; }
    for (uint32_t i = 0; i < checkpoint->file_count; i++) {
        if (descriptors[i] >= 0) { (void)close(descriptors[i]); }
    }
    free(descriptors);
}

redco_status redcoi_files_flush(const redco_checkpoint *checkpoint, const char *folder, const int *descriptors,
                                redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < checkpoint->file_count && st == REDCO_OK; i++) {
        if (fsync(descriptors[i]) != 0) {
            st = system_fail(REDCO_ESYSTEM, folder, &checkpoint->files[i], "flush it", err);
        }
    }
    return st;
}

redco_status redcoi_write_at(int descriptor, const void *data, uint64_t size_bytes, uint64_t at_bytes, const char *path,
                             const redcoi_file *file, redco_error *err)
{
    const char *from = data;
    while (size_bytes > 0) {
        const ssize_t wrote = pwrite(descriptor, from, size_bytes, (off_t)at_bytes);
        if (wrote < 0 && errno == EINTR) { continue; }
        if (wrote <= 0) { return system_fail(REDCO_ESYSTEM, path, file, "write", err); }
        from += wrote;
        at_bytes += (uint64_t)wrote;
        size_bytes -= (uint64_t)wrote;
    }
    return REDCO_OK;
}

redco_status redcoi_read_at(int descriptor, void *data, uint64_t size_bytes, uint64_t at_bytes, const char *path,
                            const redcoi_file *file, redco_error *err)
{
    char *to = data;
    while (size_bytes > 0) {
        const ssize_t got = pread(descriptor, to, size_bytes, (off_t)at_bytes);
        if (got < 0 && errno == EINTR) { continue; }
        if (got < 0) { return system_fail(REDCO_EIO, path, file, "read", err); }
        if (got == 0) { return file_fail(REDCO_EVALUE, path, file, "is cut off", err); }
        to += got;
        at_bytes += (uint64_t)got;
        size_bytes -= (uint64_t)got;
    }
    return REDCO_OK;
}

redco_status redcoi_file_check(const redco_checkpoint *checkpoint, uint32_t number, int descriptor, redco_error *err)
{
    const redcoi_file *const file = &checkpoint->files[number];
    char sha256[REDCO_SHA256_HEX_SIZE], what[120];
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        return file_fail(REDCO_EVALUE, checkpoint->path, file, "is no file", err);
    }
    if ((uint64_t)info.st_size != file->size_bytes) {
        (void)snprintf(what, sizeof what, "has %lld bytes; %llu were written", (long long)info.st_size,
                       (unsigned long long)file->size_bytes);
        return file_fail(REDCO_EVALUE, checkpoint->path, file, what, err);
    }
    unsigned char *const header = malloc(file->header_bytes + 1);
    if (header == NULL) { return file_fail(REDCO_ENOMEM, checkpoint->path, file, "no memory for its header", err); }
    redco_status st = redcoi_read_at(descriptor, header, file->header_bytes, 0, checkpoint->path, file, err);
    if (st == REDCO_OK) {
        redco_sha256_hex(header, file->header_bytes, sha256);
        if (strcmp(sha256, file->header_sha256) != 0) {
            st = file_fail(REDCO_EVALUE, checkpoint->path, file, "its first bytes are not what was written", err);
        }
    }
    free(header);
    return st;
}
