/* The page of redco-plan --report: plain HTML, styles inside, nothing from elsewhere. */
#include "tools/plan/plan_html.h"

#include "tools/plan/plan_answer.h"

#include "tools/cli/text_table.h"
#include "tools/plan/plan_report.h"
#include "tools/plan/run_report.h"
#include "tools/plot/plot.h"
#include "topology/base/file.h"
#include "topology/base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define TIMES "\xc3\x97"

enum { SHORT = 64 };

static const char style[] =
    ":root{color-scheme:light dark;--text:#1a1a1a;--faint:#5a5a5a;--line:#d5d5d5;--page:#fff;--card:#f5f6f8;"
    "--mark:#fff3c4}"
    "@media(prefers-color-scheme:dark){:root{--text:#e8e8e8;--faint:#a8a8a8;--line:#444;--page:#17181a;--card:#232528;"
    "--mark:#4a3f10}}"
    "body{margin:0 auto;max-width:68rem;padding:1.5rem;font:16px/1.5 system-ui,sans-serif;color:var(--text);"
    "background:var(--page)}"
    "h1{font-size:1.6rem;margin:0 0 .3rem}h2{font-size:1.2rem;margin:2.2rem 0 .6rem;border-bottom:1px solid "
    "var(--line)}"
    "p{margin:.5rem 0}.faint{color:var(--faint)}"
    ".tiles{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.2rem 0}"
    ".tile{background:var(--card);border-radius:.5rem;padding:.7rem 1rem;flex:1 1 9rem}"
    ".tile b{display:block;font-size:1.35rem;white-space:nowrap}.tile span{color:var(--faint);font-size:.85rem}"
    ".wide{overflow-x:auto}table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums}"
    "th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}"
    "th{color:var(--faint);font-weight:600;font-size:.85rem}th.t,td.t{text-align:left}td.r{text-align:left;"
    "white-space:normal}tr.chosen td{background:var(--mark);font-weight:600}"
    "figure{margin:1rem 0;background:#fff;border:1px solid var(--line);border-radius:.5rem;padding:.5rem}"
    "figure svg{display:block;width:100%;height:auto}"
    ".note{background:var(--card);border-left:4px solid #e69f00;padding:.6rem 1rem;margin:1rem 0}"
    "code{font-size:.85rem;word-break:break-all}";

/* Nothing is loaded and no script runs, also where an escape should be missing: styles and pictures stand in the page.
 */
static const char policy[] = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

void html_text(FILE *out, const char *text)
{
    while (*text != '\0') {
        size_t size = 0;
        const char *shown = redco_text_next(&text, &size);
        switch (*shown) {
        case '&': (void)fputs("&amp;", out); break;
        case '<': (void)fputs("&lt;", out); break;
        case '>': (void)fputs("&gt;", out); break;
        case '"': (void)fputs("&quot;", out); break;
        case '\'': (void)fputs("&#39;", out); break;
        default: (void)fwrite(shown, 1, size, out);
        }
    }
}

void html_element(FILE *out, const char *open, const char *format, ...)
{
    char text[1200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)fputs(open, out);
    html_text(out, text);
    (void)fprintf(out, "</%.*s>", (int)strcspn(open + 1, " >"), open + 1);
}

void html_headings(FILE *out, const char *const *names)
{
    (void)fputs("<div class=wide><table><thead><tr>", out);
    for (size_t i = 0; names[i] != NULL; i++) {
        const bool left = names[i][0] == '<';
        html_element(out, left ? "<th class=t>" : "<th>", "%s", names[i] + left);
    }
    (void)fputs("</tr></thead><tbody>\n", out);
}

void html_end_table(FILE *out)
{
    (void)fputs("</tbody></table></div>\n", out);
}

void html_begin(FILE *out, const char *title, const char *heading)
{
    (void)fprintf(out,
                  "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\">"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n",
                  policy);
    html_element(out, "<title>", "%s", title);
    (void)fprintf(out, "\n<style>%s</style></head><body>\n", style);
    html_element(out, "<h1>", "%s", heading);
}

