//! Ops that move elements: permute, slice, concat, reshape.

use super::{
    harness::{GraphTest, fixed},
    reference::Tensor,
};

#[test]
fn permute_slice_concat_and_reshape_match_the_reference() {
    let mut b = GraphTest::new();
    let x = Tensor::noise(1, &[4, 3, 5, 2]);
    let xs = b.input(x.clone());
    for axes in [[3, 2, 1, 0], [0, 2, 1, 3], [1, 0, 3, 2], [2, 3, 0, 1]] {
        let y = b.graph.permute(xs, &axes);
        b.expect(y, x.permute(&axes));
    }
    for (axis, start, len, step) in [(0, 1, 2, 1), (2, 0, 3, 2), (3, 1, 1, 1), (1, 0, 3, 1)] {
        let y = b.graph.slice(xs, axis as u32, start, len, step);
        let mut dims = x.dims.clone();
        dims[axis] = len as usize;
        let expected = Tensor::make(&dims, |place| {
            let mut place = place.to_vec();
            place[axis] = start as usize + place[axis] * step as usize;
            x.at(&place)
        });
        b.expect(y, expected);
    }
    let more = Tensor::noise(2, &[4, 2, 5, 2]);
    let more_id = b.input(more.clone());
    let y = b.graph.concat(&[xs, more_id, xs], 1);
    let joined = Tensor::make(&[4, 8, 5, 2], |place| {
        let (of, at) = match place[1] {
            at @ 0..3 => (&x, at),
            at @ 3..5 => (&more, at - 3),
            at => (&x, at - 5),
        };
        of.at(&[place[0], at, place[2], place[3]])
    });
    b.expect(y, joined);
    // A view shares memory; ops on it see its own shape.
    let flat = b.graph.reshape(xs, fixed(&[12, 10])).unwrap();
    let y = b.graph.permute(flat, &[1, 0]);
    let flat = Tensor::new(&[12, 10], x.values.clone());
    b.expect(y, flat.permute(&[1, 0]));
    b.check(1, 0.0);
}
