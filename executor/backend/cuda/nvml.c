#include "executor/backend/cuda/nvml.h"

#include "executor/backend/cuda/cuda_internal.h"
#include "topology/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* nvml.h is no part of what redco is built with. Its calls have kept their binary interface since driver 450: codes of
 * errors, kinds of clocks and units (milliwatts, millijoules, MHz) are those of NVML's reference manual. */
enum { NVML_SUCCESS = 0, NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2 };
typedef struct nvmlDevice_st *nvml_device;

struct redco_nvml {
    void *library;
    nvml_device device;
    bool begun;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int code);
    int (*by_uuid)(const char *uuid, nvml_device *device);
    int (*mig_mode)(nvml_device device, unsigned *current, unsigned *pending);
    int (*energy)(nvml_device device, unsigned long long *millijoules);
    int (*power)(nvml_device device, unsigned *milliwatts);
    int (*limit)(nvml_device device, unsigned *milliwatts);
    int (*clock)(nvml_device device, int kind, unsigned *mhz);
};

static bool begin(redco_nvml *nvml, const redco_cuda_device *device, char why[REDCO_NVML_WHY_BYTES])
{
    unsigned current = 0, pending = 0, milliwatts = 0;
    unsigned long long millijoules = 0;
    int code = nvml->init();
    if (code != NVML_SUCCESS) {
        (void)snprintf(why, REDCO_NVML_WHY_BYTES, "NVML does not start: %.100s", nvml->error_string(code));
        return false;
    }
    nvml->begun = true;
    code = nvml->by_uuid(device->uuid, &nvml->device);
    if (code != NVML_SUCCESS) {
        (void)snprintf(why, REDCO_NVML_WHY_BYTES, "NVML does not know %s: %.100s", device->uuid,
                       nvml->error_string(code));
        return false;
    }
    if (nvml->mig_mode(nvml->device, &current, &pending) == NVML_SUCCESS && current != 0) {
        (void)snprintf(why, REDCO_NVML_WHY_BYTES, "the GPU is cut into slices (MIG), whose joules NVML does not tell");
        return false;
    }
    code = nvml->power(nvml->device, &milliwatts);
    if (code != NVML_SUCCESS && nvml->energy(nvml->device, &millijoules) != NVML_SUCCESS) {
        (void)snprintf(why, REDCO_NVML_WHY_BYTES, "NVML tells neither joules nor watts of this GPU: %.100s",
                       nvml->error_string(code));
        return false;
    }
    return true;
}

redco_nvml *redco_nvml_open(const redco_backend *backend, char why[REDCO_NVML_WHY_BYTES])
{
    redco_cuda_device device;
    redco_error err = {.status = REDCO_OK};
    redco_nvml *const nvml = calloc(1, sizeof *nvml);
    if (nvml == NULL) {
        (void)snprintf(why, REDCO_NVML_WHY_BYTES, "out of memory");
        return NULL;
    }
#define CALL(name, member)                                                                                             \
    {                                                                                                                  \
        name, (void (**)(void))(void *)&nvml->member                                                                   \
    }
    const redcoi_symbol symbols[] = {CALL("nvmlInit_v2", init),
                                     CALL("nvmlShutdown", shutdown),
                                     CALL("nvmlErrorString", error_string),
                                     CALL("nvmlDeviceGetHandleByUUID", by_uuid),
                                     CALL("nvmlDeviceGetMigMode", mig_mode),
                                     CALL("nvmlDeviceGetTotalEnergyConsumption", energy),
                                     CALL("nvmlDeviceGetPowerUsage", power),
                                     CALL("nvmlDeviceGetEnforcedPowerLimit", limit),
                                     CALL("nvmlDeviceGetClockInfo", clock)};
#undef CALL
    redco_status st = redco_cuda_describe(backend, &device, &err);
    if (st == REDCO_OK) {
        st =
            redcoi_library_open("libnvidia-ml.so.1", symbols, sizeof symbols / sizeof symbols[0], &nvml->library, &err);
    }
    if (st != REDCO_OK) { (void)snprintf(why, REDCO_NVML_WHY_BYTES, "%.60s: %.180s", err.place, err.text); }
    if (st == REDCO_OK && begin(nvml, &device, why)) { return nvml; }
    redco_nvml_close(nvml);
    return NULL;
}

void redco_nvml_close(redco_nvml *nvml)
{
    if (nvml == NULL) { return; }
    if (nvml->begun) { (void)nvml->shutdown(); }
    redcoi_library_close(nvml->library);
    free(nvml);
}

static double clock_of(const redco_nvml *nvml, int kind)
{
    unsigned mhz = 0;
    return nvml->clock(nvml->device, kind, &mhz) == NVML_SUCCESS ? 1e6 * mhz : -1.0;
}

static redco_status read_meter(void *context, redco_meter_sample *sample_out, redco_error *err)
{
    const redco_nvml *const nvml = context;
    unsigned milliwatts = 0;
    unsigned long long millijoules = 0;
    redco_meter_sample sample = {.energy_j = -1.0, .watts = -1.0};
    int code = nvml->energy(nvml->device, &millijoules);
    sample.time_s = redco_now_s(); /* behind the counter, which is what has to be on time */
    if (code == NVML_SUCCESS) { sample.energy_j = 1e-3 * (double)millijoules; }
    code = nvml->power(nvml->device, &milliwatts);
    if (code == NVML_SUCCESS) { sample.watts = 1e-3 * milliwatts; }
    if (sample.energy_j < 0.0 && sample.watts < 0.0) {
        return redco_fail(err, REDCO_ESYSTEM, "NVML", "tells neither joules nor watts: %.100s",
                          nvml->error_string(code));
    }
    sample.clock_hz = clock_of(nvml, NVML_CLOCK_SM);
    sample.memory_clock_hz = clock_of(nvml, NVML_CLOCK_MEM);
    *sample_out = sample;
    return REDCO_OK;
}

redco_meter redco_nvml_meter(redco_nvml *nvml)
{
    return (redco_meter){.context = nvml, .read = read_meter};
}

double redco_nvml_limit_w(const redco_nvml *nvml)
{
    unsigned milliwatts = 0;
    return nvml->limit(nvml->device, &milliwatts) == NVML_SUCCESS ? 1e-3 * milliwatts : 0.0;
}
