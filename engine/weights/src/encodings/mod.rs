//! What each encoding's blocks hold: the way from a file's bytes to the packed planes, and from
//! the planes to `f32`.
//!
//! A packed weight has up to three planes (`main`, `high`, `scales`), each an array with a fixed
//! number of bytes a block of 32 weights, or a super-block of 256, in row-major order. Packing
//! moves bits and loses none. The values are ggml's, in its order of `f32` operations.

mod byte_order;
mod codebook;
mod error;
mod f8;
mod float;
mod k_quants;
mod lanes;
mod legacy;
mod quantize;
mod quantize_k;
mod unpack;

#[cfg(test)]
mod tests;

pub use byte_order::swap_byte_order;
pub use codebook::{IQ4_NL, MXFP4};
pub use error::EncodingError;
pub use f8::{F8_E4M3, f8_scale};
pub use float::{BF16, F16, F32};
pub use k_quants::{Q2_K, Q3_K, Q4_K, Q5_K, Q6_K};
#[cfg(target_arch = "x86_64")]
pub use lanes::{Avx2, Avx512};
pub use lanes::{Portable, Simd};
pub use legacy::{Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub use quantize::{QUANTIZABLE, quantize, quantize_f8};

use wisp_types::encoding::{BLOCK, Encoding};

/// The planes (main, high, scales) of some rows of a packed weight; absent ones are empty.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    planes: [&'a [u8]; 3],
}

impl<'a> Planes<'a> {
    /// Takes the planes of `rows` rows of `cols` weights; they may be longer than that.
    ///
    /// # Errors
    /// When a plane is too short.
    pub fn new(
        encoding: Encoding,
        planes: [&'a [u8]; 3],
        rows: usize,
        cols: usize,
    ) -> Result<Self, EncodingError> {
        let expected = plane_bytes(encoding, rows, cols)?;
        for (i, what) in ["main plane", "high plane", "scales plane"]
            .into_iter()
            .enumerate()
        {
            if planes[i].len() < expected[i] {
                return Err(EncodingError::Length {
                    encoding,
                    what,
                    expected: expected[i],
                    actual: planes[i].len(),
                });
            }
        }
        Ok(Planes { planes })
    }

    /// Bytes `[index * N, (index + 1) * N)` of the main plane.
    ///
    /// # Panics
    /// When the block lies outside of the rows given to [`Planes::new`]; so do the others.
    #[inline(always)]
    pub fn main<const N: usize>(&self, index: usize) -> &'a [u8; N] {
        &self.planes[0].as_chunks().0[index]
    }

    /// Bytes `[index * N, (index + 1) * N)` of the high plane.
    #[inline(always)]
    pub fn high<const N: usize>(&self, index: usize) -> &'a [u8; N] {
        &self.planes[1].as_chunks().0[index]
    }

    /// Bytes `[index * N, (index + 1) * N)` of the scales plane.
    #[inline(always)]
    pub fn scales<const N: usize>(&self, index: usize) -> &'a [u8; N] {
        &self.planes[2].as_chunks().0[index]
    }

    /// `count` scales of `N` bytes from the one at `first` on.
    #[inline(always)]
    pub fn many_scales<const N: usize>(&self, first: usize, count: usize) -> &'a [[u8; N]] {
        &self.planes[2].as_chunks().0[first..first + count]
    }
}

/// An encoding as a type: how its blocks are packed and read.
pub trait BlockEncoding: Send + Sync + 'static {
    /// The encoding's row of the table.
    const ENCODING: Encoding;

    /// What the integers of one block are scaled with, as `f32`.
    type Scales: Copy + Default + Send;

    /// Packs one block of a file into its bytes of each plane.
    ///
    /// The slices have exactly the table's sizes. Float encodings are copied row by row instead.
    fn pack(file: &[u8], planes: [&mut [u8]; 3]);

    /// The factors of the blocks `first..first + factors.len()`.
    fn load_scales<S: Simd>(planes: Planes, first: usize, factors: &mut [Self::Scales]);

    /// The 32 weights of a block, given its factor: 0..16 and 16..32.
    fn load_weights<S: Simd>(planes: Planes, block: usize, factor: &Self::Scales)
    -> [S::Floats; 2];

    /// The 32 weights of a block.
    #[inline(always)]
    fn load_block(planes: Planes, block: usize) -> [f32; BLOCK] {
        let mut factor = [Self::Scales::default()];
        Self::load_scales::<Portable>(planes, block, &mut factor);
        let mut out = [0.0; BLOCK];
        store::<Portable>(
            Self::load_weights::<Portable>(planes, block, &factor[0]),
            &mut out,
        );
        out
    }
}

