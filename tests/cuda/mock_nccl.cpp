// libnccl.so.2 for ranks of one machine without GPUs: see README.md. Written from nccl.h, the user guide and, for what
// a non-blocking communicator does between calls, from how NCCL 2.28 behaves.
#include "tests/cuda/mock_nccl.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>

using mock::Call;
using mock::Kind;
using mock::Room;

struct ncclComm {
    int rank = 0, size = 0;
    bool blocking = true;
    CUcontext context = nullptr;
    std::unique_ptr<Room> room;
    std::atomic<bool> given_up{false};
    std::atomic<int> state{ncclSuccess}; // ncclGetAsyncError
    bool finalized = false;
    uint64_t calls = 0, splits = 0;
    CUstream stream = nullptr; // of the last call
    std::string id;
    // under the library's lock
    int queued = 0;            // calls that streams have not passed
    int jobs = 0;              // threads that work for it
    ncclComm *child = nullptr; // that is just split from it
};

namespace
{
struct State {
    std::mutex lock;
    std::condition_variable changed;
    std::set<ncclComm *> comms;
    unsigned ids = 0;
};

State &state()
{
    static State *const s = new State; // threads outlive main()
    return *s;
}

// Calls of one thread between ncclGroupStart() and ncclGroupEnd().
struct Queued {
    ncclComm *comm;
    CUstream stream;
    Call call;
};
thread_local int depth = 0;
thread_local std::vector<Queued> group;
thread_local std::vector<ncclComm *> aborted;
thread_local ncclResult_t group_error = ncclSuccess;
char last_error[256] = ""; // of whichever thread, as NCCL has it

ncclResult_t fail(ncclResult_t code, const std::string &why)
{
    {
        static std::mutex lock;
        const std::lock_guard<std::mutex> locked(lock);
        (void)snprintf(last_error, sizeof last_error, "mock library: %s", why.c_str());
    }
    mock_complain("NCCL: %s", why.c_str());
    return code;
}

// "MOCK_NCCL_FAIL=RANK:N:CODE": the how many-th collective of that rank, of all communicators, fails on the device.
bool fails_now(const ncclComm *comm, int &code)
{
    static std::atomic<long> calls{0};
    const char *const text = getenv("MOCK_NCCL_FAIL");
    int rank = 0;
    long number = 0;
    if (text == nullptr || sscanf(text, "%d:%ld:%d", &rank, &number, &code) != 3 || comm->rank != rank) {
        return false;
    }
    return ++calls == number;
}

ncclResult_t find(ncclComm *comm, const char *what)
{
    const std::lock_guard<std::mutex> lock(state().lock);
    if (comm == nullptr || state().comms.count(comm) == 0) {
        return fail(ncclInvalidArgument, std::string(what) + ": no communicator");
    }
    return ncclSuccess;
}

// As ncclCommEnsureReady().
ncclResult_t ready(ncclComm *comm, const char *what)
{
    const ncclResult_t found = find(comm, what);
    if (found != ncclSuccess) { return found; }
    const int now = comm->state;
    if (now == ncclInProgress) {
        return fail(ncclInvalidArgument, std::string(what) + ": the call before has not come to its end: poll "
                                                             "ncclCommGetAsyncError");
    }
    if (comm->finalized) { return fail(ncclInvalidArgument, std::string(what) + ": was finalized"); }
    return ncclResult_t(now);
}

// Work of a communicator: in a thread if it does not block, else here.
template <class Work> ncclResult_t work_for(ncclComm *comm, ncclComm *shown, Work work)
{
    State &s = state();
    if (comm->blocking) { return work(); }
    shown->state = ncclInProgress;
    {
        const std::lock_guard<std::mutex> lock(s.lock);
        comm->jobs++;
        if (shown != comm) { shown->jobs++; }
    }
    std::thread([=, &s] {
        (void)cuCtxSetCurrent(comm->context);
        std::this_thread::sleep_for(std::chrono::microseconds(mock_random() % 2000));
        const ncclResult_t result = work();
        const std::lock_guard<std::mutex> lock(s.lock);
        int before = ncclInProgress; // an error of the device is kept
        (void)shown->state.compare_exchange_strong(before, int(result));
        comm->jobs--;
        if (shown != comm) { shown->jobs--; }
        s.changed.notify_all();
    }).detach();
    return ncclInProgress;
}

ncclResult_t check_config(const ncclConfig_t *config, ncclComm *comm)
{
    if (config == nullptr) { return ncclSuccess; }
    if (config->magic != 0xcafebeef || config->size < sizeof(size_t) + 8) {
        return fail(ncclInvalidArgument, "config was not initialised by NCCL_CONFIG_INITIALIZER");
    }
    const bool bad_blocking =
        config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1;
    const bool bad_ctas = (config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->minCTAs <= 0) ||
                          (config->maxCTAs != NCCL_CONFIG_UNDEF_INT && config->maxCTAs <= 0) ||
                          config->minCTAs > config->maxCTAs;
    // undefined is the least int: minCTAs alone above an undefined maxCTAs is refused by NCCL, too
    const bool undefined = config->maxCTAs == NCCL_CONFIG_UNDEF_INT && config->minCTAs == NCCL_CONFIG_UNDEF_INT;
    if (bad_blocking || (bad_ctas && !undefined)) { return fail(ncclInvalidArgument, "config: blocking or CTAs"); }
    if (config->blocking != NCCL_CONFIG_UNDEF_INT) { comm->blocking = config->blocking == 1; }
    return ncclSuccess;
}

void put_device(Room &room)
{
    CUdevice device = 0;
    CUuuid uuid = {};
    (void)cuCtxGetDevice(&device);
    (void)cuDeviceGetUuid(&uuid, device);
    memcpy(room.own().uuid, uuid.bytes, sizeof uuid.bytes);
}

// "MOCK_NCCL_VERSION=23007": 2.30.7
int version()
{
    const char *const text = getenv("MOCK_NCCL_VERSION");
    return text != nullptr ? atoi(text) : NCCL_VERSION_CODE;
}

bool setting(const char *name, const char *value)
{
    const char *const text = getenv(name);
    return text != nullptr && strcmp(text, value) == 0;
}

// Several ranks on one device, which NCCL can since 2.30. Without the other two settings the real one may hang.
ncclResult_t sharing()
{
    if (version() < NCCL_VERSION(2, 30, 0) || !setting("NCCL_MULTI_RANK_GPU_ENABLE", "1")) { return ncclInvalidUsage; }
    if (setting("NCCL_MAX_CTAS", "1") && setting("NCCL_NVLS_ENABLE", "0")) { return ncclSuccess; }
    return fail(ncclInvalidUsage, "ranks share a device without NCCL_MAX_CTAS=1 and NCCL_NVLS_ENABLE=0");
}

ncclResult_t enter(ncclComm *comm)
{
    put_device(*comm->room);
    if (!comm->room->enter(comm->given_up) || comm->room->meet(comm->given_up, true) != 0) { return ncclInternalError; }
    for (int b = 1; b < comm->size; b++) {
        for (int a = 0; a < b; a++) {
            if (memcmp(comm->room->slot(a).uuid, comm->room->slot(b).uuid, 16) == 0 && sharing() != ncclSuccess) {
                return fail(ncclInvalidUsage, "Duplicate GPU detected : rank " + std::to_string(a) + " and rank " +
                                                  std::to_string(b) + " both on one CUDA device");
            }
        }
    }
    return ncclSuccess;
}

ncclComm *make(int rank, int size)
{
    ncclComm *const comm = new ncclComm;
    comm->rank = rank;
    comm->size = size;
    (void)cuCtxGetCurrent(&comm->context);
    const std::lock_guard<std::mutex> lock(state().lock);
    state().comms.insert(comm);
    return comm;
}

void drop(ncclComm *comm)
{
    const std::lock_guard<std::mutex> lock(state().lock);
    state().comms.erase(comm);
    delete comm;
}

struct Fused {
    ncclComm *comm;
    std::vector<Call> calls;
};

// In the stream's thread.
void run_fused(void *context)
{
    const std::unique_ptr<Fused> fused(static_cast<Fused *>(context));
    ncclComm *const comm = fused->comm;
    bool runs = true;
    for (const Call &call : fused->calls) {
        int code = 0;
        if (runs && fails_now(comm, code)) {
            comm->state = code;
            while (!comm->given_up) { std::this_thread::sleep_for(std::chrono::milliseconds(1)); } // as kernels do
        }
        runs = runs && !comm->given_up && mock::run_call(*comm->room, call, comm->given_up);
    }
    const std::lock_guard<std::mutex> lock(state().lock);
    comm->queued--;
    state().changed.notify_all();
}

// The calls of one communicator in a group: one kernel.
ncclResult_t launch(ncclComm *comm, CUstream stream, std::vector<Call> calls)
{
    State &s = state();
    {
        const std::lock_guard<std::mutex> lock(s.lock);
        if (comm->stream != nullptr && comm->stream != stream && comm->queued > 0) {
            return fail(ncclInvalidUsage,
                        "a communicator is used in a stream while its calls in another are under way");
        }
        comm->stream = stream;
        comm->queued++;
    }
    for (Call &call : calls) {
        call.number = comm->calls++;
        call.grouped = calls.size();
    }
    const CUresult queued =
        mock_stream_do(stream, "a collective of NCCL", run_fused, new Fused{comm, std::move(calls)});
    if (queued == CUDA_SUCCESS) { return ncclSuccess; }
    const std::lock_guard<std::mutex> lock(s.lock);
    comm->queued--;
    return fail(ncclUnhandledCudaError, "cannot launch: CUDA error " + std::to_string(int(queued)));
}

void wait_for_aborted(const std::vector<ncclComm *> &comms)
{
    State &s = state();
    std::unique_lock<std::mutex> lock(s.lock);
    for (ncclComm *comm : comms) {
        s.changed.wait(lock, [=] { return comm->queued == 0 && comm->jobs == 0; });
        s.comms.erase(comm);
        delete comm;
    }
}

ncclResult_t end_group(ncclSimInfo_t *info)
{
    if (depth == 0) { return fail(ncclInvalidUsage, "ncclGroupEnd: not in a group call"); }
    if (--depth > 0) { return ncclSuccess; }
    std::vector<Queued> calls;
    calls.swap(group);
    const std::vector<ncclComm *> ended = std::move(aborted);
    aborted.clear();
    ncclResult_t result = group_error;
    group_error = ncclSuccess;
    wait_for_aborted(ended);
    if (info != nullptr && info->magic != 0x74685283) {
        return fail(ncclInvalidArgument, "ncclSimInfo_t was not initialised by NCCL_SIM_INFO_INITIALIZER");
    }
    if (result != ncclSuccess || calls.empty()) { return result; }
    std::vector<ncclComm *> comms;
    for (const Queued &q : calls) {
        if (q.comm->blocking != calls[0].comm->blocking) {
            return fail(ncclInvalidArgument,
                        "Blocking and nonblocking communicators are not allowed in the same group");
        }
        bool known = false;
        for (const ncclComm *c : comms) { known = known || c == q.comm; }
        if (!known) { comms.push_back(q.comm); }
    }
    for (ncclComm *comm : comms) {
        std::vector<Call> own;
        CUstream stream = nullptr;
        for (const Queued &q : calls) {
            if (q.comm != comm) { continue; }
            if (!own.empty() && q.stream != stream) {
                return fail(ncclInvalidUsage, "calls of one communicator in a group go to several streams");
            }
            stream = q.stream;
            own.push_back(q.call);
        }
        result = work_for(comm, comm, [=] { return launch(comm, stream, own); });
        if (result != ncclSuccess && result != ncclInProgress) { return result; }
    }
    return result;
}

ncclResult_t enqueue(ncclComm *comm, CUstream stream, const Call &call, const char *what)
{
    ncclResult_t result = ready(comm, what);
    CUcontext current = nullptr;
    (void)cuCtxGetCurrent(&current);
    if (result == ncclSuccess && current != comm->context) {
        result = fail(ncclInvalidUsage, std::string(what) + ": the thread's context is not the communicator's device");
    }
    if (result == ncclSuccess && (call.root < 0 || call.root >= comm->size)) {
        result = fail(ncclInvalidArgument, std::string(what) + ": invalid root");
    }
    if (result == ncclSuccess && (call.type < 0 || call.type >= ncclNumTypes || call.type >= ncclFloat8e4m3)) {
        result = fail(ncclInvalidArgument, std::string(what) + ": invalid type");
    }
    if (result == ncclSuccess && call.op != ncclSum && call.op != ncclMax) {
        result = fail(ncclInvalidArgument, std::string(what) + ": operation is not of the mock library");
    }
    const bool writes = call.kind != Kind::reduce || (result == ncclSuccess && comm->rank == call.root);
    if (result == ncclSuccess && (call.send == nullptr || (writes && call.receive == nullptr))) {
        result = fail(ncclInvalidArgument, std::string(what) + ": a buffer is NULL");
    }
    depth++;
    if (result == ncclSuccess) {
        group.push_back({comm, stream, call});
    } else if (group_error == ncclSuccess) {
        group_error = result;
    }
    const ncclResult_t ended = end_group(nullptr);
    return result != ncclSuccess ? result : ended;
}
} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    *version = ::version();
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t code)
{
    switch (code) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
    case ncclSystemError: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
    case ncclInternalError: return "internal error - please report this issue to the NCCL developers";
    case ncclInvalidArgument: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
    case ncclInvalidUsage: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
    default: return "unknown result code";
    }
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    unsigned number = 0;
    {
        const std::lock_guard<std::mutex> lock(state().lock);
        number = ++state().ids;
    }
    memset(id, 0, sizeof *id);
    (void)snprintf(id->internal, sizeof id->internal, "/mock-nccl-%ld-%u-%llx", long(getpid()), number,
                   static_cast<unsigned long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    CUdevice device = 0;
    if (cuCtxGetDevice(&device) != CUDA_SUCCESS) { return fail(ncclUnhandledCudaError, "no current device"); }
    if (out == nullptr || size < 1 || rank < 0 || rank >= size || id.internal[0] != '/') {
        return fail(ncclInvalidArgument, "ncclCommInitRank: rank, ranks or id");
    }
    ncclComm *const comm = make(rank, size);
    const ncclResult_t checked = check_config(config, comm);
    if (checked != ncclSuccess) {
        drop(comm);
        return checked;
    }
    comm->id = std::string(id.internal, strnlen(id.internal, sizeof id.internal));
    *out = comm;
    return work_for(comm, comm, [=] {
        comm->room = std::make_unique<Room>(comm->id, rank, size);
        return enter(comm);
    });
}

