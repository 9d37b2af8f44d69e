struct __align__(16) Inner_ty5 { vec<float, 3> m0_a; float m1_b; vec<unsigned, 2> m2_c; unsigned char pad3[8]; vec<int, 3> m3_d; };
static_assert(sizeof(Inner_ty5) == 48 && __builtin_offsetof(Inner_ty5, m0_a) == 0 && __builtin_offsetof(Inner_ty5, m1_b) == 12 && __builtin_offsetof(Inner_ty5, m2_c) == 16 && __builtin_offsetof(Inner_ty5, m3_d) == 32, "WGSL's layout");
struct __align__(16) Outer_ty10 { float m0_a; Inner_ty5 m1_inner; vec<float, 3> m2_b; unsigned char pad3[20]; unsigned m3_c; arr<Inner_ty5, 2> m4_d; arr<cell3<float>, 3> m5_e; mat<float, 3, 3> m6_f; mat<float, 4, 2> m7_g; unsigned m8_h; };
static_assert(sizeof(Outer_ty10) == 352 && __builtin_offsetof(Outer_ty10, m0_a) == 0 && __builtin_offsetof(Outer_ty10, m1_inner) == 16 && __builtin_offsetof(Outer_ty10, m2_b) == 64 && __builtin_offsetof(Outer_ty10, m3_c) == 96 && __builtin_offsetof(Outer_ty10, m4_d) == 112 && __builtin_offsetof(Outer_ty10, m5_e) == 208 && __builtin_offsetof(Outer_ty10, m6_f) == 256 && __builtin_offsetof(Outer_ty10, m7_g) == 304 && __builtin_offsetof(Outer_ty10, m8_h) == 336, "WGSL's layout");
struct __align__(16) Trailing_ty13 { unsigned m0_count; unsigned char pad1[12]; vec<float, 3> m1_first; Inner_ty5 m2_items[1]; };
static_assert(true && __builtin_offsetof(Trailing_ty13, m0_count) == 0 && __builtin_offsetof(Trailing_ty13, m1_first) == 16 && __builtin_offsetof(Trailing_ty13, m2_items) == 32, "WGSL's layout");
struct __align__(4) Flags_ty16 { bool m0_on; unsigned char pad1[3]; vec<bool, 3> m1_values; };
static_assert(sizeof(Flags_ty16) == 8 && __builtin_offsetof(Flags_ty16, m0_on) == 0 && __builtin_offsetof(Flags_ty16, m1_values) == 4, "WGSL's layout");
W_FN Inner_ty5 make_fn0(vec<float, 3> v_a0) {
  return Inner_ty5{v_a0, v_a0.x, w_splat<2>(1u), {}, w_i32(v_a0)};
}
extern "C" __global__ void __launch_bounds__(32)
main_main(const Outer_ty10* __restrict__ p_g0, const Outer_ty10* __restrict__ q_g1, Trailing_ty13* __restrict__ r_g2, float* __restrict__ single_g3, const arr<cell3<unsigned>, 5>* __restrict__ fixed_g4, Outer_ty10* __restrict__ out_g5, unsigned q_g1_bytes, unsigned r_g2_bytes) {
  const unsigned q_g1_length = q_g1_bytes / 352u;
  const unsigned r_g2_length = (r_g2_bytes - 32u) / 48u;
  const vec<unsigned, 3> lid_a0{threadIdx.x, threadIdx.y, 0u};
  Outer_ty10 copy_v0{};
  bool v1{};
  const unsigned i_e1 = lid_a0.x;
  const vec<float, 3> e9 = q_g1[i_e1].m1_inner.m0_a;
  const Inner_ty5 e10 = make_fn0(e9);
  (*r_g2).m2_items[i_e1] = e10;
  w_at((*r_g2).m2_items[i_e1].m3_d, lid_a0.y) = 5;
  const vec<float, 3> e24 = (*p_g0).m5_e.e[lid_a0.y];
  const mat<float, 3, 3> e27 = (*p_g0).m6_f;
  const vec<float, 3> e31 = q_g1[0u].m2_b;
  const vec<float, 3> e37 = (*p_g0).m5_e.e[1];
  (*r_g2).m1_first = w_add(w_add(e24, w_mul(e27, e31)), e37);
  const unsigned e50 = (*fixed_g4).e[i_e1].y;
  const unsigned e52 = atomicAdd(&(*r_g2).m0_count, ((r_g2_length + q_g1_length) + e50));
  const Outer_ty10 e55 = q_g1[i_e1];
  copy_v0 = e55;
  const vec<float, 3> e63 = copy_v0.m4_d.e[lid_a0.y].m0_a;
  copy_v0.m5_e.e[i_e1] = e63;
  const vec<float, 2> e70 = (*p_g0).m7_g.c[i_e1];
  const mat<float, 4, 2> e73 = (*p_g0).m7_g;
  copy_v0.m7_g.c[lid_a0.y] = w_add(e70, w_mul(e73, w_splat<4>(1.0f)));
  const Outer_ty10 e80 = copy_v0;
  out_g5[i_e1] = e80;
  out_g5[(i_e1 + 1u)] = Outer_ty10{};
  const vec<int, 3> e92 = q_g1[1u].m1_inner.m3_d;
  const vec<float, 3> e96 = (*p_g0).m2_b;
  const Flags_ty16 flags_e98 = Flags_ty16{(i_e1 > 3u), {}, w_gt(w_f32(e92), e96)};
  const float e101 = (*single_g3);
  const float e106 = q_g1[2u].m1_inner.m1_b;
  if (flags_e98.m0_on) {
    v1 = w_all(flags_e98.m1_values);
  } else {
    v1 = false;
  }
  const bool e113 = v1;
  (*single_g3) = w_select(e113, e106, e101);
  const vec<float, 3> e120 = (*p_g0).m2_b;
  const Inner_ty5 e121 = make_fn0(e120);
  out_g5[2u].m4_d = arr<Inner_ty5, 2>{{e121, Inner_ty5{}}};
  return;
}
