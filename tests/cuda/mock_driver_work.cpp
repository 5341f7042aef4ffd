// libcuda.so.1 for machines without a GPU: streams, events, modules and launches.
#include "tests/cuda/mock_driver.h"

#include <cstring>
#include <thread>

using namespace mock;

// What a fat binary begins with (fatbinary_section.h, fatBinaryHeader).
static constexpr uint32_t fat_magic = 0xBA55ED50;
static constexpr int least_priority = 0, greatest_priority = -5; // an H200's, as the driver tells them

extern "C" {

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
    if (is_unsafe("cuStreamCreateWithPriority")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (flags > CU_STREAM_NON_BLOCKING) { return CUDA_ERROR_INVALID_VALUE; }
    if (priority > least_priority || priority < greatest_priority) {
        mock_complain("cuStreamCreateWithPriority: %d is not from %d to %d", priority, greatest_priority,
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
    if (is_unsafe("cuStreamDestroy")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
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
    if (is_unsafe("cuStreamSynchronize")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    return wait_until(call, [=] { return idle(stream); });
}

CUresult cuStreamQuery(CUstream stream)
{
    Call call("cuStreamQuery");
    if (call.failed()) { return call.result; }
    if (is_unsafe("cuStreamQuery")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
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
    if (stream->capture != nullptr) { // only orders work inside of the capture, which is of one stream here
        (void)is_unsafe("cuEventRecord without CU_EVENT_RECORD_EXTERNAL");
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    event->record = std::make_shared<Record>();
    return push(call.s, stream, {nullptr, nullptr, event->record, "cuEventRecord"});
}

CUresult cuEventQuery(CUevent event)
{
    Call call("cuEventQuery");
    if (call.failed()) { return call.result; }
    if (is_unsafe("cuEventQuery")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (current->events.count(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    return event->record == nullptr || event->record->done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuEventSynchronize(CUevent event)
{
    Call call("cuEventSynchronize");
    if (call.failed()) { return call.result; }
    if (is_unsafe("cuEventSynchronize")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (current->events.count(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    const std::shared_ptr<Record> record = event->record;
    return record == nullptr ? CUDA_SUCCESS : wait_until(call, [=] { return record->done; });
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent from, CUevent to)
{
    Call call("cuEventElapsedTime_v2");
    if (call.failed()) { return call.result; }
    if (is_unsafe("cuEventElapsedTime")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
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
    if (is_unsafe("cuModuleLoadData")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    uint32_t magic = 0;
    memcpy(&magic, image, sizeof magic);
    if (magic != fat_magic) { return CUDA_ERROR_INVALID_IMAGE; }
    CUmodule made = new CUmod_st;
    made->context = current;
    if (call.s.image == nullptr) { call.s.image = image; }
    made->has_kernels = call.s.image == image;
    current->modules.insert(made);
    *module = made;
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module)
{
    Call call("cuModuleUnload");
    if (is_unsafe("cuModuleUnload")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
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
    const mock_kernel *const kernel = module->has_kernels ? mock_kernel_of(name) : nullptr;
    if (kernel == nullptr) { // which compute-sanitizer counts as an error of the program
        mock_complain("cuModuleGetFunction of %s, which the module lacks", name);
        return CUDA_ERROR_NOT_FOUND;
    }
    module->functions.push_back(std::make_unique<CUfunc_st>());
    module->functions.back()->kernel = kernel;
    module->functions.back()->module = module;
    *function = module->functions.back().get();
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
    Call call("cuModuleGetFunctionCount");
    if (call.failed()) { return call.result; }
    if (current->modules.count(module) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    *count = module->has_kernels ? unsigned(mock_kernel_count()) : 0;
    return CUDA_SUCCESS;
}

// Which kernels an image has is not looked at: the first one has all.
CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned count, CUmodule module)
{
    Call call("cuModuleEnumerateFunctions");
    if (call.failed()) { return call.result; }
    if (current->modules.count(module) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    if (functions == nullptr || count == 0 || !module->has_kernels) { return CUDA_ERROR_INVALID_VALUE; }
    for (unsigned i = 0; i < count && i < mock_kernel_count(); i++) {
        module->functions.push_back(std::make_unique<CUfunc_st>());
        module->functions.back()->kernel = mock_kernel_at(i);
        module->functions.back()->module = module;
        functions[i] = module->functions.back().get();
    }
    return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
    Call call("cuFuncGetName");
    if (call.failed()) { return call.result; }
    if (name == nullptr || function == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
    *name = function->kernel->name;
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
        mock_complain("%s: %u x %u x %u blocks of %u x %u x %u threads with %u bytes of shared memory",
                      function->kernel->name, x, y, z, threads_x, threads_y, threads_z, shared_bytes);
        return CUDA_ERROR_INVALID_VALUE;
    }
    const mock_kernel *const kernel = function->kernel;
    const char *const given = static_cast<const char *>(parameters[0]);
    const auto copy = std::make_shared<std::vector<char>>(given, given + kernel->parameter_bytes);
    const mock_grid grid = {{x, y, z}, {threads_x, threads_y, threads_z}, shared_bytes};
    return push(call.s, stream, {[=] { kernel->run(&grid, copy->data()); }, nullptr, nullptr, kernel->name});
}

} // extern "C"
