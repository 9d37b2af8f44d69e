// Counting, finding, moving and packing bits.
W_1(w_count_one_bits, unsigned, unsigned, (unsigned)__popc(a))
W_1(w_count_leading_zeros, unsigned, unsigned, (unsigned)__clz((int)a))
W_1(w_count_trailing_zeros, unsigned, unsigned, a == 0u ? 32u : (unsigned)__ffs((int)a) - 1u)
W_1(w_reverse_bits, unsigned, unsigned, __brev(a))
W_1(w_first_trailing_bit, unsigned, unsigned, (unsigned)__ffs((int)a) - 1u)
W_1(w_first_leading_bit, unsigned, unsigned, 31u - (unsigned)__clz((int)a))
#define W_BITS_OF_INT(NAME) W_1(NAME, int, int, (int)NAME((unsigned)a)) W_VEC_1(NAME)
W_BITS_OF_INT(w_count_one_bits)
W_BITS_OF_INT(w_count_leading_zeros)
W_BITS_OF_INT(w_count_trailing_zeros)
W_BITS_OF_INT(w_reverse_bits)
W_BITS_OF_INT(w_first_trailing_bit)
// The first bit that differs from the sign.
W_1(w_first_leading_bit, int, int, (int)w_first_leading_bit((unsigned)(a < 0 ? ~a : a)))
W_VEC_1(w_first_leading_bit)

template<class T> W_FN T w_extract_scalar(T a, unsigned offset, unsigned count) {
  unsigned o = w_min(offset, 32u), c = w_min(count, 32u - o);
  return c == 0u ? T{} : w_shr(w_shl(a, 32u - o - c), 32u - c);
}
W_FN unsigned w_extract_bits(unsigned a, unsigned offset, unsigned count) { return w_extract_scalar(a, offset, count); }
W_FN int w_extract_bits(int a, unsigned offset, unsigned count) { return w_extract_scalar(a, offset, count); }
W_FN unsigned w_insert_bits(unsigned a, unsigned b, unsigned offset, unsigned count) {
  unsigned o = w_min(offset, 32u), c = w_min(count, 32u - o);
  unsigned mask = c == 0u ? 0u : (0xffffffffu >> (32u - c)) << (o & 31u);
  return (a & ~mask) | (w_shl(b, o) & mask);
}
W_FN int w_insert_bits(int a, int b, unsigned offset, unsigned count) {
  return (int)w_insert_bits((unsigned)a, (unsigned)b, offset, count);
}
template<class T> W_FN vec<T, 2> w_extract_bits(vec<T, 2> a, unsigned o, unsigned n) {
  return {w_extract_bits(a.x, o, n), w_extract_bits(a.y, o, n)};
}
template<class T> W_FN vec<T, 2> w_insert_bits(vec<T, 2> a, vec<T, 2> b, unsigned o, unsigned n) {
  return {w_insert_bits(a.x, b.x, o, n), w_insert_bits(a.y, b.y, o, n)};
}
template<class T> W_FN vec<T, 3> w_extract_bits(vec<T, 3> a, unsigned o, unsigned n) {
  return {w_extract_bits(a.x, o, n), w_extract_bits(a.y, o, n), w_extract_bits(a.z, o, n)};
}
template<class T> W_FN vec<T, 3> w_insert_bits(vec<T, 3> a, vec<T, 3> b, unsigned o, unsigned n) {
  return {w_insert_bits(a.x, b.x, o, n), w_insert_bits(a.y, b.y, o, n), w_insert_bits(a.z, b.z, o, n)};
}
template<class T> W_FN vec<T, 4> w_extract_bits(vec<T, 4> a, unsigned o, unsigned n) {
  return {w_extract_bits(a.x, o, n), w_extract_bits(a.y, o, n), w_extract_bits(a.z, o, n), w_extract_bits(a.w, o, n)};
}
template<class T> W_FN vec<T, 4> w_insert_bits(vec<T, 4> a, vec<T, 4> b, unsigned o, unsigned n) {
  return {w_insert_bits(a.x, b.x, o, n), w_insert_bits(a.y, b.y, o, n), w_insert_bits(a.z, b.z, o, n), w_insert_bits(a.w, b.w, o, n)};
}

