// Half-precision numbers as 16-bit words. On the device the same functions are inline PTX, from the kernel's prelude.
#pragma once

static inline float cuda_f16_to_f32(unsigned short bits) {
    _Float16 half;
    __builtin_memcpy(&half, &bits, sizeof half);
    return static_cast<float>(half);
}

/// To the nearest, ties to even.
static inline unsigned short cuda_f32_to_f16(float x) {
    _Float16 half = static_cast<_Float16>(x);
    unsigned short bits;
    __builtin_memcpy(&bits, &half, sizeof bits);
    return bits;
}

// In float and rounded once more: float has more than twice the bits, so the result is that of one rounding.
#define WISP_HALF(NAME, EXPRESSION)                                                \
    static inline unsigned short NAME(unsigned short left, unsigned short right) { \
        float a = cuda_f16_to_f32(left), b = cuda_f16_to_f32(right);               \
        return cuda_f32_to_f16(EXPRESSION);                                        \
    }
WISP_HALF(cuda_f16_add, a + b)
WISP_HALF(cuda_f16_sub, a - b)
WISP_HALF(cuda_f16_mul, a* b)
WISP_HALF(cuda_f16_div, a / b)
WISP_HALF(cuda_f16_min, fminf(a, b))
WISP_HALF(cuda_f16_max, fmaxf(a, b))
#undef WISP_HALF

static inline unsigned short cuda_f16_fma(unsigned short a, unsigned short b, unsigned short c) {
    double sum = static_cast<double>(cuda_f16_to_f32(a)) * cuda_f16_to_f32(b) + cuda_f16_to_f32(c);
    _Float16 half = static_cast<_Float16>(sum);
    unsigned short bits;
    __builtin_memcpy(&bits, &half, sizeof bits);
    return bits;
}

// Two halves a word.
static inline unsigned short wisp_low(unsigned word) { return static_cast<unsigned short>(word); }
static inline unsigned short wisp_high(unsigned word) { return static_cast<unsigned short>(word >> 16); }
static inline unsigned wisp_pair(unsigned short low, unsigned short high) {
    return low | static_cast<unsigned>(high) << 16;
}
static inline unsigned cuda_f16x2_add(unsigned a, unsigned b) {
    return wisp_pair(cuda_f16_add(wisp_low(a), wisp_low(b)), cuda_f16_add(wisp_high(a), wisp_high(b)));
}
static inline unsigned cuda_f16x2_mul(unsigned a, unsigned b) {
    return wisp_pair(cuda_f16_mul(wisp_low(a), wisp_low(b)), cuda_f16_mul(wisp_high(a), wisp_high(b)));
}
static inline unsigned cuda_f16x2_fma(unsigned a, unsigned b, unsigned c) {
    return wisp_pair(cuda_f16_fma(wisp_low(a), wisp_low(b), wisp_low(c)),
                     cuda_f16_fma(wisp_high(a), wisp_high(b), wisp_high(c)));
}