/// Stores a block.
#[inline(always)]
fn store<S: Simd>([a, b]: [S::Floats; 2], out: &mut [f32; BLOCK]) {
    let (halves, _) = out.as_chunks_mut::<16>();
    if let [first, second] = halves {
        S::store(a, first);
        S::store(b, second);
    }
}

/// Evaluates an expression with a type parameter bound to the type of an [`Encoding`].
#[doc(hidden)]
#[macro_export]
macro_rules! with_encoding {
    ($encoding:expr, $E:ident => $body:expr) => {
        $crate::encodings::with_encoding!(@ $encoding, $E => $body;
            F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL MXFP4 F8_E4M3)
    };
    (@ $encoding:expr, $E:ident => $body:expr; $($name:ident)*) => {
        match $encoding {
            $($crate::Encoding::$name => {
                type $E = $crate::encodings::$name;
                $body
            })*
        }
    };
}
#[doc(hidden)]
pub use with_encoding;

/// Compiles a function for several instruction sets and picks the best one at run time; what it
/// inlines is compiled for that set too.
#[doc(hidden)]
#[macro_export]
macro_rules! simd {
    ($($function:tt)*) => {
        #[multiversion::multiversion(targets(
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma+f16c",
            "x86_64+avx2+fma+f16c",
            "aarch64+neon"
        ))]
        $($function)*
    };
}
#[doc(hidden)]
pub use simd;

/// Evaluates an expression, in a function of `simd!`, with a type parameter bound to the lanes of
/// the instruction set that the function is compiled for.
#[doc(hidden)]
#[macro_export]
macro_rules! with_simd {
    ($S:ident => $body:expr) => {
        multiversion::target::match_target! {
            "x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma+f16c" => {
                type $S = $crate::encodings::Avx512;
                $body
            },
            "x86_64+avx2+fma+f16c" => {
                type $S = $crate::encodings::Avx2;
                $body
            },
            _ => {
                type $S = $crate::encodings::Portable;
                $body
            },
        }
    };
}
#[doc(hidden)]
pub use with_simd;

/// Bytes of each plane for `rows` rows of `cols` weights, without padding at the end.
///
/// # Errors
/// When `cols` is no whole number of the encoding's blocks, or a size overflows.
pub fn plane_bytes(
    encoding: Encoding,
    rows: usize,
    cols: usize,
) -> Result<[usize; 3], EncodingError> {
    if !cols.is_multiple_of(encoding.file_block_weights()) {
        return Err(EncodingError::Columns {
            encoding,
            cols,
            multiple: encoding.file_block_weights(),
        });
    }
    let too_large = EncodingError::TooLarge {
        encoding,
        rows,
        cols,
    };
    // A row takes at most 4 bytes a weight, so this many weights cannot overflow below.
    if cols > usize::MAX / 8 {
        return Err(too_large);
    }
    let mut bytes = [0; 3];
    for (bytes, row) in bytes.iter_mut().zip(encoding.plane_row_bytes(cols as u64)) {
        let size = (row as usize).checked_mul(rows);
        // Room for padding to 16 bytes.
        *bytes = size
            .filter(|size| *size < usize::MAX - 16)
            .ok_or_else(|| too_large.clone())?;
    }
    Ok(bytes)
}

/// Bytes of `rows` rows of `cols` weights in a file.
fn file_bytes(encoding: Encoding, rows: usize, cols: usize) -> Result<usize, EncodingError> {
    let row = encoding.file_row_bytes(cols as u64);
    row.and_then(|row| usize::try_from(row).ok())
        .and_then(|row| row.checked_mul(rows))
        .ok_or(EncodingError::TooLarge {
            encoding,
            rows,
            cols,
        })
}

/// Packs whole rows as they stand in a file (little-endian, see [`swap_byte_order`]) into planes.
///
/// Each plane is padded with zeros to 16 bytes. Pieces of a multiple of 16 rows need no padding,
/// so their planes can be joined.
///
/// # Errors
/// When `cols` is no whole number of blocks, or `file` is not exactly `rows` rows long.
pub fn repack_rows(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
) -> Result<[Vec<u8>; 3], EncodingError> {
    let sizes = plane_bytes(encoding, rows, cols)?;
    // Before anything is allocated: the planes are then not much larger than `file`.
    check_file(encoding, file, rows, cols)?;
    let mut planes = sizes.map(|size| vec![0; size.next_multiple_of(16)]);
    let [main, high, scales] = &mut planes;
    repack_rows_into(encoding, file, rows, cols, [main, high, scales])?;
    Ok(planes)
}

