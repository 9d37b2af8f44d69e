// CUDA's functions of numbers: bit casts, conversions that saturate, integer functions, and C's mathematics in float.
#pragma once

#define WISP_CAST(NAME, TO, FROM)                \
    static inline TO NAME(FROM from) {           \
        TO to;                                   \
        __builtin_memcpy(&to, &from, sizeof to); \
        return to;                               \
    }
WISP_CAST(__uint_as_float, float, unsigned)
WISP_CAST(__int_as_float, float, int)
WISP_CAST(__float_as_uint, unsigned, float)
WISP_CAST(__float_as_int, int, float)
#undef WISP_CAST

extern "C" {
#define WISP_UNARY(NAME) float NAME(float) noexcept;
WISP_UNARY(acosf)
WISP_UNARY(acoshf) WISP_UNARY(asinf) WISP_UNARY(asinhf) WISP_UNARY(atanf) WISP_UNARY(atanhf) WISP_UNARY(cbrtf)
    WISP_UNARY(ceilf) WISP_UNARY(cosf) WISP_UNARY(coshf) WISP_UNARY(erff) WISP_UNARY(exp2f) WISP_UNARY(expf)
        WISP_UNARY(expm1f) WISP_UNARY(fabsf) WISP_UNARY(floorf) WISP_UNARY(log10f) WISP_UNARY(log1pf) WISP_UNARY(log2f)
            WISP_UNARY(logf) WISP_UNARY(nearbyintf) WISP_UNARY(rintf) WISP_UNARY(roundf) WISP_UNARY(sinf)
                WISP_UNARY(sinhf) WISP_UNARY(sqrtf) WISP_UNARY(tanf) WISP_UNARY(tanhf) WISP_UNARY(truncf)
#undef WISP_UNARY
#define WISP_BINARY(NAME) float NAME(float, float) noexcept;
                    WISP_BINARY(atan2f) WISP_BINARY(copysignf) WISP_BINARY(fdimf) WISP_BINARY(fmaxf) WISP_BINARY(fminf)
                        WISP_BINARY(fmodf) WISP_BINARY(hypotf) WISP_BINARY(powf)
#undef WISP_BINARY
                            float fmaf(float, float, float) noexcept;
float ldexpf(float, int) noexcept;
float frexpf(float, int*) noexcept;
float modff(float, float*) noexcept;
void* memcpy(void*, const void*, unsigned long) noexcept;
void* memset(void*, int, unsigned long) noexcept;
}

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline bool isnan(float x) { return x != x; }
static inline bool isinf(float x) { return fabsf(x) == __builtin_inff(); }

// Rounded to nearest and never contracted, which the host's compiler does not do anyway.
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fsqrt_rn(float a) { return sqrtf(a); }

/// Toward zero; what is out of range becomes the nearest number, NaN becomes 0.
static inline unsigned __float2uint_rz(float x) {
    return !(x > 0.0f) ? 0u : x >= 4294967296.0f ? 0xffffffffu : static_cast<unsigned>(x);
}
static inline int __float2int_rz(float x) {
    return x != x ? 0 : x <= -2147483648.0f ? -2147483647 - 1 : x >= 2147483648.0f ? 2147483647 : static_cast<int>(x);
}

static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline unsigned __brev(unsigned x) {
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    return __builtin_bswap32(x);
}

#define WISP_MINMAX(T)                                      \
    static inline T min(T a, T b) { return a < b ? a : b; } \
    static inline T max(T a, T b) { return a > b ? a : b; }
WISP_MINMAX(int)
WISP_MINMAX(unsigned)
#undef WISP_MINMAX
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }

/// The sum of `c` and four products of bytes.
static inline int __dp4a(int a, int b, int c) {
    unsigned sum = static_cast<unsigned>(c);
    for (int shift = 0; shift < 32; shift += 8) {
        sum += static_cast<unsigned>(static_cast<signed char>(a >> shift) * static_cast<signed char>(b >> shift));
    }
    return static_cast<int>(sum);
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int shift = 0; shift < 32; shift += 8) c += (a >> shift & 0xff) * (b >> shift & 0xff);
    return c;
}

template <class T>
static inline T __ldg(const T* p) {
    return *p;
}
