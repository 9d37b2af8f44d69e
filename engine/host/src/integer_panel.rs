//! Products of encoded rows with many rows of bytes: the panels of `panel.rs`, for integers.
//!
//! A tile is one or more vectors of 16 rows of the weight by a few tokens. The weight's integers are transposed, so that a
//! vector holds four columns of each of 16 rows; four columns of a token are repeated for all of them.

use std::ops::Range;

use rayon::prelude::*;

use super::int8_rows::Rows;
use super::integer_rows::{Decoded, DecodedRows, Decoder, LANES, divided};
use super::panel::{DEPTH, Part, ROWS, RowsAhead};
use super::pool::lengthen;
use wisp_types::encoding::BLOCK;
use wisp_weights::blocks::{IntegerEncoding, IntegerSimd, Simd, simd};

/// Tokens of a panel: a multiple of the tokens of every tile.
const TOKENS: usize = 24;

/// Columns that are multiplied before the next tile: their weights stay in the innermost cache for all tiles of a panel.
const INNER_DEPTH: usize = 256;

/// Four columns of a token.
type Quad = [i8; 4];

/// Many tokens. What the last panel holds in place of missing tokens has no meaning, nor has what follows it, which earlier
/// calls left.
#[derive(Default)]
pub(super) struct Panels {
    tokens: usize,
    /// `[panels, width / 4, TOKENS]`
    quads: Vec<[Quad; TOKENS]>,
    /// `[panels, width / 32, TOKENS]`
    scales: Vec<[f32; TOKENS]>,
    /// For encodings with offsets the sums of the activations of each block, or half: `[panels, width / 32 (or 16),
    /// TOKENS]`.
    sums: Vec<[f32; TOKENS]>,
    /// For others the products of the zero point and the bytes: what a sum of integers begins with.
    zeros: Vec<[i32; TOKENS]>,
}

