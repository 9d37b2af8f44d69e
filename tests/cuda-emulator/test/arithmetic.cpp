// Functions of numbers: conversions, halves, integers, atomics.
#include <cmath>
#include <cstring>

#include "harness.h"

using namespace test;

namespace {

/// Evaluates expressions of 32 bits in one thread.
std::vector<unsigned> evaluate(const std::vector<std::string>& expressions) {
    Device device;
    std::string body;
    for (size_t i = 0; i < expressions.size(); i++)
        body += "to[" + std::to_string(i) + "] = (unsigned)(" + expressions[i] + ");\n";
    Pointer to = device.upload(std::vector<unsigned>(expressions.size(), 0));
    CHECK_EQUAL(
        device.run(device.kernel("extern \"C\" __global__ void test_kernel(unsigned* to) {" + body + "}"), 1, 1, to),
        0);
    return device.download<unsigned>(to, expressions.size());
}

void check(const std::vector<std::pair<std::string, unsigned>>& cases) {
    std::vector<std::string> expressions;
    for (auto& [expression, value] : cases) expressions.push_back(expression);
    auto results = evaluate(expressions);
    for (size_t i = 0; i < cases.size(); i++) {
        if (results[i] != cases[i].second)
            fail(__FILE__, __LINE__, cases[i].first + " is " + std::to_string(results[i]));
    }
}

}  // namespace

TEST(conversions_saturate) {
    check({{"__float2uint_rz(-1.0f)", 0},
           {"__float2uint_rz(3.9f)", 3},
           {"__float2uint_rz(5e9f)", 0xffffffff},
           {"__float2uint_rz(__uint_as_float(0x7fc00000u))", 0},
           {"__float2int_rz(-3.9f)", static_cast<unsigned>(-3)},
           {"__float2int_rz(3e9f)", 0x7fffffff},
           {"__float2int_rz(-3e9f)", 0x80000000},
           {"__float_as_uint(1.0f)", 0x3f800000},
           {"__float_as_int(__int_as_float(77))", 77}});
}

TEST(integer_functions) {
    check({{"__clz(1)", 31},
           {"__clz(0)", 32},
           {"__ffs(8)", 4},
           {"__ffs(0)", 0},
           {"__popc(0xf0u)", 4},
           {"__brev(1u)", 0x80000000},
           {"__brev(0x12345678u)", 0x1e6a2c48},
           {"__byte_perm(0x33221100u, 0x77665544u, 0x7041u)", 0x77004411},
           {"__byte_perm(0x33221100u, 0x77665544u, 0x3210u)", 0x33221100},
           {"__dp4a((int)0xff010203u, 0x01020304, 10)", 10 - 1 + 2 + 6 + 12},
           {"__dp4a(0xff010203u, 0x01020304u, 10u)", 10 + 255 + 2 + 6 + 12},
           {"__dp4a((int)0x80808080, (int)0x80808080, 0)", 65536}});
}

TEST(halves_are_rounded_to_nearest_even) {
    check({{"cuda_f32_to_f16(1.0f)", 0x3c00},
           {"cuda_f32_to_f16(2049.0f)", 0x6800},
           {"cuda_f32_to_f16(2051.0f)", 0x6802},
           {"cuda_f32_to_f16(65520.0f)", 0x7c00},
           {"cuda_f32_to_f16(5.9604645e-8f)", 1},
           {"__float_as_uint(cuda_f16_to_f32(0xc000))", 0xc0000000},
           {"cuda_f16_add(0x3c00, 0x3c00)", 0x4000},
           {"cuda_f16_sub(0x3c00, 0x4000)", 0xbc00},
           {"cuda_f16_mul(0x4200, 0x4200)", 0x4880},
           {"cuda_f16_div(0x3c00, 0x4200)", 0x3555},
           {"cuda_f16_min(0x3c00, 0x7e00)", 0x3c00},
           {"cuda_f16_max(0x3c00, 0xc000)", 0x3c00},
           {"cuda_f16_fma(0x3c01, 0x3c01, 0xbc02)", 0x0010},
           {"cuda_f16x2_add(0x3c004000u, 0x3c003c00u)", 0x40004200},
           {"cuda_f16x2_mul(0x42003c00u, 0x42004000u)", 0x48804000},
           {"cuda_f16x2_fma(0x42003c00u, 0x42004000u, 0x00003c00u)", 0x48804200}});
}

TEST(atomics_return_the_old_value) {
    Device device;
    void* kernel = device.kernel(R"(
        extern "C" __global__ void test_kernel(unsigned* to) {
            int* number = (int*)to;
            atomicAdd(&to[0], 2u);
            atomicSub(&number[1], 2);
            atomicMin(&number[2], -5);
            atomicMin(&to[3], 5u);
            atomicMax(&number[4], 5);
            atomicMax(&to[5], 0x80000000u);
            atomicAnd(&to[6], threadIdx.x | 6u);
            atomicOr(&to[7], 1u << threadIdx.x);
            atomicXor(&to[8], 1u << threadIdx.x);
            to[16 + threadIdx.x] = atomicExch(&to[9], threadIdx.x);
            atomicCAS(&to[10], 7u, 8u);
            atomicCAS(&to[11], 9u, 8u);
            atomicAdd((float*)&to[12], 0.5f);
        })");
    std::vector<unsigned> values(24, 7);
    values[12] = 0x3f800000;
    Pointer to = device.upload(values);
    Setting all("CUDA_EMULATOR_RACES", "all");
    CHECK_EQUAL(device.run(kernel, 1, 4, to), 0);
    auto result = device.download<unsigned>(to, 24);
    const unsigned expected[] = {
        15, static_cast<unsigned>(-1), static_cast<unsigned>(-5), 5, 7, 0x80000000, 6, 15, 8, 3, 8, 7, 0x40400000};
    for (size_t i = 0; i < 13; i++) CHECK_EQUAL(result[i], expected[i]);
    CHECK_EQUAL(result[16], 7u);
    CHECK_EQUAL(result[19], 2u);
}
