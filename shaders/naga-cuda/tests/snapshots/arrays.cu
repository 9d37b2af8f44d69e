struct __align__(16) Pair_ty10 { arr<vec<float, 4>, 2> m0_a; arr<arr<unsigned, 3>, 2> m1_b; };
static_assert(sizeof(Pair_ty10) == 64 && __builtin_offsetof(Pair_ty10, m0_a) == 0 && __builtin_offsetof(Pair_ty10, m1_b) == 32, "WGSL's layout");
static __constant__ const arr<float, 5> TABLE_const0 = arr<float, 5>{{0.0f, 1.5f, -2.0f, 10000000000.0f, 0.1f}};
static __constant__ const arr<arr<vec<unsigned, 2>, 2>, 2> NESTED_const1 = arr<arr<vec<unsigned, 2>, 2>, 2>{{arr<vec<unsigned, 2>, 2>{{vec<unsigned, 2>{1u, 2u}, vec<unsigned, 2>{3u, 3u}}}, arr<vec<unsigned, 2>, 2>{{vec<unsigned, 2>{}, vec<unsigned, 2>{5u, 6u}}}}};
W_FN float at_fn0(arr<float, 5> a_a0, int i_a1) {
  return a_a0.e[w_clamp_index(i_a1, 5u - 1u)];
}
extern "C" __global__ void __launch_bounds__(256)
main_main(const arr<vec<float, 4>, 4>* __restrict__ x_g0, float* __restrict__ y_g1, unsigned x_g0_bytes, unsigned y_g1_bytes) {
  const unsigned x_g0_length = x_g0_bytes / 64u;
  const unsigned y_g1_length = y_g1_bytes / 4u;
  __shared__ __align__(16) arr<arr<float, 33>, 8> tile_g2;
  __shared__ __align__(16) Pair_ty10 pair_g3;
  arr<cell3<float>, 7> scratch_g4{};
  unsigned total_g5 = 3u;
  const vec<unsigned, 3> lid_a0{threadIdx.x, threadIdx.y, 0u};
  const vec<unsigned, 3> wid_a1{blockIdx.x, blockIdx.y, blockIdx.z};
  arr<vec<float, 4>, 2> local_v0 = arr<vec<float, 4>, 2>{};
  vec<float, 4> v_v1 = vec<float, 4>{1.0f, 2.0f, 3.0f, 4.0f};
  const int i_e5 = w_sub(w_i32(lid_a0.x), 3);
  const float e18 = w_at(x_g0[w_clamp_index(wid_a1.x, x_g0_length - 1u)].e[w_clamp_index(lid_a0.y, 4u - 1u)], w_clamp_index(lid_a0.x, 4u - 1u));
  tile_g2.e[w_clamp_index(lid_a0.y, 8u - 1u)].e[w_clamp_index(lid_a0.x, 33u - 1u)] = e18;
  w_at(pair_g3.m0_a.e[w_clamp_index(lid_a0.x, 2u - 1u)], w_clamp_index(i_e5, 4u - 1u)) = 1.0f;
  const unsigned e31 = total_g5;
  pair_g3.m1_b.e[1].e[w_clamp_index(lid_a0.y, 3u - 1u)] = e31;
  __syncthreads();
  scratch_g4.e[w_clamp_index(i_e5, 7u - 1u)] = arr<cell3<float>, 2>{{{vec<float, 3>{1.0f, 2.0f, 3.0f}}, {w_splat<3>(4.0f)}}}.e[w_clamp_index(lid_a0.x, 2u - 1u)];
  w_set(scratch_g4.e[w_clamp_index(lid_a0.y, 7u - 1u)], i_e5, 2.0f);
  w_set(local_v0.e[1], lid_a0.x, 3.0f);
  const float e63 = w_get(v_v1, i_e5);
  const float e69 = local_v0.e[w_clamp_index(w_and(lid_a0.x, 1u), 2u - 1u)].y;
  w_set(v_v1, lid_a0.y, (e63 + e69));
  const arr<vec<float, 4>, 4> value_e74 = x_g0[w_clamp_index(wid_a1.x, x_g0_length - 1u)];
  const float e80 = at_fn0(TABLE_const0, i_e5);
  const float e93 = scratch_g4.e[2].z;
  const float e96 = v_v1.x;
  const float e100 = w_get(v_v1, lid_a0.x);
  y_g1[w_clamp_index(i_e5, y_g1_length - 1u)] = ((((((TABLE_const0.e[w_clamp_index(i_e5, 5u - 1u)] + e80) + w_f32(NESTED_const1.e[w_clamp_index(lid_a0.x, 2u - 1u)].e[w_clamp_index(lid_a0.y, 2u - 1u)].y)) + e93) + e96) + e100) + w_get(value_e74.e[w_clamp_index(lid_a0.x, 4u - 1u)], i_e5));
  const float e121 = tile_g2.e[w_clamp_index(lid_a0.y, 8u - 1u)].e[w_clamp_index((31u - lid_a0.x), 33u - 1u)];
  const float e127 = pair_g3.m0_a.e[0].x;
  const unsigned e134 = pair_g3.m1_b.e[w_clamp_index(lid_a0.x, 2u - 1u)].e[w_clamp_index(i_e5, 3u - 1u)];
  y_g1[w_clamp_index(7u, y_g1_length - 1u)] = (((arr<float, 3>{{1.0f, 2.0f, 3.0f}}.e[w_clamp_index(lid_a0.x, 3u - 1u)] + e121) + e127) + w_f32(e134));
  const float e145 = y_g1[w_clamp_index(0u, y_g1_length - 1u)];
  y_g1[w_clamp_index((y_g1_length - 1u), y_g1_length - 1u)] = w_get(vec<float, 3>{1.0f, 2.0f, e145}, i_e5);
  return;
}
