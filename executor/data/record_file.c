#include "executor/data/record_file.h"

#include "executor/data/mapped_file.h"
#include "executor/data/npy.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { COLUMNS_MAX = 256 };

struct column {
    char *key;
    redco_mapped_file file;
    redco_npy array;
};

struct redco_record_file {
    char *path;
    redco_mapped_file file; /* mapped here; of text that is borrowed all zero */
    const char *text;
    size_t size;
    uint64_t *begins, *numbers; /* where lines that are not blank begin, and their numbers */
    uint64_t count, room;
    struct column *columns; /* a folder's; NULL of lines */
    uint32_t column_count;
    bool zeros;
};

static redco_status no_memory(const char *path, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, path, "no memory to read it");
}

static bool add_line(redco_record_file *f, uint64_t begin, uint64_t number)
{
    if (f->count == f->room) {
        const uint64_t room = 2 * f->room + 1024;
        uint64_t *const begins = realloc(f->begins, room * sizeof *begins);
        if (begins != NULL) { f->begins = begins; }
        uint64_t *const numbers = realloc(f->numbers, room * sizeof *numbers);
        if (numbers != NULL) { f->numbers = numbers; }
        if (begins == NULL || numbers == NULL) { return false; }
        f->room = room;
    }
    f->begins[f->count] = begin;
    f->numbers[f->count++] = number;
    return true;
}

static size_t line_length(const redco_record_file *f, uint64_t begin)
{
    const char *const end = memchr(f->text + begin, '\n', f->size - begin);
    return end != NULL ? (size_t)(end - f->text) - begin : f->size - begin;
}

static bool blank(const char *text, size_t size)
{
    while (size > 0 && (*text == ' ' || *text == '\t' || *text == '\r')) {
        text++;
        size--;
    }
    return size == 0;
}

static redco_status find_lines(redco_record_file *f, redco_error *err)
{
    uint64_t number = 0;
    for (uint64_t at = 0; at < f->size;) {
        const size_t length = line_length(f, at);
        number++;
        if (!blank(f->text + at, length) && !add_line(f, at, number)) { return no_memory(f->path, err); }
        at += length + 1;
    }
    return REDCO_OK;
}

static redco_status open_column(const char *folder, const char *name, size_t key_length, struct column *c,
                                redco_error *err)
{
    const size_t room = strlen(folder) + strlen(name) + 2;
    char *const path = malloc(room);
    c->key = strndup(name, key_length);
    if (path == NULL || c->key == NULL) {
        free(path);
        return no_memory(folder, err);
    }
    (void)snprintf(path, room, "%s/%s", folder, name);
    redco_status st = redco_mapped_file_open(path, &c->file, err);
    if (st == REDCO_OK) { st = redco_npy_parse(c->file.bytes, c->file.size, path, &c->array, err); }
    if (st == REDCO_OK && c->array.rank == 0) {
        st = redco_fail(err, REDCO_EVALUE, path, "is one number; a row for each record is needed");
    }
    free(path);
    return st;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct column *)a)->key, ((const struct column *)b)->key);
}

static redco_status open_columns(redco_record_file *f, DIR *folder, redco_error *err)
{
    static const char ending[] = ".npy";
    redco_status st = REDCO_OK;
    f->columns = calloc(COLUMNS_MAX, sizeof *f->columns);
    if (f->columns == NULL) { return no_memory(f->path, err); }
    for (const struct dirent *entry = readdir(folder); entry != NULL && st == REDCO_OK; entry = readdir(folder)) {
        const size_t length = strlen(entry->d_name), tail = sizeof ending - 1;
        if (length <= tail || strcmp(entry->d_name + length - tail, ending) != 0) { continue; }
        if (f->column_count == COLUMNS_MAX) {
            return redco_fail(err, REDCO_EVALUE, f->path, "has more than %d arrays", COLUMNS_MAX);
        }
        st = open_column(f->path, entry->d_name, length - tail, &f->columns[f->column_count++], err);
    }
    if (st == REDCO_OK && f->column_count == 0) {
        st = redco_fail(err, REDCO_EVALUE, f->path, "has no KEY.npy: a folder of data has one for each key");
    }
    if (st != REDCO_OK) { return st; }
    qsort(f->columns, f->column_count, sizeof *f->columns, by_key);
    f->count = f->columns[0].array.dim[0];
    for (uint32_t i = 1; i < f->column_count; i++) {
        if (f->columns[i].array.dim[0] == f->count) { continue; }
        return redco_fail(err, REDCO_EVALUE, f->path, "%s.npy has %llu rows, %s.npy %llu; they must have as many",
                          f->columns[i].key, (unsigned long long)f->columns[i].array.dim[0], f->columns[0].key,
                          (unsigned long long)f->count);
    }
    return REDCO_OK;
}

