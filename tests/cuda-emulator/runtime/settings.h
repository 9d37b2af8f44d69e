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

/// CUDA_EMULATOR_ORDER.
Order thread_order();
/// CUDA_EMULATOR_RACES.
Races race_detection();
/// CUDA_EMULATOR_LAZY: work runs only when something waits for it.
bool lazy_streams();
/// CUDA_EMULATOR_ARCH: ten times the major plus the minor number of the compute capability.
int compute_capability();
/// CUDA_EMULATOR_MEMORY: the bytes of memory of a device.
uint64_t device_memory();
/// CUDA_EMULATOR_DRIVER: what cuDriverGetVersion says.
int driver_version();
/// CUDA_EMULATOR_DEVICES.
int device_count();

}  // namespace emulator
