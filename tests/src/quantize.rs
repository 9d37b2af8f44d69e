//! Quantisers for test models in every encoding: those of the engine, and round-to-nearest quantisers for
//! encodings that Wisp only reads.
//!
//! The latter produce valid blocks with reasonable errors, but not with the quality of ggml: scales are
//! computed from the extremes of a block, without a search.

use half::f16;
use wisp_engine::weights::gguf::Gguf;
use wisp_engine::weights::{Encoding, encodings};

use crate::gguf_writer::GgufWriter;

/// Quantises rows of whole blocks.
///
/// # Panics
///
/// If `weights` is not a whole number of blocks.
pub fn quantize(encoding: Encoding, weights: &[f32]) -> Vec<u8> {
    assert_eq!(weights.len() % encoding.file_block_weights(), 0);
    if encodings::QUANTIZABLE.contains(&encoding) {
        return encodings::quantize(encoding, weights).expect("whole blocks");
    }
    if encoding == Encoding::F8_E4M3 {
        let largest = weights
            .iter()
            .fold(0f32, |most, weight| most.max(weight.abs()));
        let scale = encodings::f8_scale(largest);
        return encodings::quantize_f8(weights, scale).expect("whole blocks");
    }
    let mut out = Vec::new();
    for block in weights.chunks_exact(encoding.file_block_weights()) {
        match encoding {
            Encoding::Q2_K => q2_k(block, &mut out),
            Encoding::Q3_K => q3_k(block, &mut out),
            Encoding::IQ4_NL => iq4_nl(block, &mut out),
            Encoding::IQ4_XS => iq4_xs(block, &mut out),
            Encoding::MXFP4 => mxfp4(block, &mut out),
            Encoding::UINT4 => uint4(block, &mut out),
            Encoding::UINT8 => uint8(block, &mut out),
            Encoding::NF4 => nf4(block, &mut out),
            Encoding::NVFP4 => nvfp4(block, &mut out),
            Encoding::TQ2_0 => tq2_0(block, &mut out),
            Encoding::TQ1_0 => tq1_0(block, &mut out),
            Encoding::IQ2 => iq2(block, &mut out),
            Encoding::IQ3 => iq3(block, &mut out),
            grid if GRIDS.contains(&grid) => random_grid(grid, block, &mut out),
            other => unreachable!("{other} is the engine's"),
        }
    }
    out
}

/// Appends a half and returns its rounded value.
fn push_half(value: f32, out: &mut Vec<u8>) -> f32 {
    let half = f16::from_f32(value);
    out.extend(half.to_le_bytes());
    half.to_f32()
}

/// `value / scale`, rounded and limited; 0 for an empty scale.
fn level(value: f32, scale: f32, low: i32, high: i32) -> i32 {
    if scale == 0.0 {
        return 0.clamp(low, high);
    }
    ((value / scale).round() as i32).clamp(low, high)
}

/// The value of the largest magnitude, with its sign.
fn extreme(block: &[f32]) -> f32 {
    let larger = |a: f32, &b: &f32| if b.abs() > a.abs() { b } else { a };
    block.iter().fold(0.0, larger)
}

/// The smallest and the largest value.
fn bounds(block: &[f32]) -> (f32, f32) {
    let limits = (f32::INFINITY, f32::NEG_INFINITY);
    block
        .iter()
        .fold(limits, |(low, high), &x| (low.min(x), high.max(x)))
}

/// Packs 32 levels as nibbles: weight `j` low, weight `16 + j` high in byte `j`.
fn push_nibbles(levels: &[i32], out: &mut Vec<u8>) {
    out.extend((0..16).map(|j| (levels[j] & 15) as u8 | ((levels[16 + j] & 15) as u8) << 4));
}

/// The value of the table nearest to `x`.
fn nearest(table: &[f32; 16], x: f32) -> i32 {
    let distance = |index: &usize| (table[*index] - x).abs();
    let best = (0..16).min_by(|a, b| distance(a).total_cmp(&distance(b)));
    best.unwrap_or(0) as i32
}

/// ggml's `kvalues_iq4nl`.
const IQ4_NL_VALUES: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

