//! `matmul_int8.<encoding>`, `matmul_gated_int8.<encoding>` and `matmul_experts_int8.<encoding>`: the cases of the
//! products with floats, with the same rows in bytes.

use proptest::prelude::*;
use wisp_engine::weights::Encoding;
use wisp_tests::guarded::{Hostile, check_hostile, spoiled};
use wisp_tests::kernels::{
    Case, check, check_fitting, exact, some_encodings, twin_outputs, weight_of,
};

use crate::{matmul, matmul_experts, matmul_gated, quantize::quantize};

/// The encodings with kernels for these products.
fn encodings() -> impl Iterator<Item = Encoding> {
    Encoding::device_encodings().filter(|encoding| {
        let op = format!("matmul_int8.{}", encoding.name());
        wisp_shaders::candidates(&op).next().is_some()
    })
}

/// A case of a product with floats as one with bytes: the first binding becomes the bytes of its rows, and their
/// factors stand before the planes.
pub(crate) fn in_bytes(mut case: Case) -> Case {
    let x: Vec<f32> = bytemuck::pod_collect_to_vec(case.memory[0].bytes());
    let tokens = x.len() / case.cols;
    let outputs = twin_outputs("quantize", &quantize(&x, [tokens, case.cols]));
    case.memory[0] = exact(&outputs[1]);
    case.memory.insert(3, exact(&outputs[2]));
    case
}

#[test]
fn kernels_match_the_twin() {
    for encoding in encodings() {
        let cases = matmul::SIZES.iter();
        let cases: Vec<_> = cases
            .map(|sizes| in_bytes(matmul::matmul(encoding, *sizes)))
            .collect();
        check(&format!("matmul_int8.{}", encoding.name()), &cases);
    }
}

#[test]
fn gated_kernels_match_the_twin() {
    for (encoding, activation) in encodings().zip((0..4).cycle()) {
        let cases = matmul_gated::SIZES.iter();
        let cases: Vec<_> = cases
            .map(|sizes| in_bytes(matmul_gated::gated(encoding, activation, *sizes)))
            .collect();
        check(&format!("matmul_gated_int8.{}", encoding.name()), &cases);
    }
}

#[test]
fn kernels_of_experts_match_the_twin() {
    for encoding in encodings() {
        let both = |sizes: &[usize; 5]| {
            [false, true]
                .map(|chunk| in_bytes(matmul_experts::matmul_experts(encoding, *sizes, chunk)))
        };
        let in_turn = matmul_experts::HEADS.iter();
        let in_turn =
            in_turn.map(|sizes| in_bytes(matmul_experts::heads_of(encoding, *sizes, true)));
        let cases: Vec<_> = matmul_experts::SIZES
            .iter()
            .flat_map(both)
            .chain(in_turn)
            .collect();
        check(&format!("matmul_experts_int8.{}", encoding.name()), &cases);
    }
}

/// The integers and the scales are those of the weight: the product with floats of the same rows, computed from their
/// bytes, is as near as that of any kernel.
#[test]
fn products_are_those_of_the_quantized_rows() {
    for encoding in encodings() {
        let float = matmul::matmul(encoding, [3, 33, 515]);
        let case = in_bytes(float.clone());
        let bytes: &[i8] = bytemuck::cast_slice(case.memory[0].bytes());
        let factors: Vec<[f32; 2]> = bytemuck::pod_collect_to_vec(case.memory[3].bytes());
        let blocks = bytes.chunks_exact(32).zip(&factors);
        let x =
            blocks.flat_map(|(bytes, factors)| bytes.iter().map(|q| factors[0] * f32::from(*q)));
        let mut float = float;
        float.memory[0] = exact(&x.collect::<Vec<_>>());
        let op = |name: &str| format!("{name}.{}", encoding.name());
        let [expected, actual] = [
            twin_outputs(&op("matmul"), &float),
            twin_outputs(&op("matmul_int8"), &case),
        ]
        .map(|outputs| bytemuck::pod_collect_to_vec::<u8, f32>(&outputs[1]));
        let pairs = expected.iter().zip(&actual);
        let (off, norm) = pairs.fold((0.0, 0.0), |(off, norm), (a, b)| {
            (off + f64::from(a - b).powi(2), norm + f64::from(*a).powi(2))
        });
        let error = (off / norm).sqrt();
        assert!(error < 1e-5, "{}: {error:e}", encoding.name());
    }
}

/// Numbers of one sign and the largest magnitudes, whose sums are the largest.
#[test]
fn kernels_match_the_twin_for_the_largest_sums() {
    let sizes @ [tokens, rows, cols] = [33, 5, 256];
    for encoding in [Encoding::Q4_0, Encoding::Q6_K, Encoding::Q8_0] {
        let cases = [1.0, -1.0].map(|sign| {
            let weight = weight_of(encoding, rows, cols, &vec![sign; rows * cols]);
            let x = vec![0.75; tokens * cols];
            in_bytes(matmul::product(&x, weight, sizes, 1e-6))
        });
        check_fitting(&format!("matmul_int8.{}", encoding.name()), &cases);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn kernels_match_the_twin_at_any_size(
        encoding in prop::sample::select(encodings().collect::<Vec<_>>()),
        sizes in [1usize..40, 1..200, 1..600],
    ) {
        let case = in_bytes(matmul::matmul(encoding, sizes));
        check_fitting(&format!("matmul_int8.{}", encoding.name()), &[case]);
    }
}

#[test]
fn invalid_ids_select_the_last_expert() {
    let experts = 3u32;
    for encoding in encodings().filter(|encoding| some_encodings().any(|some| some == *encoding)) {
        let mut cases = Vec::new();
        for pairs in [11usize, 17] {
            let valid: Vec<u32> = (0..pairs as u32).map(|i| i * 7 % experts).collect();
            let ids = spoiled(&valid, experts);
            let clamped: Vec<u32> = ids.iter().map(|id| (*id).min(experts - 1)).collect();
            for is_chunk in [false, true] {
                let sizes = [pairs, experts as usize, 8, 64, 1];
                let of = |ids: &[u32]| {
                    in_bytes(matmul_experts::matmul_experts_of(
                        encoding, sizes, is_chunk, ids,
                    ))
                };
                cases.push(Hostile::refused(of(&ids), of(&clamped)));
            }
        }
        check_hostile(&format!("matmul_experts_int8.{}", encoding.name()), &cases);
    }
}
