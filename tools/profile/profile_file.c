/* The profile document and the machine as a cluster, from what was measured. */
#include "tools/profile/profile_tool.h"

#include "costmodel/operators/power.h"
#include "tools/profile/profile_power.h"
#include "topology/discovery/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *type_name(redco_dtype dtype)
{
    return dtype == REDCO_F64 ? "fp64" : dtype == REDCO_BFLOAT16 ? "bf16" : "fp32";
}

/* Rows of all kinds, of room for all that was measured. */
struct rows {
    redco_profile_run *runs;
    redco_profile_row *rows;
    redco_profile_gemm *gemms;
    redco_profile_attention *attentions;
    redco_profile_operator *operators;
    size_t run_count, gemm_count, attention_count, operator_count;
};

static void fill_cases(const struct profile_result *result, struct rows *rows)
{
    for (size_t i = 0; i < result->case_count; i++) {
        const redco_measure_case *c = &result->cases[i];
        if (!isfinite(c->forward_s) || !(c->forward_s > 0.0)) { continue; }
        if (c->kind == REDCO_MEASURE_GEMM) {
            redco_profile_gemm *g = &rows->gemms[rows->gemm_count++];
            *g = (redco_profile_gemm){.m = (uint32_t)c->m,
                                      .n = (uint32_t)c->n,
                                      .k = (uint32_t)c->k,
                                      .transpose_a = c->transpose_a,
                                      .transpose_b = c->transpose_b,
                                      .time_s = c->forward_s};
            (void)snprintf(g->type, sizeof g->type, "%s", type_name(c->dtype));
        } else if (c->kind == REDCO_MEASURE_ATTENTION) {
            redco_profile_attention *a = &rows->attentions[rows->attention_count++];
            *a = (redco_profile_attention){.batch = (uint32_t)c->batch,
                                           .heads = (uint32_t)c->heads,
                                           .kv_heads = (uint32_t)c->heads,
                                           .sequence = (uint32_t)c->sequence,
                                           .head_dim = (uint32_t)c->size,
                                           .causal = true,
                                           .forward_s = c->forward_s,
                                           .backward_s = c->backward_s};
            (void)snprintf(a->type, sizeof a->type, "%s", type_name(c->dtype));
        } else if (c->kind == REDCO_MEASURE_GRAPH) {
            redco_profile_operator *o = &rows->operators[rows->operator_count++];
            *o = (redco_profile_operator){.elements = c->rows, .forward_s = c->forward_s};
            (void)snprintf(o->name, sizeof o->name, "%s", c->measured_as);
            (void)snprintf(o->type, sizeof o->type, "%s", type_name(c->dtype));
        } else {
            redco_profile_operator *o = &rows->operators[rows->operator_count++];
            *o = (redco_profile_operator){
                .elements = c->rows * c->columns, .forward_s = c->forward_s, .backward_s = c->backward_s};
            if (strstr(c->name, "norm") != NULL) { o->columns = (uint32_t)c->columns; }
            (void)snprintf(o->name, sizeof o->name, "%s", c->name);
            (void)snprintf(o->type, sizeof o->type, "%s", type_name(c->dtype));
        }
    }
}

static void fill_curves(const struct profile_result *result, struct rows *rows)
{
    redco_profile_row *next = rows->rows;
    for (size_t i = 0; i < result->curve_count; i++) {
        const redco_measure_curve *c = &result->curves[i];
        redco_profile_run *run = &rows->runs[rows->run_count++];
        *run = (redco_profile_run){.op = c->op,
                                   .ranks = c->gpus * c->nodes,
                                   .nodes = c->nodes,
                                   .stride = c->stride,
                                   .groups_per_node = c->groups_per_node,
                                   .rows = next};
        for (uint32_t s = 0; s < c->size_count; s++) {
            if (!isfinite(c->time_s[s]) || !(c->time_s[s] > 0.0)) { continue; }
            *next++ = (redco_profile_row){.size_bytes = c->size_bytes[s], .time_s = {[REDCO_IN_PLACE] = c->time_s[s]}};
            run->row_count++;
        }
    }
}

