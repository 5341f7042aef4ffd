#include "tools/exec/exec_predict.h"

#include "executor/pipeline/user_pipeline_calls.h"
#include "topology/base/clock.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ENDS_MAX = 64, BYTES = 256 };

bool exec_only_predicts(const struct exec_args *args)
{
    return args->predict != NULL && args->predictions == NULL;
}

void exec_files_skipped(const struct exec_args *args, const char *path, uint64_t count)
{
    char text[600];
    if (count == 0 || args->follows) { return; }
    (void)snprintf(text, sizeof text, "%.400s: %llu bad lines are left out", path, (unsigned long long)count);
    cli_warn(&args->cli, text);
}

/* Fine-tuning would have it as the weights were made. */
static void warn_of_dropouts(const struct exec_args *args, const redco_trainer *trainer)
{
    const redco_model *const model = redco_language_model_of(redco_trainer_generator(trainer));
    char dropouts[400], text[600];
    if (redco_model_dropouts(model, dropouts, sizeof dropouts) == 0) { return; }
    (void)snprintf(text, sizeof text, "%.100s: redco-exec trains without the dropout that the config asks for: %s",
                   redco_model_name(model), dropouts);
    cli_warn(&args->cli, text);
}

redco_status exec_files_open(const struct exec_args *args, const redco_trainer *trainer, bool leads,
                             struct exec_files *files, redco_error *err)
{
    redco_status st = REDCO_OK;
    if (leads && !args->follows && args->pipeline == NULL && args->weights != NULL && args->steps > 0) {
        warn_of_dropouts(args, trainer);
    }
    const bool continues = args->pipeline == NULL || redco_user_pipeline_of(args->pipeline)->generates != NULL;
    if (args->pipeline == NULL && args->evaluate != NULL) {
        redco_examples_options options = redco_trainer_examples(trainer, false, 0);
        options.skip_bad = args->skip_bad;
        options.bytes = args->bytes;
        st = redco_examples_open(args->evaluate, &options, &files->evaluated, err);
        if (st == REDCO_OK && leads) {
            exec_files_skipped(args, args->evaluate, redco_examples_skipped(files->evaluated));
        }
    }
    if (st == REDCO_OK && continues && args->predict != NULL) {
        redco_examples_options options = redco_trainer_examples(trainer, true, (uint32_t)args->max_new_tokens);
        options.skip_bad = args->skip_bad;
        options.bytes = args->bytes;
        st = redco_examples_open(args->predict, &options, &files->prompts, err);
        if (st == REDCO_OK && leads) {
            exec_files_skipped(args, args->predict, redco_examples_skipped(files->prompts));
        }
    }
    return st == REDCO_OK && args->predictions != NULL ? cli_writable(args->predictions, err) : st;
}

void exec_files_close(struct exec_files *files)
{
    redco_examples_close(files->evaluated);
    redco_examples_close(files->prompts);
}

/* "generation_config.json" in the folder of the weights that the run begins with, or that of their file.
 * @return REDCO_OK without one, too. @param document_out  NULL: there is none */
static redco_status open_generation_config(const char *weights, redco_json **document_out, redco_error *err)
{
    static const char name[] = "generation_config.json";
    struct stat info;
    *document_out = NULL;
    if (weights == NULL) { return REDCO_OK; }
    const bool folder = stat(weights, &info) == 0 && S_ISDIR(info.st_mode);
    const char *const slash = strrchr(weights, '/');
    const size_t length = folder ? strlen(weights) : slash != NULL ? (size_t)(slash - weights) : 0;
    char *const path = malloc(length + sizeof name + 2);
    if (path == NULL) { return redco_fail(err, REDCO_ENOMEM, weights, "out of memory"); }
    (void)snprintf(path, length + sizeof name + 2, "%.*s%s%s", (int)length, weights, length > 0 ? "/" : "", name);
    const redco_status st = access(path, F_OK) == 0 ? redco_json_open(path, document_out, err) : REDCO_OK;
    free(path);
    return st;
}

/* Settings of generation, of generation_config.json beside the weights, or of the config. */
struct settings {
    const json_t *given, *config; /* NULL: there is none */
};

static const json_t *setting(const struct settings *s, const char *key)
{
    const json_t *const value = json_object_get(s->given, key);
    return value != NULL && !json_is_null(value) ? value : json_object_get(s->config, key);
}

