// The type f16, as its bits. Sums, products and fma are computed in halves, the rest in single precision.
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
W_FN float cuda_f16_to_f32(unsigned short h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
W_FN unsigned short cuda_f32_to_f16(float f) { unsigned short h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
#define W_PTX_F16(NAME, OP) W_FN unsigned short NAME(unsigned short a, unsigned short b) { \
  unsigned short r; asm(OP " %0, %1, %2;" : "=h"(r) : "h"(a), "h"(b)); return r; }
#define W_PTX_F16X2(NAME, OP) W_FN unsigned NAME(unsigned a, unsigned b) { \
  unsigned r; asm(OP " %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
W_PTX_F16(cuda_f16_add, "add.f16")
W_PTX_F16(cuda_f16_sub, "sub.f16")
W_PTX_F16(cuda_f16_mul, "mul.f16")
W_PTX_F16X2(cuda_f16x2_add, "add.f16x2")
W_PTX_F16X2(cuda_f16x2_mul, "mul.f16x2")
W_FN unsigned short cuda_f16_fma(unsigned short a, unsigned short b, unsigned short c) {
  unsigned short r; asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r) : "h"(a), "h"(b), "h"(c)); return r;
}
W_FN unsigned cuda_f16x2_fma(unsigned a, unsigned b, unsigned c) {
  unsigned r; asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c)); return r;
}
// Exact: the quotient of two halves in single precision is never so near the middle of two halves that it rounds twice.
W_FN unsigned short cuda_f16_div(unsigned short a, unsigned short b) {
  return cuda_f32_to_f16(cuda_f16_to_f32(a) / cuda_f16_to_f32(b));
}
W_FN unsigned short cuda_f16_min(unsigned short a, unsigned short b) {
  return cuda_f32_to_f16(fminf(cuda_f16_to_f32(a), cuda_f16_to_f32(b)));
}
W_FN unsigned short cuda_f16_max(unsigned short a, unsigned short b) {
  return cuda_f32_to_f16(fmaxf(cuda_f16_to_f32(a), cuda_f16_to_f32(b)));
}
#endif

// Not in PTX: the compiler is to see that joining the halves of a word gives the word.
W_FN unsigned w_join(unsigned short low, unsigned short high) { return (unsigned)low | (unsigned)high << 16; }

struct w_half { unsigned short bits; };

// Vectors also as words: a variable that a loop changes stays in as many registers as it has words, not components.
template<> struct __align__(4) vec<w_half, 2> { union { struct { w_half x, y; }; unsigned xy; }; };
template<> struct __align__(8) vec<w_half, 4> { union { struct { w_half x, y, z, w; }; struct { unsigned xy, zw; }; }; };

W_1(w_f32, float, w_half, cuda_f16_to_f32(a.bits))
W_FN w_half w_to_half(float a) { return {cuda_f32_to_f16(a)}; }
#define W_HALF_1(NAME) W_FN w_half NAME(w_half a) { return w_to_half(NAME(w_f32(a))); }
#define W_HALF_2(NAME) W_FN w_half NAME(w_half a, w_half b) { return w_to_half(NAME(w_f32(a), w_f32(b))); }
#define W_HALF_COMPARE(NAME) W_FN bool NAME(w_half a, w_half b) { return NAME(w_f32(a), w_f32(b)); }

W_CONVERT(w_f16, w_half, w_to_half(a), w_to_half((float)a), w_to_half((float)a), w_to_half(a ? 1.0f : 0.0f))
W_1(w_f16, w_half, w_half, a)
W_1(w_u32, unsigned, w_half, w_u32(w_f32(a)))
W_1(w_i32, int, w_half, w_i32(w_f32(a)))
W_1(w_bool, bool, w_half, w_f32(a) != 0.0f)
W_1(w_as_f16, w_half, w_half, a)
W_VEC_1(w_as_f16)

W_2(w_add, w_half, w_half, w_half{cuda_f16_add(a.bits, b.bits)})
W_2(w_sub, w_half, w_half, w_half{cuda_f16_sub(a.bits, b.bits)})
W_2(w_mul, w_half, w_half, w_half{cuda_f16_mul(a.bits, b.bits)})
W_2(w_div, w_half, w_half, w_half{cuda_f16_div(a.bits, b.bits)})
W_2(w_min, w_half, w_half, w_half{cuda_f16_min(a.bits, b.bits)})
W_2(w_max, w_half, w_half, w_half{cuda_f16_max(a.bits, b.bits)})
W_HALF_2(w_mod)
W_1(w_neg, w_half, w_half, w_half{(unsigned short)(a.bits ^ 0x8000u)})
W_HALF_COMPARE(w_eq)
W_HALF_COMPARE(w_ne)
W_HALF_COMPARE(w_lt)
W_HALF_COMPARE(w_le)
W_HALF_COMPARE(w_gt)
W_HALF_COMPARE(w_ge)
W_FN w_half w_fma(w_half a, w_half b, w_half c) { return {cuda_f16_fma(a.bits, b.bits, c.bits)}; }

// Two at a time.
typedef vec<w_half, 2> w_half2;
typedef vec<w_half, 4> w_half4;
W_FN w_half2 w_words(unsigned xy) { w_half2 v; v.xy = xy; return v; }
W_FN w_half4 w_words(unsigned xy, unsigned zw) { w_half4 v; v.xy = xy; v.zw = zw; return v; }
#define W_HALF_PAIRS(NAME, OP) \
  W_FN w_half2 NAME(w_half2 a, w_half2 b) { return w_words(OP(a.xy, b.xy)); } \
  W_FN w_half4 NAME(w_half4 a, w_half4 b) { return w_words(OP(a.xy, b.xy), OP(a.zw, b.zw)); }
W_HALF_PAIRS(w_add, cuda_f16x2_add)
W_HALF_PAIRS(w_mul, cuda_f16x2_mul)
W_FN w_half2 w_mul(w_half2 a, w_half s) { return w_mul(a, w_half2{s, s}); }
W_FN w_half2 w_mul(w_half s, w_half2 a) { return w_mul(w_half2{s, s}, a); }
W_FN w_half4 w_mul(w_half4 a, w_half s) { return w_mul(a, w_half4{s, s, s, s}); }
W_FN w_half4 w_mul(w_half s, w_half4 a) { return w_mul(w_half4{s, s, s, s}, a); }
W_FN w_half2 w_fma(w_half2 a, w_half2 b, w_half2 c) { return w_words(cuda_f16x2_fma(a.xy, b.xy, c.xy)); }
W_FN w_half4 w_fma(w_half4 a, w_half4 b, w_half4 c) {
  return w_words(cuda_f16x2_fma(a.xy, b.xy, c.xy), cuda_f16x2_fma(a.zw, b.zw, c.zw));
}
