//! Reductions along a dimension.

use wisp_engine::graph::Reduction;

use super::{
    harness::{GraphTest, SHAPES},
    reference::Tensor,
};

#[test]
fn reductions_argmax_and_softmax_work_along_any_dimension() {
    let mut b = GraphTest::new();
    for (i, dims) in SHAPES.iter().enumerate() {
        let x = Tensor::noise(i as u32, dims);
        let xs = b.input(x.clone());
        for axis in 0..dims.len() {
            let n = dims[axis] as f64;
            let expect = |b: &mut GraphTest, kind, expected| {
                let y = b.graph.reduce(kind, xs, axis as u32);
                b.expect(y, expected);
            };
            expect(&mut b, Reduction::Sum, x.reduce(axis, |x| x.sum()));
            expect(
                &mut b,
                Reduction::Mean,
                x.reduce(axis, |x| x.sum::<f64>() / n),
            );
            expect(
                &mut b,
                Reduction::Max,
                x.reduce(axis, |x| x.fold(f64::MIN, f64::max)),
            );
            expect(
                &mut b,
                Reduction::Min,
                x.reduce(axis, |x| x.fold(f64::MAX, f64::min)),
            );
            let index_of_max = x.reduce(axis, |x| {
                let all: Vec<f64> = x.collect();
                let max = all.iter().copied().fold(f64::MIN, f64::max);
                all.iter().position(|x| *x == max).unwrap() as f64
            });
            let y = b.graph.argmax(xs, axis as u32);
            b.expect(y, index_of_max);
            let y = b.graph.softmax(xs, axis as u32);
            b.expect(y, x.softmax(axis));
        }
    }
    b.check(1, 2e-6);
}
