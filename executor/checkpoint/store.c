/* Creates, locks, lists and renames checkpoint folders. */
#include "executor/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static redco_status system_fail(const char *path, const char *doing, redco_error *err)
{
    return redco_fail(err, REDCO_ESYSTEM, path, "cannot %s: %s", doing, strerror(errno));
}

redco_status redcoi_store_lock(const char *folder, bool make, int *lock_out, redco_error *err)
{
    if (make && mkdir(folder, 0777) != 0 && errno != EEXIST) {
        return redco_fail(err, REDCO_EIO, folder, "cannot make it: %s", strerror(errno));
    }
    const int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) { return redco_fail(err, REDCO_EIO, folder, "cannot open: %s", strerror(errno)); }
    if (flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) { /* else: a file system without locks */
        (void)close(lock);
        return redco_fail(err, REDCO_EVALUE, folder, "another run writes its checkpoints there");
    }
    *lock_out = lock;
    return REDCO_OK;
}

/* @return false: not a name that redcoi_store_path() makes */
static bool step_in(const char *name, const char *prefix, uint64_t *step_out)
{
    char again[64];
    const size_t length = strlen(prefix);
    if (strncmp(name, prefix, length) != 0 || name[length] < '0' || name[length] > '9') { return false; }
    *step_out = strtoull(name + length, NULL, 10);
    (void)snprintf(again, sizeof again, "%s%010" PRIu64, prefix, *step_out);
    return strcmp(name, again) == 0;
}

static int newest_first(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x > y ? -1 : x < y;
}

static redco_status list(const char *folder, const char *prefix, uint64_t **steps_out, size_t *count_out,
                         redco_error *err)
{
    size_t count = 0, room = 0;
    uint64_t *steps = NULL, step = 0;
    DIR *const open_folder = opendir(folder);
    if (open_folder == NULL) { return redco_fail(err, REDCO_EIO, folder, "cannot open: %s", strerror(errno)); }
    for (const struct dirent *entry = readdir(open_folder); entry != NULL; entry = readdir(open_folder)) {
        if (!step_in(entry->d_name, prefix, &step)) { continue; }
        if (count == room) {
            room = 2 * room + 16;
            uint64_t *const more = realloc(steps, room * sizeof *more);
            if (more == NULL) {
                free(steps);
                (void)closedir(open_folder);
                return redco_fail(err, REDCO_ENOMEM, folder, "out of memory");
            }
            steps = more;
        }
        steps[count++] = step;
    }
    (void)closedir(open_folder);
    if (count > 1) { qsort(steps, count, sizeof *steps, newest_first); }
    *steps_out = steps;
    *count_out = count;
    return REDCO_OK;
}

redco_status redcoi_store_list(const char *folder, uint64_t **steps_out, size_t *count_out, redco_error *err)
{
    return list(folder, REDCOI_STEP_PREFIX, steps_out, count_out, err);
}

static void clean(const redco_checkpoints_options *o, const char *prefix, bool aside)
{
    uint64_t *steps = NULL;
    size_t count = 0;
    if (list(o->folder, prefix, &steps, &count, NULL) != REDCO_OK) { return; }
    for (size_t i = 0; i < count; i++) {
        char path[REDCOI_PATH_SIZE];
        redcoi_store_name(o->folder, prefix, steps[i], path);
        (void)redcoi_remove_unfinished(o, path, steps[i], aside);
    }
    free(steps);
}

void redcoi_store_clean(const redco_checkpoints_options *options, bool aside)
{
    clean(options, REDCOI_UNFINISHED_PREFIX, aside);
    clean(options, REDCOI_REMOVED_PREFIX, aside);
}

void redco_checkpoints_clean(const char *folder)
{
    const redco_checkpoints_options options = {.folder = folder};
    int lock = -1;
    if (redcoi_store_lock(folder, false, &lock, NULL) != REDCO_OK) { return; }
    redcoi_store_clean(&options, false); /* the next run reports foreign files */
    (void)close(lock);
}

redco_status redcoi_store_flush(const char *path, redco_error *err)
{
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* EINVAL: a file system that cannot. */
    const bool flushed = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
    const redco_status st = flushed ? REDCO_OK : system_fail(path, "flush it", err);
    if (descriptor >= 0) { (void)close(descriptor); }
    return st;
}

/* Allocates the whole file at once: a full disk fails before anything is written. */
redco_status redcoi_store_file(int folder, const char *path, const redcoi_file *file, redco_error *err)
{
    const int descriptor = openat(folder, file->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) { return system_fail(path, "make a file in it", err); }
    redco_status st = redcoi_write_at(descriptor, file->header, file->header_bytes, 0, path, file, err);
    if (st == REDCO_OK && fallocate(descriptor, 0, 0, (off_t)file->size_bytes) != 0 &&
        ((errno != EOPNOTSUPP && errno != ENOSYS) || ftruncate(descriptor, (off_t)file->size_bytes) != 0)) {
        char place[512];
        const int error = errno;
        (void)snprintf(place, sizeof place, "%.400s/%s", path, file->name);
        st = redco_fail(err, REDCO_ESYSTEM, place, "no room for %" PRIu64 " bytes: %s", file->size_bytes,
                        strerror(error));
    }
    if (st == REDCO_OK && fsync(descriptor) != 0) { st = system_fail(path, "flush a file in it", err); }
    (void)close(descriptor);
    return st;
}

