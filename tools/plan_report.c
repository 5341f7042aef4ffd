#include "tools/plan_report.h"

#include "tools/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TIMES "\xc3\x97"
#define DOT " \xc2\xb7 "

enum { SHORT = 64, LABEL = 10, WIDEST = 110, WIDEST_HEADER = 120 };

const char *report_mesh(redco_mesh mesh, char *buffer, size_t size)
{
    (void)snprintf(buffer, size, "%u" TIMES "%u", mesh.gpus, mesh.nodes);
    return buffer;
}

/* Transformer layers by policy: embedding and head keep little that could be computed again. */
struct mix {
    uint64_t counts[REDCO_RECOMPUTE_COUNT], all;
};

static struct mix mix_of(const redco_model *model, const redco_candidate *candidate)
{
    const redco_layer_class *classes = NULL;
    struct mix mix = {0};
    (void)redco_model_classes(model, &classes);
    for (uint32_t i = 0; i < candidate->assignment_count; i++) {
        const redco_assignment *part = &candidate->assignments[i];
        const redco_class_kind kind = classes[part->class_index].kind;
        if (kind != REDCO_CLASS_BLOCK && kind != REDCO_CLASS_CROSS) { continue; }
        mix.counts[part->config.recompute] += part->layers;
        mix.all += part->layers;
    }
    return mix;
}

static const char *recompute_cell(const redco_model *model, const redco_candidate *candidate, char *buffer, size_t size)
{
    const struct mix mix = mix_of(model, candidate);
    const unsigned long long full = mix.counts[REDCO_RECOMPUTE_FULL];
    const unsigned long long selective = mix.counts[REDCO_RECOMPUTE_SELECTIVE];
    const unsigned long long all = mix.all;
    if (full == all || selective == all || full + selective == 0) {
        (void)snprintf(buffer, size, "%s", full == all ? "full" : selective == all ? "selective" : "none");
    } else if (full > 0 && selective > 0) {
        (void)snprintf(buffer, size, "%llu full, %llu sel", full, selective);
    } else {
        (void)snprintf(buffer, size, "%s %llu/%llu", full > 0 ? "full" : "sel", full + selective, all);
    }
    return buffer;
}

static void print_recompute(const redco_model *model, const redco_candidate *candidate)
{
    const struct mix mix = mix_of(model, candidate);
    const unsigned long long full = mix.counts[REDCO_RECOMPUTE_FULL];
    const unsigned long long selective = mix.counts[REDCO_RECOMPUTE_SELECTIVE];
    const unsigned long long all = mix.all;
    if (full == all || selective == all || full + selective == 0) {
        (void)printf(", %s recomputation", full == all ? "full" : selective == all ? "selective" : "no");
    } else if (full > 0 && selective > 0) {
        (void)printf(", recomputing %llu of %llu layers in full, %llu selectively", full, all, selective);
    } else {
        (void)printf(", recomputing %llu of %llu layers %s", full + selective, all,
                     full > 0 ? "in full" : "selectively");
    }
}

/* "NVLink 200 GB/s, 4 x 200 Gb/s per node" */
static void network_text(const redco_machine *machine, char *buffer, size_t size)
{
    const size_t name_length = strcspn(machine->gpu.link, "0123456789-");
    int used = 0;
    if (machine->fabric == REDCO_FABRIC_PCIE || machine->scale_up_bytes_per_s <= 0.0) {
        used = snprintf(buffer, size, "PCIe %.4g GB/s", machine->peer_bytes_per_s / 1e9);
    } else {
        used = snprintf(buffer, size, "%.*s %.4g GB/s", (int)name_length, machine->gpu.link,
                        machine->scale_up_bytes_per_s / 1e9);
    }
    if (machine->nics_per_node > 0 && used > 0 && (size_t)used < size) {
        (void)snprintf(buffer + used, size - (size_t)used, ", %u " TIMES " %.4g Gb/s per node", machine->nics_per_node,
                       machine->nic_bytes_per_s * 8.0 / 1e9);
    }
}

