//! Pooling, padding and batch norm.

use wisp_engine::{
    graph::{DType, PoolSpec, ValueId},
    shape,
};

use super::{
    harness::GraphTest,
    reference::{Tensor, indices},
};

/// A batch of images, `[n, channels, height, width]`, as an input of the graph.
fn images(b: &mut GraphTest) -> (Tensor, ValueId) {
    let x = Tensor::noise(1, &[2, 3, 7, 6]);
    let id = b.typed_input(DType::F32, shape!["n", 3u64, 7u64, 6u64], x.clone());
    (x, id)
}

#[test]
fn max_avg_and_global_pooling_match_the_reference() {
    let mut b = GraphTest::new();
    let (x, xs) = images(&mut b);
    let spec = PoolSpec {
        size: [3, 2],
        stride: [2, 1],
        padding: [1, 1],
    };
    // The pixels of a window that are within the image.
    let window = |place: &[usize]| -> Vec<f64> {
        let taps = indices(&[3, 2]);
        let pixel = |tap: &Vec<usize>| {
            let row = (place[2] * 2 + tap[0])
                .checked_sub(1)
                .filter(|row| *row < 7)?;
            let col = (place[3] + tap[1]).checked_sub(1).filter(|col| *col < 6)?;
            Some(x.at(&[place[0], place[1], row, col]))
        };
        taps.iter().filter_map(pixel).collect()
    };
    let dims = [2, 3, 4, 7];
    let y = b.graph.max_pool2d(xs, spec);
    b.expect(
        y,
        Tensor::make(&dims, |place| {
            window(place).into_iter().fold(f64::MIN, f64::max)
        }),
    );
    let y = b.graph.avg_pool2d(xs, spec);
    b.expect(
        y,
        Tensor::make(&dims, |place| window(place).iter().sum::<f64>() / 6.0),
    );
    let y = b.graph.max_pool2d(xs, PoolSpec::square(3));
    let squares = Tensor::make(&[2, 3, 2, 2], |place| {
        let pixel = |tap: &Vec<usize>| {
            x.at(&[
                place[0],
                place[1],
                place[2] * 3 + tap[0],
                place[3] * 3 + tap[1],
            ])
        };
        indices(&[3, 3]).iter().map(pixel).fold(f64::MIN, f64::max)
    });
    b.expect(y, squares);
    let y = b.graph.global_avg_pool(xs);
    b.expect(
        y,
        x.reduce(3, |x| x.sum())
            .reduce(2, |x| x.sum::<f64>() / 42.0),
    );
    b.check(2, 4e-6);
}

#[test]
fn padding_matches_the_reference() {
    let mut b = GraphTest::new();
    let (x, xs) = images(&mut b);
    for (axis, [before, after]) in [(2, [2, 1]), (3, [0, 3]), (1, [1, 0]), (2, [0, 0])] {
        let y = b
            .graph
            .pad(xs, axis as u32, [before as u64, after as u64], -0.5);
        let mut dims = x.dims.clone();
        dims[axis] += before + after;
        let padded = Tensor::make(&dims, |place| {
            let mut own = place.to_vec();
            match place[axis]
                .checked_sub(before)
                .filter(|at| *at < x.dims[axis])
            {
                None => -0.5,
                Some(at) => {
                    own[axis] = at;
                    x.at(&own)
                }
            }
        });
        b.expect(y, padded);
    }
    b.check(2, 4e-6);
}

#[test]
fn batch_norm_matches_the_reference() {
    let mut b = GraphTest::new();
    let (x, xs) = images(&mut b);
    let parts = [2, 3, 4, 5].map(|seed| Tensor::noise(seed, &[3]).map(|x| x.abs() + 0.25));
    let [weight, bias, mean, variance] = &parts;
    let ids = parts.each_ref().map(|part| b.input(part.clone()));
    let y = b.graph.batch_norm(xs, ids, 1e-3);
    let expected = Tensor::make(&x.dims, |place| {
        let of = |part: &Tensor| part.at(&[place[1]]);
        (x.at(place) - of(mean)) / (of(variance) + 1e-3).sqrt() * of(weight) + of(bias)
    });
    b.expect(y, expected);
    b.check(2, 4e-6);
}
