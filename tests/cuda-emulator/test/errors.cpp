// Errors of calls, sticky errors, limits, faults on request, counters, and images.
#include <cstring>

#include "harness.h"

using namespace test;

namespace {

const char* const STORE = R"(
extern "C" __global__ void __launch_bounds__(64) test_kernel(unsigned* to, unsigned at) { to[at] = threadIdx.x; }
)";

}  // namespace

TEST(failure_is_sticky_until_the_context_ends) {
    {
        Device device;
        void* kernel = device.kernel(STORE);
        Pointer to = device.allocate(4), other = 0;
        CHECK_EQUAL(device.run(kernel, 1, 1, to, 1000000u), 700);
        CHECK_EQUAL(call("cuMemAllocAsync", &other, size_t{4}, device.stream), 700);
        CHECK_EQUAL(device.launch(kernel, 1, 1, to, 0u), 700);
        CHECK_EQUAL(call("cuStreamQuery", device.stream), 700);
        CHECK_EQUAL(call("cuMemFreeAsync", to, device.stream), 700);
        CHECK_EQUAL(count("live_allocations"), 0u);
    }
    Device device;
    Pointer to = device.allocate(4);
    CHECK_EQUAL(device.run(device.kernel(STORE), 1, 1, to, 0u), 0);
}

TEST(calls_need_a_current_context) {
    Device device;
    Pointer pointer = 0;
    void* context = nullptr;
    OK("cuCtxGetCurrent", &context);
    OK("cuCtxSetCurrent", static_cast<void*>(nullptr));
    CHECK_EQUAL(call("cuMemAlloc_v2", &pointer, size_t{4}), 201);
    OK("cuCtxSetCurrent", context);
    CHECK_EQUAL(call("cuMemAlloc_v2", &pointer, size_t{4}), 0);
}

TEST(launches_have_limits) {
    Device device;
    void* kernel = device.kernel(STORE);
    Pointer to = device.allocate(4);
    unsigned at = 0;
    void* parameters[] = {&to, &at};
    auto launch = [&](unsigned x, unsigned y, unsigned z, unsigned threads, unsigned shared) {
        return call("cuLaunchKernel", kernel, x, y, z, threads, 1u, 1u, shared, device.stream,
                    static_cast<void**>(parameters), static_cast<void**>(nullptr));
    };
    CHECK_EQUAL(launch(1, 65535, 1, 1, 0), 0);
    CHECK_EQUAL(launch(1, 65536, 1, 1, 0), 1);
    CHECK_EQUAL(launch(1, 1, 65536, 1, 0), 1);
    CHECK_EQUAL(launch(0, 1, 1, 1, 0), 1);
    CHECK_EQUAL(launch(1, 1, 1, 1025, 0), 1);
    CHECK_EQUAL(launch(1, 1, 1, 65, 0), 701);
    CHECK_EQUAL(launch(1, 1, 1, 64, 49153), 1);
    CHECK_EQUAL(device.synchronize(), 0);
}

TEST(workgroup_memory_has_a_limit) {
    Device device;
    std::string image = device.cubin(
        "extern \"C\" __global__ void test_kernel(unsigned* to) { __shared__ unsigned tile[12289];"
        "tile[threadIdx.x] = 1; __syncthreads(); to[0] = tile[to[1]]; }");
    void* module = nullptr;
    CHECK_EQUAL(call("cuModuleLoadData", &module, static_cast<const void*>(image.data())), 218);
}

TEST(copies_are_checked) {
    Device device;
    Pointer to = device.allocate(8);
    unsigned values[4] = {};
    CHECK_EQUAL(call("cuMemcpyHtoDAsync_v2", to, static_cast<const void*>(values), size_t{9}, device.stream), 1);
    CHECK_EQUAL(call("cuMemcpyDtoHAsync_v2", static_cast<void*>(values), to + 4, size_t{5}, device.stream), 1);
    CHECK_EQUAL(call("cuMemcpyDtoDAsync_v2", to, Pointer{64}, size_t{4}, device.stream), 1);
    CHECK_EQUAL(call("cuMemsetD8Async", to, static_cast<unsigned char>(0), size_t{9}, device.stream), 1);
    CHECK_EQUAL(call("cuMemsetD32Async", to + 2, 0u, size_t{1}, device.stream), 1);
    OK("cuMemFree_v2", to);
    CHECK_EQUAL(call("cuMemFree_v2", to), 1);
    CHECK_EQUAL(call("cuMemcpyHtoDAsync_v2", to, static_cast<const void*>(values), size_t{4}, device.stream), 1);
}

