// What tests can ask the emulator for, by name, through wisp_emulator_count.
#pragma once
#include <atomic>
#include <cstdint>

namespace emulator {

#define WISP_COUNTERS(X)                                                            \
    X(launches) /* calls of cuLaunchKernel, without those that a graph captured */  \
    X(kernels)  /* kernels that ran, those of graphs too */                         \
    X(graph_launches)                                                               \
    X(synchronizations) /* calls that wait for a stream, an event or the context */ \
    X(copies_to_device)                                                             \
    X(copies_to_host)                                                               \
    X(copies_on_device)                                                             \
    X(bytes_to_device)                                                              \
    X(bytes_to_host)                                                                \
    X(modules_loaded)                                                               \
    X(allocations) /* all that were ever made */                                    \
    X(live_allocations)                                                             \
    X(allocated_bytes) /* in live allocations */                                    \
    X(peak_allocated_bytes)                                                         \
    X(pinned_bytes) /* in live allocations of page-locked memory */                 \
    X(host_callbacks)

struct Counters {
#define X(name) std::atomic<uint64_t> name{0};
    WISP_COUNTERS(X)
#undef X
};

extern Counters counters;

}  // namespace emulator
