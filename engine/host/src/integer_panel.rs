//! Products of encoded rows with many rows of bytes: the panels of `panel.rs`, for integers.
//!
//! A tile is a vector of 16 rows of the weight by a few tokens. The weight's integers are transposed, so that a
//! vector holds four columns of each of 16 rows; four columns of a token are repeated for all of them.

use rayon::prelude::*;

use super::int8_rows::Rows;
use super::panel::{DEPTH, Part, ROWS};
use wisp_types::encoding::BLOCK;
use wisp_weights::blocks::{Floats, IntegerEncoding, IntegerSimd, Simd, simd};

/// Tokens of a panel: a multiple of the tokens of every tile.
const TOKENS: usize = 12;

/// Rows of a vector.
const LANES: usize = 16;

/// Four columns of a token.
type Quad = [i8; 4];

/// Columns of many tokens.
pub(super) struct Panels {
    tokens: usize,
    /// `[panels, depth / 4, TOKENS]`; missing tokens of the last panel are zero.
    quads: Vec<[Quad; TOKENS]>,
    /// `[panels, depth / 32, TOKENS]`
    scales: Vec<[f32; TOKENS]>,
    /// For encodings with offsets the sums of the activations of each block, or half: `[panels, depth / 32 (or 16),
    /// TOKENS]`.
    sums: Vec<[f32; TOKENS]>,
    /// For others the products of the zero point and the bytes: what a sum of integers begins with.
    zeros: Vec<[i32; TOKENS]>,
}

/// Packs `depth` columns of some rows, for weights whose halves of blocks have scales of their own or do not, and whose
/// integer `zero` stands for the weight 0.
pub(super) fn pack(
    x: &Rows,
    halves: bool,
    zero: i32,
    rows: &[usize],
    start: usize,
    depth: usize,
) -> Panels {
    let tokens = rows.len();
    let count = tokens.div_ceil(TOKENS);
    let (first, blocks) = (start / BLOCK, depth / BLOCK);
    let parts = blocks * if halves { 2 } else { 1 };
    let mut panels = Panels {
        tokens,
        quads: vec![[[0; 4]; TOKENS]; count * depth / 4],
        scales: vec![[0.0; TOKENS]; count * blocks],
        sums: vec![[0.0; TOKENS]; count * parts],
        zeros: vec![[0; TOKENS]; count * parts],
    };
    panels
        .quads
        .par_chunks_exact_mut(depth / 4)
        .zip(panels.scales.par_chunks_exact_mut(blocks))
        .zip(panels.sums.par_chunks_exact_mut(parts))
        .zip(panels.zeros.par_chunks_exact_mut(parts))
        .zip(rows.par_chunks(TOKENS))
        .for_each(|((((quads, scales), sums), zeros), rows)| {
            for (t, row) in rows.iter().copied().enumerate() {
                let bytes = x.bytes(row).as_flattened();
                let bytes = &bytes[start..start + depth];
                let (from, _) = bytemuck::cast_slice::<u8, i8>(bytes).as_chunks();
                for (quads, from) in quads.iter_mut().zip(from) {
                    quads[t] = *from;
                }
                let factors = &x.factors[row * x.blocks + first..][..blocks];
                for (b, factors) in factors.iter().enumerate() {
                    scales[b][t] = factors.scale;
                    let [low, high] = factors.sums.map(i32::from);
                    let mut add = |part: usize, sum: i32| {
                        sums[part][t] = factors.scale * sum as f32;
                        zeros[part][t] = -zero * sum;
                    };
                    if halves {
                        add(2 * b, low);
                        add(2 * b + 1, high);
                    } else {
                        add(b, low + high);
                    }
                }
            }
        });
    panels
}

