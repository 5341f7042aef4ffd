/* Files of failure rates, prices, grids and batches, and documents of runs: what is accepted is in order. */
#include "planner/run/batch_size.h"
#include "planner/run/run_compare.h"
#include "planner/run/run_values.h"

#include <math.h>
#include <stdlib.h>

static void check(const redco_run_value *value)
{
    if (!(value->low <= value->value) || !(value->value <= value->high) || !(value->low >= 0.0)) { abort(); }
}

static void try_text(const uint8_t *data, size_t size)
{
    redco_failures failures;
    char text[64];
    if (size >= sizeof text) { return; }
    for (size_t i = 0; i < size; i++) { text[i] = (char)data[i]; }
    text[size] = '\0';
    for (int unit = REDCO_RUN_SECONDS; unit <= REDCO_RUN_RATIO; unit++) {
        double value = 0.0;
        if (redco_run_parse(text, (redco_run_unit)unit, "text", &value, NULL) == REDCO_OK && !(value >= 0.0)) {
            abort();
        }
    }
    /* A count; other texts would be files. */
    if (size > 0 && text[0] >= '0' && text[0] <= '9' && redco_failures_read(text, &failures, NULL) == REDCO_OK &&
        failures.count > 0.0) {
        const redco_run_value rate = redco_failures_rate(&failures, 64);
        check(&rate);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_failures failures;
    redco_run_value value;
    redco_critical_batch critical;
    redco_run_summary run;
    char currency[16];
    bool known = false;
    try_text(data, size);
    if (redco_json_parse((const char *)data, size, "file", &document, NULL) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_failures_from_json(&root, &failures, NULL) == REDCO_OK) { check(&failures.rate); }
    if (redco_grid_from_json(&root, &value, NULL) == REDCO_OK) { check(&value); }
    if (redco_price_from_json(&root, "H100-SXM5-80GB", &known, &value, currency, NULL) == REDCO_OK && known) {
        check(&value);
    }
    if (redco_critical_batch_from_json(&root, &critical, NULL) == REDCO_OK) {
        const double inflation = redco_batch_inflation(&critical, 2e6, 1e6, 1e12);
        if (!(inflation >= 1.0 - 1e-9) || !isfinite(inflation)) { abort(); }
    }
    if (redco_run_summary_from_json(&root, &run, NULL) == REDCO_OK) {
        redco_run_change changes[REDCO_RUN_CHANGES];
        redco_run_changes(&run, &run, changes);
        for (int i = 0; i < REDCO_RUN_CHANGES; i++) {
            if (fabs(changes[i].days) > 1e-9 * run.days) { abort(); }
        }
    }
    redco_json_close(document);
    return 0;
}
