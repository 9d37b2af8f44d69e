// Barriers, operations of warps, and the order of threads.
#include "harness.h"

using namespace test;

namespace {

const char* const REVERSE = R"(
extern "C" __global__ void __launch_bounds__(256) test_kernel(const unsigned* __restrict__ from, unsigned* __restrict__ to) {
    __shared__ unsigned tile[256];
    tile[threadIdx.x] = from[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    to[blockIdx.x * 256 + threadIdx.x] = tile[255 - threadIdx.x];
}
)";

/// Runs a kernel of 64 threads with one output; returns the result.
int run_once(const char* source, unsigned threads = 64) {
    Device device;
    Pointer to = device.allocate(4096);
    return device.run(device.kernel(source), 1, threads, to);
}

}  // namespace

TEST(correct_kernel_passes_in_each_order) {
    for (const char* races : {"off", "shared", "all"}) {
        for (const std::string& order : ORDERS) {
            Setting one("CUDA_EMULATOR_ORDER", order), two("CUDA_EMULATOR_RACES", races);
            Device device;
            std::vector<unsigned> values(1024);
            for (unsigned i = 0; i < 1024; i++) values[i] = i * 7;
            Pointer from = device.upload(values), to = device.allocate(4096);
            CHECK_EQUAL(device.run(device.kernel(REVERSE), 4, 256, from, to), 0);
            auto result = device.download<unsigned>(to, 1024);
            for (unsigned i = 0; i < 1024; i++) CHECK_EQUAL(result[i], values[i / 256 * 256 + 255 - i % 256]);
        }
    }
}

TEST(dropped_barrier_gives_wrong_results_or_a_race) {
    for (const char* races : {"off", "shared"}) {
        for (const std::string& order : ORDERS) {
            Setting one("CUDA_EMULATOR_ORDER", order), two("CUDA_EMULATOR_RACES", races), three("CUDA_EMULATOR_DROP_BARRIER", "1");
            Device device;
            std::vector<unsigned> values(256, 5);
            Pointer from = device.upload(values), to = device.allocate(1024);
            int code = device.run(device.kernel(REVERSE), 1, 256, from, to);
            if (std::string(races) == "off") {
                CHECK_EQUAL(code, 0);
                CHECK(device.download<unsigned>(to, 256) != values);
            } else {
                CHECK_EQUAL(code, 719);
                CHECK_CONTAINS(failure(), "race on workgroup memory");
                CHECK_CONTAINS(failure(), "of `tile`");
                CHECK_CONTAINS(failure(), "test.cu:4");
                CHECK_CONTAINS(failure(), "test.cu:6");
            }
        }
    }
}

TEST(divergent_barrier_is_an_error) {
    for (const std::string& order : ORDERS) {
        Setting setting("CUDA_EMULATOR_ORDER", order);
        Device device;
        Pointer to = device.allocate(4);
        void* kernel = device.kernel(R"(
            extern "C" __global__ void test_kernel(unsigned* to) {
                if (threadIdx.x < 40) {
                    __syncthreads();
                } else {
                    __syncthreads();
                }
            })");
        CHECK_EQUAL(device.run(kernel, 1, 64, to), 719);
        CHECK_CONTAINS(
            failure(),
            "thread (0, 0, 0) waits at the barrier in test.cu:4, thread (40, 0, 0) waits at the barrier in test.cu:6");
    }
}

TEST(exit_before_a_barrier_is_an_error) {
    CHECK_EQUAL(run_once(R"(
        extern "C" __global__ void test_kernel(unsigned* to) {
            if (threadIdx.x == 9) return;
            __syncthreads();
        })"),
                719);
}

TEST(shuffle_that_not_all_lanes_reach_is_an_error) {
    Device device;
    Pointer to = device.allocate(4096);
    void* kernel = device.kernel(R"(
        extern "C" __global__ void test_kernel(unsigned* to) {
            if (threadIdx.x != 5) to[threadIdx.x] = __shfl_xor_sync(0xffffffffu, threadIdx.x, 1);
            __syncthreads();
        })");
    CHECK_EQUAL(device.run(kernel, 1, 64, to), 719);
    CHECK_CONTAINS(failure(),
                   "waits in the warp operation in test.cu:3, thread (5, 0, 0) waits at the barrier in test.cu:4");
}

