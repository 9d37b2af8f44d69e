//! Ops on tensors of any rank: what is read by strides, reductions, products, convolutions, gathers,
//! scatters, the greatest elements.

use proptest::prelude::*;
use wisp_shaders::params::*;
use wisp_tests::kernels::{Case, case, check, check_fitting, close, exact, noise};

fn eight(values: &[u32]) -> [u32; 8] {
    let mut all = [0; 8];
    all[..values.len()].copy_from_slice(values);
    all
}

/// Strides of a tensor in memory, with 0 where it is repeated.
fn strides(dims: &[u32], repeated: &[usize]) -> Vec<u32> {
    let mut stride = 1;
    let mut strides = vec![0; dims.len()];
    for i in (0..dims.len()).rev() {
        if !repeated.contains(&i) {
            strides[i] = stride;
            stride *= dims[i];
        }
    }
    strides
}

fn elements(dims: &[u32], strides: &[u32]) -> usize {
    let last: u32 = dims.iter().zip(strides).map(|(n, s)| (n - 1) * s).sum();
    last as usize + 1
}

/// Whole numbers, many of them equal or 0.
fn wholes(seed: u32, len: usize) -> Vec<u32> {
    let all = noise(seed, len).into_iter();
    all.map(|x| ((x + 1.0) * 4.0) as u32).collect()
}

const DIMS: &[&[u32]] = &[
    &[1],
    &[515],
    &[7, 60],
    &[3, 1, 17],
    &[2, 3, 5, 7],
    &[2, 1, 3, 2, 1, 4, 2, 3],
];

fn binary(dims: &[u32], kind: u32, whole: bool, repeated: [&[usize]; 2]) -> Case {
    let [a, b] = repeated.map(|repeated| strides(dims, repeated));
    let len: u32 = dims.iter().product();
    let params = BinaryParams {
        len,
        rank: dims.len() as u32,
        kind,
        whole: whole.into(),
        dims: eight(dims),
        a_strides: eight(&a),
        b_strides: eight(&b),
    };
    let values = |seed, strides: &[u32]| {
        let len = elements(dims, strides);
        match whole {
            true => exact(&wholes(seed, len)),
            // Coarse, so that some are equal, and none 0.
            false => exact(
                &noise(seed, len)
                    .iter()
                    .map(|x| (x * 8.0).round() / 4.0 + 0.1)
                    .collect::<Vec<_>>(),
            ),
        }
    };
    let out = match (whole, kind) {
        (false, 3 | 4) => close(len as usize, 2e-6),
        _ => exact(&noise(7, len as usize)),
    };
    let memory = vec![values(kind + 1, &a), values(kind + 40, &b), out];
    case(params, memory, &[len as usize], len as usize)
}

#[test]
fn binaries() {
    let mut cases = Vec::new();
    for (i, dims) in DIMS.iter().enumerate() {
        let [first, last] = [0, dims.len() - 1];
        for kind in 0..=14 {
            for whole in [false, true] {
                let known = if whole { kind != 4 } else { kind <= 12 };
                if !known {
                    continue;
                }
                cases.push(binary(dims, kind, whole, [&[], &[]]));
                if kind as usize % DIMS.len() == i {
                    cases.push(binary(dims, kind, whole, [&[first], &[last]]));
                }
            }
        }
    }
    check("binary", &cases);
}

#[test]
fn chooses() {
    let of = |dims: &&[u32]| {
        let last = dims.len() - 1;
        let [c, a, b] = [&[last][..], &[], &[0]].map(|repeated| strides(dims, repeated));
        let len: u32 = dims.iter().product();
        let params = ChooseParams {
            len,
            rank: dims.len() as u32,
            dims: eight(dims),
            c_strides: eight(&c),
            a_strides: eight(&a),
            b_strides: eight(&b),
            ..Default::default()
        };
        let memory = vec![
            exact(
                &wholes(1, elements(dims, &c))
                    .iter()
                    .map(|x| x % 2)
                    .collect::<Vec<_>>(),
            ),
            exact(&noise(2, elements(dims, &a))),
            exact(&noise(3, elements(dims, &b))),
            exact(&noise(4, len as usize)),
        ];
        case(params, memory, &[len as usize], len as usize)
    };
    check("choose", &DIMS.iter().map(of).collect::<Vec<_>>());
}

