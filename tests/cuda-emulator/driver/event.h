// Events: points in a stream that others wait for.
#pragma once
#include "stream.h"

namespace emulator {

struct Event {
    Context* context;
    bool timed;
    /// The latest recording; null before the first.
    std::shared_ptr<Recording> recording;
    /// It was last recorded in a capture, so it stands for no point in time.
    bool captured = false;
};

}  // namespace emulator
