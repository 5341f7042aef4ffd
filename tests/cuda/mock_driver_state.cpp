// The mock library for the driver behind its calls: what it is told, memory, streams. See README.md.
#include "tests/cuda/mock_driver.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>

namespace mock
{
namespace
{
constexpr size_t page_bytes = 4096, alignment_bytes = 256;
constexpr size_t poison_bytes = size_t(8) << 20;
constexpr size_t quarantine_most = 512, few_blocks = 32;

// Of a stream's thread at work: where an access to what is not there ends.
thread_local sigjmp_buf *fault_exit = nullptr;
struct sigaction other_handlers[2]; // of SIGSEGV and SIGBUS
} // namespace

thread_local Context *current = nullptr;

State &state()
{
    static State *const s = new State;
    return *s;
}

uint64_t number_in(const char *name, uint64_t otherwise)
{
    const char *const text = getenv(name);
    return text != nullptr && *text != '\0' ? strtoull(text, nullptr, 10) : otherwise;
}

static void write_counts()
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    FILE *const file = fopen(s.counts_file.c_str(), "a");
    if (file == nullptr) { return; }
    for (const auto &entry : s.counts) {
        (void)fprintf(file, "%s %llu\n", entry.first.c_str(), (unsigned long long)entry.second);
    }
    (void)fclose(file);
}

