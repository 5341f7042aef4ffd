// libcuda.so.1 for machines without a GPU: see README.md. Written from cuda.h and the driver API's documentation.
#include "tests/cuda/standin.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace
{
using std::chrono::steady_clock;

constexpr size_t page_bytes = 4096, alignment_bytes = 256;
constexpr int most_devices = 16;
constexpr int least_priority = 0, greatest_priority = -5; // an H200's, as the driver tells them
constexpr size_t quarantine_most = 512, few_blocks = 32;

struct Record { // one cuEventRecord()
    bool done = false;
    steady_clock::time_point when;
};

struct Context;

struct Task {
    std::function<void()> work;         // NULL: only waits or records
    std::shared_ptr<Record> wait, mark; // before; after
    const char *name = "work";
};

} // namespace

struct CUstream_st {
    Context *context = nullptr;
    std::deque<Task> tasks;
    bool busy = false, closing = false;
    int priority = 0;
};

struct CUevent_st {
    Context *context = nullptr;
    bool timed = true;
    std::shared_ptr<Record> record;
};

struct CUmod_st {
    Context *context = nullptr;
    std::vector<std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
    const standin_kernel *kernel = nullptr;
    CUmodule module = nullptr;
    uint32_t shared_allowed = 48 * 1024;
};

struct CUctx_st {
};

namespace
{
struct Block {
    uintptr_t map, map_bytes; // with guard pages
    size_t bytes;
};

struct Context : CUctx_st {
    int device = 0;
    unsigned retained = 0;
    CUresult fault = CUDA_SUCCESS;
    std::map<uintptr_t, Block> device_memory, host_memory;
    std::set<CUstream> streams; // closing ones included
    std::set<CUevent> events;
    std::set<CUmodule> modules;
    size_t used_bytes = 0;
    bool hidden = false; // device memory, from the program
};

// Nothing of it is ever destroyed: threads of streams outlive main().
struct State {
    std::mutex lock;
    std::condition_variable changed;
    pid_t initialised = 0;
    int devices = 1, shown[most_devices] = {};
    size_t memory_bytes = size_t(2) << 30;
    uint64_t seed = 1, random = 1;
    Context contexts[most_devices];
    std::deque<Block> quarantine;
    uint64_t calls = 0, fail_at = 0;
    std::string fail_call;
    CUresult fail_code = CUDA_SUCCESS;
    bool environment_read = false, leaked = false;
};

State &state()
{
    static State *const s = new State;
    return *s;
}

thread_local Context *current = nullptr;
// Of a stream's thread at work: where an access to what is not there ends.
thread_local sigjmp_buf *fault_exit = nullptr;
struct sigaction other_handlers[2]; // of SIGSEGV and SIGBUS

uint64_t number_in(const char *name, uint64_t otherwise)
{
    const char *const text = getenv(name);
    return text != nullptr && *text != '\0' ? strtoull(text, nullptr, 10) : otherwise;
}

// CUDA_VISIBLE_DEVICES, STANDIN_CUDA_DEVICES, STANDIN_CUDA_MEMORY (bytes of each), STANDIN_CUDA_SEED (0: no delays),
// STANDIN_CUDA_FAIL=CALL:N:CODE (CALL may be empty: any)
void read_environment(State &s)
{
    if (s.environment_read) { return; }
    s.environment_read = true;
    const uint64_t devices = number_in("STANDIN_CUDA_DEVICES", 1);
    const int all = devices > most_devices ? most_devices : int(devices);
    const char *const visible = getenv("CUDA_VISIBLE_DEVICES"); // "2,0"; what makes no sense ends the list
    s.devices = 0;
    for (const char *at = visible; visible != nullptr && s.devices < most_devices;) {
        char *end = nullptr;
        const long which = strtol(at, &end, 10);
        if (end == at || which < 0 || which >= all) { break; }
        s.shown[s.devices++] = int(which);
        if (*end != ',') { break; }
        at = end + 1;
    }
    for (int i = 0; visible == nullptr && i < all; i++) { s.shown[s.devices++] = i; }
    s.memory_bytes = number_in("STANDIN_CUDA_MEMORY", s.memory_bytes);
    s.seed = number_in("STANDIN_CUDA_SEED", 1);
    s.random = s.seed * 0x9E3779B97F4A7C15U + 1;
    if (const char *const fail = getenv("STANDIN_CUDA_FAIL")) {
        char call[64] = "";
        unsigned long long at = 0;
        int code = 0;
        const char *const colon = strchr(fail, ':');
        if (colon != nullptr && size_t(colon - fail) < sizeof call && sscanf(colon, ":%llu:%d", &at, &code) == 2) {
            s.fail_call.assign(fail, size_t(colon - fail));
            s.fail_at = at;
            s.fail_code = CUresult(code);
        }
    }
}

uint64_t next_random(State &s) // splitmix64
{
    uint64_t z = s.random += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
}

// Counts a call. @return what it shall fail with
CUresult injected(State &s, const char *call)
{
    read_environment(s);
    s.calls++;
    if (s.fail_at == 0 || (!s.fail_call.empty() && s.fail_call != call)) { return CUDA_SUCCESS; }
    return --s.fail_at == 0 ? s.fail_code : CUDA_SUCCESS;
}

// A call that needs the driver: under the lock.
struct Call {
    State &s = state();
    std::unique_lock<std::mutex> lock{s.lock};
    CUresult result;

