// Fibres: the threads of a block, each with a stack of its own, on one thread of the system.
#pragma once
#include <cstddef>
#include <vector>

namespace emulator {

/// Stores the state of the running fibre in `*save` and continues the one whose state is `load`.
extern "C" void wisp_emulator_switch(void** save, void* load);

/// Stacks for fibres, with a guard page below each. A stack that is given back is used again, so the threads of a
/// kernel that never waits share one.
class Stacks {
public:
    /// The state of a new fibre that will call `body`, which must not return.
    void* prepare(unsigned stack, void (*body)());
    unsigned take();
    void give_back(unsigned stack) { free_.push_back(stack); }
    /// Takes all stacks back, after a kernel that was abandoned.
    void reset();
    /// Whether an address lies in the guard page of a stack.
    bool in_guard(const void* address) const;

private:
    static constexpr size_t SIZE = 128 << 10;
    static constexpr size_t GUARD = 4096;
    static constexpr unsigned COUNT = 1024;

    char* memory_ = nullptr;
    std::vector<unsigned> free_;
    unsigned used_ = 0;
};

}  // namespace emulator
