#include "tools/plan/run_report.h"

#include "planner/run/run_json.h"
#include "tools/cli/text_table.h"
#include "tools/plan/plan_html.h"
#include "topology/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#define DOT " \xc2\xb7 "

enum { SHORT = 64, WIDE = 160, LABEL = 10, WIDEST = 110 };

const char *run_time(double seconds, char *buffer, size_t size)
{
    static const struct {
        const char *name;
        double s, from;
    } units[] = {{"days", 86400.0, 172800.0}, {"h", 3600.0, 7200.0}, {"min", 60.0, 120.0}, {"s", 1.0, 0.0}};
    size_t i = 0;
    if (isinf(seconds)) {
        (void)snprintf(buffer, size, "never");
        return buffer;
    }
    while (seconds < units[i].from) { i++; }
    const double value = seconds / units[i].s;
    (void)snprintf(buffer, size, "%.*f %s", value < 10.0 ? 2 : value < 100.0 ? 1 : 0, value, units[i].name);
    return buffer;
}

const char *run_days(const redco_run_figure *days, char *buffer, size_t size)
{
    const int digits = days->value < 10.0 ? 2 : days->value < 1000.0 ? 1 : 0;
    (void)snprintf(buffer, size, "%.*f days (%.*f to %.*f)", digits, days->value, digits, days->low, digits,
                   days->high);
    return buffer;
}

const char *run_large(const redco_run_figure *f, char *buffer, size_t size)
{
    char value[SHORT], low[SHORT], high[SHORT];
    (void)snprintf(buffer, size, "%s (%s to %s)", format_large(f->value, value, sizeof value),
                   format_large(f->low, low, sizeof low), format_large(f->high, high, sizeof high));
    return buffer;
}

/* A line of items, broken where it would get too long. */
struct line {
    int column;
    bool begun;
};

static void begin(struct line *line, const char *label)
{
    *line = (struct line){.column = LABEL};
    (void)printf("%-*s", LABEL, label);
}

__attribute__((format(printf, 2, 3))) static void item(struct line *line, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    redco_text_clean(text);
    const int width = table_width(text) + (line->begun ? 3 : 0);
    if (line->begun && line->column + width > WIDEST) {
        (void)printf("\n%*s", LABEL, "");
        *line = (struct line){.column = LABEL};
    }
    (void)printf("%s%s", line->begun ? DOT : "", text);
    line->column += width;
    line->begun = true;
}

static void print_totals(const redco_run_estimate *e)
{
    struct line line;
    char text[WIDE], steps[SHORT];
    begin(&line, "run");
    item(&line, "%s tokens in %s steps", format_large(e->tokens, text, sizeof text),
         format_count((uint64_t)e->steps, steps, sizeof steps));
    item(&line, "%s", run_days(&e->days, text, sizeof text));
    item(&line, "%s GPU-hours", run_large(&e->gpu_hours, text, sizeof text));
    if (e->paid_gpu_hours.value > e->gpu_hours.value) {
        item(&line, "with spares %s", run_large(&e->paid_gpu_hours, text, sizeof text));
    }
    item(&line, "%s", redco_run_evidence_word(e->days.evidence));
    (void)printf("\n");
    if (e->inflation < 1.0 - 1e-9 || e->inflation > 1.0 + 1e-9) {
        begin(&line, "batch");
        item(&line, "its size takes %s tokens", format_change(e->inflation - 1.0, text, sizeof text));
        (void)printf("\n");
    }
}

static void print_money(const redco_run_estimate *e)
{
    struct line line;
    char text[WIDE];
    if (e->money.known) {
        begin(&line, "money");
        item(&line, "%s%s%s", run_large(&e->money, text, sizeof text), e->currency[0] != '\0' ? " " : "", e->currency);
        item(&line, "%s", redco_run_evidence_word(e->money.evidence));
        (void)printf("\n");
    }
    if (e->mwh.known) {
        begin(&line, "power");
        item(&line, "%s MWh", run_large(&e->mwh, text, sizeof text));
        if (e->tonnes_co2.known) { item(&line, "%s t CO2e", run_large(&e->tonnes_co2, text, sizeof text)); }
        item(&line, "%s", redco_run_evidence_word(e->mwh.evidence));
        (void)printf("\n");
    }
}

