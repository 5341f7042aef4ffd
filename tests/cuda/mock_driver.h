/** @file mock_driver.h  Shared by the files of the mock library for the driver. */
#ifndef REDCO_TESTS_MOCK_DRIVER_H
#define REDCO_TESTS_MOCK_DRIVER_H

#include "tests/cuda/mock.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <sys/types.h>
#include <unistd.h>
#include <vector>

namespace mock
{
using std::chrono::steady_clock;

constexpr int most_devices = 16;

struct Record { // one cuEventRecord()
    bool done = false;
    steady_clock::time_point when;
};

struct Context;

struct Task {
    std::function<void()> work;         // NULL: only waits or records
    std::shared_ptr<Record> wait, mark; // before; after
    const char *name = "work";
    bool repeats = true; // work may be done several times
};

struct Node { // of a graph
    Task task;
    CUevent event; // NULL, or what is recorded
};

struct Capture {
    std::vector<Node> nodes;
    bool invalid = false;
};

} // namespace mock

struct CUstream_st {
    mock::Context *context = nullptr;
    std::deque<mock::Task> tasks;
    bool busy = false, closing = false;
    int priority = 0;
    std::unique_ptr<mock::Capture> capture; // while it is captured
};

struct CUgraph_st {
    std::vector<mock::Node> nodes;
};

struct CUgraphExec_st {
    std::vector<mock::Node> nodes;
};

struct CUevent_st {
    mock::Context *context = nullptr;
    bool timed = true;
    std::shared_ptr<mock::Record> record;
};

struct CUmod_st {
    mock::Context *context = nullptr;
    bool has_kernels = false;
    std::vector<std::unique_ptr<CUfunc_st>> functions;
};

struct CUfunc_st {
    const mock_kernel *kernel = nullptr;
    CUmodule module = nullptr;
    uint32_t shared_allowed = 48 * 1024;
};

struct CUctx_st {
};

namespace mock
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
    std::set<CUgraph> graphs;
    std::set<CUgraphExec> executables;
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
    uint64_t clock_error_ns = 0, events_passed = 0;
    const void *image = nullptr; // of the module that has all kernels
    Context contexts[most_devices];
    std::deque<Block> quarantine;
    uint64_t calls = 0, fail_at = 0;
    std::map<std::string, uint64_t> counts; // of calls, if they are asked for
    std::string counts_file;
    std::string fail_call;
    CUresult fail_code = CUDA_SUCCESS;
    bool environment_read = false, leaked = false;
};

State &state();
extern thread_local Context *current;

/** Something of that name begins on a device (its number among all of the machine). */
void note_power(int device, const char *name);

/** The environment says it. */
uint64_t number_in(const char *name, uint64_t otherwise);
uint64_t next_random(State &s);
/** Counts a call. @return what it shall fail with */
CUresult injected(State &s, const char *call);

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

bool inside(const std::map<uintptr_t, Block> &blocks, uintptr_t at, size_t bytes);

// Host memory that the driver does not know is taken for the program's own.
enum class Kind { device, pinned, other, none };

Kind kind_of(const Context *c, uintptr_t at, size_t bytes);

/** The end of what was asked for, rounded up to the alignment, is the end of a page: the next one is not there. */
CUresult map_block(size_t bytes, uintptr_t &address, Block &block);
/** Addresses of freed memory are not given again soon: whoever uses them is stopped. */
void quarantine(State &s, const Block &block);
void protect(const Block &block, int access);
/** Takes device memory away from the program while nothing runs, now and then. What it does with it while work is
 *  queued goes unseen. */
void hide(Context *c);

bool has(const Context *c, CUstream stream);
bool idle(CUstream stream);
void stream_thread(CUstream stream);
CUresult push(State &s, CUstream stream, Task task);
/** Keeps a task, or the recording of an event, of a stream that is captured. */
CUresult capture(CUstream stream, Task task, CUevent event);
/** @return whether the call is forbidden, as this thread captures a stream: which is spoilt then. */
bool is_unsafe(const char *call);

// Waits without the context going away below.
template <class Condition> inline CUresult wait_until(Call &call, Condition condition)
{
    Context *const c = current;
    call.s.changed.wait(call.lock, condition);
    hide(c);
    return c->fault;
}
} // namespace mock

/** The power that a device draws; found by libnvidia-ml.so.1 in libcuda.so.1. */
struct mock_watts {
    double energy_j, watts, limit_w, clock_mhz, memory_clock_mhz;
};
mock_watts mock_power(int device);
#endif
