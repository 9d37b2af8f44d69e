// Accesses outside of allocations, of freed memory, of memory that nothing has written, and of misaligned addresses.
#include <cmath>

#include "harness.h"

using namespace test;

namespace {

/// Copies one float from and to given places.
const char* const COPY = R"(
extern "C" __global__ void __launch_bounds__(32) test_kernel(const float* __restrict__ from, float* __restrict__ to, unsigned read, unsigned write) {
    if (threadIdx.x == 3) to[write] = from[read];
}
)";

}  // namespace

TEST(correct_copy_passes) {
    Device device;
    Pointer from = device.upload<float>({1, 2, 3}), to = device.allocate(12);
    CHECK_EQUAL(device.run(device.kernel(COPY), 1, 32, from, to, 1u, 2u), 0);
    CHECK_EQUAL(device.download<float>(to, 3)[2], 2.0f);
}

TEST(read_beyond_the_end_is_an_illegal_address) {
    for (const char* races : {"off", "shared", "all"}) {
        Setting setting("CUDA_EMULATOR_RACES", races);
        Device device;
        Pointer from = device.upload<float>({1, 2, 3, 4}), to = device.allocate(12);
        CHECK_EQUAL(device.run(device.kernel(COPY), 1, 32, from, to, 4u, 0u), 700);
        CHECK_CONTAINS(failure(), "kernel `test_kernel`, block (0, 0, 0), thread (3, 0, 0) ");
        CHECK_CONTAINS(failure(), "offset 16 of an allocation of 16 bytes");
        CHECK_CONTAINS(failure(), "test.cu:3");
    }
}

TEST(far_write_is_an_illegal_address) {
    Device device;
    Pointer from = device.upload<float>({1, 2, 3}), to = device.allocate(12);
    CHECK_EQUAL(device.run(device.kernel(COPY), 1, 32, from, to, 0u, 0xffffffffu), 700);
}

TEST(write_beside_an_allocation_is_found_when_it_is_freed) {
    Setting off("CUDA_EMULATOR_RACES", "off");
    Device device;
    Pointer from = device.upload<float>({1, 2, 3}), to = device.allocate(12);
    CHECK_EQUAL(device.run(device.kernel(COPY), 1, 32, from, to, 0u, 3u), 0);
    OK("cuMemFreeAsync", to, device.stream);
    CHECK_EQUAL(device.synchronize(), 700);
    CHECK_CONTAINS(failure(), "wrote at offset 12 of an allocation of 12 bytes");
}

TEST(exact_bounds_are_checked_with_all_races) {
    Setting all("CUDA_EMULATOR_RACES", "all");
    Device device;
    Pointer from = device.upload<float>({1, 2, 3}), to = device.allocate(12);
    CHECK_EQUAL(device.run(device.kernel(COPY), 1, 32, from, to, 0u, 3u), 700);
    CHECK_CONTAINS(failure(), "offset 12 of an allocation of 12 bytes");
}

TEST(freed_parameter_is_an_illegal_address) {
    Device device;
    void* kernel = device.kernel(COPY);
    Pointer from = device.upload<float>({1, 2, 3}), to = device.allocate(12);
    OK("cuMemFreeAsync", from, device.stream);
    CHECK_EQUAL(device.run(kernel, 1, 32, from, to, 0u, 0u), 700);
    CHECK_CONTAINS(failure(), "parameter 0 points to offset 0 of an allocation of 12 bytes that has been freed");
}

TEST(foreign_parameter_is_an_illegal_address) {
    Device device;
    void* kernel = device.kernel(COPY);
    Pointer to = device.allocate(12), from = 0x1000;
    CHECK_EQUAL(device.run(kernel, 1, 32, from, to, 0u, 0u), 700);
}

TEST(use_after_free_is_an_illegal_address) {
    Device device;
    // The freed memory lies behind the parameter that is still valid.
    Pointer from = device.upload<float>({1, 2, 3, 4}), freed = device.upload<float>({1, 2, 3, 4}),
            to = device.allocate(12);
    void* kernel = device.kernel(COPY);
    OK("cuMemFreeAsync", freed, device.stream);
    CHECK(freed > from);
    CHECK_EQUAL(device.run(kernel, 1, 32, from, to, static_cast<unsigned>((freed - from) / 4), 0u), 700);
    CHECK_CONTAINS(failure(), "offset 0 of an allocation of 16 bytes that has been freed");
}

TEST(fresh_memory_reads_as_nan) {
    Device device;
    Pointer from = device.allocate(16), to = device.allocate(16);
    CHECK_EQUAL(device.run(device.kernel(COPY), 1, 32, from, to, 3u, 0u), 0);
    CHECK(std::isnan(device.download<float>(to, 1)[0]));
}

TEST(fresh_workgroup_memory_reads_as_nan) {
    Device device;
    Pointer to = device.allocate(16);
    void* kernel = device.kernel(R"(
        extern "C" __global__ void test_kernel(float* to) {
            __shared__ float tile[4];
            if (threadIdx.x == 9) tile[0] = 1.0f;
            if (threadIdx.x < 4) to[threadIdx.x] = tile[threadIdx.x];
        })");
    CHECK_EQUAL(device.run(kernel, 1, 4, to), 0);
    for (float value : device.download<float>(to, 4)) CHECK(std::isnan(value));
}

TEST(misaligned_vector_load_is_an_error) {
    const char* source = R"(
        struct __align__(16) vec4 { float x, y, z, w; };
        extern "C" __global__ void test_kernel(const float* from, vec4* to) { *to = *(const vec4*)(from + 1); })";
    for (const char* races : {"off", "shared"}) {
        Setting setting("CUDA_EMULATOR_RACES", races);
        Device device;
        Pointer from = device.upload<float>({1, 2, 3, 4, 5}), to = device.allocate(16);
        CHECK_EQUAL(device.run(device.kernel(source), 1, 1, from, to), 716);
        CHECK_CONTAINS(failure(), "offset 4 of an allocation of 20 bytes is not aligned to 16 bytes");
    }
}

TEST(workgroup_memory_has_bounds) {
    Device device;
    Pointer to = device.allocate(16);
    void* kernel = device.kernel(R"(
        extern "C" __global__ void test_kernel(float* to, unsigned at) {
            __shared__ float tile[4];
            tile[threadIdx.x] = 0.0f;
            __syncthreads();
            to[threadIdx.x] = tile[at];
        })");
    CHECK_EQUAL(device.run(kernel, 1, 4, to, 3u), 0);
    CHECK_EQUAL(device.run(kernel, 1, 4, to, 4u), 700);
    CHECK_CONTAINS(failure(), "workgroup memory");
}
