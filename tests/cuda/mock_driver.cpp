// libcuda.so.1 for machines without a GPU: see README.md. Written from cuda.h and the driver API's documentation. Here:
// devices, contexts and memory.
#include "tests/cuda/mock_driver.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

using namespace mock;

namespace
{
void exit_with_leaks()
{
    (void)fflush(nullptr);
    _exit(99);
}

void forget_leaks(State &s, Context &c)
{
    size_t open = 0;
    for (CUstream stream : c.streams) { open += !stream->closing; }
    const size_t graphs = c.graphs.size() + c.executables.size();
    if (open + c.device_memory.size() + c.host_memory.size() + c.events.size() + c.modules.size() + graphs == 0) {
        return;
    }
    mock_complain("device %d is left with %zu streams, %zu events, %zu modules, %zu graphs, %zu + %zu allocations",
                  c.device, open, c.events.size(), c.modules.size(), graphs, c.device_memory.size(),
                  c.host_memory.size());
    if (!s.leaked) { (void)atexit(exit_with_leaks); }
    s.leaked = true;
    for (CUstream stream : c.streams) { stream->closing = true; }
    for (CUevent event : c.events) { delete event; }
    for (CUmodule module : c.modules) { delete module; }
    for (CUgraph graph : c.graphs) { delete graph; }
    for (CUgraphExec exec : c.executables) { delete exec; }
    for (const auto &entry : c.device_memory) { quarantine(s, entry.second); }
    for (const auto &entry : c.host_memory) { quarantine(s, entry.second); }
    c.events.clear();
    c.modules.clear();
    c.graphs.clear();
    c.executables.clear();
    c.device_memory.clear();
    c.host_memory.clear();
    c.used_bytes = 0;
    s.changed.notify_all();
}

const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
} // namespace

extern "C" {

CUresult cuInit(unsigned flags)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    const CUresult result = injected(s, "cuInit");
    if (result != CUDA_SUCCESS) { return result; }
    if (flags != 0) { return CUDA_ERROR_INVALID_VALUE; }
    if (s.devices == 0) { return CUDA_ERROR_NO_DEVICE; }
    // A child of fork() has no driver.
    if (s.initialised != 0 && s.initialised != getpid()) { return CUDA_ERROR_NOT_INITIALIZED; }
    s.initialised = getpid();
    return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    const CUresult result = injected(s, "cuDriverGetVersion");
    if (result != CUDA_SUCCESS) { return result; }
    *version = int(number_in("MOCK_CUDA_VERSION", CUDA_VERSION));
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
    for (const auto &e : errors) {
        if (e.code == error) {
            *text = e.name;
            return CUDA_SUCCESS;
        }
    }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    for (const auto &e : errors) {
        if (e.code == error) {
            *text = e.text;
            return CUDA_SUCCESS;
        }
    }
    *text = nullptr;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count)
{
    Call call("cuDeviceGetCount", false);
    if (call.failed()) { return call.result; }
    *count = call.s.devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    Call call("cuDeviceGet", false);
    if (call.failed()) { return call.result; }
    if (ordinal < 0 || ordinal >= call.s.devices) { return CUDA_ERROR_INVALID_DEVICE; }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    Call call("cuDeviceGetName", false);
    if (call.failed()) { return call.result; }
    if (length <= 0) { return CUDA_ERROR_INVALID_VALUE; }
    if (device < 0 || device >= call.s.devices) { return CUDA_ERROR_INVALID_DEVICE; }
    (void)snprintf(name, size_t(length), "mock library device");
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    Call call("cuDeviceGetUuid_v2", false);
    if (call.failed()) { return call.result; }
    if (device < 0 || device >= call.s.devices) { return CUDA_ERROR_INVALID_DEVICE; }
    memset(uuid, 0x5d, sizeof *uuid);
    uuid->bytes[15] = char(call.s.shown[device]);
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    Call call("cuDeviceTotalMem_v2", false);
    if (call.failed()) { return call.result; }
    if (device < 0 || device >= call.s.devices) { return CUDA_ERROR_INVALID_DEVICE; }
    *bytes = call.s.memory_bytes;
    return CUDA_SUCCESS;
}

