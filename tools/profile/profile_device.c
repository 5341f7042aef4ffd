#include "tools/profile/profile_device.h"

#include "costmodel/operators/compute.h"
#include "executor/backend/host/host.h"
#include "executor/comm/nccl/nccl.h"
#include "executor/measure/block.h"
#include "executor/measure/contention.h"
#include "executor/trainer/devices.h"
#include "tools/launch/cuda_folders.h"
#include "tools/launch/cuda_report.h"
#include "topology/discovery/topology.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Four times the largest cache of a GPU (50 MB of an H200, 126 MB of a B200). */
static const uint64_t cold_bytes = (uint64_t)512 << 20;
static const double device_sample_s = 100e-6, device_case_s = 12e-3, quick_sample_s = 1e-6;
enum { DEVICE_RUNS = 5, HEAT_SIDE = 4096, QUICK_SIDE = 32 };
/* Share of the free memory: heat, contention and libraries need some, too. */
static const double most_memory_ratio = 0.6;
/* A collective's ring reads and writes what it sends; NCCL's get 0.8 of a link (STEP.md). */
static const double moved_ratio = 2.0 * 0.8;
static const uint64_t traffic_bytes = (uint64_t)256 << 20, quick_traffic_bytes = (uint64_t)1 << 20;
static const double contention_s = 1.0, quick_contention_s = 0.02;
/* A part of another size than its name's preset (a slice of a GPU) is none of it. */
static const double memory_tolerance = 0.15;

redco_status profile_device_open(const struct profile_job *job, redco_world *world, redco_backend **backend_out,
                                 redco_error *err)
{
    if (!job->cuda) { return redco_host_open(NULL, backend_out, err); }
    const char **const folders = cuda_folders();
    const redco_cuda_options options = {.library_folders = folders};
    const redco_status st = redco_devices_open(world, &options, false, backend_out, err);
    cuda_folders_free(folders);
    return st;
}

redco_status profile_device_comm(const struct profile_job *job, redco_world *world, redco_backend *backend,
                                 redco_device_comm **device_comm_out, redco_error *err)
{
    *device_comm_out = NULL;
    return job->cuda ? redco_nccl_open(world, backend, NULL, device_comm_out, err) : REDCO_OK;
}

redco_status profile_device_options(const struct profile_job *job, const redco_backend *backend,
                                    redco_measure_options *options_out, redco_error *err)
{
    redco_cuda_device device = {.memory_bytes = 0};
    *options_out =
        (redco_measure_options){.processor_time = true, .runs = job->quick ? 1 : 0, .case_s = job->quick ? 1e-3 : 0.0};
    if (!job->cuda) { return REDCO_OK; }
    const redco_status st = redco_cuda_describe(backend, &device, err);
    *options_out = (redco_measure_options){.queued = true,
                                           .fused = true,
                                           .sample_s = job->quick ? quick_sample_s : device_sample_s,
                                           .case_s = job->quick ? 1e-6 : device_case_s,
                                           .runs = job->quick ? 1 : DEVICE_RUNS,
                                           .cold_bytes = job->quick ? 0 : cold_bytes,
                                           .most_bytes = (uint64_t)(most_memory_ratio * (double)device.free_bytes),
                                           .heat_s = job->quick ? 1e-6 : 0.0,
                                           .heat_side = job->quick ? QUICK_SIDE : HEAT_SIDE};
    return st;
}

/* As cluster files name it: the preset of the part, else what the driver says, in plain characters. */
static void name_device(const redco_cuda_device *device, redco_profile_measured *how)
{
    const char *const preset = redco_gpu_of_model(device->name);
    redco_gpu gpu;
    size_t used = 0;
    (void)snprintf(how->part, sizeof how->part, "%.95s", device->name);
    if (preset != NULL && redco_gpu_find(preset, &gpu, NULL) == REDCO_OK &&
        fabs((double)device->memory_bytes / (double)gpu.memory_bytes - 1.0) < memory_tolerance) {
        (void)snprintf(how->device, sizeof how->device, "%s", preset);
        return;
    }
    for (const char *at = device->name; *at != '\0' && used + 1 < sizeof how->device; at++) {
        const bool plain = isalnum((unsigned char)*at) || strchr("-._@ ", *at) != NULL;
        how->device[used++] = plain ? *at : '-';
    }
    how->device[used] = '\0';
}

static void put_version(char *text, size_t size, const char *name, uint32_t version)
{
    const size_t used = strlen(text);
    if (version == 0) { return; }
    (void)snprintf(text + used, size - used, "%s%s %u.%u.%u", used > 0 ? ", " : "", name, version / 10000,
                   version / 100 % 100, version % 100);
}

