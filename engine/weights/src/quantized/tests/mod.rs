//! Small matrices whose weights are computed by the formulas of the methods' own packages.

mod nvfp4;

use std::collections::HashMap;

use proptest::prelude::*;
use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;
use wisp_types::Encoding;

use super::QuantizationConfig;
use crate::{Checkpoint, WeightError, WeightSource, encodings};

/// The tensors of a file: their types, shapes and bytes.
#[derive(Clone, Default)]
struct Tensors(HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>);

impl Tensors {
    fn add(&mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        let tensor = (dtype, shape.to_vec(), bytes);
        self.0.insert(format!("layer.{name}"), tensor);
    }

    fn words(&mut self, name: &str, shape: [usize; 2], word: impl Fn(usize, usize) -> u32) {
        let words = (0..shape[0]).flat_map(|i| (0..shape[1]).map(move |j| (i, j)));
        let bytes = words.flat_map(|(i, j)| word(i, j).to_le_bytes()).collect();
        self.add(name, Dtype::I32, &shape, bytes);
    }

    fn floats(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.add(name, Dtype::F32, shape, bytes.collect());
    }

    fn open(&self, settings: serde_json::Value) -> Result<Checkpoint, WeightError> {
        let views = self.0.iter().map(|(name, (dtype, shape, bytes))| {
            (name, TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        let file = safetensors::serialize(views, None).unwrap();
        let mut checkpoint = Checkpoint::from_bytes("model.safetensors", file)?;
        let config = json!({ "quantization_config": settings });
        let config = QuantizationConfig::from_config(&config)?.unwrap();
        checkpoint.join_quantized(&config)?;
        Ok(checkpoint)
    }
}

/// Returns all weights of the only quantised matrix, after checking that its parts are hidden and that any range of
/// its bytes is that of the whole.
fn weights(checkpoint: &Checkpoint, encoding: Encoding, [rows, cols]: [usize; 2]) -> Vec<f32> {
    let names: Vec<_> = checkpoint
        .tensors()
        .iter()
        .map(|tensor| &tensor.name)
        .collect();
    assert_eq!(names, ["layer.weight"]);
    let info = checkpoint.require("layer.weight").unwrap();
    assert_eq!(info.encoding().unwrap(), encoding);
    assert_eq!(info.shape, [rows as u64, cols as u64]);
    let bytes = checkpoint.bytes("layer.weight", 0..info.len).unwrap();
    for range in [
        0..info.len / 3,
        info.len / 3..info.len / 2 + 1,
        info.len - 1..info.len,
    ] {
        let part = pollster::block_on(checkpoint.read("layer.weight", range.clone())).unwrap();
        assert_eq!(part[..], bytes[range.start as usize..range.end as usize]);
    }
    assert!(checkpoint.bytes("layer.weight", 0..info.len + 1).is_err());
    encodings::dequantize(encoding, &bytes, rows, cols).unwrap()
}

/// A repeatable integer.
fn noise(a: usize, b: usize) -> u32 {
    let mut x =
        (a as u32).wrapping_mul(0x9e37_79b9) ^ (b as u32).wrapping_mul(0x85eb_ca6b) ^ 0x27d4_eb2f;
    x ^= x >> 15;
    x = x.wrapping_mul(0x2c1b_3c6d);
    x ^ x >> 12
}

fn scale(i: usize) -> f32 {
    half::f16::from_f32((noise(i, 77) % 1000) as f32 * 1e-4 + 1e-3).to_f32()
}

/// GPTQ's tensors with `groups` groups, whose columns `group_of` tells.
fn gptq(rows: usize, cols: usize, bits: usize, groups: usize, group_of: &[usize]) -> Tensors {
    let per_word = 32 / bits;
    let mut tensors = Tensors::default();
    tensors.words("qweight", [cols / per_word, rows], noise);
    tensors.words("qzeros", [groups, rows.div_ceil(per_word)], |i, j| {
        noise(i, j + 500)
    });
    let scales: Vec<f32> = (0..groups * rows).map(scale).collect();
    tensors.floats("scales", &[groups, rows], &scales);
    let g_idx = group_of
        .iter()
        .flat_map(|group| (*group as i32).to_le_bytes());
    tensors.add("g_idx", Dtype::I32, &[cols], g_idx.collect());
    tensors
}

/// AutoGPTQ's formula.
fn gptq_weight(rows: usize, bits: usize, [r, c]: [usize; 2], group: usize) -> f32 {
    let (per_word, mask) = (32 / bits, (1 << bits) - 1);
    let q = noise(c / per_word, r) >> (bits * (c % per_word)) & mask;
    let zero = noise(group, r / per_word + 500) >> (bits * (r % per_word)) & mask;
    let zero = (zero + 1) & mask;
    scale(group * rows + r) * (q as f32 - zero as f32)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gptq_in_any_order_has_the_values_of_its_formula(
        rows in 1usize..20,
        blocks in 1usize..5,
        bits in prop::sample::select(vec![4usize, 8]),
        seed in 0usize..1000,
    ) {
        let cols = 32 * blocks;
        let mut columns: Vec<usize> = (0..cols).collect();
        columns.sort_by_key(|column| if seed == 0 { 0 } else { noise(*column, seed) });
        let mut group_of = vec![0; cols];
        columns.iter().enumerate().for_each(|(at, column)| group_of[*column] = at / 32);
        let tensors = gptq(rows, cols, bits, blocks, &group_of);
        let checkpoint = tensors.open(json!({"quant_method": "gptq", "bits": bits})).unwrap();
        let encoding = if bits == 4 { Encoding::UINT4 } else { Encoding::UINT8 };
        let found = weights(&checkpoint, encoding, [rows, cols]);
        let order = checkpoint.column_order("layer.weight");
        for r in 0..rows {
            for at in 0..cols {
                let c = order.as_ref().map_or(at, |order| order[at] as usize);
                let expected = gptq_weight(rows, bits, [r, c], group_of[c]);
                // The file's scales are in single precision, but exact in half.
                prop_assert_eq!(found[r * cols + at], expected);
            }
        }
    }
}

#[test]
fn awq_has_the_values_of_its_formula() {
    let (rows, cols, groups) = (24, 96, 3);
    let mut tensors = Tensors::default();
    tensors.words("qweight", [cols, rows / 8], noise);
    tensors.words("qzeros", [groups, rows / 8], |i, j| noise(i, j + 500));
    let scales: Vec<f32> = (0..groups * rows).map(scale).collect();
    tensors.floats("scales", &[groups, rows], &scales);
    let settings = json!({"quant_method": "awq", "bits": 4, "version": "gemm"});
    let found = weights(
        &tensors.open(settings).unwrap(),
        Encoding::UINT4,
        [rows, cols],
    );
    // AWQ_REVERSE_ORDER of AutoAWQ.
    let nibbles = [0, 4, 1, 5, 2, 6, 3, 7];
    for r in 0..rows {
        for c in 0..cols {
            let shift = 4 * nibbles[r % 8];
            let q = noise(c, r / 8) >> shift & 15;
            let zero = noise(c / 32, r / 8 + 500) >> shift & 15;
            let expected = scale(c / 32 * rows + r) * (q as f32 - zero as f32);
            assert_eq!(found[r * cols + c], expected, "{r} {c}");
        }
    }
}

#[test]
fn eight_bit_floats_have_the_scales_of_their_blocks() {
    let (rows, cols) = (70, 96);
    let byte = |r: usize, c: usize| (noise(r, c) % 0x7e) as u8 | (noise(c, r) as u8 & 0x80);
    let mut tensors = Tensors::default();
    let bytes = (0..rows * cols).map(|i| byte(i / cols, i % cols));
    tensors.add("weight", Dtype::F8_E4M3, &[rows, cols], bytes.collect());
    let scales: Vec<f32> = (0..6).map(|i| scale(i) + 1e-7).collect();
    tensors.floats("weight_scale_inv", &[3, 2], &scales);
    let settings = json!({"quant_method": "fp8", "weight_block_size": [32, 64]});
    let found = weights(
        &tensors.open(settings).unwrap(),
        Encoding::F8_E4M3,
        [rows, cols],
    );
    for (i, found) in found.into_iter().enumerate() {
        let (r, c) = (i / cols, i % cols);
        let byte = byte(r, c);
        let (exponent, mantissa) = (i32::from(byte >> 3 & 15), f32::from(byte & 7) / 8.0);
        let value = match exponent {
            0 => mantissa * 2f32.powi(-6),
            _ => (1.0 + mantissa) * 2f32.powi(exponent - 7),
        };
        let value = if byte & 0x80 == 0 { value } else { -value };
        assert_eq!(found, value * scales[r / 32 * 2 + c / 64], "{r} {c}");
    }
}

/// Settings of compressed-tensors.
fn compressed(format: &str, bits: u32) -> serde_json::Value {
    let weights = json!({"num_bits": bits, "type": "int"});
    json!({"quant_method": "compressed-tensors", "format": format,
        "config_groups": {"group_0": {"weights": weights}}})
}

#[test]
fn packed_integers_of_compressed_tensors_have_the_values_of_their_formula() {
    let (rows, cols, groups) = (11, 128, 2);
    for bits in [4, 8] {
        let per_word = 32 / bits;
        let mask = (1 << bits) - 1;
        let mut tensors = Tensors::default();
        tensors.words("weight_packed", [rows, cols / per_word], noise);
        let down = rows.div_ceil(per_word);
        tensors.words("weight_zero_point", [down, groups], |i, j| {
            noise(i, j + 500)
        });
        let scales: Vec<f32> = (0..groups * rows).map(scale).collect();
        tensors.floats("weight_scale", &[rows, groups], &scales);
        let checkpoint = tensors
            .open(compressed("pack-quantized", bits as u32))
            .unwrap();
        let encoding = if bits == 4 {
            Encoding::UINT4
        } else {
            Encoding::UINT8
        };
        let found = weights(&checkpoint, encoding, [rows, cols]);
        for (i, found) in found.into_iter().enumerate() {
            let (r, c) = (i / cols, i % cols);
            let q = noise(r, c / per_word) >> (bits * (c % per_word)) & mask;
            let zero = noise(r / per_word, c / 64 + 500) >> (bits * (r % per_word)) & mask;
            let expected = scale(r * groups + c / 64) * (q as f32 - zero as f32);
            assert_eq!(found, expected, "{bits} bits: {r} {c}");
        }
    }
}

#[test]
fn bytes_of_compressed_tensors_have_the_scales_of_their_rows() {
    let (rows, cols) = (5, 64);
    let mut tensors = Tensors::default();
    let bytes = (0..rows * cols).map(|i| noise(i, 3) as u8);
    tensors.add("weight", Dtype::I8, &[rows, cols], bytes.collect());
    let scales: Vec<f32> = (0..rows).map(scale).collect();
    tensors.floats("weight_scale", &[rows, 1], &scales);
    let checkpoint = tensors.open(compressed("int-quantized", 8)).unwrap();
    let found = weights(&checkpoint, Encoding::UINT8, [rows, cols]);
    for (i, found) in found.into_iter().enumerate() {
        assert_eq!(found, f32::from(noise(i, 3) as u8 as i8) * scales[i / cols]);
    }
}

/// bitsandbytes' tensors, whose blocks of 64 weights cross the ends of rows.
fn nf4() -> Tensors {
    let (rows, cols) = (6, 96);
    let mut tensors = Tensors::default();
    let bytes = (0..rows * cols / 2).map(|i| noise(i, 9) as u8).collect();
    tensors.add("weight", Dtype::U8, &[rows * cols / 2, 1], bytes);
    let absmax = (0..9).map(|i| noise(i, 10) as u8).collect();
    tensors.add("weight.absmax", Dtype::U8, &[9], absmax);
    tensors.floats("weight.quant_map", &[16], &crate::blocks::NF4_VALUES);
    let map: Vec<f32> = (0..256).map(|i| i as f32 / 128.0 - 1.0).collect();
    tensors.floats("weight.nested_quant_map", &[256], &map);
    tensors.floats("weight.nested_absmax", &[3], &[0.5, 0.25, 0.75]);
    let state = json!({"quant_type": "nf4", "blocksize": 64, "shape": [rows, cols],
        "nested_blocksize": 4, "nested_offset": 0.125});
    let state = state.to_string().into_bytes();
    let shape = [state.len()];
    tensors.add(
        "weight.quant_state.bitsandbytes__nf4",
        Dtype::U8,
        &shape,
        state,
    );
    tensors
}

const NF4: &str = r#"{"quant_method": "bitsandbytes", "bnb_4bit_quant_type": "nf4"}"#;

#[test]
fn nested_nf4_has_the_values_of_its_formula() {
    let checkpoint = nf4().open(serde_json::from_str(NF4).unwrap()).unwrap();
    for (i, found) in weights(&checkpoint, Encoding::NF4, [6, 96])
        .into_iter()
        .enumerate()
    {
        let block = i / 64;
        let code = f32::from(noise(block, 10) as u8) / 128.0 - 1.0;
        let absmax = code * [0.5, 0.25, 0.75][block / 4] + 0.125;
        let nibble = noise(i / 2, 9) as u8 >> (4 * (1 - i % 2)) & 15;
        assert_eq!(
            found,
            crate::blocks::NF4_VALUES[usize::from(nibble)] * absmax,
            "{i}"
        );
    }
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let settings = json!({"quant_method": "gptq", "bits": 4});
    let groups: Vec<usize> = (0..64).map(|column| column / 32).collect();
    let sound = gptq(8, 64, 4, 2, &groups);
    assert!(sound.open(settings.clone()).is_ok());
    let problem = |change: &dyn Fn(&mut Tensors)| {
        let mut tensors = sound.clone();
        change(&mut tensors);
        tensors.open(settings.clone()).unwrap_err().to_string()
    };
    let remove = |name: &'static str| move |tensors: &mut Tensors| drop(tensors.0.remove(name));
    let error = problem(&remove("layer.scales"));
    assert_eq!(
        error,
        "quantised weight `layer.weight`: the checkpoint has no tensor layer.scales"
    );
    assert!(problem(&remove("layer.qzeros")).contains("layer.qzeros"));
    let error = problem(&|tensors| tensors.words("qzeros", [2, 2], noise));
    assert!(error.contains("I32 of shape [2, 1]"), "{error}");
    let error = problem(&|tensors| tensors.floats("scales", &[2, 7], &[0.0; 14]));
    assert!(error.contains("floats of shape [2, 8]"), "{error}");
    let error = problem(&|tensors| tensors.floats("qweight", &[8, 8], &[0.0; 64]));
    assert!(error.contains("a matrix of I32"), "{error}");
    for (group, words) in [
        (2i32, "the group 2 of 2"),
        (-7, "the group -7"),
        (1, "no multiple of 32"),
    ] {
        let error = problem(&|tensors| {
            let bytes = &mut tensors.0.get_mut("layer.g_idx").unwrap().2;
            bytes[..4].copy_from_slice(&group.to_le_bytes());
        });
        assert!(error.contains(words), "{error}");
    }
    let groups: Vec<usize> = (0..64).map(|column| column / 16).collect();
    let small = gptq(8, 64, 4, 4, &groups)
        .open(settings.clone())
        .unwrap_err();
    assert!(small.to_string().contains("multiple of 32"), "{small}");
    let narrow = gptq(8, 40, 4, 1, &[0; 40]).open(settings).unwrap_err();
    assert!(
        narrow.to_string().contains("multiple of 32 weights"),
        "{narrow}"
    );
}

#[test]
fn other_maps_than_nf4s_are_refused_when_they_are_read() {
    let mut tensors = nf4();
    tensors.floats("weight.quant_map", &[16], &[0.5; 16]);
    let checkpoint = tensors.open(serde_json::from_str(NF4).unwrap()).unwrap();
    let error = checkpoint.bytes("layer.weight", 0..20).unwrap_err();
    assert!(error.to_string().contains("not those of NF4"), "{error}");
    let mut tensors = nf4();
    tensors.add(
        "weight.quant_state.bitsandbytes__nf4",
        Dtype::U8,
        &[2],
        b"{}".to_vec(),
    );
    let error = tensors
        .open(serde_json::from_str(NF4).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("`shape`"), "{error}");
}

/// The names of parts, each of which a file may have in any type and shape.
const PARTS: [&str; 14] = [
    "weight",
    "weight_scale",
    "weight_scale_2",
    "weight_global_scale",
    "weight_zero_point",
    "weight_packed",
    "weight_g_idx",
    "qweight",
    "qzeros",
    "scales",
    "g_idx",
    "weight.absmax",
    "weight.quant_map",
    "weight.quant_state.bitsandbytes__nf4",
];

proptest! {
    #[test]
    fn tensors_of_any_shape_are_refused_or_read(
        parts in prop::collection::vec(
            (0..PARTS.len(), 0usize..6, prop::collection::vec(0usize..40, 0..3), any::<u8>()),
            1..6,
        ),
        method in 0usize..8,
    ) {
        let mut tensors = Tensors::default();
        for (name, dtype, shape, byte) in parts {
            let (dtype, size) = [
                (Dtype::I32, 4), (Dtype::F32, 4), (Dtype::F16, 2), (Dtype::U8, 1), (Dtype::I8, 1), (Dtype::F8_E4M3, 1),
            ][dtype];
            let bytes = shape.iter().product::<usize>() * size;
            tensors.add(PARTS[name], dtype, &shape, vec![byte; bytes]);
        }
        let settings = [
            json!({"quant_method": "gptq", "bits": 4}),
            json!({"quant_method": "gptq", "bits": 8}),
            json!({"quant_method": "awq", "bits": 4}),
            json!({"quant_method": "fp8", "weight_block_size": [3, 32]}),
            compressed("pack-quantized", 4),
            nvfp4::compressed_tensors(),
            nvfp4::modelopt(),
            serde_json::from_str(NF4).unwrap(),
        ];
        if let Ok(checkpoint) = tensors.open(settings[method].clone()) {
            for tensor in checkpoint.tensors() {
                if let Ok(bytes) = checkpoint.bytes(&tensor.name, 0..tensor.len) {
                    prop_assert_eq!(bytes.len() as u64, tensor.len);
                }
            }
        }
    }
}
