// Faults of the processor in a kernel become errors of the launch.
#pragma once
#include "execution.h"

namespace emulator {

/// What sigsetjmp returns after a fault.
constexpr int FAULTED = 2;

/// Installs the handlers for this process and a signal stack for this thread; what the process had installed still
/// handles faults outside kernels.
void catch_faults();
/// The error that the last fault stands for.
Outcome describe_fault();

}  // namespace emulator
