//! Elementwise ops, casts and ops on rows.

use wisp_engine::{
    graph::{
        Activation, Binary, DType, Dim, Map, Op, Shape,
        ops::{Argmax, Cast, ClampedSwiglu, Custom, Gated, Select, Softmax},
    },
    shape,
};

use super::TestGraph;

#[test]
fn elementwise_operands_must_have_matching_types_and_shapes() {
    let mut b = TestGraph::new();
    let (x, y, u) = (
        b.f32(shape!["n", 6u64]),
        b.f32(shape!["n", 4u64]),
        b.u32(shape!["n", 6u64]),
    );
    let add = Binary::Add;
    b.assert_refused(
        add,
        &[x, y],
        "add: [n, 6] and [n, 4] cannot be broadcast: 6 differs from 4",
    );
    b.assert_refused(add, &[x, u], "add: b must be f32, but $1 is u32");
    b.assert_refused(Binary::Mul, &[x], "mul: expected a and b, got 1 operand");
    let gated = Gated {
        activation: Activation::Silu,
    };
    b.assert_refused(
        gated,
        &[x, y],
        "gated: gate [n, 6] and up [n, 4] must have the same shape",
    );
    b.assert_refused(gated, &[u, u], "gated: the gate must be f32, but $1 is u32");
    let clamped = |limit| ClampedSwiglu { alpha: 1.0, limit };
    b.assert_refused(
        clamped(7.0),
        &[x, y],
        "clamped_swiglu: gate [n, 6] and up [n, 4] must have the same shape",
    );
    b.assert_refused(
        clamped(-1.0),
        &[x, x],
        "clamped_swiglu: the limit must be at least 0, but is -1",
    );
    b.assert_refused(
        Op::Map(Map::Scale(2.0)),
        &[u],
        "map: x must be f32, but $0 is u32",
    );
    b.assert_refused(
        Softmax,
        &[u],
        "softmax: x must be f32 with at least 1 dimension, but $0 is u32[n, 6]",
    );
    let one = b.0.scalar(1.0);
    b.assert_refused(
        Argmax,
        &[one],
        "argmax: x must be f32 with at least 1 dimension, but $0 is f32[]",
    );
    let cast = Cast { to: DType::F32 };
    b.assert_refused(cast, &[x], "cast: x is f32 already");
    let memory = b.buffer(DType::F32, shape![6u64]);
    b.assert_refused(
        cast,
        &[memory],
        "cast: an operand must be an input, a weight, a constant or a result, but $0 is a buffer",
    );
    b.assert_refused(
        Custom::forged(0),
        &[x],
        "custom: a custom op must be added by Graph::custom",
    );
    let select = Select;
    b.assert_refused(
        select,
        &[x, x, x],
        "select: the condition must be u32, but $2 is f32",
    );
    b.assert_refused(select, &[u, x, u], "select: b must be f32, but $2 is u32");
    b.assert_refused(
        select,
        &[u, x, y],
        "select: [n, 6] and [n, 4] cannot be broadcast: 6 differs from 4",
    );
    let pow = Binary::Pow;
    b.assert_refused(pow, &[u, u], "pow: a must be f32, but $1 is u32");
    let deep = b.f32(Shape(vec![Dim::Fixed(1); 9]));
    b.assert_refused(
        cast,
        &[deep],
        "cast: [1, 1, 1, 1, 1, 1, 1, 1, 1] has more than 8 dimensions",
    );
}
