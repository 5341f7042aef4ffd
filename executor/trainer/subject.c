/* The subject of a training, and its micro-batches. */
#include "executor/backend/host/kernels.h"
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>
#include <string.h>

/* The name of a micro-batch's weight among the task's inputs: the share of its targets in those of its global batch,
 * times the number of micro-batches, so that the mean over these is the mean over targets. */
#define SHARE "loss_share"

/* Evaluation, whose batches are no parts of a step, has no such input. */
static redco_value weighed_loss(redco_scope *scope, const void *context)
{
    const redco_task *const inner = context;
    const redco_value loss = inner->loss(scope, inner->context);
    return redco_scope_has(scope, SHARE) ? redco_mul(scope->graph, loss, redco_scope_value(scope, SHARE)) : loss;
}

/* The task with more inputs: weights of micro-batches, and lengths of sources. */
static redco_status weigh(redcoi_subject *s, redco_dtype compute, bool lengths, redco_error *err)
{
    const redco_task *const inner = s->task;
    const uint64_t batch = inner->inputs[0].type.dim[0];
    size_t count = inner->input_count;
    redco_task_input *const inputs = calloc(count + 2, sizeof *inputs);
    if (inputs == NULL) { return redco_fail(err, REDCO_ENOMEM, inner->name, "out of memory"); }
    memcpy(inputs, inner->inputs, count * sizeof *inputs);
    if (lengths) { inputs[count++] = (redco_task_input){"lengths", redco_type(REDCO_I32, 1, &batch)}; }
    inputs[count++] = (redco_task_input){SHARE, redco_type(redco_dtype_statistic(compute), 0, NULL)};
    s->weighed = *inner;
    s->weighed.inputs = inputs;
    s->weighed.input_count = count;
    s->weighed.loss = weighed_loss;
    s->weighed.context = inner;
    s->task = &s->weighed;
    return REDCO_OK;
}

static redco_status open_language_model(const redco_plan *plan, const redco_trainer_options *options,
                                        redcoi_subject *subject, redco_error *err)
{
    redco_status st =
        redco_language_model_create(subject->model, plan->parallelism.micro_batch, plan->seq_len, &subject->lm, err);
    if (st != REDCO_OK) { return st; }
    const redco_model_dims *const dims = redco_model_get_dims(subject->model);
    const redco_tokens_options tokens = {options->seed, dims->vocab, plan->seq_len, dims->encoder_layers > 0,
                                         options->in_order};
    subject->task = redco_language_model_task(subject->lm);
    subject->examples = options->examples;
    if (options->examples != NULL) { return weigh(subject, options->dtype, dims->encoder_layers > 0, err); }
    return options->data != NULL ? redco_tokens_open(options->data, 0, &tokens, &subject->tokens, err)
                                 : redco_tokens_random(&tokens, &subject->tokens, err);
}

redco_status redcoi_subject_open(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                 redcoi_subject *subject, redco_error *err)
{
    const redco_json_value config = redco_json_wrap(plan->model_config, place);
    redco_status st = redco_model_from_json(&config, plan->model_name, &subject->model, err);
    subject->seed = options->seed;
    subject->in_order = options->in_order;
    if (st != REDCO_OK) { return st; }
    if (options->pipeline == NULL) { return open_language_model(plan, options, subject, err); }
    st = redco_user_pipeline_check_model(options->pipeline, plan->model_config, place, err);
    if (st == REDCO_OK) {
        st = redco_user_pipeline_task(options->pipeline, plan->parallelism.micro_batch, &subject->own, err);
    }
    subject->task = &subject->own;
    subject->records = options->records;
    if (st != REDCO_OK) { return st; }
    const redco_user_pipeline *const table = redco_user_pipeline_of(options->pipeline);
    subject->collects = table->collect != NULL;
    if (subject->collects || table->state_bytes > 0 || table->report != NULL) {
        st = redco_collector_create(options->pipeline, options->seed, plan->global_batch, &subject->collector, err);
    }
    return st == REDCO_OK && table->weight != NULL ? weigh(subject, options->dtype, false, err) : st;
}

void redcoi_subject_close(redcoi_subject *subject)
{
    redco_collector_free(subject->collector);
    redco_tokens_close(subject->tokens);
    redco_user_pipeline_task_free(&subject->own);
    free((redco_task_input *)(uintptr_t)subject->weighed.inputs);
    redco_language_model_free(subject->lm);
    redco_model_free(subject->model);
    *subject = (redcoi_subject){.model = NULL};
}

