// Events: points in a stream that others wait for.
#pragma once
#include "stream.h"

namespace emulator {

struct Event {
    Context* context;
    bool timed;
    /// The latest recording; null before the first.
    std::shared_ptr<Recording> recording;
    /// The stream in whose capture it was last recorded, if it was: then it stands for no point in time.
    std::shared_ptr<Stream> captured_in;
};

}  // namespace emulator