void report_header(const struct plan_args *args, const redco_inputs *inputs, const redco_candidate *one)
{
    char large[SHORT];
    char sequences[SHORT];
    const redco_workload *workload = &args->options.workload;
    const redco_machine *machine = &inputs->machine;
    char model[4 * SHORT];
    char network[2 * SHORT];
    char where[6 * SHORT] = "";
    network_text(machine, network, sizeof network);
    (void)snprintf(model, sizeof model, "%s, %s parameters", redco_model_name(inputs->model),
                   format_large((double)redco_model_params(inputs->model), large, sizeof large));
    if (args->sweep_count == 0) {
        (void)snprintf(where, sizeof where, "%u %s " TIMES " %u ", machine->nodes,
                       machine->nodes == 1 ? "node" : "nodes", machine->gpus_per_node);
    }
    const size_t used = strlen(where);
    (void)snprintf(where + used, sizeof where - used, "%s, %s" DOT "%s", machine->gpu.name, network,
                   redco_precision_words[workload->precision]);
    const char *cluster = redco_cluster_name(inputs->cluster);
    const bool wide = table_width(model) + table_width(cluster) + table_width(where) + 5 > WIDEST_HEADER;
    (void)printf("%s%s%s: %s\n", model, wide ? "\n" : DOT, cluster, where);
    (void)printf("%s tokens a step: %s sequences " TIMES " %u",
                 format_large((double)workload->global_batch * workload->seq_len, large, sizeof large),
                 format_count(workload->global_batch, sequences, sizeof sequences), workload->seq_len);
    if (one != NULL) {
        char of[SHORT] = "GPU";
        const uint64_t replica = (uint64_t)one->setting.tp * one->setting.cp * one->setting.pp;
        if (replica > 1) { (void)snprintf(of, sizeof of, "%llu GPUs", (unsigned long long)replica); }
        (void)printf(", %llu micro-%s of %u per %s", (unsigned long long)one->setting.micro_batches,
                     one->setting.micro_batches == 1 ? "batch" : "batches", one->setting.micro_batch, of);
        print_recompute(inputs->model, one);
    }
    (void)printf("\n\n");
}

/* One mesh for all layers, or "mixed". @param offset  of the component in redco_shards */
static const char *mesh_cell(const redco_candidate *candidate, size_t offset, char *buffer, size_t size)
{
    redco_mesh first;
    memcpy(&first, (const char *)&candidate->assignments[0].config.shards + offset, sizeof first);
    for (uint32_t i = 1; i < candidate->assignment_count; i++) {
        redco_mesh mesh;
        memcpy(&mesh, (const char *)&candidate->assignments[i].config.shards + offset, sizeof mesh);
        if (!redco_mesh_equal(mesh, first)) {
            (void)snprintf(buffer, size, "mixed");
            return buffer;
        }
    }
    return report_mesh(first, buffer, size);
}

const char *report_degrees(const redco_setting *setting, const char *is, const char *comma, char *buffer, size_t size)
{
    char pp[SHORT] = "";
    char cp[SHORT] = "";
    if (setting->pp > 1) { (void)snprintf(pp, sizeof pp, "%spp%s%u", comma, is, setting->pp); }
    if (setting->cp > 1) { (void)snprintf(cp, sizeof cp, "%scp%s%u", comma, is, setting->cp); }
    (void)snprintf(buffer, size, "tp%s%u%s%s", is, setting->tp, pp, cp);
    return buffer;
}

struct report_degrees report_degrees_of(const redco_candidate *candidate, struct report_degrees seen)
{
    return (struct report_degrees){.pp = seen.pp || candidate->setting.pp > 1,
                                   .cp = seen.cp || candidate->setting.cp > 1};
}

static void table_heading(struct table *table, enum report_kind kind, struct report_degrees degrees)
{
    static const char *const names[] = {"strategy", "strategy", "rank", "   GPUs"};
    const bool many = kind != REPORT_ONE;
    table_row(table);
    table_cell(table, "%s", "");
    table_cell(table, "%s", names[kind]);
    table_cell(table, "tp");
    if (degrees.pp) { table_cell(table, "pp"); }
    if (degrees.cp) { table_cell(table, "cp"); }
    if (many) { table_cell(table, "micro"); }
    table_cell(table, "%s", many ? "params" : "parameters");
    table_cell(table, "%s", many ? "grads" : "gradients");
    table_cell(table, "optimizer");
    if (kind == REPORT_RANKS) { table_cell(table, "update"); }
    if (many) { table_cell(table, "recompute"); }
    table_cell(table, "%s", many ? "memory" : "memory/GPU");
    table_cell(table, "step");
    if (kind == REPORT_RANKS) { table_cell(table, "simulated"); }
    table_cell(table, "%s", many ? "tok/s/GPU" : "tokens/s/GPU");
    table_cell(table, "MFU");
    table_cell(table, "%s", many ? "exposed" : "exposed comm");
    if (kind == REPORT_SIZES) { table_cell(table, "scaling"); }
}

