#include "executor/pipeline/records.h"

#include "executor/data/tokens.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_BYTES = 480 };

struct redco_records {
    char *path;
    const redco_user_pipeline_file *pipeline;
    json_t **list;
    uint64_t *lines;
    uint64_t count, room, skipped;
    redco_task task; /* task of one example */
};

static redco_status no_memory(const char *path, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, path, "no memory to read it");
}

static void place_of(const redco_records *r, uint64_t line, char place[PLACE_BYTES])
{
    (void)snprintf(place, PLACE_BYTES, "%.440s:%llu", r->path, (unsigned long long)line);
}

static uint64_t bytes_of(const redco_task_input *input, uint64_t examples)
{
    uint64_t elements = examples;
    for (uint32_t d = 1; d < input->type.rank; d++) { elements *= input->type.dim[d]; }
    return elements * redco_dtype_bytes(input->type.dtype);
}

static redco_status add(redco_records *r, json_t *object, uint64_t line, redco_error *err)
{
    if (r->count == r->room) {
        const uint64_t room = 2 * r->room + 64;
        json_t **const list = realloc((void *)r->list, room * sizeof *list);
        if (list != NULL) { r->list = list; }
        uint64_t *const lines = realloc(r->lines, room * sizeof *lines);
        if (lines != NULL) { r->lines = lines; }
        if (list == NULL || lines == NULL) { return no_memory(r->path, err); }
        r->room = room;
    }
    r->lines[r->count] = line;
    r->list[r->count++] = json_incref(object);
    return REDCO_OK;
}

/* @return whether collate() takes it, alone. */
static redco_status try(const redco_records *r, const json_t *object, void *const *data, uint64_t line,
                        redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    char place[PLACE_BYTES];
    for (size_t i = 0; i < r->task.input_count; i++) { memset(data[i], 0, bytes_of(&r->task.inputs[i], 1)); }
    const redco_status st = redco_user_pipeline_of(r->pipeline)->collate(&object, 1, data, &own);
    if (st == REDCO_OK) { return REDCO_OK; }
    place_of(r, line, place);
    return redco_fail(err, REDCO_EVALUE, place, "%s",
                      own.text[0] != '\0' ? own.text : "collate() refuses it and does not say why");
}

static redco_status read_line(redco_records *r, const char *text, size_t size, uint64_t line, void *const *data,
                              redco_error *err)
{
    json_error_t error;
    char place[PLACE_BYTES];
    json_t *const object = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    redco_status st = REDCO_OK;
    place_of(r, line, place);
    if (object == NULL) {
        st = redco_fail(err, REDCO_EVALUE, place, "column %d: %s", error.column, error.text);
    } else if (!json_is_object(object)) {
        st = redco_fail(err, REDCO_EVALUE, place, "is no object");
    } else {
        st = try(r, object, data, line, err);
    }
    if (st == REDCO_OK) { st = add(r, object, line, err); }
    json_decref(object);
    return st;
}

static bool blank(const char *text, size_t size)
{
    return strspn(text, " \t\r\n") >= size;
}

static redco_status read_lines(redco_records *r, FILE *file, bool skip_bad, void *const *data, redco_error *err)
{
    char *text = NULL;
    size_t room = 0;
    redco_status st = REDCO_OK;
    ssize_t size = 0;
    for (uint64_t line = 1; st == REDCO_OK && (size = getline(&text, &room, file)) >= 0; line++) {
        redco_error own = {.status = REDCO_OK};
        if (blank(text, (size_t)size)) { continue; }
        st = read_line(r, text, (size_t)size, line, data, &own);
        if (st == REDCO_EVALUE && skip_bad) {
            r->skipped++;
            st = REDCO_OK;
        } else if (st != REDCO_OK) {
            (void)redco_fail(err, own.status, own.place, "%s", own.text);
        }
    }
    if (st == REDCO_OK && ferror(file)) {
        st = redco_fail(err, REDCO_EIO, r->path, "cannot read: %s", strerror(errno));
    }
    free(text);
    return st;
}

