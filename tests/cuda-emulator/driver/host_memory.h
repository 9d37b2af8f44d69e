// Page-locked memory of the host: copies to and from it do not wait.
#pragma once
#include <cstddef>

namespace emulator {

void* allocate_pinned(size_t bytes);
bool free_pinned(void* pointer);
/// Whether a range lies within one page-locked allocation.
bool is_pinned(const void* pointer, size_t bytes);

}  // namespace emulator