/// Memory for the integers and factors of decoded rows.
pub(super) struct Scratch {
    /// `[ROWS / LANES, DEPTH / 4]`: four columns of each of the rows of a vector.
    integers: Vec<[u8; 4 * LANES]>,
    /// `[ROWS / LANES, DEPTH / 16]`: scales of blocks or halves.
    scales: Vec<[f32; LANES]>,
    /// Offsets, likewise.
    offsets: Vec<[f32; LANES]>,
}

impl Scratch {
    /// Allocates 72 KiB.
    pub(super) fn new() -> Scratch {
        let vectors = ROWS / LANES;
        Scratch {
            integers: vec![[0; 4 * LANES]; vectors * DEPTH / 4],
            scales: vec![[0.0; LANES]; vectors * DEPTH / 16],
            offsets: vec![[0.0; LANES]; vectors * DEPTH / 16],
        }
    }
}

/// The size of a tile, whose sums stay in the registers of an instruction set.
trait Tile: IntegerSimd {
    /// Tokens of a tile.
    const TOKENS: usize;
}

/// Declares the tokens of the tiles of some instruction sets.
macro_rules! tiles {
    ($($set:ident: $tokens:literal),* $(,)?) => {
        $(impl Tile for wisp_weights::blocks::$set {
            const TOKENS: usize = $tokens;
        })*
    };
}

tiles!(Portable: 1);
#[cfg(target_arch = "x86_64")]
tiles!(Avx512Vnni: 12, AvxVnni: 4, Avx2: 4);
// NEON has 32 vectors of four words.
#[cfg(target_arch = "aarch64")]
tiles!(NeonI8mm: 3, NeonDot: 3, Neon: 2);

/// [`multiply`] for the encodings that have the same const parameters.
pub(super) type Multiply = fn(Decode, Part, &Panels, usize, &mut Scratch, &mut [&mut [f32]]);

/// Returns [`multiply`] for an encoding.
pub(super) const fn multiply_of<E: IntegerEncoding>() -> Multiply {
    match (E::HALVES, E::HAS_OFFSETS, E::WIDE) {
        (false, false, false) => multiply::<false, false, false>,
        (false, false, true) => multiply::<false, false, true>,
        (false, true, false) => multiply::<false, true, false>,
        (true, false, false) => multiply::<true, false, false>,
        (false, true, true) => multiply::<false, true, true>,
        (true, true, false) => multiply::<true, true, false>,
        // Evaluated by the compiler: `Int8::of` calls this in a constant.
        (true, _, true) => panic!("no encoding has these"),
    }
}

simd! {
    /// Adds to `outs[t][i]` the product of row `part.first + i` and token `t`, over `depth` columns. The parameters are
    /// constants of [`IntegerEncoding`].
    pub(super) fn multiply<const HALVES: bool, const HAS_OFFSETS: bool, const WIDE: bool>(
        decode: Decode,
        part: Part,
        panels: &Panels,
        depth: usize,
        scratch: &mut Scratch,
        outs: &mut [&mut [f32]],
    ) where S: IntegerSimd {
        multiply_in::<HALVES, HAS_OFFSETS, WIDE, S, { S::TOKENS }>(decode, part, panels, depth, scratch, outs)
    }
}

/// [`multiply`] with tiles of `T` tokens.
#[inline(always)]
fn multiply_in<
    const HALVES: bool,
    const HAS_OFFSETS: bool,
    const WIDE: bool,
    S: IntegerSimd,
    const T: usize,
