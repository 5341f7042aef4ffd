/* Checkpoints of a trainer: what it is that they hold, and whether one belongs to this run. */
#include "executor/checkpoint/training_settings.h"
#include "executor/trainer/trainer_internal.h"

#include <string.h>

uint64_t redco_trainer_steps(const redco_trainer *t)
{
    return t->step;
}

redco_checkpoint_states redcoi_checkpoint_states(const redco_trainer *t)
{
    return (redco_checkpoint_states){t->whole,
                                     t->layouts,
                                     t->states,
                                     t->worker,
                                     t->options.optimizer,
                                     t->stage.count > 1 ? t->modules.parameter_of : NULL,
                                     t->written_elsewhere};
}

/* A checkpoint goes on under any plan: the config of a pipeline has the work of its graph, too, at the degrees and the
 * micro-batch that were planned, which are not part of what is trained. */
static bool digest_model(const redco_plan *plan, char sha256_out[65])
{
    const json_t *const type = json_object_get(plan->model_config, "model_type");
    if (!json_is_string(type) || strcmp(json_string_value(type), "pipeline") != 0) {
        memcpy(sha256_out, plan->model_sha256, sizeof plan->model_sha256);
        return true;
    }
    json_t *const trained = json_copy(plan->model_config);
    (void)json_object_del(trained, "degrees");
    (void)json_object_del(trained, "micro_batch");
    const bool digested = trained != NULL && redco_plan_digest(trained, sha256_out);
    json_decref(trained);
    return digested;
}

static json_t *settings_json(const redco_trainer *t)
{
    const redco_training_settings settings = {.optimizer = t->options.optimizer,
                                              .schedule = t->options.schedule,
                                              .learning_rate = t->options.learning_rate,
                                              .decay_matrices = t->options.decay_matrices,
                                              .task = t->whole};
    return redco_training_settings_json(&settings);
}

size_t redco_trainer_changes(const redco_trainer *t, const redco_checkpoint *checkpoint, char *text, size_t size)
{
    json_t *const now = settings_json(t);
    const size_t count =
        redco_training_settings_changes(redco_checkpoint_get_info(checkpoint)->settings, now, text, size);
    json_decref(now);
    return count;
}

redco_status redco_trainer_save(redco_trainer *t, redco_checkpoints *checkpoints, redco_error *err)
{
    if (t->replay) { return redcoi_trainer_real(t, "a checkpoint", err); }
    const redco_plan *const plan = t->plan;
    const redco_checkpoint_states states = redcoi_checkpoint_states(t);
    char plan_sha256[65], model_sha256[65];
    json_t *const json = redco_plan_to_json(plan);
    const bool digested = json != NULL && redco_plan_digest(json, plan_sha256) && digest_model(plan, model_sha256);
    json_decref(json);
    if (!digested) { return redco_fail(err, REDCO_ENOMEM, t->place, "out of memory"); }
    json_t *const collected = t->subject.collector != NULL ? redco_collector_save(t->subject.collector) : NULL;
    if (t->subject.collector != NULL && collected == NULL) {
        return redco_fail(err, REDCO_ENOMEM, t->place, "out of memory");
    }
    json_t *const settings = settings_json(t);
    const redco_checkpoint_info info = {.step = t->step,
                                        .seed = t->options.seed,
                                        .sequences = t->step * plan->global_batch,
                                        .global_batch = plan->global_batch,
                                        .data_windows = redcoi_subject_examples(&t->subject),
                                        .data_sha256 = t->options.data_sha256,
                                        .seq_len = plan->seq_len,
                                        .ranks = redco_world_size(t->world),
                                        .learning_rate = t->options.learning_rate,
                                        .master = redco_states_master_dtype(t->states),
                                        .optimizer = t->options.optimizer.kind,
                                        .model_name = plan->model_name,
                                        .model_sha256 = model_sha256,
                                        .plan_sha256 = plan_sha256,
                                        .model_config = plan->model_config,
                                        .in_order = t->options.in_order,
                                        .settings = settings,
                                        .collected = collected};
    const redco_status st = redco_checkpoints_save(checkpoints, &info, &states, err);
    json_decref(settings);
    json_decref(collected);
    return st;
}

