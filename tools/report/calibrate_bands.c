/* redco-calibrate --bands: bands of predictions, from fits that leave out what a question may be the first of. */
#include "costmodel/evaluation/fit_bands.h"
#include "tools/cli/text_table.h"
#include "tools/report/calibrate.h"

#include <stdio.h>
#include <stdlib.h>

static void head(struct table *table)
{
    static const char *const titles[] = {"never seen", "groups", "rows", "68 % from", "to", "90 % from", "to"};
    table_row(table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
}

static void line(struct table *table, const redco_bands *bands, unsigned part)
{
    const redco_band *const band = &bands->parts[part].band;
    const double ends[] = {band->low_68, band->high_68, band->low_90, band->high_90};
    if (bands->parts[part].groups == 0) { return; }
    table_row(table);
    table_cell(table, "%s", redco_band_words[part]);
    table_cell(table, "%u", bands->parts[part].groups);
    table_cell(table, "%u", bands->parts[part].rows);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        table_cell(table, "%+.1f %%", 100.0 * (ends[i] - 1.0));
    }
}

redco_status calibrate_bands(const struct calibrate_arguments *arguments, const struct measured_files *files,
                             struct table *table, json_t *lines, json_t **document_out, redco_error *err)
{
    static const unsigned all = (1U << REDCO_BAND_PARTS) - 1;
    char basis[128];
    size_t rows_used = 0;
    redco_bands bands;
    bool *const usable = calloc(files->count + 1, sizeof *usable), *const out = calloc(files->count + 1, sizeof *out);
    redco_band_rows rows = {
        .evaluations = files->evaluations, .runs = files->runs, .count = files->count, .usable = usable};
    redco_status st = usable != NULL && out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    for (size_t i = 0; i < files->count && st == REDCO_OK; i++) {
        usable[i] = measured_may_fit(files, i);
        rows_used += usable[i] ? 1 : 0;
    }
    if (st == REDCO_OK && rows_used == 0) {
        st = redco_fail(err, REDCO_EVALUE, arguments->files[0], "has no row with a throughput that could be fitted");
    }
    if (st == REDCO_OK) {
        st = redco_leave_out_create(files->evaluations, files->runs, files->count, usable, &rows.leave, err);
    }
    if (st == REDCO_OK) { st = redco_bands_fit(&rows, out, all, &bands, err); }
    if (st == REDCO_OK) {
        (void)snprintf(basis, sizeof basis, "%zu runs of dense models, each part left out of the fits in turn",
                       rows_used);
        *document_out = redco_bands_describe(&bands, basis);
        if (*document_out == NULL) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    }
    if (st == REDCO_OK) {
        head(table);
        for (unsigned part = 0; part < REDCO_BAND_PARTS; part++) { line(table, &bands, part); }
        (void)json_array_append(lines, *document_out);
    }
    redco_leave_out_free(rows.leave);
    free(usable);
    free(out);
    return st;
}