fn iq4_nl(block: &[f32], out: &mut Vec<u8>) {
    let d = push_half(-extreme(block) / 127.0, out);
    let scaled = |&x: &f32| if d == 0.0 { 0.0 } else { x / d };
    let levels: Vec<_> = block
        .iter()
        .map(|x| nearest(&IQ4_NL_VALUES, scaled(x)))
        .collect();
    push_nibbles(&levels, out);
}

fn iq4_xs(block: &[f32], out: &mut Vec<u8>) {
    let wanted: Vec<f32> = block
        .chunks_exact(32)
        .map(|sub| -extreme(sub) / 127.0)
        .collect();
    let d = push_half(-extreme(&wanted) / 32.0, out);
    let scales: Vec<_> = wanted
        .iter()
        .map(|&scale| level(scale, d, -32, 31))
        .collect();
    let bits = |b: usize| (scales[b] + 32) as u32;
    let top = (0..8).fold(0, |top, b| top | (bits(b) >> 4) << (2 * b));
    out.extend((top as u16).to_le_bytes());
    out.extend((0..4).map(|i| (bits(2 * i) & 15 | (bits(2 * i + 1) & 15) << 4) as u8));
    for (sub, scale) in block.chunks_exact(32).zip(&scales) {
        let d = d * *scale as f32;
        let scaled = |&x: &f32| if d == 0.0 { 0.0 } else { x / d };
        let levels: Vec<_> = sub
            .iter()
            .map(|x| nearest(&IQ4_NL_VALUES, scaled(x)))
            .collect();
        push_nibbles(&levels, out);
    }
}

/// The values of E2M1, the 4-bit float of the OCP microscaling formats.
const E2M1_VALUES: [f32; 16] = [
    0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0,
];

fn mxfp4(block: &[f32], out: &mut Vec<u8>) {
    // The largest E2M1 value is 6 = 1.5 * 2^2, so the scale is the extreme's exponent less 2.
    let extreme = extreme(block).abs();
    let exponent = match extreme {
        0.0 => -127,
        _ => (extreme.log2().floor() as i32 - 2).clamp(-127, 127),
    };
    out.push((exponent + 127) as u8);
    let scale = 2f64.powi(exponent);
    let levels: Vec<_> = block
        .iter()
        .map(|&x| nearest(&E2M1_VALUES, (f64::from(x) / scale) as f32))
        .collect();
    push_nibbles(&levels, out);
}

/// The value of a float of 8 bits without sign (E4M3).
fn e4m3(byte: u8) -> f32 {
    let (exponent, mantissa) = (i32::from(byte >> 3), f32::from(byte & 7) / 8.0);
    match exponent {
        0 => mantissa * 2f32.powi(-6),
        _ => (1.0 + mantissa) * 2f32.powi(exponent - 7),
    }
}

fn nvfp4(block: &[f32], out: &mut Vec<u8>) {
    // Some scale of the tensor that gives the others most of their range.
    let d = extreme(block).abs() / (6.0 * 300.0);
    out.extend(d.to_le_bytes());
    let scale = |part: &[f32]| {
        let wanted = extreme(part).abs() / 6.0 / d.max(f32::MIN_POSITIVE);
        let off = |byte: &u8| (e4m3(*byte) - wanted).abs();
        (0..0x7f).min_by(|a, b| off(a).total_cmp(&off(b)))
    };
    let scales: Vec<u8> = block.chunks_exact(16).filter_map(scale).collect();
    out.extend(&scales);
    let level = |(i, x): (usize, &f32)| {
        let scale = d * e4m3(scales[i / 16]);
        nearest(&E2M1_VALUES, if scale == 0.0 { 0.0 } else { x / scale })
    };
    let levels: Vec<_> = block.iter().enumerate().map(level).collect();
    levels
        .chunks_exact(32)
        .for_each(|levels| push_nibbles(levels, out));
}

/// The levels of a block, with its scale and zero point in one word: the lowest bits of the scale are the zero point.
fn zero_point_levels(block: &[f32], bits: u32, out: &mut Vec<u8>) -> Vec<i32> {
    let most = (1 << bits) - 1;
    let (low, high) = bounds(block);
    let (low, high) = (low.min(0.0), high.max(0.0));
    let mask = most as u32;
    let d = f32::from_bits(((high - low) / most as f32).to_bits() & !mask);
    let zero = level(-low, d, 0, most);
    out.extend((d.to_bits() | zero as u32).to_le_bytes());
    let levels = block
        .iter()
        .map(|&x| (level(x, d, -most, most) + zero).clamp(0, most));
    levels.collect()
}