redco_status profile_document(const struct profile_result *result, json_t **profile_out, redco_error *err)
{
    struct rows rows = {0};
    char hardware[160];
    redco_status st = REDCO_OK;
    rows.runs = calloc(result->curve_count + 1, sizeof *rows.runs);
    rows.rows = calloc(result->curve_count * REDCO_MEASURE_SIZES_MAX + 1, sizeof *rows.rows);
    rows.gemms = calloc(result->case_count + 1, sizeof *rows.gemms);
    rows.attentions = calloc(result->case_count + 1, sizeof *rows.attentions);
    rows.operators = calloc(result->case_count + 1, sizeof *rows.operators);
    if (!rows.runs || !rows.rows || !rows.gemms || !rows.attentions || !rows.operators) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    fill_cases(result, &rows);
    fill_curves(result, &rows);
    const char *const network = result->curve_count == 0 ? "" : result->mpi ? "MPI" : "TCP over loopback";
    (void)snprintf(hardware, sizeof hardware, "%u x %s", result->ranks, result->how.device);
    const redco_profile_content content = {.hardware = hardware,
                                           .network = network,
                                           .tool = "redco-profile " REDCO_VERSION,
                                           .measured = &result->how,
                                           .runs = rows.runs,
                                           .run_count = rows.run_count,
                                           .gemms = rows.gemms,
                                           .gemm_count = rows.gemm_count,
                                           .attentions = rows.attentions,
                                           .attention_count = rows.attention_count,
                                           .operators = rows.operators,
                                           .operator_count = rows.operator_count,
                                           .powers = result->powers,
                                           .power_count = result->power_count};
    *profile_out = redco_profile_describe(&content);
    if (*profile_out == NULL) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
out:
    free(rows.runs);
    free(rows.rows);
    free(rows.gemms);
    free(rows.attentions);
    free(rows.operators);
    return st;
}

static double best_gemm_flops_per_s(const struct profile_result *result, redco_dtype dtype)
{
    double best = 0.0;
    for (size_t i = 0; i < result->case_count; i++) {
        const redco_measure_case *c = &result->cases[i];
        if (c->kind != REDCO_MEASURE_GEMM || c->dtype != dtype || !(c->forward_s > 0.0)) { continue; }
        best = fmax(best, 2.0 * (double)c->m * (double)c->n * (double)c->k / c->forward_s);
    }
    return best;
}

/* Bytes read and written by the largest copy, a second. */
static double memory_bytes_per_s(const struct profile_result *result)
{
    double rate = 0.0, most = 0.0;
    for (size_t i = 0; i < result->case_count; i++) {
        const redco_measure_case *c = &result->cases[i];
        if (c->kind != REDCO_MEASURE_OPERATOR || c->dtype != REDCO_F32 || strcmp(c->name, "copy") != 0) { continue; }
        const double elements = (double)c->rows * (double)c->columns;
        if (elements <= most) { continue; }
        most = elements;
        rate = 2.0 * sizeof(float) * elements / c->forward_s;
    }
    return rate;
}

/* Bytes a second that a rank sends in an all-gather of the largest size: the best group in one node, or over nodes. */
static double link_bytes_per_s(const struct profile_result *result, bool over_nodes)
{
    double best = 0.0;
    for (size_t i = 0; i < result->curve_count; i++) {
        const redco_measure_curve *c = &result->curves[i];
        if (c->op != REDCO_ALL_GATHER || (c->nodes > 1) != over_nodes || c->size_count == 0) { continue; }
        const double n = (double)c->gpus * c->nodes;
        const double sent = (n - 1.0) / n * (double)c->size_bytes[c->size_count - 1];
        const double sharing = over_nodes ? c->groups_per_node : 1.0;
        best = fmax(best, sharing * sent / c->time_s[c->size_count - 1]);
    }
    return best;
}

static redco_cpu_vendor vendor_of(const char *cpu)
{
    return strstr(cpu, "AMD") != NULL     ? REDCO_CPU_AMD
           : strstr(cpu, "Intel") != NULL ? REDCO_CPU_INTEL
                                          : REDCO_CPU_UNKNOWN;
}

/* As data sheets call what the part's compute capability says. */
static const char *arch_of(const char *capability)
{
    static const struct {
        const char *begins, *arch;
    } known[] = {{"7.0", "Volta"}, {"7.5", "Turing"},    {"8.9", "Ada"},      {"8.", "Ampere"},
                 {"9.", "Hopper"}, {"10.", "Blackwell"}, {"12.", "Blackwell"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(capability, known[i].begins, strlen(known[i].begins)) == 0) { return known[i].arch; }
    }
    return "GPU";
}

