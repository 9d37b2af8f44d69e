//! NVFP4 in the layouts of compressed-tensors, ModelOpt and ggml.

use proptest::prelude::*;
use safetensors::Dtype;
use serde_json::{Value, json};
use wisp_types::Encoding;

use super::{Tensors, noise, weights};
use crate::{
    Checkpoint, WeightError, WeightSource, encodings,
    encodings::tests::hex,
    gguf::{GgufHeaderBuilder, Value as GgufValue},
};

pub(super) fn compressed_tensors() -> Value {
    json!({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized",
        "config_groups": {"group_0": {"weights": {"num_bits": 4, "type": "float"}}}})
}

pub(super) fn modelopt() -> Value {
    json!({"quant_method": "modelopt", "quant_algo": "NVFP4"})
}

/// The values of E2M1.
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

fn e2m1(code: u8) -> f32 {
    let value = E2M1[usize::from(code & 7)];
    if code < 8 { value } else { -value }
}

fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3), f32::from(byte & 7) / 8.0);
    match exponent {
        0 => mantissa * 2f32.powi(-6),
        _ => (1.0 + mantissa) * 2f32.powi(exponent - 7),
    }
}

/// A scale of 8 bits that is a number without sign.
fn group_scale(row: usize, group: usize) -> u8 {
    (noise(row, group + 300) % 0x7f) as u8
}

/// The tensors of a layer; `packed` names its codes.
fn layer(packed: &str, [rows, cols]: [usize; 2]) -> Tensors {
    let mut tensors = Tensors::default();
    let bytes = (0..rows * cols / 2).map(|i| noise(i, 5) as u8).collect();
    tensors.add(packed, Dtype::U8, &[rows, cols / 2], bytes);
    let groups = cols / 16;
    let scales = (0..rows * groups).map(|i| group_scale(i / groups, i % groups));
    tensors.add(
        "weight_scale",
        Dtype::F8_E4M3,
        &[rows, groups],
        scales.collect(),
    );
    tensors.floats("input_scale", &[], &[0.5]);
    tensors.floats("k_scale", &[1], &[0.5]);
    tensors
}

/// The weight without the scale of the matrix.
fn unscaled([row, col]: [usize; 2], cols: usize) -> [f32; 2] {
    let code = noise((row * cols + col) / 2, 5) as u8 >> (4 * (col % 2)) & 15;
    [e2m1(code), e4m3(group_scale(row, col / 16))]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn modelopts_weights_have_the_values_of_their_formula(
        rows in 1usize..20,
        blocks in 1usize..6,
        scale in 1e-6f32..1e3,
    ) {
        let cols = 64 * blocks;
        let mut tensors = layer("weight", [rows, cols]);
        tensors.floats("weight_scale_2", &[], &[scale]);
        let checkpoint = tensors.open(modelopt()).unwrap();
        let found = weights(&checkpoint, Encoding::NVFP4, [rows, cols]);
        for (i, found) in found.into_iter().enumerate() {
            let [code, group] = unscaled([i / cols, i % cols], cols);
            // ModelOpt's NVFP4QTensor.dequantize.
            prop_assert_eq!(found, code * (group * scale));
        }
    }
}

#[test]
fn weights_of_compressed_tensors_are_divided_by_their_scale() {
    let (rows, cols) = (7, 192);
    let mut tensors = layer("weight_packed", [rows, cols]);
    tensors.floats("weight_global_scale", &[1], &[2688.5]);
    tensors.floats("input_global_scale", &[1], &[3.0]);
    let checkpoint = tensors.open(compressed_tensors()).unwrap();
    let found = weights(&checkpoint, Encoding::NVFP4, [rows, cols]);
    for (i, found) in found.into_iter().enumerate() {
        let [code, group] = unscaled([i / cols, i % cols], cols);
        // compressed-tensors' dequantize; the reciprocal of the scale is rounded.
        let expected = code * (group / 2688.5);
        let bound = 2.0 * f32::EPSILON * expected.abs();
        assert!((found - expected).abs() <= bound, "{i}: {found} {expected}");
    }
}