    explicit Call(const char *name, bool needs_context = true)
    {
        result = injected(s, name);
        if (result != CUDA_SUCCESS) { return; }
        if (s.initialised != getpid()) {
            result = CUDA_ERROR_NOT_INITIALIZED;
        } else if (needs_context && current == nullptr) {
            result = CUDA_ERROR_INVALID_CONTEXT;
        } else if (needs_context && current->retained == 0) {
            result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        } else if (needs_context) {
            result = current->fault;
        }
    }
    bool failed() const { return result != CUDA_SUCCESS; }
};

bool inside(const std::map<uintptr_t, Block> &blocks, uintptr_t at, size_t bytes)
{
    auto next = blocks.upper_bound(at);
    if (next == blocks.begin()) { return false; }
    --next;
    const uintptr_t begin = next->first, end = begin + next->second.bytes;
    return at <= end && bytes <= end - at;
}

// Host memory that the driver does not know is taken for the program's own.
enum class Kind { device, pinned, other, none };

Kind kind_of(const Context *c, uintptr_t at, size_t bytes)
{
    const State &s = state();
    if (inside(c->device_memory, at, bytes)) { return Kind::device; }
    if (inside(c->host_memory, at, bytes)) { return Kind::pinned; }
    for (const Block &b : s.quarantine) {
        if (at >= b.map && at < b.map + b.map_bytes) { return Kind::none; } // freed
    }
    for (const Context &other : s.contexts) {
        for (const auto &entry : other.device_memory) { // over an end, or another device's
            if (at >= entry.second.map && at < entry.second.map + entry.second.map_bytes) { return Kind::none; }
        }
        for (const auto &entry : other.host_memory) {
            if (&other == c && at >= entry.second.map && at < entry.second.map + entry.second.map_bytes) {
                return Kind::none;
            }
        }
    }
    return at < page_bytes ? Kind::none : Kind::other;
}

// The end of what was asked for, rounded up to the alignment, is the end of a page: the next one is not there.
CUresult map_block(size_t bytes, uintptr_t &address, Block &block)
{
    const size_t padded = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    const size_t pages = (padded + page_bytes - 1) / page_bytes * page_bytes;
    void *const map =
        mmap(nullptr, pages + 2 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) { return CUDA_ERROR_OUT_OF_MEMORY; }
    const uintptr_t begin = uintptr_t(map);
    if (mprotect(reinterpret_cast<void *>(begin + page_bytes), pages, PROT_READ | PROT_WRITE) != 0) {
        (void)munmap(map, pages + 2 * page_bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    address = begin + page_bytes + pages - padded;
    block = Block{begin, pages + 2 * page_bytes, bytes};
    memset(reinterpret_cast<void *>(address), 0xFF, padded); // no number in any floating-point type
    return CUDA_SUCCESS;
}

// Addresses of freed memory are not given again soon: whoever uses them is stopped.
void quarantine(State &s, const Block &block)
{
    (void)mmap(reinterpret_cast<void *>(block.map), block.map_bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    s.quarantine.push_back(block);
    if (s.quarantine.size() > quarantine_most) {
        (void)munmap(reinterpret_cast<void *>(s.quarantine.front().map), s.quarantine.front().map_bytes);
        s.quarantine.pop_front();
    }
}

bool idle(CUstream stream)
{
    return stream->tasks.empty() && !stream->busy;
}

void protect(const Block &block, int access)
{
    (void)mprotect(reinterpret_cast<void *>(block.map + page_bytes), block.map_bytes - 2 * page_bytes, access);
}

// Nothing runs: what the program does with device memory now is its own doing. What it does with it while work is
// queued goes unseen.
void hide(Context *c)
{
    for (CUstream stream : c->streams) {
        if (!idle(stream)) { return; }
    }
    // Much to hide takes time: it is done now and then.
    if (c->hidden || (c->device_memory.size() > few_blocks && next_random(state()) % 16 != 0)) { return; }
    c->hidden = true;
    for (const auto &entry : c->device_memory) { protect(entry.second, PROT_NONE); }
}

void show(Context *c)
{
    if (!c->hidden) { return; }
    c->hidden = false;
    for (const auto &entry : c->device_memory) { protect(entry.second, PROT_READ | PROT_WRITE); }
}

void on_fault(int signal, siginfo_t *info, void *context)
{
    if (fault_exit != nullptr) {
        (void)fprintf(stderr, "stand-in: an access to %p, where there is no memory\n", info->si_addr);
        siglongjmp(*fault_exit, 1);
    }
    const uintptr_t at = uintptr_t(info->si_addr);
    for (const Context &c : state().contexts) { // without the lock: this process ends here
        for (const auto &entry : c.device_memory) {
            if (at >= entry.second.map && at < entry.second.map + entry.second.map_bytes) {
                (void)fprintf(stderr, "stand-in: the program itself touches device memory at %p\n", info->si_addr);
            }
        }
    }
    const struct sigaction &other = other_handlers[signal == SIGBUS];
    if ((other.sa_flags & SA_SIGINFO) != 0) {
        other.sa_sigaction(signal, info, context);
    } else if (other.sa_handler != SIG_DFL && other.sa_handler != SIG_IGN) {
        other.sa_handler(signal);
    } else {
        (void)sigaction(signal, &other, nullptr); // happens again, and ends the process
    }
}

// Test frameworks put handlers of their own into place for every test: under the lock, whenever work is queued.
void catch_faults()
{
    static const int signals[] = {SIGSEGV, SIGBUS};
    struct sigaction own = {}, now = {};
    own.sa_sigaction = on_fault;
    own.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    for (int i = 0; i < 2; i++) {
        (void)sigaction(signals[i], nullptr, &now);
        if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_fault) { continue; }
        other_handlers[i] = now;
        (void)sigaction(signals[i], &own, nullptr);
    }
}

// Work of a stream, in its thread.
void do_work(const Task &task)
{
    sigjmp_buf here;
    fault_exit = &here;
    if (sigsetjmp(here, 1) == 0) {
        task.work();
        fault_exit = nullptr;
        return;
    }
    fault_exit = nullptr;
    standin_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "%s: illegal address", task.name);
}

void delay(State &s)
{
    unsigned us = 0;
    {
        const std::lock_guard<std::mutex> lock(s.lock);
        if (s.seed == 0) { return; }
        const uint64_t r = next_random(s);
        us = r % 8 == 0 ? unsigned((r >> 8) % 300) : 0;
    }
    if (us > 0) { std::this_thread::sleep_for(std::chrono::microseconds(us)); }
}

void stream_thread(CUstream stream)
{
    State &s = state();
    current = stream->context;
    std::unique_lock<std::mutex> lock(s.lock);
    for (;;) {
        s.changed.wait(lock, [&] {
            return stream->tasks.empty() ? stream->closing
                                         : stream->tasks.front().wait == nullptr || stream->tasks.front().wait->done;
        });
        if (stream->tasks.empty()) { break; }
        Task task = std::move(stream->tasks.front());
        stream->tasks.pop_front();
        stream->busy = true;
        const bool runs = stream->context->fault == CUDA_SUCCESS;
        lock.unlock();
        delay(s);
        if (runs && task.work) { do_work(task); }
        lock.lock();
        if (task.mark != nullptr) {
            task.mark->when = steady_clock::now();
            task.mark->done = true;
        }
        stream->busy = false;
        s.changed.notify_all();
    }
    stream->context->streams.erase(stream);
    delete stream;
    s.changed.notify_all();
}

bool has(const Context *c, CUstream stream)
{
    return c->streams.count(stream) > 0 && !stream->closing;
}

CUresult push(State &s, CUstream stream, Task task)
{
    catch_faults();
    show(stream->context);
    stream->tasks.push_back(std::move(task));
    s.changed.notify_all();
    return CUDA_SUCCESS;
}

// Waits without the context going away below.
template <class Condition> CUresult wait_until(Call &call, Condition condition)
{
    Context *const c = current;
    call.s.changed.wait(call.lock, condition);
    hide(c);
    return c->fault;
}

void exit_with_leaks()
{
    (void)fflush(nullptr);
    _exit(99);
}

void forget_leaks(State &s, Context &c)
{
    size_t open = 0;
    for (CUstream stream : c.streams) { open += !stream->closing; }
    if (open + c.device_memory.size() + c.host_memory.size() + c.events.size() + c.modules.size() == 0) { return; }
    standin_complain("device %d is left with %zu streams, %zu events, %zu modules, %zu + %zu allocations", c.device,
                     open, c.events.size(), c.modules.size(), c.device_memory.size(), c.host_memory.size());
    if (!s.leaked) { (void)atexit(exit_with_leaks); }
    s.leaked = true;
    for (CUstream stream : c.streams) { stream->closing = true; }
    for (CUevent event : c.events) { delete event; }
    for (CUmodule module : c.modules) { delete module; }
    for (const auto &entry : c.device_memory) { quarantine(s, entry.second); }
    for (const auto &entry : c.host_memory) { quarantine(s, entry.second); }
    c.events.clear();
    c.modules.clear();
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
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

// What a fat binary begins with (fatbinary_section.h, fatBinaryHeader).
constexpr uint32_t fat_magic = 0xBA55ED50;
} // namespace

extern "C" {

void standin_complain(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[512];
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)fprintf(stderr, "stand-in: %s\n", text);
}

void standin_fault(CUresult code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[512];
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)fprintf(stderr, "stand-in: %s\n", text);
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    if (current != nullptr && current->fault == CUDA_SUCCESS) { current->fault = code; }
    s.changed.notify_all();
}

uint64_t standin_random(void)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return next_random(s);
}

