// Streams, events and callbacks of the host.
#include "../runtime/settings.h"
#include "api.h"
#include "event.h"
#include "stream.h"

using namespace emulator;

namespace {

constexpr unsigned NON_BLOCKING = 1, DISABLE_TIMING = 2;

CUresult create(Context& context, Stream** handle, unsigned flags) {
    if (flags > NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    *handle = Handles<Stream>::all().add(create_stream(context, !(flags & NON_BLOCKING)));
    return CUDA_SUCCESS;
}

/// Finds a stream that must not be capturing; a capture becomes invalid.
CUresult find_idle(Context& context, Stream* handle, std::shared_ptr<Stream>& stream) {
    stream = find_stream(context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->capture) return CUDA_SUCCESS;
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace

EXPORT CUresult cuStreamCreate(Stream** handle, unsigned flags) {
    WISP_CALL(cuStreamCreate);
    return create(*call.context, handle, flags);
}

EXPORT CUresult cuStreamCreateWithPriority(Stream** handle, unsigned flags, int) {
    WISP_CALL(cuStreamCreateWithPriority);
    return create(*call.context, handle, flags);
}

EXPORT CUresult cuStreamDestroy_v2(Stream* handle) {
    Call call("cuStreamDestroy_v2");
    if (on_worker()) return call.error;
    auto stream = Handles<Stream>::all().remove(handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    retire_stream(stream);
    return call.error;
}

EXPORT CUresult cuStreamSynchronize(Stream* handle) {
    WISP_CALL(cuStreamSynchronize);
    std::shared_ptr<Stream> stream;
    WISP_TRY(find_idle(*call.context, handle, stream));
    return synchronize(*call.context, stream.get());
}

EXPORT CUresult cuStreamQuery(Stream* handle) {
    WISP_CALL(cuStreamQuery);
    std::shared_ptr<Stream> stream;
    WISP_TRY(find_idle(*call.context, handle, stream));
    bool done = query(*stream);
    WISP_TRY(call.context->error);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuStreamWaitEvent(Stream* handle, Event* event_handle, unsigned) {
    WISP_CALL(cuStreamWaitEvent);
    auto stream = find_stream(*call.context, handle);
    auto event = Handles<Event>::all().find(event_handle);
    if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured_in) {
        // A graph is one sequence, so a stream has no need to wait for itself.
        if (event->captured_in == stream && stream->capture) return CUDA_SUCCESS;
        print("cuStreamWaitEvent between streams of a capture is not implemented");
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (stream->capture) {
        stream->capture->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (!event->recording) return CUDA_SUCCESS;
    Operation operation;
    operation.wait_for = event->recording;
    enqueue_now(*stream, operation);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchHostFunc(Stream* handle, void (*function)(void*), void* data) {
    WISP_CALL(cuLaunchHostFunc);
    auto stream = find_stream(*call.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    auto run = [=]() -> Outcome {
        counters.host_callbacks++;
        function(data);
        return {};
    };
    WISP_TRY(enqueue(handle, *call.context, run));
    // Something waits for a callback, so what lies before it runs although streams are lazy.
    if (!stream->capture) query(*stream);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventCreate(Event** handle, unsigned flags) {
    WISP_CALL(cuEventCreate);
    auto event = std::make_shared<Event>();
    event->context = call.context;
    event->timed = !(flags & DISABLE_TIMING);
    *handle = Handles<Event>::all().add(event);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy_v2(Event* handle) {
    Call call("cuEventDestroy_v2");
    return Handles<Event>::all().remove(handle) ? call.error : CUDA_ERROR_INVALID_HANDLE;
}

EXPORT CUresult cuEventRecord(Event* handle, Stream* stream_handle) {
    WISP_CALL(cuEventRecord);
    auto stream = find_stream(*call.context, stream_handle);
    auto event = Handles<Event>::all().find(handle);
    if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
    event->captured_in = stream->capture ? stream : nullptr;
    if (event->captured_in) return CUDA_SUCCESS;
    event->recording = std::make_shared<Recording>();
    event->recording->stream = stream;
    Operation operation;
    operation.record = event->recording;
    enqueue_now(*stream, operation);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(Event* handle) {
    WISP_CALL(cuEventQuery);
    WISP_TRY(forbid_in_captures(*call.context));
    auto event = Handles<Event>::all().find(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured_in) return CUDA_ERROR_CAPTURED_EVENT;
    bool done = !event->recording || query(event->recording);
    WISP_TRY(call.context->error);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(Event* handle) {
    WISP_CALL(cuEventSynchronize);
    auto event = Handles<Event>::all().find(handle);
    if (!event) return CUDA_ERROR_INVALID_HANDLE;
    if (event->captured_in) return CUDA_ERROR_CAPTURED_EVENT;
    return event->recording ? synchronize(*call.context, event->recording) : CUDA_SUCCESS;
}

EXPORT CUresult cuEventElapsedTime(float* milliseconds, Event* start, Event* end) {
    WISP_CALL(cuEventElapsedTime);
    auto first = Handles<Event>::all().find(start), second = Handles<Event>::all().find(end);
    if (!first || !second || !first->recording || !second->recording || !first->timed || !second->timed)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!query(first->recording) || !query(second->recording)) return CUDA_ERROR_NOT_READY;
    *milliseconds = static_cast<float>(second->recording->milliseconds - first->recording->milliseconds);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
    return cuEventElapsedTime(milliseconds, start, end);
}
