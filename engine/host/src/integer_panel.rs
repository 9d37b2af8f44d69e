//! Products of encoded rows with many rows of bytes: the panels of `panel.rs`, for integers.
//!
//! A tile is a vector of 16 rows of the weight by a few tokens. The weight's integers are transposed, so that a
//! vector holds four columns of each of 16 rows; four columns of a token are repeated for all of them.

use std::ops::Range;

use rayon::prelude::*;

use super::int8_rows::Rows;
use super::panel::{DEPTH, Part, ROWS, RowsAhead};
use wisp_types::{Encoding, encoding::BLOCK};
use wisp_weights::blocks::{Floats, IntegerEncoding, IntegerSimd, Simd, simd};

/// Tokens of a panel: a multiple of the tokens of every tile.
const TOKENS: usize = 24;

/// Columns that are multiplied before the next tile: their weights stay in the innermost cache for all tiles of a panel.
const INNER_DEPTH: usize = 256;

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

/// The sizes of a tile, whose sums stay in the registers of an instruction set.
trait Tile: IntegerSimd {
    /// Vectors of rows of a tile: a divisor of those of a scratch.
    const VECTORS: usize;
    /// Tokens of a tile.
    const TOKENS: usize;
}

/// Declares the sizes of the tiles of some instruction sets, in the order of [`Tile`].
macro_rules! tiles {
    ($($set:ident: $vectors:literal, $tokens:literal);* $(;)?) => {
        $(impl Tile for wisp_weights::blocks::$set {
            const VECTORS: usize = $vectors;
            const TOKENS: usize = $tokens;
        })*
    };
}

tiles!(Portable: 1, 1);
#[cfg(target_arch = "x86_64")]
tiles!(Avx512Vnni: 3, 4; AvxVnni: 1, 4; Avx2: 1, 4);
// NEON has 32 vectors of four words.
#[cfg(target_arch = "aarch64")]
tiles!(NeonI8mm: 1, 3; NeonDot: 1, 3; Neon: 1, 2);

/// [`multiply`] for the encodings that have the same const parameters.
pub(super) type Multiply = fn(Decoder, Part, &Panels, usize, &mut Scratch, &mut [&mut [f32]]);

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
        decoder: Decoder,
        part: Part,
        panels: &Panels,
        depth: usize,
        scratch: &mut Scratch,
        outs: &mut [&mut [f32]],
    ) where S: IntegerSimd {
        multiply_in::<HALVES, HAS_OFFSETS, WIDE, S, { S::VECTORS }, { S::TOKENS }>(decoder, part, panels, depth, scratch, outs)
    }
}

/// [`multiply`] with tiles of `V` vectors of rows and `T` tokens.
#[inline(always)]
fn multiply_in<
    const HALVES: bool,
    const HAS_OFFSETS: bool,
    const WIDE: bool,
    S: IntegerSimd,
    const V: usize,
    const T: usize,
