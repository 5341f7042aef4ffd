/* The reader of traces of any origin, and the comparison on what it read: the same spans as from the document read
 * whole; against itself no difference; against a fixed prediction numbers, or an error that says something. */
#include "tests/unit/memory_file.h"
#include "traces/compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"forward", "backward", "gather", "launch", "overhead", "pipeline", NULL};

static redco_trace *prediction(void)
{
    redco_trace *const trace = redco_trace_new();
    static const redco_trace_span spans[] = {
        {.name = "g/gather", .category = "gather", .thread = 2, .start_s = 0.0, .duration_s = 1.0},
        {.name = "fwd/a", .category = "forward", .start_s = 1.0, .duration_s = 1.0},
        {.name = "fwd/a", .category = "forward", .start_s = 2.0, .duration_s = 1.0},
        {.name = "bwd/a", .category = "backward", .start_s = 3.0, .duration_s = 2.0},
        {.name = "step/optimizer", .category = "overhead", .start_s = 5.0, .duration_s = 1.0}};
    if (trace == NULL) { abort(); }
    redco_trace_add_thread(trace, 0, 0, "compute");
    redco_trace_add_thread(trace, 0, 2, "parameters");
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) { (void)redco_trace_add_span(trace, &spans[i]); }
    return trace;
}

static void compare(const redco_trace *predicted, const redco_trace *measured, bool same)
{
    static const uint32_t first[] = {0, 0, 1, 1, 2, 2}, inputs[] = {0, 2};
    const redco_compare_graph graph = {first, inputs};
    const redco_compare_source sources[] = {{predicted, "predicted"}, {measured, "measured"}};
    redco_comparison *c = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_trace_compare(&sources[0], &sources[1], 1, kinds, same ? NULL : &graph, &c, &err) != REDCO_OK) {
        if (err.status == REDCO_OK || err.text[0] == '\0') { abort(); }
        return;
    }
    const redco_compare_time *const t = &c->measured;
    const double parts_s = t->compute_s + t->launch_s + t->overhead_s + t->wait_s + t->bubble_s + t->idle_s - t->step_s;
    if (!isfinite(t->step_s) || t->step_s < 0.0 || fabs(parts_s) > 1e-6 * t->step_s + 1e-4) { abort(); }
    if (c->counted_steps == 0 || c->counted_steps > c->step_count) { abort(); }
    redco_comparison_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL;
    redco_trace *trace = NULL, *whole = NULL, *const predicted = prediction();
    redco_trace_load_report report, other;
    redco_error err = {.status = REDCO_OK};
    uint32_t count = 0, expected = 0;
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(data, size, path);
    if (redco_trace_load(path, NULL, &trace, &report, &err) != REDCO_OK) {
        if (err.status == REDCO_OK || err.text[0] == '\0') { abort(); }
        goto out;
    }
    (void)redco_trace_spans(trace, &count);
    if (redco_json_parse((const char *)data, size, "trace", &document, NULL) == REDCO_OK) {
        const redco_json_value root = redco_json_root(document);
        if (redco_trace_import(&root, NULL, &whole, &other, NULL) != REDCO_OK) { abort(); }
        (void)redco_trace_spans(whole, &expected);
        if (count != expected || report.events != other.events || report.ignored != other.ignored) { abort(); }
    }
    compare(predicted, trace, false);
    compare(trace, trace, true);
out:
    (void)fclose(file);
    redco_trace_free(whole);
    redco_trace_free(trace);
    redco_trace_free(predicted);
    redco_json_close(document);
    return 0;
}
