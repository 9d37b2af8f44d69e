// Products of matrices in the registers of a warp: d += a * b.
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
W_FN void cuda_mma_m16n8k16_f16_f32(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a2), "r"(a3), "r"(b1));
#endif
}
#endif
W_FN vec<float, 4> w_mma_m16n8k16(vec<unsigned, 4> a, vec<unsigned, 2> b, vec<float, 4> c) {
  float d[4] = {c.x, c.y, c.z, c.w};
  cuda_mma_m16n8k16_f16_f32(d, a.x, a.y, a.z, a.w, b.x, b.y);
  return {d[0], d[1], d[2], d[3]};
}
