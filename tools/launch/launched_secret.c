/* The secret that only the ranks of a run know. */
#include "tools/launch/launched.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MADE_BYTES = 32, PATH_BYTES = 4096, LEAST_DIFFERENT = 5 };

/* A file of zeros, or of one word again and again, is no secret; 16 random digits have fewer once in 30 million. */
static redco_status check_random(const void *secret, size_t size, const char *place, redco_error *err)
{
    const unsigned char *const bytes = secret;
    bool seen[256] = {false};
    int count = 0;
    for (size_t i = 0; i < size; i++) {
        count += !seen[bytes[i]];
        seen[bytes[i]] = true;
    }
    if (count >= LEAST_DIFFERENT) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, place, "has %d different bytes; a secret is random, with at least %d", count,
                      LEAST_DIFFERENT);
}

/* @param path  for errors */
static redco_status read_secret(int descriptor, const char *path, struct launched_room *room, redco_error *err)
{
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        return redco_fail(err, REDCO_EVALUE, path, "is no file; a secret of the ranks is needed");
    }
    if ((info.st_mode & 077) != 0 || info.st_uid != geteuid()) {
        return redco_fail(err, REDCO_EVALUE, path, "others may read or write it (mode %03o, owner %u): no secret",
                          (unsigned)info.st_mode & 0777, (unsigned)info.st_uid);
    }
    if (info.st_size > REDCO_SECRET_MAX) {
        return redco_fail(err, REDCO_EVALUE, path, "has %lld bytes; a secret has at most %d", (long long)info.st_size,
                          REDCO_SECRET_MAX);
    }
    size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < sizeof room->secret; size += (size_t)got) {
        got = read(descriptor, room->secret + size, sizeof room->secret - size);
        if (got < 0) { return redco_fail(err, REDCO_EIO, path, "cannot read: %s", strerror(errno)); }
    }
    while (size > 0 && (room->secret[size - 1] == '\n' || room->secret[size - 1] == '\r')) { size--; }
    if (size < REDCO_SECRET_MIN) {
        return redco_fail(err, REDCO_EVALUE, path, "has %zu bytes; a secret has at least %d", size, REDCO_SECRET_MIN);
    }
    room->secret_bytes = size;
    return check_random(room->secret, size, path, err);
}

static redco_status secret_of_file(const char *path, struct launched_room *room, redco_error *err)
{
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) { return redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(errno)); }
    const redco_status st = read_secret(descriptor, path, room, err);
    (void)close(descriptor);
    return st;
}

/* All ranks of a user may begin at once: it gets its name when it is whole, and the first one has it. */
static bool make_secret(const char *path)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[MADE_BYTES];
    char text[2 * MADE_BYTES + 1], made[PATH_BYTES + 16];
    (void)snprintf(made, sizeof made, "%s.XXXXXX", path);
    const int descriptor = mkostemp(made, O_CLOEXEC); /* mode 0600 */
    if (descriptor < 0) { return false; }
    bool ok = getrandom(bytes, sizeof bytes, 0) == (ssize_t)sizeof bytes;
    for (size_t i = 0; i < sizeof bytes; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[sizeof text - 1] = '\n';
    ok = ok && write(descriptor, text, sizeof text) == (ssize_t)sizeof text && fsync(descriptor) == 0;
    ok = close(descriptor) == 0 && ok && (link(made, path) == 0 || errno == EEXIST);
    const int error = errno;
    (void)unlink(made);
    errno = error;
    return ok;
}

/* One that this user's processes have in common, on all hosts that share the home. */
static redco_status secret_of_user(struct launched_room *room, redco_error *err)
{
    char path[PATH_BYTES] = "";
    const char *const config = getenv("XDG_CONFIG_HOME"), *const home = getenv("HOME");
    const bool has_config = config != NULL && config[0] == '/';
    int used = 0;
    if (!has_config && (home == NULL || home[0] != '/')) {
        return redco_fail(err, REDCO_EVALUE, "REDCO_SECRET",
                          "is missing, and there is no HOME: the ranks of a run need a secret that others do not know");
    }
    used = snprintf(path, sizeof path, "%s%s", has_config ? config : home, has_config ? "" : "/.config");
    if (used < 0 || (size_t)used + sizeof "/redco/secret" > sizeof path) {
        return redco_fail(err, REDCO_EVALUE, "REDCO_SECRET", "is missing, and the name of HOME is too long");
    }
    (void)mkdir(path, 0700);
    (void)memcpy(path + used, "/redco", sizeof "/redco");
    (void)mkdir(path, 0700);
    (void)memcpy(path + used, "/redco/secret", sizeof "/redco/secret");
    if (access(path, F_OK) != 0 && !make_secret(path)) {
        return redco_fail(err, REDCO_EVALUE, "REDCO_SECRET", "is missing, and %.300s cannot be made: %s", path,
                          strerror(errno));
    }
    return secret_of_file(path, room, err);
}

redco_status launched_secret(struct launched_room *room, redco_error *err)
{
    const char *const text = getenv("REDCO_SECRET"), *const file = getenv("REDCO_SECRET_FILE");
    if (text == NULL) { return file != NULL ? secret_of_file(file, room, err) : secret_of_user(room, err); }
    const size_t size = strlen(text);
    if (size < REDCO_SECRET_MIN || size > sizeof room->secret) {
        return redco_fail(err, REDCO_EVALUE, "REDCO_SECRET", "has %zu bytes; %d to %zu are right", size,
                          REDCO_SECRET_MIN, sizeof room->secret);
    }
    memcpy(room->secret, text, size);
    room->secret_bytes = size;
    return check_random(text, size, "REDCO_SECRET", err);
}
