// Streams: queues of operations that one worker carries out.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "../runtime/execution.h"
#include "context.h"

namespace emulator {

struct Stream;

/// One recording of an event, which becomes done when its stream gets there.
struct Recording {
    std::weak_ptr<Stream> stream;
    uint64_t sequence = 0;
    bool done = false;
    double milliseconds = 0;
};

struct Operation {
    std::function<Outcome()> run;
    /// Operations of all streams in the order in which they were enqueued.
    uint64_t sequence = 0;
    /// Something that must be done before.
    std::shared_ptr<Recording> wait_for;
    /// Becomes done with the operation.
    std::shared_ptr<Recording> record;
};

/// What a capture has recorded so far.
struct Capture {
    std::vector<Operation> operations;
    enum Mode { GLOBAL, THREAD_LOCAL, RELAXED } mode;
    std::thread::id thread;
    std::atomic<bool> invalidated{false};
};

struct Stream : std::enable_shared_from_this<Stream> {
    Context* context;
    /// Waits for the default stream, and the default stream for it.
    bool blocking;
    std::deque<Operation> queue;
    /// With lazy streams: up to here something waits for the operations.
    uint64_t demand = 0;
    /// Begun, ended and looked at for other streams with `captures_mutex` locked. Calls with the stream itself look at it without:
    /// a stream is one thread's while it captures.
    std::unique_ptr<Capture> capture;
};

/// What a thread does to one stream may invalidate the captures of others.
inline std::mutex captures_mutex;

/// Finds a stream by its handle; 0, 1 and 2 are default streams.
std::shared_ptr<Stream> find_stream(Context& context, Stream* handle);
std::shared_ptr<Stream> create_stream(Context& context, bool blocking);
/// The stream is forgotten when its work is done.
void retire_stream(const std::shared_ptr<Stream>& stream);
/// The same for all streams of a context but the default one.
void retire_all_streams(Context& context);

/// Enqueues an operation, or adds it to the graph that the stream captures.
CUresult enqueue(Stream* handle, Context& context, std::function<Outcome()> run);
/// Enqueues without capture, and says where.
uint64_t enqueue_now(Stream& stream, Operation operation);
/// Lets operations up to here run though streams are lazy.
void demand(Stream& stream, uint64_t sequence);

/// Waits for a stream, or for all; returns the context's error.
CUresult synchronize(Context& context, Stream* stream);
/// Whether nothing is left; if something is, lets it go on.
bool query(Stream& stream);
/// Waits for a recording.
CUresult synchronize(Context& context, const std::shared_ptr<Recording>& recording);
bool query(const std::shared_ptr<Recording>& recording);

/// Whether the calling thread is the worker, in a callback, where most calls are forbidden.
bool on_worker();
/// The error that a call forbidden during captures returns; it invalidates them. CUDA_SUCCESS if there is none.
CUresult forbid_in_captures(Context& context);
double now_in_milliseconds();

}  // namespace emulator
