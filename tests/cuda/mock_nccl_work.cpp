// What kernels of NCCL do, through shared memory, slice by slice.
#include "tests/cuda/mock_nccl.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace mock
{
using std::chrono::steady_clock;

static double patience_s()
{
    const char *const text = getenv("MOCK_NCCL_TIMEOUT");
    return text != nullptr ? strtod(text, nullptr) : 20.0;
}

Room::Room(const std::string &wanted, int own_rank, int ranks) : name(wanted), rank(own_rank), size(ranks)
{
    bytes = sizeof(Slot) * size_t(size);
    const int fd = shm_open(name.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, off_t(bytes)) != 0) {
        mock_complain("NCCL: %s: no shared memory", name.c_str());
        abort();
    }
    void *const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (map == MAP_FAILED) { abort(); }
    slots = static_cast<Slot *>(map); // zeros, which is what the counters begin with
}

Room::~Room()
{
    (void)munmap(slots, bytes);
}

static void nap(int turn)
{
    if (turn < 50) {
        std::this_thread::yield();
    } else {
        std::this_thread::sleep_for(std::chrono::microseconds(turn < 500 ? 30 : 200));
    }
}

bool Room::enter(const std::atomic<bool> &given_up)
{
    own().here = 1;
    for (int r = 0; r < size; r++) {
        for (int turn = 0; slot(r).here == 0; turn++) {
            if (given_up) {
                (void)shm_unlink(name.c_str());
                return false;
            }
            nap(turn);
        }
    }
    (void)shm_unlink(name.c_str()); // all have it
    return true;
}

int Room::meet(const std::atomic<bool> &given_up, bool patient)
{
    const uint64_t step = ++own().step;
    const double most_s = patience_s();
    const auto begin = steady_clock::now();
    for (int r = 0; r < size; r++) {
        for (int turn = 0; slot(r).step < step; turn++) {
            if (given_up) { return -1; }
            if (!patient && turn % 64 == 63 &&
                std::chrono::duration<double>(steady_clock::now() - begin).count() > most_s) {
                return 1 + r;
            }
            nap(turn);
        }
    }
    return 0;
}

size_t type_bytes(int type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
    }
}

// Floating-point types as numbers. Sums of 16 bits are rounded at every rank, to nearest even.
static float half_to_float(uint16_t h)
{
    const int exponent = (h >> 10) & 31, fraction = h & 1023;
    const float sign = (h & 0x8000) != 0 ? -1.0F : 1.0F;
    if (exponent == 31) { return fraction != 0 ? __builtin_nanf("") : sign * __builtin_inff(); }
    if (exponent == 0) { return sign * __builtin_ldexpf(float(fraction), -24); }
    return sign * __builtin_ldexpf(float(1024 + fraction), exponent - 25);
}

static uint16_t float_to_half(float f)
{
    const uint16_t sign = __builtin_signbit(f) ? 0x8000 : 0;
    const float size = __builtin_fabsf(f);
    if (size != size) { return 0x7e00; }
    if (size >= 65520.0F) { return uint16_t(sign | 0x7c00); }
    if (size < 6.103515625e-05F) { return uint16_t(sign | int(__builtin_rintf(size * 16777216.0F))); }
    int exponent = 0;
    const float mantissa = __builtin_frexpf(size, &exponent); // [0.5, 1)
    return uint16_t(sign + ((exponent + 14) << 10) + int(__builtin_rintf(mantissa * 2048.0F)) - 1024);
}