// Those of an H200, where a program could depend on them.
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    Call call("cuDeviceGetAttribute", false);
    if (call.failed()) { return call.result; }
    if (device < 0 || device >= call.s.devices) { return CUDA_ERROR_INVALID_DEVICE; }
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = int(number_in("MOCK_CUDA_CAPABILITY", 90) / 10);
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = int(number_in("MOCK_CUDA_CAPABILITY", 90) % 10);
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = int(number_in("MOCK_CUDA_MULTIPROCESSORS", 132));
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *value = 49152; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = 232448; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *value = 233472; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *value = 2048; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 3201000; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 6144; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 62914560; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING: *value = 1; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MPS_ENABLED: *value = int(number_in("MOCK_CUDA_MPS", 0)); return CUDA_SUCCESS;
    default:
        mock_complain("attribute %d of a device is not known here", int(attribute));
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    Call call("cuDevicePrimaryCtxRetain", false);
    if (call.failed()) { return call.result; }
    if (device < 0 || device >= call.s.devices) { return CUDA_ERROR_INVALID_DEVICE; }
    Context &c = call.s.contexts[device];
    c.device = device;
    c.retained++;
    *context = &c;
    return CUDA_SUCCESS;
}

// What is left when the last one lets go is a leak, which the real driver would hide: the process ends with code 99.
CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    Call call("cuDevicePrimaryCtxRelease_v2", false);
    if (call.failed() && call.result == CUDA_ERROR_NOT_INITIALIZED) { return call.result; }
    if (device < 0 || device >= call.s.devices) { return CUDA_ERROR_INVALID_DEVICE; }
    Context &c = call.s.contexts[device];
    if (c.retained == 0) { return CUDA_ERROR_INVALID_CONTEXT; }
    if (--c.retained > 0) { return call.result; }
    forget_leaks(call.s, c);
    call.s.changed.wait(call.lock, [&] { return c.streams.empty(); });
    c.fault = CUDA_SUCCESS;
    return call.result;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    Call call("cuCtxSetCurrent", false);
    if (call.failed()) { return call.result; }
    Context *const c = static_cast<Context *>(context);
    if (c != nullptr && (c < call.s.contexts || c >= call.s.contexts + most_devices)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (c != nullptr && c->retained == 0) { return CUDA_ERROR_CONTEXT_IS_DESTROYED; }
    current = c;
    return c == nullptr ? CUDA_SUCCESS : c->fault;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    Call call("cuCtxGetCurrent", false);
    if (call.failed()) { return call.result; }
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    Call call("cuCtxGetDevice");
    if (call.failed()) { return call.result; }
    *device = current->device;
    return CUDA_SUCCESS;
}

