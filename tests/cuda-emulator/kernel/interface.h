// What a compiled kernel and the runtime know of each other. Included by both; it needs no other header, because the
// kernel's side has none.
#pragma once

extern "C" {

/// A `__global__` function of a compiled program, exported as `wisp_kernel_NAME`.
struct WispKernelInfo {
    /// Calls the function; `arguments` points at each argument's value, as cuLaunchKernel has them.
    void (*call)(void* const* arguments);
    unsigned parameter_count;
    /// For each parameter: its size in bytes, and whether it is a pointer.
    const unsigned char* parameter_sizes;
    const bool* parameter_is_pointer;
    /// The argument of `__launch_bounds__`, or 1024.
    unsigned max_threads;
};

/// The workgroup memory and mutable constants of a compiled program, exported as `wisp_module`.
struct WispModuleInfo {
    char *shared_begin, *shared_end;
    char *constant_begin, *constant_end;
};

/// Operations that the lanes of a warp carry out together.
enum WispWarpKind {
    WISP_SYNC_WARP,
    WISP_SHUFFLE,
    WISP_SHUFFLE_XOR,
    WISP_SHUFFLE_UP,
    WISP_SHUFFLE_DOWN,
    WISP_BALLOT,
    WISP_ANY,
    WISP_ALL,
    WISP_MMA,
    WISP_MMA_I8,
};

/// Atomic operations on a 32-bit word.
enum WispAtomicKind {
    WISP_ATOMIC_ADD,
    WISP_ATOMIC_SUB,
    WISP_ATOMIC_MIN_SIGNED,
    WISP_ATOMIC_MAX_SIGNED,
    WISP_ATOMIC_MIN_UNSIGNED,
    WISP_ATOMIC_MAX_UNSIGNED,
    WISP_ATOMIC_AND,
    WISP_ATOMIC_OR,
    WISP_ATOMIC_XOR,
    WISP_ATOMIC_EXCHANGE,
    WISP_ATOMIC_COMPARE_EXCHANGE,
    WISP_ATOMIC_ADD_FLOAT,
};

// A `site` numbers the place in the source; threads that meet must meet at the same one.
void wisp_emulator_barrier(unsigned site);
unsigned wisp_emulator_warp(unsigned site, unsigned kind, unsigned mask, unsigned value, unsigned argument,
                            unsigned width);
void wisp_emulator_mma(unsigned site, float* sums, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                       unsigned b1);
void wisp_emulator_mma_i8(unsigned site, int* results, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
                          unsigned b1, const int* sums);
unsigned wisp_emulator_active_mask();
unsigned wisp_emulator_atomic(unsigned kind, void* word, unsigned value, unsigned compare);
}