static float bf16_to_float(uint16_t h)
{
    const uint32_t bits = uint32_t(h) << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t float_to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (f != f) { return 0x7fc0; }
    return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

template <class T> static void reduce_as(int op, void *into, const void *other, size_t count)
{
    T *const a = static_cast<T *>(into);
    const T *const b = static_cast<const T *>(other);
    for (size_t i = 0; i < count; i++) { a[i] = op == ncclSum ? T(a[i] + b[i]) : a[i] > b[i] ? a[i] : b[i]; }
}

static void reduce_16(int type, int op, void *into, const void *other, size_t count)
{
    uint16_t *const a = static_cast<uint16_t *>(into);
    const uint16_t *const b = static_cast<const uint16_t *>(other);
    const bool half = type == ncclFloat16;
    for (size_t i = 0; i < count; i++) {
        const float x = half ? half_to_float(a[i]) : bf16_to_float(a[i]);
        const float y = half ? half_to_float(b[i]) : bf16_to_float(b[i]);
        const float z = op == ncclSum ? x + y : x > y ? x : y;
        a[i] = half ? float_to_half(z) : float_to_bf16(z);
    }
}

static void reduce(int type, int op, void *into, const void *other, size_t count)
{
    switch (type) {
    case ncclFloat64: reduce_as<double>(op, into, other, count); break;
    case ncclFloat32: reduce_as<float>(op, into, other, count); break;
    case ncclInt32: reduce_as<int32_t>(op, into, other, count); break;
    case ncclUint32: reduce_as<uint32_t>(op, into, other, count); break;
    case ncclInt64: reduce_as<int64_t>(op, into, other, count); break;
    case ncclUint64: reduce_as<uint64_t>(op, into, other, count); break;
    case ncclInt8: reduce_as<int8_t>(op, into, other, count); break;
    case ncclUint8: reduce_as<uint8_t>(op, into, other, count); break;
    default: reduce_16(type, op, into, other, count); break;
    }
}

static const char *name_of(Kind kind)
{
    static const char *const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce"};
    return names[int(kind)];
}

// A fault of the device: the program sees it at its next call.
static bool wrong(const Room &room, const Call &call, const char *why)
{
    mock_fault(CUDA_ERROR_LAUNCH_FAILED, "NCCL: %s #%llu of %llu elements, rank %d of %d: %s", name_of(call.kind),
               static_cast<unsigned long long>(call.number), static_cast<unsigned long long>(call.count), room.rank,
               room.size, why);
    return false;
}

static bool meet(Room &room, const Call &call, const std::atomic<bool> &given_up)
{
    const int met = room.meet(given_up, false);
    if (met <= 0) { return met == 0; }
    const std::string why = "rank " + std::to_string(met - 1) +
                            " did not come: it is gone, or calls of several communicators are in another order there";
    return wrong(room, call, why.c_str());
}

static bool same(const Call &a, const Call &b)
{
    return a.kind == b.kind && a.type == b.type && a.op == b.op && a.root == b.root && a.count == b.count &&
           a.number == b.number && a.grouped == b.grouped;
}

// Memory as it is now, when the kernel runs.
static bool check_memory(const Room &room, const Call &call)
{
    const bool many_in = call.kind == Kind::reduce_scatter, many_out = call.kind == Kind::all_gather;
    const size_t bytes = call.count * type_bytes(call.type), n = size_t(room.size), r = size_t(room.rank);
    const bool reads = call.kind != Kind::broadcast || room.rank == call.root;
    const bool writes = call.kind != Kind::reduce || room.rank == call.root;
    const size_t in_bytes = many_in ? n * bytes : bytes, out_bytes = many_out ? n * bytes : bytes;
    if (reads && !mock_is_device(call.send, in_bytes)) { return wrong(room, call, "sendbuff is no device memory"); }
    if (writes && !mock_is_device(call.receive, out_bytes)) {
        return wrong(room, call, "recvbuff is no device memory");
    }
    const char *const in = static_cast<const char *>(call.send), *const out = static_cast<char *>(call.receive);
    if (!reads || !writes || in + in_bytes <= out || out + out_bytes <= in) { return true; }
    const bool in_place = many_in ? out == in + r * bytes : many_out ? in == out + r * bytes : in == out;
    return in_place || wrong(room, call, "buffers overlap and are not in place");
}

static bool begin(Room &room, const Call &call, const std::atomic<bool> &given_up)
{
    room.own().call = call;
    if (!check_memory(room, call) || !meet(room, call, given_up)) { return false; }
    for (int r = 0; r < room.size; r++) {
        if (!same(room.slot(r).call, call)) {
            const std::string why = "rank " + std::to_string(r) + " calls " + name_of(room.slot(r).call.kind) +
                                    " with other type, count, operation or root, or in another group";
            return wrong(room, call, why.c_str());
        }
    }
    return meet(room, call, given_up); // nobody overwrites what others still compare
}

// The part of call number `turn`: those of all ranks in turn for scatters and gathers, else one.
struct Turn {
    bool sends, receives;
    const char *from;
    char *to;
};

static Turn turn_of(const Room &room, const Call &call, int turn)
{
    const size_t bytes = call.count * type_bytes(call.type);
    const char *const in = static_cast<const char *>(call.send);
    char *const out = static_cast<char *>(call.receive);
    switch (call.kind) {
    case Kind::all_reduce: return {true, true, in, out};
    case Kind::reduce_scatter: return {true, turn == room.rank, in + size_t(turn) * bytes, out};
    case Kind::all_gather: return {turn == room.rank, true, in, out + size_t(turn) * bytes};
    case Kind::broadcast: return {room.rank == call.root, true, in, out};
    default: return {true, room.rank == call.root, in, out};
    }
}

static void receive(const Room &room, const Call &call, int turn, void *to, size_t count)
{
    const size_t bytes = count * type_bytes(call.type);
    if (call.kind == Kind::all_gather || call.kind == Kind::broadcast) {
        memcpy(to, room.slot(call.kind == Kind::broadcast ? call.root : turn).data, bytes);
        return;
    }
    std::vector<unsigned char> sum(bytes); // in the order of a ring that ends here
    memcpy(sum.data(), room.slot((turn + 1) % room.size).data, bytes);
    for (int step = 2; step <= room.size; step++) {
        reduce(call.type, call.op, sum.data(), room.slot((turn + step) % room.size).data, count);
    }
    memcpy(to, sum.data(), bytes);
}

bool run_call(Room &room, Call call, const std::atomic<bool> &given_up)
{
    const size_t element = type_bytes(call.type), most = slice_bytes / element;
    const bool in_turns = call.kind == Kind::reduce_scatter || call.kind == Kind::all_gather;
    if (!begin(room, call, given_up)) { return false; }
    for (int turn = 0; turn < (in_turns ? room.size : 1); turn++) {
        const Turn part = turn_of(room, call, turn);
        for (size_t at = 0; at < call.count; at += most) {
            const size_t count = call.count - at < most ? call.count - at : most;
            if (part.sends) { memcpy(room.own().data, part.from + at * element, count * element); }
            if (!meet(room, call, given_up)) { return false; }
            if (part.receives) { receive(room, call, turn, part.to + at * element, count); }
            if (!meet(room, call, given_up)) { return false; }
        }
    }
    return true;
}
} // namespace mock