/// Dimensions turned around, from a place in the middle to every other element.
#[test]
fn copies() {
    let of = |dims: &&[u32]| {
        let turned: Vec<u32> = dims.iter().rev().copied().collect();
        let mut from = strides(&turned, &[]);
        from.reverse();
        let to: Vec<u32> = strides(dims, &[]).iter().map(|stride| stride * 2).collect();
        let len: u32 = dims.iter().product();
        let params = CopyParams {
            len,
            rank: dims.len() as u32,
            x_offset: 5,
            out_offset: 3,
            dims: eight(dims),
            x_strides: eight(&from),
            out_strides: eight(&to),
        };
        let memory = vec![
            exact(&noise(1, elements(dims, &from) + 5)),
            exact(&noise(2, elements(dims, &to) + 3)),
        ];
        case(params, memory, &[len as usize], len as usize)
    };
    check("copy", &DIMS.iter().map(of).collect::<Vec<_>>());
}

/// What is before a dimension, its size, what is after it.
const AROUND: &[[u32; 3]] = &[
    [1, 1, 1],
    [3, 515, 1],
    [1, 7, 60],
    [5, 64, 3],
    [2, 1, 9],
    [9, 130, 2],
];

#[test]
fn reductions() {
    let of = |kind: u32| {
        AROUND.iter().map(move |&[outer, n, inner]| {
            let params = ReductionParams {
                outer,
                n,
                inner,
                kind,
            };
            let (len, results) = ((outer * n * inner) as usize, (outer * inner) as usize);
            let x: Vec<f32> = noise(kind, len).iter().map(|x| x + 0.3).collect();
            let out = match kind {
                0 | 1 => close(results, 2e-6),
                _ => exact(&noise(5, results)),
            };
            case(params, vec![exact(&x), out], &[results], results)
        })
    };
    check("reduction", &(0..4).flat_map(of).collect::<Vec<_>>());
}

fn batch_matmul(batch: &[u32], [m, n, k]: [u32; 3], turned: [bool; 2], repeated: bool) -> Case {
    let (a_len, b_len) = (m * k, k * n);
    let over = |len: u32, repeated: &[usize]| -> Vec<u32> {
        strides(batch, repeated)
            .iter()
            .map(|stride| stride * len)
            .collect()
    };
    let (a, b) = (
        over(a_len, &[]),
        over(b_len, if repeated { &[0] } else { &[] }),
    );
    let batches: u32 = batch.iter().product();
    let len = batches * m * n;
    let [a_row, a_col] = if turned[0] { [1, m] } else { [k, 1] };
    let [b_row, b_col] = if turned[1] { [1, k] } else { [n, 1] };
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
    let last = |strides: &[u32], own: u32| match batch.is_empty() {
        true => own as usize,
        false => elements(batch, strides) - 1 + own as usize,
    };
    let memory = vec![
        exact(&noise(1, last(&a, a_len))),
        exact(&noise(2, last(&b, b_len))),
        close(len as usize, 2e-6),
    ];
    case(params, memory, &[len as usize], len as usize)
}

#[test]
fn products() {
    let mut cases = Vec::new();
    for turned in [[false, false], [true, false], [false, true], [true, true]] {
        cases.push(batch_matmul(&[], [5, 7, 33], turned, false));
        cases.push(batch_matmul(&[2, 3], [17, 4, 60], turned, false));
        cases.push(batch_matmul(&[3, 2], [1, 65, 9], turned, true));
    }
    check("batch_matmul", &cases);
}

#[derive(Clone, Debug)]
struct Conv {
    size: [u32; 2],
    filter: [u32; 2],
    channels: [u32; 2],
    groups: u32,
    stride: [u32; 2],
    pad: [u32; 2],
    dilation: [u32; 2],
}

