#include "executor/checkpoint/exchange_weights.h"

#include "executor/checkpoint/checkpoint_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Elements read at once; of a matrix that the file has transposed, this number divided by its columns. */
static const uint64_t chunk_elements = (uint64_t)1 << 22;

/* The temporary folder until all files are complete. */
#define UNFINISHED ".unfinished-weights"

struct importing {
    redco_weights *weights;
    uint32_t parameter;
    redco_dtype dtype;
    uint32_t element_bytes;
    unsigned char *chunk, *row; /* chunk_elements each */
};

static redco_status read_run(void *context, const redcoi_run *run, redco_error *err)
{
    const struct importing *const in = context;
    unsigned char *const to = in->chunk + run->local_at * in->element_bytes;
    unsigned char *const row = run->stride == 1 ? to : in->row;
    const redco_status st =
        redco_weights_read_run(in->weights, in->parameter, run->file_at, run->count, in->dtype, row, err);
    for (uint64_t i = 0; i < run->count && run->stride != 1 && st == REDCO_OK; i++) {
        memcpy(to + i * run->stride * in->element_bytes, row + i * in->element_bytes, in->element_bytes);
    }
    return st;
}

static redco_status import_slice(struct importing *in, const redco_checkpoint_states *s, const redco_shard_slice *slice,
                                 redco_error *err)
{
    const redcoi_placing placing = redcoi_placing_of(s, slice->tensor);
    const uint64_t end = slice->begin + slice->count;
    redco_status st = REDCO_OK;
    in->parameter = redco_checkpoint_parameter(s, slice->tensor);
    for (uint64_t at = slice->begin; at < end && st == REDCO_OK; at += chunk_elements) {
        const uint64_t count = end - at < chunk_elements ? end - at : chunk_elements;
        st = redcoi_runs_walk(&placing, at, count, read_run, in, err);
        if (st == REDCO_OK) {
            st = redco_states_set_range(s->states, s->worker, slice->tensor, REDCO_STATES_WEIGHTS, at, count, in->chunk,
                                        err);
        }
    }
    return st;
}

static uint64_t most_elements(const redco_layout *layout)
{
    uint64_t most = 1;
    for (uint32_t layer = 0; layer < redco_layout_model(layout)->layer_count; layer++) {
        uint32_t count = 0;
        const redco_shard_slice *const slices = redco_layout_slices(layout, layer, &count);
        for (uint32_t i = 0; i < count; i++) { most = slices[i].count > most ? slices[i].count : most; }
    }
    return most < chunk_elements ? most : chunk_elements;
}

redco_status redco_weights_import(redco_weights *weights, const redco_checkpoint_states *s, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(s->states);
    const redco_dtype dtype = redco_states_master_dtype(s->states);
    struct importing in = {.weights = weights, .dtype = dtype, .element_bytes = redco_dtype_bytes(dtype)};
    const uint64_t room = most_elements(layout);
    in.chunk = malloc(room * in.element_bytes);
    in.row = malloc(room * in.element_bytes);
    redco_status st = in.chunk == NULL || in.row == NULL
                          ? redco_fail(err, REDCO_ENOMEM, "weights", "no memory to read them")
                          : REDCO_OK;
    for (uint32_t layer = 0; layer < redco_layout_model(layout)->layer_count && st == REDCO_OK; layer++) {
        uint32_t count = 0;
        const redco_shard_slice *const slices = redco_layout_slices(layout, layer, &count);
        for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
            if (redco_weights_has(weights, redco_checkpoint_parameter(s, slices[i].tensor))) {
                st = import_slice(&in, s, &slices[i], err);
            }
        }
    }
    free(in.chunk);
    free(in.row);
    return st;
}

static redco_status system_fail(const char *path, const char *doing, redco_error *err)
{
    return redco_fail(err, REDCO_ESYSTEM, path, "cannot %s: %s", doing, strerror(errno));
}

/* The parent folder. */
static redco_status check_parent(const char *folder, redco_error *err)
{
    char *const parent = strdup(folder);
    if (parent == NULL) { return redco_fail(err, REDCO_ENOMEM, folder, "out of memory"); }
    size_t length = strlen(parent);
    while (length > 1 && parent[length - 1] == '/') { parent[--length] = '\0'; }
    char *const slash = strrchr(parent, '/');
    if (slash != NULL) { slash[slash == parent ? 1 : 0] = '\0'; }
    const bool can = access(slash != NULL ? parent : ".", W_OK | X_OK) == 0;
    const redco_status st = can ? REDCO_OK : system_fail(folder, "make it", err);
    free(parent);
    return st;
}

redco_status redco_weights_export_check(const char *folder, redco_error *err)
{
    redco_status st = REDCO_OK;
    DIR *const open_folder = opendir(folder);
    if (open_folder == NULL) {
        if (errno == ENOENT) { return check_parent(folder, err); }
        return errno == ENOTDIR ? redco_fail(err, REDCO_EVALUE, folder, "is no folder")
                                : system_fail(folder, "open it", err);
    }
    for (const struct dirent *e = readdir(open_folder); e != NULL && st == REDCO_OK; e = readdir(open_folder)) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && strcmp(e->d_name, UNFINISHED) != 0) {
            st = redco_fail(err, REDCO_EVALUE, folder, "has files already; weights are written to a new folder");
        }
    }
    (void)closedir(open_folder);
    if (st == REDCO_OK && access(folder, W_OK | X_OK) != 0) { st = system_fail(folder, "write to it", err); }
    return st;
}

