#include "tools/exec/exec_pipeline.h"

#include "tools/exec/exec_predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redco_status open_records(struct exec_args *args, const char *path, bool predicted, redco_records **records_out,
                                 redco_error *err)
{
    const redco_records_options options = {.skip_bad = args->skip_bad, .predicted = predicted};
    if (path == NULL) { return REDCO_OK; }
    const redco_status st = redco_records_open(path, args->pipeline, options, records_out, err);
    if (st == REDCO_OK) { exec_files_skipped(args, path, redco_records_skipped(*records_out)); }
    return st;
}

enum { WORDS_MAX = 64, BLANKS_AND_WORD = 256 };

/* Options that say how is trained, not what or where. */
static bool is_of_training(const char *word)
{
    static const char *const known[] = {
        "--optimizer", "--learning-rate", "--schedule",    "--warmup",        "--decay-steps",  "--final-rate",
        "--beta1",     "--beta2",         "--epsilon",     "--weight-decay",  "--decay",        "--momentum",
        "--clip-norm", "--decay-power",   "--update-clip", "--scale-epsilon", "--relative-rate"};
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i]) == length && strncmp(known[i], word, length) == 0) { return true; }
    }
    return false;
}

/* The next word of a text. @return false at its end, or if it is too long */
static bool next_word(const char **at, char word[BLANKS_AND_WORD])
{
    *at += strspn(*at, " ");
    const size_t length = strcspn(*at, " ");
    if (length == 0 || length >= BLANKS_AND_WORD) { return false; }
    (void)snprintf(word, BLANKS_AND_WORD, "%.*s", (int)length, *at);
    *at += length;
    return true;
}

static redco_status check_options(const redco_user_pipeline_file *file, const char *path, redco_error *err)
{
    const char *at = redco_user_pipeline_of(file)->options;
    char word[BLANKS_AND_WORD];
    while (at != NULL && next_word(&at, word)) {
        if (word[0] != '-' || is_of_training(word)) { continue; }
        return redco_fail(err, REDCO_EVALUE, path,
                          "its .options has %.60s, which is no option of the optimizer or its rate", word);
    }
    return REDCO_OK;
}

void exec_words_free(char **words)
{
    for (char **at = words; at != NULL && *at != NULL; at++) { free(*at); }
    free((void *)words);
}

static const char *pipeline_of(int argc, char **argv)
{
    static const char option[] = "--pipeline";
    const size_t length = sizeof option - 1;
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], option, length) != 0) { continue; }
        if (argv[i][length] == '=') { return argv[i] + length + 1; }
        if (argv[i][length] == '\0' && i + 1 < argc) { return argv[i + 1]; }
    }
    return NULL;
}

char **exec_pipeline_words(int argc, char **argv, int *count_out)
{
    const char *const path = pipeline_of(argc, argv);
    redco_user_pipeline_file *file = NULL;
    char word[BLANKS_AND_WORD];
    char **words = NULL;
    int count = 0;
    if (path == NULL || redco_user_pipeline_open(path, cli_left, &file, NULL) != REDCO_OK) { return NULL; }
    const char *at = redco_user_pipeline_of(file)->options;
    if (at != NULL && check_options(file, path, NULL) == REDCO_OK) {
        words = (char **)calloc((size_t)argc + WORDS_MAX + 1, sizeof *words);
    }
    bool enough = words != NULL;
    if (enough) { enough = (words[count++] = strdup(argv[0])) != NULL; }
    while (enough && count <= WORDS_MAX && next_word(&at, word)) { enough = (words[count++] = strdup(word)) != NULL; }
    for (int i = 1; enough && i < argc; i++) { enough = (words[count++] = strdup(argv[i])) != NULL; }
    redco_user_pipeline_close(file);
    if (!enough) {
        exec_words_free(words);
        return NULL;
    }
    *count_out = count;
    return words;
}

redco_status exec_pipeline_open(struct exec_args *args, redco_error *err)
{
    static const char type[] = "pipeline";
    const json_t *const planned = json_object_get(args->plan->model_config, "model_type");
    json_t *const wanted = json_string(type);
    const bool of_pipeline = json_equal(planned, wanted) != 0;
    json_decref(wanted);
    if (args->pipeline_path == NULL) {
        return of_pipeline ? redco_fail(err, REDCO_EVALUE, args->path,
                                        "is a plan for the pipeline %.80s; give its library with --pipeline FILE.so",
                                        args->plan->model_name)
                           : REDCO_OK;
    }
    redco_status st = redco_user_pipeline_open(args->pipeline_path, cli_left, &args->pipeline, err);
    if (st == REDCO_OK) { st = check_options(args->pipeline, args->pipeline_path, err); }
    if (st == REDCO_OK) {
        st = redco_user_pipeline_check_model(args->pipeline, args->plan->model_config, args->path, err);
    }
    if (st == REDCO_OK) {
        st = redco_user_pipeline_try(args->pipeline, args->plan->micro_batch, err);
    } /* errors of the loss come here */
    const bool collects = st == REDCO_OK && redco_user_pipeline_of(args->pipeline)->collect != NULL;
    if (collects && args->data != NULL) {
        st = redco_fail(err, REDCO_EVALUE, "--data", "is not read: %.80s has .collect, which makes its examples",
                        args->pipeline_path);
    }
    if (st == REDCO_OK && args->data == NULL && args->steps > 0 && !collects) {
        st = redco_fail(err, REDCO_EVALUE, "--data", "is missing; a pipeline is trained on JSON lines");
    }
    const bool continues = st == REDCO_OK && redco_user_pipeline_of(args->pipeline)->generates != NULL;
    if (st == REDCO_OK && args->predict != NULL && !continues &&
        redco_user_pipeline_of(args->pipeline)->predict == NULL) {
        st = redco_fail(err, REDCO_EVALUE, args->pipeline_path, "has no .predict, which --predict needs");
    }
    if (st == REDCO_OK && args->generates && !continues) {
        st = redco_fail(err, REDCO_EVALUE, "--max-new-tokens and its kin", "are for language models");
    }
    if (st == REDCO_OK) { st = open_records(args, args->data, false, &args->records, err); }
    if (st == REDCO_OK) { st = open_records(args, args->evaluate, false, &args->evaluated, err); }
    return st == REDCO_OK && !continues ? open_records(args, args->predict, true, &args->predicted, err) : st;
}

void exec_pipeline_close(struct exec_args *args)
{
    redco_records_close(args->records);
    redco_examples_close(args->examples);
    redco_records_close(args->evaluated);
    redco_records_close(args->predicted);
    redco_user_pipeline_close(args->pipeline);
}