#[test]
fn eight_bit_floats_of_modelopt_have_the_scale_of_their_matrix() {
    let (rows, cols) = (3, 64);
    let mut tensors = Tensors::default();
    let bytes = (0..rows * cols).map(|i| group_scale(i, 0)).collect();
    tensors.add("weight", Dtype::F8_E4M3, &[rows, cols], bytes);
    tensors.floats("weight_scale", &[], &[0.375]);
    tensors.floats("input_scale", &[], &[0.5]);
    let settings = json!({"quant_method": "modelopt", "quant_algo": "FP8"});
    let checkpoint = tensors.open(settings).unwrap();
    let found = weights(&checkpoint, Encoding::F8_E4M3, [rows, cols]);
    for (i, found) in found.into_iter().enumerate() {
        assert_eq!(found, e4m3(group_scale(i, 0)) * 0.375);
    }
}

#[test]
fn damaged_tensors_are_refused_by_name() {
    let sound = || {
        let mut tensors = layer("weight", [4, 128]);
        tensors.floats("weight_scale_2", &[], &[0.25]);
        tensors
    };
    let problem = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = sound();
        change(&mut tensors);
        // What is wrong with numbers is seen when they are read.
        let read = tensors.open(modelopt()).and_then(|checkpoint| {
            let len = checkpoint.require("layer.weight")?.len;
            checkpoint.bytes("layer.weight", 0..len).map(drop)
        });
        read.unwrap_err().to_string()
    };
    let byte = |at: usize, byte: u8| {
        move |tensors: &mut Tensors| tensors.0.get_mut("layer.weight_scale").unwrap().2[at] = byte
    };
    assert!(sound().open(modelopt()).is_ok());
    for (found, words) in [
        (
            problem(&byte(2 * 8 + 3, 0x7f)),
            "quantised weight `layer.weight`: the scale of row 2 and group 3 is not a number",
        ),
        (problem(&byte(1, 0xff)), "row 0 and group 1 is not a number"),
        (problem(&byte(31, 0xb8)), "row 3 and group 7 is negative"),
        (
            problem(&|tensors| tensors.floats("weight_scale_2", &[], &[f32::NAN])),
            "layer.weight_scale_2 has the scale NaN",
        ),
        (
            problem(&|tensors| tensors.floats("weight_scale_2", &[2], &[1.0, 1.0])),
            "layer.weight_scale_2 is F32 of shape [2], expected one float",
        ),
        (
            problem(&|tensors| drop(tensors.0.remove("layer.weight_scale_2"))),
            "has no tensor layer.weight_scale_2",
        ),
        (
            problem(&|tensors| tensors.add("weight_scale", Dtype::U8, &[4, 8], vec![1; 32])),
            "layer.weight_scale is U8 of shape [4, 8], expected F8_E4M3 of shape [4, 8]",
        ),
        (
            problem(&|tensors| tensors.add("weight_scale", Dtype::F8_E4M3, &[4, 4], vec![1; 16])),
            "expected F8_E4M3 of shape [4, 8]",
        ),
        (
            problem(&|tensors| tensors.floats("pre_quant_scale", &[128], &[1.0; 128])),
            "its tensor layer.pre_quant_scale is not supported",
        ),
        (
            problem(&|tensors| {
                tensors.add("weight", Dtype::U8, &[4, 48], vec![0; 192]);
                tensors.add("weight_scale", Dtype::F8_E4M3, &[4, 6], vec![1; 24]);
            }),
            "multiple of 64 weights",
        ),
    ] {
        assert!(found.contains(words), "{found}");
    }
    let mut tensors = layer("weight_packed", [1, 64]);
    tensors.floats("weight_global_scale", &[1], &[0.0]);
    let checkpoint = tensors.open(compressed_tensors()).unwrap();
    let error = checkpoint.bytes("layer.weight", 0..40).unwrap_err();
    let words = "layer.weight_global_scale has the scale 0";
    assert!(error.to_string().contains(words), "{error}");
}

/// A GGUF file with a tensor in NVFP4 and one of scales, if there are any.
fn gguf(
    blocks: &[u8],
    shape: &[u64],
    scales: Option<(&[u64], &[f32])>,
    big_endian: bool,
) -> Result<Checkpoint, WeightError> {
    let mut header = GgufHeaderBuilder::new(3, big_endian);
    header.key("general.architecture", GgufValue::String("llama".into()));
    header.tensor("blk.0.attn_q.weight", 40, shape, blocks.len() as u64);
    let mut data = blocks.to_vec();
    if let Some((shape, scales)) = scales {
        header.tensor("blk.0.attn_q.scale", 0, shape, 4 * scales.len() as u64);
        data.resize(data.len() + header.padding(data.len() as u64) as usize, 0);
        data.extend(scales.iter().flat_map(|scale| match big_endian {
            true => scale.to_be_bytes(),
            false => scale.to_le_bytes(),
        }));
    }
    let file = [header.bytes(), data].concat();
    Checkpoint::from_bytes("model.gguf", file)
}