static const char *const order_words[] = {"shuffled (--order shuffled)", "in the order of their file (--order file)"};

struct number {
    const char *what;
    uint64_t have, want;
};

static redco_status check(const redco_trainer *t, const redco_checkpoint *checkpoint, redco_error *err)
{
    const redco_checkpoint_info *const info = redco_checkpoint_get_info(checkpoint);
    const redco_plan *const plan = t->plan;
    const char *const path = redco_checkpoint_path(checkpoint);
    const redco_dtype master = redco_states_master_dtype(t->states);
    const struct number numbers[] = {{"global batch", info->global_batch, plan->global_batch},
                                     {"sequence length", info->seq_len, plan->seq_len},
                                     {"number of sequences of data (0: made from the seed)", info->data_windows,
                                      redcoi_subject_examples(&t->subject)},
                                     {"seed", info->seed, t->options.seed}};
    char model_sha256[65];
    if (!digest_model(plan, model_sha256)) { return redco_fail(err, REDCO_ENOMEM, t->place, "out of memory"); }
    if (strcmp(info->model_sha256, model_sha256) != 0) {
        return redco_fail(err, REDCO_EVALUE, path, "is of another model: of %.80s, SHA-256 %.8s; %s is for %.80s, %.8s",
                          info->model_name, info->model_sha256, t->place, plan->model_name, model_sha256);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (numbers[i].have == numbers[i].want) { continue; }
        return redco_fail(err, REDCO_EVALUE, path, "is of a run whose %s is %llu; here it is %llu", numbers[i].what,
                          (unsigned long long)numbers[i].have, (unsigned long long)numbers[i].want);
    }
    if (info->data_sha256 != NULL && t->options.data_sha256 != NULL &&
        strcmp(info->data_sha256, t->options.data_sha256) != 0) {
        return redco_fail(err, REDCO_EVALUE, path, "is of a run on other data, SHA-256 %.12s; here they have %.12s",
                          info->data_sha256, t->options.data_sha256);
    }
    if (info->in_order != t->options.in_order) {
        return redco_fail(err, REDCO_EVALUE, path, "is of a run whose data are %s; here they are %s",
                          order_words[info->in_order], order_words[t->options.in_order]);
    }
    if (info->master != master) {
        return redco_fail(err, REDCO_EVALUE, path, "has weights in %s; this run updates them in %s",
                          redco_dtype_name(info->master), redco_dtype_name(master));
    }
    return REDCO_OK;
}

redco_status redco_trainer_load(redco_trainer *t, redco_checkpoints *checkpoints, const redco_checkpoint *checkpoint,
                                redco_error *err)
{
    if (t->replay) { return redcoi_trainer_real(t, "a checkpoint", err); }
    const redco_checkpoint_states states = redcoi_checkpoint_states(t);
    redco_status st = check(t, checkpoint, err);
    if (st == REDCO_OK && t->subject.collector != NULL) {
        st = redco_collector_load(t->subject.collector, redco_checkpoint_get_info(checkpoint)->collected,
                                  redco_checkpoint_path(checkpoint), err);
    }
    if (st == REDCO_OK) { st = redco_checkpoint_load(checkpoints, checkpoint, &states, err); }
    if (st == REDCO_OK) { t->step = redco_checkpoint_get_info(checkpoint)->step; }
    return st;
}

redco_status redco_trainer_export(redco_trainer *t, const char *folder, redco_dtype dtype, redco_error *err)
{
    if (t->replay) { return redcoi_trainer_real(t, "weights", err); }
    const redco_checkpoint_states states = redcoi_checkpoint_states(t);
    const redco_weights_export options = {.folder = folder, .dtype = dtype, .model_config = t->plan->model_config};
    return redco_weights_export_write(&options, &states, t->world, err);
}