void html_head(FILE *out, const struct plan_args *args, const redco_inputs *inputs, const char *where)
{
    char a[SHORT];
    char b[SHORT];
    char parameters[2 * SHORT];
    const redco_machine *machine = &inputs->machine;
    const redco_workload *workload = &args->question.options.workload;
    const char *const model = redco_model_name(inputs->model);
    const char *const cluster = redco_cluster_name(inputs->cluster);
    char title[700], heading[640];
    (void)snprintf(heading, sizeof heading, "%s on %s of %s", model, where, cluster);
    (void)snprintf(title, sizeof title, "%s: redco's plan%s", heading,
                   args->compare || args->compare_engines || args->question.size_count > 0 ? "s" : "");
    html_begin(out, title, heading);
    (void)fputs("<p class=faint>", out);
    html_element(out, "<span>", "%s. ", report_parameters(inputs->model, parameters, sizeof parameters));
    if (args->question.size_count > 0) {
        html_element(out, "<span>", "Nodes of %u %s", machine->whole_node_gpus, machine->gpu.name);
    } else {
        char part[SHORT] = "";
        if (machine->gpus_per_node < machine->whole_node_gpus) {
            (void)snprintf(part, sizeof part, " of its %u", machine->whole_node_gpus);
        }
        html_element(out, "<span>", "%u %s, %u%s %s each", machine->nodes, machine->nodes == 1 ? "node" : "nodes",
                     machine->gpus_per_node, part, machine->gpu.name);
    }
    html_element(out, "<span>", ", %u " TIMES " %.4g Gb/s of network per node. ", machine->nics_per_node,
                 machine->nic_bytes_per_s * 8e-9);
    (void)format_count(workload->global_batch, a, sizeof a);
    if (report_of_examples(inputs)) {
        html_element(out, "<span>", "%s examples a step, in %s.", a, redco_precision_words[workload->precision]);
    } else {
        html_element(out, "<span>", "%s tokens a step: %s sequences of %u, in %s.",
                     format_large((double)workload->global_batch * workload->seq_len, b, sizeof b), a,
                     workload->seq_len, redco_precision_words[workload->precision]);
    }
    (void)fputs("</p>\n", out);
}

static void write_head(FILE *out, const struct plan_html *page)
{
    char where[2 * SHORT];
    char count[SHORT];
    const redco_machine *machine = &page->inputs->machine;
    (void)snprintf(where, sizeof where, "%s GPUs",
                   format_count((uint64_t)machine->nodes * machine->gpus_per_node, count, sizeof count));
    html_head(out, page->args, page->inputs, where);
}

static void tile(FILE *out, const char *value, const char *what)
{
    (void)fputs("<div class=tile>", out);
    html_element(out, "<b>", "%s", value);
    html_element(out, "<span>", "%s", what);
    (void)fputs("</div>", out);
}

void html_tiles(FILE *out, const struct plan_args *args, const redco_inputs *inputs, const redco_prediction *p)
{
    char text[2 * SHORT];
    char a[SHORT];
    char b[SHORT];
    (void)fputs("<div class=tiles>", out);
    tile(out, report_tokens(inputs, p, text, sizeof text),
         report_of_examples(inputs) ? "examples/s per GPU" : "tokens/s per GPU");
    tile(out, format_time(p->step_s, p->step_s, text, sizeof text), "a step");
    (void)snprintf(text, sizeof text, "%.2f", p->mfu);
    tile(out, text, args->question.options.workload.mfu_causal ? "MFU, causal attention" : "MFU, attention in full");
    (void)snprintf(text, sizeof text, "%s of %s GB", format_gigabytes((double)p->total_bytes, a, sizeof a),
                   format_gigabytes((double)p->capacity_bytes, b, sizeof b));
    tile(out, text, "memory of a GPU");
    tile(out, format_time(p->exposed_comm_s, p->step_s, text, sizeof text), "communication not hidden");
    (void)fputs("</div>\n", out);
}

static void fact(FILE *out, const char *what, const char *value)
{
    (void)fputs("<tr>", out);
    html_element(out, "<td class=t>", "%s", what);
    html_element(out, "<td class=r>", "%s", value);
    (void)fputs("</tr>\n", out);
}

