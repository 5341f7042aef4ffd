#include "tools/plan/plan_export.h"

#include "planner/export/export.h"
#include "topology/base/file.h"

#include <stdio.h>
#include <string.h>

error_t plan_export_option(struct plan_args *args, const char *text)
{
    const char *equals = strchr(text, '=');
    const size_t length = equals != NULL ? (size_t)(equals - text) : strlen(text);
    char kind[24] = "";
    int word = 0;
    (void)snprintf(kind, sizeof kind, "%.*s", (int)(length < sizeof kind ? length : sizeof kind), text);
    const error_t why = cli_word(&args->cli, "--export", kind, redco_framework_words, &word);
    if (why != 0) { return why; }
    struct plan_export_choice *choice = &args->exports[word];
    if (choice->chosen) { return cli_bad_option(&args->cli, "--export", "names %s twice", kind); }
    choice->chosen = true;
    args->exports_any = true;
    return equals != NULL ? cli_name(&args->cli, "--export", equals + 1, &choice->path) : 0;
}

bool plan_export_prints(const struct plan_args *args)
{
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT; i++) {
        if (args->exports[i].chosen && args->exports[i].path == NULL && !args->cli.json) { return true; }
    }
    return false;
}

redco_status plan_export_writable(const struct plan_args *args, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT && st == REDCO_OK; i++) {
        if (args->exports[i].path != NULL) { st = cli_writable(args->exports[i].path, err); }
    }
    return st;
}

static void warn(const struct plan_args *args, const char *framework, const char *what)
{
    char text[1200];
    (void)snprintf(text, sizeof text, "%s: %s", framework, what);
    cli_warn(&args->cli, text);
}

/* A file, or standard output. */
static redco_status put(const struct plan_args *args, const redco_export *made, redco_error *err)
{
    const char *path = args->exports[made->framework].path;
    const char *framework = redco_framework_words[made->framework];
    const json_t *notes = json_object_get(made->report, "notes");
    if (path != NULL) {
        const redco_status st = redco_file_write(path, made->text, made->text_size, err);
        if (st != REDCO_OK) { return st; }
    } else if (!args->cli.json) {
        (void)fwrite(made->text, 1, made->text_size, stdout);
    }
    if (made->summary != NULL) { warn(args, framework, made->summary); }
    for (size_t i = 0; i < json_array_size(notes); i++) {
        warn(args, framework, json_string_value(json_array_get(notes, i)));
    }
    return REDCO_OK;
}

redco_status plan_export(const struct plan_args *args, const redco_plan *plan, const char *name, json_t **exports_out,
                         redco_error *err)
{
    redco_plan_case reopened = {.costs = NULL};
    redco_export *made[REDCO_FRAMEWORK_COUNT] = {NULL};
    json_t *reports = NULL;
    redco_status st = redco_plan_reopen(plan, name, args->question.names.profiles, args->question.names.profile_count,
                                        &reopened, err);
    /* All are made before any is written: an answer is whole or not at all. */
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT && st == REDCO_OK; i++) {
        if (args->exports[i].chosen) { st = redco_export_create(plan, &reopened, (redco_framework)i, &made[i], err); }
    }
    if (st == REDCO_OK && args->cli.json && (reports = json_array()) == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT && st == REDCO_OK; i++) {
        if (made[i] == NULL) { continue; }
        st = put(args, made[i], err);
        if (reports != NULL) { (void)json_array_append(reports, made[i]->report); }
    }
    if (st == REDCO_OK && reports != NULL) {
        *exports_out = reports;
        reports = NULL;
    }
    json_decref(reports);
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT; i++) { redco_export_free(made[i]); }
    redco_plan_case_free(&reopened);
    return st;
}

void plan_export_print_written(const struct plan_args *args)
{
    for (int i = 0; i < REDCO_FRAMEWORK_COUNT; i++) {
        if (args->exports[i].path != NULL) { cli_wrote(args->exports[i].path); }
    }
}

int plan_export_file(const struct plan_args *args)
{
    redco_plan *plan = NULL;
    json_t *exports = NULL;
    redco_error err = {0};
    redco_status st = plan_export_writable(args, &err);
    if (st == REDCO_OK) { st = redco_plan_read(args->from, &plan, &err); }
    if (st == REDCO_OK) { st = plan_export(args, plan, args->from, &exports, &err); }
    int rc = CLI_DONE;
    if (st != REDCO_OK) {
        rc = cli_fail(&args->cli, &err);
    } else if (exports != NULL) {
        json_t *json = redco_plan_to_json(plan);
        (void)json_object_set(json, "exports", exports);
        rc = cli_print_json(&args->cli, json);
        json_decref(json);
    } else {
        if (!plan_export_prints(args)) { plan_export_print_written(args); }
        rc = cli_finish(&args->cli, CLI_DONE);
    }
    json_decref(exports);
    redco_plan_free(plan);
    return rc;
}
