#include "tools/plan/run_html.h"

#include "tools/cli/text_table.h"
#include "tools/plan/plan_html.h"
#include "tools/plan/run_report.h"
#include "topology/base/file.h"

#include <stdlib.h>

enum { SHORT = 64, WIDE = 160 };

/* A missing gnuplot leaves the picture out, with a warning. */
static redco_status draw(const struct plan_args *args, enum plot_kind kind, const json_t *json, char **svg_out,
                         redco_error *err)
{
    const struct plot_options options = {0};
    const redco_json_value root = redco_json_wrap(json, "run");
    char *script = NULL;
    char note[800];
    size_t size = 0;
    redco_error why = {0};
    redco_status st = plot_compose_document(kind, &root, &options, PLOT_SVG, &script, &size, &why);
    if (st == REDCO_OK) { st = html_draw_script(script, size, 0, svg_out, &why); }
    free(script);
    if (st == REDCO_ESYSTEM) {
        (void)snprintf(note, sizeof note, "%.30s %.760s", why.place, why.text);
        plan_html_warn(args, note);
        return REDCO_OK;
    }
    return st == REDCO_OK || st == REDCO_EVALUE ? REDCO_OK : redco_fail(err, st, why.place, "%s", why.text);
}

static void frontier_table(FILE *out, const redco_frontier *f)
{
    static const char *const names[] = {"<cluster", "GPUs", "batch",     "<precision", "MFU",     "days",     "band",
                                        "ETTR",     "cost", "GPU-hours", "MWh",        "<limits", "<best in", NULL};
    char text[WIDE];
    html_headings(out, names);
    for (uint32_t i = 0; i < f->count; i++) {
        const redco_frontier_row *const row = &f->rows[i];
        const redco_run_estimate *const e = &row->run;
        (void)fputs((int)i == f->chosen && f->chosen_rival < 0 ? "<tr class=chosen>" : "<tr>", out);
        html_element(out, "<td class=t>", "%s", row->cluster);
        html_element(out, "<td>", "%s", format_count(row->gpus, text, sizeof text));
        html_element(out, "<td>", "%s", format_count(row->global_batch, text, sizeof text));
        html_element(out, "<td class=t>", "%s", row->precision);
        if (!row->feasible) {
            html_reason(out, 9, row->reason);
            (void)fputs("</tr>\n", out);
            continue;
        }
        html_element(out, "<td>", "%.2f", row->mfu);
        html_element(out, "<td>", "%.1f", e->days.value);
        html_element(out, "<td>", "%.1f to %.1f", e->days.low, e->days.high);
        html_element(out, "<td>", "%.3f", e->ettr.value);
        html_element(out, "<td>", "%s", e->money.known ? format_large(e->money.value, text, sizeof text) : "");
        html_element(out, "<td>", "%s", format_large(e->paid_gpu_hours.value, text, sizeof text));
        html_element(out, "<td>", "%s", e->mwh.known ? format_large(e->mwh.value, text, sizeof text) : "");
        html_element(out, "<td class=t>", "%s", row->keeps ? row->keeps_surely ? "kept" : "perhaps" : "not kept");
        html_element(out, "<td class=t>", "%s%s%s", row->front_money ? f->priced ? "money" : "GPU-hours" : "",
                     row->front_money && row->front_energy ? ", " : "", row->front_energy ? "MWh" : "");
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
}

/* @param svg  freed here */
static redco_status finish(FILE *out, const struct plan_args *args, char **text, const size_t *size, char *svg,
                           redco_error *err)
{
    html_element(out, "<p class=faint>", "redco %s", REDCO_VERSION);
    (void)fputs("\n</body></html>\n", out);
    const redco_status st = fclose(out) == 0 ? redco_file_write(args->report, *text, *size, err)
                                             : redco_fail(err, REDCO_ENOMEM, args->report, "out of memory");
    free(*text);
    free(svg);
    return st;
}

redco_status run_html_frontier(const struct plan_args *args, const redco_frontier *f, const json_t *json,
                               redco_error *err)
{
    char *svg = NULL, *text = NULL;
    char heading[WIDE], title[2 * WIDE], tokens[SHORT];
    size_t size = 0;
    bool any = false;
    for (uint32_t i = 0; i < f->count; i++) { any = any || f->rows[i].feasible; }
    const redco_status st = any ? draw(args, PLOT_FRONTIER, json, &svg, err) : REDCO_OK;
    if (st != REDCO_OK) { return st; }
    FILE *const out = open_memstream(&text, &size);
    if (out == NULL) {
        free(svg);
        return redco_fail(err, REDCO_ENOMEM, args->report, "out of memory");
    }
    (void)snprintf(heading, sizeof heading, "%.90s: %s tokens", f->model,
                   format_large(args->run.words.terms.tokens, tokens, sizeof tokens));
    (void)snprintf(title, sizeof title, "%s: redco's runs", heading);
    html_begin(out, title, heading);
    html_figure(out, svg, "Days against money and energy");
    html_element(out, "<h2>", "Choices");
    frontier_table(out, f);
    html_element(out, "<p class=faint>", "%s", "A choice is best where no other is better in days and in that number.");
    if (f->chosen >= 0) { run_html(out, &f->rows[f->chosen].run); }
    return finish(out, args, &text, &size, svg, err);
}

redco_status run_html_phases(const struct plan_args *args, const redco_phase_answer *answers, uint32_t count,
                             const redco_run_estimate *total, redco_error *err)
{
    static const char *const names[] = {"<phase", "tokens", "GPUs", "sequence",  "batch",
                                        "MFU",    "days",   "band", "GPU-hours", NULL};
    char *svg = NULL, *text = NULL;
    char value[WIDE];
    size_t size = 0;
    json_t *const json = redco_phases_to_json(answers, count, total);
    const redco_status st = json != NULL ? draw(args, PLOT_PHASES, json, &svg, err)
                                         : redco_fail(err, REDCO_ENOMEM, args->report, "out of memory");
    json_decref(json);
    if (st != REDCO_OK) { return st; }
    FILE *const out = open_memstream(&text, &size);
    if (out == NULL) {
        free(svg);
        return redco_fail(err, REDCO_ENOMEM, args->report, "out of memory");
    }
    html_begin(out, "A run in phases: redco", "A run in phases");
    html_figure(out, svg, "Phases over time");
    html_headings(out, names);
    for (uint32_t i = 0; i < count; i++) {
        const redco_phase_answer *const a = &answers[i];
        (void)fputs("<tr>", out);
        html_element(out, "<td class=t>", "%s", a->name);
        html_element(out, "<td>", "%s", format_large(a->run.tokens, value, sizeof value));
        html_element(out, "<td>", "%s", format_count(a->gpus, value, sizeof value));
        html_element(out, "<td>", "%u", a->seq_len);
        html_element(out, "<td>", "%s", format_count(a->global_batch, value, sizeof value));
        html_element(out, "<td>", "%.2f", a->mfu);
        html_element(out, "<td>", "%.2f", a->run.days.value);
        html_element(out, "<td>", "%.2f to %.2f", a->run.days.low, a->run.days.high);
        html_element(out, "<td>", "%s", format_large(a->run.gpu_hours.value, value, sizeof value));
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
    run_html(out, total);
    return finish(out, args, &text, &size, svg, err);
}