static const char *update_word(const redco_candidate *candidate)
{
    const redco_shards shards = redco_main_assignment(candidate)->config.shards;
    if (redco_mesh_equal(shards.optimizer, shards.parameters)) { return "local"; }
    return candidate->setting.scheme == REDCO_INTER_TENSOR ? "broadcast" : "gather";
}

static void table_tokens(struct table *table, const redco_inputs *inputs, const redco_prediction *p)
{
    char tokens[SHORT];
    char range[SHORT];
    const double band = redco_band(&inputs->calibration, p);
    (void)format_count((uint64_t)(p->tokens_per_s_per_gpu + 0.5), tokens, sizeof tokens);
    if (band > 0.0) {
        table_cell(table, "%s \xc2\xb1 %s", tokens, format_count((uint64_t)(band + 0.5), range, sizeof range));
    } else {
        table_cell(table, "%s", tokens);
    }
}

static void table_strategy(struct table *table, const redco_inputs *inputs, enum report_kind kind,
                           struct report_degrees degrees, const redco_candidate *candidate, double like_s)
{
    char a[SHORT];
    char b[SHORT];
    const redco_prediction *p = &candidate->prediction;
    table_cell(table, "%u", candidate->setting.tp);
    if (degrees.pp) { table_cell(table, "%u", candidate->setting.pp); }
    if (degrees.cp) { table_cell(table, "%u", candidate->setting.cp); }
    if (kind != REPORT_ONE) {
        table_cell(table, "%llu" TIMES "%u", (unsigned long long)candidate->setting.micro_batches,
                   candidate->setting.micro_batch);
    }
    (void)mesh_cell(candidate, offsetof(redco_shards, parameters), a, sizeof a);
    table_cell(table, "%s%s", a, candidate->setting.secondary.gpus > 0 ? "+" : "");
    table_cell(table, "%s", mesh_cell(candidate, offsetof(redco_shards, gradients), a, sizeof a));
    table_cell(table, "%s", mesh_cell(candidate, offsetof(redco_shards, optimizer), a, sizeof a));
    if (kind == REPORT_RANKS) { table_cell(table, "%s", update_word(candidate)); }
    (void)format_gigabytes((double)p->total_bytes, a, sizeof a);
    if (kind == REPORT_ONE) {
        table_cell(table, "%s / %s GB", a, format_gigabytes((double)p->capacity_bytes, b, sizeof b));
    } else {
        table_cell(table, "%s", recompute_cell(inputs->model, candidate, b, sizeof b));
        table_cell(table, "%s GB", a);
    }
    table_cell(table, "%s", format_time(p->step_s, like_s, a, sizeof a));
    if (kind == REPORT_RANKS) {
        table_cell(table, "%s", format_time(candidate->simulated_step_s, like_s, a, sizeof a));
    }
    table_tokens(table, inputs, p);
    table_cell(table, "%.2f", p->mfu);
    table_cell(table, "%s", format_time(p->exposed_comm_s, like_s, a, sizeof a));
}

/* Marker, name and degrees, then what the kind of table holds. */
static struct table *strategy_table(enum report_kind kind, struct report_degrees degrees)
{
    char alignment[32];
    (void)snprintf(alignment, sizeof alignment, "ll%s%s%s", degrees.pp ? "r" : "", degrees.cp ? "r" : "",
                   kind == REPORT_ONE     ? "rrrrrrrrrr"
                   : kind == REPORT_RANKS ? "rrrrrllrrrrrrr"
                                          : "rrrrrlrrrrrr");
    return table_new(alignment);
}

