// Subgroups: warps, whose invocations all take part. The last one of a workgroup may have fewer invocations.
#define W_SUBGROUP 32u
#define W_IS_PARTIAL ((W_X * W_Y * W_Z) % W_SUBGROUP != 0u)

W_FN unsigned w_lane() { return w_invocation() % W_SUBGROUP; }
W_FN unsigned w_active() {
  unsigned threads = W_X * W_Y * W_Z, first = w_invocation() / W_SUBGROUP * W_SUBGROUP;
  return W_IS_PARTIAL && threads - first < W_SUBGROUP ? threads - first : W_SUBGROUP;
}
W_FN unsigned w_mask() { return W_IS_PARTIAL ? 0xffffffffu >> (W_SUBGROUP - w_active()) : 0xffffffffu; }

#define W_SHUFFLE(NAME, INTRINSIC) \
  W_FN float NAME(float v, unsigned i) { return INTRINSIC(w_mask(), v, i); } \
  W_FN unsigned NAME(unsigned v, unsigned i) { return INTRINSIC(w_mask(), v, i); } \
  W_FN int NAME(int v, unsigned i) { return INTRINSIC(w_mask(), v, i); } \
  W_FN bool NAME(bool v, unsigned i) { return INTRINSIC(w_mask(), v ? 1u : 0u, i) != 0u; } \
  W_SHUFFLE_HALF(NAME) \
  template<class T> W_FN vec<T, 2> NAME(vec<T, 2> v, unsigned i) { return {NAME(v.x, i), NAME(v.y, i)}; } \
  template<class T> W_FN vec<T, 3> NAME(vec<T, 3> v, unsigned i) { return {NAME(v.x, i), NAME(v.y, i), NAME(v.z, i)}; } \
  template<class T> W_FN vec<T, 4> NAME(vec<T, 4> v, unsigned i) { return {NAME(v.x, i), NAME(v.y, i), NAME(v.z, i), NAME(v.w, i)}; }
#ifdef W_HALF_COMPARE
#define W_SHUFFLE_HALF(NAME) W_FN w_half NAME(w_half v, unsigned i) { return {(unsigned short)NAME((unsigned)v.bits, i)}; }
#else
#define W_SHUFFLE_HALF(NAME)
#endif
W_SHUFFLE(w_shuffle, __shfl_sync)
W_SHUFFLE(w_shuffle_xor, __shfl_xor_sync)
W_SHUFFLE(w_shuffle_up, __shfl_up_sync)
W_SHUFFLE(w_shuffle_down, __shfl_down_sync)
template<class T> W_FN T w_broadcast_first(T v) { return w_shuffle(v, 0u); }
template<class T> W_FN T w_quad_broadcast(T v, unsigned i) { return w_shuffle(v, (w_lane() & ~3u) | (i & 3u)); }

W_FN vec<unsigned, 4> w_ballot(bool v) { return {__ballot_sync(w_mask(), v), 0u, 0u, 0u}; }
W_FN bool w_subgroup_all(bool v) { return __all_sync(w_mask(), v) != 0; }
W_FN bool w_subgroup_any(bool v) { return __any_sync(w_mask(), v) != 0; }

// Sums, products, extremes and bits: of all invocations, of those up to this one, and of those before this one.
#define W_COLLECTIVE(NAME, OP) \
  template<class T> W_FN T w_inclusive_##NAME(T v) { \
    for (unsigned o = 1u; o < W_SUBGROUP; o *= 2u) { \
      T below = w_shuffle_up(v, o); \
      v = w_lane() >= o ? OP(below, v) : v; \
    } \
    return v; \
  } \
  template<class T> W_FN T w_reduce_##NAME(T v) { \
    if (W_IS_PARTIAL) return w_shuffle(w_inclusive_##NAME(v), w_active() - 1u); \
    for (unsigned o = W_SUBGROUP / 2u; o > 0u; o /= 2u) v = OP(v, w_shuffle_xor(v, o)); \
    return v; \
  } \
  template<class T> W_FN T w_exclusive_##NAME(T v, T identity) { \
    T below = w_shuffle_up(w_inclusive_##NAME(v), 1u); \
    return w_lane() == 0u ? identity : below; \
  }
W_COLLECTIVE(add, w_add)
W_COLLECTIVE(mul, w_mul)
W_COLLECTIVE(min, w_min)
W_COLLECTIVE(max, w_max)
W_COLLECTIVE(and, w_and)
W_COLLECTIVE(or, w_or)
W_COLLECTIVE(xor, w_xor)
