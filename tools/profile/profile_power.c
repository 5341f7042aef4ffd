#include "tools/profile/profile_power.h"

#include "executor/backend/cuda/nvml.h"
#include "executor/measure/sustained.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Counters of joules go on every 20 to 100 ms, so that a second is counted within a few percent; the clock has settled
 * after a tenth of one (traces/data/gpu/h100-sxm.sustained-products.csv). */
static const redco_measure_load usual = {.settle_s = 0.25, .window_s = 1.0, .chunk_s = 10e-3};
static const redco_measure_load quick = {.settle_s = 0.002, .window_s = 0.01, .chunk_s = 1e-4};
static const double idle_s = 0.5, quick_idle_s = 0.01;
static const double setup_s = 0.1;     /* set-up of a load: operands, libraries' choice of kernels */
static const double most_ratio = 0.25; /* share of the budget that loads without pause may take */

/* The most important first: what is left out for want of time is missed least. The last are for comparison: how much
 * less matrix units draw where no bits change. */
static const struct load {
    const char *name;
    bool backward, zeros;
    uint64_t side;           /* gemm */
    uint64_t rows, columns;  /* other operators */
    uint64_t sequence, size; /* attention */
} loads[PROFILE_POWERS] = {
    {.name = "gemm", .side = 8192},
    {.name = "copy", .rows = 1, .columns = UINT64_C(1) << 28},
    {.name = "attention", .sequence = 4096, .size = 128},
    {.name = "attention", .sequence = 4096, .size = 128, .backward = true},
    {.name = "gemm", .side = 4096},
    {.name = "optimizer", .rows = 1, .columns = UINT64_C(1) << 26},
    {.name = "rms_norm", .rows = UINT64_C(1) << 15, .columns = 2048},
    {.name = "rms_norm", .rows = UINT64_C(1) << 15, .columns = 2048, .backward = true},
    {.name = "gemm", .side = 2048},
    {.name = "gemm", .side = 8192, .zeros = true},
    {.name = "gemm", .side = 4096, .zeros = true},
    {.name = "gemm", .side = 2048, .zeros = true},
};
enum {
    ATTENTION_BATCH = 1,
    ATTENTION_HEADS = 32,
    QUICK_SHRINK = 128,
    QUICK_ROWS = 8,
    QUICK_COLUMNS = 2048,
    QUICK_SIZE = 32
};

double profile_power_seconds(const struct profile_job *job)
{
    const double wanted_s = PROFILE_POWERS * (usual.settle_s + usual.window_s + setup_s);
    return !job->cuda || job->collectives || job->quick ? 0.0 : fmin(wanted_s, most_ratio * job->seconds);
}

redco_status profile_power_idle(const struct profile_job *job, const redco_backend *backend,
                                struct profile_result *result, redco_error *err)
{
    if (!job->cuda || job->collectives) { return REDCO_OK; }
    redco_nvml *const nvml = redco_nvml_open(backend, result->power_why);
    redco_error why = {.status = REDCO_OK};
    (void)err;
    if (nvml == NULL) { return REDCO_OK; }
    const redco_meter meter = redco_nvml_meter(nvml);
    if (redco_measure_idle(&meter, job->quick ? quick_idle_s : idle_s, &result->how.idle_w, &why) != REDCO_OK) {
        (void)snprintf(result->power_why, sizeof result->power_why, "%.40s: %.200s", why.place, why.text);
        result->how.idle_w = 0.0;
    }
    result->how.power_limit_w = redco_nvml_limit_w(nvml);
    redco_nvml_close(nvml);
    return REDCO_OK;
}

static uint64_t shrunk(const struct profile_job *job, uint64_t size, uint64_t quick_size)
{
    return job->quick ? quick_size : size;
}

static redco_measure_case case_of(const struct profile_job *job, const struct load *load)
{
    redco_measure_case one = {.kind = REDCO_MEASURE_OPERATOR, .dtype = REDCO_BFLOAT16, .name = load->name};
    if (strcmp(load->name, "gemm") == 0) {
        one.kind = REDCO_MEASURE_GEMM;
        one.m = one.n = one.k = shrunk(job, load->side, load->side / QUICK_SHRINK);
    } else if (strcmp(load->name, "attention") == 0) {
        one.kind = REDCO_MEASURE_ATTENTION;
        one.batch = ATTENTION_BATCH;
        one.heads = shrunk(job, ATTENTION_HEADS, 1);
        one.sequence = shrunk(job, load->sequence, load->sequence / QUICK_SHRINK);
        one.size = shrunk(job, load->size, QUICK_SIZE);
    } else {
        one.rows = load->rows > 1 ? shrunk(job, load->rows, QUICK_ROWS) : 1;
        one.columns = shrunk(job, load->columns, QUICK_COLUMNS);
    }
    return one;
}

