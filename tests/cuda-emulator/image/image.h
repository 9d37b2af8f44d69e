// What the emulated NVRTC hands out as a cubin and the emulated driver loads: a header, and a shared object with the
// kernel as code of the host. It needs no file beside it, so another process may load it later.
#pragma once
#include <cstdint>
#include <string>

namespace emulator {

struct Image {
    /// Ten times the major plus the minor number of the architecture that it was compiled for.
    uint32_t architecture;
    /// The settings of the compiler that a later process must have too, such as the instrumentation.
    std::string configuration;
    /// The bytes of the shared object.
    std::string object;
};

/// The configuration that kernels are compiled with now.
std::string current_configuration();

std::string encode_cubin(const Image& image);
/// The same as text, with the bytes in hexadecimal.
std::string encode_ptx(const Image& image);
/// Reads either; false if these are not such bytes, or not all of them.
bool decode_image(const void* bytes, Image& image);

uint64_t hash_bytes(const void* bytes, size_t count, uint64_t seed = 0);

}  // namespace emulator