static redco_status open_folder(const char *path, DIR *folder, redco_record_file **file_out, redco_error *err)
{
    redco_record_file *f = calloc(1, sizeof *f);
    if (f == NULL) { return no_memory(path, err); }
    f->path = strdup(path);
    const redco_status st = f->path != NULL ? open_columns(f, folder, err) : no_memory(path, err);
    if (st == REDCO_OK) {
        *file_out = f;
        f = NULL;
    }
    redco_record_file_close(f);
    return st;
}

redco_status redco_record_file_open(const char *path, bool zeros, redco_record_file **file_out, redco_error *err)
{
    redco_mapped_file file = {.bytes = NULL};
    DIR *const folder = opendir(path);
    if (folder != NULL) {
        const redco_status st = open_folder(path, folder, file_out, err);
        (void)closedir(folder);
        return st;
    }
    redco_status st = redco_mapped_file_open(path, &file, err);
    if (st != REDCO_OK) { return st; }
    st = redco_record_file_parse((const char *)file.bytes, file.size, path, zeros, file_out, err);
    if (st == REDCO_OK) {
        (*file_out)->file = file;
    } else {
        redco_mapped_file_close(&file);
    }
    return st;
}

redco_status redco_record_file_parse(const char *text, size_t size, const char *name, bool zeros,
                                     redco_record_file **file_out, redco_error *err)
{
    redco_record_file *f = calloc(1, sizeof *f);
    if (f == NULL) { return no_memory(name, err); }
    f->path = strdup(name);
    f->zeros = zeros;
    f->text = text;
    f->size = size;
    const redco_status st = f->path != NULL ? find_lines(f, err) : no_memory(name, err);
    if (st == REDCO_OK) {
        *file_out = f;
        f = NULL;
    }
    redco_record_file_close(f);
    return st;
}

void redco_record_file_close(redco_record_file *f)
{
    if (f == NULL) { return; }
    for (uint32_t i = 0; i < f->column_count; i++) {
        redco_mapped_file_close(&f->columns[i].file);
        free(f->columns[i].key);
    }
    redco_mapped_file_close(&f->file);
    free(f->columns);
    free(f->begins);
    free(f->numbers);
    free(f->path);
    free(f);
}

uint64_t redco_record_file_count(const redco_record_file *f)
{
    return f->count;
}

const char *redco_record_file_path(const redco_record_file *f)
{
    return f->path;
}

const char *redco_record_file_place(const redco_record_file *f, uint64_t index, char place[REDCO_RECORD_PLACE_BYTES])
{
    const bool rows = f->columns != NULL;
    (void)snprintf(place, REDCO_RECORD_PLACE_BYTES, "%.440s%s%llu", f->path, rows ? ", row " : ":",
                   (unsigned long long)(rows ? index : f->numbers[index]));
    return place;
}

static redco_status get_row(const redco_record_file *f, uint64_t index, json_t **record_out, redco_error *err)
{
    char place[REDCO_RECORD_PLACE_BYTES];
    for (uint32_t i = 0; i < f->column_count; i++) {
        const redco_status st = redco_mapped_file_whole(&f->columns[i].file, f->path, err);
        if (st != REDCO_OK) { return st; }
    }
    json_t *const record = json_object();
    for (uint32_t i = 0; i < f->column_count; i++) {
        if (json_object_set_new(record, f->columns[i].key, redco_npy_row(&f->columns[i].array, index)) == 0) {
            continue;
        }
        json_decref(record);
        return redco_fail(err, REDCO_EVALUE, redco_record_file_place(f, index, place),
                          "%s.npy has what is no number there", f->columns[i].key);
    }
    *record_out = record;
    return REDCO_OK;
}

redco_status redco_record_file_get(const redco_record_file *f, uint64_t index, json_t **record_out, redco_error *err)
{
    char place[REDCO_RECORD_PLACE_BYTES];
    json_error_t error;
    if (f->columns != NULL) { return get_row(f, index, record_out, err); }
    const redco_status whole = redco_mapped_file_whole(&f->file, f->path, err);
    if (whole != REDCO_OK) { return whole; }
    const uint64_t begin = f->begins[index];
    json_t *const record =
        json_loadb(f->text + begin, line_length(f, begin),
                   JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | (f->zeros ? JSON_ALLOW_NUL : 0), &error);
    if (record != NULL && json_is_object(record)) {
        *record_out = record;
        return REDCO_OK;
    }
    (void)redco_record_file_place(f, index, place);
    const redco_status st = record == NULL
                                ? redco_fail(err, REDCO_EVALUE, place, "column %d: %s", error.column, error.text)
                                : redco_fail(err, REDCO_EVALUE, place, "is no object");
    json_decref(record);
    return st;
}
