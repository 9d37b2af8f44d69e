// The driver's result codes, with the names and texts that cuGetErrorName and cuGetErrorString give.
#pragma once

#define WISP_RESULTS(X)                                                                                               \
    X(0, CUDA_SUCCESS, "no error")                                                                                    \
    X(1, CUDA_ERROR_INVALID_VALUE, "invalid argument")                                                                \
    X(2, CUDA_ERROR_OUT_OF_MEMORY, "out of memory")                                                                   \
    X(3, CUDA_ERROR_NOT_INITIALIZED, "initialization error")                                                          \
    X(4, CUDA_ERROR_DEINITIALIZED, "driver shutting down")                                                            \
    X(34, CUDA_ERROR_STUB_LIBRARY, "CUDA driver is a stub library")                                                   \
    X(46, CUDA_ERROR_DEVICE_UNAVAILABLE, "CUDA-capable device(s) is/are busy or unavailable")                         \
    X(100, CUDA_ERROR_NO_DEVICE, "no CUDA-capable device is detected")                                                \
    X(101, CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal")                                                       \
    X(200, CUDA_ERROR_INVALID_IMAGE, "device kernel image is invalid")                                                \
    X(201, CUDA_ERROR_INVALID_CONTEXT, "invalid device context")                                                      \
    X(209, CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device")                  \
    X(214, CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered")                                       \
    X(218, CUDA_ERROR_INVALID_PTX, "a PTX JIT compilation failed")                                                    \
    X(222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the provided PTX was compiled with an unsupported toolchain.")        \
    X(226, CUDA_ERROR_CONTAINED, "Invalid access of peer GPU memory over nvlink or a hardware error")                 \
    X(400, CUDA_ERROR_INVALID_HANDLE, "invalid resource handle")                                                      \
    X(401, CUDA_ERROR_ILLEGAL_STATE, "the operation cannot be performed in the present state")                        \
    X(500, CUDA_ERROR_NOT_FOUND, "named symbol not found")                                                            \
    X(600, CUDA_ERROR_NOT_READY, "device not ready")                                                                  \
    X(700, CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered")                                    \
    X(701, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch")                             \
    X(702, CUDA_ERROR_LAUNCH_TIMEOUT, "the launch timed out and was terminated")                                      \
    X(710, CUDA_ERROR_ASSERT, "device-side assert triggered")                                                         \
    X(712, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part or all of the requested memory range is already mapped")  \
    X(714, CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error")                                                   \
    X(715, CUDA_ERROR_ILLEGAL_INSTRUCTION, "an illegal instruction was encountered")                                  \
    X(716, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address")                                                       \
    X(719, CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")                                                    \
    X(721, CUDA_ERROR_TENSOR_MEMORY_LEAK, "tensor memory was not freed before the kernel's end")                      \
    X(800, CUDA_ERROR_NOT_PERMITTED, "operation not permitted")                                                       \
    X(801, CUDA_ERROR_NOT_SUPPORTED, "operation not supported")                                                       \
    X(802, CUDA_ERROR_SYSTEM_NOT_READY, "system not yet initialized")                                                 \
    X(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "system has unsupported display driver / cuda driver combination")      \
    X(900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "operation not permitted when stream is capturing")                 \
    X(901, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "operation failed due to a previous error during capture")          \
    X(903, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "capture was not initiated in this stream")                           \
    X(905, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "dependency created on uncaptured work in another stream")            \
    X(906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "operation would make the legacy stream depend on a capturing stream") \
    X(907, CUDA_ERROR_CAPTURED_EVENT, "operation not permitted on an event last recorded in a capturing stream")      \
    X(908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,                                                                    \
      "attempt to terminate a thread-local capture sequence from another thread")                                     \
    X(999, CUDA_ERROR_UNKNOWN, "unknown error")

/// A result code of the driver.
enum CUresult : int {
#define X(code, name, text) name = code,
    WISP_RESULTS(X)
#undef X
};