static void print_reliability(const redco_run_estimate *e)
{
    const redco_reliability *const r = &e->reliability;
    struct line line;
    char a[SHORT], b[SHORT], c[SHORT];
    begin(&line, "ETTR");
    item(&line, "%.3f (%.3f to %.3f)", e->ettr.value, e->ettr.low, e->ettr.high);
    item(&line, "checkpoints %.2f %%", 100.0 * e->split.checkpoint);
    item(&line, "lost work %.2f %%", 100.0 * e->split.failures);
    item(&line, "restarts %.2f %%", 100.0 * e->split.restart);
    item(&line, "%s", e->played ? "by event simulation" : "by formula");
    (void)printf("\n");
    begin(&line, "failures");
    if (isinf(e->mttf_s.value)) {
        item(&line, "none");
    } else {
        item(&line, "one in %s (%s to %s)", run_time(e->mttf_s.value, a, sizeof a),
             run_time(e->mttf_s.low, b, sizeof b), run_time(e->mttf_s.high, c, sizeof c));
        item(&line, "%.*f in the run",
             e->failures.value < 1.0    ? 2
             : e->failures.value < 10.0 ? 1
                                        : 0,
             e->failures.value);
        if (r->replicas > 0) {
            item(&line, "%s until the others of %u replicas go on", run_time(r->stall_s, a, sizeof a), r->replicas);
        }
        item(&line, "%s until steps go on%s", run_time(r->restart_s, a, sizeof a), r->replicas > 0 ? " there" : "");
        if (r->pooled) {
            item(&line, "spare nodes: %u for 95 %%, %u for 99 %%", e->spares_95, e->spares_99);
        } else {
            item(&line, "%u spare nodes (95 %%: %u, 99 %%: %u)", r->spares, e->spares_95, e->spares_99);
        }
    }
    (void)printf("\n");
    begin(&line, "saving");
    item(&line, "%s checkpoints of %s GB", redco_saving_words[r->saving],
         format_gigabytes(e->checkpoint_bytes, a, sizeof a));
    item(&line, "every %s (best %s)", run_time(r->interval_s, a, sizeof a), run_time(e->best_s, b, sizeof b));
    item(&line, "training waits %s", run_time(r->block_s, a, sizeof a));
    if (r->write_s > 0.0) { item(&line, "written in %s", run_time(r->write_s, a, sizeof a)); }
    item(&line, "reloaded in %s", run_time(e->reload_s, a, sizeof a));
    (void)printf("\n");
}

static void print_band(const redco_run_estimate *e)
{
    struct line line;
    begin(&line, "days by");
    for (int i = 0; i < REDCO_RUN_CAUSES; i++) {
        const redco_run_cause *const c = &e->causes[i];
        const double low = c->low_days - e->days.value, high = c->high_days - e->days.value;
        const int digits = e->days.value < 10.0 ? 2 : 1;
        if (high - low < 0.5 * pow(10.0, -digits)) { continue; }
        item(&line, "%s %+.*f %+.*f (%s)", c->what, digits, low, digits, high, redco_run_evidence_word(c->evidence));
    }
    (void)printf("%s\n", line.begun ? "" : "nothing that is uncertain");
}

void run_warn(const struct cli *cli, const redco_run_estimate *e, const char *gpu, bool price_known)
{
    char text[256], batch[SHORT], critical[SHORT];
    if (!price_known) {
        (void)snprintf(text, sizeof text, "the table of prices has none of %s: no money is told", gpu);
        cli_warn(cli, text);
    }
    if (!e->above_critical) { return; }
    (void)snprintf(text, sizeof text,
                   "batches of %s tokens are above the critical batch of %s: a larger batch saves few steps",
                   format_large(e->batch_tokens, batch, sizeof batch),
                   format_large(e->critical_tokens, critical, sizeof critical));
    cli_warn(cli, text);
}

void run_report(const redco_run_estimate *e)
{
    print_totals(e);
    print_reliability(e);
    print_money(e);
    print_band(e);
    for (uint32_t i = 0; i < e->assumed_count; i++) {
        (void)printf("%-*s%s\n", LABEL, i == 0 ? "assumed" : "", e->assumed[i]);
    }
    (void)printf("%-*s%s\n", LABEL, "",
                 "ETTR: productive time over wall-clock time, first to last step; queueing is not in it");
}

