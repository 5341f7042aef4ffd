#include "tools/exec/exec_pipeline.h"

#include "executor/pipeline/mean_check.h"
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

/* The value of an option; NULL: it is not given. */
static const char *value_of(int argc, char **argv, const char *option)
{
    const size_t length = strlen(option);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], option, length) != 0) { continue; }
        if (argv[i][length] == '=') { return argv[i] + length + 1; }
        if (argv[i][length] == '\0' && i + 1 < argc) { return argv[i + 1]; }
    }
    return NULL;
}

/* The optimizer that a pipeline's options are for. */
static void optimizer_of(const char *options, char optimizer[BLANKS_AND_WORD])
{
    static const char option[] = "--optimizer";
    const size_t length = sizeof option - 1;
    char word[BLANKS_AND_WORD];
    (void)snprintf(optimizer, BLANKS_AND_WORD, "adamw");
    while (next_word(&options, word)) {
        if (strncmp(word, option, length) != 0) { continue; }
        if (word[length] == '=') { (void)snprintf(optimizer, BLANKS_AND_WORD, "%s", word + length + 1); }
        if (word[length] == '\0') { (void)next_word(&options, optimizer); }
    }
}

/* Settings that one optimizer has and another does not. */
static bool is_of_optimizer(const char *word)
{
    static const char *const known[] = {"--optimizer",   "--beta1",         "--beta2",
                                        "--epsilon",     "--momentum",      "--decay-power",
                                        "--update-clip", "--scale-epsilon", "--relative-rate"};
    const size_t length = strcspn(word, "=");
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i]) == length && strncmp(known[i], word, length) == 0) { return true; }
    }
    return false;
}

/* Adds a pipeline's options, but for those of its optimizer where the command line has another one.
 * @return the number of words, below 0 when out of memory */
static int add_options(const char *options, const char *asked, char **words, int count)
{
    char own[BLANKS_AND_WORD], word[BLANKS_AND_WORD];
    optimizer_of(options, own);
    const bool other = asked != NULL && strcmp(asked, own) != 0;
    bool left_out = false;
    while (count <= WORDS_MAX && next_word(&options, word)) {
        if (strncmp(word, "--", 2) == 0) { left_out = other && is_of_optimizer(word); }
        if (left_out) { continue; }
        words[count] = strdup(word);
        if (words[count++] == NULL) { return -1; }
    }
    return count;
}

char **exec_pipeline_words(int argc, char **argv, redco_user_pipeline_call *call, int *count_out)
{
    const char *const path = value_of(argc, argv, "--pipeline");
    redco_user_pipeline_file *file = NULL;
    char **words = NULL;
    int count = 0;
    if (path == NULL || redco_user_pipeline_open(path, call, &file, NULL) != REDCO_OK) { return NULL; }
    const char *const options = redco_user_pipeline_of(file)->options;
    if (options != NULL && check_options(file, path, NULL) == REDCO_OK) {
        words = (char **)calloc((size_t)argc + WORDS_MAX + 1, sizeof *words);
    }
    bool enough = words != NULL;
    if (enough) { enough = (words[count++] = strdup(argv[0])) != NULL; }
    if (enough) {
        count = add_options(options, value_of(argc, argv, "--optimizer"), words, count);
        enough = count >= 0;
    }
    for (int i = 1; enough && i < argc; i++) { enough = (words[count++] = strdup(argv[i])) != NULL; }
    redco_user_pipeline_close(file);
    if (!enough) {
        exec_words_free(words);
        return NULL;
    }
    *count_out = count;
    return words;
}

/* Losses are the same on any plan as long as they are means over examples. */
static redco_status check_mean(const struct exec_args *args, redco_error *err)
{
    redco_mean_check check;
    char text[500];
    const redco_status st = redco_records_check_mean(args->records, &check, err);
    if (st != REDCO_OK || !check.differs) { return st; }
    (void)snprintf(
        text, sizeof text,
        "the loss of %.80s is no mean over examples: of %u it is %.9g, the mean of both halves %.9g; it changes "
        "with the micro-batch, %u in this plan: keep to one with redco-plan --micro-batch",
        args->plan->model_name, check.examples, check.whole, check.halves, args->plan->parallelism.micro_batch);
    cli_warn(&args->cli, text);
    return REDCO_OK;
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
    redco_status st = redco_user_pipeline_open(args->pipeline_path, args->call, &args->pipeline, err);
    if (st == REDCO_OK) { st = check_options(args->pipeline, args->pipeline_path, err); }
    if (st == REDCO_OK) {
        st = redco_user_pipeline_check_model(args->pipeline, args->plan->model_config, args->path, err);
    }
    if (st == REDCO_OK) {
        st = redco_user_pipeline_try(args->pipeline, args->plan->parallelism.micro_batch, err);
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
    if (st == REDCO_OK && args->records != NULL && !args->follows) { st = check_mean(args, err); }
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
