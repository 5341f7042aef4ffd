/* Lines below the table: labelled lines of a plan and its prediction. */
#include "tools/plan/plan_report.h"

#include "costmodel/closed_form/memory_model.h"
#include "tools/cli/text_table.h"
#include "topology/base/text.h"
#include "topology/discovery/gpu_order.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DOT " \xc2\xb7 "

enum { SHORT = 64, LABEL = 10, WIDEST = 110 };

static bool is_stack(const redco_plan_layers *row)
{
    return strcmp(row->class_name, "embedding") != 0 && strcmp(row->class_name, "head") != 0;
}

bool report_stages_repeat(const redco_plan *plan)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < plan->layers_count; i++) { rows += is_stack(&plan->layers[i]); }
    return plan->parallelism.pp > 1 && rows > plan->parallelism.pp && plan->model_layers % plan->parallelism.pp == 0;
}

bool report_layers_row(const redco_plan *plan, uint32_t index, redco_plan_layers *row_out)
{
    *row_out = plan->layers[index];
    if (!is_stack(row_out) || !report_stages_repeat(plan)) { return true; }
    const uint32_t last = plan->model_layers / plan->parallelism.pp - 1;
    if (row_out->last_layer > last) { row_out->last_layer = last; }
    return row_out->first_layer <= last;
}

const char *report_layers_name(const redco_plan_layers *row, const char *to, char *buffer, size_t size)
{
    if (row->last_layer > row->first_layer) {
        (void)snprintf(buffer, size, "%s %u%s%u", row->class_name, row->first_layer, to, row->last_layer);
    } else if (is_stack(row)) {
        (void)snprintf(buffer, size, "%s %u", row->class_name, row->first_layer);
    } else {
        (void)snprintf(buffer, size, "%s", row->class_name);
    }
    return buffer;
}

/* Shown where layers differ: every layer when their meshes do, the blocks when only recomputation does. */
void report_layers(const redco_plan *plan)
{
    const redco_plan_layers *layers = plan->layers;
    const uint32_t count = plan->layers_count;
    char p[SHORT];
    char g[SHORT];
    char os[SHORT];
    bool same_meshes = true;
    bool same_policy = true;
    const redco_plan_layers *block = NULL;
    for (uint32_t i = 0; i < count; i++) {
        same_meshes = same_meshes && redco_shards_equal(layers[i].shards, layers[0].shards);
        if (!is_stack(&layers[i])) { continue; }
        same_policy = same_policy && (block == NULL || block->recompute == layers[i].recompute);
        block = &layers[i];
    }
    const char *label = "layers";
    for (uint32_t i = 0; i < count; i++) {
        redco_plan_layers shown;
        const redco_plan_layers *const row = &shown;
        if (same_meshes && (same_policy || !is_stack(&layers[i]))) { continue; }
        if (!report_layers_row(plan, i, &shown)) { continue; }
        (void)printf("%-*s%s", LABEL, label, report_layers_name(row, "-", p, sizeof p));
        label = "";
        if (!same_meshes) {
            (void)printf(
                ": parameters %s, gradients %s, optimizer %s", report_mesh(row->shards.parameters, p, sizeof p),
                report_mesh(row->shards.gradients, g, sizeof g), report_mesh(row->shards.optimizer, os, sizeof os));
        }
        char recompute[REDCO_RECOMPUTE_TEXT];
        (void)printf("%s recompute %s\n", same_meshes ? ":" : ",",
                     redco_recompute_text(row->recompute, plan->engine.partial_recompute, recompute, sizeof recompute));
    }
    if (report_stages_repeat(plan) && !(same_meshes && same_policy)) {
        (void)printf("%-*sand likewise the %u layers of every other stage\n", LABEL, "",
                     plan->model_layers / plan->parallelism.pp);
    }
}

/* Items of a line, separated by dots; a line that grows too wide goes on below its label. */
struct line {
    int column;
    bool begun;
};

static void line_begin(struct line *line, const char *label)
{
    *line = (struct line){.column = LABEL};
    (void)printf("%-*s", LABEL, label);
}

