// Cooperative matrices of 16 by 16: factors of halves and sums in f32, in the registers that mma.m16n8k16 takes.
struct w_coop_a { unsigned r[4]; };
struct w_coop_b { unsigned r[4]; };
struct w_coop_c { float d[8]; };

// Elements of an array from an index on, with WGSL's bounds checks.
template<class T> struct w_unchecked {
  T* p; unsigned at;
  W_FN auto read(unsigned i) const { return p[at + i]; }
  template<class V> W_FN void write(unsigned i, V v) const { p[at + i] = v; }
};
// The same of a variable in workgroup memory, which is aligned to 16 bytes.
template<class T> struct w_shared : w_unchecked<T> {};
template<class T> struct w_restricted {
  T* p; unsigned at, length;
  W_FN auto read(unsigned i) const { return p[w_clamp_index(at + i, length - 1u)]; }
  template<class V> W_FN void write(unsigned i, V v) const { p[w_clamp_index(at + i, length - 1u)] = v; }
};
template<class T> struct w_guarded {
  T* p; unsigned at, length;
  W_FN auto read(unsigned i) const { auto v = p[0]; v = {}; if (at + i < length) v = p[at + i]; return v; }
  template<class V> W_FN void write(unsigned i, V v) const { if (at + i < length) p[at + i] = v; }
};

// Where an element is: rows follow each other in memory, or columns do.
template<bool ROW_MAJOR> W_FN unsigned w_offset(unsigned row, unsigned column, unsigned stride) {
  return ROW_MAJOR ? row * stride + column : column * stride + row;
}
// Loads four matrices of 8 by 8, one to a register, whose rows (or columns) are aligned in workgroup memory: each lane
// gives the place of one of them. Returns false where they are not.
template<bool ROW_MAJOR, bool TRANSPOSE, class P> W_FN bool w_coop_load_rows(unsigned (&)[4], P, unsigned) { return false; }
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
template<bool ROW_MAJOR, bool TRANSPOSE, class T> W_FN bool w_coop_load_rows(unsigned (&r)[4], w_shared<T> p, unsigned stride) {
  if ((p.at | stride) % 8u != 0u) return false;
  unsigned i = w_lane() / 8u, row = i % 2u * 8u, column = i / 2u * 8u, next = w_lane() % 8u;
  unsigned at = p.at + w_offset<ROW_MAJOR>(ROW_MAJOR ? row + next : row, ROW_MAJOR ? column : column + next, stride);
  unsigned address = (unsigned)__cvta_generic_to_shared(p.p + at);
  if constexpr (TRANSPOSE)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
  return true;
}
#endif
template<bool ROW_MAJOR, class P> W_FN w_coop_a w_coop_load_a(P p, unsigned stride) {
  unsigned row = w_lane() / 4u, column = w_lane() % 4u * 2u;
  w_coop_a m;
  if (w_coop_load_rows<ROW_MAJOR, !ROW_MAJOR>(m.r, p, stride)) return m;
  for (unsigned i = 0u; i < 4u; i++) {
    unsigned r = row + i % 2u * 8u, c = column + i / 2u * 8u;
    m.r[i] = w_join(p.read(w_offset<ROW_MAJOR>(r, c, stride)).bits, p.read(w_offset<ROW_MAJOR>(r, c + 1u, stride)).bits);
  }
  return m;
}
template<bool ROW_MAJOR, class P> W_FN w_coop_b w_coop_load_b(P p, unsigned stride) {
  unsigned row = w_lane() % 4u * 2u, column = w_lane() / 4u;
  w_coop_b m;
  if (w_coop_load_rows<ROW_MAJOR, ROW_MAJOR>(m.r, p, stride)) return m;
  for (unsigned i = 0u; i < 4u; i++) {
    unsigned r = row + i % 2u * 8u, c = column + i / 2u * 8u;
    m.r[i] = w_join(p.read(w_offset<ROW_MAJOR>(r, c, stride)).bits, p.read(w_offset<ROW_MAJOR>(r + 1u, c, stride)).bits);
  }
  return m;
}
W_FN unsigned w_coop_row(unsigned i) { return w_lane() / 4u + i / 2u % 2u * 8u; }
W_FN unsigned w_coop_column(unsigned i) { return w_lane() % 4u * 2u + i % 2u + i / 4u * 8u; }
template<bool ROW_MAJOR, class P> W_FN w_coop_c w_coop_load_c(P p, unsigned stride) {
  w_coop_c m;
  for (unsigned i = 0u; i < 8u; i++) m.d[i] = p.read(w_offset<ROW_MAJOR>(w_coop_row(i), w_coop_column(i), stride));
  return m;
}
template<bool ROW_MAJOR, class P> W_FN void w_coop_store(w_coop_c m, P p, unsigned stride) {
  for (unsigned i = 0u; i < 8u; i++) p.write(w_offset<ROW_MAJOR>(w_coop_row(i), w_coop_column(i), stride), m.d[i]);
}
W_FN w_coop_c w_coop_multiply_add(w_coop_a a, w_coop_b b, w_coop_c c) {
  float left[4] = {c.d[0], c.d[1], c.d[2], c.d[3]}, right[4] = {c.d[4], c.d[5], c.d[6], c.d[7]};
  cuda_mma_m16n8k16_f16_f32(left, a.r[0], a.r[1], a.r[2], a.r[3], b.r[0], b.r[1]);
  cuda_mma_m16n8k16_f16_f32(right, a.r[0], a.r[1], a.r[2], a.r[3], b.r[2], b.r[3]);
  return {{left[0], left[1], left[2], left[3], right[0], right[1], right[2], right[3]}};
}