/* Settings that transformers follows and redco-exec does not change the tokens: they are named. */
static void warn_of_settings(const struct exec_args *args, const struct settings *s)
{
    static const struct {
        const char *key;
        double without; /* the number that asks for nothing; of a list: any */
    } keys[] = {{"num_beams", 1.0},
                {"repetition_penalty", 1.0},
                {"encoder_repetition_penalty", 1.0},
                {"no_repeat_ngram_size", 0.0},
                {"encoder_no_repeat_ngram_size", 0.0},
                {"min_length", 0.0},
                {"min_new_tokens", 0.0},
                {"bad_words_ids", 0.0},
                {"suppress_tokens", 0.0},
                {"begin_suppress_tokens", 0.0},
                {"exponential_decay_length_penalty", 0.0},
                {"sequence_bias", 0.0}};
    char text[500] = "the settings of generation beside the weights ask for what redco-exec does not do:";
    size_t used = strlen(text);
    bool any = false;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const json_t *const value = setting(s, keys[i].key);
        const double number = json_number_value(value);
        const bool asks = json_is_number(value) ? number < keys[i].without || number > keys[i].without
                                                : json_array_size(value) > 0 || json_object_size(value) > 0;
        if (!asks || used >= sizeof text) { continue; }
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s", any ? "," : "", keys[i].key);
        any = true;
    }
    if (any) { cli_warn(&args->cli, text); }
}

/* "eos_token_id", a number or a list of them, and the tokens that are forced. */
static void read_settings(const struct settings *s, int32_t ends[ENDS_MAX], redco_generation_options *o)
{
    const json_t *const value = setting(s, "eos_token_id");
    const json_t *const first = setting(s, "forced_bos_token_id"), *const last = setting(s, "forced_eos_token_id");
    o->ends = ends;
    if (json_is_integer(value)) { ends[o->end_count++] = (int32_t)json_integer_value(value); }
    for (size_t i = 0; i < json_array_size(value) && o->end_count < ENDS_MAX; i++) {
        ends[o->end_count++] = (int32_t)json_integer_value(json_array_get(value, i));
    }
    o->forces_first = json_is_integer(first);
    o->forces_last = json_is_integer(last);
    o->first = (int32_t)json_integer_value(first);
    o->last = (int32_t)json_integer_value(last);
}

/* @param document_out  to be closed: the settings are in it */
static redco_status open_settings(const struct exec_args *args, const redco_language_model *lm,
                                  struct settings *settings_out, redco_json **document_out, redco_error *err)
{
    const char *weights = args->weights;
    for (uint32_t i = 0; i < args->weights_part_count && args->pipeline != NULL; i++) {
        const char *const generates = redco_user_pipeline_of(args->pipeline)->generates;
        if (strcmp(args->weights_parts[i].prefix, generates) == 0) { weights = args->weights_parts[i].path; }
    }
    const redco_status st = open_generation_config(weights, document_out, err);
    *settings_out = (struct settings){*document_out != NULL ? redco_json_root(*document_out).json : NULL,
                                      redco_model_config(redco_language_model_of(lm))};
    return st;
}

/* Ids as bytes, where the example is a text and all are bytes; NULL else. */
static json_t *text_of(const redco_example *example, const int32_t *ids, uint32_t count)
{
    char *const bytes = calloc((size_t)count + 1, 1);
    bool all = bytes != NULL && example->text;
    for (uint32_t i = 0; i < count && all; i++) {
        all = ids[i] > 0 && ids[i] < BYTES;
        bytes[i] = (char)ids[i];
    }
    json_t *const text = all ? cli_json_text(bytes) : NULL;
    free(bytes);
    return text;
}

static json_t *line_of(const redco_example *example, const redco_predictions *p, uint64_t number)
{
    const int32_t *const ids = p->tokens + number * p->max_tokens;
    json_t *const tokens = json_array(), *const text = text_of(example, ids, p->counts[number]);
    for (uint32_t i = 0; i < p->counts[number]; i++) { (void)json_array_append_new(tokens, json_integer(ids[i])); }
    json_t *const prediction = json_pack("{s:o, s:b}", "tokens", tokens, "ended", (int)p->ended[number]);
    if (text != NULL) { (void)json_object_set_new(prediction, "text", text); }
    return json_pack("{s:O, s:o}", "example", example->line, "prediction", prediction);
}

/* Lines that are to be written. */
struct lines {
    const struct exec_args *args;
    const struct exec_files *files;
    const redco_records *records;         /* a pipeline's */
    const redco_predictions *predictions; /* from a language model */
    const redco_judgement *judgement;     /* from a pipeline */
    uint64_t count;
};

