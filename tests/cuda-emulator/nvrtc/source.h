// What the emulated NVRTC has to know of a kernel's source text.
#pragma once
#include <string>
#include <vector>

namespace emulator {

struct KernelDeclaration {
    std::string name;
    /// The argument of `__launch_bounds__` as text, or "1024".
    std::string max_threads;
};

/// The `__global__` functions of a source.
std::vector<KernelDeclaration> find_kernels(const std::string& source);

/// Leaves out the nth `__syncthreads();` of a source, counted from 1; false if it has fewer.
bool drop_barrier(std::string& source, unsigned nth);

}  // namespace emulator
