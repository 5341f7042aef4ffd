/* The page of several plans: strategies or engines side by side, or a sweep over numbers of GPUs. */
#include "tools/plan/plan_html.h"

#include "tools/cli/text_table.h"
#include "topology/base/file.h"

#include <stdlib.h>

enum { SHORT = 64, LIST_MEMORY = 0, LIST_TIME, LIST_CURVE, LIST_PICTURES };

static const redco_inputs *inputs_of(const struct plan_html_list *list, const struct report_row *row)
{
    return row->inputs != NULL ? row->inputs : list->inputs;
}

static redco_status add_rows(const struct plan_html_list *list, struct plot_plans *plans, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < list->count && st == REDCO_OK; i++) {
        const struct report_row *const row = &list->rows[i];
        struct plot_plan plan = {.name = row->name, .gpus = row->gpus, .reason = row->reason};
        if (row->candidate != NULL) {
            const redco_inputs *const inputs = inputs_of(list, row);
            plan = html_plan(list->args, inputs, row->candidate, row->name, row->gpus);
            plan.band = redco_band_tokens(&inputs->calibration, &row->candidate->prediction);
        }
        plan.chosen = row->marked;
        plan.short_bytes = (double)row->short_bytes;
        st = plot_plans_add(plans, &plan, err);
    }
    return st;
}

/* More bars than can be read are no picture; a curve has room for all. */
static redco_status draw_some(enum plot_kind kind, const struct plot_plans *plans, int picture, char **svg_out,
                              redco_error *err)
{
    redco_error why = {0};
    const redco_status st = html_draw(kind, plans, picture, svg_out, &why);
    return st == REDCO_OK || st == REDCO_EVALUE ? REDCO_OK : redco_fail(err, st, why.place, "%s", why.text);
}

