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
// d = a * b + c.
#if __CUDA_ARCH__ < 800
W_FN void cuda_mma_m8n8k16_i8(int* d, unsigned a, unsigned b, const int* c) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%4, %5};"
      : "=r"(d[0]), "=r"(d[1]) : "r"(a), "r"(b), "r"(c[0]), "r"(c[1]));
}
#endif
W_FN void cuda_mma_m16n8k16_i8(int (&d)[4], unsigned a0, unsigned a1, unsigned b, const int (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a0), "r"(a1), "r"(b), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#else
  cuda_mma_m8n8k16_i8(d, a0, b, c);
  cuda_mma_m8n8k16_i8(d + 2, a1, b, c + 2);
#endif
}
W_FN void cuda_mma_m16n8k32_i8(int (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1, const int (&c)[4]) {
#if __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
#else
  int half[4];
  cuda_mma_m16n8k16_i8(half, a0, a1, b0, c);
  cuda_mma_m16n8k16_i8(d, a2, a3, b1, half);
#endif
}
#endif
W_FN vec<float, 4> w_mma_m16n8k16(vec<unsigned, 4> a, vec<unsigned, 2> b, vec<float, 4> c) {
  float d[4] = {c.x, c.y, c.z, c.w};
  cuda_mma_m16n8k16_f16_f32(d, a.x, a.y, a.z, a.w, b.x, b.y);
  return {d[0], d[1], d[2], d[3]};
}
W_FN vec<int, 4> w_mma_m16n8k32_i8(vec<unsigned, 4> a, vec<unsigned, 2> b, vec<int, 4> c) {
  const int sums[4] = {c.x, c.y, c.z, c.w};
  int d[4];
  cuda_mma_m16n8k32_i8(d, a.x, a.y, a.z, a.w, b.x, b.y, sums);
  return {d[0], d[1], d[2], d[3]};
}
W_FN vec<int, 4> w_mma_m16n8k16_i8(vec<unsigned, 2> a, unsigned b, vec<int, 4> c) {
  const int sums[4] = {c.x, c.y, c.z, c.w};
  int d[4];
  cuda_mma_m16n8k16_i8(d, a.x, a.y, b, sums);
  return {d[0], d[1], d[2], d[3]};
}
