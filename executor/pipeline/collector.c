#include "executor/pipeline/collector_internal.h"

#include "executor/data/tokens.h"
#include "executor/pipeline/user_pipeline_calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void forget(redco_user_collector *c)
{
    for (uint64_t i = 0; i < c->count; i++) { json_decref(c->examples[i]); }
    c->count = 0;
}

static redco_status no_memory(const char *name, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, name, "no memory to collect examples");
}

redco_status redco_collector_create(const redco_user_pipeline_file *file, uint64_t seed, uint64_t global_batch,
                                    redco_user_collector **collector_out, redco_error *err)
{
    const redco_user_pipeline *const table = redco_user_pipeline_of(file);
    redco_user_collector *const c = calloc(1, sizeof *c);
    if (c == NULL) { return no_memory(table->name, err); }
    c->file = file;
    c->name = table->name;
    c->seed = seed;
    c->run = (redco_user_run){.global_batch = global_batch};
    if (table->state_bytes > 0 && (c->run.state = calloc(1, table->state_bytes)) == NULL) {
        free(c);
        return no_memory(table->name, err);
    }
    const redco_status st = redcoi_index_checks_create(file, false, &c->checks, err);
    if (st != REDCO_OK) {
        redco_collector_free(c);
        return st;
    }
    *collector_out = c;
    return REDCO_OK;
}

void redco_collector_free(redco_user_collector *c)
{
    if (c == NULL) { return; }
    forget(c);
    free((void *)c->examples);
    redcoi_index_checks_free(c->checks);
    free(c->run.state);
    free(c);
}

bool redco_collector_due(const redco_user_collector *c, uint64_t step)
{
    return redco_user_pipeline_of(c->file)->collect != NULL &&
           (c->count == 0 || step < c->first_step || step - c->first_step >= c->period);
}

/* Whole steps of the examples that there are. */
static redco_status count_steps(redco_user_collector *c, redco_error *err)
{
    const uint32_t epochs = redco_user_pipeline_of(c->file)->collect_epochs;
    const uint64_t count = c->count, all = count * (epochs > 0 ? epochs : 1);
    if (count == 0) { return redco_fail(err, REDCO_EVALUE, c->name, "collect() added no example"); }
    if (all % c->run.global_batch != 0) {
        return redco_fail(err, REDCO_EVALUE, c->name,
                          "collect() added %llu examples; %u times these are no whole number of steps of %llu",
                          (unsigned long long)count, epochs > 0 ? epochs : 1, (unsigned long long)c->run.global_batch);
    }
    c->period = all / c->run.global_batch;
    return REDCO_OK;
}

redco_status redco_collector_collect(redco_user_collector *c, uint64_t step, redco_collector_predict predict,
                                     void *context, redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    forget(c);
    c->error = (redco_error){.status = REDCO_OK};
    c->first_step = c->run.steps = step;
    c->drawn = c->predicted = 0;
    c->predict = predict;
    c->context = context;
    const redco_status st = redco_user_pipeline_collect(c->file, c, &own);
    c->predict = NULL;
    if (c->error.status != REDCO_OK) { return redco_fail(err, c->error.status, c->error.place, "%s", c->error.text); }
    if (st != REDCO_OK) {
        return redco_fail(err, REDCO_EVALUE, c->name, "%s",
                          own.text[0] != '\0' ? own.text : "collect() fails and does not say why");
    }
    return count_steps(c, err);
}

uint64_t redco_collector_digest(const redco_user_collector *c)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (uint64_t i = 0; i < c->count; i++) {
        char *const text = json_dumps(c->examples[i], JSON_COMPACT | JSON_REAL_PRECISION(17));
        for (const char *at = text; at != NULL && *at != '\0'; at++) {
            hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
        }
        free(text);
    }
    return hash;
}

