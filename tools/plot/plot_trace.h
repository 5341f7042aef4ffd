/** @file plot_trace.h  A trace laid out for drawing: threads as rows, spans in them, memory over time. */
#ifndef REDCO_TOOLS_PLOT_TRACE_H
#define REDCO_TOOLS_PLOT_TRACE_H

#include "tools/plot/plot.h"
#include "traces/trace.h"

enum { TRACE_ROWS = 64, TRACE_CATEGORIES = 16, TRACE_PARTS = 12 };

struct trace_row {
    uint32_t process, thread;
    const char *name, *process_name; /* NULL: not named */
};

struct trace_span {
    double start_s, end_s;
    const char *name;
    size_t category, row;
    int depth; /* 0: outermost */
};

/** Bytes of each part from a time on. */
struct trace_memory {
    uint32_t process;
    double at_s, bytes[TRACE_PARTS];
    size_t serial; /* order in the trace: of equal times the last counts */
};

/** Texts belong to the trace that was laid out. Zero is empty. */
struct trace_layout {
    struct trace_row *rows;
    size_t row_count;
    struct trace_span *spans; /* by row and start, what encloses first */
    size_t span_count;
    struct trace_memory *memory; /* by process and time */
    size_t memory_count;
    const char *categories[TRACE_CATEGORIES], *parts[TRACE_PARTS];
    size_t category_count, part_count;
    const char *emulated; /* the origin of the trace, where it must be said; else NULL */
    bool paired;          /* processes 0 and 1 are the same rank as predicted and as measured: rows by thread */
};

/** Threads that have a span become rows; categories are counted in the order of rows. Of counters, "memory" is taken.
 *  @param layout_out  zero, or only paired is set */
redco_status trace_layout_make(const redco_trace *trace, struct trace_layout *layout_out, redco_error *err);
/** Writes rows, boxes and curves of a layout that has spans.
 *  @param title  NULL: made from the length */
redco_status trace_layout_write(const struct trace_layout *layout, const char *title, struct plot_sheet *sheet,
                                redco_error *err);
void trace_layout_clear(struct trace_layout *layout);

#endif