TEST(copy_to_memory_that_is_freed_before_is_found) {
    Setting lazy("CUDA_EMULATOR_LAZY", "1");
    Device device;
    Pointer to = device.allocate(8);
    unsigned value = 1;
    OK("cuMemFreeAsync", to, device.stream);
    OK("cuMemcpyHtoDAsync_v2", to, static_cast<const void*>(&value), size_t{4}, device.stream);
    CHECK_EQUAL(device.synchronize(), 700);
    CHECK_CONTAINS(failure(), "has been freed");
}

TEST(memory_runs_out) {
    Setting memory("CUDA_EMULATOR_MEMORY", "1000000");
    Device device;
    Pointer first = device.allocate(600000), second = 0;
    CHECK_EQUAL(call("cuMemAllocAsync", &second, size_t{600000}, device.stream), 2);
    size_t available = 0, total = 0;
    OK("cuMemGetInfo_v2", &available, &total);
    CHECK_EQUAL(available, 400000u);
    CHECK_EQUAL(total, 1000000u);
    // The pool keeps what is freed until something waits, and has it for its own allocations only.
    OK("cuMemFreeAsync", first, device.stream);
    OK("cuMemAllocAsync", &second, size_t{300000}, device.stream);
    Pointer plain = 0;
    CHECK_EQUAL(call("cuMemAlloc_v2", &plain, size_t{500000}), 2);
    CHECK_EQUAL(device.synchronize(), 0);
    OK("cuMemAlloc_v2", &plain, size_t{500000});
    OK("cuMemFree_v2", plain);
    OK("cuMemGetInfo_v2", &available, &total);
    CHECK_EQUAL(available, 700000u);
}

TEST(pool_keeps_up_to_its_threshold) {
    Device device;
    void* pool = nullptr;
    OK("cuDeviceGetDefaultMemPool", &pool, 0);
    uint64_t threshold = 1000, reserved = 0;
    OK("cuMemPoolSetAttribute", pool, 4, static_cast<void*>(&threshold));
    OK("cuMemFreeAsync", device.allocate(5000), device.stream);
    CHECK_EQUAL(device.synchronize(), 0);
    OK("cuMemPoolGetAttribute", pool, 5, static_cast<void*>(&reserved));
    CHECK_EQUAL(reserved, 1000u);
    OK("cuMemPoolTrimTo", pool, size_t{0});
    OK("cuMemPoolGetAttribute", pool, 5, static_cast<void*>(&reserved));
    CHECK_EQUAL(reserved, 0u);
}

TEST(faults_come_on_request) {
    Setting faults("CUDA_EMULATOR_FAIL", "cuMemAllocAsync:2:OUT_OF_MEMORY,kernel:3:719");
    Device device;
    Pointer to = device.allocate(4), other = 0;
    CHECK_EQUAL(call("cuMemAllocAsync", &other, size_t{4}, device.stream), 2);
    CHECK_EQUAL(call("cuMemAllocAsync", &other, size_t{4}, device.stream), 0);
    void* kernel = device.kernel(STORE);
    CHECK_EQUAL(device.run(kernel, 1, 1, to, 0u), 0);
    CHECK_EQUAL(device.run(kernel, 1, 1, to, 0u), 0);
    CHECK_EQUAL(device.run(kernel, 1, 1, to, 0u), 719);
    CHECK_EQUAL(device.synchronize(), 719);
}

