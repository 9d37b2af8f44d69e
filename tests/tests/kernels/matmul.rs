//! `matmul.<encoding>`.

use proptest::prelude::*;
use wisp_engine::weights::Encoding;
use wisp_shaders::params::MatmulParams;
use wisp_tests::{
    kernel_rewritten,
    kernels::{
        Case, Memory, case, check, check_fitting, check_fitting_if, check_outputs, close, exact,
        matmul_params, noise, test_fold, twin_outputs, weight, weight_of,
    },
};

use crate::matmul_int8::in_bytes;

/// Tokens, rows and columns; quantised encodings get the next whole number of blocks.
pub(crate) const SIZES: &[[usize; 3]] = &[
    [1, 1, 7],
    [1, 67, 172],
    [2, 3, 60],
    [3, 33, 515],
    [5, 130, 32],
    [8, 31, 96],
    [9, 64, 256],
    [17, 7, 512],
    [33, 67, 96],
    [65, 130, 172],
    [1, 33, 768],
    // The widths of real models, with few rows.
    [1, 9, 896],
    [4, 5, 2048],
    [6, 2, 4864],
    [1, 3, 14336],
    // On both sides of the kernels' limits of tokens.
    [7, 5, 1184],
    [16, 65, 64],
    [32, 66, 96],
    [129, 66, 64],
];

pub(crate) fn matmul(encoding: Encoding, [tokens, rows, cols]: [usize; 3]) -> Case {
    let cols = cols.next_multiple_of(encoding.file_block_weights());
    let (before, after, bias_offset) = (3, 2, 1);
    let out_stride = before + rows + after;
    let params = MatmulParams {
        out_stride: out_stride as u32,
        out_offset: before as u32,
        bias_offset,
        has_bias: (rows % 2) as u32,
        ..matmul_params([tokens, rows, cols])
    };
    let mut memory = vec![
        exact(&noise(1, tokens * cols)),
        close(tokens * out_stride, f32_bound(cols)),
        exact(&noise(2, rows + 1)),
    ];
    memory.extend(weight(encoding, rows, cols));
    case(params, memory, &[rows, tokens], cols)
}

fn check_all(encodings: impl Iterator<Item = Encoding>) {
    for encoding in encodings {
        let cases: Vec<_> = SIZES.iter().map(|sizes| matmul(encoding, *sizes)).collect();
        check(&format!("matmul.{}", encoding.name()), &cases);
    }
}

/// These encodings have a test of their own, which runs beside that of the others.
fn has_super_blocks(encoding: &Encoding) -> bool {
    encoding.file_block_weights() == 256
}

#[test]
fn kernels_match_the_twin() {
    check_all(Encoding::device_encodings().filter(|encoding| !has_super_blocks(encoding)));
}

#[test]
fn kernels_of_super_blocks_match_the_twin() {
    check_all(Encoding::device_encodings().filter(has_super_blocks));
}

/// The bound for products in f32.
fn f32_bound(cols: usize) -> f64 {
    1e-6 * (cols as f64).sqrt()
}

/// The product of `x`, `[tokens, cols]`, and a weight of `[rows, cols]`, without a bias.
pub(crate) fn product(
    x: &[f32],
    weight: Vec<Memory>,
    [tokens, rows, cols]: [usize; 3],
    bound: f64,
) -> Case {
    let mut memory = vec![exact(x), close(tokens * rows, bound), exact(&[0.0; 4])];
    memory.extend(weight);
    let params = matmul_params([tokens, rows, cols]);
    case(params, memory, &[rows, tokens], cols)
}

/// Kernels that multiply bytes as subnormal floats scale x by up to 2^80: nothing may overflow or become 0.
#[test]
fn kernels_match_the_twin_for_large_and_small_inputs() {
    let [tokens, rows, cols] = [1, 6, 256];
    let encodings = [
        Encoding::Q4_0,
        Encoding::Q4_K,
        Encoding::Q6_K,
        Encoding::Q8_0,
        Encoding::MXFP4,
        Encoding::IQ3,
        Encoding::F8_E4M3,
        Encoding::BF16,
    ];
    for encoding in encodings {
        let cases = [45, -45].map(|exponent| {
            let x = noise(1, tokens * cols).into_iter();
            let x: Vec<f32> = x.map(|x| x * 2f32.powi(exponent)).collect();
            product(
                &x,
                weight(encoding, rows, cols),
                [tokens, rows, cols],
                f32_bound(cols),
            )
        });
        // Half precision does not have this range.
        check_fitting_if(&format!("matmul.{}", encoding.name()), &cases, |kernel| {
            kernel.switches.is_empty()
        });
    }
}

/// The instructions that CUDA puts in the place of functions do what the functions say in WGSL.
#[test]
fn instructions_do_what_their_wgsl_says() {
    for (op, variant, encoding, tokens) in [
        ("matmul", "mma1", Encoding::Q4_K, 1),
        ("matmul", "mma4", Encoding::Q6_K, 1),
        ("matmul", "mma1", Encoding::MXFP4, 1),
        ("matmul", "mma8", Encoding::IQ4_NL, 5),
        ("matmul", "mma4", Encoding::BF16, 3),
        ("matmul", "mma_tile64x32", Encoding::MXFP4, 1),
        ("matmul", "mma_tile64x32", Encoding::Q6_K, 1),
        ("matmul", "mma_tile128x64", Encoding::Q4_K, 33),
        ("matmul_int8", "mma_tile64x32", Encoding::Q4_K, 1),
        ("matmul_int8", "mma_tile128x64", Encoding::Q6_K, 33),
    ] {
        let name = format!("{op}.{}.{variant}", encoding.name());
        let mut case = matmul(encoding, [tokens, 67, 768]);
        if op == "matmul_int8" {
            case = in_bytes(case);
        }
        kernel_rewritten::check(&name, &[case], kernel_rewritten::without_intrinsics);
    }
}

