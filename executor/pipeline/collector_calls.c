/* The calls that a pipeline's collect() may make. */
#include "executor/backend/host/kernels.h"
#include "executor/data/tokens.h"
#include "executor/pipeline/collector_internal.h"
#include "executor/pipeline/user_pipeline_calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EXAMPLES_MAX = 1 << 24, STATE_BYTES_MAX = 1 << 30 };

redco_status redco_collector_check(const redco_user_pipeline *table, const char *path, redco_error *err)
{
    if (table->state_bytes > STATE_BYTES_MAX) {
        return redco_fail(err, REDCO_EVALUE, path, "its .state_bytes is %llu; at most 2^30 are possible",
                          (unsigned long long)table->state_bytes);
    }
    if (table->collect_epochs > 0 && table->collect == NULL) {
        return redco_fail(err, REDCO_EVALUE, path, "has .collect_epochs, but no .collect");
    }
    return REDCO_OK;
}

const redco_user_run *redco_user_collector_run(const redco_user_collector *c)
{
    return &c->run;
}

static void draw_words(const redco_user_collector *c, uint64_t number, uint32_t words[4])
{
    const uint32_t key[2] = {(uint32_t)c->seed, (uint32_t)(c->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), (uint32_t)c->first_step,
                                 UINT32_MAX - 1 - (uint32_t)(c->first_step >> 32)};
    redcoi_philox(counter, key, words);
}

static void next_words(redco_user_collector *c, uint32_t words[4])
{
    draw_words(c, c->drawn++, words);
}

static double unit(const uint32_t words[2])
{
    return ((double)(words[0] >> 5) * 67108864.0 + (double)(words[1] >> 6)) / 9007199254740992.0;
}

double redco_user_collector_uniform(redco_user_collector *c)
{
    uint32_t words[4];
    next_words(c, words);
    return unit(words);
}

/* Box and Muller, 1958. */
double redco_user_collector_normal(redco_user_collector *c)
{
    static const double turn = 6.283185307179586;
    uint32_t words[4];
    next_words(c, words);
    return sqrt(-2.0 * log(1.0 - unit(words))) * cos(turn * unit(words + 2));
}

void redco_user_collector_add(redco_user_collector *c, json_t *example)
{
    if (c->error.status == REDCO_OK && !json_is_object(example)) {
        (void)redco_fail(&c->error, REDCO_EVALUE, c->name, "collect() added an example that is no object");
    }
    if (c->error.status == REDCO_OK && c->count >= EXAMPLES_MAX) {
        (void)redco_fail(&c->error, REDCO_EVALUE, c->name, "collect() added more than %d examples", EXAMPLES_MAX);
    }
    if (c->error.status == REDCO_OK && c->count == c->room) {
        const uint64_t room = 2 * c->room + 64;
        json_t **const more = (json_t **)realloc((void *)c->examples, room * sizeof *more);
        if (more == NULL) {
            (void)redco_fail(&c->error, REDCO_ENOMEM, c->name, "no memory to collect examples");
        } else {
            c->examples = more;
            c->room = room;
        }
    }
    if (c->error.status == REDCO_OK) {
        c->examples[c->count++] = example;
    } else {
        json_decref(example);
    }
}

bool redco_user_collector_predict(redco_user_collector *c, json_t *const *examples, uint32_t count, double *values_out,
                                  uint32_t values)
{
    redco_task task = {.name = NULL};
    void **inputs = NULL;
    memset(values_out, 0, (size_t)count * values * sizeof *values_out);
    if (c->error.status != REDCO_OK) { return false; }
    if (redco_user_pipeline_of(c->file)->predict == NULL) {
        (void)redco_fail(&c->error, REDCO_EVALUE, redco_user_pipeline_path(c->file),
                         "collect() asks for predictions, but the table has no .predict");
        return false;
    }
    redco_status st = redco_user_pipeline_task(c->file, count, &task, &c->error);
    if (st != REDCO_OK) { return false; }
    inputs = calloc(task.input_count + 1, sizeof(void *));
    bool enough = inputs != NULL;
    for (size_t i = 0; enough && i < task.input_count; i++) {
        enough = (inputs[i] = calloc(1, redco_type_bytes(&task.inputs[i].type))) != NULL;
    }
    if (!enough) {
        st = redco_fail(&c->error, REDCO_ENOMEM, c->name, "no memory to collect examples");
    } else {
        redco_error own = {.status = REDCO_OK};
        st = redco_user_pipeline_collate(c->file, (const json_t *const *)examples, count, inputs, &own);
        if (st != REDCO_OK) {
            (void)redco_fail(&c->error, REDCO_EVALUE, c->name, "collate() refuses what collect() wants predicted: %s",
                             own.text);
        }
    }
    if (st == REDCO_OK) {
        uint32_t words[4];
        draw_words(c, UINT64_MAX - c->predicted++, words); /* apart from those that collect() draws */
        const int32_t key[2] = {(int32_t)(words[0] >> 1), (int32_t)(words[1] >> 1)};
        st = c->predict(c->context, count, inputs, key, values_out, values, &c->error);
    }
    for (size_t i = 0; inputs != NULL && i < task.input_count; i++) { free(inputs[i]); }
    free((void *)inputs);
    redco_user_pipeline_task_free(&task);
    return st == REDCO_OK;
}

/* In checkpoints: bytes of the state as hexadecimal digits, examples as they are. */