>(
    decoder: Decoder,
    part: Part,
    panels: &Panels,
    depth: usize,
    scratch: &mut Scratch,
    outs: &mut [&mut [f32]],
) {
    let blocks = depth / BLOCK;
    let part_columns = if HALVES { BLOCK / 2 } else { BLOCK };
    let parts = depth / part_columns;
    let rows = outs[0].len();
    let columns = part.start..part.start + depth;
    let encoding = decoder.encoding;
    let prefetcher = part.planes.row_prefetcher(encoding, part.width, columns);
    for at in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - at);
        let vectors = count.div_ceil(LANES);
        for v in 0..vectors {
            let first = at + v * LANES;
            (decoder.decode)(part, first, LANES.min(rows - first), blocks, v, scratch);
        }
        let tiles = vectors.div_ceil(V) * panels.tokens.div_ceil(T) * depth.div_ceil(INNER_DEPTH);
        let mut ahead = RowsAhead::new(prefetcher, part, at + ROWS, tiles);
        for i in 0..panels.tokens.div_ceil(TOKENS) {
            let panel = Panel {
                quads: &panels.quads[i * depth / 4..][..depth / 4],
                scales: &panels.scales[i * blocks..][..blocks],
                sums: &panels.sums[i * parts..][..parts],
                zeros: &panels.zeros[i * parts..][..parts],
            };
            let tokens = TOKENS.min(panels.tokens - i * TOKENS);
            let outs = &mut outs[i * TOKENS..][..tokens];
            for v in (0..vectors).step_by(V) {
                let first = at + v * LANES;
                let range = first..rows.min(first + V * LANES);
                let mut weights = [Decoded::default(); V];
                for (i, weights) in weights.iter_mut().enumerate() {
                    weights.integers = &scratch.integers[(v + i) * DEPTH / 4..][..depth / 4];
                    weights.scales = &scratch.scales[(v + i) * DEPTH / 16..][..parts];
                    weights.offsets = &scratch.offsets[(v + i) * DEPTH / 16..][..parts];
                }
                let mut sums = [[[0.0; LANES]; V]; TOKENS];
                for start in (0..depth).step_by(INNER_DEPTH) {
                    let columns = start..depth.min(start + INNER_DEPTH);
                    let weights = weights.map(|weights| weights.columns(&columns, part_columns));
                    let panel = panel.columns(&columns, part_columns);
                    for (t, sums) in sums.chunks_exact_mut(T).enumerate() {
                        if t * T >= tokens {
                            break;
                        }
                        ahead.next_tile::<S::Floats>();
                        if start == 0 {
                            for out in &outs[t * T..tokens.min(t * T + T)] {
                                S::Floats::prefetch(bytemuck::cast_slice(&out[range.clone()]));
                            }
                        }
                        add_tile::<HALVES, HAS_OFFSETS, WIDE, S, V, T>(
                            &weights,
                            &panel,
                            t * T,
                            sums,
                        );
                    }
                }
                for (out, sums) in outs.iter_mut().zip(&sums) {
                    let sums = sums.as_flattened();
                    for (out, sum) in out[range.clone()].iter_mut().zip(sums) {
                        *out += sum;
                    }
                }
            }
        }
    }
}

/// How the rows of an encoding are decoded.
#[derive(Clone, Copy)]
pub(super) struct Decoder {
    pub(super) encoding: Encoding,
    decode: fn(Part, usize, usize, usize, usize, &mut Scratch),
}

impl Decoder {
    pub(super) const fn of<E: IntegerEncoding>() -> Decoder {
        Decoder {
            encoding: E::ENCODING,
            decode: decode::<E>,
        }
    }
}

simd! {
    /// Reads `blocks` blocks of each of `count` rows, from row `part.first + first` on, into vector `v` of the scratch.
    fn decode<E: IntegerEncoding>(
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
    let mut starts = [0; LANES];
    for lane in 0..LANES {
        // Missing rows repeat the last one; their results are not stored.
        let row = part.first + first + lane.min(count - 1);
        starts[lane] = row * row_blocks + part.start / BLOCK;
    }
    let integers = &mut scratch.integers[v * DEPTH / 4..][..DEPTH / 4];
    let pairs = blocks.div_ceil(2);
    for (pair, integers) in integers.chunks_mut(16).take(pairs).enumerate() {
        let mut rows = [S::load_bytes(&[0; 64]); LANES];
        for lane in 0..LANES {
            let block = starts[lane] + 2 * pair;
            let main = &main[block * E::MAIN_BYTES..];
            let high = &high[block * E::HIGH_BYTES..];
            rows[lane] = match main.len() < 2 * E::MAIN_BYTES || high.len() < 2 * E::HIGH_BYTES {
                false => E::load_integers::<S>(main, high),
                // The last block of the weight.
                true => {
                    let (mut low, mut top) = ([0; 64], [0; 64]);
                    low[..E::MAIN_BYTES].copy_from_slice(&main[..E::MAIN_BYTES]);
                    top[..E::HIGH_BYTES].copy_from_slice(&high[..E::HIGH_BYTES]);
                    E::load_integers::<S>(&low, &top)
                }
            };
        }
        for (to, quads) in integers.iter_mut().zip(S::transpose(rows)) {
            S::store_bytes(quads, to);
        }
    }
    for group in 0..blocks.div_ceil(E::GROUP_BLOCKS) {
        let mut scale_rows = [S::Floats::splat(0.0); LANES];
        let mut offset_rows = scale_rows;
        let rows = scale_rows.iter_mut().zip(&mut offset_rows);
        for (lane, (scale_row, offset_row)) in rows.enumerate() {
            let at = (starts[lane] + group * E::GROUP_BLOCKS) * E::GROUP_BYTES / E::GROUP_BLOCKS;
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

impl Panel<'_> {
    /// Returns some columns, given how many have a sum of their own.
    #[inline(always)]
    fn columns(&self, columns: &Range<usize>, part_columns: usize) -> Panel<'_> {
        Panel {
            quads: &self.quads[divided(columns, 4)],
            scales: &self.scales[divided(columns, BLOCK)],
            sums: &self.sums[divided(columns, part_columns)],
            zeros: &self.zeros[divided(columns, part_columns)],
        }
    }
}

/// The decoded rows of a vector.
#[derive(Clone, Copy, Default)]
struct Decoded<'a> {
    integers: &'a [[u8; 4 * LANES]],
    scales: &'a [[f32; LANES]],
    offsets: &'a [[f32; LANES]],
}

impl<'a> Decoded<'a> {
    /// Returns some columns, given how many have a scale of their own.
    #[inline(always)]
    fn columns(&self, columns: &Range<usize>, part_columns: usize) -> Decoded<'a> {
        Decoded {
            integers: &self.integers[divided(columns, 4)],
            scales: &self.scales[divided(columns, part_columns)],
            offsets: &self.offsets[divided(columns, part_columns)],
        }
    }
}

