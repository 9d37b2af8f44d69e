// Operations of a warp. Each lane leaves a request and waits; the last one that is needed works out the results of all.
#include "execution.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "../kernel/math.h"
#include "../kernel/half.h"
#include "race.h"

namespace emulator {

namespace {

/// What a lane gets from one that is not part of the operation. On a device this is undefined; as a float it is NaN.
constexpr unsigned UNDEFINED = 0xFFF7FFF7;

Thread& lane_thread(unsigned warp, unsigned lane) { return execution.threads[warp * WARP_SIZE + lane]; }

/// The lane that a shuffle reads from.
unsigned source_lane(const WarpRequest& request, unsigned lane) {
    unsigned segment = lane & ~(request.width - 1), end = segment + request.width - 1;
    switch (request.kind) {
        case WISP_SHUFFLE: return segment | (request.argument & (request.width - 1));
        case WISP_SHUFFLE_XOR: return (lane ^ request.argument) <= end ? lane ^ request.argument : lane;
        case WISP_SHUFFLE_UP: return lane - segment >= request.argument ? lane - request.argument : lane;
        default: return request.argument <= end - lane ? lane + request.argument : lane;
    }
}

void shuffle(unsigned warp, unsigned lanes) {
    for (unsigned lane = 0; lane < WARP_SIZE; lane++) {
        if (!(lanes >> lane & 1)) continue;
        Thread& thread = lane_thread(warp, lane);
        unsigned source = source_lane(thread.request, lane);
        thread.result[0] = lanes >> source & 1 ? lane_thread(warp, source).request.words[0] : UNDEFINED;
    }
}

void vote(unsigned warp, unsigned lanes, unsigned kind) {
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < WARP_SIZE; lane++) {
        if (lanes >> lane & 1 && lane_thread(warp, lane).request.words[0]) ballot |= 1u << lane;
    }
    unsigned result = kind == WISP_BALLOT ? ballot : kind == WISP_ANY ? ballot != 0 : ballot == lanes;
    for (unsigned lane = 0; lane < WARP_SIZE; lane++) {
        if (lanes >> lane & 1) lane_thread(warp, lane).result[0] = result;
    }
}

/// Half of a word of a lane's fragment.
float element(unsigned warp, unsigned lane, unsigned word, unsigned half) {
    return cuda_f16_to_f32(static_cast<unsigned short>(lane_thread(warp, lane).request.words[word] >> 16 * half));
}

/// The power of two 2^exponent, for exponents of normal doubles.
double power_of_two(int exponent) {
    uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
    double power;
    memcpy(&power, &bits, 8);
    return power;
}

/// A number that is added up, and the exponent by which it is aligned.
struct Term {
    double value;
    int exponent;
};

/// The exponent of a half or float: of all subnormal ones that of the smallest normal number, `least`.
int nominal_exponent(float value, int least) {
    uint32_t bits = __float_as_uint(value);
    return std::max(static_cast<int>(bits >> 23 & 255) - 127, least);
}

/// The sum of four products and an earlier sum, as on the least accurate tensor cores that were examined (V100; M. Fasi et
/// al., "Numerical behavior of NVIDIA tensor cores", 2021, and P. Ding et al., "MMA-Sim", 2025): products are exact; all five are
/// aligned to the largest exponent, where that of a product is the sum of its factors' and subnormal factors are not
/// normalised, and truncated to 24 bits, and so is their sum.
float truncated_sum(const Term (&terms)[5]) {
    double plain = 0;
    int largest = -1000;
    for (const Term& term : terms) {
        plain += term.value;
        if (term.value != 0) largest = std::max(largest, term.exponent);
    }
    if (largest == -1000 || !(plain - plain == 0)) return static_cast<float>(plain);
    int64_t sum = 0;
    for (const Term& term : terms) sum += static_cast<int64_t>(term.value * power_of_two(23 - largest));
    uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum), unit = 1;
    while (magnitude / unit >> 24) unit *= 2;
    double value = static_cast<double>(magnitude / unit * unit) * power_of_two(largest - 23);
    return static_cast<float>(sum < 0 ? -value : value);
}

/// Matrices of 16x16 and 16x8 halves, spread over the lanes as the PTX manual has it: words 0 to 3 are A's, 4 and 5
/// B's, 6 to 9 the sums.
void multiply_matrices(unsigned warp) {
    static float a[16][16], b[16][8];
    for (unsigned i = 0; i < 16; i++) {
        for (unsigned k = 0; k < 16; k++) a[i][k] = element(warp, i % 8 * 4 + k % 8 / 2, i / 8 + k / 8 * 2, k % 2);
        for (unsigned j = 0; j < 8; j++) b[i][j] = element(warp, j * 4 + i % 8 / 2, 4 + i / 8, i % 2);
    }
    for (unsigned lane = 0; lane < WARP_SIZE; lane++) {
        Thread& thread = lane_thread(warp, lane);
        for (unsigned i = 0; i < 4; i++) {
            unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            float sum = __uint_as_float(thread.request.words[6 + i]);
            for (unsigned k = 0; k < 16; k += 4) {
                auto product = [&](unsigned at) {
                    float left = a[row][at], right = b[at][column];
                    return Term{double{left} * right, nominal_exponent(left, -14) + nominal_exponent(right, -14)};
                };
                Term before{sum, nominal_exponent(sum, -126)};
                sum = truncated_sum({product(k), product(k + 1), product(k + 2), product(k + 3), before});
            }
            thread.result[i] = __float_as_uint(sum);
        }
    }
}

