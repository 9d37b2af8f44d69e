// Streams, events, callbacks and graphs.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "harness.h"

using namespace test;

namespace {

const char* const ADD = R"(
extern "C" __global__ void test_kernel(unsigned* to, unsigned amount) { to[threadIdx.x] += amount; }
)";

void set_flag(void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }

void* pinned(size_t bytes) {
    void* pointer = nullptr;
    OK("cuMemAllocHost_v2", &pointer, bytes);
    return pointer;
}

/// Waits for a condition that work on the device brings about.
template <class Condition>
void eventually(Condition condition) {
    for (int i = 0; i < 2000; i++) {
        if (condition()) return;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    CHECK(!"the condition never came true");
}

}  // namespace

TEST(lazy_stream_does_nothing_before_something_waits) {
    Setting lazy("CUDA_EMULATOR_LAZY", "1");
    Device device;
    Pointer to = device.upload<unsigned>({1, 2});
    auto* result = static_cast<unsigned*>(pinned(8));
    CHECK_EQUAL(device.launch(device.kernel(ADD), 1, 2, to, 5u), 0);
    OK("cuMemcpyDtoHAsync_v2", static_cast<void*>(result), to, size_t{8}, device.stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_EQUAL(result[0], 0xffffffffu);
    CHECK_EQUAL(device.synchronize(), 0);
    CHECK_EQUAL(result[0], 6u);
    OK("cuMemFreeHost", static_cast<void*>(result));
}

TEST(queries_and_callbacks_make_progress) {
    for (const char* lazy : {"0", "1"}) {
        Setting setting("CUDA_EMULATOR_LAZY", lazy);
        Device device;
        void* kernel = device.kernel(ADD);
        Pointer to = device.upload<unsigned>({1, 2});
        CHECK_EQUAL(device.launch(kernel, 1, 2, to, 5u), 0);
        eventually([&] { return call("cuStreamQuery", device.stream) == 0; });
        void* event = nullptr;
        OK("cuEventCreate", &event, 2u);
        OK("cuEventQuery", event);
        CHECK_EQUAL(device.launch(kernel, 1, 2, to, 5u), 0);
        OK("cuEventRecord", event, device.stream);
        eventually([&] { return call("cuEventQuery", event) == 0; });
        std::atomic<bool> flag{false};
        CHECK_EQUAL(device.launch(kernel, 1, 2, to, 5u), 0);
        OK("cuLaunchHostFunc", device.stream, set_flag, static_cast<void*>(&flag));
        eventually([&] { return flag.load(); });
        CHECK_EQUAL(device.download<unsigned>(to, 1)[0], 16u);
        OK("cuEventDestroy_v2", event);
        CHECK_EQUAL(call("cuEventQuery", event), 400);
    }
}

TEST(callback_must_not_call_the_driver) {
    static std::atomic<int> result;
    result = -1;
    Device device;
    void* context = nullptr;
    OK("cuCtxGetCurrent", &context);
    OK(
        "cuLaunchHostFunc", device.stream,
        +[](void* current) {
            OK("cuCtxSetCurrent", current);
            result = call("cuCtxSynchronize");
        },
        context);
    CHECK_EQUAL(device.synchronize(), 0);
    CHECK_EQUAL(result.load(), 800);
}

TEST(stream_waits_for_the_event_of_another) {
    for (const std::string& order : ORDERS) {
        for (const char* lazy : {"0", "1"}) {
            Setting one("CUDA_EMULATOR_ORDER", order), two("CUDA_EMULATOR_LAZY", lazy);
            Device device;
            void *other = nullptr, *event = nullptr, *kernel = device.kernel(ADD);
            OK("cuStreamCreate", &other, 1u);
            OK("cuEventCreate", &event, 0u);
            Pointer from = device.upload<unsigned>({1, 2}), to = device.upload<unsigned>({0, 0});
            CHECK_EQUAL(device.launch(kernel, 1, 2, from, 7u), 0);
            OK("cuEventRecord", event, device.stream);
            OK("cuStreamWaitEvent", other, event, 0u);
            OK("cuMemcpyDtoDAsync_v2", to, from, size_t{8}, other);
            OK("cuStreamSynchronize", other);
            CHECK_EQUAL(device.download<unsigned>(to, 1)[0], 8u);
            float milliseconds = -1;
            void* later = nullptr;
            OK("cuEventCreate", &later, 0u);
            OK("cuEventRecord", later, device.stream);
            OK("cuEventSynchronize", later);
            OK("cuEventElapsedTime", &milliseconds, event, later);
            CHECK(milliseconds >= 0);
            OK("cuStreamDestroy_v2", other);
        }
    }
}

TEST(missing_event_is_seen_between_streams) {
    // One stream's copy is not ordered behind the other's kernel: with lazy streams it sees the old value.
    Setting lazy("CUDA_EMULATOR_LAZY", "1");
    Device device;
    void *other = nullptr, *kernel = device.kernel(ADD);
    OK("cuStreamCreate", &other, 1u);
    Pointer from = device.upload<unsigned>({1}), to = device.upload<unsigned>({0});
    CHECK_EQUAL(device.synchronize(), 0);
    CHECK_EQUAL(device.launch(kernel, 1, 1, from, 7u), 0);
    OK("cuMemcpyDtoDAsync_v2", to, from, size_t{4}, other);
    OK("cuStreamSynchronize", other);
    CHECK_EQUAL(device.download<unsigned>(to, 1)[0], 1u);
    OK("cuStreamDestroy_v2", other);
}

TEST(default_stream_waits_for_blocking_streams) {
    Setting lazy("CUDA_EMULATOR_LAZY", "1");
    Device device;
    void *blocking = nullptr, *kernel = device.kernel(ADD);
    OK("cuStreamCreate", &blocking, 0u);
    Pointer to = device.upload<unsigned>({1});
    CHECK_EQUAL(device.synchronize(), 0);
    std::swap(device.stream, blocking);
    CHECK_EQUAL(device.launch(kernel, 1, 1, to, 7u), 0);
    std::swap(device.stream, blocking);
    unsigned result = 0;
    OK("cuMemcpyDtoH_v2", static_cast<void*>(&result), to, size_t{4});
    CHECK_EQUAL(result, 8u);
    OK("cuStreamDestroy_v2", blocking);
}

TEST(pageable_memory_is_taken_at_once_and_pinned_memory_later) {
    Setting lazy("CUDA_EMULATOR_LAZY", "1");
    Device device;
    Pointer one = device.allocate(4), two = device.allocate(4);
    unsigned pageable = 5;
    auto* locked = static_cast<unsigned*>(pinned(4));
    *locked = 5;
    CHECK_EQUAL(count("pinned_bytes"), 4u);
    OK("cuMemcpyHtoDAsync_v2", one, static_cast<const void*>(&pageable), size_t{4}, device.stream);
    OK("cuMemcpyHtoDAsync_v2", two, static_cast<const void*>(locked), size_t{4}, device.stream);
    pageable = *locked = 6;
    CHECK_EQUAL(device.download<unsigned>(one, 1)[0], 5u);
    CHECK_EQUAL(device.download<unsigned>(two, 1)[0], 6u);
    OK("cuMemFreeHost", static_cast<void*>(locked));
    CHECK_EQUAL(count("pinned_bytes"), 0u);
}

TEST(graph_replays_what_was_captured) {
    Device device;
    void *kernel = device.kernel(ADD), *graph = nullptr, *executable = nullptr;
    Pointer to = device.upload<unsigned>({0, 10});
    OK("cuStreamBeginCapture_v2", device.stream, 1);
    CHECK_EQUAL(device.launch(kernel, 1, 2, to, 3u), 0);
    CHECK_EQUAL(device.launch(kernel, 1, 2, to, 4u), 0);
    OK("cuStreamEndCapture", device.stream, &graph);
    OK("cuGraphInstantiateWithFlags", &executable, graph, 0ull);
    OK("cuGraphDestroy", graph);
    CHECK_EQUAL(device.download<unsigned>(to, 2)[1], 10u);
    uint64_t launches = count("graph_launches"), kernels = count("kernels");
    for (int i = 0; i < 3; i++) OK("cuGraphLaunch", executable, device.stream);
    CHECK_EQUAL(device.download<unsigned>(to, 2)[1], 31u);
    CHECK_EQUAL(count("graph_launches") - launches, 3u);
    CHECK_EQUAL(count("kernels") - kernels, 6u);
    // Work that has been launched is done though the graph is destroyed.
    OK("cuGraphLaunch", executable, device.stream);
    OK("cuGraphExecDestroy", executable);
    CHECK_EQUAL(device.download<unsigned>(to, 2)[1], 38u);
    CHECK_EQUAL(call("cuGraphLaunch", executable, device.stream), 400);
}

TEST(graph_of_freed_memory_is_an_illegal_address) {
    Device device;
    void *kernel = device.kernel(ADD), *graph = nullptr, *executable = nullptr;
    Pointer to = device.upload<unsigned>({0, 10});
    OK("cuStreamBeginCapture_v2", device.stream, 1);
    CHECK_EQUAL(device.launch(kernel, 1, 2, to, 3u), 0);
    OK("cuStreamEndCapture", device.stream, &graph);
    OK("cuGraphInstantiateWithFlags", &executable, graph, 0ull);
    OK("cuMemFreeAsync", to, device.stream);
    OK("cuGraphLaunch", executable, device.stream);
    CHECK_EQUAL(device.synchronize(), 700);
}

TEST(captures_forbid_what_waits) {
    Device device;
    void* graph = nullptr;
    Pointer to = device.upload<unsigned>({0}), other = 0;
    unsigned result = 0;
    auto capture_with = [&](auto forbidden, int expected, int mode = 0) {
        OK("cuStreamBeginCapture_v2", device.stream, mode);
        CHECK_EQUAL(forbidden(), expected);
        return call("cuStreamEndCapture", device.stream, &graph);
    };
    CHECK_EQUAL(capture_with([&] { return device.synchronize(); }, 900), 901);
    CHECK_EQUAL(capture_with([&] { return call("cuStreamQuery", device.stream); }, 900), 901);
    CHECK_EQUAL(capture_with([&] { return call("cuMemAlloc_v2", &other, size_t{4}); }, 900), 901);
    CHECK_EQUAL(
        capture_with(
            [&] { return call("cuMemcpyDtoHAsync_v2", static_cast<void*>(&result), to, size_t{4}, device.stream); },
            900),
        901);
    CHECK_EQUAL(capture_with([&] { return call("cuMemAlloc_v2", &other, size_t{4}); }, 0, 2), 0);
    OK("cuMemFree_v2", other);
    void* event = nullptr;
    OK("cuEventCreate", &event, 2u);
    OK("cuEventRecord", event, device.stream);
    CHECK_EQUAL(capture_with([&] { return call("cuStreamWaitEvent", device.stream, event, 0u); }, 905), 901);
    CHECK_EQUAL(capture_with([&] { return call("cuEventRecord", event, device.stream); }, 0), 0);
    CHECK_EQUAL(call("cuEventQuery", event), 907);
    CHECK_EQUAL(call("cuStreamBeginCapture_v2", static_cast<void*>(nullptr), 0), 900);
    CHECK_EQUAL(call("cuStreamEndCapture", device.stream, &graph), 401);
}
