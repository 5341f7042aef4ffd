/* Prints the result of redco-validate PLAN TRACE for people. */
#include "tools/cli/text_table.h"
#include "tools/validate/validate_trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DOT " \xc2\xb7 "

enum { SHORT = 64, MOST_LISTED = 5 };

/* A smaller share would be shown as 0.0 % of the step. */
static const double least_ratio = 5e-4;

bool trace_report_peaks(const redco_comparison *comparison, double *predicted_bytes, double *measured_bytes)
{
    const redco_compare_memory *const m = &comparison->memory;
    const bool common = m->common_measured_bytes > 0.0;
    *predicted_bytes = common ? m->common_predicted_bytes : m->predicted_bytes;
    *measured_bytes = common ? m->common_measured_bytes : m->measured_bytes;
    return m->known;
}

double trace_report_hidden(const redco_compare_time *time)
{
    return time->communication_s > 0.0 ? time->covered_s / time->communication_s : (double)NAN;
}

/* Four digits of a step, and its parts in the same unit. */
static const char *format_seconds(double seconds, double step_s, char *buffer, size_t size)
{
    static const struct {
        double least_s, factor;
        int decimals;
        const char *unit;
    } forms[] = {{0.9995, 1.0, 3, "s"},
                 {0.09995, 1e3, 1, "ms"},
                 {0.009995, 1e3, 2, "ms"},
                 {0.0009995, 1e3, 3, "ms"},
                 {0.0, 1e6, 1, "us"}};
    size_t f = 0;
    while (step_s < forms[f].least_s) { f++; }
    (void)snprintf(buffer, size, "%.*f %s", forms[f].decimals, forms[f].factor * seconds, forms[f].unit);
    return buffer;
}

/* The share of the step that a difference is. */
static void share_cell(struct table *table, double predicted_s, double measured_s, double step_s)
{
    const double percent = 100.0 * (predicted_s - measured_s) / step_s;
    table_cell(table, fabs(percent) < 0.05 ? "0 %%" : "%+.1f %%", percent);
}

static const char *format_bytes(double bytes, char *buffer, size_t size)
{
    static const struct {
        double factor;
        const char *name;
    } units[] = {{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1.0, "B"}};
    size_t u = 0;
    if (isnan(bytes)) { return "-"; }
    while (u < 3 && bytes < 0.9995 * units[u].factor) { u++; }
    const double shown = bytes / units[u].factor;
    const int decimals = u == 3 || shown >= 99.95 ? 0 : shown >= 9.995 ? 1 : 2;
    (void)snprintf(buffer, size, "%.*f %s", decimals, shown, units[u].name);
    return buffer;
}

static void error_cell(struct table *table, double predicted, double measured)
{
    char change[SHORT];
    const double error = redco_compare_error(predicted, measured);
    table_cell(table, "%s", isnan(error) ? "-" : format_change(error, change, sizeof change));
}

static void print_head(const struct trace_report *r)
{
    const redco_plan *const plan = r->plan;
    const redco_comparison *const c = r->comparison;
    char count[SHORT];
    uint32_t whole = 0;
    for (uint32_t s = 0; s < c->step_count; s++) { whole += c->steps[s].counted ? 1 : 0; }
    (void)printf("%s" DOT "%s" DOT "%s" DOT "tp %u" DOT "traced: %u %s, %u %s", plan->model_name, plan->cluster_name,
                 plan->strategy, plan->parallelism.tp, c->rank_count, c->rank_count == 1 ? "rank" : "ranks",
                 c->step_count, c->step_count == 1 ? "step" : "steps");
    if (whole < c->step_count) { (void)printf(" of which %u count", whole); }
    for (uint32_t i = 0; i < r->load_count; i++) { /* told once: files of one run came about alike */
        if (r->origins[i] == NULL || strcmp(r->origins[i], "measured") == 0) { continue; }
        (void)printf(DOT "%.80s", r->origins[i]);
        break;
    }
    (void)printf("\n%s operators compared", format_count(c->matched, count, sizeof count));
    if (c->missing > 0) {
        (void)printf("; predicted and not measured: %s", format_count(c->missing, count, sizeof count));
    }
    if (c->extra > 0) { (void)printf("; measured and not predicted: %s", format_count(c->extra, count, sizeof count)); }
    (void)printf("\n\n");
}

