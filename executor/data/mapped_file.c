#include "executor/data/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

redco_status redco_mapped_file_open(const char *path, redco_mapped_file *file_out, redco_error *err)
{
    struct stat info;
    redco_status st = REDCO_OK;
    void *bytes = NULL;
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &info) != 0) {
        st = redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        st = redco_fail(err, REDCO_EIO, path, "is no regular file");
    } else if (info.st_size > 0) {
        bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (bytes == MAP_FAILED) { st = redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(errno)); }
    }
    if (descriptor >= 0 && (st != REDCO_OK || bytes == NULL)) { (void)close(descriptor); }
    if (st == REDCO_OK) { *file_out = (redco_mapped_file){bytes, (size_t)info.st_size, descriptor}; }
    return st;
}

redco_status redco_mapped_file_whole(const redco_mapped_file *file, const char *path, redco_error *err)
{
    struct stat info;
    if (file->bytes == NULL) { return REDCO_OK; }
    if (fstat(file->descriptor, &info) != 0) {
        return redco_fail(err, REDCO_EIO, path, "cannot be looked at: %s", strerror(errno));
    }
    if (info.st_size >= 0 && (size_t)info.st_size >= file->size) { return REDCO_OK; }
    return redco_fail(err, REDCO_EIO, path, "was cut from %zu to %lld bytes while it was in use", file->size,
                      (long long)info.st_size);
}

void redco_mapped_file_close(redco_mapped_file *file)
{
    if (file->bytes != NULL) {
        (void)munmap((void *)(uintptr_t)file->bytes, file->size);
        (void)close(file->descriptor);
    }
    *file = (redco_mapped_file){.bytes = NULL};
}
