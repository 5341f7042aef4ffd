/* The reader of timelines: what it accepts and is sound can be written, and what is written is accepted again with as
 * many spans. */
#include "traces/trace.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    redco_json *document = NULL, *again = NULL;
    redco_trace *trace = NULL, *back = NULL;
    redco_error err = {0};
    char *text = NULL;
    size_t text_size = 0;
    uint32_t spans = 0, read = 0;
    if (redco_json_parse((const char *)data, size, "trace", &document, &err) != REDCO_OK) { return 0; }
    const redco_json_value root = redco_json_root(document);
    if (redco_trace_from_json(&root, &trace, &err) != REDCO_OK) {
        if (err.status == REDCO_OK || err.text[0] == '\0') { abort(); }
    } else if (redco_trace_text(trace, &text, &text_size, NULL) == REDCO_OK) {
        if (redco_json_parse(text, text_size, "again", &again, NULL) != REDCO_OK) { abort(); }
        const redco_json_value written = redco_json_root(again);
        if (redco_trace_from_json(&written, &back, NULL) != REDCO_OK) { abort(); }
        if (redco_trace_check(back, NULL) != REDCO_OK) { abort(); }
        (void)redco_trace_spans(trace, &spans);
        (void)redco_trace_spans(back, &read);
        if (spans != read) { abort(); }
    }
    free(text);
    redco_trace_free(back);
    redco_trace_free(trace);
    redco_json_close(again);
    redco_json_close(document);
    return 0;
}
