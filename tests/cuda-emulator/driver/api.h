// What the files with the driver's functions share.
#pragma once
#include "context.h"
#include "counters.h"
#include "handles.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace emulator {

using DevicePointer = unsigned long long;

/// Returns from a function whose call cannot proceed.
#define WISP_TRY(...)                                       \
    do {                                                    \
        if (CUresult error_ = (__VA_ARGS__)) return error_; \
    } while (0)

/// Begins a function that needs a context: `call.context` is set behind it.
#define WISP_CALL(NAME) \
    Call call(#NAME);   \
    if (call.error) return call.error

}  // namespace emulator
