/** @file trace.h  Timelines of training steps: spans on threads, arrows between them, counters; written and read as
 *  Chrome trace-event JSON (opened by Perfetto and chrome://tracing). Predicted and measured traces use this one
 * format.
 *
 *  Files hold metadata (process and thread names) and then, in order of time, complete spans "X", counters "C" and
 * pairs of flow events "s" and "f"; times are microseconds with three decimals. On one thread spans nest or are
 * disjoint. */
#ifndef REDCO_TRACE_H
#define REDCO_TRACE_H

#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_trace redco_trace;

typedef struct redco_trace_span {
    const char *name, *category;
    uint32_t process, thread;
    double start_s, duration_s;
    uint32_t first_arg, arg_count; /**< see redco_trace_args() */
} redco_trace_span;

/** A statement of a span about itself: a number, or a text where @p text is not NULL. */
typedef struct redco_trace_arg {
    const char *key, *text;
    double number;
} redco_trace_arg;

/** Values of one counter track of a process from a time on; parts are stacked. */
typedef struct redco_trace_counter {
    const char *name;
    uint32_t process;
    double time_s;
    uint32_t first_arg, arg_count;
} redco_trace_counter;

/** An arrow from the end of one span to the start of another. */
typedef struct redco_trace_flow {
    const char *name;
    uint32_t from, to; /**< spans */
} redco_trace_flow;

typedef struct redco_trace_thread {
    const char *name;
    uint32_t process, thread;
} redco_trace_thread;

redco_trace *redco_trace_new(void); /**< NULL when out of memory */
void redco_trace_free(redco_trace *trace);

/** Building. Texts are copied. After the first failure (out of memory) calls do nothing; writing reports it. */
void redco_trace_add_process(redco_trace *trace, uint32_t process, const char *name);
void redco_trace_add_thread(redco_trace *trace, uint32_t process, uint32_t thread, const char *name);
/** first_arg and arg_count are ignored. @return its index */
uint32_t redco_trace_add_span(redco_trace *trace, const redco_trace_span *span);
void redco_trace_add_counter(redco_trace *trace, const char *name, uint32_t process, double time_s);
/** Adds an argument to the span or counter added last. @p text NULL: the number */
void redco_trace_add_arg(redco_trace *trace, const char *key, const char *text, double number);
void redco_trace_add_flow(redco_trace *trace, const char *name, uint32_t from, uint32_t to);
/** A member of "otherData". */
void redco_trace_add_note(redco_trace *trace, const char *key, const char *text);

/** Sorted: spans by start, longer ones first. Flows of spans without duration are left out: nothing to draw from.
 *  @return REDCO_EVALUE when the trace breaks a rule of redco_trace_check() */
redco_status redco_trace_text(const redco_trace *trace, char **text_out, size_t *size_out, redco_error *err);
redco_status redco_trace_write(const redco_trace *trace, const char *path, redco_error *err);

/** Reads {"traceEvents":[...]} or a bare array event by event, of files of any size; kinds of events other than the
 *  above are skipped.
 *  @param path  or "-": standard input
 *  @param bare  for drawing: what spans say about themselves is left out
 *  @return REDCO_EVALUE naming the JSON pointer of an event that is malformed, or of a flow that has no other end */
redco_status redco_trace_read(const char *path, bool bare, redco_trace **trace_out, redco_error *err);

/** Counts of redco_trace_load(). */
typedef struct redco_trace_load_report {
    uint64_t events;     /**< in the file, of all kinds */
    uint64_t ignored;    /**< spans and counters with a member that is missing or out of range */
    uint64_t unpaired;   /**< "B" without "E", or "E" without "B" */
    uint64_t duplicates; /**< spans that stand there twice */
    char first[160];     /**< which event was ignored first, and why; "" */
} redco_trace_load_report;

/** Spans, counters, names and notes of traces of any origin and size: read event by event, in any order. Pairs of "B"
 *  and "E" become spans; flows are left out; times may lie anywhere, so that not all that is read can be written.
 *  @param path  or "-": standard input
 *  @param args  keys of arguments that are kept, NULL-terminated; NULL: all
 *  @return REDCO_EVALUE when it is no list of events, or when the text is not JSON or is cut off; REDCO_EIO */
redco_status redco_trace_load(const char *path, const char *const *args, redco_trace **trace_out,
                              redco_trace_load_report *report_out, redco_error *err);
/** The same from a document that was read whole. */
redco_status redco_trace_import(const redco_json_value *root, const char *const *args, redco_trace **trace_out,
                                redco_trace_load_report *report_out, redco_error *err);

/** Spans of a thread nest or are disjoint, times are finite and not negative, flows go forwards in time. */
redco_status redco_trace_check(const redco_trace *trace, redco_error *err);

/** Changes by redco_trace_mend(). */
typedef struct redco_trace_mend_report {
    uint64_t mended; /**< places */
    uint64_t beyond; /**< the changes by more than the resolution */
    char first[320]; /**< the first of those: "A overlaps B by 2e-06 s"; "" */
} redco_trace_mend_report;

/** Makes a measured trace one that redco_trace_check() accepts, as clocks are read with errors: of two spans of a
 * thread that overlap in part the earlier ends where the later begins, times before the trace are its beginning, flows
 * that go back in time are left out.
 *  @param resolution_s  of the clock: what is wrong by more is counted and named in the report
 *  @return REDCO_ENOMEM */
redco_status redco_trace_mend(redco_trace *trace, double resolution_s, redco_trace_mend_report *report_out,
                              redco_error *err);

const redco_trace_span *redco_trace_spans(const redco_trace *trace, uint32_t *count_out);
const redco_trace_counter *redco_trace_counters(const redco_trace *trace, uint32_t *count_out);
const redco_trace_flow *redco_trace_flows(const redco_trace *trace, uint32_t *count_out);
const redco_trace_thread *redco_trace_threads(const redco_trace *trace, uint32_t *count_out);
const redco_trace_thread *redco_trace_processes(const redco_trace *trace, uint32_t *count_out); /**< thread is 0 */
const redco_trace_arg *redco_trace_args(const redco_trace *trace, uint32_t *count_out);
/** A note, or NULL. */
const char *redco_trace_note(const redco_trace *trace, const char *key);

#ifdef __cplusplus
}
#endif
#endif
