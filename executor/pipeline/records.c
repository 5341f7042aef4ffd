#include "executor/pipeline/records.h"

#include "executor/data/record_file.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct redco_records {
    redco_record_file *file;
    const redco_user_pipeline_file *pipeline;
    uint64_t *good;  /* numbers in the file of records that are not bad */
    double *weights; /* theirs; NULL: they count alike */
    uint64_t count, skipped;
    redco_task task; /* task of one example */
    bool borrows;    /* file and numbers are of other records */
};

static redco_status no_memory(const char *path, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, path, "no memory to read it");
}

static uint64_t bytes_of(const redco_task_input *input, uint64_t examples)
{
    uint64_t elements = examples;
    for (uint32_t d = 1; d < input->type.rank; d++) { elements *= input->type.dim[d]; }
    return elements * redco_dtype_bytes(input->type.dtype);
}

/* Lets collate() take it, alone. */
static redco_status try(const redco_records *r, uint64_t index, void *const *data, double *weight_out, redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    char place[REDCO_RECORD_PLACE_BYTES];
    json_t *object = NULL;
    redco_status st = redco_record_file_get(r->file, index, &object, err);
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < r->task.input_count; i++) {
        assert(data[i] != NULL);
        memset(data[i], 0, bytes_of(&r->task.inputs[i], 1));
    }
    st = redco_user_pipeline_of(r->pipeline)->collate((const json_t *const *)&object, 1, data, &own);
    const redco_user_pipeline *const table = redco_user_pipeline_of(r->pipeline);
    if (st == REDCO_OK && table->weight != NULL) { *weight_out = table->weight(object); }
    json_decref(object);
    (void)redco_record_file_place(r->file, index, place);
    if (st == REDCO_OK && !(*weight_out >= 0.0 && *weight_out < HUGE_VAL)) {
        return redco_fail(err, REDCO_EVALUE, place, "weight() gave %g; numbers from 0 on are right", *weight_out);
    }
    if (st == REDCO_OK) { return REDCO_OK; }
    if (own.text[0] == '\0') {
        return redco_fail(err, REDCO_EVALUE, place, "collate() refuses it and does not say why");
    }
    const bool keyed = own.place[0] != '\0'; /* the place that it gave is a key of the example */
    return redco_fail(err, REDCO_EVALUE, place, "%s%.100s%s%s", keyed ? "\"" : "", own.place, keyed ? "\" " : "",
                      own.text);
}

static redco_status try_all(redco_records *r, bool skip_bad, void *const *data, redco_error *err)
{
    const uint64_t count = redco_record_file_count(r->file);
    r->good = calloc(count + 1, sizeof *r->good);
    if (redco_user_pipeline_of(r->pipeline)->weight != NULL) { r->weights = calloc(count + 1, sizeof *r->weights); }
    if (r->good == NULL || (redco_user_pipeline_of(r->pipeline)->weight != NULL && r->weights == NULL)) {
        return no_memory(redco_record_file_path(r->file), err);
    }
    for (uint64_t i = 0; i < count; i++) {
        redco_error own = {.status = REDCO_OK};
        double weight = 1.0;
        const redco_status st = try(r, i, data, &weight, &own);
        if (st == REDCO_OK) {
            if (r->weights != NULL) { r->weights[r->count] = weight; }
            r->good[r->count++] = i;
        } else if (st == REDCO_EVALUE && skip_bad) {
            r->skipped++;
        } else {
            return redco_fail(err, own.status, own.place, "%s", own.text);
        }
    }
    return REDCO_OK;
}

redco_status redco_records_open(const char *path, const redco_user_pipeline_file *pipeline, bool skip_bad,
                                redco_records **records_out, redco_error *err)
{
    redco_records *r = calloc(1, sizeof *r);
    void **data = NULL;
    if (r == NULL) { return no_memory(path, err); }
    r->pipeline = pipeline;
    redco_status st = redco_user_pipeline_task(pipeline, 1, &r->task, err);
    data = calloc(r->task.input_count + 1, sizeof(void *));
    if (st == REDCO_OK && data == NULL) { st = no_memory(path, err); }
    for (size_t i = 0; i < r->task.input_count && st == REDCO_OK; i++) {
        if ((data[i] = malloc(bytes_of(&r->task.inputs[i], 1))) == NULL) { st = no_memory(path, err); }
    }
    if (st == REDCO_OK) { st = redco_record_file_open(path, false, &r->file, err); }
    if (st == REDCO_OK) { st = try_all(r, skip_bad, data, err); }
    if (st == REDCO_OK && r->count == 0) {
        st = redco_fail(err, REDCO_EVALUE, path, "has no example%s", r->skipped > 0 ? " that is not bad" : "");
    }
    for (size_t i = 0; data != NULL && i < r->task.input_count; i++) { free(data[i]); }
    free((void *)data);
    if (st == REDCO_OK) {
        *records_out = r;
        r = NULL;
    }
    redco_records_close(r);
    return st;
}

redco_status redco_records_begin(const redco_records *records, uint64_t count, redco_records **records_out,
                                 redco_error *err)
{
    redco_records *const r = calloc(1, sizeof *r);
    if (r == NULL) { return no_memory(redco_record_file_path(records->file), err); }
    *r = *records;
    r->borrows = true;
    if (r->count > count) { r->count = count; }
    *records_out = r;
    return REDCO_OK;
}

void redco_records_close(redco_records *r)
{
    if (r == NULL) { return; }
    if (!r->borrows) {
        redco_record_file_close(r->file);
        redco_user_pipeline_task_free(&r->task);
        free(r->good);
        free(r->weights);
    }
    free(r);
}

uint64_t redco_records_count(const redco_records *r)
{
    return r->count;
}

double redco_records_weight(const redco_records *r, uint64_t index)
{
    return r->weights != NULL ? r->weights[index] : 1.0;
}

uint64_t redco_records_skipped(const redco_records *r)
{
    return r->skipped;
}

json_t *redco_records_get(const redco_records *r, uint64_t index)
{
    json_t *record = NULL;
    return redco_record_file_get(r->file, r->good[index], &record, NULL) == REDCO_OK ? record : NULL;
}

redco_status redco_records_collate(const redco_records *r, const uint64_t *records_of, uint32_t count,
                                   void *const *data, redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    json_t **const examples = calloc((size_t)count + 1, sizeof *examples);
    char place[REDCO_RECORD_PLACE_BYTES];
    redco_status st = examples != NULL ? REDCO_OK : no_memory(redco_record_file_path(r->file), err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_record_file_get(r->file, r->good[records_of[i]], &examples[i], err);
    }
    for (size_t i = 0; i < r->task.input_count; i++) { memset(data[i], 0, bytes_of(&r->task.inputs[i], count)); }
    if (st == REDCO_OK) {
        st = redco_user_pipeline_of(r->pipeline)->collate((const json_t *const *)examples, count, data, &own);
        if (st != REDCO_OK) {
            (void)redco_record_file_place(r->file, r->good[records_of[0]], place);
            st = redco_fail(err, REDCO_EVALUE, place, "and the %u examples beside it: %s", count - 1,
                            own.text[0] != '\0' ? own.text : "collate() refuses them and does not say why");
        }
    }
    for (uint32_t i = 0; i < count && examples != NULL; i++) { json_decref(examples[i]); }
    free((void *)examples);
    return st;
}
