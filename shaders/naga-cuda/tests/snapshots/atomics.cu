struct __align__(4) State_ty3 { unsigned m0_counters[1]; };
static_assert(true && __builtin_offsetof(State_ty3, m0_counters) == 0, "WGSL's layout");
struct __align__(4) atomic_compare_exchange_result_Uint_4_ty8 { unsigned m0_old_value; bool m1_exchanged; };
struct __align__(4) atomic_compare_exchange_result_Sint_4_ty9 { int m0_old_value; bool m1_exchanged; };
extern "C" __global__ void __launch_bounds__(64)
main_main(State_ty3* __restrict__ s_g0, int* __restrict__ i_g1, unsigned s_g0_bytes) {
  const unsigned s_g0_length = s_g0_bytes / 4u;
  __shared__ __align__(16) arr<unsigned, 8> w_g2;
  const unsigned lid_a0{w_invocation()};
  bool v0{};
  const unsigned e3 = w_and(lid_a0, 7u);
  if (w_in_bounds(e3, 8u)) { w_atomic_store(w_g2.e[e3], 0u); }
  __syncthreads();
  const unsigned e9 = (w_in_bounds(lid_a0, 8u) ? atomicAdd(&w_g2.e[lid_a0], 2u) : unsigned{});
  const unsigned e14 = (w_in_bounds(lid_a0, s_g0_length) ? atomicSub(&(*s_g0).m0_counters[lid_a0], 3u) : unsigned{});
  const unsigned e18 = (w_in_bounds(1u, s_g0_length) ? atomicMin(&(*s_g0).m0_counters[1u], lid_a0) : unsigned{});
  const unsigned e22 = atomicMax(&w_g2.e[2], lid_a0);
  const unsigned a_e23 = ((e14 + e18) + e22);
  const unsigned e26 = atomicAnd(&w_g2.e[3], a_e23);
  const unsigned e29 = atomicOr(&w_g2.e[4], a_e23);
  const unsigned e33 = atomicXor(&w_g2.e[5], 7u);
  const unsigned e36 = atomicExch(&w_g2.e[6], a_e23);
  const unsigned b_e39 = w_or(e26, w_xor(e29, (e33 + e36)));
  const unsigned old_43 = (w_in_bounds(lid_a0, s_g0_length) ? atomicCAS(&(*s_g0).m0_counters[lid_a0], a_e23, b_e39) : unsigned{});
  const atomic_compare_exchange_result_Uint_4_ty8 c_e43 = atomic_compare_exchange_result_Uint_4_ty8{old_43, old_43 == a_e23};
  const int old_47 = atomicCAS(&(*i_g1), 3, -4);
  const atomic_compare_exchange_result_Sint_4_ty9 d_e47 = atomic_compare_exchange_result_Sint_4_ty9{old_47, old_47 == 3};
  if (c_e43.m1_exchanged) {
    v0 = w_not(d_e47.m1_exchanged);
  } else {
    v0 = false;
  }
  const bool e54 = v0;
  if (e54) {
    if (w_in_bounds(0u, s_g0_length)) { w_atomic_store((*s_g0).m0_counters[0u], (c_e43.m0_old_value + w_u32(d_e47.m0_old_value))); }
  }
  const unsigned e65 = (w_in_bounds(lid_a0, 8u) ? w_atomic_load(w_g2.e[lid_a0]) : unsigned{});
  const int e68 = w_atomic_load((*i_g1));
  const int e70 = atomicMax(&(*i_g1), w_add(w_i32(e65), e68));
  const int e73 = atomicSub(&(*i_g1), 1);
  return;
}
