//! Dequantisation compared with ggml's values and with blocks computed by hand, and repacking.

use proptest::prelude::*;
use wisp_types::Encoding;

use super::*;
use crate::blocks::Planes;

/// Returns random bytes as the rows of a file. Every byte is valid in every encoding.
pub(crate) fn random_file(encoding: Encoding, rows: usize, cols: usize, seed: u32) -> Vec<u8> {
    let bytes = encoding.file_row_bytes(cols as u64).unwrap() as usize * rows;
    let mut state = seed | 1;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(1664525).wrapping_add(1013904223);
            (state >> 24) as u8
        })
        .collect()
}

pub(crate) fn hex(text: &str) -> Vec<u8> {
    (0..text.len() / 2)
        .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

#[test]
fn dequantised_values_are_ggmls() {
    let shared = std::env::var("WISP_SHARED")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").into());
    let path = format!("{shared}/data/quants/dequant_vectors.json");
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no {path}");
        return;
    };
    let vectors: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut checked = 0;
    for encoding in Encoding::file_encodings() {
        let Some(vector) = vectors.get(encoding.to_string()) else {
            continue;
        };
        let file = hex(vector["bytes_hex"].as_str().unwrap());
        let expected: Vec<f32> = vector["dequant"]
            .as_array()
            .unwrap()
            .iter()
            .map(|v| v.as_f64().unwrap() as f32)
            .collect();
        for rows in [1, expected.len() / encoding.file_block_weights().max(32)] {
            let actual = dequantize(encoding, &file, rows, expected.len() / rows).unwrap();
            assert_eq!(actual, expected, "{encoding}");
        }
        checked += 1;
    }
    assert_eq!(checked, 15, "all encodings but F32");
}

/// The blocks that `tests/scripts/grids.py` writes, with the weights that the Python package `gguf` computes.
#[test]
fn dequantised_blocks_are_those_of_the_package_gguf() {
    let text = include_str!("../../../../tests/fixtures/ggml_blocks.json");
    let vectors: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).unwrap();
    assert_eq!(vectors.len(), 10);
    // Checkpoints show NVFP4 in another layout; the test of its tensors reads the blocks.
    for (name, vector) in vectors.iter().filter(|(name, _)| *name != "NVFP4") {
        let encoding = Encoding::file_encodings().find(|encoding| encoding.to_string() == *name);
        let encoding = encoding.unwrap();
        let [file, expected] = ["blocks", "weights"].map(|key| hex(vector[key].as_str().unwrap()));
        let expected: Vec<f32> = bytemuck::pod_collect_to_vec(&expected);
        for rows in [1, 2] {
            let actual = dequantize(encoding, &file, rows, expected.len() / rows).unwrap();
            assert_eq!(actual, expected, "{encoding}");
        }
    }
}

/// Checks the weights of a block: `others`, except for those in `some`, which are `(index, value)`.
fn check(encoding: Encoding, file: &[u8], others: f32, some: &[(usize, f32)]) {
    let cols = encoding.file_block_weights();
    let mut expected = vec![others; cols];
    for &(i, value) in some {
        expected[i] = value;
    }
    assert_eq!(
        dequantize(encoding, file, 1, cols).unwrap(),
        expected,
        "{encoding}"
    );
}

/// Returns a block of zeros except for some bytes, which are `(offset, value)`.
fn block(encoding: Encoding, bytes: &[(usize, u8)]) -> Vec<u8> {
    let mut file = vec![0; encoding.file_block_bytes()];
    for &(at, byte) in bytes {
        file[at] = byte;
    }
    file
}

/// The high byte of the half 1.0, whose low byte is 0.
const ONE: u8 = 0x3c;
/// The high byte of the half 2.0.
const TWO: u8 = 0x40;