void standin_fail_at(const char *call, uint64_t at, CUresult code)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    read_environment(s);
    s.fail_call = call == nullptr ? "" : call;
    s.fail_at = at;
    s.fail_code = code;
}

uint64_t standin_calls(void)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return s.calls;
}

bool standin_is_device(const void *memory, size_t bytes)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return current != nullptr && inside(current->device_memory, uintptr_t(memory), bytes);
}

bool standin_is_known(const void *memory, size_t bytes)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return current != nullptr && (inside(current->device_memory, uintptr_t(memory), bytes) ||
                                  inside(current->host_memory, uintptr_t(memory), bytes));
}

CUresult standin_stream_do(CUstream stream, const char *name, void (*work)(void *), void *context)
{
    Call call("standin_stream_do");
    if (call.failed()) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    return push(call.s, stream, {[=] { work(context); }, nullptr, nullptr, name});
}

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
    *version = int(number_in("STANDIN_CUDA_VERSION", CUDA_VERSION));
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
    (void)snprintf(name, size_t(length), "stand-in device");
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
        *value = int(number_in("STANDIN_CUDA_CAPABILITY", 90) / 10);
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = int(number_in("STANDIN_CUDA_CAPABILITY", 90) % 10);
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = int(number_in("STANDIN_CUDA_MULTIPROCESSORS", 132));
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
    default:
        standin_complain("attribute %d of a device is not known here", int(attribute));
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
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    if (address == 0) { return call.result; }
    const auto found = current->device_memory.find(address);
    if (found == current->device_memory.end()) {
        standin_complain("cuMemFree of %#llx, which is no allocation", address);
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
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    const auto found = current->host_memory.find(uintptr_t(address));
    if (found == current->host_memory.end()) {
        standin_complain("cuMemFreeHost of %p, which is no allocation", address);
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
        standin_complain("cuMemcpyAsync of %zu bytes from %#llx to %#llx: not within an allocation", bytes, from, to);
        return CUDA_ERROR_INVALID_VALUE;
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
            standin_complain("a copy of %zu bytes from %#llx to %#llx was queued, then memory was freed", bytes, from,
                             to);
            return;
        }
        memmove(reinterpret_cast<void *>(to), staged ? staged->data() : reinterpret_cast<const void *>(from), bytes);
    };
    const auto done = std::make_shared<Record>();
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
        standin_complain("cuMemsetD8Async of %zu bytes at %#llx: not within an allocation", bytes, to);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return push(call.s, stream,
                {[=] {
                     if (!standin_is_known(reinterpret_cast<void *>(to), bytes)) {
                         standin_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "memory was freed before it was filled");
                         return;
                     }
                     memset(reinterpret_cast<void *>(to), value, bytes);
                 },
                 nullptr, nullptr, "cuMemsetD8Async"});
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    Call call("cuCtxGetStreamPriorityRange");
    if (call.failed()) { return call.result; }
    if (least != nullptr) { *least = least_priority; }
    if (greatest != nullptr) { *greatest = greatest_priority; }
    return CUDA_SUCCESS;
}