fn conv2d(images: u32, conv: &Conv, has_bias: bool) -> Case {
    let out = |i: usize| {
        let reach = (conv.filter[i] - 1) * conv.dilation[i] + 1;
        (conv.size[i] + 2 * conv.pad[i] - reach) / conv.stride[i] + 1
    };
    let [in_channels, out_channels] = conv.channels.map(|channels| channels * conv.groups);
    let len = images * out_channels * out(0) * out(1);
    let params = Conv2dParams {
        len,
        in_channels,
        in_height: conv.size[0],
        in_width: conv.size[1],
        out_channels,
        out_height: out(0),
        out_width: out(1),
        kernel_height: conv.filter[0],
        kernel_width: conv.filter[1],
        stride_y: conv.stride[0],
        stride_x: conv.stride[1],
        pad_y: conv.pad[0],
        pad_x: conv.pad[1],
        dilation_y: conv.dilation[0],
        dilation_x: conv.dilation[1],
        groups: conv.groups,
        has_bias: has_bias.into(),
    };
    let filter = conv.channels[0] * conv.filter[0] * conv.filter[1];
    let memory = vec![
        exact(&noise(
            1,
            (images * in_channels * conv.size[0] * conv.size[1]) as usize,
        )),
        exact(&noise(2, (out_channels * filter) as usize)),
        exact(&noise(3, out_channels as usize)),
        close(len as usize, 3e-6),
    ];
    case(params, memory, &[len as usize], len as usize)
}

#[test]
fn convolutions() {
    let plain = Conv {
        size: [9, 7],
        filter: [3, 3],
        channels: [3, 5],
        groups: 1,
        stride: [1, 1],
        pad: [1, 1],
        dilation: [1, 1],
    };
    let odd = Conv {
        size: [11, 16],
        filter: [2, 5],
        channels: [2, 1],
        groups: 3,
        stride: [2, 3],
        pad: [0, 4],
        dilation: [3, 2],
    };
    let line = Conv {
        size: [1, 60],
        filter: [1, 7],
        pad: [0, 3],
        ..plain.clone()
    };
    check(
        "conv2d",
        &[
            conv2d(2, &plain, true),
            conv2d(1, &odd, false),
            conv2d(3, &line, true),
        ],
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn convolutions_of_any_size(
        size in [5u32..14, 5u32..14],
        filter in [1u32..4, 1u32..4],
        channels in [1u32..4, 1u32..4],
        groups in 1u32..4,
        stride in [1u32..4, 1u32..4],
        pad in [0u32..4, 0u32..4],
        dilation in [1u32..3, 1u32..3],
    ) {
        let conv = Conv { size, filter, channels, groups, stride, pad, dilation };
        check_fitting("conv2d", &[conv2d(2, &conv, true)]);
    }
}

#[test]
fn gathers() {
    let of = |&[outer, n, inner]: &[u32; 3]| {
        let params = GatherParams {
            outer,
            n,
            inner,
            count: 7,
        };
        let indices: Vec<u32> = (0..7).map(|i| i * 3 % n).collect();
        let len = (outer * 7 * inner) as usize;
        let memory = vec![
            exact(&noise(1, (outer * n * inner) as usize)),
            exact(&indices),
            exact(&noise(2, len)),
        ];
        case(params, memory, &[len], len)
    };
    check("gather", &AROUND.iter().map(of).collect::<Vec<_>>());
}

#[test]
fn scatters() {
    let of = |&[outer, n, inner]: &[u32; 3]| {
        [0, 1].map(|adds| {
            let params = ScatterParams {
                outer,
                n,
                inner,
                count: 9,
                adds,
            };
            // Some equal, one too great.
            let mut indices: Vec<u32> = (0..9).map(|i| i * 5 % 7 % n).collect();
            indices[4] = n;
            let len = (outer * n * inner) as usize;
            let memory = vec![
                exact(&noise(1, len)),
                exact(&indices),
                exact(&noise(2, (outer * 9 * inner) as usize)),
                exact(&noise(3, len)),
            ];
            case(params, memory, &[len], len)
        })
    };
    check("scatter", &AROUND.iter().flat_map(of).collect::<Vec<_>>());
}

#[test]
fn the_greatest() {
    let of = |&[rows, cols, k]: &[u32; 3]| {
        let params = TopKParams { rows, cols, k };
        let mut x: Vec<f32> = noise(1, (rows * cols) as usize);
        // Coarse, so that some are equal; and one that is no number.
        x.iter_mut().for_each(|x| *x = (*x * 20.0).round());
        x[0] = f32::NAN;
        let out = (rows * k) as usize;
        let memory = vec![exact(&x), exact(&noise(2, out)), exact(&noise(3, out))];
        case(params, memory, &[rows as usize], cols as usize)
    };
    let sizes = [[1, 1, 1], [3, 60, 7], [2, 515, 515], [17, 300, 40]];
    check("top_k", &sizes.iter().map(of).collect::<Vec<_>>());
}
