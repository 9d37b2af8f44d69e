extern "C" __global__ void __launch_bounds__(1)
main_main(unsigned* __restrict__ x_g0, int* __restrict__ y_g1) {
  const unsigned e4 = x_g0[1u];
  const unsigned e7 = x_g0[2u];
  const unsigned e11 = x_g0[3u];
  x_g0[0u] = w_dot4_u8(e4, e7, e11);
  const int e17 = y_g1[1u];
  const unsigned e20 = x_g0[1u];
  const unsigned e23 = x_g0[2u];
  y_g1[0u] = w_dot4_i8(e20, e23, e17);
  const unsigned e30 = x_g0[1u];
  const unsigned e33 = x_g0[2u];
  const unsigned e37 = x_g0[3u];
  const unsigned e40 = x_g0[4u];
  const int e44 = y_g1[3u];
  y_g1[2u] = w_dot4_i8(e30, e33, w_dot4_i8(e37, e40, e44));
  const unsigned e51 = x_g0[1u];
  const unsigned e54 = x_g0[2u];
  const int e58 = y_g1[5u];
  y_g1[4u] = w_sub(w_dot4_i8(e51, e54), e58);
  const unsigned e62 = x_g0[4u];
  const unsigned e65 = x_g0[5u];
  const unsigned sum_e66 = w_dot4_u8(e62, e65);
  x_g0[6u] = (sum_e66 + sum_e66);
  return;
}