static void time_row(struct table *table, const char *name, double predicted_s, double measured_s, double step_s)
{
    char text[SHORT];
    if (predicted_s < least_ratio * step_s && measured_s < least_ratio * step_s) { return; }
    table_row(table);
    table_cell(table, "%s", name);
    table_cell(table, "%s", format_seconds(predicted_s, step_s, text, sizeof text));
    table_cell(table, "%s", format_seconds(measured_s, step_s, text, sizeof text));
    error_cell(table, predicted_s, measured_s);
    share_cell(table, predicted_s, measured_s, step_s);
}

static bool print_step(const struct trace_report *r)
{
    const redco_compare_time *const p = &r->comparison->predicted, *const m = &r->comparison->measured;
    const double hidden[2] = {trace_report_hidden(p), trace_report_hidden(m)}, step_s = m->step_s;
    struct table *const table = table_new("lrrrr");
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "a step of a rank");
    table_cell(table, "predicted");
    table_cell(table, "measured");
    table_cell(table, "error");
    table_cell(table, "of the step");
    time_row(table, "step", p->step_s, m->step_s, step_s);
    time_row(table, "  computation", p->compute_s, m->compute_s, step_s);
    time_row(table, "  waiting for communication", p->wait_s, m->wait_s, step_s);
    time_row(table, "  launching collectives", p->launch_s, m->launch_s, step_s);
    time_row(table, "  overhead", p->overhead_s, m->overhead_s, step_s);
    time_row(table, "  waiting for other stages", p->bubble_s, m->bubble_s, step_s);
    time_row(table, "  nothing runs", p->idle_s, m->idle_s, step_s);
    time_row(table, "communication", p->communication_s, m->communication_s, step_s);
    if (!isnan(hidden[0]) || !isnan(hidden[1])) {
        table_row(table);
        table_cell(table, "  hidden behind computation");
        for (int i = 0; i < 2; i++) { table_cell(table, isnan(hidden[i]) ? "-" : "%.1f %%", 100.0 * hidden[i]); }
    }
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    return whole;
}

/* The parts of a step in which the stages of a pipeline differ. */
static bool print_stages(const struct trace_report *r)
{
    static const char *const titles[] = {"waiting for other stages", "until backward begins", "sending"};
    const redco_comparison *const c = r->comparison;
    const double step_s = c->measured.step_s;
    if (c->stage_count == 0) { return true; }
    struct table *const table = table_new("lrrrr");
    if (table == NULL) { return false; }
    (void)printf("\n");
    table_row(table);
    table_cell(table, "a stage");
    table_cell(table, "predicted");
    table_cell(table, "measured");
    table_cell(table, "error");
    table_cell(table, "of the step");
    for (uint32_t i = 0; i < c->stage_count; i++) {
        const redco_compare_stage *const s = &c->stages[i];
        const redco_compare_pair bubble = {s->predicted.bubble_s, s->measured.bubble_s};
        const redco_compare_pair *const pairs[] = {&bubble, &s->warm_up, &s->transfers};
        for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++) {
            char name[2 * SHORT];
            if (isnan(pairs[p]->predicted_s) || isnan(pairs[p]->measured_s)) { continue; }
            (void)snprintf(name, sizeof name, "%.60s, %s", s->name, titles[p]);
            time_row(table, name, pairs[p]->predicted_s, pairs[p]->measured_s, step_s);
        }
    }
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    return whole;
}

static void time_cells(struct table *table, const redco_compare_pair *pair, bool told, double step_s)
{
    char text[SHORT];
    table_cell(table, "%s", told ? format_seconds(pair->predicted_s, step_s, text, sizeof text) : "");
    table_cell(table, "%s", told ? format_seconds(pair->measured_s, step_s, text, sizeof text) : "");
}