__attribute__((format(printf, 2, 3))) static void line_item(struct line *line, const char *format, ...)
{
    char text[2 * TABLE_CELL];
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

/* Times that round to nothing are left out. */
static void line_time(struct line *line, const char *name, double seconds, double like_s)
{
    char text[SHORT];
    (void)format_time(seconds, like_s, text, sizeof text);
    if (strspn(text, "0.") == strcspn(text, " ")) { return; }
    line_item(line, "%s %s", name, text);
}

void report_time(const redco_candidate *candidate)
{
    const redco_prediction *p = &candidate->prediction;
    const bool inter = candidate->parallelism.scheme == REDCO_INTER_TENSOR;
    struct line line;
    line_begin(&line, "time");
    line_time(&line, "forward", p->forward_s, p->step_s);
    line_time(&line, "backward", p->backward_s, p->step_s);
    line_time(&line, "recompute", p->recompute_s, p->step_s);
    line_time(&line, "layer communication", p->layer_exposed_s, p->step_s);
    line_time(&line, "gradient reduction", p->grad_reduce_exposed_s, p->step_s);
    line_time(&line, inter ? "parameter broadcast" : "parameter all-gather", p->param_sync_exposed_s, p->step_s);
    line_time(&line, "optimizer", p->optimizer_s, p->step_s);
    line_time(&line, "other", p->other_s, p->step_s);
    (void)printf("\n");
}

void report_comm(const redco_prediction *p)
{
    struct line line;
    const double like_s = p->amsp_total_s;
    char text[SHORT];
    line_begin(&line, "T_comm");
    line_item(&line, "%s, before calibration and overlap", format_time(like_s, like_s, text, sizeof text));
    line_time(&line, "gathers", p->gather_s, like_s);
    line_time(&line, "reduce-scatters", p->reduce_scatter_s, like_s);
    line_time(&line, "gradient sharding", p->grad_shard_s, like_s);
    line_time(&line, "gradient reduction", p->grad_reduce_s, like_s);
    line_time(&line, "parameter update", p->broadcast_s, like_s);
    (void)printf("\n");
}

void report_energy(const redco_prediction *p)
{
    char text[SHORT];
    struct line line;
    if (!(p->energy.energy_j > 0.0)) { return; }
    line_begin(&line, "energy");
    line_item(&line, "%s a step", format_joules(p->energy.energy_j, text, sizeof text));
    line_item(&line, "%s a token", format_joules(p->energy.energy_j_per_token, text, sizeof text));
    line_item(&line, "%.0f W a GPU", p->energy.watts_per_gpu);
    (void)printf("\n");
}

void report_memory(const redco_prediction *p)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"parameters", p->parameter_bytes},
                 {"gradients", p->gradient_bytes},
                 {"optimizer", p->optimizer_bytes},
                 {"activations", p->activation_bytes},
                 {"transient and reserve", p->transient_bytes},
                 {"NCCL buffers", p->nccl_bytes}};
    char text[SHORT];
    struct line line;
    line_begin(&line, "memory");
    const size_t count = sizeof parts / sizeof parts[0] - (p->nccl_bytes > 0 ? 0 : 1); /* one GPU has none */
    for (size_t i = 0; i < count; i++) {
        line_item(&line, "%s %s", parts[i].name, format_gigabytes((double)parts[i].bytes, text, sizeof text));
    }
    if (p->host_bytes > 0) {
        line_item(&line, "on the host %s", format_gigabytes((double)p->host_bytes, text, sizeof text));
    }
    const bool unclear =
        redco_memory_judge(p->total_bytes, p->capacity_bytes, p->uncertain_bytes) == REDCO_MEMORY_MAY_NOT_FIT;
    if (unclear) {
        const unsigned percent = (unsigned)((100 * p->uncertain_bytes + p->capacity_bytes / 2) / p->capacity_bytes);
        (void)printf(" GB; within %u %% of the limit%s: may not fit\n", percent,
                     percent == REDCO_PEAK_ERROR_UNKNOWN ? " (no measured peak of this engine is known)" : "");
    } else {
        (void)printf(" GB\n");
    }
}

void report_placement(const redco_plan *plan)
{
    struct line line;
    if (plan->hosts_count == 0) { return; }
    line_begin(&line, "hosts");
    if (plan->hosts_count > 1) {
        line_item(&line, "%u in rank order, from %.60s to %.60s", plan->hosts_count, plan->hosts[0],
                  plan->hosts[plan->hosts_count - 1]);
    } else {
        line_item(&line, "%.60s", plan->hosts[0]);
    }
    line_item(&line, "%u sharding %s leaf switches", plan->spanning_groups,
              plan->spanning_groups == 1 ? "group spans" : "groups span");
    (void)printf("\n");
}

void report_help(const redco_help *help, size_t count)
{
    char change[SHORT];
    struct line line;
    line_begin(&line, "10 % more");
    for (size_t i = 0; i < count; i++) {
        line_item(&line, "%s: %s", help[i].what, format_change(help[i].gain_ratio, change, sizeof change));
    }
    (void)printf(" speed\n");
}

void report_gpu_groups(const redco_plan *plan, const redco_machine *machine)
{
    char text[4 * SHORT] = "";
    struct line line;
    const redco_gpu_order *order = redco_machine_order(machine, plan->parallelism.tp);
    if (order == NULL || (plan->parallelism.tp == 1 && plan->gpu_order == NULL)) { return; }
    size_t used = 0;
    for (uint32_t i = 0; i < plan->gpus_per_node && used < sizeof text; i++) {
        const char *between = i == 0 ? "" : i % plan->parallelism.tp == 0 || plan->parallelism.tp == 1 ? " " : "+";
        const int added = snprintf(text + used, sizeof text - used, "%s%u", between, order->gpus[i]);
        used += added > 0 ? (size_t)added : 0;
    }
    line_begin(&line, "GPUs");
    if (plan->parallelism.tp == 1) {
        line_item(&line, "%s of a node in rank order", text);
    } else {
        const double rate = redco_machine_group_rate(machine, plan->parallelism.tp, plan->parallelism.tp, 1);
        line_item(&line, "%s of a node are its tensor-parallel groups", text);
        if (rate > 0.0) {
            line_item(&line, "their links carry %.4g GB/s each way", rate / 1e9);
        } else {
            line_item(&line, "PCIe joins them");
        }
    }
    (void)printf("\n");
}
