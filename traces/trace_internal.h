/** @file trace_internal.h  A trace in memory, shared by the files of trace.h. */
#ifndef REDCO_TRACE_INTERNAL_H
#define REDCO_TRACE_INTERNAL_H

#include "traces/trace.h"

/** An array that grows. */
typedef struct redcoi_trace_list {
    void *items;
    uint32_t count, capacity;
} redcoi_trace_list;

struct redco_trace {
    redcoi_trace_list spans, args, counters, flows, threads, processes, notes;
    redcoi_trace_list texts;   /**< char *, each kept once */
    redcoi_trace_list buckets; /**< hash table of indices into texts, plus one; 0 = empty */
    uint32_t *last_args;       /**< arg_count of what was added last */
    bool failed;               /**< out of memory */
};

typedef struct redcoi_trace_note {
    const char *key, *text;
} redcoi_trace_note;

/** A copy that lives as long as the trace, the same for the same text; "" when out of memory. */
const char *redcoi_trace_keep(redco_trace *trace, const char *text, size_t size);

/** Receiver of the events of a file, one at a time. */
typedef struct redcoi_trace_sink {
    void *context;
    /** @param event  with its place in the file. @param index  in the list */
    redco_status (*event)(void *context, const redco_json_value *event, uint32_t index, redco_error *err);
    void (*notes)(void *context, const json_t *notes);
} redcoi_trace_sink;

/** Reads a file of any size as redco_trace_load() does: JSON is checked event by event.
 *  @param list_out  the pointer of the list of events: "/traceEvents", or "" where it stands alone */
redco_status redcoi_trace_each(const char *path, const redcoi_trace_sink *sink, const char **list_out,
                               redco_error *err);

/** Nanoseconds, as files hold them. */
int64_t redcoi_trace_ns(double seconds);
/** Orders pointers to spans by process, thread, start; the longer first, but for those that are over at once. */
int redcoi_trace_compare_nesting(const void *a, const void *b);

#endif
