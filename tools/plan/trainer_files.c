#include "tools/plan/trainer_files.h"

#include "planner/read/rewrite.h"
#include "topology/base/file.h"
#include "topology/base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A model that the files state by its dimensions: models are read from files. */
static redco_status keep_model(const json_t *config, const char **name_out, redco_error *err)
{
    static char path[40];
    const int descriptor = memfd_create("model", MFD_CLOEXEC);
    if (descriptor < 0 || json_dumpfd(config, descriptor, JSON_COMPACT) != 0) {
        return redco_fail(err, REDCO_ESYSTEM, "--read", "cannot keep the model: %s", strerror(errno));
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    *name_out = path;
    return REDCO_OK;
}

static bool given_option(const void *context, const char *option)
{
    return plan_args_given(context, option);
}

/* The place of an option's error is the line that set it. */
static redco_status failed(const redco_read_option *option, const redco_error *why, redco_error *err)
{
    char place[400];
    if (option->place == NULL) { return redco_fail(err, why->status, why->place, "%s", why->text); }
    (void)snprintf(place, sizeof place, "%.280s: %.100s", option->place, option->key);
    return redco_fail(err, why->status, place, "%s", why->text);
}

bool trainer_files_beside(const void *context, const char *option)
{
    const struct plan_args *const args = context;
    return redco_reading_option(args->reading, option) == NULL && plan_args_given(args, option);
}

/* The value of a degree that the command line gives, 0 of others. */
static uint32_t degree_beside(const struct plan_args *args, const char *option, uint32_t value)
{
    return trainer_files_beside(args, option) && !redco_degree_is_free(value) ? value : 0;
}

/* Values that a file computes from those that changed: its price is then another than the one that is promised. */
static void warn_of_computed(const struct plan_args *args, const char *path, const char *text, size_t size)
{
    static const char *const fixed[] = {"gpus", "global-batch", "seq", "model"};
    const redco_parallelism *const p = &args->question.options.given;
    redco_error none = {.status = REDCO_OK};
    redco_reading *changed = NULL;
    redco_read_question question = {.count = args->read_count,
                                    .as = args->read_as,
                                    .gpus = trainer_files_beside(args, "gpus") ? args->question.gpus : 0,
                                    .tp = degree_beside(args, "tp", p->tp),
                                    .pp = degree_beside(args, "pp", p->pp),
                                    .cp = degree_beside(args, "cp", p->cp),
                                    .micro_batch = degree_beside(args, "micro-batch", p->micro_batch),
                                    .model = trainer_files_beside(args, "model") ? args->question.names.model : NULL,
                                    .given = trainer_files_beside,
                                    .context = args,
                                    .changed = path,
                                    .changed_text = text,
                                    .changed_size = size};
    memcpy(question.paths, args->read, sizeof question.paths);
    if (redco_read(&question, &changed, &none) != REDCO_OK) {
        char why[700];
        (void)snprintf(why, sizeof why, "--write: what is written is not read again: %.250s: %.350s", none.place,
                       none.text);
        cli_warn(&args->cli, why);
        return;
    }
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++) {
        const redco_read_option *const before = redco_reading_option(args->reading, fixed[i]);
        const redco_read_option *const now = redco_reading_option(changed, fixed[i]);
        char warning[500];
        if (before == NULL || now == NULL || strcmp(before->value, now->value) == 0) { continue; }
        (void)snprintf(warning, sizeof warning,
                       "--write: %s becomes %.60s, as %.200s computes it from what changes; %.60s is priced: write "
                       "that there",
                       fixed[i], now->value, path, before->value);
        cli_warn(&args->cli, warning);
    }
    redco_reading_free(changed);
}

