// The environment of a kernel: what NVRTC knows without any header, for the host's C++ compiler. Included before the
// kernel's source with -include; it includes no system header, which keeps compilation short.
#pragma once
#include "interface.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
// Sections of their own, so that the runtime knows where they lie. One block runs at a time, so one copy is enough.
#define __shared__ static __attribute__((section("wisp_shared")))
#define __constant__ __attribute__((section("wisp_constant")))

struct uint3 {
    unsigned x, y, z;
};

// `const`: for the thread that reads them they are, and accesses to constants are not instrumented.
extern "C" {
extern const uint3 threadIdx __asm__("wisp_emulator_thread_index");
extern const uint3 blockIdx __asm__("wisp_emulator_block_index");
extern const uint3 blockDim __asm__("wisp_emulator_block_size");
extern const uint3 gridDim __asm__("wisp_emulator_grid_size");

extern char __start_wisp_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_wisp_shared[] __attribute__((weak, visibility("hidden")));
extern char __start_wisp_constant[] __attribute__((weak, visibility("hidden")));
extern char __stop_wisp_constant[] __attribute__((weak, visibility("hidden")));
}

#include "math.h"
#include "atomics.h"
#include "half.h"
#include "warp.h"

// --- The table of kernels, which the emulated NVRTC appends to the source -------------------------------------------

template <class T>
struct WispIsPointer {
    static constexpr bool value = false;
};
template <class T>
struct WispIsPointer<T*> {
    static constexpr bool value = true;
};
template <class T>
struct WispIsPointer<T* __restrict> {
    static constexpr bool value = true;
};

template <unsigned... I>
struct WispIndices {};
template <unsigned N, unsigned... I>
struct WispMakeIndices : WispMakeIndices<N - 1, N - 1, I...> {};
template <unsigned... I>
struct WispMakeIndices<0, I...> {
    using Type = WispIndices<I...>;
};

template <auto F>
struct WispKernel;
template <class... A, void (*F)(A...)>
struct WispKernel<F> {
    static constexpr unsigned count = sizeof...(A);
    // One element more: there are no arrays of none.
    static constexpr unsigned char sizes[count + 1] = {sizeof(A)..., 0};
    static constexpr bool pointers[count + 1] = {WispIsPointer<A>::value..., false};

    template <unsigned... I>
    static void unpack(void* const* arguments, WispIndices<I...>) {
        F(*static_cast<A*>(arguments[I])...);
    }
    static void call(void* const* arguments) { unpack(arguments, typename WispMakeIndices<count>::Type()); }
};

#define WISP_KERNEL(NAME, MAX_THREADS)                                                            \
    extern "C" const WispKernelInfo wisp_kernel_##NAME;                                           \
    const WispKernelInfo wisp_kernel_##NAME = {WispKernel<&NAME>::call, WispKernel<&NAME>::count, \
                                               WispKernel<&NAME>::sizes, WispKernel<&NAME>::pointers, MAX_THREADS};

#define WISP_MODULE()                                                                                   \
    extern "C" const WispModuleInfo wisp_module;                                                        \
    const WispModuleInfo wisp_module = {__start_wisp_shared, __stop_wisp_shared, __start_wisp_constant, \
                                        __stop_wisp_constant};