fn uint4(block: &[f32], out: &mut Vec<u8>) {
    let levels = zero_point_levels(block, 4, out);
    push_nibbles(&levels, out);
}

fn uint8(block: &[f32], out: &mut Vec<u8>) {
    let levels = zero_point_levels(block, 8, out);
    out.extend(levels.iter().map(|level| (level - 128) as i8 as u8));
}

/// bitsandbytes' values of NF4.
const NF4_VALUES: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

fn nf4(block: &[f32], out: &mut Vec<u8>) {
    let d = extreme(block).abs();
    out.extend(d.to_le_bytes());
    let scaled = |&x: &f32| if d == 0.0 { 0.0 } else { x / d };
    let levels: Vec<_> = block
        .iter()
        .map(|x| nearest(&NF4_VALUES, scaled(x)))
        .collect();
    push_nibbles(&levels, out);
}

/// The encodings of ggml's grids, whose test blocks are random: they have the magnitude of the weights, and nothing else
/// of them.
pub const GRIDS: [Encoding; 7] = [
    Encoding::IQ2_XXS,
    Encoding::IQ2_XS,
    Encoding::IQ2_S,
    Encoding::IQ1_S,
    Encoding::IQ1_M,
    Encoding::IQ3_XXS,
    Encoding::IQ3_S,
];

fn random_grid(encoding: Encoding, block: &[f32], out: &mut Vec<u8>) {
    let seed = block
        .iter()
        .fold(1u32, |seed, x| seed.rotate_left(5) ^ x.to_bits());
    let start = out.len();
    let mut state = seed | 1;
    out.extend((0..encoding.file_block_bytes()).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    }));
    // The largest value of a block, about.
    let largest = match encoding {
        Encoding::IQ1_S | Encoding::IQ1_M => 16.0,
        Encoding::IQ3_S => 450.0,
        _ => 160.0,
    };
    let d = f16::from_f32(extreme(block) / largest).to_bits();
    let bytes = &mut out[start..];
    match encoding {
        Encoding::IQ1_M => {
            for i in 0..4 {
                let byte = &mut bytes[49 + 2 * i];
                *byte = *byte & 15 | ((d >> (4 * i)) as u8 & 15) << 4;
            }
        }
        _ => bytes[..2].copy_from_slice(&d.to_le_bytes()),
    }
}

/// The scales 0 to 15 of parts of a block, with which no weight exceeds the largest value, `(2 * scale + 1) * unit *
/// most`.
fn odd_scales(block: &[f32], part: usize, unit: f32, most: f32) -> Vec<u8> {
    let scale = |part: &[f32]| {
        let wanted = extreme(part).abs() / (unit * most).max(f32::MIN_POSITIVE);
        ((wanted - 1.0) / 2.0).ceil().clamp(0.0, 15.0) as u8
    };
    block.chunks_exact(part).map(scale).collect()
}

/// The index of the magnitude that is nearest to each weight, and 1 where it is negative.
fn grid_codes(
    block: &[f32],
    part: usize,
    unit: f32,
    scales: &[u8],
    table: &[f32],
) -> Vec<(u8, u8)> {
    let code = |(i, x): (usize, &f32)| {
        let unit = unit * f32::from(2 * scales[i / part] + 1);
        let distance = |index: &usize| (table[*index] * unit - x.abs()).abs();
        let best = (0..table.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)));
        (best.unwrap_or(0) as u8, (*x < 0.0).into())
    };
    block.iter().enumerate().map(code).collect()
}

fn iq2(block: &[f32], out: &mut Vec<u8>) {
    let unit = push_half(extreme(block).abs() / (43.0 * 31.0) * 8.0, out) / 8.0;
    out.extend([0, 0]);
    let scales = odd_scales(block, 16, unit, 43.0);
    out.extend(scales.as_chunks().0.iter().map(|[a, b]| a | b << 4));
    let codes = grid_codes(block, 16, unit, &scales, &[8.0, 25.0, 43.0]);
    for codes in codes.chunks_exact(32) {
        let byte = |j: usize| (0..4).fold(0, |byte, s| byte | codes[8 * s + j].0 << (2 * s));
        out.extend((0..8).map(byte));
    }
    for codes in codes.chunks_exact(32) {
        let byte = |k: usize| (0..8).fold(0, |byte, g| byte | codes[4 * g + k].1 << g);
        out.extend((0..4).map(byte));
    }
}

