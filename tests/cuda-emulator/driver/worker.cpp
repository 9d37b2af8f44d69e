// The worker: one thread of the process that carries out the operations of all streams, one at a time.
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "counters.h"
#include "stream.h"

namespace emulator {

namespace {

struct Worker {
    std::mutex mutex;
    std::condition_variable work, progress;
    std::vector<std::shared_ptr<Stream>> streams;
    uint64_t last_sequence = 0, random = 1;
    bool started = false;
};

thread_local bool is_worker = false;

// Never destroyed: the thread runs until the process ends.
Worker& worker() {
    static auto* instance = new Worker;
    return *instance;
}

void raise(Stream& stream, uint64_t sequence) { stream.demand = std::max(stream.demand, sequence); }

/// Whether the next operation of a stream can run; if others must run before, lets them.
bool runnable(Worker& self, Stream& stream, bool lazy) {
    if (stream.queue.empty()) return false;
    const Operation& next = stream.queue.front();
    if (lazy && next.sequence > stream.demand) return false;
    if (next.wait_for && !next.wait_for->done) {
        if (auto other = next.wait_for->stream.lock()) raise(*other, next.wait_for->sequence);
        return false;
    }
    bool is_default = stream.context->default_stream.get() == &stream;
    for (auto& other : self.streams) {
        bool other_is_default = stream.context->default_stream == other;
        if (other->context != stream.context || !stream.blocking || !other->blocking || is_default == other_is_default)
            continue;
        if (other->queue.empty() || other->queue.front().sequence > next.sequence) continue;
        raise(*other, next.sequence);
        return false;
    }
    return true;
}

std::shared_ptr<Stream> choose(Worker& self) {
    bool lazy = lazy_streams();
    Order order = thread_order();
    size_t count = self.streams.size();
    self.random = self.random * 6364136223846793005ull + order.seed + 1;
    size_t start = order.kind == Order::RANDOM ? (self.random >> 33) % std::max<size_t>(count, 1) : 0;
    // Once more for each stream: one may have raised the demand of another.
    for (size_t i = 0; i < count * count; i++) {
        size_t index = (start + i) % count;
        auto& stream = self.streams[order.kind == Order::BACKWARD ? count - 1 - index : index];
        if (runnable(self, *stream, lazy)) return stream;
    }
    return nullptr;
}

void run_worker() {
    Worker& self = worker();
    pthread_setname_np(pthread_self(), "cuda-emulator");
    std::unique_lock lock(self.mutex);
    is_worker = true;
    for (;;) {
        auto stream = choose(self);
        if (!stream) {
            self.work.wait(lock);
            continue;
        }
        // Work behind a failure is dropped.
        Outcome outcome;
        if (!stream->context->error && stream->queue.front().run) {
            auto run = stream->queue.front().run;
            lock.unlock();
            outcome = run();
            run = nullptr;
            lock.lock();
        }
        if (outcome.code) fail_context(*stream->context, outcome.code, outcome.message);
        if (auto& record = stream->queue.front().record) {
            record->milliseconds = now_in_milliseconds();
            record->done = true;
        }
        stream->queue.pop_front();
        self.progress.notify_all();
    }
}

/// Waits until a condition holds, after `allow` has let the work for it run.
template <class Allow, class Done>
CUresult wait(Context& context, Allow allow, Done done) {
    counters.synchronizations++;
    Worker& self = worker();
    std::unique_lock lock(self.mutex);
    allow(self);
    self.work.notify_all();
    self.progress.wait(lock, [&] { return done(self); });
    // What the pool holds above its threshold goes back to the system.
    std::lock_guard memory(context.memory_mutex);
    context.pool.reserved = std::max(context.pool.used, std::min(context.pool.reserved, context.pool.threshold));
    return context.error;
}

}  // namespace

bool on_worker() { return is_worker; }

double now_in_milliseconds() {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::shared_ptr<Stream> create_stream(Context& context, bool blocking) {
    auto stream = std::make_shared<Stream>();
    stream->context = &context;
    stream->blocking = blocking;
    Worker& self = worker();
    std::lock_guard lock(self.mutex);
    self.streams.push_back(stream);
    if (!self.started) {
        self.started = true;
        std::thread(run_worker).detach();
    }
    return stream;
}

void retire_stream(const std::shared_ptr<Stream>& stream) {
    Worker& self = worker();
    std::unique_lock lock(self.mutex);
    if (!stream->queue.empty()) raise(*stream, stream->queue.back().sequence);
    self.work.notify_all();
    self.progress.wait(lock, [&] { return stream->queue.empty(); });
    self.streams.erase(std::find(self.streams.begin(), self.streams.end(), stream));
}

uint64_t enqueue_now(Stream& stream, Operation operation) {
    Worker& self = worker();
    std::lock_guard lock(self.mutex);
    operation.sequence = ++self.last_sequence;
    if (operation.record) operation.record->sequence = operation.sequence;
    stream.queue.push_back(std::move(operation));
    self.work.notify_all();
    return self.last_sequence;
}

void demand(Stream& stream, uint64_t sequence) {
    Worker& self = worker();
    std::lock_guard lock(self.mutex);
    raise(stream, sequence);
    self.work.notify_all();
}

CUresult synchronize(Context& context, Stream* stream) {
    uint64_t last = 0;
    return wait(
        context,
        [&](Worker& self) {
            last = self.last_sequence;
            for (auto& each : self.streams) {
                if (each->context == &context && (!stream || each.get() == stream)) raise(*each, last);
            }
        },
        [&](Worker& self) {
            return std::all_of(self.streams.begin(), self.streams.end(), [&](auto& each) {
                bool concerned = each->context == &context && (!stream || each.get() == stream);
                return !concerned || each->queue.empty() || each->queue.front().sequence > last;
            });
        });
}

bool query(Stream& stream) {
    Worker& self = worker();
    std::lock_guard lock(self.mutex);
    if (stream.queue.empty()) return true;
    raise(stream, stream.queue.back().sequence);
    self.work.notify_all();
    return false;
}

CUresult synchronize(Context& context, const std::shared_ptr<Recording>& recording) {
    return wait(
        context,
        [&](Worker&) {
            if (auto stream = recording->stream.lock()) raise(*stream, recording->sequence);
        },
        [&](Worker&) { return recording->done; });
}

bool query(const std::shared_ptr<Recording>& recording) {
    Worker& self = worker();
    std::lock_guard lock(self.mutex);
    if (recording->done) return true;
    if (auto stream = recording->stream.lock()) raise(*stream, recording->sequence);
    self.work.notify_all();
    return false;
}

}  // namespace emulator