static void mesh_fact(FILE *out, const char *what, redco_mesh mesh)
{
    char text[2 * SHORT];
    char factors[SHORT];
    const uint64_t ranks = redco_mesh_ranks(mesh);
    (void)report_mesh(mesh, factors, sizeof factors);
    if (ranks == 1) {
        (void)snprintf(text, sizeof text, "%s: whole on every rank", factors);
    } else {
        (void)snprintf(text, sizeof text, "%s: cut into %llu parts, %u GPUs in each of %u %s", factors,
                       (unsigned long long)ranks, mesh.gpus, mesh.nodes, mesh.nodes == 1 ? "node" : "nodes");
    }
    fact(out, what, text);
}

static void write_choice(FILE *out, const struct plan_html *page)
{
    char text[4 * SHORT];
    const redco_candidate *best = &page->result->ranked[0];
    const redco_parallelism *parallelism = &best->parallelism;
    const redco_shards shards = redco_main_assignment(best)->config.shards;
    const redco_strategy known = redco_strategy_of(answer_grid(page->inputs, &page->args->question.options, best),
                                                   parallelism->secondary, &shards);
    html_element(out, "<h2>", "The choice");
    (void)fputs("<table><tbody>\n", out);
    const bool told = known == REDCO_STRATEGY_ANY || strcmp(redco_strategy_name(known), page->name) == 0;
    (void)snprintf(text, sizeof text, "%s%s%s%s", plot_strategy_label(page->name), told ? "" : " (also known as ",
                   told ? "" : plot_strategy_label(redco_strategy_name(known)), told ? "" : ")");
    fact(out, "strategy", text);
    (void)snprintf(text, sizeof text, "%u", parallelism->tp);
    fact(out, "tensor parallel", text);
    if (parallelism->cp > 1) { fact(out, "context parallel", report_context(parallelism, text, sizeof text)); }
    if (parallelism->pp > 1) { fact(out, "pipeline stages", report_stages(parallelism, text, sizeof text)); }
    (void)snprintf(text, sizeof text, "%u GPUs of a node " TIMES " %u nodes", parallelism->dp.gpus,
                   parallelism->dp.nodes);
    fact(out, "data parallel", text);
    mesh_fact(out, "parameters", shards.parameters);
    mesh_fact(out, "gradients", shards.gradients);
    mesh_fact(out, "optimizer states", shards.optimizer);
    (void)snprintf(text, sizeof text, "%u %s, %llu a step", parallelism->micro_batch,
                   parallelism->micro_batch == 1 ? "sequence" : "sequences",
                   (unsigned long long)parallelism->micro_batches);
    fact(out, "micro-batch", text);
    fact(out, "recomputation", report_recompute(page->inputs->model, best, text, sizeof text));
    if (page->plan->hosts_count > 0) {
        (void)snprintf(text, sizeof text, "%u, from %.60s to %.60s", page->plan->hosts_count, page->plan->hosts[0],
                       page->plan->hosts[page->plan->hosts_count - 1]);
        fact(out, "hosts in rank order", text);
    }
    (void)fputs("</tbody></table>\n", out);
}

static bool layers_differ(const redco_plan *plan)
{
    for (uint32_t i = 1; i < plan->layers_count; i++) {
        if (!redco_shards_equal(plan->layers[i].shards, plan->layers[0].shards)) { return true; }
        if (strcmp(plan->layers[i].class_name, plan->layers[i - 1].class_name) == 0) { return true; }
    }
    return false;
}