/* Removes the files that this run makes, and the folder that they are in. */
static void remove_unfinished(const redco_checkpoint *c)
{
    const int opened = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) { return; }
    for (uint32_t i = 0; i < c->file_count; i++) { (void)unlinkat(opened, c->files[i].name, 0); }
    (void)close(opened);
    (void)rmdir(c->path);
}

/* @return whether such a name is one of redco's */
static bool is_weights(const char *name)
{
    static const char start[] = "model", *const ends[] = {".safetensors", ".safetensors.index.json"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t end = strlen(ends[i]);
        if (strncmp(name, start, sizeof start - 1) == 0 && length > end && strcmp(name + length - end, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void remove_files(const char *folder, bool weights_alone)
{
    DIR *const open_folder = opendir(folder);
    if (open_folder == NULL) { return; }
    for (const struct dirent *e = readdir(open_folder); e != NULL; e = readdir(open_folder)) {
        if (!weights_alone || is_weights(e->d_name)) { (void)unlinkat(dirfd(open_folder), e->d_name, 0); }
    }
    (void)closedir(open_folder);
}

void redco_weights_export_clean(const char *folder)
{
    char path[REDCOI_PATH_SIZE];
    (void)snprintf(path, sizeof path, "%.3900s/config.json", folder);
    if (access(path, F_OK) != 0) { remove_files(folder, true); }
    (void)snprintf(path, sizeof path, "%.3900s/" UNFINISHED, folder);
    remove_files(path, false);
    (void)rmdir(path);
}

static redco_status begin(const redco_weights_export *o, const redco_checkpoint *c, redco_error *err)
{
    redco_status st = redco_weights_export_check(o->folder, err);
    if (st != REDCO_OK) { return st; }
    if (mkdir(o->folder, 0777) != 0 && errno != EEXIST) { return system_fail(o->folder, "make it", err); }
    remove_unfinished(c); /* left by a run that was ended */
    if (mkdir(c->path, 0777) != 0) { return system_fail(c->path, "make it", err); }
    const int opened = open(c->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    st = opened >= 0 ? REDCO_OK : system_fail(c->path, "open it", err);
    for (uint32_t i = 0; i < c->file_count && st == REDCO_OK; i++) {
        st = redcoi_store_file(opened, c->path, &c->files[i], err);
    }
    if (opened >= 0) { (void)close(opened); }
    return st;
}

/* "config.json" is written last: a folder without it is incomplete. */
static redco_status commit(const redco_weights_export *o, const redco_checkpoint *c, redco_error *err)
{
    redco_status st = redcoi_store_flush(c->path, err);
    for (uint32_t i = 0; i < c->file_count && st == REDCO_OK; i++) {
        char from[REDCOI_PATH_SIZE], to[REDCOI_PATH_SIZE];
        (void)snprintf(from, sizeof from, "%.3900s/%s", c->path, c->files[i].name);
        (void)snprintf(to, sizeof to, "%.3900s/%s", o->folder, c->files[i].name);
        if (rename(from, to) != 0) { st = system_fail(from, "name it", err); }
    }
    (void)rmdir(c->path);
    return st == REDCO_OK ? redcoi_store_flush(o->folder, err) : st;
}

redco_status redco_weights_export_write(const redco_weights_export *o, const redco_checkpoint_states *states,
                                        redco_world *world, redco_error *err)
{
    const bool first = redco_world_rank(world) == 0;
    char path[REDCOI_PATH_SIZE];
    redco_checkpoints all = {.world = world, .lock = -1};
    redco_checkpoint *c = NULL;
    uint32_t *const colours = calloc(redco_world_size(world), sizeof *colours);
    const int length = snprintf(path, sizeof path, "%s/%s", o->folder, UNFINISHED);
    redco_status st = REDCO_OK;
    if (colours == NULL || length < 0 || (size_t)length >= sizeof path - 64) {
        st = redco_fail(err, REDCO_EVALUE, o->folder, "is too long a name");
        goto out;
    }
    if ((st = redco_communicator_split(world, colours, "weights", &all.all, err)) != REDCO_OK) { goto out; }
    st = redcoi_catalogue_weights(o, states, path, &c, err);
    if (st == REDCO_OK && first) { st = begin(o, c, err); }
    if ((st = redcoi_agree(&all, st, "weights/begin", NULL, err)) != REDCO_OK) { goto out; }
    st = redcoi_save_part(states, c, 1, false, err);
    if ((st = redcoi_agree(&all, st, "weights/write", NULL, err)) != REDCO_OK) { goto out; }
    st = first ? commit(o, c, err) : REDCO_OK;
    st = redcoi_agree(&all, st, "weights/commit", NULL, err);
out:
    if (st != REDCO_OK && first && c != NULL) { remove_unfinished(c); }
    redco_checkpoint_free(c);
    redco_communicator_free(all.all);
    free(colours);
    return st;
}