static redco_status draw_list(const struct plan_html_list *list, char *svg[LIST_PICTURES], char missing[800],
                              redco_error *err)
{
    struct plot_plans plans = {0};
    redco_error why = {0};
    redco_status st = add_rows(list, &plans, &why);
    if (st == REDCO_OK && list->sizes) { st = html_draw(PLOT_MFU_VS_GPUS, &plans, LIST_CURVE, &svg[LIST_CURVE], &why); }
    if (st == REDCO_OK) { st = draw_some(PLOT_MEMORY, &plans, LIST_MEMORY, &svg[LIST_MEMORY], &why); }
    if (st == REDCO_OK) { st = draw_some(PLOT_TIME, &plans, LIST_TIME, &svg[LIST_TIME], &why); }
    plot_plans_free(&plans);
    if (st == REDCO_ESYSTEM) { /* no gnuplot */
        (void)snprintf(missing, 800, "%.30s %.760s", why.place, why.text);
        return REDCO_OK;
    }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

/* The one that is marked, else the first that fits. */
static const struct report_row *main_row(const struct plan_html_list *list)
{
    const struct report_row *first = NULL;
    for (uint32_t i = 0; i < list->count; i++) {
        const struct report_row *const row = &list->rows[i];
        if (row->candidate == NULL) { continue; }
        if (row->marked) { return row; }
        if (first == NULL) { first = row; }
    }
    return first;
}

static void write_where(FILE *out, const struct plan_html_list *list)
{
    char where[3 * SHORT];
    char least[SHORT];
    char most[SHORT];
    uint64_t low = list->rows[0].gpus, high = low;
    for (uint32_t i = 1; i < list->count; i++) {
        low = list->rows[i].gpus < low ? list->rows[i].gpus : low;
        high = list->rows[i].gpus > high ? list->rows[i].gpus : high;
    }
    if (low == high) {
        (void)snprintf(where, sizeof where, "%s GPU%s", format_count(low, least, sizeof least), low == 1 ? "" : "s");
    } else {
        (void)snprintf(where, sizeof where, "%s to %s GPUs", format_count(low, least, sizeof least),
                       format_count(high, most, sizeof most));
    }
    html_head(out, list->args, list->inputs, where);
}

static void write_row(FILE *out, const struct plan_html_list *list, const struct report_row *row,
                      struct report_degrees degrees, size_t columns, const struct report_row *first)
{
    char text[SHORT];
    (void)fputs(row->marked ? "<tr class=chosen>" : "<tr>", out);
    if (list->sizes) {
        html_element(out, "<td>", "%s", format_count(row->gpus, text, sizeof text));
    } else {
        html_element(out, "<td class=t>", "%s", plot_strategy_label(row->name));
    }
    if (row->candidate == NULL) {
        html_reason(out, columns - 1, row->reason);
    } else {
        const redco_prediction *const p = &row->candidate->prediction;
        const redco_prediction *const like = &first->candidate->prediction;
        html_cells(out, inputs_of(list, row), degrees, row->candidate, list->sizes ? p->step_s : like->step_s);
        html_element(out, "<td>", "%s", format_time(p->exposed_comm_s, p->step_s, text, sizeof text));
        if (list->sizes) {
            html_element(out, "<td>", "%.0f %%", 100.0 * p->tokens_per_s_per_gpu / like->tokens_per_s_per_gpu);
        }
    }
    (void)fputs("</tr>\n", out);
}

static void write_table(FILE *out, const struct plan_html_list *list)
{
    const char *names[HTML_COLUMNS];
    struct report_degrees degrees = report_no_degrees(list->inputs);
    bool copied = false;
    const struct report_row *const first = main_row(list);
    for (uint32_t i = 0; i < list->count; i++) {
        const redco_candidate *const candidate = list->rows[i].candidate;
        if (candidate == NULL) { continue; }
        degrees = report_degrees_of(candidate, degrees);
        copied = copied || candidate->parallelism.secondary.gpus > 0;
    }
    size_t columns = html_columns(list->column, degrees, names);
    names[columns++] = "exposed";
    if (list->sizes) { names[columns++] = "scaling"; }
    names[columns] = NULL;
    html_headings(out, names);
    for (uint32_t i = 0; i < list->count; i++) { write_row(out, list, &list->rows[i], degrees, columns, first); }
    html_end_table(out);
    if (copied) { html_copied(out); }
    char text[2 * REDCO_EVIDENCE_TEXT];
    for (uint32_t i = 0; i < list->count; i++) {
        const enum report_kind kind = list->sizes ? REPORT_SIZES : REPORT_STRATEGIES;
        if (report_extrapolated(kind, list->rows, list->count, i, text, sizeof text)) {
            html_element(out, "<p class=note>", "%s", text);
        }
    }
    if (report_lacked(list->inputs, list->rows, list->count, text, sizeof text)) {
        html_element(out, "<p class=note>", "%s", text);
    }
    if (list->sizes) {
        html_element(out, "<p class=faint>", "%s",
                     "scaling: the rate per GPU against that of the first number of GPUs that has a plan");
    }
}

static void write_page(FILE *out, const struct plan_html_list *list, char *const svg[LIST_PICTURES],
                       const char *missing)
{
    const struct report_row *const main = main_row(list);
    write_where(out, list);
    if (!list->sizes) { html_tiles(out, list->args, inputs_of(list, main), &main->candidate->prediction); }
    html_element(out, "<h2>", "%s", list->title);
    write_table(out, list);
    if (missing[0] != '\0') { html_element(out, "<p class=note>", "The pictures are left out: %s.", missing); }
    html_figure(out, svg[LIST_CURVE], "MFU over the number of GPUs");
    html_figure(out, svg[LIST_MEMORY], "Memory of a GPU by component, for each plan");
    html_figure(out, svg[LIST_TIME], "Time of a step by part, for each plan");
    if (list->result != NULL) { html_proof(out, list->args, list->result); }
    html_basis(out, list->args, list->inputs);
    html_element(out, "<p class=faint>", "redco %s", REDCO_VERSION);
    (void)fputs("\n</body></html>\n", out);
}

redco_status plan_html_list_write(const struct plan_html_list *list, const char *path, char note_out[800],
                                  redco_error *err)
{
    char *svg[LIST_PICTURES] = {NULL};
    char *text = NULL;
    size_t size = 0;
    note_out[0] = '\0';
    redco_status st = draw_list(list, svg, note_out, err);
    FILE *const out = st == REDCO_OK ? open_memstream(&text, &size) : NULL;
    if (st == REDCO_OK && out == NULL) { st = redco_fail(err, REDCO_ENOMEM, path, "out of memory"); }
    if (st == REDCO_OK) {
        write_page(out, list, svg, note_out);
        st = fclose(out) == 0 ? redco_file_write(path, text, size, err)
                              : redco_fail(err, REDCO_ENOMEM, path, "out of memory");
    }
    free(text);
    for (int i = 0; i < LIST_PICTURES; i++) { free(svg[i]); }
    return st;
}
