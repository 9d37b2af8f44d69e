// WGSL's mathematical functions. Halves are computed in single precision where no line above has them.
#ifndef W_HALF_1
#define W_HALF_1(NAME)
#define W_HALF_2(NAME)
#endif
#define W_MATH_1(NAME, E) W_1(NAME, float, float, E) W_HALF_1(NAME) W_VEC_1(NAME)
#define W_MATH_2(NAME, E) W_2(NAME, float, float, E) W_HALF_2(NAME) W_VEC_2(NAME)

W_1(w_abs, unsigned, unsigned, a)
W_1(w_abs, int, int, a < 0 ? (int)(0u - (unsigned)a) : a)
W_MATH_1(w_abs, fabsf(a))
W_1(w_sign, int, int, (a > 0) - (a < 0))
W_MATH_1(w_sign, a > 0.0f ? 1.0f : a < 0.0f ? -1.0f : 0.0f)
W_MATH_1(w_saturate, fminf(fmaxf(a, 0.0f), 1.0f))
W_MATH_1(w_ceil, ceilf(a))
W_MATH_1(w_floor, floorf(a))
W_MATH_1(w_round, rintf(a))
W_MATH_1(w_trunc, truncf(a))
W_MATH_1(w_fract, a - floorf(a))
W_MATH_1(w_exp, expf(a))
W_MATH_1(w_exp2, exp2f(a))
W_MATH_1(w_log, logf(a))
W_MATH_1(w_log2, log2f(a))
W_MATH_2(w_pow, powf(a, b))
W_MATH_1(w_sqrt, sqrtf(a))
W_MATH_1(w_inverse_sqrt, rsqrtf(a))
W_MATH_1(w_sin, sinf(a))
W_MATH_1(w_cos, cosf(a))
W_MATH_1(w_tan, tanf(a))
W_MATH_1(w_asin, asinf(a))
W_MATH_1(w_acos, acosf(a))
W_MATH_1(w_atan, atanf(a))
W_MATH_2(w_atan2, atan2f(a, b))
W_MATH_1(w_sinh, sinhf(a))
W_MATH_1(w_cosh, coshf(a))
W_MATH_1(w_tanh, tanhf(a))
W_MATH_1(w_asinh, asinhf(a))
W_MATH_1(w_acosh, acoshf(a))
W_MATH_1(w_atanh, atanhf(a))
W_MATH_1(w_radians, a * 0.017453292519943295f)
W_MATH_1(w_degrees, a * 57.29577951308232f)
W_MATH_2(w_step, b < a ? 0.0f : 1.0f)
W_1(w_is_nan, bool, float, a != a)
W_VEC_1(w_is_nan)
W_1(w_is_inf, bool, float, fabsf(a) == __uint_as_float(0x7f800000u))
W_VEC_1(w_is_inf)

W_FN float w_fma(float a, float b, float c) { return fmaf(a, b, c); }
W_VEC_3(w_fma)
W_FN float w_mix(float a, float b, float t) { return a * (1.0f - t) + b * t; }
W_FN float w_smoothstep(float low, float high, float a) {
  float t = w_saturate((a - low) / (high - low));
  return t * t * (3.0f - 2.0f * t);
}
W_VEC_3(w_mix)
W_VEC_3(w_smoothstep)
template<class T, int N> W_FN vec<T, N> w_mix(vec<T, N> a, vec<T, N> b, T t) { return w_mix(a, b, w_splat<N>(t)); }

W_FN float w_ldexp(float a, int e) { return ldexpf(a, e); }
W_VEC_2(w_ldexp)

// Geometry.
template<class T> W_FN T w_dot(vec<T, 2> a, vec<T, 2> b) { return w_add(w_mul(a.x, b.x), w_mul(a.y, b.y)); }
template<class T> W_FN T w_dot(vec<T, 3> a, vec<T, 3> b) { return w_add(w_add(w_mul(a.x, b.x), w_mul(a.y, b.y)), w_mul(a.z, b.z)); }
template<class T> W_FN T w_dot(vec<T, 4> a, vec<T, 4> b) {
  return w_add(w_add(w_add(w_mul(a.x, b.x), w_mul(a.y, b.y)), w_mul(a.z, b.z)), w_mul(a.w, b.w));
}
template<class T> W_FN vec<T, 3> w_cross(vec<T, 3> a, vec<T, 3> b) {
  return {w_sub(w_mul(a.y, b.z), w_mul(a.z, b.y)), w_sub(w_mul(a.z, b.x), w_mul(a.x, b.z)), w_sub(w_mul(a.x, b.y), w_mul(a.y, b.x))};
}
W_FN float w_length(float a) { return fabsf(a); }
template<class T, int N> W_FN T w_length(vec<T, N> a) { return w_sqrt(w_dot(a, a)); }
template<class T> W_FN auto w_distance(T a, T b) -> decltype(w_length(a)) { return w_length(w_sub(a, b)); }
template<class T, int N> W_FN vec<T, N> w_normalize(vec<T, N> a) { return w_mul(a, w_inverse_sqrt(w_dot(a, a))); }
template<class T, int N> W_FN vec<T, N> w_face_forward(vec<T, N> a, vec<T, N> b, vec<T, N> c) {
  return w_lt(w_dot(b, c), T{}) ? a : w_neg(a);
}
template<class T, int N> W_FN vec<T, N> w_reflect(vec<T, N> a, vec<T, N> b) {
  T d = w_dot(b, a);
  return w_sub(a, w_mul(b, w_add(d, d)));
}
template<int N> W_FN vec<float, N> w_refract(vec<float, N> a, vec<float, N> b, float eta) {
  float d = w_dot(b, a), k = 1.0f - eta * eta * (1.0f - d * d);
  return k < 0.0f ? vec<float, N>{} : w_sub(w_mul(a, eta), w_mul(b, eta * d + sqrtf(k)));
}

// Functions with two results: R is WGSL's predeclared struct.
template<class R, class T> W_FN R w_modf(T a) {
  R r{};
  r.m1_whole = w_trunc(a);
  r.m0_fract = w_sub(a, r.m1_whole);
  return r;
}
W_FN float w_frexp_parts(float a, int& e) { return frexpf(a, &e); }
template<class T> W_FN vec<T, 2> w_frexp_parts(vec<T, 2> a, vec<int, 2>& e) { return {w_frexp_parts(a.x, e.x), w_frexp_parts(a.y, e.y)}; }
template<class T> W_FN vec<T, 3> w_frexp_parts(vec<T, 3> a, vec<int, 3>& e) {
  return {w_frexp_parts(a.x, e.x), w_frexp_parts(a.y, e.y), w_frexp_parts(a.z, e.z)};
}
template<class T> W_FN vec<T, 4> w_frexp_parts(vec<T, 4> a, vec<int, 4>& e) {
  return {w_frexp_parts(a.x, e.x), w_frexp_parts(a.y, e.y), w_frexp_parts(a.z, e.z), w_frexp_parts(a.w, e.w)};
}
template<class R, class T> W_FN R w_frexp(T a) {
  R r{};
  r.m0_fract = w_frexp_parts(a, r.m1_exp);
  return r;
}