>(
    decode: Decode,
    part: Part,
    panels: &Panels,
    depth: usize,
    scratch: &mut Scratch,
    outs: &mut [&mut [f32]],
) {
    let blocks = depth / BLOCK;
    let parts = blocks * if HALVES { 2 } else { 1 };
    let rows = outs[0].len();
    for at in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - at);
        let vectors = count.div_ceil(LANES);
        for v in 0..vectors {
            let first = at + v * LANES;
            decode(part, first, LANES.min(rows - first), blocks, v, scratch);
        }
        for i in 0..panels.tokens.div_ceil(TOKENS) {
            let panel = Panel {
                quads: &panels.quads[i * depth / 4..][..depth / 4],
                scales: &panels.scales[i * blocks..][..blocks],
                sums: &panels.sums[i * parts..][..parts],
                zeros: &panels.zeros[i * parts..][..parts],
            };
            let tokens = TOKENS.min(panels.tokens - i * TOKENS);
            let outs = &mut outs[i * TOKENS..][..tokens];
            for v in 0..vectors {
                let weights = Decoded {
                    integers: &scratch.integers[v * DEPTH / 4..][..depth / 4],
                    scales: &scratch.scales[v * DEPTH / 16..][..parts],
                    offsets: &scratch.offsets[v * DEPTH / 16..][..parts],
                };
                for (t, outs) in outs.chunks_mut(T).enumerate() {
                    let first = at + v * LANES;
                    let range = first..rows.min(first + LANES);
                    let tile = tile::<HALVES, HAS_OFFSETS, WIDE, S, T>(&weights, &panel, t * T);
                    for (out, sums) in outs.iter_mut().zip(&tile) {
                        for (out, sum) in out[range.clone()].iter_mut().zip(sums) {
                            *out += sum;
                        }
                    }
                }
            }
        }
    }
}

/// [`decode`] for one encoding.
pub(super) type Decode = fn(Part, usize, usize, usize, usize, &mut Scratch);

simd! {
    /// Reads `blocks` blocks of each of `count` rows, from row `part.first + first` on, into vector `v` of the scratch.
    pub(super) fn decode<E: IntegerEncoding>(
        part: Part,
        first: usize,
        count: usize,
        blocks: usize,
        v: usize,
        scratch: &mut Scratch,
    ) where S: IntegerSimd {
        decode_in::<E, S>(part, first, count, blocks, v, scratch)
    }
}

#[inline(always)]
fn decode_in<E: IntegerEncoding, S: IntegerSimd>(
    part: Part,
    first: usize,
    count: usize,
    blocks: usize,
    v: usize,
    scratch: &mut Scratch,
) {
    let [main, high, scales] = part.planes.bytes();
    let row_blocks = part.width / BLOCK;
    // Missing rows repeat the last one; their results are not stored.
    let block =
        |lane: usize| (part.first + first + lane.min(count - 1)) * row_blocks + part.start / BLOCK;
    let integers = &mut scratch.integers[v * DEPTH / 4..][..DEPTH / 4];
    let pairs = blocks.div_ceil(2);
    for (pair, integers) in integers.chunks_mut(16).take(pairs).enumerate() {
        // The rows that are decoded next, spread over the pairs of blocks of these rows.
        for lane in pair * LANES / pairs..(pair + 1) * LANES / pairs {
            let start = (block(lane) + ROWS * row_blocks) * BLOCK;
            let ahead = start..start + blocks * BLOCK;
            let mut prefetcher = part.planes.prefetcher(E::ENCODING, ahead, 1);
            prefetcher.prefetch::<S::Floats>();
        }
        let rows = std::array::from_fn(|lane| {
            let block = block(lane) + 2 * pair;
            let main = &main[block * E::MAIN_BYTES..];
            let high = &high[block * E::HIGH_BYTES..];
            match main.len() < 2 * E::MAIN_BYTES || high.len() < 2 * E::HIGH_BYTES {
                false => E::load_integers::<S>(main, high),
                // The last block of the weight.
                true => {
                    let (mut low, mut top) = ([0; 64], [0; 64]);
                    low[..E::MAIN_BYTES].copy_from_slice(&main[..E::MAIN_BYTES]);
                    top[..E::HIGH_BYTES].copy_from_slice(&high[..E::HIGH_BYTES]);
                    E::load_integers::<S>(&low, &top)
                }
            }
        });
        for (to, quads) in integers.iter_mut().zip(S::transpose(rows)) {
            S::store_bytes(quads, to);
        }
    }
    for group in 0..blocks.div_ceil(E::GROUP_BLOCKS) {
        let mut scale_rows = [S::Floats::splat(0.0); LANES];
        let mut offset_rows = scale_rows;
        let rows = scale_rows.iter_mut().zip(&mut offset_rows);
        for (lane, (scale_row, offset_row)) in rows.enumerate() {
            let at = (block(lane) + group * E::GROUP_BLOCKS) * E::GROUP_BYTES / E::GROUP_BLOCKS;
            let bytes = &scales[at..];
            [*scale_row, *offset_row] = match bytes.len() < E::GROUP_BYTES {
                false => E::load_factors::<S>(bytes),
                true => {
                    let mut padded = [0; 64];
                    padded[..bytes.len()].copy_from_slice(bytes);
                    E::load_factors::<S>(&padded)
                }
            };
        }
        let to = v * DEPTH / 16 + 16 * group;
        transpose_into::<S>(scale_rows, &mut scratch.scales[to..to + 16]);
        if E::HAS_OFFSETS {
            transpose_into::<S>(offset_rows, &mut scratch.offsets[to..to + 16]);
        }
    }
}