// A priority out of range is taken for the nearest one, as documented; nobody means that, so it is an error here.
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    Call call("cuStreamCreateWithPriority");
    if (call.failed()) { return call.result; }
    if (flags > CU_STREAM_NON_BLOCKING) { return CUDA_ERROR_INVALID_VALUE; }
    if (priority > least_priority || priority < greatest_priority) {
        standin_complain("cuStreamCreateWithPriority: %d is not from %d to %d", priority, greatest_priority,
                         least_priority);
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUstream made = new CUstream_st;
    made->context = current;
    made->priority = priority;
    current->streams.insert(made);
    std::thread(stream_thread, made).detach();
    *stream = made;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream stream, int *priority)
{
    Call call("cuStreamGetPriority");
    if (call.failed()) { return call.result; }
    if (priority == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream)
{
    Call call("cuStreamDestroy_v2");
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    stream->closing = true; // what is queued is still done
    call.s.changed.notify_all();
    return call.result;
}

CUresult cuStreamSynchronize(CUstream stream)
{
    Call call("cuStreamSynchronize");
    if (call.failed()) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    return wait_until(call, [=] { return idle(stream); });
}

CUresult cuStreamQuery(CUstream stream)
{
    Call call("cuStreamQuery");
    if (call.failed()) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    return idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    Call call("cuStreamWaitEvent");
    if (call.failed()) { return call.result; }
    if (flags != 0) { return CUDA_ERROR_INVALID_VALUE; }
    if (!has(current, stream) || current->events.count(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    if (event->record == nullptr) { return CUDA_SUCCESS; } // never recorded: nothing to wait for
    return push(call.s, stream, {nullptr, event->record, nullptr, "cuStreamWaitEvent"});
}

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    Call call("cuEventCreate");
    if (call.failed()) { return call.result; }
    if ((flags & ~3U) != 0) { return CUDA_ERROR_INVALID_VALUE; }
    CUevent made = new CUevent_st;
    made->context = current;
    made->timed = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    current->events.insert(made);
    *event = made;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event)
{
    Call call("cuEventDestroy_v2");
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    if (current->events.erase(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    delete event;
    return call.result;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
    Call call("cuEventRecord");
    if (call.failed()) { return call.result; }
    if (!has(current, stream) || current->events.count(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    event->record = std::make_shared<Record>();
    return push(call.s, stream, {nullptr, nullptr, event->record, "cuEventRecord"});
}

CUresult cuEventQuery(CUevent event)
{
    Call call("cuEventQuery");
    if (call.failed()) { return call.result; }
    if (current->events.count(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    return event->record == nullptr || event->record->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    Call call("cuEventSynchronize");
    if (call.failed()) { return call.result; }
    if (current->events.count(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    const std::shared_ptr<Record> record = event->record;
    return record == nullptr ? CUDA_SUCCESS : wait_until(call, [=] { return record->done; });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    Call call("cuEventElapsedTime_v2");
    if (call.failed()) { return call.result; }
    if (current->events.count(from) == 0 || current->events.count(to) == 0 || !from->timed || !to->timed ||
        from->record == nullptr || to->record == nullptr) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!from->record->done || !to->record->done) { return CUDA_ERROR_NOT_READY; }
    *milliseconds = std::chrono::duration<float, std::milli>(to->record->when - from->record->when).count();
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    Call call("cuModuleLoadData");
    if (call.failed()) { return call.result; }
    uint32_t magic = 0;
    memcpy(&magic, image, sizeof magic);
    if (magic != fat_magic) { return CUDA_ERROR_INVALID_IMAGE; }
    CUmodule made = new CUmod_st;
    made->context = current;
    current->modules.insert(made);
    *module = made;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    Call call("cuModuleUnload");
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    if (current->modules.erase(module) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    delete module;
    return call.result;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    Call call("cuModuleGetFunction");
    if (call.failed()) { return call.result; }
    if (current->modules.count(module) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    const standin_kernel *const kernel = standin_kernel_of(name);
    if (kernel == nullptr) { return CUDA_ERROR_NOT_FOUND; }
    module->functions.push_back(std::make_unique<CUfunc_st>());
    module->functions.back()->kernel = kernel;
    module->functions.back()->module = module;
    *function = module->functions.back().get();
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    Call call("cuFuncSetAttribute");
    if (call.failed()) { return call.result; }
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) { return CUDA_SUCCESS; }
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > 232448) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    function->shared_allowed = uint32_t(value);
    return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    Call call("cuFuncGetAttribute");
    if (call.failed()) { return call.result; }
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = int(function->shared_allowed); return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = 1024; return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

// Limits: CUDA C++ Programming Guide, technical specifications per compute capability.
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned threads_x, unsigned threads_y,
                        unsigned threads_z, unsigned shared_bytes, CUstream stream, void **parameters, void **extra)
{
    Call call("cuLaunchKernel");
    if (call.failed()) { return call.result; }
    if (!has(current, stream) || current->modules.count(function->module) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    const uint64_t threads = uint64_t(threads_x) * threads_y * threads_z;
    if (x == 0 || y == 0 || z == 0 || threads == 0 || x > INT32_MAX || y > 65535 || z > 65535 || threads_x > 1024 ||
        threads_y > 1024 || threads_z > 64 || threads > 1024 || shared_bytes > function->shared_allowed ||
        parameters == nullptr || extra != nullptr) {
        standin_complain("%s: %u x %u x %u blocks of %u x %u x %u threads with %u bytes of shared memory",
                         function->kernel->name, x, y, z, threads_x, threads_y, threads_z, shared_bytes);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const standin_kernel *const kernel = function->kernel;
    const char *const given = static_cast<const char *>(parameters[0]);
    const auto copy = std::make_shared<std::vector<char>>(given, given + kernel->parameter_bytes);
    const standin_grid grid = {{x, y, z}, {threads_x, threads_y, threads_z}, shared_bytes};
    return push(call.s, stream, {[=] { kernel->run(&grid, copy->data()); }, nullptr, nullptr, kernel->name});
}

} // extern "C"
