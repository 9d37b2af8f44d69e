// Finds races: two accesses to the same memory by different threads, at least one a write, not both atomic, with
// nothing between them that orders the threads. Barriers order the threads of a block, `__syncwarp` those of a warp.
// Shuffles, votes and matrix products are no barriers of memory, and nothing orders the blocks of a launch.
#pragma once
#include <cstddef>
#include <cstdint>

namespace emulator {

struct Launch;

namespace race {

enum class Access { READ, WRITE, ATOMIC };

void begin_launch(const Launch& launch);
void end_launch();
void begin_block();
void block_barrier();
void warp_barrier(unsigned warp);

/// Notes an access of the current thread and ends the kernel if it races with an earlier one.
void access(uintptr_t address, size_t bytes, Access kind, const void* pc);

/// Judges the current thread's last write after it has been made; called before another thread runs.
void settle();

/// Forgets the accesses to device memory that has been freed.
void forget(uintptr_t address, size_t bytes);

}  // namespace race
}  // namespace emulator
