// Devices, contexts, versions and error texts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "../runtime/settings.h"
#include "api.h"
#include "device_state.h"
#include "stream.h"

using namespace emulator;

namespace {

struct Attribute {
    int number, value;
};

/// The numbers are those of CUdevice_attribute; what is not listed is 0.
constexpr Attribute ATTRIBUTES[] = {
    {1, 1024},         // threads of a block
    {2, 1024},         // block, x
    {3, 1024},         // block, y
    {4, 64},           // block, z
    {5, 2147483647},   // grid, x
    {6, 65535},        // grid, y
    {7, 65535},        // grid, z
    {8, 49152},        // shared memory of a block
    {9, 65536},        // constant memory
    {10, 32},          // warp
    {11, 2147483647},  // pitch of copies
    {12, 65536},       // registers of a block
    {13, 1410000},     // clock, kHz
    {14, 512},         // alignment of textures
    {15, 1},           // copies beside kernels
    {16, 4},           // multiprocessors
    {19, 1},           // page-locked memory in the device's addresses
    {31, 1},           // concurrent kernels
    {36, 1215000},     // memory clock, kHz
    {37, 256},         // memory bus, bits
    {38, 4194304},     // second-level cache
    {39, 2048},        // threads of a multiprocessor
    {40, 2},           // copy engines
    {41, 1},           // unified addresses
    {78, 1},           // priorities of streams
    {81, 102400},      // shared memory of a multiprocessor
    {82, 65536},       // registers of a multiprocessor
    {83, 1},           // managed memory
    {106, 32},         // resident blocks of a multiprocessor
    {115, 1},          // memory pools
};

CUresult check_device(int device) {
    return device >= 0 && device < device_count() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

EXPORT CUresult cuInit(unsigned flags) {
    Call call("cuInit", Call::NOTHING);
    WISP_TRY(call.error);
    if (flags) return CUDA_ERROR_INVALID_VALUE;
    if (device_count() == 0) return CUDA_ERROR_NO_DEVICE;
    set_initialized();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDriverGetVersion(int* version) {
    *version = driver_version();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int* count) {
    Call call("cuDeviceGetCount", Call::DRIVER);
    *count = device_count();
    return call.error;
}

EXPORT CUresult cuDeviceGet(int* device, int ordinal) {
    Call call("cuDeviceGet", Call::DRIVER);
    WISP_TRY(call.error);
    WISP_TRY(check_device(ordinal));
    *device = ordinal;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetName(char* name, int bytes, int device) {
    Call call("cuDeviceGetName", Call::DRIVER);
    WISP_TRY(call.error);
    WISP_TRY(check_device(device));
    snprintf(name, static_cast<size_t>(bytes), "Wisp emulated CUDA device");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetUuid_v2(char uuid[16], int device) {
    Call call("cuDeviceGetUuid", Call::DRIVER);
    WISP_TRY(call.error);
    WISP_TRY(check_device(device));
    memcpy(uuid, "wisp-emulated-", 14);
    uuid[14] = '0';
    uuid[15] = static_cast<char>('0' + device);
    return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetUuid(char uuid[16], int device) { return cuDeviceGetUuid_v2(uuid, device); }

EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, int device) {
    Call call("cuDeviceTotalMem_v2", Call::DRIVER);
    WISP_TRY(call.error);
    WISP_TRY(check_device(device));
    *bytes = device_memory();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int* value, int attribute, int device) {
    Call call("cuDeviceGetAttribute", Call::DRIVER);
    WISP_TRY(call.error);
    WISP_TRY(check_device(device));
    int capability = compute_capability();
    *value = 0;
    if (attribute == 75) *value = capability / 10;
    if (attribute == 76) *value = capability % 10;
    // Shared memory that a kernel may ask for, by architecture.
    if (attribute == 97)
        *value = capability >= 90 ? 232448 : capability == 80 ? 166912 : capability == 75 ? 65536 : 101376;
    if (attribute == 33) *value = device + 1;
    for (const Attribute& each : ATTRIBUTES) {
        if (each.number == attribute) *value = each.value;
    }
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(Context** context, int device) {
    Call call("cuDevicePrimaryCtxRetain", Call::DRIVER);
    WISP_TRY(call.error);
    WISP_TRY(check_device(device));
    *context = primary_context(device);
    (*context)->references++;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(int device) {
    Call call("cuDevicePrimaryCtxReset_v2", Call::DRIVER);
    WISP_TRY(check_device(device));
    reset_context(*primary_context(device));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(int device) {
    Call call("cuDevicePrimaryCtxRelease_v2", Call::DRIVER);
    WISP_TRY(check_device(device));
    Context* context = primary_context(device);
    if (!context->references) return CUDA_ERROR_INVALID_CONTEXT;
    if (--context->references == 0) reset_context(*context);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    Call call("cuDevicePrimaryCtxGetState", Call::DRIVER);
    WISP_TRY(check_device(device));
    *flags = 0;
    *active = primary_context(device)->references > 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
    Call call("cuDevicePrimaryCtxSetFlags_v2", Call::DRIVER);
    WISP_TRY(call.error);
    return check_device(device);
}

EXPORT CUresult cuCtxSetCurrent(Context* context) {
    Call call("cuCtxSetCurrent", Call::DRIVER);
    WISP_TRY(call.error);
    current_context = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetCurrent(Context** context) {
    Call call("cuCtxGetCurrent", Call::DRIVER);
    *context = current_context;
    return call.error;
}

EXPORT CUresult cuCtxGetDevice(int* device) {
    WISP_CALL(cuCtxGetDevice);
    *device = call.context->device;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetFlags(unsigned) {
    WISP_CALL(cuCtxSetFlags);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    WISP_CALL(cuCtxGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSynchronize() {
    WISP_CALL(cuCtxSynchronize);
    WISP_TRY(forbid_in_captures(*call.context));
    return synchronize(*call.context, nullptr);
}

EXPORT CUresult cuGetErrorName(CUresult code, const char** name) {
    *name = nullptr;
    switch (code) {
#define X(code, result, text) \
    case result: *name = #result; break;
        WISP_RESULTS(X)
#undef X
    }
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char** text) {
    *text = nullptr;
    switch (code) {
#define X(code, result, description) \
    case result: *text = description; break;
        WISP_RESULTS(X)
#undef X
    }
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/// The message of the failure that the current context is in, or an empty one.
EXPORT const char* wisp_emulator_failure() {
    static thread_local std::string message;
    message = current_context && current_context->error ? current_context->error_message : "";
    return message.c_str();
}
