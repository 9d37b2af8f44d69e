//! Reading many packed blocks into memory.

use wisp_types::encoding::{BLOCK, Encoding};

use super::{
    block_encoding::{BlockEncoding, store_block},
    dispatch::with_encoding,
    planes::Planes,
    simd::{Simd, simd},
};

/// The number of blocks whose scales are read at once, ahead of their weights.
pub const SCALES_AHEAD: usize = 64;

/// Writes the weights of whole packed blocks, from block `first` on, to `out`.
///
/// One copy for each encoding and instruction set serves all callers: a kernel that reads whole blocks into
/// memory need not be generic over the encoding.
///
/// # Panics
///
/// If the blocks are not inside the planes.
pub fn dequantize_blocks(encoding: Encoding, planes: Planes, first: usize, out: &mut [f32]) {
    with_encoding!(encoding, E => dequantize_blocks_of::<E>(planes, first, out));
}

simd! {
    fn dequantize_blocks_of<E: BlockEncoding>(planes: Planes, first: usize, out: &mut [f32]) where S: Simd {
        dequantize_blocks_in::<E, S>(planes, first, out)
    }
}

#[inline(always)]
fn dequantize_blocks_in<E: BlockEncoding, S: Simd>(planes: Planes, first: usize, out: &mut [f32]) {
    let (blocks, _) = out.as_chunks_mut::<BLOCK>();
    let mut scales = [E::Scales::default(); SCALES_AHEAD];
    for (i, group) in blocks.chunks_mut(SCALES_AHEAD).enumerate() {
        let block = first + SCALES_AHEAD * i;
        let scales = &mut scales[..group.len()];
        E::load_scales::<S>(planes, block, scales);
        for j in 0..group.len() {
            let weights = E::load_weights::<S>(planes, block + j, &scales[j]);
            store_block::<S>(weights, &mut group[j]);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encodings::{dequantize, repack_rows};

    proptest! {
        #[test]
        fn single_blocks_equal_those_of_many(
            encoding in proptest::sample::select(Encoding::device_encodings().collect::<Vec<_>>()),
            seed: u32,
        ) {
            let (rows, cols) = (3, 768);
            let file = crate::encodings::tests::random_file(encoding, rows, cols, seed);
            let all = dequantize(encoding, &file, rows, cols).unwrap();
            let [main, high, scales] = repack_rows(encoding, &file, rows, cols).unwrap();
            let planes = Planes::new(encoding, [&main, &high, &scales], rows, cols).unwrap();
            for (block, all) in all.chunks(BLOCK).enumerate() {
                let one = with_encoding!(encoding, E => E::load_block(planes, block));
                // Bits are compared except those of NaN, which a conversion may quieten: `load_block` is
                // portable code, whereas `dequantize` has the best instructions of this machine.
                let equal = |(a, b): (&f32, &f32)| {
                    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
                };
                prop_assert!(one.iter().zip(all).all(equal));
            }
        }
    }
}
