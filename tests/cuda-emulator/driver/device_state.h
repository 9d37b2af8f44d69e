// The memory of a context and its end.
#pragma once
#include <cstdint>

#include "context.h"

namespace emulator {

/// Allocates device memory, from the context's pool or not; 0 if there is not enough.
uintptr_t allocate_device(Context& context, size_t bytes, bool from_pool);
/// Frees device memory; false if there is none at this address.
bool free_device(Context& context, uintptr_t address);
/// Destroys all that belongs to a context, and its failure with it.
void reset_context(Context& context);
/// Frees all device memory of a context.
void free_all_device(Context& context);
/// Forgets the modules, graphs and events.
void free_all_objects(Context& context);

}  // namespace emulator