TEST(mask_without_the_calling_lane_is_an_error) {
    CHECK_EQUAL(run_once(R"(
        extern "C" __global__ void test_kernel(unsigned* to) { to[threadIdx.x] = __shfl_sync(0xfffffff0u, threadIdx.x, 4); })"),
                719);
}

TEST(shuffles_and_votes_are_those_of_cuda) {
    const char* source = R"(
        extern "C" __global__ void test_kernel(unsigned* to) {
            unsigned lane = threadIdx.x % 32, t = threadIdx.x, all = 0xffffffffu;
            to += t * 8;
            to[0] = __shfl_sync(all, t, 3);
            to[1] = __shfl_xor_sync(all, t, 5);
            to[2] = __shfl_up_sync(all, t, 2);
            to[3] = __shfl_down_sync(all, t, 4);
            to[4] = __ballot_sync(all, lane & 1);
            to[5] = __any_sync(all, t == 40);
            to[6] = __all_sync(all, t < 32);
            to[7] = lane < 16 ? __shfl_sync(0x0000ffffu, t, 1, 8) : __shfl_sync(0xffff0000u, t, 2, 16);
        })";
    for (const std::string& order : ORDERS) {
        Setting setting("CUDA_EMULATOR_ORDER", order);
        Device device;
        Pointer to = device.allocate(64 * 32);
        CHECK_EQUAL(device.run(device.kernel(source), 1, 64, to), 0);
        auto result = device.download<unsigned>(to, 64 * 8);
        for (unsigned t = 0; t < 64; t++) {
            unsigned lane = t % 32, warp = t - lane;
            const unsigned* got = &result[t * 8];
            CHECK_EQUAL(got[0], warp + 3);
            CHECK_EQUAL(got[1], warp + (lane ^ 5));
            CHECK_EQUAL(got[2], lane < 2 ? t : t - 2);
            CHECK_EQUAL(got[3], lane > 27 ? t : t + 4);
            CHECK_EQUAL(got[4], 0xaaaaaaaau);
            CHECK_EQUAL(got[5], warp == 32);
            CHECK_EQUAL(got[6], warp == 0);
            CHECK_EQUAL(got[7], lane < 16 ? warp + lane / 8 * 8 + 1 : warp + 16 + 2);
        }
    }
}

TEST(partial_warps_and_exited_lanes_are_left_out) {
    Device device;
    Pointer to = device.allocate(40 * 4);
    void* kernel = device.kernel(R"(
        extern "C" __global__ void test_kernel(unsigned* to) {
            if (threadIdx.x == 2) return;
            to[threadIdx.x] = __ballot_sync(0xffffffffu, 1);
        })");
    CHECK_EQUAL(device.run(kernel, 1, 40, to), 0);
    auto result = device.download<unsigned>(to, 40);
    CHECK_EQUAL(result[0], 0xfffffffbu);
    CHECK_EQUAL(result[39], 0xffu);
}

TEST(matrices_are_multiplied_as_ptx_lays_them_out) {
    Device device;
    // a[i][k] = i + 2k, b[k][j] = k - j, sums begin with 1; each lane loads its fragments by the layouts of the PTX
    // manual.
    void* kernel = device.kernel(R"(
        __device__ unsigned pack(float low, float high) { return cuda_f32_to_f16(low) | (unsigned)cuda_f32_to_f16(high) << 16; }
        extern "C" __global__ void test_kernel(float* to) {
            unsigned group = threadIdx.x / 4, pair = threadIdx.x % 4 * 2;
            unsigned a[4], b[2];
            for (unsigned r = 0; r < 4; r++) {
                float row = group + r % 2 * 8, column = pair + r / 2 * 8;
                a[r] = pack(row + 2 * column, row + 2 * (column + 1));
            }
            for (unsigned r = 0; r < 2; r++) {
                float row = pair + r * 8, column = group;
                b[r] = pack(row - column, row + 1 - column);
            }
            float d[4] = {1, 1, 1, 1};
            cuda_mma_m16n8k16_f16_f32(d, a[0], a[1], a[2], a[3], b[0], b[1]);
            for (unsigned r = 0; r < 4; r++) to[(group + r / 2 * 8) * 8 + pair + r % 2] = d[r];
        })");
    Pointer to = device.allocate(16 * 8 * 4);
    CHECK_EQUAL(device.run(kernel, 1, 32, to), 0);
    auto result = device.download<float>(to, 128);
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 8; j++) {
            float sum = 1;
            for (int k = 0; k < 16; k++) sum += static_cast<float>((i + 2 * k) * (k - j));
            CHECK_EQUAL(result[static_cast<size_t>(i * 8 + j)], sum);
        }
    }
}

