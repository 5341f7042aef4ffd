/* The reader of timelines: what it accepts and is sound can be written, and what is written is accepted again with as
 * many spans. */
#include "tests/unit/memory_file.h"
#include "traces/trace.h"

#include <stdlib.h>

static redco_status read_trace(const void *text, size_t size, redco_trace **trace_out, redco_error *err)
{
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(text, size, path);
    const redco_status st = redco_trace_read(path, false, trace_out, err);
    (void)fclose(file);
    return st;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_trace *trace = NULL, *back = NULL;
    redco_error err = {0};
    char *text = NULL;
    size_t text_size = 0;
    uint32_t spans = 0, again = 0;
    if (read_trace(data, size, &trace, &err) != REDCO_OK) {
        if (err.status == REDCO_OK || err.text[0] == '\0') { abort(); }
    } else if (redco_trace_text(trace, &text, &text_size, NULL) == REDCO_OK) {
        if (read_trace(text, text_size, &back, NULL) != REDCO_OK) { abort(); }
        if (redco_trace_check(back, NULL) != REDCO_OK) { abort(); }
        (void)redco_trace_spans(trace, &spans);
        (void)redco_trace_spans(back, &again);
        if (spans != again) { abort(); }
    }
    free(text);
    redco_trace_free(back);
    redco_trace_free(trace);
    return 0;
}
