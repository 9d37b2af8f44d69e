// Device memory, its pools, and page-locked memory of the host.
#include <cstdlib>
#include <cstring>

#include "../runtime/device_memory.h"
#include "../runtime/settings.h"
#include "api.h"
#include "device_state.h"
#include "host_memory.h"
#include "stream.h"

using namespace emulator;

namespace {

/// Attributes of a pool, by the numbers of CUmemPool_attribute.
enum PoolAttribute {
    REUSE_FIRST = 1,
    REUSE_LAST = 3,
    RELEASE_THRESHOLD,
    RESERVED_CURRENT,
    RESERVED_HIGH,
    USED_CURRENT,
    USED_HIGH
};

uint64_t* pool_counter(Pool& pool, int attribute) {
    switch (attribute) {
        case RELEASE_THRESHOLD: return &pool.threshold;
        case RESERVED_CURRENT: return &pool.reserved;
        case RESERVED_HIGH: return &pool.reserved_peak;
        case USED_CURRENT: return &pool.used;
        case USED_HIGH: return &pool.used_peak;
        default: return nullptr;
    }
}

CUresult allocate(Context& context, DevicePointer* pointer, size_t bytes, bool from_pool) {
    if (!pointer || !bytes) return CUDA_ERROR_INVALID_VALUE;
    *pointer = allocate_device(context, bytes, from_pool);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

}  // namespace

EXPORT CUresult cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
    WISP_CALL(cuMemAlloc_v2);
    WISP_TRY(forbid_in_captures(*call.context));
    return allocate(*call.context, pointer, bytes, false);
}

EXPORT CUresult cuMemFree_v2(DevicePointer pointer) {
    Call call("cuMemFree_v2");
    if (!call.context || on_worker()) return call.error;
    WISP_TRY(forbid_in_captures(*call.context));
    if (!pointer) return call.error;
    // Freed though the context has failed: what is freed then is no leak.
    CUresult error = synchronize(*call.context, nullptr);
    if (!free_device(*call.context, pointer)) return CUDA_ERROR_INVALID_VALUE;
    return call.error ? call.error : error;
}

EXPORT CUresult cuMemAllocAsync(DevicePointer* pointer, size_t bytes, Stream* handle) {
    WISP_CALL(cuMemAllocAsync);
    auto stream = find_stream(*call.context, handle);
    if (!stream) return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture) {
        print("cuMemAllocAsync in a capture is not implemented");
        stream->capture->invalidated = true;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return allocate(*call.context, pointer, bytes, true);
}

EXPORT CUresult cuMemFreeAsync(DevicePointer pointer, Stream* handle) {
    Call call("cuMemFreeAsync");
    if (!call.context || on_worker()) return call.error;
    Context& context = *call.context;
    if (call.error) {
        // The stream drops its work, but what is freed is no leak.
        synchronize(context, nullptr);
        free_device(context, pointer);
        return call.error;
    }
    if (!DeviceMemory::instance().contains(pointer, 1)) return CUDA_ERROR_INVALID_VALUE;
    return enqueue(handle, context, [pointer, &context]() -> Outcome {
        if (free_device(context, pointer)) return {};
        return {CUDA_ERROR_ILLEGAL_ADDRESS, "cuMemFreeAsync of memory that is no allocation or was freed before"};
    });
}

EXPORT CUresult cuMemGetInfo_v2(size_t* available, size_t* total) {
    WISP_CALL(cuMemGetInfo_v2);
    std::lock_guard lock(call.context->memory_mutex);
    *total = device_memory();
    *available = *total - call.context->plain_bytes - call.context->pool.reserved;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(Pool** pool, int device) {
    Call call("cuDeviceGetDefaultMemPool", Call::DRIVER);
    WISP_TRY(call.error);
    if (device < 0 || device >= device_count()) return CUDA_ERROR_INVALID_DEVICE;
    *pool = &primary_context(device)->pool;
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetMemPool(Pool** pool, int device) { return cuDeviceGetDefaultMemPool(pool, device); }

EXPORT CUresult cuMemPoolSetAttribute(Pool* pool, int attribute, void* value) {
    Call call("cuMemPoolSetAttribute", Call::DRIVER);
    WISP_TRY(call.error);
    if (attribute >= REUSE_FIRST && attribute <= REUSE_LAST) {
        memcpy(&pool->reuse[attribute - REUSE_FIRST], value, sizeof(int));
        return CUDA_SUCCESS;
    }
    uint64_t number;
    memcpy(&number, value, sizeof number);
    // The peaks can only be set back to what is used now.
    switch (attribute) {
        case RELEASE_THRESHOLD: pool->threshold = number; return CUDA_SUCCESS;
        case RESERVED_HIGH: pool->reserved_peak = pool->reserved; break;
        case USED_HIGH: pool->used_peak = pool->used; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return number == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemPoolGetAttribute(Pool* pool, int attribute, void* value) {
    Call call("cuMemPoolGetAttribute", Call::DRIVER);
    WISP_TRY(call.error);
    if (attribute >= REUSE_FIRST && attribute <= REUSE_LAST) {
        memcpy(value, &pool->reuse[attribute - REUSE_FIRST], sizeof(int));
        return CUDA_SUCCESS;
    }
    uint64_t* number = pool_counter(*pool, attribute);
    if (!number) return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, number, sizeof *number);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemPoolTrimTo(Pool* pool, size_t bytes) {
    WISP_CALL(cuMemPoolTrimTo);
    std::lock_guard lock(call.context->memory_mutex);
    uint64_t keep = pool->used > bytes ? pool->used : bytes;
    if (pool->reserved > keep) pool->reserved = keep;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
    WISP_CALL(cuMemHostAlloc);
    WISP_TRY(forbid_in_captures(*call.context));
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *pointer = allocate_pinned(bytes);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
    WISP_CALL(cuMemAllocHost_v2);
    WISP_TRY(forbid_in_captures(*call.context));
    if (!bytes) return CUDA_ERROR_INVALID_VALUE;
    *pointer = allocate_pinned(bytes);
    return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void* pointer) {
    Call call("cuMemFreeHost");
    if (!call.context || on_worker()) return call.error;
    synchronize(*call.context, nullptr);
    if (!free_pinned(pointer)) return CUDA_ERROR_INVALID_VALUE;
    return call.error;
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(DevicePointer* device, void* host, unsigned) {
    WISP_CALL(cuMemHostGetDevicePointer_v2);
    if (!is_pinned(host, 1)) return CUDA_ERROR_INVALID_VALUE;
    *device = reinterpret_cast<DevicePointer>(host);
    return CUDA_SUCCESS;
}