TEST(matrices_of_bytes_are_multiplied_as_ptx_lays_them_out) {
    Device device;
    // a[i][k] = 7i - 3k, b[k][j] = 4k - 9j, sums begin with 1; then the first 16 columns and rows alone.
    void* kernel = device.kernel(R"(
        __device__ unsigned pack(int first, int step) {
            unsigned word = 0;
            for (int i = 0; i < 4; i++) word |= (unsigned)(first + i * step & 255) << 8 * i;
            return word;
        }
        extern "C" __global__ void test_kernel(int* to) {
            int group = threadIdx.x / 4, four = threadIdx.x % 4 * 4;
            unsigned a[4], b[2];
            for (int r = 0; r < 4; r++) a[r] = pack(7 * (group + r % 2 * 8) - 3 * (four + r / 2 * 16), -3);
            for (int r = 0; r < 2; r++) b[r] = pack(4 * (four + r * 16) - 9 * group, 4);
            int c[4] = {1, 1, 1, 1}, d[4], e[4];
            cuda_mma_m16n8k32_i8(d, a[0], a[1], a[2], a[3], b[0], b[1], c);
            cuda_mma_m16n8k16_i8(e, a[0], a[1], b[0], c);
            for (int r = 0; r < 4; r++) {
                int at = (group + r / 2 * 8) * 8 + four / 2 + r % 2;
                to[at] = d[r];
                to[128 + at] = e[r];
            }
        })");
    Pointer to = device.allocate(2 * 128 * 4);
    CHECK_EQUAL(device.run(kernel, 1, 32, to), 0);
    auto result = device.download<int>(to, 256);
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 8; j++) {
            int sum = 1;
            for (int k = 0; k < 32; k++) {
                sum += (7 * i - 3 * k) * (4 * k - 9 * j);
                if (k == 15) CHECK_EQUAL(result[static_cast<size_t>(128 + i * 8 + j)], sum);
            }
            CHECK_EQUAL(result[static_cast<size_t>(i * 8 + j)], sum);
        }
    }
}

TEST(matrix_sums_are_truncated) {
    Device device;
    // a has ones in its first columns, b the terms of each sum, which begins with 0.
    void* kernel = device.kernel(R"(
        extern "C" __global__ void test_kernel(float* to) {
            unsigned one = threadIdx.x % 4 < 2 ? 0x3c003c00u : 0u, pair = threadIdx.x % 4;
            // 2^15, -(2^-9 + 2^-24), 2^-24 and 2^15: the small terms are below the last bit of the large ones.
            unsigned b = pair == 0 ? 0x98017800u : pair == 1 ? 0x78000001u : 0u;
            float d[4] = {};
            cuda_mma_m16n8k16_f16_f32(d, one, one, 0, 0, b, 0);
            to[threadIdx.x] = d[0];
            float e[4] = {};
            // 2^-24 times 2^-14 is not lost where there is nothing larger; nor is it beside 2^-24 times 2^-1, but
            // beside 2^-24: a subnormal half is aligned as 2^-14 is.
            unsigned smallest = pair == 0 ? 0x00010001u : 0u;
            cuda_mma_m16n8k16_f16_f32(e, smallest, 0, 0, 0, 0x0400u, 0);
            to[32 + threadIdx.x] = e[0];
            float f[4] = {};
            cuda_mma_m16n8k16_f16_f32(f, smallest, 0, 0, 0, 0x38000400u, 0);
            to[64 + threadIdx.x] = f[0];
            float g[4] = {};
            cuda_mma_m16n8k16_f16_f32(g, smallest, 0, 0, 0, 0x3c000400u, 0);
            to[96 + threadIdx.x] = g[0];
        })");
    Pointer to = device.allocate(128 * 4);
    CHECK_EQUAL(device.run(kernel, 1, 32, to), 0);
    auto result = device.download<float>(to, 128);
    CHECK_EQUAL(result[0], 65536.0f);
    CHECK_EQUAL(result[32], 0x1p-38f);
    CHECK_EQUAL(result[64], 0x1p-25f + 0x1p-38f);
    CHECK_EQUAL(result[96], 0x1p-24f);
}