fn iq3(block: &[f32], out: &mut Vec<u8>) {
    let unit = push_half(extreme(block).abs() / (30.0 * 27.0) * 2.0, out) / 2.0;
    out.extend([0, 0]);
    let scales = odd_scales(block, 32, unit, 30.0);
    out.extend(scales.as_chunks().0.iter().map(|[a, b]| a | b << 4));
    let table = [2.0, 6.0, 10.0, 14.0, 18.0, 22.0, 26.0, 30.0];
    let codes = grid_codes(block, 32, unit, &scales, &table);
    for codes in codes.chunks_exact(32) {
        let levels: Vec<i32> = codes
            .iter()
            .map(|(index, sign)| i32::from(index | sign << 3))
            .collect();
        push_nibbles(&levels, out);
    }
}

/// The levels 0 to 2 of ternary weights, and their scale.
fn ternary(block: &[f32]) -> (f32, Vec<i32>) {
    let d = f16::from_f32(extreme(block).abs()).to_f32();
    (d, block.iter().map(|&x| level(x, d, -1, 1) + 1).collect())
}

fn tq2_0(block: &[f32], out: &mut Vec<u8>) {
    let (d, levels) = ternary(block);
    push_crumbs(&levels, out);
    push_half(d, out);
}

fn tq1_0(block: &[f32], out: &mut Vec<u8>) {
    let (d, levels) = ternary(block);
    // The digits of a byte are weights `stride` apart; a fraction of 256 that is rounded up has them.
    for (first, stride, digits) in [(0, 32, 5), (160, 16, 5), (240, 4, 4)] {
        for m in 0..stride {
            let number = (0..5).fold(0, |number, n| {
                let digit = if n < digits {
                    levels[first + stride * n + m]
                } else {
                    0
                };
                3 * number + digit
            });
            out.push(((number * 256 + 242) / 243) as u8);
        }
    }
    push_half(d, out);
}

/// A super-block's sub-blocks, each with a scale and a (positive) min: `x = scale * q - min`,
/// where both are 6- or 4-bit multiples of `d` and `dmin`.
struct Affine {
    d: f32,
    dmin: f32,
    scales: Vec<i32>,
    mins: Vec<i32>,
    levels: Vec<i32>,
}

/// Quantises sub-blocks of `sub` weights to levels `0..=most`; scales and mins to `0..=coarse`.
fn affine_sub_blocks(block: &[f32], sub: usize, most: i32, coarse: i32) -> Affine {
    let spans: Vec<(f32, f32)> = block
        .chunks_exact(sub)
        .map(|sub| {
            let (low, high) = bounds(sub);
            let low = low.min(0.0);
            (((high - low) / most as f32).max(0.0), -low)
        })
        .collect();
    let largest = |values: &mut dyn Iterator<Item = f32>| values.fold(0.0, f32::max);
    let half = |value: f32| f16::from_f32(value).to_f32();
    let d = half(largest(&mut spans.iter().map(|span| span.0)) / coarse as f32);
    let dmin = half(largest(&mut spans.iter().map(|span| span.1)) / coarse as f32);
    let coarsely = |value: f32, unit: f32| level(value, unit, 0, coarse);
    let scales: Vec<_> = spans.iter().map(|span| coarsely(span.0, d)).collect();
    let mins: Vec<_> = spans.iter().map(|span| coarsely(span.1, dmin)).collect();
    let levels = block.iter().enumerate().map(|(i, &x)| {
        let (scale, min) = (d * scales[i / sub] as f32, dmin * mins[i / sub] as f32);
        level(x + min, scale, 0, most)
    });
    let levels = levels.collect();
    Affine {
        d,
        dmin,
        scales,
        mins,
        levels,
    }
}

/// A super-block's sixteen sub-blocks, each with a signed scale: `x = d * scale * q`.
struct Symmetric {
    d: f32,
    scales: Vec<i32>,
    levels: Vec<i32>,
}