// CUDA_VISIBLE_DEVICES, MOCK_CUDA_DEVICES, MOCK_CUDA_MEMORY (bytes of each), MOCK_CUDA_SEED (0: no delays),
// MOCK_CUDA_FAIL=CALL:N:CODE (CALL may be empty: any), MOCK_CUDA_CLOCK_ERROR (ns, of every event's time),
// MOCK_CUDA_COUNT (file to which the calls of each name are added at the end)
static void read_environment(State &s)
{
    if (s.environment_read) { return; }
    s.environment_read = true;
    const uint64_t devices = number_in("MOCK_CUDA_DEVICES", 1);
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
    s.memory_bytes = number_in("MOCK_CUDA_MEMORY", s.memory_bytes);
    s.seed = number_in("MOCK_CUDA_SEED", 1);
    if (const char *const file = getenv("MOCK_CUDA_COUNT")) {
        s.counts_file = file;
        (void)atexit(write_counts);
    }
    s.clock_error_ns = number_in("MOCK_CUDA_CLOCK_ERROR", 0);
    s.random = s.seed * 0x9E3779B97F4A7C15U + 1;
    if (const char *const fail = getenv("MOCK_CUDA_FAIL")) {
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

CUresult injected(State &s, const char *call)
{
    read_environment(s);
    s.calls++;
    if (!s.counts_file.empty()) { s.counts[call]++; }
    if (s.fail_at == 0 || (!s.fail_call.empty() && s.fail_call != call)) { return CUDA_SUCCESS; }
    return --s.fail_at == 0 ? s.fail_code : CUDA_SUCCESS;
}

bool inside(const std::map<uintptr_t, Block> &blocks, uintptr_t at, size_t bytes)
{
    auto next = blocks.upper_bound(at);
    if (next == blocks.begin()) { return false; }
    --next;
    const uintptr_t begin = next->first, end = begin + next->second.bytes;
    return at <= end && bytes <= end - at;
}

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

// A file of 0xFF, or -1: its pages, copied when they are written, are what new memory holds without touching it.
static int poison_file()
{
    static const int file = [] {
        const int made = memfd_create("mock library memory", MFD_CLOEXEC);
        if (made < 0) { return -1; }
        void *const view = ftruncate(made, off_t(poison_bytes)) == 0
                               ? mmap(nullptr, poison_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made, 0)
                               : MAP_FAILED;
        if (view == MAP_FAILED) {
            (void)close(made);
            return -1;
        }
        memset(view, 0xFF, poison_bytes);
        (void)munmap(view, poison_bytes);
        return made;
    }();
    return file;
}

// No number in any floating-point type. What is large, mostly workspace, is hardly ever used to its end.
static void poison(uintptr_t begin, size_t bytes)
{
    const int file = bytes >= poison_bytes ? poison_file() : -1;
    for (; file >= 0 && bytes >= poison_bytes; begin += poison_bytes, bytes -= poison_bytes) {
        if (mmap(reinterpret_cast<void *>(begin), poison_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file,
                 0) == MAP_FAILED) {
            break;
        }
    }
    memset(reinterpret_cast<void *>(begin), 0xFF, bytes);
}

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
    poison(begin + page_bytes, pages);
    return CUDA_SUCCESS;
}

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

void hide(Context *c)
{
    for (CUstream stream : c->streams) {
        if (!idle(stream)) { return; }
    }
    // Much to hide takes time.
    if (c->hidden || (c->device_memory.size() > few_blocks && next_random(state()) % 16 != 0)) { return; }
    c->hidden = true;
    for (const auto &entry : c->device_memory) { protect(entry.second, PROT_NONE); }
}

static void show(Context *c)
{
    if (!c->hidden) { return; }
    c->hidden = false;
    for (const auto &entry : c->device_memory) { protect(entry.second, PROT_READ | PROT_WRITE); }
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    if (fault_exit != nullptr) {
        (void)fprintf(stderr, "mock library: an access to %p, where there is no memory\n", info->si_addr);
        siglongjmp(*fault_exit, 1);
    }
    const uintptr_t at = uintptr_t(info->si_addr);
    for (const Context &c : state().contexts) { // without the lock: this process ends here
        for (const auto &entry : c.device_memory) {
            if (at >= entry.second.map && at < entry.second.map + entry.second.map_bytes) {
                (void)fprintf(stderr, "mock library: the program itself touches device memory at %p\n", info->si_addr);
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
static void catch_faults()
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
static void do_work(const Task &task)
{
    sigjmp_buf here;
    fault_exit = &here;
    if (sigsetjmp(here, 1) == 0) {
        task.work();
        fault_exit = nullptr;
        return;
    }
    fault_exit = nullptr;
    mock_fault(CUDA_ERROR_ILLEGAL_ADDRESS, "%s: illegal address", task.name);
}

static void delay(State &s)
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
        if (runs && task.work) {
            note_power(s.shown[stream->context->device], task.name);
            do_work(task);
        }
        lock.lock();
        if (task.mark != nullptr) {
            // Clocks that are read with errors: of events one after the other the first is late, the second early.
            const int64_t error_ns = int64_t(s.clock_error_ns) * (s.events_passed++ % 2 == 0 ? 1 : -1);
            task.mark->when = steady_clock::now() + std::chrono::nanoseconds(error_ns);
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
    if (stream->capture != nullptr) { return capture(stream, std::move(task), nullptr); }
    catch_faults();
    show(stream->context);
    stream->tasks.push_back(std::move(task));
    s.changed.notify_all();
    return CUDA_SUCCESS;
}
} // namespace mock

using namespace mock;

extern "C" {

void mock_complain(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[512];
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)fprintf(stderr, "mock library: %s\n", text);
}

void mock_fault(CUresult code, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char text[512];
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    (void)fprintf(stderr, "mock library: %s\n", text);
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    if (current != nullptr && current->fault == CUDA_SUCCESS) { current->fault = code; }
    s.changed.notify_all();
}

uint64_t mock_random(void)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return next_random(s);
}

void mock_fail_at(const char *call, uint64_t at, CUresult code)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    read_environment(s);
    s.fail_call = call == nullptr ? "" : call;
    s.fail_at = at;
    s.fail_code = code;
}

uint64_t mock_calls(void)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return s.calls;
}

bool mock_is_device(const void *memory, size_t bytes)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return current != nullptr && inside(current->device_memory, uintptr_t(memory), bytes);
}

bool mock_is_known(const void *memory, size_t bytes)
{
    State &s = state();
    const std::lock_guard<std::mutex> lock(s.lock);
    return current != nullptr && (inside(current->device_memory, uintptr_t(memory), bytes) ||
                                  inside(current->host_memory, uintptr_t(memory), bytes));
}

CUresult mock_stream_do(CUstream stream, const char *name, void (*work)(void *), void *context)
{
    Call call("mock_stream_do");
    if (call.failed()) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    return push(call.s, stream, {[=] { work(context); }, nullptr, nullptr, name, false});
}

CUresult mock_stream_work(CUstream stream, const char *name, void (*work)(void *), void *context,
                          void (*release)(void *))
{
    const std::shared_ptr<void> held(context, release);
    Call call("mock_stream_work");
    if (call.failed()) { return call.result; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    return push(call.s, stream, {[=] { work(held.get()); }, nullptr, nullptr, name, true});
}

} // extern "C"
