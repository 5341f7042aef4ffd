#include "executor/pipeline/records.h"

#include "executor/data/record_file.h"
#include "executor/pipeline/index_checks.h"
#include "executor/pipeline/user_pipeline_calls.h"

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
    redcoi_index_checks *checks;
    bool borrows; /* file and numbers are of other records */
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

/* Behind each array of one example, to see a collate() that writes there. */
enum { GUARD_BYTES = 64, GUARD = 0xa5 };

/* @return REDCO_EVALUE if something is written behind an array of @p count examples */
static redco_status check_guards(const redco_records *r, void *const *data, uint32_t count, redco_error *err)
{
    for (size_t i = 0; i < r->task.input_count; i++) {
        const redco_task_input *const input = &r->task.inputs[i];
        const uint64_t bytes = bytes_of(input, count);
        const unsigned char *const guard = (const unsigned char *)data[i] + bytes;
        for (size_t k = 0; k < GUARD_BYTES; k++) {
            if (guard[k] == GUARD) { continue; }
            return redco_fail(
                err, REDCO_EVALUE, "",
                "collate() writes behind the %llu numbers that data[%zu], \"%.80s\", has for %u example%s",
                (unsigned long long)(bytes / redco_dtype_bytes(input->type.dtype)), i, input->name, count,
                count == 1 ? "" : "s");
        }
    }
    return REDCO_OK;
}

/* Lets collate() take examples, into arrays with guards. @param err  without the place of an example */
static redco_status collate_guarded(const redco_records *r, json_t *const *examples, uint32_t count, void *const *data,
                                    redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    for (size_t i = 0; i < r->task.input_count; i++) {
        const uint64_t bytes = bytes_of(&r->task.inputs[i], count);
        assert(data[i] != NULL);
        memset(data[i], 0, bytes);
        memset((unsigned char *)data[i] + bytes, GUARD, GUARD_BYTES);
    }
    const redco_status st =
        redco_user_pipeline_collate(r->pipeline, (const json_t *const *)examples, count, data, &own);
    if (st == REDCO_OK) { return check_guards(r, data, count, err); }
    if (own.text[0] == '\0') { return redco_fail(err, st, "", "collate() refuses it and does not say why"); }
    const bool keyed = own.place[0] != '\0'; /* the place that it gave is a key of the example */
    return redco_fail(err, st, "", "%s%.100s%s%s", keyed ? "\"" : "", own.place, keyed ? "\" " : "", own.text);
}

/* Lets collate() take it, alone. */
static redco_status try(const redco_records *r, uint64_t index, bool predicted, void *const *data, double *weight_out,
                        redco_error *err)
{
    const redco_user_pipeline *const table = redco_user_pipeline_of(r->pipeline);
    redco_error own = {.status = REDCO_OK};
    char place[REDCO_RECORD_PLACE_BYTES];
    json_t *object = NULL;
    redco_status st = redco_record_file_get(r->file, index, &object, err);
    if (st != REDCO_OK) { return st; }
    uint32_t bad = 0;
    st = collate_guarded(r, &object, 1, data, &own);
    if (st == REDCO_OK) { st = redcoi_index_checks_run(r->checks, data, 1, &bad, &own); }
    const char *const missing = predicted ? NULL : redco_user_pipeline_missing(r->pipeline, object);
    if (st == REDCO_OK && missing != NULL) {
        st = redco_fail(&own, REDCO_EVALUE, "", "\"%.100s\" is missing, which is what is learned", missing);
    }
    if (st == REDCO_OK && table->weight != NULL) { *weight_out = redco_user_pipeline_weigh(r->pipeline, object); }
    json_decref(object);
    (void)redco_record_file_place(r->file, index, place);
    if (st == REDCO_OK && !(*weight_out >= 0.0 && *weight_out < HUGE_VAL)) {
        return redco_fail(err, REDCO_EVALUE, place, "weight() gave %g; numbers from 0 on are right", *weight_out);
    }
    return st == REDCO_OK ? REDCO_OK : redco_fail(err, REDCO_EVALUE, place, "%s", own.text);
}

