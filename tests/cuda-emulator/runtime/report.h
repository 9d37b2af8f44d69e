// Texts that say where in a kernel something went wrong.
#pragma once
#include <cstdint>
#include <string>

#include "../kernel/interface.h"

namespace emulator {

/// "kernel `NAME`, block (x, y, z), thread (x, y, z)" of the thread that runs.
std::string current_thread();
std::string thread_position(unsigned index);
/// The file and line of an instruction of the kernel, as far as addr2line can find them; outermost if it was inlined.
std::string source_line(const void* pc);
/// An address in workgroup memory, by the variable that lies there.
std::string describe_shared(uintptr_t address);
/// An address in workgroup or device memory.
std::string describe_address(uintptr_t address);

/// Where a kernel's program lies in memory.
struct Program {
    const char* base;
    uintptr_t writable_begin, writable_end;
};
Program program_of(const WispKernelInfo* kernel);

}  // namespace emulator
