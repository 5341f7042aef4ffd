#include "topology/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <nettle/sha2.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Pipes and devices can be endless. */
static const size_t stream_max_bytes = (size_t)64 << 20;

static redco_status too_large(const char *path, size_t max_bytes, bool regular, redco_error *err)
{
    return redco_fail(err, REDCO_EVALUE, path, "larger than %zu bytes, the most that is read %s", max_bytes,
                      regular ? "here" : "from what is no regular file");
}

static redco_status read_stream(FILE *stream, const char *path, size_t max_bytes, char **contents_out, size_t *size_out,
                                redco_error *err)
{
    struct stat info;
    if (fstat(fileno(stream), &info) != 0) {
        return redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) { return redco_fail(err, REDCO_EIO, path, "is a folder, not a file"); }
    const bool regular = S_ISREG(info.st_mode);
    if (!regular && max_bytes > stream_max_bytes) { max_bytes = stream_max_bytes; }
    if (regular && info.st_size > 0 && (uint64_t)info.st_size > max_bytes) {
        return too_large(path, max_bytes, regular, err);
    }
    size_t capacity = regular && info.st_size > 0 ? (size_t)info.st_size + 1 : 65536; /* one more: to see the end */
    size_t size = 0;
    char *contents = malloc(capacity + 1);
    if (contents == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    for (;;) {
        const size_t got = fread(contents + size, 1, capacity - size, stream);
        size += got;
        if (size > max_bytes) {
            free(contents);
            return too_large(path, max_bytes, regular, err);
        }
        if (got == 0) { break; }
        if (size == capacity) {
            capacity = capacity < max_bytes / 2 ? 2 * capacity : max_bytes + 1;
            char *larger = realloc(contents, capacity + 1);
            if (larger == NULL) {
                free(contents);
                return redco_fail(err, REDCO_ENOMEM, path, "out of memory");
            }
            contents = larger;
        }
    }
    if (ferror(stream)) {
        free(contents);
        return redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(errno));
    }
    contents[size] = '\0';
    *contents_out = contents;
    *size_out = size;
    return REDCO_OK;
}

redco_status redco_file_read(const char *path, size_t max_bytes, char **contents_out, size_t *size_out,
                             redco_error *err)
{
    if (strcmp(path, "-") == 0) { return read_stream(stdin, "standard input", max_bytes, contents_out, size_out, err); }
    FILE *stream = fopen(path, "re");
    if (stream == NULL) { return redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(errno)); }
    const redco_status st = read_stream(stream, path, max_bytes, contents_out, size_out, err);
    (void)fclose(stream);
    return st;
}

static bool write_all(int fd, const char *contents, size_t size)
{
    while (size > 0) {
        const ssize_t written = write(fd, contents, size);
        if (written < 0) {
            if (errno == EINTR) { continue; }
            return false;
        }
        contents += written;
        size -= (size_t)written;
    }
    return true;
}

/* A path that cannot be is the user's; a disk that is full, or fails, is the system's. */
static redco_status cannot_write(const char *path, int why, redco_error *err)
{
    static const int of_system[] = {ENOSPC, EDQUOT, EFBIG, EIO, ENOMEM, EMFILE, ENFILE, EPIPE};
    redco_status st = REDCO_EIO;
    for (size_t i = 0; i < sizeof of_system / sizeof of_system[0]; i++) {
        if (why == of_system[i]) { st = REDCO_ESYSTEM; }
    }
    return redco_fail(err, st, path, "cannot write: %s", strerror(why));
}

static redco_status write_directly(const char *path, const char *contents, size_t size, redco_error *err)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) { return redco_fail(err, REDCO_EIO, path, "cannot open for writing: %s", strerror(errno)); }
    const bool ok = write_all(fd, contents, size);
    const int why = errno;
    (void)close(fd);
    return ok ? REDCO_OK : cannot_write(path, why, err);
}

