struct __align__(8) Limits_ty2 { unsigned m0_low; vec<unsigned, 2> m1_high; };
static_assert(sizeof(Limits_ty2) == 16 && __builtin_offsetof(Limits_ty2, m0_low) == 0 && __builtin_offsetof(Limits_ty2, m1_high) == 8, "WGSL's layout");
struct __align__(16) Inputs_ty7 { vec<unsigned, 3> m0_wid; unsigned char pad1[4]; vec<unsigned, 3> m1_lid; unsigned char pad3[4]; vec<unsigned, 3> m2_groups; };
static_assert(sizeof(Inputs_ty7) == 48 && __builtin_offsetof(Inputs_ty7, m0_wid) == 0 && __builtin_offsetof(Inputs_ty7, m1_lid) == 16 && __builtin_offsetof(Inputs_ty7, m2_groups) == 32, "WGSL's layout");
extern "C" __global__ void __launch_bounds__(64)
main_main(unsigned* __restrict__ x_g0, unsigned x_g0_bytes) {
  const unsigned x_g0_length = x_g0_bytes / 4u;
  __shared__ __align__(16) Limits_ty2 limits_g1;
  w_clear(limits_g1);
  __shared__ __align__(16) unsigned n_g2;
  w_clear(n_g2);
  __shared__ __align__(16) unsigned hits_g3;
  w_clear(hits_g3);
  __shared__ __align__(16) arr<vec<unsigned, 2>, 64> lanes_g4;
  w_clear(lanes_g4);
  __syncthreads();
  Inputs_ty7 inputs_a0{};
  inputs_a0.m0_wid = vec<unsigned, 3>{blockIdx.x, blockIdx.y, blockIdx.z};
  inputs_a0.m1_lid = vec<unsigned, 3>{threadIdx.x, threadIdx.y, threadIdx.z};
  inputs_a0.m2_groups = vec<unsigned, 3>{gridDim.x, gridDim.y, gridDim.z};
  const unsigned index_a1{w_invocation()};
  const vec<unsigned, 3> gid_a2{blockIdx.x * 4u + threadIdx.x, blockIdx.y * 4u + threadIdx.y, blockIdx.z * 4u + threadIdx.z};
#line 32 "workgroups.wgsl"
  unsigned i_v0{};
#line 24 "workgroups.wgsl"
  if ((index_a1 == 0u)) {
    const unsigned e8 = x_g0[w_clamp_index(0u, x_g0_length - 1u)];
#line 25 "workgroups.wgsl"
    n_g2 = e8;
    const unsigned e12 = n_g2;
#line 26 "workgroups.wgsl"
    limits_g1 = Limits_ty2{1u, vec<unsigned, 2>{e12, 5u}};
#line 26 "workgroups.wgsl"
  }
#line 28 "workgroups.wgsl"
  const unsigned e18 = atomicAdd(&hits_g3, 1u);
  const vec<unsigned, 3> e21 = inputs_a0.m1_lid;
#line 29 "workgroups.wgsl"
  lanes_g4.e[w_clamp_index(index_a1, 64u - 1u)] = vec<unsigned, 2>{e21.x, e21.y};
  __syncthreads();
  __syncthreads();
#line 31 "workgroups.wgsl"
  const Limits_ty2 e24 = limits_g1;
#line 31 "workgroups.wgsl"
  __syncthreads();
#line 31 "workgroups.wgsl"
  const vec<unsigned, 2> limit_e25 = e24.m1_high;
  __syncthreads();
#line 32 "workgroups.wgsl"
  const unsigned e27 = n_g2;
#line 32 "workgroups.wgsl"
  __syncthreads();
#line 32 "workgroups.wgsl"
  i_v0 = e27;
#line 32 "workgroups.wgsl"
  for (unsigned bound_1 = 0xffffffffu; bound_1 != 0u; bound_1--) {
#line 32 "workgroups.wgsl"
    const unsigned e29 = i_v0;
#line 32 "workgroups.wgsl"
    if ((e29 < limit_e25.x)) {
#line 32 "workgroups.wgsl"
    } else {
#line 32 "workgroups.wgsl"
      break;
#line 32 "workgroups.wgsl"
    }
#line 32 "workgroups.wgsl"
    {
      const unsigned e33 = i_v0;
#line 33 "workgroups.wgsl"
      const unsigned e42 = lanes_g4.e[w_clamp_index((63u - index_a1), 64u - 1u)].y;
#line 33 "workgroups.wgsl"
      x_g0[w_clamp_index((e33 + gid_a2.x), x_g0_length - 1u)] = ((e42 + (inputs_a0.m0_wid.z * inputs_a0.m2_groups.x)) + gid_a2.y);
#line 33 "workgroups.wgsl"
    }
#line 32 "workgroups.wgsl"
    const unsigned e52 = i_v0;
#line 32 "workgroups.wgsl"
    i_v0 = (e52 + 1u);
#line 32 "workgroups.wgsl"
  }
#line 35 "workgroups.wgsl"
  __syncthreads();
  const unsigned e57 = w_atomic_load(hits_g3);
#line 36 "workgroups.wgsl"
  x_g0[w_clamp_index(index_a1, x_g0_length - 1u)] = e57;
#line 36 "workgroups.wgsl"
  return;
#line 36 "workgroups.wgsl"
}