redco_status profile_device_describe(const redco_backend *backend, redco_profile_measured *how, redco_error *err)
{
    redco_cuda_device device;
    if (strcmp(backend->calls->name, "cuda") != 0) { return REDCO_OK; }
    const redco_status st = redco_cuda_describe(backend, &device, err);
    if (st != REDCO_OK) { return st; }
    name_device(&device, how);
    how->clock_hz = device.clock_hz;
    how->memory_clock_hz = device.memory_clock_hz;
    how->multiprocessors = device.multiprocessors;
    how->memory_bytes = device.memory_bytes;
    how->kernels[0] = '\0';
    put_version(how->kernels, sizeof how->kernels, "cuBLASLt", device.blas_version);
    put_version(how->kernels, sizeof how->kernels, "cuDNN", device.dnn_version);
    (void)snprintf(how->capability, sizeof how->capability, "%u.%u", device.major, device.minor);
    (void)snprintf(how->driver, sizeof how->driver, "CUDA %u.%u", device.driver_version / 1000,
                   device.driver_version % 1000 / 10);
    put_version(how->driver, sizeof how->driver, "NCCL", redco_nccl_version());
    return REDCO_OK;
}

redco_status profile_device_conclude(redco_backend *backend, redco_measurer *measurer, redco_profile_measured *how,
                                     redco_error *err)
{
    redco_cuda_device device;
    uint64_t live_bytes = 0, peak_bytes = 0;
    uint32_t forward = 0, backward = 0;
    if (strcmp(backend->calls->name, "cuda") != 0) { return REDCO_OK; }
    const redco_measure_launches launches = redco_measure_queueing(measurer);
    redco_status st = redco_measure_hot_ratio(measurer, &how->hot_ratio, err);
    if (st == REDCO_OK) { st = redco_cuda_describe(backend, &device, err); }
    if (st == REDCO_OK) { st = redco_measure_block_operators(backend, &forward, &backward, err); }
    if (st == REDCO_OK) { st = redco_measure_recording_launch(measurer, backward, &how->graph_launch_s, err); }
    if (st != REDCO_OK) { return st; }
    backend->calls->memory_use(backend, &live_bytes, &peak_bytes);
    const uint64_t used_bytes = device.memory_bytes - device.free_bytes;
    cuda_attention_text(backend, how->attention, sizeof how->attention);
    how->clock_after_hz = device.clock_hz;
    how->reserve_bytes = used_bytes > live_bytes ? used_bytes - live_bytes : 0;
    how->launch_s = launches.count > 0 ? launches.host_s / (double)launches.count : 0.0;
    how->host_forward_s = forward * how->launch_s;
    how->host_backward_s = backward * how->launch_s;
    return REDCO_OK;
}

redco_status profile_device_contend(const struct profile_job *job, redco_backend *backend, redco_profile_measured *how,
                                    redco_error *err)
{
    redco_gpu gpu = {.scale_up_bytes_per_s = 0.0};
    redco_measure_contention contention;
    (void)redco_gpu_find(how->device, &gpu, NULL); /* unknown parts: PCIe's newest, as it does no harm */
    const double link = gpu.scale_up_bytes_per_s > 0.0 ? gpu.scale_up_bytes_per_s
                        : gpu.pcie_bytes_per_s > 0.0   ? gpu.pcie_bytes_per_s
                                                       : 63e9;
    const redco_measure_traffic traffic = {.size_bytes = job->quick ? quick_traffic_bytes : traffic_bytes,
                                           .bytes_per_s = moved_ratio * link};
    const redco_status st =
        redco_measure_contend_device(backend, &traffic, job->quick ? QUICK_SIDE : HEAT_SIDE,
                                     job->quick ? quick_contention_s : contention_s, &contention, err);
    if (st != REDCO_OK) { return st; }
    how->contention_ratio = contention.contention_ratio;
    how->overlap_ratio = contention.overlap_ratio;
    return REDCO_OK;
}

redco_status profile_device_model(const char *name, redco_measure_shapes *shapes, const struct cli *cli,
                                  redco_error *err)
{
    const redco_shape shape = {
        .seq_len = 1, .micro_batch = 1, .tp = 1, .cp = 1, .precision = REDCO_BF16, .engine = {.planned_memory = true}};
    const redco_layer_class *classes = NULL;
    redco_operator ops[REDCO_OPERATORS_MAX];
    redco_model *model = NULL;
    redco_status st = redco_model_read(name, &model, err);
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; cli != NULL && redco_model_warning(model, i) != NULL; i++) {
        cli_warn(cli, redco_model_warning(model, i));
    }
    const size_t count = redco_model_classes(model, &classes);
    for (uint32_t c = 0; c < count && st == REDCO_OK; c++) {
        const uint32_t op_count = redco_layer_operators(model, c, &shape, ops);
        for (uint32_t i = 0; i < op_count && st == REDCO_OK; i++) {
            if (ops[i].kind != REDCO_OPERATOR_GEMM) { continue; }
            const uint64_t whole[1] = {ops[i].n};
            const uint64_t *const widths = ops[i].part_count > 0 ? ops[i].parts : whole;
            for (uint32_t p = 0; p < (ops[i].part_count > 0 ? ops[i].part_count : 1) && st == REDCO_OK; p++) {
                if (!redco_measure_add_weight(shapes, ops[i].k, widths[p])) {
                    st = redco_fail(err, REDCO_EVALUE, name, "is a model too many: %d weights can be measured exactly",
                                    REDCO_MEASURE_WEIGHTS_MAX);
                }
            }
        }
    }
    redco_model_free(model);
    return st;
}
