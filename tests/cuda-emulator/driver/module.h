// Loaded programs and their kernels.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "../runtime/execution.h"
#include "context.h"

namespace emulator {

struct Module;

/// A kernel as the driver's handle for it; it keeps its module's program loaded.
struct Function {
    Kernel kernel;
    std::weak_ptr<Module> module;
};

struct Module {
    Context* context;
    void* library = nullptr;
    std::string object;
    const WispModuleInfo* info = nullptr;
    std::map<std::string, std::unique_ptr<Function>> functions;

    ~Module();
    size_t shared_bytes() const { return static_cast<size_t>(info->shared_end - info->shared_begin); }
};

/// Static and dynamic shared memory that a block can have.
constexpr size_t SHARED_LIMIT = 49152;

/// A function of a module that has not been unloaded; null otherwise.
std::shared_ptr<Module> module_of(Function* function);

}  // namespace emulator