/// [`repack_rows`] into memory of the caller's; bytes after the rows stay as they are.
///
/// # Errors
/// As [`repack_rows`], and when a plane is too short.
pub fn repack_rows_into(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
    planes: [&mut [u8]; 3],
) -> Result<(), EncodingError> {
    check_file(encoding, file, rows, cols)?;
    let [main, high, scales] = planes;
    Planes::new(encoding, [&*main, &*high, &*scales], rows, cols)?;
    if encoding.is_float() {
        float::pad_rows(encoding, file, cols, main);
    } else {
        with_encoding!(encoding, E => pack_blocks::<E>(file, [main, high, scales]));
    }
    Ok(())
}

fn check_file(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
) -> Result<(), EncodingError> {
    plane_bytes(encoding, rows, cols)?;
    let expected = file_bytes(encoding, rows, cols)?;
    if file.len() != expected {
        return Err(EncodingError::Length {
            encoding,
            what: "rows",
            expected,
            actual: file.len(),
        });
    }
    Ok(())
}

fn pack_blocks<E: BlockEncoding>(file: &[u8], planes: [&mut [u8]; 3]) {
    let bytes = E::ENCODING.file_block_bytes();
    let sizes = E::ENCODING.plane_row_bytes(E::ENCODING.file_block_weights() as u64);
    let mut rest = planes;
    for block in file.chunks_exact(bytes) {
        let mut at = 0;
        let here = rest.each_mut().map(|plane| {
            // The caller has checked that each plane holds as many blocks as `file`.
            let here = plane
                .split_off_mut(..sizes[at] as usize)
                .unwrap_or_default();
            at += 1;
            here
        });
        E::pack(block, here);
    }
}

/// Writes the weights of whole packed blocks, from block `first` on, to `out`.
///
/// One copy for each encoding and instruction set serves every caller: kernels that read whole
/// blocks into memory need not be generic over the encoding.
///
/// # Panics
/// When the blocks lie outside of the planes.
pub fn dequantize_blocks(encoding: Encoding, planes: Planes, first: usize, out: &mut [f32]) {
    with_encoding!(encoding, E => dequantize_blocks_of::<E>(planes, first, out));
}

simd! {
    fn dequantize_blocks_of<E: BlockEncoding>(planes: Planes, first: usize, out: &mut [f32]) {
        with_simd!(S => dequantize_blocks_inline::<E, S>(planes, first, out))
    }
}

/// [`dequantize_blocks`], inlined into a function of `simd!`.
#[inline(always)]
pub fn dequantize_blocks_inline<E: BlockEncoding, S: Simd>(
    planes: Planes,
    first: usize,
    out: &mut [f32],
) {
    let (blocks, _) = out.as_chunks_mut::<BLOCK>();
    let mut factors = [E::Scales::default(); SCALES_AHEAD];
    for (i, group) in blocks.chunks_mut(SCALES_AHEAD).enumerate() {
        let block = first + SCALES_AHEAD * i;
        let factors = &mut factors[..group.len()];
        E::load_scales::<S>(planes, block, factors);
        for (j, (out, factor)) in group.iter_mut().zip(factors).enumerate() {
            store::<S>(E::load_weights::<S>(planes, block + j, factor), out);
        }
    }
}

/// Blocks whose factors are read ahead of their weights.
pub const SCALES_AHEAD: usize = 64;

/// The weights `[rows, cols]` of whole rows as they stand in a file.
///
/// # Errors
/// As [`repack_rows`].
pub fn dequantize(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
) -> Result<Vec<f32>, EncodingError> {
    let [main, high, scales] = repack_rows(encoding, file, rows, cols)?;
    let planes = Planes::new(encoding, [&main, &high, &scales], rows, cols)?;
    let blocks = cols.div_ceil(BLOCK);
    let mut row = vec![0.0; blocks * BLOCK];
    let mut out = Vec::with_capacity(rows * cols);
    for r in 0..rows {
        dequantize_blocks(encoding, planes, r * blocks, &mut row);
        out.extend_from_slice(&row[..cols]);
    }
    Ok(out)
}