/// Packs some rows, for weights whose halves of blocks have scales of their own or do not, and whose
/// integer `zero` stands for the weight 0.
pub(super) fn pack(x: &Rows, halves: bool, zero: i32, rows: &[usize], panels: &mut Panels) {
    let tokens = rows.len();
    let count = tokens.div_ceil(TOKENS);
    let (blocks, width) = (x.blocks, x.blocks * BLOCK);
    let parts = blocks * if halves { 2 } else { 1 };
    panels.tokens = tokens;
    lengthen(&mut panels.quads, count * width / 4, [[0; 4]; _]);
    lengthen(&mut panels.scales, count * blocks, [0.0; _]);
    lengthen(&mut panels.sums, count * parts, [0.0; _]);
    lengthen(&mut panels.zeros, count * parts, [0; _]);
    panels
        .quads
        .par_chunks_exact_mut(width / 4)
        .zip(panels.scales.par_chunks_exact_mut(blocks))
        .zip(panels.sums.par_chunks_exact_mut(parts))
        .zip(panels.zeros.par_chunks_exact_mut(parts))
        .zip(rows.par_chunks(TOKENS))
        .for_each(|((((quads, scales), sums), zeros), rows)| {
            for (t, row) in rows.iter().copied().enumerate() {
                let bytes = &x.bytes(row).as_flattened()[..width];
                let (from, _) = bytemuck::cast_slice::<u8, i8>(bytes).as_chunks();
                for (quads, from) in quads.iter_mut().zip(from) {
                    quads[t] = *from;
                }
                let factors = &x.factors[row * blocks..][..blocks];
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
}

/// The memory of a task.
pub(super) struct Scratch {
    rows: DecodedRows,
    /// For each panel and each of its tokens, the sums of these rows.
    sums: Vec<[RowSums; TOKENS]>,
}

/// Sums of a token, for each row that is decoded.
type RowSums = [[f32; LANES]; ROWS / LANES];

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch {
            rows: DecodedRows::new(),
            sums: Vec::new(),
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
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
tiles!(Simd128: 1, 2);
#[cfg(target_arch = "x86_64")]
tiles!(Avx512Vnni: 3, 4; AvxVnni: 1, 4; Avx2: 1, 4);
// NEON has 32 vectors of four words.
#[cfg(target_arch = "aarch64")]
tiles!(NeonI8mm: 1, 3; NeonDot: 1, 3; Neon: 1, 2);

/// [`multiply`] for the encodings that have the same const parameters.
pub(super) type Multiply =
    fn(Decoder, Part, &Panels, Option<&[f32]>, &mut Scratch, &mut [&mut [f32]]);

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
    /// Computes `outs[t][i]`, the product of row `part.first + i` and token `t`, plus `bias[i]`. The parameters are constants of
    /// [`IntegerEncoding`].
    pub(super) fn multiply<const HALVES: bool, const HAS_OFFSETS: bool, const WIDE: bool>(
        decoder: Decoder,
        part: Part,
        panels: &Panels,
        bias: Option<&[f32]>,
        scratch: &mut Scratch,
        outs: &mut [&mut [f32]],
    ) where S: IntegerSimd {
        multiply_in::<HALVES, HAS_OFFSETS, WIDE, S, { S::VECTORS }, { S::TOKENS }>(decoder, part, panels, bias, scratch, outs)
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
    bias: Option<&[f32]>,
    scratch: &mut Scratch,
    outs: &mut [&mut [f32]],
) {
    let part_columns = if HALVES { BLOCK / 2 } else { BLOCK };
    let (rows, width) = (outs[0].len(), part.width);
    let count = panels.tokens.div_ceil(TOKENS);
    let Scratch {
        rows: decoded,
        sums,
    } = scratch;
    lengthen(sums, count, [[[0.0; _]; _]; _]);
    for at in (0..rows).step_by(ROWS) {
        let range = at..rows.min(at + ROWS);
        let vectors = range.len().div_ceil(LANES);
        for start in (0..width).step_by(DEPTH) {
            let depth = DEPTH.min(width - start);
            for v in 0..vectors {
                let first = at + v * LANES;
                let place = [first, LANES.min(rows - first), start / BLOCK, depth / BLOCK];
                (decoder.decode)(part, place, v, decoded);
            }
            let tiles = vectors.div_ceil(V) * panels.tokens.div_ceil(T);
            let tiles = tiles * depth.div_ceil(INNER_DEPTH);
            let mut ahead = RowsAhead::new(decoder.encoding, part, [at, start], tiles);
            let outs = outs.chunks_mut(TOKENS).zip(sums.iter_mut());
            for (i, (outs, sums)) in outs.enumerate() {
                let panel = panels.panel(i, width, part_columns);
                if start == 0 {
                    *sums = [[[0.0; _]; _]; _];
                }
                let is_last = start + depth == width;
                for from in (0..depth).step_by(INNER_DEPTH) {
                    let columns = from..depth.min(from + INNER_DEPTH);
                    let panel =
                        panel.columns(&(start + columns.start..start + columns.end), part_columns);
                    for v in (0..vectors).step_by(V) {
                        let mut weights = [Decoded::default(); V];
                        for (i, weights) in weights.iter_mut().enumerate() {
                            *weights = decoded.columns(v + i, &columns, part_columns);
                        }
                        for t in (0..outs.len()).step_by(T) {
                            ahead.next_tile::<S::Floats>();
                            if is_last && from == 0 {
                                for out in outs.iter().skip(t).take(T) {
                                    S::Floats::prefetch(bytemuck::cast_slice(&out[range.clone()]));
                                }
                            }
                            add_tile::<HALVES, HAS_OFFSETS, WIDE, S, V, T>(
                                &weights, &panel, t, v, sums,
                            );
                        }
                    }
                }
                if is_last {
                    for (out, sums) in outs.iter_mut().zip(sums.iter()) {
                        let sums = sums.as_flattened();
                        let out = &mut out[range.clone()];
                        match bias {
                            Some(bias) => add(sums, &bias[range.clone()], out),
                            None => out.copy_from_slice(&sums[..out.len()]),
                        }
                    }
                }
            }
        }
    }
}

/// Computes `out[i] = a[i] + b[i]`.
#[inline(always)]
fn add(a: &[f32], b: &[f32], out: &mut [f32]) {
    for (out, (a, b)) in out.iter_mut().zip(a.iter().zip(b)) {
        *out = a + b;
    }
}

/// Some columns of a panel of [`Panels`].
struct Panel<'a> {
    quads: &'a [[Quad; TOKENS]],
    scales: &'a [[f32; TOKENS]],
    sums: &'a [[f32; TOKENS]],
    zeros: &'a [[i32; TOKENS]],
}

impl Panels {
    /// Returns panel `i` of tokens of `width` columns, given how many columns have a sum of their own.
    #[inline(always)]
    fn panel(&self, i: usize, width: usize, part_columns: usize) -> Panel<'_> {
        let whole = Panel {
            quads: &self.quads,
            scales: &self.scales,
            sums: &self.sums,
            zeros: &self.zeros,
        };
        whole.columns(&(i * width..(i + 1) * width), part_columns)
    }
}

impl<'a> Panel<'a> {
    /// Returns some columns, given how many have a sum of their own.
    #[inline(always)]
    fn columns(&self, columns: &Range<usize>, part_columns: usize) -> Panel<'a> {
        Panel {
            quads: &self.quads[divided(columns, 4)],
            scales: &self.scales[divided(columns, BLOCK)],
            sums: &self.sums[divided(columns, part_columns)],
            zeros: &self.zeros[divided(columns, part_columns)],
        }
    }
}

/// Adds the products of `V` vectors of rows, which are those from vector `v0` on, and `T` tokens of a panel, from token
/// `first` on.
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
    v0: usize,
    out: &mut [RowSums; TOKENS],
) {
    let halves = if HALVES { 2 } else { 1 };
    let steps = 8 / halves;
    let mut sums = [[S::Floats::splat(0.0); V]; T];
    for i in 0..panel.zeros.len() {
        let zeros = &panel.zeros[i][first..first + T];
        let mut products = [[S::splat_words(0); V]; T];
        if !HAS_OFFSETS {
            for t in 0..T {
                products[t] = [S::splat_words(zeros[t]); V];
            }
        }
        let quads = &panel.quads[i * steps..][..steps];
        let mut integers = [&[][..]; V];
        for v in 0..V {
            integers[v] = &weights[v].integers[i * steps..][..steps];
        }
        for k in 0..steps {
            let mut q = [S::load_bytes(&[0; 4 * LANES]); V];
            for v in 0..V {
                q[v] = S::load_bytes(&integers[v][k]);
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
    let out = &mut out[first..first + T];
    for t in 0..T {
        for v in 0..V {
            let out = &mut out[t][(v0 + v) % (ROWS / LANES)];
            S::Floats::store(S::Floats::add(S::Floats::load(out), sums[t][v]), out);
        }
    }
}
