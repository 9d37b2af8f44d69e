// WGSL's scalars, vectors and arrays in CUDA C++. Every function is inlined; a vector's functions work component by
// component. The names of WGSL's declarations end in a kind and a number, so they never meet those of the prelude.
#define W_FN __device__ __forceinline__

template<class T, int N> struct vec;
template<class T> struct __align__(2 * sizeof(T)) vec<T, 2> { T x, y; };
// As in WGSL a vector of three components takes the place of three; its alignment is given where it is stored.
template<class T> struct vec<T, 3> { T x, y, z; };
template<class T> struct __align__(4 * sizeof(T)) vec<T, 4> { T x, y, z, w; };

// An element of an array of vectors of three components, and a column of a matrix with three rows.
template<class T> struct __align__(4 * sizeof(T)) cell3 : vec<T, 3> {
  W_FN cell3& operator=(const vec<T, 3>& v) { this->x = v.x; this->y = v.y; this->z = v.z; return *this; }
};

template<class T, int N> struct arr { T e[N]; };

// Components at an index that is not constant: of a value (or a variable in registers), and in memory.
template<class T> W_FN T w_get(vec<T, 2> v, unsigned i) { return i == 0u ? v.x : v.y; }
template<class T> W_FN T w_get(vec<T, 3> v, unsigned i) { return i == 0u ? v.x : i == 1u ? v.y : v.z; }
template<class T> W_FN T w_get(vec<T, 4> v, unsigned i) { return i < 2u ? (i == 0u ? v.x : v.y) : (i == 2u ? v.z : v.w); }
template<class T> W_FN void w_set(vec<T, 2>& v, unsigned i, T s) { v.x = i == 0u ? s : v.x; v.y = i >= 1u ? s : v.y; }
template<class T> W_FN void w_set(vec<T, 3>& v, unsigned i, T s) {
  v.x = i == 0u ? s : v.x; v.y = i == 1u ? s : v.y; v.z = i >= 2u ? s : v.z;
}
template<class T> W_FN void w_set(vec<T, 4>& v, unsigned i, T s) {
  v.x = i == 0u ? s : v.x; v.y = i == 1u ? s : v.y; v.z = i == 2u ? s : v.z; v.w = i >= 3u ? s : v.w;
}
template<class T, int N> W_FN T& w_at(vec<T, N>& v, unsigned i) { return (&v.x)[i]; }
template<class T, int N> W_FN const T& w_at(const vec<T, N>& v, unsigned i) { return (&v.x)[i]; }

template<int N, class T> W_FN vec<T, N> w_splat(T s) {
  if constexpr (N == 2) return {s, s};
  else if constexpr (N == 3) return {s, s, s};
  else return {s, s, s, s};
}
template<class T> W_FN vec<T, 3> w_compose(vec<T, 2> a, T b) { return {a.x, a.y, b}; }
template<class T> W_FN vec<T, 3> w_compose(T a, vec<T, 2> b) { return {a, b.x, b.y}; }
template<class T> W_FN vec<T, 4> w_compose(vec<T, 2> a, vec<T, 2> b) { return {a.x, a.y, b.x, b.y}; }
template<class T> W_FN vec<T, 4> w_compose(vec<T, 2> a, T b, T c) { return {a.x, a.y, b, c}; }
template<class T> W_FN vec<T, 4> w_compose(T a, vec<T, 2> b, T c) { return {a, b.x, b.y, c}; }
template<class T> W_FN vec<T, 4> w_compose(T a, T b, vec<T, 2> c) { return {a, b, c.x, c.y}; }
template<class T> W_FN vec<T, 4> w_compose(vec<T, 3> a, T b) { return {a.x, a.y, a.z, b}; }
template<class T> W_FN vec<T, 4> w_compose(T a, vec<T, 3> b) { return {a, b.x, b.y, b.z}; }
template<class T, int N> W_FN vec<T, N> w_compose(vec<T, N> a) { return a; }

// Bounds checks. A negative index is a large one.
W_FN unsigned w_clamp_index(unsigned i, unsigned last) { return i < last ? i : last; }
W_FN unsigned w_clamp_index(int i, unsigned last) { return w_clamp_index((unsigned)i, last); }
W_FN bool w_in_bounds(unsigned i, unsigned length) { return i < length; }
W_FN bool w_in_bounds(int i, unsigned length) { return (unsigned)i < length; }

// Functions of scalars with their result, and the same of vectors.
#define W_1(NAME, R, A, E) W_FN R NAME(A a) { return E; }
#define W_2(NAME, R, A, E) W_FN R NAME(A a, A b) { return E; }
#define W_VEC_1(NAME) \
  template<class T> W_FN auto NAME(vec<T, 2> a) -> vec<decltype(NAME(a.x)), 2> { return {NAME(a.x), NAME(a.y)}; } \
  template<class T> W_FN auto NAME(vec<T, 3> a) -> vec<decltype(NAME(a.x)), 3> { return {NAME(a.x), NAME(a.y), NAME(a.z)}; } \
  template<class T> W_FN auto NAME(vec<T, 4> a) -> vec<decltype(NAME(a.x)), 4> { return {NAME(a.x), NAME(a.y), NAME(a.z), NAME(a.w)}; }
