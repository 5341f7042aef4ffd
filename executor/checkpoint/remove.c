/* Removes checkpoints. Users may keep other files in the folder and in each checkpoint: only files that a manifest of
 * redco lists are removed, and of a finished checkpoint only if all of them match it. Anything else in the way is
 * renamed and reported. */
#include "executor/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

static bool is_file(int folder, const char *name, uint64_t most_bytes)
{
    struct stat info;
    return fstatat(folder, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
           (uint64_t)info.st_size <= most_bytes;
}

static void tell(const redco_checkpoints_options *o, const char *text)
{
    if (o->tell != NULL) { o->tell(o->context, text); }
}

/* @param path  its current name. @param known  the name that the user knows */
static bool move_aside(const redco_checkpoints_options *o, const char *path, const char *known, uint64_t step,
                       const char *why)
{
    enum { MOST = 10000 };
    char aside[REDCOI_PATH_SIZE], text[2 * REDCOI_PATH_SIZE + 600];
    redcoi_store_name(o->folder, REDCOI_ASIDE_PREFIX, step, aside);
    const size_t length = strlen(aside);
    for (int number = 2; is_there(aside) && number < MOST; number++) {
        (void)snprintf(aside + length, sizeof aside - length, "-%d", number);
    }
    errno = EEXIST;
    const bool moved = !is_there(aside) && rename(path, aside) == 0;
    if (moved) {
        (void)snprintf(text, sizeof text, "%s is set aside as %s: %.500s", known, aside, why);
    } else {
        (void)snprintf(text, sizeof text, "%s stays, as it cannot be set aside (%s): %.500s", path, strerror(errno),
                       why);
    }
    tell(o, text);
    return moved;
}

bool redcoi_set_aside(const redco_checkpoints_options *o, const char *path, uint64_t step, const char *why)
{
    return move_aside(o, path, path, step, why);
}

static int open_folder(const char *path)
{
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* @return whether every file that the manifest lists is there, a file and not a link, of the size and with the first
 * bytes that were written. */
static redco_status prove(int folder, const redco_checkpoint *c, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < c->file_count && st == REDCO_OK; i++) {
        const int descriptor = openat(folder, c->files[i].name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (descriptor < 0) {
            return redco_fail(err, REDCO_EIO, c->path, "cannot open %s: %s", c->files[i].name, strerror(errno));
        }
        st = redcoi_file_check(c, i, descriptor, err);
        (void)close(descriptor);
    }
    return st;
}

/* Removes the manifest last: with it the next run can finish an interrupted removal. */
static void remove_listed(int folder, const redco_checkpoint *c)
{
    for (uint32_t i = 0; i < c->file_count; i++) {
        if (is_file(folder, c->files[i].name, c->files[i].size_bytes)) { (void)unlinkat(folder, c->files[i].name, 0); }
    }
    if (is_file(folder, REDCOI_MANIFEST, UINT64_MAX)) { (void)unlinkat(folder, REDCOI_MANIFEST, 0); }
    if (is_file(folder, REDCOI_JOURNAL, UINT64_MAX)) { (void)unlinkat(folder, REDCOI_JOURNAL, 0); }
}

void redcoi_remove_made(const char *path, const redco_checkpoint *made)
{
    const int folder = open_folder(path);
    if (folder < 0) { return; }
    remove_listed(folder, made);
    (void)close(folder);
    (void)rmdir(path);
}

void redcoi_retire(const redco_checkpoints_options *o, uint64_t step)
{
    static const char foreign[] = "redco did not write all that is in it; what it wrote is removed";
    char path[REDCOI_PATH_SIZE], away[REDCOI_PATH_SIZE];
    redco_error why = {.status = REDCO_OK};
    redco_checkpoint *c = NULL;
    redcoi_store_path(o->folder, step, true, path);
    redcoi_store_name(o->folder, REDCOI_REMOVED_PREFIX, step, away);
    const int folder = open_folder(path);
    redco_status st = folder >= 0 ? redcoi_manifest_open(path, REDCOI_MANIFEST, step, &c, &why)
                                  : redco_fail(&why, REDCO_EIO, path, "cannot open: %s", strerror(errno));
    if (st == REDCO_OK) { st = prove(folder, c, &why); }
    if (st != REDCO_OK) {
        (void)redcoi_set_aside(o, path, step, why.text);
    } else if (!is_there(away) && rename(path, away) == 0) {
        /* Renames it first, so that a half removed folder is not taken for a checkpoint. */
        remove_listed(folder, c);
        if (rmdir(away) != 0) { (void)move_aside(o, away, path, step, foreign); }
    }
    redco_checkpoint_free(c);
    if (folder >= 0) { (void)close(folder); }
}

static bool is_alone(const char *path, const char *name)
{
    bool alone = true;
    DIR *const folder = opendir(path);
    if (folder == NULL) { return false; }
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        alone = alone && (strcmp(entry->d_name, name) == 0 || strcmp(entry->d_name, ".") == 0 ||
                          strcmp(entry->d_name, "..") == 0);
    }
    (void)closedir(folder);
    return alone;
}

/* A run that died while it wrote the journal, the first file of all. */
static bool is_torn_journal(int folder, const char *path)
{
    char text[sizeof REDCOI_DOCUMENT_BEGIN] = "";
    if (!is_alone(path, REDCOI_JOURNAL)) { return false; }
    const int descriptor = openat(folder, REDCOI_JOURNAL, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (descriptor < 0) { return false; }
    const ssize_t length = read(descriptor, text, sizeof text - 1);
    (void)close(descriptor);
    return length >= 0 && strncmp(text, REDCOI_DOCUMENT_BEGIN, (size_t)length) == 0;
}

bool redcoi_remove_unfinished(const redco_checkpoints_options *o, const char *path, uint64_t step, bool aside)
{
    redco_checkpoint *c = NULL;
    const int folder = open_folder(path);
    if (folder >= 0 && (redcoi_manifest_open(path, REDCOI_JOURNAL, step, &c, NULL) == REDCO_OK ||
                        redcoi_manifest_open(path, REDCOI_MANIFEST, step, &c, NULL) == REDCO_OK)) {
        remove_listed(folder, c);
    } else if (folder >= 0 && is_torn_journal(folder, path)) {
        (void)unlinkat(folder, REDCOI_JOURNAL, 0);
    }
    redco_checkpoint_free(c);
    if (folder >= 0) { (void)close(folder); }
    if (rmdir(path) == 0 || !is_there(path)) { return true; }
    return aside && redcoi_set_aside(o, path, step, "redco did not write what is in it");
}
