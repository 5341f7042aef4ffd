/* The subject of a training, and its micro-batches. */
#include "executor/backend/host/kernels.h"
#include "executor/trainer/trainer_internal.h"

#include <stdlib.h>

static redco_status open_language_model(const redco_plan *plan, const redco_trainer_options *options,
                                        redcoi_subject *subject, redco_error *err)
{
    redco_status st = redco_language_model_create(subject->model, plan->micro_batch, plan->seq_len, &subject->lm, err);
    if (st != REDCO_OK) { return st; }
    const redco_model_dims *const dims = redco_model_get_dims(subject->model);
    const redco_tokens_options tokens = {options->seed, dims->vocab, plan->seq_len, dims->encoder_layers > 0};
    subject->task = redco_language_model_task(subject->lm);
    return options->data != NULL ? redco_tokens_open(options->data, 0, &tokens, &subject->tokens, err)
                                 : redco_tokens_random(&tokens, &subject->tokens, err);
}

redco_status redcoi_subject_open(const redco_plan *plan, const char *place, const redco_trainer_options *options,
                                 redcoi_subject *subject, redco_error *err)
{
    const redco_json_value config = redco_json_wrap(plan->model_config, place);
    redco_status st = redco_model_from_json(&config, plan->model_name, &subject->model, err);
    subject->seed = options->seed;
    if (st != REDCO_OK) { return st; }
    if (options->pipeline == NULL) { return open_language_model(plan, options, subject, err); }
    st = redco_user_pipeline_check_model(options->pipeline, plan->model_config, place, err);
    if (st == REDCO_OK) { st = redco_user_pipeline_task(options->pipeline, plan->micro_batch, &subject->own, err); }
    subject->task = &subject->own;
    subject->records = options->records;
    if (st != REDCO_OK) { return st; }
    const redco_user_pipeline *const table = redco_user_pipeline_of(options->pipeline);
    subject->collects = table->collect != NULL;
    return subject->collects || table->state_bytes > 0 || table->report != NULL
               ? redco_collector_create(options->pipeline, options->seed, plan->global_batch, &subject->collector, err)
               : st;
}

void redcoi_subject_close(redcoi_subject *subject)
{
    redco_collector_free(subject->collector);
    redco_tokens_close(subject->tokens);
    redco_user_pipeline_task_free(&subject->own);
    redco_language_model_free(subject->lm);
    redco_model_free(subject->model);
    *subject = (redcoi_subject){.model = NULL};
}

uint64_t redcoi_subject_examples(const redcoi_subject *s)
{
    return s->tokens != NULL    ? redco_tokens_windows(s->tokens)
           : s->records != NULL ? redco_records_count(s->records)
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

/* Language models draw no random numbers, so their key is any. */
redco_status redcoi_subject_batch(const redcoi_subject *s, const redco_batch_place *place, void *const *inputs,
                                  int32_t key_out[2], redco_error *err)
{
    const uint64_t first = redco_batch_first(place);
    const uint32_t key[2] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)first, (uint32_t)(first >> 32), UINT32_MAX, UINT32_MAX};
    uint32_t words[4];
    key_out[0] = key_out[1] = 0;
    if (s->lm != NULL) { return redco_tokens_batch(s->tokens, place, inputs[0], inputs[1], err); }
    if (s->records == NULL && !s->collects) {
        return redco_fail(err, REDCO_EVALUE, s->task->name, "has no data to train on");
    }
    redcoi_philox(counter, key, words);
    for (uint32_t i = 0; i < 2; i++) { key_out[i] = (int32_t)(words[i] >> 1); }
    if (s->collects) { return redco_collector_batch(s->collector, first, place->sequences, inputs, err); }
    uint64_t *const numbers = calloc(place->sequences, sizeof *numbers);
    if (numbers == NULL) { return redco_fail(err, REDCO_ENOMEM, s->task->name, "no memory for a batch"); }
    for (uint32_t i = 0; i < place->sequences; i++) {
        numbers[i] = redco_records_shuffled(s->records, s->seed, first + i);
    }
    const redco_status st = redco_records_collate(s->records, numbers, place->sequences, inputs, err);
    free(numbers);
    return st;
}