static uint32_t capability_of(const char *capability)
{
    unsigned major = 0, minor = 0;
    return sscanf(capability, "%u.%u", &major, &minor) == 2 ? 10 * major + minor : 0;
}

/* A preset's data sheet where the part has one, with the memory that this one has; else what was measured. */
static redco_gpu gpu_of(const struct profile_result *result)
{
    const redco_profile_measured *const how = &result->how;
    redco_gpu gpu;
    if (redco_gpu_find(how->device, &gpu, NULL) != REDCO_OK) {
        gpu = (redco_gpu){.vendor = "NVIDIA",
                          .compute_capability = capability_of(how->capability),
                          .fp32_flops_per_s = best_gemm_flops_per_s(result, REDCO_F32),
                          .bf16_flops_per_s = best_gemm_flops_per_s(result, REDCO_BFLOAT16),
                          .memory_bandwidth_bytes_per_s = memory_bytes_per_s(result),
                          .link = "none",
                          .pcie_bytes_per_s = 31.5e9, /* PCIe 4 x16: nobody measured it */
                          .pcie_gen = 4};
        (void)snprintf(gpu.name, sizeof gpu.name, "%s", how->device);
        (void)snprintf(gpu.arch, sizeof gpu.arch, "%s", arch_of(how->capability));
    }
    gpu.memory_bytes = how->memory_bytes;
    return gpu;
}

static bool is_gpu(const struct profile_result *result)
{
    return strcmp(result->how.backend, "cuda") == 0;
}

static redco_gpu device_of(const struct profile_result *result)
{
    if (is_gpu(result)) { return gpu_of(result); }
    const double memory = memory_bytes_per_s(result), link = link_bytes_per_s(result, false);
    const uint32_t ranks_here = result->ranks / result->nodes;
    redco_gpu gpu = {.vendor = "host",
                     .arch = "processor",
                     .fp32_flops_per_s = best_gemm_flops_per_s(result, REDCO_F32),
                     .bf16_flops_per_s = best_gemm_flops_per_s(result, REDCO_BFLOAT16),
                     .memory_bytes = profile_memory_bytes() / ranks_here,
                     .memory_bandwidth_bytes_per_s = memory,
                     .link = "none",
                     .pcie_bytes_per_s = link > 0.0 ? link : memory};
    (void)snprintf(gpu.name, sizeof gpu.name, "%s", result->how.device);
    return gpu;
}