#[test]
fn blocks_of_32_have_the_values_computed_by_hand() {
    use Encoding::*;
    // Byte 3 of the nibbles has weight 3, which is 0xa, and weight 19, which is 0xf.
    let some = |at: usize| [(1, TWO), (at + 3, 0xfa)];
    check(Q4_0, &block(Q4_0, &some(2)), -16.0, &[(3, 4.0), (19, 14.0)]);
    let q4_1 = block(Q4_1, &[(1, TWO), (3, ONE), (7, 0xfa)]);
    check(Q4_1, &q4_1, 1.0, &[(3, 21.0), (19, 31.0)]);
    // The fifth bits of weights 3 and 20.
    let q5_0 = block(Q5_0, &[(1, ONE), (2, 8), (4, 16), (9, 0xfa)]);
    check(Q5_0, &q5_0, -16.0, &[(3, 10.0), (19, -1.0), (20, 0.0)]);
    let q5_1 = block(Q5_1, &[(1, ONE), (3, TWO), (4, 8), (6, 16), (11, 0xfa)]);
    check(Q5_1, &q5_1, 2.0, &[(3, 28.0), (19, 17.0), (20, 18.0)]);
    let q8_0 = block(Q8_0, &[(1, TWO), (2, 0x7f), (33, 0x80)]);
    check(Q8_0, &q8_0, 0.0, &[(0, 254.0), (31, -256.0)]);
    let iq4_nl = block(IQ4_NL, &some(2));
    check(IQ4_NL, &iq4_nl, -254.0, &[(3, 50.0), (19, 226.0)]);
    // The scale 2^1; 0xa is -1, 0xf is -6.
    let mxfp4 = block(MXFP4, &[(0, 128), (4, 0xfa)]);
    check(MXFP4, &mxfp4, 0.0, &[(3, -2.0), (19, -12.0)]);
}

#[test]
fn super_blocks_have_the_values_computed_by_hand() {
    use Encoding::*;
    // Sub-block 9 (weights 144..160) has scale 3 and minimum 2. Byte 32 + 17 has the weights 145, 177, 209
    // and 241; only the scale of the first is not zero.
    let q2_k = block(
        Q2_K,
        &[(9, 0x23), (16 + 32 + 17, 0xff), (81, ONE), (83, TWO)],
    );
    let values: Vec<_> = (144..160).map(|i| (i, -4.0)).chain([(145, 5.0)]).collect();
    check(Q2_K, &q2_k, 0.0, &values);
    // All scales are 32 except that of sub-block 9, which is 1 + 2 * 16: its low nibble is in the high half
    // of byte 1, its high two bits are bits 4 and 5 of byte 1.
    let mut q3_k = block(Q3_K, &[(32 + 32 + 17, 0xff), (17, 0x10), (109, TWO)]);
    q3_k[104..108].fill(0xaa);
    q3_k[97] = 0x10;
    let values: Vec<_> = (144..160).map(|i| (i, -8.0)).chain([(145, 6.0)]).collect();
    check(Q3_K, &q3_k, 0.0, &values);
    // Block 5 (weights 160..192) has scale 5 + 16 * 3 and minimum 6 + 16 * 1. Byte 64 + 4 has the weights
    // 132 and 164.
    let scales = [
        (1, ONE),
        (3, ONE),
        (4 + 9, 0x65),
        (4 + 1, 0xc0),
        (4 + 5, 0x40),
    ];
    let q4_k = block(Q4_K, &[&scales[..], &[(16 + 64 + 4, 0x97)]].concat());
    let values = |q: f32| {
        (160..192)
            .map(|i| (i, -22.0))
            .chain([(164, 53.0 * q - 22.0)])
            .collect::<Vec<_>>()
    };
    check(Q4_K, &q4_k, 0.0, &values(9.0));
    let q5_k = block(
        Q5_K,
        &[&scales[..], &[(48 + 64 + 4, 0x97), (16 + 4, 0x20)]].concat(),
    );
    check(Q5_K, &q5_k, 0.0, &values(25.0));
    // Block 5 (weights 160..192) has scale 5 + 16 * 3 - 32, the others have scale 0: their low nibbles are 0, and
    // their high bits 2. Byte 8 + 80 + 4 has the weights 164 and 180.
    let iq4_xs = block(
        IQ4_XS,
        &[
            (1, ONE),
            (2, 0xaa),
            (3, 0xae),
            (6, 0x50),
            (8 + 80 + 4, 0xfa),
        ],
    );
    let values: Vec<_> = (160..192)
        .map(|i| (i, 21.0 * -127.0))
        .chain([(164, 21.0 * 25.0), (180, 21.0 * 113.0)])
        .collect();
    check(IQ4_XS, &iq4_xs, 0.0, &values);
    // Sub-block 13 (weights 208..224) has scale -2. Weight 128 + 64 + 20 = 212 is the high nibble of byte
    // 64 + 20, and bits 4 and 5 of byte 32 + 20 of the high bits.
    let q6_k = block(
        Q6_K,
        &[
            (64 + 20, 0x50),
            (128 + 32 + 20, 0x20),
            (192 + 13, 0xfe),
            (209, ONE),
        ],
    );
    let values: Vec<_> = (208..224)
        .map(|i| (i, 64.0))
        .chain([(212, -10.0)])
        .collect();
    check(Q6_K, &q6_k, 0.0, &values);
}

