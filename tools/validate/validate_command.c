/* redco-validate --row --command: the redco-plan command that prices a measured row, and the files that it needs. */
#include "costmodel/evaluation/row_cluster.h"
#include "costmodel/evaluation/row_command.h"
#include "tools/cli/measured_files.h"
#include "tools/validate/validate.h"
#include "topology/base/file.h"
#include "topology/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Writes control characters, which a terminal would obey, as the printf of any shell writes them back. */
static void print_escaped(const char *word)
{
    (void)fputs("\"$(printf '", stdout);
    for (; *word != '\0'; word++) {
        const unsigned char byte = (unsigned char)*word;
        if (byte < ' ' || byte >= 0x7f || strchr("'\\%", byte) != NULL) {
            (void)printf("\\%03o", byte);
        } else {
            (void)putchar(byte);
        }
    }
    (void)fputs("')\"", stdout);
}

/* As a shell reads it back. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,@%+-";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        (void)fputs(word, stdout);
        return;
    }
    if (!redco_text_is_plain(word)) {
        print_escaped(word);
        return;
    }
    (void)putchar('\'');
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            (void)fputs("'\\''", stdout);
        } else {
            (void)putchar(*word);
        }
    }
    (void)putchar('\'');
}

static redco_status make_folder(const char *path, redco_error *err)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) { return REDCO_OK; }
    return redco_fail(err, REDCO_EIO, path, "cannot make the folder: %s", strerror(errno));
}

static redco_status write_json(const json_t *json, const char *path, redco_error *err)
{
    size_t size = 0;
    char *const text = redco_json_text(json, 17, &size);
    if (text == NULL) { return redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    const redco_status st = redco_file_write(path, text, size, err);
    free(text);
    return st;
}

/* The row by its number, ready to be priced. */
static redco_status find_row(const struct validate_arguments *a, const redco_measured *table,
                             const redco_measured_run **run_out, redco_evaluations **evaluations_out, redco_error *err)
{
    char place[4096];
    const redco_measured_run *runs = NULL;
    const size_t count = redco_measured_runs(table, &runs);
    if (a->row > count) {
        return redco_fail(err, REDCO_EVALUE, "--row", "%llu is more than the %zu rows of %s",
                          (unsigned long long)a->row, count, a->files[0]);
    }
    *run_out = &runs[a->row - 1];
    redco_status st = measured_check_gpus(a->files[0], *run_out, 1, err);
    if (st == REDCO_OK) { st = redco_evaluations_create(run_out, 1, evaluations_out, err); }
    if (st != REDCO_OK) { return st; }
    const char *const skip = redco_evaluations_skip(*evaluations_out, 0);
    if (skip == NULL) { return REDCO_OK; }
    (void)snprintf(place, sizeof place, "%s:%u", a->files[0], (*run_out)->line);
    return redco_fail(err, REDCO_EVALUE, place, "row %llu is skipped: %s", (unsigned long long)a->row, skip);
}

static redco_status write_files(const struct validate_arguments *a, const redco_measured_run *run,
                                const redco_request *request, const redco_row_files *files, redco_error *err)
{
    json_t *cluster = NULL;
    redco_status st = redco_row_cluster(run, &cluster, err);
    if (st == REDCO_OK) { st = make_folder(a->command, err); }
    if (st == REDCO_OK) { st = write_json(redco_model_config(request->model), files->model, err); }
    if (st == REDCO_OK) { st = write_json(cluster, files->cluster, err); }
    json_decref(cluster);
    return st;
}

static void print_command(const struct validate_arguments *a, const redco_row_command *command)
{
    char *const *words = NULL;
    const size_t count = redco_row_command_words(command, &words);
    if (redco_row_command_remark(command) != NULL) { cli_warn(&a->cli, redco_row_command_remark(command)); }
    for (size_t i = 0; i < count; i++) {
        if (i > 0) { (void)putchar(' '); }
        print_word(words[i]);
    }
    (void)putchar('\n');
}

int validate_command(const struct validate_arguments *arguments)
{
    redco_error err = {.status = REDCO_OK};
    redco_measured *table = NULL;
    const redco_measured_run *run = NULL;
    redco_evaluations *evaluations = NULL;
    redco_row_command *command = NULL;
    char *model = NULL, *cluster = NULL;
    redco_status st = REDCO_OK;
    if (asprintf(&model, "%s/model.json", arguments->command) < 0 ||
        asprintf(&cluster, "%s/cluster.json", arguments->command) < 0) {
        st = redco_fail(&err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    const redco_row_files files = {.model = model, .cluster = cluster, .calibration = arguments->calibration};
    if ((st = redco_measured_read(arguments->files[0], &table, &err)) != REDCO_OK ||
        (st = find_row(arguments, table, &run, &evaluations, &err)) != REDCO_OK) {
        goto out;
    }
    const redco_request *const request = redco_evaluations_request(evaluations, 0);
    if ((st = redco_row_command_create(run, request, &files, &command, &err)) == REDCO_OK) {
        st = write_files(arguments, run, request, &files, &err);
    }
    if (st == REDCO_OK) { print_command(arguments, command); }
out:
    redco_row_command_free(command);
    redco_evaluations_free(evaluations);
    redco_measured_free(table);
    free(model);
    free(cluster);
    return st == REDCO_OK ? cli_finish(&arguments->cli, CLI_DONE) : cli_fail(&arguments->cli, &err);
}
