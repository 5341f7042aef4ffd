/** @file plot_trace.h  What the timeline needs of a trace: threads as rows, spans, memory over time. */
#ifndef REDCO_TOOLS_PLOT_TRACE_H
#define REDCO_TOOLS_PLOT_TRACE_H

#include "tools/plot.h"

enum { TRACE_ROWS = 64, TRACE_CATEGORIES = 16, TRACE_PARTS = 12 };

struct trace_row {
    json_int_t pid, tid, order, process_order;
    const char *name, *process; /* NULL: not named */
    size_t spans;
};

struct trace_span {
    json_int_t pid, tid;
    double start_s, end_s;
    const char *name;
    const char *category_name;
    size_t category, row;
    int depth;
};

/** Bytes of each part from a time on. */
struct trace_memory {
    json_int_t pid;
    double at_s, bytes[TRACE_PARTS];
    size_t serial; /* order in the file: of equal times the last counts */
};

/** Texts belong to the document. Zero is empty. */
struct trace {
    struct trace_row *rows;
    size_t row_count;
    struct trace_span *spans;
    size_t span_count;
    struct trace_memory *memory;
    size_t memory_count;
    const char *categories[TRACE_CATEGORIES], *parts[TRACE_PARTS];
    size_t category_count, part_count;
};

/** Reads, sorts rows and spans, counts categories in the order of rows. Rows without a span are left out. */
redco_status trace_load(const redco_json_value *root, struct trace *trace_out, redco_error *err);
void trace_clear(struct trace *trace);

#endif
