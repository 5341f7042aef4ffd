// libcuda.so.1 for machines without a GPU: streams that are captured, graphs of what they held, and their launches. A
// capture is of one stream: what is queued there is kept in order. Stricter than the driver: a capturing thread makes
// no call that allocates, frees or waits, and copies nothing of the program's own memory.
#include "tests/cuda/mock_driver.h"

using namespace mock;

namespace mock
{
namespace
{
thread_local CUstream capturing = nullptr; // in this thread, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
}

bool is_unsafe(const char *call)
{
    if (capturing == nullptr) { return false; }
    mock_complain("%s in a thread that captures a stream", call);
    capturing->capture->invalid = true;
    return true;
}

CUresult capture(CUstream stream, Task task, CUevent event)
{
    Capture &c = *stream->capture;
    if (capturing != stream) {
        mock_complain("%s on a stream that another thread captures", task.name);
        c.invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    }
    if (task.wait != nullptr || !task.repeats) {
        mock_complain("%s cannot be captured here", task.name);
        c.invalid = true;
    }
    if (c.invalid) { return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; }
    c.nodes.push_back({std::move(task), event});
    return CUDA_SUCCESS;
}
} // namespace mock

extern "C" {

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    Call call("cuStreamBeginCapture_v2");
    if (call.failed()) { return call.result; }
    if (mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) { return CUDA_ERROR_INVALID_VALUE; }
    if (!has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    if (stream->capture != nullptr || capturing != nullptr) { return CUDA_ERROR_ILLEGAL_STATE; }
    stream->capture = std::make_unique<Capture>();
    capturing = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    Call call("cuStreamEndCapture");
    *graph = nullptr;
    if (current == nullptr || !has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    if (stream->capture == nullptr) { return CUDA_ERROR_ILLEGAL_STATE; }
    if (capturing != stream) { return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD; }
    const std::unique_ptr<Capture> done = std::move(stream->capture);
    capturing = nullptr;
    if (call.failed()) { return call.result; }
    if (done->invalid) { return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; }
    CUgraph made = new CUgraph_st;
    made->nodes = std::move(done->nodes);
    current->graphs.insert(made);
    *graph = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    Call call("cuGraphInstantiateWithFlags");
    if (call.failed()) { return call.result; }
    if (flags != 0) { return CUDA_ERROR_INVALID_VALUE; }
    if (is_unsafe("cuGraphInstantiate")) { return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; }
    if (current->graphs.count(graph) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    CUgraphExec made = new CUgraphExec_st;
    made->nodes = graph->nodes;
    current->executables.insert(made);
    *exec = made;
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    Call call("cuGraphDestroy");
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    if (current->graphs.erase(graph) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    delete graph;
    return call.result;
}

CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    Call call("cuGraphExecDestroy");
    if (current == nullptr || call.result == CUDA_ERROR_CONTEXT_IS_DESTROYED) { return call.result; }
    if (current->executables.erase(exec) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    delete exec; // what was launched has its own
    return call.result;
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream)
{
    Call call("cuGraphUpload");
    if (call.failed()) { return call.result; }
    if (current->executables.count(exec) == 0 || !has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    Call call("cuGraphLaunch");
    if (call.failed()) { return call.result; }
    if (current->executables.count(exec) == 0 || !has(current, stream)) { return CUDA_ERROR_INVALID_HANDLE; }
    if (stream->capture != nullptr) {
        mock_complain("cuGraphLaunch into a capture is not known here");
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    for (const Node &node : exec->nodes) {
        Task task = node.task;
        if (node.event != nullptr) {
            if (current->events.count(node.event) == 0) {
                mock_complain("cuGraphLaunch: an event of the graph was destroyed");
                return CUDA_ERROR_INVALID_HANDLE;
            }
            node.event->record = task.mark = std::make_shared<Record>();
        }
        (void)push(call.s, stream, std::move(task));
    }
    return CUDA_SUCCESS;
}

CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags)
{
    Call call("cuEventRecordWithFlags");
    if (call.failed()) { return call.result; }
    if (!has(current, stream) || current->events.count(event) == 0) { return CUDA_ERROR_INVALID_HANDLE; }
    if (flags != CU_EVENT_RECORD_EXTERNAL || stream->capture == nullptr) { return CUDA_ERROR_INVALID_VALUE; }
    Task task;
    task.name = "cuEventRecordWithFlags";
    return capture(stream, std::move(task), event);
}

} // extern "C"
