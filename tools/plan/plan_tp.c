#include "tools/plan/plan_tp.h"

#include "tools/cli/text_table.h"

#include <stdio.h>
#include <string.h>

#define DOT " \xc2\xb7 "

/* Differences below this are not worth a word. */
static const double visible_ratio = 5e-4;

static void print_difference(const redco_tp_class *class)
{
    bool any = false;
    for (uint32_t i = 0; i < class->weight_count; i++) {
        const redco_tp_weight *const weight = &class->weights[i];
        if (strcmp(weight->rules, weight->milp) == 0) { continue; }
        if (!any) { (void)printf("  %s:", class->name); }
        (void)printf("%s %s %s, not %s", any ? ";" : "", weight->role, weight->milp, weight->rules);
        any = true;
    }
    if (any) { (void)printf("\n"); }
}

static void side_cells(struct table *table, const redco_tp_side *side, const redco_tp_side *like)
{
    char time[32];
    char sent[32];
    char memory[32];
    table_cell(table, "%s", format_time(side->time_s, like->time_s, time, sizeof time));
    table_cell(table, "%s MB", format_count((uint64_t)(side->tp_bytes / 1e6 + 0.5), sent, sizeof sent));
    table_cell(table, "%s GB", format_gigabytes((double)side->memory_bytes, memory, sizeof memory));
}

static void layer_row(struct table *table, const char *name, uint32_t layers, const redco_tp_side *rules,
                      const redco_tp_side *milp)
{
    char change[32];
    table_row(table);
    table_cell(table, "%s", name);
    if (layers > 0) {
        table_cell(table, "%u", layers);
    } else {
        table_cell(table, "%s", "");
    }
    side_cells(table, rules, rules);
    side_cells(table, milp, rules);
    table_cell(table, "%s", format_change(milp->time_s / rules->time_s - 1.0, change, sizeof change));
}

static void print_layers(const redco_tp_report *report)
{
    static const char *const heading[] = {"",           "layers", "rules: time", "sent", "memory",
                                          "milp: time", "sent",   "memory",      "time"};
    struct table *table = table_new("lrrrrrrrr");
    if (table == NULL) { return; }
    table_row(table);
    for (size_t i = 0; i < sizeof heading / sizeof heading[0]; i++) { table_cell(table, "%s", heading[i]); }
    for (uint32_t c = 0; c < report->class_count; c++) {
        const redco_tp_class *const class = &report->classes[c];
        layer_row(table, class->name, class->layers, &class->rules, &class->milp);
    }
    layer_row(table, "all", 0, &report->rules, &report->milp);
    (void)printf("\ntensor-parallel layout of one layer: a micro-batch forward and backward on one GPU\n");
    (void)table_print(table, "  ", stdout);
    table_free(table);
    for (uint32_t c = 0; c < report->class_count; c++) { print_difference(&report->classes[c]); }
    (void)printf("  %s: %s by %s, gap %.2g\n", report->class_count == 1 ? "layer" : "layers", report->status,
                 report->solver, report->gap_ratio);
}

void plan_tp_layers(const redco_layout_gain *tp)
{
    if (tp->known) { print_layers(&tp->layers); }
}

void plan_tp_report(const redco_layout_gain *tp, const redco_search_options *options)
{
    if (!tp->known) { return; }
    const bool milp = options->tp_placement == REDCO_TP_MILP;
    const double gain = tp->rules_step_s / tp->milp_step_s - 1.0;
    if (!milp && gain <= visible_ratio) { return; }
    (void)printf("%-10s%s", "tensors",
                 milp                                     ? "split as GLPK found best"
                 : options->tp_placement == REDCO_TP_USER ? "split by your rules"
                                                          : "split by RedCoast's rules");
    if (gain > visible_ratio) {
        (void)printf(milp ? DOT "%.1f %% faster than this plan split by RedCoast's rules"
                          : DOT "this plan with --tp-placement milp: %.1f %% faster, the rest as it is",
                     100.0 * gain);
    } else {
        (void)printf(DOT "as fast as this plan split by RedCoast's rules");
    }
    (void)printf("%s\n", milp && tp->sequence_parallel ? DOT "both sequence parallel" : "");
}

static json_t *side_json(const redco_tp_side *side)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:I,s:I}", "time_s", side->time_s, "compute_s", side->compute_s, "tp_s",
                     side->tp_s, "sent_bytes", side->tp_bytes, "params", (json_int_t)side->params, "memory_bytes",
                     (json_int_t)side->memory_bytes);
}

static json_t *class_json(const redco_tp_class *class)
{
    json_t *weights = json_array();
    for (uint32_t i = 0; i < class->weight_count; i++) {
        const redco_tp_weight *const weight = &class->weights[i];
        (void)json_array_append_new(
            weights, json_pack("{s:s,s:s,s:s}", "role", weight->role, "rules", weight->rules, "milp", weight->milp));
    }
    return json_pack("{s:s,s:I,s:b,s:o,s:o,s:o}", "class", class->name, "layers", (json_int_t) class->layers, "same",
                     class->same, "rules", side_json(&class->rules), "milp", side_json(&class->milp), "weights",
                     weights);
}

json_t *plan_tp_json(const redco_layout_gain *tp)
{
    const redco_tp_report *const report = &tp->layers;
    json_t *classes = json_array();
    for (uint32_t c = 0; c < report->class_count; c++) {
        (void)json_array_append_new(classes, class_json(&report->classes[c]));
    }
    return json_pack("{s:f,s:f,s:o,s:o,s:o,s:{s:s,s:s,s:f}}", "rules_step_s", tp->rules_step_s, "milp_step_s",
                     tp->milp_step_s, "rules", side_json(&report->rules), "milp", side_json(&report->milp), "classes",
                     classes, "solver", "name", report->solver, "status", report->status, "gap", report->gap_ratio);
}