redco_status trainer_files_apply(const struct plan_args *given, struct plan_args *fresh, redco_error *err)
{
    const redco_parallelism *const p = &given->question.options.given;
    const redco_read_option *options = NULL;
    redco_read_question question = {.count = given->read_count,
                                    .as = given->read_as,
                                    .gpus = given->question.gpus,
                                    .tp = redco_degree_is_free(p->tp) ? 0 : p->tp,
                                    .pp = redco_degree_is_free(p->pp) ? 0 : p->pp,
                                    .cp = redco_degree_is_free(p->cp) ? 0 : p->cp,
                                    .micro_batch = p->micro_batch,
                                    .model = given->question.names.model,
                                    .given = given_option,
                                    .context = given};
    memcpy(question.paths, given->read, sizeof question.paths);
    redco_status st = redco_read(&question, &fresh->reading, err);
    if (st != REDCO_OK) { return st; }
    const size_t count = redco_reading_options(fresh->reading, &options);
    for (size_t i = 0; i < count; i++) {
        if (plan_args_set(fresh, options[i].option, options[i].value) != 0) {
            return failed(&options[i], &fresh->cli.err, err);
        }
    }
    const json_t *const model = redco_reading_model(fresh->reading);
    return model != NULL ? keep_model(model, &fresh->question.names.model, err) : REDCO_OK;
}

/* The first item of a list stands for all: "units.3.wrap" is a later one. */
static bool is_later_item(const char *key)
{
    for (const char *dot = strchr(key, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        const size_t digits = strspn(dot + 1, "0123456789");
        const char end = dot[1 + digits];
        if (digits > 0 && (end == '.' || end == '\0') && strcmp(dot + 1, "0") != 0 && strncmp(dot + 1, "0.", 2) != 0) {
            return true;
        }
    }
    return false;
}

static void print_wrapped(const char *label, const redco_read_item *items, size_t count)
{
    enum { WIDEST = 110 };
    size_t used = (size_t)printf("%s", label);
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(items[i].key);
        if (is_later_item(items[i].key)) { continue; }
        if (i > 0) { used += (size_t)printf(","); }
        if (used + length + 2 > WIDEST) {
            used = (size_t)printf("\n             ") - 1;
        } else if (i > 0) {
            used += (size_t)printf(" ");
        }
        used += (size_t)printf("%s", items[i].key);
    }
    (void)printf("\n");
}

/* "train.sh:12  --tensor-model-parallel-size 8: tp" */
static void print_item(const redco_read_item *item)
{
    const bool key = item->key[0] != '\0';
    (void)printf("  %s: %s%s%.80s%s%s\n", item->place, item->key, item->value[0] != '\0' ? " " : "", item->value,
                 key && item->what[0] != '\0' ? ": " : "", item->what);
}

void trainer_files_report(const struct plan_args *args)
{
    const redco_reading *const reading = args->reading;
    const redco_read_item *items = NULL;
    const redco_read_option *options = NULL;
    const size_t count = redco_reading_options(reading, &options);
    (void)printf("read as %s:", redco_reading_title(reading));
    for (size_t i = 0; i < count; i++) { (void)printf(" --%s %s", options[i].option, options[i].value); }
    (void)printf("\n");
    size_t lines = redco_reading_list(reading, REDCO_READ_UNDERSTOOD, &items);
    print_wrapped("understood   ", items, lines);
    lines = redco_reading_list(reading, REDCO_READ_HARMLESS, &items);
    if (lines > 0) { print_wrapped("no effect    ", items, lines); }
    lines = redco_reading_list(reading, REDCO_READ_ASSUMED, &items);
    for (size_t i = 0; i < lines; i++) { (void)printf("assumed      %s\n", items[i].what); }
    lines = redco_reading_list(reading, REDCO_READ_NOT_UNDERSTOOD, &items);
    if (lines > 0) { (void)printf("not understood, %zu:\n", lines); }
    for (size_t i = 0; i < lines; i++) { print_item(&items[i]); }
    (void)printf("\n");
}

void trainer_files_place(const struct plan_args *args, redco_error *err)
{
    const char *const model = args->question.names.model;
    const size_t length = model != NULL ? strlen(model) : 0;
    char place[sizeof err->place];
    if (model == NULL || args->reading == NULL || redco_reading_model(args->reading) == NULL ||
        strncmp(err->place, model, length) != 0) {
        return;
    }
    (void)snprintf(place, sizeof place, "%.250s: model%.200s", args->read[0], err->place + length);
    (void)snprintf(err->place, sizeof err->place, "%s", place);
}

