#include "tools/exec/exec_device.h"

#include "executor/backend/cuda/cuda.h"
#include "tools/launch/cuda_report.h"

#include <stdio.h>
#include <string.h>

void exec_device_shared(const struct cli *cli, const redco_backend *backend)
{
    redco_cuda_device device;
    if (redco_cuda_describe(backend, &device, NULL) != REDCO_OK || device.mps) { return; }
    cli_warn(cli,
             "--share-gpu: without MPS ranks take turns on the GPU, and each exchange waits for them; start it with "
             "nvidia-cuda-mps-control -d");
}

void exec_device_reserve(const struct cli *cli, redco_backend *backend, redco_trainer *trainer, struct exec_run *run)
{
    redco_cuda_device device;
    redco_error err = {.status = REDCO_OK};
    char text[sizeof err.text + 64];
    if (backend == NULL || strcmp(backend->calls->name, "cuda") != 0) { return; }
    if (redco_cuda_describe(backend, &device, &err) != REDCO_OK) {
        (void)snprintf(text, sizeof text, "memory beside is not known: %s", err.text);
        cli_warn(cli, text);
        return;
    }
    const uint64_t used_bytes = device.memory_bytes - device.free_bytes;
    const uint64_t live_bytes = redco_trainer_memory_of(trainer).live_bytes;
    run->reserve_bytes = used_bytes > live_bytes ? used_bytes - live_bytes : 0;
    redco_trainer_hold_reserve(trainer, run->reserve_bytes);
}

void exec_device_attention(const struct cli *cli, bool leads, const redco_backend *backend, struct exec_run *run)
{
    char text[1024];
    cuda_attention_text(backend, run->attention, sizeof run->attention);
    if (leads && cuda_attention_warning(backend, text, sizeof text)) { cli_warn(cli, text); }
}

void exec_device_mode(const struct cli *cli, const redco_plan *plan, const char *backend, bool graphs)
{
    const bool planned = plan->engine.cuda_graphs;
    const bool stated =
        planned || (plan->engine.stated >> REDCO_TRAIT_CUDA_GRAPHS & 1) != 0; /* older plans do not say */
    char text[256];
    if (strcmp(backend, "cuda") != 0 || !stated || planned == graphs) { return; }
    (void)snprintf(text, sizeof text,
                   "the plan's prediction is of operators launched %s; redco-plan --engine redco-exec,cuda_graphs=%d "
                   "predicts this run",
                   planned ? "as CUDA graphs" : "one by one", graphs);
    cli_warn(cli, text);
}

void exec_device_joules_begin(const redco_backend *backend, struct exec_joules *joules)
{
    char why[REDCO_NVML_WHY_BYTES];
    *joules = (struct exec_joules){.nvml = NULL};
    if (backend == NULL || strcmp(backend->calls->name, "cuda") != 0) { return; }
    joules->nvml = redco_nvml_open(backend, why);
    if (joules->nvml == NULL) { return; }
    const redco_meter meter = redco_nvml_meter(joules->nvml);
    joules->first.energy_j = -1.0;
    (void)meter.read(meter.context, &joules->first, NULL);
}

void exec_device_joules_end(struct exec_joules *joules, struct exec_run *run)
{
    redco_meter_sample last = {.energy_j = -1.0};
    if (joules->nvml == NULL) { return; }
    const redco_meter meter = redco_nvml_meter(joules->nvml);
    if (meter.read(meter.context, &last, NULL) == REDCO_OK && joules->first.energy_j >= 0.0 &&
        last.energy_j > joules->first.energy_j && last.time_s > joules->first.time_s) {
        run->watts = (last.energy_j - joules->first.energy_j) / (last.time_s - joules->first.time_s);
    }
    redco_nvml_close(joules->nvml);
    joules->nvml = NULL;
}

/* A step that cannot be captured is slower, and no failure. */
void exec_device_graphs(const struct cli *cli, bool leads, const redco_trainer *trainer, struct exec_run *run)
{
    const redco_trainer_recorded recorded = redco_trainer_what_is_recorded(trainer);
    char text[512];
    run->graphs = recorded.recordings;
    if (!leads || recorded.why_not[0] == '\0') { return; }
    (void)snprintf(text, sizeof text, "some operators are launched one by one, as they cannot be captured: %s",
                   recorded.why_not);
    cli_warn(cli, text);
}