TEST(device_is_what_the_environment_says) {
    Setting one("CUDA_EMULATOR_ARCH", "89"), two("CUDA_EMULATOR_DRIVER", "13000"), three("CUDA_EMULATOR_DEVICES", "2");
    Device device;
    int value = 0;
    OK("cuDriverGetVersion", &value);
    CHECK_EQUAL(value, 13000);
    OK("cuDeviceGetCount", &value);
    CHECK_EQUAL(value, 2);
    OK("cuDeviceGetAttribute", &value, 75, 0);
    CHECK_EQUAL(value, 8);
    OK("cuDeviceGetAttribute", &value, 76, 0);
    CHECK_EQUAL(value, 9);
    CHECK_EQUAL(call("cuDeviceGet", &value, 2), 101);
    char name[100];
    OK("cuDeviceGetName", static_cast<char*>(name), 100, 1);
    CHECK_CONTAINS(std::string(name), "emulated");
    const char* text = nullptr;
    OK("cuGetErrorName", 700, &text);
    CHECK_EQUAL(strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"), 0);
}

TEST(image_is_checked_when_it_is_loaded) {
    Device device;
    std::string image = device.cubin(STORE), ptx = device.cubin(STORE, "--gpu-architecture=compute_80", true);
    auto load = [&](const std::string& bytes) {
        void* module = nullptr;
        return call("cuModuleLoadData", &module, static_cast<const void*>(bytes.data()));
    };
    CHECK_EQUAL(load(image), 0);
    CHECK_EQUAL(load(ptx), 0);
    CHECK_EQUAL(ptx.find('\0'), ptx.size() - 1);
    CHECK_EQUAL(device.cubin(STORE, "--gpu-architecture=compute_80").size(), 0u);
    std::string damaged = image;
    damaged[damaged.size() / 2] ^= 1;
    CHECK_EQUAL(load(damaged), 200);
    damaged = image;
    damaged[26] ^= 1;
    CHECK_EQUAL(load(damaged), 200);
    CHECK_EQUAL(load(std::string(200, 'x')), 200);
    CHECK_EQUAL(load(device.cubin(STORE, "--gpu-architecture=sm_90")), 209);
    Setting off("CUDA_EMULATOR_RACES", "off");
    CHECK_EQUAL(load(image), 209);
}

TEST(compiler_reports_errors_and_caches_results) {
    Device device;
    CHECK_CONTAINS(device.cubin("extern \"C\" __global__ void test_kernel() { wrong; }"), "test.cu:1");
    CHECK_CONTAINS(device.cubin(STORE, "--no-such-option"), "unrecognized option");
    CHECK_CONTAINS(device.cubin(STORE, "--gpu-architecture=sm_1"), "invalid value for --gpu-architecture");
    device.cubin(STORE);
    uint64_t compiles = compiler_count("compiles"), cached = compiler_count("cached_compiles");
    device.cubin(STORE);
    CHECK_EQUAL(compiler_count("compiles") - compiles, 1u);
    CHECK_EQUAL(compiler_count("cached_compiles") - cached, 1u);
}

TEST(kernel_that_is_not_there_is_not_found) {
    Device device;
    std::string image = device.cubin(STORE);
    void *module = nullptr, *function = nullptr;
    OK("cuModuleLoadData", &module, static_cast<const void*>(image.data()));
    CHECK_EQUAL(call("cuModuleGetFunction", &function, module, "other"), 500);
    OK("cuModuleGetFunction", &function, module, "test_kernel");
    int value = 0;
    OK("cuFuncGetAttribute", &value, 0, function);
    CHECK_EQUAL(value, 64);
    OK("cuModuleUnload", module);
    CHECK_EQUAL(call("cuFuncGetAttribute", &value, 0, function), 400);
    CHECK_EQUAL(call("cuModuleUnload", module), 400);
}

TEST(functions_that_are_not_implemented_say_so) { CHECK_EQUAL(call("cuMemAllocManaged"), 801); }

TEST(counters_follow_memory) {
    uint64_t before = count("allocations");
    {
        Device device;
        Pointer to = device.allocate(1000);
        CHECK_EQUAL(count("live_allocations"), 1u);
        CHECK_EQUAL(count("allocated_bytes"), 1000u);
        OK("cuMemFreeAsync", to, device.stream);
        CHECK_EQUAL(device.synchronize(), 0);
        CHECK_EQUAL(count("live_allocations"), 0u);
        device.allocate(500);
    }
    // The end of the context frees what is left.
    CHECK_EQUAL(count("allocated_bytes"), 0u);
    CHECK_EQUAL(count("allocations") - before, 2u);
}