/// A byte of a word of a lane's fragment, with its sign.
int byte_element(unsigned warp, unsigned lane, unsigned word, unsigned byte) {
    return static_cast<signed char>(lane_thread(warp, lane).request.words[word] >> 8 * byte);
}

/// Matrices of 16x32 and 32x8 signed bytes, spread over the lanes as the PTX manual has it, in the same words.
void multiply_byte_matrices(unsigned warp) {
    static int a[16][32], b[32][8];
    for (unsigned k = 0; k < 32; k++) {
        for (unsigned i = 0; i < 16; i++) {
            a[i][k] = byte_element(warp, i % 8 * 4 + k % 16 / 4, i / 8 + k / 16 * 2, k % 4);
        }
        for (unsigned j = 0; j < 8; j++) b[k][j] = byte_element(warp, j * 4 + k % 16 / 4, 4 + k / 16, k % 4);
    }
    for (unsigned lane = 0; lane < WARP_SIZE; lane++) {
        Thread& thread = lane_thread(warp, lane);
        for (unsigned i = 0; i < 4; i++) {
            unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2, sum = thread.request.words[6 + i];
            for (unsigned k = 0; k < 32; k++) sum += static_cast<unsigned>(a[row][k] * b[k][column]);
            thread.result[i] = sum;
        }
    }
}

void compute(unsigned warp, unsigned lanes, unsigned kind) {
    switch (kind) {
        case WISP_SYNC_WARP: break;
        case WISP_BALLOT:
        case WISP_ANY:
        case WISP_ALL: vote(warp, lanes, kind); break;
        case WISP_MMA:
            if (lanes != ~0u) fail_stuck();
            multiply_matrices(warp);
            break;
        case WISP_MMA_I8:
            if (lanes != ~0u) fail_stuck();
            multiply_byte_matrices(warp);
            break;
        default: shuffle(warp, lanes);
    }
}

/// Leaves the current lane's request; returns when the operation is complete.
const unsigned* take_part(const WarpRequest& request, const void* pc) {
    unsigned warp = execution.current / WARP_SIZE, bit = 1u << execution.current % WARP_SIZE;
    Thread& thread = execution.threads[execution.current];
    thread.request = request;
    thread.site = request.site;
    thread.pc = pc;
    thread.phase = Phase::IN_WARP;
    if (!(request.mask & bit)) fail_stuck();
    execution.warps[warp].waiting |= bit;
    complete_warp(warp);
    if (thread.phase == Phase::IN_WARP) suspend();
    // The last lane goes on at once.
    execution.warps[warp].ready &= ~bit;
    return thread.result;
}

}  // namespace

void complete_warp(unsigned warp) {
    Warp& state = execution.warps[warp];
    for (unsigned waiting = state.waiting; waiting;) {
        auto first = static_cast<unsigned>(__builtin_ctz(waiting));
        const WarpRequest& request = lane_thread(warp, first).request;
        unsigned lanes = request.mask & state.alive;
        waiting &= ~lanes;
        if ((state.waiting & lanes) != lanes) continue;
        for (unsigned lane = first; lane < WARP_SIZE; lane++) {
            if (!(lanes >> lane & 1)) continue;
            const WarpRequest& other = lane_thread(warp, lane).request;
            if (other.site != request.site || other.mask != request.mask) fail_stuck();
        }
        compute(warp, lanes, request.kind);
        if (request.kind == WISP_SYNC_WARP && lanes == state.alive) race::warp_barrier(warp);
        for (unsigned lane = first; lane < WARP_SIZE; lane++) {
            if (lanes >> lane & 1) lane_thread(warp, lane).phase = Phase::READY;
        }
        state.waiting &= ~lanes;
        state.ready |= lanes;
    }
}

}  // namespace emulator

using namespace emulator;

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT unsigned wisp_emulator_warp(unsigned site, unsigned kind, unsigned mask, unsigned value, unsigned argument,
                                   unsigned width) {
    return *take_part({site, kind, mask, {value}, argument, width}, __builtin_return_address(0));
}

EXPORT void wisp_emulator_mma(unsigned site, float* sums, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                              unsigned b0, unsigned b1) {
    WarpRequest request{site, WISP_MMA, ~0u, {a0, a1, a2, a3, b0, b1}, 0, 32};
    memcpy(request.words + 6, sums, 16);
    memcpy(sums, take_part(request, __builtin_return_address(0)), 16);
}

EXPORT void wisp_emulator_mma_i8(unsigned site, int* results, unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                 unsigned b0, unsigned b1, const int* sums) {
    WarpRequest request{site, WISP_MMA_I8, ~0u, {a0, a1, a2, a3, b0, b1}, 0, 32};
    memcpy(request.words + 6, sums, 16);
    memcpy(results, take_part(request, __builtin_return_address(0)), 16);
}

EXPORT unsigned wisp_emulator_active_mask() { return execution.warps[execution.current / WARP_SIZE].alive; }
