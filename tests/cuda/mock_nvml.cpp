// libnvidia-ml.so.1 for machines without a GPU: watts by a law that is written down, of what the mock library for the
// driver ran last. See README.md.
#include "tests/cuda/mock_driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{
// Codes of NVML's reference manual.
enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

struct Device {
    int number;
};
Device devices[mock::most_devices];
int started = 0;

// MOCK_NVML_LACKS=energy+power+uuid: what this GPU does not tell.
bool lacks(const char *what)
{
    const char *const list = getenv("MOCK_NVML_LACKS");
    return list != nullptr && strstr(list, what) != nullptr;
}

int check(const Device *device, const void *out)
{
    if (started == 0) { return UNINITIALIZED; }
    return device == nullptr || out == nullptr ? INVALID_ARGUMENT : SUCCESS;
}
} // namespace

extern "C" {

int nvmlInit_v2(void)
{
    started++;
    return SUCCESS;
}

int nvmlShutdown(void)
{
    if (started == 0) { return UNINITIALIZED; }
    started--;
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    switch (code) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    default: return "Unknown Error";
    }
}

// NVML numbers all devices of the machine, whatever CUDA_VISIBLE_DEVICES shows. UUIDs are those of the driver's
// mock library.
int nvmlDeviceGetHandleByUUID(const char *uuid, Device **device)
{
    if (started == 0) { return UNINITIALIZED; }
    if (uuid == nullptr || device == nullptr) { return INVALID_ARGUMENT; }
    for (int i = 0; i < mock::most_devices && !lacks("uuid"); i++) {
        char its[48];
        (void)snprintf(its, sizeof its, "GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d%02x", unsigned(i));
        if (strcmp(its, uuid) != 0) { continue; }
        devices[i].number = i;
        *device = &devices[i];
        return SUCCESS;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *current, unsigned *pending)
{
    const int code = check(device, current);
    if (code != SUCCESS) { return code; }
    *current = *pending = getenv("MOCK_NVML_MIG") != nullptr ? 1 : 0;
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(Device *device, unsigned long long *millijoules)
{
    const int code = check(device, millijoules);
    if (code != SUCCESS) { return code; }
    if (lacks("energy")) { return NOT_SUPPORTED; }
    *millijoules = (unsigned long long)(1e3 * mock_power(device->number).energy_j);
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(Device *device, unsigned *milliwatts)
{
    const int code = check(device, milliwatts);
    if (code != SUCCESS) { return code; }
    if (lacks("power")) { return NOT_SUPPORTED; }
    *milliwatts = unsigned(1e3 * mock_power(device->number).watts + 0.5);
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(Device *device, unsigned *milliwatts)
{
    const int code = check(device, milliwatts);
    if (code != SUCCESS) { return code; }
    *milliwatts = unsigned(1e3 * mock_power(device->number).limit_w + 0.5);
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(Device *device, int kind, unsigned *mhz)
{
    const int code = check(device, mhz);
    if (code != SUCCESS) { return code; }
    if (kind != 1 && kind != 2) { return INVALID_ARGUMENT; } // multiprocessors, memory
    const mock_watts now = mock_power(device->number);
    *mhz = unsigned(kind == 1 ? now.clock_mhz : now.memory_clock_mhz);
    return SUCCESS;
}

} // extern "C"
