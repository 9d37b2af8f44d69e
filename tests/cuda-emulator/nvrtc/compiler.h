// The host's C++ compiler as a compiler of kernels, with a cache on disk.
#pragma once
#include <string>

namespace emulator {

struct Compilation {
    bool succeeded = false;
    /// What the compiler printed.
    std::string log;
    /// The bytes of a shared object.
    std::string object;
    bool cached = false;
};

/// Compiles a source; messages name it `name`.
Compilation compile_kernel(const std::string& source, const std::string& name);

}  // namespace emulator