/* @param place  of errors; @param output_out  a new reference */
static redco_status pipeline_output(const struct exec_args *args, const json_t *record, const redco_judgement *j,
                                    uint64_t number, const char *place, json_t **output_out, redco_error *err)
{
    const redco_user_pipeline *const table = redco_user_pipeline_of(args->pipeline);
    const double *const values = j->predictions + number * j->values;
    if (record == NULL) { return redco_fail(err, REDCO_ENOMEM, place, "no memory for predictions"); }
    if (table->output != NULL) {
        *output_out = redco_user_pipeline_output(args->pipeline, record, values, j->values);
        return *output_out != NULL ? REDCO_OK
                                   : redco_fail(err, REDCO_EVALUE, place, "output() gave nothing for example %llu",
                                                (unsigned long long)number + 1);
    }
    for (uint32_t i = 0; i < j->values; i++) {
        if (isfinite(values[i])) { continue; }
        return redco_fail(err, REDCO_EINFEASIBLE, place, "predict() gave example %llu a number that is not finite",
                          (unsigned long long)number + 1);
    }
    *output_out = j->values == 1 ? json_real(values[0]) : json_array();
    for (uint32_t i = 0; i < j->values && j->values > 1; i++) {
        (void)json_array_append_new(*output_out, json_real(values[i]));
    }
    return *output_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, place, "no memory for predictions");
}

static redco_status line_at(const struct lines *l, uint64_t number, const char *place, json_t **line_out,
                            redco_error *err)
{
    if (l->judgement == NULL) {
        const redco_example example = redco_examples_get(l->files->prompts, number);
        *line_out = line_of(&example, l->predictions, number);
    } else {
        json_t *const record = redco_records_get(l->records, number), *output = NULL;
        const redco_status st = pipeline_output(l->args, record, l->judgement, number, place, &output, err);
        if (st != REDCO_OK) {
            json_decref(record);
            return st;
        }
        *line_out = json_pack("{s:o, s:o}", "example", record, "prediction", output);
    }
    return *line_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, place, "no memory for predictions");
}

/* @param file  NULL: they are made and not written */
static redco_status write_lines(const struct lines *l, FILE *file, const char *name, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint64_t i = 0; i < l->count && st == REDCO_OK; i++) {
        json_t *line = NULL;
        st = line_at(l, i, name, &line, err);
        char *const text = st == REDCO_OK ? json_dumps(line, JSON_COMPACT) : NULL;
        if (st == REDCO_OK && text == NULL) { st = redco_fail(err, REDCO_ENOMEM, name, "no memory for predictions"); }
        if (st == REDCO_OK && file != NULL && (fputs(text, file) == EOF || fputc('\n', file) == EOF)) {
            st = redco_fail(err, REDCO_ESYSTEM, name, "cannot write: %s", strerror(errno));
        }
        free(text);
        json_decref(line);
    }
    if (st == REDCO_OK && file != NULL && fflush(file) != 0) {
        st = redco_fail(err, REDCO_ESYSTEM, name, "cannot write: %s", strerror(errno));
    }
    return st;
}

