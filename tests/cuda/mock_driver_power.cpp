// What the mock library's devices draw: a law by the name of what ran last. See README.md.
#include "tests/cuda/mock_driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace mock
{
namespace
{
struct Entry {
    std::string name; // the beginning of what runs; "idle": nothing has run yet; "": anything else
    double watts, mhz;
};

struct Meter {
    steady_clock::time_point since;
    double energy_j = 0.0;
    const Entry *now = nullptr;
};

std::mutex lock;
std::vector<Entry> law;
double limit_w = 700.0, memory_mhz = 3201.0;
Meter meters[most_devices];
bool read = false;

// MOCK_NVML_LAW="limit:700,memory:3201,idle:129@1980,cublasLt:650@1500,:330@1980": watts and MHz by what runs.
void read_law()
{
    if (read) { return; }
    read = true;
    const char *const text = getenv("MOCK_NVML_LAW");
    for (const char *at = text != nullptr ? text : "idle:100@1980,:300@1980"; *at != '\0';) {
        const char *const colon = strchr(at, ':');
        char *end = nullptr;
        if (colon == nullptr) { break; }
        Entry entry = {std::string(at, colon), strtod(colon + 1, &end), 1980.0};
        if (*end == '@') { entry.mhz = strtod(end + 1, &end); }
        if (entry.name == "limit") {
            limit_w = entry.watts;
        } else if (entry.name == "memory") {
            memory_mhz = entry.watts;
        } else {
            law.push_back(entry);
        }
        at = *end == ',' ? end + 1 : end;
    }
    for (Meter &meter : meters) { meter.since = steady_clock::now(); }
}

const Entry *entry_of(const char *name)
{
    static const Entry none = {"", 0.0, 0.0};
    for (const Entry &entry : law) {
        if (strncmp(entry.name.c_str(), name, entry.name.size()) == 0) { return &entry; }
    }
    return &none;
}

// Devices differ, so that a test sees which one was asked: by 10 W for each number.
double watts_of(int device, const Meter &meter)
{
    return (meter.now != nullptr ? meter.now : entry_of("idle"))->watts + 10.0 * device;
}

void go_on(int device)
{
    Meter &meter = meters[device];
    const auto now = steady_clock::now();
    meter.energy_j += watts_of(device, meter) * std::chrono::duration<double>(now - meter.since).count();
    meter.since = now;
}
} // namespace

void note_power(int device, const char *name)
{
    const std::lock_guard<std::mutex> held(lock);
    read_law();
    go_on(device);
    meters[device].now = entry_of(name);
}
} // namespace mock

mock_watts mock_power(int device)
{
    using namespace mock;
    const std::lock_guard<std::mutex> held(lock);
    read_law();
    go_on(device);
    const Entry *const now = meters[device].now != nullptr ? meters[device].now : entry_of("idle");
    return {meters[device].energy_j, watts_of(device, meters[device]), limit_w, now->mhz, memory_mhz};
}
