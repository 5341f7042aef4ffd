#include "tools/cli/measured_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

redco_status measured_check_gpus(const char *path, const redco_measured_run *rows, size_t count, redco_error *err)
{
    for (size_t i = 0; i < count; i++) {
        redco_gpu gpu;
        redco_error why = {.status = REDCO_OK};
        char place[512];
        if (i > 0 && strcmp(rows[i].gpu, rows[i - 1].gpu) == 0) { continue; }
        const redco_status st = redco_gpu_find(rows[i].gpu, &gpu, &why);
        if (st == REDCO_OK || st == REDCO_EVALUE) { continue; }
        (void)snprintf(place, sizeof place, "%.440s:%u", path, rows[i].line);
        return redco_fail(err, st, place, "gpu \"%.80s\": %s", rows[i].gpu, why.text);
    }
    return REDCO_OK;
}

static redco_status add_table(struct measured_files *files, const char *path, redco_error *err)
{
    redco_measured **const tables = realloc(files->tables, (files->table_count + 1) * sizeof(redco_measured *));
    if (tables == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    files->tables = tables;
    redco_status st = redco_measured_read(path, &files->tables[files->table_count], err);
    if (st != REDCO_OK) { return st; }
    const redco_measured_run *rows = NULL;
    const size_t count = redco_measured_runs(files->tables[files->table_count++], &rows);
    if (count == 0 || (st = measured_check_gpus(path, rows, count, err)) != REDCO_OK) { return st; }
    const redco_measured_run **const runs =
        realloc(files->runs, (files->count + count) * sizeof(const redco_measured_run *));
    if (runs == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    files->runs = runs;
    for (size_t i = 0; i < count; i++) { files->runs[files->count++] = &rows[i]; }
    return REDCO_OK;
}

static int is_table(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name);
    return length > 4 && strcmp(entry->d_name + length - 4, ".csv") == 0;
}

static redco_status add_folder(struct measured_files *files, const char *path, redco_error *err)
{
    struct dirent **entries = NULL;
    const int count = scandir(path, &entries, is_table, alphasort);
    redco_status st = REDCO_OK;
    if (count <= 0) { st = redco_fail(err, REDCO_EIO, path, count < 0 ? "cannot be read" : "has no .csv file"); }
    for (int i = 0; i < count; i++) {
        char name[4096];
        const int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
        if (st == REDCO_OK && (length < 0 || (size_t)length >= sizeof name)) {
            st = redco_fail(err, REDCO_EVALUE, path, "is too long a path");
        }
        if (st == REDCO_OK) { st = add_table(files, name, err); }
        free(entries[i]);
    }
    free(entries);
    return st;
}

redco_status measured_files_read(char *const *paths, size_t path_count, struct measured_files *files_out,
                                 redco_error *err)
{
    struct measured_files files = {.table_count = 0};
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < path_count && st == REDCO_OK; i++) {
        struct stat info;
        const bool folder = stat(paths[i], &info) == 0 && S_ISDIR(info.st_mode);
        st = folder ? add_folder(&files, paths[i], err) : add_table(&files, paths[i], err);
    }
    if (st == REDCO_OK) { st = redco_evaluations_create(files.runs, files.count, &files.evaluations, err); }
    if (st != REDCO_OK) {
        measured_files_free(&files);
        return st;
    }
    *files_out = files;
    return REDCO_OK;
}

void measured_files_free(struct measured_files *files)
{
    redco_evaluations_free(files->evaluations);
    for (size_t i = 0; i < files->table_count; i++) { redco_measured_free(files->tables[i]); }
    free(files->tables);
    free(files->runs);
    *files = (struct measured_files){.table_count = 0};
}

bool measured_has_speed(const struct measured_files *files, size_t index)
{
    const redco_measured_run *const run = files->runs[index];
    return redco_evaluations_skip(files->evaluations, index) == NULL && (run->use & REDCO_USE_SPEED) != 0 &&
           run->tokens_per_s_per_gpu > 0.0;
}

bool measured_may_fit(const struct measured_files *files, size_t index)
{
    const redco_measured_run *const run = files->runs[index];
    return measured_has_speed(files, index) && run->experts == 0 && (run->use & REDCO_USE_HELD_OUT) == 0;
}
