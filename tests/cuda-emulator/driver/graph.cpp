// Graphs: the operations that a stream captured, launched as a whole.
#include "../runtime/settings.h"
#include "api.h"
#include "device_state.h"
#include "event.h"
#include "module.h"
#include "stream.h"

namespace emulator {

struct Graph {
    Context* context;
    std::vector<Operation> operations;
};

/// A graph that can be launched: a copy, as the driver makes one.
struct ExecutableGraph {
    Context* context;
    std::vector<Operation> operations;
};

std::shared_ptr<Stream> find_stream(Context& context, Stream* handle) {
    // Null, and the handles of the legacy and the per-thread default stream.
    if (reinterpret_cast<uintptr_t>(handle) <= 2) return context.default_stream;
    auto stream = Handles<Stream>::all().find(handle);
    return stream && stream->context == &context ? stream : nullptr;
}

CUresult enqueue(Stream* handle, Context& context, std::function<Outcome()> run) {
    auto stream = find_stream(context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    Operation operation;
    operation.run = std::move(run);
    if (Capture* capture = stream->capture.get()) {
        if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        capture->operations.push_back(std::move(operation));
        return CUDA_SUCCESS;
    }
    if (stream == context.default_stream) {
        // Work on the default stream would wait for the captured work.
        CUresult error = CUDA_SUCCESS;
        std::lock_guard lock(captures_mutex);
        Handles<Stream>::all().remove_if([&](Stream& other) {
            if (other.context != &context || !other.blocking || !other.capture) return false;
            other.capture->invalidated = true;
            error = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            return false;
        });
        if (error) return error;
    }
    enqueue_now(*stream, std::move(operation));
    return CUDA_SUCCESS;
}

CUresult forbid_in_captures(Context& context) {
    CUresult error = CUDA_SUCCESS;
    std::lock_guard lock(captures_mutex);
    Handles<Stream>::all().remove_if([&](Stream& stream) {
        Capture* capture = stream.capture.get();
        if (stream.context != &context || !capture || capture->mode == Capture::RELAXED) return false;
        if (capture->mode == Capture::THREAD_LOCAL && capture->thread != std::this_thread::get_id()) return false;
        capture->invalidated = true;
        error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        return false;
    });
    return error;
}

void retire_all_streams(Context& context) {
    std::vector<std::shared_ptr<Stream>> streams;
    Handles<Stream>::all().remove_if([&](Stream& stream) {
        if (stream.context != &context) return false;
        streams.push_back(stream.shared_from_this());
        return true;
    });
    for (auto& stream : streams) retire_stream(stream);
}

void free_all_objects(Context& context) {
    auto of_context = [&](auto& object) { return object.context == &context; };
    Handles<Graph>::all().remove_if(of_context);
    Handles<ExecutableGraph>::all().remove_if(of_context);
    Handles<Event>::all().remove_if(of_context);
    Handles<Module>::all().remove_if(of_context);
}

}  // namespace emulator

using namespace emulator;

EXPORT CUresult cuStreamBeginCapture_v2(Stream* handle, int mode) {
    WISP_CALL(cuStreamBeginCapture_v2);
    auto stream = find_stream(*call.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (mode < 0 || mode > 2) return CUDA_ERROR_INVALID_VALUE;
    if (stream == call.context->default_stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    auto capture = std::make_unique<Capture>();
    capture->mode = static_cast<Capture::Mode>(mode);
    capture->thread = std::this_thread::get_id();
    std::lock_guard lock(captures_mutex);
    stream->capture = std::move(capture);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamEndCapture(Stream* handle, Graph** graph) {
    WISP_CALL(cuStreamEndCapture);
    *graph = nullptr;
    auto stream = find_stream(*call.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->mode != Capture::RELAXED && stream->capture->thread != std::this_thread::get_id())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    std::unique_lock lock(captures_mutex);
    auto capture = std::move(stream->capture);
    lock.unlock();
    if (!capture) return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    auto made = std::make_shared<Graph>();
    made->context = call.context;
    made->operations = std::move(capture->operations);
    *graph = Handles<Graph>::all().add(made);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(Stream* handle, int* status) {
    WISP_CALL(cuStreamIsCapturing);
    auto stream = find_stream(*call.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    *status = !stream->capture ? 0 : stream->capture->invalidated ? 2 : 1;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphInstantiateWithFlags(ExecutableGraph** executable, Graph* handle, unsigned long long) {
    WISP_CALL(cuGraphInstantiateWithFlags);
    auto graph = Handles<Graph>::all().find(handle);
    if (!graph) return CUDA_ERROR_INVALID_HANDLE;
    auto made = std::make_shared<ExecutableGraph>();
    made->context = call.context;
    made->operations = graph->operations;
    *executable = Handles<ExecutableGraph>::all().add(made);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(ExecutableGraph* handle, Stream* stream) {
    WISP_CALL(cuGraphUpload);
    if (!Handles<ExecutableGraph>::all().find(handle) || !find_stream(*call.context, stream))
        return CUDA_ERROR_INVALID_HANDLE;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(ExecutableGraph* handle, Stream* stream) {
    WISP_CALL(cuGraphLaunch);
    auto graph = Handles<ExecutableGraph>::all().find(handle);
    if (!graph) return CUDA_ERROR_INVALID_HANDLE;
    counters.graph_launches++;
    return enqueue(stream, *call.context, [graph]() -> Outcome {
        for (const Operation& operation : graph->operations) {
            Outcome outcome = operation.run();
            if (outcome.code) return outcome;
        }
        return {};
    });
}

EXPORT CUresult cuGraphGetNodes(Graph* handle, void** nodes, size_t* count) {
    WISP_CALL(cuGraphGetNodes);
    auto graph = Handles<Graph>::all().find(handle);
    if (!graph) return CUDA_ERROR_INVALID_HANDLE;
    if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
    *count = graph->operations.size();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecDestroy(ExecutableGraph* handle) {
    Call call("cuGraphExecDestroy");
    return Handles<ExecutableGraph>::all().remove(handle) ? call.error : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuGraphDestroy(Graph* handle) {
    Call call("cuGraphDestroy");
    return Handles<Graph>::all().remove(handle) ? call.error : CUDA_ERROR_INVALID_HANDLE;
}
