//! `IQ2` and `IQ3`: the encodings that weights of ggml's grids have on devices.
//!
//! In files, an index into a grid of up to 2048 entries stands for four or eight weights
//! ([`grid_blocks`](super::grid_blocks)). Kernels would have to look entries up in tables of kilobytes, so a device has
//! the few values of a grid's entries as small integers instead.

use wisp_types::encoding::Encoding;

use super::{
    block_encoding::BlockEncoding,
    formulas::lookup,
    k_quants::{SUPER_BLOCK, SuperBlockScales, load_super_blocks, word},
    planes::Planes,
    scales::half_at,
    simd::Simd,
};

/// The factors of a block: its scales, and which values its grid has.
#[derive(Clone, Copy, Debug, Default)]
pub struct GridScales {
    /// Those of both halves.
    scales: [f32; 2],
    /// Whether the values are those of `IQ1` (in [`IQ2`]) or of `IQ3_XXS` (in [`IQ3`]).
    is_other: bool,
}

/// Returns whether a super-block, given its bytes in the scales plane, has the values of the other grids: see
/// [`GridScales::is_other`].
#[inline(always)]
pub(super) fn has_other_values(scales: &[u8]) -> bool {
    scales.get(2).is_some_and(|flags| flags & 1 != 0)
}

/// The values of [`IQ2`]'s indices, then those with a sign: in the grids of `IQ2`, then in those of `IQ1`. Index 3, which no weight
/// has, continues the parabola of `load_weights`.
pub(super) const IQ2_VALUES: [[f32; 16]; 2] = [
    [
        8.0, 25.0, 43.0, 62.0, -8.0, -25.0, -43.0, -62.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ],
    [
        1.0, 7.0, 9.0, 7.0, -1.0, -7.0, -9.0, -7.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0,
    ],
];

/// 3 bits, an index into three magnitudes and a sign: `d / 8 * (2 * scale + 1) * value` for each 16 weights.
///
/// The magnitudes are 8, 25 and 43 (`IQ2`) or 1, 7 and 9 (`IQ1`: eight times 0 or 1, plus or minus one eighth).
pub struct IQ2;

impl BlockEncoding for IQ2 {
    const ENCODING: Encoding = Encoding::IQ2;
    type Scales = GridScales;

    // A block that `iq2_blocks` makes: half d, 1 for the values of IQ1, 16 nibbles of scales; then the magnitudes of 8
    // blocks, then their signs, as in the planes.
    #[inline(always)]
    fn pack(file: &[u8], [main, high, scales]: [&mut [u8]; 3]) {
        let (file_scales, rest) = file.split_at(scales.len());
        let (magnitudes, signs) = rest.split_at(main.len());
        scales.copy_from_slice(file_scales);
        main.copy_from_slice(magnitudes);
        high.copy_from_slice(signs);
    }

    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [GridScales]) {
        load_super_blocks::<S, Self, 12>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, s: &GridScales) -> [S::Floats; 2] {
        let index = S::u8_to_f32(S::unpack_2bit(planes.main(block)));
        let sign = S::u8_to_f32(S::unpack_1bit(planes.high(block)));
        // The parabolas through the magnitudes of the indices 0 to 2. All steps are exact.
        let [a, b, c] = match s.is_other {
            false => [8.0, 16.5, 0.5],
            true => [1.0, 8.0, -2.0],
        };
        [
            grid_half::<S>(index[0], sign[0], [a, b, c], s.scales[0]),
            grid_half::<S>(index[1], sign[1], [a, b, c], s.scales[1]),
        ]
    }
}

impl SuperBlockScales<12> for IQ2 {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 12]) -> [Self::Scales; SUPER_BLOCK] {
        let d = half_at::<S, _>(bytes, 0) * 0.125;
        let is_other = has_other_values(bytes);
        let mut scales = [GridScales::default(); SUPER_BLOCK];
        for (b, scale) in scales.iter_mut().enumerate() {
            let nibbles = bytes[4 + b];
            scale.scales = [
                d * f32::from(2 * (nibbles & 15) + 1),
                d * f32::from(2 * (nibbles >> 4) + 1),
            ];
            scale.is_other = is_other;
        }
        scales
    }
}

/// Computes `scale * (a + b * index + c * index^2)`, negated where `sign` is 1.
#[inline(always)]
fn grid_half<S: Simd>(
    index: S::Floats,
    sign: S::Floats,
    [a, b, c]: [f32; 3],
    scale: f32,
) -> S::Floats {
    let slope = S::mul_add(S::splat(c), index, S::splat(b));
    let magnitude = S::mul_add(slope, index, S::splat(a));
    let factor = S::mul_add(S::splat(-2.0 * scale), sign, S::splat(scale));
    S::mul(magnitude, factor)
}

/// Twice the values of `IQ3_S`, and half of those of `IQ3_XXS`, whose scales are a quarter.
pub(super) const IQ3_VALUES: [[f32; 16]; 2] = [
    [
        2.0, 6.0, 10.0, 14.0, 18.0, 22.0, 26.0, 30.0, -2.0, -6.0, -10.0, -14.0, -18.0, -22.0,
        -26.0, -30.0,
    ],
    [
        2.0, 6.0, 10.0, 14.0, 18.0, 22.0, 26.0, 31.0, -2.0, -6.0, -10.0, -14.0, -18.0, -22.0,
        -26.0, -31.0,
    ],
];

/// 4 bits, an index into eight magnitudes and a sign: `d / 2 * (2 * scale + 1) * value` for each 32 weights.
pub struct IQ3;

impl BlockEncoding for IQ3 {
    const ENCODING: Encoding = Encoding::IQ3;
    type Scales = GridScales;

    // A block that `iq3_blocks` makes: half d, 1 for the values of IQ3_XXS, 8 nibbles of scales, 128 bytes of nibbles.
    #[inline(always)]
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [GridScales]) {
        load_super_blocks::<S, Self, 8>(planes, first, scales);
    }

    #[inline(always)]
    fn load_weights<S: Simd>(planes: Planes, block: usize, s: &GridScales) -> [S::Floats; 2] {
        let values = match s.is_other {
            false => &IQ3_VALUES[0],
            true => &IQ3_VALUES[1],
        };
        lookup::<S>(values, planes.main(block), s.scales[0])
    }
}

impl SuperBlockScales<8> for IQ3 {
    #[inline(always)]
    fn read<S: Simd>(bytes: &[u8; 8]) -> [Self::Scales; SUPER_BLOCK] {
        let d = half_at::<S, _>(bytes, 0) * 0.5;
        let (is_other, nibbles) = (has_other_values(bytes), word(bytes, 1));
        let mut scales = [GridScales::default(); SUPER_BLOCK];
        for (b, scale) in scales.iter_mut().enumerate() {
            let factor = d * (2 * (nibbles >> (4 * b) & 15) + 1) as f32;
            scale.scales = [factor; 2];
            scale.is_other = is_other;
        }
        scales
    }
}