#[test]
fn float_rows_are_padded_with_zeros() {
    let file: Vec<u8> = (0..2 * 3 * 2).map(|i| i + 1).collect();
    let [main, high, scales] = repack_rows(Encoding::F16, &file, 2, 3).unwrap();
    assert_eq!((main.len(), high.len(), scales.len()), (128, 0, 0));
    assert_eq!(main[..6], file[..6]);
    assert_eq!(main[64..70], file[6..]);
    assert!(main[6..64].iter().chain(&main[70..]).all(|b| *b == 0));
}

#[test]
fn big_endian_files_have_the_same_planes() {
    for encoding in Encoding::device_encodings() {
        let file = random_file(encoding, 2, 256, 7);
        let mut swapped = file.clone();
        swap_byte_order(encoding, &mut swapped);
        assert_ne!(swapped == file, encoding != Encoding::MXFP4, "{encoding}");
        swap_byte_order(encoding, &mut swapped);
        assert_eq!(
            repack_rows(encoding, &swapped, 2, 256),
            repack_rows(encoding, &file, 2, 256)
        );
    }
}

#[test]
fn wrong_sizes_are_refused() {
    use EncodingError::*;
    let error = repack_rows(Encoding::Q4_K, &[], 1, 32).unwrap_err();
    assert!(
        matches!(
            error,
            Columns {
                cols: 32,
                multiple: 256,
                ..
            }
        ),
        "{error}"
    );
    let error = repack_rows(Encoding::Q4_0, &[0; 17], 1, 32).unwrap_err();
    assert!(
        matches!(
            error,
            Length {
                expected: 18,
                actual: 17,
                ..
            }
        ),
        "{error}"
    );
    for (rows, cols) in [
        (usize::MAX, 256),
        (256, usize::MAX - 255),
        (1 << 40, 1 << 40),
    ] {
        for encoding in Encoding::device_encodings() {
            let error = repack_rows(encoding, &[], rows, cols).unwrap_err();
            assert!(matches!(error, TooLarge { .. }), "{encoding}: {error}");
        }
    }
    let error = Planes::new(Encoding::Q5_0, [&[0; 64], &[0; 16], &[0; 7]], 4, 32).unwrap_err();
    assert!(
        matches!(
            error,
            Length {
                what: "scales plane",
                expected: 8,
                ..
            }
        ),
        "{error}"
    );
}

proptest! {
    #[test]
    fn planes_of_16_rows_can_be_concatenated(
        encoding in proptest::sample::select(Encoding::device_encodings().collect::<Vec<_>>()),
        parts in 1usize..4,
        rest in 0usize..16,
        cols in 1usize..80,
        seed: u32,
    ) {
        let cols = if encoding.is_float() { cols } else { encoding.file_block_weights() * cols.div_ceil(27) };
        let rows = parts * 16 + rest;
        let file = random_file(encoding, rows, cols, seed);
        let whole = repack_rows(encoding, &file, rows, cols).unwrap();
        let mut joined = [vec![], vec![], vec![]];
        for (part, at) in file.chunks(file.len() / rows * 16).zip((0..rows).step_by(16)) {
            let planes = repack_rows(encoding, part, 16.min(rows - at), cols).unwrap();
            for (joined, plane) in joined.iter_mut().zip(planes) {
                joined.extend(plane);
            }
        }
        prop_assert_eq!(joined, whole);
    }
}
