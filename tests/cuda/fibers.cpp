// Threads of a block on one processor: each that waits has a stack of its own, and changing stacks is a few moves of
// registers (the calling conventions' saved ones), without the system.
#include "tests/cuda/device_shim.h"

#include <cstdio>
#include <memory>
#include <sys/mman.h>
#include <vector>

// Saves this stack's registers on it, its pointer in *from, and goes on with the other.
extern "C" void mock_change_stack(void **from, void *to);

#if defined(__x86_64__)
__asm__(".text\n.globl mock_change_stack\n.hidden mock_change_stack\n.type mock_change_stack,@function\n"
        "mock_change_stack:\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".size mock_change_stack, .-mock_change_stack\n");
namespace
{
constexpr size_t saved_words = 7, start_word = 6; // and the address to return to
}
#elif defined(__aarch64__)
__asm__(".text\n.globl mock_change_stack\n.hidden mock_change_stack\n.type mock_change_stack,@function\n"
        "mock_change_stack:\n"
        "sub sp, sp, #160\n"
        "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\nstp x25, x26, [sp, #48]\n"
        "stp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
        "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
        "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
        "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\nldp x25, x26, [sp, #48]\n"
        "ldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
        "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
        "add sp, sp, #160\nret\n"
        ".size mock_change_stack, .-mock_change_stack\n");
namespace
{
constexpr size_t saved_words = 20, start_word = 11;
}
#else
#error "how to change stacks is known for x86-64 and aarch64"
#endif

namespace
{
constexpr size_t page_bytes = 4096, stack_bytes = 128 * 1024, shared_most_bytes = 256 * 1024;

// A run of pages behind one that is not there.
struct Pages {
    char *map = nullptr;
    size_t bytes = 0;

    explicit Pages(size_t wanted, bool guard_behind) : bytes(wanted + page_bytes)
    {
        void *const got =
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got == MAP_FAILED) { abort(); }
        map = static_cast<char *>(got);
        if (mprotect(guard_behind ? map + wanted : map, page_bytes, PROT_NONE) != 0) { abort(); }
    }
    Pages(const Pages &) = delete;
    ~Pages() { (void)munmap(map, bytes); }
};

struct Fiber {
    Pages stack{stack_bytes, false};
    void *at = nullptr; // where it goes on
};

enum class State { fresh, ready, at_block, at_warp, done };

struct Thread {
    State state = State::fresh;
    Fiber *fiber = nullptr; // while it waits
};

struct Warp {
    uint32_t arrived = 0, mask = 0, parity = 0;
    mock_wait kind = MOCK_SYNC;
    uint64_t values[2][32];
};

// What runs in one of the mock library's stream threads.
struct Engine {
    Pages shared{shared_most_bytes, true};
    char *shared_begin = nullptr;
    std::vector<std::unique_ptr<Fiber>> fibers;
    std::vector<Fiber *> idle;
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<uint32_t> ready;
    size_t next = 0;        // of the threads in order, to be begun
    bool backwards = false; // the last thread is the first
    uint32_t running = 0, at_block = 0;
    Fiber *fiber = nullptr; // that runs
    void *scheduler = nullptr;
    const char *failure = nullptr;
    char text[160];
    const mock_grid *grid = nullptr;
    void (*body)(const void *) = nullptr;
    const void *arguments = nullptr;
};

Engine &engine()
{
    static thread_local Engine e;
    return e;
}

void place(Engine &e, uint32_t thread)
{
    e.running = thread;
    threadIdx.x = thread % blockDim.x;
    threadIdx.y = thread / blockDim.x % blockDim.y;
    threadIdx.z = thread / blockDim.x / blockDim.y;
}

// Threads are begun on one stack until one of them has waited on it; what it does then is what it did when it waited.
void fiber_main()
{
    for (;;) {
        Engine &e = engine();
        while (e.next < e.threads.size() && e.failure == nullptr) {
            const uint32_t thread = uint32_t(e.backwards ? e.threads.size() - 1 - e.next : e.next);
            e.next++;
            place(e, thread);
            e.body(e.arguments);
            e.threads[e.running].state = State::done;
        }
        e.idle.push_back(e.fiber);
        mock_change_stack(&e.fiber->at, e.scheduler);
    }
}

Fiber *take_fiber(Engine &e)
{
    if (e.idle.empty()) {
        e.fibers.push_back(std::make_unique<Fiber>());
        Fiber *const f = e.fibers.back().get();
        void **const top = reinterpret_cast<void **>(f->stack.map + f->stack.bytes);
        // Aligned as behind a call: 8 bytes off 16 where a call pushes its return address.
        void **const saved = top - saved_words - (saved_words % 2 == 0 ? 2 : 1);
        saved[start_word] = reinterpret_cast<void *>(&fiber_main);
        f->at = saved;
        return f;
    }
    Fiber *const f = e.idle.back();
    e.idle.pop_back();
    return f;
}

void leave(Engine &e)
{
    Thread &self = e.threads[e.running];
    self.fiber = e.fiber;
    mock_change_stack(&e.fiber->at, e.scheduler);
}

void go_on(Engine &e, Fiber *fiber)
{
    e.fiber = fiber;
    mock_change_stack(&e.scheduler, fiber->at);
}

void wake(Engine &e, uint32_t thread)
{
    e.threads[thread].state = State::ready;
    e.ready.push_back(thread);
}

void say_stuck(Engine &e)
{
    size_t done = 0, block = 0, warp = 0;
    for (const Thread &t : e.threads) {
        done += t.state == State::done ? 1 : 0;
        block += t.state == State::at_block ? 1 : 0;
        warp += t.state == State::at_warp ? 1 : 0;
    }
    (void)snprintf(e.text, sizeof e.text,
                   "of %zu threads %zu wait at a barrier of the block and %zu at one of their warp, %zu have ended",
                   e.threads.size(), block, warp, done);
    e.failure = e.text;
}

void run_block(Engine &e)
{
    const size_t count = size_t(blockDim.x) * blockDim.y * blockDim.z;
    e.threads.assign(count, Thread());
    e.warps.assign((count + 31) / 32, Warp());
    e.ready.clear();
    e.next = 0;
    e.at_block = 0;
    e.backwards = !e.backwards;
    memset(e.shared_begin, 0xFF, e.grid->shared_bytes);
    while (e.failure == nullptr) {
        if (!e.ready.empty()) {
            const size_t pick = e.backwards ? e.ready.size() - 1 : 0;
            const uint32_t thread = e.ready[pick];
            e.ready.erase(e.ready.begin() + std::ptrdiff_t(pick));
            place(e, thread);
            go_on(e, e.threads[thread].fiber);
        } else if (e.next < count) {
            go_on(e, take_fiber(e));
        } else {
            size_t done = 0;
            for (const Thread &t : e.threads) { done += t.state == State::done ? 1 : 0; }
            if (done == count) { return; }
            say_stuck(e);
        }
    }
    // Stacks that were left in the middle are not used again.
    e.idle.clear();
    e.fibers.clear();
}
} // namespace

