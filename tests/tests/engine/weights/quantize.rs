//! The engine's quantisers, and those for test models.

use serde::Deserialize;
use wisp_engine::weights::encodings::{self, QUANTIZABLE, dequantize};
use wisp_engine::weights::{Checkpoint, Encoding, WeightSource};
use wisp_tests::quantize::{GRIDS, quantize, requantize};
use wisp_tests::shared::shared_data;

use super::samples::noise;

/// Returns the largest error ‖a − b‖ / ‖b‖ allowed for normally distributed weights.
fn bound(encoding: Encoding) -> f64 {
    match encoding {
        Encoding::F32 => 0.0,
        Encoding::F16 => 4e-4,
        Encoding::BF16 => 3e-3,
        Encoding::Q8_0 => 0.008,
        Encoding::Q6_K => 0.025,
        Encoding::Q5_0 | Encoding::Q5_1 | Encoding::Q5_K => 0.05,
        Encoding::Q4_0 | Encoding::Q4_1 | Encoding::Q4_K | Encoding::IQ4_NL | Encoding::IQ4_XS => {
            0.1
        }
        Encoding::UINT4 | Encoding::NF4 => 0.1,
        Encoding::UINT8 => 0.008,
        // Most of normally distributed weights are nearer to 0 than to the largest.
        Encoding::TQ2_0 | Encoding::TQ1_0 => 0.95,
        Encoding::IQ2 => 0.4,
        Encoding::IQ3 => 0.15,
        Encoding::MXFP4 => 0.15,
        Encoding::NVFP4 => 0.12,
        Encoding::F8_E4M3 => 0.04,
        Encoding::Q3_K => 0.2,
        Encoding::Q2_K => 0.4,
        // Random.
        grid if GRIDS.contains(&grid) => f64::INFINITY,
        other => unreachable!("{other} has a bound"),
    }
}

fn error(encoding: Encoding, weights: &[f32]) -> f64 {
    let cols = 256;
    let bytes = quantize(encoding, weights);
    let back = dequantize(encoding, &bytes, weights.len() / cols, cols).unwrap();
    assert_eq!(back.len(), weights.len());
    let squares = |values: &mut dyn Iterator<Item = f64>| values.map(|x| x * x).sum::<f64>().sqrt();
    let off = squares(
        &mut weights
            .iter()
            .zip(&back)
            .map(|(&a, &b)| f64::from(a) - f64::from(b)),
    );
    off / squares(&mut weights.iter().map(|&x| f64::from(x))).max(1e-300)
}

#[test]
fn errors_are_within_the_bounds_of_the_encodings() {
    for encoding in Encoding::device_encodings() {
        for scale in [1.0, 0.02, 100.0] {
            let weights: Vec<_> = noise(256 * 64).iter().map(|x| x * scale).collect();
            let error = error(encoding, &weights);
            println!("{encoding} at {scale}: {error:.5}");
            assert!(error <= bound(encoding), "{encoding} at {scale}: {error}");
        }
    }
}

/// The device encodings that have the value 0.
fn encodings_with_zero() -> impl Iterator<Item = Encoding> {
    Encoding::device_encodings().filter(|e| !matches!(e, Encoding::IQ2 | Encoding::IQ3))
}

#[test]
fn constant_blocks_and_single_spikes_are_accurate() {
    let spike = |at: usize, value: f32| {
        let mut weights = vec![0.0; 256];
        weights[at] = value;
        weights
    };
    for encoding in encodings_with_zero() {
        assert_eq!(error(encoding, &[0.0; 256]), 0.0, "{encoding}: zeros");
        // One level is exact except for the rounding of the scales.
        for weights in [
            vec![0.7; 256],
            vec![-0.7; 256],
            spike(0, 3.0),
            spike(255, -3.0),
        ] {
            let error = error(encoding, &weights);
            let allowed = if encoding == Encoding::MXFP4 {
                0.2
            } else {
                0.05
            };
            assert!(error <= allowed, "{encoding} {}: {error}", weights[0]);
        }
    }
}

#[test]
fn each_weight_keeps_its_position() {
    for encoding in encodings_with_zero() {
        for at in 0..256 {
            let mut weights = vec![0.0f32; 256];
            weights[at] = 1.0;
            let bytes = quantize(encoding, &weights);
            let back = dequantize(encoding, &bytes, 1, 256).unwrap();
            for (i, &value) in back.iter().enumerate() {
                let expected = if i == at { 1.0 } else { 0.0 };
                assert!(
                    (value - expected).abs() < 0.1,
                    "{encoding}: weight {i} of {at}: {value}"
                );
            }
        }
    }
}

