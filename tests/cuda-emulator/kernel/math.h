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
float acosf(float), acoshf(float), asinf(float), asinhf(float), atanf(float), atanhf(float), cbrtf(float), ceilf(float);
float cosf(float), coshf(float), erff(float), exp2f(float), expf(float), expm1f(float), fabsf(float), floorf(float);
float log10f(float), log1pf(float), log2f(float), logf(float), nearbyintf(float), rintf(float), roundf(float);
float sinf(float), sinhf(float), sqrtf(float), tanf(float), tanhf(float), truncf(float);
float atan2f(float, float), copysignf(float, float), fdimf(float, float), fmaxf(float, float), fminf(float, float);
float fmodf(float, float), hypotf(float, float), powf(float, float), fmaf(float, float, float);
float ldexpf(float, int);
float frexpf(float, int*);
float modff(float, float*);
void* memcpy(void*, const void*, unsigned long);
void* memset(void*, int, unsigned long);
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

/// Four of the eight bytes of `b` and `a`, chosen by the lowest three bits of the nibbles of `selector`.
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    unsigned long long both = static_cast<unsigned long long>(b) << 32 | a;
    unsigned chosen = 0;
    for (int i = 0; i < 4; i++) chosen |= static_cast<unsigned>(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return chosen;
}

static inline unsigned cuda_prmt(unsigned a, unsigned b, unsigned selector) { return __byte_perm(a, b, selector); }

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