void *mock_shared_memory()
{
    return engine().shared_begin;
}

void mock_give_up(const char *why)
{
    Engine &e = engine();
    e.failure = why;
    for (;;) { leave(e); }
}

void mock_block_wait()
{
    Engine &e = engine();
    e.threads[e.running].state = State::at_block;
    if (++e.at_block == e.threads.size()) {
        e.at_block = 0;
        for (uint32_t i = 0; i < e.threads.size(); i++) { wake(e, i); }
    }
    leave(e);
}

const uint64_t *mock_warp_wait(uint32_t mask, mock_wait kind, uint64_t value)
{
    Engine &e = engine();
    const uint32_t lane = e.running % 32, first = e.running - lane;
    Warp &w = e.warps[first / 32];
    const uint32_t parity = w.parity;
    const size_t room = e.threads.size() - first;
    const uint32_t existing = room >= 32 ? 0xffffffffU : (1U << room) - 1;
    if (((mask >> lane) & 1) == 0) { mock_give_up("a thread is not in the mask of its own warp's barrier"); }
    if ((mask & ~existing) != 0) { mock_give_up("a warp's barrier waits for threads that the block does not have"); }
    if (w.arrived != 0 && (w.mask != mask || w.kind != kind)) {
        mock_give_up("threads of a warp are at different barriers");
    }
    w.mask = mask;
    w.kind = kind;
    w.arrived |= 1U << lane;
    w.values[parity][lane] = value;
    e.threads[e.running].state = State::at_warp;
    if (w.arrived == mask) {
        w.arrived = 0;
        w.parity ^= 1; // who is first at the next barrier leaves these values to the others
        for (uint32_t i = 0; i < 32; i++) {
            if (((mask >> i) & 1) != 0) { wake(e, first + i); }
        }
    }
    leave(e);
    return w.values[parity];
}

bool mock_run_blocks(const char *name, const mock_grid *grid, void (*thread)(const void *), const void *arguments)
{
    Engine &e = engine();
    const size_t shared = (grid->shared_bytes + 15) / 16 * 16;
    if (shared > shared_most_bytes) {
        mock_fault(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "%s: %u bytes of shared memory", name, grid->shared_bytes);
        return false;
    }
    e.shared_begin = e.shared.map + shared_most_bytes - shared;
    e.grid = grid;
    e.body = thread;
    e.arguments = arguments;
    e.failure = nullptr;
    e.backwards = true; // the first block begins with its first thread
    gridDim = {grid->blocks[0], grid->blocks[1], grid->blocks[2]};
    blockDim = {grid->threads[0], grid->threads[1], grid->threads[2]};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) {
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                run_block(e);
                if (e.failure == nullptr) { continue; }
                mock_fault(CUDA_ERROR_LAUNCH_FAILED, "%s, block (%u, %u, %u): %s", name, blockIdx.x, blockIdx.y,
                           blockIdx.z, e.failure);
                return false;
            }
        }
    }
    return true;
}