// A context and what a program has loaded take some of a device's memory.
static size_t available_bytes(const State &s)
{
    return s.memory_bytes - s.memory_bytes / 32 - current->used_bytes;
}

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    Call call("cuMemGetInfo_v2");
    if (call.failed()) { return call.result; }
    *total_bytes = call.s.memory_bytes;
    *free_bytes = available_bytes(call.s);
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes)
{
    Call call("cuMemAlloc_v2");
    if (call.failed()) { return call.result; }
    if (is_unsafe("cuMemAlloc")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (bytes == 0) { return CUDA_ERROR_INVALID_VALUE; }
    if (bytes > available_bytes(call.s)) { return CUDA_ERROR_OUT_OF_MEMORY; }
    uintptr_t at = 0;
    Block block;
    const CUresult result = map_block(bytes, at, block);
    if (result != CUDA_SUCCESS) { return result; }
    current->device_memory[at] = block;
    if (current->hidden) { protect(block, PROT_NONE); }
    current->used_bytes += bytes;
    *address = at;
    return CUDA_SUCCESS;
}

// The documentation promises no synchronisation ("may perform"): there is none.
CUresult cuMemFree(CUdeviceptr address)
{
    Call call("cuMemFree_v2");
    if (is_unsafe("cuMemFree")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    if (address == 0) { return call.result; }
    const auto found = current->device_memory.find(address);
    if (found == current->device_memory.end()) {
        mock_complain("cuMemFree of %#llx, which is no allocation", address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    current->used_bytes -= found->second.bytes;
    quarantine(call.s, found->second);
    current->device_memory.erase(found);
    return call.result;
}

CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    Call call("cuMemHostAlloc");
    if (call.failed()) { return call.result; }
    if (is_unsafe("cuMemHostAlloc")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (bytes == 0 || (flags & ~7U) != 0) { return CUDA_ERROR_INVALID_VALUE; }
    uintptr_t at = 0;
    Block block;
    const CUresult result = map_block(bytes, at, block);
    if (result != CUDA_SUCCESS) { return result; }
    current->host_memory[at] = block;
    *address = reinterpret_cast<void *>(at);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *address)
{
    Call call("cuMemFreeHost");
    if (is_unsafe("cuMemFreeHost")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    const auto found = current->host_memory.find(uintptr_t(address));
    if (found == current->host_memory.end()) {
        mock_complain("cuMemFreeHost of %p, which is no allocation", address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    quarantine(call.s, found->second);
    current->host_memory.erase(found);
    return call.result;
}

// Page-locked and device memory is read when the stream gets there. What a program's own memory holds is read at some
// time before that, or then: the documentation allows for both.
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    Call call("cuMemcpyAsync");
    if (call.failed()) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    if (bytes == 0) { return CUDA_SUCCESS; }
    const Kind to_kind = kind_of(current, to, bytes), from_kind = kind_of(current, from, bytes);
    if (to_kind == Kind::none || from_kind == Kind::none) {
        mock_complain("cuMemcpyAsync of %zu bytes from %#llx to %#llx: not within an allocation", bytes, from, to);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->capture != nullptr && (to_kind == Kind::other || from_kind == Kind::other)) {
        (void)is_unsafe("cuMemcpyAsync of the program's own memory");
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    std::shared_ptr<std::vector<char>> staged;
    const bool on_host = to_kind != Kind::device && from_kind != Kind::device;
    if (from_kind == Kind::other && !on_host && next_random(call.s) % 2 == 0) {
        const char *const source = reinterpret_cast<const char *>(from);
        staged = std::make_shared<std::vector<char>>(source, source + bytes);
    }
    const auto work = [=] {
        State &s = state();
        {
            const std::lock_guard<std::mutex> lock(s.lock);
            if (kind_of(current, to, bytes) != to_kind || (!staged && kind_of(current, from, bytes) != from_kind)) {
                current->fault = CUDA_ERROR_ILLEGAL_ADDRESS;
            }
        }
        if (current->fault != CUDA_SUCCESS) {
            mock_complain("a copy of %zu bytes from %#llx to %#llx was queued, then memory was freed", bytes, from, to);
            return;
        }
        memmove(reinterpret_cast<void *>(to), staged ? staged->data() : reinterpret_cast<const void *>(from), bytes);
    };
    const auto done = std::make_shared<Record>();
    if (stream->capture != nullptr) { return push(call.s, stream, {work, nullptr, nullptr, "cuMemcpyAsync"}); }
    (void)push(call.s, stream, {work, nullptr, done, "cuMemcpyAsync"});
    // A copy to a program's own memory may return when it is done, and so may one from it. Between host memories it
    // does.
    if (on_host || ((to_kind == Kind::other || from_kind == Kind::other) && next_random(call.s) % 2 == 0)) {
        return wait_until(call, [=] { return done->done; });
    }
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    Call call("cuMemsetD8Async");
    if (call.failed()) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    if (bytes == 0) { return CUDA_SUCCESS; }
    const Kind kind = kind_of(current, to, bytes);
    if (kind != Kind::device && kind != Kind::pinned) {
        mock_complain("cuMemsetD8Async of %zu bytes at %#llx: not within an allocation", bytes, to);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return push(call.s, stream,
                {[=] {
                     if (!mock_is_known(reinterpret_cast<void *>(to), bytes)) {
                         mock_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "memory was freed before it was filled");
                         return;
                     }
                     memset(reinterpret_cast<void *>(to), value, bytes);
                 },
                 nullptr, nullptr, "cuMemsetD8Async"});
}

} // extern "C"