/// Stores the elements of rows that have the same index together.
#[inline(always)]
fn transpose_into<S: IntegerSimd>(rows: [Floats<S>; LANES], to: &mut [[f32; LANES]]) {
    for (to, column) in to.iter_mut().zip(S::Floats::transpose(rows)) {
        S::Floats::store(column, to);
    }
}

/// A panel of [`Panels`].
struct Panel<'a> {
    quads: &'a [[Quad; TOKENS]],
    scales: &'a [[f32; TOKENS]],
    sums: &'a [[f32; TOKENS]],
    zeros: &'a [[i32; TOKENS]],
}

/// The decoded rows of a vector.
struct Decoded<'a> {
    integers: &'a [[u8; 4 * LANES]],
    scales: &'a [[f32; LANES]],
    offsets: &'a [[f32; LANES]],
}

/// Returns the products of the rows of a vector and `T` tokens of a panel, from token `first` on.
#[inline(always)]
fn tile<
    const HALVES: bool,
    const HAS_OFFSETS: bool,
    const WIDE: bool,
    S: IntegerSimd,
    const T: usize,
>(
    weights: &Decoded,
    panel: &Panel,
    first: usize,
) -> [[f32; LANES]; T] {
    let halves = if HALVES { 2 } else { 1 };
    let steps = 8 / halves;
    let mut sums = [S::Floats::splat(0.0); T];
    for (i, scales) in weights.scales.iter().enumerate() {
        let zeros = &panel.zeros[i][first..first + T];
        let mut products = [S::splat_words(0); T];
        if !HAS_OFFSETS {
            for t in 0..T {
                products[t] = S::splat_words(zeros[t]);
            }
        }
        let integers = &weights.integers[i * steps..][..steps];
        let quads = &panel.quads[i * steps..][..steps];
        for k in 0..steps {
            let q = S::load_bytes(&integers[k]);
            let quads = &quads[k][first..first + T];
            for t in 0..T {
                let x = S::splat_bytes(quads[t]);
                products[t] = S::dot::<WIDE>(products[t], q, x);
            }
        }
        let scale = S::Floats::load(scales);
        let x_scales = &panel.scales[i / halves][first..first + T];
        for t in 0..T {
            let scaled = S::Floats::mul(S::to_f32(products[t]), scale);
            sums[t] = S::Floats::mul_add(scaled, S::Floats::splat(x_scales[t]), sums[t]);
        }
        if HAS_OFFSETS {
            let offset = S::Floats::load(&weights.offsets[i]);
            let x_sums = &panel.sums[i][first..first + T];
            for t in 0..T {
                sums[t] = S::Floats::mul_add(offset, S::Floats::splat(x_sums[t]), sums[t]);
            }
        }
    }
    let mut out = [[0.0; LANES]; T];
    for t in 0..T {
        S::Floats::store(sums[t], &mut out[t]);
    }
    out
}
