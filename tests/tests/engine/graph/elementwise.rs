//! Ops on single elements: unary, binary, cast, select.

use wisp_engine::graph::{Binary, DType, Unary};

use super::{
    harness::{GraphTest, SHAPES},
    reference::Tensor,
};

#[test]
fn unary_ops_and_casts_match_the_reference() {
    let mut b = GraphTest::new();
    for (i, dims) in SHAPES.iter().enumerate() {
        let tensor = Tensor::noise(i as u32, dims).map(|x| x * 2.0 + 0.01);
        let x = b.input(tensor.clone());
        let positive = b.input(tensor.map(|x| x.abs() + 0.1));
        let abs = tensor.map(|x| f64::from((x as f32).abs() + 0.1));
        type Case = (Unary, fn(f64) -> f64);
        let all: [Case; 10] = [
            (Unary::Neg, |x| -x),
            (Unary::Abs, f64::abs),
            (Unary::Exp, f64::exp),
            (Unary::Sin, f64::sin),
            (Unary::Cos, f64::cos),
            (Unary::Tanh, f64::tanh),
            (Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
            (Unary::Floor, f64::floor),
            (Unary::Ceil, f64::ceil),
            (Unary::Round, f64::round_ties_even),
        ];
        for (unary, function) in all {
            let y = b.graph.unary(unary, x);
            b.expect(y, tensor.map(function));
        }
        let all: [Case; 4] = [
            (Unary::Log, f64::ln),
            (Unary::Sqrt, f64::sqrt),
            (Unary::Rsqrt, |x| 1.0 / x.sqrt()),
            (Unary::Recip, f64::recip),
        ];
        for (unary, function) in all {
            let y = b.graph.unary(unary, positive);
            b.expect(y, abs.map(function));
        }
        let whole = b.graph.cast(positive, DType::U32);
        let whole = b.expect(whole, abs.map(f64::floor));
        let not = b.graph.unary(Unary::Not, whole);
        b.expect(not, abs.map(|x| (x < 1.0).into()));
        let back = b.graph.cast(whole, DType::F32);
        b.expect(back, abs.map(f64::floor));
    }
    b.check(1, 4e-6);
}

#[test]
fn binary_ops_and_select_broadcast_and_match_the_reference() {
    let mut b = GraphTest::new();
    // Equal shapes, broadcast on both sides, leading dimensions missing, a scalar.
    let pairs: [[&[usize]; 2]; 6] = [
        [&[3, 7], &[3, 7]],
        [&[3, 1], &[1, 7]],
        [&[2, 3, 5], &[5]],
        [&[4], &[2, 1, 3, 1]],
        [&[2, 3], &[]],
        [&[1, 3, 1, 2, 1, 5], &[2, 1, 4, 1, 3, 1]],
    ];
    for (i, [a_dims, b_dims]) in pairs.into_iter().enumerate() {
        let coarse =
            |seed, dims: &[usize]| Tensor::noise(seed, dims).map(|x| (x * 4.0).round() / 4.0);
        let (x, y) = (coarse(i as u32, a_dims), coarse(90 + i as u32, b_dims));
        let (xs, ys) = (b.input(x.clone()), b.input(y.clone()));
        type Case = (Binary, fn(f64, f64) -> f64);
        let all: [Case; 11] = [
            (Binary::Add, |x, y| x + y),
            (Binary::Sub, |x, y| x - y),
            (Binary::Mul, |x, y| x * y),
            (Binary::Min, f64::min),
            (Binary::Max, f64::max),
            (Binary::Equal, |x, y| (x == y).into()),
            (Binary::NotEqual, |x, y| (x != y).into()),
            (Binary::Less, |x, y| (x < y).into()),
            (Binary::LessEqual, |x, y| (x <= y).into()),
            (Binary::Greater, |x, y| (x > y).into()),
            (Binary::GreaterEqual, |x, y| (x >= y).into()),
        ];
        let mut comparisons = Vec::new();
        for (binary, function) in all {
            let z = b.graph.binary(binary, xs, ys);
            let z = b.expect(z, x.binary(&y, function));
            comparisons.push(z);
        }
        let (less, equal) = (comparisons[7], comparisons[5]);
        let either = b.graph.binary(Binary::Or, less, equal);
        b.expect(either, x.binary(&y, |x, y| (x <= y).into()));
        let both = b.graph.binary(Binary::And, less, equal);
        b.expect(both, x.binary(&y, |_, _| 0.0));
        let chosen = b.graph.select(less, xs, ys);
        b.expect(chosen, x.binary(&y, |x, y| if x < y { x } else { y }));
        let divided = y.map(|y| y + 2.0);
        let ys = b.input(divided.clone());
        let z = b.graph.binary(Binary::Div, xs, ys);
        b.expect(z, x.binary(&divided, |x, y| x / y));
        let three = b.graph.scalar(3.0);
        let z = b.graph.binary(Binary::Pow, xs, three);
        b.expect(z, x.map(|x| x.powi(3)));
    }
    b.check(1, 2e-6);
}
