//! Little-endian numbers of any size.

/// Reads an unsigned number; its low 64 bits if it has more.
pub(super) fn unsigned(bytes: &[u8]) -> u64 {
    let low = bytes.iter().take(8).rev();
    low.fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Reads a two's complement number; `None` if it may need more than 64 bits.
pub(super) fn signed(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last().is_some_and(|&byte| byte >= 0x80);
    let mut padded = [if negative { 0xff } else { 0 }; 8];
    padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i64::from_le_bytes(padded))
}
