/* events: operators a second of the step simulator on one core, graph and layout of every operator apart; and a whole
 * redco_simulate(), which lays out passes of pipelines once for all that repeat them. */
#include "costmodel/simulator/simulate.h"
#include "planner/assemble/inputs.h"

#include <stdio.h>
#include <time.h>

enum { RUNS = 25 };

static double now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct row {
    const char *model;
    uint32_t gpus, tp, pp, chunks;
    redco_shards shards;
    redco_recompute recompute;
};

/* The best of some runs: what else the machine does is not measured. */
static redco_status measure(const struct row *row, redco_error *err)
{
    const redco_input_names names = {.model = row->model};
    const redco_workload workload = {.seq_len = 4096,
                                     .global_batch = 1024,
                                     .precision = REDCO_BF16,
                                     .overlap = REDCO_OVERLAP_ALL,
                                     .bucket_bytes = (uint64_t)1 << 30};
    redco_inputs inputs = {0};
    redco_costs *costs = NULL;
    const redco_layer_class *classes = NULL;
    redco_assignment all[8];
    redco_simulation simulation;
    double whole_s = 1e9, build_s = 1e9, layout_s = 1e9;
    uint32_t operators = 0;
    redco_status st = redco_inputs_read(&names, row->gpus, &inputs, err);
    if (st != REDCO_OK) { return st; }
    if ((st = redco_costs_create(&inputs.machine, inputs.model, &workload, &inputs.calibration, inputs.comm, &costs,
                                 err)) != REDCO_OK) {
        goto out;
    }
    const uint32_t count = (uint32_t)redco_model_classes(inputs.model, &classes);
    for (uint32_t i = 0; i < count; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {row->shards, row->recompute}};
    }
    const uint32_t dp = row->gpus / (row->tp * row->pp), local = 8 / row->tp < dp ? 8 / row->tp : dp;
    const redco_parallelism parallelism = {.tp = row->tp,
                                           .pp = row->pp,
                                           .cp = 1,
                                           .chunks = row->chunks,
                                           .micro_batch = 1,
                                           .micro_batches = 1024 / dp,
                                           .dp = {local, dp / local},
                                           .scheme = REDCO_INTRA_TENSOR};
    for (int run = 0; run < RUNS && st == REDCO_OK; run++) {
        redco_step *step = NULL;
        redco_timeline *timeline = NULL;
        const double start_s = now_s();
        st = redco_simulate(costs, &parallelism, all, count, NULL, &simulation, err);
        const double simulated_s = now_s();
        const redco_step_options options = {.micro_batches = simulation.simulated_micro_batches};
        if (st == REDCO_OK) { st = redco_step_build(costs, &parallelism, all, count, &options, &step, err); }
        const double built_s = now_s();
        if (st == REDCO_OK) { st = redco_timeline_create(step, &timeline, err); }
        const double laid_s = now_s();
        whole_s = simulated_s - start_s < whole_s ? simulated_s - start_s : whole_s;
        build_s = built_s - simulated_s < build_s ? built_s - simulated_s : build_s;
        layout_s = laid_s - built_s < layout_s ? laid_s - built_s : layout_s;
        if (step != NULL) { (void)redco_step_ops(step, &operators); }
        redco_timeline_free(timeline);
        redco_step_free(step);
    }
    if (st != REDCO_OK) { goto out; }
    (void)printf("%-14s %5u %3u %3u %6u %5llu of %4llu %10u %12.1f %12.1f %10llu %10.2f\n", row->model, row->gpus,
                 row->tp, row->pp, row->chunks, (unsigned long long)simulation.simulated_micro_batches,
                 (unsigned long long)parallelism.micro_batches, operators, 1e-6 * operators / build_s,
                 1e-6 * operators / layout_s, (unsigned long long)simulation.operators, 1e3 * whole_s);
out:
    redco_costs_free(costs);
    redco_inputs_free(&inputs);
    return st;
}

int main(void)
{
    static const struct row rows[] = {
        {"llama-7b", 1024, 1, 1, 1, {{1, 1}, {1, 1}, {8, 1}}, REDCO_RECOMPUTE_NONE},
        {"llama-13b", 64, 1, 1, 1, {{4, 1}, {4, 1}, {8, 1}}, REDCO_RECOMPUTE_NONE},
        {"llama-65b", 1024, 1, 1, 1, {{8, 1}, {8, 1}, {8, 8}}, REDCO_RECOMPUTE_FULL},
        {"llama-65b", 1024, 8, 1, 1, {{1, 4}, {1, 4}, {1, 16}}, REDCO_RECOMPUTE_FULL},
        {"llama-65b", 1024, 8, 8, 1, {{1, 1}, {1, 1}, {1, 16}}, REDCO_RECOMPUTE_NONE},
        {"llama-65b", 1024, 8, 8, 1, {{1, 16}, {1, 16}, {1, 16}}, REDCO_RECOMPUTE_NONE},
        {"llama-65b", 1024, 8, 8, 5, {{1, 16}, {1, 16}, {1, 16}}, REDCO_RECOMPUTE_NONE},
        {"llama-65b", 1024, 4, 16, 5, {{2, 1}, {2, 1}, {2, 8}}, REDCO_RECOMPUTE_FULL},
        {"llama-65b", 1024, 8, 16, 5, {{1, 8}, {1, 8}, {1, 8}}, REDCO_RECOMPUTE_FULL},
        {"llama-3.1-405b", 1024, 8, 16, 1, {{1, 1}, {1, 1}, {1, 8}}, REDCO_RECOMPUTE_NONE},
    };
    redco_error err = {0};
    (void)printf("%-14s %5s %3s %3s %6s %13s %10s %12s %12s %10s %10s\n", "model", "GPUs", "tp", "pp", "chunks",
                 "micro-batches", "operators", "graph M/s", "layout M/s", "laid out", "ms");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (measure(&rows[i], &err) != REDCO_OK) {
            (void)fprintf(stderr, "events: %s: %s\n", err.place, err.text);
            return 1;
        }
    }
    return 0;
}