static void write_layers(FILE *out, const redco_plan *plan)
{
    static const char *const names[] = {"<layers", "parameters", "gradients", "optimizer", "<recompute", NULL};
    char a[SHORT];
    if (!layers_differ(plan)) { return; }
    html_element(out, "<p>", "Not all layers are alike:");
    html_headings(out, names);
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        redco_plan_layers shown;
        const redco_plan_layers *const row = &shown;
        if (!report_layers_row(plan, i, &shown)) { continue; }
        (void)fputs("<tr>", out);
        html_element(out, "<td class=t>", "%s", report_layers_name(row, "\xe2\x80\x93", a, sizeof a));
        html_element(out, "<td>", "%s", report_mesh(row->shards.parameters, a, sizeof a));
        html_element(out, "<td>", "%s", report_mesh(row->shards.gradients, a, sizeof a));
        html_element(out, "<td>", "%s", report_mesh(row->shards.optimizer, a, sizeof a));
        char recompute[REDCO_RECOMPUTE_TEXT];
        html_element(out, "<td class=t>", "%s",
                     redco_recompute_text(row->recompute, plan->engine.partial_recompute, recompute, sizeof recompute));
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
    if (report_stages_repeat(plan)) {
        html_element(out, "<p class=note>", "Every other stage treats its %u layers likewise.",
                     plan->model_layers / plan->parallelism.pp);
    }
}

void html_proof(FILE *out, const struct plan_args *args, const redco_search_result *result)
{
    char count[SHORT];
    const bool optimal = strcmp(result->status, "optimal") == 0;
    html_element(out, "<h2>", "Why this one");
    html_element(out, "<p>", "%s: %s over %s strategies, %s %.2g %%.",
                 optimal                 ? "Proven optimal by the closed form"
                 : result->by_simulation ? "The fastest of those simulated"
                                         : "Not proven optimal",
                 result->solver, format_count(result->candidates, count, sizeof count),
                 optimal ? "nothing is faster by more than" : "by the closed form something may be faster by",
                 100.0 * fmax(result->gap_ratio, optimal ? args->question.options.pass.gap_ratio : 0.0));
    if (result->within_ratio > 0.0) {
        html_element(out, "<p>", "By the simulator no other layout is faster by more than %.2g %%.",
                     100.0 * result->within_ratio);
    }
    if (result->verified) {
        html_element(out, "<p>", "%s by a second method: %s.", result->verify_failed ? "Refuted" : "Confirmed",
                     result->verify_method);
    }
}

static void write_proof(FILE *out, const struct plan_html *page)
{
    const redco_search_result *result = page->result;
    html_proof(out, page->args, result);
    if (page->free_result != NULL && page->free_result->ranked_count > 0) {
        char change[SHORT];
        const double ratio =
            redco_candidate_ratio(&page->args->question.options, &result->ranked[0], &page->free_result->ranked[0]);
        const bool left_out = ratio < 0.0 && page->free_leaves_out != NULL;
        html_element(out, "<p>", "What was fixed costs %s against the free optimum%s%s.",
                     format_change(left_out ? ratio : fmax(ratio, 0.0), change, sizeof change),
                     left_out ? ", whose search leaves it out: it is " : "", left_out ? page->free_leaves_out : "");
    }
}