static void print_edits(const redco_change *change)
{
    for (uint32_t i = 0; i < change->edit_count; i++) {
        const redco_words *const edit = &change->edits[i];
        const bool flag = strcmp(edit->to, "true") == 0 && edit->from[0] == '\0';
        (void)printf("%s%s", i > 0 ? ", " : "", edit->key);
        if (!flag) { (void)printf("%s%s \xe2\x86\x92 %s", edit->from[0] != '\0' ? " " : "", edit->from, edit->to); }
    }
}

static void print_change(const redco_change *change, bool fits)
{
    if (fits) {
        (void)printf(": %.4g s, %+.1f %% a step", change->step_s, 100.0 * (1.0 / (1.0 + change->gain_ratio) - 1.0));
    } else {
        (void)printf(": fits, %.4g s", change->step_s);
    }
    (void)printf(", %.3g GB\n", (double)change->total_bytes / 1e9);
}

void trainer_files_changes(const redco_changes *changes, bool fits)
{
    enum { SHOWN = 8 };
    if (changes->count == 0) {
        (void)printf("changes      none of a single key %s\n", fits ? "pays" : "makes it fit");
        return;
    }
    (void)printf("%s", fits ? "changes that pay, each alone:\n" : "changes that make it fit, each alone:\n");
    for (uint32_t i = 0; i < changes->count && i < SHOWN; i++) {
        (void)printf("  ");
        print_edits(&changes->alone[i]);
        print_change(&changes->alone[i], fits);
    }
    if (changes->joined_count < 2) { return; }
    (void)printf("together:\n  ");
    for (uint32_t i = 0; i < changes->joined_count; i++) {
        (void)printf("%s", i > 0 ? ", " : "");
        print_edits(&changes->alone[changes->joined[i]]);
    }
    print_change(&changes->together, fits);
}

json_t *trainer_files_json(const struct plan_args *args, const redco_changes *changes)
{
    json_t *const json = redco_reading_json(args->reading);
    if (json != NULL && changes != NULL) { (void)json_object_set_new(json, "changes", redco_changes_json(changes)); }
    return json;
}

/* The edits of the changes that are best together, or of the best alone. */
static uint32_t best_edits(const redco_changes *changes, redco_words *out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < changes->joined_count; i++) {
        const redco_change *const change = &changes->alone[changes->joined[i]];
        for (uint32_t k = 0; k < change->edit_count; k++) { out[count++] = change->edits[k]; }
    }
    return count;
}

redco_status trainer_files_write(const struct plan_args *args, const redco_changes *changes, redco_error *err)
{
    redco_words edits[REDCO_MOST_CHANGES * REDCO_CHANGE_EDITS];
    const char *path = NULL;
    char *text = NULL, left_out[300], warning[500];
    size_t size = 0;
    const uint32_t count = best_edits(changes, edits);
    if (count == 0) {
        cli_warn(&args->cli, "--write: no change pays: nothing is written");
        return REDCO_OK;
    }
    redco_status st =
        redco_reading_rewrite(args->reading, edits, count, &path, &text, &size, left_out, sizeof left_out, err);
    if (st == REDCO_OK) { st = redco_file_write(args->write, text, size, err); }
    if (st == REDCO_OK) { warn_of_computed(args, path, text, size); }
    free(text);
    if (st != REDCO_OK) { return st; }
    if (strcmp(path, args->read[0]) != 0) {
        (void)snprintf(warning, sizeof warning, "--write: it is %.200s that changes", path);
        cli_warn(&args->cli, warning);
    }
    if (left_out[0] != '\0') {
        (void)snprintf(warning, sizeof warning,
                       "--write: change by hand, since it is not a value of its own in %.100s: %.300s", path, left_out);
        cli_warn(&args->cli, warning);
    }
    if (!args->cli.json) { cli_wrote(args->write); }
    return REDCO_OK;
}