#[test]
fn ggmls_blocks_have_the_values_of_the_package_gguf() {
    let text = include_str!("../../../../../tests/fixtures/ggml_blocks.json");
    let vectors: Value = serde_json::from_str(text).unwrap();
    let [blocks, expected] =
        ["blocks", "weights"].map(|key| hex(vectors["NVFP4"][key].as_str().unwrap()));
    let expected: Vec<f32> = bytemuck::pod_collect_to_vec(&expected);
    let name = "blk.0.attn_q.weight";
    for (shape, scales, big_endian) in [
        ([1, 4, 256], None, false),
        ([1, 4, 256], Some((&[1][..], &[0.75][..])), true),
        ([4, 2, 128], Some((&[1], &[0.1])), false),
        ([4, 2, 128], Some((&[4], &[0.1, 2.0, -0.3, 0.0])), true),
    ] {
        let checkpoint = gguf(&blocks, &shape, scales, big_endian).unwrap();
        let info = checkpoint.require(name).unwrap().clone();
        assert_eq!(checkpoint.tensors().len(), 1);
        assert_eq!(info.encoding().unwrap(), Encoding::NVFP4);
        assert_eq!(info.shape, shape);
        let bytes = checkpoint.bytes(name, 0..info.len).unwrap();
        let cols = shape[2] as usize;
        let found = encodings::dequantize(Encoding::NVFP4, &bytes, 1024 / cols, cols).unwrap();
        let per_matrix = 1024 / shape[0] as usize;
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let scale = scales.map_or(1.0, |(shape, scales)| match shape {
                [1] => scales[0],
                _ => scales[i / per_matrix],
            });
            // The scales are multiplied first here, and last in ggml.
            let bound = 2.0 * f32::EPSILON * (expected * scale).abs();
            let off = (found - expected * scale).abs();
            assert!(off <= bound, "{i}: {found} {expected} {scale}");
        }
        for range in [0..41, 39..40, 80..info.len - 1] {
            let part = pollster::block_on(checkpoint.read(name, range.clone())).unwrap();
            assert_eq!(part[..], bytes[range.start as usize..range.end as usize]);
        }
        assert!(checkpoint.bytes(name, 0..info.len + 1).is_err());
    }
}

#[test]
fn damaged_scales_of_gguf_are_refused_by_name() {
    let blocks = [1; 36 * 4];
    let error = |shape: &[u64], scales: (&[u64], &[f32])| {
        let checkpoint = gguf(&blocks, shape, Some(scales), false);
        let read = checkpoint
            .and_then(|checkpoint| checkpoint.bytes("blk.0.attn_q.weight", 0..160).map(drop));
        read.unwrap_err().to_string()
    };
    for (found, words) in [
        (
            error(&[4, 64], (&[1], &[f32::INFINITY])),
            "`blk.0.attn_q.weight`: blk.0.attn_q.scale has the scale inf",
        ),
        (
            error(&[4, 64], (&[4], &[1.0; 4])),
            "blk.0.attn_q.scale is F32 of shape [4], expected one float",
        ),
        (
            error(&[2, 2, 64], (&[3], &[1.0; 3])),
            "expected one float, or 2 of matrices",
        ),
        (
            error(&[2, 2, 64], (&[2], &[1.0, f32::NAN])),
            "blk.0.attn_q.scale has the scale NaN",
        ),
    ] {
        assert!(found.contains(words), "{found}");
    }
}

proptest! {
    #[test]
    fn tensors_of_gguf_in_any_shape_are_refused_or_read(
        shape in prop::collection::vec(0u64..5, 1..4),
        scales in prop::collection::vec(0u64..5, 0..3),
        bits: u32,
    ) {
        let shape: Vec<u64> = shape.iter().rev().enumerate().map(|(i, size)| match i {
            0 => size * 32,
            _ => *size,
        }).rev().collect();
        let blocks = vec![bits as u8; (shape.iter().product::<u64>() / 64 * 36) as usize];
        let values = vec![f32::from_bits(bits); scales.iter().product::<u64>() as usize];
        if let Ok(checkpoint) = gguf(&blocks, &shape, Some((&scales, &values)), false) {
            for tensor in checkpoint.tensors() {
                if let Ok(bytes) = checkpoint.bytes(&tensor.name, 0..tensor.len) {
                    prop_assert_eq!(bytes.len() as u64, tensor.len);
                }
            }
        }
    }
}
