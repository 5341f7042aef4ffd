#include "executor/data/weights_beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16 };

/* As transformers names them. */
static const char *const names[] = {"generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "tokenizer.model",
                                    "spiece.model",
                                    "sentencepiece.bpe.model",
                                    "vocab.json",
                                    "vocab.txt",
                                    "merges.txt",
                                    "chat_template.jinja",
                                    "chat_template.json"};
enum { NAMES = sizeof names / sizeof names[0] };

static redco_status write_all(int to, const char *bytes, size_t count, const char *path, redco_error *err)
{
    while (count > 0) {
        const ssize_t done = write(to, bytes, count);
        if (done < 0 && errno == EINTR) { continue; }
        if (done < 0) { return redco_fail(err, REDCO_ESYSTEM, path, "cannot write: %s", strerror(errno)); }
        bytes += done;
        count -= (size_t)done;
    }
    return REDCO_OK;
}

/* @return REDCO_OK, too, where the file is not there */
static redco_status copy(const char *from, const char *to, redco_error *err)
{
    char block[BLOCK_BYTES];
    const int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat info;
    redco_status st = REDCO_OK;
    if (in < 0 && errno == ENOENT) { return REDCO_OK; }
    if (in < 0) { return redco_fail(err, REDCO_EIO, from, "cannot open: %s", strerror(errno)); }
    if (fstat(in, &info) != 0 || !S_ISREG(info.st_mode)) {
        (void)close(in);
        return redco_fail(err, REDCO_EIO, from, "is no regular file");
    }
    const int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (out < 0) { st = redco_fail(err, REDCO_ESYSTEM, to, "cannot write: %s", strerror(errno)); }
    for (ssize_t got = 1; got != 0 && st == REDCO_OK;) {
        got = read(in, block, sizeof block);
        if (got < 0 && errno == EINTR) { continue; }
        st = got < 0 ? redco_fail(err, REDCO_EIO, from, "cannot read: %s", strerror(errno))
                     : write_all(out, block, (size_t)got, to, err);
    }
    (void)close(in);
    if (out >= 0 && close(out) != 0 && st == REDCO_OK) {
        st = redco_fail(err, REDCO_ESYSTEM, to, "cannot write: %s", strerror(errno));
    }
    if (out >= 0 && st != REDCO_OK) { (void)unlink(to); }
    return st;
}

redco_status redco_weights_copy_beside(const char *weights, const char *folder, redco_error *err)
{
    struct stat info;
    const bool is_folder = stat(weights, &info) == 0 && S_ISDIR(info.st_mode);
    const char *const slash = strrchr(weights, '/');
    const size_t length = is_folder ? strlen(weights) : slash != NULL ? (size_t)(slash - weights) : 0;
    const size_t size = length + strlen(folder) + 64;
    char *const from = malloc(size), *const to = malloc(size);
    redco_status st = from != NULL && to != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, folder, "out of memory");
    uint32_t done = 0;
    for (; done < NAMES && st == REDCO_OK; done++) {
        (void)snprintf(from, size, "%.*s%s%s", (int)length, weights, length > 0 ? "/" : "", names[done]);
        (void)snprintf(to, size, "%s/%s", folder, names[done]);
        st = copy(from, to, err);
    }
    for (uint32_t i = 0; st != REDCO_OK && from != NULL && to != NULL && i + 1 < done; i++) {
        (void)snprintf(to, size, "%s/%s", folder, names[i]);
        (void)unlink(to);
    }
    free(from);
    free(to);
    return st;
}