/* The rename is only durable once the folder is. */
static void sync_folder_of(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL) { return; }
    const int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(copy);
    if (fd >= 0) {
        (void)fsync(fd);
        (void)close(fd);
    }
}

int redco_file_descriptor(const char *path)
{
    static const char folder[] = "/dev/fd/";
    enum { MOST_DIGITS = 6 };
    if (strcmp(path, "/dev/stdout") == 0) { return STDOUT_FILENO; }
    if (strcmp(path, "/dev/stderr") == 0) { return STDERR_FILENO; }
    if (strncmp(path, folder, strlen(folder)) != 0) { return -1; }
    const char *const digits = path + strlen(folder);
    const size_t length = strspn(digits, "0123456789");
    return length > 0 && length <= MOST_DIGITS && digits[length] == '\0' ? (int)strtol(digits, NULL, 10) : -1;
}

/* Links are followed one by one, for realpath() needs the last file to exist. */
char *redco_file_behind_links(const char *path)
{
    enum { MOST_LINKS = 40 }; /* as the kernel follows */
    char *file = strdup(path);
    for (int links = 0; file != NULL; links++) {
        char target[PATH_MAX];
        const ssize_t length = readlink(file, target, sizeof target);
        if (length < 0) { return file; }
        if (links == MOST_LINKS || (size_t)length == sizeof target) {
            free(file);
            errno = links == MOST_LINKS ? ELOOP : ENAMETOOLONG;
            return NULL;
        }
        const char *const slash = target[0] != '/' ? strrchr(file, '/') : NULL;
        const int folder = slash != NULL ? (int)(slash - file) + 1 : 0;
        char *next = NULL;
        if (asprintf(&next, "%.*s%.*s", folder, file, (int)length, target) < 0) { next = NULL; }
        free(file);
        file = next;
    }
    return NULL;
}

/* Signals that end a program, while a file has a name that is not its own; and always SIGXFSZ, so that a file that may
 * not grow is an error like a full disk. What kills at once (SIGKILL) cannot be held up. */
static void hold_signals(bool all, sigset_t *before)
{
    static const int enders[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU};
    sigset_t held;
    (void)sigemptyset(&held);
    (void)sigaddset(&held, SIGXFSZ);
    for (size_t i = 0; all && i < sizeof enders / sizeof enders[0]; i++) { (void)sigaddset(&held, enders[i]); }
    (void)pthread_sigmask(SIG_BLOCK, &held, before);
}