redco_status profile_cluster(const struct profile_result *result, json_t **cluster_out, redco_error *err)
{
    const redco_gpu gpu = device_of(result);
    const double network = link_bytes_per_s(result, true);
    const uint32_t here = result->ranks / result->nodes;
    const bool switched = is_gpu(result) && here > 1 && gpu.scale_up_bytes_per_s > 0.0;
    char about[256];
    redco_node *node = NULL;
    const redco_status st =
        redco_node_uniform("this machine", &gpu, here, switched ? REDCO_FABRIC_SWITCH : REDCO_FABRIC_PCIE, 0,
                           network > 0.0 ? 1 : 0, network, vendor_of(result->how.cpu), 1, &node, err);
    if (st != REDCO_OK) { return st; }
    if (is_gpu(result)) {
        (void)snprintf(about, sizeof about, "%u x %.95s%s; measured %s", result->ranks, result->how.part,
                       switched ? ", taken to be joined by a switch as in servers with that part" : "",
                       result->how.date);
    } else {
        (void)snprintf(about, sizeof about, "%u ranks on processors, each with a share of memory; measured %s",
                       result->ranks, result->how.date);
    }
    json_t *described = redco_node_describe(node);
    *cluster_out = json_pack("{s:s, s:i, s:s, s:s, s:s, s:i, s:o}", "format", "redco-cluster", "version", 1, "name",
                             "this-machine", "about", about, "source", "measured by redco-profile " REDCO_VERSION,
                             "nodes", (int)result->nodes, "node", described);
    redco_node_free(node);
    return *cluster_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

/* With the constants that a plan finds in the profile. */
static redco_profile_measured with_constants(const struct profile_result *result)
{
    redco_profile_measured how = result->how;
    struct rows rows = {.gemms = calloc(result->case_count + 1, sizeof *rows.gemms)};
    rows.attentions = calloc(result->case_count + 1, sizeof *rows.attentions);
    rows.operators = calloc(result->case_count + 1, sizeof *rows.operators);
    if (rows.gemms != NULL && rows.attentions != NULL && rows.operators != NULL) {
        fill_cases(result, &rows);
        (void)redco_power_fit(result->powers, result->power_count, rows.gemms, rows.gemm_count, &how);
    }
    free(rows.gemms);
    free(rows.attentions);
    free(rows.operators);
    return how;
}

static void print_gpu(const struct profile_result *result)
{
    const redco_profile_measured *how = &result->how;
    (void)printf("%s (%s), %s, %s\n", how->part, how->device, how->driver, how->kernels);
    if (how->attention[0] != '\0') { (void)printf("attention  %s\n", how->attention); }
    (void)printf("%zu operators, %u left out, in %.0f of %.0f s; medians of %u rounds, spread %.1f %%\n",
                 result->case_count, how->left_out, how->took_s, how->budget_s, how->rounds, 100.0 * how->spread_ratio);
    (void)printf(
        "products   bf16 %.1f, f32 %.1f TFLOP/s at best; a large one takes %.3f of its first time at the end\n",
        1e-12 * best_gemm_flops_per_s(result, REDCO_BFLOAT16), 1e-12 * best_gemm_flops_per_s(result, REDCO_F32),
        how->hot_ratio);
    (void)printf("memory     %.0f GB/s copied; %.2f GB held by driver and libraries, workspaces of products %.0f MB\n",
                 1e-9 * memory_bytes_per_s(result), 1e-9 * (double)how->reserve_bytes,
                 1e-6 * (double)how->workspace_bytes);
    (void)printf("launches   %.1f us of the program each, %.1f us a block as one graph\n", 1e6 * how->launch_s,
                 1e6 * how->graph_launch_s);
    const redco_profile_measured constants = with_constants(result);
    profile_power_print(result, &constants);
}

static void print_host(const struct profile_result *result)
{
    const redco_profile_measured *how = &result->how;
    (void)printf("%s, %u processors, %s\n", how->device, how->processors, how->kernels);
    (void)printf(
        "%u ranks at the same time, best of %u rounds, slowest rank; spread %.0f %%, %.2f of a processor each\n",
        result->ranks, how->rounds, 100.0 * how->spread_ratio, how->processor_ratio);
    (void)printf("products   f32 %.1f, f64 %.1f, bf16 %.1f GFLOP/s at best\n",
                 1e-9 * best_gemm_flops_per_s(result, REDCO_F32), 1e-9 * best_gemm_flops_per_s(result, REDCO_F64),
                 1e-9 * best_gemm_flops_per_s(result, REDCO_BFLOAT16));
    (void)printf("memory     %.1f GB/s copied\n", 1e-9 * memory_bytes_per_s(result));
}

void profile_print(const struct profile_result *result)
{
    const redco_profile_measured *how = &result->how;
    if (is_gpu(result)) {
        print_gpu(result);
    } else {
        print_host(result);
    }
    if (how->overlap_ratio > 0.0) {
        (void)printf("contention a second of %s takes %.2f s of products beside it, and keeps %.2f of its speed\n",
                     is_gpu(result) ? "a collective's memory traffic" : "all-reduces", how->contention_ratio,
                     how->overlap_ratio / (1.0 + how->overlap_ratio * how->contention_ratio));
    }
    for (size_t i = 0; i < result->curve_count; i++) {
        const redco_measure_curve *c = &result->curves[i];
        const uint32_t last = c->size_count - 1;
        (void)printf("%-14s %u x %u ranks, stride %u: %.0f us at %llu KiB, %.2f GB/s at %llu KiB\n",
                     redco_collective_name(c->op), c->gpus, c->nodes, c->stride, 1e6 * c->time_s[0],
                     (unsigned long long)c->size_bytes[0] / 1024, 1e-9 * (double)c->size_bytes[last] / c->time_s[last],
                     (unsigned long long)c->size_bytes[last] / 1024);
    }
}
