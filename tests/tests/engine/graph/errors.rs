//! Operands that do not fit are refused when the op is added.

use wisp_engine::{
    graph::{Binary, ConvSpec, DType, Graph, Reduction, Unary},
    shape,
};

#[test]
fn errors_name_the_op_and_both_shapes() {
    let mut graph = Graph::new("test");
    let a = graph.input("a", DType::F32, shape![2u64, 3u64]);
    let b = graph.input("b", DType::F32, shape![4u64, 5u64]);
    let whole = graph.input("whole", DType::U32, shape!["n"]);
    let image = graph.input("image", DType::F32, shape!["n", 3u64, 8u64, 8u64]);
    let weight = graph.input("weight", DType::F32, shape![4u64, 2u64, 3u64, 3u64]);
    let spec = ConvSpec::default();
    let cases = [
        (
            graph.binary(Binary::Add, a, b),
            "add: [2, 3] and [4, 5] cannot be broadcast: 2 differs from 4 (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.binary(Binary::Add, a, whole),
            "add: b must be f32, but whole is u32 (a: f32[2, 3], whole: u32[n])",
        ),
        (
            graph.binary(Binary::And, a, a),
            "and: a must be u32, but a is f32 (a: f32[2, 3], a: f32[2, 3])",
        ),
        (
            graph.matmul(a, b),
            "matmul: a has 3 columns, but b has 4 rows (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.reduce(Reduction::Sum, a, 2),
            "reduce_sum: [2, 3] has no dimension 2 (a: f32[2, 3])",
        ),
        (
            graph.permute(a, &[0, 0]),
            "permute: [0, 0] must name each dimension of [2, 3] exactly once (a: f32[2, 3])",
        ),
        (
            graph.slice(a, 1, 2, 2, 1),
            "slice: cannot take 2 slices from 2 in steps of 1 of a dimension of 3 (a: f32[2, 3])",
        ),
        (
            graph.concat(&[a, b], 0),
            "concat: [2, 3] and [4, 5] may differ only in dimension 0 (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.reshape(a, shape![7u64]),
            "reshape: [7] must have as many elements as [2, 3] (a: f32[2, 3])",
        ),
        (
            graph.conv2d(image, weight, None, spec),
            "conv2d: an image of 3 channels with 1 groups needs a weight [filters, channels / groups, rows, columns], filters being a multiple of groups, but it is [4, 2, 3, 3] (image: f32[n, 3, 8, 8], weight: f32[4, 2, 3, 3])",
        ),
        (
            graph.gather(a, b, 0),
            "gather: the indices must be u32, but b is f32 (a: f32[2, 3], b: f32[4, 5])",
        ),
        (
            graph.top_k(a, 4).map(|ids| ids[0]),
            "top_k: cannot take the 4 largest of 3 elements (a: f32[2, 3])",
        ),
        (
            graph.unary(Unary::Not, a),
            "not: x must be u32, but a is f32 (a: f32[2, 3])",
        ),
        (
            graph.constant(&[1.0], shape![2u64]),
            "constant: 1 numbers do not fill the shape [2]",
        ),
        (
            graph.concat(&[], 0),
            "concat: expected at least one operand, got 0 operands",
        ),
    ];
    for (result, expected) in cases {
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
    assert!(graph.nodes().is_empty(), "nothing was added");
}
