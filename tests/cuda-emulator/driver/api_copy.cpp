// Copies and fills. A range is checked when the call is made and again when the work is done.
#include <cstring>
#include <memory>
#include <vector>

#include "../runtime/device_memory.h"
#include "api.h"
#include "host_memory.h"
#include "stream.h"

using namespace emulator;

namespace {

bool is_device(DevicePointer pointer, size_t bytes) { return DeviceMemory::instance().contains(pointer, bytes); }

void* memory_at(DevicePointer pointer) { return reinterpret_cast<void*>(pointer); }

/// Runs work on device memory that must still be there.
template <class Work>
Outcome on_device(const char* function, DevicePointer pointer, size_t bytes, Work work) {
    if (is_device(pointer, bytes)) {
        work();
        return {};
    }
    return {CUDA_ERROR_ILLEGAL_ADDRESS,
            std::string(function) + " works on " + DeviceMemory::instance().describe(pointer)};
}

/// Host memory that is not page-locked cannot be copied to later, so not in a capture either.
CUresult forbid_pageable_capture(Context& context, Stream* handle) {
    auto stream = find_stream(context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (!stream->capture) return CUDA_SUCCESS;
    stream->capture->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult copy_to_device(Context& context, const char* name, DevicePointer to, const void* from, size_t bytes,
                        Stream* stream) {
    if (!is_device(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
    counters.copies_to_device++;
    counters.bytes_to_device += bytes;
    if (is_pinned(from, bytes)) {
        return enqueue(stream, context,
                       [=] { return on_device(name, to, bytes, [&] { memcpy(memory_at(to), from, bytes); }); });
    }
    WISP_TRY(forbid_pageable_capture(context, stream));
    // Taken at once: the caller may change it as soon as the call returns.
    auto* begin = static_cast<const char*>(from);
    auto copy = std::make_shared<std::vector<char>>(begin, begin + bytes);
    return enqueue(stream, context,
                   [=] { return on_device(name, to, bytes, [&] { memcpy(memory_at(to), copy->data(), bytes); }); });
}

CUresult copy_to_host(Context& context, const char* name, void* to, DevicePointer from, size_t bytes, Stream* handle) {
    if (!is_device(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    counters.copies_to_host++;
    counters.bytes_to_host += bytes;
    bool pinned = is_pinned(to, bytes);
    if (!pinned) WISP_TRY(forbid_pageable_capture(context, handle));
    WISP_TRY(enqueue(handle, context,
                     [=] { return on_device(name, from, bytes, [&] { memcpy(to, memory_at(from), bytes); }); }));
    // The call returns when the bytes are in pageable memory.
    return pinned ? CUDA_SUCCESS : synchronize(context, find_stream(context, handle).get());
}

CUresult copy_on_device(Context& context, const char* name, DevicePointer to, DevicePointer from, size_t bytes,
                        Stream* stream) {
    if (!is_device(to, bytes) || !is_device(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
    counters.copies_on_device++;
    return enqueue(stream, context, [=] {
        return on_device(name, from, bytes, [] {}).code
                   ? on_device(name, from, bytes, [] {})
                   : on_device(name, to, bytes, [&] { memmove(memory_at(to), memory_at(from), bytes); });
    });
}

template <class T>
CUresult fill(Context& context, const char* name, DevicePointer to, T value, size_t count, Stream* stream) {
    if (to % sizeof(T) || !is_device(to, count * sizeof(T))) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(stream, context, [=] {
        return on_device(name, to, count * sizeof(T), [&] {
            auto* words = static_cast<T*>(memory_at(to));
            for (size_t i = 0; i < count; i++) words[i] = value;
        });
    });
}

}  // namespace

EXPORT CUresult cuMemcpyHtoDAsync_v2(DevicePointer to, const void* from, size_t bytes, Stream* stream) {
    WISP_CALL(cuMemcpyHtoDAsync_v2);
    return copy_to_device(*call.context, "cuMemcpyHtoDAsync_v2", to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyHtoD_v2(DevicePointer to, const void* from, size_t bytes) {
    WISP_CALL(cuMemcpyHtoD_v2);
    WISP_TRY(copy_to_device(*call.context, "cuMemcpyHtoD_v2", to, from, bytes, nullptr));
    return synchronize(*call.context, call.context->default_stream.get());
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void* to, DevicePointer from, size_t bytes, Stream* stream) {
    WISP_CALL(cuMemcpyDtoHAsync_v2);
    return copy_to_host(*call.context, "cuMemcpyDtoHAsync_v2", to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoH_v2(void* to, DevicePointer from, size_t bytes) {
    WISP_CALL(cuMemcpyDtoH_v2);
    WISP_TRY(copy_to_host(*call.context, "cuMemcpyDtoH_v2", to, from, bytes, nullptr));
    return synchronize(*call.context, call.context->default_stream.get());
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes, Stream* stream) {
    WISP_CALL(cuMemcpyDtoDAsync_v2);
    return copy_on_device(*call.context, "cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
}

EXPORT CUresult cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
    WISP_CALL(cuMemcpyDtoD_v2);
    return copy_on_device(*call.context, "cuMemcpyDtoD_v2", to, from, bytes, nullptr);
}

EXPORT CUresult cuMemsetD8Async(DevicePointer to, unsigned char value, size_t count, Stream* stream) {
    WISP_CALL(cuMemsetD8Async);
    return fill(*call.context, "cuMemsetD8Async", to, value, count, stream);
}

EXPORT CUresult cuMemsetD32Async(DevicePointer to, unsigned value, size_t count, Stream* stream) {
    WISP_CALL(cuMemsetD32Async);
    return fill(*call.context, "cuMemsetD32Async", to, value, count, stream);
}

EXPORT CUresult cuMemsetD8_v2(DevicePointer to, unsigned char value, size_t count) {
    WISP_CALL(cuMemsetD8_v2);
    return fill(*call.context, "cuMemsetD8_v2", to, value, count, nullptr);
}

EXPORT CUresult cuMemsetD32_v2(DevicePointer to, unsigned value, size_t count) {
    WISP_CALL(cuMemsetD32_v2);
    return fill(*call.context, "cuMemsetD32_v2", to, value, count, nullptr);
}
