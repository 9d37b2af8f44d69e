// The functions of three arguments and those with two results, in halves.
W_FN w_half w_mix(w_half a, w_half b, w_half t) { return w_to_half(w_mix(w_f32(a), w_f32(b), w_f32(t))); }
W_FN w_half w_smoothstep(w_half low, w_half high, w_half a) { return w_to_half(w_smoothstep(w_f32(low), w_f32(high), w_f32(a))); }
W_FN w_half w_ldexp(w_half a, int e) { return w_to_half(ldexpf(w_f32(a), e)); }
W_FN w_half w_length(w_half a) { return w_abs(a); }
template<int N> W_FN vec<w_half, N> w_refract(vec<w_half, N> a, vec<w_half, N> b, w_half eta) {
  return w_f16(w_refract(w_f32(a), w_f32(b), w_f32(eta)));
}
