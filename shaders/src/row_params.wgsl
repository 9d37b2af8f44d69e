// The parameters of ops that reduce or normalise each row of a matrix.

/// `softmax`: `out[r, c] = exp(x[r, c] - max(x[r, :])) / sum(exp(x[r, :] - max(x[r, :])))`.
/// Grid: `[rows]`.
///
/// `argmax`: `out[r]` is the index of the largest element of `x[r, :]`, the lowest index among equals.
/// NaN counts as the lowest value. Grid: `[rows]`.
struct RowsParams {
    /// Number of rows.
    rows: u32,
    /// Elements in a row.
    cols: u32,
}
