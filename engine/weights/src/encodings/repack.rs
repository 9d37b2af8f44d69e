//! From the rows of a file to packed planes.

use std::borrow::Cow;

use wisp_types::encoding::{BLOCK, Encoding};

use crate::{
    blocks::{
        BlockEncoding, Planes, iq2_blocks, iq3_blocks, plane_bytes, tq2_of_tq1, with_encoding,
    },
    error::EncodingError,
};

/// Packs whole rows of a file into planes (main, high, scales). The rows are little-endian: see
/// [`swap_byte_order`](super::swap_byte_order).
///
/// Each plane is padded with zeros to 16 bytes. The planes of a multiple of 16 rows need no padding, so
/// those of consecutive parts of a tensor can be concatenated.
///
/// # Errors
///
/// If `cols` is not a whole number of blocks, or `file` does not have the length of `rows` rows.
pub fn repack_rows(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
) -> Result<[Vec<u8>; 3], EncodingError> {
    let sizes = plane_bytes(encoding, rows, cols)?;
    // Checked before anything is allocated: the planes are then not much larger than `file`.
    check_len(encoding, file, rows, cols)?;
    let mut planes = sizes.map(|size| vec![0; size.next_multiple_of(16)]);
    let [main, high, scales] = &mut planes;
    repack_rows_into(encoding, file, rows, cols, [main, high, scales])?;
    Ok(planes)
}

/// Packs whole rows of a file into given planes, as [`repack_rows`] does. Bytes behind the rows remain as
/// they are.
///
/// # Errors
///
/// As [`repack_rows`], and if a plane is too short.
pub fn repack_rows_into(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
    planes: [&mut [u8]; 3],
) -> Result<(), EncodingError> {
    check_len(encoding, file, rows, cols)?;
    let (encoding, file) = match encoding {
        Encoding::TQ1_0 => (Encoding::TQ2_0, Cow::Owned(tq2_of_tq1(file))),
        other => match other.on_device() {
            Encoding::IQ2 if other != Encoding::IQ2 => {
                (Encoding::IQ2, Cow::Owned(iq2_blocks(other, file)))
            }
            Encoding::IQ3 if other != Encoding::IQ3 => {
                (Encoding::IQ3, Cow::Owned(iq3_blocks(other, file)))
            }
            _ => (other, Cow::Borrowed(file)),
        },
    };
    let [main, high, scales] = planes;
    Planes::new(encoding, [&*main, &*high, &*scales], rows, cols)?;
    if encoding.is_float() {
        pad_rows(encoding, &file, cols, main);
    } else {
        with_encoding!(encoding, E => pack_blocks::<E>(&file, [main, high, scales]));
    }
    Ok(())
}

/// Checks that `file` has the length of `rows` rows.
pub(super) fn check_len(
    encoding: Encoding,
    file: &[u8],
    rows: usize,
    cols: usize,
) -> Result<(), EncodingError> {
    plane_bytes(encoding, rows, cols)?;
    let row = encoding.file_row_bytes(cols as u64);
    let expected = row
        .and_then(|row| usize::try_from(row).ok())
        .and_then(|row| row.checked_mul(rows))
        .ok_or(EncodingError::TooLarge {
            encoding,
            rows,
            cols,
        })?;
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

/// Copies rows of floats, each padded with zeros to whole packed blocks.
fn pad_rows(encoding: Encoding, file: &[u8], cols: usize, main: &mut [u8]) {
    let row = cols * encoding.file_block_bytes();
    let padded = cols.next_multiple_of(BLOCK) * encoding.file_block_bytes();
    if row == 0 {
        return;
    }
    for (from, to) in file.chunks_exact(row).zip(main.chunks_exact_mut(padded)) {
        let (weights, padding) = to.split_at_mut(row);
        weights.copy_from_slice(from);
        padding.fill(0);
    }
}

/// Packs the blocks of a quantised encoding.
fn pack_blocks<E: BlockEncoding>(file: &[u8], planes: [&mut [u8]; 3]) {
    let block_bytes = E::ENCODING.file_block_bytes();
    let sizes = E::ENCODING.plane_row_bytes(E::ENCODING.file_block_weights() as u64);
    let mut rest = planes;
    for block in file.chunks_exact(block_bytes) {
        let mut i = 0;
        let packed = rest.each_mut().map(|plane| {
            // The caller has checked that each plane has room for the blocks of `file`.
            let packed = plane.split_off_mut(..sizes[i] as usize).unwrap_or_default();
            i += 1;
            packed
        });
        E::pack(block, packed);
    }
}