bool report_table(const redco_inputs *inputs, enum report_kind kind, const struct report_row *rows, uint32_t count)
{
    double like_s = 0.0;
    double first = 0.0;
    bool copied = false;
    struct report_degrees degrees = {.pp = false};
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].candidate != NULL) { degrees = report_degrees_of(rows[i].candidate, degrees); }
    }
    struct table *table = strategy_table(kind, degrees);
    if (table == NULL) { return false; }
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].candidate == NULL) { continue; }
        const redco_prediction *p = &rows[i].candidate->prediction;
        if (like_s <= 0.0 || p->step_s < like_s) { like_s = p->step_s; }
        if (first <= 0.0) { first = p->tokens_per_s_per_gpu; }
    }
    table_heading(table, kind, degrees);
    for (uint32_t i = 0; i < count; i++) {
        const redco_candidate *candidate = rows[i].candidate;
        char gpus[SHORT];
        table_row(table);
        table_cell(table, "%s", rows[i].marked ? "*" : "");
        if (kind == REPORT_SIZES) {
            table_cell(table, "%7s", format_count(rows[i].gpus, gpus, sizeof gpus));
        } else {
            table_cell(table, "%s", rows[i].name);
        }
        if (candidate == NULL) {
            table_rest(table, "%s", rows[i].reason);
            continue;
        }
        copied = copied || candidate->setting.secondary.gpus > 0;
        table_strategy(table, inputs, kind, degrees, candidate, like_s);
        if (kind == REPORT_SIZES) {
            table_cell(table, "%.0f %%", 100.0 * candidate->prediction.tokens_per_s_per_gpu / first);
        }
    }
    const bool whole = table_print(table, "  ", stdout);
    table_free(table);
    if (copied) {
        (void)printf("     + and a second copy of the parameters, sharded inside each node, for the backward\n");
    }
    (void)printf("\n");
    return whole;
}

static bool is_stack(const redco_plan_layers *row)
{
    return strcmp(row->class_name, "embedding") != 0 && strcmp(row->class_name, "head") != 0;
}

bool report_stages_repeat(const redco_plan *plan)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < plan->layers_count; i++) { rows += is_stack(&plan->layers[i]); }
    return plan->pp > 1 && rows > plan->pp && plan->model_layers % plan->pp == 0;
}

bool report_layers_row(const redco_plan *plan, uint32_t index, redco_plan_layers *row_out)
{
    *row_out = plan->layers[index];
    if (!is_stack(row_out) || !report_stages_repeat(plan)) { return true; }
    const uint32_t last = plan->model_layers / plan->pp - 1;
    if (row_out->last_layer > last) { row_out->last_layer = last; }
    return row_out->first_layer <= last;
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
        (void)printf("%-*s%s", LABEL, label, row->class_name);
        label = "";
        if (is_stack(row)) { (void)printf(" %u", row->first_layer); }
        if (row->last_layer > row->first_layer) { (void)printf("-%u", row->last_layer); }
        if (!same_meshes) {
            (void)printf(
                ": parameters %s, gradients %s, optimizer %s", report_mesh(row->shards.parameters, p, sizeof p),
                report_mesh(row->shards.gradients, g, sizeof g), report_mesh(row->shards.optimizer, os, sizeof os));
        }
        (void)printf("%s recompute %s\n", same_meshes ? ":" : ",", redco_recompute_words[row->recompute]);
    }
    if (report_stages_repeat(plan) && !(same_meshes && same_policy)) {
        (void)printf("%-*sand likewise the %u layers of every other stage\n", LABEL, "", plan->model_layers / plan->pp);
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
    const bool inter = candidate->setting.scheme == REDCO_INTER_TENSOR;
    struct line line;
    line_begin(&line, "time");
    line_time(&line, "forward", p->forward_s, p->step_s);
    line_time(&line, "backward", p->backward_s, p->step_s);
    line_time(&line, "recompute", p->recompute_s, p->step_s);
    line_time(&line, "layer communication", p->layer_exposed_s, p->step_s);
    line_time(&line, "gradient reduction", p->grad_reduce_exposed_s, p->step_s);
    line_time(&line, inter ? "parameter broadcast" : "parameter all-gather", p->spread_exposed_s, p->step_s);
    line_time(&line, "optimizer", p->optimizer_s, p->step_s);
    line_time(&line, "other", p->other_s, p->step_s);
    (void)printf("\n");
    if (candidate->simulated_step_s > 0.0) {
        char simulated[SHORT];
        line_begin(&line, "simulated");
        line_item(&line, "%s a step", format_time(candidate->simulated_step_s, p->step_s, simulated, sizeof simulated));
        (void)printf("\n");
    }
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

void report_memory(const redco_prediction *p)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"parameters", p->parameter_bytes},
                 {"gradients", p->gradient_bytes},
                 {"optimizer", p->optimizer_bytes},
                 {"activations", p->activation_bytes},
                 {"transient and reserve", p->transient_bytes}};
    char text[SHORT];
    struct line line;
    line_begin(&line, "memory");
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        line_item(&line, "%s %s", parts[i].name, format_gigabytes((double)parts[i].bytes, text, sizeof text));
    }
    (void)printf(" GB\n");
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