static redco_status try_all(redco_records *r, redco_records_options options, void *const *data, redco_error *err)
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
        const redco_status st = try(r, i, options.predicted, data, &weight, &own);
        if (st == REDCO_OK) {
            if (r->weights != NULL) { r->weights[r->count] = weight; }
            r->good[r->count++] = i;
        } else if (st == REDCO_EVALUE && options.skip_bad) {
            r->skipped++;
        } else {
            return redco_fail(err, own.status, own.place, "%s", own.text);
        }
    }
    return REDCO_OK;
}

/* Examples stand behind one another: what a batch of two says of the second is what it says of it alone.
 *  @param data  arrays of two examples with guards: what collate() makes of both, and of the second alone */
static redco_status try_two(const redco_records *r, void *const *both, void *const *alone, redco_error *err)
{
    json_t *examples[2] = {NULL, NULL};
    char place[REDCO_RECORD_PLACE_BYTES];
    redco_error own = {.status = REDCO_OK};
    redco_status st = redco_record_file_get(r->file, r->good[0], &examples[0], err);
    if (st == REDCO_OK) { st = redco_record_file_get(r->file, r->good[1], &examples[1], err); }
    if (st == REDCO_OK) {
        st = collate_guarded(r, examples, 2, both, &own);
        if (st == REDCO_OK) { st = collate_guarded(r, examples + 1, 1, alone, &own); }
        for (size_t i = 0; i < r->task.input_count && st == REDCO_OK; i++) {
            const uint64_t bytes = bytes_of(&r->task.inputs[i], 1);
            if (memcmp((const char *)both[i] + bytes, alone[i], bytes) == 0) { continue; }
            st =
                redco_fail(&own, REDCO_EVALUE, "",
                           "collate() puts other numbers into data[%zu], \"%.80s\", for this example alone than behind "
                           "another one: where are those of example i?",
                           i, r->task.inputs[i].name);
        }
        (void)redco_record_file_place(r->file, r->good[1], place);
        if (st != REDCO_OK) { st = redco_fail(err, REDCO_EVALUE, place, "%s", own.text); }
    }
    json_decref(examples[0]);
    json_decref(examples[1]);
    return st;
}

static void free_arrays(void **data, size_t count)
{
    for (size_t i = 0; data != NULL && i < count; i++) { free(data[i]); }
    free((void *)data);
}

/* Arrays of up to @p examples with guards, by input; NULL when out of memory. */
static void **take_arrays(const redco_records *r, uint32_t examples)
{
    void **const data = calloc(r->task.input_count + 1, sizeof(void *));
    for (size_t i = 0; i < r->task.input_count && data != NULL; i++) {
        if ((data[i] = malloc(bytes_of(&r->task.inputs[i], examples) + GUARD_BYTES)) != NULL) { continue; }
        free_arrays(data, i);
        return NULL;
    }
    return data;
}

redco_status redco_records_open(const char *path, const redco_user_pipeline_file *pipeline,
                                redco_records_options options, redco_records **records_out, redco_error *err)
{
    redco_records *r = calloc(1, sizeof *r);
    void **data = NULL, **both = NULL;
    if (r == NULL) { return no_memory(path, err); }
    r->pipeline = pipeline;
    redco_status st = redco_user_pipeline_task(pipeline, 1, &r->task, err);
    if (st == REDCO_OK && ((data = take_arrays(r, 1)) == NULL || (both = take_arrays(r, 2)) == NULL)) {
        st = no_memory(path, err);
    }
    if (st == REDCO_OK) { st = redco_record_file_open(path, false, &r->file, err); }
    if (st == REDCO_OK) { st = redcoi_index_checks_create(pipeline, options.predicted, &r->checks, err); }
    if (st == REDCO_OK) { st = try_all(r, options, data, err); }
    if (st == REDCO_OK && r->count > 1) { st = try_two(r, both, data, err); }
    if (st == REDCO_OK && r->count == 0) {
        st = redco_fail(err, REDCO_EVALUE, path, "has no example%s", r->skipped > 0 ? " that is not bad" : "");
    }
    free_arrays(data, r->task.input_count);
    free_arrays(both, r->task.input_count);
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
        redcoi_index_checks_free(r->checks);
        redco_user_pipeline_task_free(&r->task);
        free(r->good);
        free(r->weights);
    }
    free(r);
}

const redco_user_pipeline_file *redco_records_pipeline(const redco_records *r)
{
    return r->pipeline;
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
        st = redco_user_pipeline_collate(r->pipeline, (const json_t *const *)examples, count, data, &own);
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
