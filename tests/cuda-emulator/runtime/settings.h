// The environment variables that set up the emulator. They are read again at each use, so a test may change them.
#pragma once
#include <cstdint>

namespace emulator {

/// In which order the blocks of a grid, the warps of a block and the lanes of a warp run.
struct Order {
    enum Kind { FORWARD, BACKWARD, RANDOM } kind = FORWARD;
    uint64_t seed = 0;
};

/// Which memory is watched for races.
enum class Races { OFF, SHARED, ALL };

/// WISP_CUDA_ORDER.
Order thread_order();
/// WISP_CUDA_RACES.
Races race_detection();
/// WISP_CUDA_LAZY: work runs only when something waits for it.
bool lazy_streams();
/// WISP_CUDA_ARCH: ten times the major plus the minor number of the compute capability.
int compute_capability();
/// WISP_CUDA_MEMORY: the bytes of memory of a device.
uint64_t device_memory();
/// WISP_CUDA_DRIVER: what cuDriverGetVersion says.
int driver_version();
/// WISP_CUDA_DEVICES.
int device_count();

}  // namespace emulator
