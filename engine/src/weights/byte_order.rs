//! Turns big-endian blocks into little-endian ones.

use super::Encoding;

/// Bytes at the start of an encoding's file block, or at another offset, that form one number:
/// (offset, bytes). Everything else in a block is single bytes.
fn numbers(encoding: Encoding) -> &'static [(usize, usize)] {
    match encoding {
        Encoding::F32 => &[(0, 4)],
        Encoding::F16 | Encoding::BF16 => &[(0, 2)],
        Encoding::Q4_0 | Encoding::Q8_0 | Encoding::IQ4_NL => &[(0, 2)],
        Encoding::Q4_1 => &[(0, 2), (2, 2)],
        // ggml copies the fifth bits as one 32-bit number.
        Encoding::Q5_0 => &[(0, 2), (2, 4)],
        Encoding::Q5_1 => &[(0, 2), (2, 2), (4, 4)],
        Encoding::Q2_K => &[(80, 2), (82, 2)],
        Encoding::Q3_K => &[(108, 2)],
        Encoding::Q4_K | Encoding::Q5_K => &[(0, 2), (2, 2)],
        Encoding::Q6_K => &[(208, 2)],
        Encoding::MXFP4 => &[],
    }
}

/// Swaps the numbers in whole file blocks between big-endian and little-endian.
///
/// A part of a block at the end is left as it is.
pub fn swap_byte_order(encoding: Encoding, blocks: &mut [u8]) {
    for block in blocks.chunks_exact_mut(encoding.file_block_bytes()) {
        for &(start, bytes) in numbers(encoding) {
            if let Some(number) = block.get_mut(start..start + bytes) {
                number.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapping_twice_changes_nothing_and_every_number_is_inside_its_block() {
        for encoding in Encoding::all() {
            let bytes = encoding.file_block_bytes();
            for &(start, len) in numbers(encoding) {
                assert!(start + len <= bytes, "{encoding}");
            }
            let blocks: Vec<u8> = (0..2 * bytes).map(|i| i as u8).collect();
            let mut swapped = blocks.clone();
            swap_byte_order(encoding, &mut swapped);
            assert_eq!(swapped == blocks, encoding == Encoding::MXFP4, "{encoding}");
            swap_byte_order(encoding, &mut swapped);
            assert_eq!(swapped, blocks, "{encoding}");
        }
    }
}
