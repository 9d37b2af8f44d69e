// The race detector: what it finds, and what it accepts.
#include "harness.h"

using namespace test;

namespace {

/// Runs the body of a kernel with 64 threads in each of two blocks, in each order; all must end with the same result.
int run_body(const std::string& body, unsigned threads = 64) {
    int result = -1;
    for (const std::string& order : ORDERS) {
        Setting setting("CUDA_EMULATOR_ORDER", order);
        Device device;
        Pointer to = device.upload(std::vector<unsigned>(1024, 0));
        void* kernel = device.kernel(
            "extern \"C\" __global__ void test_kernel(unsigned* to) {\n"
            "__shared__ unsigned tile[64]; __shared__ unsigned short small[64];\n"
            "unsigned t = threadIdx.x, block = blockIdx.x; (void)block; (void)small; (void)tile;\n" +
            body + "\n}");
        int code = device.run(kernel, 2, threads, to);
        if (result >= 0) CHECK_EQUAL(code, result);
        result = code;
    }
    return result;
}

}  // namespace

TEST(unordered_read_of_another_threads_write_is_a_race) {
    CHECK_EQUAL(run_body("tile[t] = t; to[t] = tile[t ^ 32];"), 719);
}

TEST(barrier_orders_threads) {
    CHECK_EQUAL(run_body("tile[t] = t; __syncthreads(); to[block * 64 + t] = tile[t ^ 32];"), 0);
}

TEST(write_after_unordered_reads_is_a_race) {
    CHECK_EQUAL(run_body("tile[t] = t; __syncthreads(); unsigned v = tile[(t + 1) % 64]; tile[t] = v; __syncthreads(); "
                         "to[block * 64 + t] = tile[t];"),
                719);
    CHECK_EQUAL(run_body("tile[t] = t; __syncthreads(); unsigned v = tile[(t + 1) % 64]; __syncthreads(); tile[t] = v; "
                         "to[block * 64 + t] = tile[t];"),
                0);
}

TEST(one_of_many_readers_that_writes_is_a_race) {
    CHECK_EQUAL(
        run_body("if (t == 0) tile[0] = 1; __syncthreads(); to[block * 64 + t] = tile[0]; if (t == 63) tile[0] = 2;"),
        719);
}

TEST(two_writers_race_unless_they_write_the_same) {
    CHECK_EQUAL(run_body("tile[0] = t; __syncthreads(); to[block * 64 + t] = tile[0];"), 719);
    CHECK_EQUAL(run_body("tile[0] = 7; __syncthreads(); to[block * 64 + t] = tile[0];"), 0);
    CHECK_EQUAL(run_body("small[1] = t / 63; __syncthreads(); to[block * 64 + t] = small[1];"), 719);
    CHECK_EQUAL(run_body("small[1] = 7; __syncthreads(); to[block * 64 + t] = small[1];"), 0);
    // The last write of a thread, which nothing of its own follows.
    CHECK_EQUAL(run_body("if (block == 9) to[0] = tile[t]; tile[0] = t;"), 719);
}

TEST(warp_barrier_orders_its_lanes) {
    CHECK_EQUAL(run_body("tile[t] = t; __syncwarp(); to[block * 64 + t] = tile[t ^ 1];"), 0);
}

TEST(shuffles_and_votes_do_not_order_memory) {
    CHECK_EQUAL(run_body("tile[t] = t; unsigned v = __shfl_sync(0xffffffffu, t, 0); to[t] = v + tile[t ^ 1];"), 719);
    CHECK_EQUAL(run_body("tile[t] = t; int v = __all_sync(0xffffffffu, 1); to[t] = v + tile[t ^ 1];"), 719);
    CHECK_EQUAL(run_body("tile[t] = t; __syncwarp(); unsigned v = tile[t ^ 1]; v = __shfl_sync(0xffffffffu, v, 0); "
                         "tile[t] = v; to[t] = v;"),
                719);
}

TEST(warp_barrier_does_not_order_warps) {
    CHECK_EQUAL(run_body("tile[t] = t; __syncwarp(); to[block * 64 + t] = tile[t ^ 32];"), 719);
}

TEST(lanes_without_a_warp_operation_race) {
    CHECK_EQUAL(run_body("tile[t] = t; to[block * 64 + t] = tile[t ^ 1];", 32), 719);
}

TEST(atomic_operations_do_not_race) {
    CHECK_EQUAL(run_body("if (t == 0) tile[0] = 0; __syncthreads(); atomicAdd(&tile[0], 1u); __syncthreads(); to[block "
                         "* 64 + t] = tile[0];"),
                0);
    CHECK_EQUAL(
        run_body("if (t == 0) tile[0] = 0; __syncthreads(); atomicAdd(&tile[0], 1u); to[block * 64 + t] = tile[0];"),
        719);
    CHECK_EQUAL(run_body("if (t == 0) tile[0] = 0; atomicAdd(&tile[0], 1u);"), 719);
}

TEST(neighbours_in_one_word_do_not_race) {
    CHECK_EQUAL(run_body("small[t] = t; __syncthreads(); to[block * 64 + t] = small[t ^ 1];"), 0);
    CHECK_EQUAL(run_body("small[t] = t; to[block * 64 + t] = small[t ^ 1];"), 719);
}

TEST(device_memory_is_watched_on_request) {
    const char* blocks_write = "to[t] = block;";
    const char* blocks_read = "if (block == 0) to[t] = 1; else to[64 + t] = to[t];";
    const char* threads_exchange = "to[block * 64 + t] = t; to[512 + block * 64 + t] = to[block * 64 + (t ^ 32)];";
    for (const char* body : {blocks_write, blocks_read, threads_exchange}) {
        CHECK_EQUAL(run_body(body), 0);
        Setting all("CUDA_EMULATOR_RACES", "all");
        CHECK_EQUAL(run_body(body), 719);
        CHECK_EQUAL(run_body("to[block * 64 + t] = t; __syncthreads(); to[512 + block * 64 + t] = to[block * 64 + (t ^ "
                             "32)]; atomicAdd(&to[900], 1u);"),
                    0);
    }
}

TEST(launches_are_ordered) {
    Setting all("CUDA_EMULATOR_RACES", "all");
    Device device;
    Pointer to = device.upload(std::vector<unsigned>(64, 0));
    void* kernel = device.kernel(
        R"(extern "C" __global__ void test_kernel(unsigned* to, unsigned flip) { to[threadIdx.x ^ flip] += 1; })");
    for (unsigned flip = 0; flip < 4; flip++) CHECK_EQUAL(device.run(kernel, 1, 64, to, flip * 21), 0);
    CHECK_EQUAL(device.download<unsigned>(to, 64)[5], 4u);
}