static void kind_row(struct table *table, const redco_compare_kind *kind, bool critical, double step_s)
{
    const unsigned long long predicted = kind->predicted_count, measured = kind->measured_count;
    char name[SHORT];
    (void)snprintf(name, sizeof name, "%.60s", kind->name);
    for (char *at = name; *at != '\0'; at++) { *at = *at == '_' ? ' ' : *at; }
    table_row(table);
    table_cell(table, "%s", name);
    if (predicted == measured) {
        table_cell(table, "%llu", predicted);
    } else {
        table_cell(table, "%llu / %llu", predicted, measured);
    }
    time_cells(table, &kind->total, true, step_s);
    error_cell(table, kind->total.predicted_s, kind->total.measured_s);
    time_cells(table, &kind->exposed, kind->communicates, step_s);
    if (critical) { time_cells(table, &kind->critical, true, step_s); }
}

static bool print_kinds(const struct trace_report *r)
{
    enum { COLUMNS = 9 };
    static const char *const titles[2][COLUMNS] = {{"", "", "", "total", "", "", "waited for", "", "critical path"},
                                                   {"kind of work", "operators", "predicted", "measured", "error",
                                                    "predicted", "measured", "predicted", "measured"}};
    const redco_comparison *const c = r->comparison;
    const int columns = c->critical_known ? COLUMNS : COLUMNS - 2;
    struct table *const table = table_new("lrrrrrrrr");
    if (table == NULL) { return false; }
    for (int line = 0; line < 2; line++) {
        table_row(table);
        for (int i = 0; i < columns; i++) { table_cell(table, "%s", titles[line][i]); }
    }
    for (uint32_t k = 0; k < c->kind_count; k++) {
        kind_row(table, &c->kinds[k], c->critical_known, c->measured.step_s);
    }
    const double idle_s = c->critical_idle.measured_s + c->critical_idle.predicted_s;
    if (c->critical_known && idle_s > least_ratio * c->measured.step_s) {
        table_row(table);
        table_cell(table, "nothing runs");
        for (int i = 0; i < COLUMNS - 3; i++) { table_cell(table, "%s", ""); }
        time_cells(table, &c->critical_idle, true, c->measured.step_s);
    }
    (void)printf("\n");
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    return whole;
}

static bool differs(const redco_compare_operator *o, double step_s)
{
    return fabs(o->total.predicted_s - o->total.measured_s) >= least_ratio * step_s;
}

static bool print_operators(const struct trace_report *r)
{
    const redco_comparison *const c = r->comparison;
    const double step_s = c->measured.step_s;
    if (c->operator_count > 0 && !differs(&c->operators[0], step_s)) {
        (void)printf("\nno operator, of all layers and micro-batches together, differs by 0.05 %% of the step\n");
        return true;
    }
    struct table *const table = table_new("lrrrrr");
    char text[SHORT];
    if (table == NULL) { return false; }
    table_row(table);
    table_cell(table, "largest differences");
    table_cell(table, "operators");
    table_cell(table, "predicted");
    table_cell(table, "measured");
    table_cell(table, "error");
    table_cell(table, "of the step");
    for (uint32_t i = 0; i < c->operator_count && i < r->arguments->top && differs(&c->operators[i], step_s); i++) {
        const redco_compare_operator *const o = &c->operators[i];
        const uint64_t count = o->predicted_count > 0 ? o->predicted_count : o->measured_count;
        table_row(table);
        table_cell(table, "%.100s", o->name);
        table_cell(table, "%llu", (unsigned long long)count);
        table_cell(table, "%s", format_seconds(o->total.predicted_s, step_s, text, sizeof text));
        table_cell(table, "%s", format_seconds(o->total.measured_s, step_s, text, sizeof text));
        error_cell(table, o->total.predicted_s, o->total.measured_s);
        share_cell(table, o->total.predicted_s, o->total.measured_s, step_s);
    }
    (void)printf("\n");
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    return whole;
}

