W_FN vec<float, 4> unsigned_bytes_fn0(unsigned word_a0) {
  return w_f32_bytes(word_a0);
}
extern "C" __global__ void __launch_bounds__(1)
main_main(unsigned* __restrict__ x_g0, vec<float, 4>* __restrict__ y_g1) {
  const unsigned e4 = x_g0[0u];
  const vec<float, 4> e5 = unsigned_bytes_fn0(e4);
  y_g1[0u] = e5;
  const unsigned e10 = x_g0[1u];
  y_g1[1u] = w_f32_bytes(e10);
  const unsigned e17 = x_g0[2u];
  y_g1[2u] = w_f32_signed_bytes(e17);
  const unsigned e34 = x_g0[3u];
  y_g1[3u] = w_f32_signed_bytes(e34);
  const unsigned e41 = x_g0[4u];
  y_g1[4u] = w_f32(w_and(w_shr(w_splat<4>(e41), vec<unsigned, 4>{0u, 8u, 16u, 24u}), w_splat<4>(15u)));
  const unsigned e57 = x_g0[5u];
  y_g1[5u] = w_f32(w_and(w_shr(w_splat<4>(e57), vec<unsigned, 4>{24u, 16u, 8u, 0u}), w_splat<4>(255u)));
  const unsigned e73 = x_g0[6u];
  const unsigned e76 = x_g0[6u];
  const unsigned e79 = x_g0[7u];
  const unsigned e82 = x_g0[7u];
  y_g1[6u] = w_f32(w_and(w_shr(vec<unsigned, 4>{e73, e76, e79, e82}, vec<unsigned, 4>{0u, 8u, 16u, 24u}), w_splat<4>(255u)));
  return;
}
