#line 3 "control.wgsl"
W_FN int classify_fn0(int a_a0) {
  switch (a_a0) {
#line 4 "control.wgsl"
    case 0: {
#line 4 "control.wgsl"
    }
#line 4 "control.wgsl"
    case 1: {
#line 6 "control.wgsl"
      return 3;
#line 6 "control.wgsl"
      break;
#line 6 "control.wgsl"
    }
#line 6 "control.wgsl"
    case W_INT_MIN: {
#line 9 "control.wgsl"
      return 4;
#line 9 "control.wgsl"
      break;
#line 9 "control.wgsl"
    }
#line 9 "control.wgsl"
    default: {
#line 12 "control.wgsl"
      if (w_gt(a_a0, 100)) {
        break;
#line 13 "control.wgsl"
      }
#line 15 "control.wgsl"
      return a_a0;
#line 15 "control.wgsl"
      break;
#line 15 "control.wgsl"
    }
#line 15 "control.wgsl"
  }
#line 18 "control.wgsl"
  return 5;
#line 18 "control.wgsl"
}
#line 21 "control.wgsl"
W_FN int nested_fn1(int limit_a0) {
  int sum_v0 = 0;
  int i_v1 = 0;
#line 27 "control.wgsl"
  int j_v2{};
#line 23 "control.wgsl"
  for (unsigned bound_1 = 0xffffffffu; bound_1 != 0u; bound_1--) {
#line 23 "control.wgsl"
    int e5;
#line 23 "control.wgsl"
    e5 = i_v1;
#line 23 "control.wgsl"
    if (w_lt(e5, limit_a0)) {
#line 23 "control.wgsl"
    } else {
#line 23 "control.wgsl"
      break;
#line 23 "control.wgsl"
    }
#line 23 "control.wgsl"
    {
#line 23 "control.wgsl"
      const int e7 = i_v1;
      if (w_eq(w_mod(e7, 3), 0)) {
        goto continue_1;
#line 25 "control.wgsl"
      }
#line 27 "control.wgsl"
      j_v2 = 0;
#line 27 "control.wgsl"
      for (unsigned bound_2 = 0xffffffffu; bound_2 != 0u; bound_2--) {
#line 27 "control.wgsl"
        {
          const int e14 = j_v2;
#line 28 "control.wgsl"
          const int e15 = i_v1;
#line 28 "control.wgsl"
          if (w_gt(e14, e15)) {
            break;
#line 29 "control.wgsl"
          }
#line 29 "control.wgsl"
          const int e17 = j_v2;
#line 31 "control.wgsl"
          switch (w_and(e17, 3)) {
#line 31 "control.wgsl"
            case 1: {
#line 33 "control.wgsl"
              goto continue_2;
#line 33 "control.wgsl"
              break;
#line 33 "control.wgsl"
            }
#line 33 "control.wgsl"
            case 2: {
#line 33 "control.wgsl"
            }
#line 33 "control.wgsl"
            default: {
#line 36 "control.wgsl"
              const int e20 = sum_v0;
#line 36 "control.wgsl"
              const int e21 = j_v2;
#line 36 "control.wgsl"
              sum_v0 = w_add(e20, e21);
#line 36 "control.wgsl"
              break;
#line 36 "control.wgsl"
            }
#line 36 "control.wgsl"
          }
#line 36 "control.wgsl"
        }
#line 36 "control.wgsl"
        continue_2:;
#line 27 "control.wgsl"
        const int e24 = j_v2;
#line 27 "control.wgsl"
        j_v2 = w_add(e24, 1);
#line 27 "control.wgsl"
      }
#line 40 "control.wgsl"
      for (unsigned bound_3 = 0xffffffffu; bound_3 != 0u; bound_3--) {
#line 40 "control.wgsl"
        const int e26 = sum_v0;
#line 40 "control.wgsl"
        if (w_gt(e26, 1000)) {
#line 40 "control.wgsl"
        } else {
#line 40 "control.wgsl"
          break;
#line 40 "control.wgsl"
        }
#line 40 "control.wgsl"
        {
#line 40 "control.wgsl"
          const int e29 = sum_v0;
          sum_v0 = w_div(e29, 2);
#line 41 "control.wgsl"
        }
#line 41 "control.wgsl"
      }
#line 41 "control.wgsl"
    }
#line 41 "control.wgsl"
    continue_1:;
#line 23 "control.wgsl"
    const int e33 = i_v1;
#line 23 "control.wgsl"
    i_v1 = w_add(e33, 1);
#line 23 "control.wgsl"
  }
#line 23 "control.wgsl"
  const int e35 = sum_v0;
#line 44 "control.wgsl"
  return e35;
#line 44 "control.wgsl"
}
#line 47 "control.wgsl"
W_FN int continuing_sees_the_body_fn2(int* __restrict__ x_g0) {
  int a_v0 = 0;
#line 59 "control.wgsl"
  bool v1{};
#line 49 "control.wgsl"
  for (unsigned bound_1 = 0xffffffffu; bound_1 != 0u; bound_1--) {
#line 49 "control.wgsl"
    int e2;
#line 49 "control.wgsl"
    e2 = a_v0;
    if (w_gt(e2, 50)) {
#line 50 "control.wgsl"
      const int e5 = a_v0;
      a_v0 = w_add(e5, 7);
      goto continue_1;
#line 52 "control.wgsl"
    }
#line 52 "control.wgsl"
    int e8;
#line 52 "control.wgsl"
    e8 = a_v0;
#line 54 "control.wgsl"
    bool is_small_e10;
#line 54 "control.wgsl"
    is_small_e10 = w_lt(e8, 8);
#line 54 "control.wgsl"
    int e11;
#line 54 "control.wgsl"
    e11 = a_v0;
    int next_e12;
#line 55 "control.wgsl"
    next_e12 = classify_fn0(e11);
#line 55 "control.wgsl"
    continue_1:;
#line 55 "control.wgsl"
    const int e13 = a_v0;
#line 57 "control.wgsl"
    a_v0 = w_add(e13, w_select(is_small_e10, 1, next_e12));
#line 57 "control.wgsl"
    const int e17 = a_v0;
    const bool far_e19 = w_gt(e17, 90);
    if (w_not(far_e19)) {
#line 59 "control.wgsl"
      const int e23 = a_v0;
#line 59 "control.wgsl"
      const int e26 = x_g0[0u];
#line 59 "control.wgsl"
      v1 = w_eq(e23, e26);
#line 59 "control.wgsl"
    } else {
#line 59 "control.wgsl"
      v1 = true;
#line 59 "control.wgsl"
    }
#line 59 "control.wgsl"
    const bool e29 = v1;
#line 59 "control.wgsl"
    if (e29) break;
#line 59 "control.wgsl"
  }
#line 62 "control.wgsl"
  for (unsigned bound_2 = 0xffffffffu; bound_2 != 0u; bound_2--) {
#line 62 "control.wgsl"
    const int e30 = a_v0;
    const bool is_last_e32 = w_lt(e30, 3);
#line 63 "control.wgsl"
    const int e33 = a_v0;
    a_v0 = w_sub(e33, 1);
#line 64 "control.wgsl"
    if (is_last_e32) break;
#line 64 "control.wgsl"
  }
#line 69 "control.wgsl"
  for (unsigned bound_3 = 0xffffffffu; bound_3 != 0u; bound_3--) {
#line 69 "control.wgsl"
    const int e36 = a_v0;
    a_v0 = w_add(e36, 1);
#line 70 "control.wgsl"
    const int e39 = a_v0;
    if (w_gt(e39, 5)) {
      break;
#line 72 "control.wgsl"
    }
#line 72 "control.wgsl"
  }
#line 72 "control.wgsl"
  const int e42 = a_v0;
#line 75 "control.wgsl"
  return e42;
#line 75 "control.wgsl"
}
#line 78 "control.wgsl"
W_FN unsigned endless_fn3(unsigned a_a0) {
  switch (a_a0) {
#line 79 "control.wgsl"
    case 3u: {
#line 81 "control.wgsl"
      for (unsigned bound_1 = 0xffffffffu; bound_1 != 0u; bound_1--) {
#line 81 "control.wgsl"
      }
#line 81 "control.wgsl"
      break;
#line 81 "control.wgsl"
    }
#line 81 "control.wgsl"
    default: {
#line 81 "control.wgsl"
      break;
#line 81 "control.wgsl"
    }
#line 81 "control.wgsl"
  }
#line 85 "control.wgsl"
  return (a_a0 + 1u);
#line 85 "control.wgsl"
}
extern "C" __global__ void __launch_bounds__(1)
main_main(int* __restrict__ x_g0) {
#line 95 "control.wgsl"
  bool v0{};
#line 95 "control.wgsl"
  bool v1{};
#line 90 "control.wgsl"
  const int e4 = x_g0[0u];
#line 90 "control.wgsl"
  const int e5 = classify_fn0(e4);
#line 90 "control.wgsl"
  const int e8 = x_g0[2u];
#line 90 "control.wgsl"
  const int e9 = nested_fn1(e8);
#line 90 "control.wgsl"
  const int e11 = continuing_sees_the_body_fn2(x_g0);
#line 90 "control.wgsl"
  x_g0[1u] = w_add(w_add(e5, e9), e11);
  {
    const int shadow_e15 = x_g0[1u];
    x_g0[3u] = shadow_e15;
#line 93 "control.wgsl"
  }
#line 95 "control.wgsl"
  const int e20 = x_g0[4u];
#line 95 "control.wgsl"
  if (w_gt(e20, 0)) {
#line 95 "control.wgsl"
    const int e27 = x_g0[5u];
#line 95 "control.wgsl"
    v0 = w_gt(e27, 0);
#line 95 "control.wgsl"
  } else {
#line 95 "control.wgsl"
    v0 = false;
#line 95 "control.wgsl"
  }
#line 95 "control.wgsl"
  const bool e31 = v0;
#line 95 "control.wgsl"
  if (w_not(e31)) {
#line 95 "control.wgsl"
    const int e37 = x_g0[6u];
#line 95 "control.wgsl"
    v1 = w_lt(e37, 0);
#line 95 "control.wgsl"
  } else {
#line 95 "control.wgsl"
    v1 = true;
#line 95 "control.wgsl"
  }
#line 95 "control.wgsl"
  const bool e41 = v1;
#line 95 "control.wgsl"
  if (e41) {
    x_g0[7u] = 1;
#line 96 "control.wgsl"
  } else {
    const int e47 = x_g0[8u];
#line 97 "control.wgsl"
    if (w_eq(e47, 0)) {
      return;
#line 98 "control.wgsl"
    }
#line 98 "control.wgsl"
  }
#line 100 "control.wgsl"
  const int e54 = x_g0[0u];
#line 100 "control.wgsl"
  const unsigned e56 = endless_fn3(w_u32(e54));
#line 100 "control.wgsl"
  x_g0[9u] = w_i32(e56);
#line 100 "control.wgsl"
  return;
#line 100 "control.wgsl"
}