/* SIGXFSZ has been told as an error of the write. */
static void release_signals(const sigset_t *before)
{
    static const struct timespec now = {0, 0};
    sigset_t file_size;
    (void)sigemptyset(&file_size);
    (void)sigaddset(&file_size, SIGXFSZ);
    if (sigismember(before, SIGXFSZ) == 0) { (void)sigtimedwait(&file_size, NULL, &now); }
    (void)pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* A file without a name yet, in the folder of @p path: nothing is left of it if the program ends. @return -1: this file
 * system has none */
static int open_unnamed(const char *path)
{
    char *copy = strdup(path);
    if (copy == NULL) { return -1; }
    const int fd = open(dirname(copy), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    free(copy);
    return fd;
}

/* Gives it one. @param temporary  its last six characters are changed; @return false: not possible here (errno) */
static bool name_it(int fd, char *temporary)
{
    enum { TRIES = 100, LETTERS = 6 };
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    char by_number[32];
    char *const end = temporary + strlen(temporary) - LETTERS;
    (void)snprintf(by_number, sizeof by_number, "/proc/self/fd/%d", fd);
    for (int i = 0; i < TRIES; i++) {
        unsigned char random[LETTERS];
        if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) { return false; }
        for (int j = 0; j < LETTERS; j++) { end[j] = letters[random[j] % (sizeof letters - 1)]; }
        if (linkat(AT_FDCWD, by_number, AT_FDCWD, temporary, AT_SYMLINK_FOLLOW) == 0) { return true; }
        if (errno != EEXIST) { return false; }
    }
    return false;
}

static bool fill(int fd, const char *contents, size_t size, mode_t mode)
{
    return fchmod(fd, mode) == 0 && write_all(fd, contents, size) && fsync(fd) == 0;
}

/* @param temporary  "PATH.XXXXXX". @return 1: done, 0: failed (errno), -1: not possible here */
static int write_unnamed(const char *path, char *temporary, const char *contents, size_t size, mode_t mode)
{
    sigset_t before;
    const int fd = open_unnamed(path);
    if (fd < 0) { return -1; }
    int done = fill(fd, contents, size, mode) ? 1 : 0, why = errno;
    if (done == 1) {
        hold_signals(true, &before);
        if (!name_it(fd, temporary)) {
            done = -1;
        } else if (rename(temporary, path) != 0) {
            done = 0;
            why = errno;
            (void)unlink(temporary);
        }
        release_signals(&before);
    }
    (void)close(fd);
    errno = why;
    return done;
}

/* Signals wait until it has its name or is gone. @return false: errno */
static bool write_named(const char *path, char *temporary, const char *contents, size_t size, mode_t mode)
{
    sigset_t before;
    hold_signals(true, &before);
    const int fd = mkostemp(temporary, O_CLOEXEC);
    bool ok = fd >= 0 && fill(fd, contents, size, mode);
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (ok && rename(temporary, path) != 0) {
        ok = false;
        why = errno;
    }
    if (!ok && fd >= 0) { (void)unlink(temporary); }
    release_signals(&before);
    errno = why;
    return ok;
}

static redco_status write_by_rename(const char *path, const char *shown, const char *contents, size_t size,
                                    redco_error *err)
{
    static const char ending[] = ".XXXXXX";
    const size_t length = strlen(path);
    char *const temporary = malloc(length + sizeof ending);
    sigset_t before;
    if (temporary == NULL) { return redco_fail(err, REDCO_ENOMEM, shown, "out of memory"); }
    memcpy(temporary, path, length);
    memcpy(temporary + length, ending, sizeof ending);
    const mode_t mask = umask(0);
    (void)umask(mask);
    hold_signals(false, &before);
    int done = write_unnamed(path, temporary, contents, size, 0666 & ~mask);
    if (done < 0) {
        memcpy(temporary + length, ending, sizeof ending); /* mkostemp() changes the letters */
        done = write_named(path, temporary, contents, size, 0666 & ~mask) ? 1 : 0;
    }
    const int why = errno;
    release_signals(&before);
    free(temporary);
    if (done != 1) { return cannot_write(shown, why, err); }
    sync_folder_of(path);
    return REDCO_OK;
}

bool redco_file_is_kept(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           ((info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) == 0 || access(path, W_OK) != 0);
}

redco_status redco_file_write(const char *path, const char *contents, size_t size, redco_error *err)
{
    struct stat info;
    const int open_already = redco_file_descriptor(path);
    if (open_already >= 0) { /* behind what was written before, and not by another file of its name */
        return write_all(open_already, contents, size) ? REDCO_OK : cannot_write(path, errno, err);
    }
    if (stat(path, &info) == 0 && !S_ISREG(info.st_mode)) { return write_directly(path, contents, size, err); }
    if (redco_file_is_kept(path)) { return redco_fail(err, REDCO_EIO, path, "cannot write: it is read-only"); }
    char *const file = redco_file_behind_links(path);
    if (file == NULL) { return redco_fail(err, REDCO_EIO, path, "cannot write: %s", strerror(errno)); }
    const redco_status st = write_by_rename(file, path, contents, size, err);
    free(file);
    return st;
}

void redco_sha256_hex(const void *bytes, size_t size, char hex_out[REDCO_SHA256_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&context);
    sha256_update(&context, size, bytes);
    sha256_digest(&context, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++) {
        hex_out[2 * i] = digits[digest[i] >> 4];
        hex_out[2 * i + 1] = digits[digest[i] & 15];
    }
    hex_out[2 * sizeof digest] = '\0';
}