/// Two large elements in each block of x, whose products cancel: what they add up to takes no bits from the others.
#[test]
fn outliers_take_no_bits_from_the_other_columns() {
    let (rows, cols) = (37, 2048);
    let mut weights = noise(2, rows * cols);
    for block in weights.chunks_mut(32) {
        block[31] = block[0];
    }
    let encodings = [Encoding::Q4_0, Encoding::Q6_K, Encoding::Q8_0];
    for (encoding, tokens) in encodings.into_iter().flat_map(|one| [(one, 1), (one, 3)]) {
        let mut x = noise(1, tokens * cols);
        for block in x.chunks_mut(32) {
            block[0] *= 100.0;
            block[31] = -block[0];
        }
        let case = product(
            &x,
            weight_of(encoding, rows, cols, &weights),
            [tokens, rows, cols],
            f32_bound(cols),
        );
        check_fitting_if(&format!("matmul.{}", encoding.name()), &[case], |kernel| {
            kernel.switches.is_empty()
        });
    }
}

/// Large elements of x whose weights are 0, and large weights whose elements of x are 0, take no bits from the other columns.
#[test]
fn what_is_multiplied_by_zero_takes_no_bits_from_the_other_columns() {
    let (rows, cols) = (37, 2048);
    let is_large = |column: usize| column % 32 % 7 == 5;
    let numbers = |seed: u32, count: usize, large: f32, small: f32| {
        let factor = |i| if is_large(i % cols) { large } else { small };
        let numbers = noise(seed, count).into_iter().enumerate();
        numbers
            .map(|(i, number)| number * factor(i))
            .collect::<Vec<f32>>()
    };
    // The numbers of F8 have 3 bits behind the point and at least 2^-9, those of halves 2^-24.
    let cases = [
        (Encoding::MXFP4, 0.0, 1.0),
        (Encoding::NVFP4, 0.0, 1.0),
        (Encoding::F16, 0.0, 1.0),
        (Encoding::BF16, 0.0, 1.0),
        (Encoding::F8_E4M3, 0.0, 1.0),
        (Encoding::F16, 1.0, 2f32.powi(-16)),
        (Encoding::BF16, 64.0, 2f32.powi(-12)),
        (Encoding::F8_E4M3, 448.0, 2f32.powi(-6)),
    ];
    for (encoding, large, small) in cases {
        for tokens in [1, 3, 8] {
            let weights = numbers(2, rows * cols, large, small);
            let large_input = if large == 0.0 { 1e4 } else { 0.0 };
            let x = numbers(1, tokens * cols, large_input, 1.0);
            let case = product(
                &x,
                weight_of(encoding, rows, cols, &weights),
                [tokens, rows, cols],
                f32_bound(cols),
            );
            check_fitting_if(&format!("matmul.{}", encoding.name()), &[case], |kernel| {
                kernel.switches.is_empty()
            });
        }
    }
}

/// A number that is not finite, in the last columns, reaches all results of its token and none of the others.
#[test]
fn inputs_that_are_not_finite_stay_with_their_token() {
    let (rows, cols) = (5, 32 * 9);
    for (tokens, value) in [(1, f32::NAN), (2, f32::INFINITY), (8, f32::NAN)] {
        let mut x = noise(1, tokens * cols);
        x[cols - 1] = value;
        let case = product(
            &x,
            weight(Encoding::Q4_0, rows, cols),
            [tokens, rows, cols],
            f32_bound(cols),
        );
        let expected = twin_outputs("matmul.q4_0", &case);
        let floats = |bytes: &[u8]| bytemuck::pod_collect_to_vec::<u8, f32>(bytes);
        let expected = floats(&expected[1]);
        check_outputs("matmul.q4_0", &[case], |_, outputs| {
            let actual = floats(&outputs[1]);
            let of_tokens = actual.chunks(rows).zip(expected.chunks(rows)).enumerate();
            let wrong = of_tokens.filter(|(token, (actual, expected))| match token {
                // Partial sums in half precision are clamped to the largest numbers of that.
                0 => actual.iter().any(|a| a.abs() < 60000.0),
                _ => {
                    let far = |(a, b): (&f32, &f32)| {
                        let off = (a - b).abs() / (1.0 + b.abs());
                        off.is_nan() || off > 5e-3
                    };
                    actual.iter().zip(*expected).any(far)
                }
            });
            wrong
                .map(|(token, _)| format!("token {token} is wrong"))
                .collect()
        });
    }
}

/// The largest vocabularies have as many rows: with kernels that compute up to four in a workgroup, more
/// workgroups than one dimension of a dispatch holds.
#[test]
fn kernels_match_the_twin_with_many_rows() {
    let fold = test_fold();
    let rows = fold as usize * 4 + 5;
    let case = Case {
        fold,
        ..matmul(Encoding::F32, [1, rows, 4])
    };
    check_fitting_if("matmul.f32", &[case], |kernel| kernel.tile[0] <= 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn kernels_match_the_twin_at_any_size(
        encoding in prop::sample::select(Encoding::device_encodings().collect::<Vec<_>>()),
        sizes in [1usize..40, 1..200, 1..600],
    ) {
        check_fitting(&format!("matmul.{}", encoding.name()), &[matmul(encoding, sizes)]);
    }
}
