// Explains why the threads of a block cannot go on: some wait for others that wait elsewhere or have exited.
#include "execution.h"
#include "report.h"

namespace emulator {

namespace {

std::string waiting_place(const Thread& thread) {
    switch (thread.phase) {
        case Phase::AT_BARRIER: return "waits at the barrier in " + source_line(thread.pc);
        case Phase::IN_WARP: return "waits in the warp operation in " + source_line(thread.pc);
        case Phase::DONE: return "has exited";
        default: return "has not come yet";
    }
}

bool same_place(const Thread& a, const Thread& b) {
    return a.phase == b.phase && (a.phase == Phase::DONE || a.site == b.site);
}

}  // namespace

void fail_stuck() {
    // The first thread that waits, and the first that is somewhere else.
    unsigned waits = 0;
    while (waits + 1 < execution.count && execution.threads[waits].phase != Phase::AT_BARRIER &&
           execution.threads[waits].phase != Phase::IN_WARP)
        waits++;
    const Thread& thread = execution.threads[waits];
    execution.current = waits;
    std::string message = thread.phase == Phase::IN_WARP ? "a warp operation that not all lanes of its mask reach: "
                                                         : "a barrier that not all threads reach: ";
    message += current_thread() + " " + waiting_place(thread);
    for (unsigned i = 0; i < execution.count; i++) {
        if (same_place(thread, execution.threads[i])) continue;
        message += ", thread " + thread_position(i) + " " + waiting_place(execution.threads[i]);
        break;
    }
    if (thread.phase == Phase::IN_WARP) {
        char mask[40];
        snprintf(mask, sizeof mask, "; the mask is %#x", thread.request.mask);
        message += mask;
    }
    fail(CUDA_ERROR_LAUNCH_FAILED, message);
}

}  // namespace emulator