static void write_neighbours(FILE *out, const struct plan_html *page)
{
    static const char *const names[] = {"<instead", "step", "slower by", "<best then", NULL};
    const double like_s = page->result->ranked[0].prediction.step_s;
    if (page->neighbour_count == 0) { return; }
    html_element(out, "<p>", "Why not its neighbours: one thing moved, all else optimised again.");
    html_headings(out, names);
    for (size_t i = 0; i < page->neighbour_count; i++) {
        const redco_neighbour *other = &page->neighbours[i];
        char a[SHORT];
        char b[SHORT];
        char c[SHORT];
        char degrees[SHORT];
        (void)fputs("<tr>", out);
        html_element(out, "<td class=t>", "%s", other->what);
        if (other->feasible) {
            html_element(out, "<td>", "%s", format_time(other->step_s, like_s, a, sizeof a));
            html_element(out, "<td>", "%s", format_change(other->cost_ratio, a, sizeof a));
            html_element(out, "<td class=r>", "%s%s%s, %llu" TIMES "%u, %s %s %s%s%s",
                         other->aside != NULL ? other->aside : "", other->aside != NULL ? ": " : "",
                         report_degree_list(&other->parallelism, " ", ", ", degrees, sizeof degrees),
                         (unsigned long long)other->parallelism.micro_batches, other->parallelism.micro_batch,
                         report_mesh(other->shards.parameters, a, sizeof a),
                         report_mesh(other->shards.gradients, b, sizeof b),
                         report_mesh(other->shards.optimizer, c, sizeof c), other->engine[0] != '\0' ? ", by " : "",
                         other->engine);
        } else if (other->reason[0] != '\0') {
            html_element(out, "<td class=r colspan=3>", "impossible: %s", other->reason);
        } else {
            html_element(out, "<td class=r colspan=3>", "does not fit: %s GB too much",
                         format_gigabytes((double)other->short_bytes, a, sizeof a));
        }
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
}

static void write_help(FILE *out, const struct plan_html *page)
{
    static const char *const names[] = {"<10 % more", "speed", NULL};
    if (page->help == NULL) { return; }
    html_headings(out, names);
    for (size_t i = 0; i < REDCO_HELP_COUNT; i++) {
        char change[SHORT];
        (void)fputs("<tr>", out);
        html_element(out, "<td class=t>", "%s", page->help[i].what);
        html_element(out, "<td>", "%s", format_change(page->help[i].gain_ratio, change, sizeof change));
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
}

void html_figure(FILE *out, const char *svg, const char *what)
{
    if (svg == NULL) { return; }
    (void)fprintf(out, "<figure role=\"img\" aria-label=\"%s\">%s</figure>\n", what, svg);
}

size_t html_columns(const char *first, struct report_degrees degrees, const char *names[HTML_COLUMNS])
{
    const char *const rate = degrees.examples ? "examples/s/GPU" : "tokens/s/GPU";
    const char *const after[] = {"micro", "params", "grads", "optimizer", "<recompute", "memory", "step", rate, "MFU"};
    size_t count = 0;
    names[count++] = first;
    names[count++] = "tp";
    if (degrees.pp) { names[count++] = "pp"; }
    if (degrees.cp) { names[count++] = "cp"; }
    if (degrees.ep) { names[count++] = "ep" TIMES "etp"; }
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) { names[count++] = after[i]; }
    names[count] = NULL;
    return count;
}

void html_cells(FILE *out, const redco_inputs *inputs, struct report_degrees degrees, const redco_candidate *candidate,
                double like_s)
{
    char a[2 * SHORT];
    const redco_prediction *p = &candidate->prediction;
    const bool copied = candidate->parallelism.secondary.gpus > 0;
    html_element(out, "<td>", "%u", candidate->parallelism.tp);
    if (degrees.pp) { html_element(out, "<td>", "%s", report_stages(&candidate->parallelism, a, sizeof a)); }
    if (degrees.cp) { html_element(out, "<td>", "%s", report_context(&candidate->parallelism, a, sizeof a)); }
    if (degrees.ep) { html_element(out, "<td>", "%s", report_experts(&candidate->parallelism, a, sizeof a)); }
    html_element(out, "<td>", "%llu" TIMES "%u", (unsigned long long)candidate->parallelism.micro_batches,
                 candidate->parallelism.micro_batch);
    (void)report_shards(candidate, offsetof(redco_shards, parameters), a, sizeof a);
    html_element(out, "<td>", "%s%s", a, copied ? "+" : "");
    html_element(out, "<td>", "%s", report_shards(candidate, offsetof(redco_shards, gradients), a, sizeof a));
    html_element(out, "<td>", "%s", report_shards(candidate, offsetof(redco_shards, optimizer), a, sizeof a));
    html_element(out, "<td class=t>", "%s", report_recompute(inputs->model, candidate, a, sizeof a));
    html_element(out, "<td>", "%s GB", format_gigabytes((double)p->total_bytes, a, sizeof a));
    html_element(out, "<td>", "%s", format_time(p->step_s, like_s, a, sizeof a));
    html_element(out, "<td>", "%s", report_tokens(inputs, p, a, sizeof a));
    html_element(out, "<td>", "%.2f", p->mfu);
}

void html_reason(FILE *out, size_t columns, const char *reason)
{
    char cell[SHORT];
    (void)snprintf(cell, sizeof cell, "<td class=r colspan=%zu>", columns);
    html_element(out, cell, "%s", reason);
}

void html_copied(FILE *out)
{
    html_element(out, "<p class=faint>", "%s",
                 "+ and a second copy of the parameters, sharded inside each node, for the backward");
}

static void strategy_row(FILE *out, const struct plan_html *page, struct report_degrees degrees,
                         const redco_candidate *candidate, const char *name, bool chosen)
{
    (void)fputs(chosen ? "<tr class=chosen>" : "<tr>", out);
    html_element(out, "<td class=t>", "%s", plot_strategy_label(name));
    html_cells(out, page->inputs, degrees, candidate, page->result->ranked[0].prediction.step_s);
    (void)fputs("</tr>\n", out);
}

static void write_comparison(FILE *out, const struct plan_html *page, const struct html_comparison *comparison)
{
    const char *names[HTML_COLUMNS];
    struct report_degrees degrees = report_degrees_of(&page->result->ranked[0], report_no_degrees(page->inputs));
    bool copied = page->result->ranked[0].parallelism.secondary.gpus > 0;
    for (int i = REDCO_STRATEGY_ANY + 1; i < REDCO_STRATEGY_COUNT; i++) {
        const redco_search_result *result = comparison->named[i].result;
        if (result == NULL || result->ranked_count == 0) { continue; }
        degrees = report_degrees_of(&result->ranked[0], degrees);
        copied = copied || result->ranked[0].parallelism.secondary.gpus > 0;
    }
    const size_t columns = html_columns("<strategy", degrees, names);
    html_element(out, "<h2>", "Beside the named strategies");
    html_headings(out, names);
    strategy_row(out, page, degrees, &page->result->ranked[0], page->name, true);
    for (int i = REDCO_STRATEGY_ANY + 1; i < REDCO_STRATEGY_COUNT; i++) {
        const char *name = redco_strategy_name((redco_strategy)i);
        const redco_search_result *result = comparison->named[i].result;
        if (strcmp(name, page->name) == 0) { continue; }
        if (result != NULL && result->ranked_count > 0) {
            strategy_row(out, page, degrees, &result->ranked[0], name, false);
            continue;
        }
        (void)fputs("<tr>", out);
        html_element(out, "<td class=t>", "%s", plot_strategy_label(name));
        html_reason(out, columns - 1, comparison->named[i].reason);
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
    if (copied) { html_copied(out); }
    if (comparison->missing[0] != '\0') {
        html_element(out, "<p class=note>", "The pictures of memory, time and all candidates are left out: %s.",
                     comparison->missing);
    }
    html_figure(out, comparison->svg[HTML_MEMORY], "Memory of a GPU by component, for each strategy");
    html_figure(out, comparison->svg[HTML_TIME], "Time of a step by part, for each strategy");
    html_figure(out, comparison->svg[HTML_PARETO], "Memory against throughput of all candidates");
}

/* Amounts that round to nothing are left out. */
static void write_parts(FILE *out, const redco_prediction *p)
{
    const struct {
        const char *name;
        double seconds;
    } times[] = {{"forward", p->forward_s},
                 {"backward", p->backward_s},
                 {"recomputation", p->recompute_s},
                 {"exposed layer communication", p->layer_exposed_s},
                 {"exposed gradient reduction", p->grad_reduce_exposed_s},
                 {"exposed parameter update", p->param_sync_exposed_s},
                 {"optimizer", p->optimizer_s},
                 {"other", p->other_s}};
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"parameters", p->parameter_bytes},
                 {"gradients", p->gradient_bytes},
                 {"optimizer states", p->optimizer_bytes},
                 {"activations", p->activation_bytes},
                 {"transient and reserve", p->transient_bytes},
                 {"NCCL buffers", p->nccl_bytes}};
    static const char *const time_names[] = {"<part of a step", "time", "share", NULL};
    static const char *const part_names[] = {"<memory of a GPU", "GB", "share", NULL};
    char text[SHORT];
    html_element(out, "<h2>", "In numbers");
    html_headings(out, time_names);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (times[i].seconds < 0.0005 * p->step_s) { continue; }
        (void)fputs("<tr>", out);
        html_element(out, "<td class=t>", "%s", times[i].name);
        html_element(out, "<td>", "%s", format_time(times[i].seconds, 0.1 * p->step_s, text, sizeof text));
        html_element(out, "<td>", "%.1f %%", 100.0 * times[i].seconds / p->step_s);
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
    html_headings(out, part_names);
    const size_t part_count = sizeof parts / sizeof parts[0] - (p->nccl_bytes > 0 ? 0 : 1); /* one GPU has none */
    for (size_t i = 0; i < part_count; i++) {
        (void)fputs("<tr>", out);
        html_element(out, "<td class=t>", "%s", parts[i].name);
        html_element(out, "<td>", "%s", format_gigabytes((double)parts[i].bytes, text, sizeof text));
        html_element(out, "<td>", "%.1f %%", 100.0 * (double)parts[i].bytes / (double)p->total_bytes);
        (void)fputs("</tr>\n", out);
    }
    html_end_table(out);
}