#define W_VEC_2(NAME) \
  template<class T, class U> W_FN auto NAME(vec<T, 2> a, vec<U, 2> b) -> vec<decltype(NAME(a.x, b.x)), 2> { \
    return {NAME(a.x, b.x), NAME(a.y, b.y)}; } \
  template<class T, class U> W_FN auto NAME(vec<T, 3> a, vec<U, 3> b) -> vec<decltype(NAME(a.x, b.x)), 3> { \
    return {NAME(a.x, b.x), NAME(a.y, b.y), NAME(a.z, b.z)}; } \
  template<class T, class U> W_FN auto NAME(vec<T, 4> a, vec<U, 4> b) -> vec<decltype(NAME(a.x, b.x)), 4> { \
    return {NAME(a.x, b.x), NAME(a.y, b.y), NAME(a.z, b.z), NAME(a.w, b.w)}; }
#define W_VEC_3(NAME) \
  template<class T> W_FN vec<T, 2> NAME(vec<T, 2> a, vec<T, 2> b, vec<T, 2> c) { return {NAME(a.x, b.x, c.x), NAME(a.y, b.y, c.y)}; } \
  template<class T> W_FN vec<T, 3> NAME(vec<T, 3> a, vec<T, 3> b, vec<T, 3> c) { \
    return {NAME(a.x, b.x, c.x), NAME(a.y, b.y, c.y), NAME(a.z, b.z, c.z)}; } \
  template<class T> W_FN vec<T, 4> NAME(vec<T, 4> a, vec<T, 4> b, vec<T, 4> c) { \
    return {NAME(a.x, b.x, c.x), NAME(a.y, b.y, c.y), NAME(a.z, b.z, c.z), NAME(a.w, b.w, c.w)}; }

// Arithmetic. Integers wrap; x / 0 is x and x % 0 is 0, as is the case with the one quotient that overflows.
#define W_INT_MIN (-2147483647 - 1)
#define W_ARITHMETIC(NAME, OP) W_2(NAME, float, float, a OP b) W_2(NAME, unsigned, unsigned, a OP b) \
  W_2(NAME, int, int, (int)((unsigned)a OP (unsigned)b)) W_VEC_2(NAME)
W_ARITHMETIC(w_add, +)
W_ARITHMETIC(w_sub, -)
W_ARITHMETIC(w_mul, *)
W_2(w_div, float, float, a / b)
W_2(w_div, unsigned, unsigned, b == 0u ? a : a / b)
W_2(w_div, int, int, b == 0 || (a == W_INT_MIN && b == -1) ? a : a / b)
W_VEC_2(w_div)
W_2(w_mod, float, float, a - b * truncf(a / b))
W_2(w_mod, unsigned, unsigned, b == 0u ? 0u : a % b)
W_2(w_mod, int, int, b == 0 || (a == W_INT_MIN && b == -1) ? 0 : a % b)
W_VEC_2(w_mod)
#define W_SCALE(N) \
  template<class T> W_FN vec<T, N> w_mul(vec<T, N> a, T s) { return w_mul(a, w_splat<N>(s)); } \
  template<class T> W_FN vec<T, N> w_mul(T s, vec<T, N> a) { return w_mul(w_splat<N>(s), a); }
W_SCALE(2)
W_SCALE(3)
W_SCALE(4)
W_1(w_neg, float, float, -a)
W_1(w_neg, int, int, (int)(0u - (unsigned)a))
W_VEC_1(w_neg)

// Bits and logic.
#define W_BITWISE(NAME, OP) W_2(NAME, unsigned, unsigned, a OP b) W_2(NAME, int, int, a OP b) \
  W_2(NAME, bool, bool, (bool)(a OP b)) W_VEC_2(NAME)
W_BITWISE(w_and, &)
W_BITWISE(w_or, |)
W_BITWISE(w_xor, ^)
W_FN unsigned w_shl(unsigned a, unsigned b) { return a << (b & 31u); }
W_FN int w_shl(int a, unsigned b) { return (int)((unsigned)a << (b & 31u)); }
W_VEC_2(w_shl)
W_FN unsigned w_shr(unsigned a, unsigned b) { return a >> (b & 31u); }
W_FN int w_shr(int a, unsigned b) { return a >> (b & 31u); }
W_VEC_2(w_shr)
W_1(w_complement, unsigned, unsigned, ~a)
W_1(w_complement, int, int, ~a)
W_VEC_1(w_complement)
W_1(w_not, bool, bool, !a)
W_VEC_1(w_not)
W_1(w_any, bool, bool, a)
W_FN bool w_any(vec<bool, 2> a) { return a.x || a.y; }
W_FN bool w_any(vec<bool, 3> a) { return a.x || a.y || a.z; }
W_FN bool w_any(vec<bool, 4> a) { return a.x || a.y || a.z || a.w; }
W_1(w_all, bool, bool, a)
W_FN bool w_all(vec<bool, 2> a) { return a.x && a.y; }
W_FN bool w_all(vec<bool, 3> a) { return a.x && a.y && a.z; }
W_FN bool w_all(vec<bool, 4> a) { return a.x && a.y && a.z && a.w; }

