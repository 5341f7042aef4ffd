/* redco-calibrate --mean and --product: the set of a class that nobody measured, from those of others. */
#include "costmodel/evaluation/fit.h"
#include "tools/cli/text_table.h"
#include "tools/report/calibrate.h"

#include <stdio.h>
#include <string.h>

enum { MOST_SETS = 8, PRODUCT_SETS = 3 };

/* "a100-eager,h100-eager" */
static redco_status read_sets(const char *list, const char *option, redco_calibration sets[MOST_SETS],
                              size_t *count_out, redco_error *err)
{
    const char *at = list;
    *count_out = 0;
    while (*at != '\0') {
        char name[256];
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof name || *count_out == MOST_SETS) {
            return redco_fail(err, REDCO_EVALUE, option,
                              "\"%.80s\" is not a list of 1 to %d sets, such as "
                              "a100-eager,h100-eager",
                              list, MOST_SETS);
        }
        (void)snprintf(name, sizeof name, "%.*s", (int)length, at);
        const redco_status st = redco_calibration_read(name, NULL, &sets[(*count_out)++], err);
        if (st != REDCO_OK) { return st; }
        at += length + (at[length] == ',' ? 1 : 0);
    }
    return *count_out > 0 ? REDCO_OK : redco_fail(err, REDCO_EVALUE, option, "names no set");
}

redco_status calibrate_combine(const struct calibrate_arguments *arguments, struct table *table, json_t **document_out,
                               redco_error *err)
{
    const bool product = arguments->product != NULL;
    const char *const list = product ? arguments->product : arguments->mean;
    const char *const option = product ? "--product" : "--mean";
    redco_calibration sets[MOST_SETS], set;
    size_t count = 0;
    redco_status st = read_sets(list, option, sets, &count, err);
    if (st == REDCO_OK && product && count != PRODUCT_SETS) {
        st = redco_fail(err, REDCO_EVALUE, option, "\"%.80s\" is not three sets: of the GPU, of the software, of both",
                        list);
    }
    if (st != REDCO_OK) { return st; }
    set = product ? redco_fit_product(&sets[0], &sets[1], &sets[2]) : redco_fit_mean(sets, count);
    set.fitted_rows = 0;
    set.mape_ratio = set.cross_validated_ratio = set.left_out_ratio = 0.0;
    (void)snprintf(set.name, sizeof set.name, "%.60s", arguments->name != NULL ? arguments->name : "combined");
    (void)snprintf(set.basis, sizeof set.basis,
                   product ? "no run was fitted: %s's software, with the products of %s as "
                             "much better or worse as they are than those of %s"
                           : "no run was fitted: the mean of %s%s%s",
                   product ? sets[1].name : list, product ? sets[0].name : "", product ? sets[2].name : "");
    table_row(table);
    table_cell(table, "%s", set.basis);
    *document_out = redco_calibration_describe(&set);
    return *document_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}