redco_status redco_records_create(const redco_user_pipeline_file *pipeline, const char *name,
                                  redco_records **records_out, redco_error *err)
{
    redco_records *r = calloc(1, sizeof *r);
    if (r == NULL) { return no_memory(name, err); }
    r->path = strdup(name);
    r->pipeline = pipeline;
    redco_status st = redco_user_pipeline_task(pipeline, 1, &r->task, err);
    if (st == REDCO_OK && r->path == NULL) { st = no_memory(name, err); }
    if (st == REDCO_OK) {
        *records_out = r;
        r = NULL;
    }
    redco_records_close(r);
    return st;
}

redco_status redco_records_add(redco_records *r, json_t *example, redco_error *err)
{
    if (!json_is_object(example)) { return redco_fail(err, REDCO_EVALUE, r->path, "an example is no object"); }
    return add(r, example, r->count + 1, err);
}

redco_status redco_records_open(const char *path, const redco_user_pipeline_file *pipeline, bool skip_bad,
                                redco_records **records_out, redco_error *err)
{
    redco_records *r = calloc(1, sizeof *r);
    void **data = NULL;
    FILE *file = NULL;
    if (r == NULL) { return no_memory(path, err); }
    r->path = strdup(path);
    r->pipeline = pipeline;
    redco_status st = redco_user_pipeline_task(pipeline, 1, &r->task, err);
    data = calloc(r->task.input_count + 1, sizeof(void *));
    if (st == REDCO_OK && (r->path == NULL || data == NULL)) { st = no_memory(path, err); }
    for (size_t i = 0; i < r->task.input_count && st == REDCO_OK; i++) {
        if ((data[i] = malloc(bytes_of(&r->task.inputs[i], 1))) == NULL) { st = no_memory(path, err); }
    }
    if (st == REDCO_OK && (file = fopen(path, "re")) == NULL) {
        st = redco_fail(err, REDCO_EIO, path, "cannot open: %s", strerror(errno));
    }
    if (st == REDCO_OK) { st = read_lines(r, file, skip_bad, data, err); }
    if (st == REDCO_OK && r->count == 0) {
        st = redco_fail(err, REDCO_EVALUE, path, "has no example%s", r->skipped > 0 ? " that is not bad" : "");
    }
    if (file != NULL) { (void)fclose(file); }
    for (size_t i = 0; data != NULL && i < r->task.input_count; i++) { free(data[i]); }
    free((void *)data);
    if (st == REDCO_OK) {
        *records_out = r;
        r = NULL;
    }
    redco_records_close(r);
    return st;
}

void redco_records_close(redco_records *r)
{
    if (r == NULL) { return; }
    for (uint64_t i = 0; i < r->count; i++) { json_decref(r->list[i]); }
    redco_user_pipeline_task_free(&r->task);
    free((void *)r->list);
    free(r->lines);
    free(r->path);
    free(r);
}

uint64_t redco_records_count(const redco_records *r)
{
    return r->count;
}

uint64_t redco_records_skipped(const redco_records *r)
{
    return r->skipped;
}

const json_t *redco_records_get(const redco_records *r, uint64_t index)
{
    return r->list[index];
}

uint64_t redco_records_shuffled(const redco_records *r, uint64_t seed, uint64_t number)
{
    return redco_tokens_order(seed, r->count, number / r->count, number % r->count);
}

redco_status redco_records_collate(const redco_records *r, const uint64_t *records_of, uint32_t count,
                                   void *const *data, redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    const json_t **const examples = calloc(count, sizeof *examples);
    char place[PLACE_BYTES];
    if (examples == NULL) { return no_memory(r->path, err); }
    for (uint32_t i = 0; i < count; i++) { examples[i] = r->list[records_of[i]]; }
    for (size_t i = 0; i < r->task.input_count; i++) { memset(data[i], 0, bytes_of(&r->task.inputs[i], count)); }
    redco_status st = redco_user_pipeline_of(r->pipeline)->collate(examples, count, data, &own);
    if (st != REDCO_OK) {
        place_of(r, r->lines[records_of[0]], place);
        st = redco_fail(err, REDCO_EVALUE, place, "and the %u examples beside it: %s", count - 1,
                        own.text[0] != '\0' ? own.text : "collate() refuses them and does not say why");
    }
    free((void *)examples);
    return st;
}