/* A file appears whole or not at all. */
static redco_status write_predictions(const struct lines *l, const char *path, redco_error *err)
{
    static const char ending[] = ".unfinished";
    if (path == NULL) { return write_lines(l, cli_output(&l->args->cli), "standard output", err); }
    const size_t size = strlen(path) + sizeof ending;
    char *const temporary = malloc(size);
    if (temporary == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    (void)snprintf(temporary, size, "%s%s", path, ending);
    FILE *const file = fopen(temporary, "we");
    redco_status st = file != NULL ? write_lines(l, file, path, err)
                                   : redco_fail(err, REDCO_ESYSTEM, path, "cannot write: %s", strerror(errno));
    const bool closed = file == NULL || fclose(file) == 0;
    if (st == REDCO_OK && (!closed || rename(temporary, path) != 0)) {
        st = redco_fail(err, REDCO_ESYSTEM, path, "cannot write: %s", strerror(errno));
    }
    if (st != REDCO_OK) { (void)unlink(temporary); }
    free(temporary);
    return st;
}

static redco_status hand_out(const struct lines *l, enum exec_predicting what, redco_error *err)
{
    return what == EXEC_PREDICT_WRITE ? write_predictions(l, l->args->predictions, err)
           : what == EXEC_PREDICT_TRY ? write_lines(l, NULL, l->args->predict, err)
                                      : REDCO_OK;
}

static redco_status predict(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                            enum exec_predicting what, struct exec_use *use, redco_error *err)
{
    int32_t ends[ENDS_MAX];
    struct settings settings;
    redco_json *document = NULL;
    redco_generation_options options = {.batch = (uint32_t)args->batch,
                                        .max_tokens = (uint32_t)args->max_new_tokens,
                                        .sampling = {args->temperature, args->top_k, args->top_p, args->seed}};
    redco_status st = open_settings(args, redco_trainer_generator(trainer), &settings, &document, err);
    if (st != REDCO_OK) { return st; }
    read_settings(&settings, ends, &options);
    if (what == EXEC_PREDICT_WRITE) { warn_of_settings(args, &settings); }
    redco_json_close(document);
    redco_predictions p = {.tokens = NULL};
    const double begin_s = redco_now_s();
    st = redco_trainer_generate(trainer, files->prompts, &options, &p, err);
    use->prediction_s = redco_now_s() - begin_s;
    use->graphs = p.graphs;
    use->predicted = p.count;
    for (uint64_t i = 0; i < p.count && st == REDCO_OK; i++) { use->tokens += p.counts[i]; }
    const struct lines lines = {.args = args, .files = files, .predictions = &p, .count = p.count};
    if (st == REDCO_OK) { st = hand_out(&lines, what, err); }
    if (st == REDCO_OK) { use->predict = args->predict; }
    redco_predictions_free(&p);
    return st;
}

/* The mean over all examples. */
static redco_status measure(const struct exec_args *args, const redco_judgement *j, double *metric_out,
                            redco_error *err)
{
    const redco_user_pipeline *const table = redco_user_pipeline_of(args->pipeline);
    double sum = 0.0;
    if (table->metric == NULL) { return REDCO_OK; }
    for (uint64_t i = 0; i < j->examples; i++) {
        json_t *const record = redco_records_get(args->evaluated, i);
        json_t *output = NULL;
        const redco_status st = pipeline_output(args, record, j, i, args->evaluate, &output, err);
        if (st != REDCO_OK) {
            json_decref(record);
            return st;
        }
        sum += redco_user_pipeline_judge(args->pipeline, record, output);
        json_decref(output);
        json_decref(record);
    }
    *metric_out = sum / (double)j->examples;
    return isfinite(*metric_out)
               ? REDCO_OK
               : redco_fail(err, REDCO_EINFEASIBLE, args->evaluate, "the metric is not a finite number");
}

static redco_status evaluate_pipeline(const struct exec_args *args, redco_trainer *trainer, const char *pairs,
                                      struct exec_use *use, redco_error *err)
{
    redco_judgement j = {.predictions = NULL};
    redco_status st = redco_trainer_judge(trainer, args->evaluated, (uint32_t)args->batch, true, &j, err);
    use->evaluation = (redco_evaluation){j.loss, j.examples, (uint64_t)ceil(j.weight)};
    if (st == REDCO_OK) { st = measure(args, &j, &use->metric, err); }
    if (st == REDCO_OK && pairs != NULL && j.values > 0) {
        const struct lines lines = {.args = args, .records = args->evaluated, .judgement = &j, .count = j.examples};
        (void)write_predictions(&lines, pairs, &use->pairs_err);
    }
    redco_judgement_free(&j);
    return st;
}

redco_status exec_files_evaluate(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                                 const char *pairs, struct exec_use *use, redco_error *err)
{
    const double begin_s = redco_now_s();
    redco_status st = REDCO_OK;
    use->metric = (double)NAN;
    if (args->evaluate == NULL) { return st; }
    use->by_token = args->pipeline == NULL;
    st = args->pipeline != NULL
             ? evaluate_pipeline(args, trainer, pairs, use, err)
             : redco_trainer_evaluate(trainer, files->evaluated, (uint32_t)args->batch, &use->evaluation, err);
    use->evaluation_s = redco_now_s() - begin_s;
    if (st == REDCO_OK) { use->evaluate = args->evaluate; }
    return st;
}

redco_status exec_files_predict(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                                enum exec_predicting what, struct exec_use *use, redco_error *err)
{
    redco_judgement j = {.predictions = NULL};
    if (args->predict == NULL) { return REDCO_OK; }
    if (files->prompts != NULL) { return predict(args, files, trainer, what, use, err); }
    const double begin_s = redco_now_s();
    redco_status st = redco_trainer_judge(trainer, args->predicted, (uint32_t)args->batch, false, &j, err);
    use->prediction_s = redco_now_s() - begin_s;
    use->predicted = j.examples;
    const struct lines lines = {.args = args, .records = args->predicted, .judgement = &j, .count = j.examples};
    if (st == REDCO_OK) { st = hand_out(&lines, what, err); }
    if (st == REDCO_OK) { use->predict = args->predict; }
    redco_judgement_free(&j);
    return st;
}
