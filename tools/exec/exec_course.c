#include "tools/exec/exec_course.h"

#include "executor/data/tokens.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const order_words[] = {"shuffled", "file", NULL};
static const char *const best_words[] = {"loss", "metric", "lowest-metric", NULL};

error_t exec_course_option(struct exec_args *args, int key, const char *text)
{
    struct exec_course *const c = &args->course;
    switch (key) {
    case EXEC_KEY_EPOCHS: return cli_u64(&args->cli, "--epochs", text, 1, EXEC_STEPS_MAX, &c->epochs);
    case EXEC_KEY_EVALUATE_EVERY: return cli_u64(&args->cli, "--evaluate-every", text, 1, EXEC_STEPS_MAX, &c->every);
    case EXEC_KEY_ORDER: return cli_word(&args->cli, "--order", text, order_words, &c->order);
    case EXEC_KEY_KEEP_BEST:
        c->keeps_best = true;
        return cli_word(&args->cli, "--keep-best", text, best_words, &c->best);
    case EXEC_KEY_LOG: return cli_name(&args->cli, "--log", text, &c->log);
    default: return ARGP_ERR_UNKNOWN;
    }
}

error_t exec_course_check(struct exec_args *args)
{
    struct exec_course *const c = &args->course;
    if (c->epochs > 0 && args->has_steps) {
        return cli_bad_option(&args->cli, "--epochs", "and --steps both say how long the run is; one is needed");
    }
    if (c->epochs > 0 && args->data == NULL) {
        return cli_bad_option(&args->cli, "--epochs", "needs --data: what is made from the seed never repeats");
    }
    if (c->order != 0 && args->data == NULL) { return cli_bad_option(&args->cli, "--order", "needs --data"); }
    if (c->every > 0 && args->evaluate == NULL) {
        return cli_bad_option(&args->cli, "--evaluate-every", "needs --evaluate FILE");
    }
    if (c->keeps_best && (args->evaluate == NULL || args->folder == NULL)) {
        return cli_bad_option(&args->cli, "--keep-best", "needs --evaluate FILE and --checkpoint DIR");
    }
    if (c->keeps_best && c->best != 0 && args->pipeline_path == NULL) {
        return cli_bad_option(&args->cli, "--keep-best", "language models have no metric; loss is right");
    }
    if (c->log != NULL && (args->replay || args->emulate)) {
        return cli_bad_option(&args->cli, "--log", "needs real computation and communication");
    }
    return 0;
}

/* A language model's data: examples are opened for all ranks, windows of ids are only counted. */
static redco_status open_data(struct exec_args *args, uint64_t *examples_out, redco_error *err)
{
    const redco_json_value config = redco_json_wrap(args->plan->model_config, args->path);
    redco_model *model = NULL;
    redco_tokens *tokens = NULL;
    redco_status st = redco_model_from_json(&config, args->plan->model_name, &model, err);
    const redco_model_dims *const dims = st == REDCO_OK ? redco_model_get_dims(model) : NULL;
    if (st == REDCO_OK && redco_examples_are_records(args->data)) {
        const redco_examples_options options = {dims->vocab, args->plan->seq_len, dims->encoder_layers > 0,
                                                false,       args->skip_bad,      args->bytes};
        st = redco_examples_open(args->data, &options, &args->examples, err);
        if (st == REDCO_OK) { exec_files_skipped(args, args->data, redco_examples_skipped(args->examples)); }
        if (st == REDCO_OK) { *examples_out = redco_examples_count(args->examples); }
    } else if (st == REDCO_OK) {
        const redco_tokens_options options = {
            .vocabulary = dims->vocab, .seq_len = args->plan->seq_len, .continued = dims->encoder_layers > 0};
        st = redco_tokens_open(args->data, 0, &options, &tokens, err);
        if (st == REDCO_OK) { *examples_out = redco_tokens_windows(tokens); }
    }
    redco_tokens_close(tokens);
    redco_model_free(model);
    return st;
}

redco_status exec_course_resolve(struct exec_args *args, redco_error *err)
{
    struct exec_course *const c = &args->course;
    const uint64_t batch = args->plan->global_batch;
    redco_status st = REDCO_OK;
    if (args->records != NULL) {
        c->epoch_examples = redco_records_count(args->records);
    } else if (args->data != NULL && args->pipeline == NULL) {
        st = open_data(args, &c->epoch_examples, err);
    }
    if (st == REDCO_OK && c->keeps_best && c->best != 0 && redco_user_pipeline_of(args->pipeline)->metric == NULL) {
        st = redco_fail(err, REDCO_EVALUE, args->pipeline_path, "has no .metric, by which --keep-best could choose");
    }
    if (st != REDCO_OK || c->epochs == 0) { return st; }
    const double steps = ceil((double)c->epochs * (double)c->epoch_examples / (double)batch);
    if (steps > EXEC_STEPS_MAX) {
        return redco_fail(err, REDCO_EVALUE, "--epochs", "%llu epochs of %llu examples are %.0f steps; %d are possible",
                          (unsigned long long)c->epochs, (unsigned long long)c->epoch_examples, steps, EXEC_STEPS_MAX);
    }
    args->steps = (c->epochs * c->epoch_examples + batch - 1) / batch;
    return REDCO_OK;
}

