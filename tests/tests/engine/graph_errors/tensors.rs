//! Reductions, changes of shape, products of two tensors, and indexing.

use wisp_engine::{
    graph::{DType, Dim, Reduction, Shape},
    shape,
};

use super::{TestGraph, assert_error};

#[test]
fn reductions_need_f32_and_an_existing_dimension() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let u = b.u32(shape!["n", 6u64]);
    let empty = b.f32(shape![0u64, 2u64]);
    assert_error!(
        b,
        reduce(Reduction::Mean, u, 0),
        [u],
        "reduce_mean: x must be f32, but $0 is u32"
    );
    assert_error!(
        b,
        reduce(Reduction::Max, empty, 0),
        [empty],
        "reduce_max: dimension 0 of [0, 2] is empty: there is nothing to reduce"
    );
    assert_error!(b, softmax(x, 2), [x], "softmax: [n, 6] has no dimension 2");
    assert_error!(
        b,
        softmax(u, 0),
        [u],
        "softmax: x must be f32 with at least 1 dimension, but permute.0 is u32[6, n]"
    );
    assert_error!(b, argmax(x, 5), [x], "argmax: [n, 6] has no dimension 5");
}

#[test]
fn permutations_and_reshapes_need_all_elements() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    assert_error!(
        b,
        permute(x, &[0; 9]),
        [x],
        "permute: [0, 0, 0, 0, 0, 0, 0, 0, 0] must name each dimension of [n, 6] exactly once"
    );
    let memory = b.buffer(DType::F32, shape![6u64]);
    assert_error!(
        b,
        reshape(memory, shape![2u64, 3u64]),
        [memory],
        "reshape: x must be an input, a weight, a constant or a result, but $0 is a buffer"
    );
    assert_error!(
        b,
        reshape(x, shape!["m", 6u64]),
        [x],
        "reshape: [m, 6] must have as many elements as [n, 6]"
    );
}

#[test]
fn slices_and_concatenations_need_dimensions_that_fit() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let u = b.u32(shape!["n", 6u64]);
    let empty = b.f32(shape![0u64, 2u64]);
    assert_error!(
        b,
        slice(x, 1, 0, 2, 0),
        [x],
        "slice: cannot take 2 slices from 0 in steps of 0 of a dimension of 6"
    );
    assert_error!(
        b,
        slice(x, 1, 0, 0, 1),
        [x],
        "slice: cannot take 0 slices from 0 in steps of 1 of a dimension of 6"
    );
    assert_error!(
        b,
        slice(x, 0, u64::MAX, 2, 1),
        [x],
        "slice: cannot take 2 slices from 18446744073709551615 in steps of 1 of a dimension of n"
    );
    assert_error!(
        b,
        slice_like(x, 1, empty, 2),
        [x, empty],
        "slice_like: [0, 2] has no dimension 2"
    );
    let long = b.f32(shape![9u64]);
    assert_error!(
        b,
        slice_like(x, 1, long, 0),
        [x, long],
        "slice_like: cannot take 9 slices of a dimension of 6"
    );
    assert_error!(
        b,
        concat(&[x, u], 1),
        [x, u],
        "concat: every part must be f32, but $1 is u32"
    );
    let (max, one) = (b.f32(shape![u64::MAX]), b.f32(shape![1u64]));
    assert_error!(
        b,
        concat(&[max, one], 0),
        [max, one],
        "concat: the sum of the sizes of dimension 0 overflows"
    );
}

#[test]
fn matmul_needs_matching_rows_and_batches() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let y = b.f32(shape!["n", 4u64]);
    let u = b.u32(shape!["n", 6u64]);
    let row = b.f32(shape![6u64]);
    assert_error!(
        b,
        matmul(row, x),
        [row, x],
        "matmul: a [6] and b [n, 6] must have at least 2 dimensions"
    );
    assert_error!(
        b,
        matmul(x, u),
        [x, u],
        "matmul: b must be f32, but $1 is u32"
    );
    assert_error!(
        b,
        matmul_transposed(x, y, [false, true]),
        [x, y],
        "matmul: a has 6 columns, but b has 4 rows"
    );
    let (cube, other) = (
        b.f32(shape![2u64, 3u64, 6u64]),
        b.f32(shape![5u64, 6u64, 1u64]),
    );
    assert_error!(
        b,
        matmul(cube, other),
        [cube, other],
        "matmul: [2] and [5] cannot be broadcast: 2 differs from 5"
    );
}

#[test]
fn gather_and_scatter_need_u32_indices_and_matching_shapes() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    let y = b.f32(shape!["n", 4u64]);
    let u = b.u32(shape!["n", 6u64]);
    let empty = b.f32(shape![0u64, 2u64]);
    assert_error!(
        b,
        gather(empty, u, 0),
        [empty, u],
        "gather: dimension 0 of [0, 2] is empty: there is nothing to gather"
    );
    assert_error!(
        b,
        gather(x, u, 3),
        [x, u],
        "gather: [n, 6] has no dimension 3"
    );
    let (deep, ids) = (
        b.f32(Shape(vec![Dim::Fixed(2); 8])),
        b.u32(shape![1u64, 1u64]),
    );
    assert_error!(
        b,
        gather(deep, ids, 0),
        [deep, ids],
        "gather: [1, 1, 2, 2, 2, 2, 2, 2, 2] has more than 8 dimensions"
    );
    let one = b.u32(shape![3u64]);
    assert_error!(
        b,
        scatter(x, one, y, 0, false),
        [x, one, y],
        "scatter: the updates must be [3, 6], but $2 is [n, 4]"
    );
    assert_error!(
        b,
        scatter(u, one, y, 0, false),
        [u, one, y],
        "scatter: x must be f32, but $0 is u32"
    );
    assert_error!(
        b,
        scatter(x, y, y, 0, true),
        [x, y, y],
        "scatter: the indices must be u32, but $2 is f32"
    );
}

#[test]
fn top_k_needs_a_fixed_last_dimension() {
    let mut b = TestGraph::new();
    let x = b.f32(shape!["n", 6u64]);
    assert_error!(
        b,
        top_k(x, 0),
        [x],
        "top_k: cannot take the 0 largest of 6 elements"
    );
    let wide = b.f32(shape![6u64, "n"]);
    assert_error!(
        b,
        top_k(wide, 1),
        [wide],
        "top_k: the last dimension of x must be a fixed size, but is n"
    );
    let number = b.0.scalar(1.0);
    assert_error!(
        b,
        top_k(number, 1),
        [number],
        "top_k: x must be a tensor of at least 1 dimension, but $0 is a scalar"
    );
}
