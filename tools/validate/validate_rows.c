#include "tools/validate/validate_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sets are read once each: a table has few of them. */
struct sets {
    char names[32][64];
    redco_calibration sets[32];
    size_t count;
};

static redco_status set_of(struct sets *sets, const char *name, const redco_calibration **set_out, redco_error *err)
{
    enum { SETS = sizeof sets->sets / sizeof sets->sets[0] };
    for (size_t i = 0; i < sets->count; i++) {
        if (strcmp(sets->names[i], name) == 0) {
            *set_out = &sets->sets[i];
            return REDCO_OK;
        }
    }
    const size_t at = sets->count < SETS ? sets->count : SETS - 1;
    const redco_status st = redco_calibration_read(name, NULL, &sets->sets[at], err);
    if (st != REDCO_OK) { return st; }
    (void)snprintf(sets->names[at], sizeof sets->names[at], "%s", name);
    sets->count = at + 1;
    *set_out = &sets->sets[at];
    return REDCO_OK;
}

/* A schedule that cannot be laid out is the row's fault. */
static redco_status price_row(struct validate_rows *rows, size_t index, const redco_calibration *set, redco_error *err)
{
    struct validate_row *const row = &rows->rows[index];
    redco_error why = {.status = REDCO_OK};
    const redco_status st = redco_evaluations_price(rows->files.evaluations, index, set, &row->price, &why);
    if (st == REDCO_EVALUE) {
        (void)snprintf(row->reason, sizeof row->reason, "%.80s: %.160s", why.place, why.text);
        row->skip = row->reason;
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    row->speed = measured_has_speed(&rows->files, index);
    row->memory = (row->run->use & REDCO_USE_MEMORY) != 0 && row->run->outcome != REDCO_OUTCOME_UNKNOWN;
    return REDCO_OK;
}

static redco_status price_rows(const struct validate_arguments *arguments, struct validate_rows *rows, redco_error *err)
{
    struct sets *const sets = calloc(1, sizeof *sets);
    redco_status st = sets != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    for (size_t i = 0; i < rows->files.count && st == REDCO_OK; i++) {
        struct validate_row *const row = &rows->rows[i];
        const redco_calibration *set = NULL;
        row->run = rows->files.runs[i];
        row->skip = redco_evaluations_skip(rows->files.evaluations, i);
        if (row->skip != NULL) { continue; }
        const char *const name =
            arguments->calibration != NULL ? arguments->calibration : redco_evaluations_set(rows->files.evaluations, i);
        st = set_of(sets, name, &set, err);
        if (st == REDCO_OK) { st = price_row(rows, i, set, err); }
    }
    free(sets);
    return st;
}

redco_status validate_rows_read(const struct validate_arguments *arguments, struct validate_rows *rows_out,
                                redco_error *err)
{
    struct validate_rows rows = {.rows = NULL};
    redco_status st = measured_files_read(arguments->files, arguments->file_count, &rows.files, err);
    if (st != REDCO_OK) { return st; }
    rows.rows = calloc(rows.files.count > 0 ? rows.files.count : 1, sizeof *rows.rows);
    st = rows.rows != NULL ? price_rows(arguments, &rows, err) : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    if (st != REDCO_OK) {
        validate_rows_free(&rows);
        return st;
    }
    *rows_out = rows;
    return REDCO_OK;
}

void validate_rows_free(struct validate_rows *rows)
{
    measured_files_free(&rows->files);
    free(rows->rows);
    *rows = (struct validate_rows){.rows = NULL};
}