/// Divides the bounds of a range of columns by a number that divides them.
#[inline(always)]
fn divided(columns: &Range<usize>, by: usize) -> Range<usize> {
    columns.start / by..columns.end / by
}

/// Adds the products of the rows of `V` vectors and `T` tokens of a panel, from token `first` on, to `out`.
#[inline(always)]
fn add_tile<
    const HALVES: bool,
    const HAS_OFFSETS: bool,
    const WIDE: bool,
    S: IntegerSimd,
    const V: usize,
    const T: usize,
>(
    weights: &[Decoded; V],
    panel: &Panel,
    first: usize,
    out: &mut [[[f32; LANES]; V]],
) {
    let halves = if HALVES { 2 } else { 1 };
    let steps = 8 / halves;
    let mut sums = [[S::Floats::splat(0.0); V]; T];
    for t in 0..T {
        for v in 0..V {
            sums[t][v] = S::Floats::load(&out[t][v]);
        }
    }
    for i in 0..panel.zeros.len() {
        let zeros = &panel.zeros[i][first..first + T];
        let mut products = [[S::splat_words(0); V]; T];
        if !HAS_OFFSETS {
            for t in 0..T {
                products[t] = [S::splat_words(zeros[t]); V];
            }
        }
        let quads = &panel.quads[i * steps..][..steps];
        for k in 0..steps {
            let mut q = [S::load_bytes(&[0; 4 * LANES]); V];
            for v in 0..V {
                q[v] = S::load_bytes(&weights[v].integers[i * steps + k]);
            }
            let quads = &quads[k][first..first + T];
            for t in 0..T {
                let x = S::splat_bytes(quads[t]);
                for v in 0..V {
                    products[t][v] = S::dot::<WIDE>(products[t][v], q[v], x);
                }
            }
        }
        let x_scales = &panel.scales[i / halves][first..first + T];
        let x_sums = &panel.sums[i][first..first + T];
        for v in 0..V {
            let scale = S::Floats::load(&weights[v].scales[i]);
            for t in 0..T {
                let scaled = S::Floats::mul(S::to_f32(products[t][v]), scale);
                sums[t][v] = S::Floats::mul_add(scaled, S::Floats::splat(x_scales[t]), sums[t][v]);
            }
            if HAS_OFFSETS {
                let offset = S::Floats::load(&weights[v].offsets[i]);
                for t in 0..T {
                    sums[t][v] =
                        S::Floats::mul_add(offset, S::Floats::splat(x_sums[t]), sums[t][v]);
                }
            }
        }
    }
    for t in 0..T {
        for v in 0..V {
            S::Floats::store(sums[t][v], &mut out[t][v]);
        }
    }
}
