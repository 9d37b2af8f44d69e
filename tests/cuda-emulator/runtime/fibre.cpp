#include "fibre.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Registers that a call preserves go onto the stack; the stack pointer is the fibre's state.
#if defined(__x86_64__)
asm(R"(
    .text
    .hidden wisp_emulator_switch
    .globl wisp_emulator_switch
    .type wisp_emulator_switch, @function
wisp_emulator_switch:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size wisp_emulator_switch, .-wisp_emulator_switch
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .hidden wisp_emulator_switch
    .globl wisp_emulator_switch
    .type wisp_emulator_switch, @function
wisp_emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
    .size wisp_emulator_switch, .-wisp_emulator_switch
)");
#else
#error "fibre.cpp has no context switch for this processor"
#endif

namespace emulator {

void* Stacks::prepare(unsigned stack, void (*body)()) {
    auto* top = reinterpret_cast<void**>(memory_ + (stack + size_t{1}) * SIZE);
#if defined(__x86_64__)
    // A return address that is never used, so that the stack is aligned as after a call; then what the switch pops.
    top -= 4;
    *--top = nullptr;
    *--top = reinterpret_cast<void*>(body);
    return top - 6;
#else
    top -= 20;
    top[11] = reinterpret_cast<void*>(body);
    return top;
#endif
}

unsigned Stacks::take() {
    if (!memory_) {
        void* memory =
            mmap(nullptr, COUNT * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            perror("cuda-emulator: no memory for stacks");
            abort();
        }
        memory_ = static_cast<char*>(memory);
        for (unsigned i = 0; i < COUNT; i++) mprotect(memory_ + i * SIZE, GUARD, PROT_NONE);
    }
    if (free_.empty()) return used_++;
    unsigned stack = free_.back();
    free_.pop_back();
    return stack;
}

void Stacks::reset() {
    free_.clear();
    used_ = 0;
}

bool Stacks::in_guard(const void* address) const {
    auto offset = reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(memory_);
    return memory_ && offset < COUNT * SIZE && offset % SIZE < GUARD;
}

}  // namespace emulator
