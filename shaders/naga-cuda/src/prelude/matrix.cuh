// Matrices of C columns and R rows, stored by columns.
template<class T, int R> struct w_column { typedef vec<T, R> type; };
template<class T> struct w_column<T, 3> { typedef cell3<T> type; };
template<class T, int C, int R> struct mat { typename w_column<T, R>::type c[C]; };

// The column as a plain vector.
template<class T, int C, int R> W_FN vec<T, R> w_col(const mat<T, C, R>& m, int i) { return m.c[i]; }

#define W_MAT_1(NAME) template<class T, int C, int R> W_FN auto NAME(const mat<T, C, R>& a) -> mat<decltype(NAME(T{})), C, R> { \
  mat<decltype(NAME(T{})), C, R> r; for (int i = 0; i < C; i++) r.c[i] = NAME(w_col(a, i)); return r; }
#define W_MAT_2(NAME) template<class T, int C, int R> W_FN mat<T, C, R> NAME(const mat<T, C, R>& a, const mat<T, C, R>& b) { \
  mat<T, C, R> r; for (int i = 0; i < C; i++) r.c[i] = NAME(w_col(a, i), w_col(b, i)); return r; }
W_MAT_1(w_neg)
W_MAT_1(w_f32)
#ifdef W_HALF_COMPARE
W_MAT_1(w_f16)
#endif
W_MAT_2(w_add)
W_MAT_2(w_sub)
template<class T, int C, int R> W_FN mat<T, C, R> w_mul(const mat<T, C, R>& a, T s) {
  mat<T, C, R> r;
  for (int i = 0; i < C; i++) r.c[i] = w_mul(w_col(a, i), s);
  return r;
}
template<class T, int C, int R> W_FN mat<T, C, R> w_mul(T s, const mat<T, C, R>& a) { return w_mul(a, s); }
template<class T, int C, int R> W_FN vec<T, R> w_mul(const mat<T, C, R>& a, vec<T, C> v) {
  vec<T, R> r = w_mul(w_col(a, 0), v.x);
  for (int i = 1; i < C; i++) r = w_add(r, w_mul(w_col(a, i), w_get(v, (unsigned)i)));
  return r;
}
template<class T, int C, int R> W_FN vec<T, C> w_mul(vec<T, R> v, const mat<T, C, R>& a) {
  vec<T, C> r{};
  for (int i = 0; i < C; i++) w_set(r, (unsigned)i, w_dot(v, w_col(a, i)));
  return r;
}
template<class T, int K, int R, int C> W_FN mat<T, C, R> w_mul(const mat<T, K, R>& a, const mat<T, C, K>& b) {
  mat<T, C, R> r;
  for (int i = 0; i < C; i++) r.c[i] = w_mul(a, w_col(b, i));
  return r;
}
template<class T, int C, int R> W_FN mat<T, R, C> w_transpose(const mat<T, C, R>& a) {
  mat<T, R, C> r{};
  for (int i = 0; i < R; i++) {
    vec<T, C> v{};
    for (int j = 0; j < C; j++) w_set(v, (unsigned)j, w_get(w_col(a, j), (unsigned)i));
    r.c[i] = v;
  }
  return r;
}
template<class T> W_FN T w_determinant(const mat<T, 2, 2>& m) { return w_sub(w_mul(m.c[0].x, m.c[1].y), w_mul(m.c[1].x, m.c[0].y)); }
template<class T> W_FN T w_determinant(const mat<T, 3, 3>& m) { return w_dot(w_col(m, 0), w_cross(w_col(m, 1), w_col(m, 2))); }
template<class T> W_FN T w_determinant(const mat<T, 4, 4>& m) {
  // By the last row: each of its components times the determinant of the other columns.
  T sum{};
  for (int i = 0; i < 4; i++) {
    mat<T, 3, 3> minor;
    for (int j = 0; j < 3; j++) {
      vec<T, 4> v = m.c[j < i ? j : j + 1];
      minor.c[j] = vec<T, 3>{v.x, v.y, v.z};
    }
    T part = w_mul(m.c[i].w, w_determinant(minor));
    sum = i % 2 == 0 ? w_sub(sum, part) : w_add(sum, part);
  }
  return sum;
}