/* Writes a small file directly: its folder's name marks it as unfinished. */
static redco_status make_text(int folder, const char *path, const char *name, const redco_checkpoint *checkpoint,
                              redco_error *err)
{
    redcoi_file file = {.size_bytes = 0};
    size_t size = 0;
    (void)snprintf(file.name, sizeof file.name, "%s", name);
    file.header = (unsigned char *)redcoi_manifest_text(checkpoint, &size);
    if (file.header == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    file.size_bytes = file.header_bytes = size;
    const redco_status st = redcoi_store_file(folder, path, &file, err);
    free(file.header);
    return st;
}

redco_status redcoi_store_begin(const redco_checkpoints_options *o, const redco_checkpoint *checkpoint,
                                redco_error *err)
{
    char path[REDCOI_PATH_SIZE];
    redcoi_store_path(o->folder, checkpoint->info.step, false, path);
    (void)redcoi_remove_unfinished(o, path, checkpoint->info.step, true); /* left by an attempt that failed */
    if (mkdir(path, 0777) != 0) { return system_fail(path, "make it", err); }
    const int opened = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    redco_status st = opened >= 0 ? REDCO_OK : system_fail(path, "open it", err);
    if (st == REDCO_OK) { st = make_text(opened, path, REDCOI_JOURNAL, checkpoint, err); }
    for (uint32_t i = 0; i < checkpoint->file_count && st == REDCO_OK; i++) {
        st = redcoi_store_file(opened, path, &checkpoint->files[i], err);
    }
    if (opened >= 0) { (void)close(opened); }
    if (st != REDCO_OK) { redcoi_remove_made(path, checkpoint); }
    return st;
}

/* The name is taken by a skipped checkpoint or a foreign file. */
static redco_status take_name(const redco_checkpoints_options *o, const char *from, const char *to, uint64_t step,
                              redco_error *err)
{
    struct stat info;
    if (lstat(to, &info) == 0 && !redcoi_set_aside(o, to, step, "a new checkpoint of this step takes its name")) {
        return redco_fail(err, REDCO_ESYSTEM, to, "is in the way of a new checkpoint");
    }
    return rename(from, to) == 0 ? REDCO_OK : system_fail(from, "name it", err);
}

redco_status redcoi_store_commit(const redco_checkpoints_options *o, const redco_checkpoint *checkpoint,
                                 redco_error *err)
{
    char from[REDCOI_PATH_SIZE], to[REDCOI_PATH_SIZE];
    const uint64_t step = checkpoint->info.step;
    redcoi_store_path(o->folder, step, false, from);
    redcoi_store_path(o->folder, step, true, to);
    const int opened = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    redco_status st =
        opened >= 0 ? make_text(opened, from, REDCOI_MANIFEST, checkpoint, err) : system_fail(from, "open it", err);
    if (st == REDCO_OK && unlinkat(opened, REDCOI_JOURNAL, 0) != 0 && errno != ENOENT) {
        st = system_fail(from, "remove " REDCOI_JOURNAL " from it", err);
    }
    if (opened >= 0) { (void)close(opened); }
    if (st == REDCO_OK) { st = redcoi_store_flush(from, err); }
    if (st == REDCO_OK) { st = take_name(o, from, to, step, err); }
    return st == REDCO_OK ? redcoi_store_flush(o->folder, err) : st;
}

bool redcoi_store_has(const char *folder, uint64_t step)
{
    char path[REDCOI_PATH_SIZE];
    struct stat info;
    redcoi_store_path(folder, step, true, path);
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

redco_status redcoi_store_prune(const redco_checkpoints_options *o, uint64_t step, uint64_t best, uint64_t resumed,
                                redco_error *err)
{
    uint64_t *steps = NULL;
    size_t count = 0, kept = 0;
    const redco_status st = redcoi_store_list(o->folder, &steps, &count, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        char path[REDCOI_PATH_SIZE];
        if (steps[i] != step && steps[i] > resumed) {
            redcoi_store_path(o->folder, steps[i], true, path);
            (void)redcoi_set_aside(o, path, steps[i], "the run was resumed from an older checkpoint");
        } else if (steps[i] <= step && kept++ >= o->keep &&
                   steps[i] != best) { /* newer ones were put there meanwhile */
            redcoi_retire(o, steps[i]);
        }
    }
    free(steps);
    return st;
}
