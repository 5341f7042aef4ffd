/* Peaks of the counter track "memory". */
#include "traces/compare/compare_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The most that a process held at once. */
struct peak {
    double bytes;
    uint32_t counter; /* index, or REDCOI_NONE */
};

static bool is_memory(const redco_trace_counter *counter)
{
    return strcmp(counter->name, "memory") == 0;
}

/* @param only  categories that count, NULL-terminated; NULL: all */
static double sum_of(const redco_trace *trace, const redco_trace_counter *counter, const char *const *only)
{
    uint32_t all = 0;
    const redco_trace_arg *const args = redco_trace_args(trace, &all);
    double bytes = 0.0;
    for (uint32_t i = 0; i < counter->arg_count; i++) {
        const redco_trace_arg *const arg = &args[counter->first_arg + i];
        bool counts = arg->text == NULL && only == NULL;
        for (size_t o = 0; only != NULL && only[o] != NULL && !counts; o++) {
            counts = arg->text == NULL && strcmp(only[o], arg->key) == 0;
        }
        if (counts) { bytes += arg->number; }
    }
    return bytes;
}

/* @param process  or REDCOI_NONE: of any */
static struct peak peak_of(const redco_trace *trace, uint32_t process, const char *const *only)
{
    struct peak peak = {.bytes = -1.0, .counter = REDCOI_NONE};
    uint32_t count = 0;
    const redco_trace_counter *const counters = redco_trace_counters(trace, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (!is_memory(&counters[i]) || (process != REDCOI_NONE && counters[i].process != process)) { continue; }
        const double bytes = sum_of(trace, &counters[i], only);
        if (bytes > peak.bytes) { peak = (struct peak){bytes, i}; }
    }
    return peak;
}

static double category_bytes(const redco_trace *trace, uint32_t counter, const char *name)
{
    uint32_t count = 0;
    const redco_trace_counter *const c = &redco_trace_counters(trace, &count)[counter];
    return redcoi_compare_arg(trace, c->first_arg, c->arg_count, name);
}

/* A row for each category of both peaks: the predicted ones first. */
static redco_status list_categories(redcoi_compare *c, const redco_trace *predicted, uint32_t predicted_counter,
                                    const redco_trace *measured, uint32_t measured_counter, redco_error *err)
{
    redco_compare_memory *const memory = &c->out->memory;
    const redco_trace *const traces[2] = {predicted, measured};
    const uint32_t at[2] = {predicted_counter, measured_counter};
    uint32_t count = 0, most = 0;
    for (int t = 0; t < 2; t++) { most += redco_trace_counters(traces[t], &count)[at[t]].arg_count; }
    memory->categories = calloc((size_t)most + 1, sizeof *memory->categories);
    if (memory->categories == NULL) { return redcoi_compare_out_of_memory(err); }
    for (int t = 0; t < 2; t++) {
        const redco_trace_counter *const counter = &redco_trace_counters(traces[t], &count)[at[t]];
        const redco_trace_arg *const args = redco_trace_args(traces[t], &count);
        for (uint32_t a = counter->first_arg; a < counter->first_arg + counter->arg_count; a++) {
            if (args[a].text != NULL || (t == 1 && !isnan(category_bytes(predicted, predicted_counter, args[a].key)))) {
                continue;
            }
            redco_compare_memory_category *const category = &memory->categories[memory->category_count++];
            category->name = redcoi_trace_keep(c->texts, args[a].key, strlen(args[a].key));
            category->predicted_bytes = category_bytes(predicted, predicted_counter, args[a].key);
            category->measured_bytes = category_bytes(measured, measured_counter, args[a].key);
        }
    }
    return REDCO_OK;
}

/* Memory that an engine's libraries take aside: a run does not count it, unless it says otherwise. */
static const char reserve[] = "reserve";

static bool tells_reserve(const redcoi_compare *c)
{
    const char *const only[] = {reserve, NULL};
    bool tells = false;
    for (uint32_t f = 0; f < c->source_count; f++) {
        tells = tells || peak_of(c->measured_sources[f].trace, REDCOI_NONE, only).bytes > 0.0;
    }
    return tells;
}

/* Peaks of what both tell of. */
static redco_status find_common(redcoi_compare *c, const redco_trace *predicted, redco_error *err)
{
    redco_compare_memory *const memory = &c->out->memory;
    const char **const common = calloc((size_t)memory->category_count + 1, sizeof *common);
    uint32_t count = 0;
    if (common == NULL) { return redcoi_compare_out_of_memory(err); }
    for (uint32_t h = 0; h < memory->category_count; h++) {
        const redco_compare_memory_category *const category = &memory->categories[h];
        assert(category->name != NULL);
        const bool counts = strcmp(category->name, reserve) != 0 || tells_reserve(c);
        if (counts && !isnan(category->predicted_bytes) && !isnan(category->measured_bytes)) {
            common[count++] = category->name;
        }
    }
    if (count > 0) {
        memory->common_predicted_bytes = peak_of(predicted, REDCOI_NONE, common).bytes;
        for (uint32_t f = 0; f < c->source_count; f++) {
            const double bytes = peak_of(c->measured_sources[f].trace, REDCOI_NONE, common).bytes;
            memory->common_measured_bytes = fmax(memory->common_measured_bytes, bytes);
        }
    }
    free(common);
    return REDCO_OK;
}

redco_status redcoi_compare_memory(redcoi_compare *c, const redco_trace *predicted, redco_error *err)
{
    redco_compare_memory *const memory = &c->out->memory;
    const struct peak expected = peak_of(predicted, REDCOI_NONE, NULL);
    struct peak highest = {.bytes = -1.0, .counter = REDCOI_NONE};
    const redco_trace *measured = NULL;
    for (uint32_t r = 0; r < c->measured.rank_count; r++) {
        const redco_trace *const trace = c->measured_sources[c->ranks[r].file].trace;
        const struct peak peak = peak_of(trace, c->ranks[r].process, NULL);
        c->out->ranks[r].peak_bytes = peak.counter != REDCOI_NONE ? peak.bytes : (double)NAN;
        if (peak.counter == REDCOI_NONE || !(peak.bytes > highest.bytes)) { continue; }
        highest = peak;
        measured = trace;
    }
    if (expected.counter == REDCOI_NONE || measured == NULL) { return REDCO_OK; }
    memory->known = true;
    memory->predicted_bytes = expected.bytes;
    memory->measured_bytes = highest.bytes;
    const redco_status st = list_categories(c, predicted, expected.counter, measured, highest.counter, err);
    return st == REDCO_OK ? find_common(c, predicted, err) : st;
}