void report_neighbours(const redco_neighbour *neighbours, size_t count, double like_s)
{
    char p[SHORT];
    char g[SHORT];
    char os[SHORT];
    char time[SHORT];
    char degrees[SHORT];
    struct table *table = table_new("lrrl");
    if (table == NULL) { return; }
    for (size_t i = 0; i < count; i++) {
        const redco_neighbour *other = &neighbours[i];
        table_row(table);
        table_cell(table, "%s", other->what);
        if (other->feasible) {
            table_cell(table, "%s", format_change(other->cost_ratio, p, sizeof p));
            table_cell(table, "%s", format_time(other->step_s, like_s, time, sizeof time));
            table_rest(table, "best then %s, %llu" TIMES "%u, %s %s %s",
                       report_degrees(&other->setting, " ", ", ", degrees, sizeof degrees),
                       (unsigned long long)other->setting.micro_batches, other->setting.micro_batch,
                       report_mesh(other->shards.parameters, p, sizeof p),
                       report_mesh(other->shards.gradients, g, sizeof g),
                       report_mesh(other->shards.optimizer, os, sizeof os));
        } else if (other->reason[0] != '\0') {
            table_rest(table, "impossible: %s", other->reason);
        } else {
            table_rest(table, "does not fit: %s GB too much",
                       format_gigabytes((double)other->short_bytes, p, sizeof p));
        }
    }
    (void)printf("\nwhy not\n");
    (void)table_print(table, "  ", stdout);
    table_free(table);
}

static void print_calibration(const redco_calibration *calibration)
{
    char rows[SHORT];
    if (calibration->fitted_rows == 0) {
        (void)printf("calibration %s: uncalibrated (literature mid-range)\n", calibration->name);
        return;
    }
    (void)printf("calibration %s: fitted to %s runs, MAPE %.1f %%\n", calibration->name,
                 format_count(calibration->fitted_rows, rows, sizeof rows), calibration->mape_ratio * 100.0);
}

static void print_verified(const redco_search_result *result)
{
    char count[SHORT];
    char best[SHORT];
    (void)printf("%s: %s", result->verify_failed ? "NOT verified" : "verified", result->verify_method);
    if (result->verify_count > 0) {
        (void)printf(" of %s strategies", format_count(result->verify_count, count, sizeof count));
    }
    (void)printf(result->verify_failed ? " found a better one: %s\n" : " finds nothing better than %s\n",
                 format_time(result->verify_objective, result->verify_objective, best, sizeof best));
}

void report_solver(const redco_search_result *result, const redco_inputs *inputs)
{
    char count[SHORT];
    char seconds[SHORT];
    const bool optimal = strcmp(result->status, "optimal") == 0;
    (void)printf("%s: %s %s over %s strategies in %s", optimal ? "optimal" : "not proven optimal", result->solver,
                 optimal ? "proved it" : "stopped", format_count(result->candidates, count, sizeof count),
                 format_time(result->seconds, result->seconds, seconds, sizeof seconds));
    if (result->gap_ratio > 1e-9) { (void)printf(", to %.2g %%", result->gap_ratio * 100.0); }
    (void)printf("\n");
    if (result->verified) { print_verified(result); }
    print_calibration(&inputs->calibration);
}

/* What the user gave, as items that read "tp 8, micro-batch 2". */
static void print_fixed(const redco_search_options *options)
{
    const struct {
        const char *name;
        redco_mesh mesh;
    } meshes[] = {{"parameters", options->fix.parameters},
                  {"gradients", options->fix.gradients},
                  {"optimizer", options->fix.optimizer}};
    const struct {
        const char *name;
        uint32_t degree;
    } stages[] = {{"pp", options->pp}, {"cp", options->cp}};
    const char *comma = "";
    char text[SHORT];
    if (options->strategy != REDCO_STRATEGY_ANY) {
        (void)printf("%s", redco_strategy_name(options->strategy));
        comma = ", ";
    }
    if (options->tp != 0) {
        (void)printf("%stp = %u", comma, options->tp);
        comma = ", ";
    }
    for (size_t i = 0; i < sizeof stages / sizeof stages[0]; i++) {
        if (stages[i].degree <= 1 || stages[i].degree == REDCO_DEGREE_AUTO) { continue; }
        (void)printf("%s%s = %u", comma, stages[i].name, stages[i].degree);
        comma = ", ";
    }
    if (options->micro_batch != 0) {
        (void)printf("%smicro-batch %u", comma, options->micro_batch);
        comma = ", ";
    }
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        if (meshes[i].mesh.gpus == 0) { continue; }
        (void)printf("%s%s %s", comma, meshes[i].name, report_mesh(meshes[i].mesh, text, sizeof text));
        comma = ", ";
    }
    if (options->recompute != REDCO_RECOMPUTE_COUNT) {
        (void)printf("%srecompute %s", comma, redco_recompute_words[options->recompute]);
        comma = ", ";
    }
    if (options->scheme_fixed) { (void)printf("%s%s", comma, redco_scheme_words[options->scheme]); }
}