// A rank without a group in a non-blocking split is an error of NCCL 2.28, which has no communicator to show it in.
ncclResult_t ncclCommSplit(ncclComm_t parent, int colour, int key, ncclComm_t *out, ncclConfig_t *config)
{
    const ncclResult_t found = ready(parent, "ncclCommSplit");
    if (found != ncclSuccess) { return found; }
    if (colour < 0 && (colour != NCCL_SPLIT_NOCOLOR || !parent->blocking)) {
        return fail(ncclInvalidArgument, "ncclCommSplit: colour");
    }
    *out = nullptr;
    ncclComm *const child = make(0, 0);
    child->blocking = parent->blocking;
    ncclResult_t result = check_config(config, child);
    if (result == ncclSuccess && child->blocking != parent->blocking) {
        result = fail(ncclInvalidUsage,
                      "ncclCommSplit: a communicator that blocks cannot be polled for by one that does not");
    }
    {
        const std::lock_guard<std::mutex> lock(state().lock);
        if (result == ncclSuccess && parent->queued > 0) {
            result = fail(ncclInvalidUsage, "ncclCommSplit: calls of the communicator are under way");
        }
        if (result == ncclSuccess) { parent->child = child; }
    }
    if (result != ncclSuccess) {
        drop(child);
        return result;
    }
    return work_for(parent, child, [=] {
        Room &room = *parent->room;
        const uint64_t number = parent->splits++;
        room.own().colour = colour;
        room.own().key = key;
        ncclResult_t made = ncclInternalError;
        if (room.meet(parent->given_up, true) == 0) {
            for (int r = 0; r < room.size; r++) {
                if (room.slot(r).colour != colour) { continue; }
                child->size++;
                if (room.slot(r).key < key || (room.slot(r).key == key && r < room.rank)) { child->rank++; }
            }
            if (room.meet(parent->given_up, true) == 0) {
                child->id = parent->id + "-" + std::to_string(number) + "-" + std::to_string(colour);
                child->room = std::make_unique<Room>(child->id, child->rank, child->size);
                made = enter(child);
            }
        }
        const std::lock_guard<std::mutex> lock(state().lock);
        parent->child = nullptr;
        if (colour >= 0) { __atomic_store_n(out, child, __ATOMIC_RELEASE); }
        return made;
    });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *out)
{
    const ncclResult_t found = find(comm, "ncclCommGetAsyncError");
    if (found == ncclSuccess) { *out = ncclResult_t(comm->state.load()); }
    return found;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    const ncclResult_t found = ready(comm, "ncclCommFinalize");
    if (found != ncclSuccess) { return found; }
    comm->finalized = true;
    return work_for(comm, comm, [=] {
        State &s = state();
        std::unique_lock<std::mutex> lock(s.lock);
        s.changed.wait(lock, [=] { return comm->queued == 0 || comm->given_up; });
        return ncclSuccess;
    });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    const ncclResult_t found = find(comm, "ncclCommDestroy");
    if (found != ncclSuccess) { return found; }
    if (comm->state == ncclInProgress) { return fail(ncclInvalidArgument, "ncclCommDestroy: a call is in progress"); }
    wait_for_aborted({comm});
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    const ncclResult_t found = find(comm, "ncclCommAbort");
    if (found != ncclSuccess) { return found; }
    comm->given_up = true;
    {
        const std::lock_guard<std::mutex> lock(state().lock);
        if (comm->child != nullptr) { comm->child->given_up = true; }
    }
    if (depth > 0) {
        aborted.push_back(comm);
    } else {
        wait_for_aborted({comm});
    }
    return ncclSuccess;
}

ncclResult_t ncclGroupStart()
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    return end_group(nullptr);
}

ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t *info)
{
    return end_group(info);
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream, {Kind::all_reduce, type, op, 0, count, 0, 0, send, receive}, "ncclAllReduce");
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream, {Kind::reduce_scatter, type, op, 0, count, 0, 0, send, receive}, "ncclReduceScatter");
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return enqueue(comm, stream, {Kind::all_gather, type, ncclSum, 0, count, 0, 0, send, receive}, "ncclAllGather");
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream, {Kind::broadcast, type, ncclSum, root, count, 0, 0, send, receive}, "ncclBroadcast");
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(comm, stream, {Kind::reduce, type, op, root, count, 0, 0, send, receive}, "ncclReduce");
}
}