uint64_t redcoi_subject_examples(const redcoi_subject *s)
{
    return s->tokens != NULL     ? redco_tokens_windows(s->tokens)
           : s->examples != NULL ? redco_examples_count(s->examples)
           : s->records != NULL  ? redco_records_count(s->records)
                                 : 0;
}

bool redcoi_subject_take_inputs(const redcoi_subject *s, void **inputs_out)
{
    bool enough = true;
    for (size_t i = 0; i < s->task->input_count; i++) {
        inputs_out[i] = calloc(1, redco_type_bytes(&s->task->inputs[i].type));
        enough = enough && inputs_out[i] != NULL;
    }
    return enough;
}

/* The example that is number @p number of the run. */
static uint64_t example_of(const redcoi_subject *s, uint64_t number)
{
    const uint64_t count = redcoi_subject_examples(s), place = number % count;
    return s->in_order ? place : redco_tokens_order(s->seed, count, number / count, place);
}

static double asked_of(const redcoi_subject *s, uint64_t number)
{
    if (s->examples == NULL) { return redco_records_weight(s->records, example_of(s, number)); }
    return (double)redco_examples_get(s->examples, example_of(s, number)).asked;
}

static void put_share(const redcoi_subject *s, const redco_batch_place *place, void *const *inputs)
{
    const size_t last = s->task->input_count - 1;
    const uint64_t micro_batches = place->micro_batches * place->dp_ranks;
    const uint64_t all = micro_batches * place->sequences, begin = place->step * all, own = redco_batch_first(place);
    double asked = 0.0, asked_own = 0.0;
    for (uint64_t i = begin; i < begin + all; i++) {
        const double asked_here = asked_of(s, i);
        asked += asked_here;
        asked_own += i >= own && i < own + place->sequences ? asked_here : 0.0;
    }
    const double share = asked > 0.0 ? asked_own * (double)micro_batches / asked : 0.0;
    if (s->task->inputs[last].type.dtype == REDCO_F64) {
        *(double *)inputs[last] = share;
    } else {
        *(float *)inputs[last] = (float)share;
    }
}

/* Behind an example, tokens are 0 and nothing is asked for. */
static void put_examples(const redcoi_subject *s, const redco_batch_place *place, void *const *inputs)
{
    enum { NOT_ASKED = -100 };
    const uint64_t first = redco_batch_first(place), length = s->task->inputs[0].type.dim[1];
    const bool lengths = s->task->input_count == 4;
    for (uint32_t row = 0; row < place->sequences; row++) {
        const redco_example e = redco_examples_get(s->examples, example_of(s, first + row));
        int32_t *const tokens = (int32_t *)inputs[0] + row * length;
        int32_t *const targets = (int32_t *)inputs[1] + row * length;
        for (uint64_t i = 0; i < length; i++) {
            tokens[i] = i < e.token_count ? e.tokens[i] : 0;
            targets[i] = i < e.target_count ? e.targets[i] : NOT_ASKED;
        }
        if (lengths) { ((int32_t *)inputs[2])[row] = (int32_t)e.token_count; }
    }
}

/* Language models draw no random numbers, so their key is any. */
redco_status redcoi_subject_batch(const redcoi_subject *s, const redco_batch_place *place, void *const *inputs,
                                  int32_t key_out[2], redco_error *err)
{
    const uint64_t first = redco_batch_first(place);
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)first, (uint32_t)(first >> 32), UINT32_MAX, UINT32_MAX};
    uint32_t words[4];
    key_out[0] = key_out[1] = 0;
    if (s->examples != NULL) {
        put_examples(s, place, inputs);
        put_share(s, place, inputs);
        return REDCO_OK;
    }
    if (s->lm != NULL) { return redco_tokens_batch(s->tokens, place, inputs[0], inputs[1], err); }
    if (s->records == NULL && !s->collects) {
        return redco_fail(err, REDCO_EVALUE, s->task->name, "has no data to train on");
    }
    redcoi_philox(counter, key, words);
    for (uint32_t i = 0; i < 2; i++) { key_out[i] = (int32_t)(words[i] >> 1); }
    if (s->collects) { return redco_collector_batch(s->collector, first, place->sequences, inputs, err); }
    uint64_t *const numbers = calloc(place->sequences, sizeof *numbers);
    if (numbers == NULL) { return redco_fail(err, REDCO_ENOMEM, s->task->name, "no memory for a batch"); }
    for (uint32_t i = 0; i < place->sequences; i++) { numbers[i] = example_of(s, first + i); }
    const redco_status st = redco_records_collate(s->records, numbers, place->sequences, inputs, err);
    if (s->task == &s->weighed) { put_share(s, place, inputs); }
    free(numbers);
    return st;
}
