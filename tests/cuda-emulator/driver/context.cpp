#include "context.h"

#include <cstdio>
#include <map>

#include "counters.h"
#include "stream.h"

namespace emulator {

Counters counters;
thread_local Context* current_context;

namespace {
std::atomic<bool> initialized{false};
}

void set_initialized() { initialized = true; }

void print(const std::string& message) { fprintf(stderr, "cuda-emulator: %s\n", message.c_str()); }

void fail_context(Context& context, CUresult code, const std::string& message) {
    if (!message.empty()) print(message);
    static std::mutex mutex;
    std::lock_guard lock(mutex);
    if (context.error) return;
    context.error_message = message;
    context.error = code;
}

Context* primary_context(int device) {
    static std::mutex mutex;
    static auto* contexts = new std::map<int, Context*>;
    std::lock_guard lock(mutex);
    Context*& context = (*contexts)[device];
    if (!context) {
        context = new Context;
        context->device = device;
        context->default_stream = create_stream(*context, true);
    }
    return context;
}

Call::Call(const char* name, Needs needs) {
    if (needs != NOTHING && !initialized) {
        error = CUDA_ERROR_NOT_INITIALIZED;
        return;
    }
    context = current_context;
    if (needs == CONTEXT) {
        if (!context || !context->references) error = CUDA_ERROR_INVALID_CONTEXT;
        else if (on_worker()) error = CUDA_ERROR_NOT_PERMITTED;
        else error = context->error;
        if (error == CUDA_ERROR_NOT_PERMITTED)
            print(std::string(name) + " is called in a callback of the host, which CUDA forbids");
    }
    if (!error) error = injected_fault(name);
}

}  // namespace emulator

/// The value of a counter; all ones if there is none of this name.
extern "C" __attribute__((visibility("default"))) uint64_t wisp_emulator_count(const char* name) {
    using emulator::counters;
#define X(counter) \
    if (std::string(name) == #counter) return counters.counter;
    WISP_COUNTERS(X)
#undef X
    return ~uint64_t{0};
}
