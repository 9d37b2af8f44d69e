// What the race detector remembers of a word of memory.
#pragma once
#include <cstdint>

namespace emulator::race {

/// A point of the detector's clock, which every barrier advances; 0 is never.
using Time = uint32_t;

/// A lane that stands for several lanes of the warp.
constexpr uint8_t SEVERAL = 0xFF;

/// The latest read of a word by a warp.
struct Reader {
    Time time;
    /// Where the kernel reads, relative to its program.
    uint32_t pc;
    uint8_t warp, lane;
};

struct Cell {
    Time write_time;
    uint32_t write_pc;
    uint16_t writer;
    bool write_atomic;
    /// The word is accessed in parts: its bytes have cells of their own.
    bool split;
    /// Of two different warps: a third adds nothing, as any writer differs from one of the two.
    Reader readers[2];
    /// The latest read by a block of the launch that has ended.
    Time foreign_time;
    uint32_t foreign_pc;
};

}  // namespace emulator::race