static void html_row(FILE *out, const char *name, const char *value, const char *band, const char *evidence)
{
    (void)fputs("<tr>", out);
    html_element(out, "<td class=t>", "%s", name);
    html_element(out, "<td>", "%s", value);
    html_element(out, "<td>", "%s", band);
    html_element(out, "<td class=t>", "%s", evidence);
    (void)fputs("</tr>\n", out);
}

static void html_figure_row(FILE *out, const char *name, const redco_run_figure *f)
{
    char value[SHORT], low[SHORT], high[SHORT], band[WIDE];
    if (!f->known) { return; }
    if (f->value < 1000.0) {
        (void)snprintf(value, sizeof value, "%.4g", f->value);
        (void)snprintf(band, sizeof band, "%.4g to %.4g", f->low, f->high);
    } else {
        (void)format_large(f->value, value, sizeof value);
        (void)snprintf(band, sizeof band, "%s to %s", format_large(f->low, low, sizeof low),
                       format_large(f->high, high, sizeof high));
    }
    html_row(out, name, value, band, redco_run_evidence_word(f->evidence));
}

static void html_shares(FILE *out, const redco_run_estimate *e)
{
    static const char *const names[] = {"<wall-clock time", "share", "band", "<", NULL};
    const struct {
        const char *name;
        double value, low, high;
    } shares[] = {{"steps that count", e->split.compute, e->split_high.compute, e->split_low.compute},
                  {"checkpoints", e->split.checkpoint, e->split_low.checkpoint, e->split_high.checkpoint},
                  {"lost work", e->split.failures, e->split_low.failures, e->split_high.failures},
                  {"restarts", e->split.restart, e->split_low.restart, e->split_high.restart}};
    html_headings(out, names);
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        char value[SHORT], band[SHORT];
        (void)snprintf(value, sizeof value, "%.2f %%", 100.0 * shares[i].value);
        (void)snprintf(band, sizeof band, "%.2f to %.2f %%", 100.0 * fmin(shares[i].low, shares[i].high),
                       100.0 * fmax(shares[i].low, shares[i].high));
        html_row(out, shares[i].name, value, band, e->played ? "event simulation" : "formula");
    }
    html_end_table(out);
}

void run_html(FILE *out, const redco_run_estimate *e)
{
    static const char *const names[] = {"<the run", "value", "band", "<evidence", NULL};
    static const char *const cause_names[] = {"<cause", "days", "band", "<evidence", NULL};
    char money[SHORT], text[WIDE], value[SHORT];
    html_element(out, "<h2>", "The run");
    html_element(out, "<p>", "%s tokens in %.0f steps.", format_large(e->tokens, text, sizeof text), e->steps);
    (void)snprintf(money, sizeof money, "money%s%s", e->currency[0] != '\0' ? ", " : "", e->currency);
    html_headings(out, names);
    html_figure_row(out, "days", &e->days);
    html_figure_row(out, "GPU-hours", &e->gpu_hours);
    html_figure_row(out, "ETTR", &e->ettr);
    html_figure_row(out, "failures", &e->failures);
    html_figure_row(out, money, &e->money);
    html_figure_row(out, "MWh", &e->mwh);
    html_figure_row(out, "tonnes CO2e", &e->tonnes_co2);
    html_end_table(out);
    html_shares(out, e);
    html_element(out, "<p class=faint>", "ETTR: %s.", redco_ettr_definition);
    html_headings(out, cause_names);
    for (int i = 0; i < REDCO_RUN_CAUSES; i++) {
        const redco_run_cause *const c = &e->causes[i];
        (void)snprintf(value, sizeof value, "%.4g", e->days.value);
        (void)snprintf(text, sizeof text, "%.4g to %.4g", c->low_days, c->high_days);
        html_row(out, c->what, value, text, redco_run_evidence_word(c->evidence));
    }
    html_end_table(out);
    html_element(out, "<p>", "What was assumed:");
    (void)fputs("<ul>", out);
    for (uint32_t i = 0; i < e->assumed_count; i++) { html_element(out, "<li>", "%s", e->assumed[i]); }
    (void)fputs("</ul>\n", out);
}
