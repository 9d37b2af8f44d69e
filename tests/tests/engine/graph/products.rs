//! Products: matmul, convolutions, attention.

use wisp_engine::graph::ConvSpec;

use super::{
    harness::GraphTest,
    reference::{Tensor, indices},
};

#[test]
fn matmul_broadcasts_batches_and_transposes_operands() {
    let mut b = GraphTest::new();
    let pairs: [[&[usize]; 2]; 4] = [
        [&[3, 5], &[5, 7]],
        [&[2, 3, 4, 5], &[2, 3, 5, 6]],
        [&[2, 1, 4, 5], &[3, 5, 1]],
        [&[1, 9], &[4, 9, 2]],
    ];
    for (i, [a_dims, b_dims]) in pairs.into_iter().enumerate() {
        let (x, y) = (
            Tensor::noise(i as u32, a_dims),
            Tensor::noise(40 + i as u32, b_dims),
        );
        let transposed = |tensor: &Tensor| {
            let mut axes: Vec<usize> = (0..tensor.dims.len()).collect();
            let last = axes.len() - 1;
            axes.swap(last, last - 1);
            tensor.permute(&axes)
        };
        for (transpose_a, transpose_b) in
            [(false, false), (true, false), (false, true), (true, true)]
        {
            let operand = |tensor: &Tensor, transpose| match transpose {
                true => transposed(tensor),
                false => tensor.clone(),
            };
            let operands = [
                b.input(operand(&x, transpose_a)),
                b.input(operand(&y, transpose_b)),
            ];
            let [left, right] = operands;
            let z = b
                .graph
                .matmul_transposed(left, right, [transpose_a, transpose_b]);
            b.expect(z, x.matmul(&y));
        }
    }
    b.check(1, 4e-6);
}

#[test]
fn conv2d_and_conv1d_match_the_reference() {
    let mut b = GraphTest::new();
    let image = Tensor::noise(1, &[2, 4, 7, 6]);
    let weight = Tensor::noise(2, &[6, 2, 3, 2]);
    let bias = Tensor::noise(3, &[6]);
    let ids = [&image, &weight, &bias].map(|tensor| b.input(tensor.clone()));
    let spec = ConvSpec {
        stride: [2, 1],
        padding: [1, 2],
        dilation: [1, 2],
        groups: 2,
    };
    let y = b.graph.conv2d(ids[0], ids[1], Some(ids[2]), spec);
    let expected = Tensor::make(&[2, 6, 4, 8], |place| {
        let &[n, o, y, x] = place else { unreachable!() };
        let mut sum = bias.at(&[o]);
        for tap in indices(&[2, 3, 2]) {
            let row = (y * 2 + tap[1]).checked_sub(1).filter(|row| *row < 7);
            let col = (x + tap[2] * 2).checked_sub(2).filter(|col| *col < 6);
            if let (Some(row), Some(col)) = (row, col) {
                let from = image.at(&[n, o / 3 * 2 + tap[0], row, col]);
                sum += weight.at(&[o, tap[0], tap[1], tap[2]]) * from;
            }
        }
        sum
    });
    b.expect(y, expected);
    let signal = Tensor::noise(4, &[3, 2, 11]);
    let taps = Tensor::noise(5, &[4, 2, 3]);
    let ids = [&signal, &taps].map(|tensor| b.input(tensor.clone()));
    let y = b.graph.conv1d(ids[0], ids[1], None, ConvSpec::default());
    let expected = Tensor::make(&[3, 4, 9], |place| {
        let of = |tap: &Vec<usize>| {
            taps.at(&[place[1], tap[0], tap[1]]) * signal.at(&[place[0], tap[0], place[2] + tap[1]])
        };
        indices(&[2, 3]).iter().map(of).sum()
    });
    b.expect(y, expected);
    b.check(1, 4e-6);
}

#[test]
fn attention_follows_its_formula() {
    let mut b = GraphTest::new();
    let [q, k, v] = [5, 7, 7].map(|len| Tensor::noise(len as u32, &[2, 3, len, 4]));
    let mask = Tensor::make(
        &[5, 7],
        |place| if place[1] > place[0] + 2 { -1e9 } else { 0.0 },
    );
    let ids = [&q, &k, &v].map(|tensor| b.input(tensor.clone()));
    let mask_id = b.input(mask.clone());
    let y = b.graph.attention(ids, Some(mask_id), 0.5);
    let scores = q.matmul(&k.permute(&[0, 1, 3, 2])).map(|x| x * 0.5);
    let weights = scores.binary(&mask, |x, y| x + y).softmax(3);
    b.expect(y, weights.matmul(&v));
    b.check(1, 4e-6);
}