void html_basis(FILE *out, const struct plan_args *args, const redco_inputs *inputs)
{
    const redco_calibration *calibration = &inputs->calibration;
    html_element(out, "<h2>", "What it rests on");
    if (calibration->fitted_rows == 0) {
        html_element(out, "<p>", "Calibration %s: not fitted to runs. %s.", calibration->name, calibration->basis);
    } else {
        html_element(out, "<p>", "Calibration %s: fitted to %u runs, mean error %.1f %%. %s.", calibration->name,
                     calibration->fitted_rows, 100.0 * calibration->mape_ratio, calibration->basis);
    }
    html_element(out, "<p>", "%u measured %s of collectives given; where none is, NCCL's own model prices them.",
                 args->question.names.profile_count, args->question.names.profile_count == 1 ? "profile" : "profiles");
}

static void write_basis(FILE *out, const struct plan_html *page)
{
    const redco_plan *plan = page->plan;
    html_basis(out, page->args, page->inputs);
    (void)fputs("<p class=faint>Inputs by SHA-256: model ", out);
    html_element(out, "<code>", "%s", plan->model_sha256);
    (void)fputs(", cluster ", out);
    html_element(out, "<code>", "%s", plan->cluster_sha256);
    if (plan->profile_sha256[0] != '\0') {
        (void)fputs(", profiles ", out);
        html_element(out, "<code>", "%s", plan->profile_sha256);
    }
    (void)fputs(".</p>\n", out);
    html_element(out, "<p class=faint>", "redco %s", plan->redco_version);
    (void)fputs("\n</body></html>\n", out);
}

