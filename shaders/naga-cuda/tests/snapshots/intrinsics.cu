W_FN vec<float, 4> cuda_mma_m16n8k16_fn0(vec<unsigned, 4> a_a0, vec<unsigned, 2> b_a1, vec<float, 4> c_a2) {
  return w_mma_m16n8k16(a_a0, b_a1, c_a2);
}
W_FN vec<int, 4> cuda_mma_m16n8k32_i8_fn1(vec<unsigned, 4> a_a0, vec<unsigned, 2> b_a1, vec<int, 4> c_a2) {
  return w_mma_m16n8k32_i8(a_a0, b_a1, c_a2);
}
W_FN vec<int, 4> cuda_mma_m16n8k16_i8_fn2(vec<unsigned, 2> a_a0, unsigned b_a1, vec<int, 4> c_a2) {
  return w_mma_m16n8k16_i8(a_a0, b_a1, c_a2);
}
W_FN unsigned cuda_byte_perm_fn3(unsigned low_a0, unsigned high_a1, unsigned selector_a2) {
  return cuda_prmt(low_a0, high_a1, selector_a2);
}
W_FN unsigned cuda_add_f16x2_fn4(unsigned a_a0, unsigned b_a1) {
  return cuda_f16x2_add(a_a0, b_a1);
}
W_FN unsigned cuda_fma_f16x2_fn5(unsigned a_a0, unsigned b_a1, unsigned c_a2) {
  return cuda_f16x2_fma(a_a0, b_a1, c_a2);
}
extern "C" __global__ void __launch_bounds__(32)
main_main(unsigned* __restrict__ x_g0, vec<float, 4>* __restrict__ y_g1, vec<int, 4>* __restrict__ z_g2) {
  const unsigned lid_a0{w_invocation()};
  const unsigned e3 = x_g0[0u];
  const unsigned e6 = x_g0[1u];
  const unsigned e8 = cuda_byte_perm_fn3(e3, e6, 16704u);
  const unsigned e11 = x_g0[2u];
  const unsigned e14 = x_g0[3u];
  const unsigned a_e15 = cuda_fma_f16x2_fn5(e8, e11, e14);
  const unsigned e20 = x_g0[2u];
  const unsigned e23 = x_g0[3u];
  const unsigned e24 = cuda_add_f16x2_fn4(e20, e23);
  const unsigned e27 = x_g0[3u];
  const unsigned e30 = x_g0[4u];
  const unsigned e34 = x_g0[5u];
  const unsigned e37 = x_g0[6u];
  const vec<float, 4> e41 = y_g1[lid_a0];
  const vec<float, 4> e42 = cuda_mma_m16n8k16_fn0(vec<unsigned, 4>{a_e15, e24, e27, e30}, vec<unsigned, 2>{e34, e37}, e41);
  y_g1[lid_a0] = e42;
  const unsigned e47 = x_g0[1u];
  const unsigned e51 = x_g0[2u];
  const unsigned e54 = x_g0[2u];
  const unsigned e57 = x_g0[3u];
  const unsigned e60 = x_g0[4u];
  const unsigned e64 = x_g0[5u];
  const unsigned e67 = x_g0[6u];
  const vec<int, 4> e71 = z_g2[lid_a0];
  const vec<int, 4> e72 = cuda_mma_m16n8k32_i8_fn1(vec<unsigned, 4>{a_e15, e54, e57, e60}, vec<unsigned, 2>{e64, e67}, e71);
  const vec<int, 4> e73 = cuda_mma_m16n8k16_i8_fn2(vec<unsigned, 2>{a_e15, e47}, e51, e72);
  z_g2[lid_a0] = e73;
  return;
}
