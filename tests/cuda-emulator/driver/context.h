// Devices and their primary contexts, which hold the error state and the accounts of memory.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "../runtime/results.h"

namespace emulator {

struct Stream;

/// The default memory pool of a device: memory that was freed stays reserved until a synchronisation.
struct Pool {
    uint64_t threshold = 0, used = 0, reserved = 0, used_peak = 0, reserved_peak = 0;
    /// Reuse policies, which change nothing here.
    int reuse[3] = {1, 1, 1};
};

struct Context {
    int device;
    std::atomic<unsigned> references{0};
    /// Set by the first failure of work on the device; every later call returns it.
    std::atomic<CUresult> error{CUDA_SUCCESS};
    /// Set before `error`.
    std::string error_message;
    std::shared_ptr<Stream> default_stream;
    Pool pool;
    /// Bytes in allocations that do not come from the pool.
    uint64_t plain_bytes = 0;
    std::mutex memory_mutex;
};

/// The primary context of a device, made when it is first retained.
Context* primary_context(int device);
/// The context that is current for the calling thread, or null.
extern thread_local Context* current_context;

/// Begins each call of the driver's interface: injects faults and checks what the call needs.
class Call {
public:
    enum Needs {
        NOTHING,
        /// cuInit was called.
        DRIVER,
        /// A context is current and has not failed.
        CONTEXT,
    };
    explicit Call(const char* name, Needs needs = CONTEXT);

    CUresult error = CUDA_SUCCESS;
    Context* context = nullptr;
};

/// The result of a kernel that is to fail though it did not, or CUDA_SUCCESS.
CUresult injected_fault(const char* name);

void set_initialized();
/// Puts a context into its failed state, unless it is in one.
void fail_context(Context& context, CUresult code, const std::string& message);
/// Prints a message of the emulator on the standard error stream.
void print(const std::string& message);

}  // namespace emulator