#[test]
fn model_in_every_encoding_keeps_its_weights() {
    let Some(path) = shared_data("models/stories260K/stories260K.gguf") else {
        return;
    };
    let file = std::fs::read(path).unwrap();
    let original = Checkpoint::from_bytes("original", file.clone()).unwrap();
    let values = |checkpoint: &Checkpoint, name: &str| {
        let tensor = checkpoint.require(name).unwrap();
        let bytes = checkpoint.bytes(name, 0..tensor.len).unwrap();
        let cols = *tensor.shape.last().unwrap() as usize;
        let rows = tensor.shape.iter().product::<u64>() as usize / cols;
        dequantize(tensor.encoding().unwrap(), &bytes, rows, cols).unwrap()
    };
    for encoding in Encoding::file_encodings() {
        let copy = Checkpoint::from_bytes("copy", requantize(&file, encoding)).unwrap();
        let (a, b) = (original.gguf().unwrap(), copy.gguf().unwrap());
        assert_eq!(a.metadata, b.metadata, "{encoding}");
        let mut quantised = 0;
        for tensor in original.tensors() {
            let stored = copy.require(&tensor.name).unwrap();
            assert_eq!(stored.shape, tensor.shape);
            quantised += usize::from(stored.encoding().unwrap() == encoding);
            let (a, b) = (values(&original, &tensor.name), values(&copy, &tensor.name));
            let off: f32 = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum();
            let norm: f32 = a.iter().map(|a| a.powi(2)).sum();
            let error = f64::from((off / norm).sqrt());
            // Trained weights have heavier tails than a normal distribution.
            assert!(
                error <= 1.5 * bound(encoding),
                "{encoding} {}: {error}",
                tensor.name
            );
        }
        // Its 64 columns are not a whole super-block.
        assert_eq!(
            quantised > 0,
            encoding.file_block_weights() <= 64,
            "{encoding}"
        );
    }
}

/// A block that ggml encoded: the weights, if they are known, and the bytes.
#[derive(Deserialize)]
struct Vector {
    #[serde(default)]
    src: Vec<f32>,
    bytes_hex: String,
}

#[test]
fn bytes_equal_those_of_ggmls_reference() {
    let Some(path) = shared_data("quants/dequant_vectors.json") else {
        return;
    };
    let file = std::fs::read(path).unwrap();
    let vectors: std::collections::HashMap<String, Vector> = serde_json::from_slice(&file).unwrap();
    for encoding in [
        Encoding::F16,
        Encoding::BF16,
        Encoding::Q8_0,
        Encoding::Q4_0,
        Encoding::Q4_1,
        Encoding::Q5_0,
        Encoding::Q5_1,
    ] {
        let vector = &vectors[&encoding.to_string()];
        let bytes = encodings::quantize(encoding, &vector.src).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!vector.src.is_empty());
        assert_eq!(hex, vector.bytes_hex, "{encoding}");
    }
}

/// Searching for the scales of K-quants pays off: rounding to nearest with scales from the extremes has
/// errors of 0.082, 0.041 and 0.0202 for the same weights.
#[test]
fn searched_scales_are_better_than_those_of_extremes() {
    let weights = noise(256 * 64);
    for (encoding, most) in [
        (Encoding::Q4_K, 0.075),
        (Encoding::Q5_K, 0.04),
        (Encoding::Q6_K, 0.019),
    ] {
        let error = error(encoding, &weights);
        println!("{encoding}: {error:.5}");
        assert!(error <= most, "{encoding}: {error}");
    }
}

#[test]
fn encodings_without_a_quantiser_and_partial_blocks_are_refused() {
    for encoding in Encoding::device_encodings() {
        let cols = encoding.file_block_weights();
        let done = encodings::quantize(encoding, &vec![0.5; 2 * cols]);
        match QUANTIZABLE.contains(&encoding) {
            true => assert_eq!(done.unwrap().len(), 2 * encoding.file_block_bytes()),
            false => assert!(done.unwrap_err().to_string().contains("cannot quantise")),
        }
        if cols > 1 && QUANTIZABLE.contains(&encoding) {
            assert!(encodings::quantize(encoding, &vec![0.5; cols + 1]).is_err());
        }
    }
}
