#include "costmodel/operators/power.h"

#include <math.h>
#include <string.h>

/* GPUs that were not measured have these shares of the watts between idle and limit, and idle's of the limit: from the
 * fit on an H200's runs (POWER.md), whose matrix units at their peak would draw 1.9 times what the limit
 * leaves them: 1.096e-12 J/FLOP * 989e12 FLOP/s / (700 W - 129 W). Since 2; source: POWER.md. */
static const double product_ratio = 1.90, memory_ratio = 0.33, idle_ratio = 0.18;

static double peak_flops_per_s(const redco_gpu *gpu, redco_precision precision)
{
    switch (precision) {
    case REDCO_BF16: return gpu->bf16_flops_per_s;
    case REDCO_FP16: return gpu->fp16_flops_per_s;
    case REDCO_FP32: return gpu->tf32_flops_per_s > 0.0 ? gpu->tf32_flops_per_s : gpu->fp32_flops_per_s;
    }
    return 0.0;
}

redco_power redco_power_of(const redco_gpu *gpu, redco_precision precision, const redco_profile_measured *how)
{
    const double peak = peak_flops_per_s(gpu, precision);
    redco_power power = {.limit_w = gpu->tdp_w};
    if (!(power.limit_w > 0.0) || !(peak > 0.0)) { return (redco_power){.limit_w = 0.0}; }
    if (how != NULL && how->product_j_per_flop > 0.0 && how->power_limit_w > how->idle_w) {
        /* Joules of other precisions go with the FLOP of a cycle. */
        const double cycles = gpu->bf16_flops_per_s > 0.0 ? gpu->bf16_flops_per_s / peak : 1.0;
        return (redco_power){.limit_w = how->power_limit_w,
                             .idle_w = how->idle_w,
                             .product_j_per_flop = cycles * how->product_j_per_flop,
                             .memory_w = how->memory_w,
                             .burst_clock_ratio = how->burst_clock_ratio};
    }
    power.idle_w = gpu->idle_w > 0.0 && gpu->idle_w < gpu->tdp_w ? gpu->idle_w : idle_ratio * gpu->tdp_w;
    power.product_j_per_flop = product_ratio * (power.limit_w - power.idle_w) / peak;
    power.memory_w = memory_ratio * (power.limit_w - power.idle_w);
    return power;
}

/* Seconds of the same product in bursts; 0: it was not timed. */
static double burst_s(const redco_profile_power *row, const redco_profile_gemm *gemms, size_t gemm_count)
{
    for (size_t i = 0; i < gemm_count; i++) {
        const redco_profile_gemm *const g = &gemms[i];
        if (g->m == row->m && g->n == row->n && g->k == row->k && !g->transpose_a && !g->transpose_b &&
            strcmp(g->type, row->type) == 0) {
            return g->time_s;
        }
    }
    return 0.0;
}

bool redco_power_fit(const redco_profile_power *rows, size_t row_count, const redco_profile_gemm *gemms,
                     size_t gemm_count, redco_profile_measured *how_io)
{
    double first = 0.0, second = 0.0, memory_w = 0.0, burst = 0.0;
    uint32_t memories = 0, bursts = 0;
    if (!(how_io->idle_w > 0.0) || !(how_io->power_limit_w > how_io->idle_w) || !(how_io->clock_hz > 0.0)) {
        return false;
    }
    for (size_t i = 0; i < row_count; i++) {
        const redco_profile_power *const row = &rows[i];
        const double dynamic_j = row->energy_j - how_io->idle_w * row->time_s;
        if (strcmp(row->type, "bf16") != 0 || !(dynamic_j > 0.0)) { continue; }
        if (strcmp(row->name, "gemm") != 0) {
            if (strcmp(row->name, "attention") == 0) { continue; }
            memory_w += dynamic_j / row->time_s;
            memories++;
            continue;
        }
        if (strcmp(row->numbers, "zeros") == 0 || !(row->flops > 0.0)) { continue; }
        /* Sum of (1 - j x)^2 over products is least at j = sum x / sum x^2. */
        const double clock = fmin(row->clock_hz / how_io->clock_hz, 1.0), x = clock * row->flops / dynamic_j;
        const double timed_s = burst_s(row, gemms, gemm_count);
        first += x;
        second += x * x;
        if (timed_s > 0.0) {
            burst += clock * row->time_s / timed_s;
            bursts++;
        }
    }
    if (!(second > 0.0) || memories == 0) { return false; }
    how_io->product_j_per_flop = first / second;
    how_io->memory_w = memory_w / memories;
    how_io->burst_clock_ratio = bursts > 0 ? fmin(burst / bursts, 1.0) : 1.0;
    return true;
}

double redco_power_clock_ratio(const redco_power *power, const redco_load *load)
{
    if (!(power->burst_clock_ratio > 0.0)) { return 1.0; }
    const double clocked_s = power->burst_clock_ratio * load->product_s + load->core_s;
    const double room_w = power->limit_w - power->idle_w, full_j = load->flops * power->product_j_per_flop;
    if (!(clocked_s > 0.0) || !(full_j > 0.0)) { return 1.0; }
    /* full_j c + memory_w memory_s = room_w (memory_s + clocked_s / c), solved for c > 0. */
    const double half = 0.5 * (room_w - power->memory_w) * load->memory_s;
    const double clock = (half + sqrt(half * half + full_j * room_w * clocked_s)) / full_j;
    return clock > 0.0 && clock < 1.0 ? clock : 1.0;
}

redco_energy redco_power_energy(const redco_power *power, double dynamic_j, double step_s, double gpus, double tokens)
{
    if (!(power->limit_w > 0.0) || !(step_s > 0.0) || !(tokens > 0.0)) { return (redco_energy){.energy_j = 0.0}; }
    const double watts = fmin(power->idle_w + dynamic_j / step_s, power->limit_w);
    const double energy_j = watts * step_s * gpus;
    return (redco_energy){.energy_j = energy_j, .energy_j_per_token = energy_j / tokens, .watts_per_gpu = watts};
}