redco_status redco_collector_batch(const redco_user_collector *c, uint64_t first, uint32_t count, void *const *data,
                                   redco_error *err)
{
    redco_error own = {.status = REDCO_OK};
    redco_task task = {.name = NULL};
    const json_t **const examples = (const json_t **)calloc(count, sizeof *examples);
    if (examples == NULL) { return no_memory(c->name, err); }
    redco_status st = redco_user_pipeline_task(c->file, count, &task, err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const uint64_t number = first - c->first_step * c->run.global_batch + i;
        const uint64_t epoch = number / c->count, place = number % c->count;
        examples[i] = c->examples[redco_tokens_order(c->seed + c->first_step, c->count, epoch, place)];
    }
    for (size_t i = 0; i < task.input_count; i++) { memset(data[i], 0, redco_type_bytes(&task.inputs[i].type)); }
    if (st == REDCO_OK && redco_user_pipeline_collate(c->file, examples, count, data, &own) != REDCO_OK) {
        st = redco_fail(err, REDCO_EVALUE, c->name, "collate() refuses what collect() added: %s",
                        own.text[0] != '\0' ? own.text : "it does not say why");
    }
    uint32_t bad = 0;
    if (st == REDCO_OK && (st = redcoi_index_checks_run(c->checks, data, count, &bad, &own)) != REDCO_OK) {
        char *const text = json_dumps(examples[bad], JSON_COMPACT);
        st = redco_fail(err, st, c->name, "collect() added %.200s: %s", text != NULL ? text : "an example", own.text);
        free(text);
    }
    redco_user_pipeline_task_free(&task);
    free((void *)examples);
    return st;
}

json_t *redco_collector_report(redco_user_collector *c, uint64_t steps)
{
    c->run.steps = steps;
    return redco_user_pipeline_report(c->file, &c->run);
}

/* The calls of collect() */

json_t *redco_collector_save(const redco_user_collector *c)
{
    static const char digits[] = "0123456789abcdef";
    const uint64_t bytes = redco_user_pipeline_of(c->file)->state_bytes;
    const unsigned char *const state = c->run.state;
    char *const text = malloc(2 * bytes + 1);
    json_t *const examples = json_array();
    if (text == NULL || examples == NULL) {
        free(text);
        json_decref(examples);
        return NULL;
    }
    for (uint64_t i = 0; i < bytes; i++) {
        text[2 * i] = digits[state[i] >> 4];
        text[2 * i + 1] = digits[state[i] & 15];
    }
    text[2 * bytes] = '\0';
    for (uint64_t i = 0; i < c->count; i++) { (void)json_array_append(examples, c->examples[i]); }
    json_t *const saved = json_pack("{s:s, s:I, s:I, s:o}", "state", text, "first_step", (json_int_t)c->first_step,
                                    "steps", (json_int_t)c->period, "examples", examples);
    free(text);
    return saved;
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

redco_status redco_collector_load(redco_user_collector *c, const json_t *saved, const char *place, redco_error *err)
{
    const uint64_t bytes = redco_user_pipeline_of(c->file)->state_bytes;
    const json_t *const examples = json_object_get(saved, "examples");
    const char *const text = json_string_value(json_object_get(saved, "state"));
    const json_int_t first = json_integer_value(json_object_get(saved, "first_step"));
    unsigned char *const state = c->run.state;
    size_t i = 0;
    if (text == NULL || strlen(text) != 2 * bytes || !json_is_array(examples) || first < 0) {
        return redco_fail(err, REDCO_EVALUE, place, "has no state of %s of %llu bytes and its examples", c->name,
                          (unsigned long long)bytes);
    }
    for (; i < bytes && digit_of(text[2 * i]) >= 0 && digit_of(text[2 * i + 1]) >= 0; i++) {
        state[i] = (unsigned char)(16 * digit_of(text[2 * i]) + digit_of(text[2 * i + 1]));
    }
    if (i < bytes) { return redco_fail(err, REDCO_EVALUE, place, "\"state\" has other letters than 0-9 and a-f"); }
    c->first_step = (uint64_t)first;
    if (json_array_size(examples) == 0) { return REDCO_OK; }
    forget(c);
    c->error = (redco_error){.status = REDCO_OK};
    for (size_t k = 0; k < json_array_size(examples); k++) {
        redco_user_collector_add(c, json_incref(json_array_get(examples, k)));
    }
    if (c->error.status != REDCO_OK) { return redco_fail(err, c->error.status, place, "%s", c->error.text); }
    return count_steps(c, err);
}