/// Quantises sub-blocks of 16 weights to levels `-half..half`; scales to `-coarse..coarse`.
fn symmetric_sub_blocks(block: &[f32], half: i32, coarse: i32) -> Symmetric {
    let wanted: Vec<f32> = block
        .chunks_exact(16)
        .map(|sub| -extreme(sub) / half as f32)
        .collect();
    let d = f16::from_f32(-extreme(&wanted) / coarse as f32).to_f32();
    let scales: Vec<_> = wanted
        .iter()
        .map(|&scale| level(scale, d, -coarse, coarse - 1))
        .collect();
    let levels = block.iter().enumerate();
    let levels = levels
        .map(|(i, &x)| level(x, d * scales[i / 16] as f32, -half, half - 1))
        .collect();
    Symmetric { d, scales, levels }
}

/// Packs 2-bit levels: 32 bytes for each half of 128 weights, weight `32 s + l` at bits `2 s`.
fn push_crumbs(levels: &[i32], out: &mut Vec<u8>) {
    for half in levels.chunks_exact(128) {
        out.extend((0..32).map(|l| {
            (0..4).fold(0u8, |byte, s| {
                byte | ((half[32 * s + l] & 3) as u8) << (2 * s)
            })
        }));
    }
}

fn q2_k(block: &[f32], out: &mut Vec<u8>) {
    let quant = affine_sub_blocks(block, 16, 3, 15);
    let pairs = quant.scales.iter().zip(&quant.mins);
    out.extend(pairs.map(|(&scale, &min)| scale as u8 | (min as u8) << 4));
    push_crumbs(&quant.levels, out);
    push_half(quant.d, out);
    push_half(quant.dmin, out);
}

fn q3_k(block: &[f32], out: &mut Vec<u8>) {
    let quant = symmetric_sub_blocks(block, 4, 32);
    let levels: Vec<_> = quant.levels.iter().map(|q| q + 4).collect();
    // Third bits: byte `l` has those of weights `l`, `32 + l`, …
    out.extend((0..32).map(|l| {
        (0..8).fold(0u8, |byte, s| {
            byte | ((levels[32 * s + l] >> 2 & 1) as u8) << s
        })
    }));
    push_crumbs(&levels, out);
    // Sixteen 6-bit scales in 12 bytes: low nibbles in 8, high pairs of bits in 4.
    let scales: Vec<u8> = quant.scales.iter().map(|s| (s + 32) as u8).collect();
    out.extend((0..8).map(|i| scales[i] & 15 | (scales[8 + i] & 15) << 4));
    out.extend(
        (0..4).map(|i| (0..4).fold(0u8, |byte, k| byte | (scales[4 * k + i] >> 4) << (2 * k))),
    );
    push_half(quant.d, out);
}

/// Rewrites a GGUF file with its matrices in another encoding.
///
/// Matrices whose columns are whole blocks are quantised. All other tensors, such as norms, become F32. The
/// metadata does not change.
///
/// # Panics
///
/// If the file is invalid or has tensors in encodings other than F32 and F16.
pub fn requantize(file: &[u8], encoding: Encoding) -> Vec<u8> {
    let gguf = Gguf::parse(file).expect("a valid file");
    assert!(!gguf.big_endian, "a little-endian file");
    let mut writer = GgufWriter::new(3, false);
    for (key, value) in &gguf.metadata {
        if key != "general.alignment" {
            writer = writer.key(key, value.clone());
        }
    }
    for tensor in &gguf.tensors {
        let bytes = &file[tensor.offset as usize..][..tensor.len as usize];
        let weights: Vec<f32> = match tensor.encoding().expect("a float tensor") {
            Encoding::F32 => chunks(bytes).map(f32::from_le_bytes).collect(),
            Encoding::F16 => chunks(bytes)
                .map(|half| f16::from_le_bytes(half).to_f32())
                .collect(),
            other => panic!("tensor {} is {other}; expected F32 or F16", tensor.name),
        };
        let cols = tensor.shape.last().copied().unwrap_or(1) as usize;
        let fits = tensor.shape.len() == 2 && cols.is_multiple_of(encoding.file_block_weights());
        let encoding = if fits { encoding } else { Encoding::F32 };
        let data = quantize(encoding, &weights);
        writer = writer.tensor(&tensor.name, encoding, &tensor.shape, &data);
    }
    writer.write()
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
    bytes.as_chunks::<N>().0.iter().copied()
}
