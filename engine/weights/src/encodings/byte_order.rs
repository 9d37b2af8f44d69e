//! The byte order of big-endian files.

use wisp_types::Encoding;

/// Turns whole blocks of a big-endian file into little-endian ones, in place, or the other way round.
///
/// Every field of a block that is wider than a byte is swapped: the half-precision scales, and the fifth
/// bits of `Q5_0` and `Q5_1`, which ggml handles as one `u32`.
pub fn swap_byte_order(encoding: Encoding, file: &mut [u8]) {
    for block in file.chunks_exact_mut(encoding.file_block_bytes()) {
        for &(offset, bytes) in fields(encoding) {
            // Fields are inside the block, as a test checks.
            block[offset..offset + bytes].reverse();
        }
    }
}

/// Returns the offset and size of each field of a block that is wider than a byte.
fn fields(encoding: Encoding) -> &'static [(usize, usize)] {
    match encoding {
        Encoding::F32 => &[(0, 4)],
        Encoding::F16 | Encoding::BF16 => &[(0, 2)],
        Encoding::Q4_0 | Encoding::IQ4_NL | Encoding::Q8_0 => &[(0, 2)],
        Encoding::Q4_1 | Encoding::Q4_K | Encoding::Q5_K | Encoding::IQ4_XS => &[(0, 2), (2, 2)],
        Encoding::Q5_0 => &[(0, 2), (2, 4)],
        Encoding::Q5_1 => &[(0, 2), (2, 2), (4, 4)],
        Encoding::Q2_K => &[(80, 2), (82, 2)],
        Encoding::Q3_K => &[(108, 2)],
        Encoding::Q6_K => &[(208, 2)],
        Encoding::MXFP4 => &[],
        Encoding::TQ2_0 => &[(64, 2)],
        Encoding::TQ1_0 => &[(52, 2)],
        Encoding::IQ2 | Encoding::IQ3 | Encoding::IQ2_S | Encoding::IQ3_S => &[(0, 2)],
        Encoding::IQ2_XXS | Encoding::IQ2_XS => &IQ2_FIELDS,
        Encoding::IQ1_S => &IQ1_S_FIELDS,
        Encoding::IQ1_M => &[(48, 2), (50, 2), (52, 2), (54, 2)],
        Encoding::IQ3_XXS => &IQ3_XXS_FIELDS,
        Encoding::F8_E4M3 | Encoding::UINT4 | Encoding::UINT8 | Encoding::NF4 | Encoding::NVFP4 => {
            &[(0, 4)]
        }
    }
}

/// Returns the fields of a block that begins with a half: `N - 1` fields of `BYTES` bytes from byte `AT` on.
const fn fields_from<const N: usize, const AT: usize, const BYTES: usize>() -> [(usize, usize); N] {
    let mut fields = [(0, 2); N];
    let mut i = 1;
    while i < N {
        fields[i] = (AT + (i - 1) * BYTES, BYTES);
        i += 1;
    }
    fields
}

static IQ2_FIELDS: [(usize, usize); 33] = fields_from::<33, 2, 2>();
static IQ1_S_FIELDS: [(usize, usize); 9] = fields_from::<9, 34, 2>();
static IQ3_XXS_FIELDS: [(usize, usize); 9] = fields_from::<9, 66, 4>();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_inside_blocks_and_swapping_twice_changes_nothing() {
        for encoding in Encoding::file_encodings() {
            let size = encoding.file_block_bytes();
            for (offset, bytes) in fields(encoding) {
                assert!(offset + bytes <= size, "{encoding}");
            }
            let before: Vec<u8> = (0..3 * size).map(|i| i as u8).collect();
            let mut bytes = before.clone();
            swap_byte_order(encoding, &mut bytes);
            assert_eq!(bytes == before, encoding == Encoding::MXFP4, "{encoding}");
            swap_byte_order(encoding, &mut bytes);
            assert_eq!(bytes, before, "{encoding}");
        }
    }
}