void report_free_optimum(const struct plan_args *args, const redco_candidate *mine, const redco_candidate *best)
{
    char p[SHORT];
    char g[SHORT];
    char os[SHORT];
    char change[SHORT];
    char time[SHORT];
    const bool comm = args->options.objective == REDCO_OBJECTIVE_COMM;
    const double ratio = redco_cost_ratio(mine->objective, best->objective);
    const redco_shards shards = redco_main_assignment(best)->config.shards;
    (void)printf("%-*syour ", LABEL, "fixed");
    print_fixed(&args->options);
    if (ratio < 0.0005) {
        (void)printf(": costs nothing, the free optimum is no %s\n", comm ? "better" : "faster");
        return;
    }
    char degrees[SHORT];
    (void)printf(": %s%s against the free optimum\n%*s%s%s with %s, %llu micro-%s of %u, %s %s %s\n",
                 format_change(ratio, change, sizeof change), comm ? " T_comm" : "", LABEL, "", comm ? "T_comm " : "",
                 format_time(best->objective, best->objective, time, sizeof time),
                 report_degrees(&best->setting, " = ", ", ", degrees, sizeof degrees),
                 (unsigned long long)best->setting.micro_batches,
                 best->setting.micro_batches == 1 ? "batch" : "batches", best->setting.micro_batch,
                 report_mesh(shards.parameters, p, sizeof p), report_mesh(shards.gradients, g, sizeof g),
                 report_mesh(shards.optimizer, os, sizeof os));
}

void report_shortfall(const redco_shortfall *shortfall)
{
    const redco_candidate *leanest = &shortfall->leanest;
    char p[SHORT];
    char g[SHORT];
    char os[SHORT];
    char degrees[SHORT];
    if (leanest->assignment_count == 0) { return; }
    const redco_shards shards = redco_main_assignment(leanest)->config.shards;
    (void)printf(
        "%-10s%s" DOT "%llu micro-%s of %u" DOT "parameters %s, gradients %s, optimizer %s" DOT "recompute %s\n",
        "leanest", report_degrees(&leanest->setting, " ", DOT, degrees, sizeof degrees),
        (unsigned long long)leanest->setting.micro_batches, leanest->setting.micro_batches == 1 ? "batch" : "batches",
        leanest->setting.micro_batch, report_mesh(shards.parameters, p, sizeof p),
        report_mesh(shards.gradients, g, sizeof g), report_mesh(shards.optimizer, os, sizeof os),
        redco_recompute_words[redco_main_assignment(leanest)->config.recompute]);
    report_memory(&leanest->prediction);
    (void)printf("%-10s%s GB, of which %s GB can be used: %s GB too much\n", "in all",
                 format_gigabytes((double)leanest->prediction.total_bytes, p, sizeof p),
                 format_gigabytes((double)leanest->prediction.capacity_bytes, g, sizeof g),
                 format_gigabytes((double)shortfall->short_bytes, os, sizeof os));
    if (shortfall->cheapest_change[0] != '\0') { (void)printf("%-10s%s\n", "cheapest", shortfall->cheapest_change); }
}

const char *report_reason(const redco_search_result *result, char *buffer, size_t size)
{
    const redco_shortfall *shortfall = &result->shortfall;
    char text[SHORT];
    (void)snprintf(buffer, size, "does not fit: %s GB too much on every GPU; largest: %s",
                   format_gigabytes((double)shortfall->short_bytes, text, sizeof text),
                   shortfall->largest != NULL ? shortfall->largest : "memory");
    return buffer;
}