// Four signed or unsigned bytes in a word, the first in the lowest byte. A dot product may be added to a sum.
W_FN int w_dot4_i8(unsigned a, unsigned b, int sum = 0) { return __dp4a((int)a, (int)b, sum); }
W_FN unsigned w_dot4_u8(unsigned a, unsigned b, unsigned sum = 0u) { return __dp4a(a, b, sum); }
W_FN unsigned w_pack4_u8(vec<unsigned, 4> a) {
  return (a.x & 0xffu) | (a.y & 0xffu) << 8 | (a.z & 0xffu) << 16 | a.w << 24;
}
W_FN unsigned w_pack4_i8(vec<int, 4> a) { return w_pack4_u8(w_u32(a)); }
W_FN unsigned w_pack4_u8_clamp(vec<unsigned, 4> a) { return w_pack4_u8(w_min(a, vec<unsigned, 4>{255u, 255u, 255u, 255u})); }
W_FN unsigned w_pack4_i8_clamp(vec<int, 4> a) {
  return w_pack4_i8(w_clamp(a, vec<int, 4>{-128, -128, -128, -128}, vec<int, 4>{127, 127, 127, 127}));
}
W_FN vec<unsigned, 4> w_unpack4_u8(unsigned a) { return {a & 0xffu, a >> 8 & 0xffu, a >> 16 & 0xffu, a >> 24}; }
W_FN vec<int, 4> w_unpack4_i8(unsigned a) {
  return {(int)(a << 24) >> 24, (int)(a << 16) >> 24, (int)(a << 8) >> 24, (int)a >> 24};
}

// Converts the bytes of a word to floats without I2F: the float with the bits 0x4b0000XX is 2^23 + XX. Signed bytes get 128
// added first.
template<int I> W_FN float w_above_2_23(unsigned a) { return __uint_as_float(__byte_perm(a, 0x4b000000u, 0x7440u + I)); }
W_FN vec<float, 4> w_bytes_less(unsigned a, float b) {
  return {w_above_2_23<0>(a) - b, w_above_2_23<1>(a) - b, w_above_2_23<2>(a) - b, w_above_2_23<3>(a) - b};
}
W_FN vec<float, 4> w_f32_bytes(unsigned a) { return w_bytes_less(a, 8388608.0f); }
W_FN vec<float, 4> w_f32_signed_bytes(unsigned a) { return w_bytes_less(a ^ 0x80808080u, 8388736.0f); }

// Fractions of one in 8 or 16 bits.
W_FN int w_snorm(float a, float scale) { return (int)floorf(0.5f + scale * fminf(fmaxf(a, -1.0f), 1.0f)); }
W_FN unsigned w_unorm(float a, float scale) { return (unsigned)floorf(0.5f + scale * fminf(fmaxf(a, 0.0f), 1.0f)); }
W_FN unsigned w_pack4x8snorm(vec<float, 4> a) {
  return w_pack4_i8({w_snorm(a.x, 127.0f), w_snorm(a.y, 127.0f), w_snorm(a.z, 127.0f), w_snorm(a.w, 127.0f)});
}
W_FN unsigned w_pack4x8unorm(vec<float, 4> a) {
  return w_pack4_u8({w_unorm(a.x, 255.0f), w_unorm(a.y, 255.0f), w_unorm(a.z, 255.0f), w_unorm(a.w, 255.0f)});
}
W_FN unsigned w_pack2x16snorm(vec<float, 2> a) {
  return ((unsigned)w_snorm(a.x, 32767.0f) & 0xffffu) | (unsigned)w_snorm(a.y, 32767.0f) << 16;
}
W_FN unsigned w_pack2x16unorm(vec<float, 2> a) { return w_unorm(a.x, 65535.0f) | w_unorm(a.y, 65535.0f) << 16; }
W_FN float w_from_snorm(int a, float scale) { return fmaxf((float)a / scale, -1.0f); }
W_FN vec<float, 4> w_unpack4x8snorm(unsigned a) {
  vec<int, 4> v = w_unpack4_i8(a);
  return {w_from_snorm(v.x, 127.0f), w_from_snorm(v.y, 127.0f), w_from_snorm(v.z, 127.0f), w_from_snorm(v.w, 127.0f)};
}
W_FN vec<float, 4> w_unpack4x8unorm(unsigned a) {
  vec<float, 4> v = w_f32(w_unpack4_u8(a));
  return {v.x / 255.0f, v.y / 255.0f, v.z / 255.0f, v.w / 255.0f};
}
W_FN vec<float, 2> w_unpack2x16snorm(unsigned a) {
  return {w_from_snorm((int)(a << 16) >> 16, 32767.0f), w_from_snorm((int)a >> 16, 32767.0f)};
}
W_FN vec<float, 2> w_unpack2x16unorm(unsigned a) { return {(float)(a & 0xffffu) / 65535.0f, (float)(a >> 16) / 65535.0f}; }
