// Two halves in a word, and what f32 loses in them.
W_FN unsigned w_pack2x16float(vec<float, 2> a) { return w_join(cuda_f32_to_f16(a.x), cuda_f32_to_f16(a.y)); }
W_FN vec<float, 2> w_unpack2x16float(unsigned a) {
  return {cuda_f16_to_f32((unsigned short)a), cuda_f16_to_f32((unsigned short)(a >> 16))};
}
W_1(w_quantize_to_f16, float, float, cuda_f16_to_f32(cuda_f32_to_f16(a)))
W_VEC_1(w_quantize_to_f16)