// Comparisons.
#define W_COMPARE(NAME, OP) W_2(NAME, bool, float, a OP b) W_2(NAME, bool, unsigned, a OP b) W_2(NAME, bool, int, a OP b) \
  W_2(NAME, bool, bool, a OP b) W_VEC_2(NAME)
W_COMPARE(w_eq, ==)
W_COMPARE(w_ne, !=)
W_COMPARE(w_lt, <)
W_COMPARE(w_le, <=)
W_COMPARE(w_gt, >)
W_COMPARE(w_ge, >=)
W_2(w_min, float, float, fminf(a, b))
W_2(w_min, unsigned, unsigned, a < b ? a : b)
W_2(w_min, int, int, a < b ? a : b)
W_VEC_2(w_min)
W_2(w_max, float, float, fmaxf(a, b))
W_2(w_max, unsigned, unsigned, a > b ? a : b)
W_2(w_max, int, int, a > b ? a : b)
W_VEC_2(w_max)
template<class T> W_FN T w_clamp(T a, T low, T high) { return w_min(w_max(a, low), high); }
template<class T> W_FN T w_select(bool c, T a, T b) { return c ? a : b; }
template<class T> W_FN vec<T, 2> w_select(vec<bool, 2> c, vec<T, 2> a, vec<T, 2> b) { return {c.x ? a.x : b.x, c.y ? a.y : b.y}; }
template<class T> W_FN vec<T, 3> w_select(vec<bool, 3> c, vec<T, 3> a, vec<T, 3> b) {
  return {c.x ? a.x : b.x, c.y ? a.y : b.y, c.z ? a.z : b.z};
}
template<class T> W_FN vec<T, 4> w_select(vec<bool, 4> c, vec<T, 4> a, vec<T, 4> b) {
  return {c.x ? a.x : b.x, c.y ? a.y : b.y, c.z ? a.z : b.z, c.w ? a.w : b.w};
}

// Conversions. Floats become the nearest integer that exists, as CUDA's intrinsics have it.
#define W_CONVERT(NAME, R, F, U, I, B) W_1(NAME, R, float, F) W_1(NAME, R, unsigned, U) W_1(NAME, R, int, I) \
  W_1(NAME, R, bool, B) W_VEC_1(NAME)
W_CONVERT(w_f32, float, a, (float)a, (float)a, a ? 1.0f : 0.0f)
W_CONVERT(w_u32, unsigned, __float2uint_rz(a), a, (unsigned)a, a ? 1u : 0u)
W_CONVERT(w_i32, int, __float2int_rz(a), (int)a, a, a ? 1 : 0)
W_CONVERT(w_bool, bool, a != 0.0f, a != 0u, a != 0, a)
#define W_BITCAST(NAME, R, F, U, I) W_1(NAME, R, float, F) W_1(NAME, R, unsigned, U) W_1(NAME, R, int, I) W_VEC_1(NAME)
W_BITCAST(w_as_f32, float, a, __uint_as_float(a), __int_as_float(a))
W_BITCAST(w_as_u32, unsigned, __float_as_uint(a), a, (unsigned)a)
W_BITCAST(w_as_i32, int, __float_as_int(a), (int)a, a)

// Atomic loads and stores.
template<class T> W_FN T w_atomic_load(const T& a) { return *(const volatile T*)&a; }
template<class T> W_FN void w_atomic_store(T& a, T v) { *(volatile T*)&a = v; }

// The invocation's index in its workgroup, of W_X by W_Y by W_Z.
W_FN unsigned w_invocation() {
  unsigned i = threadIdx.x;
  if (W_Y > 1u) i += threadIdx.y * W_X;
  if (W_Z > 1u) i += threadIdx.z * (W_X * W_Y);
  return i;
}

// Zeroes workgroup memory: every invocation its share.
template<class T> W_FN void w_clear(T& v) { if (w_invocation() == 0u) v = T{}; }
template<class T, int N> W_FN void w_clear(arr<T, N>& a) {
#pragma unroll 1
  for (unsigned i = w_invocation(); i < (unsigned)N; i += W_X * W_Y * W_Z) a.e[i] = T{};
}
template<class T, int M, int N> W_FN void w_clear(arr<arr<T, M>, N>& a) {
#pragma unroll 1
  for (unsigned i = 0u; i < (unsigned)N; i++) w_clear(a.e[i]);
}

#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
// As `__byte_perm`, which takes an instruction more to mask a selector that is not constant.
W_FN unsigned cuda_prmt(unsigned a, unsigned b, unsigned selector) {
  unsigned r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector)); return r;
}
#endif
