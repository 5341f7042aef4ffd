// What device_shim.h promises: threads wait for each other, and what would hang or be undefined on a device is found.
#include "tests/cuda/device_shim.h"

#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace
{
char fault[300];
int failures = 0;

void expect(bool holds, const char *what)
{
    if (holds) { return; }
    (void)fprintf(stderr, "not so: %s; last fault: \"%s\"\n", what, fault);
    failures++;
}

struct Args {
    uint32_t *out;
    uint32_t count;
};

// Every thread reads what its neighbour wrote before the barrier.
void turn(const Args args)
{
    __shared__ uint32_t held[1024];
    for (uint32_t round = 0; round < 3; round++) {
        held[threadIdx.x] = 100 * round + threadIdx.x;
        __syncthreads();
        const uint32_t next = held[(threadIdx.x + 1) % blockDim.x];
        __syncthreads();
        args.out[(blockIdx.x * blockDim.x + threadIdx.x) * 3 + round] = next;
    }
}

// As over_warp() of kernels/device.cuh.
void add_warps(const Args args)
{
    uint32_t sum = threadIdx.x;
    for (int step = 16; step > 0; step /= 2) { sum += __shfl_xor_sync(0xffffffffU, sum, step); }
    const uint32_t below = __shfl_up_sync(0xffffffffU, threadIdx.x, 1);
    const uint32_t odd = __ballot_sync(0xffffffffU, threadIdx.x % 2);
    args.out[threadIdx.x] = sum + (below == (threadIdx.x % 32 == 0 ? threadIdx.x : threadIdx.x - 1) ? 0 : 1000000) +
                            (odd == 0xaaaaaaaaU ? 0 : 1000000);
}

void some_do_not_come(const Args args)
{
    if (threadIdx.x < args.count) { __syncthreads(); }
}

void some_leave_early(const Args args)
{
    if (threadIdx.x >= args.count) { return; }
    __syncthreads();
}

void lanes_differ(const Args args)
{
    if (threadIdx.x % 32 < args.count) {
        (void)__shfl_xor_sync(0xffffffffU, threadIdx.x, 1);
    } else {
        (void)__ballot_sync(0xffffffffU, 1);
    }
}

void lanes_do_not_come(const Args args)
{
    if (threadIdx.x % 32 < args.count) { __syncwarp(); }
}

void reads_outside_of_mask(const Args args)
{
    if (threadIdx.x < 16) { args.out[threadIdx.x] = __shfl_sync(0xffffU, threadIdx.x, 20); }
}

void traps(const Args args)
{
    if (threadIdx.x == args.count) { __trap(); }
}

// Without the barrier that it needs: some order of threads shows it.
void forgets_barrier(const Args args)
{
    __shared__ uint32_t held[64];
    held[threadIdx.x] = blockIdx.x + 1;
    args.out[blockIdx.x * blockDim.x + threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

void uses_shared(const Args args)
{
    uint32_t *const shared = static_cast<uint32_t *>(mock_shared_memory());
    args.out[0] = shared[0];
    shared[args.count] = 1;
}

template <void (*kernel)(Args)> void run(uint32_t blocks, uint32_t threads, uint32_t shared_bytes, Args args)
{
    const mock_grid grid = {{blocks, 1, 1}, {threads, 1, 1}, shared_bytes};
    fault[0] = '\0';
    mock_run<const Args, kernel>("kernel", &grid, &args);
}

sigjmp_buf before_access;

void on_signal(int)
{
    siglongjmp(before_access, 1);
}
} // namespace

extern "C" void mock_fault(CUresult, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    (void)vsnprintf(fault, sizeof fault, format, list);
    va_end(list);
}

mock_registration::mock_registration(const mock_kernel &) {}

int main()
{
    static uint32_t out[4 * 1024 * 3];
    run<turn>(4, 1024, 0, {out, 0});
    bool right = fault[0] == '\0';
    for (uint32_t i = 0; i < 4096; i++) {
        for (uint32_t round = 0; round < 3; round++) {
            right = right && out[i * 3 + round] == 100 * round + (i + 1) % 1024;
        }
    }
    expect(right, "threads see what others wrote before a barrier");
    run<add_warps>(1, 96, 0, {out, 0});
    right = fault[0] == '\0';
    for (uint32_t i = 0; i < 96; i++) { right = right && out[i] == 32 * (i / 32 * 32) + 496; }
    expect(right, "shuffles and votes give the warp's values");
    run<some_do_not_come>(2, 64, 0, {out, 64});
    expect(fault[0] == '\0', "a barrier that all reach is none that some miss");
    run<some_do_not_come>(2, 64, 0, {out, 40});
    expect(strstr(fault, "40 wait at a barrier of the block") != nullptr, "a barrier that not all reach is found");
    run<some_leave_early>(1, 64, 0, {out, 63});
    expect(strstr(fault, "1 have ended") != nullptr, "threads that left are missed at a barrier");
    run<turn>(4, 1024, 0, {out, 0});
    expect(fault[0] == '\0', "the next launch is whole again");
    run<lanes_differ>(1, 32, 0, {out, 16});
    expect(strstr(fault, "different barriers") != nullptr, "threads of a warp that do different things are found");
    run<lanes_do_not_come>(1, 64, 0, {out, 31});
    expect(strstr(fault, "62 at one of their warp") != nullptr, "a warp's barrier that not all reach is found");
    run<reads_outside_of_mask>(1, 32, 0, {out, 0});
    expect(strstr(fault, "not in its mask") != nullptr, "a shuffle from outside of its mask is found");
    run<traps>(3, 32, 0, {out, 5});
    expect(strstr(fault, "trapped") != nullptr, "a trap is a failed launch");
    run<forgets_barrier>(4, 64, 0, {out, 0});
    right = true;
    for (uint32_t i = 0; i < 256; i++) { right = right && out[i] == i / 64 + 1; }
    expect(!right, "a forgotten barrier shows");
    run<uses_shared>(1, 1, 64, {out, 15});
    expect(out[0] == 0xffffffffU, "shared memory begins as no number");
    (void)signal(SIGSEGV, on_signal);
    if (sigsetjmp(before_access, 1) == 0) {
        run<uses_shared>(1, 1, 64, {out, 16});
        expect(false, "shared memory ends where it was asked to");
    }
    return failures == 0 ? 0 : 1;
}