double exec_course_epoch(const struct exec_args *args, uint64_t steps)
{
    const uint64_t examples = args->course.epoch_examples;
    return examples > 0 ? (double)steps * (double)args->plan->global_batch / (double)examples : (double)NAN;
}

/* Epochs that are whole after so many steps. */
static uint64_t whole_epochs(const struct exec_args *args, uint64_t steps)
{
    return steps * args->plan->global_batch / args->course.epoch_examples;
}

bool exec_course_evaluates(const struct exec_args *args, uint64_t step)
{
    const struct exec_course *const c = &args->course;
    if (args->evaluate == NULL) { return false; }
    if (step == args->steps) { return true; }
    if (c->every > 0) { return step % c->every == 0; }
    return c->epochs > 0 && whole_epochs(args, step) > whole_epochs(args, step - 1);
}

void exec_course_facts(const struct exec_args *args, struct exec_facts *facts)
{
    const struct exec_course *const c = &args->course;
    exec_fact(facts, "--epochs", "%llu, evaluated every %llu steps", (unsigned long long)c->epochs,
              (unsigned long long)c->every);
    exec_fact(facts, "--order", "%s", order_words[c->order]);
    exec_fact(facts, "--keep-best", "%s", c->keeps_best ? best_words[c->best] : "not given");
    exec_fact(facts, "--log", "%s", c->log != NULL ? "given" : "not given");
}

/* The examples that are tried: those of one round, and more until something is asked for. */
static uint64_t few_records(const redco_records *records, uint64_t count)
{
    double weight = 0.0;
    uint64_t few = 0;
    while (few < redco_records_count(records) && (few < count || !(weight > 0.0))) {
        weight += redco_records_weight(records, few++);
    }
    return few;
}

static uint64_t few_examples(const redco_examples *examples, uint64_t count)
{
    uint64_t few = 0, asked = 0;
    while (few < redco_examples_count(examples) && (few < count || asked == 0)) {
        asked += redco_examples_get(examples, few++).asked;
    }
    return few;
}

redco_status exec_course_try(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                             redco_error *err)
{
    enum { TOKENS = 2 };
    struct exec_args some = *args;
    struct exec_files first = {.evaluated = NULL};
    struct exec_use use = {.evaluate = NULL};
    const uint64_t batch = args->batch > 0 ? args->batch : args->plan->parallelism.micro_batch;
    const uint64_t count = batch * redco_mesh_ranks(args->plan->parallelism.dp);
    redco_status st = REDCO_OK;
    some.max_new_tokens = TOKENS;
    some.evaluated = some.predicted = NULL;
    if (args->evaluated != NULL) {
        st = redco_records_begin(args->evaluated, few_records(args->evaluated, count), &some.evaluated, err);
    }
    if (st == REDCO_OK && args->predicted != NULL) {
        st = redco_records_begin(args->predicted, count, &some.predicted, err);
    }
    if (st == REDCO_OK && files->evaluated != NULL) {
        st = redco_examples_begin(files->evaluated, few_examples(files->evaluated, count), &first.evaluated, err);
    }
    if (st == REDCO_OK && files->prompts != NULL) {
        st = redco_examples_begin(files->prompts, count, &first.prompts, err);
    }
    if (st == REDCO_OK) { st = exec_files_evaluate(&some, &first, trainer, NULL, &use, err); }
    if (st == REDCO_OK) { st = exec_files_predict(&some, &first, trainer, EXEC_PREDICT_TRY, &use, err); }
    redco_records_close(some.evaluated);
    redco_records_close(some.predicted);
    exec_files_close(&first);
    return st;
}

/* The value that the best is chosen by, and whether it is to be low. */
static double value_of(const struct exec_course *c, const struct exec_evaluation *e, bool *low_out)
{
    *low_out = c->best != 1;
    return c->best == 0 ? e->evaluation.loss : e->metric;
}

redco_status exec_course_evaluate(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                                  uint64_t step, bool leads, struct exec_use *use, redco_checkpoint_best *best,
                                  redco_error *err)
{
    const struct exec_course *const c = &args->course;
    char pairs[4200] = "";
    (void)snprintf(pairs, sizeof pairs, "%.4000s/evaluation-%010llu.jsonl", c->log != NULL ? c->log : "",
                   (unsigned long long)step);
    const redco_status st = exec_files_evaluate(args, files, trainer, leads && c->log != NULL ? pairs : NULL, use, err);
    if (st != REDCO_OK) { return st; }
    struct exec_evaluation *const more = realloc(use->list, (use->count + 1) * sizeof *more);
    if (more == NULL) { return redco_fail(err, REDCO_ENOMEM, "evaluation", "out of memory"); }
    use->list = more;
    struct exec_evaluation *const e = &use->list[use->count++];
    bool low = true;
    *e = (struct exec_evaluation){step, exec_course_epoch(args, step), use->evaluation, use->metric, use->evaluation_s,
                                  false};
    const double value = value_of(c, e, &low);
    if (best->step > 0 && strcmp(best->by, best_words[c->best]) != 0) { best->step = 0; } /* another option's */
    e->best = best->step == 0 || (low ? value < best->value : value > best->value);
    if (e->best) { *best = (redco_checkpoint_best){step, value, best_words[c->best]}; }
    return REDCO_OK;
}