redco_status plan_html_write(const struct plan_html *page, const char *path, char note_out[800], redco_error *err)
{
    struct html_comparison comparison = {0};
    char *text = NULL;
    size_t size = 0;
    FILE *out = NULL;
    redco_status st = html_compare(page, &comparison, err);
    if (st != REDCO_OK) { goto out; }
    out = open_memstream(&text, &size);
    if (out == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, path, "out of memory");
        goto out;
    }
    write_head(out, page);
    html_tiles(out, page->args, page->inputs, &page->result->ranked[0].prediction);
    write_choice(out, page);
    write_layers(out, page->plan);
    write_proof(out, page);
    write_neighbours(out, page);
    write_help(out, page);
    write_comparison(out, page, &comparison);
    write_parts(out, &page->result->ranked[0].prediction);
    if (page->run != NULL) { run_html(out, page->run); }
    write_basis(out, page);
    st = fclose(out) == 0 ? redco_file_write(path, text, size, err)
                          : redco_fail(err, REDCO_ENOMEM, path, "out of memory");
    (void)snprintf(note_out, 800, "%s", comparison.missing);
out:
    free(text);
    html_comparison_free(&comparison);
    return st;
}

void plan_html_warn(const struct plan_args *args, const char *note)
{
    char text[900];
    if (note[0] == '\0') { return; }
    (void)snprintf(text, sizeof text, "%.60s has no pictures: %s", args->report, note);
    cli_warn(&args->cli, text);
}