/* Operators on one side only, the first few. */
static void print_lonely(const struct trace_report *r, bool missing)
{
    const redco_comparison *const c = r->comparison;
    char text[SHORT];
    uint32_t listed = 0, names = 0;
    for (uint32_t i = 0; i < c->operator_count; i++) {
        const redco_compare_operator *const o = &c->operators[i];
        const uint64_t count = missing ? o->missing_count : o->extra_count;
        names += count > 0 ? 1 : 0;
        if (count == 0 || listed == MOST_LISTED) { continue; }
        (void)printf("%s%.100s (%llu, %s)",
                     listed > 0 ? ", "
                     : missing  ? "\nnot measured   "
                                : "\nnot predicted  ",
                     o->name, (unsigned long long)count,
                     format_seconds(missing ? o->missing_s : o->extra_s, c->measured.step_s, text, sizeof text));
        listed++;
    }
    if (names > listed) { (void)printf(" and %u more", names - listed); }
    if (listed > 0) { (void)printf("\n"); }
}

static void memory_row(struct table *table, const char *name, double predicted, double measured)
{
    char text[SHORT];
    table_row(table);
    table_cell(table, "%s", name);
    table_cell(table, "%s", format_bytes(predicted, text, sizeof text));
    table_cell(table, "%s", format_bytes(measured, text, sizeof text));
    error_cell(table, predicted, measured);
}

static bool print_memory(const struct trace_report *r)
{
    const redco_compare_memory *const m = &r->comparison->memory;
    struct table *const table = table_new("lrrr");
    char name[SHORT];
    if (table == NULL) { return false; }
    (void)printf("\n");
    if (!m->known) {
        table_free(table);
        (void)printf("memory is not in the trace\n");
        return true;
    }
    table_row(table);
    table_cell(table, "memory at the peak");
    table_cell(table, "predicted");
    table_cell(table, "measured");
    table_cell(table, "error");
    memory_row(table, "all", m->predicted_bytes, m->measured_bytes);
    if (m->common_measured_bytes > 0.0 &&
        (m->common_predicted_bytes < m->predicted_bytes || m->common_measured_bytes < m->measured_bytes)) {
        memory_row(table, "what both tell of", m->common_predicted_bytes, m->common_measured_bytes);
    }
    for (uint32_t h = 0; h < m->category_count; h++) {
        const redco_compare_memory_category *const category = &m->categories[h];
        if (!(category->predicted_bytes > 0.0) && !(category->measured_bytes > 0.0)) { continue; }
        (void)snprintf(name, sizeof name, "  %.60s", category->name);
        memory_row(table, name, category->predicted_bytes, category->measured_bytes);
    }
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    return whole;
}

static void print_verdict(const struct trace_report *r)
{
    const struct validate_arguments *const a = r->arguments;
    const redco_comparison *const c = r->comparison;
    double predicted = 0.0, measured = 0.0;
    if (!isnan(a->max_error_ratio)) {
        const double error = redco_compare_error(c->predicted.step_s, c->measured.step_s);
        (void)printf("\nstep time is off by %.2f %%, at most %.4g %% are allowed: %s\n", 100.0 * fabs(error),
                     100.0 * a->max_error_ratio, fabs(error) <= a->max_error_ratio ? "passed" : "failed");
    }
    if (isnan(a->max_memory_error_ratio)) { return; }
    if (!trace_report_peaks(c, &predicted, &measured)) {
        (void)printf("\nmemory is not in the trace: failed\n");
        return;
    }
    const double error = redco_compare_error(predicted, measured);
    (void)printf("\nmemory is off by %.2f %%, at most %.4g %% are allowed: %s\n", 100.0 * fabs(error),
                 100.0 * a->max_memory_error_ratio, fabs(error) <= a->max_memory_error_ratio ? "passed" : "failed");
}

void trace_report_print(const void *report)
{
    const struct trace_report *const r = report;
    print_head(r);
    if (!print_step(r) || !print_stages(r) || !print_kinds(r) || !print_operators(r) || !print_memory(r)) { return; }
    print_lonely(r, true);
    print_lonely(r, false);
    print_verdict(r);
}
