//! Encodings as types.

use wisp_types::encoding::{BLOCK, Encoding};

use super::{
    planes::Planes,
    simd::{Portable, Simd},
};

/// An encoding as a type, which packs the blocks of a file into planes and reads packed blocks.
pub trait BlockEncoding: Send + Sync + 'static {
    /// The encoding as a value.
    const ENCODING: Encoding;

    /// What the integers of one packed block are multiplied with and what is added to them, as `f32`.
    type Scales: Copy + Default + Send;

    /// Packs one block of a file into its bytes of each plane (main, high, scales), which have exactly the
    /// sizes of [`Encoding::plane_row_bytes`].
    ///
    /// The default is for blocks that consist of the scales plane's bytes, followed by the main plane's.
    #[inline(always)]
    fn pack(file: &[u8], [main, _, scales]: [&mut [u8]; 3]) {
        let (file_scales, file_main) = file.split_at(scales.len());
        scales.copy_from_slice(file_scales);
        main.copy_from_slice(file_main);
    }

    /// Reads the scales of the packed blocks `first..first + scales.len()`.
    fn load_scales<S: Simd>(planes: Planes, first: usize, scales: &mut [Self::Scales]);

    /// Reads the 32 weights of a packed block, given its scales: weights 0 to 15 and 16 to 31.
    fn load_weights<S: Simd>(planes: Planes, block: usize, scales: &Self::Scales)
    -> [S::Floats; 2];

    /// Reads the 32 weights of a packed block, on every CPU.
    #[inline(always)]
    fn load_block(planes: Planes, block: usize) -> [f32; BLOCK] {
        let mut scales = [Self::Scales::default()];
        Self::load_scales::<Portable>(planes, block, &mut scales);
        let mut out = [0.0; BLOCK];
        let weights = Self::load_weights::<Portable>(planes, block, &scales[0]);
        store_block::<Portable>(weights, &mut out);
        out
    }
}

/// Stores the weights of a block.
#[inline(always)]
pub(super) fn store_block<S: Simd>([a, b]: [S::Floats; 2], out: &mut [f32; BLOCK]) {
    let (halves, _) = out.as_chunks_mut::<16>();
    if let [first, second] = halves {
        S::store(a, first);
        S::store(b, second);
    }
}
