// The kernel that runs now: one at a time in the process, on the worker's thread.
#pragma once
#include <csetjmp>
#include <cstdint>
#include <string>
#include <vector>

#include "../kernel/interface.h"
#include "fibre.h"
#include "results.h"
#include "settings.h"

namespace emulator {

struct Dim {
    unsigned x, y, z;
    uint64_t count() const { return uint64_t{x} * y * z; }
};

/// A kernel of a loaded module.
struct Kernel {
    std::string name;
    const WispKernelInfo* info;
    const WispModuleInfo* module;
    /// The program as a shared object, from which source lines are read for messages.
    const std::string* object;
};

/// A kernel with its grid and the values of its parameters.
struct Launch {
    Kernel kernel;
    Dim grid, block;
    std::vector<std::vector<char>> arguments;
};

/// How a kernel or another operation ended; the message is for people.
struct Outcome {
    CUresult code = CUDA_SUCCESS;
    std::string message;
};

/// Runs all threads of a launch.
Outcome run_launch(const Launch& launch);

/// What one lane brings to an operation of its warp.
struct WarpRequest {
    unsigned site, kind, mask;
    unsigned words[10];
    unsigned argument, width;
};

enum class Phase : uint8_t { NEW, READY, AT_BARRIER, IN_WARP, DONE };

struct Thread {
    void* state;
    unsigned stack;
    Phase phase;
    /// Where it waits.
    unsigned site;
    const void* pc;
    WarpRequest request;
    unsigned result[4];
};

/// Lanes as bits: those that have not exited, those that wait for their warp, and those that can run.
struct Warp {
    unsigned alive, waiting, ready;
};

constexpr unsigned MAX_THREADS = 1024, WARP_SIZE = 32;

struct Execution {
    const Launch* launch;
    /// Where the value of each argument lies.
    std::vector<void*> arguments;
    Order order;
    uint64_t random;
    Dim block;
    unsigned count, current, done;
    Thread threads[MAX_THREADS];
    Warp warps[MAX_THREADS / WARP_SIZE];
    Dim indices[MAX_THREADS];
    Stacks stacks;
    void* scheduler;

    /// Where a failed kernel is abandoned to.
    sigjmp_buf abandon;
    volatile bool in_kernel;
    Outcome outcome;
    /// The address at which the processor faulted, and the instruction.
    uintptr_t fault_address;
    const void* fault_pc;
    int fault_signal;

    unsigned warp_count() const { return (count + WARP_SIZE - 1) / WARP_SIZE; }
    /// A random number below `bound`.
    unsigned draw(unsigned bound);
};

extern Execution execution;

/// Lets the other threads run until this one is ready again.
void suspend();
/// Completes the operation that lanes of a warp wait in, if all lanes that it needs have come.
void complete_warp(unsigned warp);
/// Explains why no thread can go on, and ends the kernel.
[[noreturn]] void fail_stuck();
/// Ends the kernel with an error, on whatever fibre.
[[noreturn]] void fail(CUresult code, const std::string& message);

}  // namespace emulator
