//! `batch_matmul`.

use wisp_shaders::params::BatchMatmulParams;
use wisp_tests::kernels::{Case, case, check, close, exact, noise};

use crate::strided::{eight, elements, strides};

/// Products of matrices, each of which may be transposed; `is_repeated`: `b` is repeated along the first
/// dimension of the batch.
fn batch_matmul(
    batch: &[u32],
    [m, n, k]: [u32; 3],
    is_transposed: [bool; 2],
    is_repeated: bool,
) -> Case {
    let (a_len, b_len) = (m * k, k * n);
    let over = |len: u32, repeated: &[usize]| -> Vec<u32> {
        strides(batch, repeated)
            .iter()
            .map(|stride| stride * len)
            .collect()
    };
    let (a, b) = (
        over(a_len, &[]),
        over(b_len, if is_repeated { &[0] } else { &[] }),
    );
    let batches: u32 = batch.iter().product();
    let len = batches * m * n;
    let [a_row, a_col] = if is_transposed[0] { [1, m] } else { [k, 1] };
    let [b_row, b_col] = if is_transposed[1] { [1, k] } else { [n, 1] };
    let params = BatchMatmulParams {
        len,
        rank: batch.len() as u32,
        m,
        n,
        k,
        a_row,
        a_col,
        b_row,
        b_col,
        dims: eight(batch),
        a_strides: eight(&a),
        b_strides: eight(&b),
        ..Default::default()
    };
    let reached = |strides: &[u32], matrix: u32| match batch.is_empty() {
        true => matrix as usize,
        false => elements(batch, strides) - 1 + matrix as usize,
    };
    let memory = vec![
        exact(&noise(1, reached(&a, a_len))),
        exact(&noise(2, reached(&b, b_len))),
        close(len as usize, 2e-6),
    ];
    case(params, memory, &[len as usize], len as usize)
}

#[test]
fn kernels_match_the_twin() {
    let mut cases = Vec::new();
    for transposed in [[false, false], [true, false], [false, true], [true, true]] {
        cases.push(batch_matmul(&[], [5, 7, 33], transposed, false));
        cases.push(batch_matmul(&[2, 3], [17, 4, 60], transposed, false));
        cases.push(batch_matmul(&[3, 2], [1, 65, 9], transposed, true));
        cases.push(batch_matmul(&[2], [6, 37, 1040], transposed, false));
    }
    check("batch_matmul", &cases);
}