/* As power.h counts them: attention's whole square of scores, and five products backward where forward has two. */
static double flops_of(const redco_measure_case *one, bool backward)
{
    if (one->kind == REDCO_MEASURE_GEMM) { return 2.0 * (double)one->m * (double)one->n * (double)one->k; }
    if (one->kind != REDCO_MEASURE_ATTENTION) { return 0.0; }
    const double half = 2.0 * (double)one->batch * (double)one->heads * (double)one->sequence * (double)one->sequence *
                        (double)one->size; /* causal */
    return backward ? 2.5 * half : half;
}

static void add_row(struct profile_result *result, const struct load *load, const redco_measure_case *one,
                    const redco_measure_sustained *found)
{
    redco_profile_power *const row = &result->powers[result->power_count++];
    *row = (redco_profile_power){.backward = load->backward,
                                 .m = (uint32_t)one->m,
                                 .n = (uint32_t)one->n,
                                 .k = (uint32_t)one->k,
                                 .elements = one->kind == REDCO_MEASURE_ATTENTION
                                                 ? one->batch * one->heads * one->sequence * one->size
                                                 : one->rows * one->columns,
                                 .flops = flops_of(one, load->backward),
                                 .time_s = found->time_s,
                                 .energy_j = found->energy_j,
                                 .watts = found->watts,
                                 .clock_hz = found->clock_hz > 0.0 ? found->clock_hz : result->how.clock_hz,
                                 .memory_clock_hz = found->memory_clock_hz,
                                 .settle_s = found->settle_s,
                                 .window_s = found->window_s,
                                 .sampled = found->sampled};
    (void)snprintf(row->name, sizeof row->name, "%s", load->name);
    (void)snprintf(row->type, sizeof row->type, "bf16");
    (void)snprintf(row->numbers, sizeof row->numbers, "%s", load->zeros ? "zeros" : "normal");
}

redco_status profile_power_loads(const struct profile_job *job, redco_backend *backend, redco_measurer *measurer,
                                 struct profile_result *result, redco_error *err)
{
    if (!job->cuda || job->collectives || !(result->how.idle_w > 0.0)) { return REDCO_OK; }
    redco_nvml *const nvml = redco_nvml_open(backend, result->power_why);
    if (nvml == NULL) { return REDCO_OK; }
    const redco_measure_load *const times = job->quick ? &quick : &usual;
    const double each_s = times->settle_s + times->window_s + setup_s, budget_s = profile_power_seconds(job);
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < PROFILE_POWERS && st == REDCO_OK; i++) {
        redco_measure_load load = *times;
        redco_measure_sustained found = {.time_s = 0.0};
        redco_error why = {.status = REDCO_OK};
        const redco_measure_case one = case_of(job, &loads[i]);
        if (!job->quick && (i + 1) * each_s > budget_s * (1.0 + 1e-9)) { break; }
        load.meter = redco_nvml_meter(nvml);
        load.numbers = loads[i].zeros ? REDCO_NUMBERS_ZEROS : REDCO_NUMBERS_NORMAL;
        load.backward = loads[i].backward;
        st = redco_measure_case_sustained(measurer, &one, &load, &found, &why);
        if (st == REDCO_OK) {
            add_row(result, &loads[i], &one, &found);
        } else if (st == REDCO_ENOMEM || st == REDCO_EVALUE || strcmp(why.place, "NVML") == 0) {
            (void)snprintf(result->power_why, sizeof result->power_why, "%.40s: %.200s", why.place, why.text);
            st = REDCO_OK; /* no room, no such operator, or a meter that went silent: the others go on */
        } else {
            st = redco_fail(err, st, why.place, "%s", why.text);
        }
    }
    redco_nvml_close(nvml);
    return st;
}

void profile_power_print(const struct profile_result *result, const redco_profile_measured *how)
{
    if (how->idle_w > 0.0) { (void)printf("power      %.0f W idle, limit %.0f W\n", how->idle_w, how->power_limit_w); }
    for (size_t i = 0; i < result->power_count; i++) {
        const redco_profile_power *const row = &result->powers[i];
        char size[40];
        (void)snprintf(size, sizeof size, row->m > 0 ? "%llu^3" : "%llu elements",
                       (unsigned long long)(row->m > 0 ? row->m : row->elements));
        (void)printf("  %-10s %-8s %-20s %-6s %10.3g J each, %5.0f W, %5.0f MHz%s\n", row->name,
                     row->backward ? "backward" : "forward", size, row->numbers, row->energy_j, row->watts,
                     1e-6 * row->clock_hz, row->sampled ? " (sampled)" : "");
    }
    if (result->power_count > 0 && how->product_j_per_flop > 0.0) {
        (void)printf("constants  product_j_per_flop %.4g, memory_w %.4g, burst_clock_ratio %.4g\n",
                     how->product_j_per_flop, how->memory_w, how->burst_clock_ratio);
    }
}
